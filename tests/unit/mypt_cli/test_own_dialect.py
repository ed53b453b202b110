"""Every command that has `--dialect` takes a folder of one's own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mypt.convert import main as convert
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
from mypt.view import main as view
from mypt_model.folder import dialect_of
from mypt_model.shape import ModelError
from mypt_train.data.reader import ShardReader
from mypt_train.data.shard import ShardError
from tests.support.build import assistant, chat, message, read, user, write
from tests.support.own_folders import GABGPT_RECORDS, TOY_RECORDS, write_folder

ROOT = Path(__file__).resolve().parents[3]
GOOD = chat(message("ask", "q?"), message("answer", "Yes."))
BAD = chat(message("ask", "q?"), {"role": "answer", "contnt": "Yes."})
NO_NAME = r"'\./my_toy' is a folder; only a name is taken from data"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_folder(tmp_path, "toy", TOY_RECORDS)
    write(tmp_path / "good.jsonl", GOOD)
    write(tmp_path / "bad.jsonl", BAD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_lint(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(["good.jsonl", "--dialect", "./my_toy"]) == 0
    assert lint(["bad.jsonl", "--dialect", "./my_toy"]) == 1
    assert 'did you mean "content"?' in capsys.readouterr().out


def test_lint_by_the_settings(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is relative to the file of settings."""
    (here / "mypt-lint.toml").write_text('dialect = "./my_toy"\n')
    assert lint(["good.jsonl"]) == 0
    assert lint(["bad.jsonl"]) == 1
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    assert lint(["../good.jsonl"]) == 0


def test_settings_run_no_code(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who lints a checkout does not run what its settings name."""
    (here / "mypt-lint.toml").write_text('dialect = "./my_toy"\n')
    (here / "my_toy/records.toml").unlink()
    (here / "my_toy/adapter.py").write_text("raise SystemExit('run')")
    assert lint(["good.jsonl"]) == 2
    assert "which only the command line may run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("my_toy", "a folder of your own has a slash: ./my_toy"),
        ("./nothing", "nothing: is not a folder"),
        ("./unread", "reading records needs records.toml; add it"),
    ],
)
def test_a_wrong_folder(
    here: Path, capsys: pytest.CaptureFixture[str], given: str, said: str
) -> None:
    shutil.copytree(here / "my_toy", here / "unread")
    (here / "unread/records.toml").unlink()
    assert lint(["good.jsonl", "--dialect", given]) == 2
    assert said in capsys.readouterr().err


def test_view(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert view(["good.jsonl", "--dialect", "./my_toy"]) == 0
    assert "my-toy" in capsys.readouterr().out


def test_prepared_data_needs_no_other_folder(here: Path, tmp_path: Path) -> None:
    assert prepare(["good.jsonl", "--dialect", "./my_toy", "-o", "out", "-q", "-j", "2"]) == 0
    (here / "my_toy").rename(here / "gone")
    manifest = json.loads((here / "out/dataset_metadata.json").read_bytes())
    assert manifest["options"]["dialect"] == "my-toy"
    (shard,) = ShardReader(here / "out").shards("train")
    ((ids, mask),) = shard.episodes()
    dialect = ShardReader(here / "out").dialect
    assert dialect.parse_ids(ids)[0] == dialect.read(GOOD)[0]
    assert dialect.tokenizer.decode(ids[mask == 1]) == "<<answer>>Yes.<</answer>><<stop>>"


def test_the_dialect_of_a_model(here: Path) -> None:
    """It is the grammar in the checkpoint; another one is refused."""
    model, own = here / "model", here / "my_toy"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "trainer.json").write_text(json.dumps({"data": {"dialect": "my-toy"}}))
    for file in own.iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    assert dialect_of(model, choice=None, default="mypt") == f"{model.as_posix()}/"
    assert dialect_of(model, choice="my-toy", default="mypt") == f"{model.as_posix()}/"
    assert dialect_of(model, choice="./my_toy", default="mypt") == "./my_toy"
    (model / "adapter.py").write_text("raise SystemExit('run')")
    with pytest.raises(ModelError, match="came with the model and is not run"):
        dialect_of(model, choice=None, default="mypt")
    other = write_folder(here, "gabgpt", GABGPT_RECORDS)
    for wanted in ("mypt", str(other)):
        with pytest.raises(ModelError, match="was trained on my-toy, not on"):
            dialect_of(model, choice=wanted, default="mypt")


@pytest.fixture
def trap(here: Path) -> str:
    """A folder whose adapter.py says that it was run, as data may name it."""
    (here / "my_toy/records.toml").unlink()
    (here / "my_toy/adapter.py").write_text("raise SystemExit('run')")
    return "./my_toy"


def test_data_names_no_code(here: Path, trap: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Who lints, views or trains on data does not run what its manifest names."""
    write("chat.jsonl", chat())
    assert prepare(["chat.jsonl", "--dialect", "chatml", "-o", "out", "-q"]) == 0
    manifest = here / "out/dataset_metadata.json"
    text = manifest.read_text().replace('"dialect": "chatml"', f'"dialect": "{trap}"')
    assert trap in text
    manifest.write_text(text)
    assert lint(["out"]) == 1
    assert "only a name is taken from data" in capsys.readouterr().out
    assert view(["out"]) == 2
    with pytest.raises(ShardError, match=NO_NAME):
        _ = ShardReader(here / "out").dialect


def test_a_model_names_no_code(here: Path, trap: str) -> None:
    model = here / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "trainer.json").write_text(json.dumps({"data": {"dialect": trap}}))
    with pytest.raises(ModelError, match=NO_NAME):
        dialect_of(model, choice=None, default="mypt")


def test_conversion_says_that_it_knows_no_such_records(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose roles nobody knows."""
    assert convert(["good.jsonl", "--from", "./my_toy", "--to", "mypt", "-o", "x.jsonl"]) == 2
    assert "./my_toy: no role of its records is user and assistant" in capsys.readouterr().err
    assert convert(["good.jsonl", "--from", "./none", "--to", "mypt", "-o", "x.jsonl"]) == 2
    assert "none: is not a folder" in capsys.readouterr().err


def test_records_of_a_folder_are_converted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each kind of records.toml; what the target has no place for is a loss."""
    assert lint(["new-dialect", "./tutor"]) == 0
    tutor = chat(user("u"), assistant("a", think="t"))
    given = [write("t.jsonl", tutor), "--from", "./tutor"]
    assert convert([*given, "--to", "qwen3", "-o", "q.jsonl"]) == 0
    assert read("q.jsonl") == [chat(user("u"), assistant("a", reasoning_content="t"))]
    assert convert([*given, "--to", "chatml", "-o", "c.jsonl"]) == 1
    assert "would lose" in capsys.readouterr().err
    assert convert(["q.jsonl", "--from", "qwen3", "--to", "./tutor", "-o", "back.jsonl"]) == 0
    assert read("back.jsonl") == [tutor]
    plain, example = chat(user("u"), assistant("a")), "mistral-v11"
    write("m.jsonl", plain)
    assert convert(["m.jsonl", "--from", example, "--to", "chatml", "-o", "n.jsonl"]) == 0
    assert read("n.jsonl") == [plain]
