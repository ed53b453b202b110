"""The fast ways find what the checker finds in messages of a few kinds, in any order.

Most of a file are such records; what a filter learns of one is tried on the next.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_spec.dialect import families
from tests.support.build import function

# First letters of roles; k is an answer with calls.
ORDERS = "ua sua uaua ukta uktka ukttua ukt uk suktuaua uauktua u a s k su uu uaa usa uas uat auk"
TEXTS = st.sampled_from(["Hi", "Yo", "It is 4.", "", None])
IDS = st.sampled_from(["c1", "c2", "000000001", "functions.f:0"])
NAMES = st.sampled_from(["f", "g"])
ABOUT = st.sampled_from([{}, {"description": ""}, {"description": "It is."}])
TOOL = st.builds(lambda n, more: {"function": function(n)["function"] | more}, NAMES, ABOUT)
ARGUMENTS = st.sampled_from([{}, "{}", {"q": 1}, '{"q": "a"}'])
CALLED = st.fixed_dictionaries({"name": NAMES, "arguments": ARGUMENTS})
TYPE = {"id": IDS, "type": st.just("function")}
CALLS = st.lists(st.fixed_dictionaries({"function": CALLED}, optional=TYPE), min_size=1, max_size=2)
WEIGHTS = st.sampled_from([0, 1, 0.5, True])


def _message(
    role: str, always: dict[str, Any], **optional: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    optional = {"content": TEXTS} | optional
    return st.fixed_dictionaries({"role": st.just(role)} | always, optional=optional)


MESSAGES = {
    "s": _message("system", {}) | _message("developer", {}),
    "u": _message("user", {}),
    "a": _message("assistant", {}, reasoning_content=TEXTS, weight=WEIGHTS),
    "k": _message("assistant", {"tool_calls": CALLS}, reasoning_content=TEXTS, weight=WEIGHTS),
    "t": _message("tool", {}, tool_call_id=IDS, name=NAMES),
}
CHATS = st.sampled_from(ORDERS.split()).flatmap(
    lambda order: st.tuples(*(MESSAGES[kind] for kind in order))
)
OPTIONS = st.sampled_from([{}, {"enable_thinking": False}])
TOP = {"tools": st.lists(TOOL, max_size=3), "chat_template_kwargs": OPTIONS}
RECORD = st.fixed_dictionaries({"messages": CHATS}, optional=TOP)
STRATEGY = st.fixed_dictionaries(
    {
        "dialect": st.sampled_from([*mypt_spec.dialects(), *families()]),
        "shape": st.sampled_from(["", "openai"]),
        "records": st.lists(RECORD, min_size=1, max_size=4),
    }
)


@cache
def _kept(name: str, shape: str) -> FastChecker:
    return FastChecker(Checker(mypt_spec.dialect(name), shape=shape, formatless=bool(shape)))


def check(value: dict[str, Any]) -> None:
    fast = _kept(value["dialect"], value["shape"])
    for record in value["records"]:
        raw = json.dumps(record).encode()
        expected = fast.checker.line(raw, row=2, filename="f")
        for some in (fast, FastChecker(fast.checker)):
            _, found = some.block(raw + b"\n", row=2, filename="f")
            assert [one for _, every in found for one in every] == expected, record


if __name__ == "__main__":
    run("sequences")
