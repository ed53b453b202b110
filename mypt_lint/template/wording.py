"""Checks for text that nobody said: Python's words for absent values, HTML, spoilt calls."""

import json
import re
from collections.abc import Iterator
from typing import Any

from mypt_lint.template.checks import Case, Fault, bare, quoted

_ABSENT = re.compile(r"\b(?:None|True|False|Undefined)\b")
_HTML = re.compile(r"&(?:#3[49]|quot|lt|gt|amp);")


def garbled(case: Case, literals: str) -> Iterator[Fault]:
    """Yields what a text has besides the values of a conversation and the template's own text."""
    text = bare(case, case.output.text)
    calls = [
        call["function"]["arguments"] for m in case.messages for call in m.get("tool_calls") or ()
    ]
    if not any(_has_constant(arguments) for arguments in calls):
        for word in dict.fromkeys(_ABSENT.findall(text)):
            if not re.search(rf"\b{word}\b", literals):
                message = f"it writes {word} for a value that is absent: {_around(text, word)}"
                yield Fault("MYP723", word, message)
    escape = next((x for x in _HTML.findall(text) if x not in literals), None)
    if escape:
        message = f"it escapes its own quotes and tags as HTML: {_around(text, escape)}"
        yield Fault("MYP723", "HTML", message)
    for arguments in calls:
        if isinstance(arguments, dict):
            yield from _call(case, arguments)


def _call(case: Case, arguments: dict[str, Any]) -> Iterator[Fault]:
    """Yields why nobody can read the arguments of a call, which are given as an object."""
    text = case.output.text
    for key in list(arguments)[:1]:
        name = re.escape(json.dumps(json.dumps(key))[1:-1])
        if match := re.search(rf'"\{{\s*{name}\s*:', text):
            message = "arguments are a JSON string in the place of an object: "
            yield Fault("MYP724", "string", message + quoted(text[match.start() :]))
    for value, (start, end) in case.spans:
        before, after = text[start - 1 : start], text[end : end + 1]
        plain = text[start:end] == value.text and value.kind == "argument"
        if plain and before == after and before in ('"', "'") and {before, "\n"} & set(value.text):
            message = "quotes and line ends inside of a quoted argument are not escaped: "
            yield Fault("MYP724", "quotes", message + quoted(text[start - 1 :]))
    if arguments and str(arguments) in text:
        message = f"arguments are written as Python writes them: {quoted(str(arguments))}"
        yield Fault("MYP714", "arguments as Python", message)


def _has_constant(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_constant, value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, bool)


def _around(text: str, word: str) -> str:
    return quoted(text[max(0, text.index(word) - 20) :])
