"""A line without an error is written by mypt-prepare with the same options, and no other line is."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.own_format.walks import Walks
from mypt_lint.check.from_settings import checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.settings.settings import NO_SETTINGS
from mypt_spec.dialect import load
from mypt_train.data.encode_line import Encoder
from mypt_train.data.formats.options import Options
from mypt_train.data.unit_files import REFUSED
from tests.support.examples import examples
from tests.support.lines import any_line
from tests.support.maker import RANDOMS, Record, drawn, line
from tests.support.own_folders import (
    GABGPT_RECORDS,
    MYPT_RECORDS,
    TOY_RECORDS,
    write_bare_calls,
    write_folder,
)
from tests.support.strategies import DIALECTS

HISTORIES = ("keep", "official")


@cache
def folders() -> tuple[str, ...]:
    into = Path(mkdtemp())
    rows = (("toy", TOY_RECORDS), ("mypt", MYPT_RECORDS), ("gabgpt", GABGPT_RECORDS))
    own = [write_folder(into, name, records) for name, records in rows]
    return tuple(f"{path}/" for path in (*own, write_bare_calls(into)))


@cache
def judges(name: str, history: str) -> tuple[FastChecker, Encoder]:
    dialect = mypt_spec.dialect(name)
    options = Options(dialect=name, context_length=1 << 20, pack=False, history=history)
    return FastChecker(checker(NO_SETTINGS, dialect, with_fixes=False)), Encoder(options)


def agree(name: str, history: str, lines: list[bytes]) -> None:
    linter, encoder = judges(name, history)
    outcomes = encoder.lines(lines)
    for row, (raw, outcome) in enumerate(zip(lines, outcomes, strict=True), 1):
        found = linter.block(raw + b"\n", row=row, filename="x")[1]
        errors = {
            d.finding.code for _, each in found for d in each if d.finding.severity == "error"
        }
        refused = {f.code for f in outcome.findings} if outcome.status == REFUSED else set()
        assert refused == errors, raw


@pytest.mark.parametrize("name", [n for n in DIALECTS if not mypt_spec.dialect(n).table.required])
@given(data=st.data())
@settings(max_examples=examples(60))
def test_of_the_dialects(name: str, data: st.DataObject) -> None:
    history = data.draw(st.sampled_from(HISTORIES))
    raw = data.draw(st.lists(drawn(lambda random: any_line(random, name)), min_size=1, max_size=6))
    agree(name, history, [one for one in raw if b"\n" not in one and not _is_blank(one)])


def _is_blank(line: bytes) -> bool:
    """Returns whether a line is one that lint warns of and prepare leaves out (MYP011)."""
    return not line.decode("utf-8", "replace").strip()


def _texts(name: str) -> list[str]:
    """Returns texts that may join with the tags beside them, and plain ones."""
    table = mypt_spec.dialect(name).table
    pieces = {p.value for t in table.terminals.values() for p in t.spelling if p.kind != "attr"}
    halves = {p[:n] for p in pieces for n in (1, len(p) // 2, len(p) - 1)}
    return sorted({*pieces, *halves, "Hi.", '{"a": 1}', '{"a": {}}', "x}", " ", ""})


@cache
def samples(name: str) -> list[Record]:
    """Returns records of a folder; not every episode has one."""
    dialect, records = load(name), []
    for episode in Walks(dialect, Random(0)).episodes(100)[0]:
        with suppress(ValueError):
            records.append(dialect.write(episode))
    return records


@pytest.mark.parametrize("number", range(4))
@given(random=RANDOMS)
@settings(max_examples=examples(100))
def test_of_own_folders(number: int, random: Random) -> None:
    """Texts are pieces of tags, which spell others together with the tags beside them."""
    name = folders()[number]
    texts, lines = _texts(name), []
    for _ in range(4):
        record = deepcopy(random.choice(samples(name)))
        for message in record["messages"]:
            if isinstance(message.get("content"), str) and random.random() < 0.7:
                message["content"] = "".join(random.choices(texts, k=random.randint(1, 3)))
        lines.append(line(random, record))
    agree(name, random.choice(HISTORIES), lines)
