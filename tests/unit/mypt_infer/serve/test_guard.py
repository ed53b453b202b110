"""A key is compared as the bytes that a client sends, whatever its letters are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette")

from mypt_infer.serve import cli
from mypt_infer.serve.guard import Guard


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
