"""Options and defaults that all commands share which read data by the settings of the linter."""

import argparse
import json
from contextlib import suppress
from typing import Any

from mypt_cli.errors import UsageError

KINDS = ("record", "text", "generation", "rows")  # of what files hold
DEFAULTS = {"dialect": "mypt", "kind": "record", "fail-on": "error", "format": "text"}


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


def mask_name(name: str) -> str:
    """Returns the canonical name of a loss mask, for an option."""
    from mypt_spec.encoder import Mask

    try:
        return str(Mask.from_name(name))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
