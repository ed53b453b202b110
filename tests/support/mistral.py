"""The ids that mistral-common gives, and our dialects on its vocabulary; tests skip without it."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import mypt_spec


@cache
def _oracle() -> tuple[Any, Any]:
    from mistral_common.protocol.instruct.normalize import InstructRequestNormalizerV7
    from mistral_common.tokens.tokenizers.instruct import InstructTokenizerV7
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    words = Tekkenizer.from_file(tekken())
    return InstructRequestNormalizerV7.normalizer(), InstructTokenizerV7(words)


def tekken() -> Path:
    found = find_spec("mistral_common")
    if found is None or found.origin is None:
        pytest.skip("mistral-common is not installed: it holds the vocabulary and the oracle")
    return Path(found.origin).parent / "data/tekken_240911.json"


def on_tekken(name: str) -> mypt_spec.Dialect:
    return mypt_spec.dialect(name, vocabulary=tekken())


def their_ids(record: dict[str, Any]) -> list[int]:
    """The ids of a record's messages and tools, by mistral-common."""
    tekken()
    from mistral_common.protocol.instruct.request import ChatCompletionRequest

    normalizer, tokenizer = _oracle()
    known = ("role", "content", "tool_calls", "tool_call_id", "name")
    messages = [{k: m[k] for k in known if k in m} for m in record["messages"]]
    request = ChatCompletionRequest(messages=messages, tools=record.get("tools"))
    ids: list[int] = tokenizer.encode_instruct(
        normalizer.from_chat_completion_request(request)
    ).tokens
    return ids
