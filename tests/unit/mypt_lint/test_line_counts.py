"""Lines count as clean or faulty by what is wrong with them, not with their file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mypt.lint.cli import main
from tests.support.build import native, write


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "cut off"])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_a_repeated_last_line_is_faulty_with_or_without_its_end(
    copies: int, ended: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(write(tmp_path / "x.jsonl", *[native()] * copies))
    path.write_bytes(path.read_bytes() if ended else path.read_bytes().rstrip())
    main(["--no-config", "--data-set", "--format", "jsonl", str(path)])
    *_, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (summary["clean"], summary["faulty"]) == (1, copies - 1)


def test_metadata_of_a_file_leaves_its_lines_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(
        tmp_path / "x.jsonl",
        *[native(str(i), origin="s") for i in range(4)],
        native("1", origin="s"),
    )
    main(["--no-config", "--data-set", "--format", "jsonl", path])
    *_, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (summary["clean"], summary["faulty"]) == (4, 1)
