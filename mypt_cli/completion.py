"""Prints the scripts that complete all commands in bash, zsh and fish.

A script calls `mypt complete SHELL WORD ...` whenever Tab is pressed, so it is never older than the
commands. The answer is a line `files` or `words`, which says whether file names fit as well, then a
line for each candidate, with its help as the shell expects it.
"""

import sys
from argparse import Namespace
from collections.abc import Iterable
from functools import partial

from mypt_cli.command import Command
from mypt_cli.parser import Parser

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


def command(name: str, completed: Iterable[str]) -> Command:
    """Returns the command that prints a script for the commands `completed`.

    `name` is what it is called by.
    """
    body = partial(_print_script, completed=completed)
    return Command(name, "Print a script that completes mypt and its commands.", _EPILOG,
                   _options, body, quiet="")  # fmt: skip


def _options(out: Parser) -> None:
    out.group("input")("SHELL", "bash, zsh or fish", dest="shell", choices=[*SCRIPTS])


def _print_script(options: Namespace, *, completed: Iterable[str]) -> int:
    names = " ".join(["mypt", *(f"mypt-{name}" for name in completed)])
    sys.stdout.write(SCRIPTS[options.shell].format(names=names))
    return 0
