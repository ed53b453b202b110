"""What `mypt-export` writes for servers, against transformers, xgrammar, llguidance and llama.cpp.

`nox -s exports` compares 500 chats a dialect.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.decode.prompt import prompt_ids
from mypt_spec.adapters.template_options import KEY
from mypt_spec.bodies.json_body import written
from mypt_spec.table import TEXT
from mypt_train.commands.export import main
from mypt_train.export import endings, server_files
from mypt_train.export.answers import answers, first_text
from mypt_train.export.lark import lark
from mypt_train.export.response_template import response_template
from mypt_train.export.tokenizer_file import padding
from tests.support.chats import EXAMPLES, chats, cut_short, joins, spells, writes_tools
from tests.support.guidance import tokenizer as guided
from tests.support.huggingface import tokenizer
from tests.support.llama import LlamaCpp, write_vocabulary
from tests.support.rollouts import Rollout, faults, mutated, rollouts, stop

NAMES = mypt_spec.dialects()
pytest.importorskip("transformers")
few = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    deadline=None,
)


EXPONENT = re.compile(r'"default": [^"]*\de[-+]?\d')


@cache
def theirs(name: str) -> Any:
    return tokenizer(mypt_spec.dialect(name))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few
def test_the_template_gives_our_ids_and_mask(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    drawn = data.draw(chats(name, clean=data.draw(st.booleans())))
    if drawn is None:
        return
    record, episode = drawn
    if spells(d, (padding(d),), record) or joins(d, episode):
        return
    if name == "harmony" and EXPONENT.search(json.dumps(record.get("tools"))):
        return  # Jinja writes such a number otherwise, so the template refuses it by name
    found = theirs(name).apply_chat_template(
        record["messages"],
        tools=record.get("tools"),
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    encoded = d.encode(episode)
    assert theirs(name).decode(found["input_ids"]) == d.serialize(episode)
    assert found["input_ids"] == encoded.ids.tolist()
    if not cut_short(d, episode):
        assert np.array_equal(found["assistant_masks"], encoded.loss)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few
def test_an_answer_is_read_back(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    drawn = data.draw(chats(name))
    if drawn is None or spells(d, (padding(d),), drawn[0]):
        return
    messages, tools = drawn[0]["messages"], drawn[0].get("tools")
    render = theirs(name).apply_chat_template
    for at, message in enumerate(messages):
        before = messages[:at]
        if message["role"] != "assistant" or before[-1]["role"] == "assistant":
            continue
        prompt = render(before, tools=tools, tokenize=False, add_generation_prompt=True)
        whole = render(messages[: at + 1], tools=tools, tokenize=False)
        if not whole.startswith(prompt):
            continue  # tools are before the last question, or a result has been read as a text
        read = theirs(name).parse_response(whole[len(prompt) :], templates(name), prefix=prompt)
        assert read == said(message, name), whole[len(prompt) :]


MASKED = ("input_ids", "assistant_masks")
THOUGHT = "<think>\n\n</think>\n\n"


@pytest.mark.parametrize("thought", [{}, {"reasoning_content": "t"}])
def test_a_template_can_forbid_thoughts(thought: dict[str, str]) -> None:
    """As records with the option: prompts end with an empty thought, which is not trained."""
    d, render = mypt_spec.dialect("qwen3"), theirs("qwen3").apply_chat_template
    asked, last = [{"role": "user", "content": "u"}], {"role": "assistant", "content": "a"}
    messages = [*asked, last | thought, *asked, last]
    off = {"enable_thinking": False}
    usual = render(asked, tokenize=False, add_generation_prompt=True)
    assert render(asked, tokenize=False, add_generation_prompt=True, **off) == usual + THOUGHT
    for options in (off, {"enable_thinking": True}, {}):
        episode, findings = d.check({"messages": messages, "chat_template_kwargs": options})
        assert (episode is not None, findings) == (True, [])
        found = render(
            messages, return_dict=True, tokenize=True, return_assistant_tokens_mask=True, **options
        )
        # Texts, not ids: the line ends after the thought are a prompt's, so ours are apart from "a".
        assert d.tokenizer.decode(found["input_ids"]) == d.serialize(episode)
        encoded, pairs = d.encode(episode), zip(*map(found.get, MASKED), strict=True)
        learnt = d.tokenizer.decode([i for i, on in pairs if on])
        assert learnt == d.tokenizer.decode(encoded.ids[encoded.loss == 1])


TEXTS = st.sampled_from(["1 May 2025", "é\n", ""])
TAKEN = {
    "llama3": {"date_string": TEXTS, "tools_in_user_message": st.just(True)},
    "harmony": {
        "model_identity": TEXTS,
        "knowledge_cutoff": TEXTS,
        "conversation_start_date": TEXTS,
        "reasoning_effort": st.sampled_from(["low", "high"]),
        "builtin_tools": st.lists(st.sampled_from(["browser", "python"]), max_size=2),
    },
}


@pytest.mark.parametrize("name", TAKEN)
@given(data=st.data())
@settings(few, max_examples=max(EXAMPLES // 2, 5))
def test_a_template_writes_what_options_say(name: str, data: st.DataObject) -> None:
    """As the adapter of records does: before the system message, or in a block of their own."""
    import jinja2

    d, render = mypt_spec.dialect(name), theirs(name).apply_chat_template
    drawn = data.draw(chats(name))
    if drawn is None or spells(d, (padding(d),), drawn[0]):
        return
    record = drawn[0]
    options = data.draw(st.fixed_dictionaries({}, optional=TAKEN[name]))
    episode, findings = d.check(record | {KEY: options})
    assert episode is not None
    messages, tools = record["messages"], record.get("tools")
    if EXPONENT.search(json.dumps(tools)):
        return
    if any(f.severity == "error" for f in findings):
        # Harmony's options make a developer's message of the system's, and there is another one.
        with pytest.raises(jinja2.exceptions.TemplateError, match="may not come here"):
            render(messages, tools=tools, tokenize=False, **options)
        return
    assert render(messages, tools=tools, tokenize=False, **options) == d.serialize(episode)
    asked = [{"role": "user", "content": "u"}]
    prompt, _ = d.read(record | {"messages": asked, KEY: options})
    assert prompt is not None
    shown = render(asked, tools=tools, tokenize=False, add_generation_prompt=True, **options)
    assert shown == d.tokenizer.decode(prompt_ids(d, prompt))


def test_a_template_refuses_options_that_say_nothing_to_it() -> None:
    import jinja2

    for name, options in {
        "harmony": {"reasoning_effort": "much"},
        "llama3": {"date_string": 5},
    }.items():
        with pytest.raises(jinja2.exceptions.TemplateError, match=r"option .* has no value"):
            theirs(name).apply_chat_template([{"role": "user", "content": "u"}], **options)
    with pytest.raises(jinja2.exceptions.TemplateError, match=r"spells <.eot_id.>"):
        theirs("llama3").apply_chat_template(
            [{"role": "user", "content": "u"}], date_string="<|eot_id|>"
        )


def test_a_template_refuses_a_default_that_it_cannot_write() -> None:
    import jinja2

    schema = {"type": "object", "properties": {"x": {"type": "number", "default": 1e-05}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    assert EXPONENT.search(json.dumps(tools))
    with pytest.raises(jinja2.exceptions.TemplateError, match=r"a default of 1e-05 cannot be"):
        theirs("harmony").apply_chat_template([{"role": "user", "content": "u"}], tools=tools)


@pytest.mark.parametrize("name", [n for n in NAMES if not writes_tools(mypt_spec.dialect(n))])
def test_a_template_refuses_tools_that_it_cannot_write(name: str) -> None:
    import jinja2

    tools = [{"type": "function", "function": {"name": "f"}}]
    with pytest.raises(jinja2.exceptions.TemplateError, match=r"cannot write tools|place for"):
        theirs(name).apply_chat_template([{"role": "user", "content": "u"}], tools=tools)


@cache
def templates(name: str) -> Any:
    return response_template(mypt_spec.dialect(name))


def said(message: dict[str, Any], name: str) -> dict[str, Any]:
    """A message of an assistant as transformers returns it: nothing that is empty."""
    thoughts = (message.get(key) for key in ("reasoning_content", "thinking", "reasoning"))
    d = mypt_spec.dialect(name)
    out = {
        "role": "assistant",
        "thinking": next((t for t in thoughts if t), ""),
        "content": message.get("content") or "",
        "tool_calls": [
            ({"id": call["id"]} if "id" in call and ids_in_calls(d) else {})
            | {"type": "function", "function": function(call["function"], d)}
            for call in message.get("tool_calls") or ()
        ],
    }
    return {key: value for key, value in out.items() if value}


def function(given: dict[str, Any], d: mypt_spec.Dialect) -> dict[str, Any]:
    """A function as it is read: beside the name of the tool, an argument `name` keeps its key."""
    beside = any(t.body == "call" and t.by_model for t in d.table.openers.values())
    return given | {"arguments": written(given["arguments"])} if beside else given


def ids_in_calls(d: mypt_spec.Dialect) -> bool:
    return any(t.body in ("calls", "functions") for t in d.table.openers.values())


# What no grammar of a server sees: docs/templates.md says why.
UNSEEN = {"MYP004", "MYP005", "MYP306", "MYP307"}
# In praxis a line end before the tag is the tag's: an answer of a line end alone is empty.
UNSEEN_IN = {"praxis": {"MYP214"}}


@cache
def lark_matcher(name: str) -> Any:
    llguidance = pytest.importorskip("llguidance")
    d = mypt_spec.dialect(name)
    text = lark(d, answers(d, endings(d)[-1:], reserved=(padding(d),)))
    found = llguidance.LLMatcher(guided(name), llguidance.grammar_from("lark", text), log_level=0)
    assert not found.is_error(), found.get_error()
    return found


@cache
def compiled_tag(name: str) -> Any:
    xgrammar = pytest.importorskip("xgrammar")
    d = mypt_spec.dialect(name)
    special = {i: tag for tag, i in {padding(d): d.tokenizer.pad, **d.tokenizer.special}.items()}
    words = [
        special[i].encode()
        if i in special
        else d.tokenizer.decode_bytes([i])
        if i in d.tokenizer.ordinary
        else f"<unused {i}>".encode()
        for i in range(d.tokenizer.vocab_size)
    ]
    info = xgrammar.TokenizerInfo(
        words,
        vocab_type=xgrammar.VocabType.RAW,
        vocab_size=d.tokenizer.vocab_size,
        stop_token_ids=[stop(d) or d.tokenizer.pad],
    )
    tag = json.loads(server_files(d, ["vllm"])["structural_tag.json"])
    return xgrammar.GrammarCompiler(info, max_threads=1).compile_structural_tag(tag)


def by_llguidance(name: str, ids: list[int]) -> bool:
    matcher = lark_matcher(name).deep_copy()
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


def by_xgrammar(name: str, ids: list[int]) -> bool:
    import xgrammar

    d = mypt_spec.dialect(name)
    matcher = xgrammar.GrammarMatcher(compiled_tag(name))
    return all(map(matcher.accept_token, [*ids, stop(d) or d.tokenizer.pad]))


@cache
def llama(name: str) -> Any:
    pytest.importorskip("gguf", reason="writes llama.cpp's vocabularies: nox -s llama")
    pytest.importorskip("llama_cpp", reason="is built from source: nox -s llama")
    d = mypt_spec.dialect(name)
    path = Path(tempfile.mkdtemp()) / "vocabulary.gguf"
    write_vocabulary(d, path)
    text = server_files(d, ["llama.cpp"])["answer.gbnf"]
    with pytest.raises(ValueError, match="cannot read the grammar"):
        LlamaCpp(path, text.replace("::=", ":=", 1), ())
    return LlamaCpp(path, text, d.tokenizer.special.values())


def by_llama_cpp(name: str, ids: list[int]) -> bool:
    return bool(llama(name).accepts(ids))


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


# llama.cpp lets an answer end within a character.
UNSEEN_BY = {by_llama_cpp: UNSEEN | {"MYP504"}}
MADE = {by_llguidance: lark_matcher, by_xgrammar: compiled_tag, by_llama_cpp: llama}


@pytest.mark.parametrize("accepts", [*MADE])
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few
def test_grammars_take_what_is_legal_and_refuse_the_rest(
    name: str, accepts: Any, data: st.DataObject
) -> None:
    MADE[accepts](name)  # skips without the package
    d = mypt_spec.dialect(name)
    drawn = data.draw(chats(name))
    rng = random.Random(data.draw(st.integers(0, 1 << 30)))
    for rollout in rollouts(d, drawn[1]) if drawn else ():
        assert not faults(d, rollout, rollout.ids)
        if begins_a_tag(d, rollout):
            continue
        if accepts is by_llama_cpp and "\0" in d.tokenizer.decode(rollout.ids):
            continue  # llama.cpp lets no token through that begins with this character
        assert accepts(name, rollout.ids), d.tokenizer.decode(rollout.ids)
        for _ in range(3):
            ids = mutated(d, rollout, rng)
            found = faults(d, rollout, ids)
            if found and not found & (UNSEEN_BY.get(accepts, UNSEEN) | UNSEEN_IN.get(name, set())):
                if accepts is by_llama_cpp and ends_otherwise(d, rollout, ids):
                    continue
                assert not accepts(name, ids), (found, d.tokenizer.decode(ids))


def test_llama_cpp_ends_answers_itself() -> None:
    """At each of its ends: they are in no rule, or no answer could end with a call."""
    for name, tag in (("harmony", "<|call|>"), ("llama3", "<|eom_id|>")):
        d = mypt_spec.dialect(name)
        files = server_files(d, ["llama.cpp", "vllm"])
        assert f"<[{d.tokenizer.special[tag]}]>" in files["answer.lark"]
        assert not any(
            f"<[{d.tokenizer.special[end]}]>" in files["answer.gbnf"] for end in endings(d)
        )


def test_a_folder_for_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["--for", "vllm,llama.cpp", "--for", "sglang", "-o", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {
        "README.md", "answer.gbnf", "answer.lark", "chat_template.jinja", "response_template.json",
        "structural_tag.json",
    }  # fmt: skip
    for server in ("vllm", "sglang", "llama.cpp"):
        assert f"## {server}" in (out / "README.md").read_text()
    for asked, says in (
        (["--for", "vllm", "-o", str(out)], "is not empty"),
        (["--for", "vlm", "-o", str(tmp_path / "a")], "no such server; known are transformers"),
        (["-o", str(tmp_path / "a")], "name a checkpoint, or a server with --for"),
        (["--for", "vllm", "--dialect", "mypd", "-o", str(tmp_path / "a")], "no dialect"),
    ):
        assert main(asked) == 2
        assert says in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
