"""Writes what a model may write as a grammar in llguidance's Lark, for a judge of the rules.

Input: `Answers`. Output: text. llguidance cuts text into lexemes first, so a text and the plain
text of a tag after it are one lexeme; regular expressions there never match a special id.
"""

from __future__ import annotations

import re

from mypt_spec import Dialect
from mypt_spec.bodies.call_tags import Tags
from mypt_train.export.answers import Answers, Way, quoted, rule

_JSON = r"""
json_value: json_object | json_array | STRING | NUMBER | "true" | "false" | "null"
json_object: "{" (json_member (", " json_member)*)? "}"
json_member: STRING ": " json_value
json_array: "[" (json_value (", " json_value)*)? "]"
json_function: "{\"name\": " NAME ", \"arguments\": " json_object
json_call: "{" ("\"id\": " NAME ", ")? "\"type\": \"function\", \"function\": " json_function "}}"
json_item: json_function ", \"id\": " ID "}"
body_call: "{\"name\": " NAME (", " json_member)* "}"
body_arguments: json_object
body_function: json_function "}"
body_parameters: "{\"name\": " NAME ", \"parameters\": " json_object "}"
body_calls: "[" json_call (", " json_call)* "]"
body_functions: "[" json_item (", " json_item)* "]"
ID: /"[a-zA-Z0-9_\-]+"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+\-]?[0-9]+)?/
"""
_LETTER = r'([^"\\\x00-\x1f]|\\["\\nrtfb]|\\u00[0-7][0-9a-f])'


def lark(dialect: Dialect, answer: Answers) -> str:
    """Returns the grammar; its first rule is `start`."""
    words = "|".join(_escaped(word) for word in answer.forbidden)
    legal = f"~/(?s:.*)({words})(?s:.*)/"
    lexemes = {"TEXT": f"/(?s:.+)/ & {legal}"}
    attrs: dict[str, str] = {}
    ids = dialect.tokenizer.special

    def written(way: Way) -> str:
        items = list(way.items)
        out = []
        if items and items[0][0] == "text":
            plain = items[1][1] if len(items) > 1 and items[1][0] == "plain" else ""
            name = "TEXT" + "".join(f"_{b:02X}" for b in plain.encode())
            if plain:
                lexemes[name] = f"TEXT {quoted(plain)}"
            out.append(name)
            del items[: 1 + bool(plain)]
        for kind, value in items:
            if kind == "id":
                out.append(f"<[{ids[value]}]>")
            elif kind == "attr":
                name = attrs.setdefault(value, f"ATTR{len(attrs)}")
                out.append(name)
            else:
                out.append(f"body_{value}" if kind == "body" else quoted(value))
        out += [] if way.then is None else [rule(way.then)]
        return " ".join(out) or '""'

    rules = [
        f"{rule(s)}: {' | '.join(written(way) for way in ways)}" for s, ways in answer.rules.items()
    ]
    start = f"start: {' | '.join(rule(s) for s in answer.starts)}"
    lexemes |= {name: f"/{pattern.replace('/', chr(92) + '/')}/" for pattern, name in attrs.items()}
    lines = [start, *rules, *(f"{name}: {lexeme}" for name, lexeme in lexemes.items())]
    if tags := next((kind for kind in answer.bodies if isinstance(kind, Tags)), None):
        words = "|".join(_escaped(word) for word in (*answer.forbidden, *tags.marks))
        before, after, end = (quoted(text) * bool(text) for text in tags.function)
        some = f"(tagged_argument+ | {quoted(tags.none)})" if tags.none else "tagged_argument*"
        lines += [f"body_tagged: {before} TAG_NAME {after} {some} {end}"]
        before, after, end = map(quoted, tags.argument)
        after += f" ({' | '.join(map(quoted, tags.types))})" * bool(tags.types)
        lines += [f"tagged_argument: {before} TAG_NAME {after} VALUE", f"VALUE: BETWEEN {end}"]
        lines += [r"TAG_NAME: /[a-zA-Z0-9_.:\/\-]+/"]
        lines += [f"BETWEEN: /(?s:.*)/ & ~/(?s:.*)({words})(?s:.*)/"]
    if answer.bodies - {tags}:
        lines += _JSON.strip().split("\n")
        lines += [f'STRING: /"{_LETTER}*"/ & {legal}', f'NAME: /"{_LETTER}+"/ & {legal}']
    return "\n".join(lines) + "\n"


def _escaped(word: str) -> str:
    return re.escape(word).replace("/", "\\/").replace("\\ ", " ").replace("\\\n", "\\n")
