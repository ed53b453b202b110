"""Says how the value of an argument between tags is written: as any text, as some texts, as JSON.

Input: the schema of an argument in a call of the kind "tagged" (`mypt_spec.bodies.tagged`). Output:
a Way, or a SchemaFault for one that tables cannot hold; and the leaf of the texts between tags.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mypt_infer.decode.base.tools import SchemaFault
from mypt_infer.decode.base.vocab import cached_by
from mypt_infer.decode.compile.byte_dfa import DEAD, ByteDfa, text_dfa
from mypt_spec.bodies.call_tags import BareKeys, Tags
from mypt_spec.bodies.tagged import STRING, kinds_in, value_of, value_text

WHERE = "calls with tags for their arguments are for tables alone"


class Way(NamedTuple):
    """How a value is written.

    As any text (`free`), which is not empty if `some`; or as one of `texts`, or as the JSON of a
    value that fits one of `schemas`.
    """

    free: bool = False
    some: bool = False
    texts: tuple[str, ...] = ()
    schemas: tuple[dict[str, Any], ...] = ()


@cached_by(lambda forbidden, tags, end: (forbidden, tags.marks, tags.wrap, end), 8 << 20)
def value_dfa(forbidden: tuple[str, ...], tags: Tags | BareKeys, end: str) -> ByteDfa:
    """Returns the automaton of texts up to an `end`, which spell no other tag.

    If it is that of an argument, no text has a character for which it would be wrapped.
    """
    words = [*dict.fromkeys([end, *forbidden, *tags.marks])]
    leaf = text_dfa(words, [end], {}, {}, name=f"value {end}")
    step = leaf.step.copy()
    first, *rest = end.encode()
    wrapped = {*tags.wrap[0].encode()} if tags.wrap and end == tags.end else set()
    step[:, [*wrapped - {first}]] = DEAD
    states = step[:, first] if first in wrapped else step[:0, first]
    for byte in rest:  # only that tag may begin so
        states = np.unique(states[states >= 0])
        after = step[states, byte]
        step[states] = DEAD
        step[states, byte] = states = after
    return replace(leaf, step=step, whole=np.zeros(leaf.states, dtype=bool))


def way_of(
    schema: Any, tool: str, at: str, literals: re.Pattern[str], forbidden: Sequence[str], tags: Tags
) -> Way:
    """Returns how an argument is written. Raises SchemaFault where tables cannot hold it.

    `literals` matches the dialect's tags, and no text may spell one of `forbidden`.
    """
    schema = {} if schema is True else schema
    if not isinstance(schema, Mapping):
        raise SchemaFault(tool, at, f"no value fits; {WHERE}")
    kinds = kinds_in(schema, schema)
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        texts_of_values = [(value, value_text(value, literals, tags)) for value in values]
        texts = tuple(
            text
            for value, text in texts_of_values
            if value_of(text, kinds, tags) == value
            and not any(tag in text for tag in (*forbidden, *tags.marks))
        )
        if not texts:
            raise SchemaFault(tool, f"{at}/enum", "no value can be said between tags")
        return Way(texts=texts)
    if "string" in kinds:
        least = schema.get("minLength", 0)
        others = {key: value for key, value in schema.items() if key != "minLength"}
        if not _unbound(others) or least not in (0, 1) or (least and kinds != STRING):
            words = ", ".join(repr(w) for w in schema if w not in ("type", "anyOf", "oneOf"))
            problem = f"beside text, {words or 'a bound'} is not supported between tags, but for "
            raise SchemaFault(tool, at, f'{problem}"minLength" of 0 and 1; {WHERE}')
        plain = kinds & {"boolean", "null", "number" if "number" in kinds else "integer"}
        schemas = ({"type": sorted(plain)},) if tags.types and plain else ()
        return Way(free=True, some=least == 1, schemas=schemas)
    if tags.python == "values" and kinds & {"array", "object"}:
        raise SchemaFault(tool, at, "tables cannot hold arrays and objects in Python's words")
    choices = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(choices, list) and len(schema) == 1:
        kinds_of_choices = [kinds_in(choice, schema) for choice in choices]
        if len(frozenset().union(*kinds_of_choices)) < sum(map(len, kinds_of_choices)):
            word = next(iter(schema))
            problem = f"two alternatives of {word!r} take values of one type; {WHERE}"
            raise SchemaFault(tool, f"{at}/{word}", problem)
        return Way(schemas=(*choices,))
    return Way(schemas=(dict(schema),))


def _unbound(schema: Any) -> bool:
    """Returns whether each value of the types of a schema fits it."""
    if schema is True:
        return True
    if not isinstance(schema, Mapping) or not {*schema} <= {"type", "anyOf", "oneOf"}:
        return False
    return all(_unbound(p) for w in ("anyOf", "oneOf") for p in schema.get(w, ()))
