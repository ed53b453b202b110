"""Extends a conversation by messages: the ids that are there stay, and new ones come after them.

Input: the ids of a prompt and of the answer to it, and the messages that come next: results of its
calls, or a question. Output: the ids of the next prompt. Nothing that a model wrote is parsed and
written again, so it is trained on exactly what it drew. The new ids are those that come after an
answer in a conversation of one question, which has calls of the same names.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from mypt_infer.controller.history import PROMPT, History
from mypt_infer.run_format import Format
from mypt_infer.serve.asked.prompts import Prompter
from mypt_infer.serve.deltas import DeltaReader
from mypt_spec import Dialect, Encoded
from mypt_spec.adapters.message_shape import counted_id
from mypt_spec.bodies.json_body import counting
from mypt_spec.episode import Event
from mypt_spec.patch import in_common

Message = dict[str, Any]


class Extension(NamedTuple):
    """A prompt: its ids, and of each the number of the new message that it is from, or -1.

    The first `kept` ids are those that were there: all, unless the conversation had ended for good.
    """

    ids: list[int]
    message_indices: list[int]
    kept: int


def extend(
    prompter: Prompter,
    ids: Sequence[int],
    messages: Sequence[Message],
    options: dict[str, Any] | None = None,
) -> Extension:
    """Returns the prompt after a conversation and new messages, none of which the model writes.

    An answer that was cut is ended as the format ends it. A mark that ends a conversation for good
    is replaced by what the format writes where it goes on. A result is that of the call with its
    id, else of the next one that has its name, else of the next one. `options` are those of the
    format's template. Raises ValueError for ids out of place, for an answer that was cut inside a
    call, and for messages that cannot come next.

    >>> import mypt_spec
    >>> d = mypt_spec.dialect("chatml")
    >>> tags = "<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\nYes<|im_end|>\\n"
    >>> ids = d.encode(d.parse(tags)[0]).ids.tolist()
    >>> new = extend(Prompter(d, "chatml"), ids, [{"role": "user", "content": "And?"}])
    >>> new.kept == len(ids), d.tokenizer.decode(new.ids[len(ids) :])
    (True, '<|im_start|>user\\nAnd?<|im_end|>\\n<|im_start|>assistant\\n')
    """
    if not messages or any(message.get("role") == "assistant" for message in messages):
        raise ValueError("the new messages must be some, and none of the assistant")
    form = prompter.format
    head = _ended(ids, form)
    calls, messages, past = _with_ids(messages, form, ids)
    tail, numbers = _tail(prompter, messages, calls, past, options or {})
    out = head + tail
    _history(prompter.dialect, out)
    return Extension(out, [-1] * len(head) + numbers, in_common([*map(int, ids)], out))


def indices_of(
    encoded: Encoded, sources: Mapping[str, str], count: int, first: int = 0
) -> list[int]:
    """Returns of each of `count` ids of a prompt the number of its message, less `first`; or -1."""
    indices = encoded.message_indices
    pairs = [(new.split("/")[2:3], old.split("/")[2:3]) for new, old in sources.items()]
    places = {int(new[0]): int(old[0]) - first for new, old in pairs if new and old}
    out = [places.get(n, -1 - first) for n in ([] if indices is None else indices.tolist()[:count])]
    runs = [(number, len([*run])) for number, run in groupby(out)]
    for at, (before, own, after) in enumerate(zip(runs, runs[1:], runs[2:], strict=False), 1):
        if own[0] < 0 and before[0] == after[0]:  # inside of the block of a message
            runs[at] = before[0], own[1]
    out = [max(-1, number) for number, length in runs for _ in range(length)]
    return out + [-1] * (count - len(out))


def _without_end(ids: Sequence[int], dialect: Dialect) -> list[int]:
    """Returns ids without what also belongs to the next block: white space, or its first piece."""
    out, table = [*map(int, ids)], dialect.table
    for tag, space in table.trails.items():
        trail = dialect.tokenizer.encode(space)
        if out[-len(trail) - 1 :] == [table.special[tag], *trail]:
            out = out[: -len(trail)]
    stops = {table.special.get(table.terminals[name].spelling[0].value) for name in table.stops}
    return out[:-1] if out and out[-1] in stops else out


def _history(dialect: Dialect, ids: list[int]) -> History:
    history = History(dialect)
    events, findings = dialect.lex_ids(ids)
    if findings:
        raise ValueError(f"{findings[0].code} {findings[0].message}")
    for event in events:
        history.step(event, event.at.extent[0])
    history.add(ids, PROMPT)
    return history


def _ended(ids: Sequence[int], form: Format) -> list[int]:
    """Returns ids whose last answer is ended. Raises ValueError for one in a call."""
    history = _history(form.dialect, _without_end(ids, form.dialect))
    if history.open and not form.awaits(history.state):
        if not form.calls.isdisjoint(history.open):
            raise ValueError("the answer was cut inside a call, which nothing can complete")
        tags = [form.dialect.table.terminals[name] for name in form.ending(history.state)]
        history.write([Event(tag.name, tag.spell()) for tag in tags], PROMPT)
    history.reopen()
    return _without_end(history.ids, form.dialect)


def _with_ids(
    messages: Sequence[Message], form: Format, ids: Sequence[int]
) -> tuple[list[Message], list[Message], int]:
    """Returns the last calls, and the messages, in which results have the ids of these calls.

    And how many calls were before, if ids count them.
    """
    results = any(message.get("role") == "tool" for message in messages)
    openers = {t.name for t in form.dialect.table.openers.values() if not t.body_by_model}
    events = form.dialect.lex_ids(ids)[0] if results else []
    begin = max([e.at.extent[0] for e in events if e.terminal in openers], default=0)
    reader = DeltaReader(form, ids[:begin])
    for i in ids[begin:] if results else ():
        reader.push(int(i))
    reader.end()
    table = form.dialect.table
    spelled = {c.id: counted_id(table, {"name": c.name, "id": c.id}) or c.id for c in reader.calls}
    named = [(n, call) for n, call in enumerate(reader.calls) if call.name]
    calls = [_call(call.name, spelled[call.id] or f"call-{n}") for n, call in named]
    counted, out = counting(table) is not None, list[Message]()
    past = int(reader.calls[0].id) if counted and reader.calls else 0
    written = {*spelled.values()}
    result_ids = [message.get("tool_call_id") for message in messages]
    answered = [None if ident is None else spelled.get(ident, ident) for ident in result_ids]
    waiting = [call for call in calls if call["id"] not in answered]
    for number, (message, ident) in enumerate(zip(messages, answered, strict=True)):
        name = message.get("name")
        if message.get("role") == "tool" and ident not in written:
            same = [c for c in waiting if c["function"]["name"] == name]
            call = next(iter(same or waiting), None)
            waiting = [c for c in waiting if c is not call]
            if call is None and not name:
                raise ValueError(f"messages[{number}]: no call waits for it, and it has no name")
            if call is None:
                calls.append(call := _call(str(name), f"call_{number}"))
            if ident and call["id"] not in written:
                call["id"] = ident
            ident = call["id"] if counted else ident or call["id"]
        out.append(message | ({"tool_call_id": ident} if ident else {}))
    return calls, out, past


def _call(name: str, ident: str) -> Message:
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": {}}}


def _tail(
    prompter: Prompter, messages: Sequence[Message], calls: list[Message], past: int,
    options: dict[str, Any],
) -> tuple[list[int], list[int]]:  # fmt: skip
    """Returns the ids that come after an answer with these calls, and the numbers of messages."""
    answer: Message = {"role": "assistant", "content": "" if calls else "!"}
    earlier = [_call("f", f"earlier-{n}") for n in range(past)]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "!"} for call in earlier]
    begun = [*prompter.question, *([answer | {"tool_calls": earlier}] if past else []), *results]
    begun.append(answer | ({"tool_calls": calls} if calls else {}))
    episode, parsed, sources = prompter.episode([*begun, *messages], (), options)
    ids = prompter.ids(episode, parsed, sources)
    dialect, encoded = prompter.dialect, prompter.dialect.encode(episode, partial=True)
    numbers = indices_of(encoded, sources, len(ids), len(begun))
    first = next(at for at, number in enumerate(numbers) if number >= 0)
    trained = encoded.loss[:first].nonzero()[0]
    if not trained.size:  # results are in the message of their calls
        encoded = dialect.encode(prompter.episode(begun, (), options)[0], partial=True)
        trained = encoded.loss.nonzero()[0]
    drawn = int(trained[-1]) + 1  # ids up to where the model stopped
    start = len(_ended(encoded.ids[:drawn].tolist(), prompter.format))
    return ids[start:], numbers[start:]
