"""Tool calls in texts and results as texts, in every dialect."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.parsing import find_last_toolcall, read_toolresult, render_toolresult
from mypt_infer.run_format import format_of
from mypt_spec.episode import Episode, Message, Part
from tests.support.examples import examples
from tests.support.strategies import DIALECTS, episodes

OFTEN = settings(max_examples=examples(160))  # an example takes a moment
WITH_CALLS = [name for name in DIALECTS if format_of(name).calls]
WITH_RESULTS = [name for name in WITH_CALLS if format_of(name).result]
BODIES = {
    "mypt": '<myPT_toolcall>{"name": "f", "q": "}{"}</myPT_toolcall>',
    "mypt-3b": '\n<toolcall name="f">\n{"q": "}{"}\n</toolcall>\n',
    "praxis": '<tin>\n{"name": "f", "arguments": {"q": "}{"}}\n</tin>',
    "usf-omega": '<tool_calls_start>[{"type": "function", "function": {"name": "f", "arguments": {"q": "}{"}}}]<tool_calls_end>',
}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_the_last_call_of_a_text(name: str) -> None:
    block = BODIES[name]
    first = block.replace("}{", "first")
    call = find_last_toolcall(f"words {first} words {block} <tin> words", name)
    assert call is not None
    assert (call.name, call.arguments, call.raw_block) == ("f", {"q": "}{"}, block.strip("\n"))


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_call_that_is_broken_is_passed_over(name: str) -> None:
    whole = BODIES[name]
    broken = [
        whole.replace('"}{"', "nothing"),
        whole[: len(whole) // 2],
        whole.replace("{", "[", 1),
        whole.replace('"f"', '""', 1),
    ]
    for text in broken:
        assert find_last_toolcall(text, name) is None, text
        call = find_last_toolcall(whole + text, name)
        assert call is not None
        assert call.raw_block == whole.strip("\n")


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_body_ends_where_its_json_does(name: str) -> None:
    """Brace matching: tags inside a string are text, even those that would close the call and the
    blocks around it.
    """
    block = BODIES[name]
    table = mypt_spec.dialect(name).table
    every = [t.shown for t in [*table.closers.values(), *table.openers.values()]]
    tags = "".join(tag for tag in every if '"' not in tag)
    assert "</toolcall>" in tags or name != "mypt-3b"
    held = block.replace('"}{"', json.dumps(f"a {tags} b"))
    for text in (held, f"{block} words {held} words", held + "words <tin> {"):
        call = find_last_toolcall(text, name)
        assert call is not None
        assert call.arguments == {"q": f"a {tags} b"}
        assert call.raw_block == held.strip("\n")
    later = find_last_toolcall(held + block, name)
    assert later is not None
    assert later.arguments == {"q": "}{"}


@pytest.mark.parametrize("name", ["mypt", "mypt-3b"])
@OFTEN
@given(value=st.recursive(st.none() | st.text(), st.lists))
def test_a_rendered_result_is_read_back(name: str, value: Any) -> None:
    text = render_toolresult("f", value, name)
    assert read_toolresult(text, name) == ("f" if name == "mypt-3b" else "", value)
    assert read_toolresult(f"{text} words", name) is None
    assert read_toolresult("words", name) is None


def test_a_quotation_is_no_call() -> None:
    quoted = '<myPT_system>Format: <myPT_toolcall>{"name": "f"}</myPT_toolcall></myPT_system><myPT_user>Hi</myPT_user>'
    assert find_last_toolcall(quoted) is None
    quoted = '<user>\n<toolcall name="f">\n{}\n</toolcall>\n</user>'
    assert find_last_toolcall(quoted, "mypt-3b") is None
    assert find_last_toolcall("anything", "gabgpt") is None
    with pytest.raises(KeyError, match="known are"):
        find_last_toolcall("", "none")


def last_call(episode: Episode) -> tuple[str, Any] | None:
    """Returns the last call of an episode, read in another way."""
    last = None
    for message in episode.messages:
        if message.role == "system":
            continue
        # A call is a block inside of a message, or a message by itself.
        whole = (message.role, message.attrs, message.parts[0] if message.parts else None)
        for kind, attrs, part in [
            whole,
            *((part.kind, part.attrs, part) for part in message.parts),
        ]:
            if part is None or kind not in format_of(episode.dialect).calls:
                continue
            value = json.loads(part.text)
            if isinstance(value, list):
                value = value[-1].get("function", value[-1])
            if attrs:
                last = dict(attrs)["name"], value
            elif episode.dialect == "mypt":
                # An argument called "name" has one "_" more in the text.
                pairs = {
                    re.sub("^(name_*)_$", r"\1", k): v for k, v in value.items() if k != "name"
                }
                last = value["name"], pairs
            else:
                key = "parameters" if episode.dialect == "llama3" else "arguments"
                last = value["name"], value[key]
    return last


@OFTEN
@given(data=st.data(), name=st.sampled_from(WITH_CALLS))
def test_as_the_episode_says(data: st.DataObject, name: str) -> None:
    episode = data.draw(episodes(name))
    call = find_last_toolcall(mypt_spec.dialect(name).serialize(episode), name)
    assert (None if call is None else (call.name, call.arguments)) == last_call(episode)


@OFTEN
@given(text=st.text(), name=st.sampled_from(DIALECTS))
def test_any_text_can_be_searched(text: str, name: str) -> None:
    assert find_last_toolcall(text, name) is None or format_of(name).calls


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
TAGS = st.sampled_from(
    [t.shown for n in DIALECTS for t in mypt_spec.dialect(n).table.terminals.values()]
)


@OFTEN
@given(value=JSON | TAGS | st.lists(TAGS), name=st.sampled_from(WITH_RESULTS))
def test_a_rendered_result_is_one_block(value: Any, name: str) -> None:
    fmt = format_of(name)
    result = fmt.result
    assert result is not None
    events = fmt.dialect.lex(render_toolresult("f", value, name, call_id="c1"))
    first = next(iter(fmt.around), result)
    assert events[0].terminal == first.name
    assert events[-1].terminal == fmt.dialect.table.closers[first.opens].name
    assert [e.terminal for e in events].count(result.name) == 1
    # Nothing in the value became a tag.
    assert len(events) == len(fmt.result_events("f", value, "c1"))
    if result.body == "json":
        assert json.loads(events[1].text) == value


def test_the_seeds_form() -> None:
    text = render_toolresult("workspace.search", {"documents": []}, "mypt-3b")
    assert text == '<toolresult name="workspace.search">\n{"documents": []}\n</toolresult>'
    assert render_toolresult("calc", "4", "praxis") == "<tout>4</tout>"
    with pytest.raises(ValueError, match="no tool calls"):
        render_toolresult("f", {}, "gabgpt")


def test_a_result_names_the_id_of_its_call_where_the_format_has_one() -> None:
    text = render_toolresult("f", "4", "mistral", call_id="abc")
    assert text == "[TOOL_RESULTS]abc[TOOL_CONTENT]4[/TOOL_RESULTS]"
    with pytest.raises(ValueError, match="names the id of its call, which is ''"):
        render_toolresult("f", "4", "mistral")
    with pytest.raises(ValueError, match="NaN"):
        render_toolresult("f", {"a": float("nan")})


def test_what_stands_once() -> None:
    assert "SYSTEM_OPEN" in format_of("mypt").once
    assert "USER_OPEN" not in format_of("mypt").once
    part = Message("user", (Part("text", "<tin>"),))
    assert format_of("praxis").harmless(part.text) == "\\u003ctin>"
    assert format_of("mypt").harmless("<myPT_user>") == "<myPT_user>"
