"""What a canonical record may still have findings about."""

from __future__ import annotations

from collections.abc import Iterable

from mypt_spec import Finding

LASTING = {
    "MYP111",  # a language that is no BCP 47 tag is kept: nobody knows which one was meant
    "MYP360",  # what the text of tools leaves out is in the record, which says it again
}


def lasting(findings: Iterable[Finding]) -> list[Finding]:
    """Returns the findings about a record that its canonical form has, too: it repairs all others."""
    return [finding for finding in findings if finding.code in LASTING]
