"""Makes one finding for a file of those that many of its records have.

Input are chunks in order; output are the same chunks, of which the last of each file has these
findings, at the first record that each was found in.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from mypt_cli.words import counted
from mypt_lint.check.diagnostic import Diagnostic
from mypt_spec.findings import Finding, regraded

METADATA, MIXED, ONE_LABEL, UNREAD = "MYP112", "MYP113", "MYP611", "MYP018"
VOCABULARY = "MYP513"
_PROMPT_ONLY = "MYP252"
OF_THE_FILE = frozenset({METADATA, MIXED, ONE_LABEL, UNREAD, VOCABULARY})
_LABEL = re.compile(rb'"(?:label|kto_tag)"\s*:\s*(true|false)')
_FEW = 10  # labels of a file that may be equal by chance


@dataclass(slots=True)
class Once:
    """A finding of many records: the first of them, and how many there are."""

    first: Diagnostic
    count: int = 1


OncePerFile = dict[tuple[str, str], Once]


def is_once(item: Diagnostic) -> bool:
    """Returns whether a finding of many records is shown once for their file."""
    code = item.finding.code
    return code in OF_THE_FILE or (code == _PROMPT_ONLY and item.dialect == "prompt")


def hold(findings: OncePerFile, item: Diagnostic) -> None:
    """Counts a finding."""
    finding = item.finding
    key = finding.code, _same(finding)
    if key in findings:
        findings[key].count += 1
    else:
        findings[key] = Once(item)


def _same(finding: Finding) -> str:
    """Returns what findings of one code have in common that are one for the file."""
    if finding.code == METADATA:  # the same key of any message is one
        return "/" * (finding.pointer.count("/") > 1) + finding.pointer.rpartition("/")[2]
    return finding.message if finding.code in (MIXED, ONE_LABEL) else ""


def join(findings: OncePerFile, later: OncePerFile) -> None:
    """Adds the findings of a later part of the same file."""
    for key, entry in later.items():
        if key in findings:
            findings[key].count += entry.count
        else:
            findings[key] = Once(entry.first, entry.count)


def labels(data: bytes) -> Counter[str]:
    """Returns how often each label of KTO is in a block of records."""
    return Counter(label.decode() for label in _LABEL.findall(data))


def once_findings(findings: OncePerFile, records: int) -> list[Diagnostic]:
    """Returns a finding for each key, one for all records of other shapes, and one for labels.

    `records` is the number of lines of the file.
    """
    out = [
        _saying(once.first, f"{once.first.finding.message}: in {_of(once, key, records)}")
        for (code, key), once in findings.items()
        if code not in (MIXED, ONE_LABEL)
    ]
    mixed = [once for (code, _), once in findings.items() if code == MIXED]
    if mixed:
        counts = ", ".join(f"{once.count} {_shape(once)}" for once in mixed)
        file = mixed[0].first.finding.message.partition("; ")[2]
        and_more = counted(sum(once.count for once in mixed) - 1, "more line")
        text = f"{file}, but here and on {and_more}: {counts}"
        out.append(_saying(mixed[0].first, text))
    labelled = [once for (code, _), once in findings.items() if code == ONE_LABEL]
    if len(labelled) == 1 and labelled[0].count >= _FEW:
        text = f"all {labelled[0].count} labels are {labelled[0].first.finding.message}"
        out.append(_saying(labelled[0].first, text))
    return out


def _of(once: Once, key: str, records: int) -> str:
    """Returns in how many records something is found, or messages if it is about their keys."""
    if key.startswith("/"):
        return counted(once.count, "message")
    return f"{once.count} of {records} records"


def _shape(once: Once) -> str:
    return once.first.finding.message.removeprefix("this is one of ").partition("; ")[0]


def _saying(item: Diagnostic, message: str) -> Diagnostic:
    finding = replace(item.finding, message=message)
    return replace(item, finding=regraded(finding, item.finding.severity))
