"""The vocabularies of models, where packages that hold them are installed: ids against theirs.

`pip install dashscope mistral-common bpe-openai` brings those of Qwen, Mistral and OpenAI.
"""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tiktoken

import mypt_spec
from mypt_spec.tokenizer.probe import PROBE
from mypt_spec.tokenizer.tokenizer import gpt2_letters
from tests.support.foreign import CHAT, LLAMA, QWEN
from tests.support.vocabulary import texts

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
    """A file of a package, which is not imported; skips the test where it is not installed."""
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
    """The two tokens that are joined to make one: its bytes, joined as the ids say."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        lower = [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]
        _, at = min(lower)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def content(name: str, *, every: bool) -> dict[str, Any]:
    """A `tokenizer.json` of these ranks: with one merge for a token, or with all that make it."""
    known, letters = ranks(name), gpt2_letters()
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


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("name", ["qwen", "cl100k"])
def test_ids_of_ranks(name: str, every: bool, tmp_path: Path) -> None:
    """From `tokenizer.json` come the ids that tiktoken gives with the ranks."""
    pytest.importorskip("tokenizers", reason="reads tokenizer.json")
    known = ranks(name)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content(name, every=every)))
    d = mypt_spec.dialect("mypt", vocabulary=tmp_path)
    plain = tiktoken.Encoding(
        name, pat_str=RANKS[name][2], mergeable_ranks=known, special_tokens={}
    )
    for text in (PROBE, *texts(), *CHAT):
        assert d.tokenizer.encode(text) == plain.encode_ordinary(text)
    assert d.tokenizer.special["<myPT_system>"] == len(known) + len(CHAT)


@pytest.mark.parametrize("release", ["240718", "240911"])
def test_ids_of_tekken(release: str) -> None:
    file = file_of("mistral_common", f"data/tekken_{release}.json")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    theirs = Tekkenizer.from_file(file)
    d = mypt_spec.dialect("mypt", vocabulary=file)
    assert d.vocabulary is not None
    for text in (PROBE, *texts(), "[INST]", "</s>"):
        assert d.tokenizer.encode(text) == theirs.encode(text, bos=False, eos=False)
    assert d.vocabulary.special["[INST]"] == theirs.get_special_token("[INST]")
    assert len(d.vocabulary.special) == 1000
    assert str(d.tokenizer.ordinary) == "1000-131071"
    assert d.tokenizer.pad == theirs.get_special_token("<pad>")


def test_ids_of_a_chat_with_qwen(tmp_path: Path) -> None:
    """The ids of whole conversations in ChatML are those of the library on their text."""
    library = pytest.importorskip("tokenizers", reason="reads tokenizer.json")
    (tmp_path / "tokenizer.json").write_text(json.dumps(content("qwen", every=False)))
    theirs = library.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    d = mypt_spec.dialect("chatml", vocabulary=tmp_path)
    assert (d.table.special["<|im_start|>"], d.table.special["<|im_end|>"]) == (151644, 151645)
    said = [text.lstrip() for text in (PROBE, "", *texts())]
    for system, user, answer in zip(said, said[1:], said[2:], strict=False):
        messages = [("system", system), ("user", user), ("assistant", answer)]
        record = {"messages": [{"role": r, "content": c} for r, c in messages]}
        episode, _ = d.read(record)
        assert episode is not None
        encoded = d.encode(episode)
        ids = theirs.encode(d.serialize(episode), add_special_tokens=False).ids
        assert encoded.ids.tolist() == ids
        assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == f"{answer}<|im_end|>"
        assert d.parse_ids(ids) == (episode, [])
