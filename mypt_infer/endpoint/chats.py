r"""Shows a conversation to a server that has chats alone, and reads its answers.

Input: ids of a conversation, and a message of the server. Output: messages and tools as OpenAI has
them, and the ids of the answer, with a `Repaired` wherever something was put in or left out.

Theory of operation. The ids are read into an Episode, whose record the bridges of mypt-convert turn
into messages. The answer is added to the messages since the user's last one, and the same bridges
turn these into a record of the format: the events that the answer adds are what the model said.
`texts` makes ids of them from where the conversation is. So nothing here writes a tag, or the body
of a call. Where the format refuses an answer, its calls are tried one by one: what the format
cannot hold is left out. Where it has one call at a time, the next waits for the result of that
before it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mypt_convert.bridges import bridge_of
from mypt_convert.bridges.messages import MessageBridge
from mypt_convert.engine import Converter, with_ids
from mypt_convert.steps import IDENTITY, Conversation
from mypt_infer.controller.events import Repaired
from mypt_infer.controller.source import NoRoom
from mypt_infer.endpoint.connect import EndpointError, Message
from mypt_infer.endpoint.said import Answered, Json, answered
from mypt_infer.endpoint.texts import read_events
from mypt_infer.run_format import Format
from mypt_infer.serve.asked.names import outer
from mypt_infer.serve.asked.prompts import Judge
from mypt_spec import Episode
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.episode import Event, events_of
from mypt_spec.lexer import lex_ids
from mypt_spec.parser import build
from mypt_spec.record_schema import WEIGHT
from mypt_spec.table import DEFINITIONS, TEXT
from mypt_spec.validator import Run

_SHAPE = "openai"
_KINDS = frozenset({"system", "developer", "user", "think", "text", "call", "result"})
_LOST = "MYP114"


@dataclass(frozen=True)
class Shown:
    """A conversation as a server is shown it, and what it is not shown.

    `headers` are the tags at the end of the conversation with which the model's message begins, and
    `state` is that of the grammar after them.
    """

    messages: list[Json]
    headers: tuple[Event, ...]
    unseen: tuple[str, ...]
    state: int

    @property
    def recent(self) -> list[Json]:
        """Returns the messages since the user's last one, after a prompt before them."""
        users = [i for i, m in enumerate(self.messages) if m["role"] == "user"]
        last = users[-1] if users else 0
        head = [m for m in self.messages[:1] if m["role"] == "system" and last > 0]
        return [*head, *self.messages[last:]]


class Chats:
    """Conversations of one format, as messages. `tools` are schemas as OpenAI has them."""

    def __init__(self, form: Format, tools: Sequence[Json]) -> None:
        self.form = form
        d = form.dialect
        name = d.name if d.folder is None else str(d.folder)
        self._bridge = bridge_of(name)
        # A conversation that has no system prompt gets one, if the format cannot be without.
        self._convert = Converter(_SHAPE, name, system="S", judge=Judge(d))
        self._outer: dict[str, str] = {}
        for tool in tools:
            self._named(tool["function"]["name"])
        self.tools = [
            tool | {"function": tool["function"] | {"name": self._named(tool["function"]["name"])}}
            for tool in tools
        ]
        # Where calls do not say the types of their arguments, the definitions do, by either name.
        named = [t for t in self.tools if t not in tools]
        self._defined: Json = {"tools": [*tools, *named]} if tools and d.table.tagged else {}
        # Calls that wait for the result of one before, and the length of the conversation then.
        self._later: tuple[int, list[Json]] = (0, [])

    def _named(self, name: str) -> str:
        """Returns a tool's name as the API takes it, each for one tool."""
        if name not in self._outer:
            taken, found = {*self._outer.values()}, outer(name)
            while found in taken:
                found += "_"
            self._outer[name] = found
        return self._outer[name]

    def _inner(self, name: str) -> str:
        """Returns the tool that a server calls by a name."""
        return next((own for own, known in self._outer.items() if known == name), name)

    def shown(self, ids: Sequence[int]) -> Shown:
        """Returns a conversation that ends where the model is to write.

        Raises EndpointError where the model has begun its answer already, or for what has no
        record.
        """
        d = self.form.dialect
        events = lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)[0]
        end = len(events)
        while end and (t := d.table.terminals.get(events[end - 1].terminal)) and t.opens:
            end -= 1
        states = [d.automaton.start]
        for event in events:
            states.append(d.automaton.step(states[-1], event.terminal))
        if end and events[end - 1].terminal in self.form.model_writes[states[end - 1]]:
            raise EndpointError(
                "a server that has chats alone cannot go on with an answer that is already begun"
            )
        outcome = Run(d.table, d.automaton, spaces=False, complete=False).check(events[:end])
        episode, _ = build(outcome, d.table)
        if episode is not None:  # where the tools are defined, no record may say
            of = d.table.openers
            said = (
                m
                for m in episode.messages
                if m.role not in of or of[m.role].body not in DEFINITIONS
            )
            episode = replace(episode, messages=tuple(said))
        try:
            record = d.write(episode) if episode is not None else {}
        except ValueError as error:
            raise EndpointError(f"the conversation has no record: {error}") from None
        messages, unseen = self._messages(record)
        return Shown(messages, tuple(events[end:]), unseen, states[-1])

    def _messages(self, record: Json) -> tuple[list[Json], tuple[str, ...]]:
        """Returns the messages of a record, and the kinds of steps that these do not have."""
        table = self.form.dialect.table
        steps = self._bridge.steps(record, table).steps
        prompted = any(step.kind == "system" for step in steps)
        steps = tuple(
            replace(s, kind="system") if s.kind == IDENTITY and not prompted else s for s in steps
        )
        bridge = MessageBridge(_KINDS, HAS_IDS=True, PARALLEL=True)
        made = bridge.record(Conversation(with_ids(steps)[0]), table)["messages"]
        back = bridge.steps({"messages": made}, table).steps
        lost = Counter(s.kind for s in steps) - Counter(s.kind for s in back)
        return [self._message(message) for message in made], tuple(sorted(lost))

    def _message(self, message: Json) -> Json:
        """Returns a message of a record as the API has it."""
        out = {k: v for k, v in message.items() if not k.startswith("_") and k != WEIGHT}
        if out["role"] == "tool":
            out.pop("name", None)
        if "tool_calls" in out:
            out.setdefault("content", None)
            out["tool_calls"] = [
                call
                | {
                    "function": {
                        "name": self._named(call["function"]["name"]),
                        "arguments": json.dumps(call["function"]["arguments"], ensure_ascii=False),
                    }
                }
                for call in out["tool_calls"]
            ]
        return out

    def waiting(self, shown: Shown) -> list[Json]:
        """Returns the calls of an earlier answer that are to be made now."""
        length, calls = self._later
        self._later = (0, [])
        made = length + 2 == len(shown.messages) and shown.messages[-1]["role"] == "tool"
        return calls if made else []

    def read(
        self,
        ids: Sequence[int],
        shown: Shown,
        said: Message,
        forbidden: frozenset[str],
    ) -> Iterator[int | Repaired]:
        """Yields the ids of an answer, and what is repaired in it.

        `forbidden` are kinds of block that the model may not open. Raises EndpointError for an
        answer that says nothing, and NoRoom after one that was cut.
        """
        thinks = not (self.form.thinking and self.form.thinking <= forbidden)
        taken = answered(said, inner=self._inner, thinks=thinks)
        events = self._fitted(shown, taken)
        yield from taken.notes
        cut = not said.ended and not taken.calls
        if events is None and not cut:
            raise EndpointError("the model's answer says nothing that the format can hold")
        if events is not None and cut:
            texts = [i for i, event in enumerate(events) if event.terminal == TEXT]
            events = events[: texts[-1] + 1] if texts else []
        if events is not None:
            yield from self._ids(ids, shown, events, forbidden, ended=not cut)
        if cut:
            raise NoRoom("the server's answer was cut by a limit of tokens")

    def made(
        self,
        ids: Sequence[int],
        shown: Shown,
        calls: list[Json],
        forbidden: frozenset[str],
    ) -> Iterator[int | Repaired]:
        """Yields the ids of a call that was waiting."""
        taken = Answered({"role": "assistant", "content": None}, list(calls))
        events = self._fitted(shown, taken)
        yield from taken.notes
        if events is not None:
            yield from self._ids(ids, shown, events, forbidden, ended=True)

    def _ids(
        self,
        ids: Sequence[int],
        shown: Shown,
        events: list[Event],
        forbidden: frozenset[str],
        *,
        ended: bool,
    ) -> Iterator[int | Repaired]:
        events = self._after_headers(shown, events)
        for i, event in enumerate(events):
            text = self.form.harmless(event.text) if event.terminal == TEXT else event.text
            if text != event.text:
                shortened = f"{event.text[:60]!r}"
                yield Repaired((), f"a text spells a tag; it was written otherwise: {shortened}")
                events[i] = event._replace(text=text)
        yield from read_events(self.form, ids, events, ended=ended, forbidden=forbidden)

    def _after_headers(self, shown: Shown, events: list[Event]) -> list[Event]:
        """Returns the events of an answer without the tags that the conversation ends with."""
        heads = [event.terminal for event in shown.headers]
        there = [event.terminal for event in events[: len(heads)]] == heads
        return events[len(heads) :] if there else events[:]

    # What the format can hold of it

    def _fitted(self, shown: Shown, taken: Answered) -> list[Event] | None:
        """Returns the events of an answer, less what the format cannot hold; None if nothing is
        left. What is left out is noted.
        """
        calls = taken.calls = self._holdable(shown, taken)
        found = self._events(shown, taken.message, calls, taken)
        if len(calls) > 1 and (found is None or self._waits(shown, found)):
            found = self._events(shown, taken.message, calls[:1], taken)
            if found is not None:
                name = self.form.dialect.name
                self._later = (len(shown.messages), calls[1:])
                taken.note(
                    f"the model made {len(calls)} calls at once; {name} has one at a time, so they "
                    "are made one after the other",
                    damage=False,
                )
        return found

    def _waits(self, shown: Shown, events: list[Event]) -> bool:
        """Returns whether a call among events may come only after the result of another."""
        left, table = self._walked(shown, events)[1], self.form.dialect.table
        openers = {t.name for t in table.terminals.values() if t.opens in self.form.calls}
        return any(event.terminal in openers for event in left)

    def _walked(self, shown: Shown, events: list[Event]) -> tuple[int, list[Event]]:
        """Returns the state after what the model may write of an answer, and what is left of it."""
        state, left = shown.state, self._after_headers(shown, events)
        while left and left[0].terminal in self.form.model_writes[state]:
            state = self.form.dialect.automaton.step(state, left.pop(0).terminal)
        return state, left

    def _holdable(self, shown: Shown, taken: Answered) -> list[Json]:
        """Returns the calls that the format can hold, each by itself."""
        out: list[Json] = []
        for call in taken.calls:
            for ident in (call.get("id", ""), "", _letters(call.get("id", ""))):
                tried = {k: v for k, v in call.items() if k != "id"}
                tried |= {"id": ident} if ident else {}
                said = {"role": "assistant", "content": None}
                episode, why = self._read([*shown.recent, said | {"tool_calls": [tried]}])
                if episode is not None:
                    out.append(tried)
                    break
            else:
                taken.note(f"a call of {call['function']['name']!r} was left out: {why}")
        return out

    def _events(
        self, shown: Shown, said: Json, calls: list[Json], taken: Answered
    ) -> list[Event] | None:
        """Returns the events that an answer adds to a conversation; None if it cannot be held."""
        answer = said | ({"tool_calls": calls} if calls else {})
        if calls and not answer["content"]:
            answer["content"] = None
        recent, table = shown.recent, self.form.dialect.table
        notes: list[str] = []
        episode, _ = self._read([*recent, answer], notes)
        before, why = self._read(recent)
        if before is None:
            raise EndpointError(f"the conversation cannot be shown as messages: {why}")
        if episode is None:
            return None
        for note in notes:
            thought = note.startswith((*THOUGHTS, "think"))
            taken.note(f"left out of the answer: {note}", damage=not thought)
        events = list(events_of(episode.messages, table))
        old = list(events_of(before.messages, table))
        same = next(
            (i for i, (a, b) in enumerate(zip(old, events, strict=False)) if a[:2] != b[:2]),
            min(len(old), len(events)),
        )
        silent = not (answer["content"] or calls or THOUGHTS[0] in answer)
        if silent and self.form.model_writes[self._walked(shown, events[same:])[0]]:
            return None  # an empty answer, where the format wants one that says something
        return events[same:]

    def _read(
        self, messages: list[Json], lost: list[str] | None = None
    ) -> tuple[Episode | None, str]:
        """Returns the Episode of messages, or why there is none; adds what is lost to `lost`."""
        episode, findings = self._convert.read({"messages": messages} | self._defined)
        wrong = [f for f in findings if f.severity == "error" and f.code != _LOST]
        if episode is None or wrong:
            first = next(iter([*wrong, *findings]), None)
            return None, first.message if first else "the format cannot hold it"
        for event in events_of(episode.messages, self.form.dialect.table):
            patterns = (
                self.form.dialect.table.terminals[event.terminal].patterns if event.attrs else {}
            )
            for key, value in event.attrs:
                if key in patterns and not re.fullmatch(patterns[key], value):
                    return None, f"no tag can have the {key} {value!r}; expected {patterns[key]}"
        if lost is not None:
            lost += [f.message for f in findings if f.code == _LOST]
        return episode, ""


def _letters(ident: str) -> str:
    """Returns nine letters and digits of an id, as Mistral wants them."""
    return re.sub(r"[^A-Za-z0-9]", "", ident)[-9:].rjust(9, "0") if ident else ""
