"""What is compared over the whole data: near duplicates, evaluation data, benchmarks, and files as one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mypt.lint.cli import main
from mypt_lint.dataset import compare, evaluation, passages
from mypt_lint.dataset.passages import sketches
from tests.support import build
from tests.support.build import Record, assistant, user, write
from tests.support.linting import Linter

pytestmark = pytest.mark.usefixtures("folder")

RIVER = (
    "The river rises in the hills, passes three old towns, and reaches the sea after two hundred "
    "miles of slow water and green fields of reeds."
)
QUESTION = "How many boxes of 12 eggs can the farmer fill when 40 hens lay 3 eggs a day for a week?"


def chat(*texts: str, **more: Any) -> Record:
    """Returns a chat of texts of the user and the assistant in turn."""
    return build.chat(*[(assistant if i % 2 else user)(t) for i, t in enumerate(texts)], **more)


@pytest.fixture
def codes(lint: Linter) -> Any:
    """Lints files of the folder; returns `file:row code` of the rules of the data set."""

    def run(*words: str) -> list[str]:
        findings = lint("--no-config", "-q", "--data-set", "--select", "MYP6", *words)[1]
        return [f"{f['filename']}:{f['location']['row']} {f['code']}" for f in findings]

    return run


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (("What is HTTP?", "A protocol."), ("what is http?", "A  protocol."), "MYP612"),
        (("Describe it.", RIVER), ("Please describe it.", RIVER), "MYP613"),
        (("Describe it.", RIVER), ("DESCRIBE it!", RIVER.replace(",", ";")), "MYP613"),
        (("Describe it.", RIVER), ("Describe it.", RIVER.replace("three", "four")), "MYP602"),
        (("Rate it.", RIVER + " 3"), ("Rate this.", RIVER + " 4"), ""),  # other numbers
        (("Hi", "Yes, and more."), ("Hi!", "Yes and more"), ""),  # too short to be told apart
        (("1 + 1?", "2", "Sure?", "Yes."), ("1 + 1?", "3", "Sure?", "Yes."), "MYP602"),
        (("1 + 1?", "2", "Sure?", "Yes."), ("1 + 1?", "2", "So?", "Yes."), ""),
        (("描述一下。", "这条河发源于山间，流经三座古镇，蜿蜒两百里后流入大海，两岸长满芦苇。"), ("请描述一下。", "这条河发源于山间，流经三座古镇，蜿蜒两百里后流入大海，两岸长满芦苇。"), "MYP613"),
    ],
)  # fmt: skip
def test_two_records(codes: Any, first: Any, second: Any, code: str) -> None:
    write("a.jsonl", chat(*first), chat(*second))
    assert codes("a.jsonl") == [f"a.jsonl:2 {code}"] * bool(code)


def test_the_conflict_is_at_its_turn(lint: Linter) -> None:
    write("a.jsonl", chat("Hi", "Yo", "1?", "A", "2?", "B"), chat("Hi", "Yo", "1?", "C", "2?", "B"))
    (finding,) = lint("-q", "--data-set", "a.jsonl")[1]
    assert finding["pointer"] == "/messages/3/content"


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        ((QUESTION, "23"), "MYP603"),
        ((QUESTION.upper(), "23"), "MYP603"),
        ((QUESTION, "23", "And in a year?", "More."), "MYP603"),  # its history
        (("Be brief. " + QUESTION + " Explain.", "23"), "MYP614"),
        (("Hi", "Yo", QUESTION, "23"), "MYP614"),
        (("Is that so?", "Yes.", "Hm", "Hm"), ""),  # a short question, and more
        (("Is that so?", "No."), "MYP603"),
        (("How many hens lay eggs in a week?", "40"), ""),
    ],
)
def test_questions_of_the_evaluation_data(codes: Any, texts: Any, code: str) -> None:
    write("eval.jsonl", chat(QUESTION, "70"), chat("Is that so?", "Yes."))
    write("train.jsonl", chat(*texts))
    assert codes("eval.jsonl", "train.jsonl", "--ignore", "MYP602") == [
        f"train.jsonl:1 {code}"
    ] * bool(code)


def test_reserved_texts_of_several_files(codes: Any) -> None:
    """Lines of text, chats, and other records; of these, short texts only by the key's name."""
    Path("lines.txt").write_text(f"{QUESTION}\nShort one?\n")
    write("chats.jsonl", chat("Whose chat is it?", "Mine."))
    Path("others.json").write_text(json.dumps([{"id": "yes", "problem": "1 + 1", "proof": RIVER}]))
    texts = ["Now: " + QUESTION, "short  one?", "whose chat is it?", "1 + 1", "yes", "Mine.", RIVER]
    write("a.jsonl", *[chat(text, f"{i}") for i, text in enumerate(texts)])
    files = ("lines.txt", "chats.jsonl", "others.json")
    words = [word for file in files for word in ("--eval-prompts", file)]
    expected = ["1 MYP615", "2 MYP606", "3 MYP606", "4 MYP606", "7 MYP615"]
    assert codes("a.jsonl", *words) == [f"a.jsonl:{row}" for row in expected]
    Path("mypt-lint.toml").write_text('data-set = true\neval-prompts = "lines.txt"\n')
    assert main(["-q", "--select", "MYP615", "--fail-on", "warning", "a.jsonl"]) == 1
    Path("mypt-lint.toml").write_text('data-set = true\neval-prompts = ["chats.jsonl"]\n')
    assert main(["-q", "--select", "MYP615", "--fail-on", "warning", "a.jsonl"]) == 0


def test_public_benchmarks(codes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_benchmarks", lambda: (sketches([QUESTION]), ["B"]))
    write("a.jsonl", chat("Think. " + QUESTION, "70"), chat(QUESTION.replace("eggs", "nuts"), "7"))
    assert codes("a.jsonl") == ["a.jsonl:1 MYP616"]


def test_the_shipped_hashes() -> None:
    """Each benchmark has its source and licence, and hashes of 32 bits; together, few bytes."""
    sketch, names = evaluation._benchmarks()
    assert sketch.dtype == np.uint32
    assert sketch.shape == (len(names), 8)
    assert len(set(names)) == 7
    assert sketch.nbytes < 1 << 20
    # A task of HumanEval (MIT): the hash function is the one that made the files.
    task = '''from typing import List


def rescale_to_unit(numbers: List[float]) -> List[float]:
    """ Given list of numbers (of at least two elements), apply a linear transform to that list,
    such that the smallest number will become 0 and the largest will become 1
    >>> rescale_to_unit([1.0, 2.0, 3.0, 4.0, 5.0])
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
'''
    hashes = sketches([task.casefold()])[0]
    shares = np.isin(sketch, hashes).mean(axis=1)
    assert names[int(shares.argmax())] == "HumanEval"
    assert shares.max() >= 0.6


def prompted(text: str) -> Record:
    return build.chat({"role": "system", "content": "S"}, user(text), assistant(text))


def pair(chosen: str, rejected: str) -> Record:
    return {"prompt": "Q", "chosen": chosen, "rejected": rejected}


def labelled(text: str, label: bool) -> Record:
    return {"prompt": "Q", "completion": text, "label": label}


def thought(i: int, thinks: bool, asked: str = "") -> Record:
    said = assistant(f"{i}", **({"reasoning_content": f"It is {i}."} if thinks else {}))
    return build.chat(user(f"{i} {asked}"), said)


def declared(i: int, *arguments: str) -> Record:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in arguments}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    return chat(f"{i}", f"{i}", tools=[tool])


@pytest.mark.parametrize(
    ("records", "code"),
    [
        ([pair(f"w{i} " * i, "x") for i in range(1, 101)], "MYP617"),
        ([pair(f"w{i} " * i, "x") for i in range(1, 100)], ""),
        ([pair(f"w{i} " * i, "x" if i % 3 else f"much{i} longer " * i) for i in range(1, 151)], ""),
        ([labelled(f"w{i} " * (i + 200 * (i % 2)), i % 2 == 1) for i in range(1, 201)], "MYP617"),
        ([labelled(f"w{i} " * i, i % 2 == 1) for i in range(1, 201)], ""),
        ([labelled(f"w{i} " * i, i % 11 != 1) for i in range(1, 201)], "MYP618"),
        ([labelled(f"w{i} " * i, i % 5 != 1) for i in range(1, 201)], ""),
        ([chat(f"{i}", f"{i}", **({"id": i} if i != 7 else {})) for i in range(20)], "MYP619"),
        ([chat(f"{i}", f"{i}", **({"id": i} if i != 7 else {})) for i in range(19)], ""),
        ([chat(f"{i}", f"{i}", **{f"k{i}": 1}) for i in range(40)], ""),
        ([prompted(f"{i}") for i in range(39)] + [chat("39", "39")], "MYP619"),
        ([chat(f"{i}", f"Certainly! {RIVER} {i}" if i % 4 else f"{i}") for i in range(30)], "MYP622"),
        ([chat(f"{i}", f"Certainly! {RIVER} {i}" if i % 4 else f"{i}") for i in range(29)], ""),
        ([thought(i, i % 5 == 0) for i in range(30)], "MYP621"),
        ([thought(i, i > 0) for i in range(60)], ""),
        ([thought(i, i % 2 == 0, ("/think", "/no_think")[i % 2]) for i in range(30)], ""),
        ([thought(i, i % 2 == 0, f"Reasoning: {('high', 'off')[i % 2]}") for i in range(30)], ""),
        ([chat(f"{i}", f'{{"label": "{RIVER}", "n": {i}}}') for i in range(30)], ""),
        ([chat(f"{i}", f"```python\nimport os, sys\nprint('{RIVER} {i}')```") for i in range(30)], ""),
        ([declared(i, "b" if i == 7 else "a") for i in range(10)], "MYP623"),
        ([declared(i, "a") for i in range(10)], ""),
        ([declared(i, *("ab" if i % 2 else "ba")) for i in range(10)], ""),
        ([chat(f"{i}", f"{i}") for i in range(9)], ""),
    ],
)  # fmt: skip
def test_findings_of_a_file(codes: Any, records: list[Record], code: str) -> None:
    write("a.jsonl", *records)
    assert codes("a.jsonl", "--ignore", "MYP607") == [f"a.jsonl:{len(records)} {code}"] * bool(code)


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (pair(RIVER, "No."), pair("No.", RIVER), "MYP620"),
        (pair(RIVER, "No."), pair(RIVER, "Yes."), "MYP613"),
        (labelled(RIVER, True), labelled(RIVER, False), "MYP620"),
        (labelled(RIVER, True), labelled(RIVER, True), "MYP601"),
    ],
)
def test_judgements(codes: Any, first: Record, second: Record, code: str) -> None:
    write("a.jsonl", first, second)
    assert codes("a.jsonl") == [f"a.jsonl:2 {code}"]


def test_standard_input_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--no-config", "--data-set", "-"]) == 2
    assert "must be a file" in capsys.readouterr().err


def test_blocks_change_nothing(codes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does how many texts are hashed at once, or how many processes check the lines."""
    near = [chat(f"Tell{more}.", RIVER) for more in ("", " me", " me now")]
    write("eval.jsonl", chat(QUESTION, "70"))
    write("a.jsonl", *near, chat("Hi", "Yo"), chat("Hi", "Hello"), chat(QUESTION, "7"), *near[1:])
    expected = codes(".")
    assert {finding[-6:] for finding in expected} == {"MYP601", "MYP602", "MYP603", "MYP613"}
    monkeypatch.setattr(compare, "BLOCK", 100)
    monkeypatch.setattr(compare, "_TEXT", 50)
    monkeypatch.setattr(passages, "_PAIRS", 1)
    assert codes(".") == codes("-j", "3", ".") == expected
