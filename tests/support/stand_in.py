"""Models with the chat template of a public one, on a small vocabulary with its special tokens."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

import mypt_lint.template
from mypt_lint.template.align import Aligned
from mypt_lint.template.model import ModelFolder
from tests.support import foreign

ROWS = Path(mypt_lint.template.__file__).parent / "conversations.jsonl"


def conversations() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]


def files(package: str, pattern: str) -> list[Path]:
    """Returns the files of an installed package, which is not imported; none if it is missing."""
    spec = importlib.util.find_spec(package)
    return sorted(Path(spec.origin).parent.glob(pattern)) if spec and spec.origin else []


def stand_in(
    here: Path, template: str, special: set[str], config: dict[str, str]
) -> tuple[ModelFolder, Any]:
    """Makes a model folder; returns it, and the same as a tokenizer of transformers."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer.from_file(str(foreign.path("smollm") / "tokenizer.json"))
    tokenizer.add_special_tokens(sorted({*special, *config.values()}))
    tokenizer.save(str(here / "tokenizer.json"))
    (here / "chat_template.jinja").write_text(template, encoding="utf-8")
    (here / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    library = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=template, unk_token=None, **config
    )
    return ModelFolder(str(here)), library


def ids_and_mask(model: ModelFolder, aligned: Aligned) -> tuple[list[int], list[int]]:
    ids, starts = model.ids(aligned)
    mask = np.zeros(len(ids), int)
    for span in aligned.trained:
        begin, end = np.searchsorted(starts, [span.start, span.end])
        mask[begin:end] = 1
    return ids.tolist(), mask.tolist()
