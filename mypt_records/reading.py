"""Reads what the records of all shapes have in common: texts, calls, tools, and further keys.

Input are JSON values with their pointers; output are parts of a `Chat`, and findings about what
they should have been.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from mypt_records.chat import Call, Chat, JsonText, JsonValue, Message, Text, Tool
from mypt_records.fixes import renamed, replaced
from mypt_spec.bodies.strict_json import Fault, escape, kind_of, loads
from mypt_spec.extra_keys import is_metadata, noted
from mypt_spec.findings import Finding, Fix, closest, regraded
from mypt_spec.record_schema import PARTS, WEIGHT, WEIGHT_HELP, wrong_weight

MEDIA = frozenset({
    "image", "image_url", "input_image", "audio", "input_audio", "video", "video_url", "file",
    "refusal",
})  # fmt: skip
_THOUGHT = {"thinking": "thinking", "reasoning": "text"}  # type of a part -> the key of its text
Parts = tuple[tuple[Text, ...], tuple[JsonValue, ...], tuple[Text, ...]]
_OF_PART = ("text", "value", "cache_control", "annotations", "index", "signature")
_OF_CALL = ("index",)
LABELS = ("label", "kto_tag")
_LABELS = dict.fromkeys(("true", "1", "good", "desirable"), "true")
_LABELS |= dict.fromkeys(("false", "0", "bad", "undesirable"), "false")
_KEEP = 'remove it, or begin its name with "_" to keep it as metadata'
_CALL = (
    'a call must be {"id": "...", "type": "function", "function": {"name": "...", '
    '"arguments": "{...}"}}'
)


class Reader:
    """Reads values, and collects what is wrong with them in `findings`."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.text_keys: set[str] = set()  # of ShareGPT's messages so far
        self.begin()

    def begin(self) -> None:
        """Begins a message, of whose parts and calls more than texts is noted."""
        self.inner: dict[str, JsonValue] = {}  # further keys inside of them
        self.called: list[Call] = []  # calls that are parts

    def chat(
        self,
        shape: str,
        record: dict[str, Any],
        messages: Iterable[Message],
        tools: tuple[Tool, ...] | None,
        *,
        top: frozenset[str],
        used: Collection[str],
        rejected: Iterable[Message] = (),
        shared: int = 0,
    ) -> Chat:
        """Returns the chat of a record; of its keys, `used` are read and others are `top`."""
        label = self.label(record, shape)
        top |= {key for key in LABELS if key not in record or _is_label(key, record[key], shape)}
        self.unknown(record, top, "", "the record", telling=False)
        extras = {
            key: value
            for key, value in record.items()
            if key not in used
            and (value is not None or key not in top)
            and (tools != () or key not in ("tools", "functions"))  # no tool
            and (label is None or label.at != below("", key))
        }
        return Chat(
            shape,
            tuple(messages),
            tools,
            tuple(rejected),
            label,
            extras,
            findings=tuple(self.findings),
            shared=shared,
        )

    def message(
        self, item: Mapping[str, Any], role: str, alias: str, at: str,
        content: tuple[Text, ...] | None, thoughts: tuple[Text, ...], calls: tuple[Call, ...],
        media: tuple[JsonValue, ...], beside: dict[str, JsonValue],
    ) -> Message:  # fmt: skip
        """Returns a message with what all shapes say alike, and with what its parts hold."""
        answers = self.string(item.get("tool_call_id"), f"{at}/tool_call_id", "tool_call_id")
        name = self.string(item.get("name"), f"{at}/name", "name")
        return Message(
            role, alias, at, content, thoughts, (*calls, *self.called), media, answers, name,
            weight_of(beside, self) if beside else None, beside=beside | self.inner,
        )  # fmt: skip

    def label(self, record: dict[str, Any], shape: str) -> JsonValue | None:
        """Returns the label of the answer, under any of its names: a boolean."""
        for key in LABELS:
            if isinstance(record.get(key), bool):
                return JsonValue(record[key], below("", key))
            if record.get(key) is not None and _is_label(key, record[key], shape):
                message = f'"{key}" must be true or false, got {kind_of(record[key])}'
                boolean = _LABELS.get(str(record[key]).lower())
                hint = f"write {boolean}, without quotes" if boolean else ""
                self.add("MYP104", message, below("", key), hint=hint)
        return None

    def add(
        self, code: str, message: str, at: str, *, hint: str = "", severity: str = "", **more: Any
    ) -> None:
        """Notes a finding; `severity` is another than that of the rule, `more` are other fields."""
        finding = Finding(code, message, at, help=hint, **more)
        self.findings.append(regraded(finding, severity) if severity else finding)

    def no_json(self, code: str, subject: str, text: str, at: str, fault: Fault) -> None:
        """Notes a text that is no JSON, at the character where it is not."""
        span = None
        if fault.offset is not None:
            span = min(fault.offset, len(text)), min(fault.offset + 1, len(text))
        why = fault.message.removeprefix("not JSON: ")
        self.findings.append(Finding(code, f"{subject}: {why}", at, span))

    def unknown(
        self,
        item: Mapping[str, Any],
        valid: Collection[str],
        at: str,
        subject: str,
        *,
        telling: bool | None = None,
    ) -> None:
        """Notes the keys that are not known; those with `_` are metadata, null is void.

        With `telling`, others may be metadata, too: see `extra_keys.is_metadata`.
        """
        for key, value in item.items():
            if key in valid or key.startswith("_") or value is None:
                continue
            close = closest_key(key, tuple(valid))
            close = "" if close in LABELS and not isinstance(value, bool) else close  # a class
            if telling is not None and is_metadata(item, key, close, telling=telling):
                self.findings += noted(key, below(at, key))
                continue
            hint = f'did you mean "{close}"?' if close else _KEEP
            message, exact = f'{subject} has an unknown key "{key}"', at and _same(key, close)
            fix = renamed(at, escape(key), close, value) if exact and close not in item else None
            self.add("MYP103", message, below(at, key), hint=hint, fix=fix, on_key=True)

    def extra(
        self, where: str, item: dict[str, Any], used: set[str], valid: Collection[str], at: str
    ) -> None:
        """Notes the keys of an object inside a message that are not `used`."""
        others = {key: value for key, value in item.items() if key not in used}
        self.inner |= {
            f"{where}.{key}": JsonValue(value, below(at, key))
            for key, value in others.items()
            if value is not None
        }
        self.unknown(others, {*used, *valid}, at, f'an object in "{where}"')

    def string(self, value: Any, at: str, name: str) -> Text | None:
        """Returns a string; None, with a finding unless it is null, for any other value."""
        if isinstance(value, str):
            return Text(value, at)
        if value is not None:
            self.add("MYP104", f'"{name}" must be a string, got {kind_of(value)}', at)
        return None

    def system(self, record: dict[str, Any]) -> list[Message]:
        """Returns the system prompt that is a key of a record, if there is one."""
        text = self.string(record.get("system"), "/system", "system")
        if text is None or not text.text:
            return []
        return [Message("system", "system", "/system", (text,))]

    def parts(self, content: Any, at: str, key: str = "content") -> Parts | None:
        """Returns (texts, media, thoughts) of a string or a list of parts; None with a finding."""
        if isinstance(content, str):
            return (Text(content, at),), (), ()
        if not isinstance(content, list):
            problem = f'"{key}" must be a string or a list of parts, got {kind_of(content)}'
            self.add("MYP104", problem, at)
            return None
        texts: list[Text] = []
        media: list[JsonValue] = []
        thoughts: list[Text] = []
        for i, part in enumerate(content):
            here = f"{at}/{i}"
            part = part if isinstance(part, dict) else {}
            kind = part["type"] if isinstance(part.get("type"), str) else None
            if kind in MEDIA:
                media.append(JsonValue(part, here))
                continue
            field = _THOUGHT.get(kind or "", "text")
            if part.get(field) is None and "value" in part:
                field = "value"  # as LLaMA-Factory writes all parts
            if kind == field == "text" and part.get("text") is None:
                field = self.misnamed(part, here)
            text = part.get(field)
            if kind == "tool_call" and isinstance(text, str):
                self.called += self.json_calls(text, f"{here}/{field}")
                continue
            if not isinstance(text, str) or (kind != "text" and kind not in _THOUGHT):
                got = f"one of type {kind!r}" if kind else "one without a type" * bool(part)
                got += f' without the string "{field}"' * (kind in ("text", *_THOUGHT))
                problem = 'expected a part {"type": "text", "text": "..."}, got '
                self.add("MYP104", problem + (got or kind_of(content[i])), here)
                return None
            weight = None
            used = {"type", field}
            if kind == "text" and (keys := {"weight", "train"} & {*part}):
                used |= keys
                weights = {key: JsonValue(part[key], f"{here}/{key}") for key in sorted(keys)}
                weight = weight_of(weights, self)
            self.extra("content", part, used, _OF_PART, here)
            share = None if weight is None else weight.value * 1
            read = Text(text, f"{here}/{field}", weight=share)
            (texts if kind == "text" else thoughts).append(read)
        return tuple(texts), tuple(media), tuple(thoughts)

    def misnamed(self, part: dict[str, Any], at: str) -> str:
        """Returns the key of the text of a part, with a warning where that is `content`."""
        if not isinstance(part.get("content"), str):
            return "text"
        why = 'the part has no "text", its text is "content": templates leave it out'
        fix = renamed(at, "content", "text", part["content"])
        at, hint = f"{at}/content", 'write "text"'
        self.add("MYP104", why, at, hint=hint, severity="warning", fix=fix, on_key=True)
        return "content"

    def role(self, label: str, at: str, names: Mapping[str, str]) -> None:
        """Notes a role that is not known; `names` has those that are, "" or what they mean."""
        accepted = [name for name, meaning in names.items() if not meaning] or [*names]
        message, fix, hint = f'unknown role "{label}"; roles are {", ".join(accepted)}', None, ""
        plain = label.lower().replace("-", "_")
        suggested = names.get(plain, "") or closest_key(plain, tuple(accepted))
        if suggested not in ("", *accepted):
            hint = f"write {suggested}"
        elif suggested:
            exact = label.lower() in names
            hint = f'write "{suggested}"' if exact else f'did you mean "{suggested}"?'
            fix = replaced(at, suggested, f'write "{suggested}"', safe=exact)
        self.findings.append(Finding("MYP105", message, at, help=hint, fix=fix))

    def calls(self, calls: Any, at: str) -> tuple[Call, ...]:
        """Returns the calls of a list such as OpenAI's `tool_calls`; null is none."""
        if calls is None:
            return ()
        if not isinstance(calls, list):
            self.add("MYP104", f'"tool_calls" must be an array, got {kind_of(calls)}', at)
            return ()
        if not calls:
            fix = Fix("delete it", True, patch=({"op": "remove", "path": at},))
            self.add("MYP125", '"tool_calls" is empty', at, fix=fix, on_key=True)
        out = [self.call(call, f"{at}/{i}") for i, call in enumerate(calls)]
        return tuple([call for call in out if call is not None])

    def call(self, call: Any, at: str) -> Call | None:
        """Returns a call, with its name and arguments under `function` or beside it."""
        wrapped = isinstance(call, dict) and call.get("function") is not None
        function = call.get("function") if wrapped else call
        where = f"{at}/function" if wrapped else at
        name = function.get("name") if isinstance(function, dict) else None
        ident = call.get("id") if isinstance(call, dict) else None
        if not isinstance(name, str) or not name or not (ident is None or isinstance(ident, str)):
            self.add("MYP104", _CALL, at)
            return None
        if wrapped and call.get("type") not in (None, "function"):
            problem = f'the type of a call must be "function", got {str(call["type"])[:40]!r}'
            self.add("MYP104", problem, f"{at}/type")
        self.form_of_call(call, at, wrapped=wrapped)
        if wrapped:
            self.extra("tool_calls", call, {"id", "type", "function"}, _OF_CALL, at)
            self.extra("function", function, {"name", "arguments"}, (), where)
        else:
            self.extra("tool_calls", call, {"id", "type", "name", "arguments"}, _OF_CALL, at)
        arguments = None
        if "arguments" in function:
            arguments = JsonValue(function["arguments"], f"{where}/arguments")
        call_id = Text(ident, f"{at}/id") if ident else None
        return Call(Text(name, f"{where}/name"), arguments, at, call_id)

    def form_of_call(self, call: dict[str, Any], at: str, *, wrapped: bool) -> None:
        """Notes a call whose name is not under `function`, or that lacks its type."""
        if not wrapped:
            inside = {key: call[key] for key in ("name", "arguments") if key in call}
            form = {key: value for key, value in call.items() if key not in inside}
            form |= {"type": "function", "function": inside}
            why, title = 'a call without "function"', 'put its name and arguments under "function"'
            fix = replaced(at, form, title)
            self.findings.append(Finding("MYP136", why, at, help=title, fix=fix))
        elif call.get("type") is None and "MYP137" not in [f.code for f in self.findings]:
            op = "replace" if "type" in call else "add"
            patch = ({"op": op, "path": f"{at}/type", "value": "function"},)
            title = 'write "type": "function"'
            fix = Fix(title, True, patch=patch)
            self.findings.append(Finding("MYP137", "the call has no type", at, help=title, fix=fix))

    def json_calls(self, value: Any, at: str) -> tuple[Call, ...]:
        """Returns the calls that a text holds: one object with name and arguments, or a list."""
        try:
            calls = loads(value) if isinstance(value, str) else value
        except Fault as fault:
            self.no_json("MYP304", "the call is not valid JSON", value, at, fault)
            return ()
        out = []
        several = isinstance(calls, list)
        for i, call in enumerate(calls if several else [calls]):
            place = f"/{i}" * several
            if isinstance(call, dict) and "function" in call:
                place += "/function"
                self.unknown(call, ("function", "id", "type"), at, "a call")
            inside = call.get("function", call) if isinstance(call, dict) else None
            inside = inside if isinstance(inside, dict) else None
            name = inside.get("name") if inside is not None else None
            if inside is None or not isinstance(name, str) or not name:
                self.add("MYP104", 'a call must be {"name": "...", "arguments": {...}}', at)
                continue
            self.unknown(inside, ("name", "arguments", "id", "type"), at, "a call")
            outer = JsonText(value, f"{place}/arguments") if isinstance(value, str) else None
            called = Text(name, at, JsonText(value, f"{place}/name") if outer is not None else None)
            arguments = JsonValue(inside["arguments"], at, outer) if "arguments" in inside else None
            out.append(Call(called, arguments, at))
        return tuple(out)

    def tools(self, tools: Any, at: str) -> tuple[Tool, ...] | None:
        """Returns the declared tools: a list, or JSON text of one. None for null."""
        if tools is None:
            return None
        text = tools
        inside = isinstance(text, str)
        if inside:
            if not text:  # none, as LLaMA-Factory writes
                return None
            try:
                tools = loads(text)
            except Fault as fault:
                self.no_json("MYP104", f'"{_last(at)}" is not a JSON array', text, at, fault)
                return None
        if not isinstance(tools, list):
            self.add("MYP104", f'"{_last(at)}" must be an array, got {kind_of(tools)}', at)
            return None
        if inside:
            return tuple(
                [_tool(tool, at, "", JsonText(text, f"/{i}")) for i, tool in enumerate(tools)]
            )
        return tuple([_tool(tool, f"{at}/{i}", f"{at}/{i}/") for i, tool in enumerate(tools)])


def _tool(tool: Any, at: str, base: str, outer: JsonText | None = None) -> Tool:
    """Returns a declared tool. `base` begins the pointers below; "" where a text declares it."""
    wrapped = isinstance(tool, dict) and isinstance(tool.get("function"), dict)
    function = tool["function"] if wrapped else tool if isinstance(tool, dict) else {}
    base += "function/" if base and wrapped else ""

    def there(key: str) -> str:
        return base + key if base else at

    def within(key: str) -> JsonText | None:
        inner = "/function" * wrapped
        return None if outer is None else JsonText(outer.text, f"{outer.pointer}{inner}/{key}")

    key = next((k for k in ("parameters", "input_schema") if function.get(k) is not None), None)
    name = function.get("name")
    return Tool(
        Text(name, there("name"), within("name")) if isinstance(name, str) and name else None,
        JsonValue(function[key], there(key), within(key)) if key is not None else None,
        tool,
        at,
    )


_SWITCHES = ("train", "training", "loss")
_WEIGHTS = ("weight", "loss_weight", *_SWITCHES)


def weight_of(beside: Mapping[str, JsonValue], reader: Reader) -> JsonValue | None:
    """Returns how much a message is trained: a number, or a boolean. Others are findings."""
    for key in _WEIGHTS:
        weight = beside.get(key)
        if weight is None or weight.value is None:
            continue
        if isinstance(weight.value, bool):
            return weight
        if isinstance(weight.value, dict) and WEIGHT in beside and PARTS in weight.value:
            return weight  # of parts of the text, which the dialect checks
        if key in _SWITCHES:
            wrong, hint = f"must be true or false, got {kind_of(weight.value)}", ""
        else:
            wrong, hint = wrong_weight(weight.value), WEIGHT_HELP
        if not wrong:
            return weight
        if weight.value == weight.value:  # not a number has its own finding
            reader.add("MYP104", f'"{key}" {wrong}', weight.at, hint=hint)
    return None


def _is_label(key: str, value: Any, shape: str) -> bool:
    """Returns whether a key labels the answer of a record; else it may name a class of texts."""
    is_word = str(value).lower() in ("true", "false") and shape not in ("text", "plain")
    return key != "label" or shape == "kto" or isinstance(value, bool) or is_word


def filled(item: Mapping[str, Any], keys: Iterable[str]) -> set[str]:
    """Returns those keys of an object under which something is said."""
    return {key for key in keys if item.get(key) not in (None, "", [])}


def _same(key: str, another: str) -> bool:
    """Returns whether two keys differ in their case, in `_`, or in an `s` at the end alone."""
    one, two = (name.lower().replace("_", "").removesuffix("s") for name in (key, another))
    return one == two != ""


def below(at: str, key: str) -> str:
    return f"{at}/{escape(key)}"


def closest_key(key: str, keys: tuple[str, ...]) -> str:
    """Returns the known key that is most like another; empty where none is."""
    return closest(key, keys, 0.75) if len(key) <= 60 else ""


def _last(at: str) -> str:
    return at.rpartition("/")[2]
