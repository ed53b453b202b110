"""One reader of settings: what mypt-lint lets pass, the other commands take."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mypt_convert.cli import main as convert
from mypt_lint.cli import main as lint
from mypt_train import Options, ShardReader
from mypt_train.commands.prepare import main as prepare
from mypt_train.commands.vocab import main as vocab
from mypt_train.data.encode_line import Encoder


def chat(text: str = "Hi", **more: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."}]
    return {"system": "S", "messages": said, **more}


def opted(*codes: str, **more: Any) -> dict[str, Any]:
    return chat(**more, _mypt_lint={"ignore": list(codes)})


ROBOT: dict[str, Any] = {"system": "S", "messages": [{"role": "robot", "content": "Hi"}]}
TWO = chat() | {"messages": chat()["messages"] * 2}


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lint and prepare records by some settings.

    Returns the exit statuses, and the manifest if there is one.
    """
    monkeypatch.chdir(tmp_path)

    def run(settings: str, *records: Any, options: tuple[str, ...] = ()) -> Any:
        (tmp_path / "mypt-lint.toml").write_text(settings)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
        linted = lint(["a.jsonl", "-q", *options])
        made = prepare(["a.jsonl", "--out", "out", "-q", "--workers", "1", *options])
        manifest = tmp_path / "out" / "dataset_metadata.json"
        return linted, made, json.loads(manifest.read_text()) if manifest.exists() else None

    return run


@pytest.mark.parametrize(
    ("settings", "record", "options"),
    [
        ('ignore = ["MYP103"]', chat(note=1), ()),
        ('[severity]\nunknown-key = "warning"', chat(note=1), ()),
        ("", chat(note=1), ("--ignore", "MYP103")),
        ("", opted("MYP103", note=1), ()),
        ('ignore = ["MYP301"]', chat("Hi <myPT_user>"), ()),
        ('select = ["MYP6"]', chat("Hi <myPT_user>", note=1), ()),
        ('phase = 1\n[files."a.jsonl"]\nphase = 3', TWO, ()),
        ('phase = 1\nignore = ["MYP4"]', TWO, ()),
    ],
)  # fmt: skip
def test_what_lints_clean_is_prepared(
    there: Any, settings: str, record: Any, options: tuple[str, ...]
) -> None:
    linted, made, manifest = there(settings, record, options=options)
    assert (linted, made, manifest["lines"]["written"]) == (0, 0, 1)
    assert there("", {k: v for k, v in record.items() if k != "_mypt_lint"})[:2] in (
        (1, 2),
        (0, 0),
    )


@pytest.mark.parametrize(
    ("settings", "record"),
    [
        ('ignore = ["MYP105"]', ROBOT),
        ("phase = 1", TWO),
        ("max-tokens = 4", chat()),
        ('fail-on = "warning"', chat(" ")),
        ('[severity]\nblank-content = "error"', chat(" ")),
        ("", opted("MYP999")),
    ],
)
def test_what_does_not_lint_clean_is_refused(there: Any, settings: str, record: Any) -> None:
    assert there(settings, record) == (1, 2, None)


def test_the_manifest_says_what_was_let_pass(there: Any, tmp_path: Path) -> None:
    plain = there("", chat())[2]
    assert "settings" not in plain["inputs"][0]
    assert there('format = "concise"\nfail-on = "error"', chat())[2] == plain
    lax = there('ignore = ["MYP103"]', chat())[2]
    assert lax["inputs"][0].pop("settings") == {"ignore": ["MYP103"]}
    assert lax == plain
    assert len(list(ShardReader(tmp_path / "out").shards())) == 1


def test_other_settings_do_not_go_on_with_a_run(
    there: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["mypt_train.data.prepare"], "commit_alone", lambda *_: 1 / 0)
        assert there("", chat())[1] == 2
    again = ["a.jsonl", "--out", "out", "-q", "--workers", "1", "--resume"]
    assert prepare([*again, "--ignore", "MYP103"]) == 2
    assert "other settings of mypt-lint" in capsys.readouterr().err
    assert prepare(again) == 0


def test_the_dialect_of_the_settings(there: Any, capsys: pytest.CaptureFixture[str]) -> None:
    record = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo", "think": "t"}]}  # fmt: skip
    assert there('dialect = "gabgpt"', record)[2]["options"]["dialect"] == "gabgpt"
    assert there('dialect = "auto"', record)[2]["options"]["dialect"] == "gabgpt"
    assert there('dialect = "gabgpt"', chat(), options=("--dialect", "mypt"))[1] == 0
    Path("b.jsonl").write_text(json.dumps(record) + "\n")
    Path("mypt-lint.toml").write_text('[files."b.jsonl"]\ndialect = "gabgpt"')
    capsys.readouterr()
    assert prepare(["a.jsonl", "b.jsonl", "--out", "new"]) == 2
    said = capsys.readouterr().err
    assert "a data set holds one dialect: a.jsonl is mypt, b.jsonl is gabgpt" in said
    assert prepare(["a.jsonl", "b.jsonl", "--out", "new", "--no-config", "-q"]) == 2
    assert "refused" in capsys.readouterr().err


def test_a_byte_order_mark_can_be_ignored(there: Any, tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(chat()).encode() + b"\r\n")
    (tmp_path / "mypt-lint.toml").write_text('ignore = ["MYP009"]')
    assert lint(["m.jsonl", "-q"]) == prepare(["m.jsonl", "--out", "o", "-q"]) == 0
    (tmp_path / "mypt-lint.toml").write_text('ignore = ["MYP009"]\n[severity]\nMYP010 = "error"')
    assert (lint(["m.jsonl", "-q"]), prepare(["m.jsonl", "--out", "p", "-q"])) == (1, 2)


def test_the_encoder_says_in_words_what_the_settings_hide() -> None:
    outcome = Encoder(Options()).line(json.dumps(ROBOT).encode())
    assert [f.code for f in outcome.findings] == ["MYP105"]


def test_every_command_walks_folders_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the settings exclude, or git ignores, is read by none of them, and named by each."""
    monkeypatch.chdir(tmp_path)
    for name in ("data/a.jsonl", "data/drafts/b.jsonl", "data/old.jsonl", ".git/x"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(json.dumps(chat()) + "\n" if name == "data/a.jsonl" else "{\n")
    Path(".gitignore").write_text("old.jsonl\n")
    Path("mypt-lint.toml").write_text('exclude = ["drafts/"]\n')
    for run in (
        lambda *more: lint(["data", *more]),
        lambda *more: vocab(["data", "--size", "257", "-o", "v", *more]),
        lambda *more: prepare(["data", "-o", f"set{len(more)}", "--workers", "1", *more]),
        lambda *more: convert(["data", "-o", "c", "--to", "gabgpt", "--on-loss", "drop", *more]),
    ):
        assert run() == 0
        said = capsys.readouterr().err
        assert "1 file and 1 folder left out (1 excluded, 1 ignored by git)" in said
        assert run("--no-config") in (1, 2)
        assert "1 file left out (1 ignored by git)" in capsys.readouterr().err
        assert run("-q") == 0
        assert capsys.readouterr().err == ""


def test_a_vocabulary_of_the_dialect_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text(json.dumps(chat()) + "\n")
    Path("mypt-lint.toml").write_text('dialect = "mypt-3"\n')
    assert vocab(["a.jsonl", "--size", "257", "-q", "-o", "v"]) == 2
    assert "no dialect 'mypt-3'; did you mean mypt-3b?" in capsys.readouterr().err
    assert vocab(["a.jsonl", "--size", "257", "-q", "-o", "v", "--dialect", "mypt"]) == 0
    Path("mypt-lint.toml").write_text('[files."a.jsonl"]\ndialect = "gabgpt"\n')
    Path("b.jsonl").write_text(json.dumps(chat()) + "\n")
    assert vocab(["a.jsonl", "b.jsonl", "-o", "v"]) == 2
    said = capsys.readouterr().err
    assert "a vocabulary holds one dialect: a.jsonl is gabgpt, b.jsonl is mypt" in said


def test_starting_settings_walks_as_the_commands_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file that is not excluded above says which dialect the data is in."""
    (tmp_path / "mypt-lint.toml").write_text('exclude = ["a.jsonl"]\n')
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("a.jsonl").write_text(json.dumps(chat()) + "\n")
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo", "think": "t"}]
    Path("b.jsonl").write_text(json.dumps({"messages": said}) + "\n")
    assert lint(["init"]) == 0
    assert 'dialect = "gabgpt"' in Path("mypt-lint.toml").read_text()
