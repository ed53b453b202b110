"""Holds how calls are written whose arguments are no JSON: columns of the token table."""

import ast
import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self

from mypt_spec.bodies.strict_json import Fault, canonical, loads
from mypt_spec.memo import lazy_re

NO_JSON = ("tagged", "bare_keys", "keywords")  # kinds of body
ALONE = ("arguments", "bare_keys")  # arguments, with the name in the tag
_NO_CALLS = "not written as calls with keywords for their arguments"
_NO_VALUE = "not written with values that can be arguments"
_STRING = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
# A word or a string of Python, with the escapes of `repr`.
_ESCAPED = r"\\(?:[\\'\"nrt]|x[\da-f]{2}|u[\da-f]{4}|U00(?:0[\da-f]|10)[\da-f]{4})"
_PYTHON = lazy_re(
    rf"""'(?:[^'\\\n]|{_ESCAPED})*'|"(?:[^"\\\n]|{_ESCAPED})*"|\b(?:True|False|None)\b"""
)
_KEY = r'[^\s{}\[\],:"](?:[^{}\[\],:"]*[^\s{}\[\],:"])?'  # of `BareKeys`


class Tags(str):
    """The body "tagged", with the tags of a call and of each argument.

    The fields are those of the column `tags` in `grammar/tokens.schema.json`. Each is equal to
    "tagged", so what is cached for one is cached by its `pattern`.
    """

    function: tuple[str, ...]
    argument: tuple[str, ...]
    python: bool | str
    wrap: tuple[str, ...]
    types: tuple[str, ...]
    none: str

    def __new__(
        cls,
        function: Iterable[str] = ("<function=", ">\n", "</function>"),
        argument: Iterable[str] = ("<parameter=", ">\n", "\n</parameter>\n"),
        python: bool | str = False,
        wrap: Iterable[str] = (),
        types: Iterable[str] = (),
        none: str = "",
    ) -> Self:
        """Returns the body with these tags."""
        tags = super().__new__(cls, "tagged")
        tags.function, tags.argument, tags.python = (*function,), (*argument,), python
        tags.wrap, tags.types, tags.none = (*wrap,), (*types,), none
        return tags

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """Returns the tags, without white space around. No name and no value spells one."""
        tags = (*self.function[::2], *self.argument[::2])
        return tuple(filter(None, map(str.strip, tags)))

    @property
    def end(self) -> str:
        """Returns what ends a value, without white space after it."""
        return self.argument[2].rstrip()

    def wrapped(self, text: str) -> str:
        """Returns a string as it is written: wrapped if it has one of the characters."""
        if not self.wrap or set(self.wrap[0]).isdisjoint(text):
            return text
        return text.join(self.wrap[1:])

    def unwrapped(self, text: str) -> str | None:
        """Returns the string in a text that is wrapped; None if it is not."""
        before, after = self.wrap[1:] or ("", "")
        is_wrapped = before and text.startswith(before) and text.endswith(after)
        return text[len(before) : -len(after)] if is_wrapped else None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches these tags in a text."""
        return re.compile("|".join(map(re.escape, self.marks)))

    @cached_property
    def names(self) -> re.Pattern[str]:
        """Matches names of functions and arguments."""
        no = "<>\n" + re.escape(self.function[1][:1] + self.argument[1][:1])
        return re.compile(rf"[^\s{no}](?:[^{no}]*[^\s{no}])?")


class BareKeys(str):
    """The body "bare_keys": JSON without spaces, nor quotes around keys; `null` is that word.

    `end` is around strings, and nothing in them is escaped. Keys are sorted as Jinja's `dictsort`
    sorts them.

    >>> bare = BareKeys("~", null="None")
    >>> bare.write({"n": [None, 1.5, True], "City": "Oslo"})
    '{City:~Oslo~,n:[None,1.5,true]}'
    >>> bare.read('{City:~Oslo~,n:[None,1.5,true]}')
    {'City': 'Oslo', 'n': [None, 1.5, True]}
    """

    end: str
    null: str
    marks: tuple[str, ...]  # what no string spells
    wrap: tuple[str, ...]
    pattern: re.Pattern[str]  # of what JSON writes otherwise

    def __new__(cls, quote: str, null: str = "null") -> Self:
        """Returns the body with these words."""
        bare = super().__new__(cls, "bare_keys")
        bare.end, bare.null, bare.marks, bare.wrap = quote, null, (quote,), ()
        edge = re.escape(quote)
        words = rf"{edge}(?P<text>.*?){edge}|(?P<key>{_KEY}):|(?P<null>\b{re.escape(null)}\b)"
        bare.pattern = re.compile(words, re.DOTALL)
        return bare

    def write(self, value: Any) -> str:
        """Returns the text of a value."""
        if isinstance(value, str):
            return self.end + value + self.end
        if isinstance(value, Mapping):
            return f"{{{','.join(f'{k}:{self.write(v)}' for k, v in ordered(value).items())}}}"
        if isinstance(value, list):
            return f"[{','.join(map(self.write, value))}]"
        return self.null if value is None else json.dumps(value)

    def read(self, text: str) -> Any:
        """Returns the value of a text. Raises Fault."""
        return loads(self.pattern.sub(_in_json, text))

    def is_sayable(self, value: Any) -> bool:
        """Returns whether a value is read as it is written."""
        try:
            return bool(self.read(self.write(value)) == value)
        except ValueError:
            return False


class Keywords(BareKeys):
    """The body "keywords": all calls of a message, their arguments as Python's keywords.

    `calls` is what is before the first call, between two, and after the last. Values are JSON; with
    a `quote`, it is around strings, in which nothing is escaped, objects are JSON, and all other
    values are Python's. A quote ends a string where an argument may end. If it `escapes`, quotes,
    line ends and backslashes in a string have a backslash before, and arrays are JSON, too.

    >>> keywords = Keywords(["[", ", ", "]"], quote="'")
    >>> keywords.write([{"name": "f", "arguments": {"city": "Oslo", "all": True}}])
    "[f(city='Oslo', all=True)]"
    >>> keywords.read("[f(days=['Mon', None]), g()]")[0]
    {'name': 'f', 'arguments': {'days': ['Mon', None]}}
    """

    calls: tuple[str, ...]
    escapes: bool
    names: re.Pattern[str]  # of functions and arguments

    def __new__(cls, calls: Iterable[str], quote: str = "", escapes: bool = False) -> Self:
        """Returns the body with these texts."""
        body = str.__new__(cls, "keywords")
        body.calls, body.end, body.escapes, body.wrap = (*calls,), quote, escapes, ()
        body.marks = () if escapes or not quote else (quote,)
        body.names = re.compile(r"""[^\s()=,:'"\[\]{}]+""")
        key, edge = body.names.pattern, re.escape(quote)
        before, between, after = map(re.escape, body.calls)
        ends = rf"(?:, (?={key}=)|(?=\)))"  # an argument
        inside = rf"(?:[^\\\r\n{edge}]|\\[\\nr{edge}])*" if escapes else ".*?"
        text = f"{edge}(?P<text>{inside}){edge}(?={ends})|" if quote else "(?P<text>(?!))|"
        value = rf"(?:{text}(?P<value>(?:{_STRING}|[^'\"()=])+?)){ends}"
        body.pattern = re.compile(
            rf"(?:\A{before}|(?P<next>\){between}))(?P<name>{key})\(|(?P<key>{key})={value}|\){after}\Z",
            re.DOTALL,
        )
        return body

    def __getnewargs__(self) -> Any:
        return self.calls, self.end, self.escapes

    def write(self, value: Any) -> str:
        """Returns the text of calls: objects with a name and arguments."""
        before, between, after = self.calls
        texts = list[str]()
        for call in value:
            arguments = (f"{k}={self.value_text(v)}" for k, v in call["arguments"].items())
            texts.append(f"{call['name']}({', '.join(arguments)})")
        return before + between.join(texts) + after

    def value_text(self, value: Any) -> str:
        """Returns the text of an argument."""
        if not self.end or isinstance(value, (Mapping, list) if self.escapes else Mapping):
            return json.dumps(value, ensure_ascii=False)
        if self.escapes and isinstance(value, str):
            value = re.sub(rf"[\\{self.end}]", r"\\\g<0>", value)
            value = value.replace("\n", "\\n").replace("\r", "\\r")
        return f"{self.end}{value}{self.end}" if isinstance(value, str) else str(value)

    def read(self, text: str) -> Any:
        """Returns the calls in a text. Raises Fault."""
        calls = "".join(map(self._in_json, self.tokens(text)))
        try:
            return loads(f"[{calls}]")
        except Fault as fault:
            message = _NO_VALUE if fault.code == "MYP001" else fault.message
            raise Fault(fault.code, message) from None

    def tokens(self, text: str) -> list[re.Match[str]]:
        """Returns where names and arguments are, and the end. Raises Fault."""
        tokens, at = list[re.Match[str]](), 0
        while token := self.pattern.match(text, at):
            tokens.append(token)
            at = token.end()
        if at < len(text) or not tokens:
            raise Fault("MYP001", _NO_CALLS, at)
        return tokens

    def _in_json(self, token: re.Match[str]) -> str:
        text, value = token["text"], token["value"]
        if token["key"] is None:
            call = f'{{"name": {json.dumps(token["name"])}, "arguments": {{'
            return "}}, " * (token["next"] is not None) + call if token["name"] else "}}"
        if text is not None:
            text = re.sub(r"\\(.)", _unescaped, text) if self.escapes else text
            value = json.dumps(text, ensure_ascii=False)
        elif self.end and not self.escapes and value[0] in "'\"" and self.end in value[1:-1]:
            raise Fault("MYP001", _NO_VALUE, token.start())
        elif self.end and value[0] not in ("{[" if self.escapes else "{"):
            value = _PYTHON.sub(_as_json, value)
        return f"{json.dumps(token['key'])}: {value}{', ' * token[0].endswith(', ')}"

    def is_sayable(self, value: Any, name: str = "f") -> bool:
        """Returns whether arguments of a function are read as they are written."""
        return super().is_sayable([{"name": name, "arguments": value}])


def ordered(members: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the members of an object in the order in which they are written."""
    return dict(sorted(members.items(), key=lambda member: member[0].lower()))


def value_text(value: Any, literals: re.Pattern[str], kind: str) -> str:
    """Returns the canonical text of a value in a body of `BareKeys`, or of JSON."""
    return kind.write(value) if isinstance(kind, BareKeys) else canonical(value, literals)


def _in_json(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    text = "null" if kind == "null" else json.dumps(match[kind], ensure_ascii=False)
    return text + ":" * (kind == "key")


def _unescaped(match: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r"}.get(match[1], match[1])


def _as_json(match: re.Match[str]) -> str:
    """Returns a string or a word of Python as JSON."""
    return json.dumps(ast.literal_eval(match[0]), ensure_ascii=False)
