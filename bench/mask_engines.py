"""One schema in each engine that bench/mask_truth.py compares: ours, llguidance and xgrammar.

All have the vocabulary of dialect mypt (GPT-2's), the spacing of `json.dumps`, and schemas read to
the letter.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import mypt_spec
from bench.calls import tokenizer_info
from bench.schemas import Answer
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.llguidance.grammar import words
from mypt_infer.decode.llguidance.response import GUIDANCE, SPACING

Mask = npt.NDArray[np.bool_]


class Engine(Protocol):
    """One schema in an engine; a state is kept, and may be used twice.

    `claims` is False if the engine says that it leaves something of the schema out.
    """

    first: Any
    claims: bool

    def mask(self, state: Any) -> Mask: ...
    def next(self, state: Any, token: int) -> Any: ...  # None if it is refused
    def ends(self, state: Any) -> bool: ...


@cache
def vocabulary() -> tuple[Any, int]:
    """Returns the dialect whose vocabulary all engines have, and the id that ends a text."""
    dialect = mypt_spec.dialect("mypt")
    return dialect, call_ends(dialect)[1]


class Ours:
    """The decoder, with the schema as that of the answer.

    It warns of keywords and formats that JSON Schema does not define; those mean nothing to the
    judges either, so such a schema is claimed.
    """

    claims = True

    def __init__(self, schema: Any) -> None:
        answer = Answer(schema)
        self.of, self.first, self.closing = answer.of, answer.first, answer.closing
        self.ordinary = np.zeros(vocabulary()[0].tokenizer.vocab_size, bool)
        self.ordinary[list(vocabulary()[0].tokenizer.ordinary)] = True

    def mask(self, state: Any) -> Mask:
        allowed = self.of.allow(state)
        if allowed.only is None:
            mask = self.ordinary.copy()
            mask[allowed.refused] = False
            return mask
        mask = np.zeros(len(self.ordinary), bool)
        mask[allowed.only] = True
        return mask & self.ordinary

    def next(self, state: Any, token: int) -> Any:
        return self.of.next(state, token) if self.of.takes(state, token) else None

    def ends(self, state: Any) -> bool:
        allowed = self.of.allow(state)
        return any(allowed.has(i) for i in self.closing)


class Guidance:
    """llguidance."""

    claims = True

    def __init__(self, schema: Any) -> None:
        import llguidance

        dialect, self.end = vocabulary()
        schema = {} if schema is True else schema
        grammar = '%llguidance {"no_forcing": true}\nstart: %json ' + json.dumps(
            {**schema, GUIDANCE: SPACING}
        )
        text = llguidance.grammar_from("lark", grammar)
        self.first = llguidance.LLMatcher(words(dialect, self.end), text, log_level=0)
        if self.first.is_error():
            raise ValueError(self.first.get_error().splitlines()[0].split("JSON schema: ")[-1])
        self.claims = not self.first.get_grammar_warnings()
        self.size = dialect.tokenizer.vocab_size

    def mask(self, state: Any) -> Mask:
        import llguidance.numpy as kernels

        bits = kernels.allocate_token_bitmask(1, self.size)
        kernels.fill_next_token_bitmask(state, bits)
        return unpacked(bits, self.size, self.end)

    def next(self, state: Any, token: int) -> Any:
        after = state.deep_copy()
        return after if after.consume_token(token) and not after.is_error() else None

    def ends(self, state: Any) -> bool:
        return bool(state.is_accepting())


class Xgrammar:
    """xgrammar. `claims` is set by who reads the warnings, which it writes to stderr."""

    claims = True

    def __init__(self, schema: Any) -> None:
        import xgrammar

        dialect, self.end = vocabulary()
        self.size, self.lib = dialect.tokenizer.vocab_size, xgrammar
        compiled = xgrammar_compiler().compile_json_schema(
            json.dumps(schema), any_whitespace=False, separators=(", ", ": "), strict_mode=False
        )
        self.first = xgrammar.GrammarMatcher(compiled)

    def bits(self, state: Any) -> Any:
        bits = self.lib.allocate_token_bitmask(1, self.size)
        state.fill_next_token_bitmask(bits, 0)
        return bits.numpy()

    def mask(self, state: Any) -> Mask:
        return unpacked(self.bits(state), self.size, self.end)

    def next(self, state: Any, token: int) -> Any:
        after = state.fork()
        return after if after.accept_token(token) else None

    def ends(self, state: Any) -> bool:
        return bool(self.bits(state)[0, self.end >> 5] >> (self.end & 31) & 1)


@cache
def xgrammar_compiler() -> Any:
    """Returns the compiler, which reads the vocabulary once."""
    import xgrammar

    info = tokenizer_info(*vocabulary())
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


ENGINES: dict[str, Callable[[Any], Engine]] = {
    "ours": Ours,
    "llguidance": Guidance,
    "xgrammar": Xgrammar,
}


def unpacked(bits: Any, size: int, end: int) -> Mask:
    """Returns a bit mask of one row as booleans, without the id that ends a text."""
    mask = np.unpackbits(bits.view(np.uint8), bitorder="little")[:size].astype(bool)
    mask[end] = False
    return mask
