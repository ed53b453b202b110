"""The loop with real tensors: chunks on a cache, sampling, budgets, stops, reports."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mypt_infer.decode import BudgetError, Decoder, PromptError
from tests.support.decoding import TOOLS, complete, decoder, prompt
from tests.support.dialects import FEW
from tests.support.examples import either
from tests.support.tolerance import assert_close, forward_terms, is_close

torch = pytest.importorskip("torch")
from mypt_infer.generate.generate import generate  # noqa: E402
from mypt_infer.generate.llama import LlamaConfig, ModelError, load, shapes  # noqa: E402
from mypt_infer.generate.loop import plain  # noqa: E402
from mypt_infer.generate.sample import Sampling, draw  # noqa: E402
from tests.support.tiny_models import random_model  # noqa: E402

pytestmark = pytest.mark.numeric


@cache
def model(vocab: int = 50304, seed: int = 0) -> Any:
    config = LlamaConfig(vocab, 32, 48, 2, 4, 2, tie_word_embeddings=True)
    return random_model(config, seed, scale=0.5)


def test_a_chunk_is_the_same_as_its_tokens_and_as_all_at_once() -> None:
    llama = model(512)
    ids = torch.randint(0, 512, (3, 20), generator=torch.Generator().manual_seed(1))
    whole = llama(ids, torch.tensor([20, 20, 20]), llama.begin(3, 20))
    one = llama.begin(3, 20)
    for i in range(20):
        last = llama(ids[:, i : i + 1], torch.ones(3, dtype=torch.int64), one)
    chunks = llama.begin(3, 20)
    for first, after in ((0, 7), (7, 8), (8, 20)):
        chunk = llama(ids[:, first:after], torch.full((3,), after - first), chunks)
    terms = forward_terms(llama.config, 20)
    assert_close(last, whole, terms=terms)
    assert_close(chunk, whole, terms=terms)
    ids[:, 0] += 1 - 2 * (ids[:, 0] == 511)
    other = llama(ids, torch.tensor([20, 20, 20]), llama.begin(3, 20))
    assert not any(is_close(*rows, terms=terms) for rows in zip(other, whole, strict=True))


def test_rows_may_be_at_different_places() -> None:
    """Chunks of different lengths in one call, filled up with anything, and rows that wait."""
    llama = model(512)
    ids = torch.randint(0, 512, (3, 12), generator=torch.Generator().manual_seed(2))
    alone = [llama(ids[r : r + 1], torch.tensor([12]), llama.begin(1, 12))[0] for r in range(3)]
    cache = llama.begin(3, 12)
    at, rows = [0, 0, 0], [None] * 3
    for lengths in ([5, 1, 0], [0, 7, 3], [4, 0, 9], [3, 4, 0]):
        padded = torch.full((3, max(lengths)), 511)
        for r, n in enumerate(lengths):
            padded[r, :n] = ids[r, at[r] : at[r] + n]
            at[r] += n
        logits = llama(padded, torch.tensor(lengths), cache)
        for r, n in enumerate(lengths):
            if n and at[r] == 12:
                rows[r] = logits[r]
    for mine, theirs in zip(rows, alone, strict=True):
        assert_close(mine, theirs, terms=forward_terms(llama.config, 12))


def test_it_is_the_llama_that_others_know(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    mine = load(tmp_path)
    ids = torch.randint(0, 320, (2, 9))
    with torch.no_grad():
        wanted = theirs(ids).logits[:, -1]
    logits = mine(ids, torch.tensor([9, 9]), mine.begin(2, 9))
    assert_close(logits, wanted, terms=forward_terms(config, 9))


@pytest.mark.parametrize("name", FEW)
def test_random_weights_at_every_budget(name: str) -> None:
    """Hot sampling from random weights: all rows legal and complete, whatever the budget."""
    made = decoder(name, think=5, call=64)
    least = made.minimum(made.start(prompt(name)))
    for budget in either([least, least + 1, least + 3, 40], [*range(least, least + 6), 24, 48, 64]):
        answers = generate(
            model(made.tables.vocabulary),
            [prompt(name)] * either(2, 4),
            decoder=made,
            max_new_tokens=budget,
            temperature=3.0,
            seed=budget,
        )
        for answer in answers:
            assert len(answer.ids) <= budget
            assert complete(made, answer.prompt + answer.ids), answer.text
            assert answer.ended == ("turn" if answer.episode[0] is not None else "call")


def test_a_batch_is_its_rows() -> None:
    made = decoder("mypt", think=5, call=64)
    longer = made.ids_of(prompt("mypt"))
    longer = [*longer[:-1], *made.dialect.tokenizer.encode(" there, how are you"), longer[-1]]
    options = {"decoder": made, "max_new_tokens": 40, "seed": 5}
    both = generate(model(), [prompt("mypt"), longer], **options)
    assert both[0].ids == generate(model(), prompt("mypt"), **options)[0].ids
    assert both[1].prompt == longer


def test_forced_tokens_are_not_asked_for_and_change_nothing() -> None:
    """A cacheless model that reads the whole sequence each time sees what the cache has."""
    made = decoder("mypt", think=5, call=64)
    passes = list[int]()

    def read(ids: Any) -> Any:
        size = ids.shape[1]
        passes.append(size)
        return model()(ids, torch.tensor([size]), model().begin(1, size))[0].expand(1, size, -1)

    options = {"decoder": made, "max_new_tokens": 40, "seed": 3}
    (slow,) = generate(plain(read, 50304), prompt("mypt"), **options)
    (fast,) = generate(model(), prompt("mypt"), **options)
    assert slow.ids == fast.ids
    forced = [s for s in fast.steps if s.refused_mass is None]
    assert forced
    assert len(passes) == len(fast.steps) - len(forced)
    assert fast.steps[0].token == 50261


def test_the_same_seed_gives_the_same_tokens() -> None:
    made = decoder("mypt")
    first, second, third = (
        generate(model(), prompt("mypt"), decoder=made, max_new_tokens=30, seed=s)[0].ids
        for s in (1, 1, 2)
    )
    assert first == second != third


def test_what_is_lost_is_reported() -> None:
    made = decoder("mypt")
    state = made.next(made.start(prompt("mypt")), 50261)
    logits = torch.zeros(50304)
    refused = np.flatnonzero(~made.allowed(state))
    logits[int(refused[0])] = 12.0
    drawn = draw(logits, state, made, Sampling(), 0.5)
    weight = math.exp(12.0)
    expected = (weight + len(refused) - 1) / (weight + 50303)
    summed = {"terms": math.log2(50304), "dtype": np.float32}  # a tree of pairs
    assert_close(drawn.refused_mass, expected, **summed)
    one_less = (weight + len(refused) - 2) / (weight + 50303)
    assert not is_close(drawn.refused_mass, one_less, **summed)
    call = made.run(state, [50267])
    only = made.ids(call)
    mass = draw(torch.zeros(50304), call, made, Sampling(), 0.5).refused_mass
    assert_close(mass, 1 - len(only) / 50304, **summed)
    g = generate(model(), prompt("mypt"), decoder=made, max_new_tokens=30, seed=1)[0]
    assert 0 < g.refused_mass < 1
    more = {"decoder": made, "max_new_tokens": 30, "seed": 1}
    quick = generate(model(), prompt("mypt"), refused_mass=False, **more)[0]
    assert quick.ids == g.ids
    assert math.isnan(quick.refused_mass)
    assert [s.refused_mass is None for s in quick.steps] == [
        s.refused_mass is None for s in g.steps
    ]


@pytest.mark.parametrize("chance", [0.0, 0.31, 0.999999999])
def test_draws_are_by_share(chance: float) -> None:
    made = decoder("mypt")
    state = made.next(made.start(prompt("mypt")), 50261)
    logits = torch.full((50304,), -torch.inf)
    logits[torch.tensor([10, 20, 30])] = torch.tensor([0.1, 0.2, 0.7]).log()
    logits[50259] = 5.0
    top = 10 if chance == 0 else 30
    for options, at, token in (
        ({}, chance, top), ({}, 0.15, 20), ({"top_k": 1}, chance, 30), ({"top_k": 2}, 0.0, 20),
        ({"top_p": 0.5}, chance, 30), ({"top_p": 0.8}, 0.0, 20), ({"temperature": 0}, chance, 30),
    ):  # fmt: skip
        assert draw(logits, state, made, Sampling(**options), at).token == token, options


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers(bad: float) -> None:
    made, logits = decoder("mypt"), torch.full((50304,), bad)
    state = made.next(made.start(prompt("mypt")), 50261)
    with pytest.raises(ValueError, match="finite"):
        draw(logits, state, made, Sampling(), 0.5)


def test_stops() -> None:
    made = decoder("mypt", think=8)
    logits = torch.zeros(50304)
    logits[50271] = logits[50272] = 20.0
    talker = plain(lambda ids: logits.expand(1, ids.shape[1], -1), 50304)
    (answer,) = generate(talker, prompt("mypt"), decoder=made, stop=["</myPT_think>"], seed=0)
    assert answer.ended == "stop"
    assert answer.text.endswith("</myPT_think>")
    with pytest.raises(ValueError, match="a model can write"):
        generate(model(), prompt("mypt"), decoder=made, stop=["<myPT_user>"])


def test_stops_at_a_tag_of_several_tokens() -> None:
    made = decoder("praxis")
    ids = made.ids_of(prompt("praxis"))
    script = made.dialect.tokenizer.encode("Hm.<tin>")
    assert len(made.dialect.tokenizer.decode(script[-1:])) < len("<tin>")

    def write(read: Any) -> Any:
        logits = torch.zeros(1, read.shape[1], made.dialect.tokenizer.vocab_size)
        at = read.shape[1] - len(ids)
        logits[0, -1, script[at] if at < len(script) else 0] = 20.0
        return logits

    talker = plain(write, made.dialect.tokenizer.vocab_size)
    (answer,) = generate(talker, [ids], decoder=made, stop=["<tin>"], temperature=0)
    assert (answer.ended, answer.text) == ("stop", "Hm.<tin>")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"temperature": -1}, ValueError, "temperature"),
        ({"temperature": math.nan}, ValueError, "temperature"),
        ({"top_k": 0}, ValueError, "top_k"),
        ({"top_p": 1.5}, ValueError, "top_p"),
        ({"max_new_tokens": 3}, BudgetError, "takes 4 tokens"),
        ({"tools": TOOLS, "decoder": "mypt"}, ValueError, "belong to the decoder"),
        ({"decoder": "gabgpt"}, PromptError, "the prompt ends after .*, where the model may not"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], says: str) -> None:
    def never(ids: Any) -> Any:
        raise AssertionError("the model was asked")

    if "decoder" in options:
        options = options | {"decoder": decoder(options["decoder"])}
    ids = decoder("mypt").ids_of(prompt("mypt"))
    with pytest.raises(error, match=says):
        generate(plain(never, 50304), [ids], **({"dialect": "mypt"} | options))


def test_a_model_of_another_size() -> None:
    with pytest.raises(ValueError, match="the model has 512 logits, mypt has 50304 ids"):
        generate(model(512), prompt("mypt"))
    with pytest.raises(ValueError, match="need a dialect"):
        generate(model(), [[1, 2]])
    assert generate(model(), [], dialect="mypt") == []


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    """Whatever is missing or wrong in the config, then in the weights."""
    safetensors = pytest.importorskip("safetensors.torch")
    shape = {"vocab_size": 64, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}  # fmt: skip
    for config, says in (
        (None, "cannot read"),
        ("{", "not JSON"),
        (json.dumps({k: v for k, v in shape.items() if k != "hidden_size"}), "hidden_size"),
        (json.dumps(shape), r"no \*.safetensors"),
    ):
        if config is not None:
            (tmp_path / "config.json").write_text(config)
        with pytest.raises(ModelError, match=says):
            load(tmp_path)
    sizes = shapes(LlamaConfig(**shape, num_key_value_heads=2))
    weights, file = {n: torch.ones(s) for n, s in sizes.items()}, tmp_path / "a.safetensors"
    for saved, says in (
        ({k: v for k, v in weights.items() if k != "lm_head.weight"}, "lack lm_head"),
        (weights | {"lm_head.weight": torch.ones(3, 3)}, "has shape"),
    ):
        safetensors.save_file(saved, file)
        with pytest.raises(ModelError, match=says):
            load(tmp_path)
    file.write_bytes(b"junk")
    with pytest.raises(ModelError, match="cannot read"):
        load(tmp_path)


def test_tools_are_given_to_generate() -> None:
    (answer,) = generate(model(), prompt("mypt"), tools=TOOLS, max_new_tokens=20, temperature=0)
    assert complete(Decoder("mypt", TOOLS), answer.prompt + answer.ids)
