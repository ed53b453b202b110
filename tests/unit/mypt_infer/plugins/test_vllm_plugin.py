"""The parsers for vLLM, run by its own serving code, read every answer of every format, in any pieces."""

from __future__ import annotations

import importlib
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

import mypt_spec
from mypt_train.export.response_template import vllm_template
from mypt_train.export.tokenizer_file import ExportError
from tests.property.test_answer_stream import ANSWERS, NAMES, TOOLS, Known, answers, of_ids
from tests.support.examples import either

pytestmark = [pytest.mark.extra("vllm"), pytest.mark.filterwarnings("ignore")]  # of its imports


def module(name: str) -> Any:
    return importlib.import_module(f"vllm.{name}")


def tokenizer(dialect: mypt_spec.Dialect) -> Any:
    def decode(ids: Any, **_: Any) -> str:
        return dialect.tokenizer.decode(list(ids))

    return SimpleNamespace(
        name_or_path="", decode=decode, get_vocab=lambda: dict(dialect.table.special)
    )


def parser(name: str, dialect: mypt_spec.Dialect) -> Any:
    """Returns a parser of vLLM for one answer."""
    importlib.import_module("mypt_infer.plugins.vllm").register(dialect.spec)
    made = module("parser.parser_manager").ParserManager.get_parser(
        "mypt", "mypt", enable_auto_tools=True, tokenizer=tokenizer(dialect)
    )
    tools = [module("entrypoints.openai.chat_completion.protocol").ChatCompletionToolsParam.model_validate(t) for t in TOOLS]  # fmt: skip
    return made(tokenizer(dialect), tools)


def request(tools: bool = True) -> Any:
    protocol = module("entrypoints.openai.chat_completion.protocol")
    more = {"tools": TOOLS, "tool_choice": "auto"} if tools else {}
    return protocol.ChatCompletionRequest(model="", messages=[], **more)


def shape(reasoning: Any, content: Any, calls: list[Any]) -> dict[str, Any]:
    return {"reasoning_content": reasoning or "", "content": content or "", "calls": calls}


def streamed(name: str, known: Known, cuts: list[int]) -> dict[str, Any]:
    dialect, prompt, _, text = known
    made, asked = parser(name, dialect), request()
    out: dict[str, Any] = shape("", "", [])
    places = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in zip(places, places[1:])]  # noqa: B905, RUF007
    for number, piece in enumerate(pieces, 1):
        delta = made.parse_delta(
            piece, [], asked, prompt if number == 1 else None, finished=number == len(pieces)
        )
        if delta is None:
            continue
        out["reasoning_content"] += delta.reasoning or ""
        out["content"] += delta.content or ""
        for call in delta.tool_calls:
            if call.function.name:
                out["calls"].append([call.function.name, ""])
            out["calls"][call.index][1] += call.function.arguments or ""
    return out


@pytest.mark.parametrize("name", NAMES)
def test_any_two_pieces_are_the_whole(name: str) -> None:
    for kind, known in answers(name).items():
        whole = {key: value for key, value in of_ids(known).items() if key != "statuses"}
        size = len(known[-1])
        assert streamed(name, known, []) == whole, kind
        for cut in range(1, size, either(max(1, size // 6), 1)):
            assert streamed(name, known, [cut]) == whole, (kind, cut)
        made = parser(name, known[0])
        made.set_prompt_token_ids(known[1])
        reasoning, content, calls = made.parse(known[-1], request(), enable_auto_tools=True)
        found = [[call.name, call.arguments] for call in calls or []]
        assert shape(reasoning, content, found) == whole, kind
    assert ANSWERS.keys() >= answers(name).keys()


def test_what_it_cannot_do_is_named() -> None:
    dialect = mypt_spec.dialect("chatml")
    made = parser("chatml", dialect)
    with pytest.raises(ValueError, match="chatml has no calls"):
        made.adjust_request(request())
    assert made.adjust_request(request(tools=False)).skip_special_tokens is False
    asked = request()
    asked.tool_choice = "required"
    with pytest.raises(ValueError, match="tool_choice"):
        parser("qwen3", mypt_spec.dialect("qwen3")).adjust_request(asked)


def test_where_reasoning_ends() -> None:
    dialect, prompt, ids, _ = answers("qwen3")["thought"]
    made = parser("qwen3", dialect)
    ends = [made.is_reasoning_end([*prompt, *ids[:n]]) for n in range(len(ids) + 1)]
    end = next(n for n, i in enumerate(ids, 1) if i == dialect.table.special["</think>"])
    assert ends == [n >= end for n in range(len(ids) + 1)]


@pytest.mark.parametrize("name", NAMES)
def test_any_two_pieces_are_read_by_the_template_for_vllm(name: str) -> None:
    """By vLLM's own parser `hf`, without this package beside it."""
    try:
        template = vllm_template(mypt_spec.dialect(name))
    except ExportError as error:
        pytest.skip(str(error))
    parsers = [
        "hf" if field in template["fields"] else None for field in ("tool_calls", "thinking")
    ]
    manager = module("parser.parser_manager").ParserManager
    for kind, (dialect, prompt, ids, _) in answers(name).items():
        decode, begun = dialect.tokenizer.decode, 0
        while not re.search(template["start_anchor_pattern"], decode([*prompt, *ids[:begun]])):
            begun += 1  # the chat template writes more of the answer
        text, prompt = decode(ids[begun:]), [*prompt, *ids[:begun]]
        own = tokenizer(dialect)
        own.response_template = template
        kinds = manager.get_parser(*parsers, enable_auto_tools=True, tokenizer=own)
        size, asked = len(text), ANSWERS[kind]
        for cut in range(0, size, either(max(1, size // 6), 1)):
            made = kinds(own, request().tools)
            made.adjust_request(request())
            pieces = [made.parse_delta(text[:cut], [], request(), prompt, finished=False)]
            pieces += [made.parse_delta(text[cut:], [], request(), None, finished=True)]
            deltas = [delta for delta in pieces if delta is not None]
            read = [
                "".join(getattr(delta, key) or "" for delta in deltas).strip()
                for key in ("content", "reasoning")
            ]
            written = asked["content"] or "", asked.get("reasoning_content", "")
            assert read == [each.strip() for each in written], (kind, cut)
            calls = [call.function for delta in deltas for call in delta.tool_calls]
            assert [{"name": c.name, "arguments": json.loads(c.arguments)} for c in calls] == [
                call["function"] for call in asked.get("tool_calls", [])
            ]
