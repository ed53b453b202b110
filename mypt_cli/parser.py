"""Reads command lines: grouped help, one-line errors, old names of options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mypt_cli.errors import UsageError, suggestion

_WIDTH = 100  # cells that help takes at most


class Options:
    """Adds options to one group of the help, each spelled as the help shows it."""

    def __init__(self, group: argparse._ArgumentGroup) -> None:
        self._group = group

    def __call__(self, names: str, about: str, *, old: Sequence[str] = (), **settings: Any) -> None:
        """Adds an option: its names and that of its value, and what it does.

        `-n --number N` takes a value, `--all` takes none, and `PATH` is no option but an argument.
        A default is added to the help. `old` are names that are still read, but not shown.
        """
        words = names.split()
        flags = [word for word in words if word.startswith("-")]
        if words[-1] not in flags:
            settings["metavar"] = words[-1]
        elif not {"choices", "action"} & set(settings):
            settings["action"] = "store_true"
        if settings.get("default") and "default" not in about:
            about += " (default: %(default)s)"
        if not flags:
            flags = [settings.pop("dest")]
        action = self._group.add_argument(*flags, *old, help=about, **settings)
        action.option_strings = [name for name in action.option_strings if name not in old]

    def one_of(self) -> Options:
        """Returns what adds options of which only one may be given."""
        return Options(self._group.add_mutually_exclusive_group())


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Lays out help in at most 100 cells; the usage names only what must be given."""

    def __init__(self, prog: str) -> None:
        import shutil  # a run that prints no help needs none of it

        width = min(shutil.get_terminal_size().columns - 2, _WIDTH)
        super().__init__(f"{prog} [OPTION ...]", width=width)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        listed = [action for action in actions if action.required or not action.option_strings]
        super().add_usage(usage, listed, [], prefix)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"  # as Python does it from 3.13 on


class _Version(argparse.Action):
    """Prints the version, which is asked of the engine only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from mypt_spec import __version__

        print(f"{parser.prog} {__version__}")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Reads a command line. Options are added to groups, which the help shows in their order."""

    def __init__(self, prog: str, about: str, epilog: str = "") -> None:
        super().__init__(
            prog, description=about, epilog=epilog, formatter_class=_Formatter, add_help=False
        )

    def group(self, title: str) -> Options:
        there = (group for group in self._action_groups if group.title == title)
        return Options(next(there, None) or self.add_argument_group(title))

    def add_common(self, quiet: str) -> None:
        """Adds what every command takes; `quiet` says what -q leaves out, "" is without -q."""
        add = self.group("other")
        if quiet:
            add("-q --quiet", quiet)
        add("-h --help", "show this help and exit", action="help")
        add("--version", "show the version and exit", action=_Version, nargs=0)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            near = suggestion(unknown[0].partition("=")[0], visible_flags(self))
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        return options

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = [*map(str, action.choices or ())]
        if choices and value not in choices:
            hint = suggestion(str(value), choices, f"it is one of {', '.join(choices)}")
            raise argparse.ArgumentError(action, f"no {value!r}{hint}")

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: error: {message}\nTry {self.prog} --help.\n")


def dialect_name(name: str, *, more: tuple[str, ...] = (), what: str = "dialect") -> str:
    """Returns the name or folder of a dialect, or one of `more`.

    Raises UsageError for any other, and for a folder that holds no dialect.
    """
    from mypt_spec import SpecError, dialects
    from mypt_spec.adapters.base import Unread
    from mypt_spec.dialect import dialect, is_folder, registered

    if name in more:
        return name
    try:
        elsewhere = is_folder(name) or name not in dialects()
        if elsewhere and isinstance(dialect(name).adapter, Unread):
            raise UsageError(f"{name}: reading records needs records.toml; add it")
    except SpecError as error:
        raise UsageError(str(error)) from None
    except KeyError:
        names = [*more, *dialects(), *registered()]
        hint = suggestion(name, names, f"known are {', '.join(names)}")
        advice = f"; a folder of your own has a slash: ./{name}" if Path(name).is_dir() else ""
        raise UsageError(f"no {what} {name!r}{hint}{advice}") from None
    return name


def positive(text: str) -> int:
    """Returns the number that an option is given. Raises ArgumentTypeError for one below 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def visible_flags(of: argparse.ArgumentParser) -> list[str]:
    """Returns the names of all options that the help shows."""
    return [name for action in visible(of) for name in action.option_strings]


def visible(of: argparse.ArgumentParser) -> list[argparse.Action]:
    """Returns the options that the help shows."""
    return [a for a in of._actions if a.option_strings and a.help != argparse.SUPPRESS]
