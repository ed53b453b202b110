"""Numbers as canonical JSON writes them: what is read is what `json.dumps` would write, but for zeros
at the end of fractions."""

from __future__ import annotations

import json
import random
import re
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_infer.decode import Decoder, SchemaFault
from mypt_infer.decode.compile.byte_dfa import number_dfa
from tests.support.build import function
from tests.support.decoding import requiring, takes_body
from tests.support.examples import examples


def reads(text: str, *, fraction: bool = True) -> bool:
    """Whether a number followed by a comma is read."""
    return number_dfa(fraction=fraction).run(f"{text},".encode()) < -1


@pytest.mark.parametrize(
    "text", ["1e-05", "1.256e-06", "-9.99e-99", "1e+16", "1.5e+17", "-2e+99", "1.23456789012345e-07"]
)  # fmt: skip
def test_exponents(text: str) -> None:
    assert json.dumps(json.loads(text)) == text
    assert reads(text)
    assert not reads(text, fraction=False)


@pytest.mark.parametrize(
    "text", ["0.0000", "1e5", "1E-05", "1e-04", "1e-5", "1e+15", "1.0e-05", "10e-05", "0e-05", "0.1e-05", "1.50e-05", "1e-005", "1e05", "1e", "1e-", "1e-0", "1e+1", "1.e-05", "12.5e-07", "1e-051", "-e-05"]
)  # fmt: skip
def test_spellings_that_are_not_canonical(text: str) -> None:
    assert not reads(text)


@given(st.integers(1, 10**15 - 1), st.integers(-99, 99), st.booleans())
def test_what_json_writes_is_read(digits: int, exponent: int, minus: bool) -> None:
    """Where 15 digits hold it, the zeros of a small number included, and the exponent is short."""
    written = str(digits).rstrip("0")
    text = json.dumps(float(f"{'-' * minus}{written[0]}.{written[1:]}e{exponent}"))
    mantissa, _, power = text.removeprefix("-").partition("e")
    assert reads(text) == (sum(map(str.isdigit, mantissa)) <= 15 and len(power) <= 3)


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_what_is_read_is_what_json_writes(seed: int) -> None:
    step, choose, state, text = number_dfa(fraction=True).step, random.Random(seed), 0, b""
    while (step[state].min() == -1 and (step[state] < -1).sum() == 0) or choose.random() < 0.8:
        row = np.flatnonzero(step[state] >= 0)
        if not len(row):
            break
        byte = choose.choice([*row.tolist(), *(b for b in b"e.0" if b in row)])
        state, text = int(step[state][byte]), text + bytes([byte])
    if not (step[state] < -1).any():
        return
    canonical = re.sub(rb"(\.\d+?)0+$", rb"\1", text)
    assert json.dumps(json.loads(text)).encode() == canonical


@pytest.mark.parametrize("text", ["19.90", "-74.0060", "25.00", "0.00", "0.0500", "-0.0"])
def test_a_fraction_may_end_with_zeros(text: str) -> None:
    """A model that copies `19.90` would else have to write another digit, such as in `19.901`."""
    assert reads(text)
    assert not reads(text, fraction=False)


@pytest.mark.parametrize("schema", [{"type": "number"}, {"type": "number", "minimum": 0, "maximum": 99}])  # fmt: skip
def test_calls_hold_zeros_at_the_end_of_fractions(schema: dict[str, Any]) -> None:
    made = Decoder("mypt", [requiring(a=schema)], engine="auto")
    assert takes_body(made, '{"name": "t", "a": 19.90}')


BOUNDS = [
    ({"type": "integer", "minimum": 1}, ["1", "10", "990"], ["0", "-1", "1.5"]),
    ({"type": "integer", "minimum": 0}, ["0", "1", "90"], ["-1", "00", "-0"]),
    ({"type": "number", "minimum": 0}, ["0", "0.5", "3", "3.25"], ["-1", "-0.5"]),
    ({"type": "number", "minimum": 1}, ["1", "1.5", "10.25", "1.0", "12345678901234"], ["0.5", "0", "-1", "1e-05"]),
    ({"type": ["integer", "null"], "minimum": 1}, ["null", "7"], ["0", "-7"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "fit", "unfit"), BOUNDS, ids=str)
def test_tables_hold_lower_bounds_that_a_byte_shows(
    schema: dict[str, Any], fit: list[str], unfit: list[str]
) -> None:
    """`"minimum": 1` is the commonest bound of real tools: pages are counted from 1."""
    tool = requiring(a=schema)
    decoders = [Decoder("mypt", [tool])]
    assert decoders[0].engine.tables_only
    if find_spec("llguidance"):
        decoders.append(Decoder("mypt", [tool], engine="llguidance"))
    for decoder in decoders:
        for text in [*fit, *unfit]:
            assert takes_body(decoder, f'{{"name": "t", "a": {text}}}') == (text in fit), text


@pytest.mark.parametrize("schema", [{"type": "integer", "minimum": 2}, {"type": "number", "minimum": 0.5}, {"type": "number", "minimum": 0, "maximum": 1}, {"type": "integer", "minimum": True}])  # fmt: skip
def test_tables_hold_no_other_open_bounds(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaFault, match="minimum"):
        Decoder("mypt", [function("t", {"a": schema})])


@pytest.mark.parametrize("engine", ["table", "llguidance"])
def test_calls_hold_exponents(engine: str) -> None:
    if engine == "llguidance":
        pytest.importorskip("llguidance")
    of = Decoder("mypt", [function("t", {"lr": {"type": "number"}})], engine=engine)
    for value, fits in (("3e-05", True), ("1.5e+20", True), ("3e-04", False)):
        assert takes_body(of, f'{{"name": "t", "lr": {value}}}') == fits
