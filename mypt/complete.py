"""Completes all commands in bash, zsh and fish: prints the scripts, and answers them.

A script calls `mypt complete SHELL WORD ...` whenever Tab is pressed, so it is never older than the
commands. The answer is a line `files` or `words`, which says whether file names fit as well, then a
line for each candidate, with its help as the shell expects it.
"""

import os
import sys
from argparse import Action, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from mypt import table
from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.parser import visible

SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "DIR", "PATH", "GLOB", "OUT", "CHECKPOINT", ".jsonl", ".html")


def command(name: str) -> Command:
    """Returns the command that prints a script; `name` is what it is called by."""
    return Command(name, __file__, options(__file__, shells=SHELLS), _print_script, quiet="")


def _print_script(options: Namespace) -> int:
    names = " ".join(["mypt", *(f"mypt-{name}" for name in table.MODULES)])
    script = Path(__file__).with_suffix(f".{options.shell}").read_text(encoding="utf-8")
    sys.stdout.write(script.replace("NAMES", names))
    return 0


def complete(arguments: Sequence[str]) -> int:
    """Prints the answer to a script: its shell, and the words of the line up to the cursor."""
    shell, *words = arguments
    completions, files = candidates(words)
    print("files" if files else "words")
    for word, about in completions.items():
        if shell == "zsh":
            print(word.replace(":", "\\:"), about, sep=":")
        else:
            print(f"{word}\t{about}" if shell == "fish" else word)
    return 0


def candidates(words: Sequence[str]) -> tuple[dict[str, str], bool]:
    """Returns what the last word may become, with help, and whether it may be a file."""
    before = [word for word in words[:-1] if word != "="]  # bash cuts `--format=text` in three
    word = words[-1] if words and words[-1] != "=" else ""
    name = os.path.basename(before[0]) if before else ""
    if name == table.PROG:
        if len(before) == 1 or before[1:] == ["help"]:
            return _begin(table.ABOUT | {"--help": "", "--version": ""}, word), False
        if before[1:] == ["completion"]:
            return _begin(dict.fromkeys(SHELLS, ""), word), False
        name, before = before[1], before[1:]
    name = name.removeprefix("mypt-")
    if name not in table.MODULES:
        return {}, True
    return _of_command(name, before[1:], word)


def _of_command(name: str, before: list[str], word: str) -> tuple[dict[str, str], bool]:
    command = table.command(name)
    if command.subcommands and not before and not word.startswith("-"):
        return _begin(command.subcommands, word), True
    if command.subcommand is not None and before and before[0] in command.subcommands:
        command, before = command.subcommand(before[0]), before[1:]
    parser = command.parser()
    option, equals, value = word.partition("=")
    last = option if equals else before[-1] if before else ""
    action = parser._option_string_actions.get(last)
    if action is not None and action.nargs != 0:
        front = f"{option}=" if equals else ""
        values = _values(action, value if equals else word)
        files = values is None and any(part in str(action.metavar) for part in _FILES)
        return {front + each: about for each, about in (values or {}).items()}, files
    if word.startswith("-"):
        options = {n: _help(action) for action in visible(parser) for n in action.option_strings}
        return _begin(options, word), False
    first = next(iter(parser._get_positional_actions()), None)
    values = _values(first, word) if first and not before else None
    return values or {}, values is None


def _values(action: Action, word: str) -> dict[str, str] | None:
    """Returns the candidates for the value of an option; None where any value will do."""
    if action.choices:
        return _begin(dict.fromkeys(map(str, action.choices), ""), word)
    if action.dest in ("dialect", "source", "target"):
        from mypt_records.names import NAMES
        from mypt_spec import dialects
        from mypt_spec.dialect import registered

        extra_names = {"source": ("auto", *NAMES), "target": ()}.get(action.dest, ("auto",))
        return _begin(dict.fromkeys([*extra_names, *dialects(), *registered()], ""), word)
    if action.dest == "format":
        from mypt_lint.report import FORMATS

        return _begin(dict.fromkeys(FORMATS, ""), word)
    if action.dest in ("explain", "rule"):
        return _begin({"all": "", **_rules()}, word)
    if action.dest in ("select", "ignore"):  # several, with commas between them
        front, comma, part = word.rpartition(",")
        return {front + comma + rule: about for rule, about in _begin(_rules(), part).items()}
    return None


def _rules() -> dict[str, str]:
    from mypt_lint.settings.selection import groups
    from mypt_spec.findings import RULES

    codes = {code: rule.summary for code, rule in sorted(RULES.items())}
    names = {rule.name: rule.summary for rule in RULES.values()}
    return codes | names | dict.fromkeys(("default", *groups()), "a group of rules")


def _begin(words: Mapping[str, str], word: str) -> dict[str, str]:
    return {name: about for name, about in words.items() if name.startswith(word)}


def _help(action: Action) -> str:
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return " ".join(text.split())
