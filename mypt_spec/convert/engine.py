"""One record of one format to a record of another. Pure: opens and prints nothing.

What is lost is not declared anywhere: the new record is taken apart again, and what does not come back is lost.
"""

from __future__ import annotations

import importlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from mypt_spec.episode import Episode
from mypt_spec.findings import Finding
from mypt_spec.frontdoor import Dialect, dialect, dialects, folder
from mypt_spec.steps import IDS, Bridge, Conversation, Step

_READ_ONLY = "openai"  # the format that most people have; it has no text, so it is no dialect


class Loss(NamedTuple):
    """What the target cannot say: the field, where it stands in the source record (RFC 6901), and why."""

    field: str
    pointer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Converted:
    """The outcome for one record. `record` is None when it cannot be converted; `findings` then say why.

    Pointers are those of the source record. `losses` are in the order of the source.
    """

    record: dict[str, Any] | None
    losses: tuple[Loss, ...] = ()
    findings: tuple[Finding, ...] = ()


def readable() -> tuple[str, ...]:
    """The names that a record can be converted from."""
    return (_READ_ONLY, *dialects())


class Converter:
    """Converts records of the format `source` to the dialect `target`.

    `system` is the system prompt of records that have none. Raises KeyError for a name that is not known.
    """

    def __init__(self, source: str, target: str, *, system: str | None = None) -> None:
        if source not in readable():
            raise KeyError(f"no format {source!r}; known are {', '.join(readable())}")
        self.target, self.bridge, self.system = dialect(target), _bridge(target), system
        self.take_apart: Callable[[Any], tuple[Conversation | None, list[Finding]]]
        if source == _READ_ONLY:
            self.take_apart = importlib.import_module(f"mypt_spec.bridges.{source}").read
        else:
            self.take_apart = _Apart(dialect(source), _bridge(source))

    def record(self, value: Any) -> Converted:
        """Convert one JSON value. Never raises."""
        conversation, findings = self.take_apart(value)
        if conversation is None:
            return Converted(None, findings=tuple(findings))
        conversation, losses = self._fit(conversation)
        built = self.bridge.record(conversation, self.target.table)
        built |= {k: v for k, v in conversation.extras.items() if k.startswith("_") or k == "language" or k in self.bridge.EXTRAS}
        episode, findings = _legal(self.target, built)
        if episode is None:
            there = self.bridge.steps(built, self.target.table).steps
            return Converted(None, tuple(losses), tuple(self._blame(findings, conversation.steps, there)))
        try:
            written = self.target.write(episode)
        except ValueError as error:
            return Converted(None, tuple(losses), (Finding("MYP903", str(error)),))
        back = self.bridge.steps(written, self.target.table)
        lost, invented = self._compare(conversation, back)
        if invented:
            message = f"as {self.target.name} it would be read back as something else: {invented[0].kind} {str(invented[0].value)[:80]!r}"
            return Converted(None, tuple(losses), (Finding("MYP903", message, invented[0].at),))
        return Converted(written, (*losses, *lost))

    def _fit(self, conversation: Conversation) -> tuple[Conversation, list[Loss]]:
        """What every target needs done: the system prompt, ids of calls, and the order of calls and results."""
        steps, extras, losses = list(conversation.steps), dict(conversation.extras), list[Loss]()
        kinds = self.bridge.KINDS
        if "developer" not in kinds and "system" in kinds and steps and steps[0].kind == "developer":
            losses.append(Loss("developer", steps[0].at, f"{self.target.name} has no developer role; it is the system prompt there"))
            steps[0] = replace(steps[0], kind="system")
        if self.system is not None and "system" in kinds and not any(s.kind == "system" for s in steps):
            steps.insert(0, Step("system", self.system))
        if not self.bridge.PARALLEL and "call" in kinds:
            steps, moved = _in_turn(steps)
            losses += [Loss("order", s.at, f"in {self.target.name} a result stands directly behind its call") for s in moved]
        calls = [s.id for s in steps if s.kind == "call"]
        if not self.bridge.HAS_IDS and any(calls) and IDS not in extras:
            extras |= {IDS: calls} if "call" in kinds else {}
            steps = [replace(s, id="") for s in steps]
        elif self.bridge.HAS_IDS and not any(calls) and _ids(extras.get(IDS), len(calls)):
            names = iter(extras.pop(IDS))
            latest = ""
            for i, step in enumerate(steps):
                latest = next(names) if step.kind == "call" else latest
                steps[i] = replace(step, id=latest) if step.kind in ("call", "result") else step
        return Conversation(tuple(steps), extras), losses

    def _compare(self, given: Conversation, back: Conversation) -> tuple[list[Loss], list[Step]]:
        """What of `given` is not in `back`, and what of `back` was never given."""
        losses = []
        pairs, invented = _align(given.steps, back.steps)
        for step, found in pairs:
            if found is None:
                here = "there" if step.kind in self.bridge.KINDS else ""
                reason = f"{self.target.name} has no place for it {here}".strip()
                losses.append(Loss(step.kind, step.at, reason))
                continue
            for key, value in step.meta.items():
                if not _same(found.meta, key, value):
                    losses.append(Loss(key, _beside(step, key), f"{self.target.name} has no place for this key"))
        for key, value in given.extras.items():
            if not _same(back.extras, key, value):
                losses.append(Loss(key, f"/{key}", f"{self.target.name} has no place for this key"))
        return losses, invented

    def _blame(self, findings: Iterable[Finding], given: Sequence[Step], back: Sequence[Step]) -> Iterator[Finding]:
        """Findings about the new record, at their places in the source."""
        source = {found.at: step.at for step, found in _align(given, back)[0] if found is not None}
        for finding in findings:
            base = max((at for at in source if finding.pointer.startswith(at)), key=len, default=None)
            inside = {at.rpartition("/")[0]: where.rpartition("/")[0] for at, where in source.items()}
            if base is not None:
                pointer = source[base] + finding.pointer[len(base) :]
            else:
                pointer = inside.get(finding.pointer.rpartition("/")[0], "")
            cure = f" ({finding.help})" if finding.help else ""
            yield replace(finding, message=f"as {self.target.name}: {finding.message}{cure}", pointer=pointer, fix=None)


class _Apart:
    """Takes legal records of a dialect apart."""

    def __init__(self, source: Dialect, bridge: Bridge) -> None:
        self.source, self.bridge = source, bridge

    def __call__(self, value: Any) -> tuple[Conversation | None, list[Finding]]:
        episode, findings = _legal(self.source, value)
        if episode is None:
            return None, findings
        try:
            return self.bridge.steps(self.source.write(episode), self.source.table), []
        except ValueError as error:
            return None, [Finding("MYP903", str(error))]


def _legal(d: Dialect, value: Any) -> tuple[Episode | None, list[Finding]]:
    """The Episode of a record without errors, or None and the errors."""
    episode, findings = d.read(value)
    if episode is not None:
        findings = [*findings, *d.validate(episode)]
    errors = [f for f in findings if f.severity == "error"]
    return (None if errors else episode), errors


def _bridge(name: str) -> Bridge:
    try:
        return cast(Bridge, importlib.import_module(f"mypt_spec.bridges.{folder(name).name}"))
    except ModuleNotFoundError:
        raise KeyError(f"no bridge for {name!r}: records of this dialect cannot be converted") from None


def _align(given: Sequence[Step], back: Sequence[Step]) -> tuple[list[tuple[Step, Step | None]], list[Step]]:
    """Each given step with the one that it came back as; and those that came back without being given."""
    pairs: list[tuple[Step, Step | None]] = []
    at = 0
    for step in given:
        same = at < len(back) and back[at].key == step.key
        pairs.append((step, back[at] if same else None))
        at += same
    return pairs, list(back[at:])


def _in_turn(steps: list[Step]) -> tuple[list[Step], list[Step]]:
    """Steps with every result directly behind its call, and the calls whose results were further away."""
    results: dict[str, deque[int]] = {}
    for i, step in enumerate(steps):
        if step.kind == "result":
            results.setdefault(step.id, deque()).append(i)
    order: list[int] = []
    moved: list[Step] = []
    placed: set[int] = set()
    for i, step in enumerate(steps):
        if i in placed:
            continue
        order.append(i)
        waiting = results.get(step.id)
        if step.kind == "call" and waiting:
            mine = waiting.popleft()
            if any(j not in placed for j in range(i + 1, mine)):
                moved.append(step)
            placed.add(mine)
            order.append(mine)
    return [steps[i] for i in order], moved


def _ids(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count > 0 and all(isinstance(v, str) for v in value)


def _same(where: dict[str, Any], key: str, value: Any) -> bool:
    return key in where and json.dumps(where[key], sort_keys=True) == json.dumps(value, sort_keys=True)


def _beside(step: Step, key: str) -> str:
    """The pointer to another key of the step's message."""
    head = step.at.split("/")[:3] if step.at.startswith("/messages/") else [""]
    return "/".join([*head, key])
