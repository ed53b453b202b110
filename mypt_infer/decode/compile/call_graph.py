"""Builds the graph of the bodies of tool calls: canonical JSON of declared tools.

Input: tools and the kind of body. Output: nodes that read exactly the canonical bodies of calls of
these tools. `mypt_spec.bodies` defines which text is canonical (`grammar/mypt/SPEC.md` section 6).

Theory of operation. JSON is free in white space, in the order of keys and in escapes; its canonical
form is not. So the body of a call is a fixed text but for the values: a schema becomes nodes for
the keys, in the order of `properties`, with a leaf where a string or a number is. An optional
property is an alternative: each key may be followed by any later one up to the next required one.
Of a few arguments, any may follow any: pieces.py counts them. The comma belongs to the key after
it, which is why there are two lists of alternatives: with a comma, and without one as long as no
member was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, NamedTuple

from mypt_infer.decode.base.tools import SchemaFault, ToolSpec
from mypt_infer.decode.compile.byte_dfa import (
    AFTER_NUMBER,
    ByteDfa,
    Symbol,
    ident_dfa,
    number_dfa,
    python_string_dfa,
    string_dfa,
)
from mypt_infer.decode.compile.nfa import ANY, CALLING, HOLE, PART, Node, Place, chain, spelled
from mypt_infer.decode.compile.table_schemas import check_schema, from_one_byte
from mypt_infer.decode.compile.tagged_arguments import Way, value_dfa, way_of
from mypt_spec.bodies.call_tags import ALONE, BareKeys, Keywords, Tags, ordered
from mypt_spec.bodies.json_body import ID, Call, call_text, list_text, written, written_key
from mypt_spec.bodies.strict_json import canonical
from mypt_spec.bodies.tagged import USUAL, with_tags
from mypt_spec.table import IDS_LAST, LISTS

_NO_ARGUMENTS = "{}"
# What numbers begin with, from 0 on and from 1 on.
_DIGITS = b"0123456789", b"123456789"
# The beginning and the end of a list of calls.
OPENED, CLOSED = "[{", "]"


class Part(NamedTuple):
    """The rest of a call of one tool, by its number, after its name.

    `comma`: its first member is preceded by one. `after`: the text after its last member.
    """

    tool: int
    comma: bool
    after: str


# Of members in any order: the starts of their values, and whether they are required.
Values = list[tuple[Node, bool]] | None
# The most sets of arguments that tables hold the states after: of all tools, and of one.
_SETS, _SETS_OF_ONE = 64, 16
JSON_WORDS, PYTHON_WORDS = ("true", "false", "null"), ("True", "False", "None")


class Style(NamedTuple):
    """How values are written: strings, which a quote ends, words, keys, and a value as a whole."""

    string: ByteDfa
    quote: str
    words: tuple[str, ...]
    key: Callable[[str], str]
    text: Callable[[Any], str]
    comma: str = ", "


class Bodies:
    """Builds the bodies of one kind of call for some tools.

    `kind` is a kind of body that holds calls, as `tokens.toml` names it. `literals` finds tags,
    which JSON strings escape; `forbidden` are the spellings that no string may contain. Raises
    SchemaFault for a tool that calls of this kind cannot name, or that tables cannot hold. With
    `parts`, the rest of each call is appended there, and left out: the edge (PART, i) is its place.
    """

    def __init__(
        self,
        kind: str,
        tools: Sequence[ToolSpec],
        literals: re.Pattern[str],
        forbidden: Sequence[str],
        parts: list[tuple[Bodies, Part]] | None = None,
    ) -> None:
        # Where nothing ends the arguments, they are no part by themselves.
        self.parts = parts if not isinstance(kind, Tags) or kind.function[2] else None
        self.kind, self.tools, self.literals, self.forbidden = kind, tools, literals, forbidden
        self.string, self.whole, self.fraction, *others = call_leaves(kind, forbidden)
        self.tags = kind if isinstance(kind, Tags) else USUAL
        if isinstance(kind, Tags):
            self.between, *self.wrapped = others
            self.literals = literals = with_tags(literals, kind.pattern)

        text = partial(canonical, literals=literals)
        style = Style(self.string, '"', JSON_WORDS, lambda key: f"{text(key)}: ", text)
        self.items = self.members = style  # those of what is in arrays and objects
        if isinstance(kind, Tags):
            style = style._replace(key=lambda key: key.join(kind.argument[:2]), comma="")
            style = style._replace(words=PYTHON_WORDS if kind.python else JSON_WORDS)
        elif isinstance(kind, Keywords):
            if kind.end:
                self.items = self.members = style._replace(string=others[0])
                style = Style(self.string, kind.end, PYTHON_WORDS, lambda key: f"{key!r}: ", repr)
                if not kind.escapes:  # Python's strings
                    self.items = style._replace(string=others[1], quote="'")
            style = style._replace(key=lambda key: f"{key}=", text=kind.value_text)
        elif isinstance(kind, BareKeys):
            words = (*JSON_WORDS[:2], kind.null)
            style = Style(self.string, kind.end, words, lambda key: f"{key}:", kind.write, ",")
            self.items = self.members = style
        self.style = self.outer = style
        self.owner = -1
        for tool in tools:
            check_named(tool, kind, literals)
            if isinstance(kind, Tags):
                check_arguments(tool, literals, forbidden, kind)
            else:
                check_schema(tool)

    def any_tool(self, then: Node) -> Node:
        """Returns the start of a call of any of the tools, up to `then`.

        In a list, these are calls with ids, or, where ids come first, one call without.
        """
        if self.kind in (*IDS_LAST, "keywords"):
            return self._several(then)
        calls = [self.one(i, then) for i in range(len(self.tools))]
        self.owner = -1
        return self._either([*calls, *([self._list(then)] if self.kind in LISTS else [])])

    def one(self, index: int, then: Node) -> Node:
        """Returns the start of a call of one tool, up to `then`."""
        return self._call(index, *self._around(self.tools[index].name), then)

    def _list(self, then: Node) -> Node:
        """Returns the start of a list of calls with ids, up to `then`.

        `call_ids.Distinct` ensures that ids are distinct and not empty.
        """
        self.owner = -1
        again = Node(block=CALLING)
        calls = []
        for i, tool in enumerate(self.tools):
            before, after = self._around(tool.name)
            calls.append(self._call(i, ", " + before[len(OPENED) :], after[: -len(CLOSED)], again))
        self.owner = -1
        ends: dict[Symbol, Place] = {self.string.exits[0]: (self._either(calls), 0)}
        inside = Node(ends, leaf=self.string, block=CALLING)
        first = self._text(f'{{"{ID}": "', inside)
        again.also = [self._text(CLOSED, then), self._text(", ", first)]
        return self._text("[", first)

    def _several(self, then: Node) -> Node:
        """Returns the start of a list of calls up to `then`, without ids or with them last."""
        self.owner = -1
        texts = self.kind.calls if isinstance(self.kind, Keywords) else ("[", ", ", CLOSED)
        again = end = Node(block=CALLING)
        if self.kind in IDS_LAST:
            call_end = self._text("}", again)
            end = Node({ident_dfa().exits[0]: (call_end, 0)}, leaf=ident_dfa(), block=CALLING)
        calls = []
        for i, tool in enumerate(self.tools):
            before, after = self._around(tool.name)
            after = after[: len(after) - len(texts[2])]
            after = f'{after[:-1]}, "{ID}": "' if end is not again else after
            calls.append(self._call(i, before[len(texts[0]) :], after, end))
        self.owner = -1
        first = self._either(calls)
        again.also = [self._text(texts[2], then), self._text(texts[1], first)]
        return self._text(texts[0], first)

    def _call(self, index: int, before: str, after: str, then: Node) -> Node:
        self.owner = index
        # With a brace before them the arguments are an object in the body; else a name comes first.
        part = Part(index, not before.endswith(("{", "(")), after)
        if self.parts is None:
            return self._text(before, self.rest_of_call(part, then))
        stub = Node({(PART, len(self.parts)): (then, 0)}, block=CALLING, owner=index)
        self.parts.append((self, part))
        return self._text(before, stub)

    def rest_of_call(self, part: Part, then: Node, values: Values = None) -> Node:
        """Returns the start of the rest of a call after its name, up to `then`. See `_members`."""
        self.owner = part.tool
        properties, required = self.tools[part.tool].properties, self.tools[part.tool].required
        if self.kind == "call":
            properties, required = written(properties), frozenset(map(written_key, required))
        after = self._text(part.after, then)
        return self._members(properties, required, after, comma=part.comma, values=values)

    @cached_property
    def any_order(self) -> frozenset[int]:
        """Returns the tools whose arguments may come in any order: first those that have fewest."""
        if self.kind == "bare_keys" or self.tags.none:  # these formats define the order
            return frozenset()
        counts = [1 << len(tool.properties) for tool in self.tools]
        few = sorted((n, i) for i, n in enumerate(counts) if n <= _SETS_OF_ONE)
        totals = accumulate(n for n, _ in few)
        return frozenset(i for total, (_, i) in zip(totals, few, strict=True) if total <= _SETS)

    def _around(self, name: str) -> tuple[str, str]:
        """Returns the text before and after the members of a call's arguments."""
        before, after = around(self.kind, name, self.literals)
        if self.kind == "call" or isinstance(self.kind, Tags | Keywords):
            return before, after
        return before + "{", "}" + after

    def _text(self, text: str, then: Node) -> Node:
        return chain(spelled(text), then, block=CALLING, owner=self.owner)

    def _either(self, nodes: list[Node]) -> Node:
        return nodes[0] if len(nodes) == 1 else Node(also=nodes, block=CALLING, owner=self.owner)

    def _argument(self, key: str, then: Node) -> Node:
        """Returns the start of the value of an argument and the tag after it, up to `then`."""
        at, tool, tags = f"/properties/{key}", self.tools[self.owner], self.tags
        way = way_of(tool.properties[key], tool.name, at, self.literals, self.forbidden, tags)
        (string, other), values = tags.types or ("", ""), []
        if way.free:
            after = self._text(tags.argument[2].removeprefix(tags.end), then)
            if self.wrapped:
                return self._wrapped(way, self._text(tags.end, after), after)
            kinds = ("tag", "first")[: 2 - way.some]  # of a text that is over, and of an empty one
            edges: dict[Symbol, Place] = {(kind, tags.end): (after, 0) for kind in kinds}
            text = Node(edges, leaf=self.between, block=CALLING, owner=self.owner)
            values.append(self._text(string, text))
        value_end = self._text(tags.argument[2], then)
        values += [self._text(text, value_end) for text in way.texts]
        values += [self._text(other, self.value(schema, value_end)) for schema in way.schemas]
        return self._either(values)

    def _wrapped(self, way: Way, empty: Node, then: Node) -> Node:
        """Returns the start of a string that is wrapped or needs not be, up to `then`."""
        characters, before, after = self.tags.wrap
        ends, leaves = (self.tags.end, after + self.tags.end), (self.between, *self.wrapped)
        plain, wrapped = (
            Node({("tag", end): (then, 0)}, leaf=leaf, block=CALLING, owner=self.owner)
            for end, leaf in zip(ends, leaves, strict=True)
        )
        first = bytes({*range(256)} - {*characters.encode()})
        values = [self._begun(self.between, plain, first), self._text(before, wrapped)]
        return self._either(values if way.some else [*values, empty])

    def _members(
        self, properties: dict[str, Any], required: frozenset[str], then: Node, *,
        comma: bool, values: Values = None,
    ) -> Node:  # fmt: skip
        """Returns the start of the members of an object, in their order, the optional ones or not.

        The first member is preceded by a comma only if `comma`. With `values`, they come in any
        order, also again or not: the starts of values go there, and whether they are required.
        """
        properties = ordered(properties) if self.kind == "bare_keys" else properties
        following: Node | None = None  # the members that may come next, after a comma
        without: Node | None = None  # the same, if no member was written yet
        following_node = Node(also=[then], block=CALLING, owner=self.owner)  # what follows a value
        open_end = [then]  # `then`, as long as no later member is required
        for key in reversed([k for k, part in properties.items() if part is not False]):
            if isinstance(self.kind, Tags) and self.style is self.outer:
                value = self._argument(key, following_node)
            else:
                value = self.value(properties[key], following_node)
            name = self.style.key(key)
            if values is not None:
                values.append((value, key in required))
            elif key in required:
                following, without, open_end = None, None, []
            following = self._also(following, self.style.comma + name, value)
            without = self._also(without, name, value)
            if values is None:
                following_node = Node(block=CALLING, owner=self.owner)
            following_node.also = [following, *open_end]
        if self.tags.none and self.style is self.outer:
            alone = [self._text(self.tags.none, node) for node in open_end]
            return Node(also=[*filter(None, [without]), *alone], block=CALLING, owner=self.owner)
        if comma or without is None:
            return following_node
        return Node(also=[without, *open_end], block=CALLING, owner=self.owner)

    def _also(self, tree: Node | None, text: str, then: Node) -> Node:
        """Returns a tree of texts with one text more, which leads to `then`.

        No text is the beginning of another. The two trees share all but the way of the new text,
        so the trees of many members, each with one member more, take no more than the last one.
        """
        symbols, before = spelled(text), list[Node | None]()
        for symbol in symbols:
            before.append(tree)
            tree = tree.edges[symbol][0] if tree is not None and symbol in tree.edges else None
        for symbol, node in zip(reversed(symbols), reversed(before), strict=True):
            edges = {} if node is None else node.edges
            then = Node({**edges, symbol: (then, 0)}, block=CALLING, owner=self.owner)
        return then

    def value(self, schema: dict[str, Any], then: Node) -> Node:
        """Returns the start of a value that fits a checked schema, up to `then`."""
        if "const" in schema or "enum" in schema:
            values = schema["enum"] if "enum" in schema else [schema["const"]]
            return self._either([self._text(self.style.text(v), then) for v in values])
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return self._either([self._typed(kind, schema, then) for kind in kinds])

    def _typed(self, kind: str, schema: dict[str, Any], then: Node) -> Node:
        if kind == "string":
            leaf, some = self.style.string, schema.get("minLength", 0)
            # The second way to end, of a text that nothing escapes, is that of an empty one.
            edges: dict[Symbol, Place] = dict.fromkeys(leaf.exits[: 2 - some], (then, 0))
            inside = Node(edges, leaf=leaf, block=CALLING, owner=self.owner)
            inside = self._begun(leaf, inside) if some and leaf.exits[0][0] == "byte" else inside
            return self._text(self.style.quote, inside)
        if kind in ("integer", "number"):
            low = schema["minimum"] if from_one_byte(schema, [kind]) else None
            if kind == "integer" and "minimum" in schema and low is None:
                numbers = range(schema["minimum"], schema["maximum"] + 1)
                return self._either([self._text(str(n), then) for n in numbers])
            return self._number(self.fraction if kind == "number" else self.whole, then, low)
        if kind == "boolean":
            return self._either([self._text(word, then) for word in self.style.words[:2]])
        if kind == "null":
            return self._text(self.style.words[2], then)
        if self.style is not self.outer:
            return self._nested(kind, schema, then)
        self.style = self.items if kind == "array" else self.members
        node = self._nested(kind, schema, then)
        self.style = self.outer
        return node

    def _nested(self, kind: str, schema: dict[str, Any], then: Node) -> Node:
        if kind == "array":
            closing = self._text("]", then)
            again = Node(block=CALLING, owner=self.owner)
            # One graph for the first item and the later ones: two would double with each level.
            item = self.value(schema["items"], again)
            again.also = [closing, self._text(self.style.comma, item)]
            first = Node(also=[closing, item], block=CALLING, owner=self.owner)
            return self._text("[", first)
        properties, required = schema.get("properties", {}), frozenset(schema.get("required", ()))
        closing = self._text("}", then)
        return self._text("{", self._members(properties, required, closing, comma=False))

    def _number(self, leaf: ByteDfa, then: Node, low: int | None = None) -> Node:
        """Returns the start of a number, up to `then`; it is at least `low`, 0 or 1.

        The first digit is outside the leaf, so that a value of another type may be an alternative.
        """
        inside = Node(also=[then], leaf=leaf, block=CALLING, owner=self.owner)
        # From 1 on, it is read as if a digit were before it: then no exponent can make it small.
        first_of = _DIGITS[low] if low is not None else None
        return self._begun(leaf, inside, first_of, b"1" * (low or 0))

    def _begun(
        self, leaf: ByteDfa, inside: Node, first_of: bytes | None = None, before: bytes = b""
    ) -> Node:
        """Returns a node that reads the first byte of a leaf, so that its content is not empty.

        It is one of `first_of`, if they are given, and is read as if `before` were before it.
        """
        first: dict[Symbol, Place] = {
            ("byte", b): (inside, int(q))
            for b, q in enumerate(leaf.step[leaf.run(before)])
            if q >= 0 and (first_of is None or b in first_of)
        }
        return Node(first, block=CALLING, owner=self.owner)


class Holes:
    """Makes a hole of each body, which another engine reads: what `Bodies` does otherwise."""

    def any_tool(self, then: Node) -> Node:
        return Node({(HOLE, ANY): (then, 0)}, block=CALLING)

    def one(self, index: int, then: Node) -> Node:
        return Node({(HOLE, index + 1): (then, 0)}, block=CALLING, owner=index)


def around(kind: str, name: str, literals: re.Pattern[str]) -> tuple[str, str]:
    """Returns the text before and after the arguments of a call.

    The arguments are an object; in a "call", they are the rest of the object with the name.
    """
    if kind in ALONE:
        return "", ""
    if isinstance(kind, Tags):
        return kind.function[0] + name + kind.function[1], kind.function[2]
    if isinstance(kind, Keywords):
        return f"{kind.calls[0]}{name}(", f"){kind.calls[2]}"
    empty_call = call_text(name, {}, literals, kind)
    if kind == "call":
        return empty_call[:-1], empty_call[-1]
    before, _, after = empty_call.rpartition(_NO_ARGUMENTS)
    return before, after


def body_of(kind: str, name: str, arguments: dict[str, Any], literals: re.Pattern[str]) -> str:
    """Returns the canonical body of a call; where ids come last, it has one."""
    if kind in IDS_LAST:
        return list_text([Call(name, arguments, "_")], literals, kind)  # few tokens have it
    return call_text(name, arguments, literals, kind)


def check_named(tool: ToolSpec, kind: str, literals: re.Pattern[str]) -> None:
    """Raises SchemaFault for a tool that calls of this kind cannot name."""
    if literals.search(tool.name):
        raise SchemaFault(tool.name, "", "the name spells a tag of the format")
    if isinstance(kind, Tags):
        names = {"": tool.name} | {f"/properties/{key}": key for key in tool.properties}
        for at, name in names.items():
            if not kind.names.fullmatch(name):
                raise SchemaFault(tool.name, at, "no tag can hold the name")
    if isinstance(kind, Keywords):
        for key, part in tool.properties.items():
            words = part if isinstance(part, Mapping) else {}
            for value in (words.get("const"), *words.get("enum", ())):
                text = kind.write([{"name": tool.name, "arguments": {key: value}}])
                if literals.search(text) or not kind.is_sayable({key: value}, tool.name):
                    raise SchemaFault(tool.name, f"/properties/{key}", f"{text} cannot be written")
    elif isinstance(kind, BareKeys) and not kind.is_sayable(dict(tool.schema)):
        raise SchemaFault(tool.name, "", f"nothing escapes {kind.end} in texts, or : in keys")


def call_leaves(kind: str, forbidden: Sequence[str]) -> list[ByteDfa]:
    """Returns the leaves of calls of a kind: strings, whole and other numbers, texts between tags.

    No string or text may contain a spelling of `forbidden`.
    """
    no = tuple(forbidden)
    if not isinstance(kind, Tags):
        after = AFTER_NUMBER + b")" * isinstance(kind, Keywords)
        numbers = [number_dfa(fraction=fraction, ends=after) for fraction in (False, True)]
        leaves = [string_dfa(no), *numbers]
        if isinstance(kind, Keywords) and kind.end:
            if kind.escapes:
                return [python_string_dfa(no, kind.end), *numbers, leaves[0]]
            return [value_dfa(no, kind, kind.end), *numbers, leaves[0], python_string_dfa(no)]
        if isinstance(kind, BareKeys) and kind.end:  # answers may be JSON
            return [value_dfa(no, kind, kind.end), *leaves[1:], leaves[0]]
        return leaves
    ends = AFTER_NUMBER + kind.argument[2][0].encode()
    return [
        string_dfa((*forbidden, *kind.marks)),
        number_dfa(fraction=False, ends=ends),
        number_dfa(fraction=True, ends=ends),
        value_dfa(tuple(forbidden), kind, kind.end),
        *(value_dfa(tuple(forbidden), kind, end + kind.end) for end in kind.wrap[2:]),
    ]


def check_arguments(
    tool: ToolSpec, literals: re.Pattern[str], forbidden: Sequence[str], tags: Tags
) -> None:
    """Raises SchemaFault for a schema whose arguments tables cannot write between tags."""
    properties = {key: {"const": 0} for key in tool.properties}
    check_schema(ToolSpec(tool.name, {**tool.schema, "properties": properties}))
    for key, part in tool.properties.items():
        if part is False and key not in tool.required:
            continue  # never written
        at = f"/properties/{key}"
        way = way_of(part, tool.name, at, literals, forbidden, tags)
        for schema in way.schemas:
            check_schema(ToolSpec(tool.name, {"properties": {key: schema}}))
