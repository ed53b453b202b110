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
from mypt_train.data.encode_line import Encoder, LineOutcome
from mypt_train.data.encode_model import encoder_of
from mypt_train.data.formats.options import Options
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
    "<|im_start|>{{ m.role }}\n{{ c | trim }}{% if c != 'endless' %}<|im_end|>{% endif %}\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RULES = NO_SETTINGS.having(records="openai")
TEXTS = [
    "Hi!", "Good morning to you.", "refuse", "rewrite", "drop", "endless", "", " ", " Hi! ", "é",
    "e\u0301", "<|im_end|>", "What is <|im_start|>?", "<think>\nhm\n</think>\n\nYes.", "None",
    "\ue000", "x" * 40, "\ud800", "a\nb", "user", "[object Object]",
]  # fmt: skip
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}
MESSAGES = st.builds(
    lambda role, content, more: {"role": role, "content": content} | more,
    st.sampled_from(["user", "assistant", "assistant", "system"]),
    st.sampled_from(TEXTS) | st.text(max_size=8),
    st.sampled_from([{}, {}, {}, {"train": False}, {"weight": 0.5}, {"x": 1}, {"name": "n"}]),
)
RECORDS = st.builds(
    lambda messages, more: {"messages": messages} | more,
    st.lists(MESSAGES, max_size=5),
    st.sampled_from([
        {}, {}, {"tools": [TOOL]}, {"tools": []}, {"chat_template_kwargs": {"a": 1}},
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
    config = {"eos_token": "<|im_end|>", "model_max_length": 90}
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
