"""Finds what the records of a file are only together: answers, labels, lengths, keys and tools.

Counters of a file, each of a bounded size.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from math import log2
from typing import Any

import numpy as np

from mypt_records.chat import Chat, Message
from mypt_records.names import OPT_OUT
from mypt_records.written import THOUGHT_TAGS
from mypt_spec.findings import Finding

_MANY = 30  # the least number of answers that are checked for variety
_FEW = 10  # records with which a provider trains
_DISTINCT = 0.5  # the least share of them that must differ
_PAIRS = 100  # the least number of pairs, or of answers with either label
_LONGER = 0.8  # the share of pairs in which the better answer is the longer one
_RARE = 0.1  # the share of the rarer label
_BINS = 8  # bins of lengths from one power of two to the next
_COMMON = 0.95  # the share of records that have a key
_SYSTEM = "a system prompt"
_SAME, _ALIKE = 0.2, 0.25  # shares of answers that are one, and that begin alike
# Code and JSON begin as their language does.
_OPENING = re.compile(r"[^\w{\[<`]*(?![{\[<`])([^.,!?:;。，！？：]{2,40})[.,!?:;。，！？：]")
# A prompt that says whether thoughts are wanted.
_SAYS = re.compile(
    r"(?i)/(?:no_?)?think\b|\b(?:think|reason)ing(?: \w+)?:? (?:on|off|low|medium|high)\b"
)
_PHRASE, _LONG = 20, 40  # characters of answers that are no labels, or more than an opening
_OPENINGS, _TOOLS = 1 << 16, 1 << 12  # that are counted
_SOME = 0.02  # the share of answers with thoughts, or without, that is no accident
_KEY_SETS = 1 << 12  # sets of keys; with more, keys are data


class FileCounts:
    """Counts over the records of one file."""

    def __init__(self) -> None:
        self.last_row = 0
        self._longer = self._shorter = 0
        self._lengths = np.zeros((2, 64 * _BINS), np.int64)  # of bad and good answers
        self._key_sets: dict[tuple[str, ...], list[int]] = {}  # count, first row
        self._openings = Counter[str | int](), Counter[str | int]()  # and hashes of whole answers
        self._answers = self._records = 0
        self._thinking = [0, 0]  # answers without and with thoughts, where no prompt says which
        self._tools: dict[str, tuple[int, int]] = {}  # hash of the parameters, row
        self._otherwise: dict[str, int] = {}  # row of another definition

    def add(self, row: int, record: Any, unit: Any, final: str | None) -> None:
        """Adds a record; `final` is its last answer, made plain, None for none."""
        self.last_row = row
        self._records += 1
        if final is not None:
            self._answers += 1
            opening = _OPENING.match(final) if len(final) >= _LONG else None
            texts: list[str | int] = [opening[1]] if opening else []
            texts += [hash(final)] if len(final) >= _PHRASE else []
            for text in texts:
                counter = self._openings[text.__class__ is int]
                if text in counter or len(counter) < _OPENINGS:
                    counter[text] += 1
        if isinstance(record, dict) and len(self._key_sets) < _KEY_SETS:
            prompt = [_SYSTEM] if any(m.role == "system" for m in unit.messages) else []
            keys = (*map(json.dumps, record), *prompt)
            self._key_sets.setdefault(keys, [0, row])[0] += 1
        if not isinstance(unit, Chat):
            return
        last = next((m for m in reversed(unit.messages) if m.role == "assistant"), None)
        says = any(_SAYS.search(m.text) for m in unit.messages if m.role in ("system", "user"))
        if last and final is not None and not says and "chat_template_kwargs" not in unit.extras:
            tagged = last.text.lstrip().startswith(THOUGHT_TAGS[0])
            self._thinking[bool(last.thoughts) or tagged] += 1
        for tool in unit.tools or () if len(self._tools) < _TOOLS else ():
            if tool.name is not None:
                parameters = tool.parameters and tool.parameters.value
                digest = hash(json.dumps(parameters, sort_keys=True, default=repr))
                if self._tools.setdefault(tool.name.text, (digest, row))[0] != digest:
                    self._otherwise.setdefault(tool.name.text, row)
        if unit.rejected:
            better, worse = _length(unit.messages[unit.shared :]), _length(unit.rejected)
            self._longer += better > worse
            self._shorter += better < worse
        elif unit.label is not None and isinstance(unit.label.value, bool):
            size = _length(m for m in unit.messages[unit.last_question + 1 :])
            self._lengths[int(unit.label.value), int(log2(size + 1) * _BINS)] += 1

    def findings(self, finals: Any) -> Iterator[Finding]:
        """Yields the findings of the file; `finals` are the digests of its last answers."""
        finals = finals[finals != 0]
        if len(finals) >= _MANY and (differ := len(np.unique(finals))) < _DISTINCT * len(finals):
            share = f"{differ} of {len(finals)} final answers differ ({differ / len(finals):.0%})"
            yield Finding("MYP607", share)
            self._openings[1].clear()  # which is said
        yield from self._alike()
        yield from self._biased()
        yield from self._missing()

    def _alike(self) -> Iterator[Finding]:
        many = self._answers >= _MANY
        for counter in self._openings if many else ():
            for text, count in counter.most_common(1):
                share = f"{count} of {self._answers} final answers"
                if isinstance(text, int) and count >= _SAME * self._answers:
                    message = f"{share} are one and the same"
                    yield Finding("MYP607", message, help="vary it, or drop some")
                elif isinstance(text, str) and count >= _ALIKE * self._answers:
                    yield Finding("MYP622", f"{share} begin with {text!r}")
        counted = sum(self._thinking)
        if counted >= _MANY and min(self._thinking) >= _SOME * counted:
            message = f"{self._thinking[1]} of {counted} final answers have thoughts"
            yield Finding("MYP621", message)
        for name, row in [*self._otherwise.items()][:1]:
            others = f" and {len(self._otherwise) - 1} more" if len(self._otherwise) > 1 else ""
            message = f"the parameters of {name!r}{others} in record {row} are not those in record"
            yield Finding("MYP623", f"{message} {self._tools[name][1]}")
        if self._records < _FEW:
            message = f"the file has less than {_FEW} records, with which providers do not train"
            yield Finding("MYP270", message)

    def _biased(self) -> Iterator[Finding]:
        pairs = self._longer + self._shorter
        if pairs >= _PAIRS and self._longer >= _LONGER * pairs:
            share = f"{self._longer / pairs:.0%} of {pairs} pairs"
            yield Finding("MYP617", f"the chosen answer is longer in {share}")
        bad, good = self._lengths.sum(axis=1).tolist()
        if min(bad, good) >= _PAIRS:
            below = np.cumsum(self._lengths[0]) - self._lengths[0] / 2
            chance = float(below @ self._lengths[1]) / (bad * good)
            if chance >= _LONGER:
                message = f"a good answer is longer than a bad one in {chance:.0%} of all pairs"
                yield Finding("MYP617", message)
        rare, total = min(bad, good), bad + good
        if total >= _PAIRS and 0 < rare < _RARE * total:
            yield Finding("MYP618", f"{good} labels are true and {bad} are false")

    def _missing(self) -> Iterator[Finding]:
        if len(self._key_sets) >= _KEY_SETS:
            return
        total = sum(count for count, _ in self._key_sets.values())
        for key in sorted({key for keys in self._key_sets for key in keys} - {f'"{OPT_OUT}"'}):
            without = [entry for keys, entry in self._key_sets.items() if key not in keys]
            missing = sum(count for count, _ in without)
            if 0 < missing <= (1 - _COMMON) * total:
                message = (
                    f"{key} is in {total - missing} of {total} records; the first without it is "
                    f"record {min(row for _, row in without)}"
                )
                yield Finding("MYP619", message)


def _length(messages: Iterable[Message]) -> int:
    return sum(len(m.text) for m in messages if m.role == "assistant")
