"""Scripts by which shells complete the options of `mypt-lint`, and the words that some of them take."""

from __future__ import annotations

import argparse
import shlex

from mypt_spec.findings import RULES
from mypt_spec.frontdoor import dialects
from mypt_spec.lint.render import FORMATS

SHELLS = ("bash", "zsh", "fish")
_FILES = ("--config", "--output", "-o", "--baseline", "--write-baseline", "--eval-prompts")

_BASH = """\
_mypt_lint() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  COMPREPLY=()
  case $before in
{cases}
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W {options} -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _mypt_lint mypt-lint
"""


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for one of SHELLS."""
    actions = [action for action in parser._actions if action.option_strings]
    words = {name: _words(action) for action in actions for name in action.option_strings}
    if shell == "fish":
        return "\n".join(_fish(action) for action in actions) + "\n"
    cases = [f'    {name}) COMPREPLY=($(compgen -W {shlex.quote(" ".join(found))} -- "$word")); return;;' for name, found in words.items() if found]
    cases += [f'    {"|".join(_FILES)}) COMPREPLY=($(compgen -f -- "$word")); return;;']
    bash = _BASH.format(cases="\n".join(cases), options=shlex.quote(" ".join(words)))
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash}" if shell == "zsh" else bash


def _words(action: argparse.Action) -> list[str]:
    """What an option takes, as far as that is known beforehand."""
    if action.choices:
        return [str(choice) for choice in action.choices]
    if action.dest == "format":
        return list(FORMATS)
    if action.dest == "dialect":
        return ["auto", *dialects()]
    if action.dest in ("select", "ignore", "explain"):
        return sorted([*RULES, *(rule.name for rule in RULES.values())])
    return []


def _fish(action: argparse.Action) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings]
    parts = ["complete -c mypt-lint", *names]
    words = _words(action)
    if words:
        parts.append(f"-x -a {shlex.quote(' '.join(words))}")
    elif action.nargs != 0:
        parts.append("-r")
    help_ = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return " ".join([*parts, f"-d {shlex.quote(help_)}"])
