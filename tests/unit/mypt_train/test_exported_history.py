"""Exported chat templates write thoughts of earlier turns as the format does."""

from __future__ import annotations

import pytest

import mypt_spec
from mypt_lint.derive.conversations import with_counted_ids
from mypt_spec.dialect import families
from mypt_train.export.chat_template import chat_template
from tests.support.build import assistant, call, calls, chat, tool, user
from tests.support.examples import either

# Which have other columns in [history], or another shape of answers.
FEWEST = (*("qwen3", "harmony", "qwen3.5-small", "nemotron3", "glm4.5", "glm5", "deepseek-v4"),)
NAMES = *mypt_spec.dialects(), *families()
ASKED = calls(call("f", {"a": 1}, id="call00000"))
MESSAGES = [
    {"role": "system", "content": "S"},
    *(user("A"), assistant("B", reasoning_content="T"), user("C")),
    *(ASKED | {"content": "\nD\n", "reasoning_content": "U"}, tool("r", tool_call_id="call00000")),
    *(assistant("\nE", reasoning_content="V"), user("F"), assistant("G")),
    *(user("H"), ASKED | {"content": "I"}, tool("r", tool_call_id="call00000")),
    assistant("J", reasoning_content="W"),
]


@pytest.mark.parametrize("name", either(FEWEST, NAMES))
def test_exported_templates_write_thoughts_of_earlier_turns_as_formats_do(name: str) -> None:
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    d = mypt_spec.dialect(name)
    if not d.table.history.drops:
        return
    plain = [m for m in MESSAGES if m["role"] != "tool" and "tool_calls" not in m]
    chats = [chat(*plain), with_counted_ids(d, chat(*MESSAGES))]
    records = [r for r in chats if all(f.severity != "error" for f in d.check(r)[1])]
    assert records  # not all formats have calls
    for history in ("official", "keep") if name == "qwen3" else ("official",):
        texts, spans = rendering.render_jinja_template(
            [record["messages"] for record in records],
            chat_template=chat_template(d, history=history), return_assistant_tokens_mask=True,
        )  # fmt: skip
        for record, text, trained in zip(records, texts, spans, strict=True):
            (episode,) = d.trained(d.read(record)[0], history=history)
            assert text == d.serialize(episode)
            encoded = d.encode(episode)
            ours = d.tokenizer.decode(encoded.ids[encoded.loss == 1])
            assert "".join(text[a:b] for a, b in trained) == ours


def test_every_column_of_history_is_tested() -> None:
    def columns(name: str) -> set[str]:
        history = mypt_spec.dialect(name).table.history._asdict()
        return {column for column, value in history.items() if value}

    assert set().union(*map(columns, FEWEST)) == set().union(*map(columns, NAMES))
