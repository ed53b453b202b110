"""Vocabularies as users have them: small files of `tokenizers` and of Mistral, made here.

`pytest.importorskip("tokenizers")` before `tokenizer_json`.
"""

from __future__ import annotations

import base64
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import mypt_spec
from tests.support.vocabulary import texts

# How Qwen's, Llama-3's and DeepSeek's vocabularies cut text.
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
DEEPSEEK = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    (
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
)
# Special tokens of a chat, and one that no dialect uses.
CHAT = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# The name of a vocabulary -> the patterns, the special tokens in front, those added at the end.
# The last has a tag of mypt in front and one at the end.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "gpt2": ((), (), ("<|endoftext|>",)),
    "qwen": ((QWEN,), (), CHAT),
    "llama": ((LLAMA,), (), ("<|begin_of_text|>", "<|finetune_right_pad_id|>")),
    "smollm": (("digits",), CHAT, ()),
    "deepseek": (DEEPSEEK, ("<bos>", "<eos>", "<pad>"), ("<think>",)),
    "own": ((QWEN,), ("<unused>", "<myPT_user>", "<|im_end|>"), ("<more>", "</myPT_assistant>")),
}
SIZE = 420


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def tokenizer(kind: str, size: int = SIZE, learn: tuple[str, ...] = (), **parts: Any) -> Any:
    """A tokenizer of the library, learnt from the examples; `parts` replace its parts."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    patterns, front, back = KINDS[kind]
    steps: list[Any] = [
        pre_tokenizers.Digits(individual_digits=True)
        if pattern == "digits"
        else pre_tokenizers.Split(Regex(pattern), "isolated")
        for pattern in patterns
    ]
    usual = patterns in ((), ("digits",))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=usual))
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    found.decoder = decoders.ByteLevel()
    for name, part in parts.items():
        setattr(found, name, part)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(front),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    found.train_from_iterator(learn or texts(), trainer)
    found.add_special_tokens(list(back))
    return found


@cache
def path(kind: str) -> Path:
    """The folder of a `tokenizer.json`."""
    folder = Path(_folder().name) / kind
    folder.mkdir()
    tokenizer(kind).save(str(folder / "tokenizer.json"))
    return folder


@cache
def library(kind: str, *, as_text: bool = False) -> Any:
    """The library's tokenizer; with `as_text`, special tokens in a text are text."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path(kind) / "tokenizer.json"))
    tokenizer.encode_special_tokens = as_text
    return tokenizer


def on(kind: str, name: str = "mypt") -> mypt_spec.Dialect:
    """A dialect on one of these vocabularies."""
    return mypt_spec.dialect(name, vocabulary=path(kind))


@cache
def tekken() -> Path:
    """A small `tekken.json`, whose special tokens are the first ten ids; no library is needed."""
    from mypt_spec.tokenizer.sources import read_vocabulary
    from tests.support.vocabulary import path as small

    ranks = read_vocabulary(small()).ranks
    rows = [
        {"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None}
        for t, i in ranks.items()
    ]
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>"]
    found = {
        "config": {
            "pattern": QWEN, "num_vocab_tokens": len(rows), "default_vocab_size": len(rows) + 10,
            "default_num_special_tokens": 10, "version": "v11",
        },
        "vocab": rows,
        "special_tokens": [
            {"rank": i, "token_str": tag, "is_control": True} for i, tag in enumerate(names)
        ],
    }  # fmt: skip
    file = Path(_folder().name) / "tekken.json"
    file.write_text(json.dumps(found), encoding="utf-8")
    return file


@cache
def large() -> Path:
    """A vocabulary with more than 65,536 ids: the bytes, far behind one special token."""
    from mypt_spec.tokenizer.vocabulary import JSON_FILE, from_tokens

    file = Path(_folder().name) / JSON_FILE
    file.write_bytes(
        from_tokens({bytes([b]): 70_000 + b for b in range(256)}, {"<pad>": 5}, (QWEN,)).data
    )
    return file
