"""Reads records of a prompt alone, as GRPO and RLOO take them: a text, or a list of messages."""

from typing import Any

from mypt_records.chat import MEDIA, Chat
from mypt_records.shapes import alpaca
from mypt_records.shapes.completion import read_as

ABOUT = "prompts without answers (prompt)"
PROMPT = 'add a top-level "system"'
# Beside the prompt is what a reward looks at: the right answer, or how to find it.
TOP = frozenset({
    "prompt", "system", "language", "tools", "chat_template_kwargs", *MEDIA,
    "ability", "answer", "answer_key", "data_source", "expected", "extra_info", "ground_truth",
    "reference", "reference_answer", "reward_model", "solution", "target", "test_cases",
})  # fmt: skip
_ANSWERS = {"completion", "chosen", "rejected", "messages", "conversations"}


def fit(record: dict[str, Any]) -> int:
    prompt, answered = record.get("prompt"), not _ANSWERS.isdisjoint(record) or alpaca.fit(record)
    return 1 if isinstance(prompt, str | list) and prompt and not answered else 0


def read(record: dict[str, Any]) -> Chat:
    return read_as("prompt", record, {"prompt": "user"}, TOP)
