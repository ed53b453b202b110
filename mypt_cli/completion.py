"""Completes all commands: prints the scripts for shells, and the words that these ask `mypt` for.

A script only calls `mypt complete SHELL WORD ...` when Tab is pressed, and so never is older than
the commands. The answer: a line `files` or `words`, which says whether names of files fit as well,
then a line for each word, with its help as the shell wants it.
"""

from __future__ import annotations

import os
import sys
from argparse import Action, Namespace
from collections.abc import Sequence

from mypt_cli import main as umbrella
from mypt_cli.command import Command
from mypt_cli.errors import UsageError, suggestion
from mypt_cli.parser import Parser, visible

_FILES = ("FILE", "DIR", "PATH", "GLOB", "OUT", "CHECKPOINT", ".jsonl", ".html")

_BASH = """\
_mypt() {{
  local IFS=$'\\n' lines
  lines=($(mypt complete bash "${{COMP_WORDS[@]:0:COMP_CWORD+1}}" 2>/dev/null))
  COMPREPLY=("${{lines[@]:1}}")
  [[ ${{lines[0]}} != files ]] || COMPREPLY+=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o filenames -F _mypt {names}
"""
_ZSH = """\
#compdef {names}
_mypt() {{
  local -a lines
  lines=("${{(@f)$(mypt complete zsh "${{(@)words[1,CURRENT]}}" 2>/dev/null)}}")
  [[ $lines[1] != files ]] || _files
  shift lines
  (( $#lines == 0 )) || _describe word lines
}}
if [[ $funcstack[1] == _mypt ]]; then
  _mypt "$@"
else
  (( $+functions[compdef] )) || {{ autoload -U compinit && compinit -i }}
  compdef _mypt {names}
fi
"""
_FISH = """\
function __mypt_complete
  set -l word (commandline -ct)
  set -l lines (mypt complete fish (commandline -opc) "$word" 2>/dev/null)
  printf '%s\\n' $lines[2..-1]
  test "$lines[1]" != files; or __fish_complete_path "$word"
end
for name in {names}
  complete -c $name -f -a '(__mypt_complete)'
end
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_EPILOG = """\
examples:
  bash:  eval "$(mypt completion bash)"
  zsh:   eval "$(mypt completion zsh)"
  fish:  mypt completion fish | source
"""


def command(name: str) -> Command:
    """Returns the command that prints a script, by the name that it is called by."""
    return Command(name, "Print a script that completes mypt and its commands.", _EPILOG,
                   _options, _print_script, quiet="")  # fmt: skip


def _options(out: Parser) -> None:
    out.group("input")("SHELL", "bash, zsh or fish", dest="shell", nargs="?", default="")


def _print_script(chosen: Namespace) -> int:
    shell = chosen.shell
    if shell not in SCRIPTS:
        meant = suggestion(shell, SCRIPTS, f"name one of {', '.join(SCRIPTS)}")
        raise UsageError(f"no script for {shell!r}{meant}")
    names = " ".join(["mypt", *(f"mypt-{name}" for name in umbrella.MODULES)])
    sys.stdout.write(SCRIPTS[shell].format(names=names))
    return 0


def complete(arguments: Sequence[str]) -> int:
    """Prints the answer to a script: its shell, and the words of the line up to the cursor."""
    shell, *words = arguments
    found, files = candidates(words)
    print("files" if files else "words")
    for word, about in found.items():
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
    if name == umbrella.PROG:
        if len(before) == 1 or before[1:] == ["help"]:
            return _begin(umbrella.ABOUT | {"--help": "", "--version": ""}, word), False
        if before[1:] == ["completion"]:
            return _begin(dict.fromkeys(SCRIPTS, ""), word), False
        name, before = before[1], before[1:]
    name = name.removeprefix("mypt-")
    if name not in umbrella.MODULES:
        return {}, True
    return _of_command(name, before[1:], word)


def _of_command(name: str, before: list[str], word: str) -> tuple[dict[str, str], bool]:
    """Returns the candidates for a word of a command, after the words `before`."""
    parser = umbrella.command(name).parser()
    if name == "prepare":
        from mypt_train.commands.scale import ABOUT as SUBCOMMANDS
        from mypt_train.commands.scale import subcommand

        if not before and not word.startswith("-"):
            return _begin(SUBCOMMANDS, word), True
        if before and before[0] in SUBCOMMANDS:
            parser = subcommand(before[0]).parser()
    option, equals, value = word.partition("=")
    last = option if equals else before[-1] if before else ""
    action = parser._option_string_actions.get(last)
    if action is not None and action.nargs != 0:
        front = f"{option}=" if equals else ""
        found = _values(action, value if equals else word)
        files = found is None and any(part in str(action.metavar) for part in _FILES)
        return {front + each: about for each, about in (found or {}).items()}, files
    if word.startswith("-"):
        options = {n: _help(action) for action in visible(parser) for n in action.option_strings}
        return _begin(options, word), False
    if name == "lint" and len(before) < 2:
        from mypt_lint.commands import ABOUT

        if not before:
            return _begin(ABOUT, word), True
        if before[0] == "explain":
            return _begin({"all": "", **_rules()}, word), False
        if before[0] == "completion":
            return _begin(dict.fromkeys(SCRIPTS, ""), word), False
    return {}, True


def _values(action: Action, word: str) -> dict[str, str] | None:
    """Returns the candidates for the value of an option; None where any value will do."""
    if action.choices:
        return _begin(dict.fromkeys(map(str, action.choices), ""), word)
    if action.dest in ("dialect", "source", "target"):
        from mypt_records.names import NAMES
        from mypt_spec import dialects
        from mypt_spec.dialect import registered

        more = {"source": ("auto", *NAMES), "target": ()}.get(action.dest, ("auto",))
        return _begin(dict.fromkeys([*more, *dialects(), *registered()], ""), word)
    if action.dest == "format":
        from mypt_lint.report import FORMATS

        return _begin(dict.fromkeys(FORMATS, ""), word)
    if action.dest == "explain":
        return _begin({"all": "", **_rules()}, word)
    if action.dest in ("select", "ignore"):  # several, with commas between them
        front, comma, part = word.rpartition(",")
        return {front + comma + rule: about for rule, about in _begin(_rules(), part).items()}
    return None


def _rules() -> dict[str, str]:
    from mypt_spec.findings import RULES

    codes = {code: rule.summary for code, rule in sorted(RULES.items())}
    return codes | {rule.name: rule.summary for rule in RULES.values()}


def _begin(words: dict[str, str], word: str) -> dict[str, str]:
    return {name: about for name, about in words.items() if name.startswith(word)}


def _help(action: Action) -> str:
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return " ".join(text.split())
