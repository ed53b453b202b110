"""Proves lines right by the chat template of a model, many at once.

Input: lines of JSONL. Output: the chat and the rendering of each line in which no error is found,
and its warnings, as the checker finds them; `tests/property/test_clean_chats.py` holds the two
together. What needs no format is found by skeletons (mypt_lint/fast): lines that differ only in
clean texts, tools and arguments share one. The chat is that of the skeleton, read once, in which
placeholders replace texts. All that these do not decide is true of it: roles, weights and
options. Each line is still rendered.
"""

from __future__ import annotations

import marshal
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from mypt_lint.check.checker import Checker
from mypt_lint.fast.findings_cache import FindingsCache
from mypt_lint.fast.skeleton import PLACEHOLDER, Skeleton
from mypt_lint.template.align import Aligned
from mypt_lint.template.model import PLAIN, Arguments, ModelFolder, arguments_of
from mypt_records.chat import Chat
from mypt_records.shapes import read
from mypt_spec.findings import Finding
from mypt_spec.memo import Memo

_PLACES = "places"  # a fact of the chat of a skeleton
_CHATS, _ROOM = 4096, 16 << 20  # chats of skeletons that are kept, and bytes of their skeletons


@dataclass(frozen=True)
class ByModel:
    """Reads chats by the template of a model for a checker, and proves lines clean for it."""

    model: ModelFolder

    def __call__(self, record: object, chat: Chat) -> tuple[None, list[Finding]]:
        """Returns the findings of a chat, and no Episode, because no format is known."""
        return self.model.read(record, chat)

    def sizes(self, chat: Chat) -> tuple[int, int] | None:
        """Returns how many tokens the model reads in a chat, and how many of them are trained.

        None where the template writes no text for it, or the vocabulary cannot encode that.
        """
        if self.model.vocabulary and (aligned := self.model.placed(chat)[0]):
            with suppress(ValueError):
                ids, starts = self.model.ids(aligned)
                at = partial(bisect_left, starts)
                return len(ids), sum(at(span.end) - at(span.start) for span in aligned.trained)
        return None

    def clean_chats(self, checker: Checker) -> CleanChats:
        """Returns what proves lines clean for a checker."""
        return CleanChats(checker, self.model)


class CleanChat(NamedTuple):
    """The chat of a line's skeleton, the rendering of the line, and the findings about that."""

    chat: Chat
    aligned: Aligned
    findings: list[Finding]


class CleanChats:
    """What proves lines clean for one checker and one model; belongs to one thread."""

    def __init__(self, checker: Checker, model: ModelFolder) -> None:
        self.model = model
        self._shape = checker.shape
        self._cache = FindingsCache(replace(checker, by_model=None))
        self._recipes: Memo[bytes, Chat | None] = Memo(_CHATS, room=_ROOM)

    def placed(self, lines: Sequence[bytes]) -> list[CleanChat | None]:
        """Returns what is known of each line; None: not proved to be right."""
        out: list[CleanChat | None] = [None] * len(lines)
        calls, recipes = [], list[tuple[int, Chat, Skeleton]]()
        for i, raw in enumerate(lines if not self.model.stopped else ()):
            try:
                judged = self._cache.judged(raw)
            except Exception:  # the checker has its own words for what goes wrong
                continue
            if judged is None or judged.findings != ():
                continue
            recipe = self._recipe(judged.key, judged.skeleton)
            if recipe is not None and not self._has_bare(judged.skeleton):
                arguments = _filled(recipe, judged.skeleton)
                names = [arguments[0][at][k] for at, k, _ in recipe.facts[_PLACES] if k == "name"]
                calls.append((*arguments, "outcome", (judged.key, *names)))
                recipes.append((i, recipe, judged.skeleton))
        outcomes = zip(recipes, calls, self.model.outcomes(calls), strict=False)
        for (i, chat, skeleton), call, outcome in outcomes:
            if isinstance(outcome, Aligned) and self._names_tools(skeleton, call[:3], outcome.text):
                findings = [*self.model.findings(outcome, chat)]
                if all(f.severity != "error" and f.span is None for f in findings):
                    out[i] = CleanChat(chat, outcome, findings)
        return out

    def _names_tools(self, skeleton: Skeleton, arguments: Arguments, text: str) -> bool:
        """Returns whether a rendering names the tools of a placeholder, and has no stray tag."""
        stray = skeleton.values and self.model.stray_tag(arguments)
        return not stray and all(name in text for name in skeleton.tools)

    def _has_bare(self, skeleton: Skeleton) -> bool:
        """Returns whether the tools of a placeholder have a form that is a finding."""
        tools = skeleton.value(skeleton.rest["tools"]) if skeleton.tools else ()
        return any("function" not in tool for tool in tools) and self.model.tells_bare_tools

    def _recipe(self, key: bytes, skeleton: Skeleton) -> Chat | None:
        """Returns the chat of a skeleton, which knows the placeholders in its messages."""
        if key in self._recipes.entries:
            return self._recipes.entries[key]
        chat = read(skeleton.rest, self._shape)
        if not self.model.is_rendered(chat) or chat.rejected:
            return self._recipes.keep(key, None, len(key))
        chat.facts[_PLACES] = [
            (number, name, value)
            for number, message in enumerate(arguments_of(chat)[0])
            for name, value in message.items()
            if name == "tool_calls" or (isinstance(value, str) and PLACEHOLDER.search(value))
        ]
        return self._recipes.keep(key, chat, len(key))


def _filled(recipe: Chat, skeleton: Skeleton) -> Arguments:
    """Returns the arguments of a record: those of the skeleton, with the texts of the record."""
    messages, tools, options = arguments_of(recipe)
    messages = [message.copy() for message in messages]
    for number, name, value in recipe.facts[_PLACES]:
        messages[number][name] = skeleton.value(value)
    if skeleton.tools:
        tools = marshal.dumps(skeleton.value(skeleton.rest["tools"]), PLAIN)
    return messages, tools, options
