"""Writes the chat template of a dialect: Jinja that writes what the serialiser writes.

Input: a dialect. Output: the text of `chat_template.jinja`. It takes messages and tools as OpenAI
has them, and marks with `{% generation %}` what the loss mask trains.

Theory of operation. A template has no grammar, so this one has the automaton as data, and
`chat.jinja`, which is the same for all dialects, walks it: each tag and text goes through a macro
that looks the next state up, and refuses what may not come. A piece of a message (a thought, a
call) opens its block unless it is open, and closes the one before. What is written is collected as
[text, trained] and printed at the end, because marks must be outside of macros. In chatml, the
message {"role": "user", "content": "Hi"} calls open("user") and raw("Hi"): USER_OPEN leads to a
state that takes TEXT; the next message closes the block with END.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mypt_spec import Dialect
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.adapters.template_options import KEY
from mypt_spec.bodies.tagged import TAGS
from mypt_train.export.chat_facts import facts
from mypt_train.export.chat_layout import ChatLayout, chat_layout
from mypt_train.export.option_texts import option_texts

_PROGRAM = Path(__file__).parent / "chat.jinja"
JSON_TEXT = _PROGRAM.with_name("json_text.jinja")
# What only formats need that write definitions of tools in such a body.
_TOOLS = {
    body: _PROGRAM.with_name(f"{body}.jinja") for body in ("namespace", "signatures", "tool_tags")
}


def chat_template(dialect: Dialect, *, reserved: tuple[str, ...] = ()) -> str:
    """Returns the chat template of a dialect. Raises ExportError where it can have none.

    `reserved` are spellings of special ids that are no tags, which no text may have.
    """
    layout, table = chat_layout(dialect), dialect.table
    slots: dict[str, Any] = asdict(facts(dialect, reserved=reserved))
    start, ways, states = slots.pop("start"), slots.pop("prompts"), range(len(slots["steps"]))
    slots["prompts"] = [ways.get(state, []) for state in states]
    slots["answered"] = [int(state in ways) for state in states]
    slots |= _layout(dialect, layout) | {"head_block": layout.options.block}
    slots["head_system"] = layout.options.system
    title = f"The text of a chat in {table.title}."
    out = [f"{{#- {title} Made by mypt-export from the grammar of {table.name}. -#}}\n"]
    # First: an option may have the name of a variable of the program.
    out.append(f"{{%- set thoughtless = {_thoughtless(dialect, layout)} -%}}\n")
    out += option_texts(layout.options)
    for name, value in slots.items():
        out.append(f"{{%- set {name} = {json.dumps(value, ensure_ascii=False)} -%}}\n")
    fields = (
        f'state={start}, open="", key="", last="", mark="", said="", trained=0, out=[], '
        "told='', front='', waiting=[], tools=0, turn=0, answered=false, again=false, "
        "given=false, final=false"
    )
    out.append(f"{{%- set now = namespace({fields}) -%}}\n")
    path = layout.paths.get("tools")
    tools = _TOOLS.get(table.openers[path[-1]].body) if path else None
    calls = JSON_TEXT if "call" in layout.paths else None
    files = [file for file in (tools, calls, _PROGRAM) if file is not None]
    return "".join([*out, *(file.read_text(encoding="utf-8") for file in files)])


def _thoughtless(dialect: Dialect, layout: ChatLayout) -> str:
    """Returns the condition on options under which prompts end with an empty thought."""
    inside = len(layout.paths.get("thought", ())) > 1
    records = dialect.adapter.prompting if inside else ()
    pairs = [pair for record in records for pair in record[KEY].items() if pair[0].isidentifier()]
    tests = (f"({name} is defined and {name} == {json.dumps(value)})" for name, value in pairs)
    return " or ".join(tests) or "false"


def _layout(dialect: Dialect, layout: ChatLayout) -> dict[str, Any]:
    """Returns what the program asks of the layout, and of the blocks in it."""
    table, paths = dialect.table, layout.paths
    names: list[str] = [r for r in ("system", "developer", "user") if r in paths]
    names += (
        ["assistant_context"] * ("note" in paths) + ["assistant"] + ["tool"] * ("result" in paths)
    )
    result = table.openers[paths["result"][-1]].patterns if "result" in paths else {}
    mark = table.marks.get(layout.finish)
    return {
        "paths": {piece: list(path) for piece, path in paths.items()},
        "inline": layout.inline,
        "fronts": {f"{t.opens}/{t.before}": t.name for t in table.terminals.values() if t.before},
        "openers": {kind: t.name for kind, t in table.openers.items()},
        "closers": {kind: t.name for kind, t in table.closers.items()},
        "bodies": {kind: t.body for kind, t in table.openers.items()},
        "shared": sorted(layout.shared),
        "own_tags": list(TAGS),
        "again": [kind for kind, t in table.openers.items() if t.again],
        "thoughts": [*THOUGHTS, "think"],
        "empty": int(layout.empty),
        "turns": int(layout.turns),
        "told": layout.told,
        "both": [t.name for t in table.terminals.values() if t.both],
        "last": int(layout.last),
        "by_ids": int("id" in result or "result_id" in paths),
        "roles": ", ".join(names),
        "begin": table.marks[layout.begin].name if layout.begin else "",
        "after": table.marks[layout.after].name if layout.after else "",
        "finish": mark.name if mark else "",
        "finish_closes": list(mark.ends) if mark else [],
    }
