"""Legal records of mypt."""

from __future__ import annotations

from random import Random

import mypt_spec
from tests.support.maker import NAMED_ARGUMENTS, Maker, Record

NAME = "mypt"
LANGUAGES = ("en", "de", "pt-BR", "zh-Hant-TW", "sl-rozaj-biske", "x-private")


def record(random: Random, clean: bool = True) -> Record:
    make = Maker(random, NAME, clean=clean)
    names = make.sample(["search", "workspace.get_doc", "a-b", "_x"], 0, 2)
    system = make.text() + "".join(f"\n- {tool}(query, top_k=5) - a tool" for tool in names)
    if make.one_in(2):
        quoted = f"<myPT_toolcall>{make.text()}</myPT_toolcall>"
        system = make.choice((f"{system}\nFormat: {quoted}", f"{quoted}{system}", quoted))
        declared = mypt_spec.dialect(NAME).table.tool_names
        names = sorted(declared.findall(system)) if names and declared else names
    messages: list[Record] = []
    for _ in make.some(1, 3):
        messages += _turn(make, names)
    return make.note({"system": system, "messages": messages}, language=LANGUAGES)


def _turn(make: Maker, names: list[str]) -> list[Record]:
    def maybe(*keys: str) -> Record:
        return {key: make.text() for key in keys if make.one_in(2)}

    out = [{"role": "user", "content": make.text(), **maybe("context")}]
    if make.one_in(4):
        out.append({"role": "assistant_context", "content": make.text()})
    for _ in make.some(0, 2):
        name = make.choice(names) if names else make.text() if make.clean else make.any_text(1)
        arguments = make.arguments(most=3)
        if make.one_in(3):
            arguments[make.choice(NAMED_ARGUMENTS)] = make.value()
        call = {"role": "assistant_toolcall", "name": name, "arguments": arguments}
        out.append(call | maybe("think"))
        out.append({"role": "toolresult", "name": name, "content": make.value()})
    cites = [f"<myPT_cite>{make.text()}</myPT_cite>" for _ in make.some(0, 4)]
    before = make.random.randint(0, len(cites))
    after = (cite + make.choice(("", " ", make.text())) for cite in cites[before:])
    content = "".join([*cites[:before], make.text(), *after])
    return [*out, {"role": "assistant", "content": content, **maybe("think", "cite")}]
