"""How a file holds its records: found from its first bytes, read in constant memory."""

from __future__ import annotations

import gzip
import io
import json
import shlex
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Block, Source
from mypt_cli.jsonl.layout import layout_of
from mypt_cli.jsonl.output import Output
from mypt_cli.jsonl.paths import expand
from mypt_cli.jsonl.records import has_lines, record_blocks
from tests.support.build import chat, user, write

CHAT = chat(user())


def dumped(value: Any, **options: Any) -> bytes:
    return json.dumps(value, **options).encode()


def read(data: bytes, **options: Any) -> list[Block]:
    return list(record_blocks(Source("memory", stream=io.BytesIO(data)), **options))


def blocks_of(path: Path, **options: Any) -> list[Block]:
    return list(record_blocks(expand([str(path)])[0], **options))


def faults(data: bytes) -> list[tuple[str, int, int]]:
    return [
        (block.fault.message, block.origins[0].row, block.origins[0].column)
        for block in read(data)
        if block.fault
    ]


def records(data: bytes) -> list[bytes]:
    return [line for block in read(data) if not block.fault for line in block.lines()]


@pytest.mark.parametrize(
    ("data", "kind", "key"),
    [
        (b"", "lines", ""),
        (b'{"a": 1}', "lines", ""),
        (b'{"a": 1}\n[{"a": 1}]\n', "lines", ""),
        (b"[1, 2]\n", "lines", ""),
        (b"[]\n", "lines", ""),
        (b"{\n{\n", "lines", ""),
        (dumped(CHAT) + b"\n", "lines", ""),
        (b'{"messages": [{"role": "user", "text": "x"}]}\n', "lines", ""),
        (b'[{"a": 1', "array", ""),
        (b"[", "array", ""),
        (b'\xef\xbb\xbf \r\n\t[ \n {"a": 1}]', "array", ""),
        (dumped({"data": [CHAT]}), "object", "data"),
        (dumped({"conversations": [CHAT]}, indent=1), "object", "conversations"),
        (dumped({"d": [{"id": 1, "messages": [{"role": "x" * 99999}]}]}), "object", "d"),
        (dumped({"train": [{"instruction": "x", "output": "y"}]}), "object", "train"),
        (dumped(CHAT, indent=2), "object", ""),
        (b'{"a":\n  1\n}', "lines", ""),
        (dumped({"name": "x", "n": 1, "data": [CHAT]}, indent=1), "object", "data"),
        (dumped({"id": "x", "messages": CHAT["messages"]}), "lines", ""),
        ((dumped({"id": "x", "answers": [{"completion": "x"}]}) + b"\n") * 2, "lines", ""),
        (b"PAR1...", "parquet", ""),
        (b'{"":[{"\\\x00":', "lines", ""),
        (b'{"a":[{"\\q": 1}]}', "lines", ""),
        (dumped(CHAT["messages"]) + b"\n" + dumped(CHAT["messages"]), "lines", ""),
        (dumped(CHAT["messages"], indent=1), "array", ""),
    ],
)
def test_the_layout_is_known_from_the_first_bytes(data: bytes, kind: str, key: str) -> None:
    layout = layout_of(data, ended=True)
    assert layout is not None
    assert (layout.kind, layout.key) == (kind, key)


def test_a_layout_waits_for_the_byte_that_decides() -> None:
    for data in (b"[", b"[ \n", b" ", b"\xef\xbb", b'{"a": 1', b"PA"):
        assert layout_of(data, ended=False) is None
    assert layout_of(b" " * (1 << 16), ended=False) is not None


@pytest.mark.parametrize(
    ("data", "message", "row", "column", "count"),
    [
        (b'[\n{"a": 1},\n{"b": 2}', "the array has no end: the file ends after record 2", 3, 9, 2),
        (b'[{"a": 1},\n', "the file ends after record 1 and its comma", 2, 1, 1),
        (b'[\n  {"a": 1},\n  {"b": "\xc3\xbc', "the file ends in record 2, which begins", 3, 3, 1),
        (b'[{"a": 1},\n]', "a comma before the end of the array", 2, 1, 1),
        (b'[{"a": 1},,{"b": 2}]', "a comma without a record before it", 1, 11, 2),
        (b'[{"a": 1}\n {"b": 2}]', "no comma between records 1 and 2", 2, 2, 2),
        ('[{"ü": 1} what {"b": 2}]'.encode(), "'what' after record 1 is not part", 1, 11, 2),
        (b'[{"a": 1}]\n[{"b": 2}]\n[{"c": 3}]', "and another begins", 2, 1, 3),
        (b'[{"a": 1}]\n{"b": 2}\n{"c": 3}', "ended, and more records follow", 2, 1, 3),
        (b'[{"a": 1}] the end', "'the end' after record 1 is not part", 1, 12, 1),
        (b'\xef\xbb\xbf[{"a": 1}]', "byte order mark", 1, 1, 1),
    ],
)
def test_what_is_wrong_with_an_array_is_said_once_and_nothing_is_lost(
    data: bytes, message: str, row: int, column: int, count: int
) -> None:
    ((words, *place),) = faults(data)
    assert message in words
    assert place == [row, column]
    assert len(records(data)) == count


def test_records_are_cut_alike_in_pieces_of_any_size() -> None:
    data = '[{"a": "x\\"]y\\\\"}, {"b": "é"},\n 12, "s", null, [1, [2]]]'.encode()
    whole = [(o.row, o.column, o.raw) for b in read(data) for o in b.origins]
    assert [raw for *_, raw in whole][2:] == [b"12", b'"s"', b"null", b"[1, [2]]"]
    for size in range(1, len(data)):
        pieces = read(data, block_size=size)
        assert not any(block.fault for block in pieces)
        assert [(o.row, o.column, o.raw) for b in pieces for o in b.origins] == whole


def test_a_missing_quote_spoils_one_record() -> None:
    data = b'[\n  {"a": "x},\n  {"b": [}]},\n   5,\n  {"c": 3}\n]'
    assert records(data)[-1:] == [b'{"c": 3}']


def test_a_line_end_in_a_string_stays_a_fault() -> None:
    (line,) = records(b'[{"a":\n"b\nc"\n}]')
    assert line == b'{"a": "b\vc"\v}'


def test_a_long_record_is_counted_and_the_next_one_read() -> None:
    data = b'[{"a": "' + b"x" * 5000 + b'"}, {"b": 1}]'
    long, rest = read(data, block_size=64, max_line=1000)
    assert (long.too_long, long.first_row, len(long.data)) == (5009, 1, 200)
    assert (rest.lines(), rest.first_row) == ([b'{"b": 1}'], 2)


def test_a_large_array_is_read_in_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    record, number = json.dumps(CHAT | {"text": "x" * 9000}), 2500
    path.write_text("[" + ", ".join([record] * number) + "]")
    tracemalloc.start()
    count = sum(len(block.origins) for block in record_blocks(expand([str(path)])[0]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == number
    assert peak < 12 << 20 < path.stat().st_size


def test_a_damaged_archive_of_an_array_is_read_up_to_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    noise = dumped([CHAT | {"text": str(hash(i) * 7919)} for i in range(2000)], indent=1)
    data = gzip.compress(noise)
    path.write_bytes(data[: len(data) // 2])
    *whole, last = blocks_of(path)
    assert last.finding().code == "MYP003"
    assert 100 < sum(len(b.origins) for b in whole) < 2000


def test_folders_hold_arrays_of_records_and_no_other_json(tmp_path: Path) -> None:
    (tmp_path / "chats.json").write_text(json.dumps([CHAT]))
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(json.dumps([CHAT]).encode()))
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "tools.json").write_text('[{"name": "search", "parameters": {}}]')
    (tmp_path / "lines.jsonl").write_text("{}\n")
    names = [Path(source.path).name for source in expand([str(tmp_path)])]
    assert names == ["chats.json", "lines.jsonl", "packed.json.gz"]
    assert expand([str(tmp_path / "tools.json")])  # what is named is read


def test_only_jsonl_is_divided_into_ranges(tmp_path: Path) -> None:
    lines, array = write(tmp_path / "a.jsonl", CHAT), write(tmp_path / "b.jsonl", [CHAT])
    assert [has_lines(source) for source in expand([lines, array])] == [True, False]


@pytest.mark.parametrize("key", ["data", 'it\'s "data"'])
def test_the_help_is_a_command_that_gets_at_the_records(tmp_path: Path, key: str) -> None:
    path = tmp_path / "my data.json"
    path.write_text(json.dumps({key: [CHAT, CHAT]}))
    (block,) = blocks_of(path)
    command = block.finding().help.partition(": ")[2]
    assert shlex.split(command)[:4] == ["jq", "-c", f".[{json.dumps(key)}][]", str(path)]


@pytest.mark.extra("pyarrow")
class TestParquet:
    """Rows as records."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> Any:
        import pyarrow as arrow
        from pyarrow import parquet

        def write_rows(rows: list[Any], **options: Any) -> Source:
            path = tmp_path / "a.parquet"
            parquet.write_table(arrow.Table.from_pylist(rows), path, **options)
            return expand([str(path)])[0]

        return write_rows

    def test_a_key_that_is_null_is_absent(self, table: Any) -> None:
        rows = [
            {"system": None, "messages": [{"role": "user", "content": "x", "name": None}]},
            {"system": "s", "messages": [{"role": "user", "content": None, "name": "n"}]},
            {"system": None, "messages": [{"role": "a", "content": "", "name": "b"}, None]},
        ]
        (block,) = record_blocks(table(rows, row_group_size=1))
        assert [json.loads(line) for line in block.lines()] == [
            {"messages": [{"role": "user", "content": "x"}]},
            {"system": "s", "messages": [{"role": "user", "name": "n"}]},
            {"messages": [{"role": "a", "content": "", "name": "b"}, None]},
        ]

    def test_columns_of_json_are_what_they_say(self, table: Any, tmp_path: Path) -> None:
        import pyarrow as arrow

        source = table([{}])
        tools = [{"parameters": {"city": {"type": "string", "default": None}}}, {"name": "é"}, []]
        texts = arrow.array([json.dumps(tool) for tool in tools] + [None], arrow.string())
        column = arrow.ExtensionArray.from_storage(arrow.json_(), texts)
        lists = arrow.ListArray.from_arrays([0, 2, 4], column)
        structs = arrow.StructArray.from_arrays([lists, lists], ["tools", "again"])
        rows = arrow.table({"tools": lists, "inside": structs, "plain": ["{}", "[]"]})
        arrow.parquet.write_table(rows, source.path)
        (block,) = record_blocks(source)
        first, second = tools[:2], [[], None]
        assert [json.loads(line) for line in block.lines()] == [
            {"tools": first, "inside": {"tools": first, "again": first}, "plain": "{}"},
            {"tools": second, "inside": {"tools": second, "again": second}, "plain": "[]"},
        ]

    @pytest.mark.parametrize("kind", ["stream", "file"])
    def test_arrow_is_read_as_parquet(self, tmp_path: Path, kind: str) -> None:
        import pyarrow as arrow

        rows = [{"messages": [{"role": "user", "content": "x" * i}]} for i in range(300)]
        path = tmp_path / "data-00000-of-00001.arrow"
        with getattr(arrow.ipc, f"new_{kind}")(path, arrow.Table.from_pylist(rows).schema) as out:
            out.write_table(arrow.Table.from_pylist(rows), max_chunksize=100)
        (source,) = expand([str(tmp_path)])
        blocks = list(record_blocks(source, block_size=1000))
        assert [json.loads(line) for block in blocks for line in block.lines()] == rows
        data = path.read_bytes()
        for size in range(8, len(data), 1999):
            path.write_bytes(data[:size])
            *_, block = record_blocks(source)
            assert block.broken
            assert block.finding().code == "MYP003"

    def test_arrow_with_offsets_that_lead_nowhere(self, tmp_path: Path) -> None:
        import pyarrow as arrow

        table = arrow.table({"text": ["one", "two", "three"]})
        path = tmp_path / "a.arrow"
        with arrow.ipc.new_stream(path, table.schema) as out:
            out.write_table(table)
        offsets = b"".join(n.to_bytes(4, "little") for n in (0, 3, 6, 11))
        path.write_bytes(
            path.read_bytes().replace(offsets, offsets[:4] + b"\xff" * 4 + offsets[8:])
        )
        (source,) = expand([str(tmp_path)])
        *_, block = record_blocks(source)
        assert block.finding().code == "MYP003"

    def test_a_table_is_written_and_read_back(self, tmp_path: Path) -> None:
        import pyarrow as arrow

        tool = {"type": "function", "function": {"name": "f", "parameters": {"x": [1, None]}}}
        rows = [
            {"messages": [{"role": "user", "content": "é" * i}], "tools": [tool], "id": f"{i}"}
            for i in range(1500)
        ]
        rows += [{"messages": None, "rank": 1}, {"messages": [], "rank": "first"}, {"id": ""}]
        path = str(tmp_path / "a.parquet")
        with Output(path, []) as out:
            for row in rows:
                out.write(row)
        assert [
            json.loads(line) for block in record_blocks(expand([path])[0]) for line in block.lines()
        ] == rows
        about = json.loads(arrow.parquet.read_schema(path).metadata[b"huggingface"])
        assert about["info"]["features"] == {
            "messages": {"_type": "Json"}, "tools": {"_type": "Json"},
            "id": {"dtype": "string", "_type": "Value"}, "rank": {"_type": "Json"},
        }  # fmt: skip

    @pytest.mark.parametrize("value", [[1], {"text": "\ud800"}])
    def test_what_no_table_holds_is_an_error(self, tmp_path: Path, value: Any) -> None:
        path = tmp_path / "a.parquet"
        with pytest.raises(UsageError, match=r"a\.parquet"), Output(str(path), []) as out:
            out.write_bytes(json.dumps(value).encode())
        assert not path.exists()

    def test_what_json_has_not_becomes_text(self, table: Any) -> None:
        import datetime
        from decimal import Decimal

        row = {"d": datetime.date(2024, 1, 2), "n": Decimal("1.50"), "b": b"ab", "x": b"\xff"}
        (block,) = record_blocks(table([row]))
        assert json.loads(block.data) == {"d": "2024-01-02", "n": "1.50", "b": "ab", "x": "/w=="}

    def test_large_groups_are_read_in_pieces(self, table: Any) -> None:
        source = table([{"text": "x" * 1000}] * 3000)
        pieces = list(record_blocks(source, block_size=100_000))
        assert max(len(block.data) for block in pieces) < 110_000
        assert sum(len(block.lines()) for block in pieces) == 3000
        ends = [block.first_row + len(block.lines()) for block in pieces]
        assert [block.first_row for block in pieces[1:]] == ends[:-1]

    def test_wherever_it_is_cut_there_is_one_finding(self, table: Any) -> None:
        source = table([{"text": "x" * i} for i in range(20)], row_group_size=5)
        data = Path(source.path).read_bytes()
        for size in range(4, len(data), 37):
            Path(source.path).write_bytes(data[:size])
            (block,) = record_blocks(source)
            assert block.finding().code == "MYP003"

    def test_a_pipe_is_refused(self, table: Any) -> None:
        data = Path(table([{"a": 1}]).path).read_bytes()
        with pytest.raises(UsageError, match="save it as one"):
            read(data)

    def test_a_column_that_is_there_twice_is_said(self, tmp_path: Path) -> None:
        import pyarrow as arrow
        from pyarrow import parquet

        twice = arrow.Table.from_arrays([arrow.array([1]), arrow.array([2])], names=["a", "a"])
        parquet.write_table(twice, tmp_path / "a.parquet")
        (block,) = blocks_of(tmp_path / "a.parquet")
        assert "the column 'a' is there twice" in block.broken


def test_without_pyarrow_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"pip install 'mypt-tags\[parquet\]'"):
        expand([str(tmp_path)])
