"""`mypt-diff`: the first difference of two formats on each record, and its kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError

import pytest

from mypt.diff import main as diff
from mypt_lint.template.compare import RefusedError, Side, Written, compare
from mypt_records.shapes import read
from tests.support.shapes import HI, YO, talk

PLAIN = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def of_files(one: str, other: str, record: Any) -> tuple[int, str]:
        sides = []
        for i, side in enumerate((one, other)):
            if "{" in side:
                (tmp_path / f"{i}.jinja").write_text(side)
                side = str(tmp_path / f"{i}.jinja")
            sides.append(side)
        (tmp_path / "x.jsonl").write_text(json.dumps(record) + "\n")
        status = diff([*sides, "--", str(tmp_path / "x.jsonl")])
        return status, "".join(capsys.readouterr())

    return of_files


H, Y = "<|im_start|>user\nHi<|im_end|>\n", "<|im_start|>assistant\nYo<|im_end|>\n"
S = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (H + Y, H + Y, ""),
        ("<s>" + H + Y, H + Y, "bos"),
        (H + Y, "[BOS]" + H + Y, "bos"),
        ("<s><s>" + H + Y, "<s>" + H + Y, "bos"),
        (S + H + Y, H + Y, "system"),
        ("[{'name': 'f', 'x': None}]" + H + Y, '[{"name": "f", "x": null}]' + H + Y, "json"),
        ("{'x': None, 'y': 1}" + H + Y, "{'x': null, 'y': 1}" + H + Y, "json"),
        ('{"x":1,"y":2}' + H + Y, '{"x": 1, "y": 2}' + H + Y, "spacing"),
        ("tools " + H + Y, "tools\n\n" + H + Y, "spacing"),
        (H + Y, H + Y.rstrip(), "spacing"),
        (H + Y, H.replace("<|im_end|>", "<|eot|>") + Y, "structure"),
        (H + Y, None, "refused"),
        (None, None, ""),
        ((H + Y, [1, 2, 3]), (H + Y, [1, 2, 3]), ""),
        ((H + Y, [1, 2, 3]), (H + Y, [1, 4, 3]), "tokenizer"),
        ((H + Y, [0, 1, 2]), (H + Y, [1, 2]), "bos"),
        ((H + Y, [0, 1, 2]), (H + Y, None), ""),
    ],
)
def test_the_kind_of_a_difference(one: Any, other: Any, kind: str) -> None:
    def side(value: Any) -> Side:
        def write(*_: Any) -> Written:
            if value is None:
                raise RefusedError("no")
            return Written(value) if isinstance(value, str) else Written(*value)

        return write

    record = {"messages": talk(HI, YO)}
    difference = compare(record, read(record, "openai"), side(one), side(other))
    assert (difference[0] if difference else "") == kind


def test_the_place_of_a_difference(run: Any) -> None:
    assert run(PLAIN, PLAIN, {"messages": talk(HI, YO)}) == (0, "1 record compared, 0 differ\n")
    status, output = run("chatml", "qwen3", {"messages": talk(HI, YO)})
    assert status == 1
    assert 'x.jsonl:1: structure: at character 52, A writes "Yo<|im_end|>' in output
    assert "1 record compared, 1 differ\n  1  structure: other text or tags" in output


def test_a_call_that_a_format_has_no_place_for_is_the_reason(run: Any) -> None:
    """Not that the answer, which is nothing but a call, is missing without it."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    record = {"messages": [*talk(HI), {"role": "assistant", "tool_calls": [call]}]}
    status, output = run("chatml", "qwen3", record)
    assert (status, "A refuses it: tool_calls: chatml has no place for it" in output) == (1, True)


def test_options_of_a_record_are_given_to_templates(run: Any) -> None:
    template = "{{ '<s>' if first else '' }}" + PLAIN
    record = {"messages": talk(HI, YO), "chat_template_kwargs": {"first": True}}
    status, output = run(template, PLAIN, record)
    assert (status, "x.jsonl:1: bos: at" in output) == (1, True), output


@pytest.mark.parametrize(
    ("one", "record", "message"),
    [
        ("nothing", {"messages": talk(HI, YO)}, "nothing"),
        ("http://127.0.0.1:9", {"messages": talk(HI, YO)}, "start the server"),
    ],
)
def test_what_is_no_side(run: Any, one: str, record: Any, message: str) -> None:
    status, output = run(one, "chatml", record)
    assert (status, message in output) == (2, True)


def test_records_that_are_not_read(run: Any) -> None:
    status, output = run("chatml", "qwen3", {"x": 1})
    assert (status, "no record to compare; 1 not read" in output) == (2, True)


# What is asked for, so that texts and ids are those of training.
WANTED = {
    "add_generation_prompt": False,
    "add_special": True,
    "parse_special": True,
    "add_special_tokens": False,
}


@pytest.fixture(params=["llama.cpp", "vllm", "vllm-405"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that writes ChatML, with a first token that its template has not."""
    unknown = int(request.param.partition("-")[2] or 404)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            messages = body.get("messages", ())
            text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
            known = self.path != "/apply-template" or request.param == "llama.cpp"
            answer = {"prompt": text, "tokens": [1, 2, 3]}
            if self.path == "/detokenize":
                answer["prompt"] = "<s>"
            is_wanted = all(body[key] == WANTED[key] for key in body.keys() & WANTED)
            self.send_response((200 if is_wanted else 400) if known else unknown)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            pass

    httpd = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}"
    httpd.shutdown()
    httpd.server_close()


@pytest.mark.parametrize("tokens", ["123", [{"id": 1}], [1.5], [-1], [True], None])
def test_a_server_that_answers_with_no_ids(
    run: Any, tokens: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = json.dumps({"prompt": "x", "tokens": tokens}).encode()
    monkeypatch.setattr("mypt_lint.template.compare.urlopen", lambda *_, **__: BytesIO(answer))
    status, output = run("http://127.0.0.1:9", "chatml", {"messages": talk(HI, YO)})
    assert (status, "no list of token ids" in output) == (2, True), output


def test_a_server_that_does_not_detokenize(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Any, **_: Any) -> BytesIO:
        if request.full_url.endswith("/tokenize"):
            return BytesIO(b'{"tokens": [1]}')
        raise HTTPError(request.full_url, 404, "", Message(), None)

    monkeypatch.setattr("mypt_lint.template.compare.urlopen", answer)
    _, output = run("http://127.0.0.1:9", "chatml", {"messages": talk(HI, YO)})
    assert "status 404 of http://127.0.0.1:9/detokenize" in output


def test_a_server(run: Any, server: str, request: pytest.FixtureRequest) -> None:
    status, output = run(server, "chatml", {"messages": talk(HI, YO)})
    is_vllm = "vllm" in request.node.name
    assert (status, "bos: at" in output) == (is_vllm, is_vllm), output


def test_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders, patterns and standard input are read; where nothing is, that is a failure."""
    monkeypatch.chdir(tmp_path)
    Path("a.jinja").write_text(PLAIN)
    Path("x.jsonl").write_text(json.dumps(talk(HI, YO)) + "\n")
    with Path("x.jsonl").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        for path in (".", "*.jsonl", "-"):
            assert diff(["a.jinja", "a.jinja", "--", path]) == 0
    assert capsys.readouterr().err.count("1 record compared") == 3
    for text in ("", "{\n[1]\n"):
        Path("x.jsonl").write_text(text)
        assert diff(["a.jinja", "a.jinja", "--", "x.jsonl"]) == 2
        assert "no record to compare" in capsys.readouterr().err
