"""The explain pages of the rules: their form, and their examples, run.

A page is a file of mypt_spec/rules/pages. Its fences say what they hold: `jsonl` records, `text`
serialised text, `generation` the output of a model, `bytes` a file as a Python literal, `ids` token
ids. Words after that set limits (`phase=1`, `max-tokens=5`, `tools=a,b`), ask for the pass over the
data set (`data-set=yes`) or for the checks of a whole file (`file=yes`), or name the schema of a tool's result (`result=NAME:SCHEMA`), the dialect
of the examples (`dialect=NAME`, else mypt; `auto` if found out), their shape, which is checked without
a dialect if none is named (`records=NAME`), or codes that cannot be avoided
besides the rule's own (`also=MYP218`).
"""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

import pytest

import mypt_spec
from mypt.convert import main as convert
from mypt_cli.jsonl.blocks import Source
from mypt_lint.check.checker import Checker
from mypt_lint.check.trainer_rows import check_row
from mypt_lint.dataset.compare import DataSet
from mypt_lint.run.resolve import Group
from mypt_lint.template.lint import lint_templates
from mypt_lint.template.model import ModelFolder
from mypt_spec.dialect import grammar_root
from mypt_spec.findings import RULES, Finding, default_codes
from mypt_spec.rules import FAMILIES, check_episode
from mypt_spec.rules.context import CHECKS, ToolSchema, check
from tests.support.build import assistant, chat, message, read, user, write
from tests.support.checked import check_bytes, check_generation, check_text

ROOT = Path(__file__).parent.parent.parent.parent
SECTIONS = ["What it finds", "Why it matters", "Bad", "Good", "Spec"]
WITHOUT_EXAMPLES = {
    "MYP003": "half a compressed file is not text that a page can show",
    "MYP007": "a line of more than 8 MiB does not fit on a page",
    "MYP902": "more than a hundred findings on one line do not fit on a page",
    **dict.fromkeys([f"MYP50{n}" for n in range(5, 9)], "a prepared folder does not fit on a page"),
    **dict.fromkeys(
        [
            "MYP270",
            "MYP621",
            "MYP622",
            "MYP623",
            "MYP603",
            "MYP606",
            "MYP607",
            "MYP611",
            *(f"MYP61{n}" for n in range(4, 10)),
        ],
        "takes several files, or many episodes",
    ),
    "MYP369": "a vocabulary does not fit on a page",
    "MYP903": "only a conversion finds it, between two formats",
    **dict.fromkeys(["MYP729", "MYP735", "MYP736"], "a vocabulary does not fit on a page"),
    "MYP745": "other engines are not installed everywhere",
    "MYP722": "the template of a whole format does not fit on a page",
    "MYP514": "the vocabulary of an example is that of the dialect, which lacks nothing",
    "MYP901": "a fault of the linter itself: no data is known to cause it",
}
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """An example of a page: `words` are those of its fence."""

    code: str
    good: bool
    kind: str
    words: dict[str, str]
    body: str


def page(code: str) -> str:
    return RULES[code].doc


def sections(code: str) -> dict[str, str]:
    head, *parts = re.split(r"^## ", page(code), flags=re.MULTILINE)
    named = [part.partition("\n") for part in parts]
    return {"": head.strip()} | {name: body.strip() for name, _, body in named}


def examples(code: str) -> list[Example]:
    out = []
    for title in ("Bad", "Good"):
        for match in _FENCE.finditer(sections(code).get(title, "")):
            kind, *rest = match["info"].split()
            words, body = dict(word.split("=", 1) for word in rest), match["body"]
            out.append(Example(code, title == "Good", kind, words, body.removesuffix("\n")))
    return out


def findings_of(example: Example) -> list[Finding]:
    """Returns what the linter finds in an example."""
    words = dict(example.words)
    names = ("dialect", "phase", "max-tokens", "records", "tools")
    dialect, phase, most, shape, tools = (words.pop(name, "") for name in names)
    tool, _, schema = words.pop("result", "").partition(":")
    names = ("auto", "data-set", "file", "also")
    auto, compared, whole, _ = (words.pop(word, None) for word in names)
    assert not words
    spec = dialect or "mypt"
    d = mypt_spec.load(ROOT / spec) if "/" in spec else mypt_spec.dialect(spec)
    limits = mypt_spec.Limits(
        phase=int(phase) if phase else None,
        max_tokens=int(most) if most else None,
        tools=frozenset(tools.split(",")) if tools else frozenset(),
        schemas=(ToolSchema(tool, "", schema),) if tool else (),
    )
    others = [mypt_spec.dialect(n) for n in mypt_spec.dialects() if n != d.name] if auto else []
    checker = Checker(
        d, limits, others=tuple(others), shape=shape, formatless=bool(shape) and not dialect,
        codes=default_codes() | {example.code},
    )  # fmt: skip
    if example.kind == "bytes":
        data = ast.literal_eval(example.body)
        assert isinstance(data, bytes)
        return [item.finding for item in check_bytes(checker, data, "x.jsonl")]
    if example.kind == "ids":
        return d.parse_ids(json.loads(example.body))[1]
    if example.kind == "text":
        return [item.finding for item in check_text(checker, example.body, filename="x.txt")]
    if example.kind == "generation":
        return [item.finding for item in check_generation(checker, example.body, filename="x.txt")]
    if example.kind == "rows":
        return [f for line in example.body.split("\n") for f in check_row(d, json.loads(line))]
    if example.kind == "jinja":
        with NamedTemporaryFile("w", suffix=".jinja", encoding="utf-8") as file:
            file.write(example.body)
            file.flush()
            (chunk,) = lint_templates([file.name], None, frozenset({example.code}), {})
        return list({item.finding.code: item.finding for item in chunk.findings}.values())
    if example.kind == "model":
        template, _, record = example.body.rpartition("\n")
        with TemporaryDirectory() as folder:
            (Path(folder) / "chat_template.jinja").write_text(template, encoding="utf-8")
            (Path(folder) / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
            checker = Checker(d, shape="openai", formatless=True, by_model=ModelFolder(folder).read)
            items = checker.line(record.encode(), row=1, filename="x.jsonl")
        return [item.finding for item in items]
    assert example.kind == "jsonl", f"no such kind of example: {example.kind}"
    if compared:
        source = Source("x.jsonl", stream=io.BytesIO(example.body.encode() + b"\n"))
        assert not check_bytes(checker, example.body.encode() + b"\n")
        chunks = DataSet([Group(checker, [source], "record")]).chunks()
        return [item.finding for chunk in chunks for item in chunk.findings]
    if whole:
        items = check_bytes(checker, example.body.encode() + b"\n", "x.jsonl")
        return [item.finding for item in items]
    rows = enumerate(example.body.encode().split(b"\n"), 1)
    items = (item for row, raw in rows for item in checker.line(raw, row=row, filename="x.jsonl"))
    return [item.finding for item in items]


@pytest.mark.parametrize("code", sorted(RULES))
def test_the_page_of_a_rule(code: str) -> None:
    """Its sections, an example of each kind, and a section of the specification that exists."""
    rule, parts = RULES[code], sections(code)
    assert list(parts) == ["", *SECTIONS]
    assert all(parts.values())
    assert rule.summary == parts[""]
    assert re.fullmatch(r".+\.", parts[""])
    kinds = {example.good for example in examples(code)}
    assert kinds == (set() if code in WITHOUT_EXAMPLES else {True, False})
    match = re.fullmatch(r"`((?:grammar|docs)/[\w/]+\.md)`, ([\w ]+)", parts["Spec"])
    assert match is not None
    folder, _, rest = match[1].partition("/")
    spec = ((grammar_root() if folder == "grammar" else ROOT / folder) / rest).read_text("utf-8")
    assert re.search(rf"^## (\d+\. )?{match[2]}$", spec, re.MULTILINE), f"no section {match[2]}"
    assert rule.code == code
    assert re.fullmatch(r"MYP\d{3}", code)
    assert code[3] in FAMILIES
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    help_words = "use add remove write fix avoid do should must need require expect prefer no-more"
    assert not re.match(rf"({'|'.join(help_words.split())})\b", rule.name), (
        "a name says what is wrong, never the help"
    )


def test_exceptions_are_rules() -> None:
    assert set(WITHOUT_EXAMPLES) <= set(RULES)


@pytest.mark.parametrize("code", sorted({*RULES} - {*WITHOUT_EXAMPLES}))
def test_example(code: str) -> None:
    """A good example has no finding; a bad one has this, with a fix as safe as the rule says."""
    words = RULES[code].fix.replace(",", "").split()
    for example in examples(code):
        findings = findings_of(example)
        codes = [finding.code for finding in findings]
        if example.good:
            assert codes == [], example
            continue
        also = set(example.words.get("also", "").split(",")) - {""}
        assert set(codes) == {code} | also, example
        assert codes.count(code) == 1, example
        if example.kind in ("jsonl", "text", "bytes") and "data-set" not in example.words:
            for fix in [finding.fix for finding in findings if finding.code == code]:
                assert fix is None or ("safe" if fix.safe else "unsafe") in words, example


def test_names_are_unique() -> None:
    names = [rule.name for rule in RULES.values()]
    assert len(set(names)) == len(names)
    summaries = [rule.summary for rule in RULES.values()]
    assert len(set(summaries)) == len(summaries)


def test_a_finding_has_the_help_of_its_rule_unless_it_has_its_own() -> None:
    code = next(code for code, rule in RULES.items() if rule.help)
    assert Finding(code, "what").help == RULES[code].help
    assert Finding(code, "what", help="another").help == "another"


def test_pages_and_rows_belong_together() -> None:
    folder = Path(mypt_spec.rules.__file__).parent / "pages"
    assert sorted(path.stem for path in folder.glob("*.md")) == sorted(RULES)


def test_checks_stand_in_one_file_a_family() -> None:
    files: dict[str, set[str]] = {}
    for code, function in CHECKS.items():
        files.setdefault(code[3], set()).add(function.__module__)
    assert all(len(names) == 1 for names in files.values()), files


TURNS = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]


@pytest.mark.parametrize(
    ("name", "record", "messages"),
    [
        ("sharegpt", {"id": "1", "conversations": TURNS}, [("user", "Hi"), ("assistant", "Yo")]),
        ("alpaca", {"instruction": "Add", "input": "1", "output": "2"}, [("user", "Add\n\n1"), ("assistant", "2")]),
        ("alpaca", {"instruction": "Add", "input": "", "output": "2"}, [("user", "Add"), ("assistant", "2")]),
    ],
)  # fmt: skip
def test_the_page_of_unknown_keys_rewrites_other_formats(
    name: str,
    record: Any,
    messages: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The commands as the page shows them."""
    monkeypatch.chdir(tmp_path)
    write(f"{name}.jsonl", record)
    (command,) = re.findall(rf"mypt-convert ({name}\.jsonl .*)", page("MYP103"))
    assert convert(shlex.split(command)) == 0
    (converted,) = read("made.jsonl")
    assert [(m["role"], m["content"]) for m in converted["messages"]] == messages


def test_a_check_needs_a_row_of_its_own() -> None:
    with pytest.raises(ValueError, match=r"MYP999 is not in rules\.toml"):
        check("MYP999")
    with pytest.raises(ValueError, match="two functions check MYP501"):
        check("MYP501")


def test_calls_are_held_to_the_tools_that_the_adapter_reads() -> None:
    """In a format whose own text declares none, too; without definitions, to those of the text."""
    d = mypt_spec.dialect("mypt")
    request = {"role": "assistant_toolcall", "name": "find", "arguments": {"q": 1}}
    result = message("toolresult", 1, name="find")
    episode, _ = d.read({"system": "s", **chat(user(), request, result, assistant())})
    assert episode is not None
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}

    def codes(*names: str) -> list[tuple[str, str]]:
        tools = [{"function": {"name": name, "parameters": schema}} for name in names]
        parts = episode, d.table, d.automaton, d.tokenizer, mypt_spec.Limits()
        return [(f.code, f.pointer) for f in check_episode(*parts, tools=lambda of: tools)]

    assert not codes()
    assert codes("other") == [("MYP313", "/messages/1/name")]
    assert codes("find") == [("MYP353", "/messages/1/arguments/q")]
