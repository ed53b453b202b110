"""Converts one record of one format to a record of another. Pure: opens and prints nothing.

The input is a JSON value; the output is a `Converted`: the new record, or why there is none, and
what is lost. Losses are not declared anywhere: the new record is split into steps again, and every
missing step is a loss. So losses that nobody anticipated are reported, too.
"""

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from mypt_convert.bridges import bridge_of, chat
from mypt_convert.bridges.steps import IDENTITY, IDS, TURN, Bridge, Conversation, Step
from mypt_convert.compare import Loss, align, beside, leaves, same
from mypt_convert.metadata import in_the_way, metadata_pointers, renamed, with_source_names
from mypt_records.chat import Chat
from mypt_records.shapes import SHAPES
from mypt_records.shapes import read as read_chat
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.adapters.template_options import KEY as OPTIONS
from mypt_spec.adapters.waiting import Waiting
from mypt_spec.bodies.strict_json import escape, value_at
from mypt_spec.dialect import Dialect, dialect, dialects, is_folder, registered
from mypt_spec.episode import Episode
from mypt_spec.extra_keys import METADATA, UNKNOWN, extra_key
from mypt_spec.findings import Finding, with_help

_FORM = ("role", "type")  # keys for the way a value is written, which canonical records change
_LEFT_OUT = {"MYP280", "MYP283", "MYP284", "MYP285"}  # findings about what is not read of traces
_MOVED = {"MYP250"}  # findings about parts that are elsewhere in the canonical record
ReadFunction = Callable[[Any], tuple[Conversation | None, list[Finding], list[Loss]]]


class Judge(Protocol):
    """Reads records of a dialect and grades their findings, as the linter's `Checker` does."""

    def read(self, record: Any) -> tuple[Episode | None, list[Finding]]:
        """Returns the Episode of a record, if it has one, and its findings."""

    def selects(self, code: str) -> bool:
        """Returns whether a rule is on."""

    def severity(self, finding: Finding) -> str:
        """Returns the severity of a finding."""


class DialectJudge(NamedTuple):
    """Judges by a dialect alone: all rules are on, with their own severities."""

    dialect: Dialect

    def read(self, record: Any) -> tuple[Episode | None, list[Finding]]:
        return self.dialect.check(record)

    def selects(self, code: str) -> bool:
        return True

    def severity(self, finding: Finding) -> str:
        return finding.severity


@dataclass(frozen=True, slots=True)
class Converted:
    """The outcome for one record. `record` is None if it is refused; `findings` then say why.

    Pointers are those of the source record. `losses` are in the order of the source. `metadata`
    points to the unknown keys that are metadata of the new record, under a name that begins with
    `_`. `remarks` are other findings about the new record. `named` is the number of calls that got
    an id, because the format needs one. `episode` is what the new record is read as.
    """

    record: dict[str, Any] | None
    losses: tuple[Loss, ...] = ()
    findings: tuple[Finding, ...] = ()
    metadata: tuple[str, ...] = ()
    remarks: tuple[Finding, ...] = ()
    named: int = 0
    episode: Episode | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


def readable() -> tuple[str, ...]:
    """Returns the names of the formats that a record can be converted from."""
    return (*SHAPES, *dialects())


class Converter:
    """Converts records of the format `source` to the dialect `target`.

    `system` is the system prompt of records that have none. `source_judge` reads the records of a
    source that is a dialect, `judge` the new ones; each is a `DialectJudge` by default. A source
    record with a finding of a severity in `counting` is refused. Raises KeyError for a name that is
    not known.
    """

    def __init__(
        self,
        source: str,
        target: str,
        *,
        system: str | None = None,
        judge: Judge | None = None,
        source_judge: Judge | None = None,
        counting: Sequence[str] = ("error",),
    ) -> None:
        if not (is_folder(source) or source in (*readable(), *registered())):
            raise KeyError(f"no format {source!r}; known are {', '.join(readable())}")
        self.target, self.bridge, self.system = dialect(target), bridge_of(target), system
        self.source = source
        self.take_apart = reader(
            source, source_judge, counting, takes=self.bridge.EXTRAS, kinds=self.bridge.KINDS
        )
        self.checker: Judge = judge or DialectJudge(self.target)
        self.counting = counting

    def record(self, value: Any, about: Iterable[Finding] = ()) -> Converted:
        """Converts one JSON value; `about` are findings about its line. Never raises."""
        conversation, findings, losses = self.take_apart(value)
        against = _against(self.checker, about, self.counting)
        if conversation is None or against:
            faults = findings if conversation is None else ()
            return Converted(None, findings=(*against, *faults))
        out = self._converted(conversation, losses, self.system)
        lost = tuple(with_source_names(out.losses, findings))
        out = replace(out, losses=lost, metadata=metadata_pointers(findings, lost))
        if out.record is not None:
            return out
        codes = self._unprompted(conversation, losses, out)
        hints = ["; --system gives it one" * (f.code in codes) for f in out.findings]
        items = zip(map(with_help, out.findings), hints, strict=True)
        return replace(out, findings=tuple(replace(f, message=f.message + h) for f, h in items))

    def read(self, value: Any, source_chat: Chat) -> tuple[Episode | None, list[Finding]]:
        """Returns the Episode of the new record, if any, and findings; see `outcome`."""
        out, findings = self.outcome(value, source_chat)
        return out.episode, findings

    def outcome(self, value: Any, source_chat: Chat) -> tuple[Converted, list[Finding]]:
        """Returns the new record, and findings at places of the source.

        The findings say why there is none, what is wrong in the new record, and what is lost. The
        source must be a shape; `source_chat` is the record, read in that shape.
        """
        kinds = self.bridge.KINDS
        conversation, findings, losses = _chat_steps(
            value, source_chat, self.source, self.bridge.EXTRAS, kinds
        )
        if conversation is None:
            return Converted(None), findings
        out = self._converted(conversation, losses, self.system)
        if out.record is None and (codes := self._unprompted(conversation, losses, out)):
            advice = SHAPES[self.source].PROMPT
            hint = "; or ".join(filter(None, ["--system TEXT gives it one", advice]))
            hinted = [replace(f, help=hint) if f.code in codes else f for f in out.findings]
            out = replace(out, findings=tuple(hinted))
        extra = [_lost(loss) for loss in with_source_names(out.losses, findings)]
        # Options of a template are an unknown key of the target.
        message = f'"{OPTIONS}" has no effect: {self.target.name} has no options'
        extra += [
            Finding("MYP361", message, f.pointer, on_key=True, help="leave it out")
            for f in findings
            if f.pointer == f"/{OPTIONS}"
        ]
        items = chat.placed([*out.findings, *out.remarks, *extra], value, source_chat, kinds)
        return out, items

    def _unprompted(self, source: Conversation, losses: list[Loss], out: Converted) -> set[str]:
        """Returns the rules that refuse a record only because it lacks a system prompt."""
        if self.system is not None:
            return set()
        prompted = self._converted(source, losses, "S")
        return {f.code for f in out.findings} - {finding.code for finding in prompted.findings}

    def _converted(
        self, conversation: Conversation, losses: list[Loss], system: str | None
    ) -> Converted:
        """Returns the outcome for a conversation, with `system` as its prompt if it has none."""
        conversation, fitted = self._fit(conversation, system)
        losses, named = [*losses, *fitted], 0
        if self.bridge.NEEDS_IDS:
            steps, named = with_ids(conversation.steps)
            conversation = replace(conversation, steps=steps)
        built = self.bridge.record(conversation, self.target.table)
        keys = {"language", *self.bridge.EXTRAS}  # besides metadata
        built |= {k: v for k, v in conversation.extras.items() if k.startswith("_") or k in keys}
        conversation = replace(conversation, steps=self.bridge.stripped(conversation.steps))
        episode, findings = self.checker.read(built)
        errors = [f for f in _against(self.checker, findings, ("error",)) if f.severity == "error"]
        there = self.bridge.steps(built, self.target.table).steps if findings else ()
        if episode is None or errors:
            unfit = [s for s in conversation.steps if s.kind not in self.bridge.KINDS]
            faults = tuple(self._blame(errors, conversation, there))
            if unfit:  # errors that an answer in their place takes away are consequences
                codes = {fault.code for fault in faults}
                rest = self._converted(self._answered(conversation), losses, system).findings
                faults = tuple(fault for fault in rest if fault.code in codes)
            why = f"{self.target.name} has no place for it"
            causes = [_lost(Loss(step.kind, step.at, why)) for step in unfit]
            return Converted(None, tuple(losses), (*causes, *faults))
        remarks = tuple(self._blame(findings, conversation, there))
        try:
            written, read_back = self.target.canonical(episode, built)
        except ValueError as error:
            return Converted(None, tuple(losses), (Finding("MYP903", str(error)),))
        back = self.bridge.steps(written, self.target.table)
        changed, invented, sources = self._compare(conversation, back)
        if invented:
            step = invented[0]
            other = f"{step.kind} {str(step.value)[:80]!r}"
            message = f"as {self.target.name} it would be read back as something else: {other}"
            return Converted(None, tuple(losses), (Finding("MYP903", message, step.at),))
        losses += changed
        lost = tuple(losses)
        return Converted(written, lost, (), (), remarks, named, read_back, sources)

    def _answered(self, conversation: Conversation) -> Conversation:
        """Returns a conversation with an answer where the model writes what has no place."""
        steps = [Step("system", "")]
        for step, after in itertools.zip_longest(conversation.steps, conversation.steps[1:]):
            if step.kind in self.bridge.KINDS:
                steps.append(step)
            elif step.kind not in TURN and "text" not in (steps[-1].kind, after and after.kind):
                steps.append(Step("text", "x", at=step.at))
        return replace(conversation, steps=tuple(steps[1:]))

    def _fit(
        self, conversation: Conversation, system: str | None
    ) -> tuple[Conversation, list[Loss]]:
        """Returns a conversation as every target needs it, and what that loses.

        This is about the system prompt, ids of calls, and the order of calls and results.
        """
        steps, extras, losses = list(conversation.steps), dict(conversation.extras), list[Loss]()
        kinds = self.bridge.KINDS
        first = steps[0].kind if steps else ""
        alone = not any(step.kind in ("system", "developer") for step in steps[1:])
        prompts = first == "developer" or (first == IDENTITY and alone)
        if prompts and first not in kinds and "system" in kinds:
            why = f"{self.target.name} has none; it is the system prompt there"
            losses.append(Loss(first, steps[0].at, why))
            steps[0] = replace(steps[0], kind="system")
        if system is None:
            default = self.target.adapter.default_system(tools=bool(extras.get("tools")))
            system = default or None
        if system is not None and "system" in kinds and not any(s.kind == "system" for s in steps):
            steps.insert(0, Step("system", system))
        if not self.bridge.PARALLEL and "call" in kinds:
            steps, moved = _in_turn(steps)
            losses += [
                Loss("order", s.at, f"in {self.target.name} a result directly follows its call")
                for s in moved
            ]
        calls = [s.id for s in steps if s.kind == "call"]
        if not self.bridge.HAS_IDS and any(calls):
            if IDS in extras and extras[IDS] != calls:
                why = f"{IDS} would keep the ids of the calls, and is taken"
                losses.append(Loss("id", f"/{IDS}", why))
            elif "call" in kinds:
                extras[IDS] = calls
            steps = [replace(s, id="") for s in steps]
        elif self.bridge.HAS_IDS and not any(calls) and _ids(extras.get(IDS), len(calls)):
            names = iter(extras.pop(IDS))
            latest = ""
            for i, step in enumerate(steps):
                latest = next(names) if step.kind == "call" else latest
                steps[i] = replace(step, id=latest) if step.kind in ("call", "result") else step
        return Conversation(tuple(steps), extras), losses

    def _compare(
        self, old: Conversation, back: Conversation
    ) -> tuple[list[Loss], list[Step], dict[str, str]]:
        """Returns what `old` loses in `back`, the steps that only `back` has, and sources."""
        name, match = self.target.name, align(old.steps, back.steps)
        losses = [Loss("order", step.at, f"in {name} it has another place") for step in match.moved]
        for step, twin in match.pairs:
            if twin is None:
                here = " there" if step.kind in self.bridge.KINDS else ""
                losses.append(Loss(step.kind, step.at, f"{name} has no place for it{here}"))
            for key, value in step.meta.items():
                if twin is None or not same(twin.meta, key, value):
                    losses.append(Loss(key, beside(step, key), f"{name} has no place for this"))
        for key, value in old.extras.items():
            if not same(back.extras, key, value):
                losses.append(Loss(key, f"/{escape(key)}", f"{name} has no place for this key"))
        pairs = [(twin.at, step.at) for step, twin in match.pairs if twin is not None]
        return losses, match.invented, {_message(new): _message(at) for new, at in pairs}

    def _blame(
        self, findings: Iterable[Finding], old: Conversation, back: Sequence[Step]
    ) -> Iterator[Finding]:
        """Yields findings about the new record, at their places in the source."""
        twins = [(twin.at, s.at) for s, twin in align(old.steps, back).pairs if twin is not None]
        places = dict(twins)
        messages = {_message(new): _message(at) for new, at in twins}

        def place(pointer: str) -> str:
            """Returns the place of the value, of its message, or of the same top-level key."""
            base = pointer
            while base and base not in places:
                base = base.rpartition("/")[0]
            if base in places:
                return places[base] + pointer[len(base) :]
            if pointer.startswith("/messages/") and _message(pointer) in messages:
                return messages[_message(pointer)]
            return pointer if pointer[1:].split("/", maxsplit=1)[0] in old.extras else ""

        for finding in findings:
            message = f"as {self.target.name}: {finding.message}"
            yield replace(finding, message=message, pointer=place(finding.pointer), fix=None)


def _message(pointer: str) -> str:
    return "/".join(pointer.split("/")[:3])


def _in_steps(
    value: Any, source: Dialect, bridge: Bridge, judge: Judge, counting: Sequence[str]
) -> tuple[Conversation | None, list[Finding], list[Loss]]:
    """Returns (conversation, findings, losses) of a record of a dialect.

    The findings are those for which the judge refuses it, or those about its unknown keys, which
    are metadata now.
    """
    episode, findings = judge.read(value)
    against = _against(judge, findings, counting)
    if episode is not None:
        against = [f for f in against if f.code not in (UNKNOWN, METADATA)]
    if episode is None or against:
        return None, against, []
    unknown = [
        Finding(UNKNOWN, f'unknown key "{key}"', f"/{escape(key)}", on_key=True)
        for key in value
        if key not in source.adapter.SCHEMA.top and not key.startswith("_")
    ]
    unknown += [f for f in source.read(value)[1] if f.code == UNKNOWN and not extra_key(f)]
    if clash := in_the_way(value, unknown):
        return None, clash, []
    value = renamed(value, unknown)
    episode, findings = source.read(value)
    if episode is None:
        return None, findings, []
    try:
        canonical = source.write(episode)
    except ValueError as error:
        return None, [Finding("MYP903", str(error))], []
    moved = [Loss("order", f.pointer, f.message) for f in findings if f.code in _MOVED]
    left_out = _left_out(value, canonical, source, [f.pointer for f in findings])
    conversation = bridge.steps(canonical, source.table)
    placed = [replace(step, at=_place_in(value, step.at)) for step in conversation.steps]
    return replace(conversation, steps=tuple(placed)), unknown, [*left_out, *moved]


def _place_in(record: Any, pointer: str) -> str:
    """Returns a pointer into a canonical record, up to where the record itself has other keys."""
    while pointer and value_at(record, pointer) is None:
        pointer = pointer.rpartition("/")[0]
    return pointer


def _loss_key(loss: Loss) -> str:
    """Returns what the record itself calls what is lost: `reasoning_content`, not a thought."""
    key = (loss.pointer.split("/") + [""] * 4)[3]
    return key if key in (*THOUGHTS, "tool_calls", "function_call") else loss.field


def _lost(loss: Loss) -> Finding:
    return Finding("MYP114", f"{_loss_key(loss)}: {loss.reason}", loss.pointer)


def _against(judge: Judge, findings: Iterable[Finding], counting: Sequence[str]) -> list[Finding]:
    """Returns the findings for which a record is refused."""
    return [f for f in findings if judge.selects(f.code) and judge.severity(f) in counting]


def _left_out(
    value: Any, canonical: dict[str, Any], source: Dialect, warned: Sequence[str]
) -> list[Loss]:
    """Returns losses of the first reading, each with a warning that `mypt-lint` shows.

    Their places are below one of the places `warned`. Without a warning, a value that the canonical
    record lacks is there in another form, such as a cite typed into content, which is in its field.
    """
    remaining = Counter(leaf for _, leaf in leaves(canonical))
    losses = []
    for pointer, leaf in leaves(value):
        name = pointer.rpartition("/")[2]
        if remaining[leaf]:
            remaining[leaf] -= 1
        elif name not in _FORM and any(f"{pointer}/".startswith(f"{place}/") for place in warned):
            losses.append(Loss(name, pointer, f"{source.name} does not read it there"))
    return losses


def reader(
    name: str,
    judge: Judge | None = None,
    counting: Sequence[str] = ("error",),
    *,
    takes: frozenset[str] = frozenset(),
    kinds: frozenset[str] = frozenset(),
) -> ReadFunction:
    """Returns a function that takes records of a format apart.

    Records of a dialect are read by `judge`; those with a finding of a severity in `counting` are
    refused. `takes` are top-level keys that the target knows, which are no metadata; `kinds` are
    the steps that it knows, which texts may hold.
    """
    if name not in SHAPES:
        source, bridge = dialect(name), bridge_of(name)
        a_judge = judge or DialectJudge(source)
        return lambda value: _in_steps(value, source, bridge, a_judge, counting)

    def of_shape(value: Any) -> tuple[Conversation | None, list[Finding], list[Loss]]:
        source_chat = read_chat(value, name)
        conversation, findings, losses = _chat_steps(value, source_chat, name, takes, kinds)
        left_out = [f for f in source_chat.findings if f.code in _LEFT_OUT]
        losses += [Loss(f.name, f.pointer, f.message) for f in left_out]
        return conversation, findings, losses

    return of_shape


def _chat_steps(
    value: Any, source_chat: Chat, shape: str, takes: frozenset[str], kinds: frozenset[str]
) -> tuple[Conversation | None, list[Finding], list[Loss]]:
    """Returns (conversation, findings, losses) of a record, which reads as `source_chat`."""
    conversation, findings, parsed = chat.read(value, source_chat, takes, kinds)
    unknown = [] if conversation is None else chat.unknown(parsed, takes)
    if not unknown:
        return conversation, findings, []
    if clash := in_the_way(value, unknown):
        return None, clash, []
    value = renamed(value, unknown)
    return chat.read(value, read_chat(value, shape), takes, kinds)[0], unknown, []


def _in_turn(steps: list[Step]) -> tuple[list[Step], list[Step]]:
    """Returns the steps with every result next to its call, and the calls that had it elsewhere."""
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


def with_ids(steps: Sequence[Step]) -> tuple[tuple[Step, ...], int]:
    """Returns steps in which each call has an id, as has its result, and how many ids are new.

    They have nine letters and digits, as Mistral wants them.
    """
    used = {step.id for step in steps if step.kind == "call"}
    fresh = (name for i in itertools.count() if (name := f"call{i:05}") not in used)
    waiting: Waiting[str] = Waiting()  # new ids of calls, by the name of the tool
    out, new = [], 0
    for step in steps:
        if step.kind == "call" and not step.id:
            step = replace(step, id=next(fresh))
            waiting.add(step.id, step.name)
            new += 1
        elif step.kind == "result" and not step.id:
            step = replace(step, id=waiting.take(step.name) or "")
        out.append(step)
    return tuple(out), new


def _ids(value: Any, count: int) -> bool:
    is_list = isinstance(value, list) and len(value) == count > 0
    return is_list and all(isinstance(v, str) for v in value)
