"""Handles GabGPT's chat log at run time: what is sent to the model, shown, and dropped.

Input and output are logs, which are serialised text. A `Controller` runs whole turns.
The results of `prepare` and `prepare_raw` are legal beginnings if the log was one, or raw text.
"""

import logging
from collections.abc import Sequence
from typing import TypeVar

import mypt_spec
from mypt_spec.table import TEXT

_D = mypt_spec.dialect("gabgpt")
_TAGS = ("USER", "THINK", "ASSISTANT", "END")
USER, THINK, ASSISTANT, END = (_D.table.terminals[name].bare for name in _TAGS)
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def prepare(log: str, message: str, *, think: bool = False) -> str:
    r"""Returns the log with a new user message, ready for generation.

    It ends with the opening tag of the model's segment. Where the log ends with what the user said,
    a line end joins the message to it. A tag that the user typed is written with `\u003c` for its
    `<`, so that it never becomes a tag. Of both, a warning is logged.

    >>> prepare("<|user|>Hi<|assistant|>Hello!<|end|><|user|>", "How are you?")
    '<|user|>Hi<|assistant|>Hello!<|end|><|user|>How are you?<|assistant|>'
    """
    if any(terminal != TEXT for terminal, _ in _pieces(message)):
        problem = "the message spells a tag of the format; it was written so that it is none"
        _log.warning("%s: %r", problem, message[:80])
        message = _D.table.literals.sub(lambda m: "\\u003c" + m[0][1:], message)
    start = _open_user(log)
    between = "\n" if message and not start.endswith(USER) else ""
    if between:
        _log.warning("the log ends with what the user said: a line end joins the new message to it")
    return start + between + message + (THINK if think else ASSISTANT)


def prepare_raw(log: str, *, think: bool = False) -> str:
    """Returns the log as it is, ready for generation.

    The log is raw text, or ends with what the user said; an empty message takes the place of one
    that is not there, and a warning is logged. If it ends with thinking, it is made ready
    for the second round, in which the answer is written.

    >>> prepare_raw("Hello", think=True)
    '<|user|>Hello<|think|>'
    """
    pieces = _stripped(log)
    if _inside(pieces) == THINK:
        return "".join(piece for _, piece in pieces) + ASSISTANT
    start = _open_user(log)
    if start.endswith(USER):
        _log.warning("the log has no message of the user that is to be answered: it is left empty")
    return start + (THINK if think else ASSISTANT)


def cleanup(log: str) -> str:
    """Returns a log after generation, ready for what the user says next.

    It ends with the user's opening tag. Opening tags that nothing follows are removed; an answer
    that was cut off is closed.

    >>> cleanup("<|user|>Hi<|assistant|>Hello!")
    '<|user|>Hi<|assistant|>Hello!<|end|><|user|>'
    """
    pieces = _stripped(log)
    text = "".join(piece for _, piece in pieces)
    # An opened user segment that says something already is the user's: it stays open.
    return text if _inside(pieces) == USER and pieces else _open_user(log)


def display(log: str) -> list[tuple[str, str]]:
    """Returns the bubbles of a chat window: `("user" | "think" | "assistant", text)`.

    Tags and empty segments are not shown. Text before the first tag is the user's.

    >>> display("<|user|>2+2?<|think|>Add.<|assistant|>4<|end|><|user|>")
    [('user', '2+2?'), ('think', 'Add.'), ('assistant', '4')]
    """
    kinds = {USER: "user", THINK: "think", ASSISTANT: "assistant", END: "user"}
    out, kind = [], "user"
    for terminal, text in _pieces(log):
        if terminal == TEXT:
            out.append((kind, text))
        else:
            kind = kinds[text]
    return out


def truncate(tokens: Sequence[_T], max_len: int, *, whole_turns: bool = True) -> list[_T]:
    """Returns at most the last `max_len` tokens, ids or strings.

    The result begins where a turn begins, unless `whole_turns` is off. If the last turn alone is
    too long, its end is returned and a warning is logged. Raises ValueError for a negative
    `max_len`.
    """
    if max_len < 0:
        raise ValueError(f"max_len is {max_len}, expected 0 or more")
    first = max(0, len(tokens) - max_len)
    if not first or not whole_turns:
        return list(tokens[first:])
    boundary = (USER, _D.table.special[USER])
    turn = next((i for i in range(first, len(tokens)) if tokens[i] in boundary), None)
    if turn is None:
        _log.warning(
            "the last turn alone has more than %d tokens; its beginning was cut off", max_len
        )
        return list(tokens[first:])
    return list(tokens[turn:])


def _pieces(text: str) -> list[tuple[str, str]]:
    return [(event.terminal, event.text) for event in _D.lex(text)]


def _stripped(log: str) -> list[tuple[str, str]]:
    """Returns the log without openers that nothing follows, and without ends that close nothing."""
    pieces = _pieces(log)
    while pieces and pieces[0][1] in (THINK, ASSISTANT, END):
        pieces.pop(0)
    if pieces and pieces[0][1] != USER:
        pieces.insert(0, ("USER", USER))
    while pieces and pieces[-1][0] != TEXT:
        if [terminal for terminal, _ in pieces[-3:]] == ["ASSISTANT", TEXT, "END"]:
            break  # the log ends with an answer
        pieces.pop()
    return pieces


def _inside(pieces: list[tuple[str, str]]) -> str:
    """Returns the last tag; END if there is none."""
    return next((piece for terminal, piece in reversed(pieces) if terminal != TEXT), END)


def _open_user(log: str) -> str:
    pieces = _stripped(log)
    text, inside = "".join(piece for _, piece in pieces), _inside(pieces)
    if inside == USER:
        return text
    # A segment of the model that was cut off is closed, so that the next turn begins where one may.
    return text + {END: "", ASSISTANT: END, THINK: ASSISTANT + END}[inside] + USER
