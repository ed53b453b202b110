"""Reads the tests of BFCL that ask for one call, and judges calls by their ground truths.

The package `bfcl-eval` holds them; its folder `bfcl_eval/data` is what these functions read. None
of it is part of this repository.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mypt_spec.bodies.type_names import standard_types

# The tests of one question with one call as its answer.
CATEGORIES = ("simple_python", "multiple", "live_simple", "live_multiple")
# The letters that BFCL's own judge leaves out of texts.
_IGNORED = re.compile(r"[ ,./\-_*^]")


@dataclass(frozen=True)
class Test:
    """A question, the tools in OpenAI's style, and the values that each argument may have.

    In `truth`, "" among the values of an argument says that it may be left out.
    """

    category: str
    question: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    name: str
    truth: dict[str, list[Any]]

    @property
    def call(self) -> dict[str, Any]:
        """Returns the call with the first value of each argument, in the order of the schema."""
        schema = next(t["parameters"] for t in self.tools if t["name"] == self.name)
        first = {k: _first(v) for k, v in self.truth.items() if v and v[0] != ""}
        keys = [k for k in schema.get("properties", {}) if k in first]
        return {"name": self.name, "arguments": {k: first[k] for k in keys}}

    def is_right(self, call: Any) -> bool:
        """Returns whether a call is one of those that the ground truth names."""
        if not isinstance(call, dict) or call.get("name") != self.name:
            return False
        given = call.get("arguments")
        return isinstance(given, dict) and _fits(given, self.truth)


def data() -> Path:
    """Returns the folder of data in the package. Raises SystemExit if it is not installed."""
    spec = find_spec("bfcl_eval")
    if spec is None or spec.origin is None:
        raise SystemExit("install the package bfcl-eval (with --no-deps), or name its folder data")
    return Path(spec.origin).parent / "data"


def tests(folder: Path) -> Iterator[Test]:
    """Yields the tests of all categories whose question is one turn, in their order."""
    for category in CATEGORIES:
        for turns, tools, calls in rows_of(folder, category):
            if len(calls) == 1 and len(turns) == 1:
                ((function, truth),) = calls
                if any(tool["name"] == function for tool in tools):
                    yield Test(category, turns[0], tools, function, truth)


def rows_of(folder: Path, category: str) -> Iterator[tuple[list[Any], list[Any], list[Any]]]:
    """Yields the turns, the tools and the right calls, as (name, arguments), of each row."""
    name = f"BFCL_v4_{category}.json"
    truths = {row["id"]: row["ground_truth"] for row in _lines(folder / "possible_answer" / name)}
    for row in _lines(folder / name):
        tools = [
            {**tool, "parameters": standard_types(tool["parameters"])[0]}
            for tool in row["function"]
        ]
        yield row["question"], tools, [next(iter(call.items())) for call in truths[row["id"]]]


def ids_of(folder: Path, category: str) -> list[str]:
    """Returns the ids of the rows of `rows_of`."""
    return [row["id"] for row in _lines(folder / f"BFCL_v4_{category}.json")]


def _lines(path: Path) -> Iterator[Any]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _first(values: list[Any]) -> Any:
    """Returns the first value; the members of an object, or of those in a list, have several."""
    value = values[0]
    if isinstance(value, dict):
        return {k: v[0] if isinstance(v, list) else v for k, v in value.items() if v != [""]}
    if isinstance(value, list):
        return [_first([v]) if isinstance(v, dict) else v for v in value]
    return value


def _fits(given: dict[str, Any], truth: dict[str, Any]) -> bool:
    """Returns whether the members of an object have values that the ground truth lists."""
    if any(key not in truth for key in given):
        return False
    return all(
        any(is_same(given[key], value) for value in values) if key in given else "" in values
        for key, values in truth.items()
    )


def is_same(value: Any, wanted: Any) -> bool:
    """Returns whether a value is one of the ground truth, as BFCL compares them."""
    if isinstance(wanted, dict) and isinstance(value, dict):
        if all(isinstance(v, list) for v in wanted.values()):
            return _fits(value, wanted)
        return value.keys() == wanted.keys() and all(is_same(value[k], wanted[k]) for k in value)
    if isinstance(wanted, list) and isinstance(value, list):
        return len(value) == len(wanted) and all(map(is_same, value, wanted))
    if isinstance(wanted, str) and isinstance(value, str):
        return _plain(value) == _plain(wanted)
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    return isinstance(value, int | float) and value == wanted


def _plain(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')
