"""Decides what cannot be ignored: an error without whose repair there is no episode to train on.

Settings and opt-outs hide findings. A user who hides one means "train on this all the same", and
MYP906 answers where that is impossible. So `mypt-lint` and `mypt-prepare` agree on every line: a
line without a finding that counts has token ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from mypt_spec.dialect import Dialect
from mypt_spec.episode import Episode
from mypt_spec.findings import Finding

ALWAYS = frozenset({"MYP902", "MYP906"})  # codes that no settings leave out
_HARMLESS = {"MYP004", "MYP103"}  # errors with which a record is read all the same


def untrainable(finding: Finding) -> Finding:
    """Returns the finding that replaces a hidden one which leaves no episode."""
    message = f"{finding.code} cannot be ignored, nothing could be trained on: {finding.message}"
    return Finding(
        "MYP906",
        message,
        finding.pointer,
        finding.span,
        help=finding.help,
        on_key=finding.on_key,
    )


def hidden_causes(
    dialect: Dialect, episode: Episode | None, hidden: Sequence[Finding], seen: Sequence[Finding]
) -> list[Finding]:
    """Returns MYP906 where one of the `hidden` errors leaves no episode.

    `seen` are the errors that are shown.
    """
    if not hidden:
        return []
    if episode is None:
        causes = [f for f in hidden if f.fix is None and f.code not in _HARMLESS]
    elif refusal := dialect.refusal(episode):
        code = refusal[:6]
        causes = [f for f in hidden if f.code == code or not code.startswith("MYP")]
    else:
        return []
    return [untrainable(f) for f in (causes or ([] if seen else hidden))[:1]]
