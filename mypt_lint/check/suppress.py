"""Leaves out findings that a record opts out of in its metadata.

The opt-out is `"_mypt_lint": {"ignore": ["MYP314"], "reason": "..."}`. One that ignores nothing is
a finding itself, so that no exception outlives its cause. Faults of the file and of the tool cannot
be ignored.

Nor can, by opt-outs or settings, an error without whose repair there is no episode to train on:
MYP906 replaces it. So `mypt-lint` and `mypt-prepare` agree on every line: a line without a finding
that counts has token ids.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mypt_lint.settings.selection import UnknownRuleError, named
from mypt_records.names import OPT_OUT
from mypt_spec.dialect import Dialect
from mypt_spec.episode import Episode
from mypt_spec.findings import Finding

ALWAYS = frozenset({"MYP902", "MYP906"})  # codes that no settings leave out
_HARMLESS = {"MYP004", "MYP103"}  # errors with which a record is read all the same
_LATER = "6"  # the family of the data set, which is checked in a separate pass
_AT = f"/{OPT_OUT}"


def suppressed(
    value: Any, findings: list[Finding], codes: frozenset[str], *, complete: bool
) -> list[Finding]:
    """Returns the findings that are left, and those about the opt-out itself.

    `complete`: whether all rules were checked, so that what was not found is not there.
    """
    fault = _fault(value)
    if fault:
        return [*findings, Finding("MYP905", f'"{OPT_OUT}" {fault}', _AT)]
    active, faults = findings, []
    for i, word in enumerate(value["ignore"]):
        at = f"{_AT}/ignore/{i}"
        try:
            targets = set(named(word))
        except UnknownRuleError as error:
            faults.append(Finding("MYP905", str(error), at, help="remove it"))
            continue
        remaining = [f for f in active if f.code not in targets or f.code[3] in "09"]
        if (
            len(remaining) == len(active)
            and complete
            and any(code[3] != _LATER for code in targets & codes)
        ):
            faults.append(
                Finding("MYP904", f"{word} is ignored here and not found", at, help="remove it")
            )
        active = remaining
    return [*active, *faults]


def _fault(value: Any) -> str:
    if not isinstance(value, dict):
        return "must be an object"
    strange = [key for key in value if key not in ("ignore", "reason")]
    if strange:
        return f"has an unknown key {strange[0]!r}"
    ignored = value.get("ignore")
    if (
        not isinstance(ignored, list)
        or not ignored
        or not all(isinstance(word, str) for word in ignored)
    ):
        return 'has no "ignore", a list of codes or names'
    if not isinstance(value.get("reason", ""), str):
        return 'has a "reason" that is not a string'
    return ""


def untrainable(finding: Finding) -> Finding:
    """Returns the finding that replaces a hidden one which leaves no episode."""
    message = f"{finding.code} cannot be ignored, nothing could be trained on: {finding.message}"
    return replace(finding, code="MYP906", message=message, expected=(), fix=None, severity="")


def hidden_causes(
    dialect: Dialect, episode: Episode | None, hidden: Sequence[Finding], visible: Sequence[Finding]
) -> list[Finding]:
    """Returns MYP906 where one of the `hidden` errors leaves no episode.

    `visible` are the errors that are shown.
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
    return [untrainable(f) for f in (causes or ([] if visible else hidden))[:1]]
