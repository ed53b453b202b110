"""Family 9, the tool itself."""

from __future__ import annotations

from mypt_spec.findings import rule


@rule("MYP901", "internal-error")
class InternalError:
    """The linter failed on this line."""
