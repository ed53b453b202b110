"""Proves lines right by the chat template of a model, many at once.

Input: lines of JSONL. Output: the chat and the rendering of each line in which no error is found,
and its warnings, as the checker finds them; `tests/property/test_clean_chats.py` holds the two
together. What needs no format is found by skeletons (mypt_lint/fast): lines that differ only in
clean texts, tools and arguments share one. The chat is that of the skeleton, read once, in which
signs have the places of texts. All that these do not decide is true of it: roles, weights and
options. Each line is still rendered.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mypt_lint.check.checker import Checker
from mypt_lint.fast.findings_cache import FindingsCache
from mypt_lint.fast.skeleton import SIGN, Skeleton
from mypt_lint.template.align import Aligned
from mypt_lint.template.model import PLAIN, Arguments, ModelFolder, arguments_of
from mypt_records.chat import Chat
from mypt_records.shapes import read
from mypt_spec.findings import Finding
from mypt_spec.memo import Memo

_CHATS, _ROOM = 4096, 16 << 20  # chats of skeletons that are kept, and bytes of their skeletons


@dataclass(frozen=True)
class ByModel:
    """Reads chats by the template of a model for a checker, and proves lines clean for it."""

    model: ModelFolder

    def __call__(self, record: object, chat: Chat) -> tuple[None, list[Finding]]:
        """Returns the findings of a chat, and no Episode, because no format is known."""
        return self.model.read(record, chat)

    def clean_chats(self, checker: Checker) -> CleanChats:
        """Returns what proves lines clean for a checker."""
        return CleanChats(checker, self.model)


class _Recipe(NamedTuple):
    """The chat of a skeleton, and the places of its messages that hold signs."""

    chat: Chat
    places: list[tuple[int, str, Any]]


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
        self._recipes: Memo[bytes, _Recipe | None] = Memo(_CHATS, room=_ROOM)

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
            if recipe is not None:
                calls.append(_filled(recipe, judged.skeleton))
                recipes.append((i, recipe.chat, judged.skeleton))
        outcomes = zip(recipes, calls, self.model.outcomes(calls), strict=False)
        for (i, chat, skeleton), arguments, outcome in outcomes:
            if isinstance(outcome, Aligned) and self._has_signed(skeleton, arguments, outcome.text):
                findings = [*self.model.findings(outcome, chat)]
                if all(f.severity != "error" and f.span is None for f in findings):
                    out[i] = CleanChat(chat, outcome, findings)
        return out

    def _has_signed(self, skeleton: Skeleton, arguments: Arguments, text: str) -> bool:
        """Returns whether a rendering has the tools that a sign replaces, and no stray tag."""
        names = skeleton.tools[0] if skeleton.tools else ()
        stray = skeleton.values and self.model.stray_tag(arguments)
        return not stray and all(name in text for name in names)

    def _recipe(self, key: bytes, skeleton: Skeleton) -> _Recipe | None:
        if key in self._recipes.entries:
            return self._recipes.entries[key]
        chat, recipe = read(skeleton.rest, self._shape), None
        if self.model.is_rendered(chat) and not chat.rejected:
            places = [
                (number, name, value)
                for number, message in enumerate(arguments_of(chat)[0])
                for name, value in message.items()
                if name == "tool_calls" or (isinstance(value, str) and SIGN.search(value))
            ]
            recipe = _Recipe(chat, places)
        return self._recipes.keep(key, recipe, len(key))


def _filled(recipe: _Recipe, skeleton: Skeleton) -> Arguments:
    """Returns the arguments of a record: those of the skeleton, with the texts of the record."""
    messages, tools, options = arguments_of(recipe.chat)
    messages = [message.copy() for message in messages]
    for number, name, value in recipe.places:
        messages[number][name] = skeleton.value(value)
    if skeleton.tools:
        tools = marshal.dumps(skeleton.value(skeleton.rest["tools"]), PLAIN)
    return messages, tools, options
