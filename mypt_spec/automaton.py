"""The automaton of a dialect, extracted from Lark's own LALR parser and minimised.

These languages nest to a bounded depth, so the stacks that an LALR parser can reach are finitely
many and the language is regular: a state is a reachable stack. Lark is imported only to extract; a
table, once extracted, runs without it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mypt_spec.table import END, SpecError

MAX_CONFIGURATIONS = 20_000
# of a stack; every step copies it, so a stack that grows without end is slow long before the limit
MAX_DEPTH = 300


@dataclass(frozen=True, eq=False)
class Automaton:
    """A minimal deterministic automaton over terminal names. States are ints from 0; `start` is 0.

    `steps[state]` maps each legal terminal to the next state; states that accept are complete
    episodes.
    """

    steps: tuple[dict[str, int], ...]
    accepts: frozenset[int]
    start: int = 0

    @property
    def states(self) -> range:
        return range(len(self.steps))

    def allowed(self, state: int) -> frozenset[str]:
        """Names of the terminals that may come next, TEXT included; empty only where nothing may
        follow.
        """
        return frozenset(self.steps[state])

    def step(self, state: int, terminal: str) -> int:
        """The state after `terminal`. Raises ValueError when it is not allowed here."""
        try:
            return self.steps[state][terminal]
        except KeyError:
            raise ValueError(
                f"{terminal} is not allowed in state {state}; expected {sorted(self.steps[state])}"
            ) from None

    def accepting(self, state: int) -> bool:
        """Whether the episode may end here."""
        return state in self.accepts

    def expected(self, state: int) -> frozenset[str]:
        """`allowed`, and END where the episode may end."""
        return self.allowed(state) | {END} if state in self.accepts else self.allowed(state)

    def run(self, terminals: Iterable[str]) -> int | None:
        """The state after all terminals, or None as soon as one is refused."""
        state = self.start
        for terminal in terminals:
            following = self.steps[state].get(terminal)
            if following is None:
                return None
            state = following
        return state

    def as_dict(self) -> dict[str, Any]:
        return {
            "steps": [dict(sorted(s.items())) for s in self.steps],
            "accepts": sorted(self.accepts),
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Automaton:
        return Automaton(tuple(data["steps"]), frozenset(data["accepts"]))


def fingerprint(grammar: str) -> str:
    return hashlib.sha256(grammar.encode()).hexdigest()


def make_parser(grammar: str) -> Any:
    """Lark's LALR parser over a stream of terminals: `make_parser(g).parse_interactive([])`."""
    import lark
    from lark.lexer import Lexer

    class PassThrough(Lexer):
        def __init__(self, lexer_conf: Any) -> None:
            pass

        def lex(self, lexer_state: Any, parser_state: Any) -> Any:
            yield from lexer_state

    try:
        return lark.Lark(grammar, parser="lalr", lexer=PassThrough)
    except lark.exceptions.LarkError as error:
        raise SpecError(f"the grammar is not LALR(1): {error}") from None


def extract(grammar: str, *, limit: int = MAX_CONFIGURATIONS) -> Automaton:
    """Explore every stack that Lark's parser can reach and minimise the result.

    Raises SpecError when the grammar is not LALR(1), or when the exploration passes `limit` stacks
    or a stack `MAX_DEPTH` symbols: then the language nests without bound and is not regular.
    """
    from lark import Token

    first = make_parser(grammar).parse_interactive([]).as_immutable()
    numbers = {tuple(first.parser_state.state_stack): 0}
    steps: list[dict[str, int]] = [{}]
    accepts = set()
    queue = deque([first])
    at = 0
    while queue:
        parser = queue.popleft()
        for terminal in parser.accepts():
            if terminal == END:
                accepts.add(at)
                continue
            following = parser.feed_token(Token(terminal, ""))
            key = tuple(following.parser_state.state_stack)
            if key not in numbers:
                if len(numbers) >= limit or len(key) > MAX_DEPTH:
                    raise SpecError(
                        f"the grammar does not close after {len(numbers)} parser stacks: some rule "
                        "nests inside itself without "
                        "bound; write the nesting out to a fixed depth"
                    )
                numbers[key] = len(numbers)
                steps.append({})
                queue.append(following)
            steps[at][terminal] = numbers[key]
        at += 1
    return minimise(steps, accepts)


def minimise(steps: list[dict[str, int]], accepts: set[int]) -> Automaton:
    """Moore's partition refinement; the result is numbered breadth first by terminal name, so it is
    canonical.
    """
    classes = [int(s in accepts) for s in range(len(steps))]
    count = len(set(classes))
    while True:
        seen: dict[Any, int] = {}
        classes = [
            seen.setdefault(
                (classes[s], tuple(sorted((t, classes[n]) for t, n in row.items()))), len(seen)
            )
            for s, row in enumerate(steps)
        ]
        if len(seen) == count:
            break
        count = len(seen)
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
