"""Programs that read what is exported for servers, or its rules, as judges of the ids of answers."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_train.export import endings, server_files
from mypt_train.export.answers import answers
from mypt_train.export.tokenizer_file import padding
from tests.support.examples import either
from tests.support.guidance import tokenizer
from tests.support.lark_grammar import lark
from tests.support.llama import LlamaCpp, write_vocabulary
from tests.support.rollouts import stop


@cache
def lark_matcher(name: str) -> Any:
    llguidance = pytest.importorskip("llguidance")
    d = mypt_spec.dialect(name)
    text = lark(d, answers(d, endings(d)[-1:], reserved=(padding(d),)))
    grammar = llguidance.grammar_from("lark", text)
    matcher = llguidance.LLMatcher(tokenizer(name), grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


@cache
def byte_ids(name: str) -> dict[int, int]:
    """The ids of single bytes. The quick suite spells texts with them, as others take seconds."""
    d = mypt_spec.dialect(name)
    spelled = ((i, d.tokenizer.decode_bytes([i])) for i in d.tokenizer.ordinary)
    return {text[0]: i for i, text in spelled if len(text) == 1}


@cache
def compiled_tag(name: str) -> Any:
    xgrammar = pytest.importorskip("xgrammar")
    d = mypt_spec.dialect(name)
    words = [b""] * d.tokenizer.vocab_size
    for i in either(byte_ids(name).values(), d.tokenizer.ordinary):
        words[i] = d.tokenizer.decode_bytes([i])
    for tag, i in {padding(d): d.tokenizer.pad, **d.tokenizer.special}.items():
        words[i] = tag.encode()
    info = xgrammar.TokenizerInfo(
        words,
        vocab_type=xgrammar.VocabType.RAW,
        vocab_size=d.tokenizer.vocab_size,
        stop_token_ids=[stop(d) or d.tokenizer.pad],
    )
    tag = json.loads(server_files(d, ["vllm"])["structural_tag.json"])
    return xgrammar.GrammarCompiler(info, max_threads=1).compile_structural_tag(tag)


@cache
def llama(name: str) -> Any:
    pytest.importorskip("gguf", reason="writes llama.cpp's vocabularies: nox -s llama")
    pytest.importorskip("llama_cpp", reason="is built from source: nox -s llama")
    d = mypt_spec.dialect(name)
    path = Path(tempfile.mkdtemp()) / "vocabulary.gguf"
    write_vocabulary(d, path)
    text = server_files(d, ["llama.cpp"])["answer.gbnf"]
    with pytest.raises(ValueError, match="cannot read the grammar"):
        LlamaCpp(path, text.replace("::=", ":=", 1), ())
    return LlamaCpp(path, text, d.tokenizer.special.values())


def by_llguidance(name: str, ids: list[int]) -> bool:
    matcher = lark_matcher(name).deep_copy()
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


def by_xgrammar(name: str, ids: list[int]) -> bool:
    d, tag = mypt_spec.dialect(name), compiled_tag(name)
    import xgrammar

    def in_bytes(token: int) -> list[int]:
        if token not in d.tokenizer.ordinary:
            return [token]
        return [byte_ids(name)[byte] for byte in d.tokenizer.decode_bytes([token])]

    ids = either([i for token in ids for i in in_bytes(token)], ids)
    return all(map(xgrammar.GrammarMatcher(tag).accept_token, [*ids, stop(d) or d.tokenizer.pad]))


def by_llama_cpp(name: str, ids: list[int]) -> bool:
    return bool(llama(name).accepts(ids))


# Each judge, with what reads a grammar for it, or skips without the package.
READERS = {by_llguidance: lark_matcher, by_xgrammar: compiled_tag, by_llama_cpp: llama}
