"""Knows the options of a format's chat template, which a record gives as `chat_template_kwargs`.

Input: the `[options]` and `[[option]]` of a dialect's `records.toml`, and the options of a record.
Output: the text that the template writes for them, and findings about those that it does not have.
`SystemText` is what `[system]` and `[defaults]` say. `grammar/records.schema.json` describes the
keys, docs/custom_format.md has examples.

Any other option has values of any text. An option without `text` and `empty_thought` may be given,
and changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from mypt_spec.bodies.strict_json import escape, key_text
from mypt_spec.findings import Finding
from mypt_spec.table_file import Need

KEY = "chat_template_kwargs"
THOUGHT = "reasoning_content"  # of a message in a canonical record


class Option(NamedTuple):
    """One option, or a text beside the others where it has no name; see the module's docstring."""

    name: str = ""
    values: tuple[Any, ...] = ()
    lists: tuple[tuple[str, str], ...] = ()
    default: Any = None
    text: str = ""
    tools: bool | None = None
    system: bool | None = None
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

    def text_for(self, values: Mapping[str, Any]) -> str:
        """Returns the text of the option for those of a record; "" for none."""
        if not self.name:
            return self.text
        value = values.get(self.name, self.default)
        if self.lists:
            value = "".join(text for name, text in self.lists if name in (value or ()))
        return self.text.replace("{}", str(value)) if value not in (None, "") else ""


class TemplateOptions(NamedTuple):
    """The options of a dialect, in the order of their texts.

    If an assistant message `always_thinks`, one without a thought has an empty one.
    """

    options: tuple[Option, ...] = ()
    block: str = ""
    system: str = ""
    always: bool = False
    only_prompts: bool = False  # have the empty thought of an option
    always_thinks: bool = False

    @property
    def system_piece(self) -> str:
        """Returns the piece that a system message is, unless the options of a record change it."""
        return self.system if self.always and self.system else "system"

    def findings(self, values: Mapping[str, Any], dialect: str) -> list[Finding]:
        """Returns findings about the options of a record: unknown ones, and values they lack."""
        names = {option.name: option for option in self.options if option.name}
        out = []
        for name, value in values.items():
            option, at = names.get(name), f"/{KEY}/{escape(key_text(name))}"
            if option is None:
                message = f'{dialect} has no option "{key_text(name)}"; it has no effect'
                hint = f"options are {', '.join(names)}" if names else "the format has no options"
                out.append(Finding("MYP361", message, at, on_key=True, help=hint))
            elif not option.takes(value):
                choices = option.values or [[name for name, _ in option.lists]]
                hint = f"write one of {', '.join(map(_literal, choices))}" if option.values else ""
                hint = f"write a list of {', '.join(dict(option.lists))}" if option.lists else hint
                message = f'the option "{name}" of {dialect} has no value {_literal(value)}'
                out.append(Finding("MYP104", message, at, help=hint or "write a text"))
        return out

    def text(self, values: Mapping[str, Any], *, tools: bool, system: bool = False) -> str:
        """Returns the text of the options of a record; "" where it gives none that has a text.

        `tools` and `system` say whether the record has tools, and a system message.
        """
        given = (option.text and option.name in values for option in self.options if option.name)
        if not self.always and not any(given):
            return ""
        rows = [o for o in self.options if o.tools in (None, tools) and o.system in (None, system)]
        return "".join(option.text_for(values) for option in rows)

    def empty_thought(self, values: Mapping[str, Any]) -> bool:
        """Returns whether prompts with these options end with an empty thought."""
        return any(
            o.empty_thought is not None and values.get(o.name, o.default) is o.empty_thought
            for o in self.options
        )

    @property
    def prompting(self) -> tuple[dict[str, Any], ...]:
        """Returns records of nothing but options with which prompts end with an empty thought."""
        choices = ({o.name: o.empty_thought} for o in self.options if o.empty_thought is not None)
        return tuple({KEY: options} for options in choices)

    def without_options(
        self, messages: list[dict[str, Any]], values: Mapping[str, Any], *, tools: bool
    ) -> list[dict[str, Any]]:
        """Returns messages of a record without what its options say."""
        if not messages:
            return messages
        first, last, bare = messages[0], messages[-1], self.text(values, tools=tools)
        head = bare
        if first["role"] == self.block and first != {"role": self.block, "content": bare}:
            head = self.text(values, tools=tools, system=True)
        if head and first["role"] == self.block and first["content"].startswith(head):
            first["content"] = first["content"].removeprefix(head)
            alone = head == bare and not first["content"] and first.keys() == {"role", "content"}
            messages = messages[1:] if alone else messages
        elif head and self.always:
            raise ValueError(
                "no record can say this: the text of the template's options is missing"
            )
        has_empty = self.empty_thought(values) and not self.only_prompts
        if has_empty and last.get(THOUGHT) == "":
            del last[THOUGHT]
            last.setdefault("content", "") if "tool_calls" not in last else None
        return messages


class SystemText(NamedTuple):
    """Where a system message is written, and its text where a record has none ("" for no message).

    It is a block, or with `question`, "first" or "last", in the text of that question, which then
    begins with `before`, the message, and `after`, and may lose other white space than all others,
    as `strip` says. A `mark` is in place of a block that is missing.
    """

    default: str = ""
    default_with_tools: str = ""
    question: str = ""
    before: str = ""
    after: str = ""
    strip: str = ""
    mark: str = ""

    def front(self, text: str) -> str:
        """Returns what the question with a system message begins with."""
        return self.before + text + self.after

    def without_default(
        self, messages: list[dict[str, Any]], default: str, keeps: Callable[..., bool]
    ) -> list[dict[str, Any]]:
        """Returns messages of a record without a default system message that its block would strip.

        Raises ValueError if they have no system message. `keeps` tells whether a text is as it is.
        """
        if default and not (messages and messages[0]["role"] == "system"):
            raise ValueError("no record can say this: the system message is not the default one")
        is_default = default and messages[0] == {"role": "system", "content": default}
        return messages[1:] if is_default and not keeps(messages[0], "content") else messages


def system_text_of(source: Mapping[str, Any], texts: Iterable[str], need: Need) -> SystemText:
    """Returns what a `records.toml` says of system messages; `need` raises SpecError.

    `texts` are those in tags.
    """
    blocks, defaults, place = (source.get(key, {}) for key in ("blocks", "defaults", "system"))
    tools = "tools" in blocks or "tools" in source
    fine = "system" in blocks or bool(place) or {*defaults} <= {"thought"}
    need(fine, "[defaults]", "[blocks] has no block for it: system")
    fine = "thought" in blocks or "thought" not in defaults
    need(fine, "[defaults]", "[blocks] has no block for it: thought")
    fine = tools or "system_with_tools" not in defaults
    need(fine, "[defaults]", '"system_with_tools" needs "tools" in [blocks], or [tools]')
    fine = not (defaults and "system" in source.get("options", {}))
    need(fine, "[defaults]", 'cannot be combined with "system" in [options]')
    if place:
        need("system" not in blocks, "[system]", "[blocks] has a block for it: system")
        need("tools" not in source, "[system]", "cannot be combined with [tools]")
        # Or two texts could spell a tag together.
        tag = next((text for text in texts if place["after"] in text), "")
        need(tag == "", "[system]", f'a tag has the text "after" in it: {tag[:60]!r}')
    text, mark = defaults.get("system", ""), defaults.get("without_system", "")
    fine = not mark or (text == "" and "system" in blocks)
    need(fine, "[defaults]", '"without_system" needs "system" in [blocks], and no text "system"')
    return SystemText(text, defaults.get("system_with_tools", text), **place, mark=mark)


def _literal(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, repr(value)) if value.__hash__ else repr(value)


def options_of(source: Mapping[str, Any], blocks: Mapping[str, Any], need: Need) -> TemplateOptions:
    """Returns the options of a `records.toml` with the pieces `blocks`; `need` raises SpecError."""
    head = source.get("options", {})
    for key in ("block", "system"):
        fine = head.get(key) in {None, *blocks}
        need(fine, "[options]", f'"{key}" must be a piece of [blocks]: system or developer')
    out: list[Option] = []
    for row in source.get("option", ()):
        entry = f"[[option]] {row.get('name', '(no name)')}"
        lists = {"values": tuple(row.get("values", ())), "lists": (*row.get("lists", {}).items(),)}
        option = Option(**row | lists)
        need(all(option.name != other.name for other in out if other.name), entry, "occurs twice")
        need("block" in head or not option.text, entry, '"text" needs "block" in [options]')
        need(option.name != "" or option.text != "", entry, 'expected a "name" or a "text"')
        fine = option.default is None or option.takes(option.default)
        need(fine, entry, f'"default" is not a value of it: {option.default!r}')
        fine = option.empty_thought is None or ("thought" in blocks and option.name != "")
        need(fine, entry, '"empty_thought" needs a name, and "thought" in [blocks]')
        out.append(option)
    return TemplateOptions(
        tuple(out), **head, always_thinks="thought" in source.get("defaults", {})
    )
