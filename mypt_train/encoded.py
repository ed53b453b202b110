"""What becomes of one line of input: encoded episodes, or why not."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import mypt_spec
from mypt_spec.convert.stream import read_line
from mypt_spec.episode import Episode, Message, events_of
from mypt_spec.findings import Finding
from mypt_spec.rules import Limits
from mypt_spec.tokens import TEXT
from mypt_train.options import Options

WRITTEN, REFUSED, LONG = "written", "refused", "long"


@dataclass(frozen=True, slots=True)
class Sample:
    """An episode as tokens. `ids`: uint16, shape (n,); `mask`: uint8, shape (n,), 1 where the token is a target."""

    ids: npt.NDArray[np.uint16]
    mask: npt.NDArray[np.uint8]

    @property
    def digest(self) -> bytes:
        """16 bytes that are equal for equal ids."""
        return hashlib.blake2b(self.ids.astype("<u2").tobytes(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A line: written as samples, refused with findings, or too long. `tags` counts the terminals that are in the samples."""

    status: str
    samples: tuple[Sample, ...] = ()
    findings: tuple[Finding, ...] = ()
    tags: Counter[str] | None = None


class Encoder:
    """Turns lines into samples, for one set of options."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.dialect = mypt_spec.dialect(options.dialect)
        if self.dialect.tokenizer.vocab_size > 1 << 16:
            raise ValueError(f"{options.dialect} has {self.dialect.tokenizer.vocab_size} ids; shards hold 16 bits a token")

    def line(self, raw: bytes) -> Outcome:
        """A line of JSONL without its line end. Never raises for what the line holds."""
        value, fault = read_line(raw)
        return _refused(fault) if fault is not None else self.record(value)

    def record(self, record: Any) -> Outcome:
        """A JSON value as a line holds it."""
        episode, findings = self.dialect.check(record, limits=Limits(phase=self.options.phase))
        errors = [f for f in findings if f.severity == "error"]
        if episode is None or errors:
            return _refused(*errors)
        sample = self.sample(episode)
        if not self.options.pack or len(sample.ids) <= self.options.context_length:
            return Outcome(WRITTEN, (sample,), tags=self._tags([episode]))
        return self._long(episode, len(sample.ids))

    def sample(self, episode: Episode) -> Sample:
        """The ids and targets of an episode. Its first token is never a target: nothing stands before it to tell it from."""
        encoded = self.dialect.encode(episode)
        mask = encoded.loss.copy()
        mask[:1] = 0
        return Sample(encoded.ids.astype(np.uint16), mask)

    def _long(self, episode: Episode, length: int) -> Outcome:
        most = self.options.context_length
        finding = Finding("MYP502", f"the episode has {length} tokens; a row holds {most}")
        if self.options.long == "error":
            return Outcome(REFUSED, findings=(finding,))
        if self.options.long == "drop":
            return Outcome(LONG, findings=(finding,))
        parts = self._split(episode)
        samples = [self.sample(part) for part in parts]
        if not parts or any(len(s.ids) > most for s in samples):
            cure = "one of its turns alone does not fit" if parts else "the format has no place to split it"
            return Outcome(REFUSED, findings=(replace(finding, message=f"{finding.message}, and {cure}"),))
        return Outcome(WRITTEN, tuple(samples), tags=self._tags(parts))

    def _split(self, episode: Episode) -> list[Episode]:
        """The episode in parts of whole turns, each with what stands before the first; none where it cannot be split."""
        messages, most = episode.messages, self.options.context_length
        head, bounds = self._turns(messages)
        parts: list[Episode] = []
        begin = end = head
        for bound in bounds:
            wider = replace(episode, messages=messages[:head] + messages[begin:bound])
            if end > begin and len(self.sample(wider).ids) > most:
                parts.append(replace(episode, messages=messages[:head] + messages[begin:end]))
                begin = end
            end = bound
        parts.append(replace(episode, messages=messages[:head] + messages[begin:]))
        return parts if len(parts) > 1 else []

    def _turns(self, messages: tuple[Message, ...]) -> tuple[int, list[int]]:
        """How many messages stand before the first turn, and where turns end: there the same may follow as behind these."""
        table, automaton = self.dialect.table, self.dialect.automaton
        states: list[int | None] = [automaton.start]
        for message in messages:
            state = states[-1]
            for event in events_of([message], table):
                state = automaton.steps[state].get(event.terminal) if state is not None else None
            states.append(state)
        follows = [frozenset(automaton.steps[state]) if state is not None else None for state in states]
        ends = [i for i in range(1, len(messages)) if states[i] in automaton.accepts and messages[i].role not in table.marks]
        head = max((i for i in range(ends[0]) if follows[i] == follows[ends[0]]), default=-1) if ends else -1
        return (head, [*ends, len(messages)]) if head >= 0 else (0, [len(messages)])

    def _tags(self, episodes: list[Episode]) -> Counter[str]:
        table = self.dialect.table
        return Counter(e.terminal for episode in episodes for e in events_of(episode.messages, table) if e.terminal != TEXT)


def _refused(*findings: Finding) -> Outcome:
    return Outcome(REFUSED, findings=findings)
