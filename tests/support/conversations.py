"""Conversations by number, for comparisons with other libraries: the same ones in each run.

Hypothesis takes four fifths of the time of such a comparison to draw its conversations; these cost
a twentieth of that, so thousands can be compared. There is no shrinking: a failure names its
number, and `conversation(shape, number)` makes it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from random import Random
from typing import Any

import mypt_spec
from mypt_spec.damage.cut_tags import fragment, inner_tags
from mypt_spec.damage.near_miss import near_miss
from tests.support.oracles import EXAMPLES
from tests.support.strategies import TRICKY, Record, fragments

_WORDS = ["Hello.", "Sag Hallo.", "Grüße, 世界 \U0001f600", "a < b", "x\n\n- y", " lead", "trail ", "12,5 %"]  # fmt: skip
_PLANES = (0x80, 0x80, 0x250, 0x800, 0xD800, 0x110000)
_NUMBERS = [0, 1, -7, 10**30, -0.0, 0.5, 1e16, 5e-324]
_POOL = 1000  # texts of a dialect, from which its conversations are made
_SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the conversations of a dialect may have.

    `thoughts` are the keys of a thought, `calls` the most calls in a message, `ids` how their ids
    are numbered. `names` are those of arguments (any text without them), which are JSON text in a
    `quoted` message. `beside` a call may be a text. `tools` makes definitions.
    """

    name: str
    heads: tuple[str, ...] = ("system",)
    thoughts: tuple[str, ...] = ()
    calls: int = 0
    ids: str = ""
    names: tuple[str, ...] = ()
    quoted: bool = False
    beside: bool = True
    unanswered: bool = True
    empty_answers: bool = True
    result_names: bool = False
    tools: Callable[[Maker], list[Record]] | None = None
    options: tuple[tuple[str, tuple[Any, ...]], ...] = ()


class Maker:
    """Draws the pieces of one conversation, seeded by its number."""

    def __init__(self, shape: Shape, number: int, *, tags: bool) -> None:
        self.random = Random(f"{shape.name} {number}")
        self.shape, self.said = shape, _texts(shape.name)
        self.strings = _texts(shape.name, tags=True) if tags else self.said
        self.ids = (shape.ids.format(i) for i in count(self.random.randrange(9)))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def text(self, *, empty: float = 0.0) -> str:
        return "" if self.chance(empty) else self.random.choice(self.said)

    def value(self, depth: int = 2) -> Any:
        kind = self.random.randrange(9 if depth else 6)
        if kind < 3:
            return self.random.choice(self.strings)
        if kind < 6:
            return self.random.choice([None, True, False, self.random.choice(_NUMBERS)])
        some = range(self.random.randrange(4))
        if kind < 7:
            return [self.value(depth - 1) for _ in some]
        return {self.random.choice(self.strings): self.value(depth - 1) for _ in some}

    def thought(self) -> Record:
        if not self.shape.thoughts or self.chance(0.5):
            return {}
        return {self.random.choice(self.shape.thoughts): self.text(empty=0.1)}

    def called(self) -> list[Record]:
        """A message that calls tools, and the results."""
        shape, random = self.shape, self.random
        keys = shape.names or self.strings
        named, quoted = bool(shape.ids) and (not shape.quoted or self.chance(0.5)), self.chance(0.5)
        calls, results = [], []
        for _ in range(random.randint(1, shape.calls)):
            given = {random.choice(keys): self.value() for _ in range(random.randrange(3))}
            written = json.dumps(given) if quoted and shape.quoted else given
            function = {"name": random.choice(["f", "get_it"]), "arguments": written}
            own = next(self.ids)
            ids = ({"id": own}, {"tool_call_id": own}) if named else ({}, {})
            calls.append(ids[0] | {"type": "function", "function": function})
            told = shape.result_names or self.chance(0.3)
            name = {"name": function["name"]} if told else {}
            results.append({"role": "tool"} | ids[1] | name | {"content": self.text(empty=0.1)})
        said = {"content": self.text()} if shape.beside and self.chance(0.5) else {}
        return [{"role": "assistant"} | self.thought() | said | {"tool_calls": calls}, *results]

    def record(self) -> Record:
        shape, random = self.shape, self.random
        heads = [role for role in shape.heads if self.chance(0.5)]
        messages: list[Record] = [{"role": h, "content": self.text(empty=0.1)} for h in heads]
        for _ in range(random.randint(1, 3)):
            messages.append({"role": "user", "content": self.text(empty=0.1)})
            for _ in range(random.choice([0, 0, 1, 2]) if shape.calls else 0):
                messages += self.called()
            answer = self.text(empty=0.1 * shape.empty_answers)
            messages.append({"role": "assistant", **self.thought(), "content": answer})
        if shape.calls and shape.unanswered and self.chance(0.2):
            messages += [{"role": "user", "content": self.text()}, self.called()[0]]
        for message in messages:
            if self.chance(0.05):
                message["_note"] = self.value()
        record: Record = {"messages": messages}
        if shape.tools is not None and self.chance(0.5):
            record["tools"] = shape.tools(self)
        if self.chance(0.1):
            record |= {"_meta": self.value(), "language": "de"}
        if shape.options and self.chance(0.2):
            given = [(key, random.choice(values)) for key, values in shape.options]
            record["chat_template_kwargs"] = dict(random.sample(given, random.randint(1, len(given))))  # fmt: skip
        if (
            "developer" in shape.heads and len(record) > 1
        ):  # beside tools, an empty one says nothing
            record["messages"] = [
                m for m in messages if m["role"] not in shape.heads or m["content"]
            ]
        return record


def conversation(shape: Shape, number: int, *, clean: bool = False, tags: bool = True) -> Record:
    """The conversation of a number; a `clean` one has no finding at all, others may have warnings.

    Strings of JSON may spell whole `tags`, but for those of clean ones.
    """
    d = mypt_spec.dialect(shape.name)
    for again in count():
        record = Maker(shape, number + again * 10**6, tags=tags and not clean).record()
        findings = d.check(record)[1]
        if not findings if clean else all(f.severity != "error" for f in findings):
            return record
    raise AssertionError


def conversations(
    shape: Shape, *, clean: bool = False, tags: bool = True
) -> Iterator[tuple[int, Record]]:
    """As many conversations as oracles are asked about, with their numbers."""
    return ((n, conversation(shape, n, clean=clean, tags=tags)) for n in range(EXAMPLES))


@cache
def _texts(name: str, *, tags: bool = False) -> tuple[str, ...]:
    """Content of any kind, all planes and pieces of tags; whole `tags` are in that for JSON alone."""
    d = mypt_spec.dialect(name)
    random, inner = Random(name), inner_tags(d.table, d.automaton)
    pieces = [*fragments(name), *TRICKY, *TRICKY, *_WORDS, *_WORDS]

    def piece() -> str:
        if random.random() < 0.6:
            return random.choice(pieces)
        bound = random.choice(_PLANES)
        points = (random.randrange(bound) for _ in range(random.randint(1, 4)))
        return "".join(chr(p) for p in points if not 0xD800 <= p < 0xE000)

    def fine(text: str) -> bool:
        if tags:
            return True
        literal, almost = d.table.literals.search(text), near_miss(text, d.table)
        return bool(text) and literal is almost is fragment(text, inner) is None

    made = ("".join(piece() for _ in range(random.randint(1, 5))) for _ in count())
    out = [text for text, _ in zip(filter(fine, made), range(_POOL), strict=False)]
    return tuple(out)


# --- definitions of tools


def plain_tools(_: Maker) -> list[Record]:
    return [_tool(name, "What it is for.", _SCHEMA) for name in ("f", "get_it")]


def told_tools(made: Maker) -> list[Record]:
    """Definitions with texts of any kind."""
    schema = {"type": "object", "properties": {}}
    return [_tool(name, made.random.choice(made.strings), schema) for name in ("f", "get_it")]


def _tool(name: str, about: str, schema: Record) -> Record:
    function = {"name": name, "description": about, "parameters": schema}
    return {"type": "function", "function": function}


def typed_tools(made: Maker) -> list[Record]:
    """Definitions with schemas of each kind, which the text of a namespace may say in part."""
    out = []
    for name in made.random.sample(["f", "get_it", "workspace.search"], made.random.randint(1, 2)):
        function: Record = {"name": name}
        if made.chance(0.7):
            function["description"] = _about(made)
        if made.chance(0.7):
            function["parameters"] = _object(made, 2)
        out.append({"type": "function", "function": function})
    return out


def _about(made: Maker) -> str:
    return made.text().replace("\r", "").strip("\n") or "d"


def _object(made: Maker, depth: int) -> Record:
    names = made.random.sample(["city", "n", "unit_2", "foo-bar"], made.random.randrange(4))
    fields = {name: _schema(made, depth) for name in names}
    return {"type": "object", "properties": fields, "required": names[:1]}


def _schema(made: Maker, depth: int, *, bare: bool = False) -> Record:
    kinds = ("string", "number", "boolean", "integer", "array", ["string", "null"], "enum", "any")
    kind = made.random.choice((*kinds, "object", "items", "oneOf") if depth else kinds)
    schemas: dict[str, Callable[[], Record]] = {
        "enum": lambda: {"type": "string", "enum": ["a", "b c"]},
        "any": dict,
        "object": lambda: _object(made, depth - 1),
        "items": lambda: {"type": "array", "items": _schema(made, depth - 1, bare=True)},
        "oneOf": lambda: {"oneOf": [_schema(made, depth - 1, bare=True) for _ in "12"]},
    }
    make = schemas.get(str(kind))
    out = make() if make else {"type": kind}
    if made.chance(0.2):
        out |= {"nullable": made.chance(0.5), "minimum": 1}
    if not bare and made.chance(0.5):
        out["description"] = _about(made)
    if not bare and made.chance(0.2):
        out |= {"title": _about(made), "default": made.random.choice([None, True, 3, 1e-5, "celsius", [1, "a"]])}  # fmt: skip
    return out


# --- the dialects

_REASONS = ("reasoning_content", "thinking", "reasoning")
_EFFORTS = ("low", "medium", "high")
CHATML = Shape(name="chatml")
LLAMA3 = Shape(
    name="llama3", calls=1, ids="c{}", names=("q", "name", "n m"), quoted=True, beside=False,
    tools=plain_tools, options=(("date_string", ("26 Jul 2024", "1. Mai")), ("tools_in_user_message", (True,))),
)  # fmt: skip
LLAMA3_CHAT = Shape(name="llama3")
QWEN3 = Shape(
    name="qwen3", thoughts=_REASONS, calls=2, ids="call_{}", names=("q", "name", "n m"), quoted=True,
    tools=plain_tools, options=(("enable_thinking", (True, False)),),
)  # fmt: skip
MISTRAL = Shape(name="mistral", calls=2, ids="call{:05}", empty_answers=False, tools=told_tools)
MISTRAL_V13 = Shape(
    name="mistral-v13", thoughts=_REASONS[:1], calls=2, ids="call{:05}", empty_answers=False, tools=told_tools
)  # fmt: skip
HARMONY = Shape(
    name="harmony", heads=("system", "developer"), thoughts=_REASONS[:1], calls=1, ids="c{}", unanswered=False,
    result_names=True, tools=typed_tools,
    options=(
        ("reasoning_effort", _EFFORTS), ("model_identity", ("You are a bot.",)),
        ("conversation_start_date", ("2025-06-28",)), ("builtin_tools", (["browser"], ["python", "browser"])),
    ),
)  # fmt: skip
