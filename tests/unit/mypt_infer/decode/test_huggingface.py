"""Drafted tokens in `transformers`: assisted generation and prompt lookup take tokens back, and
budgets and legality hold.
"""

from __future__ import annotations

from typing import Any

import pytest

from mypt_infer.decode import Decoder
from tests.support.decoding import TOOLS, complete, decoder, prompt

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from mypt_infer.generate import kept_rows  # noqa: E402
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


@pytest.mark.parametrize("how", ["assistant", "lookup"])
@pytest.mark.parametrize("sample", [False, True])
def test_drafts_keep_the_budget(how: str, sample: bool) -> None:
    made = decoder("mypt", think=5, call=64)
    ids = made.ids_of(prompt("mypt"))
    rows = torch.tensor([ids])
    target = llama(0)
    for budget in (4, 9, 40):
        more: dict[str, Any] = {"do_sample": sample}
        if how == "assistant":
            more["assistant_model"] = llama(1 if budget == 9 else 0)
        else:
            more["prompt_lookup_num_tokens"] = 3
        processor = Counting(made, max_new_tokens=budget)
        out = target.generate(
            rows,
            attention_mask=torch.ones_like(rows),
            max_new_tokens=budget + 1,
            logits_processor=[processor],
            **more,
        )
        new = processor.generated(out[0])
        assert processor.starts == 1
        assert len(new) <= budget
        assert complete(made, ids + new), made.dialect.tokenizer.decode(new)
    plain = target.generate(
        rows,
        attention_mask=torch.ones_like(rows),
        max_new_tokens=41,
        logits_processor=[TagLogitsProcessor(made, max_new_tokens=40)],
    )
    assert sample or plain.tolist() == out.tolist(), "drafts change nothing but the time"


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
    good = [50261, 50267, *encode('{"name": "search", "query": "x"}'), 50268]
    assert of.accepts(state, good) == len(good)
    assert of.accepts(state, [*good[:7], 50268, *good[7:]]) == 7
    assert of.accepts(state, []) == of.accepts(state, [50257]) == of.accepts(state, [10**9]) == 0
    short = of.start(prompt("mypt"), max_new_tokens=of.minimum(state))
    count = of.accepts(short, good)
    assert 0 < count < len(good)
    assert of.allow(of.run(short, good[:count])).count, "another way is left"


def test_where_the_caller_cannot_draw_again() -> None:
    """In a string that a pattern binds, all that the processor leaves is taken."""
    pytest.importorskip("llguidance")
    schema = {"type": "string", "pattern": "^(x|[^<]+<myPT_user>|[^<]+y)$"}
    tool = {"name": "t", "parameters": {"properties": {"a": schema}, "required": ["a"]}}
    of = Decoder("mypt", [tool], engine="llguidance")
    ids = [*of.ids_of(prompt("mypt")), 50261, 50267]
    ids += of.dialect.tokenizer.encode('{"name": "t", "a": "k')
    state = of.start(ids)
    assert of.unproved(state)
    processor = TagLogitsProcessor(of)
    kept = processor(torch.tensor([ids]), torch.randn(1, 50304))[0]
    left = torch.isfinite(kept).nonzero().flatten().tolist()
    assert 0 < len(left) <= 64
    assert all(of.takes(state, i) for i in left)


@pytest.mark.parametrize("how", ["beams", "sampled beams", "assistant", "lookup"])
def test_searches_inside_bodies_that_llguidance_reads(how: str) -> None:
    """Beams that are left and drafts that are taken back keep budget and legality there, too."""
    pytest.importorskip("llguidance")
    schema = {"type": "object", "properties": {"q": {"type": "string", "minLength": 3}, "n": {"type": "integer", "minimum": 5}}, "required": ["q", "n"]}  # fmt: skip
    made = Decoder("mypt", [{"name": "find", "parameters": schema}], engine="llguidance")
    ids = [*made.ids_of(prompt("mypt")), 50261, 50267]
    rows, target, budget = torch.tensor([ids]), llama(3), made.minimum(made.start(ids)) + 7
    more: dict[str, Any] = {
        "beams": {"num_beams": 3},
        "sampled beams": {"num_beams": 3, "do_sample": True},
        "assistant": {"assistant_model": target},
        "lookup": {"prompt_lookup_num_tokens": 3},
    }[how]
    processor = Counting(made, max_new_tokens=budget)
    out = target.generate(
        rows,
        attention_mask=torch.ones_like(rows),
        max_new_tokens=budget + 1,
        logits_processor=[processor],
        **more,
    )
    new = processor.generated(out[0])
    assert processor.starts == (3 if "beams" in how else 1)
    assert len(new) <= budget
    assert complete(made, ids + new), made.dialect.tokenizer.decode(new)


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
        found = together(rows, scores)
        for i, own in enumerate(alone):
            assert torch.equal(found[i : i + 1], own(rows[i : i + 1], scores[i : i + 1])), (step, i)
        rows = torch.cat([rows, found.argmax(-1, keepdim=True)], 1)
    for row in rows:
        assert complete(made, first + together.generated(row))


@pytest.mark.parametrize("wide", [0, 8])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("then", ["dropped", "kept", "a part is kept", "written to"])
def test_scores_are_written_where_nobody_looks(
    then: str, counted: bool, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is used again once the scores in it are dropped; what is kept stays as it was.

    Where torch cannot count who holds memory, it is not used again, and all else is the same.
    """
    if not counted:
        monkeypatch.setattr(kept_rows, "_TENSORS", None)
    made = decoder("mypt", think=5, call=64)
    first = made.ids_of(prompt("mypt"))
    rows, kept, places = torch.tensor([first] * 3), [], set[int]()
    processor = TagLogitsProcessor(made, max_new_tokens=12, jump_forward=False)
    states: list[int | None] = [made.start(first, max_new_tokens=12)] * 3
    last = None
    for step in range(14):
        scores = torch.rand(3, 50304 + wide, generator=torch.Generator().manual_seed(step))
        scores[:2, 50267] += 3.0  # two rows call
        before = scores.clone()
        found = processor(rows, scores)
        assert torch.equal(scores, before)
        places.add(found.data_ptr())
        for row, state in enumerate(states):
            expected = torch.full_like(scores[row], -torch.inf)
            if state is None or made.final(state):
                expected[50256] = scores[row, 50256]
            else:
                allowed = torch.from_numpy(made.allowed(state)).nonzero().flatten()
                expected[allowed] = scores[row, allowed]
            assert torch.equal(found[row], expected), (step, row)
        chosen = found.argmax(-1)
        if "kept" in then:
            kept.append((found[1] if "part" in then else found, found.clone()))
        elif then == "written to":
            found.fill_(1.0)
        states = [
            None if s is None or made.final(s) else made.next(s, int(i))
            for s, i in zip(states, chosen, strict=True)
        ]
        rows = torch.cat([rows, chosen[:, None]], 1)
        last = found  # as a loop does, until the next scores are there
    assert last is not None
    del found, last
    if counted or "kept" in then:  # other memory may be where some was
        assert (len(places) == 2) == ("kept" not in then)
    assert all(kept.free for kept in processor._kept) == (counted and "kept" not in then)
    for part, whole in kept:
        assert torch.equal(part, whole[1] if "part" in then else whole)
