"""Response templates of families, as the streaming parser of transformers reads answers by them."""

from __future__ import annotations

from typing import Any

import pytest

from mypt_train.export.response_template import response_template
from tests.support.answers import TOOLS, many


@pytest.mark.parametrize("name", ["qwen3.6", "glm4.5", "glm5", "nemotron3", "minimax-m2", "mistral-v11", "praxis", "gemma4", "glm4", "kimi-k2.7"])  # fmt: skip
def test_answers_are_read_whatever_the_prompt_opens(name: str) -> None:
    """Prompts end with an open thought, or an empty one; blocks are inside of an answer."""
    parsing: Any = pytest.importorskip("transformers.utils.chat_parsing")
    for known in many(name, 6):
        decode = known.dialect.tokenizer.decode
        template = response_template(known.dialect)
        parser = parsing.ResponseParser(template, prefix=decode(known.prompt), tools=TOOLS)
        text = decode(known.ids)
        for at in range(0, len(text), 7):
            parser.feed(text[at : at + 7])
        read, message = parser.finalize()[0], known.message
        for ours, theirs in (("content", "content"), ("reasoning_content", "thinking")):
            assert read.get(theirs, "") == message.get(ours, "").strip(), text
        calls = read.get("tool_calls", [])
        expected = message.get("tool_calls", [])
        assert [call["function"] for call in calls] == [call["function"] for call in expected]
        if name == "mistral-v11":
            assert calls == expected
