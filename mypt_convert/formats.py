"""Finds which formats explain the records of a source that was converted from a wrong one."""

from __future__ import annotations

from functools import partial

from mypt_cli.jsonl.blocks import Source
from mypt_convert.engine import Converter, Read, readable, reader
from mypt_lint.check.detect import elsewhere
from mypt_spec.dialect import dialects


def formats_of(source: Source, converter: Converter) -> tuple[tuple[str, ...], Source]:
    """Returns the formats of a source that is not in the converter's; see `detect.elsewhere`."""

    def fits(value: object, read: Read) -> bool:
        return read(value)[0] is not None

    def codes(value: object) -> frozenset[str]:
        conversation, findings, _ = converter.take_apart(value)
        return frozenset(f.code for f in findings) if conversation is None else frozenset()

    names = [name for name in (*dialects(), *readable()) if name != converter.source]
    others = {name: partial(fits, read=reader(name)) for name in names}
    return elsewhere(source, codes, others)
