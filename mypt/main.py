"""Runs the command `mypt`: `mypt lint` is `mypt-lint`, and so on. Its help imports no engine."""

import sys
from collections.abc import Sequence

from mypt.table import ABOUT, BUILTINS, GROUPS, MODULES, PROG, command
from mypt_cli.errors import suggestion

DONE, FAILED = 0, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that the first word names; returns the exit status."""
    name, *args = [*(sys.argv[1:] if argv is None else argv)] or ["help"]
    if name in MODULES:
        return command(name)(args)
    if name in ("help", "-h", "--help"):
        return command(args[0])(["--help"]) if args and args[0] in MODULES else _help(args)
    if name == "--version":
        from mypt_spec import __version__

        print(f"mypt {__version__}")
        return DONE
    if name in ("completion", "complete"):
        from mypt import complete

        script = complete.command(f"{PROG} completion")
        return complete.complete(args) if name == "complete" else script(args)
    return _unknown(name)


def _help(args: list[str]) -> int:
    if args and args[0] not in BUILTINS:
        return _unknown(args[0])
    width = max(map(len, ABOUT)) + 2
    sections = {title: dict.fromkeys(group) for title, group in GROUPS.items()}
    lines = ["usage: mypt COMMAND [ARGUMENT ...]", ""]
    lines += ["The format of chat-model training data as a grammar, and what follows from it.", ""]
    for title, names in {**sections, "more": dict.fromkeys(BUILTINS)}.items():
        lines += [f"{title}:", *(f"  {name:<{width}}{ABOUT[name]}" for name in names), ""]
    lines += [
        "`mypt lint` is `mypt-lint`, and so on. `mypt COMMAND --help` shows options and examples."
    ]
    print("\n".join(lines))
    return DONE


def _unknown(name: str) -> int:
    names = list(ABOUT)
    print(f"mypt: error: no command {name!r}{suggestion(name, names)}", file=sys.stderr)
    print(f"Commands: {', '.join(names)}.", file=sys.stderr)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
