"""What must come next byte by byte is taken without asking the model, spelled as in training."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import torch

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.decode.compile.call_graph import body_of
from mypt_infer.generate.generate import generate
from mypt_infer.generate.huggingface import TagLogitsProcessor
from mypt_infer.generate.loop import plain
from mypt_spec.encoder import run_ids
from mypt_spec.table import CALLS, LISTS
from tests.support.decoding import (
    CALL,
    CALLERS,
    TOOLS,
    complete,
    decoder,
    generated,
    in_call,
    prompt,
)
from tests.support.dialects import FEW
from tests.support.examples import either

ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "Zürich, it's 5 \"o'clock\"", "top_k": 5, "exact": True, "kind": "notes"}),
    ("search", {"query": "", "min_score": 0.25}),
    ("search_all", {"tags": ["a", 1, None], "where": {"day": 3, "month": 12}}),
    ("list_docs", {}),
]


def call_ids(name: str, tool: str, arguments: dict[str, Any]) -> list[int]:
    """The ids that the encoder has for an answer that is a call, up to where a result has to come."""
    d = mypt_spec.dialect(name)
    kind = next(k for k, t in d.table.openers.items() if t.body in (*CALLS, *LISTS))
    body = d.table.openers[kind].body
    text = json.dumps(arguments, ensure_ascii=False)
    if body != "arguments":
        text = body_of(body, tool, arguments, d.table.literals)
    tags = {
        "mypt": "<myPT_assistant><myPT_toolcall>%s</myPT_toolcall></myPT_assistant>",
        "mypt-3b": f'<assistant>\n<toolcall name="{tool}">\n%s\n</toolcall>\n</assistant>',
        "harmony": f" to=functions.{tool}<|channel|>commentary <|constrain|>json<|message|>%s<|call|>",
        "praxis": "I look. <tin>\n%s\n</tin>",
        "mistral": "[TOOL_CALLS]%s</s>",
        "mistral-v13": f"[TOOL_CALLS]{tool}[ARGS]%s</s>",
        "usf-omega": "<tool_calls_start>%s<tool_calls_end>\n<end>\n",
        "llama3": "<|python_tag|>%s<|eom_id|>",
        "qwen3": "<tool_call>\n%s\n</tool_call><|im_end|>",
    }[name]
    return [i for ids in run_ids(d.lex(tags % text), (), d.table, d.tokenizer) for i in ids]


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("engine", ["table", "llguidance"])
def test_a_call_is_spelled_as_the_encoder_spells_it(name: str, engine: str) -> None:
    """With the model's own tokens those of the encoder, so are those that it is not asked for."""
    if engine == "llguidance":
        pytest.importorskip("llguidance", reason="it reads the bodies of calls")
    made = decoder(name, engine=engine)
    before = made.ids_of(prompt(name))
    for tool, arguments in ARGUMENTS:
        ids, passes = call_ids(name, tool, arguments), 0
        state, out = made.start(before, max_new_tokens=300), list[int]()
        while not made.final(state):
            more = made.forced(state, [*before, *out])
            if not more:
                more, passes = [ids[len(out)]], passes + 1
            out += more
            assert ids[: len(out)] == out, made.dialect.tokenizer.decode(out)
            state = made.run(state, more)
        assert out == ids
        assert passes < 0.8 * len(ids) or name in ("praxis", "mypt-3b")


@pytest.mark.parametrize("name", FEW)
def test_what_is_forced_has_no_alternative(name: str) -> None:
    """Each id that is allowed instead begins as the forced text does, or is the beginning of it."""
    made, alternatives = decoder(name), 0
    words = [made.dialect.tokenizer.decode_bytes([i]) for i in range(50256)]
    before = made.ids_of(prompt(name))
    for seed in range(either(3, 8)):
        choose, state = random.Random(seed), made.start(before)
        ids = list(before)
        for token in generated(made, made.start(before, max_new_tokens=80), choose):
            forced = made.forced(state, ids)
            here = state
            for at, one in enumerate(forced):
                text = b"".join(words[i] for i in forced[at:] if i < 50256)
                others = made.ids(here).tolist()
                assert one in others
                if one < 50256:
                    alternatives += len(others) > 1
                    assert all(words[i].startswith(text) or text.startswith(words[i]) for i in others)  # fmt: skip
                else:
                    assert others == [one]
                here = made.next(here, one)
            ids.append(token)
            state = made.next(state, token)
    assert alternatives or name not in CALLERS


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("engine", ["table", "llguidance"])
def test_budgets_hold_with_jumps(name: str, engine: str) -> None:
    made = decoder(name, engine=engine)
    before = made.ids_of(prompt(name))
    least = made.minimum(made.start(before))
    tables = either([*range(least, least + 8), *range(least + 8, 48, 9)], range(least, 48))
    for budget in tables if engine == "table" else range(least, 48, either(14, 7)):
        choose, ids = random.Random(budget), list(before)
        state = made.start(before, max_new_tokens=budget)
        while not made.final(state):
            more = made.forced(state, ids)
            more = more or [next(generated(made, state, choose))]
            ids += more
            state = made.run(state, more)
        assert len(ids) - len(before) <= budget
        assert complete(made, ids)


class Scripted:
    """A model that wants certain ids, and counts how often it is asked."""

    def __init__(self, ids: list[int], skip: int, vocabulary: int) -> None:
        self.ids, self.skip, self.vocabulary, self.passes = ids, skip, vocabulary, 0

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        logits, at = torch.zeros(self.vocabulary), ids.shape[1] - self.skip
        if at < len(self.ids):
            logits[self.ids[at]] = 50.0
        return logits.expand(1, ids.shape[1], -1)


@pytest.mark.parametrize("name", ["mypt", "usf-omega"])
def test_passes_are_saved_and_the_answer_is_the_same(name: str) -> None:
    made, total = decoder(name), {True: 0, False: 0}
    before = made.ids_of(prompt(name))
    for tool, arguments in ARGUMENTS:
        ids, answers = call_ids(name, tool, arguments), {}
        for jump in total:
            model = Scripted(ids, len(before), made.tables.vocabulary)
            answer = generate(
                plain(model, made.tables.vocabulary),
                [before],
                decoder=made,
                max_new_tokens=200,
                temperature=0.0,
                jump_forward=jump,
            )[0]
            total[jump] += model.passes
            answers[jump] = answer.ids
            assert complete(made, before + answer.ids)
        assert answers[True] == answers[False] == ids
    assert total[True] < 0.75 * total[False]


def test_transformers_spells_as_the_encoder_does() -> None:
    made = decoder("mypt")
    before, ids = made.ids_of(prompt("mypt")), call_ids("mypt", *ARGUMENTS[0])
    for jump in (True, False):
        processor = TagLogitsProcessor(made, max_new_tokens=100, jump_forward=jump)
        alone = 0
        for at in range(len(ids)):
            scores = torch.zeros(1, made.tables.vocabulary)
            scores = processor(torch.tensor([before + ids[:at]]), scores)
            allowed = scores[0].isfinite().nonzero().flatten().tolist()
            assert ids[at] in allowed
            alone += len(allowed) == 1
        assert (alone > len(ids) / 4) == jump


def test_without_the_ids_before_only_one_id_is_forced() -> None:
    made = Decoder("mypt", TOOLS)
    assert made.forced(in_call(made)) == []
    assert made.dialect.tokenizer.decode(made.forced(in_call(made), CALL)) == '{"name": "'
