"""Invariant 6: content never becomes a special token, and is never read back as structure."""

from __future__ import annotations

import json
from itertools import zip_longest

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Episode
from mypt_spec.rules import check_episode
from tests.support.build import assistant, user
from tests.support.hostile import hostile
from tests.support.strategies import DIALECTS, any_text

D = mypt_spec.dialect("mypt")
SINGLE_ID = [name for name in DIALECTS if not mypt_spec.dialect(name).table.plain_tags]


@pytest.mark.parametrize("name", SINGLE_ID)
@given(st.data())
def test_exactly_the_planned_special_ids(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(hostile(name))
    planned = [d.tokenizer.special[t] for t in _tags(d, episode)]
    encoded = d.encode(episode)
    assert [i for i in encoded.ids.tolist() if i not in d.tokenizer.ordinary] == planned
    again, findings = d.parse_ids(encoded.ids)
    assert again == episode, findings


def _tags(d: mypt_spec.Dialect, episode: Episode) -> list[str]:
    """The single-id tags of an Episode, from its structure alone."""
    rows = []
    for message, following in zip_longest(episode.messages, episode.messages[1:]):
        mark = d.table.marks.get(following.role) if following is not None else None
        if message.role in d.table.marks:
            rows.append(d.table.marks[message.role])
            continue
        rows.append(d.table.openers[message.role])
        closer = d.table.closers.get(message.role)
        for part, after in zip_longest(message.parts, message.parts[1:]):
            if part.kind == "text":
                continue
            opener = d.table.openers[part.kind]
            rows.append(opener)
            if not (opener.again and after is not None and after.kind == part.kind):
                rows.append(d.table.closers[part.kind])
        # Calls at the end of a conversation: one tag for both.
        last = d.table.closers.get(message.parts[-1].kind) if message.parts else None
        both = last is not None and (last is closer or last.both)
        if closer is not None and (mark is None or message.role not in mark.ends) and not both:
            rows.append(closer)
    return [piece.value for row in rows for piece in row.spelling if piece.kind == "special"]


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_every_tag_literal_is_a_finding_and_never_serialised(
    name: str, data: st.DataObject
) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(hostile(name))
    texts = [p.text for m in episode.messages for p in m.parts]
    bad = sum(bool(d.table.literals.search(text)) for text in texts)
    # Ids need not fit one another here.
    found = check_episode(episode, d.table, d.automaton, d.tokenizer, mypt_spec.Limits())
    errors = [f for f in found if f.severity == "error"]
    if bad:
        assert len(errors) >= bad
        with pytest.raises(ValueError, match="no text can say this"):
            d.serialize(episode)
    else:
        assert {f.code for f in errors} <= {"MYP303", "MYP801"}  # almost a tag, a piece of one
        assert d.parse(d.serialize(episode))[0] == episode


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_ordinary_text_is_never_special(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    text = data.draw(any_text(name))
    ids = d.tokenizer.encode(text)
    assert all(0 <= i < 50256 for i in ids)
    assert d.tokenizer.decode(ids) == text


@given(st.lists(any_text("mypt"), min_size=2, max_size=2), st.sampled_from(["content", "context"]))
def test_neighbouring_fields_never_join_into_a_tag(texts: list[str], key: str) -> None:
    """Fragments in fields that are neighbours in the text."""
    assume(all(texts) and not any(D.table.literals.search(text) for text in texts))
    question = user(texts[0], context=texts[1])
    answer = assistant(texts[0], think=texts[1], cite=texts[0])
    episode, findings = D.read({"system": texts[1], "messages": [question, answer]})
    assert not findings
    assert D.parse(D.serialize(episode))[0] == episode
    assert D.parse_ids(D.encode(episode).ids)[0] == episode


@given(any_text("mypt"), any_text("mypt"), st.sampled_from(sorted(D.table.special)))
def test_tags_in_json_are_escaped_and_come_back(before: str, key: str, tag: str) -> None:
    assume(key != "name")
    value = {key + tag: [before + tag, {tag: before}], "x": "\\" + tag}
    episode, findings = D.read(with_call("n" + tag, value, [value, tag]))
    assert not findings
    assert {(f.code, f.severity) for f in D.validate(episode)} == {("MYP302", "warning")}
    text = D.serialize(episode)
    assert text.count(tag) == D.serialize(D.read(with_call("n", {}, 1))[0]).count(tag)
    for again in (D.parse(text)[0], D.parse_ids(D.encode(episode).ids)[0]):
        assert again == episode
        assert json.dumps(D.write(again)) == json.dumps(with_call("n" + tag, value, [value, tag]))


def with_call(name: str, arguments: object, result: object) -> dict[str, object]:
    """A record of mypt with one call and its result."""
    call = {"role": "assistant_toolcall", "name": name, "arguments": arguments}
    tool = {"role": "toolresult", "name": name, "content": result}
    return {"system": "s", "messages": [user("u"), call, tool, assistant("a")]}
