"""OpenAI's library for Harmony as a yardstick, and our dialect on the vocabulary that it uses.

`pip install openai-harmony bpe-openai` brings both; without them the tests are skipped.
"""

from __future__ import annotations

import gzip
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import mypt_spec
from mypt_spec.bodies.strict_json import canonical
from tests.support.ranks import on_ranks

# Special tokens of o200k_harmony.
SPECIAL = {
    "<|startoftext|>": 199998, "<|endoftext|>": 199999, "<|return|>": 200002, "<|constrain|>": 200003,
    "<|channel|>": 200005, "<|start|>": 200006, "<|end|>": 200007, "<|message|>": 200008, "<|call|>": 200012,
}  # fmt: skip
PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def ranks() -> bytes:
    """The ranks of o200k; skips the test where they are not installed."""
    found = find_spec("bpe_openai")
    if found is None or found.origin is None:
        pytest.skip("bpe-openai is not installed: it holds the vocabulary")
    packed = Path(found.origin).parent / "data/o200k_base.tiktoken.gz"
    return gzip.decompress(packed.read_bytes())


@cache
def library() -> Any:
    """The library's encoding of gpt-oss."""
    module = pytest.importorskip("openai_harmony", reason="is the yardstick")
    with TemporaryDirectory() as place:
        (Path(place) / "o200k_base.tiktoken").write_bytes(ranks())
        os.environ["TIKTOKEN_ENCODINGS_BASE"] = place
        return module.load_harmony_encoding(module.HarmonyEncodingName.HARMONY_GPT_OSS)


@cache
def ours() -> mypt_spec.Dialect:
    """Harmony on o200k."""
    return on_ranks("harmony", ranks(), pattern=PATTERN, special=SPECIAL)


def _system(module: Any, options: dict[str, Any]) -> Any:
    """The library's system block with some options, which it has as methods."""
    found = module.SystemContent.new()
    for name in ("model_identity", "conversation_start_date"):
        if name in options:
            found = getattr(found, f"with_{name}")(options[name])
    if "reasoning_effort" in options:
        found = found.with_reasoning_effort(module.ReasoningEffort(options["reasoning_effort"].capitalize()))  # fmt: skip
    for tool in options.get("builtin_tools", ()):
        found = getattr(found, f"with_{tool}_tool")()
    return found


def theirs(record: dict[str, Any]) -> list[Any]:
    """The messages of a record as the library's."""
    module = pytest.importorskip("openai_harmony", reason="is the yardstick")
    role, message = module.Role, module.Message.from_role_and_content
    out = []
    options = record.get("chat_template_kwargs", {})
    if options:  # they write the system block
        said = [m | {"role": "developer"} if m["role"] == "system" else m for m in record["messages"]]  # fmt: skip
        record = record | {"messages": said}
        out.append(message(role.SYSTEM, _system(module, options)))
    texts = [said["content"] for said in record["messages"] if said["role"] == "developer"]
    if texts or "tools" in record:
        content = module.DeveloperContent.new()
        content = content.with_instructions(texts[0]) if texts else content
        if "tools" in record:
            given = (tool.get("function", tool) for tool in record["tools"])
            content = content.with_function_tools([
                module.ToolDescription.new(f["name"], f.get("description", ""), f.get("parameters"))
                for f in given
            ])  # fmt: skip
        out.append(message(role.DEVELOPER, content))
    for said in record["messages"]:
        if said["role"] == "developer":
            continue
        if said["role"] == "tool":
            author = module.Author.new(role.TOOL, f"functions.{said['name']}")
            result = module.Message.from_author_and_content(author, said["content"])
            out.append(result.with_recipient("assistant").with_channel("commentary"))
        elif said["role"] != "assistant":
            at = 0 if said["role"] == "system" else len(out)
            out.insert(at, message(role(said["role"]), said["content"]))
        else:
            if "reasoning_content" in said:
                thought = message(role.ASSISTANT, said["reasoning_content"])
                out.append(thought.with_channel("analysis"))
            for call in said.get("tool_calls", ()):
                if said.get("content") is not None:
                    out.append(message(role.ASSISTANT, said["content"]).with_channel("commentary"))
                function = call["function"]
                literals = mypt_spec.dialect("harmony").table.literals  # tags are escaped in JSON
                arguments = canonical(function["arguments"], literals)
                asked = message(role.ASSISTANT, arguments).with_channel("commentary")
                asked = asked.with_recipient(f"functions.{function['name']}")
                out.append(asked.with_content_type("<|constrain|>json"))
            if "tool_calls" not in said:
                out.append(message(role.ASSISTANT, said["content"]).with_channel("final"))
    return out
