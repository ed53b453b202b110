"""Says what a state of the automaton means: which blocks are open, and who writes there.

The automaton says only which terminal may come next. All that reads blocks off a sequence of tags
(mask, validator, parser, decoder, pages) asks here, so that two readers cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from mypt_spec.automaton import Automaton
from mypt_spec.table import CALLS, LISTS, TEXT, SpecError, Terminal, TokenTable

Stack = tuple[str, ...]  # kinds of block, outermost first

_Result = TypeVar("_Result")


def _once(
    find: Callable[[Automaton, TokenTable], _Result],
) -> Callable[[Automaton, TokenTable], _Result]:
    results: WeakKeyDictionary[Automaton, _Result] = WeakKeyDictionary()

    @wraps(find)
    def cached(automaton: Automaton, table: TokenTable) -> _Result:
        if automaton not in results:
            results[automaton] = find(automaton, table)
        return results[automaton]

    return cached


def before_tag(stack: Stack, table: TokenTable, terminal: Terminal | None = None) -> Stack:
    """Returns the blocks that are still open where a tag begins.

    A block without a closing tag ends where the next tag begins, one with "stops" only at these and
    at marks; and each block where a tag begins that opens another of its kind and ends it.
    """
    while stack and stack[-1] not in table.closers:
        stops = table.openers[stack[-1]].stops
        name = (terminal.joins or terminal.name) if terminal else ""
        inner = terminal and (terminal.opens or terminal.closes) and name not in stops
        if stops and inner:
            break
        stack = stack[:-1]
    if terminal is not None and terminal.again and stack[-1:] == (terminal.opens,):
        return stack[:-1]
    return stack


def after_tag(stack: Stack, terminal: Terminal, table: TokenTable) -> Stack:
    """Returns the blocks that are open after a tag. A stray closing tag closes nothing.

    >>> import mypt_spec
    >>> table = mypt_spec.dialect("mypt").table
    >>> after_tag(("assistant",), table.terminals["THINK_OPEN"], table)
    ('assistant', 'think')
    """
    around = before_tag(stack, table, terminal)
    if terminal.opens:
        return (*around, terminal.opens)
    remaining = around[:-1] if terminal.closes else around
    return remaining[:-1] if terminal.both and {*remaining[-1:]} & {*terminal.ends} else remaining


@_once
def open_blocks(automaton: Automaton, table: TokenTable) -> dict[int, Stack]:
    """Returns the blocks that are open in each state. Computed once an automaton."""
    stacks: dict[int, Stack] = {automaton.start: ()}
    queue = [automaton.start]
    for state in queue:
        for name, following in automaton.steps[state].items():
            if following not in stacks:
                tag = table.terminals.get(name)
                stack = stacks[state]
                stacks[following] = stack if tag is None else after_tag(stack, tag, table)
                queue.append(following)
    return stacks


def split_states(automaton: Automaton, table: TokenTable) -> Automaton:
    """Returns an automaton of the same language in which each state has its own open blocks.

    A minimal automaton makes one state of two blocks after which the same may follow. Where none is
    shared so, the automaton itself is returned; else its states are numbered anew, breadth first.
    Raises SpecError where the token table opens and closes other blocks than the grammar.
    """
    first: tuple[int, Stack] = (automaton.start, ())
    numbers: dict[tuple[int, Stack], int] = {first: 0}
    steps: list[dict[str, int]] = []
    queue = [first]
    for state, stack in queue:
        row: dict[str, int] = {}
        for name, following in sorted(automaton.steps[state].items()):
            tag = table.terminals.get(name)
            _check_blocks(stack, name, table)
            after = following, stack if tag is None else after_tag(stack, tag, table)
            ended = before_tag(stack, table, tag)[-1] if tag is not None and tag.closes else ""
            if ended in table.between and table.openers[ended].name in automaton.steps[following]:
                text = f"`{table.between[ended].shown}` is between two {ended!r}, and the grammar"
                raise SpecError(f"{name}: {text} has `{table.openers[ended].shown}` after it, too")
            if after not in numbers:
                numbers[after] = len(numbers)
                queue.append(after)
            row[name] = numbers[after]
        steps.append(row)
    quoting = {kind for kind, t in table.openers.items() if t.quotes}
    deep = next((s for _, s in queue if len(s) > 2 and quoting.isdisjoint(s)), ())
    if deep:
        message = f"opens {deep[2]!r} inside {deep[1]!r}, which is inside {deep[0]!r}"
        hint = "a block inside of another holds text and no blocks"
        raise SpecError(f"{table.openers[deep[2]].name}: {message}: {hint}")
    if len(steps) == len(automaton.steps):
        return automaton
    accepts = frozenset(n for (state, _), n in numbers.items() if state in automaton.accepts)
    return Automaton(tuple(steps), accepts)


def _check_blocks(stack: Stack, name: str, table: TokenTable) -> None:
    """Raises SpecError for a terminal that the grammar takes where it has no meaning."""
    tag = table.terminals.get(name)
    if tag is None and stack:
        return
    if tag is None:
        text = 'takes text where no block is open: a terminal before it needs "opens"'
        raise SpecError(f"{TEXT}: the grammar {text}, or the tag after it is not a closing tag")
    around = before_tag(stack, table, tag)
    fits = len(stack) > 1 and stack[-1] == tag.opens if tag.spelling else not stack
    if tag.after and tag.again and not fits:
        place = " inside of a block" * bool(tag.spelling)
        text = f"is between two {tag.opens!r}{place}, and the grammar has it elsewhere"
        raise SpecError(f"{name}: {text}")
    if tag.closes and not {*around[-1:]} & {*tag.ends}:
        inside = f"inside {around[-1]!r}" if around else "where no block is open"
        text = f"closes {', '.join(map(repr, tag.ends))}, and the grammar has it {inside}"
        raise SpecError(f"{name}: {text}")
    if around and not tag.opens and not tag.closes:
        text = f"and the grammar has it inside {stack[-1]!r}: a mark is between blocks"
        raise SpecError(f'{name}: its row has neither "opens" nor "closes", {text}')
    if len(around) > 4 * len(table.openers):
        kind = next(kind for kind in around if around.count(kind) > 1)
        text = f"opens again and again inside itself: the grammar has no tag that closes {kind!r}"
        raise SpecError(f'{table.openers[kind].name}: {text}, as its row of "closes" says')


def model_writes_in(stack: Stack, table: TokenTable) -> bool:
    """Returns whether the model writes the text inside these blocks."""
    return all(table.openers[kind].body_by_model for kind in stack)


@_once
def model_writes(automaton: Automaton, table: TokenTable) -> dict[int, frozenset[str]]:
    """Returns the terminals that the model may write in each state. Computed once an automaton.

    These are its tags, and text in its blocks; in a block of the system it may write nothing.
    """

    def writes(name: str, stack: Stack) -> bool:
        if name == TEXT:
            return bool(stack) and model_writes_in(stack, table)
        tag = table.terminals[name]
        return tag.by_model and model_writes_in(before_tag(stack, table, tag), table)

    return {
        state: frozenset(name for name in automaton.steps[state] if writes(name, stack))
        for state, stack in open_blocks(automaton, table).items()
    }


@_once
def stop_tags(automaton: Automaton, table: TokenTable) -> dict[int, dict[str, str]]:
    """Returns the tags whose first piece a model writes in each state to stop, with that piece.

    A block with a closing tag has them only where it may neither close nor go on with text.
    """
    ways = {kind: {TEXT, t.name} for kind, t in table.closers.items()}
    first = {name: table.terminals[name].spelling[0].value for name in table.stops}
    out = {}
    for state, stack in open_blocks(automaton, table).items():
        row = automaton.steps[state]
        kinds = {k for k in stack[-1:] if row.keys().isdisjoint(ways.get(k, ()))}
        out[state] = {n: tag for n, tag in first.items() if n in row and table.stops[n] & kinds}
    return out


@_once
def result_opener(automaton: Automaton, table: TokenTable) -> Terminal | None:
    """Returns the terminal that opens the result of a call; None in a dialect without calls.

    This is what only the system may write after a call, perhaps after closing tags.
    """
    stacks, calling, common = open_blocks(automaton, table), calling_blocks(table), None
    for before, row in enumerate(automaton.steps):
        inside = stacks[before][-1:]
        if calling.isdisjoint(inside) or not model_writes_in(stacks[before], table):
            continue  # no call, or a quotation
        closers = [n for n in row if n != TEXT and inside[0] in table.terminals[n].ends]
        for state in [row[name] for name in closers]:
            openers = _opened_by_the_system(state, automaton, table)
            common = openers if common is None else common & openers
    return table.terminals[min(common)] if common else None


def calling_blocks(table: TokenTable) -> frozenset[str]:
    """Returns the kinds of block that hold calls of tools."""
    return frozenset(kind for kind, t in table.openers.items() if t.body in (*CALLS, *LISTS))


def _opened_by_the_system(state: int, automaton: Automaton, table: TokenTable) -> set[str]:
    """Returns the tags that open a block of the system here, perhaps after closing tags.

    A block that begins a turn is no result, but one inside of it may be, if its role says so.
    """
    states, out, results = [state], set(), table.kinds("result")
    stacks = open_blocks(automaton, table)
    for here in states:
        for name, following in automaton.steps[here].items():
            terminal = table.terminals.get(name)
            if terminal is None:
                continue
            if terminal.closes:
                states += [] if following in states else [following]
            elif terminal.opens and not terminal.by_model and not terminal.body_by_model:
                inner = {_opened(n, table) for n in automaton.steps[following]}
                around = terminal.opens == table.turn_opener or bool(results & inner)
                states += [following] if around and following not in states else []
                inside = table.turn_opener in stacks[here]
                out |= {name} if not around and (not inside or terminal.opens in results) else set()
    return out


@_once
def around_results(automaton: Automaton, table: TokenTable) -> tuple[Terminal, ...]:
    """Returns the tags that open the system's blocks around results, outermost first."""
    opener, stacks = result_opener(automaton, table), open_blocks(automaton, table)
    rows = enumerate(automaton.steps)
    stack = next((stacks[i] for i, row in rows if opener and opener.name in row), ())
    return tuple(table.openers[k] for k in stack if not table.openers[k].body_by_model)


def in_prompts(tag: Terminal) -> str:
    """Returns the spelling with which an opening tag ends a prompt."""
    return replace(tag, spelling=tuple(piece for piece in tag.spelling if piece.prompts)).bare


def resumed(state: int, automaton: Automaton, table: TokenTable) -> int:
    """Returns the state in which the block that ended goes on, or the state itself."""
    row = automaton.steps[state]
    return next((row[t.name] for t in table.resumed.values() if t.name in row), state)


def awaits_result(state: int, automaton: Automaton, table: TokenTable) -> bool:
    """Returns whether a result may come in a state, perhaps after the tags around it."""
    opener, rows = result_opener(automaton, table), automaton.steps
    if opener is None:
        return False
    here = inner = rows[state]
    for terminal in around_results(automaton, table):
        inner = rows[inner[terminal.name]] if terminal.name in inner else {}
    joined = table.joined.get(opener.name)
    return opener.name in {*here, *inner} or (joined is not None and joined.name in here)


def begins_turn(state: int, automaton: Automaton, table: TokenTable) -> bool:
    """Returns whether a turn may begin in a state: its first block may hold more than results."""
    opener = table.openers.get(table.turn_opener)
    then = automaton.steps[state].get(opener.name) if opener is not None else None
    return then is not None and any(
        table.begins_turn(table.turn_opener, _opened(name, table)) for name in automaton.steps[then]
    )


def _answers(message: Sequence[str], table: TokenTable) -> bool:
    """Returns whether a message would begin a turn if it did not hold results."""
    kind, first = [*(_opened(name, table) for name in message[:2]), ""][:2]
    return bool(kind) and kind == table.turn_opener and not table.begins_turn(kind, first)


def _opened(name: str, table: TokenTable) -> str:
    """Returns the kind of block that a terminal opens, "" for none."""
    terminal = table.terminals.get(name)
    return terminal.opens if terminal is not None else ""


def turns(
    messages: Sequence[Sequence[str]], automaton: Automaton, table: TokenTable
) -> tuple[int, list[int]]:
    """Returns (head, ends): the number of messages before the first turn, and where turns end.

    A message is the names of its terminals. A turn may begin where the same terminals may follow as
    after the end of the first one; without such a place, all messages are one turn.

    >>> import mypt_spec
    >>> d = mypt_spec.dialect("gabgpt")
    >>> turn = [["USER", "TEXT"], ["ASSISTANT", "TEXT"], ["END"]]
    >>> turns([*turn, *turn], d.automaton, d.table)
    (0, [3, 6])
    """
    marks = {terminal.name for terminal in table.marks.values()}
    opener = result_opener(automaton, table)
    again = {t.name for t in table.resumed.values()}
    inner = {*marks, *again, opener.name if opener is not None else ""}
    states: list[int | None] = [automaton.start]
    for terminals in messages:
        states.append(None if states[-1] is None else automaton.run(terminals, states[-1]))
    follows = [None if s is None else automaton.steps[s].keys() - again for s in states]
    ends = [
        i
        for i in range(1, len(messages))
        if states[i] in automaton.accepts
        and messages[i][0] not in inner
        and not _answers(messages[i], table)
    ]
    heads = [
        i
        for i in range(ends[0] if ends else 0)
        if follows[i] == follows[ends[0]] and not _answers(messages[i], table)
    ]
    return (heads[-1], [*ends, len(messages)]) if heads else (0, [len(messages)])


def empty_kinds(table: TokenTable) -> frozenset[str]:
    """Returns the kinds of block that an answer has empty where it has no text for them."""
    history = table.history
    return frozenset(history.drops if history.last or history.leaves_empty else ())
