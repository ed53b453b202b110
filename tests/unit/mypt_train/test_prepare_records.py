"""mypt-prepare and mypt-vocab on records of other tools: the same data as after a conversion."""

from __future__ import annotations

from pathlib import Path

import pytest

from mypt.convert import main as convert
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
from mypt.vocab import main as vocab
from tests.support.build import chat, native, read, write

GPT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def shards(folder: str) -> dict[str, bytes]:
    """Returns the files of the rows by their names."""
    return {path.name: path.read_bytes() for path in (Path(folder) / "train").iterdir()}


def test_the_shards_are_those_of_the_converted_records() -> None:
    path = write("x.jsonl", *[GPT | {"id": i} for i in range(5)])
    assert convert([path, "-o", "made.jsonl", "--to", "gabgpt", "-q"]) == 0
    chosen = ["--dialect", "gabgpt", "-q", "--context-length", "64", "--out"]
    assert prepare([path, *chosen, "a"]) == 0
    assert prepare(["made.jsonl", *chosen, "b"]) == 0
    assert shards("a") == shards("b") != {}


def test_every_record_is_accounted_for(capsys: pytest.CaptureFixture[str]) -> None:
    system = {"conversations": [{"from": "system", "value": "S"}, *GPT["conversations"]]}
    path = write("x.jsonl", GPT, GPT, system, chat(), GPT)
    args = ["--dialect", "gabgpt", "--out", "a", "--on-error", "reject"]
    assert prepare([path, *args]) == 1
    out, err = capsys.readouterr()
    assert "a: 5 lines: 3 written, 2 refused, 0 too long, 0 duplicate" in out
    assert "ShareGPT records (conversations); checked as gabgpt" in err
    rejects = read("a/rejects.jsonl")
    refused = [(r["line"], [f["code"] for f in r["findings"]]) for r in rejects]
    assert refused == [(3, ["MYP114"]), (4, ["MYP113"])]
    assert rejects[0]["findings"][0]["pointer"] == "/conversations/0/value"


def test_preferences_of_other_tools(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [{"prompt": "Hi", "chosen": f"Yo {i}", "rejected": "No"} for i in range(3)]
    path = write("x.jsonl", *pairs)
    args = ["--dialect", "usf-omega", "--preferences", "--context-length", "64"]
    assert prepare([path, "--out", "a", *args]) == 0
    assert "3 lines: 3 written" in capsys.readouterr().out
    assert convert([path, "-o", "made.jsonl", "--to", "usf-omega", "-q"]) == 0
    assert prepare(["made.jsonl", "--out", "b", "--records", "native", *args]) == 0
    assert shards("a") == shards("b") != {}


def test_metadata_is_written_and_what_would_be_lost_is_refused() -> None:
    path = write("x.jsonl", native(), native(grade="A", id=1))
    assert prepare([path, "--out", "a", "-q"]) == 0
    path = write("x.jsonl", native(), native(tools=[]))
    assert prepare([path, "--out", "b", "-q"]) == 2
    Path("mypt-lint.toml").write_text('[metadata]\nkeys = ["tools"]\n')
    assert prepare([path, "--out", "c", "-q"]) == 0


def test_a_vocabulary_of_their_texts() -> None:
    path = write("x.jsonl", *[GPT] * 3)
    assert vocab([path, "--dialect", "gabgpt", "--size", "258", "-o", "v.tiktoken", "-q"]) == 0


def test_records_of_a_shape_need_a_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The linter checks them without one, and says so; nothing can be prepared without one."""
    data = write(tmp_path / "data.jsonl", chat())
    assert lint([data, "--no-config"]) == 0
    run = [data, "--no-config", "--out", str(tmp_path / "out"), "-q"]
    assert prepare(run) == 2
    assert "name one with --dialect" in capsys.readouterr().err
    assert prepare(run[:-1]) == 2
    first = capsys.readouterr().err.partition("\n")[0]
    assert first == f"mypt-prepare: {data}: OpenAI records (messages)", "nobody chose mypt"
    assert prepare([*run, "--dialect", "gabgpt"]) == 0
