"""Tells keys that most records of a file have, and that mean nothing, from misspelt ones.

Input are findings about unknown top-level keys; output is one finding a key, which the reports show
once for each file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from mypt_spec.bodies.strict_json import unescape
from mypt_spec.findings import Finding, Fix

UNKNOWN, METADATA = "MYP103", "MYP112"
_FEW = 3  # records that must have a key before it is taken for one of the file
# Keys that would say something, if the shape of the file had a place for them there.
_TELLING = frozenset({
    "answer", "answers", "assistant", "chat", "chats", "chosen", "completion", "content",
    "conversation", "conversations", "dialog", "dialogue", "function", "functions", "history",
    "human", "input", "inputs", "instruction", "instructions", "message", "messages", "msg", "msgs",
    "output", "outputs", "prompt", "prompts", "question", "reasoning", "reasoning_content",
    "rejected", "response", "responses", "role", "roles", "system", "system_message",
    "system_prompt", "text", "think", "thinking", "thought", "thoughts", "tool", "tool_calls",
    "tools", "turns", "user",
})  # fmt: skip


def common(
    records: Sequence[object], read: Callable[[object], Sequence[Finding]]
) -> frozenset[str]:
    """Returns the unknown top-level keys of most of the first records of a file.

    Not those that are like a known key, or that would say something elsewhere. `read` returns what
    is found in a record.
    """
    counts: Counter[str] = Counter()
    for record in records:
        counts.update({
            key
            for finding in read(record)
            if (key := _key(finding)) and not finding.help.startswith("did you mean")
        })  # fmt: skip
    most = max(_FEW, len(records) // 2 + 1)
    return frozenset(k for k, n in counts.items() if n >= most and k.lower() not in _TELLING)


def sorted_out(
    record: Any, found: list[Finding], allowed: Collection[str], often: Collection[str]
) -> list[Finding]:
    """Returns findings without those about `allowed` keys.

    Those about keys that are there `often` become others, whose fix makes the key metadata.
    """
    out = []
    for finding in found:
        key = _key(finding)
        if key and key in allowed:
            continue
        out.append(_of_the_file(record, key, finding) if key and key in often else finding)
    return out


def _key(finding: Finding) -> str:
    """Returns the unknown top-level key that a finding is about; empty for any other finding."""
    if finding.code != UNKNOWN or finding.pointer.count("/") != 1:
        return ""
    return unescape(finding.pointer[1:])


def _of_the_file(record: Any, key: str, finding: Finding) -> Finding:
    fix = None
    if f"_{key}" not in record:
        patch = (
            {"op": "remove", "path": finding.pointer},
            {"op": "add", "path": f"/_{finding.pointer[1:]}", "value": record[key]},
        )
        fix = Fix(f'call it "_{key}", which is metadata', True, patch=patch)
    message = f'"{key}" is no key of the format; the model never sees it'
    advice = f'allow it in the settings, [metadata] keys = ["{key}"], or call it "_{key}"'
    return Finding(METADATA, message, finding.pointer, help=advice, fix=fix, on_key=True)
