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
from mypt_infer.decode.decoder import machine
from tests.support.decoding import DIALECTS, TOOLS, complete, decoder, prompt
from tests.support.tolerance import assert_close, forward_terms, is_close

torch = pytest.importorskip("torch")
from mypt_infer.generate.device import DeviceDecoder  # noqa: E402
from mypt_infer.generate.generate import generate  # noqa: E402
from mypt_infer.generate.llama import LlamaConfig, ModelError, load, random_model, shapes  # noqa: E402
from mypt_infer.generate.loop import plain  # noqa: E402
from mypt_infer.generate.sample import Sampling, draw  # noqa: E402

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
    at, found = [0, 0, 0], [None] * 3
    for lengths in ([5, 1, 0], [0, 7, 3], [4, 0, 9], [3, 4, 0]):
        padded = torch.full((3, max(lengths)), 511)
        for r, n in enumerate(lengths):
            padded[r, :n] = ids[r, at[r] : at[r] + n]
            at[r] += n
        logits = llama(padded, torch.tensor(lengths), cache)
        for r, n in enumerate(lengths):
            if n and at[r] == 12:
                found[r] = logits[r]
    for mine, theirs in zip(found, alone, strict=True):
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


@pytest.mark.parametrize("name", DIALECTS)
def test_random_weights_at_every_budget(name: str) -> None:
    """Hot sampling from random weights: all rows legal and complete, whatever the budget."""
    made = decoder(name, think=5, call=64)
    least = made.minimum(made.start(prompt(name)))
    for budget in [*range(least, least + 6), 24, 48, 64]:
        found = generate(
            model(made.tables.vocabulary),
            [prompt(name)] * 4,
            decoder=made,
            max_new_tokens=budget,
            temperature=3.0,
            seed=budget,
        )
        for g in found:
            assert len(g.ids) <= budget
            assert complete(made, g.prompt + g.ids), g.text
            assert g.ended == ("turn" if g.episode[0] is not None else "call")


def test_the_same_weights_without_constraint_are_never_legal() -> None:
    """The contrast: what the test above brings to 100 % is 0 % without the decoder."""
    for name in DIALECTS:
        made = decoder(name)
        llama, ids, generator = (
            model(made.tables.vocabulary),
            made.ids_of(prompt(name)),
            torch.Generator().manual_seed(0),
        )
        rows = 12
        cache, out = llama.begin(rows, len(ids) + 24), torch.tensor([ids] * rows)
        chunk = out
        for _ in range(24):
            logits = llama(chunk, torch.full((rows,), chunk.shape[1]), cache)
            chunk = torch.multinomial(torch.softmax(logits, -1), 1, generator=generator)
            out = torch.cat([out, chunk], dim=1)
        assert not any(
            complete(made, row[: len(ids) + n]) for row in out.tolist() for n in range(1, 25)
        )


def test_a_batch_is_its_rows() -> None:
    made = decoder("mypt", think=5, call=64)
    longer = made.ids_of(prompt("mypt"))
    longer = [*longer[:-1], *made.dialect.tokenizer.encode(" there, how are you"), longer[-1]]
    both = generate(model(), [prompt("mypt"), longer], decoder=made, max_new_tokens=40, seed=5)
    assert (
        both[0].ids
        == generate(model(), prompt("mypt"), decoder=made, max_new_tokens=40, seed=5)[0].ids
    )
    assert both[1].prompt == longer


def test_forced_tokens_are_not_asked_for_and_change_nothing() -> None:
    """A cacheless model that reads the whole sequence each time sees what the cache has."""
    made = decoder("mypt", think=5, call=64)
    asked = []

    def read(ids: Any) -> Any:
        asked.append(ids.shape[1])
        whole = torch.zeros(1, ids.shape[1], 50304)
        whole[0, -1] = model()(ids, torch.tensor([ids.shape[1]]), model().begin(1, ids.shape[1]))[0]
        return whole

    slow = generate(plain(read, 50304), prompt("mypt"), decoder=made, max_new_tokens=40, seed=3)[0]
    fast = generate(model(), prompt("mypt"), decoder=made, max_new_tokens=40, seed=3)[0]
    assert slow.ids == fast.ids
    forced = [s for s in fast.steps if s.refused_mass is None]
    assert forced
    assert len(asked) == len(fast.steps) - len(forced)
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
    device = DeviceDecoder(made)
    state = made.next(made.start(prompt("mypt")), 50261)
    logits = torch.zeros(50304)
    refused = np.flatnonzero(~made.allowed(state))
    logits[int(refused[0])] = 12.0
    drawn = draw(logits, state, device, Sampling(), 0.5)
    weight = math.exp(12.0)
    expected = (weight + len(refused) - 1) / (weight + 50303)
    summed = {"terms": math.log2(50304), "dtype": np.float32}  # a tree of pairs
    assert_close(drawn.refused_mass, expected, **summed)
    one_less = (weight + len(refused) - 2) / (weight + 50303)
    assert not is_close(drawn.refused_mass, one_less, **summed)
    call = made.run(state, [50267])
    only = made.ids(call)
    mass = draw(torch.zeros(50304), call, device, Sampling(), 0.5).refused_mass
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
    by_state = g.refused_mass_by_state
    drawn = [s for s in g.steps if s.refused_mass is not None]
    assert set(by_state) == {machine(s.state) for s in drawn}
    assert list(by_state.values()) == sorted(by_state.values(), reverse=True)
    counted = [by_state[machine(s.state)] for s in drawn]
    assert_close(sum(counted) / len(counted), g.refused_mass, terms=len(counted))


def test_calls_are_greedy_unless_told_otherwise() -> None:
    made = decoder("mypt")
    device = DeviceDecoder(made)
    call = made.run(made.start(prompt("mypt")), [50261, 50267])
    best = int(made.ids(call)[1])
    logits = torch.zeros(50304)
    logits[best] = 1.0
    assert {draw(logits, call, device, Sampling(), c / 50).token for c in range(50)} == {best}
    loose = Sampling(greedy_calls=False)
    assert len({draw(logits, call, device, loose, c / 50).token for c in range(50)}) > 1


@pytest.mark.parametrize("chance", [0.0, 0.31, 0.999999999])
def test_draws_are_by_share(chance: float) -> None:
    made = decoder("mypt")
    device = DeviceDecoder(made)
    state = made.next(made.start(prompt("mypt")), 50261)
    logits = torch.full((50304,), -torch.inf)
    logits[torch.tensor([10, 20, 30])] = torch.tensor([0.1, 0.2, 0.7]).log()
    logits[50259] = 5.0
    assert (
        draw(logits, state, device, Sampling(), chance).token
        == {0.0: 10, 0.31: 30, 0.999999999: 30}[chance]
    )
    assert draw(logits, state, device, Sampling(), 0.15).token == 20
    assert draw(logits, state, device, Sampling(top_k=1), chance).token == 30
    assert draw(logits, state, device, Sampling(top_k=2), 0.0).token == 20
    assert draw(logits, state, device, Sampling(top_p=0.5), chance).token == 30
    assert draw(logits, state, device, Sampling(top_p=0.8), 0.0).token == 20
    assert draw(logits, state, device, Sampling(temperature=0), chance).token == 30


@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("body", ["", '{"name": "'])
def test_a_model_that_rules_out_all_that_is_allowed(temperature: float, body: str) -> None:
    """Nothing refused is ever drawn, however little the model thinks of the rest."""
    made = decoder("mypt")
    device = DeviceDecoder(made)
    state = made.next(made.start(prompt("mypt")), 50261)
    if body:
        state = made.run(state, [50267, *made.dialect.tokenizer.encode(body)])
    allowed = torch.from_numpy(made.allowed(state))
    for weight in (-torch.inf, -1e30, -200.0, -20.0):
        logits = torch.where(allowed, weight, 0.0)
        for chance in (0.0, 0.4, 0.99999):
            drawn = draw(
                logits, state, device, Sampling(temperature=temperature, greedy_calls=False), chance
            )
            assert allowed[drawn.token]
            assert drawn.refused_mass > 0.49 or weight == -20.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers(bad: float) -> None:
    made = decoder("mypt")
    with pytest.raises(ValueError, match="finite"):
        draw(
            torch.full((50304,), bad),
            made.next(made.start(prompt("mypt")), 50261),
            DeviceDecoder(made),
            Sampling(),
            0.5,
        )


def test_stops() -> None:
    made = decoder("mypt", think=8)
    logits = torch.zeros(50304)
    logits[50271] = logits[50272] = 20.0
    found = generate(
        plain(lambda ids: logits.expand(1, ids.shape[1], -1), 50304),
        prompt("mypt"),
        decoder=made,
        stop=["</myPT_think>"],
        seed=0,
    )[0]
    assert found.ended == "stop"
    assert found.text.endswith("</myPT_think>")
    with pytest.raises(ValueError, match="a model can write"):
        generate(model(), prompt("mypt"), decoder=made, stop=["<myPT_user>"])


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"temperature": -1}, ValueError, "temperature"),
        ({"temperature": math.nan}, ValueError, "temperature"),
        ({"top_k": 0}, ValueError, "top_k"),
        ({"top_p": 1.5}, ValueError, "top_p"),
        ({"max_new_tokens": 3}, BudgetError, "takes 4 tokens"),
        ({"tools": TOOLS, "decoder": "mypt"}, ValueError, "belong to the decoder"),
        (
            {"decoder": "gabgpt"},
            PromptError,
            "the prompt ends after .*, where the model may not write",
        ),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], says: str) -> None:
    def never(ids: Any) -> Any:
        raise AssertionError("the model was asked")

    if "decoder" in options:
        options = options | {"decoder": decoder(options["decoder"])}
    with pytest.raises(error, match=says):
        generate(
            plain(never, 50304),
            [decoder("mypt").ids_of(prompt("mypt"))],
            **({"dialect": "mypt"} | options),
        )


def test_a_model_of_another_size() -> None:
    with pytest.raises(ValueError, match="the model has 512 logits, mypt has 50304 ids"):
        generate(model(512), prompt("mypt"))
    with pytest.raises(ValueError, match="need a dialect"):
        generate(model(), [[1, 2]])
    assert generate(model(), [], dialect="mypt") == []


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    with pytest.raises(ModelError, match="cannot read"):
        load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="not JSON"):
        load(tmp_path)
    shape = {
        "vocab_size": 64,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    (tmp_path / "config.json").write_text(json.dumps(shape | {"model_type": "gpt2"}))
    with pytest.raises(ModelError, match="transformers cannot read this model"):
        load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(shape))
    with pytest.raises(ModelError, match=r"no \*.safetensors"):
        load(tmp_path)
    config = LlamaConfig(**shape, num_key_value_heads=2)
    weights = {n: torch.ones(s) for n, s in shapes(config).items()}
    safetensors.save_file(
        {k: v for k, v in weights.items() if k != "lm_head.weight"}, tmp_path / "a.safetensors"
    )
    with pytest.raises(ModelError, match="lack lm_head"):
        load(tmp_path)
    safetensors.save_file(
        weights | {"lm_head.weight": torch.ones(3, 3)}, tmp_path / "a.safetensors"
    )
    with pytest.raises(ModelError, match="has shape"):
        load(tmp_path)
    (tmp_path / "a.safetensors").write_bytes(b"junk")
    with pytest.raises(ModelError, match="cannot read"):
        load(tmp_path)
    del shape["hidden_size"]
    (tmp_path / "config.json").write_text(json.dumps(shape))
    with pytest.raises(ModelError, match="hidden_size"):
        load(tmp_path)


def test_tools_are_given_to_generate() -> None:
    found = generate(model(), prompt("mypt"), tools=TOOLS, max_new_tokens=20, temperature=0)
    assert complete(Decoder("mypt", TOOLS), found[0].prompt + found[0].ids)
