"""What lets a request in: its key, compared as the bytes that a client sends, and its size."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette")

from starlette.requests import Request

from mypt import serve as cli
from mypt_infer.serve.asked.errors import ApiError
from mypt_infer.serve.guard import Guard, body_of


def status(key: str, sent: bytes) -> int:
    """Returns the HTTP status of a request with a key to a server that asks for one."""
    statuses: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [(b"authorization", b"Bearer " + sent)]
    scope = {"type": "http", "path": "/v1/models", "headers": headers}
    asyncio.run(Guard(app, key=key, hosts=None)(scope, None, send))
    (only,) = statuses
    return only


@pytest.mark.parametrize("key", ["sesame-17", "schlüssel", "ключ", "鍵\U0001f511"])
def test_a_key_of_any_letters_lets_in(key: str) -> None:
    assert status(key, key.encode()) == 200
    assert status(key, key.encode()[:-1]) == 401
    assert status(key, b"") == 401


@pytest.mark.parametrize("key", [" a", "a\n", "\ta\t"])
def test_a_key_with_white_space_at_an_end_is_refused_at_the_start(
    key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(cli.KEY, key)
    assert cli.main(["--model", "nowhere"]) == 2
    assert "white space" in capsys.readouterr().err


@pytest.mark.parametrize("parts", [[b"[1,2,3]"], [b"[1,", b"2,3]"], [b"[", b"1,2,", b"3", b"]"]])
def test_a_body_is_measured_as_a_whole(parts: list[bytes]) -> None:
    """However many pieces it comes in."""

    def body(most: int) -> str:
        left = list(parts)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

        scope = {"type": "http", "headers": [(b"content-type", b"application/json")]}
        return asyncio.run(body_of(Request(scope, receive), most))

    assert body(7) == "[1,2,3]"
    with pytest.raises(ApiError, match="more than 6 bytes"):
        body(6)
