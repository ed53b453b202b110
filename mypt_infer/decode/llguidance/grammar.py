"""Writes the bodies of calls as grammars for llguidance, and makes its matchers.

Input: tools, and the kind of body. Output: a matcher that reads canonical spacing, the name first,
and arguments by any schema that llguidance can read.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from mypt_infer.decode.base.tools import SchemaFault, ToolSpec
from mypt_infer.decode.base.vocab import ROOM, vocabulary
from mypt_infer.decode.compile.call_graph import CLOSED, around
from mypt_infer.decode.compile.grammar_graph import forbidden_texts
from mypt_infer.decode.llguidance.minimal_value import Hints, most_of_a_part
from mypt_infer.decode.llguidance.number_ranges import with_ranges
from mypt_infer.decode.llguidance.pattern_text import avoids
from mypt_infer.decode.llguidance.response import GUIDANCE, SPACING
from mypt_spec import Dialect
from mypt_spec.bodies.json_body import ID, IDENT, NAME, written, written_key
from mypt_spec.bodies.type_names import mapped, objects
from mypt_spec.memo import Memo
from mypt_spec.table import IDS_LAST, LISTS

# The keys that patterns bind, where they may bind anything.
ALL = frozenset([""])
_CHOOSING = ("$ref", "allOf", "anyOf", "oneOf")
_COUNTING = ("patternProperties", "minProperties", "maxProperties")


class EngineError(ValueError):
    """An engine is unknown or not installed."""


def patterned(schema: Any, harmless: Callable[[str], bool] | None = None) -> frozenset[str]:
    """Returns the keys of members whose strings are bound by more than their length.

    "" is among them if that may be so for any member. With `harmless`, patterns of which it is true
    do not count, nor do formats, unless several bind one value.
    """
    keys: set[str] = set()

    def harms(part: dict[str, Any]) -> bool:
        bound = [part[word] for word in _BOUND if word in part]
        if not bound or harmless is None:
            return bool(bound)
        if len(bound) > 1 or any(word in part for word in _CHOOSING):
            return True
        if "format" in part:
            return False
        return not all(map(harmless, bound[0] if isinstance(bound[0], dict) else bound))

    def walk(part: Any, key: str) -> None:
        if isinstance(part, list):
            for one in part:
                walk(one, key)
        elif isinstance(part, dict):
            reference = part.get("$ref", "#/$defs/")
            joined = harmless is not None and len(part.get("allOf", ())) > 1
            if (
                harms(part)
                or (joined and patterned(part["allOf"]))
                or not str(reference).startswith(("#/$defs/", "#/definitions/"))
            ):
                keys.add(key)
            for word, value in part.items():
                if word in _MAPS and isinstance(value, dict):
                    for name, one in value.items():
                        walk(one, name if word == "properties" else "")
                elif word not in _DATA:
                    walk(value, "" if word == "additionalProperties" else key)

    walk(schema, "")
    return frozenset(keys)


def doubted(schema: Any, avoided: str, forbidden: Iterable[str]) -> frozenset[str]:
    """Returns the keys of members in which what may follow can lead to a text that is forbidden.

    "" is among them if that may be so for any member. The forbidden texts begin with the characters
    `avoided`, and with no others; so they do not count where others may always follow.

    >>> tags = {"properties": {"a": {"pattern": "^(x|<a>)$"}, "b": {"pattern": "^[^>]*-[0-9]+$"}}}
    >>> sorted(doubted(tags, "<", ["<a>"])), sorted(doubted({"enum": ["<a>"]}, "<", ["<a>"]))
    (['a'], [''])
    """
    literals = json.dumps(_literals(schema), ensure_ascii=False)
    keys = patterned(schema, lambda pattern: avoids(pattern, avoided))
    return keys | {""} if any(text in literals for text in forbidden) else keys


def _literals(schema: Any) -> list[Any]:
    """Returns the keys and values of a schema that texts have as they are."""
    out: list[Any] = []
    for part in objects(schema):
        out += [part[word] for word in ("enum", "const") if word in part]
        out += [[*part[word]] for word in _MAPS if isinstance(part.get(word), dict)]
    return out


def has_named_members(schema: Any) -> bool:
    """Returns whether all members of all objects are named, and nothing nests without end.

    Then llguidance itself lets no key occur twice.
    """
    if isinstance(schema, list):
        return all(map(has_named_members, schema))
    if schema is True or not isinstance(schema, dict):
        return schema is not True
    if "const" in schema or "enum" in schema:
        return True
    kinds = schema.get("type", "object")
    if "object" in kinds and schema.get("additionalProperties") is not False:
        return False
    if "$ref" in schema or "patternProperties" in schema:
        return False
    if "array" in kinds and "items" not in schema and "prefixItems" not in schema:
        return False
    parts = [v for w in _MAPS for v in dict(schema.get(w, {})).values()]
    return all(map(has_named_members, [*parts, *(schema[w] for w in _WITHIN if w in schema)]))


class Rule(NamedTuple):
    """What binds the values of a body: the arguments of a tool, or a response.

    `bound`: the keys of members that patterns bind. `closed`: all members are named. `spare`: about
    the most tokens by which an id makes the ending longer. `hints`: what searches try first.
    `doubted`: the keys of members in which what may follow can lead to a forbidden text. `begins`:
    the first bytes of calls of the tool, in a list those after the id.
    """

    bound: frozenset[str]
    closed: bool
    spare: int
    hints: Hints | None = None
    doubted: frozenset[str] = frozenset()
    begins: bytes = b""


def rule_of(schema: Any, hints: Hints, avoided: str, dialect: Dialect, begins: bytes = b"") -> Rule:
    """Returns what a schema says of its values; `avoided`: see `doubted`."""
    bound, closed, spare = patterned(schema), has_named_members(schema), most_of_a_part(schema)
    harm = doubted(schema, avoided, forbidden_texts(dialect))
    return Rule(bound, closed, spare, hints, harm, begins)


_DATA = ("const", "enum", "default", "examples")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_WITHIN = ("items", "prefixItems", "allOf", "anyOf", "oneOf")
_BOUND = ("pattern", "format", "patternProperties")
_ARGUMENT = "#/properties/"  # where references to arguments begin


def schema_of(tool: ToolSpec, kind: str) -> dict[str, Any]:
    """Returns the schema of the arguments of a call of this kind.

    Members that the schema does not mention are not written. In a "call", the name of the tool is
    among the arguments. Raises SchemaFault for a schema that no call of this kind can follow.
    """
    schema = dict(tool.schema)
    schema["type"] = "object"
    described = schema.get("properties", {})
    if unknown := [k for k in schema.get("required", ()) if k not in described]:
        more = schema.get("additionalProperties", {})
        schema["properties"] = described | dict.fromkeys(unknown, {} if more is True else more)
    if not {*_CHOOSING, "patternProperties", "additionalProperties"}.intersection(schema):
        schema["additionalProperties"] = False
    if kind == "call":
        for word in (*_CHOOSING, *_COUNTING):
            if word in schema:
                problem = "cannot be at the top: a call has its name among its arguments"
                problem = f"{word!r} {problem}; use it in a property"
                raise SchemaFault(tool.name, f"/{word}", problem)
        if any(key != written_key(key) for key in described):
            schema = mapped(schema, _renamed)
        arguments = written(schema.get("properties", {}))
        schema["properties"] = {NAME: {"const": tool.name}, **arguments}
        schema["required"] = [NAME, *map(written_key, schema.get("required", ()))]
    return schema


def _renamed(part: dict[str, Any], _: str) -> dict[str, Any]:
    """Returns a schema whose reference to an argument uses its key in a "call"."""
    reference = part.get("$ref")
    if not isinstance(reference, str) or not reference.startswith(_ARGUMENT):
        return part
    key, *steps = reference.removeprefix(_ARGUMENT).split("/")
    name = written_key(unquote(key))
    return part if name == unquote(key) else part | {"$ref": _ARGUMENT + "/".join([name, *steps])}


def grammar(kind: str, tools: Sequence[ToolSpec], literals: re.Pattern[str]) -> str:
    """Returns a grammar of the calls of some tools, in llguidance's dialect of Lark."""
    ways, rules, alternatives = [], [], []
    for i, tool in enumerate(tools):
        before, after = ("", "") if kind == "call" else around(kind, tool.name, literals)
        if kind in IDS_LAST:
            after = f'{after[: -len("}" + CLOSED)]}, "{ID}": '
            alternatives.append(f'{_row(before[1:], i, after)} id "}}"')
        elif kind in LISTS:
            before, after = before[1:], after[: -len(CLOSED)]
            alternatives.append(_row(", " + before[1:], i, after))
        ways.append(_row(before, i, after))
        rules.append(
            f"arguments_{i}: %json "
            + json.dumps(
                {**mapped(schema_of(tool, kind), with_ranges), GUIDANCE: SPACING},
                ensure_ascii=False,
            )
        )
    start = " | ".join(ways)
    if kind in IDS_LAST:
        start = '"[" named (", " named)* "]"'
        rules.append(f"named: {' | '.join(alternatives)}")
    elif kind in LISTS:  # no lexeme may be the beginning of another
        start = f'"[" ({start} | named (", " named)*) "]"'
        key = json.dumps(f'{{"{ID}": ')
        rules.append(f"named: {key} id ({' | '.join(alternatives)})")
    if kind in IDS_LAST:
        rules.append(f'id: /"{IDENT.pattern}"/')
    elif kind in LISTS:
        rules.append(f"id: %json {json.dumps({'type': 'string', 'minLength': 1})}")
    return "\n".join(['%llguidance {"no_forcing": true}', f"start: {start}", *rules])


def _row(before: str, tool: int, after: str) -> str:
    quoted = [json.dumps(text, ensure_ascii=False) if text else "" for text in (before, after)]
    return f"{quoted[0]} arguments_{tool} {quoted[1]}".strip()


class _Words:
    """The vocabulary of a dialect, in the form that llguidance expects."""

    bos_token_id = None

    def __init__(self, dialect: Dialect, end: int) -> None:
        words = vocabulary(dialect.tokenizer, dialect.table.base_vocabulary)
        self.eos_token_id, self.tokenizer = end, dialect.tokenizer
        texts = enumerate([*words.tokens, *[b""] * (words.size - len(words.tokens))])
        # llguidance keeps it: of a list, the collector of garbage would look at each token.
        self.tokens = tuple(token or b"<|%d|>" % i for i, token in texts)
        self.special_token_ids = np.flatnonzero(~words.texts).tolist()

    def __call__(self, text: str | bytes) -> list[int]:
        text = text if isinstance(text, str) else text.decode("utf-8", "replace")
        return self.tokenizer.encode_as_written(text)


# The bytes of a token in llguidance, about.
_WORD = 300
_words = Memo[tuple[str, int], Any](16, room=ROOM)


def words(dialect: Dialect, end: int) -> Any:
    """Returns llguidance's tokenizer of a dialect, made once.

    `end` is the id that follows a body; llguidance takes it for the end of the text. Raises
    EngineError if llguidance is not installed.
    """
    try:
        from llguidance import LLTokenizer, TokenizerWrapper
    except ImportError:
        raise EngineError(
            "the engine \"llguidance\" is not installed: pip install 'mypt-tags[llguidance]'"
        ) from None
    key = (dialect.fingerprint, end)
    entry = _words.entries.get(key)
    if entry is None:
        wrapper = _Words(dialect, end)
        built = LLTokenizer(TokenizerWrapper(wrapper), slices=LLTokenizer.json_slices())
        entry = _words.keep(key, built, _WORD * len(wrapper.tokens))
    return entry


def matcher_of(dialect: Dialect, end: int, grammar: str) -> Any:
    """Returns llguidance's matcher of a grammar, after whose texts the id `end` follows."""
    tokenizer = words(dialect, end)
    import llguidance

    text = llguidance.grammar_from("lark", grammar)
    return llguidance.LLMatcher(tokenizer, text, log_level=0)


def matcher(dialect: Dialect, end: int, kind: str, tools: Sequence[ToolSpec]) -> Any:
    """Returns llguidance's matcher at the beginning of a call of one of the tools.

    Raises SchemaFault, naming the tool and llguidance's reason.
    """
    guide = matcher_of(dialect, end, grammar(kind, tools, dialect.table.literals))
    if guide.is_error():
        for tool in tools if len(tools) > 1 else ():
            matcher(dialect, end, kind, [tool])
        reason = guide.get_error().split("JSON schema: ")[-1].splitlines()[0]
        name = tools[0].name if len(tools) == 1 else "?"
        raise SchemaFault(name, "", f"llguidance cannot read its schema either: {reason}")
    return guide
