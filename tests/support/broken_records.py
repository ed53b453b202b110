"""Break records in every way that has one finding, for tests of the place and the code of each."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.support.maker import Record

Fault = tuple[str, str, str]  # what is done, the expected code, the expected pointer
Faults = Iterator[tuple[Fault, Callable[[], object]]]
TEXTS = {
    "empty": ("MYP214", lambda text: ""),
    "blank": ("MYP314", lambda text: " \t"),
    "tag in": ("MYP301", lambda text: text + "</myPT_toolresult>"),
    "near miss in": ("MYP303", lambda text: text + " <MyPT_usr>"),
    "surrogate in": ("MYP006", lambda text: text + "\ud83d"),
    "list as": ("MYP104", lambda text: ["x"]),
}


def _of_mypt(record: Record) -> Faults:
    """Yields everything that can be broken in this record, with a function that does it."""
    messages = record["messages"]
    system = {"role": "system", "content": "s"}
    deep = json.loads("[" * 201 + "]" * 201)
    yield ("no system", "MYP208", "/messages/0/role"), lambda: record.pop("system")
    yield ("system twice", "MYP108", "/messages/0/role"), lambda: messages.insert(0, system)
    yield ("a message is a string", "MYP104", "/messages/0"), lambda: messages.insert(0, "hello")
    rows: list[tuple[str, str, str, Record]] = [
        ("empty system", "MYP214", "/system", {"system": ""}),
        ("blank system", "MYP314", "/system", {"system": " \n"}),
        ("system is a number", "MYP104", "/system", {"system": 1}),
        ("unknown top key", "MYP103", "/reasoning", {"reasoning": "s"}),
        ("language", "MYP111", "/language", {"language": "english!"}),
        ("nan in metadata", "MYP005", "/_x/0", {"_x": [math.nan]}),
        ("surrogate in metadata", "MYP006", "/_x", {"_x": "a\udc80"}),
        ("deep metadata", "MYP008", "/_x" + "/0" * 200, {"_x": deep}),
    ]
    for *fault, change in rows:
        yield (*fault,), lambda change=change: record.update(change)
    for at, message in enumerate(messages):
        yield from _of_message(messages, at, message)


def _of_message(messages: list[Record], at: int, m: Record) -> Faults:
    here, role = f"/messages/{at}", m["role"]

    def put(key: str, value: Any) -> Callable[[], object]:
        return lambda: m.update({key: value})

    yield ("no role", "MYP102", here), lambda: m.pop("role")
    yield ("unknown role", "MYP105", f"{here}/role"), put("role", "usr")
    yield ("role is null", "MYP104", f"{here}/role"), put("role", None)
    yield ("unknown key", "MYP103", f"{here}/contents"), put("contents", "x")
    for key in ("content", "context", "think", "cite"):
        if isinstance(m.get(key), str) and role != "toolresult":
            for what, (code, change) in TEXTS.items():
                # The cite brings one space with it.
                beside_cite = what == "empty" and key == "content" and "cite" in m
                code = "MYP314" if beside_cite else code
                yield (f"{what} {key}", code, f"{here}/{key}"), put(key, change(m[key]))
    if role == "assistant_toolcall":
        wrong = {"role": "toolresult", "name": m["name"], "content": 1}
        arguments, to = m["arguments"], f"{here}/arguments"
        tagged = arguments | {"z/~z": "<myPT_eot>"}
        yield ("arguments as a string", "MYP110", to), put("arguments", json.dumps(arguments))
        yield ("arguments as a list", "MYP104", to), put("arguments", [])
        yield ("infinite argument", "MYP005", f"{to}/zz"), put("arguments", arguments | {"zz": math.inf})  # fmt: skip
        yield ("tag in an argument", "MYP302", f"{to}/z~1~0z"), put("arguments", tagged)
        yield ("result before its call", "MYP310", f"{here}/role"), lambda: messages.insert(at, wrong)  # fmt: skip
        yield ("no name", "MYP102", here), lambda: m.pop("name")
    if role == "toolresult":
        yield ("another name", "MYP312", f"{here}/name"), put("name", m["name"] + "x")
        yield ("alias", "MYP109", f"{here}/role"), put("role", "tool_result")
        yield ("tag in the result", "MYP302", f"{here}/content/0"), put("content", ["</myPT_system>"])  # fmt: skip
    following = messages[at + 1]["role"] if at + 1 < len(messages) else None
    # Codes of a message that is removed, and of one that comes twice.
    removed = {"toolresult": "MYP311", "assistant": "MYP218" if following else None, "user": "MYP219" if following == "assistant" else None}.get(role)  # fmt: skip
    twice = {"toolresult": "MYP310", "assistant": "MYP219" if following else None, "user": "MYP218"}.get(role)  # fmt: skip
    if removed:
        yield (f"{role} removed", removed, f"{here}/role"), lambda: messages.pop(at)
    if twice:
        yield (f"two of {role}", twice, f"/messages/{at + 1}/role"), lambda: messages.insert(at, dict(m))  # fmt: skip


FAULTS: dict[str, Callable[[Record], Faults]] = {"mypt": _of_mypt}


def broken_in_each_way(name: str, record: Record) -> Iterator[tuple[Record, Fault]]:
    """Yields copies of a clean record with one fault each, and the finding that each must have."""
    for number in range(len([*FAULTS[name](record)])):
        copy = json.loads(json.dumps(record))
        fault, do = [*FAULTS[name](copy)][number]
        do()
        yield copy, fault


def broken(random: Random, name: str, record: Record) -> tuple[Record, Fault]:
    """Returns a copy of a clean record with one fault, and the finding that it must have."""
    copy = json.loads(json.dumps(record))
    faults = [*FAULTS[name](copy)]
    kind = random.choice(sorted({fault[0] for fault, _ in faults}))
    fault, do = random.choice([item for item in faults if item[0][0] == kind])
    do()
    return copy, fault
