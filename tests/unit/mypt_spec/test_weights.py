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
from mypt_spec.masks.record import weights_of
from tests.support.build import assistant, chat, lines, tool, user
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


@pytest.mark.parametrize("weight", [0, 0.5, 1, 2])
def test_a_thought_of_gabgpt_has_the_weight_of_its_answer(weight: float) -> None:
    """So has the end of the turn, which is in no record."""
    d, answer = mypt_spec.dialect("gabgpt"), assistant("Yes.", think="Hm.")
    later = [user(), assistant("No.")]
    plain = encoded(chat(user(), answer, *later), d)
    some = encoded(chat(user(), answer | {"weight": weight}, *later), d)
    end = plain.ids.tolist().index(d.tokenizer.special["<|end|>"]) + 1
    shares = [weight] * end + [1] * (len(plain) - end)
    expected = [loss * share for loss, share in zip(plain.loss.tolist(), shares, strict=True)]
    assert (some.loss if some.weights is None else some.weights).tolist() == expected
    assert some.loss.tolist() == [int(share > 0) for share in expected]
    rows = [chat(user(), answer | {"weight": w}, *later) for w in (weight, -1, 0.25, True)]
    assert rows_of(d, rows) == [2, 4]


def rows_of(d: mypt_spec.Dialect, records: list[dict[str, Any]]) -> list[int]:
    """Returns the rows in which the fast path of the linter finds something."""
    block = b"".join(line + b"\n" for line in lines(*records))
    findings = FastChecker(Checker(d)).block(block, row=1, filename="x")[1]
    return sorted({item.row for _, items in findings for item in items})


def test_messages_in_one_block_have_their_weights() -> None:
    """In Mistral's format, one block has all of a turn."""
    d = mypt_spec.dialect("mistral")
    asked = [{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    value = chat(
        user(), assistant("", tool_calls=asked, weight=0), tool("4", tool_call_id="call00000"),
        assistant("Yes.", weight=0.5), user(), assistant(weight=0), user(), assistant(),
    )  # fmt: skip
    episode, _ = d.read(value)
    assert episode is not None
    some = d.encode(episode)
    assert some.weights is not None
    texts = dict.fromkeys((0.5, 1.0), "")
    for i, weight in zip(some.ids.tolist(), some.weights.tolist(), strict=True):
        if weight:
            texts[weight] += d.tokenizer.decode([i])
    assert texts == {0.5: "Yes.</s>", 1.0: "Hello.</s>"}


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


PARTS = [("Be", 0), ("cause it is ", 0.5), ("so.", None), (" Yes", 0)]


def parted(**more: Any) -> dict[str, Any]:
    """Returns a record whose answer has parts with weights, as axolotl has them."""
    parts = [
        {"type": "text", "text": text} | ({} if weight is None else {"weight": weight})
        for text, weight in PARTS
    ]
    return chat(user(), assistant(parts, **more))


def naive_weights(d: mypt_spec.Dialect, ids: list[int], rest: float) -> list[float]:
    """Returns how much each token is trained, if it is: by where the bytes of the answer begin."""
    answer = "".join(text for text, _ in PARTS).encode()
    pieces = [d.tokenizer.decode_bytes([i]) for i in ids]
    begin = b"".join(pieces).index(answer)
    of_byte = [w if w is not None else rest for text, w in PARTS for _ in text.encode()]
    out, at = list[float](), -begin
    for piece in pieces:
        out.append(of_byte[at] if 0 <= at < len(answer) else rest)
        at += len(piece)
    return out


@pytest.mark.parametrize("rest", [None, 0, 2])
@pytest.mark.parametrize(
    "name", ["chatml", "qwen3", "llama3", "mistral", "mypt", "gabgpt", "harmony"]
)
def test_parts_of_a_text_have_weights(name: str, rest: float | None) -> None:
    d = mypt_spec.dialect(name)
    theirs = parted(**({} if rest is None else {"weight": rest}))
    out = Converter("openai", name, system="S" if name == "mypt" else None).record(theirs)
    assert out.record is not None, out.findings
    assert out.losses == ()
    answer = next(m for m in out.record["messages"] if m["role"] == "assistant")
    spans = {"parts": [[0, 2, 0], [2, 14, 0.5], [17, 21, 0]]}
    assert answer["weight"] == spans | ({} if rest is None else {"rest": rest})
    some = encoded(out.record, d)
    del answer["weight"]
    plain = encoded(out.record, d)
    assert some.ids.tolist() == plain.ids.tolist()
    shares = naive_weights(d, some.ids.tolist(), 1 if rest is None else rest)
    expected = [loss * share for loss, share in zip(plain.loss.tolist(), shares, strict=True)]
    assert some.weights.tolist() == expected
    assert some.loss.tolist() == [int(weight > 0) for weight in expected]


def test_parts_beside_calls_and_of_users() -> None:
    asked = {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    record = parted(tool_calls=[asked], weight=0.25)
    record["messages"] += [
        {"role": "tool", "tool_call_id": "call00000", "content": "4"},
        assistant(),
    ]
    d = mypt_spec.dialect("qwen3")
    out = Converter("openai", "qwen3").record(record)
    assert out.record is not None, out.findings
    weights = encoded(out.record, d).weights
    assert sorted({*weights.tolist()}) == [0.0, 0.25, 0.5, 1.0]
    part = {"type": "text", "text": "Hi"}
    for weight, fine in ((0, True), (1, False)):
        record = chat(user([part | {"weight": weight}]), assistant())
        out = Converter("openai", "chatml").record(record)
        assert (out.record is not None) == fine
    switched = chat(user(), assistant([part | {"train": False}, part | {"train": True}]))
    out = Converter("openai", "chatml").record(switched)
    assert out.record is not None
    assert out.record["messages"][1]["weight"] == {"parts": [[0, 2, 0], [2, 4, 1]]}
    thought = [part | {"text": "<think>a</think>b", "weight": 0}]
    out = Converter("openai", "qwen3").record(chat(user(), assistant(thought)))
    assert out.record is None
    assert "write these under keys of their own" in out.findings[0].message


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"parts": [[0, 9, 1]]}, "in order within 4 characters"),
        ({"parts": [[0, 2, 1], [1, 3, 0]]}, "in order within 4 characters"),
        ({"parts": [[0, 2, -1]]}, "must be a number from 0 to 1000, got -1"),
        ({"parts": [[0, 2]]}, "must have parts"),
        ({"parts": [[0, 2, 0]], "rest": "x"}, "must be a number from 0 to 1000"),
        ({"part": []}, "must be a number or"),
    ],
)
def test_wrong_parts_are_findings(weight: Any, message: str) -> None:
    for d in (CHATML, mypt_spec.dialect("qwen3")):
        _, findings = d.check(record(1, weight))
        assert [(f.code, f.pointer) for f in findings] == [("MYP104", "/messages/3/weight")]
        assert message in findings[0].message
        assert rows_of(d, [record(1, w) for w in (1, weight, {"parts": [[0, 4, 0]]}, weight)]) == [
            2,
            4,
        ]


def test_parts_are_checked_alike_on_the_fast_path() -> None:
    """Lines of one skeleton, of which some weights are wrong."""
    checker = Checker(CHATML, shape="openai")
    data = [
        chat(user(), assistant([{"type": "text", "text": "a", "weight": weight}]))
        for weight in (0.5, -1, 0.5, "x", 2, -1)
    ]
    block = b"".join(line + b"\n" for line in lines(*data))
    findings = FastChecker(checker).block(block, row=1, filename="x")[1]
    assert sorted({item.row for _, items in findings for item in items}) == [2, 4, 6]
