"""One reader of settings: what mypt-lint lets pass, the other commands take."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mypt.convert import main as convert
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
from mypt.vocab import main as vocab
from mypt_train import Options, ShardReader
from mypt_train.data.encode_line import Encoder
from tests.support.build import assistant, chat, lines, message, native, user, write
from tests.support.shards import manifest_of


def opted(*codes: str, **more: Any) -> dict[str, Any]:
    return native(**more, _mypt_lint={"ignore": list(codes)})


ROBOT = {"system": "S", **chat(message("robot"))}
TWO = native() | {"messages": native()["messages"] * 2}
THOUGHT = chat(user(), assistant("Yo", think="t"))  # of gabgpt


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lint and prepare records by some settings.

    Returns the exit statuses, and the manifest if there is one.
    """
    monkeypatch.chdir(tmp_path)

    def run(settings: str, *records: Any, options: tuple[str, ...] = ()) -> Any:
        Path("mypt-lint.toml").write_text(settings)
        shutil.rmtree("out", ignore_errors=True)
        write("a.jsonl", *records)
        linted = lint(["a.jsonl", "-q", *options])
        status = prepare(["a.jsonl", "--out", "out", "-q", "--workers", "1", *options])
        return linted, status, manifest_of("out") if status == 0 else None

    return run


@pytest.mark.parametrize(
    ("settings", "record", "options"),
    [
        ('ignore = ["MYP103"]', native(note=1), ()),
        ('[severity]\nunknown-key = "warning"', native(note=1), ()),
        ("", native(note=1), ("--ignore", "MYP103")),
        ("", opted("MYP103", note=1), ()),
        ('ignore = ["MYP301"]', native("Hi <myPT_user>"), ()),
        ('select = ["MYP6"]', native("Hi <myPT_user>", note=1), ()),
        ('phase = 1\n[files."a.jsonl"]\nphase = 3', TWO, ()),
        ('phase = 1\nignore = ["MYP4"]', TWO, ()),
    ],
)  # fmt: skip
def test_what_lints_clean_is_prepared(
    there: Any, settings: str, record: Any, options: tuple[str, ...]
) -> None:
    linted, prepared, manifest = there(settings, record, options=options)
    assert (linted, prepared, manifest["lines"]["written"]) == (0, 0, 1)
    assert there("", {k: v for k, v in record.items() if k != "_mypt_lint"})[:2] in ((1, 2), (0, 0))


@pytest.mark.parametrize(
    ("settings", "record"),
    [
        ('ignore = ["MYP105"]', ROBOT), ("phase = 1", TWO), ("max-tokens = 4", native()),
        ('fail-on = "warning"', native(" ")), ('[severity]\nblank-content = "error"', native(" ")),
        ("", opted("MYP999")),
    ],
)  # fmt: skip
def test_what_does_not_lint_clean_is_refused(there: Any, settings: str, record: Any) -> None:
    assert there(settings, record) == (1, 2, None)


def test_the_manifest_says_what_was_let_pass(there: Any, tmp_path: Path) -> None:
    plain = there("", native())[2]
    assert "settings" not in plain["inputs"][0]
    assert there('format = "concise"\nfail-on = "error"', native())[2] == plain
    lax = there('ignore = ["MYP103"]', native())[2]
    assert lax["inputs"][0].pop("settings") == {"ignore": ["MYP103"]}
    assert lax == plain
    assert len(list(ShardReader(tmp_path / "out").shards())) == 1


def test_other_settings_do_not_go_on_with_a_run(
    there: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["mypt_train.scale.prepare"], "commit", lambda *_: 1 / 0)
        assert there("", native())[1] == 2
    again = ["a.jsonl", "--out", "out", "-q", "--workers", "1", "--resume"]
    assert prepare([*again, "--ignore", "MYP103"]) == 2
    assert "other settings of mypt-lint" in capsys.readouterr().err
    assert prepare(again) == 0


def test_the_dialect_of_the_settings(there: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert there('dialect = "gabgpt"', THOUGHT)[2]["options"]["dialect"] == "gabgpt"
    assert there('dialect = "auto"', THOUGHT)[2]["options"]["dialect"] == "gabgpt"
    assert there('dialect = "gabgpt"', native(), options=("--dialect", "mypt"))[1] == 0
    write("b.jsonl", THOUGHT)
    Path("mypt-lint.toml").write_text('[files."b.jsonl"]\ndialect = "gabgpt"')
    capsys.readouterr()
    assert prepare(["a.jsonl", "b.jsonl", "--out", "new"]) == 2
    errors = capsys.readouterr().err
    assert "a data set holds one dialect: a.jsonl is mypt, b.jsonl is gabgpt" in errors
    assert prepare(["a.jsonl", "b.jsonl", "--out", "new", "--no-config", "-q"]) == 2
    assert "refused" in capsys.readouterr().err


def test_a_byte_order_mark_can_be_ignored(there: Any, tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(b"\xef\xbb\xbf" + lines(native())[0] + b"\r\n")
    (tmp_path / "mypt-lint.toml").write_text('ignore = ["MYP009"]')
    assert lint(["m.jsonl", "-q"]) == prepare(["m.jsonl", "--out", "o", "-q"]) == 0
    (tmp_path / "mypt-lint.toml").write_text('ignore = ["MYP009"]\n[severity]\nMYP010 = "error"')
    assert (lint(["m.jsonl", "-q"]), prepare(["m.jsonl", "--out", "p", "-q"])) == (1, 2)


def test_the_encoder_says_in_words_what_the_settings_hide() -> None:
    outcome = Encoder(Options()).line(lines(ROBOT)[0])
    assert [f.code for f in outcome.findings] == ["MYP105"]


def test_every_command_walks_folders_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the settings exclude, or git ignores, is read by none of them, and named by each."""
    monkeypatch.chdir(tmp_path)
    for name in ("data/a.jsonl", "data/drafts/b.jsonl", "data/old.jsonl", ".git/x"):
        write(name, native() if name == "data/a.jsonl" else "{")
    Path(".gitignore").write_text("old.jsonl\n")
    Path("mypt-lint.toml").write_text('exclude = ["drafts/"]\n')
    for run in (
        lambda *more: lint(["data", *more]),
        lambda *more: vocab(["data", "--size", "257", "-o", "v", *more]),
        lambda *more: prepare(["data", "-o", f"set{len(more)}", "--workers", "1", *more]),
        lambda *more: convert(["data", "-o", "c", "--to", "gabgpt", "--on-loss", "drop", *more]),
    ):
        assert run() == 0
        assert (
            "1 file and 1 folder left out (1 excluded, 1 ignored by git)" in capsys.readouterr().err
        )
        assert run("--no-config") in (1, 2)
        assert "1 file left out (1 ignored by git)" in capsys.readouterr().err
        assert run("-q") == 0
        assert capsys.readouterr().err == ""


def test_a_vocabulary_of_the_dialect_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("a.jsonl", native())
    Path("mypt-lint.toml").write_text('dialect = "mypt-3"\n')
    assert vocab(["a.jsonl", "--size", "257", "-q", "-o", "v"]) == 2
    assert "no dialect 'mypt-3'; did you mean mypt-3b?" in capsys.readouterr().err
    assert vocab(["a.jsonl", "--size", "257", "-q", "-o", "v", "--dialect", "mypt"]) == 0
    Path("mypt-lint.toml").write_text('[files."a.jsonl"]\ndialect = "gabgpt"\n')
    write("b.jsonl", native())
    assert vocab(["a.jsonl", "b.jsonl", "-o", "v"]) == 2
    errors = capsys.readouterr().err
    assert "a vocabulary holds one dialect: a.jsonl is gabgpt, b.jsonl is mypt" in errors


def test_starting_settings_walks_as_the_commands_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file that is not excluded above says which dialect the data is in."""
    (tmp_path / "mypt-lint.toml").write_text('exclude = ["a.jsonl"]\n')
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write("a.jsonl", native())
    write("b.jsonl", THOUGHT)
    assert lint(["init"]) == 0
    assert 'dialect = "gabgpt"' in Path("mypt-lint.toml").read_text()
