"""Holds the format of a data set that the chat template of a model writes.

Input is a folder of a model, or a data set with the files of one. Output is what writers, readers
and trainers ask of a dialect: vocabulary, padding, fingerprint and files. It has no tags and no
grammar: nothing reads a conversation back from its ids.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from mypt_cli.errors import UsageError
from mypt_lint.template.model import ModelFolder
from mypt_spec.adapters.base import Unread
from mypt_spec.automaton import Automaton
from mypt_spec.dialect import Dialect
from mypt_spec.episode import Episode
from mypt_spec.findings import Finding
from mypt_spec.table import PADDING, TEXT, TokenTable
from mypt_spec.tokenizer.vocabulary import Vocabulary, VocabularyError


@dataclass(frozen=True, eq=False)
class ModelFormat(Dialect):
    """What the chat template of a model writes, with the members of a dialect that has no tags."""

    model: ModelFolder = field(kw_only=True)

    @property
    def all_files(self) -> dict[str, bytes]:
        """Returns the files of the model that are kept beside data and checkpoints, by name."""
        return self.model.files

    def parse_ids(self, ids: Iterable[int]) -> tuple[Episode | None, list[Finding]]:
        """Returns no Episode, and the findings about ids that mean nothing."""
        return None, self.lex_ids(ids)[1]


def model_format(path: str, options: str | None = None) -> ModelFormat:
    """Returns the format of a model folder, read once. Raises UsageError where it has none.

    `options` are those of its chat template, a JSON object.
    """
    files = Path(path).iterdir() if Path(path).is_dir() else ()
    facts = [(file.name, file.stat()) for file in files]
    return _loaded(path, options, frozenset((n, s.st_size, s.st_mtime_ns) for n, s in facts))


@lru_cache(maxsize=4)
def _loaded(path: str, options: str | None, _: frozenset[tuple[str, int, int]]) -> ModelFormat:
    model = ModelFolder(path, options, encodes=True)
    try:
        vocabulary = model.required_vocabulary
    except VocabularyError as error:
        raise UsageError(str(error)) from None
    table = TokenTable(
        "chat template", "", "", vocabulary.name, vocabulary.ids, _padding(model, vocabulary),
        vocabulary.size, {}, dict(vocabulary.special), {"compact": ""}, (),
        composed=vocabulary.composed,
    )  # fmt: skip
    anything = Automaton(({TEXT: 0},), frozenset({0}))
    return ModelFormat(table, anything, Unread(), model.fingerprint, vocabulary, model=model)


def _padding(model: ModelFolder, vocabulary: Vocabulary) -> int:
    """Returns the id that fills up rows: no episode has it there, and it is not trained."""
    tokens = model.templates[0].tokens
    names = (tokens.get("pad_token"), *PADDING, tokens.get("eos_token"))
    return next((vocabulary.special[n] for n in names if n in vocabulary.special), 0)
