"""Checks the objects inside of a record: calls, definitions of tools, JSON Schemas.

Input are values of which nothing is known; output are findings of family 1, and values in one form.
A `RecordSchema` describes the messages; what is nested in them is checked here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from mypt_spec.bodies.json_schema import Patience, SchemaError
from mypt_spec.bodies.strict_json import Fault, escape, faults, key_text, kind_of, loads
from mypt_spec.bodies.type_names import other_types, type_notes
from mypt_spec.bodies.typescript import FUNCTION_KEYS
from mypt_spec.episode import Episode, Place
from mypt_spec.findings import Finding, Fix, regraded
from mypt_spec.record_schema import BOOLEAN, OBJECT, PYTHON, STRING
from mypt_spec.rules.context import Context
from mypt_spec.table import TokenTable

# The keys of a function that a tool has, with their types, and whether they must be there.
_FUNCTION = {
    "name": (STRING, True),
    "description": (STRING, False),
    "parameters": (OBJECT, False),
    "strict": (BOOLEAN, False),
}


@dataclass
class Objects:
    """A walk over the objects of one record, with its findings so far.

    `readable` is whether none of the findings is an error that no Episode can keep. With `quoted`,
    the arguments of calls may be JSON text; else that is a finding. With `verbatim`, definitions
    of tools are written as they are given, so they may have any further keys.
    """

    findings: list[Finding]
    readable: bool = True
    patience: Patience = field(default_factory=Patience)
    quoted: bool = False
    verbatim: bool = False

    def add(
        self, code: str, message: str, pointer: str, *, keep: bool = False, **fields: Any
    ) -> None:
        """Adds a finding; an error makes the record unreadable unless its Episode can `keep` it."""
        finding = Finding(code, message, pointer, **fields)
        self.findings.append(finding)
        self.readable = self.readable and (keep or finding.severity != "error")

    def call(self, call: Any, at: str) -> dict[str, Any] | None:
        """Returns a call with its keys in order, and its arguments as an object."""
        fields = {"id": (STRING, False), "type": (STRING, False), "function": (OBJECT, True)}
        if not self.is_object(call, at, "a call") or not self.shape(call, fields, at, "the call"):
            return None
        self.typed(call, at, "a call")
        if call.get("id") == "":
            hint = "give it an id, or leave the key out"
            self.add("MYP127", "the id is empty", f"{at}/id", help=hint)
        function, at = dict(call["function"]), f"{at}/function"
        if isinstance(function.get("arguments"), str):
            function["arguments"] = self.unquoted(function["arguments"], f"{at}/arguments")
        fields = {"name": (STRING, True), "arguments": (OBJECT, True)}
        self.shape(function, fields, at, "the function of the call")
        self.check_name(function, at)
        ids = {"id": call["id"]} if "id" in call else {}
        function = {key: function[key] for key in fields if key in function}
        return ids | {"type": "function", "function": function}

    def unquoted(self, text: str, at: str) -> Any:
        """Returns arguments that were written as a JSON string, as other formats have them."""
        try:
            value = loads(text or "{}")
        except Fault:
            return text
        if not isinstance(value, dict) or list(faults(value)):
            return text
        if not self.quoted:
            patch = ({"op": "replace", "path": at, "value": value},)
            fix = Fix("write the object itself", True, patch=patch)
            problem = '"arguments" is an object written as a string'
            self.add("MYP110", problem, at, keep=True, fix=fix)
        elif not text:
            fix = Fix("write {}", True, patch=({"op": "replace", "path": at, "value": "{}"},))
            problem = "the arguments are an empty text, which is read as {}"
            self.findings.append(regraded(Finding("MYP304", problem, at, fix=fix), "warning"))
        return value

    def typed(self, value: dict[str, Any], at: str, noun: str) -> None:
        """Adds a finding where the type of a call or tool is another than "function"."""
        if value.get("type", "function") != "function":
            message = f'{noun} has no type "{value["type"]}"'
            self.add("MYP127", message, f"{at}/type", help='write "function"')

    def check_name(self, function: dict[str, Any], at: str) -> None:
        """Adds a finding where the name of a function is empty."""
        if function.get("name") == "":
            self.add("MYP127", "the name is empty", f"{at}/name", help="name the tool")

    def tool(self, tool: Any, at: str, names: set[str]) -> dict[str, Any] | None:
        """Returns a definition, which may come with or without the "function" around it."""
        if not self.is_object(tool, at, "a tool"):
            return None
        function, closed = tool, not self.verbatim
        if "function" in tool or "type" in tool:
            fields = {"type": (STRING, False), "function": (OBJECT, True)}
            if not self.shape(tool, fields, at, "the tool", closed=closed):
                return None
            self.typed(tool, at, "a tool")
            function, at = tool["function"], f"{at}/function"
        if not self.shape(function, _FUNCTION, at, "the function", closed=closed):
            return None
        self.check_name(function, at)
        if function["name"] in names:
            problem = f'the tool "{function["name"]}" is defined twice'
            self.add("MYP126", problem, f"{at}/name", help="keep one definition")
        names.add(function["name"])
        if "parameters" in function:
            self.schema(function["parameters"], f"{at}/parameters")
        function = {key: function[key] for key in FUNCTION_KEYS if key in function}
        return {"type": "function", "function": function}

    def schema(self, schema: Any, at: str) -> None:
        """Adds a finding where a value is no JSON Schema that can be checked."""
        if next(faults(schema), None) is not None:
            return
        try:
            self.patience.check_schema(schema)
        except SchemaError as error:
            problem = "schema was not checked" if error.unchecked else "is not a valid JSON Schema"
            self.add("MYP128", f"this {problem}: {error}", at + error.pointer, keep=True)
            return
        types = other_types(schema)
        if types and not any(f.code == "MYP128" for f in self.findings):
            notes = type_notes(kind for _, kind in types)
            problem = f"types of other languages, read {notes}; write the types of JSON Schema"
            self.add("MYP128", problem, at + types[0][0], keep=True)
            self.findings[-1] = regraded(self.findings[-1], "warning")

    def is_object(self, value: Any, at: str, noun: str) -> bool:
        """Returns whether a value is an object; if not, there is a finding."""
        if not isinstance(value, dict):
            self.add("MYP104", f"{noun} must be an object, got {kind_of(value)}", at)
        return isinstance(value, dict)

    def shape(
        self,
        value: dict[str, Any],
        fields: dict[str, tuple[str, bool]],
        at: str,
        noun: str,
        *,
        closed: bool = True,
        keep: bool = False,
    ) -> bool:
        """Checks the keys of an inner object. Returns whether it has no fault.

        `fields` maps each key to its type, and whether it must be there; if `closed`, there may be
        no other.
        """
        before = len(self.findings)
        for key, (kind, required) in fields.items():
            if key not in value:
                if required:
                    self.add("MYP102", f'{noun} has no "{key}"', at, keep=keep)
            elif not isinstance(value[key], PYTHON[kind]):
                problem = f'"{key}" of {noun} must be {kind}, got {kind_of(value[key])}'
                self.add("MYP104", problem, f"{at}/{key}", keep=keep)
        for key in [key_text(k) for k in value if k not in fields] if closed else ():
            problem = f'{noun} has an unknown key "{key}"; the model would never see it'
            place, hint = f"{at}/{escape(key)}", f"keys are {', '.join(fields)}"
            self.add("MYP103", problem, place, keep=keep, on_key=True, help=hint)
        return len(self.findings) == before


def unsayable(
    context: Context,
    findings: list[Finding],
    block: str,
    write: Callable[[Episode, TokenTable], object],
    *,
    verbatim: bool,
) -> list[Finding]:
    """Returns why no record says what a text says, which has its tools in a kind of block.

    None for the Episode of a record, or one of which `findings` hold an error.
    """
    if any(message.at.pointer for message in context.episode.messages):
        return []
    at = next((run.event.at for run in context.texts if run.inside == block), Place())
    walk, names, out = Objects([], verbatim=verbatim), set[str](), list[Finding]()
    for number, tool in enumerate(context.tools, 1):
        walk.tool(tool, "", names)
        tool_findings = (replace(f, message=f"tool {number}: {f.message}") for f in walk.findings)
        out += [replace(f, pointer="", span=at.span, on_key=False) for f in tool_findings]
        walk.findings.clear()
    if any(finding.severity == "error" for finding in (*findings, *out)):
        return out
    try:
        write(context.episode, context.table)
    except ValueError as error:
        out.append(Finding("MYP258", str(error)))
    return out
