"""The dialect of a checkpoint: generating, chatting and exporting use the format that the model was
trained on.
"""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest

import mypt_spec
from mypt.chat import main as chat
from mypt.export import main as export
from mypt.generate import main as generate
from mypt.lint.cli import main as lint
from mypt.serve import _service
from mypt.serve import main as serve
from mypt_infer.generate.opened import spoken
from mypt_infer.serve.asked.parameters import Chat, Completion, read
from mypt_model.folder import history_of
from mypt_model.shape import ModelError
from mypt_spec.tokenizer.vocabulary import FILE
from tests.support.build import chat as chat_of
from tests.support.build import contents, user, write
from tests.support.chat_templates import learnt
from tests.support.tiny_models import checkpoint, name_dialect


@pytest.fixture
def says_hi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n"))


def model_of(tmp_path: Path, dialect: str) -> list[str]:
    """Returns the options that name a run of training on a dialect, with one checkpoint."""
    checkpoint(tmp_path / "run" / "step_000001", dialect)
    return ["--model", str(tmp_path / "run")]


def prompt(path: Path, dialect: str) -> list[str]:
    write(path, chat_of(user()) | ({"system": "S"} if dialect == "mypt" else {}))
    return ["--prompt", str(path), "--max-new-tokens", "24", "--seed", "1"]


@pytest.mark.parametrize("dialect", ["mypt", "mypt-3b", "gabgpt"])
def test_generating_uses_the_dialect_of_the_checkpoint(
    dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = model_of(tmp_path, dialect) + prompt(tmp_path / "p.json", dialect)
    assert generate([*options, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert mypt_spec.dialect(dialect).read(written["record"])[0] is not None
    assert generate([*options, "--json", "--dialect", dialect]) == 0
    assert json.loads(capsys.readouterr().out)["ids"] == written["ids"]
    assert generate([*options, "--dialect", "praxis"]) == 2
    err = capsys.readouterr().err
    assert f"was trained on {dialect}, not on praxis" in err
    assert "leave --dialect out" in err


def test_a_checkpoint_that_does_not_say_is_of_mypt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = checkpoint(tmp_path / "model", named=False)
    options = ["--model", str(model), *prompt(tmp_path / "p.json", "mypt")]
    assert generate([*options, "--raw"]) == 0
    assert capsys.readouterr().out.endswith("<myPT_eot>")
    other = ["--model", str(model), *prompt(tmp_path / "g.json", "gabgpt"), "--dialect", "gabgpt"]
    assert generate([*other, "--raw"]) == 0
    assert capsys.readouterr().out.endswith("<|end|>")
    for facts in ("{", "[]", '{"data": 1}'):
        (model / "trainer.json").write_text(facts)
        assert generate(options) == (0 if "data" in facts else 2)
    capsys.readouterr()
    name_dialect(model, "another")
    assert generate(options) == 2
    assert "no dialect 'another'" in capsys.readouterr().err


def test_exporting_uses_the_dialect_of_the_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(checkpoint(tmp_path / "3b", "mypt-3b"))
    assert export([model, str(tmp_path / "own")]) == 0
    settings = json.loads((tmp_path / "own/generation_config.json").read_bytes())
    assert settings["stop_strings"] == ["</assistant>"]  # no tag is an id there
    assert export([model, str(tmp_path / "out"), "--dialect", "mypt"]) == 2
    assert "was trained on mypt-3b, not on mypt" in capsys.readouterr().err
    assert export([str(checkpoint(tmp_path / "mypt")), str(tmp_path / "out")]) == 0


@pytest.mark.parametrize("dialect", ["mypt", "chatml"])
def test_an_exported_model_says_its_dialect(dialect: str, tmp_path: Path) -> None:
    assert export([str(checkpoint(tmp_path / "model", dialect)), "-o", str(tmp_path / "out")]) == 0
    assert spoken(tmp_path / "out", choice=None)[0] == dialect
    with pytest.raises(ModelError, match=f"was trained on {dialect}, not on praxis"):
        spoken(tmp_path / "out", choice="praxis")


@pytest.mark.usefixtures("says_hi")
@pytest.mark.parametrize("dialect", ["mypt", "mypt-3b", "gabgpt", "praxis"])
def test_a_chat_uses_the_dialect_of_the_checkpoint(
    dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    options = [*model_of(tmp_path, dialect), "--max-tokens", "30", "--seed", "1"]
    assert chat([*options, "--transcript", str(path)]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.startswith("assistant> ")
    assert lint([str(path), "--dialect", dialect, "--quiet"]) == 0
    assert len(json.loads(path.read_text())["messages"]) >= 2
    assert chat([*options, "--dialect", "usf-omega"]) == 2
    assert f"was trained on {dialect}, not on usf-omega" in capsys.readouterr().err


def test_the_workspace_chat_of_phase_3b(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line of the document, section F, word by word after the name of the script."""
    checkpoint(tmp_path / "mypt_toolchat.pt" / "step_000001", "mypt-3b")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "policy.txt").write_text("Passwords have twelve characters.\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n/tools\n"))
    line = "--model_ckpt mypt_toolchat.pt --workspace_dir workspace/ --index_dir workspace/index/latest"
    assert chat(line.split()) == 0
    out = capsys.readouterr().out
    assert out.startswith("assistant> ")
    assert "workspace.search(query, top_k=5)" in out
    assert (tmp_path / "workspace" / "index" / "latest" / "current").exists()
    (tmp_path / "pickled.pt").write_bytes(b"PK")
    assert chat(["--model_ckpt", "pickled.pt"]) == 2
    assert "pickled.pt is a file; expected a folder with config.json" in capsys.readouterr().err


@pytest.mark.parametrize("dialect", ["mypt", "gabgpt"])
def test_auto_is_the_dialect_of_the_checkpoint(
    dialect: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Generating, chatting and exporting do the same with it as without `--dialect`."""
    model = model_of(tmp_path, dialect)
    once = [*model, *prompt(tmp_path / "p.json", dialect), "--json"]
    talk = [*model, "--seed", "1", "--max-tokens", "30", "--context-length", "200"]
    done = []
    for name, more in {"usual": [], "auto": ["--dialect", "auto"]}.items():
        out, record = tmp_path / name, tmp_path / f"{name}.jsonl"
        monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n"))
        assert generate([*once, *more]) == 0
        assert chat([*talk, "--transcript", str(record), *more]) == 0
        status = export([model[1], "-o", str(out), *more])
        printed, err = capsys.readouterr()
        done.append((printed.replace(str(out), ""), err, status, contents(out)))
        assert mypt_spec.dialect(dialect).read(json.loads(record.read_text()))[0] is not None
    assert done[0] == done[1]
    assert "chat_template.jinja" in done[1][3]


def test_a_model_of_another_program_has_its_vocabulary_beside_it(tmp_path: Path) -> None:
    """The `tokenizer.json` of its folder is read without --vocab; a checkpoint of ours has a copy."""
    model = checkpoint(tmp_path / "model", "chatml", named=False)
    (model / FILE).unlink()
    library, wanted = learnt("chatml")
    library.save(str(model / "tokenizer.json"))
    with pytest.raises(ModelError, match=r"no tag of mypt; name the format with --dialect"):
        spoken(model, choice=None)
    _, spoken_dialect = spoken(model, choice="chatml")
    text = "Hello, how are you?"
    ids = library.encode(text, add_special_tokens=False).ids
    assert spoken_dialect.tokenizer.encode(text) == ids == wanted.tokenizer.encode(text)
    assert spoken_dialect.table.special == wanted.table.special
    name_dialect(model, "chatml")
    assert spoken(model, choice=None)[1].vocabulary is None, "of training: on the dialect's"


@pytest.mark.parametrize("history", ["official", "keep"])
def test_thoughts_of_earlier_turns_are_in_prompts_as_they_were_trained(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_of(tmp_path, "qwen3")
    trainer = tmp_path / "run" / "step_000001" / "trainer.json"
    facts = json.loads(trainer.read_bytes())
    facts["data"] |= {"history": "keep"} if history == "keep" else {}
    trainer.write_text(json.dumps(facts))
    assert export([model[1], "-o", str(tmp_path / "out")]) == 0
    assert history_of(tmp_path / "out") == history
    answer = {"role": "assistant", "reasoning_content": "Old one.", "content": "Hello."}
    messages = [user("Hi"), answer, user("And?")]
    record = json.dumps({"messages": messages})
    (tmp_path / "p.json").write_text(record)
    capsys.readouterr()
    once = ["--prompt", str(tmp_path / "p.json"), "--max-new-tokens", "24", "--json"]
    assert generate([*model, *once]) == 0
    said = json.loads(capsys.readouterr().out)["record"]["messages"][1]
    prompts = ["Old one." if said.get("reasoning_content") else ""]
    service = _service(serve.parser().parse_args(model))
    try:
        of_chat = read(Chat, {"model": "run", "messages": messages})
        of_text = read(Completion, {"model": "run", "prompt": record})
        for running in (asyncio.run(service.chat(of_chat)), asyncio.run(service.complete(of_text))):
            (prompt,) = running.prompts
            prompts.append(service.dialect.tokenizer.decode(prompt.ids))
    finally:
        service.close()
    assert ["Old one." in text for text in prompts] == [history == "keep"] * 3
