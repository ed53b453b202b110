"""Writes what a chat template says for the options that a chat is asked for with.

Input: the options of a dialect. Output: lines of Jinja, which make the text `head.text` that
`TemplateOptions.text` makes of the options of a record. To a template, options are variables, which
cannot be looked up by name; so there is a piece of Jinja for each. One that is none is not given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from mypt_spec.adapters.template_options import Option, TemplateOptions


def option_texts(options: TemplateOptions) -> Iterator[str]:
    """Yields the lines; an option whose name is no name of a variable has no effect."""
    yield '{%- set head = namespace(text="", one=none, listed=[]) -%}\n'
    usable = [o for o in options.options if o.name.isidentifier() and o.empty_thought is None]
    yield from map(_refused, usable)
    conditions = [f"({o.name} is defined and {o.name} is not none)" for o in usable if o.text]
    if not conditions:
        return
    yield f"{{%- if {' or '.join(conditions)} -%}}\n"
    for option in options.options:
        if option.text and (not option.name or option.name.isidentifier()):
            text = _add_text(option)
            yield f"{{%- if tools -%}}{text}{{%- endif -%}}\n" if option.tools else f"{text}\n"
    yield "{%- endif -%}\n"


def _refused(option: Option) -> str:
    """Returns what refuses values that the option does not take."""
    name = option.name
    if option.lists:
        keys = _json([key for key, _ in option.lists])
        wrong = (
            f"{name} is string or {name} is not iterable or {name} | reject('in', {keys}) | list"
        )
    else:
        wrong = (
            f"{name} not in {_json(option.values)}" if option.values else f"{name} is not string"
        )
    message = f'"the option {name} has no value " ~ {name}'
    return (
        f"{{%- if {name} is defined and {name} is not none and ({wrong}) -%}}"
        f"{{{{- raise_exception({message}) -}}}}{{%- endif -%}}\n"
    )


def _add_text(option: Option) -> str:
    """Returns what adds the text of an option to the others."""
    if not option.name:
        return f"{{%- set head.text = head.text ~ {_json(option.text)} -%}}"
    is_given = f"{option.name} is defined and {option.name} is not none"
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
