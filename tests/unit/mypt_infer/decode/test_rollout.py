"""Legality by generation, and rollouts with exact ids, mask and log-probabilities."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import mypt_spec
from mypt_infer.decode import Decoder
from tests.support.build import assistant, chat, user
from tests.support.decoding import complete, decoder, prompt
from tests.support.dialects import FEW
from tests.support.example_files import loaded
from tests.support.scripted import ids_of
from tests.support.tolerance import assert_close, forward_terms, is_close

torch = pytest.importorskip("torch")
from mypt_infer.generate.legality import (  # noqa: E402
    LEGAL,
    NOT_DECLARED,
    UNFINISHED,
    accepted,
    alone,
    constrained,
    judge,
    observed_tools,
)
from mypt_infer.generate.llama import LlamaConfig  # noqa: E402
from mypt_infer.generate.loop import plain  # noqa: E402
from tests.support.tiny_models import random_model  # noqa: E402

pytestmark = pytest.mark.numeric
rollout = loaded("rollout").rollout

D = mypt_spec.dialect("mypt")


@cache
def model() -> Any:
    return random_model(LlamaConfig(50304, 32, 48, 1, 4, 2, tie_word_embeddings=True), 1, scale=0.5)


def writes(text: str) -> Any:
    """A model that is sure of its text after the prompt."""
    start, coming = len(decoder("mypt").ids_of(prompt("mypt"))), ids_of(text)

    def read(ids: Any) -> Any:
        logits = torch.zeros(50304)
        logits[coming[min(ids.shape[1] - start, len(coming) - 1)]] = 100.0
        return logits.expand(1, ids.shape[1], -1)

    return plain(read, 50304)


A, E = "<myPT_assistant>", "</myPT_assistant>"


def call(body: str) -> str:
    return f"{A}<myPT_toolcall>{body}</myPT_toolcall>{E}"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (f"{A}Yes.{E}<myPT_eot>", LEGAL),
        (call('{"name": "search", "query": "x"}'), LEGAL),
        (f"{A}Yes." + " and" * 60, UNFINISHED),
        (f"{A}Yes.{E}<myPT_user>", "missing-eot"),
        ("Yes.", "text-between-blocks"),
        (f"{A}<myPT_toolresult>", "toolresult-inside-assistant"),
        (call('{"name": "unknown", "x": 1}'), NOT_DECLARED),
        (call('{"name": "search", "query": 1}'), NOT_DECLARED),
    ],
)
def test_why_an_answer_is_not_legal(text: str, result: str) -> None:
    made, prompts = decoder("mypt"), [decoder("mypt").ids_of(prompt("mypt"))]
    for temperature in (0.0, 1.0):
        how: dict[str, Any] = {"max_new_tokens": 50, "temperature": temperature, "seed": 1}
        assert alone(writes(text), prompts, made, **how) == [result]


@pytest.mark.parametrize("name", FEW)
def test_random_weights_are_legal_only_under_the_constraint(name: str) -> None:
    prompts = accepted([decoder(name).ids_of(prompt(name))] * 4, decoder(name))
    assert None not in prompts
    how: dict[str, Any] = {"max_new_tokens": 40, "temperature": 1.0, "seed": 3}
    assert constrained(model(), prompts, decoder(name), **how) == [LEGAL] * 4  # type: ignore[arg-type]
    assert LEGAL not in alone(model(), prompts, decoder(name), **how)  # type: ignore[arg-type]
    assert accepted([[1, 2]], Decoder("mypt")) == [None]


def test_the_judge_is_the_validator() -> None:
    begun = decoder("mypt").ids_of(prompt("mypt"))
    answers = (f"{A}Yes.{E}<myPT_eot>", f"{A}Yes.{E}", f"{A}Yes", f"{A}{E}")
    for text in (*answers, call('{"name": "a", "b": 1}'), call("no")):
        ids = begun + ids_of(text)
        assert (judge(D, ids) == LEGAL) == complete(decoder("mypt"), ids), text


def test_tools_are_told_from_their_calls() -> None:
    calls = [
        {"q": "a", "n": 1},
        {"q": "b", "n": 1.5, "deep": {"x": [1, None]}},
        {"q": "c", "n": 2, "deep": {"x": []}},
    ]
    episodes = []
    for arguments in calls:
        asked = {"role": "assistant_toolcall", "name": "t", "arguments": arguments}
        result = {"role": "toolresult", "name": "t", "content": 1}
        episode, _ = D.read(chat(user(), asked, result, assistant(), system="S"))
        assert episode is not None
        episodes.append(episode)
    (tool,) = observed_tools(episodes, D)
    assert tool.name == "t"
    assert tool.required == {"q", "n"}
    assert tool.properties == {"q": {"type": "string"}, "n": {"type": "number"}, "deep": {"type": "object", "properties": {"x": {"type": "array", "items": {"type": ["integer", "null"]}}}, "required": ["x"]}}  # fmt: skip
    made = Decoder(D, [tool])
    for episode in episodes:
        ids = [int(i) for i in D.encode(episode).ids]
        begin = ids.index(D.tokenizer.special[A])
        state = made.start(ids[:begin])
        assert made.final(made.run(state, ids[begin : ids.index(D.tokenizer.special[E]) + 1]))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_rollouts_are_what_was_drawn_and_what_a_trainer_computes(temperature: float) -> None:
    """Log-probabilities against one pass over the whole sequence, and against the allow set of
    every state.
    """
    made = decoder("mypt", think=5, call=64)
    first = made.ids_of(prompt("mypt"))
    longer = [*first[:-1], *D.tokenizer.encode(" there"), D.tokenizer.special["</myPT_user>"]]
    rows = rollout(
        model(),
        [prompt("mypt"), longer],
        decoder=made,
        max_new_tokens=40,
        temperature=temperature,
        group=2,
        seed=4,
    )
    sizes = [len(row.generation.prompt) for row in rows]
    assert sizes == [len(first)] * 2 + [len(longer)] * 2
    assert rows[0].ids.tolist() != rows[1].ids.tolist()
    terms = forward_terms(model().config, len(longer) + 40)
    drawn = refused = 0
    for r in rows:
        assert complete(made, r.ids.tolist())
        state = made.start(r.generation.prompt, max_new_tokens=40)
        assert not r.mask[: len(r.generation.prompt)].any()
        assert not r.logprobs[r.mask == 0].any()
        for at in range(len(r.generation.prompt), len(r.ids)):
            token, allowed = int(r.ids[at]), torch.from_numpy(made.allowed(state))
            if r.mask[at]:
                before = torch.tensor([r.ids[:at].tolist()])
                logits = model()(before, torch.tensor([at]), model().begin(1, at))[0].double()
                own = torch.log_softmax(logits, -1)[token]
                left = (logits / temperature).masked_fill(~allowed, -torch.inf)
                tempered = torch.log_softmax(left, -1)[token]
                computed = {"terms": terms, "scale": float(logits.abs().max()) / temperature}
                assert_close(r.logprobs[at], own, **computed)
                assert_close(r.drawn_logprobs[at], tempered, **computed)
                refused += not is_close(own, tempered, **computed)
                drawn += 1
            else:
                assert allowed.sum() == 1
            state = made.next(state, token)
    assert drawn > 20
    assert refused > drawn / 2, "logits of refused ids are seen"
    assert rows[0].ids.dtype == np.uint32


def test_rollouts_that_cannot_be() -> None:
    for options, says in (({"temperature": 0}, "drawn, above 0"), ({"group": 0}, "1 or more answers")):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            rollout(model(), [prompt("mypt")], decoder=decoder("mypt"), **options)
