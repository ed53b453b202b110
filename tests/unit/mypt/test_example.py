"""examples/end_to_end.sh, as far as can be told without training: `nox -s example` runs it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "end_to_end.sh"
COMMAND = re.compile(r"(?:^|\| )\s*(mypt-\w+) (.*)$", re.MULTILINE)


def test_it_is_a_script_and_its_commands_have_the_options_that_it_gives_them() -> None:
    subprocess.run(["sh", "-n", str(SCRIPT)], check=True)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "scripts"
    ]
    commands = COMMAND.findall(SCRIPT.read_text(encoding="utf-8").replace("\\\n", " "))
    assert {name for name, _ in commands} == {
        f"mypt-{x}"
        for x in ("synth", "lint", "vocab", "prepare", "train", "generate", "chat", "export")
    }
    for name, rest in commands:
        options = (
            import_module(scripts[name].partition(":")[0]).main.parser()._option_string_actions
        )
        assert set(re.findall(r"(?<!\S)--[\w-]+", rest)) <= set(options), name
