"""Results of calls after ids that are there: what a prompt of all messages is, or no prompt either.

Results come in any order, and not of all calls. A result may have the id of its call, which only
some formats write, and the name of its tool. A format without ids has results in the order of their
calls: those that name their calls are sorted, others are refused.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.plugins.extend import extend
from mypt_infer.serve.asked.prompts import Prompter
from mypt_spec.bodies.json_body import counting
from mypt_spec.dialect import families
from tests.support.build import assistant, call, function, tool, user
from tests.support.examples import examples

NAMES = ("f", "g", "h")
TOOLS = [function(name, {"x": {"type": "integer"}}) for name in NAMES]
CALLS = [call(name, {"x": 1}, id=f"call_{i}aaa") for i, name in enumerate(NAMES)]
ORDERS = [
    (count, order)
    for count in (1, 2, 3)
    for size in range(1, count + 1)
    for order in permutations(range(count), size)
]
SYSTEM = {"role": "system", "content": "S"}


@cache
def prompter(name: str) -> Prompter:
    return Prompter(mypt_spec.dialect(name), name)


@cache
def drawn(name: str, count: int) -> tuple[list[dict[str, Any]], list[list[int]]] | None:
    """Returns messages that end with `count` calls, and their ids up to where the model stops.

    There are two: without a thought, and with the empty one of a last answer. None where the format
    has no place for them.
    """
    for head in ([SYSTEM], []):
        messages = [*head, user("Hi"), assistant("", tool_calls=CALLS[:count])]
        try:
            episode, _, _ = prompter(name).episode(messages, TOOLS)
            last = prompter(name).dialect.trained(episode, history="official")
            both = [prompter(name).dialect.encode(e, partial=True) for e in (episode, *last)]
        except ValueError:
            continue
        return messages, [e.ids.tolist()[: int(e.loss.nonzero()[0][-1]) + 1] for e in both]
    return None


def ids_or_none(function: Any) -> list[int] | None:
    try:
        ids: list[int] = function().ids
    except ValueError:
        return None
    return ids


@cache
def formats() -> list[str]:
    return sorted(name for name in {*mypt_spec.dialects(), *families()} if drawn(name, 1))


@given(
    st.deferred(lambda: st.sampled_from(formats())),
    st.sampled_from(ORDERS),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@example("glm4.5", (2, (0,)), True, True, True)  # the last event is a text
@example("qwen3", (2, (1, 0)), True, True, False)
@example("usf-omega", (3, (2, 0, 1)), True, False, False)
@example("mistral-v11", (2, (1,)), True, True, False)  # ids in the tags of calls
@example("mistral", (2, (0, 1)), False, True, False)
@example("kimi-k2", (2, (0, 1)), True, False, False)
@example("qwen3.5", (1, (0,)), False, False, False)  # an empty thought is before the call
@example("kimi-k2", (2, (1,)), True, True, False)
@settings(max_examples=examples(400), deadline=None)
def test_a_prompt_is_that_of_all_messages(
    name: str, order: tuple[int, tuple[int, ...]], with_ids: bool, named: bool, asked: bool
) -> None:
    count, numbers = order
    known = drawn(name, count)
    if known is None:
        return
    counts = counting(prompter(name).dialect.table) is not None
    ordered = prompter(name).dialect.adapter.ordered
    if (counts or ordered) and with_ids and not named and numbers != (*range(len(numbers)),):
        return  # the text has no ids but its own: only their order says whose results these are
    messages, both = known
    following = [
        tool(str(n))
        | ({"tool_call_id": f"call_{n}aaa"} if with_ids else {})
        | ({"name": NAMES[n]} if named else {})
        for n in numbers
    ]
    following += [user("And?")] * asked
    whole = ids_or_none(lambda: prompter(name).prompt([*messages, *following], TOOLS))
    ids = next((i for i in both if whole is not None and whole[: len(i)] == i), both[0])
    out = ids_or_none(lambda: extend(prompter(name), ids, following))
    if whole is not None or (named and with_ids):  # the text has ids, or no text of the format has
        assert out == whole


@pytest.mark.parametrize("name", ["qwen3", "glm4.5", "mistral-v13", "kimi-k2"])
def test_results_that_name_their_calls_are_sorted_where_a_format_has_no_ids(name: str) -> None:
    made = prompter(name)
    begun = [user("Hi"), assistant("", tool_calls=CALLS)]
    results = [tool(str(n)) | {"tool_call_id": f"call_{n}aaa"} for n in (2, 0, 1)]
    ids = made.prompt([*begun, *results], TOOLS).ids
    in_order = made.prompt([*begun, *results[1:], results[0]], TOOLS).ids
    assert (ids == in_order) == made.dialect.adapter.ordered
    sources = made.episode([*begun, *results], TOOLS)[2]
    texts = [[*begun, *results][int(old.split("/")[2])]["content"] for old in sources.values()]
    if made.dialect.adapter.ordered:
        assert [text for text in texts if text in "012" and text] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("ident", "problem"),
    [(None, r"\[4\]\..*no open call has the id"), ("other", r"\[3\]\..*no open call has the id")],
)
def test_results_are_not_sorted_where_one_names_no_call(ident: str | None, problem: str) -> None:
    results = [tool(str(n)) | {"tool_call_id": f"call_{n}aaa"} for n in (2, 0)]
    results.insert(1, tool("1") | ({"tool_call_id": ident} if ident else {}))
    messages = [user("Hi"), assistant("", tool_calls=CALLS), *results]
    with pytest.raises(ValueError, match=problem):
        prompter("qwen3").prompt(messages, TOOLS)


def test_what_is_wrong_in_a_sorted_result_has_the_number_of_the_client() -> None:
    results = [tool(str(n)) | {"tool_call_id": f"call_{n}aaa"} for n in (1, 0)]
    results[1]["more"] = 1
    with pytest.raises(ValueError, match=r"^messages\[3\].more: "):
        prompter("qwen3").prompt([user("Hi"), assistant("", tool_calls=CALLS[:2]), *results], TOOLS)
