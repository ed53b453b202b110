"""An answer that the budget did not change ends with "stop", however near the budget is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch

pytest.importorskip("openai", reason="needs the extra test")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
pytest.importorskip("llguidance")

import mypt_spec
from mypt_infer.generate.llama import Cache, Llama, LlamaConfig
from mypt_infer.serve.service import Service
from tests.support.examples import either
from tests.support.serving import NAME, Running, ask, running
from tests.support.tiny_models import random_model

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
PERSON = '{"name": "Ann Lee", "age": 31}'
TEXT = "Bees make honey, wasps do not"


class Says(Llama):
    """A model that says some texts, the last before others: each id is followed as it is there."""

    def __init__(self, model: Llama, texts: list[list[int]]) -> None:
        super().__init__(model.net)
        self.pairs = [
            (*pair, 60 + 20 * at) for at, ids in enumerate(texts) for pair in pairwise(ids)
        ]

    def __call__(self, ids: torch.Tensor, lengths: torch.Tensor, cache: Cache) -> torch.Tensor:
        out = super().__call__(ids, lengths, cache)
        for row, (read, count) in enumerate(zip(ids.tolist(), lengths.tolist(), strict=True)):
            for last, then, more in self.pairs:
                if count and read[count - 1] == last:
                    out[row, then] += more
        return out


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    d = mypt_spec.dialect("mypt")
    special, encode = d.tokenizer.special, d.tokenizer.encode
    begin = [special[tag] for tag in ("</myPT_user>", "<myPT_assistant>")]
    end = [special[tag] for tag in ("</myPT_assistant>", "<myPT_eot>")]
    texts = [[*begin, *encode(text), *end] for text in (PERSON, TEXT)]
    model = random_model(LlamaConfig(d.tokenizer.vocab_size, 8, 16, 1, 2, 1, tie_word_embeddings=True), 0)  # fmt: skip
    with running(Service(Says(model, texts), d, name=NAME)) as server:
        yield server


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("wanted", [{"response_format": FORMAT}, {}], ids=["schema", "text"])
def test_a_whole_answer_is_stop(server: Running, wanted: Any, temperature: float) -> None:
    def answer(budget: int) -> Any:
        with server.client() as client:
            return ask(client, max_tokens=budget, temperature=temperature, seed=3, **wanted)

    whole = answer(200)
    text, used = whole.choices[0].message.content, whole.usage.completion_tokens
    assert whole.choices[0].finish_reason == "stop"
    assert text == (json.dumps(json.loads(PERSON)) if wanted else TEXT)
    for budget in range(used, used + either(6, 40)):
        (choice,) = answer(budget).choices
        assert (choice.message.content, choice.finish_reason) == (text, "stop"), budget
    (cut,) = answer(used - 1).choices
    assert cut.finish_reason == "length"
    assert cut.message.content != text
