"""The entry of a data set for axolotl, LLaMA-Factory and ms-swift: fields that each of them has."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mypt.export import main as export
from mypt.prepare.cli import main as prepare
from tests.support.build import call, tool
from tests.support.shapes import HI, YO, gpt, talk
from tests.support.shards import ROOT
from tests.support.stand_in import stand_in

# Fields of SFTDataset (axolotl 0.19), of DatasetAttr and its columns and tags (LLaMA-Factory 0.9.5), and of DatasetMeta
# (ms-swift 4.6), as far as entries have them.
FIELDS = {
    "axolotl": {"path", "ds_type", "type", "field", "field_messages", "message_property_mappings", "field_tools", "field_thinking", "template_thinking_key", "message_field_training"},
    "llamafactory": {"file_name", "formatting", "columns", "tags"},
    "swift": {"dataset_name", "dataset_path"},
}  # fmt: skip
COLUMNS = {"prompt", "query", "response", "history", "messages", "system", "tools", "images", "videos", "audios", "chosen", "rejected", "kto_tag"}  # fmt: skip
TAGS = {"role_tag", "content_tag", "user_tag", "assistant_tag", "observation_tag", "function_tag", "system_tag"}  # fmt: skip
FILES = {"axolotl": "axolotl.yaml", "llamafactory": "dataset_info.json", "swift": "swift_datasets.json"}  # fmt: skip
THINKING = [*talk(HI), {"role": "assistant", "content": "Yo", "reasoning_content": "T", "train": True}]  # fmt: skip


def entries(folder: Path, record: Any, *trainers: str) -> dict[str, dict[str, Any]]:
    data = folder / "chats.v1.jsonl"
    data.write_text(json.dumps(record) + "\n")
    assert export([str(data), "--for", ",".join(trainers), "-o", str(folder / "out")]) == 0
    texts = {name: (folder / "out" / FILES[name]).read_text() for name in trainers}
    return {name: entry(text) for name, text in texts.items()}


def entry(text: str) -> dict[str, Any]:
    (value,) = yaml_entries(text)
    return value


def yaml_entries(text: str) -> list[dict[str, Any]]:
    """Returns the entries of a file; of YAML, JSON after the key of its last line."""
    line = text.splitlines()[-1].removeprefix("datasets: ")
    value = json.loads(line)
    return list(value.values()) if isinstance(value, dict) else value


@pytest.mark.parametrize(
    "record",
    [
        {"messages": talk(HI, YO), "tools": []},
        {"messages": THINKING},
        gpt(("human", "Hi"), ("gpt", "Yo"), system="S"),
        {"instruction": "Hi", "input": "", "output": "Yo"},
    ],
)
def test_entries_have_fields_of_the_trainer(tmp_path: Path, record: dict[str, Any]) -> None:
    for name, value in entries(tmp_path, record, *FIELDS).items():
        assert value.keys() <= FIELDS[name]
        assert value.get("columns", {}).keys() <= COLUMNS
        assert value.get("tags", {}).keys() in (set(), TAGS)
        assert str(tmp_path / "chats.v1.jsonl") in value.values()


def test_keys_of_records_are_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Thoughts and weights that a trainer reads are in the entry; what it does not read is said."""
    made = entries(tmp_path, {"messages": THINKING, "tools": []}, *FIELDS)
    assert made["axolotl"]["field_tools"] == made["llamafactory"]["columns"]["tools"] == "tools"
    assert made["axolotl"]["template_thinking_key"] == "reasoning_content"
    assert made["axolotl"]["message_field_training"] == "train"
    stderr = capsys.readouterr().err
    assert 'llamafactory does not read the key "reasoning_content" of 1 message' in stderr
    assert "axolotl does not" not in stderr


def test_axolotl_maps_keys_that_templates_read_in_macros(tmp_path: Path) -> None:
    """It drops keys of messages that it does not see in a template, such as those that a macro reads."""
    called = {"role": "assistant", "reasoning_content": "T", "tool_calls": [call("f", {"q": 1})]}
    record = {"messages": [*talk(HI), called, tool("1", tool_call_id="1"), *talk(YO)]}
    mapped = entries(tmp_path, record, "axolotl")["axolotl"]["message_property_mappings"]
    names = ["role", "content", "reasoning_content", "tool_calls", "tool_call_id"]
    assert mapped == {name: name for name in names}


@pytest.mark.parametrize(
    ("weights", "read"),
    [({"loss": False}, "loss"), ({"weight": 0, "loss": False}, "weight"), ({"train": False, "weight": 0}, "train")],
)  # fmt: skip
def test_axolotl_reads_one_key_of_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], weights: dict[str, Any], read: str
) -> None:
    record = {"messages": [*talk(HI), {"role": "assistant", "content": "Yo"} | weights]}
    assert entries(tmp_path, record, "axolotl")["axolotl"]["message_field_training"] == read
    notes = [f'does not read the key "{key}" of 1 message' for key in weights if key != read]
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"mypt-export: axolotl {note}" for note in notes]


@pytest.mark.parametrize(
    ("content", "arguments", "notes"),
    [("", {"q": None}, 1), (None, {"q": 1}, 1), ("", '{"q": null}', 0), ('"x": null', {}, 0)],
)
def test_nulls_that_axolotl_drops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: Any, arguments: Any, notes: int
) -> None:
    called = {"role": "assistant", "content": content, "tool_calls": [call("f", arguments)]}
    entries(tmp_path, {"messages": [*talk(HI), called, tool("1"), *talk(YO)]}, "axolotl", "swift")
    says = 'axolotl drops null (write "" as content, and arguments as JSON text): in 1 message'
    assert capsys.readouterr().err.splitlines() == notes * [f"mypt-export: {says}"]


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.ndjson"])
def test_files_whose_ending_a_trainer_does_not_know(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps({"messages": talk(HI, YO)}).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    for trainer, status in (("axolotl", 0), ("swift", 2), ("llamafactory", 2)):
        out = str(tmp_path / trainer)
        assert export([str(tmp_path / name), "--for", trainer, "-o", out]) == status
        said = f"{trainer} cannot load {Path(name).suffix} files; write .jsonl"
        assert (said in capsys.readouterr().err) == (status == 2)


@pytest.mark.extra("pyarrow")
def test_the_type_of_a_table(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist([{"messages": talk(HI, YO)}]), tmp_path / "x.parquet")
    assert export([str(tmp_path / "x.parquet"), "--for", "axolotl", "-o", str(tmp_path / "o")]) == 0
    assert entry((tmp_path / "o" / "axolotl.yaml").read_text())["ds_type"] == "parquet"


def test_arguments_that_a_trainer_would_quote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LLaMA-Factory 0.9.5 writes arguments by `json.dumps`, those that are JSON text as well."""
    says = "llamafactory would train arguments of calls as one quoted string, because they are JSON text"
    says += " (mypt-convert --to qwen3 writes objects): in 1 message"
    for arguments, notes in (('{"q": 1}', 1), ({"q": 1}, 0)):
        called = {"role": "assistant", "tool_calls": [call("f", arguments)]}
        messages = [*talk(HI), called, tool("1"), *talk(YO)]
        folder = tmp_path / str(notes)
        folder.mkdir()
        entries(folder, {"messages": messages, "tools": []}, *FIELDS)
        lines = capsys.readouterr().err.splitlines()
        assert [line for line in lines if "arguments" in line] == notes * [f"mypt-export: {says}"]


def test_roles_that_a_trainer_does_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Axolotl leaves them to the template, which may write nothing; the others drop the record."""
    turns = [("human", "Hi"), ("function_call", "{}"), ("observation", "1"), ("gpt", "Yo")]
    entries(tmp_path, gpt(*turns), *FIELDS)
    notes = [f'does not read the role "{role}" of 1 message' for role, _ in turns[1:3]]
    assert capsys.readouterr().err.splitlines() == [f"mypt-export: axolotl {n}" for n in notes]
    record = {"messages": [{"role": "developer", "content": "D"}, *talk(HI, YO)]}
    (tmp_path / "2").mkdir()
    entries(tmp_path / "2", record, *FIELDS)
    says = 'does not read the role "developer" of 1 message'
    lines = [f"mypt-export: {name} {says}" for name in ("llamafactory", "swift")]
    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize(
    ("record", "tags", "notes"),
    [
        (gpt(("user", "Hi"), ("assistant", "Yo")), ("user", "assistant", "from", "value"), 0),
        (gpt(("human", "Hi"), ("gpt", "Yo")), ("human", "gpt", "from", "value"), 0),
        ({"conversations": talk(HI, YO)}, ("user", "assistant", "role", "content"), 0),
        (gpt(("human", "Hi"), ("gpt", "Yo"), ("user", "Hi"), ("gpt", "Yo")), ("user", "gpt", "from", "value"), 1),
    ],
)  # fmt: skip
def test_roles_of_records_are_tags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: Any, tags: Any, notes: int
) -> None:
    """LLaMA-Factory drops records with roles, or keys of messages, that the entry does not name."""
    made = entries(tmp_path, record, "llamafactory")["llamafactory"]["tags"]
    keys = ("user_tag", "assistant_tag", "role_tag", "content_tag")
    assert tuple(made[key] for key in keys) == tags
    says = notes * ['mypt-export: llamafactory does not read the role "human" of 1 message']
    assert capsys.readouterr().err.splitlines() == says


def test_null_as_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside calls, LLaMA-Factory and ms-swift do not read it."""
    null = {"role": "assistant", "content": None}
    for messages, count in (([*talk(HI), null], 1), ([*talk(HI), null | {"tool_calls": [call("f", {})]}, tool("1"), *talk(YO)], 0)):  # fmt: skip
        (folder := tmp_path / str(count)).mkdir()
        entries(folder, {"messages": messages}, "llamafactory", "swift")
        lines = [line for line in capsys.readouterr().err.splitlines() if "null" in line]
        assert lines == count * [f"mypt-export: {n} fails at null as the content of 1 message" for n in ("llamafactory", "swift")]  # fmt: skip


def test_prepared_rows(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows", tmp_path / "out"
    prepare([str(ROOT / "examples" / "phase1.jsonl"), "--format", "axolotl", "-o", str(rows), "-q"])
    assert export([str(rows), "--for", "axolotl", "-o", str(out)]) == 0
    made = entry((out / "axolotl.yaml").read_text())
    assert made == {"path": str(rows / "train"), "ds_type": "json"}
    assert export([str(rows), "--for", "swift", "-o", str(tmp_path / "swift")]) == 2


@pytest.mark.parametrize(
    ("record", "names", "message"),
    [
        ({"prompt": "x"}, "swift", "prompts without answers"),
        ({"x": 1}, "swift", "no records that are known"),
        ({"messages": talk(HI, YO)}, "swift,vllm", "no server beside it"),
        ({"messages": talk(HI, YO)}, "trl", "known are"),
    ],
)
def test_what_cannot_be_an_entry(
    tmp_path: Path, record: Any, names: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "x.jsonl"
    data.write_text(json.dumps(record))
    assert export([str(data), "--for", names, "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.extra("axolotl")
def test_axolotl_takes_the_entry(tmp_path: Path) -> None:
    from axolotl.utils.schemas.datasets import SFTDataset

    for i, record in enumerate([{"messages": THINKING, "tools": []}, {"instruction": "Hi", "input": "", "output": "Yo"}]):  # fmt: skip
        folder = tmp_path / str(i)
        folder.mkdir()
        made = entries(folder, record, "axolotl")["axolotl"]
        read = SFTDataset.model_validate(made).model_dump()
        assert {key: read[key] for key in made} == made


@pytest.mark.extra("axolotl")
def test_axolotl_keeps_what_a_macro_reads(tmp_path: Path) -> None:
    theirs = pytest.importorskip("axolotl.prompt_strategies.chat_template")
    from axolotl.utils.dict import DictDefault

    template = "{% macro f(m) %}{{ m.reasoning_content }}{{ m.tool_calls }}{% endmacro %}"
    template += (
        "{% for m in messages %}{{ m.role }}{{ m.content }}{{ f(m) }}{{ eos_token }}{% endfor %}"
    )
    called = {"role": "assistant", "reasoning_content": "T", "tool_calls": [call("f", {"q": 1})]}
    record = {"messages": [*talk(HI), called, tool("1", tool_call_id="1"), *talk(YO)]}
    made = entries(tmp_path, record, "axolotl")["axolotl"]
    _, library = stand_in(tmp_path, template, set(), {"eos_token": "</s>"})
    settings = {"sequence_len": 64, "chat_template": "tokenizer_default"}
    strategy = theirs.load(library, DictDefault(settings), DictDefault(made))
    assert strategy.get_conversation_thread(record) == record["messages"]
