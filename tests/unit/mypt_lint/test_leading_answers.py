"""`--model DIR`: answers before all questions, for which a template has no prompt."""

from __future__ import annotations

from typing import Any

import pytest

from mypt_lint.template.align import Aligner
from mypt_spec.templates.sandbox import compiled

HELP = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nHelp.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize("opened", ["", "<think>"])
def test_an_answer_before_all_questions_begins_after_its_header(opened: str) -> None:
    """Templates as those of SmolLM2 and Qwen2.5 have a system prompt there, or read a message."""
    template = HELP.replace("assistant\n{%", f"assistant\n{opened}{{%")

    def render(messages: Any, tools: Any, *, prompt: bool = False) -> Any:
        return compiled(template)(messages=messages, tools=tools, add_generation_prompt=prompt)

    aligner = Aligner(render, frozenset({"<|im_end|>"}), frozenset({"<|im_start|>", "<think>"}))
    texts = (("assistant", "Hello!"), ("user", "Hi!"), ("assistant", "Yo."))
    aligned = aligner.align([{"role": role, "content": text} for role, text in texts])
    trained = [aligned.text[span.start : span.end] for span in aligned.trained]
    assert trained == ["Hello!<|im_end|>", "Yo.<|im_end|>"]
    assert aligned.other_prompts == ((0, 2) if opened else ())
