"""Prints SARIF 2.1.0, for code scanning: all rules in the head, then the results as they come."""

import inspect
from typing import Any, TextIO

import mypt_spec
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report.formats.gitlab import fingerprint
from mypt_lint.report.paths import uri
from mypt_lint.report.record import JsonArray
from mypt_spec.findings import RULES, Fix, Rule

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def _descriptor(rule: Rule) -> dict[str, Any]:
    doc = inspect.cleandoc(rule.doc) or rule.name
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary or rule.name},
        "fullDescription": {"text": " ".join(doc.split("\n\n")[0].split()) or rule.name},
        "help": {"text": doc, "markdown": doc},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _artifact(diagnostic: Diagnostic) -> dict[str, str]:
    reference, below_root = uri(diagnostic.filename)
    return {"uri": reference} | ({"uriBaseId": "%SRCROOT%"} if below_root else {})


def _region(row: int, column: int, end_row: int, end_column: int) -> dict[str, int]:
    return {"startLine": row, "startColumn": column, "endLine": end_row, "endColumn": end_column}


def _fix(fix: Fix, diagnostic: Diagnostic, edit: tuple[int, int, str]) -> dict[str, Any]:
    start, end, text = edit
    region = _region(diagnostic.row, start, diagnostic.row, end)
    change = {
        "artifactLocation": _artifact(diagnostic),
        "replacements": [{"deletedRegion": region, "insertedContent": {"text": text}}],
    }
    title = f"{fix.title} ({'safe' if fix.safe else 'unsafe'})"
    return {"description": {"text": title}, "artifactChanges": [change]}


def _location(item: Diagnostic) -> dict[str, Any]:
    region = _region(item.row, item.column, item.end_row, item.end_column)
    location = {"physicalLocation": {"artifactLocation": _artifact(item), "region": region}}
    pointer = item.finding.pointer
    return location | ({"logicalLocations": [{"fullyQualifiedName": pointer}]} if pointer else {})


class Report(JsonArray):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        rules = [RULES[code] for code in sorted(RULES)]
        self._index = {rule.code: at for at, rule in enumerate(rules)}
        driver = {
            "name": "mypt-lint",
            "version": mypt_spec.__version__,
            "rules": list(map(_descriptor, rules)),
        }
        self._before = (
            f'{{"$schema": "{_SCHEMA}", "version": "2.1.0", '
            f'"runs": [{{"tool": {{"driver": {self._text(driver)}}},\n'
            '"columnKind": "unicodeCodePoints", "results": [\n'
        )

    def finding(self, diagnostic: Diagnostic) -> None:
        finding = diagnostic.finding
        result: dict[str, Any] = {
            "ruleId": finding.code,
            "ruleIndex": self._index[finding.code],
            "level": _LEVELS[finding.severity],
            "message": {"text": finding.message},
            "locations": [_location(diagnostic)],
            "partialFingerprints": {"myptFindingHash/v1": fingerprint(diagnostic)},
            "properties": {
                "severity": finding.severity,
                "pointer": finding.pointer,
                "span": finding.span,
                "expected": finding.expected,
            },
        }
        if finding.fix is not None and diagnostic.edit is not None:
            result["fixes"] = [_fix(finding.fix, diagnostic, diagnostic.edit)]
        self._write(self._text(result))

    def finish(self, summary: Summary) -> None:
        head = "" if self._before == ",\n" else self._before
        self._stream.write(head + "\n]}]}\n")
