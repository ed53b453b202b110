"""The ids that mistral-common gives, and our dialects on its vocabulary; tests skip without it."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_spec.dialect import families

VERSIONS = {"mistral": 7, "mistral-v13": 13}
EFFORTS = {"mistral-small4": "none", "mistral-small4-thinking": "high"}  # of version 15
V11 = families()["mistral-v11"]
_NORMALIZERS = {11: 7}  # those that another version has, too
# The special tokens that a tekken.json of version 13 names beside those of version 7.
_LATER = ("[AUDIO]", "[BEGIN_AUDIO]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]")
_SETTINGS = ("[MODEL_SETTINGS]", "[/MODEL_SETTINGS]")  # and version 15
_EFFORT = {"type": "enum", "values": ["none", "high"], "default": "none", "accepts_none": True}


@cache
def _oracle(version: int) -> tuple[Any, Any]:
    from mistral_common.protocol.instruct import normalize
    from mistral_common.tokens.tokenizers import instruct
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    words = Tekkenizer.from_file(tekken(version if version in (7, 15) else 13))
    normalizer = getattr(
        normalize, f"InstructRequestNormalizerV{_NORMALIZERS.get(version, version)}"
    ).normalizer(words.model_settings_builder)
    return normalizer, getattr(instruct, f"InstructTokenizerV{version}")(words)


@cache
def tekken(version: int = 7) -> Path:
    """A vocabulary of tekken; of version 13, no wheel has one that names its special tokens."""
    found = find_spec("mistral_common")
    if found is None or found.origin is None:
        pytest.skip("mistral-common is not installed: it holds the vocabulary and the oracle")
    path = Path(found.origin).parent / "data/tekken_240911.json"
    if version == 7:
        return path
    from mypt_spec.tokenizer.tekken import OLD

    whole = json.loads(path.read_text(encoding="utf-8"))
    whole["config"]["version"] = f"v{version}"
    named = enumerate((*OLD, *_LATER, *_SETTINGS * (version == 15)))
    if version == 15:
        whole["model_settings_builder"] = {"reasoning_effort": _EFFORT}
    whole["special_tokens"] = [
        {"rank": i, "token_str": tag, "is_control": True} for i, tag in named
    ]
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Path(folder, "tekken.json")
    made.write_text(json.dumps(whole), encoding="utf-8")
    return made


@cache
def on_tekken(name: str) -> mypt_spec.Dialect:
    if name in EFFORTS:
        return mypt_spec.dialect(name, vocabulary=tekken(15))
    if name not in VERSIONS:
        return mypt_spec.dialect(V11, vocabulary=tekken(13))
    return mypt_spec.dialect(name, vocabulary=tekken(VERSIONS[name]))


def their_ids(record: dict[str, Any], name: str = "mistral") -> list[int]:
    """The ids of a record's messages and tools, by mistral-common."""
    tekken()
    from mistral_common.protocol.instruct.request import ChatCompletionRequest

    normalizer, tokenizer = _oracle(15 if name in EFFORTS else VERSIONS.get(name, 11))
    effort = {"reasoning_effort": EFFORTS[name]} if name in EFFORTS else {}
    request = ChatCompletionRequest(
        messages=[_message(m) for m in record["messages"]], tools=record.get("tools"), **effort
    )
    ids: list[int] = tokenizer.encode_instruct(
        normalizer.from_chat_completion_request(request)
    ).tokens
    return ids


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """A message as mistral-common knows it: a thought is a piece of the content."""
    known = ("role", "content", "tool_calls", "tool_call_id", "name")
    out = {key: message[key] for key in known if key in message}
    if "reasoning_content" in message:
        said = message.get("content")
        thought = {"type": "thinking", "thinking": message["reasoning_content"]}
        out["content"] = [thought, *([{"type": "text", "text": said}] if said else [])]
    return out
