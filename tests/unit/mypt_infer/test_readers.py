"""Title and text of files, in the encodings that they declare."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mypt_infer.workspace.readers import Unreadable, decoded, read


@pytest.mark.parametrize(
    ("name", "head", "text", "encoding"),
    [
        ("a.html", '<meta charset="iso-8859-1">', "Größe – “x”", "cp1252"),
        ("a.html", '<META http-equiv="Content-Type" content="text/html; charset=windows-1252">', "naïve €", "cp1252"),
        ("a.html", "<meta charset=Shift_JIS>", "有給休暇", "shift_jis"),
        ("a.html", "<meta charset='EUC-JP'>", "有給休暇", "euc_jp"),
        ("a.html", "<meta charset=iso-2022-jp>", "有給休暇", "iso2022_jp"),
        ("a.html", "<meta charset=gb2312>", "密码", "gb18030"),
        ("a.html", "<meta charset=latin1>", "Größe", "utf-8"),
        ("a.xml", "<?xml version='1.0' encoding='KOI8-R'?>", "пароль", "koi8-r"),
        ("a.py", "#!/usr/bin/python\n# -*- coding: latin-1 -*-\n", "größe", "latin-1"),
        ("a.txt", "# vim: set fileencoding=cp1251 :\n", "пароль", "cp1251"),
        ("a.txt", "\ufeff", "größe", "utf-16-le"),
    ],
)  # fmt: skip
def test_what_a_file_declares_is_read(name: str, head: str, text: str, encoding: str) -> None:
    assert read(name, f"{head}\n{text}\n".encode(encoding)).text.strip().endswith(text)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("größe".encode("latin-1"), "not text in UTF-8 (byte 2)"),
        (b"<meta charset=utf-7>\xff", "not text in UTF-8 (byte 20)"),
        (b"<meta charset=rot13>\xff", "not text in UTF-8 (byte 20)"),
        (b"<meta charset=nonsense>\xff", "not text in UTF-8"),
        (b"<meta charset=shift_jis>\x81", "not text in cp932, as declared (byte 24)"),
        (b"x " * 600 + b"<meta charset=latin1>\xff", "not text in UTF-8"),
        (b"\xff\xfea", "not text in utf-16, as declared"),
        (b"a\0b", "not text: it holds zero bytes"),
        (b" \n", "empty"),
    ],
)
def test_what_is_not_declared_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable) as error:
        read("a.html", data)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.md", "A line alone\n\nMore.\n", "A line alone"),
        ("a.md", "A line alone\n \t\nMore.\n", "A line alone"), ("a.md", "A line\n\n# Heading\n", "Heading"),
        ("a.md", "---\ntitle: 'Named'\n---\n# Heading\n", "Named"),
        ("a.md", "---\nlang: en\n---\n\nA line alone\n\nMore.\n", "A line alone"),
        ("a.md", "```\n# no heading\n```\n\nMore.\n", "a"), ("a.txt", "A line alone\n\nMore.\n", "A line alone"),
        ("a.txt", "Two lines\nof one paragraph.\n\nMore.\n", "a"), ("a.txt", "Nothing follows\n\n", "a"),
    ],
)  # fmt: skip
def test_titles(name: str, text: str, title: str) -> None:
    assert read(name, text.encode()).title == title


def test_utf8_comes_before_a_declaration() -> None:
    assert decoded("<meta charset=latin1>Größe".encode()).endswith("Größe")


def test_a_broken_pdf_is_named_and_the_library_says_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pypdf")
    with caplog.at_level(logging.CRITICAL), pytest.raises(Unreadable, match="cannot be read"):
        read("a.pdf", b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n")
    assert capfd.readouterr() == ("", "")


def test_hard_links_are_files_like_others(tmp_path: Path) -> None:
    from mypt_infer.workspace.files import FileContent, Tree

    (tmp_path / "docs").mkdir()
    (tmp_path / "outside.txt").write_text("text")
    (tmp_path / "docs" / "a.txt").hardlink_to(tmp_path / "outside.txt")
    with Tree(tmp_path / "docs") as tree:
        found = tree.read("a.txt")
    assert isinstance(found, FileContent)
    assert found.data == b"text"
