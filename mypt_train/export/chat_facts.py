"""Says of a dialect what its chat template needs to know, as plain data.

Input: a dialect. Output: `Facts`. Each is read off the automaton and the token table, and what is
trained off the encoder's own mask, so that a template writes what the serialiser writes. `endings`
are the tags at which a model stops.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from mypt_spec import Dialect
from mypt_spec.encoder import segments
from mypt_spec.episode import Event
from mypt_spec.states import awaits_result, model_writes, open_blocks, result_opener, stop_tags
from mypt_spec.table import TEXT, Terminal
from mypt_train.export.tokenizer_file import ExportError

_FEW = 200  # the most characters that a template lists


class Facts(NamedTuple):
    """What a template knows of a format.

    - `steps`: for each state, each terminal that may come with [state after, 1 if it is trained].
    - `spelled`: of each tag, its pieces [text, ""] or [attribute, pattern]; without white space
      that the system adds after it, which is in `trails`. Of `stops`, the first is trained alone.
    - `expected`: for each state, what may come, for people. `shown`: each tag, for people.
    - `joined`: of each tag with other spellings, by what is before it, the tag that is written.
    - `letters`: of each attribute, [characters, 1 if others are allowed, 0 if these].
    - `prompts`: for each state in which a prompt may end, the tags up to where the model writes.
    - `unprompted`: tags whose first piece is in no prompt.
    - `tags`: what text may not spell. `escapes`: pairs of what JSON may not spell, and its escape.
    """

    start: int
    steps: list[dict[str, list[int]]]
    spelled: dict[str, list[list[str]]]
    trails: dict[str, str]
    stops: list[str]
    expected: list[str]
    shown: dict[str, str]
    joined: dict[str, dict[str, str]]
    letters: dict[str, list[Any]]
    prompts: dict[int, list[str]]
    unprompted: list[str]
    tags: list[str]
    escapes: list[list[str]]


def facts(dialect: Dialect, *, reserved: tuple[str, ...] = ()) -> Facts:
    """Returns what a template knows of a dialect.

    `reserved` are spellings of other special ids, which no text may have. Raises ExportError for an
    attribute whose values a template cannot check.
    """
    table, machine = dialect.table, dialect.automaton
    steps, rows = trained_steps(dialect), table.terminals.values()
    plain = [first_text(t) for t in table.plain_tags]
    order, follow = [TEXT, *table.terminals], [*table.joined, *(name for name, _ in table.placed)]
    special = [] if dialect.vocabulary is None else [*dialect.vocabulary.special]
    tags = sorted({*table.special, *special, *reserved, *plain}, key=lambda t: (-len(t), t))
    literal = [tag for tag in tags if tag in table.tags or tag in table.special]
    return Facts(
        machine.start,
        [{n: [machine.steps[i][n], row[n]] for n in row} for i, row in enumerate(steps)],
        {t.name: [[p.value, p.pattern] for p in t.stem] for t in table.terminals.values()},
        {t.name: t.trail for t in table.terminals.values() if t.trail},
        sorted(table.stops),
        [" or ".join(table.describe({*row})) for row in steps],
        {t.name: t.shown for t in table.terminals.values()},
        {n: {last: then for last in order if (then := table.join(n, last)) != n} for n in follow},
        {p: _letters(p) for t in table.terminals.values() for p in t.patterns.values()},
        prompts(dialect),
        [t.name for t in rows if not all(p.prompts for p in t.spelling)],
        tags,
        [[tag, f"\\u{ord(tag[0]):04x}{tag[1:]}"] for tag in literal if "\n" not in tag],
    )


def first_text(terminal: Terminal) -> str:
    """Returns the plain text with which a tag of plain text is known: up to its first attribute."""
    out = ""
    for piece in terminal.spelling:
        if piece.kind == "attr" or (piece.kind == "space" and out):
            break
        out += piece.value if piece.kind == "text" else ""
    return out


def trained_steps(dialect: Dialect) -> list[dict[str, int]]:
    """Returns for each state, by terminal, whether it is trained there. The encoder says so."""
    table, machine = dialect.table, dialect.automaton
    paths: dict[int, list[Event]] = {machine.start: []}
    queue = [machine.start]
    out: list[dict[str, int]] = [{} for _ in machine.steps]
    for state in queue:
        for name in sorted(machine.steps[state], key=table.order.__getitem__):
            terminal = table.terminals.get(name)
            event = Event(name, "x" if terminal is None else terminal.bare)
            path = [*paths[state], event]
            *_, last = segments(path, table, dialect.tokenizer)
            out[state][name] = last.loss
            if machine.steps[state][name] not in paths:
                paths[machine.steps[state][name]] = path
                queue.append(machine.steps[state][name])
    return out


def prompts(dialect: Dialect) -> dict[int, list[str]]:
    """Returns for each state after which the model may answer what the system writes before.

    Tags that the model could only write are part of it, such as that which opens each answer.
    """
    table, machine = dialect.table, dialect.automaton
    writes, stacks = model_writes(machine, table), open_blocks(machine, table)
    result = result_opener(machine, table)
    leads = {t.name: t.opens for t in table.terminals.values() if t.before and t.body_by_model}
    out: dict[int, list[str]] = {}
    for state in machine.states:
        ways: list[tuple[int, list[str]]] = [(state, [])]
        reached = {state}
        for here, path in ways:
            if writes[here]:
                out[state] = [*path, *forced(here, dialect)]
                break
            for name, then in machine.steps[here].items():
                terminal = table.terminals.get(name)
                if terminal is None or terminal == result or then in reached:
                    continue
                others = machine.steps[here].keys() & leads.keys() - {name}
                is_led = terminal.opens in map(leads.get, others)  # a model thinks if it may
                if terminal.opens and (is_led or not terminal.body_by_model):
                    continue
                if not terminal.opens and (terminal.by_model or stacks[here]):
                    continue  # only the system closes its blocks, and it has done so
                reached.add(then)
                ways.append((then, [*path, name]))
    return out


def openings(dialect: Dialect) -> Iterator[tuple[list[str], int]]:
    """Yields the tags directly before an answer, and the state in which the model goes on then."""
    table, steps = dialect.table, dialect.automaton.steps
    writes = model_writes(dialect.automaton, table)
    for state, row in enumerate(steps):
        for name, then in row.items():
            if name != TEXT and name not in writes[state] and writes[then]:
                tags = forced(then, dialect)
                for tag in tags:
                    then = steps[then][tag]
                yield [name, *tags], then


def forced(state: int, dialect: Dialect) -> list[str]:
    """Returns the tags that the model must write in a state, until it has a choice."""
    table, machine = dialect.table, dialect.automaton
    writes = model_writes(machine, table)
    out: list[str] = []
    while len(writes[state]) == 1 and TEXT not in writes[state]:
        (name,) = writes[state]
        if not table.terminals[name].opens:
            break
        out.append(name)
        state = machine.steps[state][name]
    return out


@cache
def _letters(pattern: str) -> list[Any]:
    """Returns the characters that a value may not have, or may have, with 1 or 0.

    Raises ExportError for a pattern that is no class of characters with `+`.
    """
    inner = re.fullmatch(r"(\[(?:[^\]\\]|\\.)+\]|\\.)\+", pattern)
    if inner is None:
        raise ExportError(
            f"a chat template cannot check an attribute of the pattern {pattern}; write it as a "
            "class of characters and +"
        )
    every = "".join(chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000)
    others = re.sub(inner[1], "", every)
    if len(every) - len(others) <= _FEW:
        return ["".join(re.findall(inner[1], every)), 0]
    if len(others) > _FEW:
        raise ExportError(f"a chat template cannot check an attribute of the pattern {pattern}")
    return [others, 1]


def endings(dialect: Dialect) -> list[str]:
    """Returns the tags after which the model writes no further; the end of the turn comes last.

    A tag counts if it is one id, and if in some state after it only the system may write, or the
    episode is over. Section "Generation" of each `grammar/*/SPEC.md` describes these tags.
    """
    table, tags = dialect.table, _last_tags(dialect)
    return sorted(
        (tag for tag in tags if tag in table.special),
        key=lambda tag: (tags[tag], table.special[tag]),
    )


def stop_strings(dialect: Dialect) -> list[str]:
    """Returns the texts of such tags that are no single id, for a format without `endings`."""
    return sorted(tag for tag in _last_tags(dialect) if tag not in dialect.table.special)


def _last_tags(dialect: Dialect) -> dict[str, tuple[bool, bool]]:
    """Returns the tags after which the model writes no further.

    With each, whether all may be over then, without a result to wait for, and whether another turn
    may begin.
    """
    table, machine = dialect.table, dialect.automaton
    blocks = open_blocks(machine, table)
    turn = table.openers[table.turn_opener].name if table.turn_opener else ""
    tags: dict[str, tuple[bool, bool]] = {}
    for before, names in stop_tags(machine, table).items():
        over = before in machine.accepts and not awaits_result(before, machine, table)
        for name, tag in names.items():
            tags[tag] = max(tags.get(tag, (over, name == turn)), (over, name == turn))
    for before, row in enumerate(machine.steps):
        if any(not table.openers[kind].body_loss for kind in blocks[before]):
            continue  # what the system writes, quotations too
        for name, state in row.items():
            terminal = table.terminals.get(name)
            if (
                terminal is not None
                and terminal.by_model
                and not any(n == TEXT or table.terminals[n].by_model for n in machine.steps[state])
                and not stop_tags(machine, table)[state]
            ):
                over = state in machine.accepts and not awaits_result(state, machine, table)
                key = over, turn in machine.steps[state]
                tags[terminal.shown] = max(tags.get(terminal.shown, key), key)
    return tags
