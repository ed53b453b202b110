"""Models with more logits than a dialect has ids: the others are never generated."""

from __future__ import annotations

from typing import Any

import pytest

from mypt_infer.controller.model_source import ModelSource
from tests.support.decoding import complete, decoder, prompt

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from mypt_infer.generate.generate import generate  # noqa: E402
from mypt_infer.generate.huggingface import TagLogitsProcessor  # noqa: E402
from mypt_infer.generate.loop import plain  # noqa: E402

pytestmark = pytest.mark.numeric

SIZE, WIDE = 50304, 50400


def logits(rows: int, width: int) -> Any:
    """Logits of which those of no id are by far the largest."""
    found = torch.randn(rows, SIZE, generator=torch.Generator().manual_seed(7))
    return torch.cat([found, torch.full((rows, width - SIZE), 100.0)], dim=1)


def test_the_processor_refuses_ids_beyond_the_table() -> None:
    made = decoder("mypt", think=5, call=64)
    ids = torch.tensor([made.ids_of(prompt("mypt"))])
    narrow = TagLogitsProcessor(made, max_new_tokens=9)(ids, logits(1, SIZE))
    wide = TagLogitsProcessor(made, max_new_tokens=9)(ids, logits(1, WIDE))
    assert wide.shape == (1, WIDE)
    assert torch.equal(wide[:, :SIZE], narrow)
    assert torch.isinf(wide[:, SIZE:]).all()
    with pytest.raises(ValueError, match="the model has 50000 logits, mypt has 50304 ids"):
        TagLogitsProcessor(made)(ids, logits(1, SIZE)[:, :50000])


def test_an_end_beyond_the_table_is_allowed_at_the_end() -> None:
    made = decoder("mypt", think=5, call=64)
    processor = TagLogitsProcessor(made, max_new_tokens=4, eos_token_id=WIDE - 1)
    ids = torch.tensor([made.ids_of(prompt("mypt"))])
    for _ in range(6):
        found = int(processor(ids, logits(1, WIDE))[0].argmax())
        ids = torch.cat([ids, torch.tensor([[found]])], dim=1)
        if found == WIDE - 1:
            break
    assert ids[0, -1] == WIDE - 1
    assert complete(made, ids[0, :-1].tolist())


def test_generate_and_the_controller_see_only_ids_of_the_table() -> None:
    made = decoder("mypt", think=5, call=64)

    def model(width: int) -> Any:
        return plain(lambda ids: logits(1, width)[None], width)

    ids = made.ids_of(prompt("mypt"))
    outs = [
        generate(model(width), [ids], decoder=made, max_new_tokens=6, seed=3)[0].ids
        for width in (SIZE, WIDE)
    ]
    assert outs[0] == outs[1]
    drawn = []
    for width in (SIZE, WIDE):
        source = ModelSource(model(width), made, seed=1)
        source.append(ids)
        drawn.append([source.next(20 - i) for i in range(4)])
    assert drawn[0] == drawn[1]
