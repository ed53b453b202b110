"""The decoder in the loop of `transformers`: whatever is sampled, searched or drafted, and taken
back, budgets and legality hold.
"""

from __future__ import annotations

from typing import Any

import pytest

from mypt_infer.decode import Decoder
from tests.support.decoding import CALL, CALL_END, TOOLS, complete, decoder, prompt, requiring
from tests.support.examples import either

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from mypt_infer.generate.huggingface import TagLogitsProcessor  # noqa: E402

pytestmark = pytest.mark.numeric


def llama(seed: int) -> Any:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(vocab_size=50304, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, eos_token_id=50256, pad_token_id=50256, bos_token_id=None)  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


class Counting(TagLogitsProcessor):
    """Counts how often a row was read as a new prompt."""

    starts = 0

    def _start(self, *row: Any) -> int:
        self.starts += 1
        return super()._start(*row)


def answer(model: Any, before: list[list[int]], processor: TagLogitsProcessor, **how: Any) -> Any:
    """The rows that a model makes of prompts, which are filled up on the left."""
    width = max(map(len, before))
    rows = torch.tensor([[50256] * (width - len(ids)) + ids for ids in before])
    return model.generate(
        rows,
        attention_mask=(rows != 50256).long(),
        max_new_tokens=(processor.budget or 0) + 1,
        logits_processor=[processor],
        **how,
    )


def check_rows(rows: Any, before: list[list[int]], processor: TagLogitsProcessor) -> None:
    """Each row is complete, within the budget."""
    (decoder,) = processor.batch.decoders
    for row, ids in zip(rows, before, strict=True):
        new = processor.generated(row)
        assert len(new) <= (processor.budget or 0)
        assert complete(decoder, ids + new), decoder.dialect.tokenizer.decode(new)


SAMPLED, BEAMS = {"do_sample": True, "temperature": 3.0}, {"num_beams": 3}


@pytest.mark.parametrize("how", [SAMPLED, BEAMS, BEAMS | {"do_sample": True}])
def test_rows_and_beams_keep_the_budget(how: dict[str, Any]) -> None:
    made = decoder("mypt", think=5, call=64)
    ids, model = made.ids_of(prompt("mypt")), llama(0)
    longer = [*ids[:-1], *made.dialect.tokenizer.encode(" there"), ids[-1]]
    before = [ids, longer, ids]
    for budget in either((4, 12), (4, 9, 24)):
        processor = TagLogitsProcessor(made, max_new_tokens=budget)
        check_rows(answer(model, before, processor, **how), before, processor)


@pytest.mark.parametrize("how", ["assistant", "lookup"])
@pytest.mark.parametrize("sample", [False, True])
def test_drafts_keep_the_budget(how: str, sample: bool) -> None:
    made = decoder("mypt", think=5, call=64)
    before, target = [made.ids_of(prompt("mypt"))], llama(0)
    for budget in either((4, 9, 24), (4, 9, 40)):
        drafts: Any = {"prompt_lookup_num_tokens": 3}
        if how == "assistant":
            drafts = {"assistant_model": llama(1 if budget == 9 else 0)}
        processor = Counting(made, max_new_tokens=budget)
        rows = answer(target, before, processor, do_sample=sample, **drafts)
        check_rows(rows, before, processor)
        assert processor.starts == 1
    plain = answer(target, before, TagLogitsProcessor(made, max_new_tokens=budget))
    assert sample or plain.tolist() == rows.tolist(), "drafts change nothing but the time"


@pytest.mark.parametrize("how", ["beams", "sampled beams", "assistant", "lookup"])
def test_searches_inside_bodies_that_llguidance_reads(how: str) -> None:
    """Beams that are left and drafts that are taken back keep budget and legality there, too."""
    pytest.importorskip("llguidance")
    bounds = {"q": {"type": "string", "minLength": 3}, "n": {"type": "integer", "minimum": 5}}
    made = Decoder("mypt", [requiring("find", **bounds)], engine="llguidance")
    before, target = [[*made.ids_of(prompt("mypt")), *CALL]], llama(3)
    more: dict[str, Any] = {
        "beams": BEAMS,
        "sampled beams": BEAMS | {"do_sample": True},
        "assistant": {"assistant_model": target},
        "lookup": {"prompt_lookup_num_tokens": 3},
    }[how]
    processor = Counting(made, max_new_tokens=made.minimum(made.start(before[0])) + 7)
    check_rows(answer(target, before, processor, **more), before, processor)
    assert processor.starts == (3 if "beams" in how else 1)


def test_a_processor_serves_the_next_prompt_too() -> None:
    made = decoder("mypt", think=5, call=64)
    processor = Counting(made, max_new_tokens=20)
    first = made.ids_of(prompt("mypt"))
    scores = torch.zeros(1, 50304)
    processor(torch.tensor([first]), scores.clone())
    longer = [*first, *made.dialect.tokenizer.encode(" there")]
    other = [*first[:-1], *made.dialect.tokenizer.encode(" there"), first[-1]]
    processor(torch.tensor([other]), scores.clone())
    assert processor.starts == 2
    assert processor.begun == len(other)
    assert longer != other


@pytest.mark.parametrize("engine", ["table", "llguidance"])
def test_how_many_of_a_draft_hold(engine: str) -> None:
    if engine == "llguidance":
        pytest.importorskip("llguidance")
    of = Decoder("mypt", TOOLS, engine=engine)
    encode = of.dialect.tokenizer.encode
    state = of.start(prompt("mypt"), max_new_tokens=60)
    good = [*CALL, *encode('{"name": "search", "query": "x"}'), CALL_END]
    assert of.accepts(state, good) == len(good)
    assert of.accepts(state, [*good[:7], CALL_END, *good[7:]]) == 7
    assert of.accepts(state, []) == of.accepts(state, [50257]) == of.accepts(state, [10**9]) == 0
    short = of.start(prompt("mypt"), max_new_tokens=of.minimum(state))
    count = of.accepts(short, good)
    assert 0 < count < len(good)
    assert of.allow(of.run(short, good[:count])).count, "another way is left"


def test_where_the_caller_cannot_draw_again() -> None:
    """In a string that a pattern binds, all that the processor leaves is taken."""
    pytest.importorskip("llguidance")
    schema = {"type": "string", "pattern": "^(x|[^<]+<myPT_user>|[^<]+y)$"}
    of = Decoder("mypt", [requiring(a=schema)], engine="llguidance")
    begun = of.dialect.tokenizer.encode('{"name": "t", "a": "k')
    ids = [*of.ids_of(prompt("mypt")), *CALL, *begun]
    state = of.start(ids)
    assert of.unproved(state)
    processor = TagLogitsProcessor(of)
    kept = processor(torch.tensor([ids]), torch.randn(1, 50304))[0]
    left = torch.isfinite(kept).nonzero().flatten().tolist()
    assert 0 < len(left) <= 64
    assert all(of.takes(state, i) for i in left)


def test_rows_that_go_on_together_are_masked_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass over the rows of a decoder, and no search for what a row goes on from."""
    made = decoder("mypt", think=5, call=64)
    first = made.ids_of(prompt("mypt"))
    rows = torch.tensor([first, first])
    together = TagLogitsProcessor(made, max_new_tokens=14)
    alone = [TagLogitsProcessor(made, max_new_tokens=14) for _ in rows]
    monkeypatch.setattr(together, "_continued", lambda *_: None)  # for new prompts
    for step in range(15):
        scores = torch.rand(2, 50304, generator=torch.Generator().manual_seed(step))
        scores[0, 50267] += 3.0  # the first row calls
        masked = together(rows, scores)
        for i, own in enumerate(alone):
            assert torch.equal(masked[i : i + 1], own(rows[i : i + 1], scores[i : i + 1])), (
                step,
                i,
            )
        rows = torch.cat([rows, masked.argmax(-1, keepdim=True)], 1)
    for row in rows:
        assert complete(made, first + together.generated(row))


@pytest.mark.parametrize("wide", [0, 8])
def test_scores_are_masked_in_a_copy(wide: int) -> None:
    """Of allowed ids as they are, -inf for others; rows that call, one that answers, and the end."""
    made = decoder("mypt", think=5, call=64)
    first = made.ids_of(prompt("mypt"))
    rows = torch.tensor([first] * 3)
    processor = TagLogitsProcessor(made, max_new_tokens=12, jump_forward=False)
    states: list[int | None] = [made.start(first, max_new_tokens=12)] * 3
    for step in range(14):
        scores = torch.rand(3, 50304 + wide, generator=torch.Generator().manual_seed(step))
        scores[:2, 50267] += 3.0  # two rows call
        before = scores.clone()
        masked = processor(rows, scores)
        assert torch.equal(scores, before)
        for row, state in enumerate(states):
            expected = torch.full_like(scores[row], -torch.inf)
            if state is None or made.final(state):
                expected[50256] = scores[row, 50256]
            else:
                allowed = torch.from_numpy(made.allowed(state)).nonzero().flatten()
                expected[allowed] = scores[row, allowed]
            assert torch.equal(masked[row], expected), (step, row)
        chosen = masked.argmax(-1)
        states = [
            None if s is None or made.final(s) else made.next(s, int(i))
            for s, i in zip(states, chosen, strict=True)
        ]
        rows = torch.cat([rows, chosen[:, None]], 1)
