"""What holds states over time goes on, however many others one decoder serves meanwhile."""

from __future__ import annotations

import pytest
import torch

import mypt_spec
from mypt_infer.controller.model_source import ModelSource
from mypt_infer.decode import BatchDecoder, Decoder, Response
from mypt_infer.generate.generate import generate
from mypt_infer.generate.huggingface import TagLogitsProcessor
from mypt_infer.generate.loop import Model, plain
from mypt_infer.generate.sample import Sampling
from tests.support.decoding import complete, prompt
from tests.support.examples import either
from tests.support.vocabulary import small

pytest.importorskip("llguidance")
from mypt_infer.decode.llguidance import numbered

pytestmark = pytest.mark.numeric

GABGPT = either(small, mypt_spec.dialect)("gabgpt")
FORM = Response(regex="[a-z ]{50,60}[0-9]")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Room for so few states that a long answer fills it."""
    monkeypatch.setattr(numbered, "ROOM", 5_000)
    return 5_000


def model(vocabulary: int) -> Model:
    """A model whose logits depend on the last id alone."""
    chances = torch.Generator().manual_seed(7)
    weights = torch.randn(64, vocabulary, generator=chances)
    return plain(lambda ids: weights[ids[:, -1:] % 64], vocabulary)


def source(decoder: Decoder, seed: int) -> ModelSource:
    made = ModelSource(model(decoder.tables.vocabulary), decoder, sampling=Sampling(), seed=seed)
    made.append(decoder.ids_of(prompt(decoder.dialect.name)))
    return made


def test_conversations_that_share_a_decoder(few: int) -> None:
    """One waits within its answer while others draw theirs, and goes on as if it were alone."""
    decoder, alone = Decoder(GABGPT, response=FORM), Decoder(GABGPT, response=FORM)
    slow, other = source(decoder, 1), source(alone, 1)
    for n in range(5):
        assert slow.next(90 - n) == other.next(90 - n)
        quick, end = source(decoder, n + 2), decoder.dialect.table.special["<|end|>"]
        assert next(left for left in range(90, 0, -1) if quick.next(left) == end)
    assert decoder.epoch > 2


def test_rows_of_a_batch(few: int) -> None:
    """More rows than states that are kept, and rows that wait while others are answered."""
    decoder, alone = Decoder(GABGPT, response=FORM), Decoder(GABGPT, response=FORM)
    ask = [prompt("gabgpt")] * 6
    made = model(decoder.tables.vocabulary)
    found = generate(made, ask, decoder=decoder, max_new_tokens=90, seed=3)
    assert decoder.epoch > 0
    for g in found:
        assert complete(decoder, g.prompt + g.ids)
    assert [g.ids for g in found[:2]] == [
        g.ids for g in generate(made, ask[:2], decoder=alone, max_new_tokens=90, seed=3)
    ]


def test_rows_in_transformers(few: int) -> None:
    decoder, rows, most = Decoder(GABGPT, response=FORM), 3, either(80, 40)
    first = decoder.ids_of(prompt("gabgpt"))
    processor = TagLogitsProcessor(decoder, max_new_tokens=most)
    ids, chances = torch.tensor([first] * rows), torch.Generator().manual_seed(1)
    for _ in range(most + 1):
        scores = torch.randn(rows, decoder.tables.vocabulary, generator=chances)
        ids = torch.cat([ids, processor(ids, scores).argmax(1, keepdim=True)], 1)
    assert decoder.epoch > 0
    assert all(complete(decoder, [*first, *processor.generated(row)]) for row in ids.tolist())


def test_any_loop_over_a_batch(few: int) -> None:
    one, two = Decoder(GABGPT, response=FORM), Decoder(GABGPT, response=Response(regex="a{40}"))
    batch = BatchDecoder([one, two, one])
    states = batch.start([prompt("gabgpt")] * 3)
    with batch.hold(states):
        open_answer = one.dialect.table.special["<|assistant|>"]
        states[:] = batch.step(states, [open_answer] * 3).tolist()
        for seed in range(2):
            generate(model(one.tables.vocabulary), [prompt("gabgpt")] * 2, decoder=one, seed=seed)
        assert one.epoch > 0
        assert batch.bias(states).shape == (3, one.tables.vocabulary)
