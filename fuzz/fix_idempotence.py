"""A fix removes its finding, brings no other, and changes no meaning if it is safe.

When all fixes are applied, none is left.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from mypt_spec import Dialect, Episode, Finding
from mypt_spec.patch import apply
from tests.support.broken_records import FAULTS
from tests.support.dialects import ALL
from tests.support.strategies import broken_records, episodes, layouts, records


@st.composite
def _inputs(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from([n for n in ALL if n in FAULTS]))
    d = mypt_spec.dialect(name)
    if draw(st.booleans()):
        record = draw(
            records(name, clean=False)
            if draw(st.booleans())
            else broken_records(name).map(lambda pair: pair[0])
        )
        return {"dialect": name, "data": draw(_foreign(d, json.loads(json.dumps(record))))}
    text = d.serialize(draw(episodes(name, clean=False)), layout=draw(layouts(name)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + draw(st.sampled_from(["\n", " ", "\u2028", "\\u0041", "e0", ", ", '"']))
            + text[at:]
        )
    return {"dialect": name, "data": text}


@st.composite
def _foreign(draw: st.DrawFn, d: Dialect, record: Any) -> Any:
    """Returns the record as other tools would write it.

    It has other names of roles, objects as strings, and the system prompt as a message.
    """
    schema = d.adapter.SCHEMA
    for message in record[schema.messages]:
        names = [
            alias
            for alias, role in schema.aliases.items()
            if isinstance(message, dict) and role == message.get("role")
        ]
        if names and draw(st.booleans()):
            message["role"] = draw(st.sampled_from(names))
        for key in message if isinstance(message, dict) else ():
            if isinstance(message[key], dict) and draw(st.booleans()):
                message[key] = json.dumps(message[key])
    for role, key in schema.lifted.items():
        if isinstance(record.get(key), str) and draw(st.booleans()):
            record[schema.messages].insert(0, {"role": role, "content": record.pop(key)})
    return record


STRATEGY = _inputs()


def look(d: Dialect, data: Any) -> tuple[Episode | None, list[Finding]]:
    episode, findings = d.parse(data) if isinstance(data, str) else d.read(data)
    return episode, findings + (d.validate(episode) if episode is not None else [])


def check(value: dict[str, Any]) -> None:
    d, data = mypt_spec.dialect(value["dialect"]), value["data"]
    steps = 0
    while True:
        episode, findings = look(d, data)
        fixable = [f for f in findings if f.fix is not None]
        if not fixable:
            return
        for finding in fixable:
            assert finding.fix is not None
            fixed = apply(data, finding.fix)
            again, after = look(d, fixed)
            before, now = Counter(f.code for f in findings), Counter(f.code for f in after)
            assert now[finding.code] < before[finding.code], finding
            assert not now - before, (finding, after)
            assert again == episode or not finding.fix.safe, finding
        data = apply(data, fixable[0].fix)
        steps += 1
        assert steps <= 200


if __name__ == "__main__":
    run("fix_idempotence")
