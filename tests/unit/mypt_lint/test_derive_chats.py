"""`mypt-lint derive`: how chats begin and end."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import pytest

import mypt.own_format.check
from mypt.own_format.check import check
from mypt_infer.controller import Controller, Options, Script
from mypt_infer.decode.prompt import prompt_ids
from mypt_lint.check.checker import Checker
from mypt_lint.derive.derive import Derived, derive
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.template.model import ModelFolder
from mypt_spec import Dialect, Episode
from mypt_spec.adapters.template_options import KEY
from mypt_spec.templates.sandbox import compiled
from mypt_train.export.chat_facts import endings
from mypt_train.export.chat_template import chat_template
from tests.support import vocabulary
from tests.support.build import Record, assistant, chat, system, user
from tests.support.fast_paths import assert_sound
from tests.unit.mypt_lint.test_derive import DATED

PLAIN = (
    "<s><role>SYSTEM</role>{{ messages[0].content + '\n' if messages[0].role == 'system' else '' }}brief<|end|>"
    "{% for m in messages %}{% if m.role != 'system' %}<role>{{ m.role | upper }}</role>{{ m.content }}<|end|>"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<role>ASSISTANT</role>{% endif %}"
)
WORDS = (
    "{% for m in messages %}{{ m.role | capitalize }}:\n{{ m.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:\n{% endif %}"
)
OPEN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if not loop.last or add_generation_prompt %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHANNELS = (
    "<|start|>system<|message|>I am X.\nDate: {{ strftime_now('%Y') }}\n\nBe brief.<|end|>{% for m in messages %}"
    "{% if m.role == 'system' %}<|start|>developer<|message|># Orders\n\n{{ m.content }}\n\n<|end|>"
    "{% elif m.role == 'user' %}<|start|>user<|message|>{{ m.content }}<|end|>{% else %}"
    "{% if loop.last and m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
    "<|start|>assistant<|channel|>final<|message|>{{ m.content }}{{ '<|return|>' if loop.last else '<|end|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
SILENT = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}\n{% else %}<|{{ m.role }}|>"
    "{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# The system message is in the first question, and stripped with it.
FRONTED = (
    "{% set has = messages[0].role == 'system' %}{% for m in messages[has | int:] %}"
    "{% set text = '<<S>>' ~ messages[0].content ~ '<</S>>\n\n' ~ m.content if loop.first and has else m.content %}"
    "{% if m.role == 'user' %}<s>[INST] {{ text.strip() }} [/INST]{% else %} {{ m.content.strip() }} </s>{% endif %}"
    "{% endfor %}"
)
ALIKE = (  # the white space before a question is after what the template begins with
    "I am X.\n{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'user' %}"
    "### Q:\n{{ m.content }}\n{% else %}### A:\n{{ m.content }}\n<|end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}### A:\n{% endif %}"
)
# So it is here, where an empty one is as none, and an empty question is no question.
UNLIKE = (
    "{% set has = messages[0].role == 'system' %}{% for m in messages[has | int:] %}{% if m.role == 'user' %}"
    "<s>{% if loop.first and has and messages[0].content %}{{ messages[0].content }}<|sep|>{% endif %}"
    "{{ m.content or '?' }}<|end|>{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
)
UNTAGGED = (  # the first question has no tag, with a system message neither
    "{% for m in messages %}{% if m.role == 'system' %}[INST] <<S>>{{ m.content }}<</S>>\n\n{% elif m.role == 'user' %}"
    "{{ '<s>[INST] ' if loop.index0 > 1 }}{{ m.content }} [/INST]{% else %} {{ m.content }} </s>{% endif %}{% endfor %}"
)
TURNS = (user("Q"), assistant("A"), user("B"), assistant("C"))


def learned(folder: Path, template: str) -> Derived:
    """Returns what is derived of a template, of which chats are proved and complete."""
    file = folder / "template.jinja"
    file.write_text(template, encoding="utf-8")
    derived = derive(ModelFolder(str(file)), "toy", conversations=15)
    assert derived.levels[0].is_complete, derived.levels[0].reason
    return derived


def texts(derived: Derived, folder: Path, record: Record) -> tuple[str, str]:
    """Returns the text of a record in a format, and that of `text` read again."""
    dialect = derived.load(folder)
    episode, findings = dialect.check(record)
    assert not findings
    assert episode is not None
    text = dialect.serialize(episode)
    assert dialect.write(episode) == record
    assert dialect.parse(text) == (episode, [])
    return text, compiled(folder.joinpath("template.jinja").read_text())(bos_token="<s>", **record)[
        0
    ]


def read_and_trained(dialect: Dialect, record: Record) -> tuple[Episode, str]:
    """Returns a record as an Episode, and the text of it that is trained."""
    episode, _ = dialect.read(record)
    assert episode is not None
    encoded = dialect.encode(episode)
    return episode, dialect.tokenizer.decode(encoded.ids[encoded.loss == 1])


@pytest.mark.parametrize(
    ("template", "end", "trained"),
    [
        (WORDS, "</s>", "A\n\nC\n\n</s>"),
        (WORDS.replace("\n\n", ""), "</s>", "AC</s>"),
        (OPEN, "<|im_end|>\n", "A<|im_end|>C<|im_end|>"),
    ],
)
def test_an_end_that_the_last_answer_lacks_is_added(
    template: str, end: str, trained: str, tmp_path: Path
) -> None:
    """It is that of earlier answers, or else the end of a sequence. A model stops at it."""
    derived = learned(tmp_path, template)
    assert "The template does not end the last answer; this" in derived.files["SPEC.md"]
    record = chat(*TURNS) if template == WORDS.replace("\n\n", "") else chat(system("S"), *TURNS)
    ours, theirs = texts(derived, tmp_path, record)
    assert ours == theirs + end
    dialect = derived.load(tmp_path)
    episode, _ = dialect.read(record)
    assert episode is not None
    encoded = dialect.encode(episode)
    said = dialect.tokenizer.decode(encoded.ids[encoded.loss == 1])
    assert said == trained.replace("A\n\n", "A")  # the next tag begins with the white space
    assert endings(dialect) == [end.strip()]
    assert compiled(_plain(dialect))(**record)[0] == ours


def test_white_space_before_a_header_may_be_in_no_prompt(tmp_path: Path) -> None:
    template = OPEN.replace(
        "%}<|im_start|>{{", "%}{{ ' ' if m.role == 'assistant' }}<|im_start|>{{"
    )
    derived = learned(tmp_path, template)
    assert "Prompts end without the white space" in derived.files["SPEC.md"]
    ours, theirs = texts(derived, tmp_path, chat(*TURNS))
    assert ours == theirs + "<|im_end|>\n"
    assert "<|im_end|>\n <|im_start|>assistant\n" in ours
    dialect, asked = derived.load(tmp_path), chat(*TURNS[:3])
    question, _ = dialect.read(asked)
    prompt = compiled(template)(add_generation_prompt=True, **asked)[0]
    assert dialect.tokenizer.decode(prompt_ids(dialect, question)) == prompt
    assert dialect.check_prefix(prompt).findings == []
    assert compiled(_plain(dialect))(add_generation_prompt=True, **asked)[0] == prompt
    assert compiled(_plain(dialect))(**chat(*TURNS))[0] == ours


def test_prompts_may_open_a_thought_in_an_answer_without_a_closing_tag(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n<think>\n{% endif %}"
    )
    dialect = learned(tmp_path, template).load(tmp_path)
    asked = chat(*TURNS[:3])
    question, _ = dialect.read(asked)
    prompt = compiled(template)(add_generation_prompt=True, **asked)[0]
    assert dialect.tokenizer.decode(prompt_ids(dialect, question)) == prompt
    answer = f"{prompt}so\n</think>yes\n</s>"
    episode, findings = dialect.parse(answer)
    assert episode is not None
    assert (findings, dialect.serialize(episode)) == ([], answer)


def _plain(dialect: Dialect) -> str:
    """Returns the exported template without marks of what is trained."""
    marks = ("{%- generation -%}", "{%- endgeneration -%}")
    return reduce(lambda text, mark: text.replace(mark, ""), marks, chat_template(dialect))


def test_nothing_is_added_where_a_folder_names_no_end_of_a_sequence(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(WORDS, encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    derived = derive(ModelFolder(str(tmp_path)), "toy", conversations=5)
    assert derived.levels[0].reason == "nothing but white space is after an answer"


def test_a_header_that_prompts_begin_is_written_by_the_model(tmp_path: Path) -> None:
    """A date before all is an option, and thoughts are beside answers."""
    derived = learned(tmp_path, CHANNELS)
    assert derived.levels[1].is_complete, derived.levels[1].reason
    dialect = derived.load(tmp_path)
    answer = assistant("C", reasoning_content="T")
    record: Record = chat(system("S"), *TURNS[:3], answer) | {KEY: {"strftime_now": "1970"}}
    assert dialect.adapter.options.always
    episode, findings = dialect.check(record)
    assert (findings, episode is not None and dialect.write(episode)) == ([], record)
    messages = [dict(m) for m in record["messages"]]
    messages[-1]["thinking"] = messages[-1].pop("reasoning_content")
    render, day = compiled(CHANNELS), {"strftime_now": lambda _: "1970"}
    (trained,) = dialect.trained(episode, history="official")
    assert dialect.serialize(trained) == render(messages=messages, **day)[0]
    encoded = dialect.encode(trained)
    header = "<|channel|>final<|message|>"
    assert dialect.tokenizer.decode(encoded.ids[encoded.loss == 1]) == (
        f"{header}A<|end|><|channel|>analysis<|message|>T<|end|><|start|>assistant{header}C<|return|>"
    )
    question, _ = dialect.read(record | {"messages": record["messages"][:-1]})
    prompt = render(messages=messages[:-1], add_generation_prompt=True, **day)[0]
    assert dialect.tokenizer.decode(prompt_ids(dialect, question)) == prompt
    assert dialect.check(chat(system(" "), *TURNS))[1][0].code == "MYP314"


def test_the_tag_of_an_answer_may_end_a_thought(tmp_path: Path) -> None:
    """So it is in MiniMax M3."""
    thought = "{% if m.role == 'assistant' %}{{ '<think>' ~ m.thinking if m.thinking }}</think>{% endif %}"
    derived = learned(tmp_path, OPEN.replace("\n{{ m.content", f"\n{thought}{{{{ m.content"))
    assert derived.levels[1].is_complete, derived.levels[1].reason
    dialect = derived.load(tmp_path)
    episode, trained = read_and_trained(
        dialect, chat(user("Q"), assistant("A", reasoning_content="T"))
    )
    assert trained == "<think>T</think>A<|im_end|>"
    assert dialect.parse(dialect.serialize(episode)) == (episode, [])


def test_a_template_without_a_prompt_leaves_the_header_to_the_model(tmp_path: Path) -> None:
    template = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>{% endfor %}"
    dialect = learned(tmp_path, template).load(tmp_path)
    _, said = read_and_trained(dialect, chat(*TURNS))
    assert said == "<|assistant|>\nA<|end|><|assistant|>\nC<|end|>"


@pytest.mark.parametrize(
    "template",
    [
        ALIKE,
        SILENT,
        "<s>" + SILENT,
        "<s>" + SILENT.replace("content }}\n{%", "content }}<|end|>{%"),
    ],
)
def test_a_system_message_without_a_tag_is_learned(template: str, tmp_path: Path) -> None:
    derived = learned(tmp_path, template)
    assert "| system | none |" in derived.files["SPEC.md"]
    for record in (chat(*TURNS), chat(system("S"), *TURNS)):
        ours, theirs = texts(derived, tmp_path, record)
        assert ours == theirs


def test_a_question_with_the_system_message_may_be_stripped_otherwise(tmp_path: Path) -> None:
    derived = learned(tmp_path, FRONTED)
    assert '\nstrip = "right"' in derived.files["records.toml"].partition("[system]")[2]
    record = chat(system("S"), user(" Q"), *TURNS[1:])
    dialect = derived.load(tmp_path)
    episode, findings = dialect.check(record)
    assert (findings, episode is not None) == ([], True)
    assert dialect.serialize(episode) == compiled(FRONTED)(**record)[0]
    assert dialect.write(episode) == record
    assert dialect.check(chat(system("S"), user("Q"), assistant("A"), user(" B"), assistant("C")))[
        0
    ]
    theirs = compiled(chat_template(dialect))
    assert theirs(**record)[0] == dialect.serialize(episode)


def test_an_empty_system_message_in_a_question_may_be_refused(tmp_path: Path) -> None:
    dialect = learned(tmp_path, UNLIKE).load(tmp_path)
    for content, question, codes in (
        ("S", "Q", []),
        ("", "Q", ["MYP314"]),
        (" ", "", ["MYP314"] * 2),
    ):
        _, findings = dialect.check(chat(system(content), user(question), assistant("A")))
        assert [finding.code for finding in findings] == codes
    own = Checker(dialect)
    for content in ("", " \n", "S"):
        line = json.dumps(chat(system(content), *TURNS)).encode()
        assert_sound(CleanFilter(own), [line, line])


def test_the_last_tag_after_an_answer_is_where_a_model_stops(tmp_path: Path) -> None:
    """The mask of a lone template without a tokenizer is compared up to it (Command R7B)."""
    template = OPEN.replace("%}<|im_end|>", "%}<|end_text|><|im_end|>").replace(
        "not loop.last or", "true or"
    )
    dialect = learned(tmp_path, template).load(tmp_path)
    _, trained = read_and_trained(dialect, chat(*TURNS))
    assert trained == "A<|end_text|><|im_end|>C<|end_text|><|im_end|>"


def test_blocks_may_end_with_the_same_tag_and_other_white_space(tmp_path: Path) -> None:
    """As in Reka Edge and Trinity: the open block says which closing tag that is."""
    template = (
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{{ '\n\n</s>' if m.role == 'assistant' else '</s>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
    )
    derived = learned(tmp_path, template)
    dialect = derived.load(tmp_path)
    for record in (chat(*TURNS), chat(system("S"), user("Q\n\n"), assistant("\nA\n\n"), *TURNS)):
        ours, theirs = texts(derived, tmp_path, record)
        assert ours == theirs == compiled(_plain(dialect))(**record)[0]
        episode, trained = read_and_trained(dialect, record)
        assert dialect.parse_ids(dialect.encode(episode).ids) == (episode, [])
        assert trained.endswith("C\n\n</s>")


def test_the_first_question_may_have_no_tag(tmp_path: Path) -> None:
    dialect = learned(tmp_path, UNTAGGED).load(tmp_path)
    assert [result for result in check(tmp_path) if not result.fine] == []
    theirs = compiled(chat_template(dialect))
    for record in (chat(*TURNS), chat(system("S"), *TURNS), chat(*TURNS, *TURNS)):
        episode, findings = dialect.check(record)
        assert (findings, episode is not None) == ([], True)
        text = dialect.serialize(episode)
        assert text == compiled(UNTAGGED)(**record)[0] == theirs(**record)[0]
        encoded = dialect.encode(episode)
        assert dialect.tokenizer.decode(encoded.ids) == text
        assert dialect.tokenizer.decode(encoded.ids[encoded.loss == 1]).count("</s>") == text.count(
            "</s>"
        )
        assert dialect.write(episode) == record
        assert_sound(CleanFilter(Checker(dialect)), [json.dumps(record).encode()] * 2)
    script = Script([*dialect.tokenizer.encode("A"), *encoded.ids[-2:]] * 2)
    controller = Controller(script, dialect=dialect)
    assert [[*controller.say(text)][-1].reason for text in "QB"] == ["stop", "stop"]
    written = dialect.tokenizer.decode(controller.history.ids)
    assert written == "Q [/INST]A </s><s>[INST] B [/INST]A </s>"
    controller = Controller(
        Script([*dialect.tokenizer.encode("A")] * 9), dialect=dialect, options=Options(max_tokens=3)
    )
    assert [*controller.say("Q")][-1].reason == "max_tokens"
    assert dialect.tokenizer.decode(controller.history.ids) == "Q [/INST]AAA </s>"


def test_a_default_that_spells_tags_is_a_mark(tmp_path: Path) -> None:
    """A default system prompt may show how to think, in the tags of thoughts."""
    shown = "Write <think>so</think> first."
    tags = "{% if m.thinking %}<think>{{ m.thinking }}</think>{% endif %}"
    template = PLAIN.replace("</role>{{ m.c", f"</role>{tags}{{{{ m.c").replace(
        "{{ messages[0].content + '\n' if messages[0].role == 'system' else '' }}brief",
        "{{ messages[0].content if messages[0].role == 'system' else '" + shown + "' }}",
    )
    derived = learned(tmp_path, template)
    assert derived.levels[1].is_complete
    assert shown in derived.load(tmp_path).serialize(derived.load(tmp_path).read(chat(*TURNS))[0])


def test_a_default_system_prompt_with_a_date_is_an_option(tmp_path: Path) -> None:
    dialect = learned(tmp_path, DATED).load(tmp_path)
    options = {KEY: {"strftime_now": "1970"}}
    exported = compiled(chat_template(dialect))
    for record, said in ((chat(*TURNS), "1970"), (chat(system("S"), *TURNS), "S")):
        record |= options
        episode, findings = dialect.check(record)
        assert (findings, episode is not None) == ([], True)
        assert dialect.serialize(episode).startswith(f"<|im_start|>system\n{said}<|im_end|>")
        for given in (record[KEY], {}):
            (rendered, _), read = (
                exported(**record, **given),
                dialect.read(record | {KEY: given})[0],
            )
            assert rendered == dialect.serialize(read)
        assert dialect.write(episode) == record


def test_what_is_in_place_of_a_system_block_is_learned(tmp_path: Path) -> None:
    derived = learned(tmp_path, PLAIN)
    assert 'without_system = "plain"' in derived.files["records.toml"]
    assert "is in place of a missing system message" in derived.files["SPEC.md"]
    for record in (chat(*TURNS), chat(system("S"), *TURNS)):
        ours, theirs = texts(derived, tmp_path, record)
        assert ours == theirs


def test_a_model_stops_at_the_first_id_of_a_tag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = PLAIN.replace("<|end|>", "")
    learned(tmp_path, template).load(tmp_path)
    monkeypatch.setattr(mypt.own_format.check, "EPISODES", 40)
    results = [*check(tmp_path, str(vocabulary.path()))]
    assert [result for result in results if not result.fine] == []
    assert results[-1].name == "decoder"
