"""Finds the state from which a model continues a prompt.

Input: the ids of a prompt. Output: a state of the decoder's machine. A bad prompt is refused before
any token is drawn, because a model that continues it could end nowhere legally.
"""

import codecs
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mypt_infer.decode.compile.tables import DEAD_STATE, Tables
from mypt_spec import Dialect, Episode, Finding
from mypt_spec.bodies.json_body import calls_of
from mypt_spec.encoder import Mask, run_ids, tag_ids, trail_ids
from mypt_spec.episode import Event
from mypt_spec.lexer import lex_sentinels
from mypt_spec.parser import messages_of
from mypt_spec.states import in_prompts, model_writes, resumed
from mypt_spec.table import TEXT
from mypt_spec.validator import Run

# The most events at the end of a prompt that the model may have written and not finished.
_BACK = 6


class PromptError(ValueError):
    """A prompt cannot be continued; `finding` says where, if the prompt is no legal beginning."""

    def __init__(self, message: str, finding: Finding | None = None) -> None:
        super().__init__(message)
        self.finding = finding


class _Begin(NamedTuple):
    """An event of the prompt, and the token with which it begins; -1 if inside a token."""

    event: Event
    token: int


def start_state(
    dialect: Dialect,
    tables: Tables,
    names: frozenset[str],
    ids: Sequence[int],
    *,
    step: Callable[[int, int], int],
    begin: Callable[[int, Sequence[Event]], int],
    final: Callable[[int], bool],
) -> int:
    """Returns the state after a prompt.

    `names` are the declared tools; the functions are the decoder's. Raises PromptError for a prompt
    that is no legal beginning, that calls an undeclared tool, or after which the model may not
    write.
    """
    cuts = _cuts(dialect, ids)
    states: list[int | None] = [dialect.automaton.start]  # None after what is refused
    for start in cuts:
        steps = dialect.automaton.steps[states[-1]] if states[-1] is not None else {}
        states.append(steps.get(start.event.terminal))
    if states[-1] is not None:
        states[-1] = resumed(states[-1], dialect.automaton, dialect.table)
    state, at, last = DEAD_STATE, len(cuts), _bound(dialect, tables, cuts, states)
    first = max(0, min(last, len(cuts) - _BACK))
    while first and states[first] is not None and states[first] not in tables.start:
        first -= 1  # inside the calls of a message
    # From the earliest place on: what follows a later one may be the beginning of a tag, which was
    # read as text.
    for at in range(first, last + 1):
        grammar_state = states[at]
        token = cuts[at].token if at < len(cuts) else len(ids)
        if grammar_state is None or token < 0 or grammar_state not in tables.start:
            continue
        state = tables.start[grammar_state]
        if at == len(cuts) and cuts and cuts[-1].event.terminal == TEXT and tables.frame[state]:
            # The model's own text goes on, and holds what the model could not write, such as a
            # piece of a tag: what it ends with matters.
            begun, token = state, max(0, cuts[-1].token)
            for i in ids[token:]:
                state = step(state, int(i)) or begun
            continue
        state = begin(state, [c.event for c in cuts[:at]]) if tables.alive(state) else DEAD_STATE
        for i in ids[token:]:
            state = step(state, int(i)) if state != DEAD_STATE else state
        if state != DEAD_STATE:
            break
    ours = [c.event for c in cuts[:at]] if state != DEAD_STATE else [c.event for c in cuts]
    _check(dialect, ours, names)
    if state == DEAD_STATE and last < len(cuts):
        raise PromptError(
            f"the answer that the prompt has begun with {cuts[last].event.text[:40]!r} cannot be "
            "ended as the response wants it"
        )
    if state == DEAD_STATE or final(state):
        ends = f"ends after {cuts[-1].event.text[-40:]!r}" if cuts else "is empty"
        raise PromptError(
            f"the prompt {ends}, where the model may not write; end it where the model is to go on,"
            " such as after a message of the user"
        )
    return state


def _bound(
    dialect: Dialect, tables: Tables, cuts: Sequence[_Begin], states: Sequence[int | None]
) -> int:
    """Returns the last cut at which the model may begin: the text of an answer that a response
    binds is read from its beginning.
    """
    writes, last = model_writes(dialect.automaton, dialect.table), len(cuts)
    for at in range(len(cuts) - 1, -1, -1) if tables.answers else ():
        state, terminal = states[at], cuts[at].event.terminal
        if state is None or terminal not in writes[state]:
            break
        if terminal == TEXT and state in tables.answers:
            last = at
    return last


def prompt_ids(dialect: Dialect, prompt: Episode) -> list[int]:
    """Returns the ids of a partial Episode, with the header that the model writes after.

    What the options of the Episode's record put after that header is there, too.
    """
    ids = [int(i) for i in dialect.encode(prompt, partial=True).ids]
    kinds = dialect.adapter.prompted(prompt.meta)
    header = opening(dialect, ids, kinds)
    return ids + header + [i for kind in sorted(kinds) if header for i in _empty(dialect, kind)]


def _empty(dialect: Dialect, kind: str) -> list[int]:
    """Returns the ids of an empty block, at the beginning of what the model writes."""
    table = dialect.table
    tags = (table.openers[kind], table.closers[kind])
    events = [Event(tag.name, tag.spell()) for tag in tags]
    mask = Mask(prompted=frozenset({kind}))
    groups = run_ids(events, (), table, dialect.tokenizer, mask)
    trail = trail_ids(groups[-1][-1], table, dialect.tokenizer)
    return [i for ids in groups for i in ids] + trail


def opening(
    dialect: Dialect, ids: Sequence[int], without: frozenset[str] = frozenset()
) -> list[int]:
    """Returns the ids of the header after which the model writes, up to blocks of some kinds.

    Empty if the format has no such header, or the prompt already has it. The opening tag of a block
    that only the system opens, such as a thought, belongs to the header.
    """
    outcome = Run(dialect.table, dialect.automaton, spaces=False, complete=False).check(
        [c.event for c in _cuts(dialect, ids)]
    )
    if outcome.findings:
        return []
    terminals = [
        dialect.table.terminals[n] for n in dialect.automaton.steps[outcome.state] if n != TEXT
    ]
    heads = [t for t in terminals if t.opens and t.body_loss and not t.by_model]
    heads = [t for t in heads if t.opens not in without]
    heads = [t for t in heads if t.before] or heads  # a model thinks if it may
    if len(heads) != 1:
        return []
    table, tokenizer = dialect.table, dialect.tokenizer
    trail = trail_ids(ids[-1] if len(ids) else None, table, tokenizer)
    if not heads[0].spelling:  # a block goes on after its closing tag
        return trail
    event = Event(heads[0].name, in_prompts(heads[0]))
    header = trail + tag_ids(event, table, tokenizer, trail=False)
    return header + opening(dialect, [*ids, *header], without)


def _check(dialect: Dialect, events: list[Event], names: frozenset[str]) -> None:
    """Raises PromptError if the events are no legal beginning, or call an undeclared tool."""
    outcome = Run(dialect.table, dialect.automaton, spaces=False, complete=False).check(events)
    errors = [f for f in outcome.findings if f.severity == "error"]
    complete = _complete(dialect, outcome.events)
    messages, faults = messages_of(complete, dialect.table) if not errors else ([], [])
    errors += [f for f in faults if f.severity == "error"]
    if errors:
        first = errors[0]
        place = f"tokens {first.span[0]}..{first.span[1]}: " if first.span else ""
        raise PromptError(
            f"the prompt is not a legal beginning: {place}{first.code} {first.message}", first
        )
    for call in calls_of(messages, dialect.table):
        if call.name not in names:
            raise PromptError(
                f"the prompt calls the tool {call.name!r}, which is not declared; declared are "
                f"{', '.join(sorted(names)) or 'none'}"
            )


def _complete(dialect: Dialect, events: list[Event]) -> list[Event]:
    """Returns the events without a call at the end that is not closed."""
    table = dialect.table
    for at in range(len(events) - 1, max(-1, len(events) - _BACK), -1):
        terminal = table.terminals.get(events[at].terminal)
        if terminal is not None and (terminal.opens or terminal.closes):
            return events[:at] if terminal.opens and terminal.body != "text" else events
    return events


def _cuts(dialect: Dialect, ids: Sequence[int]) -> list[_Begin]:
    """Returns the events of token ids, each with the token it begins with.

    Text may stop inside a character. Raises PromptError for an id without meaning.
    """
    tokenizer, table = dialect.tokenizer, dialect.table
    by_id = {token: table.sentinels[tag] for tag, token in tokenizer.special.items()}
    text, at = "", 0
    # Offset in the text -> the token that begins there, -1 inside a character.
    starts: dict[int, int] = {}
    while at < len(ids):
        begin = at
        while at < len(ids) and ids[at] in tokenizer.ordinary:
            at += 1
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        run, length = [], len(text)
        for i in range(begin, at):
            starts[length] = i if not decoder.getstate()[0] else -1
            run.append(decoder.decode(tokenizer.decode_bytes([ids[i]])))
            length += len(run[-1])
        text += "".join(run) + decoder.decode(b"", True)
        if at < len(ids):
            if ids[at] not in by_id:
                legal = f"ordinary text is {tokenizer.ordinary}, tags are {sorted(by_id)}"
                raise PromptError(f"id {ids[at]} at {at} means nothing in {dialect.name}: {legal}")
            starts[len(text)] = at
            text += by_id[ids[at]]
            at += 1
    out = []
    for event in lex_sentinels(text, table):
        start = event.at.extent[0]
        out.append(_Begin(event._replace(at=event.at._replace(span=None)), starts.get(start, -1)))
    return out
