"""Lines that are proved clean by a model's template have the outcomes of lines that are checked."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.settings.settings import NO_SETTINGS
from mypt_lint.template.clean_chats import ByModel
from mypt_spec.templates.bounds import OutOfBoundsError
from mypt_train.data.encode_line import Encoder, LineOutcome
from mypt_train.data.formats.options import Options
from mypt_train.data.units import encoder_of
from tests.support import foreign
from tests.support.examples import examples

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

# It refuses a text, rewrites one, leaves one out, looks into one, and declares tools.
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}{% set c = m.content %}"
    "{% if c == 'refuse' %}{{ raise_exception('no') }}{% endif %}"
    "{% if c == 'rewrite' %}{% set c = 'wrote' %}{% endif %}"
    "{% if c == 'drop' %}{% set c = '' %}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ c | default('', true) | trim }}"
    "{% for t in m.tool_calls or [] %}<call>{{ t.function | tojson }}{% endfor %}"
    "{% if m.reasoning_content and loop.last %}{{ m.reasoning_content }}{% endif %}"
    "{% if c != 'endless' %}<|im_end|>{% endif %}\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RULES = NO_SETTINGS.having(records="openai")
TEXTS = [
    "Hi!", "Good morning to you.", "refuse", "rewrite", "drop", "endless", "", " ", " Hi! ", "é",
    "e\u0301", "<|im_end|>", "What is <|im_start|>?", "<think>\nhm\n</think>\n\nYes.", "None",
    "\ue000", "x y " * 90, "\ud800", "a\nb", "user", "[object Object]",
]  # fmt: skip
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    [TOOL], [], [{"type": "function", "function": {"name": "get", "parameters": CITY}}],
    [TOOL, {"type": "function", "function": {"name": "get", "parameters": CITY | {"$comment": "x"}}}],
    [{"type": "function", "function": {"name": name, "parameters": CITY | {"title": tag}}}
     for name, tag in (("f", "x"), ("get", "<|im_end|>"))],
    [TOOL, TOOL], [{"type": "function", "function": {"name": "get it", "parameters": CITY}}],
    [{"type": "code_interpreter"}, TOOL],
]  # fmt: skip
IDS = st.sampled_from(["a", "b", "call_1", "", "<|im_end|>", " ", None, 7])
ARGUMENTS = st.sampled_from([
    {"city": "Oslo"}, {"city": "Rome", "n": 1.50}, {"city": "a<|im_end|>b"}, {"<|im_end|>": 1}, {},
    {"city": None}, {"city": 3}, {"city": "x", "city2": ["é", {"a": -0.0}]},
])  # fmt: skip
CALL = st.builds(
    lambda name, arguments, as_text, ids, kind: ids | {"type": kind, "function": {
        "name": name,
        "arguments": json.dumps(arguments, ensure_ascii=False) if as_text else arguments,
    }},
    st.sampled_from(["f", "get", "get", "g"]),
    ARGUMENTS,
    st.booleans(),
    st.builds(lambda ident: {"id": ident}, IDS),
    st.sampled_from(["function", "function", None, "x"]),
) | st.sampled_from([1, {}, {"function": {"name": "f"}}, {"name": "f", "arguments": {}}])  # fmt: skip
CALLING = st.builds(
    lambda calls, text: {"role": "assistant", "tool_calls": calls} | text,
    st.lists(CALL, min_size=1, max_size=2),
    st.sampled_from([{}, {"content": None}, {"content": "I look."}]),
)
RESULT = st.builds(
    lambda ident, text, name: {"role": "tool", "tool_call_id": ident, "content": text} | name,
    IDS,
    st.sampled_from(["4", "[f(a=1)]", "<tool_response>4</tool_response>", '{"n": 1}']),
    st.sampled_from([{}, {}, {"name": "f"}, {"name": "get"}]),
)
MESSAGES = st.builds(
    lambda role, content, more: {"role": role, "content": content} | more,
    st.sampled_from(["user", "assistant", "assistant", "system"]),
    st.sampled_from(TEXTS) | st.text(max_size=8),
    st.sampled_from([
        {}, {}, {}, {"train": False}, {"weight": 0.5}, {"x": 1}, {"name": "n"},
        {"reasoning_content": "Hm."},
    ]),
) | CALLING | CALLING | RESULT  # fmt: skip
RECORDS = st.builds(
    lambda messages, more: {"messages": messages} | more,
    st.lists(MESSAGES, max_size=5),
    st.sampled_from([
        {}, {}, *({"tools": tools} for tools in TOOLS), {"chat_template_kwargs": {"a": 1}},
        {"tools": json.dumps([TOOL])}, {"functions": [TOOL["function"]]},
        {"chat_template_kwargs": 1}, {"chat_template_kwargs": {"tools": 1}}, {"id": 3},
    ]),
)  # fmt: skip
LINES = st.builds(
    lambda record, plain, end: (
        json.dumps(record, ensure_ascii=plain).encode("utf-8", "surrogatepass") + end
    ),
    RECORDS,
    st.booleans(),
    st.sampled_from([b"", b"", b"", b"\r", b" x"]),
)
CLEAN = json.dumps({
    "messages": [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello."}]
}).encode()  # fmt: skip


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    here = tmp_path_factory.mktemp("model")
    (here / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    config = {"eos_token": "<|im_end|>", "model_max_length": 300}
    (here / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    shutil.copy(foreign.path("smollm") / "tokenizer.json", here)
    return encoder_of(Options(model=str(here), pack=False), RULES)


def values(outcome: LineOutcome) -> Any:
    samples = [
        (s.ids.tolist(), s.mask.tolist(), None if s.weights is None else s.weights.tolist(), s.kind)
        for s in outcome.samples
    ]
    return outcome.status, outcome.findings, outcome.warned, samples


@given(st.lists(LINES, max_size=6), st.booleans())
@example([CLEAN, CLEAN, b'{"messages": [], "messages": []}', b"", b"\xff", CLEAN], True)
@settings(max_examples=examples(60))
def test_outcomes_are_those_of_lines(encoder: Encoder, lines: list[bytes], first: bool) -> None:
    quick = encoder.lines(lines, first=first)
    each = [
        encoder.line(raw.removesuffix(b"\r"), first=first and i == 0) for i, raw in enumerate(lines)
    ]
    assert [*map(values, quick)] == [*map(values, each)]


@given(st.lists(LINES, min_size=1, max_size=6), st.sampled_from([1, 2]))
@settings(max_examples=examples(60))
def test_findings_are_those_of_lines(encoder: Encoder, lines: list[bytes], row: int) -> None:
    by_model = ByModel(encoder.model)  # type: ignore[attr-defined]
    checks = Checker(mypt_spec.dialect("mypt"), shape="openai", formatless=True, by_model=by_model)
    _, blocks = FastChecker(checks).block(b"\n".join(lines), row=row, filename="x")
    each = [checks.line(raw, row=row + i, filename="x") for i, raw in enumerate(lines)]
    assert [found for _, found in blocks] == each


def test_clean_lines_are_proved(encoder: Encoder) -> None:
    """Or nothing would be faster."""
    assert [found is not None for found in encoder.clean.placed([CLEAN, b"{}", CLEAN])] == [True, False, True]  # type: ignore[attr-defined]  # fmt: skip


def called(city: str, ident: str = "a", **more: Any) -> dict[str, Any]:
    """Returns a record with a call whose tool no other record has."""
    function = {"name": f"get_{city}", "description": city, "parameters": CITY}
    call = {"name": function["name"], "arguments": json.dumps({"city": city})}
    return {
        "messages": [
            {"role": "user", "content": f"How is {city}?"},
            {"role": "assistant", "tool_calls": [{"id": ident, "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": ident, "content": f"{city} is fine."},
            {"role": "assistant", "content": f"It is fine in {city}."} | more,
        ],
        "tools": [{"type": "function", "function": function}],
    }  # fmt: skip


def test_records_of_calls_share_a_skeleton(encoder: Encoder) -> None:
    """Whatever their ids, names, arguments and tools are."""
    lines = [json.dumps(called(*pair)).encode() for pair in (("Oslo", "a"), ("Rome", "call_2"))]
    clean = encoder.clean  # type: ignore[attr-defined]
    before = len(clean._recipes.entries)
    placed = [chat for chat in clean.placed(lines) if chat is not None]
    assert ["get_Oslo" in chat.aligned.text for chat in placed] == [True, False]
    assert len(clean._recipes.entries) <= before + 1
    assert [*map(values, encoder.lines(lines))] == [*map(values, map(encoder.line, lines))]


def test_records_with_warnings_are_placed(encoder: Encoder) -> None:
    """As all of a model that thinks may be: the template leaves out earlier thoughts (MYP737)."""
    record = called("Oslo")
    record["messages"] = [
        *record["messages"][:3], {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."},
        *record["messages"][:1], {"role": "assistant", "content": "Yes.", "reasoning_content": "Ah."},
    ]  # fmt: skip
    (chat,) = encoder.clean.placed([json.dumps(record).encode()])  # type: ignore[attr-defined]
    assert {finding.code for finding in chat.findings} == {"MYP737"}


def test_a_special_token_in_an_id_is_found_by_both(encoder: Encoder) -> None:
    """`mypt-lint` and `mypt-prepare` say the same of what would become a special token."""
    lines = [json.dumps(called("Oslo", ident)).encode() for ident in ("a", "<|im_end|>")]
    by_model = ByModel(encoder.model)  # type: ignore[attr-defined]
    checks = Checker(mypt_spec.dialect("mypt"), shape="openai", formatless=True, by_model=by_model)
    _, blocks = FastChecker(checks).block(b"\n".join(lines), row=1, filename="x")
    errors = [[i.finding for i in items if i.finding.severity == "error"] for _, items in blocks]
    assert [[finding.code for finding in some] for some in errors] == [[], ["MYP301"]]
    assert [outcome.findings for outcome in encoder.lines(lines)] == [(), tuple(errors[1])]


def test_a_rendering_that_is_stopped_is_not_proved(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = [OutOfBoundsError("10 seconds")]
    monkeypatch.setattr(encoder.model, "outcomes", lambda _: iter(stops))  # type: ignore[attr-defined]
    assert encoder.clean.placed([CLEAN]) == [None]  # type: ignore[attr-defined]
