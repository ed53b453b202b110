"""Scripts by which shells complete the options of `mypt-lint`, its commands, and the words that some of them take."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping

from mypt_spec.findings import RULES
from mypt_spec.frontdoor import dialects
from mypt_spec.lint.render import FORMATS

SHELLS = ("bash", "zsh", "fish")
_FILES = ("--config", "--output", "-o", "--baseline", "--write-baseline", "--eval-prompts")
_LISTS = ("select", "ignore")  # take rules, with commas between them

_BASH = """\
_mypt_lint() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} behind=""
  COMPREPLY=()
  if [[ $COMP_CWORD == 2 ]]; then
    case $before in
{commands}
    esac
  fi
  case $before in
{cases}
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W {options} -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
    [[ $COMP_CWORD != 1 ]] || COMPREPLY+=($(compgen -W {names} -- "$word"))
  fi
}}
complete -o filenames -F _mypt_lint mypt-lint
"""
_ZSH = """\
(( $+functions[compdef] )) || {{ autoload -U compinit && compinit -i }}
_mypt_lint_rules() {{ compadd "$@" -- {rules}
}}
_mypt_lint() {{
  if (( CURRENT == 3 )); then
    case $words[2] in
{commands}
    esac
  fi
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _alternative 'commands:command:({names})' 'files:path:_files'
    return
  fi
  _arguments -s : \\
{options}
    '*:path:_files'
}}
compdef _mypt_lint mypt-lint
"""
_FISH = """\
function __mypt_lint_rules
  printf '%s\\n' {rules}
end
{commands}
{options}
"""


def script(shell: str, parser: argparse.ArgumentParser, commands: Mapping[str, str]) -> str:
    """The script for one of SHELLS. `commands` are those besides linting, each with what it does."""
    actions = [action for action in parser._actions if action.option_strings]
    made = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return made(actions, commands)


def _rules() -> list[str]:
    return sorted([*RULES, *(rule.name for rule in RULES.values())])


def _words(action: argparse.Action) -> list[str]:
    """What an option takes, as far as that is known beforehand."""
    if action.choices:
        return [str(choice) for choice in action.choices]
    if action.dest == "format":
        return list(FORMATS)
    if action.dest == "dialect":
        return ["auto", *dialects()]
    return _rules() if action.dest in (*_LISTS, "explain") else []


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")


def _takes(commands: Mapping[str, str]) -> dict[str, list[str]]:
    """The commands that take a word that is known."""
    known = {"explain": ["all", *_rules()], "completion": list(SHELLS)}
    return {name: words for name, words in known.items() if name in commands}


def _bash(actions: list[argparse.Action], commands: Mapping[str, str]) -> str:
    def case(names: str, words: list[str]) -> str:
        return f'{names}) COMPREPLY=($(compgen -W {shlex.quote(" ".join(words))} -- "$word")); return;;'

    cases = []
    for action in actions:
        words, names = _words(action), "|".join(action.option_strings)
        if words and action.dest in _LISTS:
            parts = '[[ $word != *,* ]] || behind="${word%,*},"'
            cases.append(
                f'{names}) {parts}; COMPREPLY=($(compgen -P "$behind" -W {shlex.quote(" ".join(words))} -- "${{word##*,}}")); return;;'
            )
        elif words:
            cases.append(case(names, words))
    cases.append(f'{"|".join(_FILES)}) COMPREPLY=($(compgen -f -- "$word")); return;;')
    return _BASH.format(
        commands="\n".join(
            f"      {case(name, words)}" for name, words in _takes(commands).items()
        ),
        cases="\n".join(f"    {line}" for line in cases),
        options=shlex.quote(" ".join(name for action in actions for name in action.option_strings)),
        names=shlex.quote(" ".join(commands)),
    )


def _zsh(actions: list[argparse.Action], commands: Mapping[str, str]) -> str:
    options = []
    for action in actions:
        names, words = action.option_strings, _words(action)
        many = isinstance(action, argparse._AppendAction)
        takes = ""
        if action.dest in _LISTS:
            takes = ":rules:_sequence _mypt_lint_rules"
        elif words:
            takes = (
                ":word:_mypt_lint_rules"
                if action.dest == "explain"
                else f":word:({' '.join(words)})"
            )
        elif action.nargs != 0:
            takes = ":file:_files" if set(names) & set(_FILES) else ":value: "
        about = re.sub(r"([\[\]:\\])", r"\\\1", _help(action))
        for name in names:  # an option that was given is not offered again
            front = "*" if many else f"({' '.join(names)})" if len(names) > 1 else ""
            options.append(f"    {shlex.quote(f'{front}{name}[{about}]{takes}')} \\")
    return _ZSH.format(
        rules=" ".join(_rules()),
        commands="\n".join(
            f"      {name}) compadd -- {' '.join(words)}; return;;"
            for name, words in _takes(commands).items()
        ),
        names=" ".join(commands),
        options="\n".join(options),
    )


def _fish(actions: list[argparse.Action], commands: Mapping[str, str]) -> str:
    def option(action: argparse.Action) -> str:
        names = [
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            for name in action.option_strings
        ]
        parts = ["complete -c mypt-lint", *names]
        words = _words(action)
        if action.dest in _LISTS:
            parts.append("-x -a '(__fish_complete_list , __mypt_lint_rules)'")
        elif words:
            parts.append(f"-x -a {shlex.quote(' '.join(words))}")
        elif action.nargs != 0:
            parts.append("-r")
        return " ".join([*parts, f"-d {shlex.quote(_help(action))}"])

    lines = [
        f"complete -c mypt-lint -n __fish_use_subcommand -a {name} -d {shlex.quote(about)}"
        for name, about in commands.items()
    ]
    for name, words in _takes(commands).items():
        lines.append(
            f"complete -c mypt-lint -n '__fish_seen_subcommand_from {name}' -x -a {shlex.quote(' '.join(words))}"
        )
    return _FISH.format(
        rules=" ".join(_rules()), commands="\n".join(lines), options="\n".join(map(option, actions))
    )
