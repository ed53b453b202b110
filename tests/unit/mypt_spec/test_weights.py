"""Weights of messages: how much an answer is trained."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_convert.engine import Converter
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_spec.encoder import weights_of
from mypt_spec.episode import Message, Part, Place
from tests.support.strategies import DIALECTS

CHATML = mypt_spec.dialect("chatml")


def record(*weights: float | None) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for weight in weights:
        said = {} if weight is None else {"weight": weight}
        messages += [{"role": "user", "content": "Hi"}]
        messages += [{"role": "assistant", "content": "Yes."} | said]
    return {"messages": messages}


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
    answer = {"role": "assistant", "content": "Yes.", "weight": 0.25}
    some = encoded({"system": "S", "messages": [{"role": "user", "content": "Hi"}, answer]}, d)
    assert sorted({*some.weights.tolist()}) == [0.0, 0.25]
    assert some.weights[-1] == 0.25, "the end of turn belongs to the answer"
    masks = {m: d.encode(d.read({"system": "S", "messages": [
        {"role": "user", "content": "Hi"}, answer | {"weight": 0}]})[0], mask=m)
        for m in ("model", "trl", "all-assistant")}  # fmt: skip
    assert not any(found.loss.any() for found in masks.values())


def test_a_mark_without_a_place_has_the_weight_of_the_message_before_it() -> None:
    """Adapters of other packages need not say where their marks are."""
    answer = Message("assistant", (Part("text", "Yes."),), at=Place("/messages/1/role"))
    messages = [Message("user", (Part("text", "Hi"),)), replace(answer, meta={"weight": 0.25})]
    found = weights_of([*messages, Message("eot")], mypt_spec.dialect("mypt").table)
    assert found == [1.0] * 3 + [0.25] * 4


@pytest.mark.parametrize("bad", [-1, True, "1", [1], 1e9])
def test_bad_weights_are_findings(bad: Any) -> None:
    _, findings = CHATML.check(record(1, bad))
    assert [(f.code, f.pointer) for f in findings] == [("MYP104", "/messages/3/weight")]
    # So they are for lines that the fast paths see, whatever came before them.
    for d in (CHATML, mypt_spec.dialect("qwen3")):
        fast = FastChecker(Checker(d))
        lines = [json.dumps(record(1, w)).encode() for w in (1, 0.5, bad, 1, bad)]
        found = {row for _, items in fast.block(b"\n".join(lines) + b"\n", row=1, filename="x")[1]
                 for row in {item.row for item in items}}  # fmt: skip
        assert found == {3, 5}


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
        of = record(None, None)
        of["messages"][1][key] = value
    else:
        said = [("human", "Hi"), ("gpt", "Yes."), ("human", "Hi"), ("gpt", "Yes.")]
        of = {"conversations": [{"from": who, "value": text} for who, text in said]}
        of["conversations"][1][key] = value
    system = None if target in ("chatml", "llama3", "gabgpt") else "S"
    out = Converter(shape, target, system=system).record(of)
    assert out.record is not None, out.findings
    assert (out.losses, out.kept) == ((), ())
    found = [m.get("weight") for m in out.record["messages"] if m["role"] == "assistant"]
    assert found == [weight, None]


@settings(max_examples=20)
@given(st.lists(st.sampled_from([None, 0, 1, 0.5, 2, 0.125]), min_size=1, max_size=4))
@pytest.mark.parametrize("name", sorted({"chatml", "llama3"} & {*DIALECTS}))
def test_weights_multiply_the_mask(name: str, weights: list[float | None]) -> None:
    d = mypt_spec.dialect(name)
    plain, some = encoded(record(*[None] * len(weights)), d), encoded(record(*weights), d)
    answer = 0
    wanted: list[float] = []
    for i, loss in enumerate(plain.loss.tolist()):
        answer += loss and not plain.loss[i - 1]
        weight = weights[answer - 1] if loss else 0
        wanted.append(loss * (1 if weight is None else weight))
    got = some.loss if some.weights is None else some.weights
    assert got.tolist() == wanted
    assert some.loss.tolist() == [int(w > 0) for w in wanted]


@pytest.mark.parametrize("name", ["mypt", "usf-omega", "praxis"])
def test_the_fast_path_judges_weights_as_the_checker(name: str) -> None:
    d = mypt_spec.dialect(name)
    plain = Converter("openai", name, system="S").record(record(1)).record
    assert plain is not None
    lines = []
    for weight in (1, 0.5, -1, 1, "x", -1, 2):
        plain["messages"][-2 if "weight" not in plain["messages"][-1] else -1]["weight"] = weight
        lines.append(json.dumps(plain).encode())
    wanted = [i + 1 for i, raw in enumerate(lines) if d.check(json.loads(raw))[1]]
    fast = FastChecker(Checker(d))
    found = fast.block(b"\n".join(lines) + b"\n", row=1, filename="x")[1]
    assert sorted({item.row for _, items in found for item in items}) == wanted
    assert wanted == [3, 5, 6]


def test_a_weight_that_is_null_is_none_in_messages() -> None:
    """Tables write null into each row that lacks what another row has."""
    user = {"role": "user", "content": "u", "weight": None}
    answer = {"role": "assistant", "content": "a", "weight": None}
    d = mypt_spec.dialect("qwen3")
    episode, findings = d.check({"messages": [user, answer]})
    assert findings == []
    assert episode is not None
    assert d.encode(episode).loss.any()
    assert all("weight" not in message for message in d.write(episode)["messages"])
