"""Lints the chat templates of a file or model folder on the shipped conversations.

Equal faults of several conversations are one finding, which names the first of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.run.chunk import Chunk
from mypt_lint.template import checks
from mypt_lint.template.checks import Case, Fault, difference, quoted
from mypt_lint.template.formats import Format
from mypt_lint.template.render import Failed, Rendered, Rows, in_its_form, literals, renderer
from mypt_lint.template.sandbox import other_engine
from mypt_lint.template.source import Template, load
from mypt_lint.template.source_checks import source_faults, token_faults
from mypt_lint.template.wording import Tags, garbled, never_closed
from mypt_spec.findings import Finding, regraded
from mypt_spec.templates.bounds import GROWS, Bounded, OutOfBoundsError
from mypt_spec.templates.sandbox import compiled, share

if TYPE_CHECKING:
    from mypt_spec import Dialect

CONVERSATIONS = Path(__file__).parent / "conversations.jsonl"
RARE = Path(__file__).parent / "rare_conversations.jsonl"  # which a template may lack a place for
_TOOLS = ("declared tool", "name of a call")  # written by a template that has a place for tools
_OF_TOOLS = (*_TOOLS, "description", "argument")
_THINKING = "enable_thinking"
_Text = tuple[str, list[dict[str, Any]], list[Any] | None, str]  # name, messages, tools, rendering


class _Outcome(NamedTuple):
    """What the conversations showed: faults with the number and name of their conversation."""

    cases: list[Case]
    faults: list[tuple[int, str, Fault]]
    lines: dict[Fault, int]  # of the template, of faults that have one
    usual: int  # conversations of the first file
    rows: list[dict[str, Any]]  # as the template takes them


def lint_templates(
    paths: Iterable[str], dialect: Dialect | None, codes: frozenset[str],
    severities: dict[str, str], fix: Callable[..., Template] | None = None,
) -> Iterator[Chunk]:  # fmt: skip
    """Yields a Chunk for each template of files or folders. Raises UsageError.

    `codes` are reported, by the `severities` of settings; `fix` returns what replaces a template.
    """
    style = None if dialect is None else Format(dialect)
    files = [file.read_text("utf-8").splitlines() for file in (CONVERSATIONS, RARE)]
    rows = [json.loads(line) | {"_file": i} for i, lines in enumerate(files) for line in lines]
    compiled("")  # Jinja is loaded here, once for all
    share(*(row["tools"] for row in rows if row.get("tools")))
    engines = "MYP745" in codes
    check = Bounded(partial, _check, {None: rows}, style, engines)
    for template in chain.from_iterable(map(load, paths)):
        template = fix({None: rows}, style, template) if fix else template
        try:
            findings, faulty, texts = check(template)
            if engines:  # in its own bounds: it takes more address space than a process may
                findings += _of_engine("llama.cpp", template, texts)
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
                chunk.findings.append(Diagnostic(graded, template.path, line, 1, line, 1, name))
        yield chunk.counted(len({number for number, code in faulty if number and code in codes}))
    check.close()


def _check(
    rows: Rows, style: Format | None, engines: bool, template: Template
) -> tuple[list[tuple[Finding, int]], list[tuple[int, str]], list[_Text]]:
    """Returns findings with their lines, the numbers of conversations with codes, and texts."""
    out = look(template, rows, style)
    cases = [case for case in out.cases if engines]
    texts = [(c.record["_name"], c.messages, c.record.get("tools"), c.output.text) for c in cases]
    faulty = [(number, fault.code) for number, _, fault in out.faults]
    findings = dict[tuple[str, str], tuple[Finding, int]]()  # of the source, rendered or not
    for fault, line in source_faults(template.text):
        findings.setdefault((fault.code, fault.subject), (Finding(fault.code, fault.message), line))
    of_engine = _of_engine("minijinja", template, texts)
    return [*_findings(out, template), *findings.values(), *of_engine], faulty, texts


def _of_engine(name: str, template: Template, texts: list[_Text]) -> list[tuple[Finding, int]]:
    """Returns how another engine renders texts, if it is installed and does so otherwise."""
    engine, messages = other_engine(name) if texts else None, []
    for conversation, chat, tools, text in texts if engine else ():
        values = {"messages": chat, "tools": tools, "add_generation_prompt": False}
        try:
            assert engine is not None
            other = engine(template.text, values | template.tokens | template.options)
            at, ours, theirs = difference(text, other)
            how = f"at character {at}, {quoted(theirs)} where Jinja writes {quoted(ours)}"
        except Exception as error:  # whatever an engine does
            other, how = None, f"it fails: {str(error)[:200]}"
        if other != text:
            messages.append(f'{name} renders "{conversation}" otherwise: {how}')
    several = f"; {len(messages)} of {len(texts)} conversations" * (len(messages) > 1)
    return [(Finding("MYP745", messages[0] + several), 1)] if messages else []


def look(template: Template, rows: Rows, style: Format | None) -> _Outcome:
    """Returns what the conversations show of a template."""
    template = style.named(template) if style else template
    render = renderer(template)
    formed, outcomes = in_its_form(rows, render)
    pairs = Tags(literal_text := literals(template))
    out = _Outcome([], [], {}, sum(not row["_file"] for row in formed), formed)
    for number, (row, outcome) in enumerate(zip(formed, outcomes, strict=True), 1):
        name = row["_name"]
        native = style.record(row) if style and not row["_file"] else None
        if isinstance(outcome, Failed) and style and native:
            theirs = render(style.messages(native), native.get("tools"))
            outcome = theirs if isinstance(theirs, Rendered) else outcome
            new = list(style.faults(theirs, native)) if isinstance(theirs, Rendered) else []
        elif isinstance(outcome, Rendered):
            here = checks.case(row, render, outcome)
            rare = row["_file"]
            new = [*(checks.vanished(here) if rare else checks.faults(here, template.stops))]
            new += garbled(here, literal_text)
            if row.get("_limit"):
                shown = {(fault.code, fault.subject) for _, _, fault in out.faults}
                new = [*checks.as_warnings(new, shown)]
            new += pairs.unbalanced(here)
            if not row["_file"]:
                out.cases.append(here)
            if style and not row["_file"]:  # whose loss mask says what is marked
                new = [fault for fault in new if fault.subject != "header"]
                is_complete = row["messages"][-1]["role"] == "assistant"
                new += style.faults(outcome, native, complete=is_complete)
        else:
            new = []
        if isinstance(outcome, Failed) and not (outcome.refused and row.get("_tags")):
            code = "MYP712" if outcome.refused else "MYP711"
            fault = Fault(code, outcome.message, outcome.message)
            new = [fault]
            if outcome.line:
                out.lines[fault] = outcome.line
        out.faults.extend((number, name, fault) for fault in new)
    out.faults[:] = [x for x in out.faults if x[2].code != "MYP727" or x[2].subject in pairs.judged]
    numbers = {row["_name"]: number for number, row in enumerate(formed, 1)}
    of_headers = [*checks.headers(out.cases), *checks.cut_headers(out.cases)]
    out.faults.extend((numbers[name], name, fault) for name, fault in of_headers)
    out.faults.extend((0, "", fault) for fault in never_closed(literal_text))
    if out.cases:
        first = out.cases[0]
        becomes = checks.injected(first, checks.tokens(first, template.tokens, template.assumed))
        out.faults.extend([(0, "", becomes)] if becomes else [])
        cases, bos = out.cases if template.folder else (), template.tokens.get("bos_token", "")
        tags = list(dict.fromkeys(tag for case in cases for tag in checks.tokens(case, {})))
        new = [*token_faults(first.output.text, tags, bos, template.folder)]
        out.faults.extend((0, "", fault) for fault in new)
    out.faults.extend(_dated(template, formed, outcomes))
    return out


def _dated(
    template: Template, rows: list[dict[str, Any]], outcomes: list[Rendered | Failed]
) -> Iterator[tuple[int, str, Fault]]:
    """Yields the first conversation whose text depends on the day."""
    if "strftime_now" not in template.text:
        return
    later = datetime.now() + timedelta(days=400)
    render = renderer(replace(template, options={"strftime_now": later.strftime}))
    for number, (row, outcome) in enumerate(zip(rows, outcomes, strict=True), 1):
        other = render(row["messages"], row.get("tools"))
        if isinstance(outcome, Rendered) and isinstance(other, Rendered) and other != outcome:
            at = max(0, difference(outcome.text, other.text)[0] - 20)
            message = f"the text depends on the day: {quoted(outcome.text[at:])}"
            yield number, row["_name"], Fault("MYP728", "date", message)
            return


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
        file, line = (RARE, number - out.usual) if number > out.usual else (CONVERSATIONS, number)
        advice = f"the conversation is line {line} of {file.name}" if name else ""
        if code == "MYP717" and _THINKING in template.text:
            advice = f"the template has a switch {_THINKING}: set it as the data was written"
        yield Finding(code, message, help=advice), out.lines.get(fault, 1)


def _subject(fault: Fault, nowhere: set[str]) -> tuple[str, str]:
    """Returns what faults of one finding share: the code, and what they are about."""
    if fault.subject == "earlier thought" and "thought" in nowhere:
        return "MYP721", "thoughts"
    if fault.code in ("MYP713", "MYP714", "MYP744") and fault.subject in _OF_TOOLS:
        if nowhere.issuperset(_TOOLS):
            return "MYP721", "tools and calls"
    elif fault.code in ("MYP713", "MYP744") and fault.subject in nowhere:
        return "MYP721", f"{fault.subject}s"
    return fault.code, fault.subject
