"""The parts of training, each against a plain statement of what it means: head, attention, rows,
phases, schedule.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_train import ShardError
from tests.support.build import write
from tests.support.dialects import DIALECTS
from tests.support.examples import examples
from tests.support.shards import prepare_files
from tests.support.strategies import records
from tests.support.tolerance import assert_close, forward_terms, is_close
from tests.support.training import SHAPE, small_data

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from mypt_model.llama import random_transformer  # noqa: E402
from mypt_model.shape import LlamaConfig, ModelError  # noqa: E402
from mypt_train.training.batches import Pool, batch, share, stages  # noqa: E402
from mypt_train.training.corpus import Corpus, corpus, open_data  # noqa: E402
from mypt_train.training.parts import head  # noqa: E402
from mypt_train.training.parts.attention import attend, block_mask, owners  # noqa: E402
from mypt_train.training.parts.config import Config  # noqa: E402
from mypt_train.training.parts.head import (  # noqa: E402
    chunked_cross_entropy,
    chunked_cross_entropy_each,
)
from mypt_train.training.trainer import rate  # noqa: E402

pytestmark = pytest.mark.numeric

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus(open_data([small_data(tmp_path_factory.mktemp("set") / "sft")]), "train")


# The head.


def by_hand(hidden: Any, weight: Any, targets: Any, slopes: Any) -> tuple[Any, Any, Any]:
    h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
    losses = F.cross_entropy(h @ w.T, targets, reduction="none")
    (losses * slopes).sum().backward()
    return losses.detach(), h.grad, w.grad


@settings(max_examples=examples(25))
@given(
    st.integers(0, 40), st.integers(2, 90), st.integers(0, 1000), st.sampled_from([1, 64, 1 << 22])
)
def test_the_head_is_cross_entropy(count: int, vocabulary: int, seed: int, piece: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    hidden, weight = (
        torch.randn(count, 8, generator=generator) * 3,
        torch.randn(vocabulary, 8, generator=generator),
    )
    targets = torch.randint(0, vocabulary, (count,), generator=generator)
    slopes = torch.randn(count, generator=generator)
    # A loss sums a row of the vocabulary, whose logits sum the hidden size; then all are summed.
    one, largest = 8 + vocabulary, float((hidden @ weight.T).abs().max()) if count else 0.0
    by_slope = largest * float(slopes.abs().max().clamp(min=0.5)) if count else 0.0
    before, head._PIECE = head._PIECE, piece
    try:
        for function, weighed in (
            (lambda h, w: chunked_cross_entropy(h, w, targets)[0] * 0.5, torch.full((count,), 0.5)),
            (lambda h, w: (chunked_cross_entropy_each(h, w, targets) * slopes).sum(), slopes),
        ):
            losses, by_h, by_w = by_hand(hidden, weight, targets, weighed)
            h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
            total = function(h, w)
            total.backward()
            assert_close(total, (losses * weighed).sum(), terms=count * one, scale=by_slope)
            assert_close(h.grad, by_h, terms=one, scale=by_slope * float(weight.abs().max()))
            at_most = float(hidden.abs().max()) if count else 0.0
            assert_close(w.grad, by_w, terms=count * one, scale=by_slope * at_most)
        with torch.no_grad():
            total, each, right = chunked_cross_entropy(hidden, weight, targets)
        assert_close(each, losses, terms=one, scale=largest)
        assert torch.equal(right, (hidden @ weight.T).argmax(-1) == targets) or count == 0
    finally:
        head._PIECE = before


def test_faults_of_the_head_are_seen() -> None:
    """The same limits as above; the plain statement has one target less, or another divisor."""
    generator = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(n, 8, generator=generator) for n in (40, 90))
    targets = torch.randint(0, 90, (40,), generator=generator)
    h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
    chunked_cross_entropy(h, w, targets)[0].backward()
    limit = {"terms": 40 * 98, "scale": float((hidden @ weight.T).abs().max() * weight.abs().max())}
    slopes = torch.ones(40)
    for mine, theirs in zip(
        (h.grad, w.grad), by_hand(hidden, weight, targets, slopes)[1:], strict=True
    ):
        assert_close(mine, theirs, **limit)
    slopes[7] = 0.0
    for wrong in (slopes, torch.full((40,), 40 / 39)):
        for mine, theirs in zip(
            (h.grad, w.grad), by_hand(hidden, weight, targets, wrong)[1:], strict=True
        ):
            assert not is_close(mine, theirs, **limit)


def test_the_head_in_bfloat16_and_far_from_zero() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(n, 8, generator=generator) * 2 for n in (9, 50))
    targets = torch.arange(9)
    losses, by_h, _ = by_hand(hidden, weight, targets, torch.ones(9))
    for function in (
        lambda h, w: chunked_cross_entropy(h, w, targets)[0],
        lambda h, w: chunked_cross_entropy_each(h, w, targets).sum(),
    ):
        h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            total = function(h, w)
        total.backward()
        # Each product is rounded to bfloat16, the sums of them are not.
        narrow = {"terms": 9, "scale": float(losses.max()), "dtype": torch.bfloat16}
        assert_close(total, losses.sum(), **narrow)
        assert_close(h.grad, by_h, terms=1, dtype=torch.bfloat16)
        assert not is_close(losses.sum() - losses.max(), losses.sum(), **narrow), "one target lost"
        assert not is_close(0.9 * by_h, by_h, terms=1, dtype=torch.bfloat16), "another divisor"
    total, each, _ = chunked_cross_entropy(
        torch.full((1, 1), 1.0), torch.tensor([[500.0], [-500.0]]), torch.tensor([1])
    )
    assert each.tolist() == [1000.0]


# Attention.


@st.composite
def rows_of_lengths(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    rows = draw(
        st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=3)
    )
    return rows, max(map(sum, rows)) + draw(st.integers(0, 3))


@given(rows_of_lengths(), st.sampled_from([1, 2]), st.sampled_from([None, 1, 3, 20]))
@settings(max_examples=examples(25))
def test_the_ways_of_attention_agree(
    rows: tuple[list[list[int]], int], groups: int, window: int | None
) -> None:
    lengths, width = rows
    generator = torch.Generator().manual_seed(width)
    q, k, v = (
        torch.randn(len(lengths), heads, width, 8, generator=generator, requires_grad=True)
        for heads in (2, 2 // groups, 2 // groups)
    )
    real = torch.arange(width) < torch.tensor([sum(row) for row in lengths])[:, None]
    real_only = real[:, None, :, None].expand(len(lengths), 2, width, 8)
    largest = max(float(t.detach().abs().max()) for t in (q, k, v))
    results = {}
    for backend in ("mask", "slices"):
        out = attend(backend, lengths, width, CPU)(0, q, k, v, window)[real_only]
        results[backend] = (out, *torch.autograd.grad(out.sin().sum(), (q, k, v)))
    for mine, theirs in zip(results["slices"], results["mask"], strict=True):
        assert_close(mine, theirs, terms=width + 8, scale=largest**2)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_flex_attention_agrees_in_its_forward_pass() -> None:
    """On a CPU it has no other; its backward pass needs a GPU."""
    lengths, width = [[5, 3, 40], [60]], 64
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, width, 16, generator=generator) for heads in (4, 2, 2))
    real_only = torch.arange(width) < torch.tensor([48, 60])[:, None]
    for window in (7, None):
        with torch.no_grad():
            plain, flex = (
                attend(backend, lengths, width, CPU)(0, q, k, v, window).transpose(1, 2)[real_only]
                for backend in ("mask", "flex")
            )
        assert_close(plain, flex, terms=width + 16)
    with torch.no_grad():
        mixed = attend("mask", [[8, 40], [60]], width, CPU)(0, q, k, v).transpose(1, 2)[real_only]
    assert not is_close(mixed, flex, terms=width + 16), "an episode sees its neighbour"
    with pytest.raises(ValueError, match="attention is 'x'"):
        attend("x", lengths, width, CPU)


def test_the_mask_says_who_sees_whom() -> None:
    owner = owners([[2, 1]], 4)
    assert owner.tolist() == [[0, 0, 1, 2]]
    rows = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert block_mask(owner)[0, 0].int().tolist() == rows
    near = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert block_mask(owners([[4]], 4), 2)[0, 0].int().tolist() == near


@pytest.mark.parametrize("backend", ["slices", "mask"])
def test_an_episode_does_not_see_its_neighbours(backend: str, train: Corpus) -> None:
    """Other content in one episode leaves the logits of the others in its row as they are, bit for
    bit; and alone they are the same.
    """
    model = random_transformer(LlamaConfig(vocab_size=448, **SHAPE), 1)
    row = max(train.rows(), key=len)
    assert len(row) > 2
    one_batch = batch(train, [row])
    bounds = np.cumsum([0, *one_batch.lengths[0]])
    begin, end = int(bounds[1]), int(bounds[2])

    def logits(ids: Any, at: Any, lengths: Any) -> Any:
        with torch.no_grad():
            seen, places = attend(backend, lengths, ids.shape[1], CPU), torch.arange(ids.shape[1])
            return model(ids, at, seen, places, F.linear)

    before = logits(one_batch.ids, one_batch.at, one_batch.lengths)
    changed = one_batch.ids.clone()
    changed[0, begin:end] = (changed[0, begin:end] + 17) % 380
    after = logits(changed, one_batch.at, one_batch.lengths)
    apart = torch.ones(len(before), dtype=torch.bool)
    apart[begin:end] = False
    assert torch.equal(before[apart], after[apart])
    terms = forward_terms(SHAPE, len(before))
    assert not is_close(before[~apart], after[~apart], terms=terms)
    size = one_batch.lengths[0][2]
    one = slice(int(bounds[2]), int(bounds[3]))
    alone = logits(one_batch.ids[:, one], torch.arange(size)[None], [[size]])
    assert_close(alone, before[one], terms=terms)


def test_shapes_that_cannot_be() -> None:
    for change, says in (
        ({"num_attention_heads": 3}, "cannot be shared"),
        ({"num_key_value_heads": 2, "num_attention_heads": 1}, "evenly"),
        ({"hidden_size": 0}, "above 0"),
    ):
        with pytest.raises(ModelError, match=says):
            LlamaConfig(vocab_size=8, **SHAPE | change)


# Rows and batches.


def test_a_batch_holds_what_the_data_holds(train: Corpus) -> None:
    rows = train.rows()[:3]
    one_batch = batch(train, rows)
    expected = Counter()
    for i, row in enumerate(rows):
        begin = 0
        for number in row.tolist():
            ids, mask = train.tokens(number)
            assert one_batch.ids[i, begin : begin + len(ids)].tolist() == ids.tolist()
            assert one_batch.at[i, begin : begin + len(ids)].tolist() == list(range(len(ids)))
            for place in np.flatnonzero(mask).tolist():
                expected[i * one_batch.ids.shape[1] + begin + place - 1, int(ids[place])] += 1
            begin += len(ids)
    assert (
        Counter(zip(one_batch.places.tolist(), one_batch.targets.tolist(), strict=True)) == expected
    )
    assert one_batch.tokens == sum(len(train.tokens(n)[0]) for row in rows for n in row.tolist())
    every = batch(train, rows, every=True)
    assert len(every.targets) == one_batch.tokens - sum(map(len, rows))
    first = {int(n) for n in one_batch.owner.tolist()}
    assert first <= set(range(sum(map(len, rows))))


def test_rows_keep_episodes_whole(train: Corpus) -> None:
    for length in (1024, 2048):
        rows = train.rows(length)
        assert sorted(n for row in rows for n in row.tolist()) == list(range(len(train.episodes)))
        assert all(int(train.episodes["length"][row].sum()) <= length for row in rows)
    says = r"examples/phase.*tokens, a row 20; set train.context_length"
    with pytest.raises(ShardError, match=says):
        train.rows(20)


def test_data_without_rows(tmp_path: Path) -> None:
    loose = corpus(open_data([small_data(tmp_path / "loose", pack=False)]), "train")
    rows = loose.rows(1000)
    assert sorted(n for row in rows for n in row.tolist()) == list(range(len(loose.episodes)))
    with pytest.raises(ShardError, match="--no-pack"):
        loose.rows()


@pytest.mark.parametrize("name", DIALECTS)
@given(data=st.data())
@settings(max_examples=examples(4))
def test_phases_are_those_of_the_linter(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    drawn = data.draw(st.lists(records(name), min_size=1, max_size=6))
    folder = tmp_path_factory.mktemp("set")
    path = write(folder / "in.jsonl", *drawn)
    prepare_files([path], folder / "out", dialect=name, context_length=4096)
    episodes = corpus(open_data([folder / "out"], verify=False), "train")
    d = mypt_spec.dialect(name)
    for number, entry in enumerate(episodes.episodes):
        episode, _ = d.parse_ids(episodes.tokens(number)[0])
        assert episode is not None
        phases = range(1, len(d.table.phases) + 1)
        codes = {p: [f.code for f in d.validate(episode, phase=p)] for p in phases}
        fits = [p for p in phases if not any(code.startswith("MYP4") for code in codes[p])]
        assert int(episodes.phase[number]) == (fits[0] if phases else 0)
        assert episodes.place(number).endswith(f"in.jsonl:{entry['line']}")


# The order of things.


@given(
    st.integers(1, 30), st.integers(1, 8), st.integers(1, 4), st.integers(1, 3), st.integers(0, 9)
)
def test_every_row_is_read_once_before_any_is_read_again(
    count: int, size: int, world_size: int, micro: int, seed: int
) -> None:
    rows = [np.array([i]) for i in range(count)]
    size *= world_size
    (stage,) = stages([(None, rows)], steps=50, size=size, replay=0.5, seed=seed)
    read: list[int] = []
    for step in range(50):
        whole = stage.rows(step, size)
        parts = [share(whole, rank, world_size, micro) for rank in range(world_size)]
        assert [int(r[0]) for part in parts for rows in part for r in rows] == [
            int(r[0]) for r in whole
        ], "the processes share a step"
        assert all(len(rows) <= micro for part in parts for rows in part)
        read += [int(r[0]) for r in whole]
    for epoch in range(len(read) // count):
        assert sorted(read[epoch * count : (epoch + 1) * count]) == list(range(count))
    again = stages([(None, rows)], steps=50, size=size, replay=0.5, seed=seed)[0]
    assert [int(r[0]) for r in again.rows(31, size)] == read[31 * size : 32 * size], (
        "a step depends on nothing but its number"
    )


def test_the_curriculum_replays_what_came_before() -> None:
    pools = [(phase, [np.array([100 * phase + i]) for i in range(7)]) for phase in (1, 2, 4)]
    parts = stages(pools, steps=30, size=10, replay=0.3, seed=1)
    assert [(s.phase, s.begin, s.end) for s in parts] == [(1, 0, 10), (2, 10, 20), (4, 20, 30)]
    for stage in parts:
        counts = Counter(
            int(r[0]) // 100 for step in range(stage.begin, stage.end) for r in stage.rows(step, 10)
        )
        assert counts[stage.phase] == (100 if stage.phase == 1 else 70)
        assert set(counts) <= {1, 2, 4}
        assert all(phase <= stage.phase for phase in counts)
    assert Pool([np.array([5])], (1,)).row(12)[0] == 5


def test_learning_rates() -> None:
    chosen = {"steps": 100, "warmup": 10, "lr": 1.0, "final_lr": 0.1}
    c = Config.load({"model": SHAPE, "train": chosen}).train
    rates = [rate(step, c) for step in range(100)]
    assert rates[0] == 0.1
    assert rates[9] == rates[10] == 1.0
    assert all(a > b for a, b in pairwise(rates[10:]))
    assert 0.1 <= rates[-1] < 0.101
    wsd = replace(c, schedule="wsd", decay=0.2)
    assert [rate(step, wsd) for step in (10, 50, 80)] == [1.0, 1.0, 1.0]
    assert 0.1 < rate(99, wsd) < 0.2
    assert rate(99, replace(c, schedule="constant")) == 1.0
