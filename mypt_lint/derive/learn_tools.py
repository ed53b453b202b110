"""Learns how a chat template writes tools, calls and results, where it writes them as JSON."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mypt_lint.derive.conversations import conversation
from mypt_lint.derive.learn import Learner
from mypt_lint.derive.probe import Probe, Renderings, chat, words
from mypt_lint.derive.shape import IDENT, NAME, Block, NotLearnedError, Shape, Tools
from mypt_lint.template.checks import LIKELY_SPECIAL
from mypt_spec.bodies.call_tags import ALONE, BareKeys, Keywords, Tags
from mypt_spec.bodies.definitions import blocks_of, write_definitions
from mypt_spec.bodies.json_body import Call, call_text, list_text
from mypt_spec.bodies.strict_json import canonical
from mypt_spec.patch import in_common
from mypt_spec.table import LISTS, TOOL_TAGS, WITH_IDS
from mypt_spec.templates.sandbox import ToolTemplate

_S, _Q, _A, _X, _R, _R2 = words(6)
_T = words(10)[-1]
_NO_TAG = re.compile("(?!)")
_IDS = ("call00001", "call00002")
_LISTS = 40  # of tools, of which the template shows what is around each
_ARGUMENTS = {"city": "Oslo", "several": [1, 2.5, None], "all": True}
_JSON = canonical(_ARGUMENTS, _NO_TAG)
# A call with a tag for each argument.
_TAGGED = re.compile(
    r"(?P<before><[^<>]*)?find_it(?P<after>[^<]*)(?P<key><[^<]*?)city(?P<mid>[^O]+)Oslo(?P<shut>.+?)"
    r"(?P=key)several(?P=mid)\[1, 2\.5, (?P<none>null|None)\](?P=shut)"
    r"(?P=key)all(?P=mid)(?P<yes>[Tt]rue)(?P=shut)(?P<last></[^<>]*>)?",
    re.DOTALL,
)
_KEYWORDS = re.compile(r"(\[?)find_it\(city=(['\"])Oslo\2, several=\[1, 2\.5, (\w+)\], all=")
_BARE = re.compile(r"\{all:true,city:(\S+?)Oslo\1,several:\[1,2\.5,(\w+)\]\}")


def _tool(name: str) -> dict[str, Any]:
    city = {"type": "string", "description": "A city."}
    parameters: dict[str, Any] = {"type": "object", "properties": {"city": city}}
    parameters |= {"required": ["city"], "additionalProperties": False}
    function = {"name": name, "description": f"Finds {name}.", "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [_tool("find_it"), _tool("get_it")]
_HOW = ("", ":compact", ":2", ":4")
_ITEMS = [f"{{{item}{how}}}" for item in ("tool", "function") for how in _HOW]


def steps(content: str = "", calls: int = 1, arguments: Any = _ARGUMENTS) -> Probe:
    """Returns a question, a message with calls and this content, results, and an answer."""
    call = {"type": "function", "function": {"name": "find_it", "arguments": arguments}}
    texts = [*zip(_IDS, (_R, _R2), strict=True)][:calls]
    called = [call | {"id": ident} for ident, _ in texts]
    calling: Any = {"role": "assistant", "content": content, "tool_calls": called}
    results = [{"role": "tool", "tool_call_id": i, "content": text} for i, text in texts]
    question, answer = chat(_Q, _A)
    return [question, calling, *results, answer]


_THINKING = [m | ({"reasoning_content": _T} if "tool_calls" in m else {}) for m in steps()]


class ToolsLearner:
    """Learns the literals of tools of a template whose chats have a shape."""

    def __init__(self, render: Renderings, shape: Shape) -> None:
        self.render, self.shape = render, shape
        empties = shape.empties and not shape.only_prompts
        thought = shape.thought if shape.fills or shape.always or empties else None
        self.filled = thought.opener + thought.closer if thought else ""  # in answers without one
        self.each = False  # whether those with calls have it
        self.after_tool = ""  # what parts two definitions
        self.lead = ""  # what opens a system block that begins with tools
        self.end = shape.answer.closer  # of a message with calls
        self.said: Block | None = None  # a text beside calls

    def learned(self) -> Shape:
        """Returns the shape with tools. Raises NotLearnedError."""
        definitions, calls = self._definitions(), self._calls()
        tools = Tools(*(definitions + calls[:4] + self._results(calls[4])))
        tools, end = replace(self._first(tools), end=self.end), self.shape.answer.closer
        waits = tools.one_block and not calls[4].endswith(end)
        tools = replace(tools, after_tool=self.after_tool, said=self.said, waits=waits)
        tools = replace(tools, late=self._late(end) if waits else "")
        written = [_T in (self.render.text(_THINKING[:n], TOOLS) or "") for n in (2, 4)]
        tools = replace(tools, answered=self.shape.drops and written == [True, False])
        if tools.one_block and not (waits or tools.call.closer.endswith(end)):
            tools = replace(tools, call=replace(tools.call, closer=tools.call.closer + end))
        shape = replace(self.shape, each=self.each and not self.shape.always)
        with suppress(NotLearnedError):
            probes, learner = (steps(_T), [*steps(_T), *chat(_X, _S)]), Learner(self.render, {})
            strips = (learner.strip_of("answer", probe, TOOLS) for probe in probes)
            strip, earlier = (strip * (strip != shape.answer.strip) for strip in strips)
            tools = replace(tools, call=replace(tools.call, strip=strip))
            shape = replace(shape, strip_before_calls=earlier)
        if shape.system and (tools.beside or self.lead):
            blank = self._text(chat(_Q, _A, system="")) == self._text(chat(_Q, _A))
            blank = blank and shape.system.blank
            shape = replace(shape, system=replace(shape.system, blank=blank, lead=self.lead))
        tags = filter(None, map(str.strip, (tools.definitions.opener, tools.definitions.closer)))
        if shape.system and shape.default and any(tag in shape.default for tag in tags):
            plain = shape.system.opener + shape.default + shape.system.closer  # no text can say it
            shape = replace(shape, default=None, plain=plain)
        return replace(shape, tools=tools)

    def _late(self, end: str) -> str:
        """Returns where a text beside calls is ended, if it is after their results, else ""."""
        without, text = self._text(steps()), self._text(steps(_X))
        prompt = self.render.text(steps(_X)[:-1], TOOLS, "prompt") or ""
        is_over = end.strip() != "" and prompt.endswith(_X + end)
        if is_over and text == without.replace(_A, _X + end + _A):
            return "ended"
        return ("prompts" if is_over else "joined") * (text == without.replace(_A, _X + _A))

    def _text(self, probe: Probe) -> str:
        text = self.render.text(probe, TOOLS)
        if text is None:
            raise NotLearnedError(f"tools are refused: {self.render.refusal(probe, TOOLS)}")
        return text

    def _definitions(self) -> tuple[Block, str, str, str, str | None, tuple[str, str, str]]:
        """Returns the block of tools, its body, where it is, what parts it from a system message,
        the system text where there is no other, and what is in each system block."""
        shape, system, user = self.shape, self.shape.system, self.shape.user.opener
        text = alone = self._text(chat(_Q, _A))
        body, quoted = _body(alone), [_tool("it")]
        quoted[0]["function"]["description"] = 'Finds "it".'
        written = self.render.text(chat(_Q, _A), quoted) or ""
        if not body or write_definitions(quoted, body, _NO_TAG) not in written:
            body = self._template()
        places, head = list[tuple[str, str, str]](), ("", "", "")
        opening = system_text = shape.begin
        if system is not None:
            opening, text = shape.begin + system.opener, self._text(chat(_Q, _A, system=_S))
            head = self._head(text, opening)
            text, alone = (t.replace(head[0] + head[1], head[1], 1) for t in (text, alone))
            if shape.head is not None:  # a block before it
                added = text.removeprefix(shape.head.opener).partition(shape.head.closer)[0]
                first = shape.head.opener + added + shape.head.closer
                head, text, alone = (added, "", ""), *(t.removeprefix(first) for t in (text, alone))
            opening = opening.removesuffix(head[2])
            system_text, end = opening + _S + system.closer, system.closer + user + _Q
            places = [("after", opening + _S + system.suffix, end)]
            places += [("system", shape.begin, system.opener + _S)]
            places += [("before", opening, _S + end)]
            own = shape.begin.partition(system.opener)[2] if system.opener else ""
            own = own.removesuffix(system.closer)
            start, end = shape.begin.removesuffix(system.closer), system.closer + system.opener + _S
            places += [("head", start, end)] * (own not in ("", shape.begin))
        question = ("first question", system_text + user, _Q)
        places = [("first", system_text, user + _Q), question, *places]
        texts = [text for _, text in blocks_of(TOOLS, body, _NO_TAG)]  # with what is between
        tools = alone[alone.find(texts[0]) : alone.find(texts[-1]) + len(texts[-1])]
        if not tools:
            raise NotLearnedError("the definitions of tools are not found in the text")
        before, _, after = text.partition(tools)
        fits = (p for p in places if before.startswith(p[1]) and p[2] in after)
        place, start, end = next(fits, ("", "", ""))
        if not place:
            raise NotLearnedError("tools are at a place that a format has not")
        if _Q in self._text(chat(_Q, _A, _X, _R)).partition(tools)[0]:
            place = place.replace("first", "last")
        opener, closer = before.removeprefix(start), after.partition(end)[0]
        if place == "head":
            return Block(opener, closer), body, place, "", None, ("", own, "")
        tag = opener.lstrip()
        if place == "after" and alone.startswith(opening + tag + tools):
            return Block(tag, closer), body, place, opener.removesuffix(tag), "", head
        if place == "before":
            one = alone.partition(tools)[2].partition(end.removeprefix(_S))[0]
            tag = one if closer.startswith(one) else closer.rstrip()
            default = one.removeprefix(closer) if one != tag else ""
            return Block(opener, tag), body, place, closer.removeprefix(tag), default, head
        default = ""
        if alone != text.replace(system_text.removeprefix(shape.begin), "", 1):
            default = alone[len(opening) :].partition(text.partition(_S)[2])[0]
            lead, same, rest = alone.partition(tag + tools)
            if alone != text.replace(_S, default) or (tag.strip() or _S) in default:
                if place != "after" or not same or rest != after:
                    raise NotLearnedError("tools are written otherwise without a system message")
                self.lead = lead.removeprefix(shape.begin)
                return Block(tag, closer), body, place, opener.removesuffix(tag), "", head
        is_plain = system is not None and shape.plain == system.opener + default + system.closer
        return Block(opener, closer), body, place, "", None if is_plain else default, head

    def _template(self) -> ToolTemplate:
        """Returns the chat template itself, with the tags around the tools that it writes."""
        template = self.render.templates[-1]
        values = {"messages": chat(_Q), "add_generation_prompt": False} | template.tokens
        sets = "".join(f"{{%- set {k} = {canonical(v, _NO_TAG)} -%}}" for k, v in values.items())
        whole = f"{sets}{{%- set text %}}{template.text}{{% endset -%}}"
        write = ToolTemplate(f"{whole}{{{{- text -}}}}").write
        lists = [conversation("tools", seed, 0).get("tools") for seed in range(_LISTS)]
        try:
            some = [TOOLS[:1], TOOLS, TOOLS[1:], *filter(None, lists)]
            one, two, other, *texts = map(write, some)
        except ValueError as error:
            raise NotLearnedError(str(error)) from None
        before, after = _shared(texts), _shared(texts, -1)
        tag = ["", *LIKELY_SPECIAL.findall(before)][-1]
        before = before[max(before.rfind(tag), 0) :]  # without a date
        each = tag != "" and two.count(tag) > one.count(tag)
        if each:  # the tag opens each, and the one before the second closes the first
            before, after = tag, LIKELY_SPECIAL.findall(two[: two.rindex(tag)])[-1]
        else:  # the words before each, if they are the same
            start, end = (t.partition(before)[2].rpartition(after)[0] for t in (one, other))
            both = two.partition(before)[2].rpartition(after)[0]
            same = both.startswith(start) and both.endswith(end)
            self.after_tool = both[len(start) : len(both) - len(end)] * same
            words = self.after_tool[-in_common(self.after_tool[::-1], before[::-1]) :]
            each = same and words.strip() != "" and "\n" in words
            self.after_tool *= each
        cut = f".partition({canonical(before, _NO_TAG)})[2].rpartition({canonical(after, _NO_TAG)})"
        return ToolTemplate(f"{whole}{{{{- text{cut}[0] -}}}}", each)

    def _head(self, text: str, opening: str) -> tuple[str, str, str]:
        """Returns what only tools put into a block that begins each conversation, before the system
        message, the part of its opener after that, and white space that is there without tools."""
        size = in_common(text, opening)
        if opening[size:].isspace() and text.startswith(_S, size):
            return "", "", opening[size:]
        head, separator, _ = text[size:].partition(opening[size:] + _S)
        block = self.shape.system or Block("")
        fits = (
            separator and "find_it" not in head and self.shape.plain == block.opener + block.closer
        )
        return (head, opening[size:], "") if fits else ("", "", "")

    def _calls(self) -> tuple[Block, str, str | None, str | None, str]:
        """Returns the block of calls, its body, what is before it after texts and calls, and the
        end of a message with a call."""
        texts = self._text(steps()), self._text(steps(_X)), self.render.text(steps("", 2), TOOLS)
        for body, call in _bodies(texts[0].rpartition(_Q)[2]):
            learned = self._around(body, call, *texts)
            if learned is not None:
                body = self._with_wrap(body) if isinstance(body, Tags) else body
                return learned[0], body, *learned[2:]
        raise NotLearnedError("calls have no tags and bodies that are the same everywhere")

    def _with_wrap(self, tags: Tags) -> Tags:
        """Returns the tags of calls with what is around strings that have some characters."""
        before, after, end = tags.argument
        characters, wraps = "", set[tuple[str, ...]]()
        for character in "<>&\"'\\\n":
            value = _X + character + _T
            text = self._text(steps(arguments={"city": value})).rpartition(f"{before}city{after}")
            wrap = (*text[2].partition(end)[0].split(value),)
            wraps |= {wrap} if any(wrap) else set()
            characters += character * any(wrap)
            if len(wrap) != 2 or len(wraps) > 1:
                raise NotLearnedError(f"an argument with {character!r} is written otherwise")
        wrap = (characters, *wraps.pop()) if wraps else ()
        return Tags(tags.function, tags.argument, tags.python, wrap)

    def _around(
        self, body: str, call: str, one: str, beside_text: str, two: str | None
    ) -> tuple[Block, str, str | None, str | None, str] | None:
        """Returns what `_calls` does for the body of a call; None if it is no body of that kind."""
        user, end = self.shape.user, self.shape.answer.closer  # or the next block ends the answer
        last = (self.render.text(steps()[:2], TOOLS) or one).rpartition(call)[2]
        is_over = end in last or end in one.rpartition(call)[2].partition(_R)[0]
        if not is_over and self.shape.answer.opener in one.partition(_R)[2].partition(_A)[0]:
            tags = LIKELY_SPECIAL.finditer(last)  # another one ends it
            end = last[max((tag.start() for tag in tags), default=len(last)) :]
        self.end = end
        before, _, after = one.partition(call)
        header = "" if self.shape.spoken else self.shape.answer.opener
        opener = before.partition(_Q + user.closer + header)[2]
        self.each = opener.startswith(self.filled or _Q)
        opener = opener.removeprefix(self.filled)
        after_call = two.split(call)[1] if two is not None and two.count(call) > 1 else None
        if isinstance(body, Keywords):  # one block has all calls
            after_call, listed = None, list_text([Call("find_it", _ARGUMENTS)] * 2, _NO_TAG, body)
            if two is not None and listed not in two:
                return None
        alone = after if end else last
        closer = alone.partition(end)[0] if end else alone
        rest = beside_text.partition(_X)[2] if _X in beside_text else None
        after_text = None if rest is None else rest.partition(opener + call)[0]
        if self.shape.spoken and after_text == user.closer:
            said, after_text = beside_text.partition(_Q + user.closer)[2].partition(_X)[0], None
            self.said = Block(said, user.closer)
        called = call + closer + end
        other = end != self.shape.answer.closer
        both = body in LISTS or other or (body == "arguments" and after_call == opener)
        closer = closer or end * both
        if _R in after[: after.find(end)]:  # one block has results, too, and then the text
            closer = (after_call or "").removesuffix(opener) or LIKELY_SPECIAL.findall(after)[0]
            called = call + closer
            after_text = after_text if opener + call in (rest or "") else None
        untagged = after_call is not None and not re.search("<.|]", after_call)
        nameless = untagged or (body in ALONE and "find_it" not in opener)
        if nameless or (after_text or "").strip() or not (opener.strip() and closer.strip()):
            return None
        if body in ALONE:
            one_only = after_text is after_call is None and called.endswith(end)
            closer += end * (one_only or other) * (closer != end)
            opener = opener.replace("find_it", NAME)
            after_call = after_call and after_call.replace("find_it", NAME)
        return Block(opener, closer), body, after_text, after_call, called

    def _first(self, tools: Tools) -> Tools:
        """Returns the tools; white space may part calls from a header, and not from a thought."""
        thought, opener = self.shape.thought, tools.call.opener.lstrip()
        space = tools.call.opener.removesuffix(opener)
        if thought is None or self.shape.no_thoughts or not space:
            return tools
        if not self._text(_THINKING).partition(_T + thought.closer)[2].startswith(opener):
            return tools
        call = replace(tools.call, opener=opener)
        return replace(tools, call=call, first=True, after_text=space + (tools.after_text or ""))

    def _results(self, called: str) -> tuple[Block, str, bool, str, Block | None, bool]:
        """Returns the block of results, its body, whether it is in another, what parts two, the
        other if it is not that of questions, and whether the answer goes on after it. `called` is
        the end of a message with a call."""
        user, filled = self.shape.user, self.filled
        ahead, _, rest = self._text(steps()).partition(called)[2].partition(_R)
        header = self.shape.answer.opener
        one_block = header not in rest.partition(_A)[0]
        header = self.shape.answer.prefix if one_block else header
        behind, answered, _ = rest.partition(header + filled + _A)
        two = self.render.text(steps("", 2), TOOLS)
        two = two if two and two.count(_JSON) != 1 else None
        quote = '"' * (ahead[-1:] == behind[:1] == '"')
        ahead, behind = ahead.removesuffix(quote), behind.removeprefix(quote)
        between = two.partition(_R + quote)[2].partition(quote + _R2)[0] if two else behind + ahead
        inside = ahead.startswith(user.opener) and behind.endswith(user.closer)
        opener = ahead.removeprefix(user.opener) if inside else ahead
        closer = behind.removesuffix(user.closer) if inside else behind
        results = None
        if two and not between.endswith(opener.replace(*_IDS)):  # one block has all of a message
            ending = ahead[len(ahead) - in_common(ahead[::-1], between[::-1]) :]
            opener = "<" + ending.partition("<")[2]
            closer = re.sub(r"<[^>]*\Z", "", behind[: in_common(behind, between)])
            results, inside = Block(ahead.removesuffix(opener), behind.removeprefix(closer)), True
        space = between.removeprefix(closer).removesuffix(opener.replace(*_IDS))
        is_space = between == closer + space + opener.replace(*_IDS) and not space.strip()
        if not (opener and closer.strip() and answered and is_space) or (space and not inside):
            raise NotLearnedError("results have no tags that are the same everywhere")
        probe = [m | ({"content": _T} if m["role"] == "tool" else {}) for m in steps()]
        strip = "" if quote else Learner(self.render, {}).strip_of("result", probe, TOOLS)
        opener = opener.replace(_IDS[0], IDENT).replace("find_it", NAME)
        block = Block(opener, closer.replace(_IDS[0], IDENT), strip)
        return block, "json" if quote else "text", inside, space, results, one_block


def _bodies(text: str) -> Iterator[tuple[str, str]]:
    """Yields kinds of body in which a text may have a call, and the body; whole ones first."""
    for kind in WITH_IDS:
        written = list_text([Call("find_it", _ARGUMENTS, _IDS[0])], _NO_TAG, kind)
        yield from [(kind, written)] * (written in text)
    kinds: list[str] = ["function", "parameters"]
    if match := _TAGGED.search(text):
        before, after, key, mid, end, none, yes, last = match.groups("")
        functions = (before, after, last), ("", after, "")
        python = "values" if none == "None" else yes == "True"
        kinds = [Tags(function, (key, mid, end), python) for function in functions]
    for kind in kinds:
        if (written := call_text("find_it", _ARGUMENTS, _NO_TAG, kind)) in text:
            yield kind, written
    yield from [("arguments", _JSON)] * (_JSON in text)
    if match := _BARE.search(text):
        yield BareKeys(*match.groups()), match[0]
    if match := _KEYWORDS.search(text):
        calls = ("[", ", ", "]") if match[1] else ("", "\n", "")
        for escapes in (False, True):
            keywords = Keywords(calls, match[2] * (escapes or match[3] == "None"), escapes)
            written = list_text([Call("find_it", _ARGUMENTS)], _NO_TAG, keywords)
            yield from [(keywords, written)] * (written in text)


def _body(text: str) -> str:
    """Returns the kind of JSON in which a text has the definitions of tools; "" for none."""
    if "find_it" not in text:
        raise NotLearnedError("the template writes no tools")
    for kind in ("tool_lines", "tool_list", *TOOL_TAGS, *(f"[{item}]" for item in _ITEMS)):
        if write_definitions(TOOLS, kind, _NO_TAG) in text:
            return kind
    for item in _ITEMS:
        one, other = (write_definitions([tool], item, _NO_TAG) for tool in TOOLS)
        between, second, _ = text.partition(one)[2].partition(other)
        if second and "get_it" not in between:
            return item + between
    return ""


def _shared(texts: list[str], step: int = 1) -> str:
    """Returns what all texts begin with, or end with if the step is -1."""
    first = texts[0][::step]
    return first[: min(in_common(first, text[::step]) for text in texts)][::step]
