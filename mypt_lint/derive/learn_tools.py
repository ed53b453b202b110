"""Learns how a chat template writes tools, calls and results, where it writes them as JSON."""

import re
from dataclasses import replace
from typing import Any

from mypt_lint.derive.probe import Probe, Renderings, chat, words
from mypt_lint.derive.shape import Block, NotLearnedError, Shape, Tools
from mypt_spec.bodies.definitions import write_definitions
from mypt_spec.bodies.json_body import call_text

_S, _Q, _A, _X, _R, _R2 = words(6)
_NO_TAG = re.compile("(?!)")
_ARGUMENTS = {"city": "Oslo", "n": [1, 2.5, None]}
_BODIES = {k: call_text("find_it", _ARGUMENTS, _NO_TAG, k) for k in ("function", "parameters")}


def _tool(name: str) -> dict[str, Any]:
    city = {"type": "string", "description": "A city."}
    parameters = {"type": "object", "properties": {"city": city}, "required": ["city"]}
    function = {"name": name, "description": f"Finds {name}.", "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [_tool("find_it"), _tool("get_it")]
_LISTS = {kind: write_definitions(TOOLS, kind, _NO_TAG) for kind in ("tool_lines", "tool_list")}


def steps(content: str = "", calls: int = 1) -> Probe:
    """Returns a question, a message with calls and this content, results, and an answer."""
    call = {"type": "function", "function": {"name": "find_it", "arguments": _ARGUMENTS}}
    ids = ("call00001", "call00002")[:calls]
    calling = {
        "role": "assistant",
        "content": content,
        "tool_calls": [call | {"id": i} for i in ids],
    }
    results = [
        {"role": "tool", "tool_call_id": i, "content": text}
        for i, text in zip(ids, (_R, _R2), strict=False)
    ]
    question, answer = chat(_Q, _A)
    return [question, calling, *results, answer]


class ToolsLearner:
    """Learns the literals of tools of a template whose chats have a shape."""

    def __init__(self, render: Renderings, shape: Shape) -> None:
        self.render, self.shape = render, shape

    def learned(self) -> Shape:
        """Returns the shape with tools. Raises NotLearnedError."""
        definitions = self._definitions()
        call, body, after_text, after_call = self._calls()
        results = self._results(_BODIES[body] + call.closer + self.shape.answer.closer)
        tools = Tools(*definitions, call, body, after_text, after_call, *results)
        shape, empty = self.shape, self._text(chat(_Q, _A, system=""))
        if shape.system and tools.after_system and empty != self._text(chat(_Q, _A)):
            shape = replace(shape, system=replace(shape.system, blank=False))
        return replace(shape, tools=tools)

    def _text(self, probe: Probe) -> str:
        text = self.render.text(probe, TOOLS)
        if text is None:
            raise NotLearnedError(f"tools are refused: {self.render.refusal(probe, TOOLS)}")
        return text

    def _definitions(self) -> tuple[Block, str, str, str | None]:
        """Returns the block of tools, its body, white space before it after a text, and the system
        text where there is no other."""
        text, system = self._text(chat(_Q, _A, system=_S)), self.shape.system
        if "find_it" not in text:
            raise NotLearnedError("the template writes no tools")
        body = next((kind for kind, written in _LISTS.items() if written in text), None)
        if body is None or system is None or self.shape.bare or self.shape.ends:
            raise NotLearnedError("tools are not JSON lines or a JSON list in a system block")
        opening = self.shape.begin + system.opener
        before, _, after = text.partition(_LISTS[body])
        closer, ended, _ = after.partition(system.closer + self.shape.user.opener + _Q)
        if not before.startswith(opening + _S) or not ended:
            raise NotLearnedError("tools are not after the system message, in its block")
        opener = before.removeprefix(opening + _S)
        tag = opener.lstrip()
        alone = self._text(chat(_Q, _A)).partition(_LISTS[body])[0]
        if alone == opening + tag:  # no system text, so no white space after it
            return Block(tag, closer), body, opener.removesuffix(tag), ""
        if not alone.startswith(opening) or not alone.endswith(opener):
            raise NotLearnedError("tools are written otherwise without a system message")
        default = alone[len(opening) : len(alone) - len(opener)]
        return Block(opener, closer), body, "", default

    def _calls(self) -> tuple[Block, str, str, str]:
        """Returns the block of calls, its body, white space before it after texts and calls."""
        user, answer = self.shape.user, self.shape.answer
        one, two, beside_text = (self._text(steps(*how)) for how in ((), ("", 2), (_X,)))
        body = next((kind for kind, written in _BODIES.items() if written in one), None)
        if body is None:
            raise NotLearnedError("calls are not JSON objects of name and arguments")
        before, _, after = one.partition(_BODIES[body])
        opener = before.partition(_Q + user.closer + answer.opener)[2]
        closer = after.partition(answer.closer)[0]
        after_text = beside_text.partition(_X)[2].partition(opener + _BODIES[body])[0]
        after_call = two.partition(_BODIES[body] + closer)[2].partition(opener + _BODIES[body])[0]
        spaced = not after_text.strip() and after_call in ("", after_text)
        if not (opener.strip() and closer.strip() and spaced):
            raise NotLearnedError("calls have no tags that are the same everywhere")
        return Block(opener, closer), body, after_text, after_call

    def _results(self, called: str) -> tuple[Block, bool, str]:
        """Returns the block of results, whether it is in that of a question, and what parts two.

        `called` is the end of a message with a call.
        """
        user, thought = self.shape.user, self.shape.thought if self.shape.fills else None
        filled = thought.opener + thought.closer if thought else ""
        ahead, _, rest = self._text(steps()).partition(called)[2].partition(_R)
        behind, answered, _ = rest.partition(self.shape.answer.opener + filled + _A)
        between = self._text(steps("", 2)).partition(_R)[2].partition(_R2)[0]
        inside = ahead.startswith(user.opener) and behind.endswith(user.closer)
        opener = ahead.removeprefix(user.opener) if inside else ahead
        closer = behind.removesuffix(user.closer) if inside else behind
        space = between.removeprefix(closer).removesuffix(opener)
        parted = between == closer + space + opener and not space.strip()
        if not (opener and closer.strip() and answered and parted) or (space and not inside):
            raise NotLearnedError("results have no tags that are the same everywhere")
        return Block(opener, closer), inside, space
