"""What `mypt-export` writes for servers, against transformers, xgrammar, llguidance and llama.cpp.

`nox -s exports` compares 500 chats a dialect.
"""

from __future__ import annotations

import copy
import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.export import main
from mypt_infer.decode.prompt import prompt_ids
from mypt_spec.adapters.template_options import KEY
from mypt_spec.bodies.json_body import written
from mypt_spec.history import official
from mypt_spec.table import TEXT
from mypt_train.export import endings, server_files
from mypt_train.export.chat_facts import first_text
from mypt_train.export.chat_template import JSON_TEXT, chat_template
from mypt_train.export.response_template import response_template
from mypt_train.export.tokenizer_file import padding
from tests.support.build import assistant, function, user
from tests.support.chats import EXAMPLES, NAMES, chats, cut_short, joins, spells, writes_tools
from tests.support.examples import examples
from tests.support.huggingface import tokenizer
from tests.support.rollouts import Rollout, faults, mutated, rollouts
from tests.support.server_grammars import READERS, by_llama_cpp

jinja2 = pytest.importorskip("jinja2")
pytest.importorskip("transformers")
HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much]
few = settings(max_examples=EXAMPLES, suppress_health_check=HEALTH, deadline=None)
EXPONENT = re.compile(r'"default": [^"]*\de[-+]?\d')
QUESTION = [user("u")]
MASKED = {"tokenize": True, "return_dict": True, "return_assistant_tokens_mask": True}


@cache
def theirs(name: str) -> Any:
    return tokenizer(mypt_spec.dialect(name))


def render(name: str, messages: Any = QUESTION, **options: Any) -> Any:
    """What the exported template makes of messages: a text, if nothing else is said."""
    return theirs(name).apply_chat_template(messages, **{"tokenize": False} | options)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few
def test_the_template_gives_our_ids_and_mask(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    record, whole = data.draw(chats(name, clean=data.draw(st.booleans())).filter(bool))
    episode = official(whole, d.table)
    assume(not spells(d, (padding(d),), record) and not joins(d, episode))
    # Jinja writes such a number otherwise, so the template refuses it by name.
    assume(name != "harmony" or not EXPONENT.search(json.dumps(record.get("tools"))))
    rows = render(name, record["messages"], tools=record.get("tools"), **MASKED)
    encoded = d.encode(episode)
    assert theirs(name).decode(rows["input_ids"]) == d.serialize(episode)
    assert rows["input_ids"] == encoded.ids.tolist()
    if not cut_short(d, episode):
        assert np.array_equal(rows["assistant_masks"], encoded.loss)


SPACES = [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few
def test_arguments_may_be_json_text(name: str, data: st.DataObject) -> None:
    """OpenAI's own form: it is written as the same arguments as an object are."""
    d = mypt_spec.dialect(name)
    record, _ = data.draw(chats(name).filter(bool))
    assume(not spells(d, (padding(d),), record))
    messages = copy.deepcopy(record["messages"])
    for call in (one for message in messages for one in message.get("tool_calls") or ()):
        given = call["function"]["arguments"]
        call["function"]["arguments"] = json.dumps(given, **data.draw(st.sampled_from(SPACES)))
    shown = [render(name, m, tools=record.get("tools")) for m in (record["messages"], messages)]
    assert shown[0] == shown[1]


DEEP = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")) | st.sampled_from(['"', "\\", '\\"', "\\u0041", "\U0001f642"]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text("ab\"\\é\U0001f642"), values, max_size=3),
)  # fmt: skip


@given(st.dictionaries(st.text(), DEEP, max_size=3), st.sampled_from(SPACES), st.data())
@settings(max_examples=examples(400), deadline=None)
def test_any_json_text_is_read_or_refused(
    arguments: dict[str, Any], spaces: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(arguments, **spaces)
    at = data.draw(st.integers(0, len(text)))
    texts = [text, text[:at] + data.draw(st.sampled_from(['"', "\\", ",", "}", "1", "e", "u", "-", ".", "\n", ""])) + text[at + 1 :]]  # fmt: skip
    for one in texts:
        value, wrong = parse_object(one)
        if wrong:
            with pytest.raises(jinja2.TemplateError, match="must be an object or its JSON text"):
                read_json(one)
        else:
            assert read_json(one) == json.dumps(value, ensure_ascii=False)


def parse_object(text: str) -> tuple[Any, bool]:
    """Returns what a text is as JSON, and whether a record may not have it: MYP004 and MYP005."""
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=float.fromhex)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return None, True
    return value, False


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def read_json(text: str) -> str:
    """Returns what the exported templates read in a text, as JSON again."""
    from transformers.utils.chat_template_utils import render_jinja_template

    program = JSON_TEXT.read_text(encoding="utf-8")
    program += "{{- parse(messages[0].content, 'here') -}}{{- read.value | tojson -}}"
    return str(render_jinja_template([[{"content": text}]], chat_template=program)[0][0])


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few
def test_an_answer_is_read_back(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    record, _ = data.draw(chats(name).filter(bool))
    assume(not spells(d, (padding(d),), record))
    messages, tools = record["messages"], record.get("tools")
    for at, message in enumerate(messages):
        before = messages[:at]
        if message["role"] != "assistant" or before[-1]["role"] == "assistant":
            continue
        prompt = render(name, before, tools=tools, add_generation_prompt=True)
        whole = render(name, messages[: at + 1], tools=tools)
        if not whole.startswith(prompt):
            continue  # tools are before the last question, or a result has been read as a text
        answer = whole[len(prompt) :]
        read = theirs(name).parse_response(answer, response_template_of(name), prefix=prompt)
        assert read == without_blanks(message, name), answer


@pytest.mark.parametrize("thought", [{}, {"reasoning_content": "t"}])
def test_a_template_can_forbid_thoughts(thought: dict[str, str]) -> None:
    """As records with the option: prompts end with an empty thought, which is not trained."""
    d, off = mypt_spec.dialect("qwen3"), {"enable_thinking": False}
    messages = [user("u"), assistant("a", **thought), user("u"), assistant("a")]
    prompt = render("qwen3", add_generation_prompt=True)
    silent = render("qwen3", add_generation_prompt=True, **off)
    assert silent == f"{prompt}<think>\n\n</think>\n\n"
    for options in (off, {"enable_thinking": True}, {}):
        episode, findings = d.check({"messages": messages, "chat_template_kwargs": options})
        assert (episode is not None, findings) == (True, [])
        episode = official(episode, d.table)
        rows = render("qwen3", messages, **MASKED, **options)
        # Texts, not ids: the line ends after the thought are a prompt's, so ours are apart from "a".
        assert d.tokenizer.decode(rows["input_ids"]) == d.serialize(episode)
        encoded = d.encode(episode)
        pairs = zip(rows["input_ids"], rows["assistant_masks"], strict=True)
        learnt = d.tokenizer.decode([i for i, on in pairs if on])
        assert learnt == d.tokenizer.decode(encoded.ids[encoded.loss == 1])


TEXTS = st.sampled_from(["1 May 2025", "é\n", ""])
OPTIONS = {
    "llama3": {"date_string": TEXTS, "tools_in_user_message": st.just(True)},
    "harmony": {
        "model_identity": TEXTS,
        "knowledge_cutoff": TEXTS,
        "conversation_start_date": TEXTS,
        "reasoning_effort": st.sampled_from(["low", "high"]),
        "builtin_tools": st.lists(st.sampled_from(["browser", "python"]), max_size=2),
    },
}


@pytest.mark.parametrize("name", OPTIONS)
@given(data=st.data())
@settings(few, max_examples=max(EXAMPLES // 2, 5))
def test_a_template_writes_what_options_say(name: str, data: st.DataObject) -> None:
    """As the adapter of records does: before the system message, or in a block of their own."""
    d = mypt_spec.dialect(name)
    record, _ = data.draw(chats(name).filter(bool))
    assume(not spells(d, (padding(d),), record))
    options = data.draw(st.fixed_dictionaries({}, optional=OPTIONS[name]))
    episode, findings = d.check(record | {KEY: options})
    assert episode is not None
    messages, tools = record["messages"], record.get("tools")
    assume(not EXPONENT.search(json.dumps(tools)))
    if any(f.severity == "error" or f.code == "MYP314" for f in findings):
        # Harmony's options make a developer's message of the system's, and there is another one, or
        # it is empty and beside tools.
        with pytest.raises(jinja2.exceptions.TemplateError, match="may not come here"):
            render(name, messages, tools=tools, **options)
        return
    assert render(name, messages, tools=tools, **options) == d.serialize(official(episode, d.table))
    prompt, _ = d.read(record | {"messages": QUESTION, KEY: options})
    assert prompt is not None
    text = render(name, tools=tools, add_generation_prompt=True, **options)
    assert text == d.tokenizer.decode(prompt_ids(d, prompt))


REFUSED = [
    ("harmony", {"reasoning_effort": "much"}, r"option .* has no value"),
    ("llama3", {"date_string": 5}, r"option .* has no value"),
    ("llama3", {"date_string": "<|eot_id|>"}, r"spells <.eot_id.>"),
    ("harmony", {"tools": [function("f", {"x": {"type": "number", "default": 1e-05}})]}, r"a default of 1e-05 cannot be"),
    *((n, {"tools": [function("f")]}, r"cannot write tools|place for") for n in mypt_spec.dialects() if not writes_tools(mypt_spec.dialect(n))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "why"), REFUSED)
def test_a_template_refuses_what_it_cannot_write(
    name: str, options: dict[str, Any], why: str
) -> None:
    """Options with values that they do not have, tags in texts, defaults, and tools."""
    from transformers.utils.chat_template_utils import render_jinja_template

    assert bool(EXPONENT.search(json.dumps(options))) == ("default" in why)
    d = mypt_spec.dialect(name)
    template = chat_template(d, reserved=(padding(d),))  # without the tokenizer, which takes long
    with pytest.raises(jinja2.exceptions.TemplateError, match=why):
        render_jinja_template([QUESTION], chat_template=template, **options)


@cache
def response_template_of(name: str) -> Any:
    return response_template(mypt_spec.dialect(name))


def without_blanks(message: dict[str, Any], name: str) -> dict[str, Any]:
    """A message of an assistant as transformers returns it: nothing that is empty."""
    bodies = {t.body for t in mypt_spec.dialect(name).table.openers.values() if t.by_model}

    def call(item: dict[str, Any]) -> dict[str, Any]:
        """As it is read: beside the name of the tool, an argument `name` keeps its key."""
        inner = item["function"]
        if "call" in bodies:
            inner = inner | {"arguments": written(inner["arguments"])}
        number = {"id": item["id"]} if "id" in item and bodies & {"calls", "functions"} else {}
        return {**number, "type": "function", "function": inner}

    thoughts = (message.get(key) for key in ("reasoning_content", "thinking", "reasoning", "think"))
    parts = {
        "role": "assistant",
        "thinking": next((t for t in thoughts if t), ""),
        "content": message.get("content"),
        "tool_calls": [call(item) for item in message.get("tool_calls") or ()],
    }
    return {key: value for key, value in parts.items() if value}


# What no grammar of a server sees: docs/templates.md says why.
UNSEEN = {"MYP004", "MYP005", "MYP306", "MYP307"}
# In praxis a line end before the tag is the tag's: an answer of a line end alone is empty.
UNSEEN_IN = {"praxis": {"MYP214"}}
# llama.cpp lets an answer end within a character.
UNSEEN_BY = {by_llama_cpp: UNSEEN | {"MYP504"}}


def begins_a_tag(d: mypt_spec.Dialect, rollout: Rollout) -> bool:
    """Whether a text has the beginning of a tag with attributes, which the grammars refuse."""
    events, _ = d.lex_ids([*rollout.before, *rollout.ids])
    begun = [first_text(t) for t in d.table.plain_tags if t.patterns]
    return any(b in event.text for event in events if event.terminal == TEXT for b in begun)


def ends_otherwise(d: mypt_spec.Dialect, rollout: Rollout, ids: list[int]) -> bool:
    """Whether ids are legal with another tag at their end, which llama.cpp does not tell apart."""
    ends = [d.tokenizer.special[tag] for tag in endings(d)]
    bare = ids[:-1] if ids[-1:] and ids[-1] in ends else ids
    return any(not faults(d, rollout, [*bare, end]) for end in ends)


@pytest.mark.parametrize("accepts", [*READERS])
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few
def test_grammars_take_what_is_legal_and_refuse_the_rest(
    name: str, accepts: Any, data: st.DataObject
) -> None:
    READERS[accepts](name)  # skips without the package
    d = mypt_spec.dialect(name)
    _, episode = data.draw(chats(name).filter(bool))
    rng = random.Random(data.draw(st.integers(0, 1 << 30)))
    for rollout in rollouts(d, episode):
        assert not faults(d, rollout, rollout.ids)
        if begins_a_tag(d, rollout):
            continue
        if accepts is by_llama_cpp and "\0" in d.tokenizer.decode(rollout.ids):
            continue  # llama.cpp lets no token through that begins with this character
        assert accepts(name, rollout.ids), d.tokenizer.decode(rollout.ids)
        for _ in range(3):
            ids = mutated(d, rollout, rng)
            codes = faults(d, rollout, ids)
            if codes and not codes & (UNSEEN_BY.get(accepts, UNSEEN) | UNSEEN_IN.get(name, set())):
                if accepts is by_llama_cpp and ends_otherwise(d, rollout, ids):
                    continue
                assert not accepts(name, ids), (codes, d.tokenizer.decode(ids))


def test_llama_cpp_ends_answers_itself() -> None:
    """At each of its ends: they are in no rule, or no answer could end with a call."""
    for name, tag in (("harmony", "<|call|>"), ("llama3", "<|eom_id|>")):
        d = mypt_spec.dialect(name)
        files = server_files(d, ["llama.cpp", "vllm"])
        assert f"Token({d.tokenizer.special[tag]})" in files["structural_tag.json"]
        assert not any(
            f"<[{d.tokenizer.special[end]}]>" in files["answer.gbnf"] for end in endings(d)
        )


def test_a_folder_for_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["--for", "vllm,llama.cpp", "--for", "sglang", "-o", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {
        "README.md", "answer.gbnf", "chat_template.jinja", "mypt_parsers.py", "structural_tag.json",
        "vllm_response_template.json",
    }  # fmt: skip
    for server in ("vllm", "sglang", "llama.cpp"):
        assert f"## {server}" in (out / "README.md").read_text()
    for arguments, says in (
        (["--for", "vllm", "-o", str(out)], "is not empty"),
        (["--for", "vlm", "-o", str(tmp_path / "a")], "no such program; known are transformers"),
        (["-o", str(tmp_path / "a")], "name a checkpoint, or a server with --for"),
        (["--for", "vllm", "--dialect", "mypd", "-o", str(tmp_path / "a")], "no dialect"),
    ):
        assert main(arguments) == 2
        assert says in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("name", "file", "reason"),
    [
        ("gemma4", "structural_tag.json", "no grammar of a server has such calls"),
        ("chatml", "vllm_response_template.json", "neither thoughts nor calls"),
    ],
)
def test_optional_files_that_cannot_be_written_are_named(
    name: str, file: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--for", "vllm", "--dialect", name, "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert f"{file} is not written: {name}" in said
    assert reason in said
    assert f"{file} is not written: {name}" in (tmp_path / "out/README.md").read_text()
    rest = {"README.md", "chat_template.jinja", "mypt_parsers.py", "structural_tag.json", "vllm_response_template.json"} - {file}  # fmt: skip
    assert {path.name for path in (tmp_path / "out").iterdir()} == rest
    is_written = main(["--for", "sglang", "--dialect", name, "-o", str(tmp_path / "a")]) == 0
    assert is_written == (file != "structural_tag.json")  # which SGLang needs
