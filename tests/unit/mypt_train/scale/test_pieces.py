"""Inputs cut anywhere: each line is in exactly one piece."""

from __future__ import annotations

import gzip
import io
import struct
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mypt_cli.jsonl.compression import FileReader
from mypt_train.scale.planning.frames import gzip_members, zstd_frames
from mypt_train.scale.planning.pieces import Cut, Input, Piece, piece_blocks
from tests.support.packings import PACKER, bgzf, seekable

CONTENTS = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r\n", b"line\n"])).map(b"".join)


def lines(source: Input, ends: list[int]) -> list[bytes]:
    """Returns the lines of all pieces, which end at `ends`."""
    pieces = [Piece(0, start, end) for start, end in zip([0, *ends], ends, strict=False)]
    return [line for p in pieces for block in piece_blocks(source, p) for line in block.lines()]


@given(CONTENTS, st.lists(st.integers(0, 40)), st.booleans())
def test_each_line_is_in_one_piece(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, at: list[int], packed: bool
) -> None:
    cuts = sorted({n for n in at if 0 < n < len(whole)} | ({len(whole)} if whole else set()))
    parts = [whole[start:end] for start, end in zip([0, *cuts], cuts, strict=False)]
    cut: Cut = "lines"
    if packed:
        cut, parts = "frames", [PACKER.compress(part) for part in parts]
        cuts = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    path = tmp_path_factory.getbasetemp() / "cut-anywhere"
    path.write_bytes(b"".join(parts))
    source = Input(str(path), path.stat().st_size, cut, "zst" if packed else "")
    want = whole.split(b"\n")
    assert lines(source, cuts) == (want if want[-1] else want[:-1])


@pytest.mark.parametrize("check", [False, True])
def test_the_table_of_a_seekable_file_says_its_frames(check: bool) -> None:
    parts = [b"first\n" * 9, b"", b"second\n" * 300_000, b"last\n"]
    whole = seekable(parts, check)
    starts = zstd_frames(io.BytesIO(whole), len(whole), local=False)
    assert len(starts) == len(parts)
    assert zstd_frames(io.BytesIO(whole), len(whole), local=True) == starts
    assert zstd_frames(io.BytesIO(whole[:-9]), len(whole) - 9, local=False) == [0]
    ends = [*starts[1:], len(whole)]
    contents = [
        zstandard.ZstdDecompressor().decompressobj().decompress(whole[start:end])
        for start, end in zip(starts, ends, strict=True)
    ]
    assert contents == parts


def test_frames_of_all_kinds_are_walked() -> None:
    writer = zstandard.ZstdCompressor(
        level=3, write_checksum=True, write_content_size=False
    ).compressobj()
    streamed = writer.compress(b"x" * 400_000 + bytes(range(256)) * 999) + writer.flush()
    skipped = struct.pack("<II", 0x184D2A55, 3) + b"any"
    whole = skipped + streamed + PACKER.compress(b"") + skipped + PACKER.compress(b"end\n" * 99)
    starts = zstd_frames(io.BytesIO(whole), len(whole), local=True)
    assert starts[:2] == [0, len(skipped)]
    assert len(starts) == 4
    for damaged in (whole[:-1], whole[:-3], whole + b"?", whole + b"no frame, but long enough"):
        assert zstd_frames(io.BytesIO(damaged), len(damaged), local=True) == [0]


def test_members_of_bgzf_say_their_size() -> None:
    whole = bgzf([b"first\n", b"second\n", b""])
    assert gzip.decompress(whole) == b"first\nsecond\n"
    starts = gzip_members(io.BytesIO(whole), len(whole), local=True)
    assert starts == [0, len(bgzf([b"first\n"])), len(whole) - len(bgzf([b""]))]
    assert gzip_members(io.BytesIO(whole), len(whole), local=False) == [0]
    usual = gzip.compress(b"first\n") * 2
    assert gzip_members(io.BytesIO(usual), len(usual), local=True) == [0]
    assert gzip_members(io.BytesIO(whole[:-1]), len(whole) - 1, local=True) == [0]


def test_a_damaged_frame_refuses_lines_and_loses_none(tmp_path: Path) -> None:
    parts = [*map(PACKER.compress, (b"one\ntw", b"o\nthree\n" * 50, b"x"))]
    ends = [sum(map(len, parts[: n + 1])) for n in range(3)]
    broken = bytearray(b"".join(parts))
    broken[ends[0] + 7] ^= 0xFF
    path = tmp_path / "a.zst"
    path.write_bytes(broken)
    source = Input(str(path), len(broken), "frames", "zst")
    blocks = [
        list(piece_blocks(source, Piece(0, a, b))) for a, b in ((0, ends[0]), (ends[0], ends[1]))
    ]
    assert [b.lines() for b in blocks[0] if not b.broken] == [[b"one"]]
    assert [bool(some[-1].broken) for some in blocks] == [True, True]


def test_of_the_next_piece_only_the_beginning_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = tmp_path / "in.jsonl", list[int]()
    path.write_bytes(b"a line\n" * 300_000)
    real = FileReader.read

    def counted(self: FileReader, size: int) -> bytes:
        read.append(len(data := real(self, size)))
        return data

    monkeypatch.setattr(FileReader, "read", counted)
    source = Input(str(path), path.stat().st_size, "lines")
    assert sum(b.data.count(b"\n") for b in piece_blocks(source, Piece(0, 0, 1000))) == 143
    assert sum(read) < 1000 + (1 << 17)
