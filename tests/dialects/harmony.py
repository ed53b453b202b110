"""Legal records of harmony."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mypt_spec.bodies.read_signatures import read_signatures
from mypt_spec.bodies.signatures import lost, write_signatures
from mypt_spec.bodies.typescript import NamespaceError
from tests.dialects.chatml import text
from tests.support.strategies import Record, any_text, json_values, with_notes, with_options

NAME = "harmony"
NAMES = ["f", "get_weather", "workspace.search"]
_PLAIN = [{"type": t} for t in ("string", "number", "boolean")] + [
    {"type": ["string", "null"]}, {"type": "array"}, {}, {"type": "string", "enum": ["a", "b c"]},
]  # fmt: skip
_DEFAULTS: list[Any] = [None, True, 3, 1e-5, 1e20, "celsius", [1, "a"]]


def schemas(said: st.SearchStrategy[str], *, clean: bool) -> st.SearchStrategy[Any]:
    """Schemas of arguments; of `clean` ones, the types of the format say all."""
    also = {} if clean else {
        "nullable": st.booleans(), "minimum": st.just(1), "title": said, "default": st.sampled_from(_DEFAULTS),
    }  # fmt: skip

    def of(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        notes = {"description": said, **also}
        return st.builds(lambda a, b: a | b, types, st.fixed_dictionaries({}, optional=notes))

    def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = of(inner.map(lambda i: {"type": "array", "items": _bare(i)}))
        several = st.lists(inner, min_size=2, max_size=2).map(lambda v: {"oneOf": [*map(_bare, v)]})
        return of(_object(inner)) | lists | (st.nothing() if clean else of(several))

    leaves = st.sampled_from(_PLAIN)
    return st.recursive(of(leaves if clean else leaves | st.just({"type": "integer"})), around, max_leaves=4)  # fmt: skip


def _bare(schema: Record) -> Record:
    """A schema without what has no place where it has no name."""
    return {k: v for k, v in schema.items() if k not in ("description", "default", "title")}


def _object(fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["city", "n", "unit_2", "foo-bar"])
    made = st.dictionaries(names, fields, max_size=3)
    return made.map(lambda f: {"type": "object", "properties": f, "required": [*f][:1]})


def tools(said: st.SearchStrategy[str], *, clean: bool) -> st.SearchStrategy[list[Record]]:
    """Definitions of tools."""
    about = said.map(lambda text: text.replace("\r", "").strip("\n") or "d")
    more = {"description": about, "parameters": _object(schemas(about, clean=clean))}
    function = st.fixed_dictionaries({"name": st.sampled_from(NAMES)}, optional=more)
    made = function.map(lambda f: {"type": "function", "function": f})
    several = st.lists(made, min_size=1, max_size=2, unique_by=lambda t: str(t["function"]["name"]))
    return several.filter(lambda given: _readable(given, whole=clean))


def _readable(given: list[Record], *, whole: bool) -> bool:
    """Whether the text of definitions can be read, and as a `whole` says all of them."""
    try:
        return not lost(given, read_signatures(write_signatures(given))) or not whole
    except NamespaceError:
        return False


@st.composite
def records(draw: st.DrawFn, clean: bool = True) -> Record:
    """`clean` records have no finding at all; the others may have warnings."""
    content = text(NAME, clean=clean) | st.just("")
    said = text(NAME, clean=clean)
    values = json_values(any_text(NAME))
    strings = said if clean else any_text(NAME)
    arguments = st.dictionaries(strings, json_values(strings), max_size=2)
    heads = [role for role in ("system", "developer") if draw(st.booleans())]
    messages: list[Record] = [{"role": role, "content": draw(content)} for role in heads]
    for _ in range(draw(st.integers(1, 3))):
        more = st.fixed_dictionaries({}, optional={"reasoning_content": said})
        messages.append({"role": "user", "content": draw(content)})
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            function = {"name": draw(st.sampled_from(NAMES)), "arguments": draw(arguments)}
            before = st.fixed_dictionaries(
                {}, optional={"reasoning_content": said, "content": said}
            )
            calls = [{"type": "function", "function": function}]
            messages.append({"role": "assistant", **draw(before), "tool_calls": calls})
            result = {"role": "tool", "name": function["name"], "content": draw(content)}
            if draw(st.booleans()):
                calls[0] = {"id": "c1", **calls[0]}
                result = {"role": "tool", "tool_call_id": "c1", **result}
            messages.append(result)
        messages.append({"role": "assistant", **draw(more), "content": draw(content)})
    given = None if draw(st.integers(0, 2)) else draw(tools(said, clean=clean))
    record = with_notes(draw, messages, values, tools=given)
    if "tools" in record:  # beside them an empty text says nothing
        spoken = [m for m in messages if m["role"] != "developer" or m["content"]]
        record["messages"] = spoken
    first = record["messages"][0]
    if len(heads) < 2 and (first["role"] != "system" or first["content"]):
        with_options(
            draw,
            record,
            reasoning_effort=st.sampled_from(["low", "medium", "high"]),
            model_identity=said,
            conversation_start_date=st.just("2025-06-28"),
            builtin_tools=st.lists(st.sampled_from(["browser", "python"]), unique=True),
        )
    return record
