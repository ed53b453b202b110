"""Compares what two formats make of a chat: templates, model folders, dialects, running servers.

Input are chats of any shape. Output is the first place at which the two texts differ, or else the
two lists of ids, and of which kind the difference is.
"""

from __future__ import annotations

import json
import marshal
import re
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError

from mypt_cli.errors import UsageError
from mypt_lint.template.align import Aligned
from mypt_lint.template.checks import difference, quoted
from mypt_lint.template.model import ModelFolder, arguments_of, in_use
from mypt_lint.template.render import Failed, Form, Rendered, in_form, renderer
from mypt_lint.template.source import Template
from mypt_records.chat import Chat
from mypt_spec.templates.bounds import Bounded, OutOfBoundsError

KINDS = {
    "refused": "one side refuses the record",
    "bos": "a first token that one side lacks",
    "system": "a system prompt that one side adds",
    "json": "a schema or value that is not JSON on one side",
    "spacing": "white space",
    "structure": "other text or tags",
    "tokenizer": "equal text, other ids",
}
_FIRST = re.compile(r"<[^<>\s]{1,40}>|\[[A-Z_]{1,20}\]")
_PYTHON = re.compile(r"'|None\b|True\b|False\b")
_SAME = 12  # characters after a difference by which two texts are in step again
_SECONDS = 60  # that a server may take


class Written(NamedTuple):
    """What a side makes of a chat. `ids` are None where it has no vocabulary."""

    text: str
    ids: list[int] | None = None


class RefusedError(ValueError):
    """A side makes nothing of a chat; the message says why."""


Side = Callable[[Any, Chat], Written]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of a record: its kind, its place in the text, and what each writes."""

    kind: str
    message: str


def side_of(name: str) -> Side:
    """Returns what writes chats as the format that a name says. Raises UsageError."""
    if name.startswith(("http://", "https://")):
        return _Server(name.rstrip("/"))
    from mypt_spec.dialect import dialects, families, registered

    if name in {*dialects(), *families(), *registered()} or (Path(name) / "tokens.toml").is_file():
        return _dialect(name)
    return _template(name)


def _dialect(name: str) -> Side:
    from mypt_convert.engine import Converter
    from mypt_spec import dialect

    target = dialect(name)
    converters: dict[str, Converter] = {}

    def write(record: Any, chat: Chat) -> Written:
        if chat.shape not in converters:
            converters[chat.shape] = Converter(chat.shape, name)
        episode, findings = converters[chat.shape].read(record, chat)
        if episode is None:
            raise RefusedError(findings[0].message if findings else "it has no record there")
        episode = target.trained(episode, history="official")[-1]
        own = target.vocabulary is not None
        return Written(
            target.serialize(episode), target.encode(episode).ids.tolist() if own else None
        )

    return write


class _Texts:
    """Renders conversations in the process of a template."""

    def __init__(self, templates: list[Template], forms: list[Form]) -> None:
        self.renders = [renderer(template) for template in templates]
        self.forms = forms

    def __call__(self, messages: Any, tools: bytes | None, options: Any) -> Rendered | Failed:
        declared = None if tools is None else marshal.loads(tools)
        which = int(bool(declared))
        return self.renders[which](in_form(messages, self.forms[which]), declared, **options)


def _template(path: str) -> Side:
    model = ModelFolder(path)
    text_of: Bounded[Any] = Bounded(_Texts, in_use(model.templates), list(model.forms))

    def write(_: Any, chat: Chat) -> Written:
        try:
            outcome = text_of(*arguments_of(chat))
        except OutOfBoundsError as error:
            raise RefusedError(f"rendering was stopped after {error}") from None
        if isinstance(outcome, Failed):
            raise RefusedError(outcome.message)
        if model.vocabulary is None:
            return Written(outcome.text)
        (ids,) = model.encoder.encoded([Aligned(outcome.text, (), (), (), ())])
        return Written(outcome.text, None if isinstance(ids, ValueError) else ids[0].tolist())

    return write


class _Server:
    """Asks a server: llama.cpp has /apply-template, vLLM takes messages at /tokenize."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, _: Any, chat: Chat) -> Written:
        messages, packed, options = arguments_of(chat)
        body = {"messages": messages, "add_generation_prompt": False}
        body |= {} if packed is None else {"tools": marshal.loads(packed)}
        body |= {"chat_template_kwargs": options} if options else {}
        try:
            text = self.post("/apply-template", body)["prompt"]
            sent = {"content": text, "add_special": True, "parse_special": True}
            return Written(text, self.post("/tokenize", sent)["tokens"])
        except HTTPError as error:
            if error.code not in (404, 405, 501):
                raise RefusedError(f"status {error.code} of {self.url}") from None
        try:
            ids = self.post("/tokenize", body | {"add_special_tokens": False})["tokens"]
            return Written(self.post("/detokenize", {"tokens": ids})["prompt"], ids)
        except HTTPError as error:
            raise RefusedError(f"status {error.code} of {self.url}/tokenize") from None

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Returns the answer of the server. Raises UsageError where there is none, or no JSON."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return json.load(answer)
        except HTTPError:
            raise
        except (URLError, OSError, ValueError) as error:
            raise UsageError(f"{self.url}{path}: no answer: {error}; start the server") from None


def compare(record: Any, chat: Chat, one: Side, other: Side) -> Difference | None:
    """Returns the first difference of what two sides make of a chat; None where there is none."""
    written: list[Written] = []
    faults = []
    for name, side in (("A", one), ("B", other)):
        try:
            written.append(side(record, chat))
        except RefusedError as error:
            faults.append(f"{name} refuses it: {error}")
    if faults:
        return Difference("refused", "; ".join(faults)) if written else None
    (a, ids_a), (b, ids_b) = written
    at, ours, theirs = difference(a, b)
    pairs = enumerate(zip(ids_a or (), ids_b or (), strict=False))
    token = next((i for i, (x, y) in pairs if x != y), min(len(ids_a or ()), len(ids_b or ())))
    known = ids_a is not None and ids_b is not None
    if a != b:
        place = f"token {token}, character {at}" if known else f"character {at}"
        shown = f"at {place}, A writes {quoted(ours)}, B writes {quoted(theirs)}"
        return Difference(_kind(a, b, at, chat), shown)
    if ids_a is None or ids_b is None or ids_a == ids_b:
        return None
    kind = "bos" if ids_a[1:] == ids_b or ids_b[1:] == ids_a else "tokenizer"
    some = slice(token, token + 3)
    return Difference(kind, f"at token {token}, A has {ids_a[some]}, B has {ids_b[some]}")


def _kind(a: str, b: str, at: int, chat: Chat) -> str:
    """Returns the kind of the difference of two texts at their first different character."""
    one, two = a[at:], b[at:]
    for this, that in ((a, b), (b, a)):
        first = _FIRST.match(this)
        if first and at < first.end() and that.startswith(this[first.end() :][:_SAME]):
            return "bos"
    if _solid(one) == _solid(two):
        return "spacing"
    if bool(_PYTHON.match(one)) != bool(_PYTHON.match(two)):
        return "json"
    question = next((m.text for m in chat.messages if m.role != "system"), "")
    begins = [text.find(question) for text in (a, b)]
    if not any(m.role == "system" for m in chat.messages) and at <= min(begins):
        return "system" if abs(begins[0] - begins[1]) > _SAME else "structure"
    return "structure"


def _solid(text: str) -> str:
    """Returns the next few characters of a text that are no white space."""
    return "".join(text[: 8 * _SAME].split())[:_SAME]
