"""No compile keeps another waiting, and each ends when nobody waits for it."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("openai", reason="needs the extra test")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
pytest.importorskip("llguidance")
import httpx
import openai

from mypt_infer.decode.base.work import step
from mypt_infer.serve.asked.decoders import Choice, Decoders, Recipe
from mypt_infer.serve.asked.errors import ApiError
from mypt_infer.serve.compiles import Compiles
from tests.support.build import function
from tests.support.children import child
from tests.support.examples import either
from tests.support.serving import FIND, HI, ask, running, service, until
from tests.support.tiny_models import checkpoint


def wanted(name: str) -> Recipe:
    return Recipe(({"name": name},), Choice())


class Slow:
    """Decoders of which some take as long as somebody waits for them."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.stopped: list[str] = []

    def cached(self, _: Recipe) -> None:
        return None

    def get(self, wanted: Recipe) -> str:
        name = wanted.tools[0]["name"]
        self.begun.append(name)
        try:
            while name.startswith("long"):
                step()
        except Exception:
            self.stopped.append(name)
            raise
        for _ in range(1000):
            step()
        return str(name)


def compiles(most: int = 8, queue: int = 8) -> tuple[Compiles, Slow]:
    slow = Slow()
    return Compiles(cast(Decoders, slow), most=most, queue=queue), slow


def ended(slow: Slow, *names: str) -> None:
    until(lambda: sorted(slow.stopped) == sorted(names))


def test_a_short_compile_is_done_beside_long_ones() -> None:
    made, slow = compiles()

    async def run() -> Any:
        long = [asyncio.ensure_future(made.ready(wanted(f"long {i}"), 60)) for i in range(4)]
        await asyncio.sleep(0.1)
        out = await made.ready(wanted("short"), 60)
        for task in long:
            task.cancel()
        await asyncio.gather(*long, return_exceptions=True)
        return out

    assert asyncio.run(run()) == "short"
    ended(slow, *(f"long {i}" for i in range(4)))


def test_a_compile_whose_time_is_over_ends() -> None:
    made, slow = compiles()
    with pytest.raises(ApiError, match="time of this request is over"):
        asyncio.run(made.ready(wanted("long"), 0.05))
    ended(slow, "long")


def test_who_asks_the_same_waits_for_one_compile() -> None:
    """It goes on for those who stay when one of them leaves."""
    made, slow = compiles()

    async def run() -> None:
        first = asyncio.ensure_future(made.ready(wanted("long"), 60))
        with pytest.raises(ApiError, match="time of this request is over"):
            await made.ready(wanted("long"), 0.05)
        assert (slow.begun, slow.stopped) == (["long"], [])
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    asyncio.run(run())
    ended(slow, "long")


def test_beyond_the_queue_a_compile_is_refused() -> None:
    made, slow = compiles(most=1, queue=1)

    async def run() -> None:
        tasks = [asyncio.ensure_future(made.ready(wanted(f"long {i}"), 60)) for i in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(ApiError, match="1 compiles run and 1 wait"):
            await made.ready(wanted("short"), 60)
        tasks[1].cancel()  # who leaves the queue makes room in it
        await asyncio.sleep(0.05)
        short = asyncio.ensure_future(made.ready(wanted("short"), 60))
        await asyncio.sleep(0.05)
        tasks[0].cancel()
        assert cast(Any, await short) == "short"

    asyncio.run(run())
    ended(slow, "long 0")


def test_the_end_of_a_server_ends_compiles() -> None:
    made, slow = compiles(most=1)

    async def run() -> None:
        tasks = [asyncio.ensure_future(made.ready(wanted(f"long {i}"), 60)) for i in range(2)]
        await asyncio.sleep(0.05)
        made.close()
        for task in tasks:
            with pytest.raises(ApiError, match="shutting down"):
                await task
        with pytest.raises(ApiError, match="shutting down"):
            await made.ready(wanted("short"), 60)

    asyncio.run(run())
    ended(slow, "long 0")


# Tables of each of these take about a second.
WORDS = [[f"{i} of {at} is a long text" for i in range(800)] for at in range(60)]
MANY = [function(f"t{at}", {"a": {"enum": words}}) for at, words in enumerate(WORDS)]


def test_a_client_gets_its_tools_while_another_compiles() -> None:
    """One whose time is over is refused; its compile ends, and the first goes on."""
    made = service("mypt", new_tokens=64)
    ends: list[int] = []

    def first() -> None:
        with pytest.raises(openai.APIStatusError) as refused:
            ask(client, tools=MANY)
        ends.append(refused.value.status_code)

    def only_the_first_compiles() -> bool:
        return made._compiles._running == 1 and not ends

    with running(made) as server, server.client() as client:
        thread = threading.Thread(target=first)
        thread.start()
        until(only_the_first_compiles)
        assert ask(client, tools=[FIND]).usage.completion_tokens
        until(only_the_first_compiles)
        made.limits = replace(made.limits, seconds=0.1)
        with pytest.raises(openai.APIStatusError) as late:
            ask(client, tools=MANY[1:])
        assert late.value.status_code == 408
        until(only_the_first_compiles)
        made._compiles.close()
        thread.join(30)
        until(lambda: not made._compiles._running)
    assert ends == [503]


@pytest.mark.parametrize("compiling", either([True], [True, False]))
def test_sigterm_ends_a_server_that_compiles(tmp_path: Path, compiling: bool) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = checkpoint(tmp_path / "tiny")
    command = [sys.executable, "-m", "mypt.serve", "--model", str(folder)]
    options = ["--port", str(port), "--grace", "1"]
    url = f"http://127.0.0.1:{port}"
    with child([*command, *options]) as process:
        until(lambda: answers(lambda: httpx.get(f"{url}/health").is_success))
        thread = threading.Thread(target=lambda: answers(lambda: post(url)))
        if compiling:
            thread.start()
            time.sleep(0.5)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert time.monotonic() - began < 8
        if compiling:
            thread.join(30)


def post(url: str) -> httpx.Response:
    body = {"model": "tiny", "messages": HI, "tools": MANY}
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)


def answers(asked: Callable[[], Any]) -> bool:
    try:
        return bool(asked())
    except httpx.HTTPError:
        return False
