"""The vectors of every dialect against the front door."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mypt_spec
from mypt_spec import Dialect
from mypt_spec.table import TEXT
from tests.support import naive_gpt2
from tests.support.vectors import (
    KINDS,
    Vector,
    cases,
    dialect_of,
    edited,
    folders,
    lengths,
    limits_of,
    load,
    patched,
    record_of,
    shown,
)


def ordered(value: object) -> str:
    """JSON text: equal only when keys are in the same order."""
    return json.dumps(value, ensure_ascii=False)


def read_clean(dialect: Dialect, record: object) -> mypt_spec.Episode:
    episode, findings = dialect.read(record)
    assert findings == []
    assert episode is not None
    assert dialect.validate(episode) == []
    return episode


def parse_clean(dialect: Dialect, text: str) -> mypt_spec.Episode:
    episode, findings = dialect.parse(text)
    assert findings == []
    assert episode is not None
    assert dialect.validate(episode) == []
    return episode


# --- the vectors themselves


def test_every_dialect_has_vectors() -> None:
    assert {dialect_of(folder).name for folder in folders()} == set(mypt_spec.dialects())


@pytest.mark.parametrize("folder", folders(), ids=lambda f: f.name)
def test_files_are_known_and_names_unique(folder: Path) -> None:
    assert {path.stem for path in folder.iterdir()} <= set(KINDS), "a file that no test reads"
    for kind in KINDS[:5]:
        vectors = load(folder, kind)
        assert vectors, f"{kind} has no vectors"
        names = [v["name"] for v in vectors]
        assert len(set(names)) == len(names)
        assert all(v["doc"].endswith((".", "?")) for v in vectors)


@pytest.mark.parametrize("folder", folders(), ids=lambda f: f.name)
def test_every_name_of_a_mistake_has_a_vector(folder: Path) -> None:
    invalid = [v for kind in ("invalid_records", "invalid_texts") for v in load(folder, kind)]
    codes = {finding[0] for v in invalid for finding in v["findings"]}
    assert {row.code for row in dialect_of(folder).table.mistakes} <= codes


# --- valid records


@pytest.mark.parametrize(("dialect", "vector"), cases("valid_records"))
def test_valid_record(dialect: Dialect, vector: Vector) -> None:
    """The record, its canonical form, its text and its ids all hold one episode."""
    episode = read_clean(dialect, vector["record"])
    check_canonical(dialect, vector, episode)
    for layout in dialect.table.layouts:
        assert dialect.serialize(episode, layout=layout) == vector[layout]
        assert parse_clean(dialect, vector[layout]) == episode
    encoded = dialect.encode(episode)
    assert encoded.ids.tolist() == vector["ids"]
    assert lengths(encoded.loss.tolist()) == vector["loss"]
    assert sum(count for _, count in vector["loss"]) == len(vector["ids"])
    assert dialect.parse_ids(vector["ids"]) == (episode, [])
    check_ids_by_the_vocabulary_files(dialect, vector)
    check_automaton(dialect, vector)


def check_canonical(dialect: Dialect, vector: Vector, episode: mypt_spec.Episode) -> None:
    canonical = vector.get("canonical", vector["record"])
    assert ordered(dialect.write(episode)) == ordered(canonical)
    again = read_clean(dialect, canonical)
    assert again == episode
    assert (again.language, again.meta) == (episode.language, episode.meta)
    assert ordered(dialect.write(again)) == ordered(canonical)


def check_ids_by_the_vocabulary_files(dialect: Dialect, vector: Vector) -> None:
    """Compares the ids with those found without tiktoken: tags by the table, text by a naive encoder.

    They return the same bytes.
    """
    ids: list[int] = []
    decoded = b""
    plain = ""
    for event in dialect.lex(vector["compact"]):
        pieces = [(TEXT, event.text)]
        terminal = dialect.table.terminals.get(event.terminal)
        if terminal is not None:
            pieces = [(p.kind, dict(event.attrs).get(p.value, p.value)) for p in terminal.spelling]
        # A run ends at a special piece, and where the model begins to write after the system.
        begins = terminal is not None and terminal.opens and terminal.loss != terminal.body_loss
        ends = [("special", "")] if not dialect.table.glue or begins else []
        ends = ends or ([("special", "")] if terminal is not None and terminal.trail else [])
        for kind, value in [*pieces, *ends]:
            if kind != "special":
                plain += value
                continue
            new = naive_gpt2.encode(plain)
            decoded += naive_gpt2.decode(new)
            ids += new
            plain = ""
            if value:
                ids.append(dialect.table.special[value])
                decoded += value.encode()
    assert vector["ids"] == ids
    assert decoded.decode() == vector["compact"]


def check_automaton(dialect: Dialect, vector: Vector) -> None:
    machine = dialect.automaton
    names = [event.terminal for event in dialect.lex(vector["compact"])]
    state = machine.start
    for name in names:
        assert name in machine.allowed(state)
        state = machine.step(state, name)
    assert machine.accepting(state)
    before = machine.run(names[:-1])
    assert before is not None
    assert not machine.accepting(before), "an episode without its last tag is complete"


# --- valid texts


@pytest.mark.parametrize(("dialect", "vector"), cases("valid_texts"))
def test_valid_text(dialect: Dialect, vector: Vector) -> None:
    """The text, its record and its ids all hold one episode, in each layout."""
    episode = parse_clean(dialect, vector["text"])
    assert dialect.serialize(episode, layout=vector["layout"]) == vector["text"]
    for layout in dialect.table.layouts:
        assert parse_clean(dialect, dialect.serialize(episode, layout=layout)) == episode
    assert ordered(dialect.write(episode)) == ordered(vector["record"])
    assert read_clean(dialect, vector["record"]) == episode
    assert dialect.parse_ids(dialect.encode(episode).ids) == (episode, [])


# --- invalid ones


@pytest.mark.parametrize(("dialect", "vector"), cases("invalid_texts"))
def test_invalid_text(dialect: Dialect, vector: Vector) -> None:
    episode, findings = dialect.parse(vector["text"])
    assert (episode is None) == any(f.severity == "error" for f in findings)
    if episode is not None:
        findings = findings + dialect.validate(episode, limits=limits_of(vector))
    assert shown(findings) == vector["findings"]
    assert findings, "an invalid text with nothing to say about it"
    if "readable" in vector:
        assert (episode is not None) == vector["readable"]
    if "fixed" in vector:
        assert all(f.fix is not None and f.fix.safe for f in findings)
        assert edited(vector["text"], findings) == vector["fixed"]
        parse_clean(dialect, vector["fixed"])
    else:
        assert not any(f.fix and f.fix.edits for f in findings), "a fix that no vector states"


@pytest.mark.parametrize(("dialect", "vector"), cases("invalid_records"))
def test_invalid_record(dialect: Dialect, vector: Vector) -> None:
    record = record_of(vector)
    episode, findings = dialect.read(record)
    if episode is not None:
        findings = findings + dialect.validate(episode, limits=limits_of(vector))
    assert shown(findings) == vector["findings"]
    assert findings, "an invalid record with nothing to say about it"
    if "readable" in vector:
        assert (episode is not None) == vector["readable"]
    if "fixed" in vector:
        fixed = patched(record, findings)
        assert fixed == vector["fixed"]
        assert all(f.fix is not None and f.fix.safe for f in findings)
        assert read_clean(dialect, fixed) == episode
    if "limits" in vector:
        read_clean(dialect, record)  # only its limits refuse it


# --- prefixes


@pytest.mark.parametrize(("dialect", "vector"), cases("prefix"))
def test_prefix(dialect: Dialect, vector: Vector) -> None:
    machine = dialect.automaton
    outcome = dialect.check_prefix(vector["text"])
    assert (outcome.findings == []) == vector["legal"]
    if not vector["legal"]:
        assert not vector["allowed"]
        assert not vector["accepting"]
        return
    assert sorted(machine.allowed(outcome.state)) == vector["allowed"]
    assert machine.accepting(outcome.state) == vector["accepting"]
    walked = machine.run(event.terminal for event in outcome.events)
    assert walked == outcome.state
    for name in {*dialect.table.terminals, TEXT} - set(vector["allowed"]):
        with pytest.raises(ValueError, match=name):
            machine.step(outcome.state, name)
