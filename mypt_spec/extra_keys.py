"""Tells metadata from misspelt keys: what unknown top-level keys of a record mean.

Any program adds top-level keys of its own to records: ids, sources, scores. A model never sees
them, and no trainer needs them, so they are no errors: nothing for customary keys, a warning for
others, which the reports of the linter show once for each file, and an error where a key that the
record lacks was meant, or one that says something in another format.
"""

from collections.abc import Collection, Mapping
from typing import Any

from mypt_spec.bodies.strict_json import unescape
from mypt_spec.findings import Finding

UNKNOWN, METADATA = "MYP103", "MYP112"
# Keys that published data sets have beside what is trained.
CUSTOMARY = frozenset({
    "_id", "author", "batch", "categories", "category", "channel", "config", "conv_id",
    "conversation_hash", "conversation_id", "country", "created", "created_at", "data_source",
    "dataset", "dataset_name", "date", "difficulty", "domain", "environment", "episode_id",
    "example_id", "example_index", "file", "file_name", "filename", "generation_model",
    "generator", "hash", "id", "idx", "image", "image_path", "index", "info", "input_tokens",
    "instance_id", "is_correct", "key", "lang", "language_code", "length", "level", "license",
    "locale", "md5", "meta", "metadata", "metrics", "model", "model_name", "n_tokens", "name",
    "num_tokens", "num_turns", "openai_moderation", "origin", "original_id", "output_tokens",
    "prompt_id", "prompt_tokens", "provider", "quality", "question_id", "rating", "record_id",
    "redacted", "repo", "reward", "row_id", "rubric", "sample_id", "score", "scores", "seed",
    "session_id", "sha256", "source", "source_id", "sources", "split", "state", "status",
    "subject", "subset", "tag", "tags", "task", "task_id", "task_name", "timestamp", "title",
    "token_count", "topic", "topics", "toxic", "trajectory_id", "turn", "uid", "url", "user_id",
    "uuid", "version", "video", "win_rate",
})  # fmt: skip
# Keys that say something in some format. A dialect without a place for one would lose it.
TELLING = frozenset({
    "answer", "answers", "assistant", "chat", "chats", "chosen", "chosen_messages",
    "chosen_response", "completion", "content",
    "conversation", "conversations", "dialog", "dialogue", "function", "function_call", "functions",
    "history",
    "human", "input", "inputs", "instruction", "instructions", "message", "messages", "msg", "msgs",
    "output", "outputs", "prompt", "prompts", "question", "reasoning", "reasoning_content",
    "rejected", "rejected_messages", "rejected_response", "response", "responses", "role",
    "roles", "system", "system_message",
    "system_prompt", "text", "think", "thinking", "thought", "thoughts", "tool", "tool_calls",
    "tools", "turns", "user",
})  # fmt: skip


def is_metadata(record: Mapping[str, Any], key: str, close: str, *, telling: bool) -> bool:
    """Returns whether an unknown top-level key is metadata.

    `close` is the known key that it is most like, "" for none. A key that the record lacks, or
    leaves empty, was meant. `telling`: keys that say something in some format are no metadata.
    """
    if key in CUSTOMARY:
        return True
    if telling and key.lower() in TELLING:
        return False
    return not close or record.get(close) not in (None, "", [])


def noted(key: str, pointer: str) -> list[Finding]:
    """Returns what is found about a top-level key that is metadata: nothing if it is customary."""
    if key in CUSTOMARY:
        return []
    message = f'"{key}" is not a key of the format; the model never sees it'
    advice = f'if it is metadata, list it in the settings: [metadata] keys = ["{key}"]'
    return [Finding(METADATA, message, pointer, help=advice, on_key=True)]


def is_listed(finding: Finding, keys: Collection[str]) -> bool:
    """Returns whether a finding is about a key that settings list as metadata."""
    key = extra_key(finding)
    if finding.code == METADATA:
        key = unescape(finding.pointer.rpartition("/")[2])
    return bool(key) and key in keys


def extra_key(finding: Finding) -> str:
    """Returns the unknown top-level key that a finding is about; empty for any other finding."""
    if finding.code not in (UNKNOWN, METADATA) or finding.pointer.count("/") != 1:
        return ""
    return unescape(finding.pointer[1:])
