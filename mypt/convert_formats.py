"""Finds which formats explain the records of a source that was converted from a wrong one."""

from __future__ import annotations

from collections import Counter
from functools import partial

from mypt_cli.jsonl.blocks import Source
from mypt_convert.engine import Converter, ReadFunction, reader
from mypt_lint.check.detect import elsewhere
from mypt_lint.check.from_settings import source_judge
from mypt_lint.settings.settings import NO_SETTINGS
from mypt_records.shapes import SHAPES, shape_of
from mypt_spec.dialect import detectable_dialects


def formats_of(source: Source, converter: Converter) -> tuple[tuple[str, ...], Source]:
    """Returns the formats of a source that is not in the converter's; see `detect.elsewhere`.

    Of several formats, those are returned that know most of the keys of the records. A source that
    its own format can read, but for unknown keys, is in another format only if that one knows more.
    """
    unknown: Counter[str] = Counter()
    refused = False

    def fits(value: object, name: str, read: ReadFunction) -> bool:
        if name in SHAPES and shape_of(value) != name:  # some shapes read the records of others
            return False
        conversation, findings, _ = read(value)
        unknown[name] += len(findings)
        return conversation is not None

    def codes(value: object) -> frozenset[str]:
        nonlocal refused
        conversation, findings, _ = converter.take_apart(value)
        refused = refused or conversation is None
        unknown[converter.source] += len(findings)
        return frozenset(f.code for f in findings)

    names = [name for name in (*detectable_dialects(), *SHAPES) if name != converter.source]
    others = {
        name: partial(fits, name=name, read=reader(name, source_judge(NO_SETTINGS, name)))
        for name in names
    }
    matches, source = elsewhere(source, codes, others)
    fewest = min((unknown[name] for name in matches), default=0)
    if not refused and fewest >= unknown[converter.source]:
        return (), source
    return tuple(name for name in matches if unknown[name] == fewest), source
