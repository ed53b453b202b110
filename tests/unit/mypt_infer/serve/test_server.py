"""What a server owes to many clients: batches, limits, keys, cancellation, an end."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="needs the extra test")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
import httpx  # noqa: E402
import uvicorn  # noqa: E402

from mypt_infer.serve import cli  # noqa: E402
from mypt_infer.serve.guard import LOOPBACK  # noqa: E402
from mypt_infer.serve.metrics import Metrics  # noqa: E402
from tests.support.serving import FIND, NAME, Running, running, service  # noqa: E402

HI = [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(service("mypt", new_tokens=32, rows=8, queue=80), hosts=LOOPBACK) as found:
        yield found


def ask(client: Any, **more: Any) -> Any:
    return client.chat.completions.create(**({"model": NAME, "messages": HI} | more))


def until(said: Any, seconds: float = 20.0) -> None:
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


def test_64_clients_at_once(server: Running) -> None:
    """Each gets its own answer: the one that it gets when it asks alone."""
    tools = {"tools": [FIND], "tool_choice": "required"}

    def one(at: int) -> Any:
        with server.client() as client:
            said = ask(client, seed=at % 8, **(tools if at % 2 else {}))
        message = said.choices[0].message
        calls = [(c.function.name, c.function.arguments) for c in message.tool_calls or ()]
        return message.content, calls

    alone = [one(at) for at in range(8)]
    steps, ids = server.service.rows.counts.steps, server.service.rows.counts.ids
    with ThreadPoolExecutor(64) as pool:
        together = list(pool.map(one, range(64)))
    assert together == alone * 8
    counts = server.service.rows.counts
    assert counts.ids - ids > 2 * (counts.steps - steps), "rows were drawn together"
    assert counts.reused > 72 * 8, "what one row had read of a prompt, the others did not"
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
    ({"messages": [{"role": "wizard", "content": "?"}]}, "unknown role", "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "content", "messages[0].content"),
    ({"messages": [*HI, {"role": "user", "content": "?", "name": "Eve"}]}, "'name'", "messages[2].name"),
    ({"messages": [*HI, {"role": "tool", "content": "1", "tool_call_id": "x"}]}, "no open call", "messages[2].tool_call_id"),
    ({"messages": [*HI, {"role": "assistant", "content": "Yes"}]}, "may not write", "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "image_url", "messages[0].content[0]"),
    ({"tools": [{"type": "function"}]}, "expected", "tools[0]"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "strange"}}}]}, "strange", "tools"),
    ({"tools": [FIND], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "workspace", "tool_choice"),
    ({"tool_choice": "required"}, "none given", "tool_choice"),
    ({"response_format": {"type": "yaml"}}, "json_schema", "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": False}}}, "false", "response_format"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "words", "place"), WRONG)
def test_what_is_wrong_is_said(
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
    (b"{", 400, "no JSON"),
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


def test_what_is_there_at_the_start_is_no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command freezes it once, before the first request; a service by itself does not."""
    made = service("mypt", new_tokens=8)
    gc.unfreeze()
    frozen = {"before": gc.get_freeze_count()}

    def run(server: uvicorn.Server, sockets: list[Any]) -> None:
        frozen["served"] = gc.get_freeze_count()
        frozen["told"] = told()
        sockets[0].close()

    def told() -> float:
        text = Metrics(made.rows).text.decode()
        return float(text.rpartition("\nmypt_frozen ")[2].split()[0])

    monkeypatch.setattr(cli, "_service", lambda chosen: made)
    monkeypatch.setattr(uvicorn.Server, "run", run)
    try:
        assert cli.main(["--model", "tiny", "--port", "0"]) == cli.DONE
    finally:
        gc.unfreeze()
    assert frozen["before"] + 100 < frozen["served"]
    # Objects that are no longer used go, frozen or not.
    assert frozen["before"] + 100 < frozen["told"] <= frozen["served"]


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


def test_a_full_queue_and_a_late_answer() -> None:
    """One row, one that waits; further ones get 429 at once, and those that take too long 408."""
    made = service("mypt", pause=0.05, fond=False, rows=1, queue=1, new_tokens=400, seconds=2.0)
    with running(made) as server:
        results: list[Any] = []

        def one() -> None:
            with server.client() as client:
                try:
                    results.append(ask(client))
                except openai.APIStatusError as error:
                    results.append(error.status_code)

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        until(lambda: made.rows.counts.running == 1 and made.rows.counts.waiting == 1)
        with server.client() as client, pytest.raises(openai.RateLimitError) as full:
            ask(client)
        assert full.value.response.headers["retry-after"] == "1"
        assert "lets 1 wait" in full.value.message
        for thread in threads:
            thread.join(30)
        assert results == [408, 408]


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
        server.thread.join(20)
        assert not server.thread.is_alive()
    with pytest.raises(openai.APIConnectionError), server.client() as client:
        ask(client)


def test_the_prompt_is_within_the_context() -> None:
    made = service("mypt", new_tokens=8, positions=64)
    with running(made) as server, server.client() as client:
        assert ask(client).usage.total_tokens <= 64
        long = [HI[0], {"role": "user", "content": "many words " * 60}]
        with pytest.raises(openai.BadRequestError) as error:
            ask(client, messages=long)
        assert error.value.code == "context_length_exceeded"
        with pytest.raises(openai.BadRequestError, match="64 positions"):
            ask(client, max_tokens=64)


def test_json_objects(server: Running) -> None:
    with server.client() as client:
        said = ask(client, response_format={"type": "json_object"}, max_tokens=40, seed=1)
    assert isinstance(json.loads(said.choices[0].message.content), dict)
