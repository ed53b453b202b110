"""Numbers as canonical JSON writes them: what is read is what `json.dumps` would write, but for zeros
at the end of fractions."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_infer.decode import Decoder, SchemaFault
from mypt_infer.decode.compile.byte_dfa import number_dfa
from mypt_spec.bodies.json_schema import misfits
from tests.support.build import function
from tests.support.decoding import in_call, requiring, takes_body
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
    "text", ["1e9", "-1e9", "1.5e6", "1e-9", "1e+6", "2.50e3", "1e05", "1e-04", "1e0"]
)  # fmt: skip
def test_exponents_as_models_write_them(text: str) -> None:
    """A model that has begun `1e9` would else have to write `1e-06`, or another digit."""
    assert reads(text)
    assert not reads(text, fraction=False)


@pytest.mark.parametrize(
    "text", ["0.0000", "1E-05", "10e-05", "0e-05", "0.1e-05", "1e-005", "1e", "1e-", "1e+", "1e+-1", "1.e-05", "12.5e-07", "1e-051", "1e1.5", "1ee1", "-e-05"]
)  # fmt: skip
def test_what_is_no_number_or_has_another_form(text: str) -> None:
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
    if b"e" in text:
        assert re.fullmatch(rb"-?[1-9](\.\d{1,14})?e[+-]?\d\d?", text)
        assert float(text) == json.loads(json.dumps(json.loads(text)))
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


@pytest.mark.parametrize(
    ("schema", "fit", "unfit"),
    [
        ({"exclusiveMinimum": 0}, ["0.50", "0.0010", "12.00"], ["0", "0.0", "-1"]),
        ({"exclusiveMinimum": 0, "maximum": 0.5}, ["0.5", "0.25", "0.30"], ["0", "0.0", "0.51"]),
        ({"exclusiveMinimum": 5}, ["5.0010", "6"], ["5", "5.0", "5.00"]),
        ({"maximum": 0.55}, ["0.5", "0.54", "-0.50", "-3"], ["0.6", "0.551"]),
        ({"exclusiveMaximum": 0.55}, ["0.5", "0.549"], ["0.55", "0.550"]),
        ({"minimum": -1.25, "maximum": 1}, ["-0.50", "-1.2", "-1.25", "1.00"], ["-1.26", "1.01"]),
        ({"exclusiveMaximum": 0}, ["-0.50", "-2"], ["0", "0.0", "0.1"]),
    ],
    ids=str,
)
def test_zeros_at_the_end_within_bounds(
    schema: dict[str, Any], fit: list[str], unfit: list[str]
) -> None:
    pytest.importorskip("llguidance")
    made = Decoder("mypt", [requiring(a={"type": ["number", "null"], **schema})], engine="auto")
    for text in [*fit, *unfit, "null"]:
        assert takes_body(made, f'{{"name": "t", "a": {text}}}') == (text not in unfit), text


_NUMBERS = st.decimals(-30, 30, places=2) | st.decimals(-1, 1, places=1) | st.integers(-3, 30)


@settings(max_examples=examples(30))
@given(
    st.dictionaries(
        st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
        _NUMBERS.map(float), min_size=1, max_size=2,
    ),
    st.lists(st.tuples(_NUMBERS, st.integers(-2, 2), st.integers(0, 4)), min_size=1, max_size=8),
)  # fmt: skip
def test_bounds_agree_with_the_validator(
    bounds: dict[str, float], numbers: list[tuple[Any, int, int]]
) -> None:
    """What is written fits. What fits is written, but for zeros that are refused at once where the
    number may end, so that no digit has to follow them; or one more zero is written."""
    pytest.importorskip("llguidance")
    schema = {"type": "number", **bounds}
    try:
        made = Decoder("mypt", [requiring(a=schema)], engine="auto")
    except ValueError:
        made = None  # no number fits
    for number, steps, zeros in numbers:
        for near in (number, *bounds.values()):
            text = _spelled(Decimal(str(near)) + steps * Decimal("0.01"), zeros)
            fits = not misfits(float(text), schema)
            body = f'{{"name": "t", "a": {text}'
            taken = made is not None and takes_body(made, body + "}")
            assert fits or not taken, text
            if fits and not taken:
                assert made is not None, text
                ids = [made.dialect.tokenizer.encode(letter)[0] for letter in body]
                legal = made.accepts(in_call(made), ids)
                ends = legal < len(ids) and takes_body(made, body[:legal] + "}")
                assert "." in text, text
                assert not body[legal:].strip("0."), text
                assert ends or takes_body(made, body + "0}"), text


def _spelled(number: Decimal, zeros: int) -> str:
    """Returns the number with zeros at its end, as long as canonical JSON has no exponent."""
    text = f"{number + 0:f}"
    text = text.rstrip("0").removesuffix(".") if "." in text else text
    return text + ("." * ("." not in text) + "0" * zeros if zeros else "")


@pytest.mark.parametrize("engine", ["table", "llguidance"])
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_long_ids_are_written_exactly(engine: str, kind: str) -> None:
    """llguidance and xgrammar let whole numbers have any length; here 40 digits are the most."""
    if engine == "llguidance":
        pytest.importorskip("llguidance")
    made = Decoder("mypt", [requiring(a={"type": kind})], engine=engine)
    for text in ("123456789012345678", "-18446744073709551615", "9" * 40):
        assert takes_body(made, f'{{"name": "t", "a": {text}}}'), text
        assert not misfits(json.loads(text), {"type": kind})
    assert not takes_body(made, f'{{"name": "t", "a": {"9" * 41}}}')
    # A float keeps 15 digits, so that a fraction of more may be another number than it says.
    assert not takes_body(made, '{"name": "t", "a": 1234567890123456.5}')


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("word", ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"])
@pytest.mark.parametrize("bound", [2**53, 10**16, 507383249536040308, 10**17 + 1, 2**64 - 1])
def test_no_number_beyond_a_large_bound(kind: str, word: str, bound: int) -> None:
    """llguidance reads bounds as floats, which hold no more than 53 bits of a whole number."""
    pytest.importorskip("llguidance")
    sign = 1 if word.endswith("aximum") else -1
    schema = {"type": kind, word: sign * bound}
    made = Decoder("mypt", [requiring(a=schema)], engine="auto")
    for beyond in (*range(-2, 3), 63, -(10**4), -(2**63) - 4096):
        number = sign * (bound + beyond)
        taken = takes_body(made, f'{{"name": "t", "a": {number}}}')
        assert not taken or not misfits(number, schema), number
        assert taken or beyond >= -(10**4), number


@pytest.mark.parametrize("sign", [1, -1])
def test_the_number_before_an_excluded_bound_is_written(sign: int) -> None:
    """Where floats hold both."""
    pytest.importorskip("llguidance")
    word = "exclusiveMaximum" if sign > 0 else "exclusiveMinimum"
    made = Decoder("mypt", [requiring(a={"type": "integer", word: sign * 10**15})], engine="auto")
    assert takes_body(made, f'{{"name": "t", "a": {sign * (10**15 - 1)}}}')
    assert not takes_body(made, f'{{"name": "t", "a": {sign * 10**15}}}')


def test_listed_numbers_are_written_as_they_are() -> None:
    """llguidance would round them, so that it has to do without."""
    pytest.importorskip("llguidance")
    schema = {"enum": [123456789012345678, 2**60, 3]}
    for engine, listed in (("table", True), ("llguidance", False)):
        made = Decoder("mypt", [requiring(a=schema)], engine=engine)
        for text in ("123456789012345678", str(2**60)):
            assert takes_body(made, f'{{"name": "t", "a": {text}}}') == listed
        assert not takes_body(made, '{"name": "t", "a": 123456789012345680}')
        assert takes_body(made, '{"name": "t", "a": 3}')


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
    for value, fits in (("3e-05", True), ("1.5e+20", True), ("1e9", True), ("30e-04", False)):
        assert takes_body(of, f'{{"name": "t", "lr": {value}}}') == fits
