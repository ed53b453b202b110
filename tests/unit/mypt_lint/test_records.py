"""The linter on records of other tools: the shape that it detects, and where its findings are."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.lint.cli import main
from mypt_convert import Converter
from mypt_infer.generate.opened import read_prompt
from mypt_lint.check.foreign import check_foreign
from mypt_spec.extra_keys import CUSTOMARY
from tests.support import build
from tests.support.build import (
    Record,
    assistant,
    call,
    calls,
    chat,
    function,
    native,
    system,
    tool,
    user,
)
from tests.support.conversion import FEATURES
from tests.support.linting import TEXT
from tests.support.shapes import RECORDS

OPENAI, NATIVE = chat(), native()
GPT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]}
PLAIN = "checked without a format; use --dialect NAME or --model DIR to check them in one"
pytestmark = pytest.mark.usefixtures("folder")


def write(*records: Record) -> str:
    return build.write("x.jsonl", *records)


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str]) -> Any:
    """Returns the status, the lines of findings, and the lines of stderr."""

    def run(*args: str) -> tuple[int, list[str], list[str]]:
        capsys.readouterr()
        status = main([*args, "--format", "concise"])
        out, err = capsys.readouterr()
        return status, out.splitlines(), err.splitlines()

    return run


def codes(lines: list[str]) -> list[str]:
    return [line.split(": ")[1].split(" ")[0] for line in lines]


@pytest.mark.parametrize(("shape", "record", "_"), RECORDS)
def test_good_records_of_every_shape_have_no_findings(
    shape: str, record: Any, _: Any, lint: Any
) -> None:
    path = write(*[record] * 4)
    for args in ((path,), (path, "--records", shape), (path, "--dialect", "usf-omega")):
        assert lint(*args)[:2] == (0, []), args


def test_the_first_line_names_the_shape(lint: Any) -> None:
    first = f"x.jsonl: OpenAI records (messages); {PLAIN}"
    assert lint(write(OPENAI, OPENAI))[2] == [first, "2 lines clean (1 file)"]
    as_praxis = "checked as praxis; use --records sharegpt to choose this shape"
    path = write(GPT)
    first = lint(path, "--dialect", "praxis")[2][0]
    assert first == f"x.jsonl: ShareGPT records (conversations); {as_praxis}"
    assert len(lint(path, "--records", "sharegpt")[2]) == 1, "who names it knows it"
    assert lint(path, "-q")[2] == []


@pytest.mark.parametrize("cell", ["system prompt", "call and result", "citation", "thinking"])
def test_records_of_the_default_dialect_are_left_alone(cell: str, lint: Any) -> None:
    assert lint(write(*[FEATURES[cell]["mypt"]] * 3)) == (0, [], ["3 lines clean (1 file)"])


@pytest.mark.parametrize(
    "messages",
    [
        [user([{"type": "text", "text": "Hi"}]), assistant("Hello.")],
        [user("Hi"), assistant("Hello.", loss=False), user("Q"), assistant("A")],
    ],
    ids=["parts", "weight"],
)
def test_a_plain_first_record_does_not_decide(messages: Any, lint: Any) -> None:
    """What other tools alone write is read in any row; a pipe is read by its first record."""
    for rows in ([OPENAI, chat(*messages)], [chat(*messages), OPENAI]):
        assert lint("--dialect", "chatml", write(*rows))[:2] == (0, [])


def test_a_weight_by_another_name_is_to_be_renamed(capsys: Any, monkeypatch: Any) -> None:
    """Without the key, the model would learn what it should not."""
    record = chat(user("Hi"), assistant("Hello.", loss=False), user("Q"), assistant("A"))
    stdin = io.TextIOWrapper(io.BytesIO((json.dumps(OPENAI) + "\n" + json.dumps(record)).encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert main(["--dialect", "chatml", "-"]) == 1
    assert 'help: did you mean "weight"?' in capsys.readouterr().out


def test_another_dialect_is_detected(lint: Any) -> None:
    status, lines, err = lint(write(*[FEATURES["thinking"]["gabgpt"]] * 3))
    assert (status, lines) == (0, [])
    assert err[0].startswith("x.jsonl: gabgpt")
    assert "use --dialect gabgpt to choose it" in err[0]


def test_a_record_that_only_the_named_dialect_can_read_is_read_in_it(lint: Any) -> None:
    """A plain chat is a record of gabgpt, and nothing is printed about it."""
    assert lint(write(OPENAI), "--dialect", "gabgpt")[2] == ["1 line clean (1 file)"]


def test_what_a_dialect_cannot_say_is_a_finding_in_the_record(lint: Any) -> None:
    path = write({"conversations": [{"from": "system", "value": "S"}, *GPT["conversations"]]})
    column = Path(path).read_text().index('"S"') + 1
    place = f"x.jsonl:1:{column}"
    message = "MYP114 not-in-the-format: system: gabgpt has no place for it"
    assert lint(path, "--dialect", "gabgpt")[:2] == (1, [f"{place}: {message}"])


PARTS = [{"type": "text", "text": "one "}, {"type": "text", "text": "two <myPT_eot> three"}]


@pytest.mark.parametrize(
    "record",
    [
        chat(build.system(), user(PARTS), assistant()),
        {"instruction": "one", "input": "two <myPT_eot>", "output": "x", "system": "S"},
    ],
)
def test_a_finding_of_the_dialect_has_its_place_in_the_record(record: Any, lint: Any) -> None:
    path = write(record)
    status, lines, _ = lint(path, "--dialect", "mypt")
    assert status == 1
    column = Path(path).read_text().index("<myPT_eot>") + 1
    place = [f"x.jsonl:1:{column}", "MYP203 eot-after-user"]
    assert [line.split(": ")[:2] for line in lines] == [place]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_several_shapes_are_one_finding(jobs: str, lint: Any) -> None:
    alpaca = {"instruction": "Hi", "output": "Yo"}
    path = write(*[OPENAI] * 7, GPT, OPENAI, GPT, alpaca)
    status, lines, err = lint(path, "-j", jobs)
    assert status == 1
    assert len(lines) == 1
    assert lines[0].startswith("x.jsonl:8:1: MYP113 mixed-shapes: the file has OpenAI records")
    assert "2 ShareGPT records (conversations), 1 Alpaca records" in lines[0]
    assert err[-1] == "1 error in 3 of 11 lines (8 clean, 3 faulty; 1 file)"
    _, lines, _ = lint(write(*[OPENAI] * 7, GPT), "-j", jobs)
    assert lines[0].endswith("(messages); this is one of ShareGPT records (conversations)")


def test_a_later_range_of_a_file_counts_its_rows(
    lint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mypt_lint.run.parallel.RANGE", 200)
    path = write(*[OPENAI] * 30, GPT, *[OPENAI] * 5, GPT)
    _, lines, _ = lint(path, "-j", "2")
    assert [line.split(" ")[0] for line in lines] == ["x.jsonl:31:1:"]


@pytest.mark.parametrize("record", [NATIVE, OPENAI, GPT | {"id": None}])
def test_metadata_is_one_warning_for_each_key(record: Record, lint: Any) -> None:
    path = write(*[record | {"patch": i, "traj": "c"} for i in range(5)], record)
    before = Path(path).read_bytes()
    status, lines, _ = lint(path)
    assert status == 0
    assert codes(lines) == ["MYP112", "MYP112"]
    assert all(": in 5 of 6 records" in line for line in lines)
    assert lint("--fix", path)[0] == 0
    assert Path(path).read_bytes() == before, "no fix renames a key"
    Path("mypt-lint.toml").write_text(
        '[metadata]\nkeys = ["patch"]\n[files."x.jsonl".metadata]\nkeys = ["traj"]\n'
    )
    assert lint(path)[:2] == (0, [])


@pytest.mark.parametrize("record", [NATIVE, OPENAI, GPT])
@pytest.mark.parametrize("count", [1, 5, 12])
def test_customary_keys_are_no_finding_and_decide_nothing(
    record: Record, count: int, lint: Any
) -> None:
    """However many there are, and in however few records."""
    keys = dict.fromkeys(sorted(CUSTOMARY)[:count], "x")
    status, lines, err = lint(write(record, record | keys, record | keys))
    assert (status, lines) == (0, [])
    assert lint(write(record))[2][:-1] == err[:-1], "it is read as without them"


@pytest.mark.parametrize(
    ("key", "expected"),
    [("id", []), ("traj", ["MYP112"]), ("langage", ["MYP103"]), ("tool", ["MYP103"])],
)
def test_the_api_and_the_prompt_of_a_model_judge_keys_as_the_linter_does(
    key: str, expected: list[str], lint: Any
) -> None:
    dialect, record = mypt_spec.dialect("mypt"), NATIVE | {key: "x"}
    assert [f.code for f in dialect.check(record)[1]] == expected
    status, lines, _ = lint(write(record), "--dialect", "mypt")
    assert codes(lines) == expected
    if status == 0:
        assert read_prompt(dialect, json.dumps(record))[0]


def test_a_system_message_of_other_tools_stays_where_it_is(lint: Any) -> None:
    record = chat(
        system(), user(), assistant(), traj=1, score=1, task="t", split="s", patch="p", kind="k"
    )
    path = write(*[record] * 4)
    before = Path(path).read_bytes()
    status, lines, err = lint("--fix", path)
    assert (status, codes(lines)) == (0, ["MYP112"] * 3)
    assert "OpenAI records" in err[0]
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize(
    "more", [{"system": None}, {"tools": None, "system": None, "images": None}]
)
def test_null_is_an_absent_key(more: Record, lint: Any) -> None:
    status, lines, err = lint(write(*[OPENAI | more] * 3))
    assert (status, lines) == (0, [])
    assert "OpenAI records" in err[0]


def test_a_system_prompt_beside_messages_of_other_tools(lint: Any) -> None:
    """Calls tell that they are of other tools, also where some records have none."""
    tools = [function()]
    called = chat(
        user(),
        calls(call(arguments="{}", id="c1")),
        tool(tool_call_id="c1"),
        assistant(),
        system="S",
        tools=tools,
    )
    status, lines, err = lint(write(called, called, chat(system="S", tools=tools), called))
    assert (status, lines) == (0, [])
    assert "OpenAI records" in err[0]


def test_a_file_of_a_dialect_that_lost_its_system_prompts(lint: Any) -> None:
    """A tag that only the dialect has tells."""
    record = chat(user(), assistant("x<myPT_toolresult>1</myPT_toolresult>"))
    status, lines, _ = lint(write(*[record] * 3))
    assert (status, codes(lines)) == (1, ["MYP208", "MYP202"] * 3)


@pytest.mark.parametrize("key", ["thinking", "message", "mesages", "response"])
def test_a_key_that_the_record_has_was_not_meant(key: str, lint: Any) -> None:
    status, lines, _ = lint(write(*[OPENAI | {key: "x"}] * 4))
    assert (status, codes(lines)) == (0, ["MYP112"])


@pytest.mark.parametrize(
    "key", ["rejected_response", "rejected_messages", "thinking", "message", "Response"]
)
def test_a_dialect_would_lose_a_key_that_says_something(key: str, lint: Any) -> None:
    status, lines, _ = lint(write(*[NATIVE | {key: "x"}] * 4))
    assert (status, codes(lines)) == (1, ["MYP103"] * 4)


@pytest.mark.parametrize("key", ["rejected_response", "thinking", "tools", "mesages"])
def test_null_is_an_absent_key_of_a_dialect(key: str, lint: Any) -> None:
    record = NATIVE | {key: None}
    path = write(*[record] * 4)
    assert lint("--dialect", "mypt", "--records", "native", path)[:2] == (0, [])


def test_a_record_without_messages_is_of_no_dialect(lint: Any) -> None:
    """Its other keys would have advice to remove what it says."""
    talk = [{"role": "student", "content": "Hi"}, {"role": "tutor", "content": "Hello."}]
    status, lines, err = lint(write({"id": "1", "conversation": talk, "turns": 2, "scores": {}}))
    assert (status, codes(lines)) == (1, ["MYP105", "MYP105", "MYP112"])
    assert err[0].startswith("x.jsonl: ShareGPT records")


@pytest.mark.parametrize("shape", ["native", "openai"])
@pytest.mark.parametrize("name", ["qwen3", "harmony"])
def test_no_arguments_as_an_empty_text(name: str, shape: str, lint: Any) -> None:
    """As servers of OpenAI's API write them; templates would write the empty text."""
    empty, full = (
        chat(system(), user(), calls(call(arguments=text, id="c1"), content=""), tool(tool_call_id="c1"), assistant(), tools=[function()])
        for text in ("", "{}")
    )  # fmt: skip
    path = write(empty)
    status, lines, _ = lint("--dialect", name, "--records", shape, path)
    assert (status, codes(lines)) == (0, ["MYP304"])
    lint("--dialect", name, "--records", shape, "--fix", path)
    assert json.loads(Path(path).read_text(encoding="utf-8")) == full
    out = Converter("openai", name).record(empty)
    assert (out.record, out.findings) == (Converter("openai", name).record(full).record, ())


def test_a_record_without_the_rejected_answer_of_its_file() -> None:
    _, findings = check_foreign(OPENAI | {"rejected_response": None}, "preference", None)
    assert [(f.code, f.help) for f in findings] == [
        ("MYP113", "one file, one shape: move it, or add the rejected answer")
    ]


def test_a_key_that_the_record_lacks_was_meant(lint: Any) -> None:
    status, lines, _ = lint(write(*[OPENAI | {"tool": [function()]}] * 4))
    assert (status, codes(lines)) == (1, ["MYP103"] * 4)
    assert lint(write(*[OPENAI | {"tool": 1, "tools": [function()]}] * 4))[0] == 0


def test_keys_inside_of_messages_are_metadata_unless_they_say_something(lint: Any) -> None:
    """As chats with servers are published: a finding for each key of the file."""
    status, lines, _ = lint(write(*[chat(user(id=1, agent="x"), assistant(agent="x"))] * 4))
    assert (status, codes(lines)) == (0, ["MYP112"])
    assert lines[0].endswith(": in 8 messages")
    for key in ("thought", "contnt"):
        message = {"role": "user", key: "x"} | ({"content": "Hi"} if key == "thought" else {})
        status, lines, _ = lint(write(*[chat(message, assistant())] * 4))
        assert codes(lines).count("MYP103") == 4
    status, lines, _ = lint(write({"system": "S", **chat(user(agent="x"), assistant())}))
    assert (status, codes(lines)) == (1, ["MYP103"]), "records of a dialect are of one maker"


def test_settings_and_options_exclude_one_another(
    lint: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path, settings = write(OPENAI), Path("mypt-lint.toml")
    settings.write_text('records = "alpaca"\n')
    assert lint(path)[1], "it is no Alpaca record"
    assert lint(path, "--records", "openai")[:2] == (0, [])
    for text, message in [
        ('records = "opanai"\n', "did you mean 'openai'?"),
        (
            '[metadata]\nkey = ["id"]\n',
            'metadata: no setting is called "key"; did you mean "keys"?',
        ),
    ]:
        settings.write_text(text)
        assert main([path]) == 2
        assert message in capsys.readouterr().err


def test_opt_outs_and_the_baseline_hold(lint: Any) -> None:
    bad = chat(user(thought="x"), assistant())
    assert lint(write(bad | {"_mypt_lint": {"ignore": ["MYP103"]}}))[:2] == (0, [])
    path = write(bad, *[OPENAI | {"id": i} for i in range(5)], GPT)
    assert main([path, "--write-baseline", "known.jsonl"]) == 0
    assert lint(path, "--baseline", "known.jsonl")[:2] == (0, [])


def test_a_rule_that_holds_with_and_without_a_format_is_one_finding(lint: Any) -> None:
    calling = build.calls(build.call("other", "{}", id="1"), content=None)
    messages = (user(), calling, build.tool(tool_call_id="1"), assistant())
    path = write(chat(*messages, tools=[build.function("t")]))
    for args in ((), ("--dialect", "usf-omega", "--records", "openai")):
        status, lines, _ = lint(path, *args)
        assert (status, codes(lines)) == (0, ["MYP313"])


def test_an_error_in_the_format_is_one_also_where_all_chats_have_a_warning(lint: Any) -> None:
    path = write(*[chat(user(), assistant("Bye.<|im_end|>"))] * 2)
    statuses = []
    for dialect in ("llama3", "chatml"):
        status, lines, _ = lint(path, "--records", "openai", "--dialect", dialect)
        statuses.append(status)
        assert codes(lines) == ["MYP301"] * 2, "each once"
    assert statuses == [0, 1]


def test_texts_with_tags_are_checked_as_the_format_of_these(lint: Any) -> None:
    path = write({"text": TEXT}, {"text": TEXT.replace("<myPT_eot>", "")})
    status, lines, err = lint(path)
    assert (status, codes(lines)) == (1, ["MYP216"])
    each = "each is checked as the format of its tags; use --dialect NAME to check them as one"
    assert err[0] == f"x.jsonl: serialised texts (text); {each}"
    assert lint(write({"text": TEXT}), "--dialect", "praxis")[0] == 0


def test_settings_to_begin_with_name_the_shape(
    lint: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(*[GPT] * 3)
    assert main(["init"]) == 0
    line = "mypt-lint.toml written, for ShareGPT records (conversations).\n"
    assert capsys.readouterr().out == line
    assert 'records = "sharegpt"\n# dialect = ' in Path("mypt-lint.toml").read_text()
    assert lint(path) == (0, [], ["3 lines clean (1 file)"])
