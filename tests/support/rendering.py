"""Diagnostics with any text in them, and what a format makes of them."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

import mypt_spec  # noqa: F401  registers the rules
from mypt_lint.check.diagnostic import Diagnostic, Snippet, Summary
from mypt_lint.report import renderer
from mypt_lint.report.overview import Overview
from mypt_spec.findings import RULES, Finding, Fix

PIECES = [
    "[/INST]", "[b]", "\x1b[31m", "%0A", "::error::", ",", ":", "\n", "\r\n", "\t", "\u2028", "\x85",
    "\u202e", "\u200d", "\ufe0f", "\u0301", "漢", "👩‍🚀", "👍🏽", "🇩🇪", "\ud800", "\udcff", "\udc00",
    "<myPT_eot>", "\\", "`", "\x00", "\U000e0041",
]  # fmt: skip
texts = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text())).map("".join),
)
numbers = st.integers(1, 10**6)
spans = st.tuples(st.integers(0, 30), st.integers(0, 30))
snippets = st.builds(Snippet, texts, spans, st.booleans(), st.booleans())
fixes = st.builds(
    Fix, texts, st.booleans(), st.just(()), st.lists(st.tuples(numbers, numbers, texts)).map(tuple)
)
findings = st.builds(
    Finding,
    st.sampled_from(sorted(RULES)),
    texts,
    pointer=texts,
    span=st.none() | spans,
    expected=st.lists(texts, max_size=4).map(tuple),
    help=texts,
    fix=st.none() | fixes,
)
placed = st.builds(
    Diagnostic, findings, texts, numbers, numbers, numbers, numbers, texts, st.none() | snippets,
    edit=st.none(), record=st.just(0), table=st.just(False),
)  # fmt: skip


def rendered(
    name: str,
    items: Sequence[Diagnostic],
    encoding: str = "utf-8",
    *,
    summary: Summary | None = None,
    overview: Overview | None = None,
    **options: Any,
) -> str:
    """Returns the output of a format, through a real encoded stream.

    What cannot be encoded raises here as it would on a terminal.
    """
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="")
    output = renderer(name, stream, **options)
    for item in items:
        output.finding(item)
    output.overview = overview
    output.finish(summary or Summary(files=1))
    stream.flush()
    return raw.getvalue().decode(encoding)


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))
