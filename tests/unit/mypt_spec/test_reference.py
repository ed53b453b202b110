"""Every example, table and rule of the tag reference of MyPT, held against the engine.

The examples are verbatim in tests/conformance/mypt/reference.json.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from itertools import accumulate
from typing import Any

import pytest

import mypt_spec
from mypt_spec.dialect import grammar_root
from mypt_spec.episode import top_level
from mypt_spec.table import TEXT
from tests.support.vectors import HERE, load

VECTORS = load(HERE / "mypt", "reference")
D = mypt_spec.dialect("mypt")
LOSS = {"MASK": 0, "TRAIN": 1}


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(v, id=v["name"]) for v in VECTORS if v["kind"] == kind]


def read_clean(record: object) -> mypt_spec.Episode:
    episode, findings = D.read(record)
    assert findings == []
    assert episode is not None
    assert D.validate(episode) == []
    return episode


def parse_clean(text: str, phase: int | None = None) -> mypt_spec.Episode:
    episode, findings = D.parse(text)
    assert findings == []
    assert episode is not None
    assert D.validate(episode, phase) == []
    return episode


def blocks_of_ids(encoded: mypt_spec.Encoded) -> list[set[int]]:
    """Returns the losses of each top-level block or mark, found by special ids alone."""
    opening = {D.tokenizer.special[t.shown] for t in D.table.openers.values()}
    closing = {D.tokenizer.special[t.shown] for t in D.table.closers.values()}
    depth = 0
    out: list[set[int]] = []
    for number, loss in zip(encoded.ids.tolist(), encoded.loss.tolist(), strict=True):
        if depth == 0:
            out.append(set())
        out[-1].add(loss)
        depth += (number in opening) - (number in closing)
    return out


def test_nothing_of_the_reference_is_missing() -> None:
    counts = {"text": 10, "loss": 6, "token loss": 2, "tree": 1, "inventory": 1, "record": 5, "mapping": 11, "phase": 5, "mistake": 7}  # fmt: skip
    assert Counter(v["kind"] for v in VECTORS) == counts
    assert len({v["name"] for v in VECTORS}) == len(VECTORS)


# --- the examples


@pytest.mark.parametrize("vector", of_kind("text"))
def test_example_comes_back_byte_for_byte(vector: dict[str, Any]) -> None:
    """Through the compact text, ids and the record, too."""
    episode = parse_clean(vector["text"])
    assert D.serialize(episode, layout="lines") == vector["text"]
    compact = D.serialize(episode)
    assert compact != vector["text"]
    assert parse_clean(compact) == episode
    assert D.serialize(parse_clean(compact)) == compact
    encoded = D.encode(episode)
    assert D.parse_ids(encoded.ids) == (episode, [])
    assert D.tokenizer.decode(encoded.ids) == compact
    assert read_clean(D.write(episode)) == episode


@pytest.mark.parametrize("vector", of_kind("loss"))
def test_loss_annotation_of_example(vector: dict[str, Any]) -> None:
    """The letters, block by block: every line of the example lies in one block, and each block has
    one letter.
    """
    example = next(v["text"] for v in VECTORS if v["name"] == vector["of"])
    lines = [(line[0], line[3:]) for line in vector["annotation"].split("\n")]
    assert {letter for letter, _ in lines} == {"M", "T"}
    starts = [0, *accumulate(len(line) + 1 for _, line in lines)][:-1]
    events = D.lex("\n".join(line for _, line in lines))
    events = [event for event in events if (event.terminal, event.text) != (TEXT, "\n")]
    annotated = []
    for block in top_level(events, D.table):
        first, last = block[0].at.span, block[-1].at.span
        assert first is not None
        assert last is not None
        pairs = zip(lines, starts, strict=True)
        (letter,) = {letter for (letter, _), at in pairs if first[0] <= at < last[1]}
        annotated.append((block[0].terminal, letter))
    episode = parse_clean(example)
    tags = [block[0].terminal for block in top_level(D.lex(D.serialize(episode)), D.table)]
    losses = blocks_of_ids(D.encode(episode))
    assert annotated == [
        (tag, {0: "M", 1: "T"}[loss]) for tag, (loss,) in zip(tags, losses, strict=True)
    ]
    for _, line in lines:
        if "..." not in line:
            assert line in example.split("\n")


@pytest.mark.parametrize("vector", of_kind("token loss"))
def test_loss_by_token(vector: dict[str, Any]) -> None:
    """MASK and TRAIN of every row: for its tags and the content between them."""
    text = (
        "<myPT_system>...content...</myPT_system><myPT_user><myPT_user_context>...content...</myPT_user_context>...content..."
        "</myPT_user><myPT_assistant_context>...content...</myPT_assistant_context><myPT_assistant><myPT_think>...reasoning..."
        '</myPT_think><myPT_toolcall>{"name": "..."}</myPT_toolcall></myPT_assistant><myPT_toolresult>"...content..."'
        "</myPT_toolresult><myPT_assistant>Answer text with <myPT_cite>source</myPT_cite> inline.</myPT_assistant><myPT_eot>"
    )
    encoded = D.encode(parse_clean(text))
    loss: dict[str, set[int]] = {}
    inside: list[str] = []
    for number, weight in zip(encoded.ids.tolist(), encoded.loss.tolist(), strict=True):
        tag = next((s for s, i in D.tokenizer.special.items() if i == number), "")
        if tag.startswith("</"):
            inside.pop()
        loss.setdefault(tag or f"in {inside[-1]}", set()).add(weight)
        if tag and not tag.startswith("</") and tag != "<myPT_eot>":
            inside.append(tag)
    for row in filter(None, vector["table"].split("\n")):
        word, _, rest = row.partition(":")
        tags = re.findall(r"</?myPT_\w+>", rest)
        assert tags
        for tag in tags:
            assert loss[tag] == {LOSS[word]}, tag
            if not tag.startswith("</") and tag != "<myPT_eot>":
                assert loss[f"in {tag}"] == {LOSS[word]}, f"the content of {tag}"
    both = "".join(v["table"] for v in VECTORS if v["kind"] == "token loss")
    assert {*re.findall(r"</?myPT_\w+>", both)} == set(D.tokenizer.special)


@pytest.mark.parametrize("vector", of_kind("tree"))
def test_nesting_hierarchy(vector: dict[str, Any]) -> None:
    """The tree shows, for every tag, the block around it.

    The automaton allows those pairs and no others.

    One more pair is legal: the reference's own system prompts quote a call.
    """
    pairs = set()
    above: dict[int, str] = {}
    for line in vector["tree"].split("\n")[1:]:
        match = re.match(r"[│├└─ ]*", line)
        assert match is not None
        depth = match.end()
        tag = re.match(r"<myPT_(\w+)>", line[depth:])
        above = {d: name for d, name in above.items() if d < depth}
        if tag:
            parent = next((name for _, name in sorted(above.items(), reverse=True)), "")
            pairs.add((parent, tag[1]))
            above[depth] = tag[1]
    assert len(pairs) == 10
    machine = D.automaton
    stacks: dict[int, tuple[str, ...]] = {machine.start: ()}
    queue = [machine.start]
    legal = set()
    for state in queue:
        for name in machine.allowed(state):
            stack, terminal = stacks[state], D.table.terminals.get(name)
            if terminal is not None and not terminal.closes:
                legal.add((stack[-1] if stack else "", terminal.opens or terminal.name.lower()))
                stack = (*stack, terminal.opens) if terminal.opens else stack
            elif terminal is not None:
                assert stack[-1] == terminal.closes
                stack = stack[:-1]
            following = machine.step(state, name)
            assert stacks.setdefault(following, stack) == stack
            if following not in queue:
                queue.append(following)
    assert legal == pairs | {("system", "toolcall")}


# --- the tables


@pytest.mark.parametrize("vector", of_kind("inventory"))
def test_inventory(vector: dict[str, Any]) -> None:
    number = vector["first"]
    for tag, count, by, loss in vector["rows"]:
        spellings = [tag] if count == 1 else [tag, tag.replace("<", "</")]
        assert len(spellings) == count
        for spelling in spellings:
            terminal = next(t for t in D.table.terminals.values() if t.shown == spelling)
            row = (D.tokenizer.special[spelling], terminal.origin, terminal.loss)
            assert row == (number, by.lower(), LOSS[loss])
            number += 1
    assert number - 1 == vector["last"]
    total = sum(count for _, count, _, _ in vector["rows"])
    assert total == vector["total"] == len(D.tokenizer.special) == len(D.table.terminals)
    assert D.tokenizer.vocab_size == 50304


def test_inventory_and_the_ids_in_the_token_table() -> None:
    """The ids written in tokens.toml are the inventory's, in its order of pairs and with the
    vocabulary's last id before them.
    """
    data = tomllib.loads((grammar_root() / "mypt" / "tokens.toml").read_text(encoding="utf-8"))
    ids = {row["spelling"][0]["special"]: row["id"] for row in data["terminal"]}
    rows = next(v for v in VECTORS if v["kind"] == "inventory")["rows"]
    spellings = [s for tag, count, _, _ in rows for s in [tag, tag.replace("<", "</")][:count]]
    assert ids == dict(zip(spellings, range(50257, 50276), strict=True))


@pytest.mark.parametrize("vector", of_kind("record"))
def test_record_example(vector: dict[str, Any]) -> None:
    text = vector["json"]
    if "substitute" in vector:
        with pytest.raises(ValueError, match=r"Expecting|Extra|Invalid"):
            json.loads(text)
        text = text.replace(*vector["substitute"])
    record = json.loads(text)
    episode = read_clean(record)
    assert D.serialize(episode) == vector["compact"]
    assert json.dumps(D.write(episode)) == json.dumps(record), "it is canonical, keys in order"
    assert parse_clean(vector["compact"]) == episode


@pytest.mark.parametrize("vector", of_kind("mapping"))
def test_mapping_row(vector: dict[str, Any]) -> None:
    episode = read_clean(vector["record"])
    groups = top_level(D.lex(D.serialize(episode)), D.table)
    assert vector["text"] in ["".join(event.text for event in group) for group in groups]
    shape = re.search(r"`(.*)`", vector["row"][1])
    assert shape is not None
    pattern = re.escape(shape[1]).replace("JSON", ".+")
    assert re.fullmatch(pattern, vector["text"])


@pytest.mark.parametrize("vector", of_kind("phase"))
def test_phase_schedule(vector: dict[str, Any]) -> None:
    phase = vector["phase"]
    rows = [t for t in D.table.terminals.values() if t.phase == phase and not t.closes]
    introduced = {row.opens or row.name.lower() for row in rows}
    assert introduced == set(vector["tags"])
    cell = vector["row"].split("|")[2].strip()
    assert introduced == (set() if cell.startswith("(") else set(cell.split(", ")))
    assert len(D.table.phases) == 5
    for text in vector["texts"]:
        episode = parse_clean(text, phase)
        for earlier in range(1, phase):
            codes = {f.code for f in D.validate(episode, earlier)}
            if vector["code"] is None:
                assert codes == set()
            elif vector["code"] == "MYP402":
                assert codes == ({"MYP402"} if earlier < 3 else set())
            else:
                assert codes == {vector["code"]}
        for later in range(phase, 6):
            assert D.validate(episode, later) == []


@pytest.mark.parametrize("vector", of_kind("mistake"))
def test_common_mistake(vector: dict[str, Any]) -> None:
    episode, findings = D.parse(vector["bad"])
    assert episode is None
    assert [f.code for f in findings] == [vector["code"]]
    place = findings[0].span
    assert place is not None
    tags = re.findall(r"<myPT_\w+>", vector["rule"])
    assert vector["bad"][slice(*place)] == tags[0]
    assert findings[0].expected
    parse_clean(vector["good"])
