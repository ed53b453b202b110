"""Records give the same findings from JSONL, from one JSON array and from Parquet.

Places differ, and are those of the file. Wherever a file is cut, there is a finding.
"""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import mypt_spec
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.records import record_blocks
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.places.positions import Places
from mypt_lint.run.parallel import check_sources
from mypt_lint.run.runner import run
from tests.support.checked import check_bytes
from tests.support.maker import any_json, drawn
from tests.support.strategies import almost_record

CHECKER = Checker(mypt_spec.dialect("mypt"))
SPACE = st.text(" \t\r\n", max_size=4)


def facts_of(found: list[Diagnostic]) -> list[tuple[Any, ...]]:
    facts = ((d.number, d.finding) for d in found)
    return sorted((n, f.code, f.pointer, f.span or (), f.message) for n, f in facts)


def lines_of(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


def several(random: Random) -> list[Any]:
    """Returns records and other objects that JSON can spell."""
    kinds = (lambda: almost_record(random, "mypt"), lambda: {"k": any_json(random)})
    made = [random.choice(kinds)() for _ in range(random.randint(1, 5))]
    return [value for value in made if isinstance(value, dict) and encodable(value)] or [{}]


RECORDS = drawn(several)


@given(RECORDS, st.sampled_from([None, 0, 1, 2, "\t"]), st.booleans(), st.data())
def test_an_array_has_the_findings_of_its_lines(
    records: list[Any], indent: Any, ascii_only: bool, data: st.DataObject
) -> None:
    spaces = iter(data.draw(st.lists(SPACE, min_size=2 * len(records) + 4)) + [""] * 50)
    text = next(spaces) + "["
    for at, record in enumerate(records):
        text += "," * bool(at) + next(spaces)
        text += json.dumps(record, ensure_ascii=ascii_only, indent=indent) + next(spaces)
    text += "]" + next(spaces)
    found = check_bytes(CHECKER, text.encode(), "a.json")
    lines = check_bytes(CHECKER, lines_of(records), "a.json")
    expected = [item for item in lines if item.finding.code != "MYP019"]  # of lines alone
    assert facts_of(found) == facts_of(expected)
    rows = text.split("\n")
    offsets = [0]
    for row in rows:
        offsets.append(offsets[-1] + len(row) + 1)
    decoder = json.JSONDecoder()
    starts, at = [], text.index("[") + 1
    for _ in records:
        at = text.index("{", at)
        starts.append(at)
        at = decoder.raw_decode(text, at)[1]
    for item in found:
        begin = starts[item.record - 1]
        end = decoder.raw_decode(text, begin)[1]
        first, last = Places(text[begin:end].replace("\n", " ")).locate(
            item.finding.pointer, item.finding.span, on_key=item.finding.on_key
        )
        assert offsets[item.row - 1] + item.column - 1 == begin + first
        assert offsets[item.end_row - 1] + item.end_column - 1 == begin + max(first, last)


@given(RECORDS, st.sampled_from([None, 1]), st.data())
def test_a_file_that_is_cut_anywhere_has_a_finding(
    records: list[Any], indent: Any, data: st.DataObject
) -> None:
    whole = json.dumps(records, ensure_ascii=False, indent=indent).encode()
    at = data.draw(st.integers(0, len(whole) - 1))
    found = check_bytes(CHECKER, whole[:at])
    assert ("MYP015" if at else "MYP012") in {d.finding.code for d in found}
    before = [d for d in check_bytes(CHECKER, whole) if d.record]
    read = sum(len(b.origins) for b in record_blocks(memory(whole[:at])) if not b.fault)
    # A finding about a key of the file counts its records.
    complete = [d for d in before if d.number < read and d.finding.code != "MYP112"]
    assert set(facts_of(complete)) <= set(facts_of(found))


@given(st.lists(st.sampled_from(b'[]{},"\\\n 1xN\xc3\xbc'), max_size=24), st.integers(1, 5))
@example(list(b",\\["), 1)
def test_any_bytes_are_read_alike_in_any_pieces(noise: list[int], size: int) -> None:
    data = b'[{"a": 1}' + bytes(noise)
    whole = list(record_blocks(memory(data)))
    pieces = list(record_blocks(memory(data), block_size=size))

    def facts(blocks: list[Any]) -> list[Any]:
        return [
            *((b.fault, o.row, o.column, o.raw) for b in blocks for o in b.origins if b.fault),
            *((o.row, o.column, o.raw) for b in blocks for o in b.origins if not b.fault),
        ]

    assert facts(pieces) == facts(whole)
    assert check_bytes(CHECKER, data) is not None


def memory(data: bytes) -> Source:
    return Source("memory", stream=io.BytesIO(data))


@given(RECORDS, st.sampled_from([2, 3]))
def test_processes_find_the_same(records: list[Any], jobs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json.gz"
        path.write_bytes(gzip.compress(json.dumps(records * 3, indent=1).encode()))
        source = Source(str(path), "gz", path.stat().st_size)
        one, many = (
            [
                d
                for chunk in check_sources(CHECKER, [source], "record", jobs=n)
                for d in chunk.findings
            ]
            for n in (1, jobs)
        )
    assert one == many


TURNS = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "bot"])},
        optional={"content": st.text("a <myPT_eot>\u00fc", max_size=14), "name": st.text("ab")},
    ),
    min_size=1,
    max_size=4,
)
TABLE = st.lists(
    st.fixed_dictionaries({"messages": TURNS}, optional={"system": st.text("ab ", max_size=3)}),
    min_size=1,
    max_size=6,
)


@pytest.mark.extra("pyarrow")
@given(TABLE)
def test_a_table_has_the_findings_of_its_lines(records: list[Any]) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        keys = {key: None for record in records for key in record}
        rows = [dict.fromkeys(keys) | record for record in records]
        parquet.write_table(arrow.Table.from_pylist(rows), path, row_group_size=2)
        source = Source(str(path), "", path.stat().st_size)
        found = [d for chunk in run(CHECKER, [source], "record") for d in chunk.findings]
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        source = Source(str(path), "", path.stat().st_size)
        cut = [d for chunk in run(CHECKER, [source], "record") for d in chunk.findings]
    assert facts_of(found) == facts_of(check_bytes(CHECKER, lines_of(records)))
    assert all(d.table for d in found)
    assert [d.finding.code for d in cut] == ["MYP003"]
