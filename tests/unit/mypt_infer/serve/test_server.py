"""What a server owes to many clients: batches, limits, keys, cancellation, an end."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="needs the extra test")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
import httpx  # noqa: E402
import uvicorn  # noqa: E402

from mypt import serve as cli  # noqa: E402
from mypt_infer.generate.strange import STEPS  # noqa: E402
from mypt_infer.serve import jobs, rows  # noqa: E402
from mypt_infer.serve.guard import LOOPBACK  # noqa: E402
from mypt_infer.serve.metrics import Metrics  # noqa: E402
from tests.support.build import assistant, function, message, tool, user  # noqa: E402
from tests.support.examples import either  # noqa: E402
from tests.support.serving import FIND, HI, NAME, Running, ask, running, service, until  # noqa: E402


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(service("mypt", new_tokens=32, rows=8, queue=80), hosts=LOOPBACK) as server:
        yield server


def test_many_clients_at_once(server: Running) -> None:
    """Each gets its own answer: the one that it gets when it asks alone."""
    tools = {"tools": [FIND], "tool_choice": "required"}

    def one(at: int) -> Any:
        with server.client() as client:
            more = tools if at % 2 else {}
            answer = (
                ask(client, messages=[*HI[:1], user("Hi, " * 9)], seed=at % 8, **more)
                .choices[0]
                .message
            )
        return answer.content, [c.function for c in answer.tool_calls or ()]

    count, counts = either(16, 64), server.service.rows.counts
    alone = [one(at) for at in range(8)]
    for asked in (count, 2 * count, 3 * count):  # how many begin at the same moment is chance
        steps, ids = counts.steps, counts.ids
        with ThreadPoolExecutor(count) as pool:
            together = list(pool.map(one, range(count)))
        assert together == alone * (count // 8)
        assert counts.ids - ids > 2 * (counts.steps - steps), "rows were drawn together"
        if counts.reused > (asked + 8) * 8:
            break
    else:
        pytest.fail("what one row had read of a prompt, the others did not")
    assert (counts.running, counts.waiting) == (0, 0)


# What is wrong with a request, the words and the place that say it.
WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    ({"model": "other"}, "'other' is not here", "model"),
    ({"temperature": 3}, "expected 0 to 2", "temperature"),
    ({"max_tokens": 0}, "expected 1", "max_tokens"),
    ({"max_tokens": "8"}, "Expected `int", "max_tokens"),
    ({"max_tokens": 1}, "would do", "max_tokens"),
    ({"max_tokens": 9, "tools": [FIND], "tool_choice": "required"}, "would do", "max_tokens"),
    ({"frequency_penalty": 0.5}, "not supported", "frequency_penalty"),
    ({"logit_bias": {"5": 1}}, "not supported", "logit_bias"),
    ({"functions": []}, "use tools", "functions"),
    ({"minimum_p": 1}, "unknown parameter", "minimum_p"),
    ({"reasoning_effort": "high"}, "high", "reasoning_effort"),
    ({"stop": ""}, "none of them empty", "stop"),
    ({"n": 99}, "expected 1 to 16", "n"),
    ({"top_logprobs": 1}, "logprobs: true", "top_logprobs"),
    ({"messages": []}, "not empty", "messages"),
    ({"messages": [HI[1]]}, "--system", "messages"),
    ({"messages": [message("wizard", "?")]}, "unknown role", "messages[0].role"),
    ({"messages": [user(5)]}, "content", "messages[0].content"),
    ({"messages": [*HI, user("?", name="Eve")]}, "'name'", "messages[2].name"),
    ({"messages": [*HI, tool("1", tool_call_id="x")]}, "no open call", "messages[2].tool_call_id"),
    ({"messages": [*HI, assistant("Yes")]}, "may not write", "messages"),
    ({"messages": [user([{"type": "image_url", "image_url": {"url": "x"}}])]}, "image_url", "messages[0].content[0]"),
    ({"tools": [{"type": "function"}]}, "expected", "tools[0]"),
    ({"tools": [{"type": "function", "function": {"name": "get weather"}}]}, "use letters, digits", "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "a" * 1000}}]}, "at most 64", "tools[0].function.name"),
    ({"tools": [function("f", type="strange")]}, "strange", "tools"),
    ({"tools": [FIND], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "workspace", "tool_choice"),
    ({"tool_choice": "required"}, "none given", "tool_choice"),
    ({"response_format": {"type": "yaml"}}, "json_schema", "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": False}}}, "false", "response_format"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "words", "place"), WRONG)
def test_what_is_wrong_is_named(
    server: Running, more: dict[str, Any], words: str, place: str | None
) -> None:
    body = {"model": NAME, "messages": HI} | more
    with httpx.Client() as client:
        answer = client.post(f"{server.url}/v1/chat/completions", json=body)
    assert answer.status_code in (400, 404), answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert words in error["message"]
    assert error["param"] == place


def test_the_client_raises_what_is_wrong(server: Running) -> None:
    with server.client() as client, pytest.raises(openai.BadRequestError, match="temperature is 9"):
        ask(client, temperature=9)
    with server.client() as client, pytest.raises(openai.BadRequestError, match="would do"):
        ask(client, max_tokens=1, stream=True)


@pytest.mark.parametrize(("sent", "status", "words"), [
    (b"{", 400, "not valid JSON"),
    (b'{"model": "tiny", "model": "tiny"}', 400, "model"),
    (b"[1]", 400, "JSON object"),
    (b"\xff", 400, "UTF-8"),
    (b"{}", 400, "model"),
])  # fmt: skip
def test_bodies_that_are_none(server: Running, sent: bytes, status: int, words: str) -> None:
    with httpx.Client() as client:
        path = f"{server.url}/v1/chat/completions"
        answer = client.post(path, content=sent, headers={"content-type": "application/json"})
        assert (answer.status_code, words in answer.json()["error"]["message"]) == (status, True)
        answer = client.post(path, content=sent, headers={"content-type": "text/plain"})
        assert answer.status_code == 415


def test_other_paths_and_hosts(server: Running) -> None:
    with httpx.Client() as client:
        assert client.get(f"{server.url}/v2").json()["error"]["message"].startswith("GET /v2")
        assert client.get(f"{server.url}/v1/completions").status_code == 405
        answer = client.get(f"{server.url}/v1/models", headers={"host": "evil.example"})
        assert answer.status_code == 403
        assert client.get(f"{server.url}/health").json() == {"status": "ok"}


def test_metrics(server: Running) -> None:
    with server.client() as client, httpx.Client() as plain:
        ask(client)
        text = plain.get(f"{server.url}/metrics").text
    assert 'mypt_requests_total{path="/v1/chat/completions",status="200"}' in text
    assert "mypt_constraint_seconds" in text
    assert 'mypt_tokens_total{kind="answer"}' in text


def test_a_strange_format_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where only enums may follow, a random model gives about all to refused ids."""
    monkeypatch.setattr(rows, "_MEASURED_STEPS", STEPS)
    call = {"tools": [FIND], "tool_choice": "required", "n": 16, "reasoning_effort": "none"}
    with running(service("mypt", new_tokens=64, rows=16)) as server, server.client() as client:
        assert "mypt_refused_mass NaN" in Metrics(server.service.rows).text.decode()
        for _ in range(3):
            ask(client, **call)
        steps = server.service.rows.refused.steps
        ask(client, **call)
        assert 0 < server.service.rows.refused.steps - steps < 16, "one answer of 16 is measured"
        text = Metrics(server.service.rows).text.decode()
    (warning,) = [r.getMessage() for r in caplog.records if "strange" in r.getMessage()]
    assert "'mypt'" in warning
    assert float(text.rpartition("\nmypt_refused_mass ")[2].split()[0]) > 0.9


@pytest.mark.usefixtures("frozen_objects")
def test_what_is_there_at_the_start_is_no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command freezes it once, before the first request; a service by itself does not."""
    made = service("mypt", new_tokens=8)
    frozen = {"before": gc.get_freeze_count()}

    def run(server: uvicorn.Server, sockets: list[Any]) -> None:
        frozen["served"] = gc.get_freeze_count()
        text = Metrics(made.rows).text.decode()
        frozen["metric"] = float(text.rpartition("\nmypt_frozen ")[2].split()[0])
        sockets[0].close()

    monkeypatch.setattr(cli, "_service", lambda chosen: made)
    monkeypatch.setattr(uvicorn.Server, "run", run)
    assert cli.main(["--model", "tiny", "--port", "0"]) == 0
    assert frozen["before"] + 100 < frozen["served"]
    # Objects that are no longer used go, frozen or not.
    assert frozen["before"] + 100 < frozen["metric"] <= frozen["served"]


def test_a_key_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    with running(service("mypt", new_tokens=8), key="sesame-17") as server:
        with server.client(api_key="wrong") as client, pytest.raises(openai.AuthenticationError):
            ask(client)
        with httpx.Client() as plain:
            assert plain.get(f"{server.url}/v1/models").status_code == 401
            assert plain.get(f"{server.url}/metrics").status_code == 401
            assert plain.get(f"{server.url}/health").status_code == 200
        with server.client(api_key="sesame-17") as client:
            assert ask(client).choices[0].finish_reason
    assert "sesame-17" not in caplog.text


def test_a_full_queue_and_a_late_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row, one that waits; further ones get 429 at once, and those that take too long 408."""
    made = service("mypt", pause=0.02, fond=False, rows=1, queue=1, new_tokens=5000)
    later, counts = [0.0], made.rows.counts
    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + later[0]))  # fmt: skip
    with running(made) as server, ThreadPoolExecutor(2) as pool:

        def one() -> Any:
            with server.client() as client, pytest.raises(openai.APIStatusError) as error:
                ask(client)
            return error.value.status_code

        results = [pool.submit(one) for _ in range(2)]
        until(lambda: counts.running == counts.waiting == 1)
        with server.client() as client, pytest.raises(openai.RateLimitError) as full:
            ask(client)
        assert full.value.response.headers["retry-after"] == "1"
        assert "lets 1 wait" in full.value.message
        later[0] = 1000.0
        assert [result.result(60) for result in results] == [408, 408]


def test_a_client_that_goes_makes_room() -> None:
    made = service("mypt", pause=0.02, fond=False, rows=1, queue=4, new_tokens=500)
    with running(made) as server, server.client() as client:
        stream = ask(client, stream=True)
        next(iter(stream))
        until(lambda: made.rows.counts.running == 1)
        stream.close()
        until(lambda: made.rows.counts.running == 0)
        with pytest.raises(openai.APITimeoutError):
            ask(client, timeout=0.4)
        until(lambda: made.rows.counts.running == made.rows.counts.waiting == 0)
        assert ask(client, max_tokens=4).usage.completion_tokens <= 4
        with httpx.Client() as plain:
            assert "mypt_cancelled_total 2.0" in plain.get(f"{server.url}/metrics").text


@pytest.mark.parametrize("grace", [20, 1])
def test_the_end_of_a_server(grace: int) -> None:
    """What runs is finished within the grace; what takes longer is ended, and nothing hangs."""
    made = service("mypt", pause=0.02, fond=False, new_tokens=40 if grace > 1 else 100_000)
    with running(made, grace=grace) as server:
        with server.client() as client:
            stream = ask(client, stream=True)
            seen = [next(iter(stream))]
            server.server.should_exit = True
            if grace > 1:
                seen += list(stream)
                assert seen[-1].choices[0].finish_reason
            else:
                with pytest.raises((openai.APIError, httpx.HTTPError)):
                    list(stream)
        server.thread.join(60)
        assert not server.thread.is_alive()
    with pytest.raises(openai.APIConnectionError), server.client() as client:
        ask(client)


def test_the_prompt_is_within_the_context() -> None:
    made = service("mypt", new_tokens=8, positions=64)
    with running(made) as server, server.client() as client:
        assert ask(client).usage.total_tokens <= 64
        long = [HI[0], user("many words " * 60)]
        with pytest.raises(openai.BadRequestError) as error:
            ask(client, messages=long)
        assert error.value.code == "context_length_exceeded"
        with pytest.raises(openai.BadRequestError, match="64 positions"):
            ask(client, max_tokens=64)


def test_json_objects(server: Running) -> None:
    with server.client() as client:
        answer = ask(client, response_format={"type": "json_object"}, max_tokens=40, seed=1)
    assert isinstance(json.loads(answer.choices[0].message.content), dict)
