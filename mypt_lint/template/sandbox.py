"""Compiles chat templates in the sandbox of `mypt_spec`, for commands."""

from mypt_cli.errors import UsageError
from mypt_spec.table import SpecError
from mypt_spec.templates import sandbox


def compiled(text: str) -> sandbox.Render:
    """Returns what `sandbox.compiled` does. Raises UsageError without Jinja."""
    try:
        return sandbox.compiled(text)
    except SpecError as error:
        raise UsageError(str(error)) from None
