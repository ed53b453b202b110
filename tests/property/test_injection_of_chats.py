"""Invariant 6 for the chats of the world, in each field, also on the vocabularies of their models.

A text in any field of a record (contents, names, keys and values of arguments, definitions,
results, thoughts, options) makes no special id: either the record is refused, or its special ids
are those of the record with a harmless text in that place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import mypt_spec
from tests.dialects import harmony as harmony_records
from tests.dialects import llama3, mistral, mistral_v13, qwen3
from tests.support import harmony
from tests.support.chat_shapes import Shape
from tests.support.maker import Maker
from tests.support.mistral import on_tekken
from tests.support.model_vocabularies import llama, qwen
from tests.support.oracles import EXAMPLES
from tests.support.strategies import Record

SHAPES = {
    shape.name: shape
    for shape in (m.SHAPE for m in (qwen3, llama3, mistral, mistral_v13, harmony_records))
}
MODELS: dict[str, Callable[[], mypt_spec.Dialect]] = {
    "qwen3": qwen,
    "llama3": llama,
    "mistral": lambda: on_tekken("mistral"),
    "mistral-v13": lambda: on_tekken("mistral-v13"),
    "harmony": harmony.ours,
}
# Path of a value in the record below, or of a key, which is written with "key" at its end.
FIELDS: tuple[tuple[Any, ...], ...] = (
    ("messages", 0, "content"),
    ("messages", 1, "content"),
    ("messages", 2, "content"),
    ("messages", 2, "tool_calls", 0, "id"),
    ("messages", 2, "tool_calls", 0, "function", "name"),
    ("messages", 2, "tool_calls", 0, "function", "arguments", "q"),
    ("messages", 2, "tool_calls", 0, "function", "arguments", "q", "key"),
    ("messages", 2, "tool_calls", 0, "function", "arguments", "deep", 0, "r", "key"),
    ("messages", 3, "tool_call_id"),
    ("messages", 3, "name"),
    ("messages", 3, "content"),
    ("messages", 4, "reasoning_content"),
    ("messages", 4, "content"),
    ("tools", 0, "function", "name"),
    ("tools", 0, "function", "description"),
    ("tools", 0, "function", "parameters", "properties", "q", "key"),
    ("tools", 0, "function", "parameters", "properties", "q", "description"),
    ("tools", 0, "function", "parameters", "properties", "q", "enum", 0),
    ("tools", 0, "function", "parameters", "properties", "q", "default"),
    ("chat_template_kwargs", "date_string"),
    ("chat_template_kwargs", "model_identity"),
    ("messages", 1, "_note"),
    ("_meta",),
)


def chat(shape: Shape) -> Record:
    """A record with a harmless text in each field that the format has."""
    schema = {"type": "string", "description": "a", "enum": ["a"], "default": "a"}
    parameters = {"type": "object", "properties": {"q": schema}}
    arguments = {"q": "a", "deep": [{"r": 1}]}
    call = {"id": "abcdefgh1", "type": "function", "function": {"name": "f", "arguments": arguments}}  # fmt: skip
    asked = {"role": "assistant", "tool_calls": [call]} | ({"content": "a"} if shape.beside else {})
    thought = {"reasoning_content": "a"} if shape.thoughts else {}
    options = dict(shape.options).keys() & {"date_string", "model_identity"}
    return {
        "messages": [
            {"role": "system", "content": "a"},
            {"role": "user", "content": "a", "_note": "a"},
            asked,
            {"role": "tool", "tool_call_id": "abcdefgh1", "name": "f", "content": "a"},
            {"role": "assistant", "content": "a"} | thought,
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "a", "parameters": parameters}}],
        "_meta": "a",
    } | ({"chat_template_kwargs": dict.fromkeys(options, "a")} if options else {})  # fmt: skip


def put(record: Record, field: tuple[Any, ...], text: str) -> bool:
    """Puts a text into a field; False where the record has none."""
    *path, last = field
    owner: Any = record
    try:
        if last == "key":
            *path, last = path
        for key in path:
            owner = owner[key]
        owner[last]
    except (KeyError, IndexError):
        return False
    if field[-1] == "key":
        owner[text] = owner.pop(last)
    else:
        owner[last] = text
    return True


def specials(d: mypt_spec.Dialect, record: Record) -> list[int] | None:
    """The special ids of a record, in spite of its findings; None where it has no ids."""
    episode, findings = d.check(record)
    if episode is None:
        return None
    try:
        ids = d.encode(episode).ids.tolist()
    except ValueError:
        return None
    if all(f.severity != "error" for f in findings):
        assert d.parse_ids(ids)[0] == episode
    return [i for i in ids if i not in d.tokenizer.ordinary]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("on", ["gpt2", "model"])
def test_no_field_makes_a_special_id(name: str, on: str) -> None:
    d = MODELS[name]() if on == "model" else mypt_spec.dialect(name)
    shape = SHAPES[name]
    usual = specials(d, chat(shape))
    assert usual
    known = d.vocabulary.special if d.vocabulary is not None else d.table.special
    make = Maker(Random(name), name, tags=True)
    fields = [field for field in FIELDS if put(chat(shape), field, "a")]
    taken = 0
    for number in range(2 * EXAMPLES):
        text = make.choice(sorted(known)) if make.one_in(2) else make.any_text()
        text, field = text + make.choice(("", ".")), fields[number % len(fields)]
        record = copy.deepcopy(chat(shape))
        put(record, field, text)
        found = specials(d, record)
        assert found in (None, usual), (field, text)
        taken += found is not None
    assert taken > EXAMPLES, "most are not refused"
