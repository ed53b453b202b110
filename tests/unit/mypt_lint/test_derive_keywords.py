"""`mypt-lint derive`: calls as Python writes them, in a list or a line each."""

from __future__ import annotations

from pathlib import Path

import pytest

from mypt_lint.derive.derive import derive
from mypt_lint.template.model import ModelFolder
from tests.support.build import call, calls, chat, function, user

_CALLS = (
    "{% for c in m.tool_calls or [] %}{{ '<calls>BEFORE' if loop.first else 'BETWEEN' }}{{ c.function.name }}("
    "{% for k, v in c.function.arguments | items %}{{ ', ' * (not loop.first) ~ k ~ '=' ~ VALUE }}{% endfor %})"
    "{{ 'AFTER</calls>' if loop.last }}{% endfor %}"
)
_PROMPT = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
# Nothing closes the definitions of tools.
LISTED = (
    "{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% if system or tools %}<|im_start|>system\n{{ system }}{% if tools %}{{ '\n' * (system != '') }}"
    "List of tools: {{ tools | tojson }}{% endif %}<|im_end|>\n{% endif %}"
    "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    + _CALLS.replace("BEFORE", "[").replace("BETWEEN", ", ").replace("AFTER", "]")
    + "<|im_end|>\n{% endfor %}"
    + _PROMPT
).replace("VALUE", '("\'" ~ v ~ "\'" if v is string else v | tojson if v is mapping else v)')
# The system messages of chats without one name the tags of tools, and another token is last.
LINES = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\n{{ 'In <tools></tools>:' if tools else 'None: <tools></tools>' }}"
    "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if m.role == 'system' and tools %}<tools>{{ tools | tojson }}</tools>{% endif %}"
    + _CALLS.replace("BEFORE", "").replace("BETWEEN", "\n").replace("AFTER", "")
    + "{{ '<|endoftext|>' if loop.last and m.role == 'assistant' else '<|im_end|>\n' }}{% endfor %}"
    + _PROMPT
).replace("VALUE", "v | tojson")


@pytest.mark.parametrize(
    ("template", "end"),
    [(LISTED, "<calls>[f(q='a')]</calls><|im_end|>\n"), (LINES, '<calls>f(q="a")</calls><|endoftext|>')],
)  # fmt: skip
def test_calls_with_keywords_are_learned(template: str, end: str, tmp_path: Path) -> None:
    (tmp_path / "template.jinja").write_text(template, encoding="utf-8")
    made = derive(ModelFolder(str(tmp_path / "template.jinja")), "own", conversations=12)
    levels = {level.name: level for level in made.levels}
    assert levels["chat"].is_complete, levels["chat"].reason
    assert levels["tools"].is_complete, levels["tools"].reason
    d = made.load(tmp_path)
    tools = [function("f", {"q": {"type": "string"}})]
    episode, findings = d.check(chat(user("Q"), calls(call("f", {"q": "a"})), tools=tools))
    assert episode is not None
    assert findings == []
    assert d.serialize(episode).endswith(end)
