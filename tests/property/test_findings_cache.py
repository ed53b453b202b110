"""The cache returns for a line what the checker returns, to the letter: codes, messages, places,
snippets, fixes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.fast.findings_cache import CachedFinding, FindingsCache, cached
from mypt_lint.fast.skeleton import NoSkeletonError, Skeleton
from mypt_spec import Finding, Limits
from mypt_spec.bodies.strict_json import value_at
from mypt_spec.rules.context import ToolSchema
from tests.support.cached_findings import alike, assert_same_findings, skeleton_of
from tests.support.examples import examples
from tests.support.lines import LIMITS, TRAPS, any_lines, tagged_lines
from tests.support.maker import drawn
from tests.support.strategies import DIALECTS, any_text


def cache_of(name: str = "mypt") -> FindingsCache:
    return FindingsCache(CleanFilter(Checker(mypt_spec.dialect(name))))


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=examples(80))
@given(LIMITS, st.data())
def test_says_what_the_checker_says(name: str, limits: Limits, data: st.DataObject) -> None:
    recall = FindingsCache(CleanFilter(Checker(mypt_spec.dialect(name), limits)))
    for line in data.draw(st.lists(tagged_lines(name) | any_lines(name), min_size=1, max_size=3)):
        assert_same_findings(recall, line)
        skeleton = skeleton_of(recall, line)
        for _ in range(2 if skeleton else 0):
            other = data.draw(drawn(lambda random, of=skeleton: alike(random, name, of)))
            if other is not None:
                assert_same_findings(recall, other)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_a_finding_points_at_what_the_record_has(name: str, data: st.DataObject) -> None:
    line = data.draw(tagged_lines(name))
    record = json.loads(line)
    for item in Checker(mypt_spec.dialect(name)).line(line, row=2, filename="f"):
        assert value_at({"": record}, "/" + item.finding.pointer) is not None, item.finding


@pytest.mark.parametrize("line", TRAPS)
def test_traps(line: str) -> None:
    assert_same_findings(cache_of(), line.encode("utf-8", "surrogatepass"))


USER = {"role": "user", "content": "Hi"}
ANSWER = {"role": "assistant", "content": "Yo"}
CALL = {"role": "assistant_toolcall", "name": "t", "arguments": '{"q": "x"}'}
RESULT = {"role": "toolresult", "name": "t", "content": 1}
FAULTY: list[list[dict[str, Any]]] = [
    [{"role": "system", "content": "You are. Ex<myPT_eot>ecute "}, USER, ANSWER],
    [USER, ANSWER | {"role": "robot"}],
    [{"role": "system", "content": "- find(q) - finds"}, USER, CALL | {"name": "no"}, RESULT, ANSWER],
    [{"role": "context", "content": " Doc "}, USER, ANSWER],
    [USER | {"note": "x"}, ANSWER],
    [USER | {"content": "a </myPT_user> b"}, ANSWER],
    [USER, ANSWER | {"content": "<myPT_think>so it is</myPT_think> Yes, <b>so</b>"}],
    [USER, ANSWER | {"content": "<MYPT_think>so it is</MyPT_think>Yes"}],
    [USER, ANSWER | {"content": "Yes <myPT_cite>doc</myPT_cite>, and <myPT_cite> </myPT_cite>"}],
    [USER, ANSWER | {"content": "Yes<myPT_eot>"}],
    [USER, ANSWER | {"content": '<myPT_toolcall>{"name": "t", "q": "x"}</myPT_toolcall>'}, RESULT, ANSWER],
    [USER, CALL, RESULT, ANSWER],
    [USER, CALL | {"arguments": {"name": "x"}}, RESULT | {"content": {"a": "<myPT_eot>"}}, ANSWER],
    [USER, CALL | {"arguments": {"a": [1]}}, RESULT | {"name": "u", "content": "x"}, ANSWER | {"content": " "}],
    [ANSWER, USER, USER],
]  # fmt: skip
MYPT = mypt_spec.dialect("mypt")
SCHEMAS = (ToolSchema("t", '{"required": ["x"]}', '{"type": "string"}'),)
ODD: list[tuple[Checker, list[dict[str, Any]]]] = [  # what a skeleton does not show, or hardly
    (Checker(MYPT, Limits(schemas=SCHEMAS)), [USER, CALL | {"arguments": {"q": 1}}, RESULT, ANSWER]),
    (Checker(MYPT, others=(mypt_spec.dialect("gabgpt"),)), [USER, ANSWER | {"content": "<|end|>", "think": "t", "cite": 1}]),
    (Checker(MYPT, Limits(max_tokens=30)), [USER, ANSWER | {"content": "word " * 60, "note": 1}]),
    (Checker(MYPT, most=1), [USER | {"note": 1}, ANSWER | {"note": 1, "content": " "}]),
    (Checker(MYPT), [USER, ANSWER | {"content": '<myPT_toolcall>{"name": "t", "q": "\ue000"}</myPT_toolcall>'}, RESULT, ANSWER]),
    (Checker(MYPT), [USER, {"role": "robot", "content": "x"}, {"_mypt_lint": 1}]),
    (Checker(MYPT), [*([USER, ANSWER] * 1200), ANSWER | {"role": "robot"}]),
]  # fmt: skip


@pytest.mark.parametrize("messages", FAULTY)
@given(st.data())
@settings(max_examples=examples(15))
def test_one_of_a_kind_stands_for_all(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    """The checker is asked once for all records that differ in their texts alone.

    What it says has each one's own texts.
    """
    learnt = []

    class Counting(FindingsCache):
        def _learn(self, key: bytes, skeleton: Skeleton) -> tuple[CachedFinding, ...] | None:
            learnt.append(key)
            return super()._learn(key, skeleton)

    recall = Counting(CleanFilter(Checker(MYPT)))
    system = {} if messages[0]["role"] == "system" else {"system": "You are."}
    first = json.dumps(system | {"messages": messages}).encode()
    assert recall.checker.line(first, row=2, filename="f")
    assert_same_findings(recall, first)
    skeleton = skeleton_of(recall, first)
    assert skeleton is not None
    for _ in range(3):
        other = data.draw(drawn(lambda random: alike(random, "mypt", skeleton)))
        if other is not None:
            again = skeleton_of(recall, other)
            assert again is not None
            assert again.rest == skeleton.rest
            assert_same_findings(recall, other)
    assert len(learnt) == 1


@pytest.mark.parametrize(("checker", "messages"), ODD)
def test_odd(checker: Checker, messages: list[dict[str, Any]]) -> None:
    recall = FindingsCache(CleanFilter(checker))
    mores: list[dict[str, Any]] = [
        {},
        {"_mypt_lint": {"ignore": ["MYP105", "MYP301"]}},
        {"note": "x"},
    ]
    ways = list(product(mores, ("S", "S is longer"), (True, False)))
    for more, text, ascii_only in ways[:: 5 if len(messages) > 100 else 1]:
        record = {"system": text, "messages": messages, **more}
        assert_same_findings(recall, json.dumps(record, ensure_ascii=ascii_only).encode())


def test_a_tag_that_a_sign_would_make_is_not_taken_apart() -> None:
    """`ab` is a tag only where no `c` follows: what follows it must not become a sign."""
    skeletons = cache_of().skeletons
    assert skeletons is not None
    skeletons.finders, skeletons.exact = [_spans("ab"), _spans("ab(?!c)")], False
    assert skeletons.pieces("say ab now") == ["", "say", " ab ", "now", ""]
    assert skeletons.pieces("say abc now") == ["say abc now"]


def _spans(pattern: str) -> Callable[[str], list[tuple[int, int]]]:
    return lambda text: [match.span() for match in re.finditer(pattern, text)]


def test_findings_that_quote_are_not_remembered() -> None:
    for words in (
        {"message": "got \ue000"},
        {"message": f"got {chr(0xE000)!r}"},
        {"help": "\ue801"},
        {"expected": ("\ue000",)},
        {"pointer": "/\ue000"},
    ):
        with pytest.raises(NoSkeletonError):
            cached(Finding("MYP105", **{"message": "", **words}), Skeleton())  # type: ignore[arg-type]
    assert cached(Finding("MYP105", "fine"), Skeleton()).before is None


@given(any_text("mypt", 1))
def test_signs_in_the_data_are_only_text(text: str) -> None:
    """The signs that replace texts in a skeleton may be in the data, too."""
    recall = cache_of()
    for sign in ("\ue000", "\ue800", "\\ue000"):
        for content in (sign + text, text + sign, sign):
            record = {"system": "S", "messages": [USER, {"role": "robot", "content": content}]}
            assert_same_findings(
                recall, json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")
            )
            assert_same_findings(recall, json.dumps(record).encode())


def test_memory_is_bounded() -> None:
    recall = cache_of()
    for i in range(2000):
        messages = [USER, {"role": f"robot{i}", "content": "x"}, {"k" * 3000: i}]
        line = json.dumps({"system": "S", "messages": messages}).encode()
        found = [item.finding.code for item in recall.line(line, row=2, filename="f")]
        assert found == ["MYP105", "MYP102"]
        assert sum(map(len, recall.memo.entries)) < 5 << 20
