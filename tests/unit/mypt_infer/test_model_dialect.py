"""The dialect of a checkpoint: generating, chatting and exporting use the format that the model was
trained on.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import mypt_spec
from mypt_infer.chat.cli import main as chat
from mypt_infer.generate.cli import main as generate
from mypt_lint.cli import main as lint
from mypt_train.commands.export import main as export

SHAPE = {
    "vocab_size": 50304,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 700,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A checkpoint with random weights, in the output of a run."""
    pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    from mypt_infer.generate.llama import LlamaConfig, random_model

    folder = tmp_path / "run" / "step_000001"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(SHAPE | {"model_type": "llama"}))
    safetensors.save_file(
        random_model(LlamaConfig(**SHAPE)).weights,  # type: ignore[arg-type]
        folder / "model.safetensors",
    )
    return folder


def trained_on(model: Path, dialect: str) -> list[str]:
    (model / "trainer.json").write_text(
        json.dumps({"schema": "mypt_checkpoint", "version": 1, "data": {"dialect": dialect}})
    )
    return ["--model", str(model.parent)]


def prompt(path: Path, dialect: str) -> list[str]:
    record = {"messages": [{"role": "user", "content": "Hi"}]}
    record |= {"system": "S"} if dialect == "mypt" else {}
    path.write_text(json.dumps(record))
    return ["--prompt", str(path), "--max-new-tokens", "24", "--seed", "1"]


@pytest.mark.parametrize("dialect", ["mypt", "mypt-3b", "gabgpt"])
def test_generating_uses_the_dialect_of_the_checkpoint(
    dialect: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = trained_on(model, dialect) + prompt(tmp_path / "p.json", dialect)
    assert generate([*options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert mypt_spec.dialect(dialect).read(found["record"])[0] is not None
    assert generate([*options, "--json", "--dialect", dialect]) == 0
    assert json.loads(capsys.readouterr().out)["ids"] == found["ids"]
    other = "praxis"
    assert generate([*options, "--dialect", other]) == 2
    told = capsys.readouterr().err
    assert f"was trained on {dialect}, not on {other}" in told
    assert "leave --dialect out" in told


def test_a_checkpoint_that_does_not_say_is_of_mypt(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", str(model)]
    assert generate([*options, *prompt(tmp_path / "p.json", "mypt"), "--raw"]) == 0
    assert capsys.readouterr().out.endswith("<myPT_eot>")
    given = [*prompt(tmp_path / "p.json", "gabgpt"), "--raw", "--dialect", "gabgpt"]
    assert generate(options + given) == 0
    assert capsys.readouterr().out.endswith("<|end|>")
    for facts in ("{", "[]", '{"data": 1}'):
        (model / "trainer.json").write_text(facts)
        status = generate([*options, *prompt(tmp_path / "p.json", "mypt")])
        assert status == (2 if facts == "{" else 0)
    capsys.readouterr()
    trained_on(model, "another")
    assert generate([*options, *prompt(tmp_path / "p.json", "mypt")]) == 2
    assert "no dialect 'another'" in capsys.readouterr().err


def test_exporting_uses_the_dialect_of_the_checkpoint(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mypt_train.commands.export import main as export

    trained_on(model, "mypt-3b")
    assert export([str(model), str(tmp_path / "own")]) == 0
    settings = json.loads((tmp_path / "own/generation_config.json").read_bytes())
    assert settings["stop_strings"] == ["</assistant>"]  # no tag is an id there
    assert export([str(model), str(tmp_path / "out"), "--dialect", "mypt"]) == 2
    assert "was trained on mypt-3b, not on mypt" in capsys.readouterr().err
    trained_on(model, "mypt")
    assert export([str(model), str(tmp_path / "out")]) == 0


@pytest.mark.parametrize("dialect", ["mypt", "mypt-3b", "gabgpt", "praxis"])
def test_a_chat_uses_the_dialect_of_the_checkpoint(
    dialect: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "t.jsonl"
    options = [*trained_on(model, dialect), "--max-tokens", "30", "--seed", "1"]
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n"))
    assert chat([*options, "--transcript", str(path)]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.startswith("assistant> ")
    assert lint([str(path), "--dialect", dialect, "--quiet"]) == 0
    assert len(json.loads(path.read_text())["messages"]) >= 2
    assert chat([*options, "--dialect", "usf-omega"]) == 2
    assert f"was trained on {dialect}, not on usf-omega" in capsys.readouterr().err


def test_the_workspace_chat_of_phase_3b(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command line of the document, section F, word by word after the name of the script."""
    trained_on(model, "mypt-3b")
    model.parent.rename(tmp_path / "mypt_toolchat.pt")
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
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Generating, chatting and exporting do the same with it as without `--dialect`."""
    options = trained_on(model, dialect)
    asked = [*options, *prompt(tmp_path / "p.json", dialect), "--json"]
    talk = [*options, "--seed", "1", "--max-tokens", "30", "--context-length", "200"]
    done = []
    for name, more in {"usual": [], "auto": ["--dialect", "auto"]}.items():
        out, record = tmp_path / name, tmp_path / f"{name}.jsonl"
        monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n"))
        assert generate([*asked, *more]) == 0
        assert chat([*talk, "--transcript", str(record), *more]) == 0
        status = export([str(model.parent), "-o", str(out), *more])
        files = {path.name: path.read_bytes() for path in out.glob("*")}
        said = capsys.readouterr()
        done.append((said.out.replace(str(out), ""), said.err, status, files))
        assert mypt_spec.dialect(dialect).read(json.loads(record.read_text()))[0] is not None
    assert done[0] == done[1]
    assert "chat_template.jinja" in done[1][3]


def test_a_model_of_another_program_has_its_vocabulary_beside_it(model: Path) -> None:
    """The `tokenizer.json` of its folder is read without --vocab; a checkpoint of ours has a copy."""
    pytest.importorskip("tokenizers", reason="reads tokenizer.json")
    from mypt_infer.generate.opened import spoken
    from tests.property.test_chat_templates import trained

    library, wanted = trained("chatml", str(model))
    _, found = spoken(model.parent, wanted="chatml")
    text = "Hello, how are you?"
    ids = library.encode(text, add_special_tokens=False).ids
    assert found.tokenizer.encode(text) == ids == wanted.tokenizer.encode(text)
    assert found.table.special == wanted.table.special
    trained_on(model, "chatml")
    assert spoken(model.parent, wanted=None)[1].vocabulary is None, "of training: on the dialect's"
