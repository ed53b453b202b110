"""Budgets of thoughts: from 0 up they end legally, and show only where they bind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="needs the extra test")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

import mypt_spec  # noqa: E402
from mypt_infer.run_format import format_of  # noqa: E402
from tests.support.dialects import DIALECTS  # noqa: E402
from tests.support.examples import either  # noqa: E402
from tests.support.serving import FIND, HI, NAME, Running, ask, running, service  # noqa: E402
from tests.support.vocabulary import small  # noqa: E402

pytestmark = pytest.mark.numeric

THINKERS = [name for name in mypt_spec.dialects() if format_of(name).thinking]
THINKING = (1, 4, 5)  # of these seeds, one or two think in each dialect of the quick suite
IDS = {"return_token_ids": True}


@pytest.fixture(scope="module", params=[name for name in THINKERS if name in DIALECTS])
def server(request: Any) -> Iterator[Running]:
    with running(
        service(either(small, mypt_spec.dialect)(request.param), new_tokens=160)
    ) as server:
        yield server


@pytest.fixture
def client(server: Running) -> Iterator[Any]:
    with server.client() as client:
        yield client


def answer_of(client: Any, server: Running, body: Any, **more: Any) -> Any:
    name = server.service.dialect.name
    messages = HI if name not in ("gabgpt",) else HI[1:]
    return ask(client, messages=messages, extra_body=IDS | body, **more)


def thought_ids(server: Running, answer: Any) -> int:
    """Returns the number of ids inside of thoughts, tags left out, counted without the server."""
    d, form = server.service.dialect, server.service.format
    special = {value: key for key, value in d.tokenizer.special.items()}
    opened, count = "", 0
    ids = answer.choices[0].token_ids
    for at in range(len(ids)):
        events, _ = d.lex_ids(answer.prompt_token_ids + ids[: at + 1])
        kinds = [d.table.terminals[e.terminal] for e in events if e.terminal in d.table.terminals]
        last = next((t for t in reversed(kinds) if t.opens or t.ends), None)
        opened = last.opens if last is not None and last.opens else ""
        count += opened in form.thinking and ids[at] not in special
    return count


def test_every_budget_ends_legally(server: Running, client: Any) -> None:
    for budget in range(0, 65, either(32, 1)):
        body = {"thinking_token_budget": budget}
        answer = answer_of(client, server, body, seed=budget, tools=[])
        d = server.service.dialect
        episode, findings = d.parse_ids(answer.prompt_token_ids + answer.choices[0].token_ids)
        assert episode is not None, findings
        line_ends = 2 if d.name == "qwen3" else 0  # of its tags, <think>\n and \n</think>
        assert thought_ids(server, answer) <= budget + line_ends


def test_a_budget_of_zero_is_an_effort_of_none(server: Running, client: Any) -> None:
    for seed in range(either(1, 4)):
        plain, zero, off = (
            answer_of(client, server, body, seed=seed).choices[0]
            for body in (
                {"reasoning_effort": "none"},
                {"thinking_budget_tokens": 0},
                {"reasoning": {"enabled": False}},
            )
        )
        assert plain.token_ids == zero.token_ids == off.token_ids
        assert not hasattr(zero.message, "reasoning_content")


def test_a_budget_does_not_show_before_it_binds(server: Running, client: Any) -> None:
    thoughtful = 0
    for seed in either(THINKING, range(24)):
        free = answer_of(client, server, {}, seed=seed)
        count = thought_ids(server, free)
        thoughtful += count > 0
        for budget in (count + 3, 4096):
            body = {"reasoning": {"max_tokens": budget}}
            bound = answer_of(client, server, body, seed=seed)
            assert bound.choices[0].token_ids == free.choices[0].token_ids
            assert bound.choices[0].finish_reason == free.choices[0].finish_reason
    assert thoughtful or server.service.dialect.name == "mypt"  # there, it seldom thinks


def test_a_thought_that_its_budget_ends_is_no_cut_answer(server: Running, client: Any) -> None:
    reasons = set()
    for seed in range(either(2, 8)):
        body = {"thinking_token_budget": 3}
        answer = answer_of(client, server, body, seed=seed, max_tokens=4096).choices[0]
        reasons.add(answer.finish_reason)
    assert reasons == {"stop"}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"thinking_token_budget": -1}, "thinking_token_budget"),
        ({"thinking_token_budget": 1.5}, "thinking_token_budget"),
        ({"thinking_token_budget": True}, "thinking_token_budget"),
        ({"thinking_budget_tokens": "9"}, "thinking_budget_tokens"),
        ({"thinking_token_budget": 3, "thinking_budget_tokens": 4}, "thinking_budget_tokens"),
        ({"thinking_token_budget": 3, "reasoning": {"max_tokens": 4}}, "reasoning.max_tokens"),
        ({"thinking_token_budget": 3, "reasoning_effort": "none"}, "reasoning_effort"),
        ({"reasoning": {"max_tokens": -2}}, "reasoning.max_tokens"),
        ({"reasoning": {"max_tokens": 2, "size": 1}}, "reasoning"),
        ({"reasoning": {"max_tokens": 0, "enabled": True}}, "reasoning.enabled"),
        ({"reasoning": {"effort": "high"}}, "reasoning.effort"),
    ],
)
def test_budgets_that_are_none(client: Any, server: Running, body: Any, place: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        answer_of(client, server, body)
    assert caught.value.param == place


def test_budgets_that_agree(client: Any, server: Running) -> None:
    both = {"thinking_token_budget": 5, "reasoning": {"max_tokens": 5, "enabled": True}}
    assert answer_of(client, server, both).choices[0].finish_reason


def test_calls_under_a_budget(client: Any, server: Running) -> None:
    if not server.service.format.calls:
        pytest.skip("no calls")
    for budget in either((0, 7), (0, 1, 7)):
        body = {"thinking_token_budget": budget}
        for choice in ("auto", "required"):
            answer = answer_of(client, server, body, tools=[FIND], tool_choice=choice, seed=budget)
            assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")


def test_thoughts_are_streamed_under_both_names(client: Any, server: Running) -> None:
    name = server.service.dialect.name
    messages = HI[1:] if name == "gabgpt" else HI
    seen = False
    for seed in either(THINKING, range(8)):
        whole = ask(client, messages=messages, seed=seed).choices[0].message
        chunks = client.chat.completions.create(
            model=NAME, messages=messages, seed=seed, stream=True
        )
        deltas = [chunk.choices[0].delta for chunk in chunks]
        for key in ("reasoning_content", "reasoning"):
            streamed = "".join(getattr(delta, key, None) or "" for delta in deltas)
            assert streamed == getattr(whole, key, "")
            seen = seen or bool(streamed)
    assert seen or name == "mypt"
