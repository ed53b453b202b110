"""Finds the vocabularies of models in installed packages, as files that a dialect reads.

Input: a name. Output: the path of a file of ranks, which lasts as long as the context, or why there
is none. `128k` are the first 128,000 tokens of o200k: a vocabulary of merged pairs that is cut
short is one, of the size of Llama 3's, whose own is in no package. `gpt2` needs no file.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

# Name -> package, file in it, how many tokens of it.
_FILES = {
    "128k": ("bpe_openai", "data/o200k_base.tiktoken.gz", 128_000),
    "qwen": ("dashscope", "resources/qwen.tiktoken", None),
    "o200k": ("bpe_openai", "data/o200k_base.tiktoken.gz", None),
}
NAMES = ["gpt2", "128k", "o200k"]


class Missing(NamedTuple):
    """Why a vocabulary is not there."""

    reason: str


@contextmanager
def vocabulary(name: str) -> Iterator[Path | Missing | None]:
    """Yields the file of a vocabulary by name or path; None for GPT-2's; else why there is none."""
    if name == "gpt2":
        yield None
    elif name not in _FILES:
        path = Path(name)
        yield path if path.is_file() else Missing(f"no file, and none of {', '.join(_FILES)}")
    else:
        package, file, count = _FILES[name]
        found = find_spec(package)
        if found is None or found.origin is None:
            yield Missing(f"pip install {package.replace('_', '-')}, which holds it")
            return
        data = (Path(found.origin).parent / file).read_bytes()
        rows = (gzip.decompress(data) if file.endswith(".gz") else data).splitlines(keepends=True)
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.tiktoken"
            path.write_bytes(b"".join(rows[:count]))
            yield path
