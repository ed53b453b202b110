"""Finds answers that are not in the format that their record asks for.

Input are the text of an answer and the record's options: `response_format` as in OpenAI's API,
`response_schema` and `json_mode`. Output are findings at the place of the answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mypt_spec.bodies.json_schema import Patience, SchemaError
from mypt_spec.bodies.strict_json import Fault, faults, loads
from mypt_spec.episode import Place
from mypt_spec.findings import Finding


def _form(options: Mapping[str, Any]) -> dict[str, Any]:
    form = options.get("response_format")
    return form if isinstance(form, dict) else {}


def _schemas(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the schemas that an answer must fit, by their pointers in the record."""
    form = _form(options)
    outer = form.get("json_schema") if form.get("type") == "json_schema" else None
    schemas = {"/response_schema": options.get("response_schema")}
    if isinstance(outer, dict):
        schemas["/response_format/json_schema/schema"] = outer.get("schema")
    return {pointer: schema for pointer, schema in schemas.items() if isinstance(schema, dict)}


def asks_for_json(options: Mapping[str, Any]) -> bool:
    """Returns whether the options of a record ask for an answer in JSON."""
    kinds = ("json_object", "json_schema")
    by_format = _form(options).get("type") in kinds or options.get("json_mode") is True
    return by_format or bool(_schemas(options))


def answer_misfits(
    text: str, at: Place, options: Mapping[str, Any], patience: Patience
) -> Iterator[Finding]:
    """Yields findings about an answer that must be JSON."""
    try:
        value = loads(text)
        fault = next(faults(value), None)
    except Fault as error:
        fault = error
    if fault is not None:
        problem = f"the answer must be JSON, and is {fault.message}"
        yield Finding("MYP342", problem, *at, help="write JSON, and nothing around it")
        return
    if _form(options).get("type") == "json_object" and not isinstance(value, dict):
        yield Finding("MYP344", "the answer must be a JSON object", *at)
    for place, schema in _schemas(options).items():
        if next(faults(schema), None) is not None:
            continue
        try:
            misfits = patience.misfits(value, schema)
        except SchemaError as error:
            if error.in_use:  # any other fault was found in the record itself
                yield Finding("MYP128", f"the answer cannot be checked: {error}", place)
            continue
        for pointer, message in misfits:
            where = f" at {pointer}" if pointer else ""
            yield Finding("MYP343", f"the answer does not fit the schema{where}: {message}", *at)
