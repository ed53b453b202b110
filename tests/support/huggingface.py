"""The exported tokenizer and chat template, in Hugging Face's hands. Needs transformers."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import mypt_spec
from mypt_train.export.chat_facts import endings
from mypt_train.export.chat_template import chat_template
from mypt_train.export.tokenizer_file import padding, tokenizer_config, tokenizer_json


def tokenizer(dialect: mypt_spec.Dialect | None = None) -> Any:
    """The exported tokenizer of a dialect, mypt by default, with its tags under the same ids."""
    from transformers import AutoTokenizer

    d = dialect or mypt_spec.dialect("mypt")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (
            ("tokenizer.json", tokenizer_json(d)),
            (
                "tokenizer_config.json",
                tokenizer_config(d, endings(d)[-1] if endings(d) else padding(d)),
            ),
        ):
            (Path(folder) / name).write_text(json.dumps(content), encoding="utf-8")
        (Path(folder) / "chat_template.jinja").write_text(
            chat_template(d, reserved=(padding(d),)), encoding="utf-8"
        )
        out = AutoTokenizer.from_pretrained(folder)
    assert {
        tag: out.convert_tokens_to_ids(tag) for tag in d.tokenizer.special
    } == d.tokenizer.special
    return out


def encode(theirs: Any, records: list[dict[str, Any]], *, template: str | None = None) -> Any:
    """`input_ids` and `assistant_masks` of records, in one call.

    By the exported template unless another is given.
    """
    chats = [
        ([{"role": "system", "content": r["system"]}] if "system" in r else []) + r["messages"]
        for r in records
    ]
    return theirs.apply_chat_template(
        chats,
        chat_template=template,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
