"""What is remembered of records of other tools is what the checker says, to the letter."""

from __future__ import annotations

import json
from functools import cache
from itertools import chain, product
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.fast.findings_cache import FindingsCache, cached
from mypt_lint.fast.skeleton import NoSkeletonError, Skeleton
from mypt_spec import Finding
from tests.support.build import function

TEXTS = st.sampled_from([
    "Hi", "Yo", "No", "", " ", " x", "a<b", "[INST]", "<|im_end|>", "{{name}}", "use {{ x }} in `code`",
    "<think>", "noinput", '<tool_call>{"name": "f", "arguments": {}}</tool_call>', "<tool_response>4</tool_response>", "[f(a=1)]",
    "<tools>[]</tools>", '{"name": "f", "arguments": {}}', "<think>a</think>b", "Zürich \u2028", "<image>", "cafÃ©", "a\u200bb", "می\u200cخو", "na " * 200,
    "As an AI language model", "use f and g", "ghp_" + "aB3dE6gH9j" * 4, "\ud800", "\ue000", "<myPT_user>", "<message_start>", "[]", "{}",
]) | st.text(max_size=6)  # fmt: skip
ROLES = st.sampled_from(
    ["user", "assistant", "system", "human", "gpt", "tool", "poet", "function_call", "tool_call"]
)
VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.lists(TEXTS, max_size=2)
)
MORE = st.dictionaries(
    st.sampled_from(
        [
            "row",
            "_id",
            "source",
            "tools",
            "language",
            "system",
            "label",
            "kto_tag",
            "weight",
            "text",
            "prompt",
            "response",
            "dialog",
        ]
    ),
    VALUES,
    max_size=3,
)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "dict"}}}
TOOLS = [TOOL] + [
    {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": p}},
    }
    for p in ({"x": {"type": "integer"}}, {"x": {"pattern": "Y"}}, {"y": {"type": "string"}})
]


CALL = st.builds(
    lambda ident, name, arguments: {"id": ident, "function": {"name": name, "arguments": arguments}},
    st.sampled_from(["a", "b", "Hi", "call_9xK2p0Qd"]),
    st.sampled_from(["f", "g"]),
    st.sampled_from(["{}", {}, {"x": 1}, '{"x": 1}', '{"x": 1, "x": 2}', "Hi", {"x": None}, {"x": "Yo"}]),
)  # fmt: skip


def message(role: str, text: str) -> st.SearchStrategy[Any]:
    keys = {role: ROLES, text: TEXTS}
    part = st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS})
    call = st.lists(CALL, min_size=1, max_size=2)
    more = {"content": st.lists(part, max_size=2), "name": TEXTS, "weight": VALUES}
    return st.fixed_dictionaries(keys, optional={k: v for k, v in more.items() if k != text} | (
        {"tool_calls": call, "reasoning_content": TEXTS, "tool_call_id": TEXTS}
        if role == "role"
        else {}
    ))  # fmt: skip


# A text, or messages, of which some are none.
SIDE = TEXTS | st.lists(message("role", "content") | st.just(1), min_size=1, max_size=3)
HI = {"role": "user", "content": "Hi"}
SIDES = st.tuples(SIDE, SIDE).map(lambda both: {"chosen": both[0], "rejected": both[1]})
ALIKE = SIDES.map(
    lambda sides: {k: [HI, *v] if isinstance(v, list) else v for k, v in sides.items()}
)

RECORDS: dict[str, st.SearchStrategy[Any]] = {
    "openai": st.fixed_dictionaries({"messages": st.lists(message("role", "content"), max_size=4)}),
    "sharegpt": st.fixed_dictionaries({"conversations": st.lists(message("from", "value"), max_size=4)}),
    "alpaca": st.fixed_dictionaries({"instruction": TEXTS, "input": TEXTS, "output": TEXTS}),
    "completion": st.fixed_dictionaries({"prompt": TEXTS, "completion": TEXTS}),
    "preference": st.tuples(st.fixed_dictionaries({}, optional={"prompt": SIDE}), SIDES | ALIKE).map(lambda both: both[0] | both[1]),
    "kto": st.fixed_dictionaries({"prompt": TEXTS, "completion": TEXTS, "label": st.booleans()}),
}  # fmt: skip


@cache
def chats(shape: str, dialect: str) -> FindingsCache:
    """One for all examples, which remembers what it has seen."""
    d = mypt_spec.dialect(dialect or "mypt")
    return FindingsCache(Checker(d, shape=shape, formatless=not dialect, system="S"))


@st.composite
def lines(draw: st.DrawFn, shape: str) -> list[bytes]:
    """Lines that are like one another: in their texts alone, or in a key that occurs twice."""
    record = draw(RECORDS[shape]) | draw(MORE)
    if draw(st.booleans()):
        record |= {"tools": [draw(st.sampled_from(TOOLS))]}
    record |= {"images": draw(st.sampled_from([None, [], ["a.png"]]))}
    first = json.dumps(record, ensure_ascii=False)
    other = draw(st.sampled_from(["Hi", "No", "", "\\u0020", "\\ud800", "<|im_end|>"]))
    again = [first.replace("Yo", other), first.replace("{", '{"id": 1, "id": 2, ', 1), first]
    return [line.encode("utf-8", "surrogatepass") for line in (first, *again)]


@pytest.mark.parametrize("dialect", ["", "mypt", "usf-omega"])
@pytest.mark.parametrize("shape", RECORDS)
@given(st.data())
def test_it_agrees_with_the_checker(shape: str, dialect: str, data: st.DataObject) -> None:
    known = chats(shape, dialect)
    for line in data.draw(lines(shape)):
        found = known.line(line, row=2, filename="f")
        assert found == known.checker.line(line, row=2, filename="f"), line


@pytest.mark.parametrize("odd", [[HI, 0.5], [0.5, HI], [{"content": "x"}, HI]])
@pytest.mark.parametrize("side", ["chosen", "rejected"])
def test_texts_that_are_equal_stay_so(side: str, odd: list[Any]) -> None:
    """Also where a list holds what is no message: its texts are compared with those of the other."""
    sides = {"chosen": [HI], "rejected": [HI]} | {side: odd}
    record = {key: [*said, {"role": "assistant", "content": key}] for key, said in sides.items()}
    line = json.dumps(record).encode()
    known = chats("preference", "usf-omega")
    found = known.line(line, row=1, filename="f")
    assert found == known.checker.line(line, row=1, filename="f")


def test_copies_but_for_white_space() -> None:
    """What a skeleton has that was clean before is not taken for clean where texts are copies."""
    fast = FastChecker(chats("openai", "").checker)
    question = "What is the best way to get there?"
    for asked, answer in (
        ("Hello, how are you?", "Thank you, I am fine."),
        (question, f" {question}"),
    ):
        said = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
        line = json.dumps({"messages": said}).encode()
        found = [item for _, items in fast.block(line, row=2, filename="f")[1] for item in items]
        assert found == fast.checker.line(line, row=2, filename="f")


@pytest.mark.parametrize("key", ["label", "kto_tag"])
@pytest.mark.parametrize("labels", [(0, 1, 0), ("true", "0", "x")])
def test_the_help_about_a_label_is_that_of_its_value(key: str, labels: tuple[Any, ...]) -> None:
    cache = chats("sharegpt", "")
    for label in labels:
        line = json.dumps({"conversations": [], key: label}).encode()
        assert cache.line(line, row=2, filename="f") == cache.checker.line(
            line, row=2, filename="f"
        )


@pytest.mark.parametrize("dialect", ["", "usf-omega"])
def test_most_records_are_remembered(dialect: str) -> None:
    known = chats("sharegpt", dialect)
    for i, text in enumerate(["Hi", "What is a < b?", "[1]"]):
        said = [{"from": "human", "value": text}, {"from": "gpt", "value": f"Yo {i}"}]
        line = json.dumps({"row": i, "conversations": said}).encode()
        with mock.patch.object(Checker, "line", side_effect=AssertionError):
            (found,) = known.line(line, row=1, filename="f")
        assert found.finding.code == "MYP112"


def test_the_linter_asks_it() -> None:
    fast = FastChecker(chats("alpaca", "").checker)
    record = b'{"instruction": "Hi", "output": ""}\n'
    with mock.patch.object(Checker, "line", side_effect=AssertionError):
        blocks = fast.block(record * 2, row=1, filename="f")[1]
    codes = [(raw + b"\n", [item.finding.code for item in items]) for raw, items in blocks]
    assert codes == [(record, ["MYP214"])] * 2


@pytest.mark.parametrize("value", [0, 0.0, 7, 0.25, "Hi", [], {}, ["a"], True, None])
@pytest.mark.parametrize("key", ["row", "_row"])
def test_what_a_fix_moves_is_the_value_of_the_record(key: str, value: Any) -> None:
    known = chats("alpaca", "mypt")
    for other in (1, value, 0.5, value):
        line = json.dumps({"instruction": "Hi", "output": "Yo", key: other}).encode()
        found = known.line(line, row=1, filename="f")
        assert found == known.checker.line(line, row=1, filename="f")


@pytest.mark.parametrize("call", ["[f(a=1)]", "I call it."])
def test_results_and_calls_in_texts_are_read(call: str) -> None:
    """What is found in a skeleton before is not said of them."""
    known = chats("openai", "")
    for called, result in (("I do.", "x"), (call, "<tool_response>4</tool_response>"), (call, "4")):
        answer = {"role": "assistant", "content": "It is 4."}
        messages = [HI, answer | {"content": called}, {"role": "tool", "content": result}, answer]
        line = json.dumps({"messages": messages}).encode()
        found = known.line(line, row=1, filename="f")
        assert found == known.checker.line(line, row=1, filename="f")


@pytest.mark.parametrize("dialect", ["", "mypt", "usf-omega"])
def test_what_is_found_inside_a_text_is_not_true_of_others(dialect: str) -> None:
    """A role may say that its text is JSON, which no placeholder is."""
    known = chats("openai", dialect)
    for text in ('{"name": "f", "arguments": {}}', "f()", '{"name": "f", "arguments": {"a": 1}}'):
        called = [{"role": "tool_call", "content": text}, {"role": "tool_response", "content": "4"}]
        messages = [HI, *called, {"role": "assistant", "content": "It is 4."}]
        line = json.dumps({"tools": [TOOL], "messages": messages}).encode()
        found = known.line(line, row=1, filename="f")
        assert found == known.checker.line(line, row=1, filename="f")


def test_descriptions_that_are_missing_or_empty() -> None:
    known, said = chats("openai", ""), [HI, {"role": "assistant", "content": "Yo"}]
    for about in chain(*(product((None, "", "It is."), repeat=count) for count in (1, 2, 3))):
        tools = [function(f"f{i}") for i in range(len(about))]
        for tool, text in zip(tools, about, strict=True):
            tool["function"] |= {} if text is None else {"description": text}
        line = json.dumps({"tools": tools, "messages": said}).encode()
        found = known.line(line, row=1, filename="f")
        assert found == known.checker.line(line, row=1, filename="f"), about


def test_long_texts_that_come_again() -> None:
    known = chats("openai", "")
    long = "It depends on what you mean by that, I think."
    for one, two in (("Hi", "Hi"), ("Hi", "Yo"), (long, "Yo"), (long, long), ("Yo", long)):
        said = [HI, {"role": "assistant", "content": one}, {"role": "user", "content": "So?"}]
        line = json.dumps({"messages": [*said, {"role": "assistant", "content": two}]}).encode()
        found = known.line(line, row=1, filename="f")
        assert found == known.checker.line(line, row=1, filename="f")


@pytest.mark.parametrize("system", ["S", "Call f."])
@pytest.mark.parametrize("ident", ["a", "call_9xK2p0Qd", ""])
@pytest.mark.parametrize("more", [{}, {"type": "function"}, {"tools": [TOOL]}])
def test_calls_that_come_again(ident: str, system: str, more: Any) -> None:
    """What their ids, their prompts and the lengths of their turns decide."""
    known = chats("openai", "")
    call = {"id": ident, "function": {"name": "f", "arguments": "{}"}} | {
        key: value for key, value in more.items() if key == "type"
    }
    turn = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "4"}]
    turn[1] |= {"tool_call_id": ident} if ident else {}
    for question in ("Hi", "What is the capital of France, and of Spain?", "So"):
        asked = {"role": "user", "content": question}
        for messages in ([asked, *turn, *turn], [asked, *turn, asked, *turn]):
            record = {"messages": [{"role": "system", "content": system}, *messages]}
            line = json.dumps(record | {k: v for k, v in more.items() if k == "tools"}).encode()
            found = known.line(line, row=1, filename="f")
            assert found == known.checker.line(line, row=1, filename="f")


def test_findings_that_quote_are_not_remembered() -> None:
    for words in (
        {"message": "got \ue000"},
        {"message": f"got {chr(0xE000)!r}"},
        {"help": "\ue801"},
        {"expected": ("\ue000",)},
        {"pointer": "/\ue000"},
        {"span": (0, 1)},
    ):
        with pytest.raises(NoSkeletonError):
            cached(Finding("MYP105", **{"message": "", **words}), Skeleton())  # type: ignore[arg-type]
    assert not cached(Finding("MYP105", "fine"), Skeleton()).moved


def test_memory_is_bounded() -> None:
    cache = chats("openai", "mypt")
    for i in range(2000):
        messages = [HI, {"role": f"robot{i}", "content": "x", "k" * 3000: 1}]
        line = json.dumps({"messages": messages}).encode()
        found = [item.finding.code for item in cache.line(line, row=2, filename="f")]
        assert "MYP105" in found
        assert sum(map(len, cache.memo.entries)) < 5 << 20


@pytest.mark.parametrize("shape", ["openai", "sharegpt"])
@pytest.mark.parametrize(
    "member",
    [b'"tools": []', b'"id": 1e400', b'"id": "\xed\xa0\x80"', b'"x": ' + b"[" * 990 + b"]" * 990],
)
def test_what_no_splitter_looks_at_ends_nothing(shape: str, member: bytes) -> None:
    """Empty tools, and members that only a decoder of all refuses."""
    texts = [("user", "Hi"), ("assistant", "Yo")]
    records = {
        "openai": {"messages": [{"role": role, "content": text} for role, text in texts]},
        "sharegpt": {"conversations": [{"from": role, "value": text} for role, text in texts]},
    }
    line = json.dumps(records[shape] | {"id": 7}).encode()[:-8] + member + b"}"
    for dialect in ("", "mypt", "usf-omega"):
        fast = FastChecker(chats(shape, dialect).checker)
        found = [item for _, items in fast.block(line, row=2, filename="f")[1] for item in items]
        assert found == fast.checker.line(line, row=2, filename="f")


@pytest.mark.parametrize("shape", ["kto", "openai"])
@pytest.mark.parametrize("depth", [199, 200, 201])
def test_how_deep_a_value_is_shows(shape: str, depth: int) -> None:
    record = {
        "kto": {"prompt": "Hi", "completion": "Yo", "label": True},
        "openai": {"messages": [HI]},
    }
    line = (
        json.dumps(record[shape]).encode()[:-1] + b', "_x": ' + b"[" * depth + b"]" * depth + b"}"
    )
    known = chats(shape, "")
    assert known.line(line, row=2, filename="f") == known.checker.line(line, row=2, filename="f")
