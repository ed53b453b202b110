"""Reads the vocabularies that users have on disk.

Input: a file, or a folder such as that of a model. Output: a Vocabulary. What a file is, is told by
its content: ranks as tiktoken writes them, `tokenizer.json` of Hugging Face, `tekken.json` of
Mistral, or the copy that is kept with data.
"""

import json
from functools import partial
from pathlib import Path

from mypt_spec.tokenizer.proved import digest_of, proved
from mypt_spec.tokenizer.tekken import from_tekken
from mypt_spec.tokenizer.tokenizer_json import from_tokenizer_json
from mypt_spec.tokenizer.vocabulary import (
    COPIES,
    VERSION,
    Vocabulary,
    VocabularyError,
    from_json_file,
    from_ranks,
)

# What is looked for in a folder, the first first.
NAMES = (*COPIES, "tekken.json", "tokenizer.json")
_EXPECTED = "expected a file of ranks as tiktoken writes them, tokenizer.json or tekken.json"
LFS = b"version https://git-lfs"  # how a file begins in a clone without large files
_cache: dict[bytes, Vocabulary] = {}


def read_vocabulary(path: str | Path) -> Vocabulary:
    """Returns the vocabulary of a file, or of a folder that holds one; for equal bytes the same.

    Raises VocabularyError, which names the file, what is wrong in it, and what was expected.
    """
    file = _file(Path(path))
    try:
        digest = digest_of(file)
        if digest not in _cache:
            _cache[digest] = proved(file, partial(_parse, str(file)))
        return _cache[digest]
    except OSError as error:
        why = error.strerror or error
        raise VocabularyError(f"{file}: cannot be read: {why}; {_EXPECTED}") from None


def _file(path: Path) -> Path:
    """Returns the file of a vocabulary in a folder; other paths as they are."""
    if not path.is_dir():
        return path
    for name in NAMES:
        if (path / name).is_file():
            return path / name
    message = f"holds none of {', '.join(NAMES)}"
    advice = "; copy tokenizer.json or tekken.json from the model there"
    if (path / "vocab.json").is_file() and (path / "merges.txt").is_file():
        message += "; save it once with transformers: AutoTokenizer.from_pretrained(...)"
        advice = ".save_pretrained(...) writes tokenizer.json"
    elif (path / "tokenizer.model").is_file():
        advice = "; its tokenizer.model is read where it is a file of ranks: name that file"
    raise VocabularyError(f"{path}: {message}{advice}")


def _parse(path: str, data: bytes) -> Vocabulary:
    if data.lstrip()[:1] != b"{":
        if data.startswith(LFS):
            raise VocabularyError(f"{path}: is a pointer of Git LFS, not the file: git lfs pull")
        if b"\0" in data[:1000]:
            why = "is not text; SentencePiece's models are not read, their tokenizer.json is"
            raise VocabularyError(f"{path}: {why}; {_EXPECTED}")
        return from_ranks(data, path)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise VocabularyError(f"{path}: is not JSON: {error}; {_EXPECTED}") from None
    if VERSION in content:
        return from_json_file(data, content, path)
    if isinstance(content.get("config"), dict) and isinstance(content.get("vocab"), list):
        return from_tekken(content, path)
    if isinstance(content.get("model"), dict):
        return from_tokenizer_json(content, path)
    keys = ", ".join(map(repr, list(content)[:5])) or "no keys"
    raise VocabularyError(f"{path}: is a JSON object of {keys}; {_EXPECTED}")
