"""Inputs cut anywhere: each line is in exactly one piece."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt_cli.jsonl.compression import FileReader
from mypt_train.scale.planning.pieces import Input, Piece, piece_blocks

CONTENTS = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r\n", b"line\n"])).map(b"".join)


def lines(source: Input, ends: list[int]) -> list[bytes]:
    """Returns the lines of all pieces, which end at `ends`."""
    pieces = [Piece(0, start, end) for start, end in zip([0, *ends], ends, strict=False)]
    return [line for p in pieces for block in piece_blocks(source, p) for line in block.lines()]


@given(CONTENTS, st.lists(st.integers(0, 40)))
def test_each_line_is_in_one_piece(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, at: list[int]
) -> None:
    cuts = sorted({n for n in at if 0 < n < len(whole)} | ({len(whole)} if whole else set()))
    path = tmp_path_factory.getbasetemp() / "cut-anywhere"
    path.write_bytes(whole)
    source = Input(str(path), path.stat().st_size, "lines")
    want = whole.split(b"\n")
    assert lines(source, cuts) == (want if want[-1] else want[:-1])


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
