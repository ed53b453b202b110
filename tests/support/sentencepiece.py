"""Makes small vocabularies like those converted from SentencePiece: BPE of characters, with bytes."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import Any

from mypt_spec.tokenizer.probe import PROBE

SIGN = "\u2581"
TAGS = (
    "<pad>", "<eos>", "<bos>", "<unk>", "<|im_start|>", "<|im_end|>",
    "<|system|>", "<|user|>", "<|assistant|>", "<|think|>", "<|/think|>", "<|end|>",
)  # fmt: skip
TO_SIGN = {"type": "Replace", "pattern": {"String": " "}, "content": SIGN}
PREPEND = {"type": "Prepend", "prepend": SIGN}
GEMMA_CUT = {
    "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False,
}  # fmt: skip


def metaspace(scheme: str, *, split: bool) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": SIGN, "prepend_scheme": scheme, "split": split}


KINDS: dict[str, dict[str, Any]] = {
    "gemma": {"normalizer": TO_SIGN, "pre_tokenizer": GEMMA_CUT},
    "bare": {"normalizer": {"type": "Sequence", "normalizers": [TO_SIGN]}},
    "mistral": {"pre_tokenizer": metaspace("first", split=False)},
    "words": {"pre_tokenizer": metaspace("never", split=True)},
}


@cache
def _learned() -> tuple[dict[str, int], list[list[str]]]:
    """Tokens and merges of the probe: ids count down from the last merge, characters come last."""
    words = [list(word) for word in PROBE.replace(" ", SIGN).splitlines(keepends=True)]
    merges: list[list[str]] = []
    for _ in range(250):
        counts: dict[tuple[str, str], int] = {}
        for word in words:
            for pair in pairwise(word):
                counts[pair] = counts.get(pair, 0) + 1
        left, right = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append([left, right])
        for word in words:
            for at in reversed(range(len(word) - 1)):
                if word[at : at + 2] == [left, right]:
                    word[at : at + 2] = [left + right]
    characters = sorted({c for c in PROBE.replace(" ", SIGN) if c < "\u0500" or c == SIGN} - {"\n"})
    characters += [c for pair in merges for text in pair for c in text if c not in characters]
    tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [left + right for left, right in reversed(merges)] + characters
    ids = {token: i for i, token in enumerate(dict.fromkeys([*TAGS, *tokens]))}
    return ids, [pair for pair in merges if "".join(pair) in ids]


def content_of(kind: str, *, added: tuple[str, ...] = ()) -> dict[str, Any]:
    """The content of a `tokenizer.json`, in whose vocabulary `added` are text, as Gemma's HTML."""
    vocab, merges = _learned()
    vocab = vocab | {text: len(vocab) + n for n, text in enumerate(added)}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    rows = [{"id": vocab[t], "content": t, "special": t in TAGS} | flags for t in (*TAGS, *added)]
    model = {
        "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
        "ignore_merges": False, "vocab": vocab, "merges": merges,
    }  # fmt: skip
    usual = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": rows}
    usual |= dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    content: dict[str, Any] = json.loads(json.dumps(usual | {"model": model} | KINDS[kind]))
    return content
