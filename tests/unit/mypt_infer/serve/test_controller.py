"""The controller and mypt-chat on a model that `mypt-serve` serves: by ids, tools included."""

from __future__ import annotations

import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="needs the extra endpoint")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from mypt_infer.chat.cli import main
from mypt_infer.controller import Controller, Options
from mypt_infer.controller.events import CallParsed, ToolResult, TurnEnd
from mypt_infer.endpoint import Endpoint, EndpointSource
from mypt_infer.toolbox import Tool, Toolbox
from tests.support.serving import running, service

pytestmark = pytest.mark.numeric

SCHEMA = {"type": "object", "properties": {"x": {"enum": ["a", "b"]}}, "required": ["x"]}
TOOLS = Toolbox([Tool("look", "look it up", SCHEMA, lambda arguments: {"found": arguments})])


@pytest.mark.parametrize("name", ["mypt", "usf-omega"])
def test_a_served_model_calls_and_answers(name: str) -> None:
    """What it says is legal, its calls are bound, and results come in between."""
    made = service(name, rows=2)
    opener = next(made.dialect.table.openers[kind] for kind in made.format.calls)
    made.rows.model.fond = [
        made.dialect.tokenizer.special[piece.value]
        for piece in opener.spelling
        if piece.kind == "special"
    ]
    options = Options(max_tokens=64, max_steps=2, think=False)
    with (
        running(made) as server,
        closing(Endpoint.opened(f"{server.url}/v1", seconds=30, retries=0)) as endpoint,
    ):
        assert (endpoint.dialect, endpoint.grammar) == (name, made.dialect.fingerprint)

        def turn(tools: Toolbox) -> tuple[Controller, list[Any]]:
            sampling = {"temperature": 0}
            source = EndpointSource(endpoint, made.dialect, tools=tools.schemas, sampling=sampling)
            made_of = {"dialect": name, "system": "S", "options": options}
            controller = Controller(source, tools, **made_of)
            return controller, list(controller.say("Hi"))

        controller, events = turn(TOOLS)
        _, plain = turn(Toolbox())
    assert made.dialect.parse_ids(controller.history.ids)[0] is not None
    calls = [e for e in events if isinstance(e, CallParsed)]
    assert calls
    assert all(e.name == "look" and e.arguments["x"] in ("a", "b") for e in calls)
    assert next(e for e in events if isinstance(e, ToolResult)).error == ""
    assert not any(isinstance(e, CallParsed) for e in plain)
    ends = [e for e in (*events, *plain) if isinstance(e, TurnEnd)]
    assert all(e.reason in ("stop", "max_steps", "max_tokens") for e in ends), ends


def test_a_chat_on_a_served_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"

    def chat(*options: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n"))
        status = main([*options, "--max-tokens", "48", "--temperature", "0"])
        return status, *capsys.readouterr()

    with running(service("mypt", positions=512)) as server:
        url = f"{server.url}/v1"
        status, _, err = chat("--endpoint", url, "--transcript", str(path))
        assert status == 0, err
        assert "failed" not in err
        record = json.loads(path.read_text())
        assert record["messages"][0] == {"role": "user", "content": "Hi"}
        for options, says in (
            (("--model", "large"), "no model 'large'; it has tiny"),
            (("--dialect", "gabgpt"), "speaks mypt, not gabgpt"),
            (("--context-length", "4096"), "the model has 512 positions"),
        ):
            status, _, err = chat("--endpoint", url, *options)
            assert status == 2
            assert says in err
    for options, says in (
        (("--endpoint", url), "no server answers at http://127.0.0.1"),
        (("--endpoint", "127.0.0.1"), "begins with http://"),
        ((), "name a model: --model DIR or --endpoint URL"),
        (("--scripted", "--vocab", "v"), "--vocab is for --endpoint"),
    ):
        status, _, err = chat(*options)
        assert status == 2
        assert says in err
