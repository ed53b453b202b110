r"""Reads a call while it is written: its name, then its arguments, piece by piece.

Input: the text of a call's body as it comes. Output: the name as soon as it is whole, and pieces of
the arguments as JSON, as streams of OpenAI's API have them. Keys and values stay as the model
spells them, but for white space between members, and the argument that a format writes as `name_`
beside the name of the tool.

>>> call = CallStream("call", "")
>>> [call.push(text) for text in ('{"name": "f', '", "x": [1', ", 2]}")]
['', '{"x": [1', ', 2]}']
>>> call.name
'f'
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mypt_spec.bodies.call_tags import Tags
from mypt_spec.bodies.json_body import KEYS, NAME, argument_key
from mypt_spec.bodies.tagged import USUAL, Types, typed

_ID = re.compile(r'"id": ?("(?:[^"\\]|\\.)*")')


class CallPiece(NamedTuple):
    """What a piece of a body tells: that a call begins, a piece of its arguments, or its end."""

    name: str = ""
    id: str = ""
    text: str = ""
    ended: bool = False


class _Strings:
    """Follows where the strings of JSON are."""

    def __init__(self) -> None:
        self._inside = self._escaped = False

    def outside(self, character: str) -> bool:
        """Takes a character; returns whether it is outside of strings, or opens one."""
        was = self._inside
        if self._escaped:
            self._escaped = False
        elif was and character == "\\":
            self._escaped = True
        elif character == '"':
            self._inside = not was
        return not was


class CallListStream:
    r"""Follows a list of calls whose ids come first, as OpenAI has them.

    >>> calls = CallListStream()
    >>> pieces = [*calls.push('[{"id": "c1", "type": "function", "function": {"name": "f", "argu')]
    >>> pieces + [*calls.push('ments": {"x": 1}}}')]
    [CallPiece(name='f', id='c1', text='', ended=False), CallPiece(name='', id='', text='{"x": 1}', ended=False), CallPiece(name='', id='', text='', ended=True)]
    """  # noqa: E501

    def __init__(self) -> None:
        self._depth, self._strings = 0, _Strings()
        self._head = ""  # what an item says before its function
        self._call: CallStream | None = None

    def push(self, text: str) -> Iterator[CallPiece]:
        """Takes a piece of the body; yields what it tells. Raises ValueError."""
        piece = ""  # of the open function
        for character in text:
            plain = self._strings.outside(character)
            self._depth += plain and character in "{["
            if self._depth == 2:
                self._head += character
            elif self._depth > 2:
                self._call = self._call or CallStream("function", "")
                piece += character
            self._depth -= plain and character in "}]"
            if self._call is not None and self._depth == 2:
                yield from self._pieces(piece)
                yield CallPiece(ended=True)
                self._call, piece = None, ""
            if self._depth == 1:
                self._head = ""
        yield from self._pieces(piece) if piece else ()

    def _pieces(self, piece: str) -> Iterator[CallPiece]:
        assert self._call is not None
        match = _ID.search(self._head)
        return pieces_of(self._call, piece, json.loads(match[1]) if match else "")


class TaggedStream:
    r"""Follows the body of one call whose arguments are tags: each is told when its tag is closed.

    `types` are those of the arguments of tools, which the text does not say.

    >>> call = TaggedStream({"f": {"x": frozenset({"string"})}})
    >>> call.push("<function=f>\n<parameter=x>\n5")
    ''
    >>> call.push("\n</parameter>\n</function>")
    '{"x": "5"}'
    >>> call.name
    'f'
    """

    def __init__(self, types: Types, tags: Tags = USUAL) -> None:
        self.name, self._tags, self.error = "", tags, None
        self._types, self._text, self._key = types, "", ""
        self._read = 0  # of a value that goes on: no end is in what was read
        self._members, self._over = 0, False

    def push(self, text: str) -> str:
        """Takes a piece of the body; returns the piece of the arguments that it tells."""
        self._text += text
        out = ""
        if not self.name:
            self.name = self._name_in(self._tags.function)
        closing = self._tags.argument[2]
        while self.name and not self._over:
            if self._text.startswith(self._tags.function[2]) and not self._key:
                self._over = True
                return out + ("}" if self._members else "{}")
            self._key = self._key or self._name_in(self._tags.argument)
            end = self._text.find(closing, self._read) if self._key else -1
            if end < 0:
                self._read = max(0, len(self._text) - len(closing)) if self._key else 0
                return out
            texts = {self._key: self._text[:end]}
            (value,) = typed(self.name, texts, self._types, self._tags).values()
            member = f"{_json(self._key)}: {_json(value)}"
            out += (", " if self._members else "{") + member
            self._text, self._key, self._read = self._text[end + len(closing) :], "", 0
            self._members += 1
        return out

    def _name_in(self, tag: tuple[str, ...]) -> str:
        """Returns the name in the tag that the text begins with, and takes it off; or ""."""
        head, separator, tail = self._text.partition(tag[1])
        if not separator or not head.startswith(tag[0]):
            return ""
        self._text = tail
        return head.removeprefix(tag[0])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class CallStream:
    """Follows the body of one call. `kind` is the body, `name` that of the tool, if a tag says it.

    Nothing of the arguments is told before the name is known.
    """

    def __init__(self, kind: str, name: str) -> None:
        self.name = name
        self.error: Exception | None = None  # what ended the call
        self._kind, self._depth, self._strings = kind, 0, _Strings()
        self._key = self._value = ""  # of the member of the outermost object
        self._valued = False  # whether its value is being written
        self._buffer: list[str] = []
        self._members = 0

    def push(self, text: str) -> str:
        """Takes a piece of the body; returns its piece of the arguments, up to an error."""
        try:
            for character in text:
                self._take(character)
        except (ValueError, TypeError, LookupError) as error:
            self.error = error
        out, self._buffer = ("".join(self._buffer), []) if self.name else ("", self._buffer)
        return out

    def _take(self, character: str) -> None:
        plain = self._strings.outside(character)
        self._depth += plain and character in "{["
        if plain and character.isspace() and self._depth < 2:
            pass
        elif self._kind == "arguments":
            self._buffer += character if self._depth else ""
        elif self._depth == 1:
            self._outermost(character, plain)
        elif self._depth > 1:
            self._of_value(character)
        self._depth -= plain and character in "}]"

    def _outermost(self, character: str, plain: bool) -> None:
        if plain and character in ",}":
            self._end(last=character == "}")
        elif plain and character == ":":
            self._valued = True
            self._begin()
        elif self._valued:
            self._of_value(character)
        elif character != "{" or not plain:
            self._key += character

    def _begin(self) -> None:
        key = json.loads(self._key)
        self._key = key
        if self._kind == "call" and key != NAME:
            before = ", " if self._members else "{"
            self._buffer.append(f"{before}{json.dumps(argument_key(key), ensure_ascii=False)}: ")
            self._members += 1

    def _of_value(self, character: str) -> None:
        if self._key == NAME:
            self._value += character
        elif self._kind == "call" or self._key == KEYS[self._kind]:
            self._buffer.append(character)

    def _end(self, *, last: bool) -> None:
        if self._key == NAME and self._valued:
            self.name = json.loads(self._value)
        self._key, self._value, self._valued = "", "", False
        if last and self._kind == "call":
            self._buffer.append("}" if self._members else "{}")


def pieces_of(call: CallStream | TaggedStream, text: str, ident: str = "") -> Iterator[CallPiece]:
    """Pushes a piece of the body of one call; yields what it tells, its name first, or raises."""
    name, arguments = call.name, call.push(text)
    yield from [CallPiece(name=call.name, id=ident)] if call.name != name else ()
    yield from [CallPiece(text=arguments)] if arguments else ()
    if call.error is not None:
        raise call.error
