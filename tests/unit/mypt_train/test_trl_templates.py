"""Ids and masks by TRL's training templates are those of transformers, which TRL trains on.

These templates mark what is trained by `{% generation %}`. Conversations are the shipped ones, with
tools and thoughts; the vocabulary is a small one with the special tokens of the template.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mypt_lint.template.align import Aligner
from mypt_lint.template.render import FORMS, in_form
from mypt_spec.templates.sandbox import compiled
from tests.support.stand_in import conversations, files, ids_and_mask, stand_in

pytestmark = pytest.mark.extra("trl", "transformers", "tokenizers")

SPECIAL = re.compile(r"<\|[^|<>\s{}]+\|>|<｜[^<>{}]+｜>|</?(?:start_of|end_of|s|bos|eos)[a-z_]*>")
CONFIG = {"bos_token": "<s>", "eos_token": "<|end|>"}
TEMPLATES = files("trl", "chat_templates/*_training.jinja") or [Path("none")]


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.stem)
def test_ids_and_mask(file: Path, tmp_path: Path) -> None:
    text = file.read_text(encoding="utf-8")
    model, library = stand_in(tmp_path, text, {*SPECIAL.findall(text)}, CONFIG)
    template = compiled(text)

    def render(messages: Any, tools: Any, *, prompt: bool = False) -> Any:
        return template(messages=messages, tools=tools, add_generation_prompt=prompt, **CONFIG)

    aligner, count = Aligner(render, frozenset(), frozenset()), 0
    for row in conversations():
        for form in FORMS:
            messages, tools = in_form(row["messages"], form), row.get("tools")
            try:
                render(messages, tools)
            except Exception:  # the template refuses the conversation in this form
                continue
            aligned = aligner.align(messages, tools)
            if "{'type': 'text'" in aligned.text:
                continue
            theirs = library.apply_chat_template(
                messages, tools, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
            )
            ours = ids_and_mask(model, aligned)
            assert ours == (theirs["input_ids"], theirs["assistant_masks"])
            count += 1
            break
    assert count >= 17  # a template without tools or system prompts refuses others
