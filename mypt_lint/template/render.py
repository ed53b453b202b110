"""Renders messages and tools by a chat template."""

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import product
from traceback import walk_tb
from typing import Any, NamedTuple

from mypt_lint.template.source import Template
from mypt_lint.template.values import facts
from mypt_spec.table import SpecError
from mypt_spec.templates.sandbox import compiled

_FOR_TOOLS = "tool_use"  # the name of a second template, for conversations with tools
_MARKED = re.compile(r"\{%-?\s*generation\s*-?%\}")
_MARKS = re.compile(r"\{%[-+]?\s*(?:end)?generation\s*[-+]?%\}")
QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
CODE = re.compile(rf"""\{{[{{%](?:{QUOTED}|[^'"])*?[%}}]\}}|\{{\#.*?\#\}}""", re.DOTALL)
_STRING = re.compile(QUOTED, re.DOTALL)
_FUNCTIONS = frozenset({"raise_exception", "strftime_now"})
_MAX_MESSAGE = 300  # characters of a message, which a template may write


class Rendered(NamedTuple):
    """A text, and its spans (code points) in `{% generation %}`; None for a template without."""

    text: str
    spans: tuple[tuple[int, int], ...] | None


class Failed(NamedTuple):
    """Why a conversation has no text: `refused` if the template says so by `raise_exception`.

    `line` is the place in the template, None where it is not known.
    """

    message: str
    refused: bool
    line: int | None


Outcome = Rendered | Failed
Render = Callable[..., Outcome]
Rows = dict["Form | None", list[dict[str, Any]]]  # conversations as they are, and in forms


class Form(NamedTuple):
    """How a template takes messages.

    `arguments` of a call as an "object" or "json" text, `content` as "text" or "parts"; a message
    without content has none where `absent` is "left out", else "" or null. "" leaves all as it is.
    """

    arguments: str
    content: str
    absent: str


_CONTENT, _CALLS, _ABSENT = ("text", "parts"), ("object", "json"), ("left out", "empty", "null")
_TRIED = Form("", "text", ""), Form("", "parts", ""), Form("json", "text", "")
FORMS = tuple(Form(a, c, absent) for c, a, absent in product(_CONTENT, _CALLS, _ABSENT))


def in_form(messages: Iterable[dict[str, Any]], form: Form) -> list[dict[str, Any]]:
    """Returns messages in OpenAI's shape as a template takes them."""
    return [_message(dict(message), form) for message in messages]


def _message(message: dict[str, Any], form: Form) -> dict[str, Any]:
    content = message.get("content")
    if content is None and form.absent:
        message.pop("content", None)
        if form.absent != "left out":
            message["content"] = "" if form.absent == "empty" else None
    elif isinstance(content, str) and form.content == "parts":
        message["content"] = [{"type": "text", "text": content}]
    if thought := message.get("reasoning_content"):
        message["thinking"] = thought  # as transformers, for templates that read that name
    if calls := message.get("tool_calls"):
        message["tool_calls"] = [_call(call, form) for call in calls]
    return message


def _call(call: dict[str, Any], form: Form) -> dict[str, Any]:
    value = call["function"]["arguments"]
    if form.arguments == "object" and isinstance(value, str):
        with suppress(ValueError):  # which is a finding of its own
            value = json.loads(value or "{}")
    elif form.arguments == "json" and not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    return call | {"function": call["function"] | {"arguments": value}}


def renderer(template: Template) -> Render:
    """Returns a function of (messages, tools, prompt) that renders them.

    `prompt` asks for what a model continues (`add_generation_prompt`). Raises SpecError where
    Jinja is missing.
    """
    marked = bool(_MARKED.search(template.text))

    def render(messages: list[Any], tools: list[Any] | None, *, prompt: bool = False) -> Outcome:
        try:
            text, spans = compiled(template.text)(
                messages=messages,
                tools=tools,
                documents=None,
                add_generation_prompt=prompt,
                **template.tokens,
                **template.options,
            )
        except (MemoryError, SpecError):  # a bound of the process; Jinja is missing
            raise
        except Exception as error:  # whatever a template does wrong
            return failure(error)
        return Rendered(text, tuple(spans) if marked else None)

    return render


def in_its_form(rows: Rows, render: Render) -> tuple[list[dict[str, Any]], list[Outcome]]:
    """Returns the conversations in the form that a template takes, and what it makes of them.

    Templates of models that see images take content as parts, and some take the arguments of a call
    as JSON text. A form is added to `rows` when a template first needs it.
    """
    best: tuple[int, Form] = -1, _TRIED[0]
    for form in _TRIED:
        if form not in rows:
            rows[form] = [_in_form(row, form) for row in rows[None]]
        written = [_is_written(row, render) for row in rows[form] if row.get("_plain")]
        best = max(best, (sum(written), form), key=lambda pair: pair[0])
        if all(written):
            break
    return rows[best[1]], [render(row["messages"], row.get("tools")) for row in rows[best[1]]]


def _in_form(row: dict[str, Any], form: Form) -> dict[str, Any]:
    messages = in_form(row["messages"], form)
    return row | {"messages": messages} | facts(messages, row.get("tools"))


def _is_written(row: dict[str, Any], render: Render) -> bool:
    outcome = render(row["messages"], row.get("tools"))
    questions = (value.text for value in row["_values"] if value.kind == "question")
    return isinstance(outcome, Rendered) and all(q.strip() in outcome.text for q in questions)


def failure(error: Exception) -> Failed:
    """Returns what an exception of a template says."""
    import jinja2

    message = str(error)[:_MAX_MESSAGE] or type(error).__name__
    return Failed(message, type(error) is jinja2.TemplateError, _line(error))


def in_use(templates: list[Template]) -> list[Template]:
    """Returns the template for conversations without tools, and the one for those with tools."""
    by_name = {template.name: template for template in templates}
    usual = by_name.get("") or by_name.get("default") or templates[0]
    return [usual, by_name.get(_FOR_TOOLS) or usual]


def variables(templates: Iterable[Template]) -> tuple[set[str], set[str]]:
    """Returns the names of variables that templates may read, and of these the likely options.

    A template also seems to read what it sets in a branch. Such a name is only likely to be an
    option if the template asks whether it is defined.
    """
    import jinja2
    from jinja2 import meta, nodes

    sandbox = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"])
    names, likely = set[str](), set[str]()
    for template in templates:
        tree = sandbox.parse(_MARKS.sub("", template.text))
        new = meta.find_undeclared_variables(tree) - {*sandbox.globals, *_FUNCTIONS}
        stored = {n.name for n in tree.find_all(nodes.Name) if n.ctx == "store"}
        asked = {n for n in stored if re.search(rf"\b{n} is (not )?(un)?defined", template.text)}
        names |= new
        likely |= new - (stored - asked)
    return names, likely


def literals(template: Template) -> str:
    """Returns the text that a template has outside of its code, and in strings of it."""
    strings = (text for code in CODE.findall(template.text) for text in _STRING.findall(code))
    return "\n".join((*CODE.split(template.text), *strings))


def _line(error: Exception) -> int | None:
    if isinstance(line := getattr(error, "lineno", None), int):
        return line
    lines = [
        line
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename in ("<template>", "<unknown>")
    ]
    return lines[-1] if lines else None
