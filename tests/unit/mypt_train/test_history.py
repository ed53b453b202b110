"""mypt-prepare --history: what it stores and reports, and what reads it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main
from mypt.view import main as view
from mypt_cli.jsonl.paths import expand
from mypt_train import Options, ShardReader
from mypt_train.data.encode_line import Encoder
from mypt_train.scale.prepare import prepare
from mypt_train.training.facts import facts_of_run
from mypt_train.training.parts.config import Config
from tests.support.build import assistant, call, calls, chat, lines, read, tool, user, write
from tests.support.shards import manifest_of

D = mypt_spec.dialect("qwen3")
QWEN3 = ("--dialect", "qwen3", "--vocab", "gpt2")


def turns(number: int, of: str, **answer: Any) -> dict[str, Any]:
    return chat(*(
        part for i in range(number)
        for part in (
            user(f"Question {i} of {of}?"),
            assistant(f"Answer {i} to {of}.", reasoning_content=f"Thought {i}.", **answer),
        )
    ))  # fmt: skip


def prepared(tmp_path: Path, *words: str, records: int = 40) -> dict[str, Any]:
    """Prepares conversations of three turns in a folder `out`; returns the manifest."""
    path = write(tmp_path / "data.jsonl", *[turns(3, f"r{i}") for i in range(records)])
    run = [path, *QWEN3, "--no-config", "--out", str(tmp_path / "out"), *words]
    assert main(run) == 0
    if "--format" not in words:
        assert lint(["--no-config", str(tmp_path / "out")]) == 0
    return manifest_of(tmp_path / "out")


def episodes(folder: Path, split: str = "train") -> list[tuple[str, str]]:
    """Returns the text of each episode of a split, and what is trained of it."""
    return [
        (D.tokenizer.decode(ids), D.tokenizer.decode(ids[mask == 1]))
        for shard in ShardReader(folder).shards(split)
        for ids, mask in shard.episodes()
    ]


def test_each_answer_is_trained_once_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = prepared(tmp_path, "--history", "per-turn")
    assert (manifest["options"]["history"], manifest["options"]["mask"]) == ("per-turn", "last")
    learnt = sorted(trained for _, trained in episodes(tmp_path / "out"))
    answer = "<think>\nThought {}.\n</think>\n\nAnswer {} to r{}.<|im_end|>"
    assert learnt == sorted(answer.format(i, i, r) for r in range(40) for i in range(3))
    counts = manifest["history"]
    assert (counts["answers"], counts["thoughts_left_out"]) == (120, 40 * (0 + 1 + 2))
    assert counts["tokens"] == counts["context_tokens"] + counts["trained_tokens"]
    split = manifest["splits"]["train"]
    assert split["episode_tokens"] == counts["tokens"]
    assert split["trained_tokens"] == counts["trained_tokens"]
    err = capsys.readouterr().err
    assert "120 answers, each trained once, in an episode of its own" in err
    assert "120 thoughts of earlier turns left out of later episodes" in err


def test_official_says_what_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = prepared(tmp_path, "--history", "official")
    assert "mask" not in manifest["options"]
    text, trained = episodes(tmp_path / "out")[0]
    assert text.count("<think>") == trained.count("<think>") == 1
    assert trained.count("Answer") == 3
    assert manifest["history"]["answers"] == 120
    err = capsys.readouterr().err
    assert "80 thoughts of earlier turns left out; per-turn would train them" in err


def test_keep_is_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = prepared(tmp_path, "--history", "keep")
    assert "history" not in manifest
    assert "history" not in manifest["options"]
    assert episodes(tmp_path / "out")[0][0].count("<think>") == 3
    assert "mypt-prepare:" not in capsys.readouterr().err


def test_a_format_without_a_rule_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["examples/phase*.jsonl", "--no-config", "--history"]
    assert main([*run, "official", "--out", str(tmp_path / "a")]) == 0
    note = "the format mypt says nothing of thoughts of earlier turns: "
    assert note + "official keeps all thoughts" in capsys.readouterr().err
    assert main([*run, "per-turn", "--out", str(tmp_path / "b")]) == 0
    assert note + "no thought is left out" in capsys.readouterr().err
    assert lint(["--no-config", str(tmp_path / "b")]) == 0


def test_a_record_is_in_one_split(tmp_path: Path) -> None:
    prepared(tmp_path, "--history", "per-turn", "--val-fraction", "0.4")
    both = [
        {text.split(" of ")[1].split("?")[0] for text, _ in episodes(tmp_path / "out", split)}
        for split in ("train", "val")
    ]
    assert all(both)
    assert not both[0] & both[1]
    assert len(both[0] | both[1]) == 40


def test_rows_for_trainers(tmp_path: Path) -> None:
    trl = ["--format", "trl", "--mask", "trl"]
    manifest = prepared(tmp_path, "--history", "per-turn", *trl, records=2)
    assert manifest["options"]["mask"] == "trl+last"
    rows = tmp_path / "out" / "train" / "shard_00000.jsonl"
    learnt = [D.tokenizer.decode([i for i in row["labels"] if i >= 0]) for row in read(rows)]
    assert len(learnt) == 6
    assert all(text.startswith("<think>") and text.endswith("<|im_end|>\n") for text in learnt)
    assert all(text.count("<|im_end|>") == 1 for text in learnt)
    run = ["--no-config", "--dialect", "qwen3", "--trainer-rows", str(rows), "--mask"]
    assert (lint([*run, "trl+last"]), lint([*run, "trl"])) == (0, 1)


def test_duplicates_are_left_out_turn_by_turn(tmp_path: Path) -> None:
    """Two conversations that begin alike train their common answer once."""
    one, other = turns(2, "r"), turns(2, "r")
    other["messages"][-1]["content"] = "Another answer."
    data = write(tmp_path / "data.jsonl", one, other, one)
    run = [data, *QWEN3, "--no-config", "-q", "--dedup", "--out"]
    assert main([*run, str(tmp_path / "out"), "--history", "per-turn"]) == 0
    assert manifest_of(tmp_path / "out")["lines"] == {
        "lines": 3,
        "written": 2,
        "refused": 0,
        "long": 0,
        "duplicate": 1,
    }
    assert len(episodes(tmp_path / "out")) == 3


def outcome(record: dict[str, Any], length: int, long: str, **more: Any) -> Any:
    options = Options(
        "qwen3", history="per-turn", context_length=length, long=long, tokens_per_shard=1 << 16, **more
    )  # fmt: skip
    return Encoder(options).lines(lines(record))[0]


def test_what_no_row_holds() -> None:
    record = turns(3, "r")
    lengths = [len(s.ids) for s in outcome(record, 1 << 12, "error").samples]
    assert lengths == sorted(lengths)
    refused = outcome(record, lengths[1], "error")
    assert (refused.status, refused.findings[0].code) == ("refused", "MYP502")
    dropped = outcome(record, lengths[1], "drop")
    assert [len(s.ids) for s in dropped.samples] == lengths[:2]
    assert dropped.history["too_long_answers"] == 1
    assert outcome(record, lengths[0] - 1, "drop").status == "long"
    cut = outcome(record, lengths[1], "split-turns")
    assert [len(s.ids) for s in cut.samples] == [*lengths[:2], lengths[1]]
    assert cut.history["shortened_answers"] == 1
    text = D.tokenizer.decode(cut.samples[2].ids)
    assert "Question 0" not in text
    assert "<think>\nThought 2." in text
    assert "<think>\nThought 1." not in text
    none = outcome(record, lengths[0] - 1, "split-turns")
    assert none.status == "refused"
    assert "its last turn alone does not fit" in none.findings[0].message


def test_answers_of_weight_0_get_no_episode() -> None:
    record = turns(3, "r")
    record["messages"][1]["weight"] = 0
    record["messages"][5]["weight"] = 0.5
    encoded = outcome(record, 1 << 12, "error")
    assert [s.mask.any() for s in encoded.samples] == [True, True]
    assert encoded.samples[0].weights is None
    assert encoded.samples[1].weights is not None
    assert set(encoded.samples[1].weights.tolist()) == {0.0, 0.5}
    assert encoded.history["untrained_answers"] == 1
    for message in record["messages"][1::2]:
        message["weight"] = 0
    refused = outcome(record, 1 << 12, "error")
    assert (refused.status, refused.findings[0].code) == ("refused", "MYP501")


def test_a_killed_run_goes_on_with_the_same_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared(tmp_path, "--history", "per-turn", "--jobs", "2")
    before = (tmp_path / "out" / "train" / "shard_00000.bin").read_bytes()
    again = tmp_path / "again"
    options = Options("qwen3", history="per-turn")
    sources = expand([str(tmp_path / "data.jsonl")])

    def stop(what: str, done: int, total: int) -> None:
        if what == "encoding" and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(sources, again, options, unit_size=2000, progress=stop)
    other = [str(tmp_path / "data.jsonl"), *QWEN3, "--no-config", "--out"]
    assert main([*other, str(again), "--resume", "--history", "official"]) == 2
    assert "history = 'per-turn', this one has 'official'" in capsys.readouterr().err
    prepare(sources, again, options, unit_size=2000, resume=True)
    assert (again / "train" / "shard_00000.bin").read_bytes() == before


def test_the_usual_history_is_that_of_the_template(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "history official, as the template of qwen3 writes earlier turns"
    manifest = prepared(tmp_path, records=3)
    assert said in capsys.readouterr().err
    assert manifest["options"]["history"] == "official"
    text = "<|im_start|>user\nQuestion 1 of r0?<|im_end|>\n<|im_start|>assistant\nAnswer 1 to r0.<|im_end|>\n"
    assert any(text in one for one, _ in episodes(tmp_path / "out"))
    (tmp_path / "kept").mkdir()
    kept = prepared(tmp_path / "kept", "--history", "keep", records=3)
    assert said not in capsys.readouterr().err
    assert "history" not in kept["options"]
    said_by_checkpoints = [
        facts_of_run([ShardReader(folder / "out")], Config(model={}), [])["data"].get("history")
        for folder in (tmp_path, tmp_path / "kept")
    ]
    assert said_by_checkpoints == [None, "keep"]
    path = write(tmp_path / "plain.jsonl", chat(user("Hi?"), assistant("Yo.")))
    run = [path, "--dialect", "chatml", "--no-config", "--out", str(tmp_path / "plain")]
    assert main(run) == 0
    assert "history" not in capsys.readouterr().err
    assert "history" not in manifest_of(tmp_path / "plain")["options"]


def test_preferences_have_no_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="preferences rank the last answers alone"):
        Options(preferences=True, history="per-turn")
    with pytest.raises(SystemExit):
        main(["x.jsonl", "--history", "none", "--out", str(tmp_path)])
    assert "keep" in capsys.readouterr().err


def test_view_shows_what_is_prepared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepared(tmp_path, "--history", "per-turn", "--no-pack", records=1)
    capsys.readouterr()
    run = [str(tmp_path / "data.jsonl"), *QWEN3[:2], "--no-config", "--history"]
    assert view([*run, "per-turn", "--text"]) == 0
    texts = [text for text, _ in episodes(tmp_path / "out")]
    assert capsys.readouterr().out == "\n".join(sorted(texts, key=len)) + "\n"
    assert view([*run, "official", "--mask"]) == 0
    official = capsys.readouterr().out
    assert official.count("<think>") == 1
    assert view([*run[:-1], "--mask"]) == 0
    assert capsys.readouterr().out == official
    assert view([*run[:-1], "--text"]) == 0
    assert capsys.readouterr().out.count("<think>") > 1
    assert view([*run[:-1], "--history", "per-turn"]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if " trained (" in line]
    assert [head.split(": qwen3")[0].split(", ")[1] for head in heads] == [
        f"episode {i} of 3" for i in (1, 2, 3)
    ]
    assert view([str(tmp_path / "out"), "--history", "official"]) == 2
    assert "remove the option" in capsys.readouterr().err


def test_ids_for_a_model_need_its_vocabulary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "data.jsonl", chat(user(), assistant()))
    run = [str(path), "--dialect", "qwen3", "--no-config", "--out", str(tmp_path / "out")]
    assert main(run) == 2
    assert "add --vocab with its folder or tokenizer.json" in capsys.readouterr().err
    assert main([*run, "--vocab", "gpt2"]) == 0


@pytest.mark.parametrize("mask", ["model", "last"])
def test_a_turn_without_thinking_is_an_episode_for_each_call(mask: str) -> None:
    """Each prompt ends with an empty thought, which is not there once the turn goes on."""
    step = calls(call("f", {}))
    record = chat(
        user("q"), step, tool("4"), assistant("a"), user("r"), step, tool("5"), assistant("b")
    )
    record["chat_template_kwargs"] = {"enable_thinking": False}
    encoder = Encoder(Options("qwen3", history="per-turn", mask=mask))
    raw = lines(record)[0]
    outcomes = encoder.lines([raw] * 4)
    called = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call><|im_end|>'
    each = [called, "a<|im_end|>", called, "b<|im_end|>"][2 * (mask == "last") :]
    for outcome in outcomes:
        learnt = [D.tokenizer.decode(s.ids[s.mask == 1]) for s in outcome.samples]
        assert learnt == each
        texts = [D.tokenizer.decode(s.ids) for s in outcome.samples]
        assert {text.count("<think>\n\n</think>") for text in texts} == {1}
        assert not any(s.weighed for s in outcome.samples)
