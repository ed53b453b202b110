"""What random models write under the mask is legal by other code: a sample of `bench.million`."""

from __future__ import annotations

import pytest

from bench.million import HARMONY, Writer
from tests.support.examples import either

ANALYSIS = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>Yes.<|return|>"
CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"


@pytest.mark.parametrize("text", [FINAL, ANALYSIS + FINAL, CALL, ANALYSIS + CALL])
def test_the_judge_reads_the_headers_of_harmony(text: str) -> None:
    assert HARMONY.fullmatch(text)


@pytest.mark.parametrize(
    "text",
    [
        "Yes.<|return|>",
        "<|channel|>finals<|message|>Yes.<|return|>",
        "<|channel|>final<|message|>Yes.<|end|>",
        "<|channel|>analysis<|channel|>final<|message|>Yes.<|return|>",
        "<|channel|>commentary to=f<|message|>{}<|call|>",
    ],
)
def test_the_judge_refuses_malformed_headers(text: str) -> None:
    assert not HARMONY.fullmatch(text)


@pytest.mark.parametrize("name", either(["harmony"], ["harmony", "qwen3", "gemma4", "mypt"]))
def test_turns_are_legal_within_all_budgets(name: str) -> None:
    writer = Writer(name)
    for number in range(either(60, 3000)):
        writer.turn(number, judged=number % 10 == 1)
    assert writer.examples == []
    assert writer.counts["tokens"]
    if writer.opening:
        assert writer.counts["turns with calls"] * 10 >= writer.counts["judged"]


@pytest.mark.parametrize("name", ["list_docs", "search"])
def test_a_name_that_ends_a_tag_may_come_in_pieces(name: str) -> None:
    writer = Writer("gemma4")
    text = f"<|tool_call>call:{name}{{}}<tool_call|><|tool_response>"
    assert len({writer.read(writer.prompt, text, cut) for cut in range(1, len(text) + 1)}) == 1
