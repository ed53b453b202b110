"""Break records in every way that has one finding, for tests of the place and the code of each."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from random import Random

from tests.support.maker import Record

Fault = tuple[str, str, str]  # what was done, the expected code, the expected pointer


def _mypt_faults(record: Record) -> list[tuple[Fault, Callable[[], object]]]:
    """Everything that can be broken in this record: the fault, and a function that does it."""
    messages = record["messages"]
    out: list[tuple[Fault, Callable[[], object]]] = [
        (("no system", "MYP208", "/messages/0/role"), lambda: record.pop("system")),
        (("empty system", "MYP214", "/system"), lambda: record.update(system="")),
        (("blank system", "MYP314", "/system"), lambda: record.update(system=" \n")),
        (("system is a number", "MYP104", "/system"), lambda: record.update(system=1)),
        (("unknown top key", "MYP103", "/sytem"), lambda: record.update(sytem="s")),
        (("language", "MYP111", "/language"), lambda: record.update(language="english!")),
        (
            ("system twice", "MYP108", "/messages/0/role"),
            lambda: messages.insert(0, {"role": "system", "content": "s"}),
        ),
        (("a message is a string", "MYP104", "/messages/0"), lambda: messages.insert(0, "hello")),
        (("nan in metadata", "MYP005", "/_x/0"), lambda: record.update(_x=[math.nan])),
        (("surrogate in metadata", "MYP006", "/_x"), lambda: record.update(_x="a\udc80")),
        (
            ("deep metadata", "MYP008", "/_x" + "/0" * 200),
            lambda: record.update(_x=json.loads("[" * 201 + "]" * 201)),
        ),
    ]
    for at, message in enumerate(messages):
        out += _mypt_message_faults(messages, at, message)
    return out


def _mypt_message_faults(
    messages: list[Record], at: int, m: Record
) -> list[tuple[Fault, Callable[[], object]]]:
    here, role = f"/messages/{at}", m["role"]
    out: list[tuple[Fault, Callable[[], object]]] = [
        (("no role", "MYP102", here), lambda: m.pop("role")),
        (("unknown role", "MYP105", f"{here}/role"), lambda: m.update(role="usr")),
        (("role is null", "MYP104", f"{here}/role"), lambda: m.update(role=None)),
        (("unknown key", "MYP103", f"{here}/contents"), lambda: m.update(contents="x")),
    ]
    for key in ("content", "context", "think", "cite"):
        if isinstance(m.get(key), str) and role != "toolresult":
            place = f"{here}/{key}"
            # The cite brings one space with it.
            empty = "MYP314" if key == "content" and "cite" in m else "MYP214"
            out += [
                ((f"empty {key}", empty, place), lambda key=key: m.update({key: ""})),
                ((f"blank {key}", "MYP314", place), lambda key=key: m.update({key: " \t"})),
                (
                    (f"tag in {key}", "MYP301", place),
                    lambda key=key: m.update({key: m[key] + "</myPT_toolresult>"}),
                ),
                (
                    (f"near miss in {key}", "MYP303", place),
                    lambda key=key: m.update({key: m[key] + " <MyPT_usr>"}),
                ),
                (
                    (f"surrogate in {key}", "MYP006", place),
                    lambda key=key: m.update({key: m[key] + "\ud83d"}),
                ),
                ((f"{key} is a list", "MYP104", place), lambda key=key: m.update({key: ["x"]})),
            ]
    if role == "assistant_toolcall":
        wrong = {"role": "toolresult", "name": m["name"], "content": 1}
        out += [
            (
                ("arguments as a string", "MYP110", f"{here}/arguments"),
                lambda: m.update(arguments=json.dumps(m["arguments"])),
            ),
            (
                ("arguments as a list", "MYP104", f"{here}/arguments"),
                lambda: m.update(arguments=[]),
            ),
            (
                ("infinite argument", "MYP005", f"{here}/arguments/zz"),
                lambda: m["arguments"].update(zz=math.inf),
            ),
            (
                ("tag in an argument", "MYP302", f"{here}/arguments/z~1~0z"),
                lambda: m["arguments"].update({"z/~z": "<myPT_eot>"}),
            ),
            (
                ("result before its call", "MYP310", f"{here}/role"),
                lambda: messages.insert(at, wrong),
            ),
            (("no name", "MYP102", here), lambda: m.pop("name")),
        ]
    if role == "toolresult":
        out += [
            (("another name", "MYP312", f"{here}/name"), lambda: m.update(name=m["name"] + "x")),
            (("alias", "MYP109", f"{here}/role"), lambda: m.update(role="tool_result")),
            (("result removed", "MYP311", f"{here}/role"), lambda: messages.pop(at)),
            (
                ("tag in the result", "MYP302", f"{here}/content/0"),
                lambda: m.update(content=["</myPT_system>"]),
            ),
            (
                ("two results", "MYP310", f"/messages/{at + 1}/role"),
                lambda: messages.insert(at, dict(m)),
            ),
        ]
    if role == "assistant" and at + 1 < len(messages):
        out.append((("answer removed", "MYP218", f"{here}/role"), lambda: messages.pop(at)))
        out.append(
            (
                ("two answers", "MYP219", f"/messages/{at + 1}/role"),
                lambda: messages.insert(at, dict(m)),
            )
        )
    if role == "user":
        following = messages[at + 1]["role"]
        if following == "assistant":
            out.append((("user removed", "MYP219", f"{here}/role"), lambda: messages.pop(at)))
        out.append(
            (
                ("two users", "MYP218", f"/messages/{at + 1}/role"),
                lambda: messages.insert(at, dict(m)),
            )
        )
    return out


FAULTS: dict[str, Callable[[Record], list[tuple[Fault, Callable[[], object]]]]] = {
    "mypt": _mypt_faults
}


def broken(random: Random, name: str, record: Record) -> tuple[Record, Fault]:
    """Returns a clean record of a dialect with exactly one fault, and the finding that it must have."""
    record = json.loads(json.dumps(record))
    faults = FAULTS[name](record)
    kind = random.choice(sorted({fault[0] for fault, _ in faults}))
    fault, do = random.choice([item for item in faults if item[0][0] == kind])
    do()
    return record, fault
