"""Knows the options of a format's chat template, which a record gives as `chat_template_kwargs`.

Input: the `[options]` and `[[option]]` of a dialect's `records.toml`, and the options of a record.
Output: the text that the template writes for them, and findings about those that it does not have:

    [options]
    block = "system"                # its text begins with that of the options
    system = "developer"            # where a system message is then; by default, after that text

    [[option]]
    name = "reasoning_effort"
    values = ["low", "medium", "high"]
    default = "medium"              # for a record that gives other options with a text
    text = "Reasoning: {}\\n"

    [[option]]                      # without a name: its text is there where that of another is
    tools = true                    # but only in records with tools
    text = "Call them in the channel commentary."

    [[option]]
    name = "builtin_tools"
    lists = { python = "A tool that runs code.\\n" }   # the value is a list of these keys
    text = "# Tools\\n{}"

    [[option]]
    name = "enable_thinking"
    values = [true, false]
    empty_thought = false           # with this value, prompts end with an empty thought

Any other option has values of any text. An option without `text` and `empty_thought` may be given,
and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mypt_spec.bodies.strict_json import escape, key_text
from mypt_spec.findings import Finding
from mypt_spec.table_file import known_keys

KEY = "chat_template_kwargs"
THOUGHT = "reasoning_content"  # of a message in a canonical record
_KEYS = {"name", "values", "lists", "default", "text", "tools", "empty_thought"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option, or a text beside the others where it has no name; see the module's docstring."""

    name: str = ""
    values: tuple[Any, ...] = ()
    lists: tuple[tuple[str, str], ...] = ()
    default: Any = None
    text: str = ""
    tools: bool = False
    empty_thought: Any = None

    def takes(self, value: Any) -> bool:
        """Returns whether the option may have a value."""
        if self.lists:
            return isinstance(value, list) and all(
                isinstance(v, str) and v in dict(self.lists) for v in value
            )
        if self.values:
            return any(value == v and value.__class__ is v.__class__ for v in self.values)
        return isinstance(value, str)

    def says(self, given: Mapping[str, Any]) -> str:
        """Returns the text of the option for those of a record; "" for none."""
        if not self.name:
            return self.text
        value = given.get(self.name, self.default)
        if self.lists:
            value = "".join(text for name, text in self.lists if name in (value or ()))
        return self.text.replace("{}", str(value)) if value not in (None, "") else ""


@dataclass(frozen=True, slots=True)
class TemplateOptions:
    """The options of a dialect, in the order of their texts."""

    options: tuple[Option, ...] = ()
    block: str = ""
    system: str = ""

    def findings(self, given: Mapping[str, Any], dialect: str) -> list[Finding]:
        """Returns findings about the options of a record: unknown ones, and values they lack."""
        known = {option.name: option for option in self.options if option.name}
        out = []
        for name, value in given.items():
            option, at = known.get(name), f"/{KEY}/{escape(key_text(name))}"
            if option is None:
                what = f'{dialect} has no option "{key_text(name)}"; it has no effect'
                hint = f"options are {', '.join(known)}" if known else "the format has no options"
                out.append(Finding("MYP361", what, at, on_key=True, help=hint))
            elif not option.takes(value):
                kept = option.values or [[name for name, _ in option.lists]]
                hint = f"write one of {', '.join(map(_shown, kept))}" if option.values else ""
                hint = f"write a list of {', '.join(dict(option.lists))}" if option.lists else hint
                what = f'the option "{name}" of {dialect} has no value {_shown(value)}'
                out.append(Finding("MYP104", what, at, help=hint or "write a text"))
        return out

    def text(self, given: Mapping[str, Any], *, tools: bool) -> str:
        """Returns the text of the options of a record; "" where it gives none that has a text."""
        if not any(option.text and option.name in given for option in self.options if option.name):
            return ""
        return "".join(o.says(given) for o in self.options if tools or not o.tools)

    def empty_thought(self, given: Mapping[str, Any]) -> bool:
        """Returns whether prompts with these options end with an empty thought."""
        return any(
            o.empty_thought is not None and given.get(o.name) is o.empty_thought
            for o in self.options
        )

    @property
    def prompting(self) -> tuple[dict[str, Any], ...]:
        """Returns records of nothing but options with which prompts end with an empty thought."""
        found = ({o.name: o.empty_thought} for o in self.options if o.empty_thought is not None)
        return tuple({KEY: options} for options in found)

    def left_out(
        self, messages: list[dict[str, Any]], given: Mapping[str, Any], *, tools: bool
    ) -> list[dict[str, Any]]:
        """Returns messages of a record without what its options say."""
        if not messages:
            return messages
        first, last, head = messages[0], messages[-1], self.text(given, tools=tools)
        if head and first["role"] == self.block and first["content"].startswith(head):
            first["content"] = first["content"].removeprefix(head)
            alone = not first["content"] and first.keys() == {"role", "content"}
            messages = messages[1:] if alone else messages
        if self.empty_thought(given) and last.get(THOUGHT) == "":
            del last[THOUGHT]
            last.setdefault("content", "") if "tool_calls" not in last else None
        return messages


def _shown(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, repr(value)) if value.__hash__ else repr(value)


def options_of(source: Mapping[str, Any], blocks: Mapping[str, Any], need: Any) -> TemplateOptions:
    """Returns the options that a `records.toml` declares; `blocks` are its pieces.

    `need(ok, entry, what)` raises SpecError for an entry that is wrong.
    """
    head, rows = source.get("options", {}), source.get("option", [])
    need(isinstance(head, dict), "[options]", "expected a table")
    known_keys(head, {"block", "system"}, "[options]", need)
    for key in head:
        fine = head[key] in ("system", "developer") and head[key] in blocks
        need(fine, "[options]", f'"{key}" must be a piece of [blocks]: system or developer')
    fine = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    need(fine, "[[option]]", "expected tables")
    out: list[Option] = []
    for row in rows:
        entry = f"[[option]] {row.get('name', '(no name)')}"
        known_keys(row, _KEYS, entry, need)
        for key, kind in (("name", str), ("text", str), ("tools", bool), ("values", list)):
            need(isinstance(row.get(key, kind()), kind), entry, f'"{key}" must be {kind.__name__}')
        lists = row.get("lists", {})
        fine = isinstance(lists, dict) and all(isinstance(text, str) for text in lists.values())
        need(fine, entry, '"lists" must be a table of texts')
        made = Option(
            **row | {"values": tuple(row.get("values", ())), "lists": tuple(lists.items())}
        )
        need(all(made.name != other.name for other in out if other.name), entry, "occurs twice")
        need("block" in head or not made.text, entry, '"text" needs "block" in [options]')
        need(made.name != "" or made.text != "", entry, 'expected a "name" or a "text"')
        fine = made.default is None or made.takes(made.default)
        need(fine, entry, f'"default" is no value of it: {made.default!r}')
        fine = made.empty_thought is None or ("thought" in blocks and made.name != "")
        need(fine, entry, '"empty_thought" needs a name, and "thought" in [blocks]')
        out.append(made)
    return TemplateOptions(tuple(out), head.get("block", ""), head.get("system", ""))
