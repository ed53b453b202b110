"""A text that must come is spelled as the encoder spells it from its first byte on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("llguidance")

from mypt_infer.decode import Decoder, Response
from mypt_infer.generate.generate import generate
from mypt_infer.generate.loop import plain
from tests.support.decoding import prompt
from tests.support.server_grammars import lark_matcher

CITIES = {"enum": ["Oslo", "Rome"]}
SCHEMA = {
    "type": "object",
    "properties": {"city": CITIES, "name": {"type": "string"}},
    "required": ["city", "name"],
    "additionalProperties": False,
}
NAMES = ["qwen3", "llama3", "mistral", "harmony"]


def bound(name: str) -> Decoder:
    return Decoder(name, response=Response(schema=SCHEMA))


def entered(of: Decoder) -> tuple[list[int], int]:
    """The ids up to the beginning of the answer, and the state there."""
    ids = of.ids_of(prompt(of.dialect.name))
    state, brace = of.start(ids), of.dialect.tokenizer.encode("{")[0]
    for tag in ("<|channel|>", *of.dialect.tokenizer.encode("final"), "<|message|>"):
        if of.allow(state).has(brace):
            break
        token = of.dialect.tokenizer.special[tag] if isinstance(tag, str) else tag
        ids.append(token)
        state = of.next(state, token)
    return ids, state


@pytest.mark.parametrize("name", NAMES)
def test_the_jump_starts_at_the_first_byte_of_an_answer(name: str) -> None:
    """Where a tag may come in place of the text, it starts with the first id that is drawn."""
    of = bound(name)
    encode = of.dialect.tokenizer.encode
    before, state = entered(of)
    begun = encode('{"city": "Oslo')[: -len(encode("Oslo"))]
    tags = [i for i in of.ids(state).tolist() if i in of.dialect.tokenizer.special.values()]
    assert of.forced(state, before) == ([] if tags else begun)
    assert of.respelled(state, encode("{")[0], before) == begun
    for tag in tags:
        assert of.respelled(state, tag, before) == [tag]


def test_where_several_texts_may_follow_an_id_stays() -> None:
    of = bound("llama3")
    encode = of.dialect.tokenizer.encode
    before, state = entered(of)
    ids = encode('{"city": "')
    state = of.run(state, ids)
    assert of.respelled(state, encode("O")[0], [*before, *ids]) == encode("O")
    assert not of.forced(state, [*before, *ids])


@pytest.mark.numeric
def test_a_model_reads_the_encoders_ids_whatever_it_draws() -> None:
    of = bound("qwen3")
    encode = of.dialect.tokenizer.encode
    size = of.tables.vocabulary

    def model(ids: Any) -> Any:
        logits = torch.zeros(1, ids.shape[1], size)
        for text, more in (("{", 60.0), ('"', 50.0), ("Rome", 40.0), ('"}', 55.0)):
            logits[..., encode(text)[0]] = more
        return logits

    (answer,) = generate(plain(model, size), [prompt("qwen3")], decoder=of, max_new_tokens=60, seed=1)  # fmt: skip
    begun = encode('{"city": "Oslo')[: -len(encode("Oslo"))]
    assert answer.ids[: len(begun)] == begun


def test_the_exported_grammar_forces_the_encoders_ids() -> None:
    of = Decoder("qwen3")
    tokenizer = of.dialect.tokenizer
    matcher = lark_matcher("qwen3").deep_copy()
    call = [tokenizer.special["<tool_call>"], *tokenizer.encode("\n")]
    assert matcher.try_consume_tokens(call) == len(call)
    assert matcher.compute_ff_tokens()[:3] == tokenizer.encode('{"name": ')[:3]
