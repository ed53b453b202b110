"""Opens the model that a command names, and says what is wrong in the words of its options."""

from __future__ import annotations

from pathlib import Path

import torch

import mypt_spec
from mypt_infer.generate.llama import Llama, load
from mypt_model.folder import TRAINER, beside, dialect_of, is_plain, newest
from mypt_model.shape import ModelError
from mypt_spec import Dialect, VocabularyError
from mypt_spec.tokenizer.vocabulary import COPIES


def spoken(
    folder: str | Path, *, wanted: str | None, vocabulary: str | Path | None = None
) -> tuple[str, Dialect]:
    """Returns (name or folder, dialect) of a model, "mypt" where its checkpoint does not say.

    The vocabulary is by default the one beside the model: the copy that training keeps, or the
    `tokenizer.json` or `tekken.json` of a model that another program made. Raises ModelError where
    the checkpoint contradicts `wanted`, for an unknown dialect, for a vocabulary that cannot be
    read, where neither of them names the format, and where there is no model at all.
    """
    is_plain(newest(Path(folder)))  # raises where there is no config.json
    recorded = dialect_of(folder, wanted=wanted, default="")
    name = recorded or "mypt"
    # What training wrote has its vocabulary as a copy, or is on the dialect's.
    others = () if beside(folder, TRAINER) else ("tokenizer.json", "tekken.json")
    try:
        vocabulary_file = vocabulary or beside(folder, *COPIES, *others)
        loaded = mypt_spec.dialect(name, vocabulary=vocabulary_file)
    except (KeyError, VocabularyError) as error:
        raise ModelError(error.args[0]) from None
    tags = loaded.vocabulary.special if loaded.vocabulary else {}
    if tags and not recorded and not tags.keys() & loaded.tokenizer.special.keys():
        raise ModelError(
            f"{folder}: does not say its format, and its vocabulary has no tag of {name}; name the "
            "format with --dialect, such as chatml or qwen3"
        )
    return name, loaded


def loaded(folder: str | Path, device: str) -> Llama:
    """Returns the model in a folder on a device. Raises ModelError where it cannot be had there."""
    try:
        return load(folder).to(torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"--device {device}: {str(error).splitlines()[0]}") from None
