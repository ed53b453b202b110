"""Learns the literals of a chat template from what it makes of words.

Between unique words are the literals. They are cut where the end of one text and the beginning of
the next are told apart, by what stays the same if the neighbours change. Whatever does not fit
raises NotLearnedError with the reason: nothing is guessed.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from mypt_lint.derive.probe import Probe, Renderings, chat, literals, words
from mypt_lint.derive.shape import DAY, NAME, Block, NotLearnedError, Shape
from mypt_lint.template.checks import LIKELY_SPECIAL
from mypt_spec.patch import in_common
from mypt_spec.table import Terminal

_BLOCK = Terminal("BLOCK", (), 1, "model", 1, "")
_STRIPS = {
    how: replace(_BLOCK, strip=how).stripped
    for how in ("", "both", "right", "left", "lines", "left lines", "right lines")
}
_S, _Q, _A, _Q2, _A2 = words(5)
_T = words(10)[-1]
_EDGES = (f" \n {_T} \n\n", f"\n\n{_T}\n")  # a text with white space around it


class Learner:
    """Learns the shape of a model's conversations; `tokens` may begin and end them."""

    def __init__(self, render: Renderings, tokens: dict[str, str]) -> None:
        self.render = render
        self.bos, self.eos = (tokens.get(f"{name}_token", "") for name in ("bos", "eos"))

    def _literals(self, probe: Probe, what: str, how: str = "") -> list[str]:
        """Returns what is around the words of a conversation, which are numbered in their order."""
        texts = [m.get(key) for m in probe for key in ("reasoning_content", "content")]
        numbers = {word: i for i, word in enumerate(filter(None, texts))}
        text = self.render.text(probe, how=how)
        if text is None:
            raise NotLearnedError(f"the template refuses {what}: {self.render.refusal(probe)}")
        for word, number in numbers.items():
            text = text.replace(word, words(number + 1)[-1])
        out = literals(text, len(numbers))
        if out is None:
            raise NotLearnedError(f"{what} is written twice, moved or left out")
        return out

    def shape(self) -> Shape:
        """Returns the literals of chats and thoughts."""
        first, to_answer, end = self._literals(chat(*words(2)), "a question and its answer")
        two = self._literals(chat(*words(4)), "a second question")
        begin, earlier, between, last, final = two
        if (begin, last, final) != (first, to_answer, end):
            raise NotLearnedError("a second question changes the literals of the first or last")
        prompt = self._literals(chat(*words(1)), "a question alone", "prompt")[1]
        question_end = self._literals(chat(*words(1)), "a question alone")[1]
        header = earlier if prompt.startswith(earlier) else prompt
        is_closer = question_end.strip() and header.startswith(question_end)
        closer = question_end if is_closer and header != question_end else ""
        lead, opener, end_of_thought, prompted = "", "", "", prompt
        with suppress(NotLearnedError):
            opener, end_of_thought = self._thought()
            tags = (tag.start() for tag in LIKELY_SPECIAL.finditer(opener))
            shared_header = opener[: max(tags, default=len(opener))]
            is_header = last.startswith(shared_header) and not opener.startswith(last)
            if earlier == last == opener + end_of_thought:
                header = shared_header if opener == prompt else header
            elif earlier == last and is_header and prompt != shared_header:
                on = self.render.text(chat(_Q), how="prompt", enable_thinking=True) or ""
                header, lead = last, shared_header[len(closer) :]
                prompted = header + on.partition(_Q)[2].removeprefix(shared_header)
        at = in_common(last, prompt)
        rest, space = prompt[at:], last[at:].removesuffix(prompt[at:])
        unprompted = earlier == last == prompt[:at] + space + rest and space.isspace()
        if unprompted := unprompted and rest.strip() != "":
            closer, header, prompt, prompted = last[:at], last, last, last
        for where, literal in (("an earlier", earlier), ("the last", last)):
            if not literal.startswith(header):
                ends = f"the prompt ends with {prompt[-30:]!r}, and before {where} answer"
                raise NotLearnedError(f"{ends} is {literal[-30:]!r}")
        if not header[len(closer) :]:
            raise NotLearnedError("a prompt ends as a question does")
        closing = between[: len(between) - in_common(first[::-1], between[::-1])]
        tag = LIKELY_SPECIAL.search(between)
        if not (end.strip() or any(self.render.ending)):  # nothing ends the last answer
            closes = closing.strip() and tag is not None and tag.end() <= len(closing)
            stops = not closing and tag is not None and tag.start() == 0  # where the next tag is
            added = closing.removeprefix(end) if closes else self.eos
            if added and not stops:
                self.render.ending = "", added
                return replace(self.shape(), ending=self.render.ending)
        size = len(end) if between.startswith(end) else _last_tag(first, between, end)
        replaced = bool(closer) and first.endswith(between.removeprefix(closer) or " ")
        size = len(closer) if replaced and not end.startswith(between[:size] or " ") else size
        answer_end, to_user = between[:size], between[size:]
        tail = end.removeprefix(answer_end)
        replaces = bool(tail) and tail == end  # in place of the tag after an earlier answer
        if end.startswith(answer_end) and tail and prompt.endswith(tail):
            self.render.ending = tail, ""
            return replace(self.shape(), ending=self.render.ending)
        if not (replaces or end.startswith(answer_end)) or prompt.endswith(tail or NAME):
            raise NotLearnedError(f"an answer ends with {answer_end!r}, and the last with {end!r}")
        space = to_user[: -len(to_user.lstrip())]
        after_system = (self.render.text(chat(_Q, system=_S)) or "").partition(_S)[2]
        if first.endswith(to_user) and not after_system.startswith(to_user.lstrip() + _Q):
            space = ""  # else it belongs to what is before the question
        answer_end, to_user = answer_end + space, to_user.removeprefix(space)
        begin, after = first.removesuffix(to_user), ""
        if not first and to_user and answer_end.strip():
            after, to_user = to_user, ""
        elif not to_user or not first.endswith(to_user):
            raise NotLearnedError(f"before the first question is {first[-30:]!r}, not {to_user!r}")
        if answer_end.isspace():
            if not self.render.ending[1]:
                raise NotLearnedError("nothing but white space is after an answer")
            after, answer_end, tail, replaces = answer_end, "", end, True
        earlier, last = earlier[len(header) :], last[len(header) :]
        prefix = last if last == earlier and last in (" ", "\n") and header == prompt else ""
        earlier, last = earlier.removeprefix(prefix), last.removeprefix(prefix)
        is_thought = header + last == opener + end_of_thought
        spoken = last if earlier == last and not is_thought else ""  # by the model
        earlier, last = ("", "") if spoken else (earlier, last)
        user = Block(to_user, header if spoken else closer)
        answer = Block(spoken or header[len(closer) :], answer_end, prefix=prefix, lead=lead)
        shape = Shape(
            begin, user, answer, tail=tail, ends=replaces, bare_end=bool(space),
            after_answer=after, spoken=bool(spoken), unprompted=unprompted,
        )  # fmt: skip
        try:
            shape = self._with_system(shape, two[1:])
        except NotLearnedError as error:
            shape = replace(shape, no_system=str(error))
        opener = shape.system.opener if shape.system is not None else ""
        if DAY in opener or shape.dated or (DAY in "".join(two) and not shape.needs_system):
            probe = chat(_Q, _A)
            is_option = _T in (self.render.text(probe, date_string=_T) or "")
            texts = [self.render.text(probe, clock=c) or "" for c in ("", "now", "later")]
            before, _, behind = texts[0].partition(DAY)
            days = [text[len(before) : len(text) - len(behind)] for text in texts]
            self.render.day = "date_string" if is_option else "strftime_now", days[1], days[2]
            shape = replace(shape, day=self.render.day)
            opener, closer = opener or shape.begin, ""
            if shape.system is not None and shape.begin.count(DAY) == 1:
                text, day, rest = shape.begin.partition(DAY)
                tag = LIKELY_SPECIAL.search(rest)
                at = tag.start() if tag is not None else len(rest)
                opener, closer = text + day + rest[:at], rest[at:]
                shape = replace(shape, begin="", head=Block(opener, closer))
            is_known = opener.count(DAY) == 1 and LIKELY_SPECIAL.search(opener.partition(DAY)[0])
            if not (is_known or shape.dated) or (shape.head and not closer):
                raise NotLearnedError("the text has today's date")
        try:
            always = bool(last) and earlier == last
            shape = self._with_thoughts(shape, last, prompted[len(header) :], always=always)
        except NotLearnedError as error:
            shape, rest = replace(shape, no_thoughts=str(error)), prompt[len(header) :]
            at = rest.rfind("<") if rest.rstrip().endswith(">") else -1
            if at >= 0:  # it opens a thought, or has an empty one
                thought = Block(rest[:at] or rest, rest[at:] if at else f"</{rest.strip()[1:]}")
                shape = replace(shape, thought=thought, opens=not at)
                shape = replace(shape, empties=at > 0, only_prompts=at > 0)
            elif rest:
                raise NotLearnedError(f"a prompt ends with {prompt[-30:]!r}: {error}") from None
        if (earlier and not shape.always) or (last and shape.thought is None):
            raise NotLearnedError(f"an answer begins with {earlier or last!r}, which no prompt has")
        for name in ("user", "answer", "system", "thought"):
            shape = self._text(shape, name) if getattr(shape, name) else shape
        if shape.system_in is not None:
            try:
                strip = self.strip_of("user", chat(_T, _A, system=_S))
                strip *= strip != shape.user.strip
                shape = replace(shape, system_in=(*shape.system_in[:2], strip))
            except NotLearnedError as error:
                shape = replace(shape, system_in=None, no_system=str(error))
        try:
            return self._after_thoughts(shape)
        except NotLearnedError as error:
            return replace(shape, no_thoughts=shape.no_thoughts or str(error))

    def _with_system(self, shape: Shape, rest: list[str]) -> Shape:
        """Returns the shape with the system block, and the text that it has by default."""
        ahead, to_user = shape.begin, shape.user.opener
        probe = chat(_Q, _A, _Q2, _A2, system=_S)
        opener, closer, *after = self._literals(probe, "a system message")
        if after != rest:
            raise NotLearnedError("a system message changes what comes after the question")
        if not to_user or not closer.endswith(to_user):
            question = ahead + to_user
            if not opener.startswith(question) or not closer:
                raise NotLearnedError("a system message is part of the question")
            return replace(shape, system_in=(opener.removeprefix(question), closer, ""))
        closer = closer.removesuffix(to_user)
        begin, default, plain = ahead, None, ""
        if not opener.startswith(ahead):
            begin = self.bos if opener.startswith(self.bos) else ""
            begin = "" if to_user.startswith(begin) else begin
            if ahead.startswith(opener) and ahead.endswith(closer):
                default = ahead[len(opener) : len(ahead) - len(closer)]
                if any(tag in default for tag in self._tags(opener, closer, to_user, *rest)):
                    default, plain = None, ahead.removeprefix(begin)  # no text can say it
            elif DAY in ahead or not LIKELY_SPECIAL.match(plain := ahead.removeprefix(begin)):
                raise NotLearnedError("the template writes other texts before a system message")
        tag = closer.lstrip()
        space = closer.removesuffix(tag) if tag in ("", shape.answer.closer) else ""
        if shape.after_answer not in ("", closer):
            raise NotLearnedError("other white space is after answers than after a system message")
        plain = opener + closer if default == "" else plain  # a block that all have
        shape = replace(shape, begin="" if default == "" else begin)
        opener, suffix = opener.removeprefix(shape.begin), "" if shape.after_answer else space
        shape = replace(shape, system=Block(opener, closer.removeprefix(space), suffix=suffix))
        dated = DAY in (default or "")
        return replace(
            shape, default=None if dated else default or None, plain=plain,
            needs_system=dated or bool(default),
            dated=default if default and default.count(DAY) == 1 and "{}" not in default else "",
        )  # fmt: skip

    def _tags(self, *literals: str) -> list[str]:
        """Returns the tags of literals, and those of thoughts."""
        thought = ("", "")
        with suppress(NotLearnedError):
            thought = self._thought()
        return LIKELY_SPECIAL.findall(" ".join((*literals, *thought)))

    def _thought(self) -> tuple[str, str]:
        """Returns what is between a question and a thought, and between that and an answer."""
        probe = chat(_Q, (_Q2, _A2))
        if _Q2 not in (self.render.text(probe) or _Q2):
            raise NotLearnedError("the template writes no thoughts")
        _, opener, closer, _ = self._literals(probe, "a thought")
        return opener, closer

    def _with_thoughts(self, shape: Shape, last: str, prompted: str, *, always: bool) -> Shape:
        """Returns the shape with the block of thoughts.

        `last` is what the last answer has before its text where it has no thought, and `prompted`
        what a prompt has there. `always`: so has each answer.
        """
        prompt, (opener, closer) = shape.user.closer, self._thought()
        prompt += "" if shape.spoken else shape.answer.lead or shape.answer.opener
        after = shape.answer.opener if shape.spoken else ""
        if not (opener.startswith(prompt) and closer.endswith(after)):
            raise NotLearnedError("the prompt is not before a thought")
        opener, closer = opener.removeprefix(prompt), closer.removesuffix(after)
        if last not in ("", opener + closer):
            raise NotLearnedError(f"an answer without a thought begins with {last!r}")
        if not opener.strip() or not (closer + after).strip():
            raise NotLearnedError("a thought has no tags of its own")
        space = opener[len(opener.rstrip()) :]
        space = space if prompted == opener + closer.removeprefix(space) else ""
        opener = opener.removesuffix(space)  # it is in no empty thought
        if prompted not in ("", opener + space, opener + closer):
            raise NotLearnedError(f"it is no thought: {opener!r}")
        drops = _T not in (self.render.text(chat(_Q, (_T, _A), _Q2, _A2)) or "")
        if last and not (drops or always):
            raise NotLearnedError("an empty thought is before the last answer, and all others stay")
        empties = prompted == opener + closer
        return replace(
            shape, thought=Block(opener, closer, prefix=space), drops=drops,
            opens=prompted == opener, empties=empties, only_prompts=empties and not last,
            fills=bool(last) and not (empties or always), always=always,
        )  # fmt: skip

    def _text(self, shape: Shape, name: str) -> Shape:
        """Returns the shape with what the template makes of white space in the text of a block."""
        places = {
            "user": [chat(_T, _A, _Q2, _A2), chat(_Q, _A, _T, _A2)],
            "answer": [chat(_Q, _T, _Q2, _A2), chat(_Q, _A, _Q2, _T)],
            "system": [chat(_Q, _A, system=_T)],
            "thought": [chat(_Q, (_T, _A))],
        }[name]
        first, last = self.strip_of(name, places[0]), self.strip_of(name, places[-1])
        if name == "answer" and shape.drops and first != last and not first:
            shape = replace(shape, trims=last)
        elif first != last:
            raise NotLearnedError(f"{name}: white space is stripped in some places only")
        blank = all(
            self._with_text(p, "") == self._with_text(p, _T).replace(_T, "") for p in places
        )
        blank = blank and not (name == "answer" and shape.after_answer.isspace())
        blank = blank and not (name == "system" and shape.plain)
        return replace(shape, **{name: replace(getattr(shape, name), strip=first, blank=blank)})

    def _with_text(self, probe: Probe, text: str, tools: Any = None) -> str:
        """Returns the rendering of a conversation with a text in place of `_T`."""
        filled = [{k: text if v == _T else v for k, v in message.items()} for message in probe]
        return self.render.text(filled, tools) or ""

    def strip_of(self, name: str, probe: Probe, tools: Any = None) -> str:
        """Returns what the template strips of the text `_T` of a conversation."""
        usual = self._with_text(probe, _T, tools)
        for how, strip in _STRIPS.items():
            stripped = [usual.replace(_T, strip(edge)) for edge in _EDGES]
            if [self._with_text(probe, edge, tools) for edge in _EDGES] == stripped:
                return how
        raise NotLearnedError(f"{name}: white space around a text is written otherwise")

    def _after_thoughts(self, shape: Shape) -> Shape:
        """Returns the shape with what the template strips of an answer after a thought."""
        usual = shape.answer.strip
        texts = (self.render.text(chat(_Q, a, _Q2, _A2)) or "" for a in ((_S, _T), _T))
        ahead, usually = (text.partition(_T)[0] for text in texts)
        leaves = ahead.removeprefix(usually)
        shape = replace(shape, leaves=leaves * (shape.drops and leaves.isspace()))
        here = self.strip_of("answer", chat(_Q, (_Q2, _T)))
        earlier = self.strip_of("answer", chat(_Q, (_S, _T), _Q2, _A2))
        if shape.drops and not usual and earlier == usual and shape.trims in ("", here):
            return replace(shape, trims=here)
        if (here, earlier) != (usual, usual):
            raise NotLearnedError("the text after a thought is stripped otherwise")
        return shape


def _last_tag(first: str, between: str, end: str) -> int:
    """Returns where the tag of a question begins `between` it and an answer: after what the `end`
    of the last answer shares, and within what the `first` question shares."""
    least = len(between) - in_common(first[::-1], between[::-1])
    most = in_common(end, between)
    tags = (m.start() for m in LIKELY_SPECIAL.finditer(between) if least <= m.start() <= most)
    return max(tags, default=least)
