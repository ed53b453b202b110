"""Writes everything that is generated from the grammars and the rules.

    python tools/regenerate.py [--check]

`--check` writes nothing, and fails when something is stale.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tomllib
from hashlib import sha256
from io import StringIO
from pathlib import Path

import mypt_spec
from mypt.lint.cli import main as lint
from mypt_spec.automaton import Automaton, extract, fingerprint
from mypt_spec.compiled.toml import COPIES
from mypt_spec.dialect import grammar_root
from mypt_spec.rules import FAMILIES
from mypt_spec.rules.reference import reference
from mypt_spec.states import open_blocks
from mypt_spec.table_file import TomlFile

ROOT = Path(__file__).parent.parent
TABLES = (
    "grammar/mistakes.toml",
    "mypt/lint/cli.toml",
    "mypt/lint/commands.toml",
    "mypt/prepare/cli.toml",
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("mypt/*.toml")),
    "mypt_cli/jsonl/array.toml",
    "mypt_cli/jsonl/other_files.toml",
    "mypt_cli/jsonl/project_files.toml",
    "mypt_records/checks/answers.toml",
    "mypt_records/checks/control.toml",
    "mypt_records/content.toml",
    "mypt_records/private.toml",
    "mypt_records/shapes/other.toml",
    "mypt_records/traces.toml",
    "mypt_records/written.toml",
    "mypt_spec/bodies/messages.toml",
    "mypt_spec/bodies/type_names.toml",
    "mypt_spec/extra_keys.toml",
    "mypt_spec/policies.toml",
    "mypt_spec/rules/families.toml",
    "mypt_spec/rules/rules.toml",
)
sys.path.insert(0, str(ROOT))

from tests.support import conversion  # noqa: E402


def outputs() -> dict[Path, str]:
    """Returns the text of every generated file, by path."""
    out = {ROOT / "docs/rules.md": reference(FAMILIES), ROOT / "examples/messy.txt": messy()}
    for grammar in sorted(grammar_root().glob("*/*.lark")):
        source = grammar.read_text(encoding="utf-8")
        machine = extract(source)
        out[ROOT / f"mypt_spec/compiled/{grammar.stem}.json"] = table(machine, fingerprint(source))
    out[COPIES] = tables()
    out[ROOT / "docs/conversion.md"] = conversion.page()
    for name in mypt_spec.dialects():
        out[ROOT / f"docs/automaton-{name}.md"] = diagram(mypt_spec.dialect(name))
    return out


def tables() -> str:
    """Returns what is in the TOML files that most starts read, by the SHA-256 of their text."""
    names = "tokens", "records"
    of_formats = [path for name in names for path in grammar_root().glob(f"*/{name}.toml")]
    for path in of_formats:
        TomlFile(str(path)).checked(path.read_text(encoding="utf-8"), path.stem)
    files = [*map(ROOT.joinpath, TABLES), *of_formats]
    texts = [path.read_text(encoding="utf-8") for path in files]
    rows = {sha256(text.encode()).hexdigest(): tomllib.loads(text) for text in texts}
    return "".join(f"{digest} {json.dumps(data)}\n" for digest, data in sorted(rows.items()))


def messy() -> str:
    """Returns what the linter says about the messy example, in full."""
    stream = StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(stream):
        lint(["-q", "--no-config", "--show-all", "examples/messy.jsonl"])
    return stream.getvalue()


def table(machine: Automaton, digest: str) -> str:
    """Returns the automaton as JSON, one state a line."""
    data = machine.as_dict()
    steps = ",\n  ".join(json.dumps(row) for row in data["steps"])
    head = f'"grammar_sha256": {json.dumps(digest)},\n "accepts": {json.dumps(data["accepts"])}'
    return f'{{{head},\n "steps": [\n  {steps}\n ]}}\n'


def diagram(dialect: mypt_spec.Dialect) -> str:
    """Returns the automaton as a Mermaid state diagram; states are named by the open blocks."""
    machine, names = dialect.automaton, open_blocks(dialect.automaton, dialect.table)
    source = f"Generated from `grammar/`: {len(machine.steps)} states, extracted from Lark's LALR"
    lines = [
        f"# The automaton of {dialect.table.title}",
        "",
        f"{source} parser and minimised.",
        "A state shows the blocks that are open. Accepting states lead to the end.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "  [*] --> s0",
    ]
    lines += [
        f"  s{state}: {state} {' / '.join(names[state]) or 'between blocks'}"
        for state in machine.states
    ]
    for state in machine.states:
        grouped: dict[int, list[str]] = {}
        for terminal, following in machine.steps[state].items():
            grouped.setdefault(following, []).append(terminal)
        lines += [
            f"  s{state} --> s{following}: {', '.join(terms)}"
            for following, terms in grouped.items()
        ]
        if machine.accepting(state):
            lines.append(f"  s{state} --> [*]")
    return "\n".join([*lines, "```"]) + "\n"


def main() -> int:
    stale = []
    for path, text in outputs().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT))
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{'stale' if '--check' in sys.argv else 'written'}: {name}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
