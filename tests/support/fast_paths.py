"""Compare the fast paths of the linter and of preparing with what the slow ways make of each line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import Dialect
from mypt_train.data.encode_line import Encoder, LineOutcome, Options


def codes_of(checker: Checker, line: bytes) -> list[str]:
    """Returns the codes of what a checker finds in a line."""
    return [item.finding.code for item in checker.line(line, row=2, filename="")]


def assert_sound(prover: CleanFilter, lines: list[bytes]) -> None:
    """Asserts that no line is called clean in which the checker finds something.

    The lines are tried one by one, in a block, and once more.
    """
    codes = [codes_of(prover.checker, line) for line in lines]
    for _ in range(2):
        for line, found in zip(lines, codes, strict=True):
            assert prover.doubtful([line]) or not found, (line, found)
        count, doubtful = prover.unproved(b"".join(line + b"\n" for line in lines))
        assert count == len(lines)
        assert [lines[i] for i, _ in doubtful] == [raw for _, raw in doubtful]
        assert {i for i, found in enumerate(codes) if found} <= {i for i, _ in doubtful}


def facts(outcome: LineOutcome) -> object:
    """Returns all that an outcome says, as values that can be compared."""
    samples = [
        (s.ids.tolist(), s.mask.tolist(), None if s.weights is None else s.weights.tolist(), s.weighed)
        for s in outcome.samples
    ]  # fmt: skip
    return (
        outcome.status, samples, outcome.findings, outcome.tags, outcome.history, outcome.warned,
    )  # fmt: skip


def assert_same_ids(encoder: Encoder, slow: Encoder, lines: Sequence[bytes]) -> list[LineOutcome]:
    """Asserts that lines at once, when they are new, learnt and known, make what each makes alone.

    Returns the outcomes of the slow encoder.
    """
    outcomes = [slow.line(line) for line in lines]
    expected = [facts(outcome) for outcome in outcomes]
    for _ in range(3):
        assert [facts(outcome) for outcome in encoder.lines(list(lines))] == expected
    return outcomes


def parts(value: Any) -> list[tuple[Any, Any]]:
    """Returns (container, key) of all values in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()  # fmt: skip
    return [place for key, inner in items for place in [(value, key), *parts(inner)]]


def assert_fast(d: Dialect, lines: list[bytes]) -> None:
    """Asserts that the fast paths of linter and preparation return what the usual ones do."""
    assert_sound(CleanFilter(Checker(d)), lines)
    asked = Options(dialect=str(d.folder))
    slow = Encoder(asked)
    slow.chats = slow.templates = None
    assert_same_ids(Encoder(asked), slow, lines)
