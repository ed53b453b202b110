"""Reads the rows of a table, in Parquet or in Arrow's own formats, as lines of JSON.

A table has every key of a struct in every row, with null where the record had none. So a key that
is null is taken as absent, in structs and of a row; in lists, and in columns of JSON, null stays.
Arrow's formats are those of the library datasets: a stream in its cache, and files.
"""

import base64
import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Block, Source
from mypt_cli.jsonl.layout import ARROW_FILE, MAGIC
from mypt_spec.findings import Finding

_ROWS, _GROUP = 64, 1024  # rows that are read, and written, at once


def parquet_module(path: str) -> ModuleType:
    """Returns pyarrow's module for Parquet. Raises UsageError where it is not installed."""
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError(
            f"{path}: reading Parquet needs pyarrow; run `pip install 'mypt-tags[parquet]'`"
        ) from None


def parquet_blocks(
    source: Source,
    *,
    block_size: int,
    max_line: int,
    groups: Sequence[int] | None = None,
    stream: BinaryIO | None = None,
) -> Iterator[Block]:
    """Yields the rows of a file, a line of JSON each. Raises UsageError where it cannot be read.

    Text is as in the file; times and decimals are text, and bytes that are no UTF-8 are base64.
    `groups` are the row groups to read, which are all without it; rows count from 1 in them.
    `stream` is read in place of the file, and can be sought in.
    """
    arrow = parquet_module(source.path)
    if stream is None and source.streamed:
        raise UsageError(
            f"{source.path}: Parquet is read from its end, so it must be a file; save it as one"
        )
    encode = json.JSONEncoder(ensure_ascii=False, default=_text).encode
    number, lines, size = 1, list[bytes](), 0
    total = 0
    try:
        with _opened(arrow, stream or source.path) as table:
            total = table.rows
            names = table.schema.names
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"the column {twice[0]!r} is there twice")
            read = _reader(importlib.import_module("pyarrow").struct(table.schema))
            for row in table.each(groups):
                line = encode(read(row)).encode("utf-8", "surrogatepass")
                lines.append(line + b"\n")
                size += len(line) + 1
                if size >= block_size or len(line) > max_line:
                    yield from _blocks_of(lines, number, _at(source, number, total), max_line)
                    number, lines, size = number + len(lines), [], 0
    except (ValueError, OSError) as error:  # those of pyarrow are among them
        yield from _blocks_of(lines, number, _at(source, number, total), max_line)
        number += len(lines)
        reason = str(error).partition("\n")[0]
        message = f"the data of the table is damaged, or not all there: {reason}"
        hint = "the file is incomplete or damaged: write it again from its source"
        fault = Finding("MYP003", message, help=hint)
        yield Block(b"", number, source.size or 0, broken=message, kind="parquet", fault=fault)
        return
    yield from _blocks_of(lines, number, source.size or 0, max_line)
    if not total:
        yield Block(b"", 1, source.size or 0, kind="parquet")


class _Table(NamedTuple):
    """An open table; `each` yields the rows of some row groups, one group after the other.

    So damage in a group leaves out the same rows, whether the groups before it are read or not.
    """

    schema: Any
    rows: int
    each: Callable[[Sequence[int] | None], Iterator[dict[str, Any]]]


@contextmanager
def _opened(arrow: Any, file: BinaryIO | str) -> Iterator[_Table]:
    """Opens a table of Parquet or of Arrow, which has one row group."""
    with nullcontext(file) if not isinstance(file, str) else open(file, "rb") as stream:
        stream.seek(0)
        head = stream.read(len(ARROW_FILE))
        stream.seek(0)
        if head.startswith(MAGIC):
            with arrow.ParquetFile(file) as table:
                meta = table.metadata

                def each(groups: Sequence[int] | None) -> Iterator[dict[str, Any]]:
                    for group in range(meta.num_row_groups) if groups is None else groups:
                        for batch in table.iter_batches(batch_size=_ROWS, row_groups=[group]):
                            yield from batch.to_pylist()

                yield _Table(table.schema_arrow, meta.num_rows, each)
            return
        pa = importlib.import_module("pyarrow.ipc")
        mapped = importlib.import_module("pyarrow").memory_map(file) if stream is not file else file
        whole = (pa.open_file if head == ARROW_FILE else pa.open_stream)(mapped).read_all()
        batches = whole.to_batches(max_chunksize=_ROWS)
        yield _Table(
            whole.schema, whole.num_rows,
            lambda _: (row for b in batches if not b.validate(full=True) for row in b.to_pylist()),
        )  # fmt: skip


def row_groups(stream: BinaryIO, path: str) -> list[int]:
    """Returns the bytes of each row group, unpacked; none of a file that is damaged."""
    arrow = parquet_module(path)
    try:
        with arrow.ParquetFile(stream) as table:  # of Arrow, it raises
            meta = table.metadata
            return [meta.row_group(i).total_byte_size for i in range(meta.num_row_groups)]
    except (ValueError, OSError):  # those of pyarrow are among them
        return []


def write_parquet(lines: BinaryIO, out: BinaryIO, path: str) -> None:
    """Writes lines of JSON objects as a table: a column for each key.

    It is text where all its values are, else JSON, which the library datasets reads as `Json()`.
    Raises UsageError for what no table can hold.
    """
    parquet, pa = parquet_module(path), importlib.import_module("pyarrow")
    texts: dict[str, bool] = {}
    lines.seek(0)
    for line in lines:
        if not isinstance(record := json.loads(line), dict):
            raise UsageError(f"{path}: only objects are rows of a table; name a file in .jsonl")
        for key, value in record.items():
            texts[key] = texts.get(key, True) and isinstance(value, str)
    features = {
        key: {"dtype": "string", "_type": "Value"} if text else {"_type": "Json"}
        for key, text in texts.items()
    }
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    members = [(key, pa.string() if text else pa.json_()) for key, text in texts.items()]
    encode = json.JSONEncoder(ensure_ascii=False).encode
    lines.seek(0)
    with parquet.ParquetWriter(out, pa.schema(members, about)) as table:
        while rows := [json.loads(line) for line in islice(lines, _GROUP)]:
            table.write_table(pa.Table.from_pydict({
                key: [encode(row[key]) if key in row and not text else row.get(key) for row in rows]
                for key, text in texts.items()
            }, schema=table.schema))  # fmt: skip


def _blocks_of(lines: list[bytes], first: int, position: int, max_line: int) -> Iterator[Block]:
    """Yields lines as blocks; the last of them alone may be too long."""
    long = lines[-1:] if lines and len(lines[-1]) - 1 > max_line else []
    if short := lines[: len(lines) - len(long)]:
        yield Block(b"".join(short), first, position, kind="parquet")
    for line in long:
        yield Block(
            line[:200], first + len(short), position, too_long=len(line) - 1, kind="parquet"
        )


def _at(source: Source, row: int, rows: int) -> int:
    return (source.size or 0) * row // max(rows, 1)


def _reader(kind: Any) -> Callable[[Any], Any]:
    """Returns what makes values of a type values of JSON."""
    types = importlib.import_module("pyarrow.types")
    if getattr(kind, "extension_name", "") == "arrow.json":
        return lambda value: value if value is None else json.loads(value)
    if types.is_struct(kind):
        readers = {member.name: _reader(member.type) for member in kind}
        return lambda value: (
            value and {key: readers[key](item) for key, item in value.items() if item is not None}
        )
    if types.is_nested(kind) and hasattr(kind, "value_type"):
        read = _reader(kind.value_type)
        return lambda value: value and [*map(read, value)]
    return lambda value: value


def _text(value: Any) -> Any:
    """Returns a value that JSON has not as one that it has."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return base64.b64encode(value).decode("ascii")
    return str(value)
