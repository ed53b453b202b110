"""Finds the shape of a record, and reads records by the module of their shape."""

from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol, cast

from mypt_records.chat import Chat
from mypt_records.names import DETECTABLE, TEXTS
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
    name: cast(Shape, import_module(f"{__name__}.{name}")) for name in DETECTABLE
}
_TURNS = "turns"  # records that are lists
_LAST = (TEXTS, "plain")


def shape_of(record: Any) -> str:
    """Returns the name of the shape that a record has the most signs of; empty for none."""
    if not isinstance(record, dict):
        return _TURNS if SHAPES[_TURNS].fit(record) else ""
    best, most = "", 0
    for name, shape in SHAPES.items():
        if name == _TURNS or (name in _LAST and best):  # it takes time to look for tags
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
    if not isinstance(record, dict) and not (shape == _TURNS and isinstance(record, list)):
        finding = Finding("MYP101", f"the record is {a_kind_of(record)}, expected an object")
        return Chat(shape, (), findings=(*wrong, finding))
    chat = SHAPES[shape].read(record)
    return replace(chat, findings=(*wrong, *chat.findings)) if wrong else chat
