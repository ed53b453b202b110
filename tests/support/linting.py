"""Run the linter as people call it, and read its findings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mypt.lint.cli import main
from mypt_lint.check.checker import Checker
from tests.support.build import lines, native

ROOT = Path(__file__).parents[2]
GOOD = json.dumps(native(answer="Yo")) + "\n"  # a line without a finding
# A text of the main format that is legal, too.
TEXT = (
    "<myPT_system>S</myPT_system><myPT_user>Q</myPT_user><myPT_assistant>A</myPT_assistant>"
    "<myPT_eot>"
)

Findings = list[dict[str, Any]]


class Linter:
    """Runs `mypt-lint` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.summary: dict[str, Any] = {}  # of the last run

    def __call__(self, *arguments: Any) -> tuple[int, Findings, str]:
        """Returns the exit status, the findings, and what is printed to stderr."""
        self.capsys.readouterr()
        status = main(["--format", "jsonl", *map(str, arguments)])
        out, err = self.capsys.readouterr()
        *findings, self.summary = [json.loads(line) for line in out.splitlines()] or [{}]
        return status, findings, err

    def of(self, data: str | bytes, *options: str, name: str = "data.jsonl") -> Any:
        """Writes a file in the current folder, and checks it."""
        write_texts({name: data})
        return self(*options, name)


def write_texts(files: Mapping[str, str | bytes]) -> None:
    """Writes files, and the folders around them, below the current folder."""
    for name, data in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data if isinstance(data, bytes) else data.encode())


def codes(findings: Findings) -> list[str]:
    return [finding["code"] for finding in findings]


def places(findings: Findings) -> list[tuple[str, str]]:
    """Returns the code and the pointer of each."""
    return [(finding["code"], finding["pointer"]) for finding in findings]


def rows(findings: Findings) -> list[tuple[int, str]]:
    """Returns the row and the code of each."""
    return [(finding["location"]["row"], finding["code"]) for finding in findings]


def files(findings: Findings) -> list[str]:
    """Returns the names of the files that have findings."""
    return sorted({finding["filename"].removeprefix("./") for finding in findings})


def codes_of(checker: Checker, record: Any) -> list[str]:
    """Returns the codes of a record, which may be a line already, that stands on a later line."""
    (line,) = lines(record)
    return [item.finding.code for item in checker.line(line, row=2, filename="")]
