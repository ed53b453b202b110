"""Reads the vocabularies that users have on disk.

Input: a file, or a folder such as that of a model. Output: a Vocabulary. What a file is, is told by
its content: ranks as tiktoken writes them, `tokenizer.json` of Hugging Face, `tekken.json` of
Mistral, or the copy that is kept with data.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from mypt_spec.tokenizer.tekken import of_tekken
from mypt_spec.tokenizer.tokenizer_json import of_tokenizer_json
from mypt_spec.tokenizer.vocabulary import (
    COPIES,
    VERSION,
    Vocabulary,
    VocabularyError,
    of_made,
    of_ranks,
)

# What is looked for in a folder, the first first.
NAMES = (*COPIES, "tekken.json", "tokenizer.json")
_EXPECTED = "expected a file of ranks as tiktoken writes them, tokenizer.json or tekken.json"
_known: dict[str, Vocabulary] = {}


def read_vocabulary(path: str | Path) -> Vocabulary:
    """Returns the vocabulary of a file, or of a folder that holds one; for equal bytes the same.

    Raises VocabularyError, which names the file, what is wrong in it, and what was expected.
    """
    file = _file(Path(path))
    try:
        data = file.read_bytes()
    except OSError as error:
        raise VocabularyError(
            f"{file}: cannot be read: {error.strerror or error}; {_EXPECTED}"
        ) from None
    digest = hashlib.sha256(data).hexdigest()
    if digest not in _known:
        _known[digest] = _read(data, str(file))
    return _known[digest]


def _file(path: Path) -> Path:
    """Returns the file of a vocabulary in a folder; other paths as they are."""
    if not path.is_dir():
        return path
    for name in NAMES:
        if (path / name).is_file():
            return path / name
    what = f"holds none of {', '.join(NAMES)}"
    if (path / "vocab.json").is_file() and (path / "merges.txt").is_file():
        what += "; save it once with transformers: AutoTokenizer.from_pretrained(...)"
        what += ".save_pretrained(...) writes tokenizer.json"
    elif (path / "tokenizer.model").is_file():
        what += "; its tokenizer.model is read where it is a file of ranks: name that file"
    raise VocabularyError(f"{path}: {what}")


def _read(data: bytes, path: str) -> Vocabulary:
    if data.lstrip()[:1] != b"{":
        if b"\0" in data[:1000]:
            raise VocabularyError(
                f"{path}: is no text; SentencePiece's models are not read; {_EXPECTED}"
            )
        return of_ranks(data, path)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise VocabularyError(f"{path}: is not JSON: {error}; {_EXPECTED}") from None
    if VERSION in found:
        return of_made(data, found, path)
    if isinstance(found.get("config"), dict) and isinstance(found.get("vocab"), list):
        return of_tekken(found, path)
    if isinstance(found.get("model"), dict):
        return of_tokenizer_json(found, path)
    keys = ", ".join(map(repr, list(found)[:5])) or "no keys"
    raise VocabularyError(f"{path}: is a JSON object of {keys}; {_EXPECTED}")
