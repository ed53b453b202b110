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

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mypt_spec import Dialect
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.adapters.template_options import Option, TemplateOptions
from mypt_spec.bodies.call_tags import Keywords, Tags
from mypt_spec.bodies.definitions import layout_of
from mypt_spec.bodies.json_body import counting
from mypt_spec.bodies.tagged import USUAL
from mypt_spec.episode import patterns_of
from mypt_spec.table import TOOL_TAGS, History
from mypt_spec.templates.sandbox import ToolTemplate
from mypt_train.export.chat_facts import facts
from mypt_train.export.chat_layout import ChatLayout, chat_layout

_PROGRAM = Path(__file__).parent / "chat.jinja"
JSON_TEXT = _PROGRAM.with_name("json_text.jinja")
# What only formats need that write definitions of tools in such a body.
_TOOLS = {body: _PROGRAM.with_name(f"{body}.jinja") for body in ("namespace", "signatures")}
_TOOLS |= dict.fromkeys(TOOL_TAGS, _PROGRAM.with_name("tool_tags.jinja"))


def chat_template(
    dialect: Dialect, *, reserved: tuple[str, ...] = (), history: str = "official"
) -> str:
    """Returns the chat template of a dialect. Raises ExportError where it can have none.

    `reserved` are spellings of special ids that are no tags, which no text may have. Thoughts of
    earlier turns are those of the model's own template, unless `history` is "keep".
    """
    layout, table = chat_layout(dialect), dialect.table
    slots: dict[str, Any] = facts(dialect, reserved=reserved)._asdict()
    start, ways, states = slots.pop("start"), slots.pop("prompts"), range(len(slots["steps"]))
    slots["prompts"] = [ways.get(state, []) for state in states]
    slots["answered"] = [int(state in ways) for state in states]
    slots |= _layout(dialect, layout) | {"head_block": layout.options.block}
    slots["head_system"] = layout.options.system
    title = f"The text of a chat in {table.title}."
    out = [f"{{#- {title} Made by mypt-export from the grammar of {table.name}. -#}}\n"]
    # First: an option may have the name of a variable of the program.
    out.append(f"{{%- set thoughtless = {_thoughtless(layout)} -%}}\n")
    out += _option_texts(layout.options)
    out.append(_forgets(table.history if history != "keep" else History()))
    for name, value in slots.items():
        out.append(f"{{%- set {name} = {json.dumps(value, ensure_ascii=False)} -%}}\n")
    fields = (
        f'state={start}, open="", key="", last="", mark="", said="", trained=0, out=[], '
        "past=false, told='', front='', waiting=[], tools=0, turn=0, answered=false, again=false, "
        "next=false, given=false, final=false, late=[], resumed='', calls=0"
    )
    out.append(f"{{%- set now = namespace({fields}) -%}}\n")
    path = layout.paths.get("tools")
    body = table.openers[path[-1]].body if path else ""
    tools = _TOOLS.get(body)
    if isinstance(body, ToolTemplate):
        text = body.text.removesuffix("\n")  # as Jinja does; no end of a line belongs to a tag
        text = f"{{{{ '' }}}}{text}{{{{ '' }}}}"
        out.append(f"{{%- macro template_text(tools) %}}{text}{{% endmacro -%}}\n")
    calls = JSON_TEXT if "call" in layout.paths else None
    files = [file for file in (tools, calls, _PROGRAM) if file is not None]
    return "".join([*out, *(file.read_text(encoding="utf-8") for file in files)])


def _forgets(history: History) -> str:
    """Returns what sets the columns of `[history]`; nothing is set where thoughts are kept."""
    columns = history._asdict() if history.drops else {}
    keeps = "tools" if history.keeps_with_tools else "false"
    return f"{{%- set forgets = {{}} if {keeps} else {json.dumps(columns)} -%}}\n"


def _thoughtless(layout: ChatLayout) -> str:
    """Returns the condition on options under which prompts end with an empty thought."""
    inside = len(layout.paths.get("thought", ())) > 1
    tests = (
        f"({o.name} == {json.dumps(o.empty_thought)} if {o.name} is defined else "
        f"{json.dumps(o.default == o.empty_thought)})"
        for o in layout.options.options
        if inside and o.empty_thought is not None and o.name.isidentifier()
    )
    return " or ".join(tests) or "false"


def _layout(dialect: Dialect, layout: ChatLayout) -> dict[str, Any]:
    """Returns what the program asks of the layout, and of the blocks in it."""
    table, paths, bare = dialect.table, layout.paths, dialect.table.tagged
    tags = bare if isinstance(bare, Tags) else USUAL
    listed = bare if isinstance(bare, Keywords) else Keywords(["[", ", ", "]"])
    heads = {*paths, *["system"] * bool(layout.system.question)}
    names: list[str] = [r for r in ("system", "developer", "user") if r in heads]
    names += (
        ["assistant_context"] * ("note" in paths) + ["assistant"] + ["tool"] * ("result" in paths)
    )
    result = patterns_of(paths["result"][-1], table) if "result" in paths else {}
    mark = table.marks.get(layout.finish)
    opener = table.openers[paths["tools"][-1]] if "tools" in paths else None
    return {
        "paths": {piece: list(path) for piece, path in paths.items()},
        "inline": layout.inline,
        "fronts": {f"{a}/{b}": t.name for (a, b), t in table.leaders.items()},
        "openers": {kind: t.name for kind, t in table.openers.items()},
        "closers": {kind: t.name for kind, t in table.closers.items()},
        "bodies": {kind: t.body for kind, t in table.openers.items()},
        "shared": sorted(layout.shared),
        "call_tags": [
            list(tags.function),
            list(tags.argument),
            list(tags.marks),
            tags.python or 0,
            list(tags.wrap),
            list(tags.types),
            tags.none,
        ],
        "listing": [*listed.calls, listed.end, int(listed.escapes)],
        "bare_keys": [bare.end, bare.null] if bare == "bare_keys" else [],
        "each_tool": bool(getattr(opener and opener.body, "each", False)),
        "repeated": {kind: t.name for kind, t in table.between.items()},
        "thoughts": [*THOUGHTS, "think"],
        "bare_end": table.bare_end,
        "empty": int(layout.empty),
        "always_thinks": int(layout.options.always_thinks),
        "only_prompts": int(layout.options.only_prompts),
        "turns": int(layout.turns),
        "late": int(layout.late is not False),
        "ended": int(layout.late == "ended"),
        "resumed": int(layout.paths["answer"][0] in table.between),
        "told": layout.told,
        "default_system": [layout.system.default, layout.system.default_with_tools],
        "absent": table.marks[layout.system.mark].name if layout.system.mark else "",
        "fronted": layout.system.question,
        "around_system": [layout.system.before, layout.system.after],
        "prefixes": {piece: table.openers[path[-1]].prefix for piece, path in paths.items()},
        "suffixes": {piece: table.openers[path[-1]].suffix for piece, path in paths.items()},
        "strips": {
            piece: table.openers[path[-1]].strip
            for piece, path in paths.items()
            if table.openers[path[-1]].strip
        }
        | ({"front": layout.system.strip} if layout.system.strip else {}),
        "both": [t.name for t in table.terminals.values() if t.both],
        "tools_before": layout.tools_before,
        "after_tools": layout.after_tools,
        "tools_layout": layout_of(opener.body) if opener else [],
        "by_ids": int("id" in result or "result_id" in paths),
        "counted": int(counting(table) is not None),
        "roles": ", ".join(names),
        "begin": table.marks[layout.begin].name if layout.begin else "",
        "after": table.marks[layout.after].name if layout.after else "",
        "finish": mark.name if mark else "",
        "finish_closes": list(mark.ends) if mark else [],
    }


def _option_texts(options: TemplateOptions) -> Iterator[str]:
    """Yields lines of Jinja that make `head.text` as `TemplateOptions.text` makes it of a record.

    To a template, options are variables, which cannot be looked up by name; so there is a piece of
    Jinja for each. One whose name is no name of a variable has no effect.
    """
    yield '{%- set head = namespace(text="", one=none, listed=[]) -%}\n'
    usable = [o for o in options.options if o.name.isidentifier() and o.empty_thought is None]
    yield from map(_refused, usable)
    conditions = [f"({_is_given(o.name)})" for o in usable if o.text]
    if not (conditions or options.always):
        return
    yield f"{{%- if {'true' if options.always else ' or '.join(conditions)} -%}}\n"
    for option in options.options:
        if option.text and (not option.name or option.name.isidentifier()):
            text = _add_text(option)
            system = "messages and messages[0].role == 'system'"
            tests = ("tools", option.tools), (f"({system})", option.system)
            test = " and ".join("not " * (not on) + what for what, on in tests if on is not None)
            yield f"{{%- if {test or 'true'} -%}}{text}{{%- endif -%}}\n"
    yield "{%- endif -%}\n"


def _is_given(name: str) -> str:
    """Returns whether an option is given: a function of its name, of the date, is none."""
    return f"{name} is defined and {name} is not none and {name} is not callable"


def _refused(option: Option) -> str:
    """Returns what refuses values that the option does not take."""
    name = option.name
    if option.lists:
        keys = _json([key for key, _ in option.lists])
        wrong = (
            f"{name} is string or {name} is not iterable or {name} | reject('in', {keys}) | list"
        )
    else:
        wrong = f"not in {_json(option.values)}" if option.values else "is not string"
        wrong = f"{name} {wrong}"
    message = f'"the option {name} has no value " ~ {name}'
    return (
        f"{{%- if {_is_given(name)} and ({wrong}) -%}}"
        f"{{{{- raise_exception({message}) -}}}}{{%- endif -%}}\n"
    )


def _add_text(option: Option) -> str:
    """Returns what adds the text of an option to the others."""
    if not option.name:
        return f"{{%- set head.text = head.text ~ {_json(option.text)} -%}}"
    is_given = _is_given(option.name)
    out = f"{{%- set head.one = {option.name} if {is_given} else {_json(option.default)} -%}}"
    if option.lists:
        each = (
            f'({_json(text)} if {_json(key)} in head.listed else "")' for key, text in option.lists
        )
        out += (
            f"{{%- set head.listed = head.one or [] -%}}{{%- set head.one = {' ~ '.join(each)} -%}}"
        )
    before, *parts = option.text.split("{}")
    text = " ~ ".join([_json(before), *(f"head.one ~ {_json(part)}" for part in parts)])
    return (
        f'{out}{{%- if head.one is not none and head.one != "" -%}}'
        f"{{%- set head.text = head.text ~ {text} -%}}{{%- endif -%}}"
    )


def _json(value: object) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
