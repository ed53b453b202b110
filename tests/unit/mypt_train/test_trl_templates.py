"""Ids and masks by TRL's training templates are those of transformers, which TRL trains on.

These templates mark what is trained by `{% generation %}`. Conversations are the shipped ones, with
tools and thoughts; the vocabulary is a small one with the special tokens of the template.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mypt_lint.template
from mypt_lint.template.align import Aligner, AlignError
from mypt_lint.template.model import ModelFolder
from mypt_lint.template.render import FORMS, in_form
from mypt_lint.template.sandbox import compiled
from tests.support import foreign

pytestmark = pytest.mark.extra("trl", "transformers", "tokenizers")

ROWS = Path(mypt_lint.template.__file__).parent / "conversations.jsonl"
SPECIAL = re.compile(r"<\|[^|<>\s{}]+\|>|<｜[^<>{}]+｜>|</?(?:start_of|end_of|s|bos|eos)[a-z_]*>")


def _templates() -> list[Path]:
    package = importlib.util.find_spec("trl")
    if package is None or package.origin is None:
        return []
    return sorted((Path(package.origin).parent / "chat_templates").glob("*_training.jinja"))


@pytest.mark.parametrize("file", _templates() or [Path("none")], ids=lambda file: file.stem)
def test_ids_and_mask(file: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    text = file.read_text(encoding="utf-8")
    special = sorted({*SPECIAL.findall(text), "<|end|>", "<s>"})
    tokenizer = Tokenizer.from_file(str(foreign.path("smollm") / "tokenizer.json"))
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat_template.jinja").write_text(text, encoding="utf-8")
    config = {"bos_token": "<s>", "eos_token": "<|end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    library = PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=text, **config)
    model = ModelFolder(str(tmp_path))
    template = compiled(text)

    def render(messages: Any, tools: Any, *, prompt: bool = False) -> Any:
        return template(messages=messages, tools=tools, add_generation_prompt=prompt, **config)

    aligner, count = Aligner(render, frozenset(), frozenset()), 0
    for row in map(json.loads, ROWS.read_text("utf-8").splitlines()):
        for form in FORMS:
            messages, tools = in_form(row["messages"], form), row.get("tools")
            try:
                aligned = aligner.align(messages, tools)
            except AlignError:
                raise
            except Exception:  # the template refuses the conversation in this form
                continue
            if "{'type': 'text'" in aligned.text:
                continue
            theirs = library.apply_chat_template(
                messages, tools, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
            )
            ids, starts = model.ids(aligned)
            mask = np.zeros(len(ids), int)
            for span in aligned.trained:
                begin, end = np.searchsorted(starts, [span.start, span.end])
                mask[begin:end] = 1
            assert ids == theirs["input_ids"]
            assert mask.tolist() == theirs["assistant_masks"]
            count += 1
            break
    assert count >= 17  # a template without tools or system prompts refuses others
