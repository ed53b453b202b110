"""Response templates of families, as the streaming parser of transformers reads answers by them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mypt_train.export.response_template import response_template
from mypt_train.export.tokenizer_file import ExportError
from tests.property.test_answer_stream import NAMES
from tests.support.answers import TOOLS, many
from tests.support.examples import either


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_read_whatever_the_prompt_opens(name: str) -> None:
    """Prompts end with an open thought, or an empty one; blocks are inside of an answer."""
    parsing: Any = pytest.importorskip("transformers.utils.chat_parsing")
    for known in many(name, either(2, 6)):
        decode = known.dialect.tokenizer.decode
        try:
            template = response_template(known.dialect)
        except ExportError as error:
            pytest.skip(str(error))
        prompt, text = decode(known.prompt), decode(known.ids)
        anchor = re.search(template["start_anchor_pattern"], prompt + text)
        assert anchor
        begun = max(0, anchor.end() - len(prompt))  # chat templates may write more in prompts
        prompt, text = prompt + text[:begun], text[begun:]
        parser = parsing.ResponseParser(template, prefix=prompt, tools=TOOLS)
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
