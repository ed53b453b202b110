"""SPEC.md of every dialect: its fenced examples are run, and its table of coverage names things
that exist.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_spec import Dialect
from mypt_spec.dialect import grammar_root
from mypt_spec.findings import Finding
from mypt_spec.lexer import lex_ids
from mypt_spec.table import END
from tests.support.checked import check_generation
from tests.support.vectors import HERE, load

ROOT = grammar_root().parent
TESTS = HERE.parent
SPECS = sorted(grammar_root().glob("*/SPEC.md"))
KINDS = {"text", "json", "ids", "generation", "automaton", "loss"}
_FENCE = re.compile(r"^```(?P<info>[^\n]+)\n(?P<body>.*?)\n```$", re.MULTILINE | re.DOTALL)


def dialect_of(path: Path) -> Dialect:
    return mypt_spec.dialect(path.parent.name.replace("_", "-"))


def fences() -> list[Any]:
    """Every fence with an info string, as `(dialect, words, body)`.

    A fence without one is a picture.
    """
    out = []
    for path in SPECS:
        text = path.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            row = text.count("\n", 0, match.start()) + 1
            name = f"{path.parent.name} {row} {match['info']}"
            words = match["info"].split()
            out.append(pytest.param(dialect_of(path), words, match["body"], id=name))
    return out


def findings_of(
    d: Dialect, kind: str, body: str, limits: mypt_spec.Limits
) -> tuple[mypt_spec.Episode | None, list[Finding]]:
    if kind == "generation":
        items = check_generation(Checker(d, limits), body, filename="x.txt")
        return None, [item.finding for item in items]
    if kind == "ids":
        return d.parse_ids([int(word) for word in body.split()])
    episode, findings = d.parse(body) if kind == "text" else d.read(json.loads(body))
    if episode is not None:
        findings = findings + d.validate(episode, limits=limits)
    return episode, findings


@pytest.mark.parametrize(("d", "words", "body"), fences())
def test_fence(d: Dialect, words: list[str], body: str) -> None:
    kind, *rest = words
    assert kind in KINDS
    if kind in ("automaton", "loss"):
        {"automaton": check_automaton, "loss": check_loss}[kind](d, body)
        return
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    plain = [word for word in rest if "=" not in word]
    limits = mypt_spec.Limits(phase=int(options["phase"]) if "phase" in options else None)
    episode, findings = findings_of(d, kind, body, limits)
    if plain[0] == "invalid":
        assert [f.code for f in findings] == plain[1:]
        return
    assert plain == (["record"] if kind == "json" else ["valid"])
    assert findings == []
    if kind == "generation":
        return
    assert episode is not None
    if kind == "json":
        assert json.dumps(d.write(episode)) == json.dumps(json.loads(body))
    if kind == "text":
        assert body in {d.serialize(episode, layout=name) for name in d.table.layouts}
    assert d.parse(d.serialize(episode)) == (episode, [])


def check_automaton(d: Dialect, body: str) -> None:
    """Rows `read -> next`;

    `...` is the shortest way to a state in which the next terminal is legal.
    """
    machine = d.automaton
    rows = body.split("\n")
    assert rows
    for row in rows:
        before, _, after = row.partition("->")
        words = before.split()
        state = machine.start
        if words[0] == "...":
            reached = [machine.start]
            for here in reached:
                reached += [n for _, n in sorted(machine.steps[here].items()) if n not in reached]
            state = next(s for s in reached if words[1] in machine.allowed(s))
            words = words[1:]
        for name in words if words != ["(nothing)"] else []:
            state = machine.step(state, name)
        assert machine.expected(state) == set(after.split()), row
        assert (END in after.split()) == machine.accepting(state)


def check_loss(d: Dialect, body: str) -> None:
    """Rows `loss token`, for all tokens of one conversation."""
    rows = [(int(line[0]), line[2:]) for line in body.split("\n")]
    episode, findings = d.parse("".join(text for _, text in rows))
    assert findings == []
    assert episode is not None
    encoded = d.encode(episode)
    assert "Segment" not in repr(encoded)  # at a prompt of Python, pages of what it was made from
    texts = [d.tokenizer.decode([i]) for i in encoded.ids.tolist()]
    assert list(zip(encoded.loss.tolist(), texts, strict=True)) == rows


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.parent.name)
def test_there_are_examples_of_both_kinds(path: Path) -> None:
    infos = [match["info"] for match in _FENCE.finditer(path.read_text(encoding="utf-8"))]
    assert sum("invalid" in info for info in infos) >= 5
    assert sum("invalid" not in info for info in infos) >= 5


def test_every_dialect_is_specified() -> None:
    tables = grammar_root().glob("*/tokens.toml")
    assert {path.parent for path in SPECS} == {path.parent for path in tables}


# A chat dialect is data alone: at most 121 lines of grammar, tokens.toml and records.toml, without
# comments and blank lines, or more for a reason.
MOST = 121
LONGER = {"harmony": 200}  # eight more spellings of a call, texts of two built-in tools


def test_a_chat_dialect_is_small() -> None:
    for path in grammar_root().glob("*/records.toml"):
        files = [*path.parent.glob("*.lark"), *path.parent.glob("*.toml")]
        lines = [line.strip() for file in files for line in _said(file).split("\n")]
        assert len([line for line in lines if line]) <= LONGER.get(path.parent.name, MOST), path


def _said(file: Path) -> str:
    """Returns a file without its comments; in a text of several lines there are none."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".lark":
        return re.sub(r"(?m)^\s*//.*", "", text)
    return re.sub(r'(""".*?""")|^\s*#[^\n]*', r"\1", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.parent.name)
def test_coverage_names_things_that_exist(path: Path) -> None:
    """Each statement of the specification names what does it, and the test or vector that holds it."""
    table = path.read_text(encoding="utf-8").rpartition("| Statement |")[2]
    rows = [line for line in table.split("\n")[2:] if line.startswith("|")]
    assert rows, f"{path} has no table of coverage"
    for row in rows:
        _, where, holder = (cell.strip().strip("`") for cell in row.strip("|").split("|"))
        assert (ROOT / where).is_file(), row
        file, _, name = holder.partition("::")
        if name:
            assert name in functions_in(file), row
        else:
            kind, _, name = holder.partition(": ")
            assert name in {v["name"] for v in load(HERE / path.parent.name, kind)}, row


@cache
def functions_in(file: str) -> set[str]:
    """Returns the names of the functions in a file of tests, which has this name alone."""
    found = list(TESTS.rglob(file))
    assert len(found) == 1, f"a table of coverage names {file}, which must be one file: {found}"
    (path,) = found
    return set(re.findall(r"^def (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))


# --- statements that no vector can hold


def test_ids_that_stand_for_nothing() -> None:
    d = mypt_spec.dialect("mypt")
    episode, _ = d.parse(
        "<myPT_system>S</myPT_system><myPT_user>u</myPT_user><myPT_assistant>a</myPT_assistant><myPT_eot>"
    )
    assert episode is not None
    whole = d.encode(episode).ids.tolist()
    assert d.parse_ids(whole)[1] == []
    for number in (50256, *range(50276, 50304), 50304, -1, 2**40):
        episode, findings = d.parse_ids([*whole[:2], number, *whole[2:]])
        assert episode is None
        assert [(f.code, f.span) for f in findings] == [("MYP503", (2, 3))]
    large = 10**5000
    strange = [math.nan, math.inf, None, "5", 5.0, np.float64(5), np.ma.masked, np.array([5]), large, -large]  # fmt: skip
    for item in strange:
        episode, findings = d.parse_ids([*whole[:2], item, *whole[2:]])  # type: ignore[list-item]
        assert episode is None
        assert [(f.code, f.span) for f in findings] == [("MYP503", (2, 3))], item
        assert len(findings[0].message) < 200
    masked = np.ma.array(whole, mask=[i == 2 for i in range(len(whole))])
    for ids, spans in [
        (masked, [(2, 3)]), (np.array([whole, whole]), [(0, 1), (1, 2)]),
        (None, [(0, 1)]), (np.array(3.5), [(0, 1)]),
    ]:  # fmt: skip
        refused = [f for f in d.parse_ids(ids)[1] if f.code == "MYP503"]  # type: ignore[arg-type]
        assert [f.span for f in refused] == spans


def test_places_among_ids_count_tokens() -> None:
    d = mypt_spec.dialect("mypt")
    special, tokens = d.tokenizer.special, d.tokenizer
    ids = [special["<myPT_user>"], *tokens.encode("Say it"), special["</myPT_user>"], 50275]
    events, findings = lex_ids(ids, d.table, tokens.decode_bytes, tokens.ordinary)
    assert findings == []
    assert [event.at.span for event in events] == [(0, 1), (1, 3), (3, 4), (4, 5)]


@pytest.mark.parametrize(
    "d", [pytest.param(mypt_spec.dialect(name), id=name) for name in mypt_spec.dialects()]
)
def test_text_never_becomes_a_tag(d: Dialect) -> None:
    for tag in d.table.special:
        for text in (tag, f"x{tag}y", f" {tag}\n", tag * 2):
            ids = d.tokenizer.encode(text)
            assert not set(ids) & set(d.tokenizer.special.values())
            assert d.tokenizer.decode(ids) == text
