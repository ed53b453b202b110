"""Files that hold no JSON are named once, with what to do, and no command changes them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
import zstandard

from mypt.convert import main as convert
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
from tests.support.build import native, write

RECORD = json.dumps(native()).encode() + b"\n"
FILES = {
    "gzip": (gzip.compress(RECORD), "gzip data"),
    "zstandard": (zstandard.compress(RECORD), "zstandard data"),
    "zip": (b"PK\x03\x04" + RECORD, "a ZIP archive"),
    "bzip2": (bz2.compress(RECORD), "bzip2 data"),
    "xz": (lzma.compress(RECORD), "xz data"),
    "utf-32": (RECORD.decode().encode("utf-32"), "text in UTF-32"),
    "utf-32 without a mark": (RECORD.decode().encode("utf-32-le"), "text in UTF-32"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS"),
    "html": (b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>", "an HTML page"),
    "html without a type": (b"<HTML>\n<body>404</body>", "an HTML page"),
    "template": (b"{%- for m in messages %}{{ m.content }}{% endfor %}", "a chat template"),
    "template of one value": (b"\n{{ bos_token }}{{ messages[0].content }}", "a chat template"),
    "csv": (b"question,answer\n2+2,4\n", "a table of text"),
    "csv with row numbers": (b'"","Question","Answer"\r\n"1","2+2","4"\r\n', "a table of text"),
    "text": (b'Write tasks.\n\nLike:\n{"a": 1}\n\nMake them differ.\nWrite on.\n', "text"),
    "line ends in texts": (RECORD.replace(b"Hi", rb"\"Hi\"" + b"\n\nthere", 1), "line ends inside of its texts"),
    "text of blank lines": (b"Write tasks." + b"\n" * 50_000 + b"Like:\nthis\n", "text"),
    "tsv": (b'"instruction"\t"output"\n2+2\t4', "a table of text"),
}  # fmt: skip


@pytest.fixture(params=FILES)
def other(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, str]:
    """A file that holds no JSON, in the working folder, and what it is."""
    monkeypatch.chdir(tmp_path)
    content, what = FILES[request.param]
    path = Path("data.jsonl")
    path.write_bytes(content)
    return path, what


def test_one_finding_names_what_it_is(
    other: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path, what = other
    assert lint([str(path), "--no-config", "--format", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert (finding["code"], finding["location"]) == ("MYP017", {"row": 1, "column": 1})
    assert what in finding["message"]


def test_a_fix_leaves_it_alone_and_goes_on(
    other: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another file of the same run is fixed."""
    path, what = other
    before = path.read_bytes()
    good = Path(write("good.jsonl", native()))
    good.write_bytes(good.read_bytes().rstrip())
    assert lint([str(path), str(good), "--no-config", "--fix"]) == 1
    assert path.read_bytes() == before
    assert good.read_bytes().endswith(b"\n")
    assert f"data.jsonl: not fixed: the file is {what}"[:30] in capsys.readouterr().err


def test_no_other_command_reads_it(
    other: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path, what = other
    runs: dict[str, Any] = {
        "convert": (convert, ["--no-config", "-o", "out.jsonl", "--to", "praxis"]),
        "prepare": (prepare, ["--no-config", "--out", "out", "--on-error", "reject"]),
    }
    for name, (command, options) in runs.items():
        assert command([str(path), *options]) != 0, name
        assert what in capsys.readouterr().err, name


@pytest.mark.parametrize(
    "text", ["Hello, world\nand more\n", "q;\n", '"a", "b"\n', "1,2\n", '{"a": "b\n{"a": "c"}\n']
)
def test_texts_that_may_be_anything_are_read_as_lines(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    lint([str(path), "--no-config", "--format", "json"])
    codes = {finding["code"] for finding in json.loads(capsys.readouterr().out)}
    assert "MYP017" not in codes
