"""Renders conversations by the templates of a model, in a process of its own and within bounds."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from mypt_lint.derive.shape import DAY, NotLearnedError
from mypt_lint.template.align import Aligned
from mypt_lint.template.checks import LIKELY_SPECIAL
from mypt_lint.template.model import ModelFolder, Outcome, Templates
from mypt_lint.template.render import Failed, Form
from mypt_lint.template.render import literals as literals_of
from mypt_lint.template.source import Template
from mypt_spec.templates.bounds import Bounded, OutOfBoundsError

_WORD = re.compile("Qx([0-9]{6})z")
DEADLINE = 600  # seconds for all conversations; a hostile template may take 10 for each
_LATER = timedelta(days=400, hours=5)
Probe = list[dict[str, Any]]


class _Rendering:
    """Renders one conversation, in the process that renders."""

    def __init__(
        self, texts: list[Template], special: frozenset[str], forms: Sequence[Form]
    ) -> None:
        tags = (LIKELY_SPECIAL.findall(literals_of(template)) for template in texts)
        templates = Templates(texts, special.union(*tags), forms)
        self.templates = templates.usual, templates.for_tools
        for template in self.templates:  # marks may have the header, which prompts have already
            template.is_marked = False

    def __call__(
        self, messages: Probe, tools: Any, options: dict[str, Any], how: str
    ) -> str | Outcome:
        template = self.templates[bool(tools)]
        if how == "align":
            template.stops = template.stops - {*template.assumed} | {*options.pop("stops")}
            return template.outcome(messages, tools, options)
        later = (template.now + _LATER).strftime
        clocks = {"": lambda _: DAY, "now": template.now.strftime, "later": later}
        options = {"strftime_now": clocks[options.pop("clock", "")]} | options
        return template.written(messages, tools, options, prompt=how == "prompt")


class Renderings:
    """What a model's templates make of conversations, each rendered once.

    `ending` is what texts end with, the template's and those of the format: a header of an answer
    that the template writes after each conversation, or the end of the last answer, which it leaves
    open. `day` is the option of the date, and its values by two clocks.
    `stops` are the tags at the end of answers.
    """

    ending = ("", "")
    stops: tuple[str, ...] = ()
    day = ("", "", "")

    def __init__(self, model: ModelFolder) -> None:
        args = _Rendering, model.templates, model.special, model.forms
        self.templates = model.templates
        self._render: Bounded[str | Outcome] = Bounded(*args)
        self._outcomes: dict[str, str | Outcome] = {}
        self._until = time.monotonic() + DEADLINE

    def __enter__(self) -> Renderings:
        return self

    def __exit__(self, *_: object) -> None:
        self._render.close()

    def _outcome(
        self, messages: Probe, tools: Any = None, how: str = "", **options: Any
    ) -> str | Outcome:
        arguments = messages, tools, options, how
        key = repr(arguments)
        if key not in self._outcomes:
            if time.monotonic() > self._until:
                raise NotLearnedError(f"rendering was stopped after {DEADLINE} seconds in all")
            try:
                self._outcomes[key] = self._render(*arguments)
            except OutOfBoundsError as error:
                self._outcomes[key] = Failed(f"stopped after {error}", False, None)
        return self._outcomes[key]

    def text(self, messages: Probe, tools: Any = None, how: str = "", **options: Any) -> str | None:
        """Returns the text of a conversation; None where it has none.

        `how` is "" or "prompt" (what a model continues). Without the option `clock`, each date is
        `DAY`; by "now" and "later", dates are those of two days.
        """
        outcome = self._outcome(messages, tools, how, **options)
        theirs, ours = self.ending if how != "prompt" else ("", "")
        return outcome.removesuffix(theirs) + ours if isinstance(outcome, str) else None

    def refusal(self, messages: Probe, tools: Any = None) -> str:
        """Returns why a conversation has no text; "" if it has one."""
        outcome = self._outcome(messages, tools)
        return outcome.message if isinstance(outcome, Failed) else ""

    def aligned(self, messages: Probe, tools: Any = None, **options: Any) -> Aligned | None:
        """Returns the places of all texts of a conversation; None where one has none."""
        outcome = self._outcome(messages, tools, "align", stops=self.stops, **options)
        return outcome if isinstance(outcome, Aligned) else None


def words(count: int) -> list[str]:
    """Returns words that no template has by itself."""
    return [f"Qx{number:06d}z" for number in range(count)]


def literals(text: str, count: int) -> list[str] | None:
    """Returns what is between words; None if they are not there once, in order."""
    numbers = [int(number) for number in _WORD.findall(text)]
    return _WORD.split(text)[::2] if numbers == [*range(count)] else None


def chat(*texts: str | tuple[str, str], system: str | None = None) -> Probe:
    """Returns questions and answers in turn; a pair is a thought and an answer."""
    out: Probe = [] if system is None else [{"role": "system", "content": system}]
    for number, text in enumerate(texts):
        thought, content = text if isinstance(text, tuple) else ("", text)
        message = {"role": ("user", "assistant")[number % 2], "content": content}
        out.append(message | ({"reasoning_content": thought} if thought else {}))
    return out
