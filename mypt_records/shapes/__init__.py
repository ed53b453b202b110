"""Finds the shape of a record, and reads records by the module of their shape."""

from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol, cast

from mypt_records.chat import Chat
from mypt_records.names import DETECTABLE, TEXTS
from mypt_records.shapes.tables import tables
from mypt_spec.bodies.strict_json import a_kind_of, faults
from mypt_spec.findings import Finding


class Shape(Protocol):
    """A module that reads the records of one shape.

    `ABOUT` names them to users; `PROMPT` tells users how to give a record a system prompt, "" where
    it has no place for one. `TOP` are the top-level keys of its records.
    """

    ABOUT: str
    PROMPT: str
    TOP: frozenset[str]

    def fit(self, record: Any) -> int:
        """Returns how many signs there are that a record has this shape; 0 if it has not."""
        ...

    def read(self, record: Any) -> Chat:
        """Returns a record as a chat. Never raises."""
        ...


SHAPES: dict[str, Shape] = {
    name: tables().get(name) or cast(Shape, import_module(f"{__name__}.{name}"))
    for name in DETECTABLE
}
_OF_LISTS = ("turns", *(name for name, table in tables().items() if table.events))
_LAST = (TEXTS, "plain")


def shape_of(record: Any) -> str:
    """Returns the name of the shape that a record has the most signs of; empty for none."""
    if not isinstance(record, dict):
        return next((name for name in _OF_LISTS if SHAPES[name].fit(record)), "")
    best, most = "", 0
    for name, shape in SHAPES.items():
        if name in _OF_LISTS or (name in _LAST and best):  # it takes time to look for tags
            continue
        signs = shape.fit(record)
        if signs > most:
            best, most = name, signs
    return best


def read(record: Any, shape: str) -> Chat:
    """Returns a JSON value, read in a shape, as a chat. Never raises.

    A value that is no object, or that strict JSON does not have, is a finding of the chat.
    """
    wrong = tuple([Finding(f.code, f.message, f.pointer) for f in faults(record)])
    kind, expected = (list, "a list") if shape in _OF_LISTS else (dict, "an object")
    if not isinstance(record, kind):
        finding = Finding("MYP101", f"the record is {a_kind_of(record)}, expected {expected}")
        return Chat(shape, (), findings=(*wrong, finding))
    chat = SHAPES[shape].read(record)
    return replace(chat, findings=(*wrong, *chat.findings)) if wrong else chat
