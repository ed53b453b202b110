"""Compares what two formats make of a chat: templates, model folders, dialects, running servers.

Input are chats of any shape. Output is the first place at which the two texts differ, or else the
two lists of ids, and of which kind the difference is.
"""

import json
import marshal
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from mypt_cli.errors import UsageError
from mypt_lint.template.align import Aligned
from mypt_lint.template.checks import difference, quoted
from mypt_lint.template.model import ModelFolder, arguments_of
from mypt_lint.template.render import Failed
from mypt_records.chat import Chat
from mypt_spec.compiled.toml import load
from mypt_spec.patch import in_common
from mypt_spec.templates.bounds import OutOfBoundsError

KINDS = load(Path(__file__).with_name("differences.toml"))
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


def side_of(name: str) -> Side:
    """Returns what writes a record, which reads as a chat, as the format that a name says.

    Raises UsageError.
    """
    if name.startswith(("http://", "https://")):
        return partial(_of_server, name.rstrip("/"))
    from mypt_spec.dialect import dialects, families, registered

    if name in {*dialects(), *families(), *registered()} or (Path(name) / "tokens.toml").is_file():
        return _of_dialect(name)
    return _of_template(name)


def _of_dialect(name: str) -> Side:
    from mypt_convert.engine import Converter
    from mypt_spec import dialect

    target, converter = dialect(name), cache(lambda shape: Converter(shape, name))

    def write(record: Any, chat: Chat) -> Written:
        episode, findings = converter(chat.shape).read(record, chat)
        if episode is None:
            lost = [f.message for f in findings if f.code == "MYP114"]
            raise RefusedError([*lost, *(f.message for f in findings), "it has no record there"][0])
        episode = target.trained(episode, history="official")[-1]
        ids = None if target.vocabulary is None else target.encode(episode).ids.tolist()
        return Written(target.serialize(episode), ids)

    return write


def _of_template(path: str) -> Side:
    model = ModelFolder(path)

    def write(_: Any, chat: Chat) -> Written:
        try:
            text = model.text(chat)
        except OutOfBoundsError as error:
            raise RefusedError(f"rendering was stopped after {error}") from None
        if isinstance(text, Failed):
            raise RefusedError(text.message)
        if model.vocabulary is None:
            return Written(text)
        (ids,) = model.encoder.encoded([Aligned(text, (), (), (), ())])
        return Written(text, None if isinstance(ids, ValueError) else ids[0].tolist())

    return write


def _of_server(url: str, _: Any, chat: Chat) -> Written:
    """Asks a server: llama.cpp has /apply-template, vLLM takes messages at /tokenize."""
    messages, packed, options = arguments_of(chat)
    body = {"messages": messages, "add_generation_prompt": False}
    body |= {} if packed is None else {"tools": marshal.loads(packed)}
    body |= {"chat_template_kwargs": options} if options else {}
    try:
        text = _post(url + "/apply-template", body, "prompt")
        sent = {"content": text, "add_special": True, "parse_special": True}
        return Written(text, _post(url + "/tokenize", sent, "tokens"))
    except HTTPError as error:
        if error.code not in (404, 405, 501):
            raise RefusedError(f"status {error.code} of {url}") from None
    try:
        ids = _post(url + "/tokenize", body | {"add_special_tokens": False}, "tokens")
        return Written(_post(url + "/detokenize", {"tokens": ids}, "prompt"), ids)
    except HTTPError as error:
        raise RefusedError(f"status {error.code} of {error.url}") from None


def _post(url: str, body: dict[str, Any], key: str) -> Any:
    """Returns a value of the answer of a server. Raises UsageError where there is none."""
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=_SECONDS) as answer:
            value = json.load(answer)[key]
        ids = value if isinstance(value, list) else [None]
        if key == "tokens" and not all(type(i) is int and i >= 0 for i in ids):
            raise ValueError(f'"tokens" is no list of token ids: {json.dumps(value)[:40]}')
        return value
    except HTTPError as error:
        error.close()
        raise
    except (OSError, TypeError, ValueError, LookupError) as error:
        why = f"no answer as of llama.cpp or vLLM: {error}; start the server, or name one of these"
        raise UsageError(f"{url}: {why}") from None


def compare(record: Any, chat: Chat, one: Side, other: Side) -> tuple[str, str] | None:
    """Returns (kind, place) of the first difference of two sides; None where there is none."""
    written, faults = [], []
    for name, side in (("A", one), ("B", other)):
        try:
            written.append(side(record, chat))
        except RefusedError as error:
            faults.append(f"{name} refuses it: {error}")
    if faults:
        return ("refused", faults[0]) if written else None
    (a, ids_a), (b, ids_b) = written
    at, ours, theirs = difference(a, b)
    token = in_common(ids_a or [], ids_b or [])
    if a != b:
        place = f"character {at}" if None in (ids_a, ids_b) else f"token {token}, character {at}"
        texts = f"at {place}, A writes {quoted(ours)}, B writes {quoted(theirs)}"
        return _kind(a, b, at, chat), texts
    if ids_a is None or ids_b is None or ids_a == ids_b:
        return None
    kind = "bos" if ids_a[1:] == ids_b or ids_b[1:] == ids_a else "tokenizer"
    some = slice(token, token + 3)
    return kind, f"at token {token}, A has {ids_a[some]}, B has {ids_b[some]}"


def _kind(a: str, b: str, at: int, chat: Chat) -> str:
    """Returns the kind of the difference of two texts at their first different character."""
    one, two = a[at:], b[at:]
    for this, that in ((a, b), (b, a)):
        first = _FIRST.match(this)
        if first and at < first.end() + _SAME and that.startswith(this[first.end() :][:_SAME]):
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
