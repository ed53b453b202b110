"""State what a canonical record may still have findings about, and which texts have a record.

For property tests and the fuzzer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import mypt_spec
from mypt_spec import Finding

LASTING = {
    "MYP111",  # a language that is no BCP 47 tag is kept: nobody knows which one was meant
    "MYP360",  # what the text of tools leaves out is in the record, which says it again
    "MYP361",  # so is an option of another template
}
# An empty text beside that of tools or options is left out, unless its message has a note or another role's name.
AT_TIMES = "MYP314"


def only_lasting(remaining: Sequence[Finding], findings: Sequence[Finding]) -> bool:
    """Returns whether `remaining`, about a canonical record, are the lasting ones of `findings`.

    `findings` are about the record that it was made of: all others are repaired.
    """
    certain = [finding for finding in remaining if finding.code != AT_TIMES]
    return certain == [finding for finding in findings if finding.code in LASTING] and all(
        finding in findings for finding in remaining
    )


def assert_record(d: mypt_spec.Dialect, episode: mypt_spec.Episode) -> None:
    """Asserts that the Episode of a text has a record, or a finding that says why none has it."""
    if d.validate(episode):
        with contextlib.suppress(ValueError):
            assert d.read(d.write(episode))[0] == episode
    else:
        assert d.read(d.write(episode))[0] == episode
