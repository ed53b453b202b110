"""--dialect auto: which dialect a file is in, and records of another one in it."""

from __future__ import annotations

import gzip
import io
import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt.convert import main as convert
from mypt.lint.cli import main
from mypt.prepare.cli import main as prepare
from mypt.view import main as view
from mypt_cli.jsonl.blocks import Source
from mypt_lint.check.detect import candidates, detect, elsewhere, elsewhere_than, error_count
from mypt_records.shapes.text import distinct, formats_of
from mypt_spec.dialect import detectable_dialects
from tests.support.build import assistant, call, chat, lines, native, system, tool, user, write
from tests.support.conversion import FEATURES
from tests.support.linting import ROOT, Linter, codes
from tests.support.programs import python
from tests.support.strategies import DIALECTS, records

PLAIN = FEATURES["question and answer"]["gabgpt"]
PHASE4 = str(ROOT / "examples/phase4.jsonl")


def guess(data: bytes, kind: str = "record") -> tuple[str, tuple[str, ...], bool]:
    detected = detect(Source("x", stream=io.BytesIO(data)), kind, candidates("mypt", kind))
    assert detected.source.open().read() == data[: 1 << 20], "what was looked at is read again"
    return detected.dialect.name, detected.others, detected.sure


def jsonl(*records: Any) -> bytes:
    return b"".join(line + b"\n" for line in lines(*records))


def example(name: str) -> bytes:
    return (ROOT / "examples" / f"{name}.jsonl").read_bytes()


@given(st.data())
def test_the_dialect_or_one_that_fits_as_well(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(detectable_dialects()))
    drawn = data.draw(st.lists(records(name), min_size=1, max_size=3))
    best, others, sure = guess(jsonl(*drawn))
    assert sure
    assert name in (best, *others)
    for fitting in (best, *others):
        assert not any(error_count(record, mypt_spec.dialect(fitting)) for record in drawn)


@given(st.data())
def test_the_dialect_of_a_text(data: st.DataObject) -> None:
    d = mypt_spec.dialect(data.draw(st.sampled_from(DIALECTS)))
    episode, _ = d.read(data.draw(records(d.name)))
    assert episode is not None
    best, others, _ = guess(d.serialize(episode).encode(), "text")
    assert d.name in (best, *others), "a chat of text alone is one of several formats"


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda t: json.dumps(t).encode()))
def test_any_bytes(data: bytes) -> None:
    """Whether it is right or not, nothing is raised, and `sure` means that a line is legal."""
    best, _, sure = guess(data)
    assert sure == any(
        not error_count(json.loads(line), mypt_spec.dialect(best))
        for line in data.split(b"\n")
        if is_json(line)
    )


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_a_few_errors_do_not_mislead() -> None:
    assert guess(example("broken"))[0] == "mypt"
    assert guess(example("phase5")) == ("mypt", (), True)


def test_tags_in_the_data_are_a_sign() -> None:
    tagged = chat(user("<|user|>"), assistant("No."))
    assert guess(jsonl(PLAIN, tagged))[0] == "gabgpt"


def mentioning(tag: str) -> bytes:
    """A file of usf-omega in which every text mentions a tag of another dialect."""
    calling = {"role": "assistant", "tool_calls": [call("find", {"q": "x"})]}
    messages = [user(), calling, tool("nothing", name="find"), assistant(f"It is {tag}.")]
    return jsonl(*[chat(system(f"Write {tag}."), *messages)] * 4)


@pytest.mark.parametrize("tag", ["<myPT_toolcall>", "<|user|>", "[BOS]"])
def test_a_mention_of_a_tag_is_no_sign_against_the_shape(tag: str) -> None:
    assert guess(mentioning(tag)) == ("usf-omega", (), True)


def test_a_mention_in_every_line_is_no_sign_where_another_dialect_explains_all() -> None:
    mention = jsonl(PLAIN).replace(b'"content": "', b'"content": "<|user|> ')
    assert guess(mention * 5)[0] != "gabgpt"
    assert guess(mention * 5)[2]
    assert guess(mention * 5 + jsonl(PLAIN))[0] == "gabgpt", "a legal line makes it a sign again"


def test_a_misspelt_tag_in_every_line_is_a_sign_for_its_dialect() -> None:
    record = native(user(), assistant("so <MyPT_think>"))
    assert guess(jsonl(*[record] * 20))[0] == "mypt"
    source = Source("x", stream=io.BytesIO(jsonl(*[record] * 20)))
    assert elsewhere_than(source, mypt_spec.dialect("mypt"), detectable_dialects())[0] == ()


def test_a_file_of_another_dialect_is_told_so(folder: Path, lint: Linter) -> None:
    """In place of the faults of each line, which would send its reader looking for faults that are
    not there.
    """
    (folder / "x.jsonl").write_bytes(mentioning("<myPT_toolcall>"))
    as_mypt = ("--dialect", "mypt", "--records", "native", "x.jsonl")
    status, findings, _ = lint(*as_mypt)
    assert status == 1
    assert {(f["code"], f["fix"]) for f in findings} == {("MYP014", None)}
    message = "this record is usf-omega, as is the file; it is checked as mypt"
    assert findings[0]["message"] == message
    assert main(["--fix-only", *as_mypt]) == 0
    assert (folder / "x.jsonl").read_bytes() == mentioning("<myPT_toolcall>"), "nothing to fix"
    lint.capsys.readouterr()
    assert main([*as_mypt]) == 1
    out = lint.capsys.readouterr().out
    assert "--dialect usf-omega, or make it mypt with mypt-convert --from usf-omega" in out
    assert "as mypt it has missing-key (MYP102)" in out
    assert "--records openai" not in out, "these are no chats"
    assert set(codes(lint("--ignore", "MYP014", *as_mypt)[1])) > {"MYP102"}
    assert lint("x.jsonl", "--dialect", "usf-omega")[:2] == (0, [])


def test_chats_with_a_system_key_are_read_as_chats(folder: Path, lint: Linter) -> None:
    """They are legal as MyPT, but a chat format is what their reader asked for."""
    (folder / "x.jsonl").write_bytes(
        jsonl(*[{"system": "S", "messages": [user("Hi"), assistant("Ho.")]}] * 3)
    )
    assert codes(lint("--dialect", "qwen3", "x.jsonl")[1]) == ["MYP014"] * 3
    assert main(["--dialect", "qwen3", "x.jsonl"]) == 1
    assert "read its chats with --records openai, check" in lint.capsys.readouterr().out
    assert lint("--dialect", "qwen3", "--records", "openai", "x.jsonl")[:2] == (0, [])


CHATS = [name for name in mypt_spec.dialects() if name not in detectable_dialects()]


def prepared(path: str, dialect: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What mypt-prepare prints when it refuses a file."""
    capsys.readouterr()
    assert prepare([path, "--dialect", dialect, "--vocab", "gpt2", "--out", "sft"]) == 2
    return capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("other", CHATS)
def test_a_file_of_another_dialect_than_a_public_chat_format(other: str, lint: Linter) -> None:
    """The linter and mypt-prepare say the same."""
    assert set(codes(lint(PHASE4, "--dialect", other)[1])) == {"MYP014"}
    err = prepared(PHASE4, other, lint.capsys)
    assert "examples/phase4.jsonl is mypt: use --dialect mypt" in err


@pytest.mark.usefixtures("folder")
def test_a_chat_of_other_tools_is_of_no_dialect(lint: Linter) -> None:
    """Although usf-omega happens to read it, mistral wants ids of calls."""
    calling = {"role": "assistant", "tool_calls": [call("f", {})]}
    path = write("x.jsonl", chat(user(), calling, tool("1", name="f"), assistant("So.")))
    assert "MYP014" not in codes(lint(path, "--dialect", "mistral")[1])
    assert "usf-omega" not in prepared(path, "mistral", lint.capsys)


@pytest.mark.usefixtures("folder")
def test_a_chat_without_a_system_prompt_is_of_no_other_dialect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """mypt-prepare advises a system prompt, not a dialect that happens to need none."""
    path = write("x.jsonl", FEATURES["question and answer"]["openai"])
    err = prepared(path, "mypt", capsys)
    assert "--system TEXT gives it one" in err
    assert "use --dialect" not in err


@pytest.mark.usefixtures("folder")
def test_what_a_safe_fix_repairs_makes_no_record_of_other_tools(lint: Linter) -> None:
    """They know no identity of the model; arguments as a text are theirs, and can be fixed."""
    record = deepcopy(FEATURES["parallel calls"]["usf-omega"])
    for message in record["messages"]:
        for one in message.get("tool_calls", ()):
            one["function"]["arguments"] = json.dumps(one["function"]["arguments"])
    path = write("x.jsonl", {"model_identity": "S", **record})
    assert set(codes(lint(path, "--dialect", "usf-omega")[1])) == {"MYP110"}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("other", ["mypt", "mypt-3b", "gabgpt"])
def test_a_file_of_a_dialect_is_no_broken_file_of_other_tools(other: str, lint: Linter) -> None:
    assert convert([PHASE4, "--to", "praxis", "-o", "x.jsonl"]) == 0
    assert set(codes(lint("x.jsonl", "--dialect", other)[1])) == {"MYP014"}


MYPT = jsonl(FEATURES["system prompt"]["mypt"])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (mentioning("x") + jsonl({"messages": []}), {"MYP107", "MYP102", "MYP103"}),
        (jsonl(PLAIN) + MYPT, {"MYP208"}),
        (MYPT.replace(b'"content": "', b'"content": "[X] <myPT_user>'), {"MYP301"}),
        (jsonl(FEATURES["system prompt"]["praxis"]), {"MYP108"}),
    ],
    ids=["one line is legal nowhere", "one is legal", "a tag is a sign", "a safe fix repairs it"],
)
def test_a_file_is_not_told_so_in_doubt(data: bytes, expected: set[str], lint: Linter) -> None:
    seen = set(codes(lint.of(data, "--records", "native")[1]))
    assert "MYP014" not in seen
    assert seen >= expected


def test_a_pipe_that_begins_well_is_not_kept_waiting() -> None:
    """Of a stream that goes on, only the first line is waited for."""
    line = example("phase1").splitlines(keepends=True)[0]

    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read1(len(line))

    stream = Slow(line * 100)
    first, *others = candidates("mypt")
    names = [d.name for d in (first, *others)]
    elsewhere, source = elsewhere_than(Source("x", stream=stream), first, names)
    assert elsewhere == ()
    assert stream.tell() == len(line)
    assert source.open().read() == line
    assert source.open().read() == line


@pytest.mark.usefixtures("folder")
def test_the_command_says_which(lint: Linter) -> None:
    thinking, phase5 = FEATURES["thinking"], str(ROOT / "examples/phase5.jsonl")
    write("mixed.jsonl", thinking["gabgpt"], thinking["gabgpt"], thinking["mypt"])
    status, findings, err = lint("--dialect", "auto", "mixed.jsonl", phase5)
    assert status == 1
    places = [(f["code"], f["location"]["row"], f["dialect"]) for f in findings]
    assert places == [("MYP014", 3, "gabgpt")]
    assert findings[0]["message"] == "this record is mypt, the file is gabgpt"
    assert "mixed.jsonl: gabgpt\n" in err
    assert "examples/phase5.jsonl: mypt\n" in err
    assert lint("--dialect", "auto", "-q", "mixed.jsonl")[2] == ""


@pytest.mark.usefixtures("folder")
def test_nothing_legal(lint: Linter) -> None:
    status, findings, err = lint.of('nope\n{"messages": 1}\n', "--dialect", "auto")
    assert status == 1
    assert "nothing at the beginning is legal" in err
    assert "MYP001" in codes(findings)
    assert "MYP014" not in codes(findings)


def test_streams_and_compressed_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    thinking = FEATURES["thinking"]["gabgpt"]
    data = jsonl(*[thinking | {"_note": "x" * 600}] * 900)
    assert len(data) > 1 << 19, "more than is looked at"
    (folder / "x.jsonl.gz").write_bytes(gzip.compress(data))
    assert main(["--dialect", "auto", "x.jsonl.gz"]) == 0
    assert "x.jsonl.gz: gabgpt\n900 lines clean" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["--dialect", "auto", "-"]) == 0
    assert "<stdin>: gabgpt\n900 lines clean" in capsys.readouterr().err


def test_a_record_is_judged_once_in_its_own_dialect() -> None:
    """A line of megabytes takes long, and may be the first and the last."""
    judged: list[object] = []

    def failures(record: object) -> frozenset[str]:
        judged.append(record)
        return frozenset({"MYP101"} if record != [2] else {"MYP101", "MYP102"})

    def names(*records: object) -> tuple[str, ...]:
        judged.clear()
        legal = {"a": lambda record: True, "b": lambda record: record != [1]}
        return elsewhere(Source("x", stream=io.BytesIO(jsonl(*records))), failures, legal)[0]

    assert names([1], [2]) == ("a",)
    assert judged == [[1], [2]]
    assert names([3]) == ("a", "b")
    assert judged == [[3]]


def test_a_dialect_is_loaded_only_for_records_of_its_shape(tmp_path: Path) -> None:
    """The compiled automata of others are not read."""
    record = {"system": "S"} | chat(user(note="x"), assistant())
    path = write(tmp_path / "a.jsonl", record, record)
    code = """
import sys
from mypt.lint.cli import main

def read(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".json"):
        print(arguments[0])

sys.addaudithook(read)
main(["-q", sys.argv[1]])
"""
    printed = python(code, path).stdout.splitlines()
    automata = {Path(line).stem for line in printed if Path(line).parent.name == "compiled"}
    assert automata == {"mypt"}


def test_what_settings_ignore_is_no_sign_of_another_dialect(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tag of mypt, where tags may be: all commands take the records for what they are without."""
    path = write("a.jsonl", native("<myPT_user> x"))
    names = {}
    for text in ("", 'ignore = ["MYP301"]', 'severity = { MYP301 = "info" }'):
        (folder / "mypt-lint.toml").write_text(text)
        capsys.readouterr()
        main([path, "--dialect", "auto", "--config", "mypt-lint.toml"])
        detected = capsys.readouterr().err.splitlines()[0].split(": ")[1]
        view([path, "--dialect", "auto", "--config", "mypt-lint.toml"])
        names[text] = detected.split()[0], capsys.readouterr().out.split()[1]
    assert names[""] == ("mypt-3b", "mypt-3b")
    assert {*names.values()} - {names[""]} == {("mypt", "mypt")}


def text_of(name: str, *messages: Any) -> str:
    d = mypt_spec.dialect(name)
    prompt = {"system": "S"} if name == "gabgpt" else {}
    episode, findings = d.check(chat(*messages) | prompt)
    assert episode is not None, findings
    return d.serialize(episode)


@pytest.mark.parametrize(
    ("name", "without", "names"),
    [
        ("gemma2", "", ("gemma2", "gemma3")),
        ("phi4", "", ("phi4",)),
        ("mistral-v1", "", ("mistral-v1",)),
        ("qwen2.5", "", ("chatml", "qwen3")),  # whose texts are legal there, too
        # not GLM-4: there <think> is text
        ("glm4.5", "</think>", ("glm4.5", "glm5", "glm5.1", "glm5.2")),
        ("qwen3", "</think>", ("qwen3",)),  # not SmolLM2, for the same reason
        ("gabgpt", "<|end|>", ("gabgpt",)),  # not Phi-3, which has the same tags
    ],
)
def test_families_are_detected_by_their_tags(
    name: str, without: str, names: tuple[str, ...]
) -> None:
    thought = {"reasoning_content": "Hm."} if without == "</think>" else {}
    text = text_of(name, user("Hi"), assistant("Hello, you.") | thought).replace(without, "", 1)
    assert formats_of(text) == names
    for several in (text, f"{text}\n{text}"):
        best, others, _ = guess(several.encode(), "text")
        assert (best, *others)[: len(distinct(names))] == distinct(names)


def test_of_families_that_fit_equally_none_is_chosen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    text = text_of("gemma2", user("Hi"), assistant("Hello, you."))
    write("a.jsonl", {"text": text_of("lfm2", user("Hi"), assistant("Hello, you."))})
    write("b.jsonl", {"text": text.replace("<end_of_turn>", "")})
    write("c.jsonl", {"text": text})
    assert prepare(["c.jsonl", "--out", "sft", "--vocab", "gpt2"]) == 0, "gemma3 says the same"
    assert "gemma2" in capsys.readouterr().err
    assert view(["c.jsonl"]) == 0
    assert "gemma3" not in capsys.readouterr().err
    assert main(["a.jsonl"]) == 0
    capsys.readouterr()
    assert main(["b.jsonl"]) == 1
    out = capsys.readouterr().out
    assert "MYP104" in out
    assert "the text has tags of gemma2, gemma3, and is not legal" in out
    assert "use --dialect gemma2 to see why" in out
    assert prepare(["a.jsonl", "--out", "sft", "--vocab", "gpt2"]) == 2
    assert "the texts may be lfm2 or lfm2.5; choose with --dialect" in capsys.readouterr().err
    assert view(["a.jsonl"]) == 0
    assert "the texts may be lfm2 or lfm2.5; choose with --dialect" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["A page.<|endoftext|>", "a <end_of_turn>", "<｜Assistant｜>"])
def test_other_tags_than_those_of_questions_name_no_family(text: str) -> None:
    assert formats_of(text) == ()
