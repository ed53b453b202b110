"""Makes the prompt of a conversation as the API has it, by the adapters that read records.

Input: messages and tools of a request. Output: ids that end where the model is to go on. What the
format has no place for is refused by its place, since the model would not see it; only tools that
the format does not declare are left out of the text, where the decoder binds calls to them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from mypt_convert.bridges import chat
from mypt_convert.engine import Converter, DialectJudge
from mypt_infer.decode.prompt import prompt_ids
from mypt_infer.run_format import format_of
from mypt_infer.serve.asked.errors import ApiError, place_of
from mypt_records.chat import Chat
from mypt_records.shapes import read as read_chat
from mypt_spec import Dialect, Finding
from mypt_spec.adapters.template_options import KEY
from mypt_spec.encoder import encode_events
from mypt_spec.episode import Episode, Event
from mypt_spec.states import resumed
from mypt_spec.table import TEXT

_SHAPE = "openai"
_MESSAGE = re.compile(r"/messages/\d+")
_LOST, _UNKNOWN = "MYP114", "MYP361"
# A prompt has no end, and nothing that is trained.
_OF_PROMPTS = {"MYP218", "MYP252", "MYP501"}
# Of an answer of ours: what the reader of records has no name for.
_OURS = "citations"


class Prompt(NamedTuple):
    """A prompt as ids, and the names of the tools that are called in it."""

    ids: list[int]
    called: frozenset[str]


class PromptJudge(DialectJudge):
    """Judges records as prompts: they need no end."""

    def read(self, record: Any) -> tuple[Episode | None, list[Finding]]:
        episode, findings = self.dialect.read(record)
        return episode, [f for f in findings if f.code not in _OF_PROMPTS]


class Prompter:
    """Makes prompts in a dialect, which has this name or is in this folder.

    `system` is the system prompt of conversations that have none. With `all_tools`, tools that the
    format cannot declare are refused, too. Thoughts of earlier turns are those of the official
    template, unless `history` is "keep".
    """

    def __init__(
        self, dialect: Dialect, name: str, *, system: str | None = None, all_tools: bool = False,
        history: str = "official",
    ) -> None:  # fmt: skip
        self.dialect, self.format = dialect, format_of(dialect)
        self._system, self._all_tools, self._history = system, all_tools, history
        self._convert = Converter(_SHAPE, name, system=system, judge=PromptJudge(dialect))

    @cached_property
    def question(self) -> list[dict[str, Any]]:
        """Returns a shortest conversation, with a system prompt if the format begins with one."""
        question = [{"role": "user", "content": "?"}]
        try:
            self.prompt(question, ())
        except ApiError:
            question.insert(0, {"role": "system", "content": "."})
        return question

    def prompt(
        self, messages: Sequence[Any], tools: Sequence[Any], options: dict[str, Any] | None = None
    ) -> Prompt:
        """Returns the prompt of a conversation, with `options` of the format's template.

        Raises ApiError saying what cannot be read, or what the model could not see.
        """
        episode, parsed, sources = self.episode(messages, tools, options)
        (written,) = self.dialect.trained(episode, history=self._history)
        called_names = {call.name.text for message in parsed.messages for call in message.calls}
        return Prompt(self.ids(written, parsed, sources), frozenset(called_names))

    def episode(
        self, messages: Sequence[Any], tools: Sequence[Any], options: dict[str, Any] | None = None
    ) -> tuple[Episode, Chat, Mapping[str, str]]:
        """Returns a conversation as an Episode and as a Chat, and the sources of its messages.

        These map pointers of the messages of the Episode to those of the conversation. Raises
        ApiError where `prompt` does.
        """
        spoken = [
            {k: v for k, v in m.items() if k != _OURS} if isinstance(m, dict) else m
            for m in messages
        ]
        kinds, first = self._convert.bridge.KINDS, spoken[0] if spoken else None
        has_system_alone = "system" in kinds and "developer" not in kinds
        if has_system_alone and isinstance(first, dict) and first.get("role") == "developer":
            spoken[0] = {**first, "role": "system"}
        order = _order(spoken) if self.dialect.adapter.ordered else [*range(len(spoken))]
        places = {f"/messages/{new}": f"/messages/{old}" for new, old in enumerate(order)}
        spoken = [spoken[number] for number in order]
        record: dict[str, Any] = {"messages": spoken} | ({"tools": list(tools)} if tools else {})
        record |= {KEY: options} if options else {}
        source_chat = read_chat(record, _SHAPE)
        conversation, _, parsed = chat.read(record, source_chat)
        if conversation is not None:
            for finding in chat.unknown(parsed, frozenset({KEY})):
                key = finding.pointer.rpartition("/")[2]
                problem = f"{self.dialect.name} has no place for {key!r}"
                raise _refused(problem, _at(finding.pointer, places))
        out, findings = self._convert.outcome(record, source_chat)
        episode = out.episode
        for finding in findings:
            of_tools = finding.code == _LOST and finding.pointer.startswith("/tools")
            if of_tools and not self._all_tools:
                continue
            if finding.code == _UNKNOWN:
                raise ApiError(f"{finding.message}; {finding.help}", param=KEY, code=finding.code)
            if finding.code == _LOST or finding.severity == "error" or episode is None:
                raise _refused(finding.message, _at(finding.pointer, places), finding.code)
        if episode is None:
            raise ApiError("the messages cannot be read", param="messages")
        return episode, parsed, {new: _at(old, places) for new, old in out.sources.items()}

    def ids(self, episode: Episode, parsed: Chat, sources: Mapping[str, str]) -> list[int]:
        """Returns ids that end where the model is to go on, of what `episode` has returned.

        Raises ApiError if the model may not go on.
        """
        try:
            ids = prompt_ids(self.dialect, episode)
        except ValueError as error:
            own = str(error)
            message = _MESSAGE.sub(lambda found: sources.get(found[0]) or found[0], own)
            if self._system is None and " at /messages/0/" in own:
                message += "; is a system message missing? The server's --system would be it"
            raise ApiError(message, param="messages") from None
        is_result = parsed.messages and parsed.messages[-1].role == "tool"
        return self._after_result(ids) if is_result else ids

    def _after_result(self, ids: list[int]) -> list[int]:
        """Returns a prompt without what ends the turn, where results are inside of the answer."""
        table, tokenizer, result = self.dialect.table, self.dialect.tokenizer, self.format.result
        events, _ = self.dialect.lex_ids(ids)
        state = resumed(state_after(self.dialect, events), self.dialect.automaton, table)
        if result is None or self.format.model_writes[state]:
            return ids
        closer = table.closers[result.opens].name  # or a text is after the results
        ends = [at for at, event in enumerate(events, 1) if event.terminal in (closer, TEXT)]
        # Of tags of plain text, the ids of the last one are with what comes after it.
        return encode_events(events[: ends[-1]], table, tokenizer).ids.tolist() if ends else ids


def state_after(dialect: Dialect, events: Iterable[Event]) -> int:
    """Returns the state of the grammar after the events of a legal beginning."""
    state = dialect.automaton.start
    for event in events:
        state = dialect.automaton.steps[state].get(event.terminal, state)
    return state


def _order(messages: Sequence[Any]) -> list[int]:
    """Returns the numbers of messages, with results that all name their calls in the order of these
    calls: a format without ids tells them by their order.
    """
    out, ids = list[int](), list[str]()
    plain = [message if isinstance(message, dict) else {} for message in messages]
    for role, run in groupby(range(len(plain)), lambda number: plain[number].get("role")):
        numbers = [*run]
        named = [plain[number].get("tool_call_id") for number in numbers]
        if role == "tool" and all(name in ids for name in named):
            numbers.sort(key=lambda number: ids.index(plain[number]["tool_call_id"]))
        out += numbers
        calls = plain[numbers[-1]].get("tool_calls")
        objects = [c for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []
        ids = [call["id"] for call in objects if isinstance(call.get("id"), str)]
    return out


def _at(pointer: str, places: Mapping[str, str]) -> str:
    """Returns a pointer into sorted messages as one into those of the client."""
    message = _MESSAGE.match(pointer)
    return places.get(message[0], message[0]) + pointer[message.end() :] if message else pointer


def _refused(message: str, pointer: str, code: str | None = None) -> ApiError:
    place = place_of(pointer) or "messages"
    note = "; the model could not see it" if code in (None, _LOST) else ""
    return ApiError(f"{place}: {message}{note}", param=place, code=code)
