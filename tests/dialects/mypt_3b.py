"""Legal records of mypt-3b."""

from __future__ import annotations

from random import Random

from tests.support.maker import NAMED_ARGUMENTS, Maker, Record

NAME = "mypt-3b"
TOOLS = ["workspace.search", "workspace.list_docs", "a b", "ü/1"]
_OUTSIDE = str.maketrans('"<>\n', "''()")  # what no name has


def record(random: Random, clean: bool = True) -> Record:
    make = Maker(random, NAME, clean=clean)
    messages: list[Record] = []
    for _ in make.some(1, 3):
        messages += _turn(make)
    record: Record = {"messages": messages}
    if make.one_in(2):
        record["system"] = make.text()
    return make.note(record, language=("en", "pt-BR"))


def _turn(make: Maker) -> list[Record]:
    context = {"context": make.text()} if make.one_in(2) else {}
    out: list[Record] = [{"role": "user", "content": make.text(), **context}]
    for _ in make.some(0, 2):
        any_name = make.characters(20, 1).translate(_OUTSIDE)
        name = any_name if make.one_in(2) else make.choice(TOOLS)
        arguments = make.arguments(most=3)
        if make.one_in(3):
            arguments[make.choice(NAMED_ARGUMENTS)] = make.value()
        out.append({"role": "assistant_toolcall", "name": name, "arguments": arguments})
        out.append({"role": "tool_result", "name": name, "content": make.value()})
    return [*out, {"role": "assistant", "content": make.text()}]
