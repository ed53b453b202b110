"""`--model DIR`: what the chat template of a model makes of each record."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt.lint.cli import main
from mypt_lint.run import parallel
from mypt_lint.template import align
from mypt_lint.template.align import Aligned, Aligner, AlignError
from mypt_lint.template.clean_chats import ByModel
from mypt_lint.template.model import ModelFolder
from mypt_records.shapes import openai as shape
from mypt_spec.templates.bounds import OutOfBoundsError
from mypt_spec.templates.sandbox import compiled
from tests.support import foreign

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOLS = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ (m.content or '') | trim }}{% for c in m.tool_calls %}<call>{{ c.function | tojson }}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% endif %}"
)
STOP = frozenset({"<|im_end|>"})
R7B_END = "{% if m.role == 'assistant' %}<|END_TEXT|>{% endif %}<|END_TURN|>"  # as Command R7B's


def aligner(template: str, **variables: Any) -> Aligner:
    def render(messages: Any, tools: Any, *, prompt: bool = False) -> Any:
        return compiled(template)(
            messages=messages, tools=tools, add_generation_prompt=prompt, **variables
        )

    return Aligner(render, STOP, STOP)


def counting_aligner(template: str) -> tuple[Aligner, Mock]:
    """Returns an aligner, and what it renders with, which counts its calls."""
    counting = aligner(template)
    counting.render = times = Mock(wraps=counting.render)
    return counting, times


def chat(*texts: str, **last: Any) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    out: list[dict[str, Any]] = [
        {"role": roles[i % 2], "content": text} for i, text in enumerate(texts)
    ]
    out[-1].update(last)
    return out


def trained(aligned: Aligned) -> list[str]:
    return [aligned.text[span.start : span.end] for span in aligned.trained]


def texts(aligned: Aligned) -> list[str]:
    return [aligned.text[piece.start : piece.end] for piece in aligned.pieces]


@given(st.lists(st.text(max_size=20), min_size=2, max_size=6))
def test_each_text_has_its_place_and_answers_are_trained(contents: list[str]) -> None:
    """Whatever texts say, tags and blanks included."""
    aligned = aligner(CHATML).align(chat(*contents))
    assert texts(aligned) == [text for text in contents if text.strip()]
    assert trained(aligned) == [f"{text}<|im_end|>" for text in contents[1::2]]
    assert not aligned.missing
    assert not aligned.other_prompts


@given(st.text(), st.text(), st.text())
def test_arguments_and_trimmed_texts(question: str, city: str, result: str) -> None:
    call = {"type": "function", "function": {"name": "get", "arguments": {"city": city}}}
    messages = [
        *chat(question, "", tool_calls=[call]),
        {"role": "tool", "content": result},
        {"role": "assistant", "content": "Done."},
    ]
    aligned = aligner(TOOLS).align(messages, [{"name": "get"}])
    arguments = json.dumps({"city": city}, ensure_ascii=False)
    wanted = [question.strip(), "get", arguments, result.strip(), "Done."]
    assert texts(aligned) == [text for text in wanted if text]
    assert trained(aligned)[1] == "Done.<|im_end|>"
    assert trained(aligned)[0].endswith("}<|im_end|>")


def test_the_marks_of_a_template_are_its_mask() -> None:
    marked = CHATML.replace(
        "{{ m.content }}<|im_end|>\n",
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>\n"
        "{% endgeneration %}{% else %}{{ m.content }}<|im_end|>\n{% endif %}",
    )
    assert trained(aligner(marked).align(chat("Hi!", "Hello."))) == ["Hello.<|im_end|>\n"]


def test_a_text_that_the_template_looks_into() -> None:
    """It stays as it is in the second rendering."""
    looks = CHATML.replace(
        "{{ m.content }}", "{% if 'x' in m.content %}[X]{% endif %}{{ m.content }}"
    )
    assert texts(aligner(looks).align(chat("x is", "No, y."))) == ["x is", "No, y."]
    with pytest.raises(AlignError) as caught:
        aligner(CHATML.replace("{{ m.content }}", "{{ m.content | upper }}")).align(chat("a", "B"))
    assert caught.value.leaf is not None
    assert caught.value.leaf.path == (0, "content")


@pytest.mark.parametrize(
    ("answer", "places"),
    [
        ("<think>\nShort.\n</think>\n\nYes.", ["Short.", "Yes."]),
        ("Short.\n</think>\n\nYes.", ["Short.", "Yes."]),
        ("Yes.", ["Yes."]),
    ],
)
def test_a_thought_in_an_answer_that_the_template_lifts(answer: str, places: list[str]) -> None:
    parts = "m.content.split('</think>')"
    lifts = CHATML.replace(
        "{{ m.content }}",
        f"{{% if '</think>' in m.content %}}<t>{{{{ {parts}[0].split('<think>')[-1] | trim }}}}</t>"
        f"{{{{ {parts}[-1] | trim }}}}{{% else %}}{{{{ m.content }}}}{{% endif %}}",
    )
    aligned = aligner(lifts).align(chat("Really?", answer))
    assert texts(aligned) == ["Really?", *places]
    assert trained(aligned)[0].endswith("Yes.<|im_end|>")
    earlier = aligner(CHATML.replace("{{ m.content }}", f"{{{{ {parts}[-1] }}}}"))
    dropped = earlier.align(chat("Really?", "Hm.</think>"))
    assert [leaf.text for leaf in dropped.missing] == ["Hm.</think>"]
    in_part = earlier.align(chat("Really?", "<think>Hm.</think>Yes."))
    assert [(leaf.kind, leaf.text) for leaf in in_part.missing] == [("thought", "Hm.")]
    assert trained(in_part) == ["Yes.<|im_end|>"]


def called(name: str, answer: str, **arguments: str) -> list[dict[str, Any]]:
    """Returns a question, an answer beside a call, its result and a last answer."""
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    end = [{"role": "tool", "content": "Sun"}, {"role": "assistant", "content": "OK."}]
    return [*chat("Weather?", answer, tool_calls=[call]), *end]


@pytest.mark.parametrize(
    "shows", ["", "{{ '!' if loop.index0 == 21 }}", "{% if not loop.last %}.{% endif %}"]
)
def test_long_conversations_are_placed_in_linear_time(
    shows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the prompts in the middle only those are rendered that follow another literal."""
    template = TOOLS.replace("<|im_start|>{{ m", f"{shows}<|im_start|>{{{{ m", 1)
    messages = [m for n in range(20) for m in called("get", f"I look {n}.", city=f"Oslo {n}")]
    every = aligner(template).align(messages)
    monkeypatch.setattr(align, "_MAX_PROMPTS", 3)
    counting, times = counting_aligner(template)
    assert counting.align(messages) == every
    assert (times.call_count < 20) == ("last" not in shows)
    assert len(every.trained) == 40


def test_an_answer_that_the_template_looks_into_beside_calls() -> None:
    """Also if its tool was called before, or an argument has the same text."""
    content, call = "{{ (m.content or '') | trim }}", "{{ c.function | tojson }}"
    lifts = TOOLS.replace(content, "{{ m.content.split('</think>')[-1] }}").replace(
        call, "{{ c.function.name }} {{ c.function.arguments.city }}"
    )
    aligned = aligner(lifts).align(
        [*called("get", "I look.", city="Oslo"), *called("get", "</think> odd", city="Rome")]
    )
    assert texts(aligned)[6:10] == ["Weather?", " odd", "get", "Rome"]
    assert [piece.message for piece in aligned.pieces[6:10]] == [4, 5, 5, 5]
    looks = TOOLS.replace(content, "{{ '!' if '<' in m.content }}{{ m.content }}").replace(
        call, "{{ c.function.arguments.city }}"
    )
    pieces = aligner(looks).align(called("get", "</think> odd", city="</think> odd")).pieces
    assert [piece.kind for piece in pieces[1:3]] == ["assistant", "argument"]


@pytest.mark.parametrize("text", ["Qx000000z", "Qx000001z and qx000002Z"])
def test_texts_with_the_words_that_replace_texts(text: str) -> None:
    looks = CHATML.replace("{{ m.content }}", "{{ '!' if 'Qx' in m.content }}{{ m.content }}")
    aligned = aligner("{{ tools }}" + looks).align(chat(text, "Hello."), [{"name": text}])
    assert texts(aligned) == [text, "Hello."]
    assert trained(aligned) == ["Hello.<|im_end|>"]


def test_equal_messages_that_the_template_compares() -> None:
    """As Mistral's does: what it writes before the last question is before its equal, too."""
    compares = CHATML.replace("{{ m.content", "{{ '!' if m == messages[-2] }}{{ m.content")
    aligned = aligner(compares).align(chat("Go on.", "1", "Go on.", "2"))
    assert texts(aligned) == ["Go on.", "1", "Go on.", "2"]
    assert [piece.message for piece in aligned.pieces] == [0, 1, 2, 3]
    assert aligned.text.count("!Go on.") == 2


def test_the_result_of_a_call_is_not_trained() -> None:
    """Also where the template writes the name of the call, or a stop token, only after it."""
    repeats = CHATML.replace(
        "{{ m.content }}<|im_end|>",
        "{% if m.tool_calls %}{% for c in m.tool_calls %}<call>{{ c.function.name }}:"
        "{{ c.function.arguments.a }}{% endfor %}{% for c in m.tool_calls %}<result>"
        "{{ c.function.name }}:{{ messages[loop.index].content }}{% endfor %}"
        "{% else %}{{ m.content }}<|im_end|>{% endif %}",
    )
    call = {"type": "function", "function": {"name": "get", "arguments": {"a": "Oslo"}}}
    result = {"role": "tool", "content": "Sun"}
    messages = [*chat("?", "", tool_calls=[call]), result, {"role": "assistant", "content": "OK."}]
    aligned = aligner(repeats).align(messages)
    assert trained(aligned) == ["<call>get:Oslo", "OK.<|im_end|>"]
    assert [span.stopped for span in aligned.trained] == [False, True]


@pytest.mark.parametrize("looks", [False, True])
def test_ids_and_arguments_share_a_form(looks: bool) -> None:
    """They differ from record to record; where a template looks into them, each is a form."""
    template = TOOLS.replace("{% for c in", "{{ m.tool_call_id }}{% for c in")
    if looks:
        template = template.replace(
            "<call>", "{{ 'even' if c.id[-1] in '02468' else 'odd' }}<call>"
        )
    counting, times = counting_aligner(template)
    render = aligner(template).render
    for number in range(20):
        arguments = {"city": "Oslo", "days": number, "more": [number + 1, True, 0.5]}
        call = {"id": f"call{number}", "function": {"name": "get", "arguments": arguments}}
        messages = [
            *chat("?", "", tool_calls=[call]),
            {"role": "tool", "content": "Sun", "tool_call_id": f"call{number}"},
            {"role": "assistant", "content": "OK."},
        ]
        aligned = counting.align(messages)
        text = render(messages, None)[0]
        assert aligned.text == text
        written = texts(aligned)[2]
        assert written == json.dumps(arguments) or (looks and written == "Oslo")
        assert texts(aligned) == ["?", "get", written, "Sun", "OK."]
        calls = text[text.index("assistant\n") + 10 : text.index("<|im_start|>tool")].strip()
        assert trained(aligned) == [calls, "OK.<|im_end|>"]
    assert (times.call_count == 23) != looks  # one for each record, three for the form


@pytest.mark.parametrize("written", ["t", "t.function", "tools", "t | tojson", "t.function.name"])
def test_tools_share_a_form_if_the_template_writes_them_as_json(written: str) -> None:
    """Where it looks into them, each list of tools is a form, and the rendering is the same."""
    template = CHATML.replace(
        "{% for m", f"{{% for t in tools %}}{{{{ {written} }}}}{{% endfor %}}{{% for m", 1
    )
    if written in ("t", "t.function", "tools"):
        template = template.replace("{{ " + written, "{{ " + written + " | tojson")
    counting, times = counting_aligner(template)
    render = aligner(template).render
    for number in range(20):
        tools = [{"type": "function", "function": {"name": f"f{number}", "x": [number, None]}}]
        aligned = counting.align(chat("?", "OK."), tools)
        assert aligned.text == render(chat("?", "OK."), tools)[0]
        assert texts(aligned) == ["?", "OK."]
        assert trained(aligned) == ["OK.<|im_end|>"]
    assert (times.call_count == 22) == (written in ("t", "tools", "t | tojson"))


def test_a_text_that_the_template_moves_after_the_result() -> None:
    """As Gemma 4's does with the text of a message that has calls."""
    moves = CHATML.replace(
        "{{ m.content }}",
        "{% for c in m.tool_calls %}<call>{{ c.function.arguments.a }}</call>"
        "<result>{{ messages[2].content }}</result>{% endfor %}"
        "{% if m.role != 'tool' %}{{ m.content }}{% endif %}",
    )
    call = {"type": "function", "function": {"name": "get", "arguments": {"a": "Oslo"}}}
    last = [{"role": "tool", "content": "Sun"}, {"role": "assistant", "content": "OK."}]
    aligned = aligner(moves).align([*chat("?", "I look.", tool_calls=[call]), *last])
    assert trained(aligned) == ["<call>Oslo", "I look.<|im_end|>", "OK.<|im_end|>"]


def test_an_answer_without_its_prompt_begins_after_the_question() -> None:
    """Mistral-Nemo writes the system prompt in the last message only if that is the user's."""
    moves = (
        "{% for m in messages[1:] %}{% if m.role == 'user' %}[I]{% if loop.last %}"
        "{{ messages[0].content }}\n{% endif %}{{ m.content }}[/I]{% else %}"
        "{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
    )
    aligned = aligner(moves).align([{"role": "system", "content": "Brief."}, *chat("Hi!", "Yo.")])
    assert aligned.other_prompts == (2,)
    assert [leaf.kind for leaf in aligned.missing] == ["system"]
    assert trained(aligned) == ["Yo.<|im_end|>"]


def test_an_answer_whose_prompt_opens_a_thought_begins_after_the_header() -> None:
    """As GLM's and DeepSeek's do: no part of a token that the prompt lacks is left out."""
    opens = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>{% endif %}").replace(
        "{{ m.content }}", "{% if m.role == 'assistant' %}</think>{% endif %}{{ m.content }}"
    )
    special = frozenset({"<|im_end|>", "<think>", "</think>"})
    aligned = Aligner(aligner(opens).render, STOP, special).align(chat("Hi!", "Yo.", "So?", "Bye."))
    assert aligned.other_prompts == (1, 3)
    assert trained(aligned) == ["</think>Yo.<|im_end|>", "</think>Bye.<|im_end|>"]


def test_a_last_answer_without_a_stop_is_trained_to_its_end() -> None:
    """What the template writes after its last text, too."""
    ends = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}<call>"
        "{{ c.function.arguments.city }}</city></call>\n{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    messages = called("get", "I look.", city="Oslo")[:2]
    aligned = Aligner(aligner(ends).render, STOP, frozenset({"</city>"})).align(messages)
    assert trained(aligned) == ["I look.<call>Oslo</city></call>"]
    assert not aligned.trained[0].stopped


def test_what_is_nowhere_is_missing() -> None:
    aligned = aligner(CHATML).align(chat("Hi!", "Hello.", reasoning_content="They greet."))
    assert [leaf.kind for leaf in aligned.missing] == ["thought"]


def test_a_second_call_of_a_tool_is_missing() -> None:
    """It has no argument that is missing, and its name is there."""
    first = "{% for m in messages %}<call>{{ m.tool_calls[0].function.name }}</call>{% endfor %}"
    message = called("get", "")[1]
    message["tool_calls"] *= 2
    missing = aligner(first).align([message]).missing
    assert [(leaf.kind, leaf.path[2]) for leaf in missing] == [("name", 1)]


def folder(here: Path, template: str, **config: Any) -> Path:
    (here / "chat_template.jinja").write_text(template, encoding="utf-8")
    settings = {"eos_token": "<|im_end|>", **config}
    (here / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return here


def test_what_is_beyond_the_context(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer that is cut off, and one that begins beyond; without a vocabulary, neither."""
    record = {"messages": chat("Hi!", "Hello.", "And you?", "I am well.")}
    assert codes(folder(tmp_path, CHATML, model_max_length=8), record, capsys) == []
    shutil.copy(foreign.path("smollm") / "tokenizer.json", tmp_path)
    whole = ModelFolder(str(tmp_path))
    aligned = whole.placed(shape.read(record))[0]
    assert isinstance(aligned, Aligned)
    starts = whole.ids(aligned)[1].tolist()
    first, last = aligned.trained
    inside = starts.index(last.start) + 1
    folder(tmp_path, CHATML, model_max_length=inside)
    assert codes(tmp_path, record, capsys) == ["MYP735 /messages/3"]
    folder(tmp_path, CHATML, model_max_length=starts.index(first.start) + 1)
    assert codes(tmp_path, record, capsys) == ["MYP735 /messages/1", "MYP736 /messages/3"]


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    here = folder(tmp_path_factory.mktemp("model"), CHATML)
    shutil.copy(foreign.path("smollm") / "tokenizer.json", here)
    return ModelFolder(str(here))


@given(st.lists(st.text() | st.sampled_from(foreign.texts()), min_size=2, max_size=4))
def test_ids_are_those_of_the_library(small_model: ModelFolder, contents: list[str]) -> None:
    aligned = aligner(CHATML).align(chat(*contents))
    ids, starts = (values.tolist() for values in small_model.ids(aligned))
    assert ids == foreign.library("smollm").encode(aligned.text, add_special_tokens=False).ids
    assert starts == sorted(starts)
    assert len(starts) == len(ids)


def test_a_text_that_spells_a_tag_is_text(small_model: ModelFolder) -> None:
    aligned = aligner(CHATML).align(chat("What is <|im_end|>?", "<|im_start|> begins."))
    ids = small_model.ids(aligned)[0].tolist()
    special = foreign.library("smollm").token_to_id
    assert [ids.count(special(tag)) for tag in ("<|im_start|>", "<|im_end|>")] == [2, 2]


def test_the_sizes_of_a_chat_are_those_of_its_rendering(small_model: ModelFolder) -> None:
    one = shape.read({"messages": chat("Hi!", "Hello, Zoë 🙂", "And <|im_end|>?", "Well.")})
    aligned = small_model.placed(one)[0]
    assert isinstance(aligned, Aligned)
    starts = small_model.ids(aligned)[1].tolist()
    trained_ids = [s for s in starts if any(t.start <= s < t.end for t in aligned.trained)]
    assert ByModel(small_model).sizes(one) == (len(starts), len(trained_ids))
    assert 0 < len(trained_ids) < len(starts)


def codes(here: Path, record: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Returns the codes that the command finds in a record, with their pointers."""
    (here / "data.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    main([str(here / "data.jsonl"), "--model", str(here), "-q", "--format", "json"])
    return [f"{item['code']} {item['pointer']}" for item in json.loads(capsys.readouterr().out)]


def test_findings_are_at_the_users_own_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In any shape: here ShareGPT's."""
    texts = {"system": "Be brief.", "human": "Hi!", "gpt": "Hello."}
    record = {"conversations": [{"from": role, "value": text} for role, text in texts.items()]}
    assert codes(folder(tmp_path, CHATML), record, capsys) == []
    without = CHATML.replace(
        "{{ m.content }}", "{% if m.role != 'system' %}{{ m.content }}{% endif %}"
    )
    assert codes(folder(tmp_path, without), record, capsys) == ["MYP731 /conversations/0/value"]
    refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
    assert codes(folder(tmp_path, refuses + CHATML), record, capsys) == ["MYP730 "]


def test_thoughts_in_answers_that_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by the template of DeepSeek's distilled models, which drops that of the last answer."""
    drops = CHATML.replace("m.content", "m.content.split('</think>')[-1]")
    record = {"messages": chat("Hi!", "<think>A greeting.</think>Hello.", "So?", "x</think>Yes.")}
    at = ["MYP731 /messages/3/content", "MYP737 /messages/1/content"]
    assert codes(folder(tmp_path, drops), record, capsys) == at


THINKS = (
    "{% set n = namespace(last=0) %}{% for m in messages if m.role == 'user' %}"
    "{% set n.last = loop.index * 2 %}{% endfor %}"
) + CHATML.replace(
    "{{ m.content }}",
    "{% if m.reasoning_content and loop.index >= n.last %}<think>{{ m.reasoning_content }}</think>"
    "{% endif %}{{ m.content }}",
)


def findings(here: Path, records: list[Any], capsys: Any, *options: str) -> list[dict[str, Any]]:
    text = "".join(json.dumps(record) + "\n" for record in records)
    (here / "data.jsonl").write_text(text, encoding="utf-8")
    main([str(here / "data.jsonl"), "--model", str(here), "-q", "--format", "json", *options])
    out: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return out


def test_thoughts_are_one_finding_for_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing in some records, or left out in earlier turns; an option that decides silences it."""
    here = folder(tmp_path, THINKS)
    thought = {"reasoning_content": "Hm."}
    twice = {"messages": [*chat("Hi!", "Hello.", **thought), *chat("So?", "Yes.", **thought)]}
    written = {"messages": chat("Hi!", "<think>Hm.</think>Hello.")}
    records = [
        {"messages": chat("Hi!", "Hello.")},
        twice,
        written,
        twice,
        {"messages": chat("a", "b")},
    ]
    items = findings(here, records, capsys)
    rows = [item["location"]["row"] for item in items]
    assert [(i["code"], i["severity"], row) for i, row in zip(items, rows, strict=True)] == [
        ("MYP737", "warning", 1), ("MYP737", "info", 2),
    ]  # fmt: skip
    assert items[0]["message"].endswith("writes thoughts: in 2 of 5 records")
    assert items[1]["message"].endswith("before the last question: in 2 of 5 records")
    assert items[1]["pointer"] == "/messages/1/reasoning_content"
    option = ("--template-option", "enable_thinking=false")
    assert [item["severity"] for item in findings(here, records, capsys, *option)] == ["info"]
    records[0]["chat_template_kwargs"] = {"thinking": False}
    assert "in 1 of 5" in findings(here, records, capsys)[1]["message"]
    assert not findings(folder(tmp_path, CHATML), records[:1], capsys)


@pytest.mark.parametrize(
    ("template", "at", "word"),
    [
        ("{{ m.get('content') }}", 1, "None"),
        ("{{ m.get('content') | tojson }}", 1, "null"),
        ("{{ m.content }}{{ m.get('tool_call_id') if m.role == 'tool' }}", 2, "None"),
    ],
)
def test_words_for_absent_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], template: str, at: int, word: str
) -> None:
    """At the message that lacks the value; such words in a text are nobody's fault."""
    here = folder(tmp_path, CHATML.replace("{{ m.content }}", template))
    record = {"messages": called("None", "None null undefined", x="null")}
    lacks, key = record["messages"][at], ("content", "tool_call_id")[at - 1]
    lacks.pop(key, None)
    items = [item for item in findings(here, [record], capsys) if item["code"] == "MYP738"]
    assert [(item["pointer"], item["severity"]) for item in items] == [
        (f"/messages/{at}", "warning")
    ]
    assert f'writes "{word}" for the absent "{key}"' in items[0]["message"]
    lacks[key] = "None"
    assert "MYP738" not in {item["code"] for item in findings(here, [record], capsys)}


@pytest.mark.parametrize(
    ("expression", "text", "message"),
    [
        ("m.content[:20]", "x", ""),
        ("m.content[:20]", "What is the tallest mountain?", "cuts off this question after 20 char"),
        (
            "m.content | truncate(9, True, '', 0)",
            "Is it so? Yes, yes.",
            "cuts off this question aft",
        ),
        ("m.content | upper", "What is the tallest mountain?", "rewrites this question"),
    ],
)
def test_texts_that_are_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], expression: str, text: str, message: str
) -> None:
    here = folder(tmp_path, CHATML.replace("m.content", expression))
    items = findings(here, [{"messages": chat(text, "5")}], capsys)
    wanted = [("MYP732", "/messages/0/content", True)] if message else []
    assert [(i["code"], i["pointer"], message in i["message"]) for i in items] == wanted


def test_a_template_of_chance_is_one_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = folder(tmp_path, "{{ range(99999) | random }}" + CHATML)
    (item,) = findings(here, [{"messages": chat(f"{i}?", "Hello.")} for i in range(3)], capsys)
    assert (item["code"], item["location"]["row"]) == ("MYP739", 1)
    assert item["message"] == "the chat template renders a record in two ways: in 3 of 3 records"


@pytest.mark.parametrize(
    ("record", "at"),
    [
        ({"prompt": "Hi!", "chosen": "Hello.", "rejected": "x"}, "/rejected"),
        (
            {"chosen": chat("Hi!", "Hello."), "rejected": chat("Hi!", "x", "So?", "y")},
            "/rejected/1/content",
        ),
        (
            {"prompt": chat("Hi!"), "chosen": chat("", "So.")[1:], "rejected": chat("", "x")[1:]},
            "/rejected/0/content",
        ),
    ],
)
def test_rejected_answers_are_rendered_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: dict[str, Any], at: str
) -> None:
    hides = CHATML.replace("{{ m.content }}", "{{ '' if m.content == 'x' else m.content }}")
    assert codes(folder(tmp_path, hides), record, capsys) == [f"MYP732 {at}"]


def test_names_and_tools_without_a_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    function = {"name": "get", "arguments": '{"city": "Oslo"}'}
    call = {"type": "function", "id": "a", "function": function}
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "find", "parameters": schema}}
    record = {
        "messages": [
            *chat("Weather?", "", tool_calls=[call | {"function": function | {"name": "find"}}]),
            {"role": "tool", "tool_call_id": "a", "content": "Sun"},
            {"role": "assistant", "content": "Sunny."},
        ],
        "tools": [tool],
    }
    record["messages"][1]["content"] = None
    at = "/messages/1/tool_calls/0/function"
    assert codes(folder(tmp_path, CHATML), record, capsys) == [
        f"MYP731 {at}/name", "MYP731 /tools/0/function/name",
    ]  # fmt: skip
    assert codes(folder(tmp_path, TOOLS), record, capsys) == []


def test_an_answer_of_which_nothing_is_written(tmp_path: Path) -> None:
    """It would be trained as an empty one."""
    model = ModelFolder(str(folder(tmp_path, CHATML.replace("m.content", "(m.content or '')"))))
    call = {"type": "function", "id": "a", "function": {"name": "get", "arguments": "{}"}}
    changes_of = {"error": [{}], "warning": [{"content": "A"}, {"weight": 0}]}
    for severity, changes in ((key, one) for key, each in changes_of.items() for one in each):
        messages = chat("Hi!", "", tool_calls=[call], **({"content": None} | changes))
        (finding,) = model.read(None, shape.read({"messages": messages}))[1]
        assert (finding.code, finding.severity) == ("MYP731", severity)
    messages = chat("Hi!", "", "So?", "Yes.")
    messages[1]["reasoning_content"] = "A greeting."
    found = model.read(None, shape.read({"messages": messages}))[1]
    assert {(f.code, f.severity) for f in found} == {("MYP731", "error"), ("MYP737", "info")}


def test_a_part_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = {"messages": chat("What is this?", "A cat.")}
    image = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
    record["messages"][0]["content"] = [{"type": "text", "text": "What is this?"}, image]
    here = folder(tmp_path, CHATML)
    assert codes(here, record, capsys) == ["MYP730 /messages/0/content/1"]
    (refusal,) = ModelFolder(str(here)).read(None, shape.read(record))[1]
    assert "to prepare it, put a text in its place" in refusal.help


def test_a_clock_in_the_template_is_one_for_all_renderings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = folder(tmp_path, "{{ strftime_now('%H:%M:%S.%f') }}" + CHATML)
    assert codes(clock, {"messages": chat("Hi!", "Hello.")}, capsys) == []


def test_options_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, record = folder(tmp_path, CHATML), {"messages": chat("Hi!", "Hello.")}
    at = "/chat_template_kwargs"
    assert codes(here, record | {at[1:]: {"tools": []}}, capsys) == [f"MYP730 {at}"]
    assert codes(here, record | {at[1:]: ["x"]}, capsys) == [f"MYP104 {at}"]
    assert codes(here, record | {at[1:]: {"x": 1}}, capsys) == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("chat_template.jinja", "{{ oops(", "line 1 of the chat template: unexpected"),
        ("tokenizer.json", '{"added_tokens": [{"special": true}]}', "must be a list of objects"),
        ("tokenizer.json", '{"added_tokens": {"a": 1}}', "must be a list of objects"),
        ("generation_config.json", '{"eos_token_id": [[1]]}', "must be an id, or a list of ids"),
    ],
)
def test_a_damaged_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str
) -> None:
    (folder(tmp_path, CHATML) / name).write_text(text)
    (tmp_path / "x.jsonl").write_text(json.dumps({"messages": chat("Hi!", "Hello.")}) + "\n")
    assert main([str(tmp_path / "x.jsonl"), "--model", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / name}: " in error
    assert message in error


def test_a_template_that_never_ends_is_not_tried_for_all_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ModelFolder(str(folder(tmp_path, CHATML)))
    tried = []

    def endless(calls: list[Any]) -> Any:
        tried.extend(calls)
        return iter([OutOfBoundsError("10 seconds") for _ in calls])

    monkeypatch.setattr(model, "outcomes", endless)
    records = [shape.read({"messages": chat("Hi!", "Hello.")}) for _ in range(5)]
    findings = [model.read(None, record)[1][0] for record in records]
    assert [finding.code for finding in findings] == ["MYP730"] * 5
    assert findings[4].message == "not rendered: the 3 renderings before it were stopped"
    assert len(tried) == 3


def test_processes_find_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With each number of them, and findings of the file are at its end."""
    monkeypatch.setattr(parallel, "RANGE", 300)
    here = folder(tmp_path, CHATML)
    records: list[dict[str, Any]] = [{"messages": chat("Hi!", f"Hello {i}.")} for i in range(12)]
    records[3]["messages"][1]["thinking"] = "Left out."
    records[5]["other"] = records[9]["other"] = 1
    records[10]["messages"][0]["content"] = [{"type": "image_url", "image_url": {"url": "x"}}]
    (here / "x.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    outputs = []
    for jobs in ("1", "2", "3"):
        main([str(here / "x.jsonl"), "--model", str(here), "-j", jobs, "--format", "json"])
        outputs.append(capsys.readouterr().out)
    codes = [item["code"] for item in json.loads(outputs[0])]
    assert codes[-1] == "MYP112"
    assert {"MYP730", "MYP731"} <= set(codes)
    assert outputs[1:] == outputs[:1] * 2


def test_a_folder_that_names_a_dialect_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = folder(tmp_path, CHATML)
    (here / "x.jsonl").write_text('{"messages": []}\n')
    assert main([str(here / "x.jsonl"), "--model", str(here), "--dialect", "qwen3"]) == 2
    assert "--model and --dialect" in capsys.readouterr().err
    assert main([str(here / "x.jsonl"), "--model", str(here / "missing")]) == 2


@pytest.mark.parametrize(
    "attack", ["''.__class__", "dict.func.mro()", "namespace(_x=1)", "messages.append"]
)
def test_a_template_stays_in_its_sandbox(attack: str) -> None:
    import jinja2

    try:
        text, _ = compiled(f"{{{{ {attack} }}}}")(messages=[])
    except (jinja2.exceptions.SecurityError, jinja2.UndefinedError):
        return
    assert "class" not in text
    assert "built-in" not in text


@pytest.mark.parametrize(
    ("end", "after_all", "assumed", "stopped"),
    [
        ("<|im_end|>\n", "", "<|im_end|>", [True, True]),
        ("<end_of_turn>\n", "", "<end_of_turn>", [True, True]),
        (R7B_END, "", "<|END_TURN|>", [True, True]),
        ("<|im_end|>\n", "<|im_start|>assistant\n", "<|im_end|>", [True, True]),  # always
        ("<|end|>\n", "{{ eos_token }}", "<|end|>", [True, True]),  # both, as in Phi's
        ("<|sep|><|im_end|>\n", "", "<|im_end|>", [True, True]),  # the last one after all answers
        ("<|sep|>{{ eos_token }}\n", "", "", [True, True]),
        ("\n", "", "", [False, False]),
        ("\n", "{{ eos_token }}", "", [False, True]),  # what begins a question ends no answer
    ],
)
def test_stop_tokens_of_a_lone_template_are_what_follows_its_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
    end: str, after_all: str, assumed: str, stopped: list[bool],
) -> None:  # fmt: skip
    file, data = tmp_path / "lone.jinja", tmp_path / "data.jsonl"
    file.write_text(CHATML.replace("<|im_end|>\n", end) + after_all, encoding="utf-8")
    record = {"messages": chat("Hi!", "Hello.", "And?", "Fine.")}
    data.write_text(json.dumps(record) + "\n", encoding="utf-8")
    aligned = ModelFolder(str(file)).placed(shape.read(record))[0]
    assert aligned is not None
    assert [span.stopped for span in aligned.trained] == stopped
    assert main(["--model", str(file), str(data)]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("[MYP733]") == stopped.count(False)
    assert (f"assumed from its answers: {assumed}\n" in printed.err) == bool(assumed)
