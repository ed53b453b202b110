"""Lints the chat templates of a file or model folder on the shipped conversations.

Equal faults of several conversations are one finding, which names the first of them.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.run.chunk import Chunk
from mypt_lint.template.checks import Case, Fault, case, faults, headers, injected, tokens
from mypt_lint.template.formats import Format
from mypt_lint.template.render import Failed, Outcome, Render, Rendered, literals, renderer
from mypt_lint.template.sandbox import compiled
from mypt_lint.template.source import Template, load
from mypt_lint.template.wording import garbled
from mypt_spec import Dialect
from mypt_spec.findings import Finding, regraded
from mypt_spec.templates.bounds import GROWS, OutOfBoundsError, bounded

CONVERSATIONS = Path(__file__).parent / "conversations.jsonl"
_TOOLS = ("declared tool", "name of a call")  # written by a template that has a place for tools
_OF_TOOLS = (*_TOOLS, "description", "argument")
_THINKING = "enable_thinking"


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What the conversations showed: faults with the number and name of their conversation."""

    cases: list[Case]
    faults: list[tuple[int, str, Fault]]
    lines: dict[Fault, int]  # of the template, of faults that have one


def lint_template(
    path: str, dialect: Dialect | None, codes: frozenset[str], severities: dict[str, str]
) -> Iterator[Chunk]:
    """Yields a Chunk for each template of a file or folder. Raises UsageError.

    `codes` are those that are reported, `severities` those that settings say.
    """
    style = None if dialect is None else Format(dialect)
    rows = [json.loads(line) for line in CONVERSATIONS.read_text(encoding="utf-8").splitlines()]
    compiled("")  # Jinja is loaded here, once for all
    for template in load(path):
        try:
            findings, faulty = bounded(_check, template, rows, style)
        except OutOfBoundsError as error:
            message = f"it renders nothing: rendering was stopped after {error}"
            findings, faulty = [(Finding("MYP710", message, help=GROWS), 1)], []
        chunk = Chunk(summary=Summary(files=1, units=len(rows), unit_name="conversation"))
        for finding, line in findings:
            if finding.code in codes:
                graded = regraded(finding, severities.get(finding.code, finding.severity))
                if template.name:  # the file holds several
                    graded = replace(graded, message=f"template {template.name}: {finding.message}")
                name = "" if dialect is None else dialect.name
                item = Diagnostic(graded, template.path, line, 1, line, 1, name)
                chunk.findings.append(item)
        yield chunk.counted(len({number for number, code in faulty if number and code in codes}))


def _check(
    template: Template, rows: list[dict[str, Any]], style: Format | None
) -> tuple[list[tuple[Finding, int]], list[tuple[int, str]]]:
    """Returns findings with their lines, and the numbers of conversations with codes."""
    out = _look(template, rows, style)
    faulty = [(number, fault.code) for number, _, fault in out.faults]
    return list(_findings(out, template)), faulty


def _look(template: Template, rows: list[dict[str, Any]], style: Format | None) -> _Outcome:
    template = style.named(template) if style else template
    render = renderer(template)
    rows, outcomes = _in_its_form(rows, render)
    out, literal_text = _Outcome([], [], {}), literals(template)
    for number, (row, outcome) in enumerate(zip(rows, outcomes, strict=True), 1):
        name = row["_name"]
        native = style.record(row) if style else None
        if isinstance(outcome, Failed) and style and native:
            theirs = style.rendered(render, native)
            outcome = theirs if isinstance(theirs, Rendered) else outcome
            new = list(style.faults(theirs, native)) if isinstance(theirs, Rendered) else []
        elif isinstance(outcome, Rendered):
            out.cases.append(here := case(row, render, outcome))
            new = [*faults(here, template.stops), *garbled(here, literal_text)]
            if style:  # whose loss mask says what is marked
                new = [fault for fault in new if fault.subject != "header"]
            is_complete = row["messages"][-1]["role"] == "assistant"
            new += style.faults(outcome, native, complete=is_complete) if style else []
        else:
            new = []
        if isinstance(outcome, Failed):
            code = "MYP712" if outcome.refused else "MYP711"
            fault = Fault(code, outcome.message, outcome.message)
            new = [fault]
            if outcome.line:
                out.lines[fault] = outcome.line
        out.faults.extend((number, name, fault) for fault in new)
    numbers = {row["_name"]: number for number, row in enumerate(rows, 1)}
    out.faults.extend((numbers[one.name], one.name, fault) for one, fault in headers(out.cases))
    if out.cases:
        first = out.cases[0]
        becomes = injected(first, tokens(first, template.tokens, template.assumed))
        out.faults.extend([(0, "", becomes)] if becomes else [])
    return out


def _in_its_form(
    rows: list[dict[str, Any]], render: Render
) -> tuple[list[dict[str, Any]], list[Outcome]]:
    """Returns the conversations in the form that a template takes, and what it makes of them.

    Templates of models that see images take content as parts, and some take the arguments of a call
    as JSON text.
    """
    best: tuple[int, list[dict[str, Any]], list[Outcome]] | None = None
    for form in (lambda row: row, _as_parts, _as_json_text):
        formed = [form(copy.deepcopy(row)) for row in rows]
        outcomes = [render(row["messages"], row.get("tools")) for row in formed]
        plain = [
            isinstance(outcome, Rendered)
            and all(_first_text(m) in outcome.text for m in row["messages"] if m["role"] == "user")
            for row, outcome in zip(formed, outcomes, strict=True)
            if row.get("_plain")
        ]
        if best is None or sum(plain) > best[0]:
            best = sum(plain), formed, outcomes
        if all(plain):
            break
    assert best is not None
    return best[1], best[2]


def _as_parts(row: dict[str, Any]) -> dict[str, Any]:
    for message in row["messages"]:
        if isinstance(message.get("content"), str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    return row


def _as_json_text(row: dict[str, Any]) -> dict[str, Any]:
    for call in (call for m in row["messages"] for call in m.get("tool_calls") or ()):
        value = call["function"]["arguments"]
        call["function"]["arguments"] = value if isinstance(value, str) else json.dumps(value)
    return row


def _first_text(message: dict[str, Any]) -> str:
    content = message["content"]
    return (content if isinstance(content, str) else content[0]["text"]).strip()


def _findings(out: _Outcome, template: Template) -> Iterator[tuple[Finding, int]]:
    if not out.cases and all(fault.code in ("MYP711", "MYP712") for _, _, fault in out.faults):
        _, _, fault = out.faults[0]
        message = f"it renders no conversation: {fault.subject}"
        yield Finding("MYP710", message), out.lines.get(fault, 1)
        return
    kinds = {value.kind for case in out.cases for value in case.values}
    nowhere = kinds - {value.kind for case in out.cases for value, _ in case.spans}
    if nowhere.issuperset(("question", "answer")):
        yield Finding("MYP710", "it writes no question and no answer of any conversation"), 1
        return
    together: dict[tuple[str, str], list[tuple[int, str, Fault]]] = {}
    for item in out.faults:
        together.setdefault(_subject(item[2], nowhere), []).append(item)
    for (code, subject), items in sorted(together.items(), key=lambda pair: pair[0][0]):
        number, name, fault = items[0]
        count = len({each for each, _, _ in items})
        message = fault.message
        if code == "MYP721":
            message = f"it has no place for {subject}: they are left out without a word"
        elif count > 1:
            message += f"; in {count} conversations"
        if name:
            message += f', first in "{name}"' if count > 1 else f', in "{name}"'
        advice = f"the conversation is line {number} of {CONVERSATIONS.name}" if name else ""
        if code == "MYP717" and _THINKING in template.text:
            advice = f"the template has a switch {_THINKING}: set it as the data was written"
        yield Finding(code, message, help=advice), out.lines.get(fault, 1)


def _subject(fault: Fault, nowhere: set[str]) -> tuple[str, str]:
    """Returns what faults of one finding share: the code, and what they are about."""
    if fault.subject == "earlier thought" and "thought" in nowhere:
        return "MYP721", "thoughts"
    if fault.code in ("MYP713", "MYP714") and fault.subject in _OF_TOOLS:
        if nowhere.issuperset(_TOOLS):
            return "MYP721", "tools and calls"
    elif fault.code == "MYP713" and fault.subject in nowhere:
        return "MYP721", f"{fault.subject}s"
    return fault.code, fault.subject
