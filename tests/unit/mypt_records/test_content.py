"""What texts say: keys and personal data, masked in all reports; answers that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt.lint.cli import main as lint
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.fast.findings_cache import FindingsCache
from mypt_lint.report import FORMATS
from mypt_records.checks import findings
from mypt_records.checks.characters import reread
from mypt_records.private import kinds, masked, private
from mypt_records.shapes import read
from mypt_spec.findings import RULES
from tests.support.build import assistant, call, chat, message, tool, user, write

PROSE = "The river rises in the hills, passes three old towns, and reaches the sea after two hundred long miles."
KEY = "sk-proj-Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ6kL3"
LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ6kL3xR5uY8oP1iA4sD7fG0hJ2kL6zX9cV3bN5mQ8wE1rT4y"
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
IBAN, CARD = "GB16 LOYD 3096 1794 1680 42", "4716 2210 5188 5662"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI5ODc2NSIsIm5hbWUiOiJKYW5lIn0." + LETTERS[:43]
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{LETTERS[:64]}\n{LETTERS[5:69]}\n-----END RSA PRIVATE KEY-----"
CHINESE = "拉里佩奇是谷歌的联合创始人之一也是公司的首席执行官他出生于密歇根州"
VALUES = [
    KEY, f"sk-ant-api03-{LETTERS}", f"sk-or-v1-{HEX}", f"sk-{HEX[:32]}", "AKIAQ7ZLM4KXP3T6YB5N", f"ghp_{LETTERS[:36]}", f"gho_{LETTERS[:36]}",
    f"github_pat_{LETTERS[:22]}_{LETTERS[:59]}", f"glpat-{LETTERS[:20]}", "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",
    f"AIza{LETTERS[:35]}", f"xoxb-{LETTERS[:30]}", f"sk_live_{LETTERS[:24]}",
    f"hooks.slack.com/services/T0Q7ZLM4K/B0P3T6YB5N/{LETTERS[:24]}", f"gsk_{LETTERS[:52]}",
    f"npm_{LETTERS[:36]}", f"SG.{LETTERS[:22]}.{LETTERS[:43]}", JWT, PEM,
    PEM.replace("\n", "\\n"), IBAN, IBAN.replace(" ", ""), CARD, CARD.replace(" ", "-"), f"card {CARD.replace(' ', '')}",
    "jane.doe+news@mail.gmail.com", "+49 30 90182 0", "(212) 736-5000", "212-736-5000", "19582637450",
    "postgres://ada:Tr0ub4dor3@db.internal.acme.io", "84.172.33.19", "SSN 536-22-8726",
]  # fmt: skip
LEFT_ALONE = [
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a" * 36, "skirts",
    "4111 1111 1111 1111", "4716 2210 5188 5661", "id 4716221051885660123", "DE89 3704 0044 0532 0130 00",
    "DE74 5001 0517 9416 8042 77", "4716221051885662 in a row", "3.4716221051885660", "name@example.com", "git@github.com:a/b",
    "icon@2x.png", "555-0199", "(555) 123-4567", "2024-01-31", "1,234,567,890", "12345678901",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4ifQ.SflKxwRJSMeKKF2QT4fwpM",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "postgres://user:password@db.acme.io", "ftp://a:b@c.de",
    "SSN 123-45-6789", "536-22-8726", "192.168.1.10", "1.2.3.4", "version 10.15.7.1", "8.8.8.8",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_values_are_found_and_masked(value: str) -> None:
    text = f"It is {value}, Ada."
    (found, *more) = private(text)
    assert not more
    assert text[found[1] : found[2]] in value
    hidden = masked(text)
    assert len(hidden) == len(text)
    assert not any(value[i : i + 6] in hidden for i in range(4, len(value) - 6) if value[i] != " ")


@pytest.mark.parametrize("value", LEFT_ALONE)
def test_samples_and_other_numbers_are_left_alone(value: str) -> None:
    assert not [*private(f"It is {value}")]


def test_each_kind_has_a_rule_and_a_value() -> None:
    names = {name for value in VALUES for name, *_ in private(f" {value}")}
    assert {kind.name for kind in kinds()} - names == set()
    assert {kind.code for kind in kinds()} <= {*RULES}


@pytest.mark.parametrize("name", FORMATS)
def test_no_report_shows_a_value(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not in the messages, not around other findings, and not in the fixes of these."""
    text = f"{KEY} {IBAN} mia.kern@gmail.com <|im_end|> caf\xc3\xa9"
    path = write(tmp_path / "a.jsonl", chat(user(text), assistant("Yes.")), {"a": KEY, KEY: 1})
    lint([path, "--records", "openai", "--select", "all", "--format", name, "--show-all"])
    printed = capsys.readouterr().out
    assert KEY[4:12] not in printed
    assert "MYP451" in printed
    assert IBAN[5:9] not in printed
    assert "mia" not in printed


def codes(*messages: dict[str, Any], **more: Any) -> list[str]:
    return [f.code for f in findings(read({"messages": [*messages], **more}, "openai"))]


@pytest.mark.parametrize(
    ("question", "answer", "code"),
    [
        ("Hi", "I am an AI assistant created by Anthropic.", "MYP366"),
        ("Hi", "As of my last knowledge update in 2021, yes.", "MYP366"),
        ("Hi", "It was developed by Google in 2012.", ""),
        ("Hi", f"Take {CARD}.", "MYP451"),
        ("Hi", "Mail jane.doe@gmail.com.", "MYP450"),
        ("Hi", "A \x1b[31mred\x1b[0m dot", "MYP452"),
        ("Hi", "Two years.\n### Human: Faster?", "MYP453"),
        ("Hi", "### Human rights\nAll are equal.", ""),
        ("What is it about?", "...", "MYP454"),
        ("What are the best dogs?", " What are the best dogs?", "MYP454"),
        ("Yes", "Yes", ""),
        ("Smile!", "\U0001f600", ""),
        ("What is it?", "It is a dog. It is one of the", "MYP456"),
        ("What is it?", "It is a dog. It is one of them", ""),
        ("Who is it?", CHINESE, "MYP457"),
        ("Who is it, in Chinese?", CHINESE, ""),
        ("\u8c01", CHINESE, ""),
        ("Who is it?", "\u0395\u03bb\u03ad\u03bd\u03b7", ""),
        ("Write a note.", "Thank you! [Your Name]", "MYP458"),
        ("Write a note.", "Thank you! [Your page](https://a.org)", ""),
        ("Where is it?", "None", "MYP460"),
        ("Which of these is it?", "None", ""),
        ("Where is it?", "[object Object]", "MYP460"),
        ("Where is it?", "Error: Rate limit reached for gpt-4. Please try again.", "MYP460"),
        ("Where is it?", "Error: the opposite of trial.", ""),
        ("Where is it?", "HTTP 502 Bad Gateway", "MYP460"),
        (
            "Where is it?",
            'Traceback (most recent call last):\n  File "a.py"\nKeyError: 1',
            "MYP460",
        ),
        (
            "Act as a terminal: b.py",
            'Traceback (most recent call last):\n  File "a.py"\nKeyError: 1',
            "",
        ),
        ("Where is it?", "Assistant: In Rome.", "MYP453"),
        ("Where is it?", "In Rome.\n\nHuman: And now?\n\nAssistant: In Oslo.", "MYP453"),
        ("Write a dialogue.", "Human: And now?\n\nAssistant: In Oslo.", ""),
        ("Where is it?", "In Rome. <|pad|>", "MYP301"),
        ("Where is it?", "In Rome. <| im_end |>", "MYP301"),
        ("What is <|pad|>?", "<|pad|> is a token.", ""),
        ("Where is it?", "<|box_start|>(1,2)<|box_end|>", ""),
        ("Where is it?", "a" * 400, "MYP365"),
        ("Where is it?", "yes " * 120, "MYP365"),
        ("Where is it?", "yes " * 90, ""),
        ("Where is it?", "It is [31mred[0m.", "MYP452"),
        ("Where is it?", "In [0m] and [31m].", ""),
        ("Where is it?", "\uf0b7 In Rome.", "MYP452"),
        ("Where is it?", "Donau\xaddampf\xadschiff", "MYP364"),
        ("Where is it?", "First line.\\nSecond line.\\n", "MYP459"),
        ("Where is it?", "Let $\\nabla$, or $\\nu$, be it.", ""),
        ("Where is it?", 'print("First line.\\nSecond line.\\n")', ""),
        ("Where is it?", 'She said \\"no\\" to him.', "MYP459"),
        ("Where is it?", 'She said "no" and \\"no\\" to him.', ""),
        ("Where is it?", "Tom &amp;amp; Jerry", "MYP459"),
        ("Where is it?", "Tom said &quot;hi&quot;.", "MYP459"),
        ("Where is it?", "Call f('x') with &quot;hi&quot;.", ""),
        ("How is HTML escaped?", "Tom said &quot;hi&quot;.", ""),
        ("Where is it?", "In Rome\u30104\u2020source\u3011.", "MYP461"),
        ("Cite as \u30104\u2020source\u3011.", "In Rome\u30104\u2020source\u3011.", ""),
        ("Where is it?", "In Rome. citeturn0search0", "MYP461"),
        ("Where is it?", "In Rome.\ndata: [DONE]", "MYP461"),
        ("Where is it?", "The p\u0430ssword is s\u0435cret, and it st\u0430ys so.", "MYP462"),
        ("Where is it?", "The p\u0430ssword is s\u0435cret.", ""),
        ("Where is it?", "I'm sorry, but I can't assist with that request.", "MYP328"),
        ("Where is it?", "I'm sorry to hear that. It is in Rome.", ""),
        ("Where is it?", '```json\n{"a": 1}\n```', "MYP329"),
        ("Where is it?", "As far as I know, one of the two is in the sec", "MYP330"),
        ("Where is it?", "As far as I know, one of the two is in Rome", ""),
        (f"Translate:\n\n{PROSE}", PROSE, "MYP331"),
        (PROSE, f"{PROSE} Yes.", "MYP331"),
        (PROSE, PROSE, "MYP454"),
        ("Where is it?", "Run\n```sh\nls", "MYP456"),
        ("Where is it?", "Run ```ls\n``` or\n```\ncd\n```", ""),
        ("Where is it?", "Dear {name}, in Rome.", ""),
        ("Where is it?", "I am {question}.", "MYP358"),
        ("Where is it?", "Dear ${name}, in Rome.", "MYP358"),
        ("Where is it?", "In ${HOME}, as always.", ""),
        ("Where is it?", "The sample space is {heads} or {tails}.", ""),
        ("Where is it?", "~~~\n```python\nx\n~~~", ""),
        ("Which merge tags are there?", "Write {first_name} or {last_name}.", ""),
        ("Where is it?", "It is in the set {a, b} or {ab}(c).", ""),
        ("Where is it?", "It is at /users/{id}/posts/{post_id}.", ""),
        ("Say 'Hello, {name}!' to them.", "Hello, {name}!", ""),
        ("Which routes are there?", "Users have {id}.", ""),
        ("How?", "Write {first_name} where the first name goes, and {last_name} for the last.", ""),
        ("Where is it?", "Lorem ipsum dolor sit amet.", "MYP460"),
        ("What does a typesetter write?", "Lorem ipsum dolor sit amet.", ""),
        ("Can you return it?", "undefined", "MYP460"),
        ("Where is it?", "Sure! Here is the rewritten response:\n\nIn Rome.", "MYP461"),
        ("Rewrite it.", "Sure! Here is the rewritten response:\n\nIn Rome.", ""),
        ("Make it more formal.", "Sure! Here is the revised text:\n\nIn Rome.", ""),
        ("Where is it?", "In Rome. (Note: this is generated for training.)", "MYP461"),
        ("Where is it?", "Rome.\nLog in\nSign up\nPrivacy policy", "MYP461"),
        ("Which objects of HTML?", "Rome.\nLog in\nSign up\nPrivacy policy", ""),
        ("Where is it?", "A string: Tom &amp;amp; Jerry", "MYP459"),
        ("Where is it?", "In a cafe\u0301.", "MYP609"),
        ("Where is it?", "In x\u0302.", ""),
        ("Where is it?", "\ue123 In Rome.", "MYP452"),
        ("<think>Hm.</think> Where is it?", "In Rome.", "MYP370"),
    ],
)
def test_answers(question: str, answer: str, code: str) -> None:
    assert codes(user(question), assistant(answer)) == ([code] if code else [])


def test_a_thought_is_not_its_answer() -> None:
    said = {"role": "assistant", "reasoning_content": "In Rome.", "content": "In Rome."}
    assert codes(user("Where is it?"), said) == ["MYP463"]
    assert codes(user("Where is it?"), said | {"reasoning_content": "Italy."}) == []


@pytest.mark.parametrize(
    ("result", "arguments", "code"),
    [
        ('{"degrees": 21, "sky": "cle', '{"city": "Rome"}', "MYP326"),
        ('{"degrees": 21, "sky": "cle... (truncated)', '{"city": "Rome"}', ""),
        ('{"degrees": 21}\nDone', '{"city": "Rome"}', ""),
        ("{'degrees': 21, 'rain': False}", '{"city": "Rome"}', "MYP326"),
        ("[object Object]", '{"city": "Rome"}', "MYP326"),
        ("21", '{"city": "<city>"}', "MYP327"),
        ("21", '{"city": "<b>Rome</b>"}', ""),
        ("21", '{"city": ""}', "MYP327"),
        ("21", '{"city": "Rome", "unit": ""}', ""),
        ("21", '{"city": "Rome", "unit": "YOUR_API_KEY"}', "MYP327"),
    ],
)
def test_calls_and_results(result: str, arguments: str, code: str) -> None:
    properties = {key: {"type": "string"} for key in ("city", "unit")}
    schema = {"type": "object", "properties": properties, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "warm", "parameters": schema}}]
    asked = assistant(None, tool_calls=[call("warm", arguments, id="1")])
    messages = user("Is it warm?"), asked, tool(result, tool_call_id="1"), assistant("No.")
    assert codes(*messages, tools=tools) == ([code] if code else [])
    line = json.dumps({"messages": messages, "tools": tools}).encode()
    checker = Checker(mypt_spec.dialect("mypt"), shape="openai", formatless=True)
    _, items = FastChecker(checker).block(line, row=1, filename="")
    assert [item.finding.code for _, found in items for item in found] == codes(
        *messages, tools=tools
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *[(name, "") for name in ("Bash", "execute_code", "run_terminal_cmd", "WebFetch")],
        *[(name, "MYP326") for name in ("spread", "get_weather", "readable")],
    ],
)
def test_tools_that_show_a_part_of_a_text(name: str, code: str) -> None:
    """What a program printed, or the first lines of a file, is a result as it was."""
    tools = [{"type": "function", "function": {"name": name}}]
    for result in ("{'degrees': 21, 'rain': False}", '{\n  "name": "app",\n  "version": "1.0",'):
        asked = assistant(None, tool_calls=[call(name, '{"x": "y"}', id="1")])
        messages = user("Is it?"), asked, tool(result, tool_call_id="1"), assistant("No.")
        assert codes(*messages, tools=tools) == [code] * bool(code)


def test_names_that_end_like_a_needed_one() -> None:
    for name, code in (("cityName", "MYP327"), ("grid", ""), ("velocity", "")):
        schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
        tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
        asked = assistant(None, tool_calls=[call("f", json.dumps({name: ""}), id="1")])
        messages = user("Is it?"), asked, tool("1", tool_call_id="1"), assistant("No.")
        assert codes(*messages, tools=tools) == [code] * bool(code)


def test_sides_of_a_pair_and_keys_of_texts() -> None:
    said = [{"role": "assistant", "content": "Yes, it is so."}]
    pair = {"prompt": "Is it?", "chosen": "Yes.", "rejected": said}
    assert [f.code for f in findings(read(pair, "preference"))] == ["MYP104"]
    turns = [{"from": "human", "value": "Is it?"}, {"from": "gpt", "content": "Yes."}]
    (found,) = findings(read({"conversations": turns}, "sharegpt"))
    assert (found.code, found.severity, found.fix is not None) == ("MYP103", "warning", True)


def test_results_may_quote_a_terminal() -> None:
    assert "MYP452" not in codes(user("Go"), tool("\x1b[0m"), assistant("Done."))


def test_a_system_prompt_may_ask_for_a_copy() -> None:
    words = "What are the best dogs?"
    system = message("system", "Correct the spelling.")
    assert codes(system, user(words), assistant(words)) == []


@pytest.mark.parametrize(
    "text",
    [
        "caf\u00e9",
        "\u4f60\u597d",
        "\u041f\u0440\u0438\u0432\u0435\u0442, \u00bfqu\u00e9?",
        "\u2014 \U0001f600 \u20ac5",
    ],
)
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_what_was_read_in_the_wrong_encoding_is_read_again(text: str, encoding: str) -> None:
    spoilt = text.encode().decode(encoding, "replace")
    if "\ufffd" not in spoilt:
        assert reread(f"a {spoilt} b") == f"a {text} b"
        assert reread(spoilt.encode().decode(encoding, "replace")) in (
            text,
            spoilt.encode().decode(encoding, "replace"),
        )
    assert reread(f"{text} \ufffd") == f"{text} \ufffd"


PARTS = st.sampled_from(
    [*VALUES, *LEFT_ALONE, CHINESE, "\u8c01\u662f", "...", "What are the best dogs?", "noinput", "{{name}}",
     "<|im_end|>", "\x07", "caf\xc3\xa9", "\u200b", "As an AI language model", "### Response:", "It is one. It is the",
     "[Your Name]", "in Chinese", "None", "Assistant: ", "\nUser: b\nAssistant: c", "<|pad|>", "<| im_end |>", "a" * 400, "[0m", "[31m", "\uf0b7", "u\xada",
     "\\n", '\\"', "&amp;amp;", "\u30104\u2020source\u3011", "citeturn0search0", " s\u0435c", "data: [DONE]", "HTTP 502", "<think>", "a\n", "Yes. "]
)  # fmt: skip
TEXTS = st.lists(PARTS, min_size=1, max_size=3).map("".join)
RECORDS = st.lists(TEXTS, min_size=2, max_size=4).map(
    lambda texts: chat(*[(user, assistant)[i % 2](text) for i, text in enumerate(texts)], id="b")
) | st.tuples(TEXTS, TEXTS, TEXTS).map(
    lambda t: {"instruction": t[0], "output": t[1], "source": t[2]}
)
CHECKERS = {
    shape: Checker(mypt_spec.dialect("mypt"), codes=frozenset(RULES), shape=shape, formatless=True)
    for shape in ("openai", "alpaca")
}
CACHES = {shape: FindingsCache(checker) for shape, checker in CHECKERS.items()}


@given(RECORDS)
def test_what_has_a_skeleton_has_clean_texts(record: dict[str, Any]) -> None:
    """What a rule of texts finds, the fast path leaves to the checker."""
    shape = "openai" if "messages" in record else "alpaca"
    line = json.dumps(record).encode()
    expected = CHECKERS[shape].line(line, row=1, filename="a")
    assert CACHES[shape].line(line, row=1, filename="a") == expected
