"""Holds what is learned of a chat template: the literals around each kind of text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

DAY = "Zx31day"  # in probes, today's date as a template has it
NAME = "\0"  # where the name of a tool is, in the literal of a tag
IDENT = "\1"  # where the id of a call is
_ATTRS = {
    NAME: {"attr": "name", "pattern": r'[^"\\\n<>\[\]{}]+'},
    IDENT: {"attr": "id", "pattern": "[a-zA-Z0-9_-]+"},
}


class NotLearnedError(ValueError):
    """A template does what the learner or the tables of a format cannot say; the message is why."""


@dataclass(frozen=True, slots=True)
class Block:
    """The literals around a kind of text; without `closer`, the next opener ends it.

    `strip` says what the template strips of the text, `prefix` and `suffix` are the white space
    with which it begins and ends then, and `blank` says whether an empty one is written alike.
    `lead` opens an answer with a thought, or a system block that begins with tools, if that is
    another literal.
    """

    opener: str
    closer: str = ""
    strip: str = ""
    prefix: str = ""
    suffix: str = ""
    blank: bool = True
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Tools:
    """The literals of tools, calls and results.

    `definitions` are at a `place`: "after" or "before" the text in the system block, parted by
    `beside`; in a block before the "system" message, the "first" or the "last" question; or in the
    text of that "first question" or "last question"; or in the `head` of the shape. System blocks,
    or it, begin with `head`: its first text only if there are tools, its last if there are none.
    White space parts calls from a text, if `first` also from the header of the answer, and
    `after_call` ends one and opens the next (None: there is none); so does `after_tool` with
    definitions. With `late`, a text beside calls is after their results; it is "ended" as an answer
    is, in "prompts" alone, or else one text with what follows. Results are `inside` of a
    question's block, or of one for all `results` of a message; or they are blocks; or a turn is
    `one_block`, with all results and answers; if it `waits`, a model stops at the tag of a result.
    The opener of a call without tags has its name, `NAME`, and its closer ends the answer, too.
    `end` ends a message with calls, whose thoughts go once the turn is `answered`. `said`: a text
    beside calls. `around`: a block around the definitions.
    """

    definitions: Block
    body: str
    place: str
    beside: str
    default: str | None
    head: tuple[str, str, str]
    call: Block
    call_body: str
    after_text: str | None
    after_call: str | None
    result: Block
    result_body: str
    inside: bool
    after_result: str
    results: Block | None
    one_block: bool
    first: bool = False
    waits: bool = False
    late: str = ""
    after_tool: str = ""
    end: str = ""
    answered: bool = False
    said: Block | None = None
    around: Block | None = None

    @property
    def again(self) -> str:
        """Returns the terminal that ends a call and opens the next; "" if no message has two."""
        if self.after_call is None:
            return ""
        return "CALL_OPEN" if self.after_call == self.call.opener else "CALL_AGAIN"

    @property
    def between(self) -> dict[str, str]:
        """Returns what ends a call, or a definition, and opens the next, in one tag; and nothing
        for an answer that goes on after its closing tag."""
        call = (self.after_call or "") * (self.again == "CALL_AGAIN")
        tags = {p: text for p, text in (("CALL", call), ("TOOLS", self.after_tool)) if text}
        return tags | ({"ANSWER": ""} if self.late in ("ended", "prompts") else {})


@dataclass(frozen=True, slots=True)
class Shape:
    """The literals of a template.

    - `begin` comes before everything, `tail` after it; or it `ends` the last answer in place of the
      closer. With `bare_end`, the last closer has no white space after it. `after_answer` is the
      white space between answers and questions, or opens all questions but the first. `ending` and
      `day` are as in `Renderings`; the date is in what begins each system block.
    - `default`: the text of the system block of conversations without a system message. If a format
      `needs_system` and has none, it refuses these, unless it is `dated`: a text with a date.
      `plain` is in place of that block.
    - `system_in`: what is around the system message, with which the first question begins, and
      what this question loses, if that is not what all do.
    - `drops`: thoughts of earlier turns are left out; before the text after one, white space that
      it `leaves`. `strip_before_calls`: what a text loses there in a message with calls. `fills`:
      the last answer has an empty one if it has no other. `trims`: what the text after a thought
      loses.
    - `always`: an answer without a thought has an empty one; `each`: those after the last question.
    - With `spoken`, a model writes what opens thoughts and answers, and prompts end before it.
    - With `unprompted`, the white space with which the header of answers begins is in no prompt.
    - `head` begins each conversation, with a text or date, and nothing of a record but tools.
    - `opens`: a prompt ends with the opener of a thought; `empties`: with an empty thought, and
      `only_prompts` do, where answers without a thought have none.
    - `options`: rows of `[[option]]` by names; `lacks`: options and values that the format has not.
    - `no_system`, `no_thoughts`, `no_tools`: why these are not learned.
    """

    begin: str
    user: Block
    answer: Block
    system: Block | None = None
    after_answer: str = ""
    default: str | None = None
    needs_system: bool = False
    dated: str = ""
    plain: str = ""
    system_in: tuple[str, str, str] | None = None
    thought: Block | None = None
    drops: bool = False
    fills: bool = False
    each: bool = False
    always: bool = False
    spoken: bool = False
    unprompted: bool = False
    head: Block | None = None
    trims: str = ""
    leaves: str = ""
    strip_before_calls: str = ""
    opens: bool = False
    empties: bool = False
    only_prompts: bool = False
    tail: str = ""
    ends: bool = False
    bare_end: bool = False
    ending: tuple[str, str] = ("", "")
    day: tuple[str, str, str] = ("", "", "")
    tools: Tools | None = None
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    no_system: str = ""
    no_thoughts: str = ""
    no_tools: str = ""


def pieces(literal: str, special: Iterable[str]) -> list[dict[str, Any]]:
    """Returns a literal as pieces of a spelling: special tokens, texts, white space at the ends.

    >>> pieces("<|x|>user\\n", ["<|x|>"])
    [{'special': '<|x|>'}, {'text': 'user'}, {'space': '\\n', 'exact': True}]
    """
    longest = sorted(filter(None, special), key=len, reverse=True)
    tags = "|".join(map(re.escape, longest)) or "(?!)"
    out: list[dict[str, Any]] = []
    for part in filter(None, re.split(rf"({tags}|{NAME}|{IDENT}|\A\s+|\s+\Z)", literal)):
        kind = "space" if part.isspace() else "special" if part in longest else "text"
        piece = {kind: part} | ({"exact": True} if kind == "space" else {})
        out.append(_ATTRS.get(part, piece))
    return out
