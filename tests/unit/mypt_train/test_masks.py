"""mypt-prepare --mask: what it stores, and what reads it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main
from mypt.view import main as view
from mypt_spec.encoder import Mask, encode_events
from mypt_spec.episode import events_of
from mypt_train import Options, ShardError, ShardReader
from mypt_train.data.encode_line import Encoder
from mypt_train.data.templates.template import Sample
from mypt_train.training.corpus import open_data
from mypt_train.training.facts import other_mask
from tests.support.build import assistant, call, calls, chat, lines, tool, user
from tests.support.dialects import DIALECTS
from tests.support.examples import examples
from tests.support.shards import manifest_of
from tests.support.strategies import records

MASKS_AND_KINDS = [
    *("trl", "all-assistant", "last", "trl+no-think"),
    *("calls", "answers", "no-empty-think", "trl+answers+last", "no-arguments", "no-failed-calls"),
]
PHASES = "examples/phase*.jsonl"
D = mypt_spec.dialect("mypt")


def prepared(out: Path, *words: str) -> dict[str, Any]:
    assert main([PHASES, "--no-config", "-q", "--out", str(out), *words]) == 0
    return manifest_of(out)


@pytest.mark.parametrize("mask", ["trl", "last+no-think", "calls+no-arguments", "answers+last"])
def test_the_manifest_names_the_mask(
    mask: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual, chosen = prepared(tmp_path / "usual"), prepared(tmp_path / "other", "--mask", mask)
    assert "mask" not in usual["options"], "data by the usual mask keep their bytes"
    assert chosen["options"].pop("mask") == mask
    assert chosen["options"] == usual["options"]
    reader = ShardReader(tmp_path / "other")
    assert (reader.mask, ShardReader(tmp_path / "usual").mask) == (mask, "model")
    for shard, other in zip(reader.shards(), ShardReader(tmp_path / "usual").shards(), strict=True):
        assert shard.ids.tobytes() == other.ids.tobytes()
        assert shard.mask.tobytes() != other.mask.tobytes()
        for ids, loss in shard.episodes():
            episode, _ = D.parse_ids(ids)
            assert episode is not None
            assert loss.tolist() == [0, *D.encode(episode, mask=mask).loss.tolist()[1:]]
    assert lint(["--no-config", str(tmp_path / "other")]) == 0
    with pytest.raises(ShardError, match=f"masked by '{mask.replace('+', '.')}'.*prepare both"):
        open_data([tmp_path / "usual", tmp_path / "other"])
    capsys.readouterr()
    assert view([f"{tmp_path / 'other'}:1", "--mask", "--no-config"]) == 0
    trained = sum(int(shard.mask.sum()) for shard in reader.shards())
    assert chosen["splits"]["train"]["trained_tokens"] == trained


def test_a_block_that_begins_with_another_is_no_empty_one() -> None:
    episode, _ = D.read({"system": "S", **chat(user(), assistant("Yo.", think="Hm."))})
    assert episode is not None
    events = list(events_of(episode.messages, D.table))
    prompted = Mask(prompted=frozenset({"assistant"}))
    both = [encode_events(events, D.table, D.tokenizer, mask) for mask in (Mask(), prompted)]
    assert both[0].loss.tolist() == both[1].loss.tolist()


def test_another_mask_in_the_manifest_is_found(tmp_path: Path) -> None:
    manifest = prepared(tmp_path, "--mask", "trl")
    path = tmp_path / "dataset_metadata.json"
    manifest["options"]["mask"] = "all-assistant"
    path.write_text(json.dumps(manifest))
    assert lint(["--no-config", "--select", "MYP506", str(tmp_path)]) == 1
    manifest["options"]["mask"] = "everything"
    path.write_text(json.dumps(manifest))
    with pytest.raises(ShardError, match="no mask 'everything'; masks are"):
        ShardReader(tmp_path)


def test_rows_for_trainers_are_checked_by_their_mask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared(tmp_path, "--mask", "trl", "--format", "trl")
    run = ["--no-config", "--dialect", "mypt", "--trainer-rows", str(tmp_path / "train")]
    assert lint([*run, "--mask", "trl"]) == 0
    assert lint(run) == 1
    assert "MYP506" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        lint([*run, "--mask", "all"])
    assert "masks are model" in capsys.readouterr().err


def test_view_shows_the_mask_of_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Records are shown with any mask, a prepared folder with its own."""
    asked = {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}
    result = {"role": "toolresult", "name": "find", "content": 1}
    (line,) = lines(chat(user("a"), asked, result, assistant("b"), system="- find(q) - it finds"))
    file = tmp_path / "chats.jsonl"
    file.write_bytes(line + b"\n")
    run = [str(file), "--no-config", "--dialect", "mypt", "--ids"]
    shown = {}
    for mask in ("model", "calls", "answers"):
        assert view([*run, "--mask-name", mask]) == 0
        rows = [row.split() for row in capsys.readouterr().out.splitlines()]
        shown[mask] = {row[1] for row in rows if len(row) > 2 and row[2] == "trained"}
    assert shown["calls"] | shown["answers"] == shown["model"]
    assert "50267" in shown["calls"] - shown["answers"], "the tag of a call"
    assert "50275" in shown["answers"] - shown["calls"], "the end of the turn"
    part = ["--mask-name", "calls+no-arguments"]
    assert view([*run[:-1], "--mask", *part]) == 0
    rows = capsys.readouterr().out.splitlines()
    (at,) = (n for n, row in enumerate(rows) if '"q": "x"' in row)
    marked = [rows[at][i] for i, mark in enumerate(rows[at + 1]) if mark == "^"]
    assert "".join(marked) == '<myPT_toolcall>{"name": "find",</myPT_toolcall></myPT_assistant>'
    capsys.readouterr()
    prepared(tmp_path / "sft", "--mask", "calls,last")
    assert ShardReader(tmp_path / "sft").mask == "calls+last"
    capsys.readouterr()
    assert view([str(tmp_path / "sft"), "--mask-name", "calls", "--no-config"]) == 2
    assert "has the mask of mypt-prepare; remove the option" in capsys.readouterr().err


def test_a_mask_is_checked_before_anything_is_written(tmp_path: Path) -> None:
    run = [PHASES, "--no-config", "-q", "--out", str(tmp_path / "x"), "--mask", "none"]
    assert main(run) == 2
    assert not (tmp_path / "x").exists()
    assert Options(mask="no-think+trl").mask == "trl+no-think"


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=examples(5))
@given(st.data())
def test_templates_have_the_loss_of_the_mask(name: str, data: st.DataObject) -> None:
    """A record seen three times goes through a template, if its skeleton can have one."""
    mask = data.draw(st.sampled_from(MASKS_AND_KINDS))
    record = data.draw(records(name))
    (line,) = lines(record)
    encoder = Encoder(Options(dialect=name, mask=mask, context_length=1 << 16))
    outcomes = [encoder.lines([line])[0] for _ in range(3)]
    episode, _ = mypt_spec.dialect(name).read(record)
    assert episode is not None
    loss = mypt_spec.dialect(name).encode(episode, mask=mask).loss.tolist()
    for outcome in outcomes:
        assert outcome.samples[0].mask.tolist() == [0, *loss[1:]]


def trained_texts(encoder: Encoder, sample: Sample) -> str:
    """Returns the text of the trained tokens of a sample."""
    return encoder.dialect.tokenizer.decode(sample.ids[sample.mask == 1])


@pytest.mark.parametrize("name", ["qwen3", "mypt"])
def test_failed_calls_are_off_where_others_go_through_templates(name: str) -> None:
    """Records of one skeleton, of which some results say that the call failed."""
    results = [
        "4",
        '{"error": "x"}',
        "4",
        '{"\\u0065rror": 1}',
        "Error: no",
        '{"success": false}',
        "4",
    ]
    asked = [calls(call("f", "{}", id="c")), tool("", tool_call_id="c")]
    head: dict[str, Any] = {}
    if name == "mypt":
        asked = [{"role": "assistant_toolcall", "name": "f", "arguments": {}}]
        asked, head = [*asked, {"role": "toolresult", "name": "f"}], {"system": "- f() - it"}
    messages = [[user(), asked[0], asked[1] | {"content": r}, assistant("b")] for r in results]
    data = lines(*(head | chat(*some) for some in messages))
    encoder = Encoder(Options(dialect=name, mask="no-failed-calls"))
    outcomes = encoder.lines(data)
    for raw, outcome, result in zip(data, outcomes, results, strict=True):
        alone = encoder.line(raw).samples[0]
        assert outcome.samples[0].mask.tolist() == alone.mask.tolist()
        assert ('"name": "f"' in trained_texts(encoder, alone)) == (result == "4"), result
    learnt = encoder.chats.chats if encoder.chats else encoder.templates and encoder.templates.memo
    assert learnt is not None
    assert any(learnt.entries.values()), "those without a failure have a template"


def test_a_step_before_the_result_of_a_failed_call_trains_nothing() -> None:
    """With the history per-turn, an episode may end with a call whose result comes later."""
    once = [calls(call("f", "{}", id="c")), tool('{"error": "x"}', tool_call_id="c")]
    again = [calls(call("g", "{}", id="d")), tool("4", tool_call_id="d")]
    record = chat(user(), *once, *again, assistant("b"))
    record["chat_template_kwargs"] = {"enable_thinking": False}
    options = Options(dialect="qwen3", history="per-turn", mask="no-failed-calls")
    encoder = Encoder(options)
    texts = [trained_texts(encoder, sample) for sample in encoder.record(record).samples]
    assert [('"f"' in text, '"g"' in text, "b" in text) for text in texts] == [
        (False, True, False),
        (False, False, True),
    ]


def test_a_model_of_another_mask_is_said() -> None:
    """Of checkpoints that say no mask, it is the usual one; of other programs' models, nothing."""
    model, last = {"data": {}}, {"data": {"mask": "last"}}
    assert other_mask(model, last) == (
        "the model was trained with the mask model, the data has last: other tokens are trained"
    )
    assert "mask last, the data has model" in other_mask(last, model)
    assert [other_mask(a, b) for a, b in ((model, model), (last, last), ({}, last))] == ["", "", ""]
