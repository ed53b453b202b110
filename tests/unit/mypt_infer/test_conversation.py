"""The example of a conversation over a folder: a short run, and what it counts as right."""

from __future__ import annotations

import random
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mypt_spec
from mypt_infer.controller.events import Cite, Event, TextDelta, ToolResult, TurnEnd
from mypt_infer.workspace import WorkspaceEngine, WorkspaceTools, toolbox
from mypt_spec.encoder import encode_events
from tests.support.build import write_texts

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[3]
PLACES = ("harbour", "bridge", "tower", "market", "school", "garden", "station", "mill")


@pytest.fixture(scope="module")
def example() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / "conversation.py")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {f"{p}.md": f"# {p}\n\nThe {p} opens at nine in the morning.\n" for p in PLACES}
    # What results are made of; without tokens for it they are too long, and are shortened.
    words = 'words "documents "chunk_id "doc_id "title "text "position "score "total\n' * 9
    return write_texts(tmp_path / "folder", texts | {"words.md": words})


@pytest.mark.numeric
def test_short_run(example: SimpleNamespace, folder: Path, tmp_path: Path) -> None:
    """Every turn is legal, whatever the model has learnt, and the counts add up."""
    numbers = {"steps": 2, "turns": 4, "episodes": 6, "text-ids": 380}
    options = [text for name, value in numbers.items() for text in (f"--{name}", str(value))]
    scores = example.main(["--folder", str(folder), "--out", str(tmp_path / "out"), *options])
    whole = scores["all"]
    assert (scores["known"].turns, scores["new"].turns, whole.turns) == (3, 1, 4)
    for score in scores.values():
        assert score.legal == score.turns
        assert score.right <= score.found <= score.cited <= score.turns
        assert max(score.shown, score.finished) <= score.turns
    parts = zip(*(vars(scores[kind]).values() for kind in ("known", "new")), strict=True)
    assert list(vars(whole).values()) == [sum(part) for part in parts]


@pytest.mark.parametrize(("size", "said"), [("257", "expected 5"), ("2028", "--text-ids: the")])
def test_folder_with_too_little(
    example: SimpleNamespace,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    size: str,
    said: str,
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.md").write_text("Nothing to ask.\n" * 40, encoding="utf-8")
    where = ["--folder", str(tmp_path / "folder"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit):
        example.main([*where, "--text-ids", size])
    assert said in capsys.readouterr().err


def test_what_the_teacher_says_is_right(example: SimpleNamespace, folder: Path) -> None:
    """The script's own turns count as right, so a model that learns them does, too."""
    engine = WorkspaceEngine(folder, folder.parent / "index")
    texts = example.chunks(engine)
    rests = example.sentences(texts.values())
    assert rests == {f"The {p} opens": "at nine in the morning." for p in PLACES}
    teacher = example.Teacher(mypt_spec.dialect("mypt"), toolbox(WorkspaceTools(engine)))
    for begin, rest in rests.items():
        call, result, answer = teacher.turn(begin, rest)
        assert call["arguments"]["query"] == begin
        shown = ToolResult(result["name"], result["content"], False, "")
        said = [shown, TextDelta(answer["content"]), Cite(answer["cite"]), TurnEnd("stop", 1)]
        score = example.Score()
        assert score.add(said, example.Question("known", begin, rest, "?"), texts, True)
        assert set(vars(score).values()) == {1}


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ({}, {"shown": 1, "cited": 1, "found": 1, "right": 1}),
        ({"said": "at ten."}, {"shown": 1, "cited": 1, "found": 1, "right": 0}),
        ({"cites": ()}, {"shown": 1, "cited": 0, "found": 0, "right": 0}),
        ({"cites": ("b#0",)}, {"shown": 1, "cited": 1, "found": 1, "right": 0}),
        ({"cites": ("c#0",)}, {"shown": 1, "cited": 1, "found": 0, "right": 0}),
        ({"cites": ("a#0", "b#0")}, {"shown": 1, "cited": 1, "found": 1, "right": 0}),
        ({"hits": ("b#0",)}, {"shown": 0, "cited": 1, "found": 0, "right": 0}),
        ({"error": "timeout"}, {"shown": 0, "cited": 1, "found": 0, "right": 0}),
    ],
)
def test_what_counts(
    example: SimpleNamespace, changed: dict[str, Any], counts: dict[str, int]
) -> None:
    """Right needs all three: a result has the chunk, the chunk the sentence, the answer its rest."""
    texts = {"a#0": "The mill opens at nine.", "b#0": "Another text.", "c#0": "The mill opens at nine."}  # fmt: skip
    turn = {"said": "at nine.", "cites": ("a#0",), "hits": ("a#0", "b#0"), "error": ""} | changed
    documents = [{"chunk_id": key, "text": texts[key]} for key in turn["hits"]]
    result = ToolResult("workspace.search", {"documents": documents}, False, turn["error"])
    cites = [Cite(text) for text in turn["cites"]]
    events: list[Event] = [result, TextDelta(f"{turn['said']} "), *cites, TurnEnd("stop", 1)]
    score = example.Score()
    score.add(events, example.Question("new", "The mill opens", "at nine.", "?"), texts, True)
    assert {name: getattr(score, name) for name in counts} == counts


def test_questions_are_held_out(example: SimpleNamespace) -> None:
    chance = random.Random(0)
    every = example.questions({f"The {p} opens": "at nine." for p in PLACES * 2}, chance)
    trained = {q.text for q in every if q.kind == "trained"}
    about = {kind: {q.begin for q in every if q.kind == kind} for kind in ("trained", "known", "new")}  # fmt: skip
    assert about["known"] == about["trained"]
    assert about["new"]
    assert not about["new"] & about["known"]
    asked = example.drawn(every, 8, chance)
    assert [sum(q.kind == kind for q in asked) for kind in ("known", "new")] == [6, 2]
    assert not trained & {q.text for q in asked}


@pytest.mark.parametrize(("text", "legal"), [("Hi", True), ("<myPT_eot>", False)])
def test_illegal_turn_is_counted(example: SimpleNamespace, text: str, legal: bool) -> None:
    """`is_legal` reads ids, so it can find what no controller lets through."""
    d = mypt_spec.dialect("mypt")
    head = "<myPT_system>S</myPT_system>"
    turn = f"<myPT_user>?</myPT_user><myPT_assistant>{text}</myPT_assistant><myPT_eot>"
    head_ids, ids = (
        encode_events(d.lex(part), d.table, d.tokenizer).ids.tolist()
        for part in (head, head + turn)
    )
    history = SimpleNamespace(dialect=d, ids=ids, head=len(head_ids), turns=[len(head_ids)])
    assert example.is_legal(SimpleNamespace(history=history)) is legal
