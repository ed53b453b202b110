"""Extracts the automaton of a dialect from Lark's own LALR parser, and minimises it.

Input is the text of a .lark file over declared terminals; output is an `Automaton`, a table of
states. Lark is imported only to extract; a table, once extracted, runs without it.

Theory of operation. A general grammar needs a parser with a stack. These languages nest to a
bounded depth, so the stacks that an LALR parser can reach are finitely many, and each can be a
state of a finite automaton. `extract` starts with the stack before any input, and lets the tables
of the parser take every terminal that they accept. A stack that was not seen before becomes a new
state, and waits for its turn. When none is left, states that accept the same continuations are
merged and numbered by a breadth-first walk, so equal languages have equal tables.

For mypt, some 750 stacks become 33 states. A conversation of one question and one answer walks
through eleven of them:

>>> import mypt_spec
>>> a = mypt_spec.dialect("mypt").automaton
>>> len(a.steps)
33
>>> terminals = ["SYSTEM_OPEN", "TEXT", "SYSTEM_CLOSE", "USER_OPEN", "TEXT", "USER_CLOSE",
...              "ASSISTANT_OPEN", "TEXT", "ASSISTANT_CLOSE", "EOT"]
>>> [a.run(terminals[:n]) for n in range(11)]
[0, 1, 2, 4, 6, 7, 9, 12, 16, 21, 26]
>>> sorted(a.allowed(7)), "EOT" in a.allowed(9), a.accepting(26)
(['TEXT', 'USER_CLOSE'], False, True)
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mypt_spec.table import END, SpecError

MAX_CONFIGURATIONS = 20_000
# Symbols on a stack. Every step copies the stack, so one that grows without end is slow long before
# MAX_CONFIGURATIONS of them are seen.
MAX_DEPTH = 300


@dataclass(frozen=True, eq=False)
class Automaton:
    """A minimal deterministic automaton over names of terminals. States are ints from 0.

    `steps[state]` maps each legal terminal to the next state. A complete episode ends in a state of
    `accepts`.
    """

    steps: tuple[dict[str, int], ...]
    accepts: frozenset[int]
    start: int = 0

    @property
    def states(self) -> range:
        return range(len(self.steps))

    def allowed(self, state: int) -> frozenset[str]:
        """Returns the terminals that may come next, TEXT included; none where nothing may."""
        return frozenset(self.steps[state])

    def step(self, state: int, terminal: str) -> int:
        """Returns the state after `terminal`. Raises ValueError when it is not allowed here."""
        try:
            return self.steps[state][terminal]
        except KeyError:
            raise ValueError(
                f"{terminal} is not allowed in state {state}; expected {sorted(self.steps[state])}"
            ) from None

    def accepting(self, state: int) -> bool:
        """Returns whether the episode may end here."""
        return state in self.accepts

    def expected(self, state: int) -> frozenset[str]:
        """Returns `allowed`, and END where the episode may end."""
        return self.allowed(state) | {END} if state in self.accepts else self.allowed(state)

    def run(self, terminals: Iterable[str], start: int | None = None) -> int | None:
        """Returns the state after all terminals, None if one is refused; begins in `start`."""
        state = self.start if start is None else start
        for terminal in terminals:
            following = self.steps[state].get(terminal)
            if following is None:
                return None
            state = following
        return state

    def as_dict(self) -> dict[str, Any]:
        """Returns the table as JSON values; `from_dict` reads it back."""
        steps = [dict(sorted(row.items())) for row in self.steps]
        return {"steps": steps, "accepts": sorted(self.accepts)}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Automaton:
        return Automaton(tuple(data["steps"]), frozenset(data["accepts"]))


_NOT_LALR = "the grammar is not LALR(1)"


def fingerprint(grammar: str) -> str:
    """Returns the SHA-256 of a grammar's text; a compiled table names its grammar by it."""
    return hashlib.sha256(grammar.encode()).hexdigest()


def make_parser(grammar: str) -> Any:
    """Returns Lark's LALR parser over terminals: `make_parser(g).parse_interactive([])`.

    Raises SpecError when the grammar is not LALR(1), or no grammar at all.
    """
    import lark
    from lark.lexer import Lexer

    class PassThrough(Lexer):
        def __init__(self, lexer_conf: Any) -> None:
            pass

        def lex(self, lexer_state: Any, parser_state: Any) -> Any:
            yield from lexer_state

    try:
        # Without `strict`, Lark would read the longer of two rules and refuse what the other takes.
        return lark.Lark(grammar, parser="lalr", lexer=PassThrough, strict=True)
    except lark.exceptions.LarkError as error:
        message = _in_words(error)
    if message == _NOT_LALR:
        message += ": " + _conflicts(lark.Lark(grammar, parser="earley", lexer=PassThrough))
    raise SpecError(message)


def _in_words(error: Exception) -> str:
    import lark

    text = " ".join(str(error).split())
    if "undefined rule" in text:  # Lark names its own class of rules
        return "the grammar has no rule start, with which each grammar begins"
    if "used but not defined" in text:
        return f"the grammar names something that it does not define: {text}"
    if "conflict" in text.lower() or "collision" in text.lower():
        return _NOT_LALR
    if isinstance(error, lark.exceptions.UnexpectedInput) or "Expecting" in text:
        return f"the grammar is not a valid Lark grammar: {text}"
    return f"{_NOT_LALR}, or no Lark grammar: {text}"


def _conflicts(parser: Any) -> str:
    """Returns where a grammar is not LALR(1), by the names and in the words of its rules.

    Lark's message has rules of its own, which it makes of repetitions, in an order by chance.
    """
    from lark.parsers.lalr_analysis import LALR_Analyzer

    analysis: Any = LALR_Analyzer(parser.parser.parser_conf)
    analysis.compute_lr0_states()
    analysis.compute_reads_relations()
    analysis.compute_includes_lookback()
    analysis.compute_lookaheads()
    names = _Names(parser.rules)
    conflicts: dict[tuple[str, ...], set[str]] = {}
    for state in analysis.lr0_itemsets:
        for following, ended in state.lookaheads.items():
            going_on = [
                at.rule for at in state.closure if at.rule.expansion[at.index :][:1] == [following]
            ]
            # Priorities of rules decide which of two ends.
            *_, next_best, best = sorted([-1, *(rule.options.priority or 0 for rule in ended)])
            if going_on or (len(ended) > 1 and best == next_best):
                fit = tuple(sorted({names.rule(rule) for rule in (*ended, *going_on)}))
                tag = "the end" if following.name == END else following.name
                conflicts.setdefault(fit, set()).add(tag)
    lines = []
    for fit, tags in sorted(conflicts.items()):
        both = " and ".join(fit) if len(fit) > 1 else f"two places of {fit[0]}"
        *some, last = sorted(tags)
        next_ = f"{', '.join(some)} or {last}" if some else last
        lines.append(f"where {next_} comes next, it is open which fits: {both}")
    suffix = f", and {len(lines) - 3} more" * (len(lines) > 3)
    where = "; two rules, or two places of one rule, take the same tag or text here"
    return "; ".join(lines[:3]) + suffix + where


class _Names:
    """Says rules in the words of a grammar: Lark makes rules of repetitions, named `__...`."""

    def __init__(self, rules: list[Any]) -> None:
        self.rules = rules
        self.repetitions = {
            n for n in (r.origin.name for r in rules) if re.fullmatch(r"__.+_(star|plus)_\d+", n)
        }

    def symbol(self, name: str) -> str:
        """Returns a symbol as it is written; a repetition as what is repeated."""
        if name not in self.repetitions:
            return name
        once = [
            r.expansion for r in self.rules if r.origin.name == name and r.expansion[0].name != name
        ]
        each = [" ".join(self.symbol(s.name) for s in expansion) for expansion in once]
        text = " | ".join(each)
        return f"{text}+" if " " not in text else f"({text})+"

    def rule(self, rule: Any) -> str:
        """Returns the name of a rule and what it takes, of a repetition the rules that have it."""
        name = rule.origin.name
        if name in self.repetitions:
            return f"`{self.symbol(name)}` of {', '.join(sorted(self.users(name)))}"
        return f"`{name}: {' '.join(self.symbol(s.name) for s in rule.expansion) or '(nothing)'}`"

    def users(self, name: str) -> set[str]:
        """Returns the rules of the grammar in which a repetition is."""
        having = {r.origin.name for r in self.rules if name in [s.name for s in r.expansion]}
        having.discard(name)
        return {user for o in having for user in (self.users(o) if o in self.repetitions else {o})}


@lru_cache(maxsize=32)  # formats that are derived share grammars
def extract(grammar: str, *, limit: int = MAX_CONFIGURATIONS) -> Automaton:
    """Returns the minimal automaton over all stacks that Lark's parser can reach.

    Raises SpecError when the grammar is not LALR(1), or when there are more than `limit` stacks or
    a stack of more than `MAX_DEPTH` symbols: then the language nests without bound and is not
    regular.
    """
    parser = make_parser(grammar).parse_interactive([]).parser_state.parse_conf
    first: tuple[int, ...] = (parser.start_state,)
    numbers = {first: 0}
    steps: list[dict[str, int]] = [{}]
    accepts = set()
    queue = deque([first])
    at = 0
    while queue:
        stack = queue.popleft()
        for terminal in filter(str.isupper, parser.states[stack[-1]]):
            following = _shifted(parser, stack, terminal)
            if following is None:
                continue
            if terminal == END:
                accepts.add(at)
                continue
            if following not in numbers:
                if len(numbers) >= limit or len(following) > MAX_DEPTH:
                    why = "some rule nests inside itself without bound"
                    stacks = f"the grammar does not close after {len(numbers)} parser stacks"
                    raise SpecError(f"{stacks}: {why}; write the nesting out to a fixed depth")
                numbers[following] = len(numbers)
                steps.append({})
                queue.append(following)
            steps[at][terminal] = numbers[following]
        at += 1
    return minimise(steps, accepts)


def _shifted(parser: Any, stack: tuple[int, ...], terminal: str) -> tuple[int, ...] | None:
    """Returns the stack after a terminal, or None where the parser does not take it.

    Lark's own parser would also copy, at each step, the trees that it has built.
    """
    from lark.parsers.lalr_analysis import Shift

    states = list(stack)
    while step := parser.states[states[-1]].get(terminal):
        action, target = step
        if action is Shift:
            return (*states, target)
        del states[len(states) - len(target.expansion) :]  # a rule ends; it is the target
        states.append(parser.states[states[-1]][target.origin.name][1])
        if terminal == END and states[-1] == parser.end_state:
            return tuple(states)
    return None


def minimise(steps: list[dict[str, int]], accepts: set[int]) -> Automaton:
    """Merges equivalent states by Moore's partition refinement, and numbers the rest.

    The numbers come from a breadth-first walk in the order of the terminals' names, so the result
    is canonical.
    """
    classes = [int(s in accepts) for s in range(len(steps))]
    count = len(set(classes))
    while True:
        numbers: dict[Any, int] = {}
        classes = [
            numbers.setdefault(
                (classes[s], tuple(sorted((t, classes[n]) for t, n in row.items()))), len(numbers)
            )
            for s, row in enumerate(steps)
        ]
        if len(numbers) == count:
            break
        count = len(numbers)
    merged = {c: {t: classes[n] for t, n in steps[s].items()} for s, c in enumerate(classes)}
    final = {classes[s] for s in accepts}
    number = {classes[0]: 0}
    queue = deque([classes[0]])
    while queue:
        row = merged[queue.popleft()]
        for terminal in sorted(row):
            if row[terminal] not in number:
                number[row[terminal]] = len(number)
                queue.append(row[terminal])
    table = tuple({t: number[n] for t, n in sorted(merged[c].items())} for c in number)
    return Automaton(table, frozenset(number[c] for c in final))
