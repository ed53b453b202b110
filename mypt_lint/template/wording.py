"""Checks for text that nobody said: Python's words and values, HTML, spoilt calls, stray tags."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from mypt_lint.template.checks import Case, Fault, bare, quoted
from mypt_lint.template.render import Form, Rendered, in_form
from mypt_lint.template.values import TAG
from mypt_records.written import BETWEEN

_ABSENT = re.compile(r"\b(?:None|True|False|Undefined)\b")
_HTML = re.compile(r"&(?:#3[49]|quot|lt|gt|amp);")
_CONSTANT = re.compile(r"(?<![\w'\"`=])(?:None|True|False)(?![\w'\"`])")
# How Python writes a dict, a list of texts, or an object.
_PYTHON = re.compile(
    r"\[\{'|\{'[^'\n]+': |\['[^'\n]*', '|\": \['[^'\n]*'\]"
    r"|<(?:generator object|bound method|function) |at 0x[0-9a-f]{6}"
)
_PARTS = "[{'type': 'text'"  # content that is not read as parts
_WITH_VALUE = re.compile(r"<([A-Za-z_]\w*)[= ][^<>\n]*>")  # an opening tag, such as <function=f>
_CALL = re.compile(r"…\((?:\w+=|\))")  # a call of Python, whose values are Python's
_JSON_TEXT = Form("json", "text", "null")


def garbled(case: Case, literals: str) -> Iterator[Fault]:
    """Yields what a text has besides the values of a conversation and the template's own text."""
    text, calls = bare(case, case.output.text), case.record["_arguments"]
    written = [] if _CALL.search(text) else [*_python(case, text, calls, literals)]
    yield from written
    if case.record["_has_constant"]:
        if not _CALL.search(text) and all(fault.subject != "arguments" for fault in written):
            yield from _constants(text, literals)
    else:
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


def _constants(text: str, literals: str) -> Iterator[Fault]:
    """Yields constants of JSON that are written as Python's.

    One that a tag encloses, alone, is how some formats write it.
    """
    for match in _CONSTANT.finditer(text):
        word, around = match[0], text[max(0, match.start() - 20) : match.end() + 20]
        if not re.search(rf"\b{word}\b", literals):
            is_alone = re.search(rf">\s*{word}\s*<", around)
            subject = f"constant {'in a tag' if is_alone else 'in JSON'}"
            message = f"it writes Python's {word} for a value of JSON: {quoted(around)}"
            yield Fault("MYP726" if is_alone else "MYP725", subject, message)


def _python(case: Case, text: str, calls: list[Any], literals: str) -> Iterator[Fault]:
    """Yields values that are written as Python writes them."""
    match = next((m for m in _PYTHON.finditer(text) if m[0] not in literals), None)
    if match is None:
        return
    excerpt = quoted(text[match.start() :])
    if text.startswith(_PARTS, match.start()):
        message = f"content in parts is written as Python writes a list: {excerpt}"
        yield Fault("MYP726", "parts", message)
    elif any(isinstance(a, dict) and a and str(a) in case.output.text for a in calls):
        out = case.render(in_form(case.messages, _JSON_TEXT), case.record.get("tools"))
        message = f"arguments are written as Python writes them: {excerpt}"
        if isinstance(out, Rendered) and not _PYTHON.search(out.text):
            yield Fault("MYP726", "arguments", f"{message}; as JSON text they are written as JSON")
        else:
            yield Fault("MYP725", "arguments", message)
    else:
        yield Fault("MYP725", "value", f"a value is written as Python writes it: {excerpt}")


def never_closed(literals: str) -> Iterator[Fault]:
    """Yields tags that a template opens and never closes, by its own text."""
    for opening, closing in map(BETWEEN.__getitem__, ("call", "result", "tools")):
        if opening in literals and closing not in literals:
            message = f"{quoted(opening)} is closed nowhere by {quoted(closing)}"
            yield Fault("MYP727", opening, message)


class Tags:
    """The tags that a template spells in pairs, and what its conversations show of them.

    `judged` are those that are closed in some conversation, from the first question on; other ones
    are roles or words of instructions. `other_ends` are those that a tag without a partner, such as
    a stop token, closes at the end of the first conversation, or before the same tag.
    """

    def __init__(self, literals: str) -> None:
        tags = {*TAG.findall(literals), *(match[0] for match in _WITH_VALUE.finditer(literals))}
        counts = Counter(name for name, _ in set(map(_mark, tags)))
        self.pairs = {name for name, count in counts.items() if count == 2}
        self.judged, self.other_ends = set[str](), set[str]()
        self._is_first = True

    def unbalanced(self, case: Case) -> list[Fault]:
        """Returns faults for tags that are opened and not closed, or closed and not opened.

        Before the first question only the tag counts that opens it: there are instructions, which
        may name others. A closing tag right after another tag says in some formats that there is no
        thought.
        """
        start = next((span[0] for value, span in case.spans if value.kind == "question"), None)
        if not self.pairs or start is None or case.record["_has_tag"]:
            return []
        output = case.output.text
        before, text = bare(case, output[:start]), bare(case, output[start:])
        whole = before + text
        opened, faults = dict[str, int](), list[Fault]()  # where in both tags are opened
        early, seen, other_end, last = dict[str, Fault](), set[str](), False, None
        marks = [(*_mark(match[0]), match) for match in _matches(before)]
        header = ""  # the tag that opens the first question, with at most a word after it
        if marks and re.fullmatch(r"\s*\S*\s*", before[marks[-1][2].end() :]):
            header = marks[-1][0] if marks[-1][1] and marks[-1][0] in self.pairs else ""
        for name, opens, match in marks:
            if name == header and opens and name in opened:
                faults.append(_not_closed(name, whole[opened[name] :], quoted(match[0])))
            if opens:
                opened[name] = match.start()
            else:
                opened.pop(name, None)
        open_before = set(opened)
        opened = {header: opened[header]} if header in opened else {}
        for match in _matches(text):
            name, opens = _mark(match[0])
            gap = text[last.end() if last else 0 : match.start()].strip()
            previous, opening = _mark(last[0]) if last else ("", True)
            if name not in self.pairs:
                other_end = gap != "" or (previous in self.pairs and not opening)
            elif opens:
                if name in opened and (gap or not other_end):
                    faults.append(_not_closed(name, whole[opened[name] :], quoted(match[0])))
                elif name in opened:
                    self.other_ends.add(name)
                opened[name] = len(before) + match.start()
                seen.add(name)
            elif opened.pop(name, None) is not None:
                self.judged.add(name)
            elif gap or not last:
                excerpt = quoted(text[max(0, match.start() - 30) :])
                fault = Fault("MYP727", name, f"{quoted(match[0])} closes nothing: {excerpt}")
                if name in seen:
                    faults.append(fault)
                elif name not in open_before:
                    early[name] = fault
            other_end, last = other_end and name not in self.pairs, match
        faults += [fault for name, fault in early.items() if name in seen]
        if case.messages[-1]["role"] == "assistant" and not case.messages[-1].get("tool_calls"):
            if last and other_end and not text[last.end() :].strip():
                self.other_ends |= set(opened) if self._is_first else set()
                for name in self.other_ends:
                    opened.pop(name, None)
            faults += [_not_closed(name, whole[at:], "the end") for name, at in opened.items()]
        self._is_first = False
        return faults


def _matches(text: str) -> list[re.Match[str]]:
    return sorted([*TAG.finditer(text), *_WITH_VALUE.finditer(text)], key=re.Match.start)


def _not_closed(name: str, rest: str, before: str) -> Fault:
    return Fault("MYP727", name, f"{quoted(rest)} is not closed before {before}")


@cache
def _mark(tag: str) -> tuple[str, bool]:
    """Returns the name that a tag shares with its partner, and whether it opens."""
    if match := _WITH_VALUE.fullmatch(tag):
        return f"<{match[1]}>", True
    if "/" in tag[:3]:
        return tag.replace("/", "", 1), False
    if tag[-2] in "|｜" and tag[1] not in "|｜":
        return f"<{tag[-2]}{tag[1:-2]}>", False
    name = re.sub("start|begin|end", "*", tag, count=1, flags=re.IGNORECASE)
    return name, name == tag or not re.search("end", tag, re.IGNORECASE)


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


def _around(text: str, word: str) -> str:
    return quoted(text[max(0, text.index(word) - 20) :])
