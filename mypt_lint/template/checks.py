"""Checks what a chat template makes of a conversation, without knowing its format.

Input is a case: a conversation, and the function that renders it. Output are faults. No check knows
a tag: what is written around the values is only compared with what is written elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mypt_lint.template.render import Render, Rendered
from mypt_lint.template.values import (
    BY_MODEL,
    DETAILS,
    NOT_BY_MODEL,
    Value,
    places,
    spellings,
    values,
)

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation of the shipped file, and what the template makes of all of it."""

    name: str
    record: dict[str, Any]
    render: Render
    whole: Rendered
    found: tuple[Value, ...]
    spans: tuple[tuple[Value, tuple[int, int]], ...]  # of those that are written

    @property
    def missing(self) -> list[Value]:
        """Returns the values that are not in the text."""
        written = {value for value, _ in self.spans}
        return [value for value in self.found if value not in written]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Returns the messages, as the template takes them."""
        messages: list[dict[str, Any]] = self.record["messages"]
        return messages

    def part(self, count: int, *, prompt: bool = False) -> str | None:
        """Returns the text of the first messages; None where the template makes none of them."""
        out = self.render(self.messages[:count], self.record.get("tools"), prompt=prompt)
        return out.text if isinstance(out, Rendered) else None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in one conversation. Those with equal codes and subjects are one finding."""

    code: str
    subject: str
    message: str
    help: str = ""


def case(record: dict[str, Any], render: Render, whole: Rendered) -> Case:
    """Returns the case of a record of the shipped file."""
    found = values(record["messages"], record.get("tools"))
    spans = tuple(places(found, whole.text))
    return Case(record["_name"], record, render, whole, tuple(found), spans)


def faults(case: Case, stops: frozenset[str]) -> Iterator[Fault]:
    """Yields the faults of one conversation."""
    yield from _vanished(case)
    yield from _changed(case)
    if case.record.get("_alike"):
        yield from _rounds(case)
    yield from _prefixes(case)
    for at, message in enumerate(case.messages):
        if message["role"] == "assistant":
            yield from _answer(case, at, stops)
    yield from _marks(case, stops)


def _vanished(case: Case) -> Iterator[Fault]:
    """Yields the values that are not in the text."""
    declared = any(value.kind == "declared tool" for value, _ in case.spans)
    for value in case.missing:
        if declared or value.kind != "description":
            code = "MYP714" if value.kind in DETAILS else "MYP713"
            yield Fault(code, value.kind, f"the {value.kind} {quoted(value.text)} is not written")


def _changed(case: Case) -> Iterator[Fault]:
    """Yields what is written in another way than it was given."""
    text = case.whole.text
    for value, _ in case.spans if case.record.get("_blanks") else ():
        if not any(spelled in text for spelled in spellings(value.text)):
            subject = "white space around texts"
            yield Fault("MYP714", subject, f"white space around the {value.kind} is left out")
    if case.record.get("_text"):
        for call in (c for m in case.messages for c in m.get("tool_calls") or ()):
            given = call["function"]["arguments"]
            if json.dumps(given) in text:
                message = f"arguments given as JSON text are quoted again: {json.dumps(given)}"
                yield Fault("MYP714", "arguments as text", message)


def _rounds(case: Case) -> Iterator[Fault]:
    """Yields where a later round has other text around its values than the first.

    The last answer may have more in front of it: some formats write an empty thought there.
    """
    seen: dict[tuple[str, str], str] = {}
    spans = [(value, span) for value, span in case.spans if value.message >= 0]
    users = [i for i, m in enumerate(case.messages) if m["role"] == "user"]
    for (before, (_, start)), (after, (end, _)) in pairwise(spans):
        if before.message < users[0] or {before.kind, after.kind} & set(DETAILS):
            continue
        between = _bare(case, case.whole.text[start:end])
        first = seen.setdefault((before.kind, after.kind), between)
        if between != first and not (after.message > users[-1] and _more(between, first)):
            at, given, other = difference(between, first)
            message = (
                f"between {before.kind} and {after.kind}, {quoted(given)} follows {at} characters "
                f"after character {start}, and {quoted(other)} in the first round"
            )
            yield Fault("MYP715", f"{before.kind} to {after.kind}", message)


def _prefixes(case: Case) -> Iterator[Fault]:
    """Yields where more messages change the text of those before."""
    if any(value.kind == "earlier thought" for value in case.missing):
        return  # the format forgets them on purpose, which is said already
    for count in range(2, len(case.messages)):
        if case.messages[count]["role"] != "user":
            continue
        part = case.part(count)
        if part is not None and not case.whole.text.startswith(part):
            at, given, other = difference(part, case.whole.text)
            message = (
                f"{count} messages give other text than at the beginning of all "
                f"{len(case.messages)}: at character {at} {quoted(given)}, and {quoted(other)}"
            )
            yield Fault("MYP716", "prefix", message)
            return


def _answer(case: Case, at: int, stops: frozenset[str]) -> Iterator[Fault]:
    """Yields what is wrong around an answer or a call: the prompt before it, the end after it."""
    prompt, trained = case.part(at, prompt=True), case.part(at + 1)
    if prompt is None or trained is None:
        return
    here = [(v, s) for v, s in places(list(case.found), trained) if v.message == at]
    here = [(v, s) for v, s in here if v.kind in BY_MODEL]
    if not here:
        return
    what = "a call" if case.messages[at].get("tool_calls") else "an answer"
    if not trained.startswith(prompt):
        i, given, other = difference(prompt, trained)
        message = (
            f"the generation prompt before {what} is not how the trained text begins: at character "
            f"{i} {quoted(given)}, trained on {quoted(other)}"
        )
        yield Fault("MYP717", f"before {what}", message)
    elif (opener := trained[len(prompt) : here[0][1][0]]) and prompt == case.part(at):
        message = (
            f"add_generation_prompt adds nothing, but trained text has {quoted(opener)} before "
            f"{what}"
        )
        yield Fault("MYP717", f"before {what}", message)
    end = trained[max(span[1] for _, span in here) :]
    if stops and not any(stop in end for stop in stops):
        wanted = " or ".join(sorted(map(quoted, stops)))
        message = f"after {what} stands {quoted(end)}, without the stop token {wanted}"
        yield Fault("MYP718", f"after {what}", message)
    elif not end.strip() and not case.messages[at].get("tool_calls"):
        yield Fault("MYP718", f"after {what}", f"nothing is written after {what} to end it")


def _marks(case: Case, stops: frozenset[str]) -> Iterator[Fault]:
    """Yields where `{% generation %}` encloses other text than the model writes."""
    spans = case.whole.spans
    if spans is None:
        return
    text, last = case.whole.text, len(case.messages) - 1
    for value, (start, end) in case.spans:
        inside = any(a <= start and end <= b for a, b in spans)
        touched = any(a < end and start < b for a, b in spans)
        if value.kind in BY_MODEL and not inside:
            message = f"the {value.kind} {quoted(value.text)} is outside of {{% generation %}}"
            yield Fault("MYP719", value.kind, message)
        elif value.kind in NOT_BY_MODEL and touched:
            message = f"the {value.kind} {quoted(value.text)} is inside of {{% generation %}}"
            yield Fault("MYP719", value.kind, message)
        elif value.kind == "answer" and value.message == last:
            tail = [i for stop in stops if (i := text.find(stop, end)) >= 0]
            if tail and not any(a <= min(tail) < b for a, b in spans):
                message = (
                    f"the stop token at character {min(tail)} is outside of {{% generation %}}: a "
                    "model trained so never stops"
                )
                yield Fault("MYP719", "stop token", message)


def injected(case: Case, tokens: list[str]) -> Fault | None:
    """Returns a fault if what a user types becomes a special token of the template's texts.

    `case` is a conversation that begins with a question.
    """
    in_parts = isinstance(case.messages[0]["content"], list)
    for token in tokens:
        text = f"What does {token} mean?"
        content = [{"type": "text", "text": text}] if in_parts else text
        out = case.render([{"role": "user", "content": content}], None)
        if isinstance(out, Rendered) and f"does {token} mean" in out.text:
            message = (
                f"text that spells {quoted(token)} is written as it is, so a tokenizer makes the "
                "special token of it"
            )
            return Fault("MYP720", "text", message)
    return None


def tokens(case: Case, given: dict[str, str]) -> list[str]:
    """Returns what the template writes around the values that looks like a special token."""
    text = _bare(case, case.whole.text)
    tags = re.findall(r"<[|｜][^|｜<>\s]+[|｜]>|</?[A-Za-z_][\w.-]*>|\[/?[A-Z_]+\]", text)
    return list(dict.fromkeys([*tags, *(token for token in given.values() if token in text)]))


def _bare(case: Case, text: str) -> str:
    """Returns a text without the values in it, such as the id of a call before a result."""
    for value in case.found:
        text = text.replace(value.text.strip(), "…")
    return text


def _more(text: str, less: str) -> bool:
    """Returns whether a text is another one with something put in at one place."""
    at = difference(text, less)[0]
    return len(text) > len(less) and text.endswith(less[at:])


def difference(one: str, other: str) -> tuple[int, str, str]:
    """Returns the first place at which two texts differ, and both from there on.

    What they share of a tag that is cut by the place is shown too.
    """
    pairs = enumerate(zip(one, other, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
    tag = re.search(r"[<\[][^<>\[\]\s]{0,30}$", one[:at])
    start = tag.start() if tag else at
    return at, one[start:], other[start:]


def quoted(text: str) -> str:
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return json.dumps(cut, ensure_ascii=False)
