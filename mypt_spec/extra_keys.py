"""Tells metadata from misspelt keys: what unknown top-level keys of a record mean.

Any program adds top-level keys of its own to records: ids, sources, scores. A model never sees
them, and no trainer needs them, so they are no errors: nothing for customary keys, a warning for
others, which the reports of the linter show once for each file, and an error where a key that the
record lacks was meant, or one that says something in another format.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mypt_spec.bodies.strict_json import unescape
from mypt_spec.compiled.toml import load
from mypt_spec.findings import Finding

UNKNOWN, METADATA = "MYP103", "MYP112"
_KEYS = load(Path(__file__).with_suffix(".toml"))  # its comments say which
CUSTOMARY, TELLING = frozenset(_KEYS["customary"]), frozenset(_KEYS["telling"])


def is_metadata(record: Mapping[str, Any], key: str, close: str, *, telling: bool) -> bool:
    """Returns whether an unknown top-level key is metadata.

    `close` is the known key that it is most like, "" for none. A key that the record lacks, or
    leaves empty, was meant; but a text under `tool` is no list of `tools`. `telling`: keys that
    say something in some format are no metadata.
    """
    value = record.get(key)
    if key in CUSTOMARY:
        return True
    if telling and key.lower() in TELLING:
        return False
    if isinstance(value, str) and close == key + "s":
        return True
    return not close or record.get(close) not in (None, "", [])


def noted(key: str, pointer: str) -> list[Finding]:
    """Returns what is found about a top-level key that is metadata: nothing if it is customary."""
    if key in CUSTOMARY:
        return []
    message = f'"{key}" is not a key of the format; the model never sees it'
    advice = f'if it is metadata, list it in the settings: [metadata] keys = ["{key}"]'
    return [Finding(METADATA, message, pointer, help=advice, on_key=True)]


def is_listed(finding: Finding, keys: Collection[str]) -> bool:
    """Returns whether a finding is about a key that settings list as metadata."""
    key = extra_key(finding)
    if finding.code == METADATA:
        key = unescape(finding.pointer.rpartition("/")[2])
    return bool(key) and key in keys


def extra_key(finding: Finding) -> str:
    """Returns the unknown top-level key that a finding is about; empty for any other finding."""
    if finding.code not in (UNKNOWN, METADATA) or finding.pointer.count("/") != 1:
        return ""
    return unescape(finding.pointer[1:])
