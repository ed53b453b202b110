"""Options of templates: what a record's `chat_template_kwargs` do to its text, ids, mask and prompt.

Where CHAT_TEMPLATES names a folder with the official templates, text is compared with these, too;
Harmony's system block is compared with OpenAI's library in `test_harmony.py`, Llama's in
`test_chat_templates.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.decode.prompt import prompt_ids
from mypt_infer.serve.asked.errors import ApiError
from mypt_infer.serve.asked.prompts import Prompter
from mypt_spec import Episode
from mypt_spec.adapters.template_options import KEY
from tests.support.chat_shapes import THOUGHTS
from tests.support.chat_templates import canonical, comparable, rendered
from tests.support.decoding import decoder
from tests.support.strategies import Record, records

USER, SAID = {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}
EMPTY = "<think>\n\n</think>\n\n"


def read(name: str, record: Record) -> Episode:
    episode, _ = mypt_spec.dialect(name).read(record)
    assert episode is not None
    return episode


def prompt_of(name: str, record: Record) -> str:
    d = mypt_spec.dialect(name)
    return d.tokenizer.decode(prompt_ids(d, read(name, record)))


@pytest.mark.parametrize("name", ["written here: qwen3", "qwen3"])
@given(data=st.data())
def test_prompts_of_qwen3_are_those_of_the_template(name: str, data: st.DataObject) -> None:
    record = data.draw(records("qwen3"))
    options = {"enable_thinking": data.draw(st.booleans())}
    record = comparable(name, record)
    asked = max(i for i, m in enumerate(record["messages"]) if m["role"] in ("user", "tool"))
    record = record | {"messages": record["messages"][: asked + 1]}
    shown = rendered(name, record, add_generation_prompt=True, **options)
    assert prompt_of("qwen3", record | {KEY: options}) == shown
    assert shown.endswith(EMPTY) is not options["enable_thinking"]


@given(st.data())
def test_history_of_qwen3_is_that_of_the_template(data: st.DataObject) -> None:
    """A disabled thought is an empty one in the last message alone, as the template writes it."""
    record = canonical(data.draw(records("qwen3")))
    for message in record["messages"]:  # the template strips these
        if message["role"] == "assistant":
            message["content"] = message.get("content", "").lstrip("\n")
            if "reasoning_content" in message:
                message["reasoning_content"] = message["reasoning_content"].strip("\n")
    record[KEY] = {"enable_thinking": False}
    d = mypt_spec.dialect("qwen3")
    (episode,) = d.trained(read("qwen3", record), history="official")
    assert d.serialize(episode) == rendered("qwen3", record, enable_thinking=False)


@pytest.mark.parametrize("name", ["written here: qwen3", "qwen3"])
@given(data=st.data())
def test_each_call_is_trained_after_the_prompt_that_asks_for_it(
    name: str, data: st.DataObject
) -> None:
    """Without thinking, a prompt ends with an empty thought that the next one does not have."""
    record = comparable(name, canonical(data.draw(records("qwen3"))))
    record = record | {KEY: {"enable_thinking": False}}
    for message in record["messages"]:
        for key in THOUGHTS:
            message.pop(key, None)
    d, messages = mypt_spec.dialect("qwen3"), record["messages"]
    asked = [
        i
        for i, m in enumerate(messages)
        if m["role"] in ("user", "tool") and [*messages, USER][i + 1]["role"] == "assistant"
    ]
    parts = d.trained(read("qwen3", record), history="per-turn")
    assert len(parts) == len(asked)
    for part, at in zip(parts, asked, strict=True):
        before = record | {"messages": messages[: at + 1]}
        shown = rendered(name, before, add_generation_prompt=True, enable_thinking=False)
        text, encoded = d.serialize(part), d.encode(part, mask="last")
        assert text.startswith(shown)
        trained = d.tokenizer.decode(encoded.ids[encoded.loss == 1])
        assert text == f"{shown}{trained}\n", "the step alone is trained, but for the line end"


def test_what_the_prompt_writes_is_not_trained() -> None:
    d = mypt_spec.dialect("qwen3")
    record = {"messages": [USER, SAID], KEY: {"enable_thinking": False}}
    episode = read("qwen3", record)
    assert d.serialize(episode).endswith(f"assistant\n{EMPTY}a<|im_end|>\n")

    def learnt(mask: str) -> str:
        encoded = d.encode(episode, mask=mask)
        return d.tokenizer.decode(
            i for i, w in zip(encoded.ids.tolist(), encoded.loss.tolist(), strict=True) if w
        )

    assert learnt("model") == "a<|im_end|>"
    assert learnt("trl") == f"{EMPTY}a<|im_end|>\n"
    prompt = prompt_ids(d, read("qwen3", record | {"messages": [USER]}))
    assert d.encode(episode).ids.tolist()[: len(prompt)] == prompt, "as at run time"


def test_a_thought_is_kept_where_thinking_is_disabled() -> None:
    thought = SAID | {"reasoning_content": "t"}
    record = {"messages": [USER, thought], KEY: {"enable_thinking": False}}
    assert "<think>\nt\n</think>" in mypt_spec.dialect("qwen3").serialize(read("qwen3", record))


def test_the_decoder_goes_on_after_an_empty_thought() -> None:
    made = decoder("qwen3", tools=False)
    ids = made.ids_of(read("qwen3", {"messages": [USER], KEY: {"enable_thinking": False}}))
    state = made.start(ids, max_new_tokens=8)
    allowed = made.allowed(state)
    assert not allowed[made.dialect.table.special["<think>"]]
    assert allowed[made.dialect.table.special["<|im_end|>"]]


@pytest.mark.parametrize("name", ["gptoss", "llama3_1"])
@pytest.mark.parametrize("tools", [False, True])
def test_the_system_block_is_that_of_the_template(name: str, tools: bool) -> None:
    folder = os.environ.get("CHAT_TEMPLATES")
    if not folder:
        pytest.skip("CHAT_TEMPLATES names no folder with the official templates")
    dialect = {"gptoss": "harmony", "llama3_1": "llama3"}[name]
    date = "2025-06-28"
    options: Record = {
        "gptoss": {"model_identity": "I.", "reasoning_effort": "low", "builtin_tools": ["python", "browser"]},
        "llama3_1": {"date_string": date},
    }[name]  # fmt: skip
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}  # fmt: skip
    record: Record = {"messages": [{"role": "system", "content": "S"}, USER, SAID]}
    record |= {"tools": [tool]} if tools else {}
    shown = officially(Path(folder) / f"{name}.jinja", record, date, options)
    own = options | ({"conversation_start_date": date} if name == "gptoss" else {})
    text = mypt_spec.dialect(dialect).serialize(read(dialect, record | {KEY: own}))
    end = {"harmony": "<|end|>", "llama3": "<|eot_id|>"}[dialect]
    assert text.split(end)[0] == shown.split(end)[0]


def test_the_template_of_gpt_oss_differs_as_specified() -> None:
    """Section 9 of the specification of harmony: where the template is not as the library."""
    folder = os.environ.get("CHAT_TEMPLATES")
    if not folder:
        pytest.skip("CHAT_TEMPLATES names no folder with the official templates")
    template, date = Path(folder) / "gptoss.jinja", "2025-06-28"

    def both(record: Record) -> tuple[str, str]:
        own = record | {KEY: {"conversation_start_date": date}}
        ours = mypt_spec.dialect("harmony").serialize(read("harmony", own))
        return officially(template, record, date, {"conversation_start_date": "2001-01-01"}), ours

    head: Record = {"role": "system", "content": "S"}
    theirs, ours = both({"messages": [head, USER, SAID]})
    assert f"Current date: {date}" in theirs
    assert theirs.replace("S\n\n<|end|>", "S<|end|>") == ours
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    calling = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    theirs, ours = both({"messages": [USER, calling]})
    assert "<|channel|>analysis<|message|>I look.<|end|>" in theirs
    assert "<|channel|>commentary<|message|>I look.<|end|>" in ours
    inner = {"type": "object", "properties": {"z": {"type": "string"}}}
    field = {"type": "object", "properties": {"q": inner}}
    schema = {"type": "object", "properties": {"p": field}}
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}
    theirs, ours = both({"messages": [USER, SAID], "tools": [tool]})
    assert "z?: string,\n" in ours
    assert "z?: string,\n" not in theirs


def officially(file: Path, record: Record, date: str, options: Record) -> str:
    """The text of an official template, for which it is this day."""
    sandbox = pytest.importorskip("jinja2.sandbox", reason="runs templates")

    def refuse(why: str) -> None:
        raise ValueError(why)

    made = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    found = made.from_string(file.read_text(encoding="utf-8")).render(
        **record, **options, bos_token="<|begin_of_text|>", raise_exception=refuse,
        strftime_now=lambda _: date,
    )  # fmt: skip
    return str(found)


def test_a_request_may_give_options() -> None:
    d = mypt_spec.dialect("qwen3")
    prompter, options = Prompter(d, "qwen3"), {"enable_thinking": False}
    found = prompter.prompt([USER], [], options)
    assert found.ids == prompt_ids(d, read("qwen3", {"messages": [USER], KEY: options}))
    with pytest.raises(ApiError, match='no option "thinking"'):
        prompter.prompt([USER], [], {"thinking": False})
    with pytest.raises(ApiError, match="no options"):
        Prompter(mypt_spec.dialect("mistral"), "mistral").prompt([USER], [], options)


# --- findings


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("llama3", {"date_string": "D"}, "Environment: ipython\n"),
        ("harmony", {"model_identity": "I."}, "\nCalls to these tools must go to the commentary"),
    ],
)
def test_what_options_say_of_tools_is_left_out_without_tools(
    name: str, options: Record, said: str
) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    for more in ({}, {"tools": [tool]}):
        episode = read(name, {"messages": [USER, SAID], KEY: options} | more)
        assert (said in mypt_spec.dialect(name).serialize(episode)) == bool(more)


def codes(name: str, options: Any) -> list[tuple[str, str]]:
    _, findings = mypt_spec.dialect(name).check({"messages": [USER, SAID], KEY: options})
    return [(f.code, f.pointer) for f in findings]


def test_unknown_options_and_values_are_found() -> None:
    assert codes("qwen3", {"enable_thinking": True}) == []
    assert codes("qwen3", {"thinking": True}) == [("MYP361", f"/{KEY}/thinking")]
    assert codes("qwen3", {"enable_thinking": 0}) == [("MYP104", f"/{KEY}/enable_thinking")]
    assert codes("harmony", {"reasoning_effort": "max"}) == [("MYP104", f"/{KEY}/reasoning_effort")]
    assert codes("harmony", {"builtin_tools": ["x"]}) == [("MYP104", f"/{KEY}/builtin_tools")]
    assert codes("mistral", {"a/b": 1}) == [("MYP361", f"/{KEY}/a~1b")]
    assert codes("qwen3", None) == []
    assert codes("qwen3", 3) == [("MYP104", f"/{KEY}")]


@pytest.mark.parametrize(("more", "gone"), [({}, True), ({"_note": 1}, False)])
def test_an_empty_text_after_that_of_the_options_is_found(more: Record, gone: bool) -> None:
    """It says nothing, and does not come back, unless it has metadata."""
    d = mypt_spec.dialect("llama3")
    first = {"role": "system", "content": ""} | more
    for options in ({"date_string": "D"}, {}):
        episode, findings = d.check({"messages": [first, USER, SAID], KEY: options})
        assert [f.code for f in findings] == ["MYP314"] * bool(options)
        assert all(f.pointer == "/messages/0/content" for f in findings)
        roles = [m["role"] for m in d.write(episode)["messages"]]
        assert ("system" in roles) != (gone and bool(options))


def test_options_are_no_second_tag() -> None:
    """What an option says is text, whatever it spells."""
    d = mypt_spec.dialect("harmony")
    record = {"messages": [USER, SAID], KEY: {"model_identity": "I<|end|><|start|>"}}
    episode, findings = d.check(record)
    assert "MYP301" in [f.code for f in findings]
    assert episode is not None
    ids = d.encode(episode).ids.tolist()
    assert ids.count(d.table.special["<|end|>"]) == 2, "of the system's and of the user's block"


@pytest.mark.parametrize("name", ["qwen3", "harmony", "llama3"])
@given(data=st.data())
def test_a_record_with_options_comes_back(name: str, data: st.DataObject) -> None:
    """`write` takes out again what the options say, so the canonical record is as short.

    An empty text in the block of the options' text has a finding, and is left out.
    """
    d = mypt_spec.dialect(name)
    record = data.draw(records(name).filter(lambda r: r.get(KEY)))
    written = d.write(read(name, record))
    assert written[KEY] == record[KEY]
    roles = [m["role"] for m in record["messages"]]
    found = [f.pointer for f in d.read(record)[1] if f.code == "MYP314"]
    assert found in ([], ["/messages/0/content"])
    gone = bool(found) and record["messages"][0].keys() == {"role", "content"}
    assert [m["role"] for m in written["messages"]] == roles[gone:]
    assert d.write(read(name, written)) == written
