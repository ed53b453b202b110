"""The fuzzer of masks sees a fault in the mask of any dialect.

Faults are planted in what the encoder is told: the bits of each row of a token table, the ids of
tags, white space after a tag, and where a run of text is cut. `python -m fuzz.mask` draws records
as they are drawn here, of all dialects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import mypt_spec
from fuzz import mask
from mypt_spec.dialect import Dialect
from tests.support.dialects import ALL

Plant = Callable[[pytest.MonkeyPatch], None]
MOST = 100  # rounds of examples that a fault may stay hidden

# Rows whose bits say nothing, as all that is inside of a masked block is masked: closing tags of
# masked blocks, and blocks within these.
INERT = {
    "mypt": "SYSTEM_CLOSE USER_CLOSE USER_CONTEXT_OPEN USER_CONTEXT_CLOSE ASSISTANT_CONTEXT_CLOSE TOOLRESULT_CLOSE",
    "mypt-3b": "SYSTEM_CLOSE CONTEXT_CLOSE USER_CLOSE TOOLRESULT_CLOSE",
    "praxis": "TOUT_CLOSE",
    "usf-omega": "BLOCK_CLOSE FUNCTIONS_CLOSE TOOL_CALL_ID_OPEN TOOL_CALL_ID_CLOSE TOOL_NAME_OPEN TOOL_NAME_CLOSE",
    "qwen3": "RESPONSE_OPEN RESPONSE_NEXT RESPONSE_CLOSE TOOLS_OPEN TOOLS_NEXT TOOLS_CLOSE",
    "mistral": "SYSTEM_CLOSE TOOLS_CLOSE RESULT_CLOSE",
    "mistral-v13": "SYSTEM_CLOSE TOOLS_CLOSE RESULT_CLOSE",
    "harmony": "TOOLS_OPEN TOOLS_NEXT",
}
# Nothing but a block of tools, which is masked itself, is in the block that it opens.
INERT_BITS = {("harmony", "DEVELOPER_TOOLS", "body_loss")}


def faults(d: Dialect) -> dict[tuple[str, str], Plant]:
    """Returns a way to plant each fault, by the row it is in, or "", and its kind."""
    table, out = d.table, {}

    def row(name: str, **changes: Any) -> Plant:
        changed = replace(table.terminals[name], **changes)
        return lambda patch: patch.setitem(table.terminals, name, changed)

    for name, terminal in table.terminals.items():
        out[name, "loss"] = row(name, loss=1 - terminal.loss)
        if terminal.opens:
            out[name, "body_loss"] = row(name, body_loss=1 - terminal.body_loss)
        if terminal.trail:
            trained = tuple(piece._replace(loss=1) for piece in terminal.spelling)
            out[name, "trained white space"] = row(name, spelling=trained)
    ids = d.tokenizer.special
    for one, other in zip(list(ids), list(ids)[1:], strict=False):
        swapped = {one: ids[other], other: ids[one]}
        out["", f"ids of {one} and {other}"] = _swap(ids, swapped)
    if table.glue:
        out["", "texts are encoded one by one"] = lambda patch: patch.setitem(
            vars(table), "glue", False
        )
    if d.adapter.prompting:
        out["", "a prompt's thought is trained"] = lambda patch: patch.setattr(
            type(d.adapter), "prompted", lambda self, meta: frozenset()
        )
    return out


def _swap(ids: dict[str, int], swapped: dict[str, int]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for tag, number in swapped.items():
            patch.setitem(ids, tag, number)

    return plant


def drawn(name: str, number: int) -> list[dict[str, Any]]:
    """Returns some inputs of the fuzzer, the same ones for a number."""
    values: list[dict[str, Any]] = []

    @seed(number)
    @settings(
        max_examples=25, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(mask.values(name))
    def collect(value: dict[str, Any]) -> None:
        values.append(value)

    collect()
    return values


@pytest.mark.parametrize("name", ALL)
def test_a_planted_fault_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = faults(mypt_spec.dialect(name))
    rows = INERT.get(name, "").split()
    inert = {key for key in planted if key[0] in rows or (name, *key) in INERT_BITS}
    assert len(planted) - len(inert) >= 7
    unseen = set(planted)
    for number in range(MOST):
        for value in drawn(name, number):
            mask.check(value)
            for fault in list(unseen if number == 0 else unseen - inert):
                with monkeypatch.context() as patch:
                    planted[fault](patch)
                    if not holds(value):
                        unseen.remove(fault)
        if unseen <= inert:
            break
    assert unseen == inert


def holds(value: dict[str, Any]) -> bool:
    """Returns whether the invariant holds for an input."""
    try:
        mask.check(value)
    except AssertionError:
        return False
    return True
