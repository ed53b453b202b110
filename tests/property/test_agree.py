"""Every command takes a file for the same format, and says the same of its records."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.view import main as view
from mypt_lint.run.plan import Plan
from mypt_lint.run.resolve import format_of, resolved
from mypt_lint.settings.config import Config
from mypt_spec.dialect import detectable_dialects
from tests.support.examples import examples
from tests.support.maker import drawn
from tests.support.shapes import RECORDS
from tests.support.strategies import legal

KEYS = ("id", "source", "traj", "answer", "sytem", "system", "tools", "Query", "text", "language")
ODD = ({"Query": "q", "Answer": "a"}, {"contents": [{"role": "user", "parts": []}]}, {}, {"x": 1})
SHAPED = [json.loads(json.dumps(record)) for _, record, _ in RECORDS]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def files(random: Random) -> list[Any]:
    """Returns records of one kind, each perhaps with further keys, one perhaps of another."""
    name = random.choice(detectable_dialects())
    kind = random.choice((SHAPED, ODD, [legal(random, name) for _ in range(3)]))
    records = [random.choice(kind) for _ in range(random.randint(1, 4))]
    if random.randrange(4) == 0:
        records.append(random.choice(SHAPED))
    more = {key: random.choice(("x", None, 1, [])) for key in random.sample(KEYS, 2)}
    return [{**more, **r} if isinstance(r, dict) and random.randrange(2) else r for r in records]


def checked(records: list[Any], *words: str) -> tuple[Path, list[Any], int]:
    """Writes records to a file; returns (file, findings of the linter, its exit status)."""
    path, report = Path("x.jsonl"), Path("found.json")
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    command = ["--no-config", "-q", "--format", "json", str(path), "-o", str(report)]
    status = lint([*command, *words])
    return path, json.loads(report.read_text()), status


@pytest.mark.usefixtures("here")
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn(files))
def test_a_file_is_the_same_for_every_command(records: list[Any]) -> None:
    path, linted, _ = checked(records, "--dialect", "auto")
    plan = Plan({"dialect": "auto"}, Config())
    (source,) = plan.files([str(path)])
    found = resolved(plan, source, lambda _: None)
    name = found.settings["records"] if found.formatless else found.dialect
    for named in ({"dialect": "auto"}, {}):
        (source,) = (plan := Plan(named, Config())).files([str(path)])
        seen = resolved(plan, source, lambda _: None)
        taken = format_of(plan, source, lambda _: None)[0]
        assert taken == (seen.settings["records"] if seen.formatless else seen.dialect), (
            "mypt-convert"
        )
    assert {f["dialect"] for f in linted} <= {name}
    for row, record in enumerate(records, 1):
        if not found.formatless and not found.settings["records"]:
            own = {f.code for f in mypt_spec.dialect(name).check(record)[1]}
            said = {f["code"] for f in linted if f["location"]["row"] == row}
            assert "MYP014" in said or own - {"MYP112"} == said - {"MYP112"}


@pytest.mark.usefixtures("here")
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn(files))
def test_the_view_says_what_the_linter_says(records: list[Any]) -> None:
    path, linted, status = checked(records)
    errors = {f["code"] for f in linted if f["severity"] == "error"}
    assert view(["--no-config", "-q", "--all", "--html", "x.html", str(path)]) == status
    assert all(code in Path("x.html").read_text() for code in errors)
