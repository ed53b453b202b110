"""The curriculum: episodes of five phases, made up."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
from mypt.synth import main as synth
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.episode import events_of
from mypt_spec.rules import Limits
from mypt_train import ShardReader
from mypt_train.curriculum import SPLITS, CurriculumError, episodes, split_of
from tests.support.build import read
from tests.support.examples import either, examples

D = mypt_spec.dialect("mypt")
ALL = range(1, 6)


def users(record: dict[str, Any]) -> list[str]:
    return [m["content"] for m in record["messages"] if m["role"] == "user"]


def check_tags(d: mypt_spec.Dialect, phase: int, records: list[dict[str, Any]]) -> None:
    """Looks for all tags that a phase introduces, and for none of later ones."""
    tags: set[str] = set()
    for record in records:
        episode, _ = d.read(record)
        assert episode is not None
        tags.update(event.terminal for event in events_of(episode.messages, d.table))
    assert {t.name for t in d.table.terminals.values() if t.phase == phase} <= tags
    assert not {t.name for t in d.table.terminals.values() if t.phase > phase} & tags


@given(st.sampled_from(ALL), st.integers(0, 40), st.integers(0, 40), st.integers(), st.sampled_from(SPLITS))  # fmt: skip
@settings(max_examples=examples(30))
def test_equal_options_give_equal_episodes_and_fewer_are_the_beginning_of_more(
    phase: int, n: int, more: int, seed: int, split: str
) -> None:
    some = list(episodes(phase, n, seed=seed, split=split))
    assert len(some) == n
    assert list(itertools.islice(episodes(phase, n + more, seed=seed, split=split), n)) == some


def test_the_same_on_every_machine() -> None:
    """The bytes of some episodes; a change of the world changes them, and must be meant."""
    drawn = [
        json.dumps(record, ensure_ascii=False)
        for phase in ALL
        for split in SPLITS
        for record in episodes(phase, 20, seed=7, split=split)
    ]
    assert hashlib.sha256("\n".join(drawn).encode()).hexdigest()[:16] == "67fe463cac8683b9"


@pytest.mark.parametrize("phase", ALL)
def test_twenty_thousand_without_a_duplicate_or_a_finding(phase: int) -> None:
    """4,000 of them outside of the thorough suite."""
    count = either(4000, 20_000)
    lines = [json.dumps(r, ensure_ascii=False).encode() for r in episodes(phase, count, seed=1)]
    assert len(set(lines)) == count
    prover = CleanFilter(Checker(D, Limits(phase=phase)))
    doubtful = [lines[i] for i in prover.doubtful(lines)]
    assert len(doubtful) < count
    for line in doubtful + lines[:200]:
        episode, findings = D.check(json.loads(line), limits=Limits(phase=phase))
        assert episode is not None
        assert not findings


def test_nobody_says_the_same_in_both_splits() -> None:
    texts: dict[str, set[str]] = {split: set() for split in SPLITS}
    for phase, seed, split in itertools.product(ALL, (0, 1), SPLITS):
        for record in episodes(phase, either(200, 400), seed=seed, split=split):
            texts[split] |= set(users(record))
    assert not texts["train"] & texts["heldout"]
    assert all(split_of(text) == split for split, some in texts.items() for text in some)
    assert len(texts["heldout"]) > 300


@pytest.mark.parametrize("phase", ALL)
def test_a_phase_has_what_it_introduces_and_nothing_of_later_ones(phase: int) -> None:
    records = list(episodes(phase, 400, seed=3))
    check_tags(D, phase, records)
    assert any(len(users(record)) > 1 for record in records) == (phase >= 3)
    languages = Counter(record["language"] for record in records)
    assert set(languages) == {"en", "de"}
    assert min(languages.values()) > 120


def test_operators_do_what_they_say_and_unknown_words_are_not_echoed() -> None:
    rules = {
        "Repeat: ": lambda rest: rest,
        "Write backwards: ": lambda rest: rest[::-1],
        "Write in capitals: ": str.upper,
        "Schreibe zweimal: ": lambda rest: f"{rest} {rest}",
        "Vertausche: ": lambda rest: " ".join(reversed(rest.split())),
        "What does ": lambda _: "Unknown.",
        "Was bedeutet ": lambda _: "Unbekannt.",
    }
    seen: Counter[str] = Counter()
    for record in episodes(2, 1500, seed=5):
        question, answer = (m["content"] for m in record["messages"])
        for start, rule in rules.items():
            if question.startswith(start):
                assert answer == rule(question.removeprefix(start))
                seen[start] += 1
    assert set(seen) == set(rules)


@pytest.mark.parametrize("phase", [4, 5])
def test_results_hold_what_the_answer_says(phase: int) -> None:
    """A citation names a document that was there, a call for a document one that was named before."""
    for record in episodes(phase, 300, seed=2):
        before = ""
        for m in record["messages"]:
            if m["role"] == "assistant_toolcall" and "doc_id" in m["arguments"]:
                assert m["arguments"]["doc_id"] in before
            if m["role"] == "assistant" and "cite" in m:
                assert m["cite"].split(",")[0] in before
            before += json.dumps(m, ensure_ascii=False)


def test_prepared(tmp_path: Path) -> None:
    files = []
    for phase in ALL:
        files.append(str(tmp_path / f"phase{phase}.jsonl"))
        chosen = ["--phase", str(phase), "--n", "60", "--seed", "1"]
        assert synth([*chosen, "-o", files[-1], "-q"]) == 0
        assert lint([files[-1], "--phase", str(phase), "--fail-on", "info", "-q"]) == 0
    assert prepare([*files, "--out", str(tmp_path / "set"), "--workers", "1", "-q"]) == 0
    counts = ShardReader(tmp_path / "set").manifest["lines"]
    assert counts == {"lines": 300, "written": 300, "refused": 0, "long": 0, "duplicate": 0}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.jsonl"
    chosen = ["--phase", "2", "--n", "5", "--seed", "3", "--split", "heldout"]
    assert synth([*chosen, "-o", str(out)]) == 0
    assert "5 episodes of phase 2, heldout, seed 3" in capsys.readouterr().err
    assert read(out) == list(episodes(2, 5, seed=3, split="heldout"))
    out.unlink()
    for args, says in (
        (["--phase", "6"], "phase is 6, expected 1 to 5"),
        (["--phase", "1", "--n", "-1"], "n is -1"),
        (["--phase", "3", "--dialect", "mypt-3b"], "phase is 3, expected 1 to 2"),
        (["--phase", "1", "--dialect", "gabgpt"], "expected mypt or mypt-3b"),
        (["--phase", "3", "-o", str(tmp_path / "no" / "x")], "cannot be written"),
    ):
        assert synth(["-o", str(out), *args]) == 2
        assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


TOOLS = mypt_spec.dialect("mypt-3b")
FLOWS = {
    ("search", "summarize"),
    ("list_docs", "get_doc", "summarize"),
    ("search",),
    ("summarize",),
}


@pytest.mark.parametrize("phase", [1, 2])
def test_the_workspace_chat_of_phase_3b(phase: int, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    options = ["--dialect", "mypt-3b", "--phase", str(phase), "--n", "800", "-q"]
    assert synth([*options, "-o", str(path)]) == 0
    assert len({*path.read_bytes().splitlines()}) == 800
    flags = ["--dialect", "mypt-3b", "--phase", str(phase), "--fail-on", "info", "-q"]
    assert lint([str(path), *flags]) == 0
    records = read(path)
    check_tags(TOOLS, phase, records)
    assert any(len(users(record)) > 1 for record in records)
    heldout = list(episodes(phase, 200, split="heldout", dialect="mypt-3b"))
    assert not {u for r in heldout for u in users(r)} & {u for r in records for u in users(r)}


def test_calls_and_results_are_those_of_the_tools(tmp_path: Path) -> None:
    """What a model is trained on is what it meets in the chat: prompt, arguments, keys of results.

    And a document's flows.
    """
    from mypt_infer.chat.opening import SYSTEM
    from mypt_infer.workspace import WorkspaceEngine, WorkspaceTools, toolbox

    (tmp_path / "a.txt").write_text("Anchor Fees\n\nThe anchor costs 3 euros a day.\n")
    engine = WorkspaceEngine(tmp_path, tmp_path / "index")
    engine.refresh()
    tools = toolbox(WorkspaceTools(engine))
    doc = {"doc_id": engine.list_docs()[0].doc_id}
    real = {
        "workspace.search": tools.call("workspace.search", {"query": "anchor"}),
        "workspace.list_docs": tools.call("workspace.list_docs", {}),
        "workspace.get_doc": tools.call("workspace.get_doc", doc),
        "workspace.summarize": tools.call("workspace.summarize", doc),
    }
    schemas = {tool.name: dict(tool.parameters) for tool in tools}
    flows: Counter[tuple[str, ...]] = Counter()
    for record in episodes(2, 400, seed=4, dialect="mypt-3b"):
        called: list[str] = []
        if any(m["role"] == "tool_result" for m in record["messages"]):
            assert record["system"].endswith(tools.usage)
            assert record["language"] == "de" or record["system"].startswith(SYSTEM)
        for m in record["messages"]:
            if m["role"] == "assistant_toolcall":
                assert not misfits(m["arguments"], schemas[m["name"]])
                called.append(m["name"].removeprefix("workspace."))
            if m["role"] == "tool_result":
                like = real[m["name"]]
                assert list(m["content"]) == list(like)
                rows, shown = m["content"].get("documents", ()), like.get("documents", [{}])
                assert all(list(row) == list(shown[0]) for row in rows)
            if m["role"] == "assistant":
                flows[tuple(dict.fromkeys(called))] += 1
                called.clear()
    assert set(flows) - {()} == FLOWS
    assert min(flows[flow] for flow in FLOWS) > 20


def test_more_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mypt_train.curriculum.generate._TRIES", 20)
    with pytest.raises(
        CurriculumError, match=r"phase 1 has hardly more than \d+ episodes in the split 'heldout'"
    ):
        list(episodes(1, 1_000_000, split="heldout"))
