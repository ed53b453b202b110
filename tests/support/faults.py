"""Conversations in which anything may go wrong, from one seed; for property tests and for fuzzing."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import mypt_spec
from mypt_infer.controller import ContextError, Controller, Options, replay
from mypt_infer.controller.events import Event, TurnEnd
from mypt_infer.toolbox import Tool, Toolbox
from mypt_spec.bodies.json_body import calls_of
from tests.support.scripted import ends_of_calls, ids_of

DIALECTS = ("mypt", "mypt-3b", "praxis", "gabgpt")  # of tests; the fuzzer takes all
# What a model writes in each dialect: a call of a tool with an argument, the end of an answer, what
# an answer begins with, and a thought.
_CALLS = {
    "mypt": '<myPT_toolcall>{{"name": "{}", "q": {}}}</myPT_toolcall>',
    "mypt-3b": '\n<toolcall name="{}">\n{{"q": {}}}\n</toolcall>\n',
    "praxis": '<tin>\n{{"name": "{}", "arguments": {{"q": {}}}}}\n</tin>',
    "gabgpt": "",
    "usf-omega": '<tool_calls_start>[{{"type": "function", "function": {{"name": "{}", "arguments": {{"q": {}}}}}}}]<tool_calls_end>\n<end>\n',
    "chatml": "",
    "qwen3": '<tool_call>\n{{"name": "{}", "arguments": {{"q": {}}}}}\n</tool_call><|im_end|>',
    "llama3": '<|python_tag|>{{"name": "{}", "parameters": {{"q": {}}}}}<|eom_id|>',
    "mistral": '[TOOL_CALLS][{{"name": "{}", "arguments": {{"q": {}}}, "id": "a"}}]</s>',
    "mistral-v13": '[TOOL_CALLS]{}[ARGS]{{"q": {}}}</s>',
    "harmony": ' to=functions.{}<|channel|>commentary <|constrain|>json<|message|>{{"q": {}}}<|call|>',
}
_ENDS = {
    "mypt": "</myPT_assistant>",
    "mypt-3b": "</assistant>",
    "praxis": "\n[SEP]",
    "gabgpt": "<|end|>",
    "usf-omega": "<message_end>\n<end>\n",
    "chatml": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "llama3": "<|eot_id|>",
    "mistral": "</s>",
    "mistral-v13": "</s>",
    "harmony": "<|return|>",
}
_BEGINS = {
    "gabgpt": "<|assistant|>",
    "usf-omega": "<message_start>",
    "harmony": "<|channel|>final<|message|>",
}
_THINKS = {
    "mypt": "<myPT_think>{}</myPT_think>",
    "gabgpt": "<|think|>{}",
    "usf-omega": "<reasoning_start>{}<reasoning_end>\n",
    "qwen3": "<think>\n{}\n</think>\n\n",
    "mistral-v13": "[THINK]{}[/THINK]",
    "harmony": "<|channel|>analysis<|message|>{}<|end|><|start|>assistant",
}
_ENDS_WITH_CALLS = ("usf-omega",)  # where a turn may end although its calls have no results


class Broken(RuntimeError):
    """What the model of these tests raises."""


class Chaos:
    """A source that writes what the dialect means, and now and then anything else, or breaks."""

    def __init__(self, dialect: str, rng: random.Random, *, fault: float = 0.0) -> None:
        self.d, self.rng, self.fault = mypt_spec.dialect(dialect), rng, fault
        self.context: list[int] = []
        self.coming: list[int] = []
        self.system = "You are a test." if "system" in self.d.table.openers else None
        self.controller: Controller | None = None

    def call(self, name: str) -> list[int]:
        return ids_of(
            _CALLS[self.d.name].format(
                name, json.dumps(self.rng.choice(["a", "ü😀", 3, None]), ensure_ascii=False)
            ),
            self.d.name,
        )

    def answer(self, text: str) -> list[int]:
        return ids_of(_BEGINS.get(self.d.name, "") + text + _ENDS[self.d.name], self.d.name)

    def _script(self) -> list[int]:
        rng = self.rng
        think = _THINKS.get(self.d.name, "").format("Hm 😀") if rng.random() < 0.3 else ""
        out = ids_of(think, self.d.name)
        if _CALLS[self.d.name] and rng.random() < 0.5:
            return out + self.call(
                rng.choice(
                    ["ok", "raises", "odd", "large", "cancels", "slow", "none", "pops", "exits"]
                )
            )
        return out + self.answer(rng.choice(["Yes.", "Ja, ü 😀 < & <t <my", "word " * 40]))

    @property
    def held(self) -> int:
        return len(self.context)

    def append(self, ids: Sequence[int]) -> None:
        if self.rng.random() < self.fault / 4:
            raise Broken
        self.context += ids

    def truncate(self, length: int) -> None:
        assert length < len(self.context)
        del self.context[length:]

    def next(self, left: int) -> int:
        if not self.coming:
            self.coming = self._script()
        token = self.coming.pop(0)
        if self.rng.random() < self.fault:
            kind = self.rng.randrange(8)
            if kind == 0:
                raise Broken
            if kind == 1:
                raise KeyboardInterrupt
            if kind == 7:
                raise SystemExit
            if kind == 2 and self.controller is not None:
                self.controller.cancel()
            elif kind == 3:
                token = self.rng.randrange(-5, self.d.tokenizer.vocab_size + 5)
            elif kind == 4:
                token = self.rng.choice([*self.d.table.special.values(), 50256])
            elif kind == 5:
                self.coming = self._script()
            else:
                self.coming = (
                    ids_of(
                        self.rng.choice([t.shown for t in self.d.table.terminals.values()]) + "\n",
                        self.d.name,
                    )
                    + self.coming
                )
        self.context.append(token)
        return token


def conversation(dialect: str, seed: int, *, turns: int) -> None:
    """Run some turns; raises AssertionError where the history is not legal, the source was told
    otherwise, or a replay differs.
    """
    rng = random.Random(seed)
    chaos = Chaos(dialect, rng, fault=rng.choice([0.0, 0.02, 0.2]))
    now = [0.0]

    def cancels(args: dict[str, Any]) -> int:
        controller.cancel()
        return 1

    def slow(args: dict[str, Any]) -> int:
        now[0] += 60
        return 1

    def exits(args: dict[str, Any]) -> None:
        raise rng.choice([SystemExit, GeneratorExit, Broken])

    functions = {"ok": lambda a: {"q": a}, "raises": lambda a: a["x"], "odd": lambda a: {"\ud800": 1}, "large": lambda a: ["word "] * 9999, "cancels": cancels, "slow": slow, "pops": lambda a: a.popitem() and None, "exits": exits}  # fmt: skip
    tools = Toolbox(Tool(n, "", {"type": "object"}, f) for n, f in functions.items())
    options = Options(
        max_steps=rng.randrange(1, 4), max_tokens=rng.choice([5, 30, 200]), max_think_tokens=rng.choice([None, None, 3]), tool_seconds=None,
        max_toolcall_tokens=rng.choice([None, 10]), context_length=rng.choice([None, 320, 600]), seconds=rng.choice([None, 30.0]),
        max_result_tokens=rng.choice([64, 300]), think=rng.choice([*[None] * 6, True, False]),
        answer_reserve=rng.choice([128, 128, 20, 0]),
    )  # fmt: skip
    controller = Controller(
        chaos, tools, dialect=dialect, system=chaos.system, options=options, clock=lambda: now[0]
    )
    chaos.controller = controller
    done = 0
    for i in range(turns):
        events: list[Event] = []
        chaos.coming = []
        try:
            events.extend(controller.say(f"Question {i} 😀"))
        except (Broken, SystemExit):
            assert controller.last_end is not None
            assert controller.last_end.reason == "error"
        except ContextError:
            break
        else:
            assert [e for e in events if isinstance(e, TurnEnd)] == [events[-1]]
        done += 1
    d = controller.history.dialect
    assert len(controller.history.turns) == done, "what was refused was not said"
    assert sum(n for _, n in controller.history.origins) == len(controller.history.ids)
    if not done:
        return
    d = controller.history.dialect
    for ids in (controller.history.ids, controller.history.context()):
        episode, findings = d.parse_ids(ids)
        assert episode is not None, (findings[0].message, d.tokenizer.decode(ids))
        assert not [
            f for f in d.validate(episode) if f.severity == "error" and f.code not in TEXTUAL
        ], d.validate(episode)
    drawn = [r for turn in controller.replies.turns for r in turn["replies"] if isinstance(r, int)]
    known = min(controller.history.unchanged, len(chaos.context))
    assert chaos.context[:known] == controller.history.context()[:known]
    origins = [origin for origin, n in controller.history.origins for _ in range(n)]
    kept = [
        token
        for token, origin in zip(controller.history.ids, origins, strict=True)
        if origin == "sampled"
    ]
    lost = [token for dropped in controller.history.dropped for token in dropped.ids]
    assert not Counter(drawn) - Counter(kept + lost), (
        "what was drawn is in the history, or is known to have been taken off"
    )
    ended = ends_of_calls(controller._events)
    assert _calls_in(controller) == sum(end != "dropped" for end in ended.values()), (
        "a call is kept, or dropped"
    )
    assert "unanswered" not in ended.values() or dialect in _ENDS_WITH_CALLS
    record = json.loads(json.dumps(controller.record()))
    history, events = replay(record, dialect)
    assert history.ids == controller.history.ids
    left_out = {number for number, _ in record["_transcript"].get("left_out", [])}
    ends = [e.reason for e in events if isinstance(e, TurnEnd)]
    assert (
        {n for n, end in enumerate(ends, 1) if end != "stop"} <= left_out <= {*range(1, done + 1)}
    )
    if len(left_out) < done:
        found = d.check(record)[1]
        assert not [f for f in found if f.severity == "error"], "a transcript is training data"


def _calls_in(controller: Controller) -> int:
    """The number of calls that the model wrote in a conversation, and that are still there."""
    episode, _ = controller.history.dialect.parse_ids(controller.history.ids)
    assert episode is not None
    calls = calls_of(episode.messages, controller.history.dialect.table)
    return sum(1 for _ in calls)


# Of what a model writes in ordinary letters: no structure.
TEXTUAL = {"MYP301", "MYP302", "MYP303", "MYP801", "MYP802"}
