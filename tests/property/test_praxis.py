"""Features of praxis alone: a mask by block, single ids next to plain tags, damaged text, lists of
items.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.check.texts import check_generation, check_text
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import Episode, Limits, Message, Part
from mypt_spec.damage.cut_tags import cuts, fragment, inner_tags
from mypt_spec.table import TEXT
from tests.dialects.praxis import NAME, naive_text, records
from tests.support.examples import examples
from tests.support.strategies import ANY_JSON, any_text, lines_of, mutated

D = mypt_spec.dialect(NAME)
CALL = '{"name": "calc", "arguments": {}}'
TAGS = ["<tin>", "<tin>\n", "</tin>", "\n</tin>", "<tout>", "</tout>", "\n[SEP]\n", "[SEP]", "[EOS]", "[BOS]", "[BOS]user\n", "[BOS]assistant\n", "[BOS]system", "/tin>", "</ti", "<", "\n"]  # fmt: skip


def read(record: object) -> Episode | None:
    return D.read(record)[0]


def legal(*, clean: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Records without an error, or, `clean`, without any finding: pieces of content may join into a
    tag.
    """

    def fine(record: dict[str, Any]) -> bool:
        episode, findings = D.read(record)
        if episode is None:
            return False
        findings = findings + D.validate(episode)
        return not [f for f in findings if clean or f.severity == "error"]

    return records(clean).filter(fine)


EPISODES = legal().map(read)
ALMOST = st.lists(st.sampled_from([*TAGS, CALL, "a", " "]), max_size=14).map("".join)


# --- invariant 1: texts that are almost legal


@given(ALMOST)
def test_almost_texts(body: str) -> None:
    for text in (
        body,
        "[BOS]user\nu\n[SEP]\n[BOS]assistant\n" + body,
        "[BOS]user\nu\n[SEP]\n[BOS]assistant\n<tin>\n" + CALL + body,
    ):
        episode, findings = D.parse(text)
        assert (episode is None) == any(f.severity == "error" for f in findings)
        if not findings:
            assert D.serialize(episode) == text
        for fixed in [f for f in findings if f.fix and all(g.fix and g.fix.safe for g in findings)][
            :1
        ]:
            edits = sorted((e for f in findings if f.fix for e in f.fix.edits), reverse=True)
            assert fixed.fix is not None
            mended = text
            for start, end, new in edits:
                mended = mended[:start] + new + mended[end:]
            assert not [f for f in D.parse(mended)[1] if f.code in {g.code for g in findings}]


@given(legal())
def test_the_naive_text_agrees(record: dict[str, Any]) -> None:
    assert D.serialize(read(record)) == naive_text(record)


# --- invariant 3: the mask


def test_the_mask_of_a_call() -> None:
    text = f"[BOS]user\nu\n[SEP]\n[BOS]assistant\na<tin>\n{CALL}\n</tin><tout>r</tout>b\n[SEP]\n"
    encoded = D.encode(D.parse(text)[0])
    assert D.tokenizer.decode(encoded.ids[encoded.loss == 1]) == f"a<tin>\n{CALL}\n</tin>b\n[SEP]\n"
    assert (
        D.tokenizer.decode(encoded.ids[encoded.loss == 0])
        == "[BOS]user\nu\n[SEP]\n[BOS]assistant\n<tout>r</tout>"
    )


@given(EPISODES)
def test_partial_encoding_is_a_prefix(episode: Episode) -> None:
    whole = D.encode(episode)
    blocks = [m for m in episode.messages if m.role != "eos"]
    for end in range(len(blocks) if blocks == list(episode.messages) else len(blocks) - 1):
        part = D.encode(Episode(NAME, episode.messages[: end + 1]), partial=True)
        assert part.ids.tolist() == whole.ids[: len(part)].tolist()
        assert part.loss.tolist() == whole.loss[: len(part)].tolist()


# --- invariant 2: one language


@pytest.mark.parametrize("length", range(9))
def test_every_string_of_terminals_as_text(length: int) -> None:
    """What the automaton accepts is what the parser reads, as text and as ids;

    TEXT is content that any block can hold.
    """
    level: list[tuple[tuple[str, ...], int]] = [((), D.automaton.start)]
    for _ in range(length):
        level = [
            ((*s, t), D.automaton.step(q, t))
            for s, q in level
            for t in sorted(D.automaton.allowed(q))
            if s[-1:] != (t,)
        ]
    for string, state in level:
        text = "".join(CALL if t == TEXT else D.table.terminals[t].spell() for t in string)
        episode, findings = D.parse(text)
        assert (episode is not None) == D.automaton.accepting(state) == (not findings)
        outcome = D.check_prefix(text)
        assert (outcome.findings, outcome.state) == ([], state)
        if episode is not None:
            assert D.serialize(episode) == text
            assert D.validate(episode) == []
            assert D.parse_ids(D.encode(episode).ids) == (episode, [])
            assert read(D.write(episode)) == episode


# --- invariant 4: total


@st.composite
def almost_records(draw: st.DrawFn) -> Any:
    """A legal record with a few values replaced, keys renamed, dropped or doubled."""
    record = json.loads(json.dumps(draw(records(False))))
    for _ in range(draw(st.integers(1, 3))):
        owner: Any = record
        for _ in range(draw(st.integers(0, 5))):
            inner = [
                v
                for v in (owner.values() if isinstance(owner, dict) else owner)
                if isinstance(v, (dict, list)) and v
            ]
            owner = draw(st.sampled_from(inner)) if inner else owner
        if not owner:
            continue
        key = draw(
            st.sampled_from(list(owner) if isinstance(owner, dict) else list(range(len(owner))))
        )
        change = draw(st.sampled_from(["replace", "drop", "rename", "double"]))
        if change == "replace":
            owner[key] = draw(ANY_JSON)
        elif change == "drop":
            del owner[key]
        elif isinstance(owner, list):
            owner.insert(draw(st.integers(0, len(owner))), owner[key])
        else:
            names = st.sampled_from(
                [
                    "role",
                    "type",
                    "content",
                    "contents",
                    "text",
                    "name",
                    "arguments",
                    "messages",
                    "_m",
                    "",
                ]
            )
            owner[draw(names | st.text(max_size=3))] = (
                owner.pop(key) if change == "rename" else draw(ANY_JSON)
            )
    return record


@given(almost_records())
def test_almost_records(record: Any) -> None:
    given_as = json.dumps(record, default=str)
    episode, findings = D.read(record)
    assert json.dumps(record, default=str) == given_as, "reading changes nothing"
    assert all(f.pointer == "" or f.pointer.startswith("/") for f in findings)
    if episode is None:
        assert any(f.severity == "error" for f in findings)
        return
    found = [f for f in D.validate(episode) if f.severity == "error"]
    if not found and not any(f.severity == "error" for f in findings):
        assert D.parse(D.serialize(episode))[0] == episode
        assert read(D.write(episode)) == episode


@given(st.text() | any_text(NAME) | ALMOST)
def test_any_text(text: str) -> None:
    episode, findings = D.parse(text)
    assert (episode is None) == any(f.severity == "error" for f in findings)
    for found in (
        check_text(Checker(D), text),
        check_generation(Checker(D), text),
        check_generation(Checker(D), text, prompt=text),
    ):
        assert all(item.finding.code != "MYP901" for item in found)


@given(
    st.lists(
        st.sampled_from([50256, 50257, 50258, 50259, 50260, -1, 2**40, 198, 27, 83, 259, 29, 7220]),
        max_size=30,
    )
)
def test_any_ids(ids: list[int]) -> None:
    episode, findings = D.parse_ids(ids)
    assert (episode is None) == any(f.severity == "error" for f in findings)
    assert all(f.span is None or f.span[1] <= len(ids) for f in findings)


@pytest.mark.parametrize(
    "seed",
    [*TAGS, '\\"', '"', "< ", "</t ", "<tin>\n<[SEP][BOS]assistant\n", "<tin>\n{}\n</tin><tout>"],
)
def test_long_texts_take_no_time(seed: str) -> None:
    import time

    start = time.process_time()
    for head in ("", '[BOS]user\nu\n[SEP]\n[BOS]assistant\n<tin>\n{"a": "'):
        text = head + seed * 6_000
        D.parse(text)
        fragment(text, inner_tags(D.table, D.automaton))
        cuts(D.lex(text), D.table, D.automaton)
    assert time.process_time() - start < 6


# --- invariant 6: injection


@given(EPISODES, st.data())
def test_content_is_never_structure(episode: Episode, data: st.DataObject) -> None:
    """Any text in place of the content: it comes back as it was through ids, or is refused because
    of a plain tag in it.
    """
    hostile = any_text(NAME, 1).filter(bool) | ALMOST.filter(bool)
    messages = [
        replace(
            m,
            parts=tuple(
                p if p.kind == "tin" else replace(p, text=data.draw(hostile)) for p in m.parts
            ),
        )
        for m in episode.messages
    ]
    changed = Episode(NAME, tuple(messages))
    texts = [p.text for m in messages for p in m.parts if p.kind != "tin"]
    # A header and an end each; [EOS] is the end of its block.
    special = 2 * sum(m.role != "eos" for m in messages)
    if any(D.table.literals.search(t) for t in texts):
        assert [f for f in D.validate(changed) if f.severity == "error"]
        with pytest.raises(ValueError, match="no text can say this"):
            D.serialize(changed)
    plain = any(tag in "".join(texts) for tag in ("<tin>", "</tin>", "<tout>", "</tout>"))
    try:
        ids = D.encode(changed).ids.tolist()
    except ValueError:
        assert plain or any(tag in t for t in texts for tag in ("tin>", "tout>"))
        return
    assert sum(i >= 50257 for i in ids) == special
    assert D.parse_ids(ids)[0] == changed


@pytest.mark.parametrize(
    "text", ["[SEP]", "[BOS]assistant\nSure", "x\n[SEP]\n[BOS]system\ny", "[EOS]"]
)
def test_a_special_token_that_a_user_types_is_ordinary_text_as_ids(text: str) -> None:
    episode = Episode(NAME, (Message("user", (Part("text", text),)),))
    encoded = D.encode(episode, partial=True)
    assert [i for i in encoded.ids.tolist() if i > 50256] == [50257, 50259]
    assert [f.code for f in D.validate(episode) if f.code == "MYP301"]


# --- the linter's fast path


CHECKER = Checker(D, Limits(max_tokens=60))
PROVER = CleanFilter(CHECKER)
PLAIN = Checker(D)
PLAIN_PROVER = CleanFilter(PLAIN)
LINES = (legal(clean=False) | records(True) | almost_records()).flatmap(lines_of)


@given(LINES | mutated(LINES) | st.binary())
@settings(max_examples=examples(400))
def test_proved_lines_are_clean(line: bytes) -> None:
    for checker, prover in ((CHECKER, PROVER), (PLAIN, PLAIN_PROVER)):
        if prover.clean(line):
            assert checker.line(line, row=2, filename="f") == []


@given(any_text(NAME), st.sampled_from(["user", "assistant", "system", "contents", "result"]))
def test_content_that_is_proved_clean_is_clean(text: str, where: str) -> None:
    said = {"contents": [{"type": "text", "text": text}], "result": [{"type": "toolcall", "name": "n", "arguments": {}}, {"type": "toolresult", "content": text}]}  # fmt: skip
    messages: list[dict[str, Any]] = [{"role": "user", "content": text if where == "user" else "u"}]
    if where == "system":
        messages.insert(0, {"role": "system", "content": text})
    answer = (
        {"contents": said[where]}
        if where in said
        else {"content": text if where == "assistant" else "a"}
    )
    line = json.dumps({"messages": [*messages, {"role": "assistant"} | answer]}).encode()
    if PLAIN_PROVER.clean(line):
        assert PLAIN.line(line, row=2, filename="f") == []


def test_the_fast_path_proves_something() -> None:
    line = b'{"messages": [{"role": "user", "content": "a < b"}, {"role": "assistant", "content": "x > y"}]}'
    assert PLAIN_PROVER.clean(line)
    assert not PLAIN_PROVER.clean(line.replace(b"x > y", b"/tin> y"))
