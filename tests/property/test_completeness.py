"""Nothing that fits is refused: answers as formats write them, fed to the decoder in several tokenizations.

Other tests ask whether what the decoder allows is legal. These ask whether it allows what is legal: texts,
thoughts and calls, and all texts of responses, which may end at each place where they fit. Jumps exclude none.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from mypt_infer.decode import Decoder, Response
from mypt_infer.decode.base import vocab
from mypt_spec.dialect import Dialect
from tests.support import vocabulary
from tests.support.answers import TOOLS as ALL_TOOLS
from tests.support.answers import Known, many, written
from tests.support.build import assistant, function
from tests.support.dialects import DIALECTS
from tests.support.examples import either
from tests.support.families import ALL

pytest.importorskip("llguidance")

# In mistral-v11, the tag of a call has an id, which nothing constrains.
NAMES = [name for name in (*DIALECTS, *ALL) if name != "mistral-v11"]
# Their prompts end with an empty thought, which is no part of a written answer.
UNWRITTEN = ("gemma4-26b", "gemma4-31b")
TOOLS = [function("f", {"q": {"type": "string"}, "n": {"type": "integer"}})]


def call(*queries: str, text: str = "", **more: Any) -> dict[str, Any]:
    calls = [
        {"id": f"call_{i}aaa", "type": "function", "function": {"name": "f", "arguments": {"q": query, "n": i}}}
        for i, query in enumerate(queries)
    ]  # fmt: skip
    return assistant(text, tool_calls=calls, **more)


MESSAGES = [
    assistant('a < b {"x": [1]} </ é\n\nb', reasoning_content="So <x> {"),
    assistant('a < b {"x": [1]} </ é\n\nb'),
    call('{"a"} < </x> [é]\n\n\\ {'),
    call("a", "b {", reasoning_content="I\n\nlook"),
    call("a", text="I look."),
]
TEXTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"regex": "(.|\n)+"}, ["a\n\nb", "1 < 2\n- <b>x</b>\n{", "<x>\n", "a <", "x <| y", "12"]),
    ({"regex": "(ab)*c?"}, ["abab", "abc", "c"]),
    ({"regex": "(yes|no), because .{3,20}"}, ["no, because a < b > c", "yes, because 北京 🙂"]),
    ({"regex": "ab{0,3}(cd)?|e"}, ["a", "abbb", "abcd", "acd", "e"]),
    ({"regex": "yes\n?"}, ["yes"]),
    ({"lark": 'start: e\ne: t (" + " t)*\nt: /[0-9]+/ | "(" e ")"'}, ["1", "1 + 23", "((1)) + 4"]),
    ({"schema": {"type": ["number", "null"]}}, ["0", "-12.50", "1e9", "null", "123456"]),
    ({"schema": {"enum": [1, 12, "x", [1], {"a": 1}]}}, ["1", "12", '"x"', "[1]", '{"a": 1}']),
    ({"schema": {}}, ['{"a": {"b": [null, "<x>"]}, "c": 1.5}', "12", '""', "[1, []]", "false"]),
    (
        {"schema": {"properties": {"d": {"format": "date", "type": "string"}, "id": {"type": "string", "pattern": "^[A-Z]+[0-9]*$"}}}},
        ["{}", '{"d": "2024-02-29"}', '{"id": "AB1", "more": "\\n"}'],
    ),
]  # fmt: skip
# The quick suite binds answers in formats whose tags are ids, led by line ends, and text.
BOUND = either(("gemma3", "qwen2.5", "mypt-3b"), (*NAMES, "praxis"))


def split(d: Dialect, ids: list[int], choose: random.Random) -> list[int]:
    """Returns other ids of the same text: it is cut at random, and each part encoded alone."""
    bytes_of = vocab.vocabulary(d.tokenizer, d.table.base_vocabulary).of_byte
    tags, out, text = set(d.tokenizer.special.values()), list[int](), b""
    most = choose.choice([1, 3, 12])
    for i in [*ids, -1]:
        if i >= 0 and i not in tags:
            text += d.tokenizer.decode_bytes([i])
            continue
        while text:
            count = choose.randint(1, most)
            part, text = text[:count], text[count:]
            try:
                out += map(int, d.tokenizer.encode(part.decode()))
            except UnicodeDecodeError:
                out += [bytes_of[byte] for byte in part]
        out += [i] if i >= 0 else []
    return out


def ways(known: Known, count: int) -> Iterator[list[int]]:
    choose = random.Random(len(known.ids))
    yield known.ids
    for _ in range(count):
        yield split(known.dialect, known.ids, choose)


def check_allowed(made: Decoder, known: Known, ids: list[int]) -> None:
    """Feeds an answer id by id; it can be ended after it, also within a budget."""
    d, start = made.dialect, made.start(known.prompt)
    count = made.accepts(start, ids)
    assert count == len(ids), (d.tokenizer.decode(ids[:count]), d.tokenizer.decode(ids[count:]))
    least = made.minimum(made.run(start, ids))
    roomy = made.start(known.prompt, max_new_tokens=max(len(ids) + least, made.minimum(start)) + 20)
    assert made.accepts(roomy, ids) == len(ids)


def check_jumps(made: Decoder, known: Known) -> None:
    """What is forced, or spelled in the place of a drawn id, is what follows in an answer."""
    d, state = made.dialect, made.start(known.prompt)
    for at, token in enumerate(known.ids):
        before, rest = [*known.prompt, *known.ids[:at]], d.tokenizer.decode_bytes(known.ids[at:])
        for jump in (made.forced(state, before), made.respelled(state, token, before)):
            text = d.tokenizer.decode_bytes(jump)
            assert rest.startswith(text) or text.startswith(rest), (text, rest)
        state = made.next(state, token)


@pytest.mark.parametrize("name", NAMES)
def test_answers_of_a_format_are_allowed(name: str) -> None:
    made, count = Decoder(vocabulary.small(name), TOOLS), 0
    for message in either(MESSAGES[:3], MESSAGES):
        known = written(name, message, TOOLS, small=True)
        if known is not None:
            for ids in ways(known, either(1, 4)):
                check_allowed(made, known, ids)
            if either(name in BOUND, True):
                check_jumps(made, known)
            count += 1
    assert count or name in UNWRITTEN


@pytest.mark.parametrize("name", either((), tuple(NAMES)))
def test_drawn_answers_of_a_format_are_allowed(name: str) -> None:
    made: dict[bool, Decoder] = {}
    for known in many(name, 40):
        tools = "tool_calls" in known.message
        of = made.setdefault(tools, Decoder(known.dialect, ALL_TOOLS if tools else ()))
        for ids in ways(known, 2):
            check_allowed(of, known, ids)
        check_jumps(of, known)


@pytest.mark.parametrize("name", BOUND)
def test_texts_of_a_response_are_allowed_and_end_where_they_fit(name: str) -> None:
    for response, texts in either(TEXTS[:2], TEXTS):
        made: Decoder | None = None
        for text in texts:
            known = written(name, assistant(text), TOOLS, small=True)
            if known is None:
                continue
            d = known.dialect
            made = made or Decoder(d, TOOLS, response=Response(**response))
            for ids in ways(known, either(1, 3)):
                check_allowed(made, known, ids)
            check_jumps(made, known)
            body = d.tokenizer.encode(text)
            at = next((n for n in range(len(known.ids)) if known.ids[n : n + len(body)] == body), 0)
            pattern = re.compile(response.get("regex", "()"))
            for end in range(1, len(text)) if known.ids[at : at + len(body)] == body else ():
                if pattern.fullmatch(text, 0, end) and not text[:end].isspace():
                    shorter = [*known.ids[:at], *d.tokenizer.encode(text[:end])]
                    ids = [*shorter, *known.ids[at + len(body) :]]
                    assert made.accepts(made.start(known.prompt), ids) == len(ids), text[:end]
