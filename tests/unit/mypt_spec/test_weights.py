"""Weights of messages: how much an answer is trained."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_convert.engine import Converter
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_spec.episode import Message, Part, Place
from mypt_spec.masks.weights import weights_of
from tests.support.build import assistant, chat, lines, user
from tests.support.dialects import DIALECTS
from tests.support.examples import examples

CHATML = mypt_spec.dialect("chatml")


def record(*weights: float | None) -> dict[str, Any]:
    """Returns questions and answers; None is an answer without a weight."""
    return chat(*(
        part for weight in weights
        for part in (user(), assistant("Yes.", **({} if weight is None else {"weight": weight})))
    ))  # fmt: skip


def encoded(value: dict[str, Any], d: mypt_spec.Dialect = CHATML) -> Any:
    episode, findings = d.check(value)
    assert (findings, episode is None) == ([], False)
    assert episode is not None
    assert d.write(episode) == value, "a weight comes back as it was"
    return d.encode(episode)


def test_weights_are_kept_beside_the_mask() -> None:
    usual = encoded(record(None, None, None))
    assert usual.weights is None
    some = encoded(record(0.5, None, 0))
    size = len(usual) // 3
    assert some.ids.tolist() == usual.ids.tolist()
    assert some.loss[: 2 * size].tolist() == usual.loss[: 2 * size].tolist()
    assert not some.loss[2 * size :].any()
    expected = [0.5 * x for x in usual.loss[:size]] + usual.loss[size : 2 * size].tolist()
    assert some.weights.tolist() == expected + [0.0] * size
    assert (some.weights.dtype, some.weights.shape) == ("float32", some.loss.shape)


def test_weights_of_0_and_1_are_a_mask() -> None:
    some = encoded(record(1, 0))
    assert some.weights is None
    size = len(some) // 2
    assert some.loss[:size].any()
    assert not some.loss[size:].any()


def test_marks_have_the_weight_of_their_message() -> None:
    d = mypt_spec.dialect("mypt")
    answer = assistant("Yes.", weight=0.25)
    some = encoded({"system": "S", **chat(user(), answer)}, d)
    assert sorted({*some.weights.tolist()}) == [0.0, 0.25]
    assert some.weights[-1] == 0.25, "the end of turn belongs to the answer"
    episode, _ = d.read({"system": "S", **chat(user(), answer | {"weight": 0})})
    assert episode is not None
    for mask in ("model", "trl", "all-assistant"):
        assert not d.encode(episode, mask=mask).loss.any()


def test_a_mark_without_a_place_has_the_weight_of_the_message_before_it() -> None:
    """Adapters of other packages need not say where their marks are."""
    answer = Message("assistant", (Part("text", "Yes."),), at=Place("/messages/1/role"))
    messages = [Message("user", (Part("text", "Hi"),)), replace(answer, meta={"weight": 0.25})]
    weights = weights_of([*messages, Message("eot")], mypt_spec.dialect("mypt").table)
    assert weights == [1.0] * 3 + [0.25] * 4


def rows_of(d: mypt_spec.Dialect, records: list[dict[str, Any]]) -> list[int]:
    """Returns the rows in which the fast path of the linter finds something."""
    block = b"".join(line + b"\n" for line in lines(*records))
    findings = FastChecker(Checker(d)).block(block, row=1, filename="x")[1]
    return sorted({item.row for _, items in findings for item in items})


@pytest.mark.parametrize("bad", [-1, True, "1", [1], 1e9])
def test_bad_weights_are_findings(bad: Any) -> None:
    _, findings = CHATML.check(record(1, bad))
    assert [(f.code, f.pointer) for f in findings] == [("MYP104", "/messages/3/weight")]
    # So they are for lines that the fast paths see, whatever came before them.
    for d in (CHATML, mypt_spec.dialect("qwen3")):
        assert rows_of(d, [record(1, weight) for weight in (1, 0.5, bad, 1, bad)]) == [3, 5]


def test_only_what_the_model_writes_has_a_weight() -> None:
    value = record(1)
    value["messages"][0]["weight"] = 1
    assert [f.code for f in CHATML.check(value)[1]] == ["MYP103"]


@pytest.mark.parametrize(
    ("shape", "key", "value", "weight"),
    [
        ("openai", "weight", 0.5, 0.5), ("openai", "weight", 0, 0), ("openai", "train", False, 0),
        ("openai", "loss_weight", 2, 2), ("sharegpt", "weight", 0.5, 0.5),
        ("sharegpt", "train", False, 0), ("sharegpt", "loss", True, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["chatml", "llama3", "mypt", "gabgpt", "usf-omega"])
def test_records_of_other_tools_keep_their_weights(
    shape: str, key: str, value: Any, weight: float, target: str
) -> None:
    if shape == "openai":
        theirs = record(None, None)
        theirs["messages"][1][key] = value
    else:
        turns = [("human", "Hi"), ("gpt", "Yes.")] * 2
        theirs = {"conversations": [{"from": who, "value": text} for who, text in turns]}
        theirs["conversations"][1][key] = value
    system = None if target in ("chatml", "llama3", "gabgpt") else "S"
    out = Converter(shape, target, system=system).record(theirs)
    assert out.record is not None, out.findings
    assert (out.losses, out.metadata) == ((), ())
    answers = [m for m in out.record["messages"] if m["role"] == "assistant"]
    assert [answer.get("weight") for answer in answers] == [weight, None]


@settings(max_examples=examples(20))
@given(
    st.lists(st.sampled_from([None, 0, 1, 0.5, 2, 0.125]), min_size=1, max_size=4).filter(
        lambda w: any(i != 0 for i in w)
    )
)
@pytest.mark.parametrize("name", sorted({"chatml", "llama3"} & {*DIALECTS}))
def test_weights_multiply_the_mask(name: str, weights: list[float | None]) -> None:
    d = mypt_spec.dialect(name)
    plain, some = encoded(record(*[None] * len(weights)), d), encoded(record(*weights), d)
    answer = 0
    expected: list[float] = []
    for i, loss in enumerate(plain.loss.tolist()):
        answer += loss and not plain.loss[i - 1]
        weight = weights[answer - 1] if loss else 0
        expected.append(loss * (1 if weight is None else weight))
    read = some.loss if some.weights is None else some.weights
    assert read.tolist() == expected
    assert some.loss.tolist() == [int(weight > 0) for weight in expected]


@pytest.mark.parametrize("name", ["mypt", "usf-omega", "praxis"])
def test_the_fast_path_judges_weights_as_the_checker(name: str) -> None:
    d = mypt_spec.dialect(name)
    plain = Converter("openai", name, system="S").record(record(1)).record
    assert plain is not None
    records = []
    for weight in (1, 0.5, -1, 1, "x", -1, 2):
        records.append(json.loads(json.dumps(plain)))
        (answer,) = (m for m in records[-1]["messages"] if "weight" in m)
        answer["weight"] = weight
    assert [row for row, one in enumerate(records, 1) if d.check(one)[1]] == [3, 5, 6]
    assert rows_of(d, records) == [3, 5, 6]


def test_a_weight_that_is_null_is_none_in_messages() -> None:
    """Tables write null into each row that lacks what another row has."""
    d = mypt_spec.dialect("qwen3")
    episode, findings = d.check(chat(user(weight=None), assistant(weight=None)))
    assert findings == []
    assert episode is not None
    assert d.encode(episode).loss.any()
    assert all("weight" not in message for message in d.write(episode)["messages"])


def test_an_episode_whose_weights_are_0_trains_nothing() -> None:
    d = mypt_spec.dialect("mypt")
    turns = [user(), assistant(weight=0)] * 2
    assert [f.code for f in d.check({"system": "S", **chat(*turns)})[1]] == ["MYP501"]
    assert d.check({"system": "S", **chat(*turns, user(), assistant())})[1] == []


@pytest.mark.parametrize("name", ["mypt", "chatml", "qwen3"])
def test_records_that_train_nothing_are_found_among_others(name: str) -> None:
    """What is known of records, or of their turns, does not tell of the weights of others."""
    fast = FastChecker(Checker(mypt_spec.dialect(name)))
    weights = product((1, 0, 0.5, None, 0.0, False), repeat=2)
    head = {"system": "S"} if name == "mypt" else {}
    data = [raw for pair in weights for raw in lines(head | record(*pair), head | record(pair[0]))]
    _, doubtful = fast.block(b"\n".join([*data, *data, b""]), row=1, filename="f")
    found = {raw: [item.finding.code for item in items] for raw, items in doubtful}
    for raw in data:
        expected = fast.checker.line(raw, row=2, filename="f")
        assert found.get(raw, []) == [item.finding.code for item in expected], raw
