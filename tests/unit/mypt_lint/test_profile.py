"""What a summary says about the data: counts of records, tokens, roles, turns and repetitions."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.lint import session
from mypt.lint.cli import main
from mypt_lint.check.profile import distribution
from tests.support import foreign
from tests.support.build import assistant, chat, native, user, write
from tests.support.chat_templates import CHATML
from tests.support.examples import examples
from tests.unit.mypt_lint.test_report_page import data_of

D = mypt_spec.dialect("mypt")
CHATS = [
    chat(user("Hi" * n), assistant("é" * n), *[user("?"), assistant("!")] * (n % 3))
    for n in range(1, 40)
]


def facts(*arguments: str) -> Any:
    main(["-q", "--no-config", "--format", "html=page.html", *arguments])
    return data_of(Path("page.html").read_text(encoding="utf-8"))


@pytest.mark.usefixtures("folder")
def test_tokens_and_the_trained_share_are_those_of_the_format() -> None:
    records = [native(), native("Who are you?", "MyPT."), native()]
    encoded = [D.encode(episode) for r in records if (episode := D.read(r)[0])]
    data = facts(write("a.jsonl", *records))["facts"]
    assert data["tokens"] == sum(map(len, encoded))
    assert data["share"] == sum(int(e.loss.sum()) for e in encoded) / data["tokens"]
    assert (data["exact"], data["records"], data["repeated"]) == (True, 3, 1)
    assert data["roles"][0][:2] == ["assistant", 3]


@pytest.mark.usefixtures("folder")
def test_records_of_other_tools_are_estimated() -> None:
    record = chat(user("12345678"), assistant("1234"))
    data = facts(write("a.jsonl", record, {"no": "conversation"}, record))
    values = data["facts"]
    assert (values["tokens"], values["exact"], values["share"]) == (6, False, None)
    assert (values["records"], values["unread"], values["repeated"]) == (3, 1, 1)
    assert values["roles"] == [["assistant", 2, 8], ["user", 2, 16]]
    assert values["turns"]["bins"] == [[1, 1, 2]]
    assert ["the format: its structure, token ids and loss mask", "--dialect or --model"] in (
        data["unchecked"]
    )
    length = ["records that are longer than the context", "--model, or --dialect and --max-tokens"]
    assert length in data["unchecked"]
    assert length in facts("a.jsonl", "--max-tokens", "9")["unchecked"], "nothing counts tokens"
    data = facts("a.jsonl", "--dialect", "chatml", "--data-set", "--max-tokens", "9")
    assert data["facts"]["share"] > 0
    assert [option for _, option in data["unchecked"]] == ["--model", "--data-set --eval-prompts"]


def test_a_model_counts_tokens_up_to_a_length(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The smaller one: that of the option, or that of the model, if its folder has one."""
    write("a.jsonl", chat(user("Hi!"), assistant("I am quite well, thank you.")))
    (folder / "chat_template.jinja").write_text(CHATML, encoding="utf-8")
    shutil.copy(foreign.path("smollm") / "tokenizer.json", folder)
    for of_model, option, found in (None, 9999, 0), (None, 12, 1), (9999, 12, 1), (12, 9999, 1):
        (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": of_model}))
        main(["-q", "--no-config", "--model", ".", "--max-tokens", f"{option}", "a.jsonl"])
        assert capsys.readouterr().out.count("tokens, the model reads 12") == found, (
            of_model,
            option,
        )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("every", [1, 3])
def test_any_number_of_processes_counts_the_same(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a.jsonl", *CHATS, *CHATS[:5])
    monkeypatch.setattr(session, "_SAMPLE", max(1, Path(path).stat().st_size // every))
    monkeypatch.setattr("mypt_lint.run.parallel.RANGE", 1000)
    one, two = (facts("-j", jobs, path)["facts"] for jobs in ("1", "2"))
    assert one == two
    assert (one["records"] if every == 1 else one["sample"] > 5) in (44, True)
    assert one["repeated"] == 5
    main(["-q", "--no-config", "--format", "summary=page.md", path])
    assert ("of them for what follows" in Path("page.md").read_text()) == (every > 1)


@pytest.mark.usefixtures("folder")
def test_the_summary_has_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.jsonl", *CHATS)
    write("b.jsonl", native(answer="</myPT_user>"))
    assert main(["-q", "--format", "summary", "a.jsonl", "b.jsonl"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("### ❌ mypt-lint failed\n\n1 error in 1 of 40 lines")
    assert "| tokens | about " in out
    assert re.search(r"\| turns of a record \| 50% up to 2, 95% up to 3, most 3  [▁-█]+ \|", out)
    assert "| b.jsonl | 1 | 1 | 1 | mypt records |" in out
    assert "| duplicates, contradictions, overlap with evaluation data | `--data-set` |" in out
    assert main(["-q", "--format", "summary", "a.jsonl"]) == 0
    assert capsys.readouterr().out.startswith("### ✅ mypt-lint passed\n")


@pytest.mark.usefixtures("folder")
def test_files_of_several_kinds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.jsonl", *CHATS[:2])
    write("b.jsonl", native(answer="</myPT_user>"), native())
    Path("c.jsonl").write_bytes(b"PK\3\4")
    main(["."])
    lines = capsys.readouterr().err.splitlines()
    assert lines[-4:-1] == [
        "./b.jsonl  mypt records               2 lines, 1 faulty",
        "./c.jsonl  not read                   1 finding",
        "./a.jsonl  OpenAI records (messages)  2 lines, clean",
    ]
    main(["b.jsonl"])
    assert "mypt records" not in capsys.readouterr().err


@settings(max_examples=examples(200))
@given(st.dictionaries(st.integers(0, 10**7), st.integers(1, 50), min_size=1, max_size=30))
def test_a_histogram_has_all_values_in_their_bins(values: dict[int, int]) -> None:
    counts = Counter(values)
    found = distribution(counts)
    assert len(found["bins"]) <= 25
    for low, high, count in found["bins"]:
        assert count == sum(n for value, n in values.items() if low <= value <= high)
    assert sum(count for *_, count in found["bins"]) == counts.total()
    flat = sorted(counts.elements())
    for name, value in found["quantiles"].items():
        share = float(name[:-1]) / 100
        assert sum(v <= value for v in flat) >= share * len(flat) - 1e-6
        assert sum(v < value for v in flat) < share * len(flat) + 1e-6
    assert found["most"] == flat[-1]
    json.dumps(found)
