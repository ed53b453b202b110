"""Results of calls after ids that are there: what a prompt of all messages is, or no prompt either.

Results come in any order, and not of all calls. A result may have the id of its call, which only
some formats write, and the name of its tool. Where results are in another order than their calls
and the format has no ids, the conversation is refused, whichever way it comes.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations
from typing import Any

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
    if counts and with_ids and not named and numbers != (*range(len(numbers)),):
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
