"""Invariant 1: a legal episode comes back from its record, its text in each layout, and its ids."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from tests.support.canonical import only_lasting
from tests.support.dialects import ALL
from tests.support.strategies import almost_records, records


@st.composite
def _inputs(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(ALL))
    record = draw(st.one_of(records(name), records(name, clean=False), almost_records(name)))
    return {"dialect": name, "record": json.loads(json.dumps(record))}


STRATEGY = _inputs()


def check(value: dict[str, Any]) -> None:
    d = mypt_spec.dialect(value["dialect"])
    episode, findings = d.read(value["record"])
    if episode is None or any(f.severity == "error" for f in [*findings, *d.validate(episode)]):
        return
    for layout in d.table.layouts:
        text = d.serialize(episode, layout=layout)
        again, errors = d.parse(text)
        assert (again, errors) == (episode, [])
        assert d.serialize(again, layout=layout) == text
    encoded = d.encode(episode)
    again, errors = d.parse_ids(encoded.ids)
    assert (again, errors) == (episode, [])
    # No text says the options of its record, from which follows how ids are cut.
    again = replace(again, meta=episode.meta)
    assert d.encode(again).ids.tolist() == encoded.ids.tolist()
    canonical = d.write(episode)
    again, remaining = d.read(canonical)
    assert again == episode
    assert only_lasting(remaining, findings), "a canonical record has nothing to repair"
    assert json.dumps(d.write(again)) == json.dumps(canonical)


if __name__ == "__main__":
    run("round_trip")
