"""Makes of a conversation the episodes that are trained: all thoughts, or those of the template.

Input: an Episode; `[history]` of its token table says which blocks the official template leaves out
of earlier turns. Output: Episodes. At run time a model never sees what the template leaves out, so
it should not see it in training either.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from mypt_spec.automaton import Automaton
from mypt_spec.bodies.definitions import defines_tools
from mypt_spec.compiled.toml import load
from mypt_spec.episode import Episode, Message, Part, events_of
from mypt_spec.record_schema import WEIGHT
from mypt_spec.states import calling_blocks
from mypt_spec.table import SpecError, Terminal, TokenTable

HISTORIES: dict[str, str] = load(Path(__file__).with_name("policies.toml"))["histories"]
"""What each name of a policy makes of a conversation."""


def valid_policy(policy: str) -> str:
    """Returns a policy of `HISTORIES`. Raises ValueError for any other name."""
    if policy not in HISTORIES:
        raise ValueError(f"no history {policy!r}; known are {', '.join(HISTORIES)}")
    return policy


def episodes(
    episode: Episode, policy: str, table: TokenTable, automaton: Automaton, *, steps: bool = False
) -> list[Episode]:
    """Returns what a policy makes of a conversation, in order; of per-turn, `mask` "last" trains
    each answer once, and `steps` are as in `beginnings`. Raises ValueError for another policy, and
    where no turn can be told.
    """
    if valid_policy(policy) == "keep":
        return [episode]
    if policy == "official":
        return [official(episode, table)]
    return [official(part, table) for part in beginnings(episode, table, automaton, steps=steps)]


def official(episode: Episode, table: TokenTable) -> Episode:
    """Returns a conversation as the official template writes it."""
    drops, last = table.history.drops, table.history.last
    starts = turn_starts(episode.messages, table) if drops else []
    kinds = {m.role for m in episode.messages} | {p.kind for m in episode.messages for p in m.parts}
    declares = any(defines_tools(table.openers[k].body) for k in kinds & table.openers.keys())
    if not starts or (table.history.keeps_with_tools and declares):
        return episode
    if table.history.answered:
        ours = [m.role in table.marks or by_model(m, table) for m in episode.messages]
        kinds = {episode.messages[-1].role, *(p.kind for p in episode.messages[-1].parts)}
        is_answer = ours[-1] and calling_blocks(table).isdisjoint(kinds)
        starts += [len(ours) - ours[::-1].index(False)] * is_answer
    messages = [
        message if i >= starts[-1] else _earlier(message, table)
        for i, message in enumerate(episode.messages)
        if i >= starts[-1] or message.role not in drops
    ]
    if last:
        late = len(messages) - (len(episode.messages) - starts[-1] if table.history.each else 1)
        messages = [_filled(m, i >= late, drops[0], last) for i, m in enumerate(messages)]
    if table.history.strip:
        marks = table.marks
        messages = [m if m.role in marks else _stripped(m, table) for m in messages]
    return replace(episode, messages=tuple(messages))


def _earlier(message: Message, table: TokenTable) -> Message:
    """Returns a message of an earlier turn, without the blocks that history drops."""
    history, parts, ahead = table.history, list[Part](), ""
    opener, strip = table.openers.get(message.role), history.strip_before_calls
    calling = calling_blocks(table) if strip else ()
    strip = strip if any(p.kind in calling for p in message.parts) else ""
    for part in message.parts:
        if part.kind in history.drops:
            parts += [Part(part.kind, "", at=message.at)] * history.leaves_empty
            ahead = history.leaves if part.text else ""
        elif part.kind == "text" and opener is not None:
            parts += _with_text(part, opener, strip, ahead)
        else:
            parts.append(part)
    return replace(message, parts=(*parts,))


def _with_text(part: Part, opener: Terminal, strip: str, ahead: str = "") -> list[Part]:
    """Returns a part with white space `ahead` of its text, and stripped; none without a text."""
    whole = ahead * bool(part.text) + part.text
    text = replace(opener, strip=strip).stripped(whole) if strip else whole
    begin = part.at.extent[0] - len(ahead) + whole.index(text)
    at = part.at if text == part.text else part.at._replace(span=(begin, begin + len(text)))
    return [replace(part, text=text, at=at)] * bool(text)


def _stripped(message: Message, table: TokenTable) -> Message:
    """Returns a message whose text is stripped where it follows a block that history drops."""
    parts, before, history = list[Part](), "", table.history
    opener = table.openers[message.role]
    for part in message.parts:
        after = part.kind == "text" and before in history.drops
        parts += _with_text(part, opener, history.strip) if after else [part]
        before = part.kind
    return replace(message, parts=(*parts,))


def _filled(message: Message, final: bool, kind: str, last: str) -> Message:
    """Returns a message with an empty block of a kind where the last one needs it, else without."""
    parts = tuple(p for p in message.parts if final or p.kind != kind or p.text)
    lacks = final and message.role == last and all(p.kind != kind for p in parts)
    return replace(message, parts=(Part(kind, "", at=message.at),) * lacks + parts)


def turn_starts(messages: Sequence[Message], table: TokenTable) -> list[int]:
    """Returns the numbers of the messages that begin a turn."""
    return [
        i
        for i, message in enumerate(messages)
        if table.begins_turn(message.role, message.parts[0].kind if message.parts else "")
    ]


def beginnings(
    episode: Episode, table: TokenTable, automaton: Automaton, *, steps: bool = False
) -> list[Episode]:
    """Returns the conversation up to the end of each of its turns; the last one is all of it.

    A turn after which no conversation may end belongs to the next one. With `steps`, each turn is
    there up to each of its calls, too, and only what comes after the result before is trained: so
    it must be where a prompt ends with what is not there once the turn goes on. Raises ValueError
    where the table does not say what begins a turn.
    """
    if not table.turn_opener:
        message = f"the history per-turn needs to know where a turn of {table.name} begins"
        raise ValueError(f"{message}: set turn_opener in [dialect] of its tokens.toml")
    messages = episode.messages
    starts = turn_starts(messages, table)
    end = len(messages)
    while end and messages[end - 1].role in table.marks:
        end -= 1
    # A conversation that ends with a call has no mark that an answer before it could end with.
    marks = [messages[end:]] if end < len(messages) else [(Message(m),) for m in table.marks]
    out = []
    for begin, following in pairwise(starts):
        answers = [i for i in range(begin, following) if by_model(messages[i], table)]
        part = messages[: answers[-1] + 1] if answers else ()
        ended = (part + mark for mark in [(), *marks] if _ends(part + mark, table, automaton))
        if part and (prefix := next(ended, ())):
            out.append(replace(episode, messages=prefix))
    parts = [*out, episode]
    return [step for part in parts for step in _steps(part, table, automaton)] if steps else parts


def _steps(episode: Episode, table: TokenTable, automaton: Automaton) -> list[Episode]:
    """Returns an episode up to each call in its last turn, and all of it."""
    messages, out = episode.messages, list[Episode]()
    begin = done = max(turn_starts(messages, table), default=0)
    ours, last = [by_model(message, table) for message in messages], len(messages) - 1
    calls = [i for i in range(begin, last) if ours[i] and not ours[i + 1]]
    for end in [*(i for i in calls if _ends(messages[: i + 1], table, automaton)), last]:
        prefix = tuple(
            replace(m, meta=m.meta | {WEIGHT: 0}) if ours[i] and begin <= i < done else m
            for i, m in enumerate(messages[: end + 1])
        )
        out.append(replace(episode, messages=prefix))
        done = end + 1
    return out


def by_model(message: Message, table: TokenTable) -> bool:
    """Returns whether the model writes a message."""
    mark = table.marks.get(message.role)
    return mark.by_model if mark is not None else table.openers[message.role].body_by_model


def _ends(messages: Iterable[Message], table: TokenTable, automaton: Automaton) -> bool:
    return automaton.run(e.terminal for e in events_of(messages, table)) in automaton.accepts


def count_dropped(messages: Iterable[Message], table: TokenTable) -> tuple[int, int]:
    """Returns how many blocks there are of those that history drops: with content, and empty."""
    drops = table.history.drops
    texts = [p.text for m in messages for p in m.parts if p.kind in drops]
    texts += [m.text for m in messages if m.role in drops]
    return sum(map(bool, texts)), sum(not text for text in texts)


def check(table: TokenTable, automaton: Automaton) -> None:
    """Raises SpecError where a conversation without a block that history drops may be illegal."""
    for kind in () if table.history.leaves_empty else table.history.drops:
        opener = table.openers[kind]
        ends = {t.name for t in table.terminals.values() if kind in t.ends}
        plain = {  # the state after the opening tag that is written without such a block
            row[t.name]: row.get(table.placed.get((usual.name, t.after), usual).name, row[t.name])
            for t in table.terminals.values()
            for row in automaton.steps
            if t.before == kind and t.name in row
            for usual in [table.openers[t.opens]]
        }
        for state, row in enumerate(automaton.steps):
            inside = [row[opener.name]] if opener.name in row else []
            for at in inside:
                after = automaton.steps[at]
                inside += [after["TEXT"]] if after.get("TEXT", at) not in inside else []
                for name in ends & set(after):
                    if why := _lacks(after[name], plain.get(state, state), table, automaton):
                        message = f"the grammar needs {kind!r}: without it, {why} may not come"
                        raise SpecError(f"[history]: {message}")


def _lacks(after: int, before: int, table: TokenTable, automaton: Automaton) -> str:
    """Returns a terminal that may come after a block, and not in its place; "" where none does."""
    pairs = [(after, before)]
    for state, other in pairs:
        if state in automaton.accepts and other not in automaton.accepts:
            return "the end"
        rows = (automaton.steps[state], automaton.steps[other])
        here, there = ({_plain(name, table): to for name, to in row.items()} for row in rows)
        for name, to in here.items():
            if name not in there:
                return name
            if (to, there[name]) not in pairs:
                pairs.append((to, there[name]))
    return ""


def _plain(name: str, table: TokenTable) -> str:
    """Returns the terminal that another one joins, or itself."""
    terminal = table.terminals.get(name)
    return terminal.joins or name if terminal is not None else name
