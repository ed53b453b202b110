"""Checks what a chat template makes of a conversation, without knowing its format.

Input is a case: a conversation, and the function that renders it. Output are faults. No check knows
a tag: what is written around the values is only compared with what is written elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from mypt_lint.template.render import Render, Rendered
from mypt_lint.template.values import TAG, Value, moved, places, spellings
from mypt_spec.patch import in_common

# Values without which a format may well do.
DETAILS = ("id of a call", "name of a result", "earlier thought", "description")
BY_MODEL = ("answer", "thought", "name of a call", "argument")
NOT_BY_MODEL = ("system prompt", "developer message", "question", "result")
_EXCERPT = 60
# What the special tokens of a template without a tokenizer most likely are.
LIKELY_SPECIAL = re.compile(
    r"<[|｜][^<>\s]+>|<[^<>\s]+[|｜]>|</?[a-zA-Z_]+(?::[a-z_]+)?>|\[/?[A-Z_]{3,}\]"
)


@dataclass(frozen=True)
class Case:
    """A conversation of the shipped file, and what the template makes of all of it."""

    record: dict[str, Any]
    messages: list[dict[str, Any]]  # as the template takes them
    render: Render
    output: Rendered
    values: tuple[Value, ...]
    spans: tuple[tuple[Value, tuple[int, int]], ...]  # of those that are written
    moved: tuple[tuple[Value, tuple[int, int]], ...]  # of those that are written elsewhere
    parts: dict[tuple[int, bool], Rendered | None] = field(default_factory=dict)

    @cached_property
    def missing(self) -> list[Value]:
        """Returns the values that are not in the text."""
        written = {value for value, _ in (*self.spans, *self.moved)}
        return [value for value in self.values if value not in written]

    def rendered(self, count: int, *, prompt: bool = False) -> Rendered | None:
        """Returns the first messages; None where the template makes nothing of them."""
        if (count, prompt) not in self.parts:
            out = self.render(self.messages[:count], self.record.get("tools"), prompt=prompt)
            self.parts[count, prompt] = out if isinstance(out, Rendered) else None
        return self.parts[count, prompt]

    def part(self, count: int, *, prompt: bool = False) -> str | None:
        """Returns the text of the first messages."""
        out = self.rendered(count, prompt=prompt)
        return None if out is None else out.text

    @cached_property
    def answers(self) -> list[Answer]:
        """Returns the messages of the model of which something is written."""
        answers = []
        for at, message in enumerate(self.messages):
            if message["role"] != "assistant":
                continue
            prompt, trained = self.part(at, prompt=True), self.rendered(at + 1)
            if prompt is None or trained is None:
                continue
            at_all = self.spans if trained is self.output else places([*self.values], trained.text)
            spans = [s for v, s in at_all if v.message == at and v.kind in BY_MODEL]
            if spans:
                description = "a call" if message.get("tool_calls") else "an answer"
                end = max(end for _, end in spans)
                answers.append(Answer(at, description, prompt, trained, spans[0][0], end))
        return answers


class Answer(NamedTuple):
    """A message of the model: what it says is `trained.text[start:end]`, after its `prompt`."""

    at: int
    description: str
    prompt: str
    trained: Rendered
    start: int
    end: int


class Fault(NamedTuple):
    """A fault in one conversation. Those with equal codes and subjects are one finding."""

    code: str
    subject: str
    message: str


def case(record: dict[str, Any], render: Render, output: Rendered) -> Case:
    """Returns the case of a record of the shipped file."""
    messages, items = record["messages"], record["_values"]
    spans = places(items, output.text)
    elsewhere = tuple(moved(items, output.text, spans))
    parts: dict[Any, Any] = {(len(messages), False): output}
    return Case(record, messages, render, output, items, (*spans,), elsewhere, parts)


def faults(case: Case, stops: frozenset[str]) -> Iterator[Fault]:
    """Yields the faults of one conversation."""
    yield from vanished(case)
    yield from _changed(case)
    if case.record.get("_alike"):
        yield from _rounds(case)
    yield from _prefixes(case)
    for answer in case.answers:
        yield from _answer(case, answer, stops)
    yield from _marks(case, stops)


def as_warnings(faults: Iterable[Fault], shown: set[tuple[str, str]]) -> Iterator[Fault]:
    """Yields faults of a conversation that templates may have no place for, as warnings.

    `shown` are the codes and subjects of those that other conversations show. Details do not count.
    """
    codes = {"MYP713": "MYP744", "MYP723": "MYP726", "MYP725": "MYP726"}
    for fault in faults:
        if (fault.code, fault.subject) in shown:
            yield fault
        elif fault.code != "MYP714":
            yield fault._replace(code=codes.get(fault.code, fault.code))


def vanished(case: Case) -> Iterator[Fault]:
    """Yields the values that are not in the text."""
    declared = any(value.kind == "declared tool" for value, _ in case.spans)
    text, blanks = case.output.text, " ".join(case.output.text.split() if case.missing else ())
    for value in case.missing:
        if value.text.strip() not in text and " ".join(value.text.split()) in blanks:
            message = f"white space inside of the {value.kind} {quoted(value.text)} is changed"
            yield Fault("MYP713", f"white space of the {value.kind}", message)
        elif declared or value.kind != "description":
            code = "MYP714" if value.kind in DETAILS else "MYP713"
            yield Fault(code, value.kind, f"the {value.kind} {quoted(value.text)} is not written")
    for value, (start, _) in case.moved:
        message = (
            f"the {value.kind} {quoted(value.text)} is written at character {start}, which is not "
            "its place among the messages"
        )
        yield Fault("MYP714", f"place of the {value.kind}", message)


def _changed(case: Case) -> Iterator[Fault]:
    """Yields what is written in another way than it was given."""
    text = case.output.text
    for value, _ in case.spans if case.record.get("_blanks") else ():
        if not any(spelled in text for spelled in spellings(value.text)):
            subject = "white space around texts"
            yield Fault("MYP714", subject, f"white space around the {value.kind} is left out")
    yield from _blanks(case) if case.record.get("_blanks") else ()
    if case.record.get("_text"):
        for arguments in case.record["_arguments"]:
            if json.dumps(arguments) in text:
                message = f"arguments given as JSON text are quoted again: {json.dumps(arguments)}"
                yield Fault("MYP714", "arguments as text", message)


def _blanks(case: Case) -> Iterator[Fault]:
    """Yields more white space than was given, in comparison with the same texts without any."""
    allowed = sum(len(value.text) - len(value.text.strip()) for value in case.values)
    bare = [{**m, "content": _stripped(m["content"])} for m in case.messages]
    out = case.render(bare, case.record.get("tools"))
    texts = [case.output.text, out.text] if isinstance(out, Rendered) else ["", ""]
    written, plain = (sum(map(str.isspace, text)) for text in texts)
    if written - plain > allowed:
        more = f"are written with {written - plain} of them"
        message = f"texts with {allowed} blanks around them {more}"
        yield Fault("MYP714", "more white space around texts", message)


def _stripped(content: Any) -> Any:
    if isinstance(content, str):
        return content.strip()
    return [{**part, "text": part["text"].strip()} for part in content]


def _rounds(case: Case) -> Iterator[Fault]:
    """Yields where a later round has other text around its values than the first.

    The last answer may have more in front of it: some formats write an empty thought there.
    """
    first_between: dict[tuple[str, str], str] = {}
    spans = [(value, span) for value, span in case.spans if value.message >= 0]
    users = [i for i, m in enumerate(case.messages) if m["role"] == "user"]
    for (before, (_, start)), (after, (end, _)) in pairwise(spans):
        if before.message < users[0] or {before.kind, after.kind} & set(DETAILS):
            continue
        if any(start <= a < end for _, (a, _) in case.moved):
            continue  # which is said already
        between = bare(case, case.output.text[start:end])
        between = re.sub(r"\b\d+\b", "1", between)  # what counts the rounds
        first = first_between.setdefault((before.kind, after.kind), between)
        if between != first and not (after.message > users[-1] and _adds(between, first)):
            at, here, in_first = difference(between, first)
            message = (
                f"between {before.kind} and {after.kind}, {quoted(here)} follows {at} characters "
                f"after character {start}, and {quoted(in_first)} in the first round"
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
        if part is not None and not case.output.text.startswith(part):
            at, here, in_all = difference(part, case.output.text)
            message = (
                f"{count} messages give other text than at the beginning of all "
                f"{len(case.messages)}: at character {at} {quoted(here)}, and {quoted(in_all)}"
            )
            yield Fault("MYP716", "prefix", message)
            return


def _answer(case: Case, answer: Answer, stops: frozenset[str]) -> Iterator[Fault]:
    """Yields what is wrong around an answer or a call: the prompt before it, the end after it."""
    prompt, trained, kind = answer.prompt, answer.trained.text, answer.description
    if not trained.startswith(prompt):
        if not _forgotten(case, prompt, trained):
            i, in_prompt, in_trained = difference(prompt, trained)
            message = (
                f"the generation prompt before {kind} is not how the trained text begins: at "
                f"character {i} {quoted(in_prompt)}, trained on {quoted(in_trained)}"
            )
            yield Fault("MYP717", f"before {kind}", message)
    elif not trained[len(prompt) : answer.start].strip() and _ended(case, answer, stops):
        message = f"the prompt before {kind} ends with the stop token: {quoted(prompt[-_EXCERPT:])}"
        yield Fault("MYP717", f"end before {kind}", message)
    end = trained[answer.end :]
    if stops and not any(stop in end for stop in stops):
        expected = " or ".join(sorted(map(quoted, stops)))
        message = f"after {kind} stands {quoted(end)}, without the stop token {expected}"
        yield Fault("MYP718", f"after {kind}", message)
    elif not end.strip() and kind != "a call":
        blank = f"nothing but white space, {quoted(end)}," if end else "nothing"
        yield Fault("MYP718", f"after {kind}", f"{blank} is written after {kind} to end it")


def _forgotten(case: Case, prompt: str, trained: str) -> bool:
    """Returns whether the trained text lacks a thought of the prompt, which is on purpose."""
    thoughts = [v.text.strip() for v in case.values if v.kind in ("thought", "earlier thought")]
    return any(text in prompt and text not in trained for text in thoughts)


def _ended(case: Case, answer: Answer, stops: frozenset[str]) -> bool:
    """Returns whether a question ends with a stop token, where messages have other tags."""
    before = case.messages[max(0, answer.at - 1)]
    around = bare(case, answer.prompt)
    for stop in stops:
        around = around.replace(stop, "")
    ends = answer.prompt.rstrip().endswith(tuple(stops)) and bool(around.strip(" \n…"))
    return ends and before["role"] == "user" and isinstance(before["content"], str)


def headers(cases: list[Case]) -> Iterator[tuple[str, Fault]]:
    """Yields faults of answers before which trained text has a header that no prompt has.

    What is written before answers, thoughts and calls alike is no choice of the model. After
    questions and after results it is compared apart.
    """
    openers: dict[str, list[tuple[Case, str, str]]] = {}
    for case in cases:
        for answer in case.answers:
            prompt, text = answer.prompt, answer.trained.text
            if answer.at and prompt == case.part(answer.at) and text.startswith(prompt):
                opener = text[len(prompt) : answer.start]
                role = case.messages[answer.at - 1]["role"]
                openers.setdefault(role, []).append((case, answer.description, opener))
    for role, items in openers.items():
        first, last = min(texts := [opener for _, _, opener in items]), max(texts)
        shared = re.sub(r"[<\[][^<>\[\]\s]*$", "", first[: difference(first, last)[0]])
        if shared.strip() and any(kind == "an answer" for _, kind, _ in items):
            for case, kind, opener in items:
                message = (
                    f"add_generation_prompt adds nothing, but trained text has {quoted(opener)} "
                    f"before {kind}"
                )
                yield case.record["_name"], Fault("MYP717", f"before {kind} after {role}", message)


def cut_headers(cases: list[Case]) -> Iterator[tuple[str, Fault]]:
    """Yields a fault of the first answer if each begins with a line end that its prompt lacks."""
    answers = [(case, answer) for case in cases for answer in case.answers if answer.at]
    for case, answer in answers[:1]:
        if all(
            a.trained.text.startswith(a.prompt + "\n") and a.prompt != c.part(a.at)
            for c, a in answers
        ):
            excerpt = quoted(answer.prompt[-_EXCERPT:])
            message = (
                f"the generation prompt leaves the line end of the header to the model: {excerpt}"
            )
            yield case.record["_name"], Fault("MYP714", "line end of the header", message)


def _marks(case: Case, stops: frozenset[str]) -> Iterator[Fault]:
    """Yields where `{% generation %}` encloses other text than the model writes."""
    spans = case.output.spans
    if spans is None:
        return
    text, last = case.output.text, len(case.messages) - 1
    yield from _marked_headers(case)
    # The name of a call that is left out is found elsewhere, such as in the header of its result.
    incomplete = {value.message for value in case.missing if value.kind == "argument"}
    for value, (start, end) in case.spans:
        inside = any(a <= start and end <= b for a, b in spans)
        touched = any(a < end and start < b for a, b in spans)
        if value.kind in BY_MODEL and not inside and value.message not in incomplete:
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


def _marked_headers(case: Case) -> Iterator[Fault]:
    """Yields marks that enclose the beginning of what the prompt writes before an answer.

    Where a thought begins there, too, it may be marked.
    """
    for answer in case.answers:
        before, spans = case.part(answer.at), answer.trained.spans or ()
        if before and answer.trained.text.startswith(answer.prompt):
            header = answer.prompt[difference(before, answer.prompt)[0] :].lstrip()
            start = len(answer.prompt) - len(header)
            if header and any(a <= start < b for a, b in spans):
                message = f"the header {quoted(header)} is inside of {{% generation %}}"
                yield Fault("MYP719", "header", message)


def injected(case: Case, tokens: list[str]) -> Fault | None:
    """Returns a fault if what a user types (`case` begins with it) becomes a special token."""
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


def tokens(case: Case, special: dict[str, str], assumed: frozenset[str] = frozenset()) -> list[str]:
    """Returns what looks like a special token around the values, and is not only `assumed`."""
    text = bare(case, case.output.text)
    tags = TAG.findall(text)
    tags += [token for token in special.values() if token and token in text]
    return [token for token in dict.fromkeys(tags) if token not in assumed]


def bare(case: Case, text: str) -> str:
    """Returns a text without the values in it, such as the id of a call before a result."""
    for value in case.record["_texts"]:
        text = text.replace(value, "…")
    return text


def _adds(text: str, less: str) -> bool:
    """Returns whether a text is another one with something put in at one place."""
    return len(text) > len(less) and text.endswith(less[in_common(text, less) :])


def difference(one: str, other: str) -> tuple[int, str, str]:
    """Returns the first place at which two texts differ, and both from there on.

    What they share of a tag that is cut by the place is shown too.
    """
    at = in_common(one, other)
    tag = re.search(r"[<\[][^<>\[\]\s]{0,30}$", one[:at])
    start = tag.start() if tag else at
    return at, one[start:], other[start:]


def quoted(text: str) -> str:
    excerpt = text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"
    return json.dumps(excerpt, ensure_ascii=False)
