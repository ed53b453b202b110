"""Reading, and that every byte arrives: lines of any length, damage, streams, parts of a file."""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
import threading
import tracemalloc
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mypt_cli.errors import UsageError
from mypt_cli.jsonl import blocks as sources
from mypt_cli.jsonl.blocks import Block, Source, blocks, ranges
from mypt_cli.jsonl.paths import expand
from tests.support.examples import examples

OFTEN = settings(max_examples=examples(160))  # an example takes a moment


def rows(read: Iterable[Block]) -> list[tuple[int, bytes]]:
    """Returns the lines of blocks with their numbers."""
    return [(block.first_row + at, line) for block in read for at, line in enumerate(block.lines())]


def data_of(read: Iterable[Block]) -> bytes:
    return b"".join(block.data for block in read)


def memory(data: bytes, **options: Any) -> Source:
    return Source("memory", stream=io.BytesIO(data), **options)


def put(path: Path, data: bytes = b"{}\n") -> Source:
    """Writes a file; returns it as a source."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return expand([str(path)])[0]


INSIDE = ["a.ndjson", "b.jsonl", "sub/c.JSONL", "sub/d.jsonl.gz", "sub/e.jsonl.zst"]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*INSIDE, "readme.md", "sub/x.json", ".hidden/h.jsonl"):
        put(tmp_path / "data" / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- expand


def names(*paths: str, **options: Any) -> list[str]:
    return [source.path for source in expand(paths, **options)]


def test_folder(tree: Path) -> None:
    assert names("data") == [f"data/{name}" for name in INSIDE]
    assert names("./data/") == [f"./data/{name}" for name in INSIDE]
    assert names("data", suffixes=(".md", ".txt")) == ["data/readme.md"]
    assert [source.compressed for source in expand(["data"])] == ["", "", "", "gz", "zst"]
    assert expand(["data/b.jsonl"])[0].size == 3


def test_order_and_files_named_twice(tree: Path) -> None:
    os.symlink("b.jsonl", "data/link.jsonl")
    once = ["data/b.jsonl", "-", "data/a.ndjson"]
    assert names(*once, "./data/b.jsonl", "-", str(tree / "data/a.ndjson")) == [
        "<stdin>" if name == "-" else name for name in once
    ]
    assert names("data/link.jsonl", "data/b.jsonl") == ["data/link.jsonl"]


def test_patterns(tree: Path) -> None:
    assert names("data/*.jsonl") == names("**/*.jsonl") == ["data/b.jsonl"]
    assert names("data/?.*") == ["data/a.ndjson", "data/b.jsonl"]
    other = str(tree / "data/sub/d.jsonl.gz")
    assert names("data/**/c.*", str(tree / "data/*/[d].*")) == ["data/sub/c.JSONL", other]
    assert names("data/**") == names("**") == names("data")
    assert names("data/*") == [*names("data")[:2], "data/readme.md", *names("data/sub")]
    assert names("data/.h*/*.jsonl") == ["data/.hidden/h.jsonl"]


def test_a_literal_name_is_no_pattern(tree: Path) -> None:
    put(tree / "data" / "[b].jsonl")
    assert names("data/[b].jsonl") == ["data/[b].jsonl"]
    assert names("data/[a].ndjson") == ["data/a.ndjson"]


def test_anything_named_by_itself_is_read(tree: Path) -> None:
    named = ["data/readme.md", "data/.hidden/h.jsonl"]
    assert names(*named) == named


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing.jsonl", "missing.jsonl: no such file"),
        ("", "no such file"),
        ("nul\0.jsonl", "no such file"),
        ("data/*.csv", "matches no file"),
        ("nowhere/**/*.jsonl", "matches no file"),
        ("empty", "no .jsonl, .ndjson, .json, .parquet, .arrow file"),
        ("dangling.jsonl", "link to nothing"),
        ("dangling*", "link to nothing"),
        ("folder_with_dangling", "folder_with_dangling/x.jsonl: a symbolic link to nothing"),
        ("self.jsonl", "cannot be read"),
        ("data/b.jsonl/x", "cannot be read"),
    ],
)
def test_refused(tree: Path, path: str, words: str) -> None:
    (tree / "empty").mkdir()
    (tree / "folder_with_dangling").mkdir()
    os.symlink("nothing", "dangling.jsonl")
    os.symlink("nothing", "folder_with_dangling/x.jsonl")
    os.symlink("self.jsonl", "self.jsonl")
    with pytest.raises(UsageError, match=re.escape(words)) as caught:
        expand([path])
    assert ";" in str(caught.value)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything"
)
def test_unreadable(tree: Path) -> None:
    (tree / "data/b.jsonl").chmod(0)
    (tree / "data/sub").chmod(0)
    for path in ("data/b.jsonl", "data/sub", "data"):
        with pytest.raises(UsageError, match="Permission denied"):
            expand([path])
    (tree / "data/sub").chmod(0o755)


def test_permission_error_is_a_usage_error(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(UsageError, match=r"data/b\.jsonl: cannot be read: Permission denied"):
        expand(["data/b.jsonl"])
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(UsageError, match="data: cannot be read: Permission denied"):
        expand(["data"])


def test_loops_of_links_end(tree: Path) -> None:
    for name in ("one", "two", "three"):
        os.symlink("..", f"data/sub/{name}")
        os.symlink(".", f"data/{name}")
    files = {os.path.realpath(name) for name in names("data")}
    assert len(files) == len(names("data")) == 5
    assert {os.path.realpath(name) for name in names("data", "data/**")} == files
    assert names("**/b.jsonl") == ["data/b.jsonl"]


def test_pipe(tree: Path) -> None:
    os.mkfifo("pipe.jsonl")
    assert names("*") == names("data")  # met by chance, a pipe could block for ever

    def feed() -> None:
        with open("pipe.jsonl", "wb") as pipe:
            for at in range(3):
                pipe.write(b"%d\n" % at)
                pipe.flush()

    (source,) = expand(["pipe.jsonl"])
    assert source.size is None
    assert ranges(source, size=10) == []
    writer = threading.Thread(target=feed)
    writer.start()
    assert rows(blocks(source)) == [(1, b"0"), (2, b"1"), (3, b"2")]
    writer.join()


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = expand(["-"])
    stdin = io.BytesIO(b"a\nb")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin))
    assert rows(blocks(source)) == [(1, b"a"), (2, b"b")]
    assert not stdin.closed
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="no standard input"):
        list(blocks(source))


def test_zst_without_the_package(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UsageError, match=r"sub/e\.jsonl\.zst: .*pip install zstandard"):
        expand(["data"])
    assert names("data/sub/d.jsonl.gz") == ["data/sub/d.jsonl.gz"]


# ---- blocks


def test_only_a_newline_ends_a_line() -> None:
    data = 'a\u2028b\u0085\v\f\x1c\nc\r\n\r\n\n"d\re"'.encode()
    expected = [(at + 1, line) for at, line in enumerate(data.split(b"\n"))]
    assert rows(blocks(memory(data))) == expected
    assert rows(blocks(memory(data + b"\n"))) == expected
    assert data_of(blocks(memory(data), block_size=3)) == data


def test_empty() -> None:
    assert list(blocks(memory(b""))) == []
    assert rows(blocks(memory(b"\n"))) == [(1, b"")]


COUNT = 120_000


def test_position_is_in_bytes_on_disk(tmp_path: Path) -> None:
    data = b"".join(b"%d\n" % at for at in range(COUNT))
    packed = {"x": data, "x.gz": gzip.compress(data), "x.zst": zstandard.compress(data)}
    for name, content in packed.items():
        source = put(tmp_path / name, content)
        read = list(blocks(source, block_size=1 << 15))
        positions = [block.position for block in read]
        assert positions == sorted(positions)
        assert positions[-1] == source.size == len(content)
        assert len(read) > 5
        assert data_of(read) == data
        assert rows(read)[-1] == (COUNT, b"%d" % (COUNT - 1))


@OFTEN
@given(
    st.lists(st.binary(max_size=9) | st.sampled_from([b"", b"x" * 300, b"y" * 20]), max_size=12),
    st.booleans(),
    st.integers(1, 40),
    st.integers(0, 30) | st.just(250),
)
def test_any_lines_in_any_pieces(
    parts: list[bytes], ended: bool, block_size: int, max_line: int
) -> None:
    data = b"\n".join(parts) + (b"\n" if ended else b"")
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    row = 0
    for block in blocks(memory(data), block_size=block_size, max_line=max_line):
        assert block.first_row == row + 1
        assert not block.broken
        if block.too_long:
            assert block.lines() == [expected[row][:200]]
            assert block.too_long == len(expected[row]) > max_line
        else:
            assert block.lines() == expected[row : row + len(block.lines())]
            assert all(len(line) <= max_line for line in block.lines())
        row += len(block.lines())
    assert row == len(expected)


class Generated(io.RawIOBase):
    """A stream of `{"a": "xxx...` lines that is never in memory as a whole."""

    def __init__(self, *lengths: int) -> None:
        self.parts = [
            piece for length in lengths for piece in [b"x" * 65536] * (length >> 16) + [b"\n"]
        ]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.parts:
            return 0
        part = self.parts.pop(0)
        taken = min(len(part), len(buffer))
        buffer[:taken] = part[:taken]
        if taken < len(part):
            self.parts.insert(0, part[taken:])
        return taken


def test_a_70_mb_line_is_never_held() -> None:
    stream: BinaryIO = io.BufferedReader(Generated(30 << 20, 70 << 20, 65536))
    tracemalloc.start()
    try:
        read = []
        for block in blocks(Source("big", stream=stream), max_line=40 << 20):
            read.append((block.first_row, block.too_long, len(block.data)))
            del block
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read == [(1, 0, (30 << 20) + 1), (2, 70 << 20, 200), (3, 0, 65537)]
    assert peak < 50 << 20


def test_too_long_line_without_a_newline() -> None:
    (block,) = blocks(memory(b"x" * 1000), max_line=10, block_size=64)
    assert (block.first_row, block.too_long, block.data) == (1, 1000, b"x" * 200)


def test_a_line_of_just_the_limit() -> None:
    read = blocks(memory(b"x" * 10 + b"\n" + b"y" * 11 + b"\nz"), max_line=10)
    expected = [(b"x" * 10 + b"\n", 0), (b"y" * 11, 11), (b"z", 0)]
    assert [(block.data, block.too_long) for block in read] == expected


# ---- compressed

TEXT = b"".join(b'{"row": %d, "noise": "%d"}\n' % (at, at * 7919 % 10007) for at in range(20_000))
SIZES = st.integers(1, 1 << 17)


@cache
def pack(kind: str, data: bytes) -> bytes:
    if kind == "gz":
        return gzip.compress(data, mtime=0)
    return bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data))


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_members(kind: Any) -> None:
    zeros = b"\0" * 99 if kind == "gz" else b""
    data = pack(kind, TEXT) + pack(kind, b"") + pack(kind, b"last") + zeros
    for size in (7, 4096, 1 << 20):
        read = list(blocks(memory(data, compressed=kind), block_size=size))
        assert data_of(read) == TEXT + b"last"
        assert not any(block.broken for block in read)


def test_zst_without_a_content_size_and_with_skippable_frames() -> None:
    frame = zstandard.ZstdCompressor().compressobj()
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"12345"
    data = skipped + frame.compress(TEXT) + frame.flush() + skipped
    assert data_of(blocks(memory(data, compressed="zst"))) == TEXT


@pytest.mark.parametrize("kind", ["gz", "zst"])
@settings(max_examples=examples(60))
@given(share=st.floats(0, 1, exclude_max=True), size=SIZES)
@example(share=0.0, size=1)
@example(share=0.0001, size=1)
@example(share=0.9999, size=4096)
def test_truncated(kind: Any, share: float, size: int) -> None:
    packed = pack(kind, TEXT)
    cut = int(len(packed) * share)
    *whole, last = blocks(memory(packed[:cut], compressed=kind), block_size=max(size, 4096))
    assert f"at byte {cut} of the file: it is truncated" in last.broken
    assert not any(block.broken for block in whole)
    got = data_of([*whole, last])
    assert TEXT.startswith(got)
    assert b"\n" not in last.data
    assert last.first_row == got.count(b"\n") + 1
    assert len(got) >= len(TEXT) * share - 2 * (1 << 17)  # zstd works in blocks of up to 128 KiB


@pytest.mark.parametrize("kind", ["gz", "zst"])
@settings(max_examples=examples(60))
@given(share=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255), size=SIZES)
@example(share=0.0, flip=1, size=1)
@example(share=0.5, flip=128, size=4096)
@example(share=0.9999, flip=1, size=1)
def test_damaged_never_raises(kind: Any, share: float, flip: int, size: int) -> None:
    packed = bytearray(pack(kind, TEXT))
    packed[int(len(packed) * share)] ^= flip
    *whole, last = blocks(memory(bytes(packed), compressed=kind), block_size=max(size, 4096))
    # Without a fault, it was in a header field that carries nothing, or a name.
    assert last.broken or data_of([*whole, last]) == TEXT
    assert all(not block.broken for block in whole)


def test_damage_after_good_data_loses_nothing_of_it() -> None:
    packed = bytearray(gzip.compress(TEXT, mtime=0))
    packed[-6] ^= 1  # the check sum
    *whole, last = blocks(memory(bytes(packed), compressed="gz"))
    assert data_of(whole) == TEXT
    place = f"at byte {len(packed) - 5} of the file"
    assert last.broken == f"gzip data is damaged {place}: incorrect data check"
    assert (last.data, last.first_row) == (b"", 20_001)


@pytest.mark.parametrize(
    ("kind", "word"), [("gz", "incorrect header check"), ("zst", "Unknown frame descriptor")]
)
def test_what_is_not_compressed_at_all(kind: Any, word: str) -> None:
    (block,) = blocks(memory(b'{"a": 1}\n' * 9, compressed=kind))
    assert word in block.broken
    (block,) = blocks(memory(b"", compressed=kind))
    assert "ends too early, at byte 0" in block.broken
    *_, last = blocks(memory(pack(kind, TEXT) + b"garbage behind", compressed=kind))
    assert "damaged" in last.broken


def test_a_broken_line_that_is_too_long_too() -> None:
    packed = gzip.compress(os.urandom(5000).replace(b"\n", b"."))
    (block,) = blocks(memory(packed[:4000], compressed="gz"), max_line=100)
    assert block.broken
    assert block.too_long > 3000
    assert len(block.data) == 200


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_bomb_is_met_in_constant_memory(kind: Any) -> None:
    packed = pack(kind, b"\0" * (1 << 20))
    data = packed * 300
    tracemalloc.start()
    try:
        (block,) = blocks(memory(data, compressed=kind), max_line=1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert block.too_long == 300 << 20
    assert peak < 100 << 20


# ---- faults while reading


class Failing(io.BytesIO):
    def read1(self, size: int | None = -1, /) -> bytes:
        data = super().read1(4)
        if not data:
            raise OSError(5, "Input/output error")
        return data


def test_a_fault_while_reading_names_file_and_offset() -> None:
    read = blocks(Source("disk/x.jsonl", stream=Failing(b"a\nb\nc\nd\n")))
    assert next(read).data == b"a\nb\n"
    next(read)
    words = r"disk/x\.jsonl: reading failed at byte 8: Input/output error"
    with pytest.raises(UsageError, match=words):
        next(read)


def test_a_file_that_vanishes(tree: Path) -> None:
    (source,) = expand(["data/b.jsonl"])
    os.remove("data/b.jsonl")
    for read in (lambda: list(blocks(source)), lambda: ranges(source, size=9)):
        with pytest.raises(UsageError, match=r"data/b\.jsonl: no such file"):
            read()


def test_the_file_is_closed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[BinaryIO] = []
    original = Source.open

    def note(source: Source) -> BinaryIO:
        opened.append(original(source))
        return opened[-1]

    monkeypatch.setattr(sources.Source, "open", note)
    (source,) = expand(["data/b.jsonl"])
    reading = blocks(source)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert [stream.closed for stream in opened] == [True]


# ---- ranges


@settings(OFTEN, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=60)
    | st.lists(st.sampled_from([b"\n", b"ab", b"c" * 30])).map(b"".join),
    size=st.integers(1, 70),
    block_size=st.integers(1, 20),
)
def test_ranges_hold_the_lines_of_the_file(
    tmp_path: Path, data: bytes, size: int, block_size: int
) -> None:
    source = put(tmp_path / "x.jsonl", data)
    cuts = ranges(source, size=size)
    edges = [start for start, _ in cuts], [end for _, end in cuts]
    assert [*edges[0], len(data)] == [0, *edges[1]]
    parts = [rows(blocks(source, start=a, end=b, block_size=block_size)) for a, b in cuts]
    assert all(part and part[0][0] == 1 for part in parts)
    assert [line for part in parts for _, line in part] == [
        line for _, line in rows(blocks(source))
    ]


def test_ranges(tmp_path: Path) -> None:
    def cut(data: bytes, size: int) -> list[tuple[int, int]]:
        return ranges(put(tmp_path / "x.jsonl", data), size=size)

    assert cut(b"", 5) == []
    assert cut(b"aaaa\n", 5) == [(0, 5)]
    assert cut(b"aaaa\nbbbb\n", 5) == [(0, 5), (5, 10)]
    assert cut(b"aaaa\nbbbb", 6) == [(0, 9)]
    assert cut(b"a" * 200_000 + b"\nb\nc", 10) == [(0, 200_001), (200_001, 200_004)]
    assert cut(b"a\nb\nc", 1) == [(0, 2), (2, 4), (4, 5)]
    with pytest.raises(ValueError, match="at least 1"):
        cut(b"", 0)


def test_what_cannot_be_divided(tree: Path) -> None:
    (source,) = expand(["data/sub/d.jsonl.gz"])
    assert ranges(source, size=1) == []
    with pytest.raises(ValueError, match="cannot be read in parts"):
        list(blocks(source, start=0, end=3))
