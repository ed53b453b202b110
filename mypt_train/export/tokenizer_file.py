"""Makes the files with which Hugging Face's tokenizer gives the same ids as this project's.

Input: a dialect on its vocabulary. Output: the contents of `tokenizer.json`,
`tokenizer_config.json` and `chat_template.jinja`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mypt_spec import Dialect
from mypt_spec.tokenizer.tokenizer import gpt2_letters, gpt2_merges, gpt2_ranks
from mypt_spec.tokenizer.vocabulary import GPT2_PATTERN, MADE

# The name of the id that fills up rows, where the vocabulary has none for it.
PAD = "<|endoftext|>"


class ExportError(Exception):
    """A model cannot be exported; the message says what is missing, and what to do."""


def template(dialect: Dialect) -> str:
    """Returns the chat template of a dialect. Raises ExportError for a dialect that has none."""
    path = Path(__file__).parent / f"{dialect.name}.jinja"
    if not path.is_file():
        have = ", ".join(sorted(p.stem for p in Path(__file__).parent.glob("*.jinja")))
        raise ExportError(f"{dialect.name} has no chat template; these have one: {have}")
    return path.read_text(encoding="utf-8").replace(
        "TAGS", json.dumps([*dialect.tokenizer.special, _pad(dialect)]), 1
    )


def _pad(dialect: Dialect) -> str:
    """Returns the name of the id that fills up rows."""
    own = {} if dialect.vocabulary is None else dialect.vocabulary.special
    names = [tag for tag, i in own.items() if i == dialect.tokenizer.pad]
    return [*names, PAD if PAD not in dialect.tokenizer.special else "<|padding|>"][0]


def tokenizer_json(dialect: Dialect) -> dict[str, Any]:
    """Returns the content of `tokenizer.json`: byte-level BPE, and the tags as added tokens."""
    own, tokenizer = dialect.vocabulary, dialect.tokenizer
    vocabulary, merges = _gpt2() if own is None else _of_ranks(own.ranks)
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    cuts: dict[str, Any] = byte_level
    whole = own is not None and own.file == MADE
    if own is not None and own.patterns != (GPT2_PATTERN,):
        splits = [
            {"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False}
            for p in own.patterns
        ]
        splits.append(byte_level | {"use_regex": False})
        cuts = {"type": "Sequence", "pretokenizers": splits}
    flags = {
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    added = {_pad(dialect): tokenizer.pad, **tokenizer.special}
    if own is not None and own.file == MADE:
        added = dict(sorted((own.special | added).items(), key=lambda item: item[1]))
        vocabulary |= added  # else the library gives them ids after the number of tokens
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": tag} | flags for tag, i in added.items()],
        "normalizer": None, "pre_tokenizer": cuts, "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False, "ignore_merges": whole, "vocab": vocabulary,
            "merges": merges,
        },
    }  # fmt: skip


def tokenizer_config(dialect: Dialect, end: str) -> dict[str, Any]:
    """Returns the content of `tokenizer_config.json`; `end` is the tag that ends a turn."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end, "pad_token": _pad(dialect),
        "clean_up_tokenization_spaces": False,
        "additional_special_tokens": list(dialect.tokenizer.special),
    }  # fmt: skip


def _gpt2() -> tuple[dict[str, int], list[list[str]]]:
    vocabulary = {_shown(token): rank for token, rank in gpt2_ranks().items()}
    return vocabulary | {PAD: len(vocabulary)}, [line.split() for line in gpt2_merges()]


def _of_ranks(ranks: dict[bytes, int]) -> tuple[dict[str, int], list[list[str]]]:
    """Returns the vocabulary by names, and the merges: all pairs of tokens that spell a token.

    All pairs are listed, in the order of the ranks, because encoding by ranks joins the pair whose
    bytes have the lowest rank, however each half was made.
    """
    merges = [
        [_shown(token[:at]), _shown(token[at:])]
        for token in ranks
        for at in range(1, len(token))
        if token[:at] in ranks and token[at:] in ranks
    ]
    return {_shown(token): rank for token, rank in ranks.items()}, merges


def _shown(token: bytes) -> str:
    letters = gpt2_letters()
    return "".join(letters[byte] for byte in token)
