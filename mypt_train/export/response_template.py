"""Writes how transformers reads an answer: its `response_template`.

Input: a dialect. Output: a JSON object with the fields `thinking`, `content` and `tool_calls`, for
transformers and servers that use it. Where a block begins and ends is read off the automaton.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from mypt_spec import Dialect
from mypt_spec.bodies.call_tags import BareKeys, Keywords, Tags
from mypt_spec.states import open_blocks, stop_tags
from mypt_spec.table import Terminal
from mypt_train.export.chat_facts import endings, openings
from mypt_train.export.chat_layout import ChatLayout, chat_layout
from mypt_train.export.tokenizer_file import ExportError

_STRING = r'"(?:[^"\\]|\\.)*"'
# The members of a call that has its arguments beside its name.
_MEMBER = (
    rf'"(?P<key>(?:[^"\\]|\\.)*)": (?P<value>(?P<any>{_STRING}|-?[0-9][0-9.eE+-]*|true|false|null'
    rf"|\[(?:(?&any)(?:, (?&any))*)?\]|\{{(?:{_STRING}: (?&any)(?:, {_STRING}: (?&any))*)?\}}))"
)
_TEXT_AS_IT_IS = {"content": "text", "content_args": {"strip": False}}


def response_template(dialect: Dialect) -> dict[str, Any]:
    """Returns the response template of a dialect. Raises ExportError where it can have none."""
    layout, table = chat_layout(dialect), dialect.table
    fields: dict[str, Any] = {}
    if "thought" in layout.paths:
        fields["thinking"] = _bounds(layout.paths["thought"][-1], dialect) | _TEXT_AS_IT_IS
    if "call" in layout.paths:
        fields["tool_calls"] = _calls(layout, dialect)
    fields["content"] = _TEXT_AS_IT_IS | {"repeats": True, "join": ""} | _content(layout, dialect)
    defaults = {"role": "assistant"}
    # A thought that the prompt opens is read in the prompt.
    kinds = layout.paths.get("thought", ())[-1:]
    before = {_pattern(tag) for tag in table.terminals.values() if tag.before in kinds}
    for tags, _ in openings(dialect):
        head = takewhile(lambda tag: tag.opens not in kinds, map(table.terminals.__getitem__, tags))
        before |= {"".join(map(_pattern, head))} - {""}
    before = before or {_pattern(table.openers[layout.paths["answer"][0]])}  # all open a thought
    anchor = "|".join(sorted(before, key=lambda p: (-len(p), p)))
    if not anchor:
        raise ExportError(f"{table.name}: nothing says where an answer begins")
    return {"version": 1, "defaults": defaults, "start_anchor_pattern": anchor, "fields": fields}


def vllm_template(dialect: Dialect) -> dict[str, Any]:
    """Returns the response template for vLLM, which streams texts, so that none is joined."""
    template = response_template(dialect)
    fields = template["fields"]
    if fields.keys() == {"content"}:
        raise ExportError(f"{dialect.name}: its answers have neither thoughts nor calls")
    del fields["content"]["join"]
    return template


def _calls(layout: ChatLayout, dialect: Dialect) -> dict[str, Any]:
    kind = layout.paths["call"][-1]
    field, body = _bounds(kind, dialect), dialect.table.openers[kind].body
    if layout.paths.get("said", ())[:1] == layout.paths["answer"]:
        problem = "no response template can read a text beside calls that has a tag"
        raise ExportError(f"{dialect.name}: {problem}; name servers that need none")
    python = isinstance(body, Keywords) or getattr(body, "null", "null") != "null"
    if python or (isinstance(body, Tags) and (body.wrap or body.python == "values")):
        problem = "no response template can read calls with wrapped strings or Python's words"
        raise ExportError(f"{dialect.name}: {problem}; name servers that need none")
    if body == "calls":
        return field | {"content": "json"}
    if body == "functions":
        function = {"name": "{name}", "arguments": "{arguments}"}
        item = {"type": "function", "id": "{id}", "function": function}
        return field | {"content": "json", "transform": item, "transform_each": True}
    if isinstance(body, Tags):  # the library reads a value by the type in its schema
        before, after = map(re.escape, body.function[:2])
        field["open_pattern"] += f"{before}(?P<name>{body.names.pattern}){after}"
        before, after, end = map(re.escape, body.argument)
        after += f"(?:{'|'.join(map(re.escape, body.types))})" * bool(body.types)
        value = f"{before}(?P<key>{body.names.pattern}){after}(?P<value>.*?){end}"
        field |= {"content": "xml-inline", "content_args": {"tag_pattern": value}}
    elif body == "call":
        field["open_pattern"] += r'\{"name": "(?P<name>(?:[^"\\]|\\.)*)"(?:, )?'
        args = {"tag_pattern": _MEMBER, "value_parser": {"name": "json"}}
        field |= {"content": "xml-inline", "content_args": args}
    else:
        field["content"] = "json"
    if isinstance(body, BareKeys):
        field["content_args"] = {"unquoted_keys": True, "string_delims": [[body.end] * 2]}
    inner = {"function": "{content.arguments}", "parameters": "{content.parameters}"}.get(body)
    names = {"name": "{content.name}" if inner else "{name}", "arguments": inner or "{content}"}
    transform = {"type": "function", "function": names}
    transform |= {"id": "{id}"} if "(?P<id>" in field["open_pattern"] else {}
    return field | {"repeats": True, "transform": transform}


def _content(layout: ChatLayout, dialect: Dialect) -> dict[str, Any]:
    """Returns where the text of an answer is: in blocks, or where no other field is."""
    kinds = [layout.paths[p][-1] for p in ("said", "answer") if p in layout.paths]
    opener = dialect.table.openers[kinds[-1]]
    in_prompts = {name for tags, _ in openings(dialect) for name in tags}
    if not opener.by_model or opener.name in in_prompts:
        ends = "|".join(_ends(kinds[-1], dialect))
        args = {"content_args": {"strip": True}} if opener.prefix.isspace() else {}
        return {"close_pattern": f"(?:{ends})(?s:.*)"} | args
    bounds = [_bounds(kind, dialect) for kind in kinds]
    opened = "|".join(b["open_pattern"] for b in bounds)
    closed = "|".join(dict.fromkeys(b["close_pattern"] for b in bounds))
    return {"open_pattern": opened, "close_pattern": closed}


def _bounds(kind: str, dialect: Dialect) -> dict[str, Any]:
    table, opener = dialect.table, dialect.table.openers[kind]
    others = table.placed.get((opener.name, "text")), table.joined.get(opener.name)
    leads = [other.bare[: -len(opener.bare)] for other in others if other is not None]
    closer, both = (of[kind].bare if kind in of else "" for of in (table.closers, table.between))
    leads += [both[len(closer) : -len(opener.bare)]] * (closer > "" and both.startswith(closer))
    spaces = "|".join(map(re.escape, sorted({*leads} - {""}, key=len, reverse=True)))
    lead = f"(?:{spaces})?" if spaces else ""
    ends = "|".join(_ends(kind, dialect))
    head, attr, tail = _pattern(opener, captures=True).partition("(?P<name>")
    if kind in table.between:
        again = _pattern(table.between[kind], captures=True).partition("(?P<name>")
        head = head if again[0] == head else f"(?:{head}|{again[0]})"
    return {"open_pattern": lead + head + attr + tail, "close_pattern": ends}


def _ends(kind: str, dialect: Dialect) -> list[str]:
    """Returns patterns of the tags that end a block, or that follow one without a closing tag."""
    table, machine = dialect.table, dialect.automaton
    patterns, inside = set[str](), open_blocks(machine, table)
    for state, stack in inside.items():
        row = machine.steps[state] if stack[-1:] == (kind,) else {}
        for name in row.keys() & table.terminals.keys():
            terminal = table.terminals[name]
            if kind in terminal.ends:
                patterns.add(_pattern(terminal, stops=endings(dialect)))
            elif stops := stop_tags(machine, table)[state]:
                patterns |= {f"(?={re.escape(tag)})" for tag in stops.values()}
            elif (then := inside[row[name]])[: len(stack)] == stack != then:
                continue  # a block in this one
            elif kind not in table.closers or (terminal.opens == kind and terminal.again):
                patterns.add(f"(?={_pattern(terminal)})")
    return sorted(patterns, key=lambda p: (-len(p), p))


def _pattern(terminal: Terminal, *, captures: bool = False, stops: Sequence[str] = ()) -> str:
    """Returns the pattern of a tag, without white space that the system adds after it.

    With `captures`, its attributes are groups by their names. A model writes nothing after `stops`.
    """
    out = ""
    for piece in terminal.stem:
        if piece.kind == "attr":
            out += f"(?P<{piece.value}>{piece.pattern})" if captures else f"(?:{piece.pattern})"
        else:
            out += re.escape(piece.value)
        if piece.value in stops:
            break
    return out
