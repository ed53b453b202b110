"""Tries the wheel as a user has it: built twice, installed alone, used far from the checkout.

    python tools/try_wheel.py

Needs pip. The source distribution is built, the wheel from it and again from the checkout; both
wheels must have the same bytes. The commands then run in an empty folder.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHAT = (
    '{"system": "You are MyPT.", "messages": [{"role": "user", "content": "Hi"}, '
    '{"role": "assistant", "content": "Hello!"}], "language": "en"}\n'
)


def run(folder: Path, *command: str, status: int = 0) -> str:
    """Run a command in a folder and return its output. SystemExit if its status is another."""
    print("$", *command, flush=True)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != status:
        sys.exit(f"status {done.returncode}, not {status}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """Build the source distribution, and the wheel from it; return the wheel. SystemExit if it
    differs from the wheel that is built from the checkout."""
    backend = folder / "backend"
    venv.create(backend, with_pip=True)
    python = str(backend / "bin" / "python")
    run(folder, python, "-m", "pip", "install", "-q", "build", "hatchling>=1.25")
    for name, kinds in (("from-sdist", []), ("from-checkout", ["--wheel"])):
        run(ROOT, python, "-m", "build", "-n", *kinds, "--outdir", str(folder / name))
    wheels = [next((folder / name).glob("*.whl")) for name in ("from-sdist", "from-checkout")]
    digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
    if digests[0] != digests[1]:
        sys.exit(f"two builds, two wheels: {digests}")
    print(wheels[0].name, wheels[0].stat().st_size, "bytes,", digests[0])
    return wheels[0]


def use(folder: Path, wheel: Path) -> None:
    """Install the wheel with what it needs, and use what it has to carry: grammars, pages of
    rules, vocabulary, settings, assets and the starter of a custom format."""
    venv.create(folder / "fresh", with_pip=True)
    bin_ = folder / "fresh" / "bin"
    run(folder, str(bin_ / "python"), "-m", "pip", "install", "-q", str(wheel))
    empty = folder / "empty"
    empty.mkdir()
    (empty / "clean.jsonl").write_text(CHAT, encoding="utf-8")
    broken = CHAT.replace("Hello!", "Hello </myPT_user>")
    (empty / "broken.jsonl").write_text(broken, encoding="utf-8")
    lint = str(bin_ / "mypt-lint")
    run(empty, lint, "clean.jsonl")
    run(empty, lint, "broken.jsonl", "--format", "html", "-o", "report.html", status=1)
    assert "MYP301" in (empty / "report.html").read_text(encoding="utf-8")
    assert "tag-in-content" in run(empty, lint, "--explain", "MYP301")
    names = "import mypt_spec; print(*mypt_spec.dialects())"
    formats = run(empty, str(bin_ / "python"), "-c", names).split()
    code = "import mypt_spec, sys; [mypt_spec.dialect(name) for name in sys.argv[1:]]"
    run(empty, str(bin_ / "python"), "-c", code, *formats)
    run(folder, str(bin_ / "python"), "-m", "pip", "install", "-q", f"{wheel}[numpy]")
    run(empty, lint, "new-dialect", "my_format")
    run(empty, lint, "check-dialect", "./my_format")
    run(empty, str(bin_ / "mypt-view"), "clean.jsonl", "--ids")
    run(empty, str(bin_ / "mypt-view"), "clean.jsonl", "--html", "view.html")
    run(empty, str(bin_ / "mypt-tags"), "lint", "clean.jsonl")  # as pipx and uvx run a package


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        use(folder, build(folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
