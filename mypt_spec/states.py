"""Says what a state of the automaton means: which blocks are open, and who writes there.

The automaton says only which terminal may come next. All that reads blocks off a sequence of tags
(mask, validator, parser, decoder, pages) asks here, so that two readers cannot disagree.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from mypt_spec.automaton import Automaton
from mypt_spec.table import TEXT, Terminal, TokenTable

Stack = tuple[str, ...]  # kinds of block, outermost first

_known: WeakKeyDictionary[Automaton, dict[int, Stack]] = WeakKeyDictionary()


def before_tag(stack: Stack, table: TokenTable) -> Stack:
    """Returns the blocks that are still open where a tag begins.

    A block without a closing tag ends where the next tag begins.
    """
    while stack and stack[-1] not in table.closers:
        stack = stack[:-1]
    return stack


def after_tag(stack: Stack, terminal: Terminal, table: TokenTable) -> Stack:
    """Returns the blocks that are open after a tag. A stray closing tag closes nothing.

    >>> import mypt_spec
    >>> table = mypt_spec.dialect("mypt").table
    >>> after_tag(("assistant",), table.terminals["THINK_OPEN"], table)
    ('assistant', 'think')
    """
    stack = before_tag(stack, table)
    if terminal.opens:
        return (*stack, terminal.opens)
    return stack[:-1] if terminal.closes else stack


def open_blocks(automaton: Automaton, table: TokenTable) -> dict[int, Stack]:
    """Returns the blocks that are open in each state. Computed once an automaton."""
    if automaton not in _known:
        stacks: dict[int, Stack] = {automaton.start: ()}
        queue = [automaton.start]
        for state in queue:
            for name, following in automaton.steps[state].items():
                if following not in stacks:
                    tag = table.terminals.get(name)
                    stack = stacks[state]
                    stacks[following] = stack if tag is None else after_tag(stack, tag, table)
                    queue.append(following)
        _known[automaton] = stacks
    return _known[automaton]


def awaits_result(state: int, automaton: Automaton, table: TokenTable) -> bool:
    """Returns whether the system may write a block that opens no turn: the result of a call."""
    tags = [table.terminals[name] for name in automaton.steps[state] if name != TEXT]
    return any(
        t.opens and not t.by_model and not t.body_loss and t.opens != table.turn_opener
        for t in tags
    )


def model_writes_in(stack: Stack, table: TokenTable) -> bool:
    """Returns whether the model writes the text inside these blocks, which is what it learns."""
    return all(table.openers[kind].body_loss for kind in stack)
