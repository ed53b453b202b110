"""A dialect is a folder anywhere: grammar, token table, and records declared as data or as code."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import mypt_spec
from mypt_convert.bridges import bridge_of
from mypt_infer.stream_parser import StreamParser
from mypt_spec import SpecError
from mypt_spec.dialect import (
    _bare_of,
    _loaded,
    _registered,
    copied_to,
    dialect,
    folder,
    load,
    registered,
)
from tests.support.build import assistant, chat, message, system, tool, user
from tests.support.own_folders import (
    GABGPT_RECORDS,
    MYPT_RECORDS,
    TOY,
    TOY_RECORDS,
    write_bare_calls,
    write_folder,
)
from tests.support.vectors import HERE, KINDS
from tests.support.vectors import load as load_vectors
from tests.toy.adapter import ADAPTER
from tests.toy.records import RECORDS

# The table of the toy, with a name that is taken.
NAMED_MYPT = (TOY / "tokens.toml").read_text(encoding="utf-8").replace('"toy"', '"mypt"', 1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("own")
    for name, records in (("toy", TOY_RECORDS), ("mypt", MYPT_RECORDS), ("gabgpt", GABGPT_RECORDS)):
        write_folder(into, name, records)
    return into


@given(RECORDS)
def test_declared_records_are_read_as_an_adapter_reads_them(
    folders: Path, record: dict[str, Any]
) -> None:
    declared, coded = dialect(f"{folders}/my_toy"), load(TOY, ADAPTER)
    episode, findings = declared.read(record)
    other, same = coded.read(record)
    assert findings == same
    assert episode is not None
    assert other is not None
    assert episode.messages == other.messages
    assert declared.write(episode) == coded.write(other)


@pytest.mark.parametrize("name", ["mypt", "gabgpt"])
def test_declared_records_hold_what_the_format_holds(folders: Path, name: str) -> None:
    """Texts of the format become declared records, and come back."""
    own, usual = dialect(f"{folders}/my_{name}"), mypt_spec.dialect(name)
    count = 0
    for vector in (vector for kind in KINDS for vector in load_vectors(HERE / name, kind)):
        text = vector.get("text")
        episode = usual.parse(text)[0] if isinstance(text, str) else None
        if episode is None or usual.validate(episode):
            continue
        mine, _ = own.parse(text)
        assert mine is not None
        try:
            record = own.write(mine)
        except ValueError:  # parts in another order than the keys say
            continue
        assert own.read(record) == (mine, [])
        assert own.serialize(mine) == usual.serialize(episode)
        one, other = own.encode(mine), usual.encode(episode)
        assert one.ids.tolist() == other.ids.tolist()
        assert one.loss.tolist() == other.loss.tolist()
        count += 1
    assert count >= 5


def test_a_call_is_a_message_with_name_and_arguments(folders: Path) -> None:
    own = dialect(f"{folders}/my_mypt")
    record = chat(
        system("Tools:\n- f(a) - x"), user("q?", context="Doc"),
        {"role": "call", "think": "hm", "name": "f", "arguments": {"a": 1}},
        tool({"ok": [1]}), assistant("So.", think="so", cite="Doc", _n=1),
    )  # fmt: skip
    episode, findings = own.check(record)
    assert findings == []
    assert episode is not None
    assert own.write(episode) == record
    assert '<myPT_toolcall>{"name": "f", "a": 1}</myPT_toolcall>' in own.serialize(episode)


def test_other_names_of_roles_are_repaired(folders: Path) -> None:
    record = chat(message("human"), message("gpt"))
    _, findings = dialect(f"{folders}/my_gabgpt").check(record)
    assert [f.code for f in findings] == ["MYP109", "MYP109"]


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ("[[message]", "not TOML"),
        ("", "[[message]]: expected a table for each role"),
        ("roles = 1", "unknown key roles; known are begin, message, messages"),
        ("[[message]]\nblock = 'ask'", 'it has no "role"'),
        ("[[message]]\nrole = 'user'", "no block 'user'; blocks are ask, answer, work"),
        ("[[message]]\nrole = 'ask'\nend = 'eot'", "no mark 'eot'; marks are stop"),
        ("[[message]]\nrole = 'ask'\nkey = 'x'", "unknown key key"),
        ("[[message]]\nrole = 'ask'\nkeys = 'x'", '"keys" must be a list of strings'),
        ("[[message]]\nrole = 'ask'\nend = 1", '"end" must be str'),
        ("[[message]]\nrole = 'ask'\nkeys = ['thought']", "no block 'thought'"),
        ("[[message]]\nrole = 'ask'\noptional = ['work']", "'work' is not among its \"keys\""),
        ("[[message]]\nrole = 'ask'\n[[message]]\nrole = 'ask'", "occurs twice"),
    ],
)
def test_a_wrong_declaration_is_named(tmp_path: Path, records: str, says: str) -> None:
    own = write_folder(tmp_path, "toy", records)
    with pytest.raises(SpecError) as caught:
        load(own)
    assert str(own / "records.toml") in str(caught.value)
    assert says in str(caught.value)


def test_code_beside_the_grammar(tmp_path: Path) -> None:
    own = write_folder(tmp_path, "toy", None)
    shutil.copy(TOY / "adapter.py", own)
    record = chat(message("ask"), message("answer"))
    assert load(own).check(record)[1] == []
    (own / "records.toml").write_text(TOY_RECORDS)
    with pytest.raises(SpecError, match=r"records.toml and adapter.py both say"):
        load(own)
    (own / "records.toml").unlink()
    (own / "adapter.py").write_text("ADAPTER = 1")
    with pytest.raises(SpecError, match="has no ADAPTER"):
        load(own)


def test_a_copy_never_brings_code(tmp_path: Path) -> None:
    own = write_folder(tmp_path, "toy", None)
    shutil.copy(TOY / "adapter.py", own)
    source, copy = load(own), tmp_path / "copy"
    copy.mkdir()
    for name, content in source.files.items():
        (copy / name).write_bytes(content)
    assert copied_to(copy) is not None
    again = mypt_spec.dialect(copied_to(copy) or "")
    assert (again.fingerprint, again.name) == (source.fingerprint, "my-toy")
    record = chat(message("ask"))
    assert [f.code for f in again.check(record)[1]] == ["MYP101"]
    (copy / "adapter.py").write_text("raise SystemExit('run')")
    with pytest.raises(SpecError, match="is not run; remove it"):
        copied_to(copy)


def test_a_model_is_no_format(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SpecError, match=f"found none; it is a model: mypt-lint derive {tmp_path}"):
        mypt_spec.dialect(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("tokens.toml", None, "cannot be read"),
        ("toy.lark", None, "expected my_toy.lark or one other .lark file, found none"),
        ("b.lark", "x", "found b.lark, toy.lark"),
        ("toy.lark", b"\xff", "is not UTF-8"),
        ("toy.lark", "start: a", "does not define: Rule 'a'"),
        ("toy.lark", "start: STOP start? TEXT\n%declare STOP TEXT", "does not close"),
        ("toy.lark", "start: STOP\n%declare STOP", "never uses it"),
        ("tokens.toml", f"x = {'[' * 10_000}", "not TOML"),
        ("records.toml", f"x = {'[' * 10_000}", "not TOML"),
        ("toy.lark", b"//" + bytes(17 << 20), "must be a regular file of at most 16,777,216 bytes"),
        ("", None, "is not a folder"),
        ("tokens.toml", NAMED_MYPT, "'mypt' is the name of a dialect of mypt-tags"),
    ],
)
def test_a_wrong_folder_is_named(
    tmp_path: Path, file: str, text: str | bytes | None, says: str
) -> None:
    own = write_folder(tmp_path, "toy", TOY_RECORDS)
    if text is not None:
        (own / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    elif file:
        (own / file).unlink()
    else:
        shutil.rmtree(own)
    with pytest.raises(SpecError) as caught:
        load(own)
    assert says in str(caught.value)
    assert str(own) in str(caught.value)


THIRD = """
[[terminal]]
name = "NOTE_OPEN"
spelling = [{ special = "<<note>>" }]
opens = "note"
doc = "Opens a note."

[[terminal]]
name = "NOTE_CLOSE"
spelling = [{ special = "<</note>>" }]
closes = "note"
"""


def test_a_table_has_the_rows_of_the_one_that_it_is_like(tmp_path: Path) -> None:
    """A copy beside data has them all, so that it needs no other table."""
    own, copy = tmp_path / "own", tmp_path / "copy"
    own.mkdir()
    copy.mkdir()
    head = (
        '[dialect]\nlike = "chatml"\nname = "own"\ntitle = "T"\ndoc = "D"\nturn_opener = "user"\n'
    )
    row = '[[terminal]]\nname = "USER_OPEN"\nspelling = [{ special = "<|q|>" }]\nopens = "user"\ndoc = "D"\n'
    (own / "tokens.toml").write_text(f"# A comment.\n\n{head}\n{row}")
    (own / "records.toml").write_bytes((folder("chatml") / "records.toml").read_bytes())
    d, record = load(own), chat(system("S"), user("q"), assistant("a"))
    episode, findings = d.check(record)
    assert episode is not None
    assert findings == []
    start, end = "<|im_start|>", "<|im_end|>\n"
    text = f"{start}system\nS{end}<|q|>q{end}{start}assistant\na{end}"
    assert d.serialize(episode) == text
    for name, content in d.files.items():
        (copy / name).write_bytes(content)
    assert "\nlike = " not in (copy / "tokens.toml").read_text()
    assert load(copy).fingerprint == d.fingerprint
    (own / "tokens.toml").write_text(head.replace("chatml", "qwen3"))
    (own / "records.toml").write_bytes((folder("qwen3") / "records.toml").read_bytes())
    assert load(own).table.history == dialect("qwen3").table.history  # a row after a comment
    (own / "tokens.toml").write_text(head.replace("chatml", "chatmi"))
    with pytest.raises(SpecError, match="\"like\" names no dialect: 'chatmi'"):
        load(own)


@pytest.mark.parametrize(
    ("rule", "row", "says"),
    [
        (
            "work: WORK_OPEN (TEXT | NOTE_OPEN TEXT+ NOTE_CLOSE)+ WORK_CLOSE",
            THIRD,
            "NOTE_OPEN: opens 'note' inside 'work', which is inside 'answer'",
        ),
        (
            "work: (WORK_OPEN | NOTE_OPEN) TEXT+ WORK_CLOSE",
            THIRD.partition("\n\n")[0].replace('"note"', '"work"'),
            "WORK_OPEN: opens 'work', as NOTE_OPEN does",
        ),
        (
            "work: WORK_OPEN TEXT+ (WORK_CLOSE | NOTE_CLOSE)",
            THIRD.partition("\n\n")[2].replace('"note"', '"work"'),
            "WORK_CLOSE: closes 'work', as NOTE_CLOSE does",
        ),
    ],
)
def test_what_no_record_could_say_is_refused_when_it_is_loaded(
    tmp_path: Path, rule: str, row: str, says: str
) -> None:
    """A third block, which no part holds; two ways to write a block, of which one is never taken."""
    own = write_folder(tmp_path, "toy", TOY_RECORDS)
    grammar, table = own / "toy.lark", own / "tokens.toml"
    names = " ".join(name for name in ("NOTE_OPEN", "NOTE_CLOSE") if name in rule)
    text = grammar.read_text().replace("work: WORK_OPEN TEXT+ WORK_CLOSE", rule)
    grammar.write_text(text.replace("%declare", f"%declare {names}"))
    table.write_text(table.read_text() + row)
    with pytest.raises(SpecError) as caught:
        load(own)
    assert says in str(caught.value)
    assert str(own / "tokens.toml") in str(caught.value)


def test_a_closing_tag_that_begins_with_text_is_read_in_its_block_alone(tmp_path: Path) -> None:
    own = load(write_bare_calls(tmp_path))
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    record = chat(
        user("q"), {"role": "assistant", "tool_calls": [call]}, tool("4"), assistant('{"a": 1}')
    )
    episode, findings = own.check(record)
    assert findings == []
    assert episode is not None
    text = own.serialize(episode)
    assert '{"name": "f", "parameters": {"a": 1}}<|eot_id|>' in text
    assert own.parse(text) == (episode, [])
    ids = own.encode(episode).ids
    assert own.parse_ids(ids) == (episode, [])
    parser = StreamParser(own)
    events = [piece.event for i in ids.tolist() for piece in parser.push(i)]
    events += [piece.event for piece in parser.flush()]
    names = [name for name, _ in groupby(e.terminal for e in events)]  # texts come in pieces
    assert names == [e.terminal for e in own.lex(text)]


def test_content_that_joins_with_a_tag_is_found_and_refused(tmp_path: Path) -> None:
    own = load(write_bare_calls(tmp_path))
    record = chat(user("q"), assistant('{"name": "f", "parameters": '))
    assert [f.code for f in own.check(record)[1]] == ["MYP301"]


def test_a_name_with_a_slash_is_a_folder(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    assert mypt_spec.dialect("./my_toy").name == "my-toy"
    assert mypt_spec.load("my_toy").spec == "my_toy/"
    assert mypt_spec.dialect(folders / "my_toy").folder == folders / "my_toy"
    with pytest.raises(KeyError, match=r"a folder has a slash: ./my_toy"):
        mypt_spec.dialect("my_toy")
    with pytest.raises(SpecError, match=r"dialect\('usf-omega'\) is that of this name"):
        mypt_spec.load("usf-omega")


@pytest.fixture
def installed(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of packages, one of which registers its folder, as pip installs it."""
    place = tmp_path
    shutil.copytree(folders / "my_toy", place / "someone" / "formats")
    records = TOY_RECORDS.replace('"ask"', '"ask"\naliases = ["user"]')
    records = records.replace('"answer"', '"answer"\naliases = ["assistant"]')
    (place / "someone" / "formats" / "records.toml").write_text(records)
    about = place / "someone-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: someone\nVersion: 1.0\n")
    points = ["my-toy = someone.formats", "gone = someone.gone", "lost = nobody.formats"]
    points.append("other-name = someone.formats")
    (about / "entry_points.txt").write_text("\n".join(["[mypt_spec.dialects]", *points]))
    monkeypatch.syspath_prepend(str(place))
    # Of this test alone: other tests count on meeting the same dialect again.
    for function in (_registered, _bare_of, _loaded):
        module = sys.modules[function.__module__]
        monkeypatch.setattr(module, function.__name__, cache(function.__wrapped__))
    yield place
    sys.modules.pop("someone", None)


@pytest.mark.parametrize("module", [True, False])
def test_dialects_of_other_packages(installed: Path, module: bool) -> None:
    """Their folders need no `__init__.py`; who looks for names learns theirs."""
    if module:
        (installed / "someone/__init__.py").touch()
        (installed / "someone/formats/__init__.py").touch()
        importlib.invalidate_caches()
    assert folder("my-toy") == installed / "someone/formats"
    assert mypt_spec.dialect("my-toy").name == "my-toy"
    assert "my-toy" in registered()
    with pytest.raises(KeyError, match="my-toy"):
        folder("no-such-name")
    bridge = bridge_of("my-toy")
    assert sorted(bridge.KINDS) == ["text", "user"]
    assert bridge == bridge_of(f"{installed}/someone/formats/")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gone", "someone registers it as someone.gone, which is not installed"),
        ("lost", "someone registers it as nobody.formats, which is not installed"),
        ("other-name", "tokens.toml calls it 'my-toy', the package 'other-name'"),
    ],
)
def test_a_package_without_its_folder_is_named(installed: Path, name: str, why: str) -> None:
    with pytest.raises(SpecError, match=re.escape(why)):
        mypt_spec.dialect(name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("file", ["tokens.toml", "toy.lark"])
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path, file: str) -> None:
    own = write_folder(tmp_path, "toy", TOY_RECORDS)
    (own / file).unlink()
    os.mkfifo(own / file)
    with pytest.raises(SpecError, match=f"{file}: must be a regular file"):
        load(own)
