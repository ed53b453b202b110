"""Checks serialised texts and generations, and locates their findings. Pure, as checker.py.

A text may hold several episodes, one after another. A generation is what a model wrote: a legal
beginning is told apart from an illegal one, and what only the system may write is refused (family
7; section 11 of grammar/mypt/SPEC.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mypt_cli.jsonl.line import FROM_UTF16, IS_UTF16, is_utf16
from mypt_lint.check.checker import Checker
from mypt_lint.check.detect import episodes_of
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.check.trainer_rows import check_row
from mypt_lint.proposals.candidates import text_candidates
from mypt_spec.bodies.json_body import read_body
from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.episode import Episode, Event, Place
from mypt_spec.findings import Finding
from mypt_spec.states import awaits_result, model_writes
from mypt_spec.table import END, TEXT, Terminal
from mypt_spec.validator import Run


@dataclass(slots=True)
class Units:
    """The findings of a text, and how many episodes or generations it has, clean or not."""

    findings: list[Diagnostic] = field(default_factory=list)
    units: int = 0
    clean: int = 0


def generation_line(checker: Checker, raw: bytes, *, row: int, filename: str) -> list[Diagnostic]:
    """Returns the findings of a line {"prompt": "...", "completion": "..."}.

    The completion is what a model wrote after the prompt, which may be left out.
    """
    text = raw.decode("utf-8", "replace")
    try:
        record = loads(text)
    except Fault:
        return checker.line(raw, row=row, filename=filename)
    prompt = record.get("prompt", "") if isinstance(record, dict) else None
    if not isinstance(prompt, str) or not isinstance(record.get("completion"), str):
        message = (
            'expected {"prompt": "...", "completion": "..."}, both strings; the prompt may be left '
            "out"
        )
        return [checker.at(Finding("MYP104", message), text, 0, len(text), row, filename)]
    findings = [
        replace(f, pointer=f.pointer or "/completion")
        for f in generation(checker, record["completion"], prompt)
    ]
    return list(checker.in_record(findings, text, row, filename))


def row_line(checker: Checker, raw: bytes, *, row: int, filename: str) -> list[Diagnostic]:
    """Returns the findings of a line that is a row of tokens for a trainer."""
    text = raw.decode("utf-8", "replace")
    try:
        findings = list(check_row(checker.dialect, loads(text), checker.mask))
    except Fault:
        return checker.line(raw, row=row, filename=filename)
    return list(checker.in_record(findings, text, row, filename))


def text_units(checker: Checker, data: bytes, filename: str) -> Units:
    """Checks the episodes of a serialised text.

    A line end after an episode belongs to the file, unless it belongs to a tag.
    """
    text, findings, readable = decode(checker, data)
    out = Units()
    for unit in text_episodes(checker, text) if readable else ():
        at = unit.start
        shifted = [_shifted(f, at) for f in unit.findings]
        out.units += 1
        out.clean += not shifted
        findings += shifted
    out.units = max(out.units, 1)
    out.findings = checker.text(text, findings, filename=filename)
    return out


def _look(checker: Checker, text: str) -> tuple[Episode | None, list[Finding]]:
    episode, findings = checker.dialect.parse(text)
    return episode, findings if episode is None else findings + checker.dialect.validate(
        episode, limits=checker.limits
    )


def _shifted(finding: Finding, by: int) -> Finding:
    """Returns an episode's finding in the text around it: its span, and the place of its fix."""
    span, fix = finding.span, finding.fix
    if fix is not None:
        edits = tuple((start + by, end + by, new) for start, end, new in fix.edits)
        fix = fix._replace(edits=edits)
    return replace(finding, span=(span[0] + by, span[1] + by) if span else (by, by), fix=fix)


class TextEpisode(NamedTuple):
    """An episode of a longer text: where it starts, and its selected findings.

    The spans of the findings count from the start of the episode.
    """

    start: int
    text: str
    episode: Episode | None
    findings: list[Finding]


def text_episodes(checker: Checker, text: str) -> Iterator[TextEpisode]:
    """Yields the episodes of a text that may hold several, each checked by itself.

    A byte order mark before the first one is passed over.
    """
    after_mark = len(_mark(text))
    for start, content in episodes_of(checker.dialect, text[after_mark:]):
        episode, findings = _look(checker, content)
        findings = (
            text_candidates(checker.dialect, content, findings, lambda new: _look(checker, new)[1])
            if checker.with_fixes
            else findings
        )
        selected = [checker.graded(f) for f in findings if checker.selects(f.code)]
        yield TextEpisode(start + after_mark, content, episode, selected)


def generation_units(checker: Checker, data: bytes, filename: str) -> Units:
    """Checks a file that holds one generation."""
    text, findings, readable = decode(checker, data)
    if readable:
        after_mark = len(_mark(text))
        findings += [_shifted(f, after_mark) for f in generation(checker, text[after_mark:])]
    items = checker.text(text, findings, filename=filename)
    return Units(items, 1, int(not items))


def decode(checker: Checker, data: bytes) -> tuple[str, list[Finding], bool]:
    """Returns (text, findings, readable) of the bytes of a file, by the settings."""
    text = data.decode("utf-8", "replace")
    if fault := _unreadable(data):
        return text, [checker.insist(fault)], False
    if not _mark(text):
        return text, [], True
    mark = Finding("MYP009", "the file begins with a byte order mark", span=(0, 1))
    return text, [checker.graded(mark)] if checker.selects(mark.code) else [], True


def _mark(text: str) -> str:
    return "\ufeff" if text.startswith("\ufeff") else ""


def _unreadable(data: bytes) -> Finding | None:
    if is_utf16(data[:4]):
        message = IS_UTF16.replace("line", "text")
        return Finding("MYP002", message, span=(0, 1), help=FROM_UTF16)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        start = len(data[: error.start].decode("utf-8"))
        message = f"byte {error.start + 1} (0x{data[error.start]:02x}) is not UTF-8: {error.reason}"
        return Finding("MYP002", message, span=(start, start + 1), help="convert the file to UTF-8")
    return None


def generation(checker: Checker, text: str, prompt: str = "") -> list[Finding]:
    """Returns findings about what a model wrote; spans count code points of `text`.

    Without a prompt, a text that begins like a conversation is read from its start, prompt and all;
    any other is read from the place in a conversation, among those where the model may write, that
    explains it best.
    """
    dialect = checker.dialect
    events = dialect.lex(text)
    if prompt:
        before = dialect.check_prefix(prompt)
        if before.findings:
            first = before.findings[0]
            message = f"the prompt is not a legal beginning: {first.message}"
            return [replace(first, message=message, pointer="/prompt")]
        return _explained(checker, events, before.state, before.last)[1]
    machine = dialect.automaton
    if events and events[0].terminal in machine.steps[machine.start]:
        return _explained(checker, events, machine.start, "", transcript=True)[1]
    by_state = model_writes(machine, dialect.table)
    places = [_explained(checker, events, state) for state, names in by_state.items() if names]
    return min(places, key=_badness, default=(True, []))[1]


def _badness(explained: tuple[bool, list[Finding]]) -> tuple[bool, int, int]:
    legal, findings = explained
    errors = [f for f in findings if f.severity == "error"]
    first = errors[0].span if errors else None
    return not legal, len(errors), -(first[0] if first else 0)


def _explained(
    checker: Checker,
    events: list[Event],
    state: int,
    last: str | None = None,
    *,
    transcript: bool = False,
) -> tuple[bool, list[Finding]]:
    """Returns (legal, findings) of a text after a state: whether its tags may be there."""
    table, machine = checker.dialect.table, checker.dialect.automaton
    outcome = Run(table, machine, complete=False).start_at(state, last).check(events)
    if outcome.findings:
        return False, outcome.findings
    if not transcript:
        beyond = _beyond(checker, outcome.events, state)
        if beyond:
            return False, beyond
    findings = list(_bodies(checker, outcome.events))
    names = machine.steps[outcome.state]
    may_go_on = any(n == TEXT or table.terminals[n].by_model for n in names)
    if not findings and may_go_on and outcome.state not in machine.accepts:
        words = table.describe(machine.expected(outcome.state))
        where = (
            f"inside `{table.openers[outcome.inside].shown}`"
            if outcome.inside
            else "between blocks"
        )
        end = events[-1].at.span[1] if events and events[-1].at.span else 0
        message = f"legal so far, but not complete: it stops {where}"
        findings.append(Finding("MYP701", message, span=(end, end), expected=words))
    return True, findings


def _beyond(checker: Checker, events: list[Event], state: int) -> list[Finding]:
    """Returns a finding about the first tag that is legal, but not for a model to write."""
    table, machine = checker.dialect.table, checker.dialect.automaton
    for event in events:
        terminal = table.terminals.get(event.terminal)
        if terminal is None or terminal.by_model:
            state = machine.steps[state][event.terminal]
            continue
        # Where prompts are complete too, to be complete does not mean that the turn is over. A
        # conversation may also end with calls.
        ended = state in machine.accepts and not table.prompts
        if ended and not awaits_result(state, machine, table):
            code, hint = "MYP703", "stop at the end of the turn"
            message = f"the turn was over, and the model went on with `{terminal.shown}`"
            expected = {END}
        else:
            code, hint = "MYP702", "stop generation before it"
            message = f"the model wrote `{terminal.shown}`, which only the system may write"
            names = machine.steps[state]
            expected = {n for n in names if n == TEXT or table.terminals[n].by_model}
        words = table.describe(frozenset(expected))
        return [Finding(code, message, span=event.at.span, expected=words, help=hint)]
    return []


def _bodies(checker: Checker, events: list[Event]) -> Iterator[Finding]:
    table = checker.dialect.table
    around: list[tuple[Terminal, Event]] = []
    body = ""
    for event in events:
        terminal = table.terminals.get(event.terminal)
        if terminal is None:
            body += event.text
            continue
        if terminal.opens:
            around.append((terminal, event))
        elif terminal.closes and around:
            opener, start = around.pop()
            quoted = any(t.quotes for t, _ in around)
            if opener.body != "text" and not quoted and start.at.span and event.at.span:
                at = Place("", (start.at.span[1], event.at.span[0]))
                yield from read_body(body, opener.body, table.literals, at).findings
        body = ""
