"""Options and defaults that all commands share which read data by the settings of the linter."""

import argparse
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mypt_cli.errors import UsageError
from mypt_cli.parser import Options, Parser
from mypt_records.names import AUTO, NAMES, NATIVE

KINDS = ("record", "text", "generation", "rows")  # of what files hold
DEFAULTS = {"dialect": "mypt", "kind": "record", "fail-on": "error", "format": "text"}


def add_dialect(add: Options, otherwise: str = DEFAULTS["dialect"]) -> None:
    """Adds the option that says which format data is in."""
    add.dialect(f"that of the settings, or {otherwise}")


def add_records(add: Options) -> None:
    """Adds the option that says which shape the records have."""
    add(
        "--records SHAPE",
        f"native (of the dialect), {', '.join(NAMES)}, or auto to detect it (default: that of the "
        "settings, or auto)",
        choices=(AUTO, NATIVE, *NAMES),
    )


def add_system(add: Options) -> None:
    """Adds the options that give records of other tools a system prompt."""
    either = add.one_of()
    either(
        "--system TEXT",
        "the system prompt of records of other tools that have none, where the format has one",
    )
    either("--system-file FILE", "the same, from a file, without its last line end; - for stdin")


def model_path(path: str) -> str:
    """Returns the folder of the model in a .gguf file; other paths as they are."""
    if not path.lower().endswith(".gguf"):
        return path
    from mypt_cli.store import gguf  # not loaded at every start

    return gguf.model_path(path)


def template_path(path: str) -> str:
    """Returns what `model_path` does, but a .gguf file itself where packages for it are missing."""
    from mypt_cli.store.gguf import LackingError

    try:
        return model_path(path)
    except LackingError:
        return path


def add_model(add: Options, does: str, path: Callable[[str], str] = model_path) -> None:
    """Adds the options that name a model, whose chat template takes the place of a dialect."""
    add("--model DIR", f"{does}: its folder, or a .gguf file", type=path)
    add(
        "--template-option NAME=VALUE",
        "give the chat template of --model an option, as JSON or text, such as "
        "enable_thinking=false; repeatable; the chat_template_kwargs of a record override it",
        action="append",
        dest="template_options",
        default=[],
    )


def template_options(chosen: argparse.Namespace) -> str | None:
    """Returns the options for the chat template of --model, as JSON; None without any.

    Raises UsageError.
    """
    options: dict[str, Any] = {}
    for text in chosen.template_options:
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier()):
            raise UsageError(f"--template-option: expected NAME=VALUE, not {text!r}")
        if name in options:
            raise UsageError(f"--template-option {name}: is given twice; remove one")
        options[name] = value
        with suppress(ValueError):
            options[name] = json.loads(value)
    if options and chosen.model is None:
        raise UsageError("--template-option needs --model; add it, or remove the option")
    return json.dumps(options, sort_keys=True) if options else None


def add_settings(parser: Parser) -> Options:
    """Adds the options that say which settings hold; returns what adds to their group."""
    add = parser.group("settings")
    add("--config FILE",
        "settings; without it, mypt-lint.toml or [tool.mypt-lint] in pyproject.toml, here or "
        "above")  # fmt: skip
    add("--no-config", "look for no settings")
    return add


def add_ignore(add: Options) -> None:
    """Adds the option that leaves findings out."""
    add("--ignore CODES",
        "leave these findings out, as codes, beginnings of codes, or names; comma-separated",
        action="append")  # fmt: skip


def mask_name(name: str) -> str:
    """Returns the canonical name of a loss mask, for an option."""
    from mypt_spec.encoder import Mask

    try:
        return str(Mask.from_name(name))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
