r"""Helps a chat loop over the praxis format: when to stop, what to call, where the result goes.

Each function takes text: a whole conversation, or only what a model wrote after the last header.
Calls are searched for in assistant blocks alone, so what a user or a tool writes is never a call.
Implements `grammar/praxis/SPEC.md` sections 6 and 10.

>>> text = '<tin>\n{"name": "calc", "arguments": {"x": "2 + 2"}}\n</tin>'
>>> call, end = pending_call(text)
>>> call.name, call.arguments, end == len(text)
('calc', {'x': '2 + 2'}, True)
>>> splice(text, "4")[end:]
'<tout>4</tout>'
"""

import logging
from collections.abc import Iterator
from typing import NamedTuple

import mypt_spec
from mypt_infer.run_format import ToolCall, format_of
from mypt_infer.toolbox import Toolbox, error
from mypt_spec.damage.cut_tags import Blocks, cuts, nestings, repaired
from mypt_spec.episode import Event
from mypt_spec.states import open_blocks
from mypt_spec.table import STRAY, TEXT

_D = mypt_spec.dialect("praxis")
_TABLE, _FORMAT = _D.table, format_of("praxis")
_log = logging.getLogger(__name__)
_BOS = "[BOS]"
# The header that a text without any header continues.
_HEADER = "[BOS]assistant\n"
# The number of characters that tell whether a text begins with a header.
_BEGIN = 40


def _headed(text: str) -> str:
    """Returns the text, with a header before it if it is only what a model wrote."""
    first = next(iter(_D.lex(text.lstrip()[:_BEGIN])), None)
    terminal = _TABLE.terminals.get(first.terminal) if first is not None else None
    headed = first is not None and first.terminal == STRAY
    headed |= terminal is not None and terminal.spelling[0].value == _BOS
    return text if headed else _HEADER + text


class _Span(NamedTuple):
    """An event, the blocks that are open after it, and where it begins and ends in the text."""

    event: Event
    open: tuple[str, ...]
    start: int
    end: int


def _walk(text: str) -> Iterator[_Span]:
    """Yields the events of a text. A tag of plain text in a block that cannot hold it is text."""
    headed = _headed(text)
    shift = len(headed) - len(text)
    blocks = Blocks(_TABLE)
    nested = nestings(_TABLE, _D.automaton)
    for event in _D.lex(headed):
        before = list(blocks.open)
        terminal = _TABLE.terminals.get(event.terminal)
        if terminal is not None:
            blocks.read(event.terminal)
            legal = tuple(blocks.open[-2:]) in nested
            if terminal.closes:
                legal = terminal.closes in before[-1:]
            if terminal in _TABLE.plain_tags and not legal:
                blocks.open, event = before, event._replace(terminal=TEXT)
        start, end = event.at.extent
        yield _Span(event, tuple(blocks.open), max(0, start - shift), max(0, end - shift))


def stop_set(generated: str, *, max_tool_tag_tokens: int | None = None) -> set[str]:
    r"""Returns the tokens that end generation after this text: EOS, and SEP unless a call is open.

    A result that is open excludes SEP, too. A call that already has more than `max_tool_tag_tokens`
    tokens, tags included, is given up: then SEP ends generation, too.

    >>> sorted(stop_set("The answer is")), sorted(stop_set('<tin>\n{"name": "calc"'))
    (['EOS', 'SEP'], ['EOS'])
    """
    inside: tuple[str, ...] = ()
    began = 0  # where the innermost block begins
    for span in _walk(generated):
        began = span.start if len(span.open) > len(inside) else began
        inside = span.open
    bounded = max_tool_tag_tokens is not None and inside[-1:] == ("tin",)
    if bounded and len(_D.tokenizer.encode(generated[began:])) > (max_tool_tag_tokens or 0):
        return {"EOS", "SEP"}
    stacks = open_blocks(_D.automaton, _TABLE).items()
    states = [state for state, stack in stacks if stack[-1:] == inside[-1:]]
    legal = {name for state in states for name in _D.automaton.allowed(state)} - {TEXT}
    closers = [_TABLE.terminals[name] for name in legal if _TABLE.terminals[name].closes]
    stops = any(part.kind == "special" for closer in closers for part in closer.spelling)
    return {"EOS", "SEP"} if stops or not inside else {"EOS"}


def pending_call(text: str) -> tuple[ToolCall, int] | None:
    """Returns the first call without a result, and where its `</tin>` ends; None if there is none.

    A call that is not closed is not pending. A block whose body is no call is skipped, and a
    warning is logged.
    """
    for call, reason, block, end in _waiting(text):
        if call is not None:
            return call, end
        _log.warning("passed over a tool call that cannot be read (%s): %.200r", reason, block)
    return None


def _waiting(text: str) -> Iterator[tuple[ToolCall | None, str, str, int]]:
    """Yields the blocks without a result: (call, why it is none, text of the block, its end)."""
    opener: _Span | None = None
    closer: _Span | None = None
    for span in [*_walk(text), None]:
        if closer is not None and opener is not None:
            if span is not None and span.event.terminal == TEXT and span.event.text.isspace():
                continue
            if span is None or span.event.terminal != _TABLE.openers["tout"].name:
                block = text[opener.start : closer.end]
                calls, reason = _FORMAT.read_calls(
                    opener.event, text[opener.end : closer.start], block
                )
                yield calls[0] if calls else None, reason, block, closer.end
            closer = opener = None
        if span is not None and span.event.terminal == _TABLE.openers["tin"].name:
            opener = span
        elif span is not None and span.event.terminal == _TABLE.closers["tin"].name:
            closer = span


def answer(text: str, tools: Toolbox, *, seconds: float | None = None) -> str | None:
    r"""Returns the text with the answer to its first call without a result; None if there is none.

    Whatever goes wrong becomes the answer: a call that cannot be read, a tool that is unknown,
    raises or takes longer than `seconds`.

    >>> answer("<tin>\n{1}\n</tin>", Toolbox())[16:59]
    '<tout>{"error": {"type": "bad_call", "messa'
    """
    waiting = next(_waiting(text), None)
    if waiting is None:
        return None
    call, reason, _, end = waiting
    value = error("bad_call", reason)
    if call is not None:
        value = tools.call(call.name, call.arguments, seconds=seconds)
    return _spliced(text, end, _FORMAT.result_body(value))


def splice(text: str, result: str) -> str:
    r"""Returns the text with a result directly after the `</tin>` of the pending call.

    If none of the calls without a result can be read, the result follows the first of them: it then
    says what is wrong. Tags in a result are written with a `\u` escape, because a tool cannot write
    structure, and a warning is logged. Raises ValueError if no call waits for a result.
    """
    waiting = list(_waiting(text))
    chosen = next((w for w in waiting if w[0] is not None), None) or next(iter(waiting), None)
    if chosen is None:
        raise ValueError("no call waits for a result")
    harmless = _FORMAT.result_body(result)
    if harmless != result:
        _log.warning("the result of %.80r spells a tag; it is written with an escape", chosen[2])
    return _spliced(text, chosen[3], harmless)


def _spliced(text: str, at: int, body: str) -> str:
    opener, closer = _TABLE.openers["tout"].spell(), _TABLE.closers["tout"].spell()
    return text[:at] + opener + body + closer + text[at:]


def fix_truncated_tags(text: str) -> str:
    """Returns the text with tags that were cut short or torn in two written in full.

    This is a safety net for text from elsewhere; each change is logged as a warning. Well-formed
    text is not changed, nor is the content of a string in an open call.
    """
    headed = _headed(text)
    header = "" if headed == text else _HEADER
    while faults := cuts(_D.lex(headed), _TABLE, _D.automaton):
        for fault in faults:
            _log.warning("wrote %r in place of %r", fault.spelling, headed[slice(*fault.span)])
        headed = repaired(headed, faults)
    return headed.removeprefix(header)
