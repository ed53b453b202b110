"""Finds what is wrong with a chat whatever its format: one module here a kind of fault.

A check is a function of a `Chat` that yields findings, under `@check(CODE)`. Its rule has a row in
`mypt_spec/rules/rules.toml` and a page, whose examples say `records=openai`. Its code is of the
family of what is wrong, turns MYP2, texts and values MYP3; a rule that means the same in a dialect
is the same rule. Checks see only chats of which all could be read. A check that looks into texts
has a prefilter, too (`mypt_records/prefilter.py`), beside it.
"""

import importlib
import pkgutil
from dataclasses import replace

from mypt_records.chat import Chat, Text
from mypt_records.checks.registry import CHECKS
from mypt_spec.findings import Finding

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
_CHECKS = [function for _, function in sorted(CHECKS.items())]


def findings(chat: Chat) -> list[Finding]:
    """Returns all findings about a chat: those of its reading, then those of the checks."""
    out = list(chat.findings)
    for check in _CHECKS if chat.is_readable and chat.messages else ():
        out += check(chat)
    parts = [text for m in chat.messages for text in m.content or () if text.start]
    return [_in_record(finding, parts) for finding in out] if parts else out


def _in_record(finding: Finding, parts: list[Text]) -> Finding:
    """Returns a finding about a text that is cut out of a string with its place in the string."""
    starts = {text.start for text in parts if text.at == finding.pointer}
    if not starts or finding.span is None:
        return finding
    first, last = finding.span
    (start, *others) = starts
    return replace(finding, span=None if others else (first + start, last + start))
