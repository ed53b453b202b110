"""Prepares a response for the engine: its matcher, and a short text that fits.

Input: a dialect and a Response. Output: an Answer. A response of which no text is found is refused
here, so that all that is offered later has an ending.
"""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from mypt_infer.decode.base.vocab import cached_by
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_infer.decode.llguidance.completion import Search
from mypt_infer.decode.llguidance.grammar import ALL, Rule, matcher_of, rule_of
from mypt_infer.decode.llguidance.ground import Ground, ground, pending
from mypt_infer.decode.llguidance.minimal_value import Hints, Unclear, minimal_value
from mypt_infer.decode.llguidance.response import GUIDANCE, Response, ResponseError
from mypt_infer.decode.llguidance.texts import texts
from mypt_spec import Dialect
from mypt_spec.bodies.strict_json import canonical

# The most places that the search for a first text looks at, some 40 us each.
_MOST = 20_000
# By so many tokens is the ending of a regex or a grammar assumed to grow with an id, at most. One
# after which it grows more is refused when it is taken; to prove all ids before takes 0.1 s.
_SPARE = 6


class Answer(NamedTuple):
    """A response, prepared.

    `ending` is a text that fits, as tokens. `json`: the text is JSON.
    """

    ground: Ground
    first: Any
    ending: tuple[int, ...]
    json: bool
    rule: Rule


def answer(dialect: Dialect, response: Response) -> Answer:
    """Returns a response, prepared.

    Raises ResponseError for a response that llguidance cannot read, or that no text of the dialect
    fits; EngineError if llguidance is not installed.
    """
    end = call_ends(dialect)[1]
    schema = response.plain if response.kind == "schema" else None
    first = matcher_of(dialect, end, response.grammar)
    if first.is_error():
        raise ResponseError(f"the {response.kind} of the response: {_reason(first.get_error())}")
    shared = text_ground(dialect, end, json=schema is not None)

    def spell(value: Any) -> bytes:
        return canonical(value, dialect.table.literals).encode()

    hints = Hints([schema], spell, lambda value: len(shared.search.tokens(spell(value))))
    ending = _ending(dialect, shared, first, schema, end, hints)
    rule = Rule(ALL, True, _SPARE, hints, ALL)
    if schema is not None:
        rule = rule_of(schema, hints, shared.pending.avoided, dialect)
        rule = rule._replace(spare=rule.spare + _SPARE)
    return Answer(shared, first, tuple(ending), schema is not None, rule)


@cached_by(lambda dialect, end, *, json: (dialect.fingerprint, json))
def text_ground(dialect: Dialect, end: int, *, json: bool) -> Ground:
    """Returns what all answers of a dialect share, made once; `json`: those that are JSON."""
    shared, companion = ground(dialect), texts(dialect)
    words, bitmask = shared.search.vocabulary, shared.search.bitmask
    search = Search(companion, words, bitmask, end=end, json=json)
    plain = companion.run(companion.first, [search.id_of[ord("{")]])
    states = np.flatnonzero(companion.tables.frame).tolist()
    single, goals = sorted(words.of_byte.values()), np.flatnonzero(companion.ends).tolist()
    fixes = companion.fixes(states, goals, single)
    begun = pending(companion, search, states, plain)
    return Ground(companion, search, shared.characters, shared.opens, fixes, begun)


def _reason(error: str) -> str:
    """Returns what llguidance says is wrong, in one line, without the places in our grammar."""
    lines = [line.strip() for line in error.splitlines()]
    messages = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    first = lines[0].split("JSON schema: ")[-1].split("): ", 1)[-1].removesuffix(":")
    return f"{first.split(' (in regex)')[0]}: {messages[0]}" if messages else first


def _ending(
    dialect: Dialect,
    shared: Ground,
    first: Any,
    schema: dict[str, Any] | None,
    end: int,
    hints: Hints,
) -> list[int]:
    """Returns the shortest text that was found, as tokens."""
    search, begin = shared.search, shared.lexemes.first

    def fit(tokens: list[int]) -> list[int]:
        is_spelled = search.vocabulary.nowhere not in tokens
        return tokens if tokens and is_spelled and shared.proved(first, tokens, end) else []

    fits: list[int] = []
    if schema is not None:
        plain = {word: value for word, value in schema.items() if word != GUIDANCE}
        with suppress(Unclear, UnicodeEncodeError):
            fits = fit(search.tokens(hints.spell(minimal_value(plain, hints.size))))
    if not fits:
        searched = search.ending(first, begin, most=_MOST, hints=hints)
        fits = fit(searched.tokens or [])
        for token in search.outside.tolist() if searched.tokens == [] else ():
            rest, then = first.deep_copy(), shared.lexemes.next(begin, token)
            if not fits and then != DEAD_STATE and rest.consume_token(token):
                fits = fit([token, *(search.ending(rest, then, hints=hints).tokens or ())])
        if not fits and searched.tokens is None and not searched.none:
            raise ResponseError(
                f"no text that fits the response was found in {searched.looked:,} steps of a "
                "search, which is its bound; make the response simpler, or its texts shorter"
            )
    if not fits:
        raise ResponseError(
            f"no text was found that fits the response and spells no tag of {dialect.name}; an "
            "empty text does not count"
        )
    return fits
