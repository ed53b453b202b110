"""`mypt-lint derive`: where tools are, and what stands there without them."""

from __future__ import annotations

from pathlib import Path

from mypt_lint.derive.conversations import conversation
from mypt_lint.derive.derive import derive
from mypt_lint.template.model import ModelFolder
from mypt_lint.template.sandbox import compiled
from mypt_spec import Dialect

TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'tool' %}<result>"
    "{{ m.content }}</result>{% else %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'
    "</tool_call>{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SYSTEM = (
    "{% set system = messages[0].content if messages[0].role == 'system' else none %}"
    "{% if system is not none %}{% set messages = messages[1:] %}{% endif %}"
)
TOOLS = "<tools>{% for t in tools %}{{ '\n' ~ t | tojson }}{% endfor %}\n</tools>"


def learned(folder: Path, template: str) -> Dialect:
    """Returns the format of a template whose tools are proved, equal on more conversations."""
    file = folder / "template.jinja"
    file.write_text(template, encoding="utf-8")
    derived = derive(ModelFolder(str(file)), "toy", conversations=10)
    assert [level.reason for level in derived.levels[::2] if not level.is_complete] == []
    dialect, render = derived.load(folder), compiled(template)
    for level in ("chat", "tools"):
        for seed in range(-6, 0):
            record = conversation(level, seed, blanks=0)
            episode, findings = dialect.check(record)
            assert episode is not None, findings
            text = dialect.serialize(episode)
            assert text == render(**record)[0]
            assert dialect.parse(text) == (episode, [])
            assert dialect.write(episode)["messages"][-1] == record["messages"][-1]
    return dialect


def test_another_text_is_before_tools_without_a_system_message(tmp_path: Path) -> None:
    text = "system if system is not none else 'Use these. ' if tools else 'Be kind.'"
    template = f"{SYSTEM}<|im_start|>system\n{{{{ {text} }}}}{{% if tools %}}"
    template += "{{ '\n\n' if system is not none }}" + TOOLS + "{% endif %}<|im_end|>\n" + TURNS
    dialect = learned(tmp_path, template)
    assert dialect.table.terminals["SYSTEM_LEAD"].before == "tools"
