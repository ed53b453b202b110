"""Finds what must not be trained on: evaluation data, reserved texts, and public benchmarks.

Equal questions are found by digests. Questions that are nearly equal, or stand among other text,
are found by their passages of eight words. Of benchmarks, hashes of such passages are shipped.
"""

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mypt_cli.errors import UsageError
from mypt_cli.inputs import text_of
from mypt_cli.jsonl.names import SUFFIXES
from mypt_cli.jsonl.paths import expand
from mypt_cli.jsonl.records import record_blocks
from mypt_lint.dataset.fingerprints import Fingerprint, digest, plain
from mypt_lint.dataset.passages import Hashes, Index, sketches
from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.findings import Finding

_FOLDER = Path(__file__).parent / "benchmarks"
_QUESTIONS = ("question", "prompt", "problem", "instruction", "query", "input")  # keys
_WORDS = 10  # of questions that also say something where more questions follow


class Reserved(NamedTuple):
    """A text of `--eval-prompts`: where it is, and whether it is a whole question."""

    text: str
    where: str
    is_question: bool = True


def reserved_in(paths: Sequence[str]) -> list[Reserved]:
    """Returns the texts in files of records, or of lines. Raises UsageError."""
    out: list[Reserved] = []
    for source in expand(list(paths)):
        path = source.path
        bare = path.lower().removesuffix(".gz").removesuffix(".zst")
        if not bare.endswith(tuple(SUFFIXES)):
            lines = text_of(path).replace("\r", "\n").split("\n")
            out += [Reserved(line, f"{path}:{i}") for i, line in enumerate(lines, 1)]
            continue
        for block in record_blocks(source):
            if block.broken or block.too_long:
                raise UsageError(f"{path}: {block.broken or 'a line is too long'}; fix the file")
            for row, raw in enumerate(block.lines(), block.first_row):
                try:
                    record = loads(raw.decode("utf-8-sig"))
                except (Fault, UnicodeDecodeError):
                    raise UsageError(f"{path}:{row}: not a JSON record; fix the file") from None
                out += _texts_of(record, f"{path}:{row}")
    return out


def _texts_of(record: Any, where: str) -> Iterator[Reserved]:
    """Yields all strings of a record; questions are those of a user, or under the key of one."""
    stack = [("", record)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, str):
            yield Reserved(value, where, key in _QUESTIONS)
        elif isinstance(value, list):
            stack += [(key, item) for item in value]
        elif isinstance(value, dict):
            is_question = value.get("role", value.get("from")) in ("user", "human")
            stack += [("question" if is_question else name, item) for name, item in value.items()]


class Evaluation:
    """What is evaluated. Add all records before anything is looked for."""

    def __init__(self, reserved: Sequence[Reserved] = ()) -> None:
        self._prompts = {
            digest(plain(r.text)) for r in reserved if r.is_question and r.text.strip()
        }
        self._texts = [plain(r.text) for r in reserved]
        self._items = [("MYP615", f"most of the text at {r.where} is in it") for r in reserved]
        self._questions: dict[int, str] = {}
        self._index: Index | None = None

    def add(self, digests: Fingerprint, where: str) -> None:
        """Adds the questions of a record of the evaluation data."""
        for text, _ in digests.questions:
            self._texts.append(text)
            message = f"most of a question that is evaluated at {where} is in it"
            self._items.append(("MYP614", message))
        if digests.questions:
            self._questions.setdefault(digests.question_digests()[-1], where)

    def exact(self, digests: Fingerprint) -> Iterator[Finding]:
        """Yields findings about questions of a record that are evaluated, word for word."""
        questions, words = digests.questions, 0
        for at, key in enumerate(digests.question_digests() if self._questions else (), 1):
            words += len(questions[at - 1][0].split())
            if key in self._questions and (words >= _WORDS or at == len(questions)):
                where = self._questions[key]
                yield Finding("MYP603", f"the same questions are evaluated at {where}")
                break
        for text, pointer in questions if self._prompts else ():
            if digest(text) in self._prompts:
                yield Finding("MYP606", "this prompt is reserved for evaluation", pointer)

    def near(self, hashes: Hashes) -> dict[int, int]:
        """Returns the item that a text has most of the passages of, if there is one, by text."""
        if self._index is None:
            sketch, names = _benchmarks()
            self._items += [("MYP616", f"most of a question of {name} is in it") for name in names]
            self._index = Index(np.concatenate([sketches(self._texts), sketch]))
            self._texts.clear()
        return self._index.find(hashes)

    def finding(self, item: int) -> Finding:
        return Finding(*self._items[item])


@cache
def _benchmarks() -> tuple[Any, list[str]]:
    """Returns the sketches of the questions of public benchmarks, and the benchmark of each."""
    with (_FOLDER / "benchmarks.toml").open("rb") as file:
        table = tomllib.load(file)
    arrays = [np.load(_FOLDER / f"{key}.npy") for key in table]
    names = [about["name"] for about, a in zip(table.values(), arrays, strict=True) for _ in a]
    return np.concatenate(arrays), names
