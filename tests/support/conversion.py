"""What conversations may have, as a record in each format that can say it.

The matrix of docs/conversion.md is made from this.

The matrix says what `Converter` did with these records, and nothing else:
tests/unit/mypt_convert/test_convert.py runs it, and `tools/regenerate.py` writes it down.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import mypt_spec
from mypt_convert import Converted, Converter, readable

Record = dict[str, Any]
SYSTEM = "You are helpful."


def _user(text: str = "Hi", **more: Any) -> Record:
    return {"role": "user", "content": text, **more}


def _said(text: str = "Hello.", **more: Any) -> Record:
    return {"role": "assistant", "content": text, **more}


def _function(name: str, arguments: Any, ident: str = "") -> Record:
    return ({"id": ident} if ident else {}) | {
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _openai(*messages: Record, **more: Any) -> Record:
    return {"messages": list(messages), **more}


def _mypt(*messages: Record, **more: Any) -> Record:
    return {"system": SYSTEM, "messages": list(messages), **more}


def _called(name: str = "t", **more: Any) -> list[Record]:
    return [{"role": "assistant_toolcall", "name": name, "arguments": {"q": 1}, **more}]


def _items(*items: Record) -> Record:
    return {"role": "assistant", "contents": list(items)}


_CALL = {"type": "toolcall", "name": "t", "arguments": {"q": 1}}
_RESULT = {"type": "toolresult", "content": "4"}
_TOOL = {
    "type": "function",
    "function": {
        "name": "t",
        "description": "d",
        "parameters": {"type": "object", "properties": {}},
    },
}
_ANSWERED = _openai(
    _user(),
    _said(None, tool_calls=[_function("t", '{"q": 1}', "c1")]),
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    _said(),
)  # type: ignore[arg-type]
_TWO = [_function("t", {"q": 1}, "c1"), _function("t", {"q": 2}, "c2")]
_TWO_RESULTS = [
    {"role": "tool", "tool_call_id": "c1", "name": "t", "content": "4"},
    {"role": "tool", "tool_call_id": "c2", "name": "t", "content": "5"},
]

# The formats whose records are messages of system, user and assistant, with text alone.
_CHATS = ("chatml", "harmony", "llama3", "mistral", "mistral-v13")

# Feature -> format -> a record that has it, and little else.
FEATURES: dict[str, dict[str, Record]] = {
    "question and answer": {
        "openai": _openai(_user(), _said()), "qwen3": _openai(_user(), _said()), "mypt": _mypt(_user(), _said()), "mypt-3b": _openai(_user(), _said()),
        "gabgpt": _openai(_user(), _said()), "praxis": _openai(_user(), _said()), "usf-omega": _openai(_user(), _said()),
        **{name: _openai(_user(), _said()) for name in _CHATS},
    },
    "system prompt": {
        "openai": _openai({"role": "system", "content": SYSTEM}, _user(), _said()), "mypt": _mypt(_user(), _said()),
        "mypt-3b": _mypt(_user(), _said()), "praxis": _openai({"role": "system", "content": SYSTEM}, _user(), _said()),
        "usf-omega": _openai({"role": "system", "content": SYSTEM}, _user(), _said()),
        "qwen3": _openai({"role": "system", "content": SYSTEM}, _user(), _said()),
        **{name: _openai({"role": "system", "content": SYSTEM}, _user(), _said()) for name in _CHATS},
    },
    "system and developer": {
        name: _openai({"role": "system", "content": SYSTEM}, {"role": "developer", "content": "Be brief."}, _user(), _said())
        for name in ("openai", "praxis", "usf-omega", "harmony")
    },
    "model identity": {"usf-omega": _openai(_user(), _said(), model_identity="I am Ada.")},
    "several turns": {
        name: _openai(_user(), _said(), _user("Bye"), _said("Bye.")) | ({"system": SYSTEM} if name == "mypt" else {})
        for name in ("openai", "mypt", "mypt-3b", "gabgpt", "praxis", "qwen3", "usf-omega", *_CHATS)
    },
    "empty answer": {name: _openai(_user(), _said("")) for name in ("openai", "gabgpt", "chatml", "llama3", "qwen3")},
    "context of a question": {"mypt": _mypt(_user(context="c"), _said()), "mypt-3b": _openai(_user(context="c"), _said())},
    "context of an answer": {"mypt": _mypt(_user(), {"role": "assistant_context", "content": "c"}, _said())},
    "thinking": {
        "mypt": _mypt(_user(), _said(think="t")), "gabgpt": _openai(_user(), _said(think="t")), "harmony": _openai(_user(), _said(reasoning_content="t")),
        "qwen3": _openai(_user(), _said(reasoning_content="t")),
        "mistral-v13": _openai(_user(), _said(reasoning_content="t")),
        "usf-omega": _openai(_user(), _items({"type": "reasoning", "reasoning": "t"}, {"type": "text", "text": "Hello."})),
    },
    "citation": {"mypt": _mypt(_user(), _said(cite="doc"))},
    "citation within the text": {"mypt": _mypt(_user(), _said("As <myPT_cite>doc</myPT_cite> says."))},
    "call and result": {
        "mistral": _ANSWERED,
        "mistral-v13": _openai(_user(), {"role": "assistant", "tool_calls": _TWO[:1]}, _TWO_RESULTS[0], _said()),
        "llama3": _openai(_user(), {"role": "assistant", "tool_calls": _TWO[:1]}, _TWO_RESULTS[0], _said()),
        "harmony": _openai(_user(), {"role": "assistant", "tool_calls": _TWO[:1]}, _TWO_RESULTS[0], _said()),
        "openai": _ANSWERED,
        "mypt": _mypt(_user(), *_called(), {"role": "toolresult", "name": "t", "content": 4}, _said()),
        "mypt-3b": _openai(_user(), *_called(), {"role": "tool_result", "name": "t", "content": {"n": [1.5, None]}}, _said()),
        "praxis": _openai(_user(), _items(_CALL, _RESULT, {"type": "text", "text": "Hello."})),
        "usf-omega": _openai(_user(), _said_calls := {"role": "assistant", "tool_calls": _TWO[:1]}, _TWO_RESULTS[0], _said()),
        "qwen3": _openai(_user(), _said_calls, _TWO_RESULTS[0], _said()),
    },
    "thinking before a call": {
        "harmony": _openai(
            _user(), {"role": "assistant", "reasoning_content": "t", "tool_calls": _TWO[:1]}, _TWO_RESULTS[0], _said()
        ),
        **{
            name: _openai(_user(), {"role": "assistant", "reasoning_content": "t", "tool_calls": _TWO[:1]}, _TWO_RESULTS[0], _said())
            for name in ("qwen3", "mistral-v13")
        },
        "mypt": _mypt(_user(), *_called(think="t"), {"role": "toolresult", "name": "t", "content": 4}, _said()),
        "usf-omega": _openai(
            _user(), _items({"type": "reasoning", "reasoning": "t"}, {"type": "tool_calls", "tool_calls": _TWO[:1]}), _TWO_RESULTS[0], _said()
        ),
    },
    "text before a call": {
        "harmony": _openai(_user(), _said("Wait.", tool_calls=_TWO[:1]), _TWO_RESULTS[0], _said()),
        "openai": _openai(_user(), _said("Wait.", tool_calls=[_function("t", "{}", "c1")]), {"role": "tool", "tool_call_id": "c1", "content": "4"}, _said()),
        "praxis": _openai(_user(), _items({"type": "text", "text": "Wait."}, _CALL, _RESULT, {"type": "text", "text": "Hello."})),
        "usf-omega": _openai(_user(), _said("Wait.", tool_calls=_TWO[:1]), _TWO_RESULTS[0], _said()),
        "qwen3": _openai(_user(), _said("Wait.", tool_calls=_TWO[:1]), _TWO_RESULTS[0], _said()),
        "mistral-v13": _openai(_user(), _said("Wait.", tool_calls=_TWO[:1]), _TWO_RESULTS[0], _said()),
    },
    "several calls, one by one": {
        "harmony": _openai(
            _user(), {"role": "assistant", "tool_calls": _TWO[:1]}, _TWO_RESULTS[0], {"role": "assistant", "tool_calls": _TWO[1:]}, _TWO_RESULTS[1], _said()
        ),
        "llama3": _openai(_user(), {"role": "assistant", "tool_calls": _TWO[:1]}, _TWO_RESULTS[0], {"role": "assistant", "tool_calls": _TWO[1:]}, _TWO_RESULTS[1], _said()),
        "mypt": _mypt(_user(), *2 * (*_called(), {"role": "toolresult", "name": "t", "content": 4}), _said()),
        "mypt-3b": _openai(_user(), *2 * (*_called(), {"role": "tool_result", "name": "t", "content": 4}), _said()),
        "praxis": _openai(_user(), _items(_CALL, _RESULT, _CALL, _RESULT, {"type": "text", "text": "Hello."})),
        "usf-omega": _openai(_user(), _said_calls, _TWO_RESULTS[0], {"role": "assistant", "tool_calls": _TWO[1:]}, _TWO_RESULTS[1], _said()),
    },
    "parallel calls": {
        "mistral": _openai(_user(), {"role": "assistant", "tool_calls": _TWO}, *_TWO_RESULTS, _said()),
        "mistral-v13": _openai(_user(), {"role": "assistant", "tool_calls": _TWO}, *_TWO_RESULTS, _said()),
        "openai": _openai(
            _user(), {"role": "assistant", "tool_calls": [_function("t", "{}", "c1"), _function("t", "{}", "c2")]}, *_TWO_RESULTS, _said()
        ),
        "usf-omega": _openai(_user(), {"role": "assistant", "tool_calls": _TWO}, *_TWO_RESULTS, _said()),
        "qwen3": _openai(_user(), {"role": "assistant", "tool_calls": _TWO}, *_TWO_RESULTS, _said()),
    },
    "results without a name": {
        "usf-omega": _openai(_user(), _said_calls, {"role": "tool", "tool_call_id": "c1", "content": "Sunny"}, _said()),
    },
    "tool definitions": {"mistral": _ANSWERED | {"tools": [_TOOL]}, "mistral-v13": _openai(_user(), _said(), tools=[_TOOL]), "llama3": _openai(_user(), _said(), tools=[_TOOL]), "openai": _ANSWERED | {"tools": [_TOOL]}, "usf-omega": _openai(_user(), _said(), tools=[_TOOL]), "qwen3": _openai(_user(), _said(), tools=[_TOOL])},
    "self-reflection": {"usf-omega": _openai(_user(), _said(self_reflection="Fine."), self_reflection_enabled=True)},
    "answer flags": {"usf-omega": _openai(_user(), _said("{}"), json_mode=True, reasoning_effort="none")},
    "preferred and rejected": {"usf-omega": {"messages": [_user()], "chosen": _said(), "rejected": _said("Go away.")}},
    "other keys of OpenAI's API": {"openai": _openai(_user(name="ann"), _said(weight=1), parallel_tool_calls=False)},
    "unknown keys": {"openai": _openai(_user(), _said(score=0.5), source={"id": 7})},
    "language": {
        name: _openai(_user(), _said(), language="de") | ({"system": SYSTEM} if name == "mypt" else {})
        for name in ("mypt", "mypt-3b", "gabgpt", "praxis", "qwen3", *_CHATS)
    },
    "metadata of record and message": {
        name: _openai(_user(_n=1), _said(), _source="x") | ({"system": SYSTEM} if name == "mypt" else {})
        for name in ("openai", "mypt", "mypt-3b", "gabgpt", "praxis", "qwen3", "usf-omega", *_CHATS)
    },
}  # fmt: skip


class Outcome(NamedTuple):
    """What became of one record: `word` is "kept", "kept with --system", "loses ..." or "refused:
    ...".

    `source` is the record as it was given; `system` the prompt that was needed.
    """

    word: str
    source: Record
    system: str | None
    converted: Converted


def sources() -> list[str]:
    """The formats that a feature has a record of; all shapes are read as the first one is."""
    return [name for name in readable() if any(name in records for records in FEATURES.values())]


@cache
def converter(source: str, target: str, system: str | None = None) -> Converter:
    return Converter(source, target, system=system)


def outcome(source: str, target: str, record: Record) -> Outcome:
    """Returns what a target makes of a record."""
    system = None
    converted = converter(source, target).record(record)
    if converted.record is None:
        system, converted = SYSTEM, converter(source, target, SYSTEM).record(record)
    with_system = " with --system" if system else ""
    if converted.record is None:
        return Outcome(f"refused: {converted.findings[0].code}", record, system, converted)
    fields = ", ".join(dict.fromkeys(loss.field for loss in converted.losses))
    word = f"loses {fields}{with_system}" if fields else f"kept{with_system}"
    return Outcome(word, record, system, converted)


def outcomes_from(source: str) -> dict[str, dict[str, Outcome]]:
    """Returns what all targets make of the features that a source has a record of."""
    return {
        feature: {
            target: outcome(source, target, records[source]) for target in mypt_spec.dialects()
        }
        for feature, records in FEATURES.items()
        if source in records
    }


def section(source: str, outcomes: dict[str, dict[str, Outcome]]) -> str:
    """Returns the part of docs/conversion.md about a source."""
    targets = mypt_spec.dialects()
    lines = [
        f"## From {source}",
        "",
        "| feature | " + " | ".join(targets) + " |",
        "|---" * (len(targets) + 1) + "|",
    ]
    for feature, cells in outcomes.items():
        lines.append(f"| {feature} | " + " | ".join(cells[t].word for t in targets) + " |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """docs/conversion.md."""
    all_outcomes = {source: outcomes_from(source) for source in sources()}
    targets = mypt_spec.dialects()
    lines = [
        "# What survives a conversion",
        "",
        "`mypt-convert` converts each record or refuses it. These tables list what each conversion keeps. They are generated from",
        "`tests/support/conversion.py`: each cell is the result of `mypt-convert` for a record that has the feature.",
        "",
        "| cell | meaning |",
        "|---|---|",
        "| `kept` | converting back returns the same record (openai is only read) |",
        "| `loses x` | the target has no place for field x. The record is refused unless you choose `--on-loss warn` or `--on-loss drop` |",
        "| `refused` | no record of the target can express it, whatever the option |",
        "| `with --system` | the target requires a system prompt and the source has none, so the record that comes back has one too |",
        "",
        "- **Record formats.** Records of `--from sharegpt`, `alpaca`, `completion`, `preference` and `kto` are read as the same messages,",
        "  calls and results as openai's, so the row of openai applies to them. Texts are read in their dialect. usf-omega keeps",
        "  preferences and labels. There each answer of a pair is one message, with its thoughts and calls; a pair in which an",
        "  answer takes several, such as a call, its result and a text, is refused.",
        "- **Call ids** are kept as metadata (`_tool_call_ids`) if the target has none, and restored from it.",
        "- **Results** are JSON values in some formats and text in others. A text that is canonical JSON becomes that value, and any",
        "  other text a string; the conversion back reverses this.",
        "- **Unknown keys** of a record or message become metadata, `note` as `_note`. If that name is taken, the record is refused.",
        "  OpenAI's keys that no dialect uses, such as `logprobs` or the `name` of a user, are kept the same way. Metadata has no",
        "  effect.",
        "- **Weights** (`weight`, or `train`) of an answer, or of text parts of it, remain its `weight`.",
        "- **Lost, never metadata**: input of the model (`tools`, `response_format`, `images`), and parts of a message beside its content",
        "  (`refusal`, `audio`, `function_call`), if the target has no place for them.",
        "",
        "## Overview",
        "",
        "| from \\ to | " + " | ".join(targets) + " |",
        "|---" * (len(targets) + 1) + "|",
    ]
    for source, outcomes in all_outcomes.items():
        cells = []
        for target in targets:
            words = [cells_of[target].word for cells_of in outcomes.values()]
            kept = sum(word.startswith("kept") for word in words)
            cells.append("all kept" if kept == len(words) else f"{kept} of {len(words)} kept")
        lines.append(f"| [{source}](#from-{source}) | " + " | ".join(cells) + " |")
    lines.append("")
    sections = [section(source, outcomes) for source, outcomes in all_outcomes.items()]
    return "\n".join([*lines, *sections])


def without_ids(value: Any) -> Any:
    """Returns a record without the ids of its calls and results."""
    if isinstance(value, list):
        return [without_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("id", "tool_call_id", "_tool_call_ids")
    return {key: without_ids(item) for key, item in value.items() if key not in ids}
