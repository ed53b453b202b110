"""Fixes: what *safe* means holds for every one of them; raw edits say what the patch says.

Fixing twice is fixing once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from fuzz.fix_idempotence import STRATEGY
from mypt_lint.check.checker import Checker
from mypt_lint.fix.apply import Fixer
from mypt_lint.places.json_edit import edited
from mypt_lint.places.positions import Places
from mypt_lint.proposals.candidates import candidates_of, text_candidates
from mypt_spec import Dialect, Episode, Finding
from mypt_spec.episode import events_of
from mypt_spec.patch import apply
from mypt_spec.table import TEXT
from tests.property.test_positions import walk
from tests.support.examples import examples
from tests.support.maker import drawn, fragments
from tests.support.strategies import DIALECTS, legal, lines_of

CHECKERS = {name: Checker(mypt_spec.dialect(name)) for name in mypt_spec.dialects()}


def spelled(episode: Episode, d: Dialect) -> str:
    """The serialised bytes that an Episode would have, legal or not."""
    return "".join(e.text for e in events_of(episode.messages, d.table))


def content(text: str, d: Dialect) -> str:
    """Its content characters: all that is no tag, bodies of JSON without spacing and escapes."""
    out, body = [], "text"
    for event in d.lex(text):
        terminal = d.table.terminals.get(event.terminal)
        if terminal is not None:
            body = terminal.body if terminal.opens else "text"
        elif event.terminal == TEXT:
            out.append(event.text if body == "text" else of_json(event.text))
    return "".join(out)


def of_json(text: str) -> str:
    """What a JSON text says, however it is spaced and escaped; keys that occur twice both."""
    try:
        return repr(json.loads(text, object_pairs_hook=list))
    except ValueError:
        return text.replace("\\u003c", "<")


def look(d: Dialect, data: Any) -> tuple[Episode | None, list[Finding]]:
    """As the linter does: with the fixes that it finds."""
    if isinstance(data, str):
        episode, found = d.parse(data)
        return episode, text_candidates(d, data, found, lambda other: d.parse(other)[1])
    episode, found = d.check(data)
    return episode, candidates_of(d, data, episode, found, lambda other: d.check(other)[1])


def typed(random: Random) -> dict[str, Any]:
    """Returns a record or a text in which tags are typed where they do not belong, doubled, lost or
    misspelt.
    """
    name = random.choice(DIALECTS)
    d = mypt_spec.dialect(name)
    blocks = [
        t.spell() + "t" + d.table.closers[t.opens].spell()
        for t in d.table.openers.values()
        if t.opens in d.table.closers and not t.patterns
    ]
    tags = [*blocks, *blocks, *fragments(name)]
    record = json.loads(json.dumps(legal(random, name)))
    if random.randrange(2):
        episode = d.read(record)[0]
        assert episode is not None
        texts = [event.text for event in d.lex(d.serialize(episode))]
        at = random.randrange(len(texts))
        own = texts[at]
        new = random.choice(([], [own] * 2, [own.upper()], [random.choice(tags), own]))
        return {"dialect": name, "data": "".join([*texts[:at], *new, *texts[at + 1 :]])}
    messages = record[d.adapter.SCHEMA.messages]
    for _ in range(random.randint(1, 2)):
        message = random.choice(messages)
        texts = [k for k, v in message.items() if isinstance(v, str) and k not in ("role", "name") and k[:1] != "_"]  # fmt: skip
        for key in texts[:1]:
            text = message[key]
            at = random.choice((0, len(text), len(text), random.randint(0, len(text))))
            message[key] = text[:at] + random.choice(tags) + text[at:]
    for role, (_, key) in d.adapter.SCHEMA.folded.items():
        for message in list(messages):
            if isinstance(message.get(key), str) and random.randrange(2):
                apart = {"role": role, "content": message.pop(key)}
                messages.insert(messages.index(message), apart)
                break
    return {"dialect": name, "data": record}


INPUTS = STRATEGY | drawn(typed)


def holds_safe(d: Dialect, before: Any, after: Any) -> None:
    """The definition: the serialised bytes stay identical.

    Or the record had no legal form, and no content character is added or removed.
    """
    (one, found), (two, _) = look(d, before), look(d, after)
    if one is not None and two is not None and spelled(one, d) == spelled(two, d):
        return
    assert any(f.severity == "error" for f in found)
    if isinstance(before, str):
        assert content(before, d) == content(after, d)
    elif one is not None and two is not None:
        assert content(spelled(one, d), d) == content(spelled(two, d), d)
    else:  # of what cannot be read, the strings of the record
        assert Counter("".join(strings(before, d))) == Counter("".join(strings(after, d)))


def strings(value: Any, d: Dialect) -> Iterator[str]:
    """All strings but roles and the keys of the format.

    An object written as a string counts as the object.
    """
    schema = d.adapter.SCHEMA
    known = {*schema.top, *(key for fields in schema.roles.values() for key in fields), schema.tag}
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except ValueError:
            inner = None
        yield from strings(inner, d) if isinstance(inner, dict) else [value]
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from () if key in known else [key]
            yield from strings(item, d) if key != schema.tag else ()
    elif isinstance(value, list):
        for item in value:
            yield from strings(item, d)


def holds(d: Dialect, data: Any) -> None:
    """Every fix of every finding: it takes its finding away, brings no other, and is as safe as it
    says.
    """
    _, found = look(d, data)
    before = Counter(f.code for f in found)
    for finding in found:
        if finding.fix is None:
            continue
        after = apply(data, finding.fix)
        now = Counter(f.code for f in look(d, after)[1])
        assert now[finding.code] < before[finding.code], finding
        if finding.fix.safe:
            assert not now - before, finding
            holds_safe(d, data, after)


@settings(max_examples=examples(500))
@given(INPUTS)
def test_every_fix_is_what_it_says(value: dict[str, Any]) -> None:
    holds(mypt_spec.dialect(value["dialect"]), value["data"])


@settings(max_examples=examples(300))
@given(INPUTS.filter(lambda value: not isinstance(value["data"], str)), st.data(), st.booleans())
def test_lines_are_fixed_on_their_source(
    value: dict[str, Any], data: st.DataObject, unsafe: bool
) -> None:
    checker = CHECKERS[value["dialect"]]
    raw = data.draw(lines_of(value["data"])) + data.draw(st.sampled_from([b"", b"\r"]))
    before = checker.line(raw, row=2, filename="")
    try:
        line = raw.decode()
    except UnicodeDecodeError:
        assert Fixer(checker, unsafe).line(raw, row=2) == (raw, Counter())
        return
    for item in before:
        if item.finding.fix is not None and item.finding.fix.patch:
            want = apply(json.loads(line), item.finding.fix)
            assert json.loads(edited(line, item.finding.fix)) == want
    after, codes = Fixer(checker, unsafe).line(raw, row=2)
    assert after is not None
    left = checker.line(after, row=2, filename="")
    assert Counter(i.finding.code for i in before) - codes == Counter(i.finding.code for i in left)
    assert Fixer(checker, unsafe).line(after, row=2) == (after, Counter())
    if not codes:
        assert after == raw


@settings(max_examples=examples(150))
@given(INPUTS.filter(lambda value: isinstance(value["data"], str)), st.booleans())
def test_texts_are_fixed_once_and_for_all(value: dict[str, Any], unsafe: bool) -> None:
    fixer = Fixer(CHECKERS[value["dialect"]], unsafe)
    data = value["data"].encode("utf-8", "replace")
    after, codes = fixer.text(data)
    assert fixer.text(after) == (after, Counter())
    assert bool(codes) == (after != data)


NESTED = st.fixed_dictionaries({
    "a": st.text(), "b": st.lists(st.text(max_size=5), min_size=1, max_size=3),
    "c": st.dictionaries(st.text(max_size=3), st.text(), max_size=2),
})  # fmt: skip


@settings(max_examples=examples(150))
@given(st.data())
def test_what_no_operation_names_keeps_its_bytes(data: st.DataObject) -> None:
    """Strings outside of the changed value are found again as they were spelled."""
    value = data.draw(NESTED)
    line = data.draw(lines_of(value)).decode()
    path = data.draw(st.sampled_from(["/a", "/b/0", "/b/-", "/n", "/c/new"]))
    ops = ["add", "replace", "remove"] if path in ("/a", "/b/0") else ["add"]
    op = data.draw(st.sampled_from(ops))
    new = data.draw(st.text() | st.lists(st.integers()))
    operation = {"op": op, "path": path} | ({} if op == "remove" else {"value": new})
    fix = mypt_spec.Fix("", True, patch=(operation,))
    after = edited(line, fix)
    assert json.loads(after) == apply(value, fix)
    named = {"/b/0": "/b", "/b/-": "/b", "/c/new": "/c"}.get(path, path)
    before, now = Places(line), Places(after)
    for pointer, _ in walk(value):
        if pointer and not (pointer + "/").startswith(named + "/"):
            for on_key in (False, True):
                old, new = (p.locate(pointer, on_key=on_key) for p in (before, now))
                assert line[slice(*old)] == after[slice(*new)]


@pytest.mark.parametrize(
    ("line", "operation", "want"),
    [
        ('{"a":"x\\u00fcy"}', {"op": "replace", "path": "/a", "value": "xüz"}, '{"a":"x\\u00fcz"}'),
        ('{"a": [1 , 2]}', {"op": "remove", "path": "/a/0"}, '{"a": [2]}'),
        ('{"a": [1 , 2]}', {"op": "remove", "path": "/a/1"}, '{"a": [1]}'),
        ('{"a": [ 1 ]}', {"op": "remove", "path": "/a/0"}, '{"a": [  ]}'),
        ('{"a": []}', {"op": "add", "path": "/a/0", "value": 1}, '{"a": [1]}'),
        ('{"a":[1,2]}', {"op": "add", "path": "/a/1", "value": {"x": 1}}, '{"a":[1,{"x":1},2]}'),
        ('{"a": "ü"}', {"op": "add", "path": "/b", "value": "ä"}, '{"b": "ä", "a": "ü"}'),
        ('{"a": "u"}', {"op": "add", "path": "/b", "value": "ä"}, '{"b": "\\u00e4", "a": "u"}'),
    ],
)  # fmt: skip
def test_edits_of_the_source(line: str, operation: dict[str, Any], want: str) -> None:
    assert edited(line, mypt_spec.Fix("", True, patch=(operation,))) == want


def test_a_key_that_stands_twice_is_for_people() -> None:
    with pytest.raises(ValueError, match="duplicate key"):
        edited('{"a": 1, "a": 2}', mypt_spec.Fix("", True, patch=({"op": "remove", "path": "/a"},)))
