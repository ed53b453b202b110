"""The detector for SGLang reads every answer of every format, in any pieces, behind SGLang's own parser."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_infer.plugins.answer_stream import usual_prompt
from tests.property.test_answer_stream import NAMES, TOOLS, answers, of_ids
from tests.support.examples import either

pytestmark = pytest.mark.extra("llm_router_utils")
EXAMPLE = Path(__file__).parents[4] / "examples" / "sglang_detector.py"
ROOT = "llm_router_utils.sglang.srt.function_call"


@pytest.mark.parametrize("name", NAMES)
def test_any_two_pieces_are_the_whole(name: str) -> None:
    base, types, parsers = (
        importlib.import_module(f"{ROOT}.{part}")
        for part in ("base_format_detector", "core_types", "function_call_parser")
    )
    made: Any = runpy.run_path(str(EXAMPLE))["detector"](name, base, types)
    parsers.FunctionCallParser.ToolCallParserEnum["mypt"] = made
    tools = [base.Tool.model_validate(tool) for tool in TOOLS]
    _, thought_end = usual_prompt(mypt_spec.dialect(name))
    for kind, known in answers(name).items():
        whole, text = of_ids(known), known[-1]
        if whole["reasoning_content"] or (thought_end and text.startswith(thought_end)):
            continue  # another parser of SGLang reads it, or the end of an empty thought
        wanted = whole["content"], whole["calls"]
        for cut in [0, *range(1, len(text), either(max(1, len(text) // 6), 1))]:
            parser = parsers.FunctionCallParser(tools, "mypt")
            content, calls = "", list[Any]()
            steps = [parser.parse_stream_chunk(piece) for piece in (text[:cut], text[cut:])]
            for more, items in [*steps, parser.parse_stream_end()]:
                content += more
                for item in items:
                    if item.name:
                        calls.append([item.name, ""])
                    calls[item.tool_index][1] += item.parameters
            assert (content, calls) == wanted, (kind, cut)
        parser = parsers.FunctionCallParser(tools, "mypt")
        content, items = parser.parse_non_stream(text)
        if whole["calls"]:  # without calls, SGLang returns the text as it is
            assert (content, [[i.name, i.parameters] for i in items]) == wanted, kind
        assert parser.has_tool_call(text) == bool(whole["calls"])
