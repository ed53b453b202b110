"""Hypothesis strategies, by dialect: legal records, Episodes and texts, seeded faults, and things
that are almost JSON.

A dialect joins in with one module in `tests/dialects`, whose function `record(random, clean)` makes
its legal records. `clean` records have no finding at all; the others may have warnings (blank
blocks, tags in JSON strings).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Episode, Message, Part
from mypt_spec.table import TokenTable
from tests.support import dialects
from tests.support.broken_records import Fault, broken
from tests.support.maker import RANDOMS, Maker, Record, any_json, drawn, fragments, line

CHARACTERS = st.characters(exclude_categories=["Cs"])
RECORDS: dict[str, Callable[..., Record]] = {
    path.stem.replace("_", "-"): importlib.import_module(f"tests.dialects.{path.stem}").record
    for path in sorted((Path(__file__).parents[1] / "dialects").glob("[a-z]*.py"))
}
DIALECTS = [name for name in dialects.DIALECTS if name in RECORDS]
_TRIES = 100


@cache
def any_text(name: str, min_size: int = 0) -> st.SearchStrategy[str]:
    """Content of any kind: all planes, white space, tags, near tags and their fragments."""
    return drawn(lambda random: Maker(random, name).any_text(min_size))


@cache
def clean_text(name: str, *, blank: bool = False) -> st.SearchStrategy[str]:
    """Content that no rule has anything to say about; with `blank`, it may be white space."""
    return drawn(lambda random: Maker(random, name, clean=not blank).text())


@st.composite
def json_values(draw: st.DrawFn, strings: st.SearchStrategy[str]) -> Any:
    """JSON values with these strings in them."""
    return Maker(draw(RANDOMS), "mypt", strings=lambda: draw(strings)).value()


def legal(random: Random, name: str, *, clean: bool = True) -> Record:
    """Returns a record without errors, or without any finding.

    Those on which a piece of content happens to join into a tag are left out.
    """
    for _ in range(_TRIES):
        record = RECORDS[name](random, clean)
        episode, findings = mypt_spec.dialect(name).check(record)
        severities = {f.severity for f in findings}
        if episode is not None and not (severities if clean else severities & {"error"}):
            return record
    raise ValueError(f"the records of {name} are not legal")


@cache
def records(name: str, *, clean: bool = True) -> st.SearchStrategy[Record]:
    """Legal records: no error."""
    return drawn(lambda random: legal(random, name, clean=clean))


@cache
def episodes(name: str, *, clean: bool = True) -> st.SearchStrategy[Episode]:
    return records(name, clean=clean).map(lambda record: mypt_spec.dialect(name).read(record)[0])


@cache
def broken_records(name: str) -> st.SearchStrategy[tuple[Record, Fault]]:
    """A clean record with exactly one fault, and the finding that it must have."""
    return drawn(lambda random: broken(random, name, legal(random, name)))


@cache
def any_episodes(name: str) -> st.SearchStrategy[Episode]:
    """Blocks and marks of the dialect in any order and nesting that the model can hold; mostly
    illegal.
    """
    table = mypt_spec.dialect(name).table
    kinds = sorted(table.openers)
    attrs = {kind: tuple((key, "n") for key in table.openers[kind].patterns) for kind in kinds}

    def part(make: Maker, role: str) -> Part:
        kind = make.choice(["text", *kinds])
        text = body(table, role if kind == "text" else kind)
        return Part(kind, make.choice((text, "")), attrs.get(kind, ()))

    def block(make: Maker) -> Message:
        if table.marks and make.one_in(2):
            return Message(make.choice(sorted(table.marks)))
        role = make.choice(kinds)
        return Message(role, tuple(part(make, role) for _ in make.some(0, 4)), attrs[role])

    def episode(random: Random) -> Episode:
        make = Maker(random, name)
        return Episode(name, tuple(block(make) for _ in make.some(0, make.choice((3, 8)))))

    return drawn(episode)


@cache
def tag_texts(name: str) -> st.SearchStrategy[str]:
    """Tags, pieces of tags and contents in any order, some of them after a legal beginning."""
    d = mypt_spec.dialect(name)
    tags = [t.spell(tuple((key, "n") for key in t.patterns)) for t in d.table.terminals.values()]
    bodies = [body(d.table, kind) for kind in d.table.openers]

    def text(random: Random) -> str:
        make = Maker(random, name)
        start = ""
        if make.one_in(2):
            episode = d.read(legal(random, name))[0]
            events = list(d.lex(d.serialize(episode)))
            start = "".join(e.text for e in events[: random.randrange(len(events))])
        pieces = (tags, tags, fragments(name), bodies, ["a", " ", "\n", "", "<", '"'])
        return start + "".join(make.choice(make.choice(pieces)) for _ in make.some(0, 14))

    return drawn(text)


BODIES = {
    "arguments": "{}",
    "function": '{"name": "n", "arguments": {}}',
    "parameters": '{"name": "n", "parameters": {}}',
    "calls": '[{"id": "c", "type": "function", "function": {"name": "n", "arguments": {}}}]',
    "functions": '[{"name": "n", "arguments": {}, "id": "c"}]',
    "tool_list": '[{"name": "n"}]',
    "signatures": "type n = () => any;\n\n} // namespace functions",
    "namespace": "namespace functions {\n\ntype n = () => any;\n\n} // namespace functions",
}


def body(table: TokenTable, kind: str) -> str:
    """Content that is legal in a block of this kind."""
    return BODIES.get(table.openers[kind].body if kind else "text", '{"name": "n"}')


def layouts(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(mypt_spec.dialect(name).table.layouts))


ANY_JSON: st.SearchStrategy[Any] = drawn(any_json)


@cache
def almost_records(name: str) -> st.SearchStrategy[Any]:
    """A record with a few values replaced, keys renamed, dropped or doubled, or messages shuffled."""
    return drawn(lambda random: almost_record(random, name))


def almost_record(random: Random, name: str) -> Any:
    """Returns a record with one to three changes anywhere in it."""
    record = json.loads(json.dumps(RECORDS[name](random, False)))
    for _ in range(random.randint(1, 3)):
        alter(random, record, _keys(name))
    return record


@cache
def _keys(name: str) -> list[str]:
    schema = mypt_spec.dialect(name).adapter.SCHEMA
    keys = {*schema.top, *(key for fields in schema.roles.values() for key in fields)}
    return sorted(keys | {"role", "type", "name", "function", "id", "_m", "", "Content"})


def alter(random: Random, record: Any, keys: list[str]) -> None:
    """Replaces, drops, doubles, renames or moves one value somewhere inside of a record."""
    owner: Any = record
    for _ in range(random.randint(0, 5)):
        values = owner.values() if isinstance(owner, dict) else owner
        inner = [v for v in values if isinstance(v, dict | list) and v]
        owner = random.choice(inner) if inner else owner
    if not owner:
        return
    key = random.choice(list(owner) if isinstance(owner, dict) else range(len(owner)))
    change = random.choice(("replace", "drop", "rename", "add", "move"))
    if change == "replace":
        owner[key] = any_json(random)
    elif change == "drop":
        del owner[key]
    elif isinstance(owner, list):
        owner.insert(
            random.randint(0, len(owner)), owner.pop(key) if change == "move" else owner[key]
        )
    else:
        other = random.choice((*keys, *keys, Maker(random, "mypt").characters(3)))
        owner[other] = any_json(random) if change == "add" else owner.pop(key)


def edited(text: str, pieces: Sequence[str], most: int = 1) -> st.SearchStrategy[str]:
    """The text with one to three pieces put in, each in place of up to so many characters."""

    def edit(random: Random) -> str:
        out = text
        for _ in range(random.randint(1, 3)):
            at = random.randint(0, len(out))
            out = out[:at] + random.choice(pieces) + out[at + random.randint(0, most) :]
        return out

    return drawn(edit)


def lines_of(record: Any) -> st.SearchStrategy[bytes]:
    """A record as one line of JSON, in any spelling of it: separators, escapes."""
    return drawn(lambda random: line(random, record))


_BYTES = [b"", b'"', b"\\", b"\\u0022", b"\\u003c", b"\\ud800", b"\\n", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\x00", b"\t", b" ", b",", b"{", b"}", b"[", b"]", b":", b"NaN", b"-Infinity", b"1e999", b"0", b"null", b"<myPT_user>", b'"role":"user",', b'"_m":"x",', b'"content":"y",', b"<myPT_", b"\xe2\x80\xa8"]  # fmt: skip


def mutate(random: Random, line: bytes) -> bytes:
    """Returns a line with a few of its bytes removed, repeated, or put in."""
    for _ in range(random.randint(1, 3)):
        a = random.randint(0, len(line))
        b = min(len(line), a + random.randint(0, 12))
        noise = bytes(random.randrange(256) for _ in range(random.randint(0, 3)))
        put = random.choice((random.choice(_BYTES), b"", line[a:b] * 2, noise))
        line = line[:a] + put + line[b:]
    return line.replace(b"\n", b" ")


@st.composite
def mutated(draw: st.DrawFn, lines: st.SearchStrategy[bytes]) -> bytes:
    """A line with a few of its bytes removed, repeated, or put in."""
    line = draw(lines)
    return draw(drawn(lambda random: mutate(random, line)))
