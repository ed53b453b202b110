"""Hypothesis strategies for USF Omega: legal records, definitions of functions, and JSON Schemas."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.support.strategies import Record, any_text, clean_text, json_values

NAME = "usf-omega"
IDENTIFIERS = st.sampled_from(
    ["search", "calculate", "get_weather", "a-b", "x.y", "größe", "$f", "type", "string", 'q"uote']
)


def _strings(clean: bool) -> st.SearchStrategy[str]:
    """Strings inside JSON: without tags where the record is to be clean."""
    return (clean_text(NAME) if clean else any_text(NAME)) | st.just("")


def schemas(clean: bool = True) -> st.SearchStrategy[Any]:
    """JSON Schemas that anything fits, in what TypeScript can say and what it cannot."""
    words = st.sampled_from(["string", "number", "integer", "boolean", "null", "object", "array"])
    notes = st.fixed_dictionaries(
        {},
        optional={
            "description": _strings(clean),
            "title": _strings(clean),
            "default": json_values(_strings(clean), leaves=3),
            "x-*/": st.just("*/"),
        },
    )
    choices = st.lists(_strings(clean), min_size=1, max_size=3)
    leaves = st.one_of(
        st.just({}),
        words.map(lambda w: {"type": w}),
        st.lists(words, min_size=1, max_size=3, unique=True).map(lambda w: {"type": w}),
        choices.map(lambda c: {"type": "string", "enum": c}),
        choices.map(lambda c: {"enum": c}),
        st.just({"type": "integer", "enum": [1, 2], "minimum": 0}),
        st.booleans(),
    )

    def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            inner.map(lambda s: {"type": "array", "items": s}),
            st.lists(inner, min_size=1, max_size=2).map(lambda s: {"anyOf": s}),
            objects(inner, clean),
        )

    noted = st.tuples(leaves, notes).map(
        lambda pair: pair[0] | pair[1] if isinstance(pair[0], dict) else pair[0]
    )
    return st.recursive(noted, deeper, max_leaves=6)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any], clean: bool = True) -> dict[str, Any]:
    fields = draw(st.dictionaries(IDENTIFIERS | _strings(clean), inner, max_size=3))
    out: dict[str, Any] = {"type": "object", "properties": fields}
    required = draw(
        st.none() | st.lists(st.sampled_from([*fields, "other"]), max_size=3, unique=True)
    )
    return out if required is None else out | {"required": required}


@st.composite
def tools(draw: st.DrawFn, clean: bool = True) -> list[Record]:
    """Definitions of functions under different names."""
    names = draw(
        st.lists(IDENTIFIERS | _strings(clean).filter(bool), min_size=1, max_size=3, unique=True)
    )
    out = []
    for name in names:
        function: Record = {"name": name}
        if draw(st.booleans()):
            function["description"] = draw(_strings(clean))
        if draw(st.booleans()):
            function["parameters"] = draw(objects(schemas(clean), clean))
        if draw(st.integers(0, 4)) == 0:
            function["strict"] = draw(st.booleans())
        out.append({"type": "function", "function": function})
    return out


@st.composite
def records(draw: st.DrawFn, clean: bool = True) -> Record:
    """Records in every training shape.

    Not all are clean: contents may join into what a rule names.
    """
    text = clean_text(NAME, blank=not clean)
    values = json_values(_strings(clean), leaves=4)
    record: Record = {}
    if draw(st.booleans()):
        record["model_identity"] = draw(text)
    roles = draw(st.lists(st.sampled_from(["system", "developer"]), max_size=2))
    messages = [{"role": role, "content": draw(text)} for role in roles]
    defined = draw(tools(clean)) if draw(st.booleans()) else []
    if defined:
        bare = draw(st.booleans())
        record |= {"functions": [t["function"] for t in defined]} if bare else {"tools": defined}
    free = [
        t["function"]["name"]
        for t in defined
        if not t["function"].get("parameters", {}).get("required")
    ]
    names = st.sampled_from(free) if free else IDENTIFIERS
    arguments = st.just({}) if defined else st.dictionaries(_strings(clean), values, max_size=2)
    may_call = not defined or bool(free)
    for _ in range(draw(st.integers(0, 2))):
        messages.append({"role": "user", "content": draw(text)})
        if may_call and draw(st.booleans()):
            messages += draw(_exchange(text, names, arguments))
        messages.append({"role": "assistant", **draw(_answer(text, names, arguments, calls=False))})
    messages.append({"role": "user", "content": draw(text)})
    if draw(st.integers(0, 4)) == 0:
        messages[-1]["_note"] = draw(values)
    last = draw(_answer(text, names, arguments, calls=may_call))
    shape = draw(st.sampled_from(["messages", "messages", "top", "preference", "prompt"]))
    mixed = any(m["role"] == "assistant" for m in messages)
    if shape == "top" and not (clean and mixed):
        record |= {"assistant" if key == "content" else key: value for key, value in last.items()}
    elif shape == "preference":
        record |= {
            "chosen": {"role": "assistant", **last},
            "rejected": {"role": "assistant", "content": draw(text) + "?"},
        }
    elif shape != "prompt" or clean:
        messages.append({"role": "assistant", **last})
    record["messages"] = messages
    return record | draw(_flags(json.dumps(record)))


@st.composite
def _flags(draw: st.DrawFn, said: str) -> Record:
    efforts = ["minimal", "low", "medium", "high", "max"] + (
        [] if '"reasoning"' in said else ["none"]
    )
    flags = {
        "response_format": st.just({"type": "text"}), "search_enabled": st.booleans(), "citations_enabled": st.booleans(), "json_mode": st.just(False),
        "reasoning_effort": st.sampled_from(efforts), "thinking_budget": st.integers(2000, 4000), "label": st.booleans(), "language": st.sampled_from(["en", "pt-BR"]), "_meta": st.none() | st.text(max_size=3),
    }  # fmt: skip
    chosen = draw(st.fixed_dictionaries({}, optional=flags))
    return chosen | ({"self_reflection_enabled": True} if '"self_reflection"' in said else {})


def call(name: str, arguments: Record, number: int | None) -> Record:
    own = {} if number is None else {"id": f"c{number}"}
    return own | {"type": "function", "function": {"name": name, "arguments": arguments}}


@st.composite
def _exchange(draw: st.DrawFn, text: Any, names: Any, arguments: Any) -> list[Record]:
    """An assistant message that calls, and the results, in any order."""
    count = draw(st.integers(1, 3))
    ids = draw(st.booleans()) or count > 1
    calls = [call(draw(names), draw(arguments), i if ids else None) for i in range(count)]
    message: Record = {"role": "assistant", "tool_calls": calls}
    if draw(st.booleans()):
        message["content"] = draw(text)
    if draw(st.booleans()):
        message["self_reflection"] = draw(text)
    results = []
    for one in draw(st.permutations(calls)):
        name = {"name": one["function"]["name"]} if draw(st.booleans()) else {}
        own = {"tool_call_id": one["id"]} if ids else {}
        results.append({"role": "tool", **own, **name, "content": draw(text)})
    return [message, *results]


@st.composite
def _answer(draw: st.DrawFn, text: Any, names: Any, arguments: Any, *, calls: bool) -> Record:
    """What an assistant message says, as plain fields or as `contents`."""
    some = (
        [call(draw(names), draw(arguments), i) for i in range(draw(st.integers(1, 2)))]
        if calls
        else []
    )
    if draw(st.booleans()):
        out: Record = {"content": draw(text)}
        if some and draw(st.booleans()):
            out["tool_calls"] = some
        return out | draw(
            st.fixed_dictionaries({}, optional={"self_reflection": text, "reasoning": text})
        )
    items: list[Record] = (
        [{"type": "reasoning", "reasoning": draw(text)}] if draw(st.booleans()) else []
    )
    for _ in range(draw(st.integers(1, 3))):
        if some and draw(st.booleans()):
            items.append({"type": "tool_calls", "tool_calls": some})
            some = []
        else:
            items.append({"type": "text", "text": draw(text)})
        if draw(st.booleans()):
            items.append({"type": "self_reflection", "self_reflection": draw(text)})
    if not calls and items[-1]["type"] == "tool_calls":
        items.append({"type": "text", "text": draw(text)})
    return {"contents": items}
