"""Invariant 1: an Episode comes back from text in every layout, from token ids and from its record.

Legal text comes back byte for byte.
"""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Episode, Message, Part
from mypt_spec.episode import events_of, top_level
from tests.support.canonical import assert_record, only_lasting
from tests.support.examples import examples
from tests.support.maker import Maker, drawn
from tests.support.strategies import (
    DIALECTS,
    edited,
    episodes,
    layouts,
    legal,
    records,
    tag_texts,
)

pytestmark = pytest.mark.parametrize("name", DIALECTS)


@given(st.data())
def test_episode_text_episode_text(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(episodes(name, clean=data.draw(st.booleans())))
    for layout in d.table.layouts:
        text = d.serialize(episode, layout=layout)
        again, findings = d.parse(text)
        assert (again, findings) == (episode, [])
        assert d.serialize(again, layout=layout) == text
        assert d.read(d.write(again))[0] == episode


@given(st.data())
def test_episode_ids_episode_ids(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(episodes(name, clean=False))
    encoded = d.encode(episode)
    again, findings = d.parse_ids(encoded.ids)
    assert (again, findings) == (episode, [])
    # No text says the options of its record; where a prompt ends, and so how ids are cut, follows
    # from them.
    again = replace(again, meta=episode.meta)
    assert d.encode(again).ids.tolist() == encoded.ids.tolist()
    assert d.tokenizer.decode(encoded.ids) == d.serialize(episode)


@given(st.data())
def test_record_episode_record(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    record = data.draw(records(name, clean=data.draw(st.booleans())))
    given_as = json.dumps(record)
    episode, read_findings = d.read(record)
    assert episode is not None
    canonical = d.write(episode)
    again, findings = d.read(canonical)
    assert again == episode
    assert only_lasting(findings, read_findings)
    assert json.dumps(d.write(again)) == json.dumps(canonical), (
        "the canonical record is a fixed point, key order too"
    )
    assert json.dumps(record) == given_as, "reading changes nothing"
    assert _metadata(canonical) == _metadata(record)


def _metadata(record: dict) -> object:
    inner = [{k: v for k, v in m.items() if k[:1] == "_"} for m in record["messages"]]
    return {k: v for k, v in record.items() if k[:1] == "_" or k == "language"}, [
        notes for notes in inner if notes
    ]


@given(st.data())
def test_record_as_json_lines(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(episodes(name))
    for ascii_only in (False, True):
        again, findings = d.read(json.loads(json.dumps(d.write(episode), ensure_ascii=ascii_only)))
        assert (again, findings) == (episode, [])


PIECES = ("\n", " ", "", "\u2028", "x", '"', "\\u0041", "1e5", ",", ">")


@settings(max_examples=examples(80))
@given(st.data())
def test_text_without_findings_comes_back(name: str, data: st.DataObject) -> None:
    """A legal text, changed a little, or tags in any order: whenever parse finds nothing, some
    layout returns the very bytes.
    """
    d = mypt_spec.dialect(name)
    whole = d.serialize(data.draw(episodes(name)), layout=data.draw(layouts(name)))
    text = data.draw(edited(whole, PIECES) | tag_texts(name))
    episode, findings = d.parse(text)
    if findings:
        return
    assert text in [d.serialize(episode, layout=layout) for layout in d.table.layouts]
    assert_record(d, episode)


@given(st.data())
def test_white_space_between_blocks_means_nothing(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(episodes(name))
    if "lines" not in d.table.layouts:
        return
    events = top_level(events_of(episode.messages, d.table), d.table)
    blocks = ["".join(e.text for e in block) for block in events]
    gap = st.text(" \t\n\r\u2028\xa0", max_size=2)
    text = data.draw(gap) + "".join(block + data.draw(gap) for block in blocks)
    again, findings = d.parse(text)
    assert again == episode
    assert {f.code for f in findings} <= {"MYP224"}
    if not findings:
        assert text in [d.serialize(episode, layout=layout) for layout in d.table.layouts]


@given(st.data())
def test_write_never_loses_anything(name: str, data: st.DataObject) -> None:
    """An Episode with any text in its answers: `write` returns it through `read`, or raises."""
    d = mypt_spec.dialect(name)
    changed = data.draw(drawn(lambda random: with_tags(random, name)))
    try:
        record = d.write(changed)
    except ValueError:
        return
    assert d.read(record)[0] == changed


def with_tags(random: Random, name: str) -> Episode:
    """Returns a legal Episode with tags and texts in place of one of its parts, if it has any."""
    make, d = Maker(random, name), mypt_spec.dialect(name)
    episode = d.read(legal(random, name))[0]
    assert episode is not None
    tags = [*(t.shown for t in d.table.terminals.values()), " "]
    messages = list(episode.messages)
    places = [i for i, message in enumerate(messages) if message.parts]
    if not places:  # each text is empty
        return episode
    at = make.choice(places)
    parts = list(messages[at].parts)
    which = random.randrange(len(parts))
    text = "".join(make.choice(tags) if make.one_in(2) else make.text() for _ in make.some(0, 5))
    parts[which] = Part(parts[which].kind, text)
    messages[at] = Message(messages[at].role, tuple(parts))
    return Episode(name, tuple(messages))
