"""What becomes of thoughts of earlier turns: the text of the templates, and each answer once.

The rule is said twice more here: in a few lines of regular expressions, and by the published
template of Qwen3, where CHAT_TEMPLATES names its folder.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Episode
from mypt_spec.history import HISTORIES
from mypt_spec.table import SpecError
from mypt_train import Options
from mypt_train.data.encode_line import Encoder
from tests.support.chat_templates import rendered, template
from tests.support.examples import examples
from tests.support.oracles import EXAMPLES
from tests.support.strategies import DIALECTS, Record, episodes, records

QWEN = mypt_spec.dialect("qwen3")
THOUGHT = re.compile(r"<think>\n.*?\n</think>\n\n", re.DOTALL)
EMPTY = "<think>\n\n</think>\n\n"


def naive(text: str) -> str:
    """The rule of Qwen3 on a text: a question is a block of the user without results in it."""
    blocks = re.findall(r"<\|im_start\|>.*?<\|im_end\|>\n", text, re.DOTALL)
    asked = [
        i
        for i, block in enumerate(blocks)
        if block.startswith("<|im_start|>user") and "<tool_response>" not in block
    ][-1]
    for i, block in enumerate(blocks):
        header = "<|im_start|>assistant\n"
        if not block.startswith(header):
            continue
        if i < asked:
            blocks[i] = THOUGHT.sub("", block, count=1)
        elif i < len(blocks) - 1:
            blocks[i] = block.replace(header + EMPTY, header, 1)
        elif not block.startswith(header + "<think>"):
            blocks[i] = block.replace(header, header + EMPTY, 1)
    return "".join(blocks)


def parts(record: Record) -> list[Record]:
    """The record up to the end of each turn; without thinking, up to each of its calls as well.

    There, a prompt ends with an empty thought that is gone once the turn goes on.
    """
    messages = record["messages"]
    ends = [i for i, m in enumerate(messages) if m["role"] == "user"][1:]
    if record.get("chat_template_kwargs", {}).get("enable_thinking") is False:
        pairs = enumerate(pairwise(m["role"] for m in messages), 1)
        ends += [i for i, pair in pairs if pair == ("assistant", "tool")]
    return [record | {"messages": messages[:end]} for end in [*sorted(ends), len(messages)]]


def read(record: Record) -> Episode:
    episode, _ = QWEN.read(record)
    assert episode is not None
    return episode


@given(records("qwen3", clean=False))
def test_the_naive_rule_of_qwen3_agrees(record: Record) -> None:
    episode = read(record)
    (whole,) = QWEN.trained(episode, history="official")
    assert QWEN.serialize(whole) == naive(QWEN.serialize(episode))
    found = QWEN.trained(episode, history="per-turn")
    expected = [naive(QWEN.serialize(read(part))) for part in parts(record)]
    assert [QWEN.serialize(e) for e in found] == expected
    assert found[-1] == whole
    assert QWEN.trained(episode, history="keep") == [episode]


def trimmed(record: Record) -> Record:
    """A canonical record without the line ends around thoughts that the template drops."""
    record = QWEN.write(read(record))
    for message in record["messages"]:
        if message["role"] == "assistant":
            if "reasoning_content" in message:
                message["reasoning_content"] = message["reasoning_content"].strip("\n")
            if "content" in message:
                message["content"] = message["content"].lstrip("\n")
    return record


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_text_is_that_of_the_official_template(data: st.DataObject) -> None:
    """Of the whole conversation, and of each turn with all before it."""
    template("qwen3")
    record = trimmed(data.draw(records("qwen3")))
    episode = read(record)
    (whole,) = QWEN.trained(episode, history="official")
    assert QWEN.serialize(whole) == rendered("qwen3", record)
    found = [QWEN.serialize(e) for e in QWEN.trained(episode, history="per-turn")]
    assert found == [rendered("qwen3", part) for part in parts(record)]


def trained(d: mypt_spec.Dialect, episode: Episode, mask: str = "model") -> list[int]:
    encoded = d.encode(episode, mask=mask)
    return [int(i) for i, loss in zip(encoded.ids, encoded.loss, strict=True) if loss]


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=examples(25))
@given(data=st.data())
def test_each_answer_is_trained_once(name: str, data: st.DataObject) -> None:
    """All that a conversation trains, per-turn trains, in order, once, with the same ids."""
    d = mypt_spec.dialect(name)
    episode: Episode = data.draw(episodes(name))
    found = d.trained(episode, history="per-turn")
    each = [i for part in found for i in trained(d, part, "last")]
    if d.table.history.last:  # empty thoughts come and go
        kind = d.table.openers[d.table.history.drops[0]].bare + "\n</think>\n\n"
        said, want = d.tokenizer.decode(each), d.tokenizer.decode(trained(d, episode))
        assert said.replace(kind, "") == want.replace(kind, "")
        return
    # A mark may end the last answer alone, after the closing tag of earlier ones or in its place.
    marks = [*d.table.marks.values()]
    both = marks + [
        t for t in d.table.terminals.values() if any({*t.ends} & {*m.ends} for m in marks)
    ]
    ends = {d.table.special[p.value] for t in both for p in t.spelling if p.kind == "special"}
    want = trained(d, episode)
    assert [i for i in each if i not in ends] == [i for i in want if i not in ends]
    for part in found:
        assert d.parse_ids(d.encode(part).ids)[1] == []


@pytest.mark.parametrize(
    "name", [n for n in DIALECTS if not mypt_spec.dialect(n).table.history.drops]
)
@settings(max_examples=5)
@given(data=st.data())
def test_without_a_rule_all_is_kept(name: str, data: st.DataObject) -> None:
    episode: Episode = data.draw(episodes(name))
    assert mypt_spec.dialect(name).trained(episode, history="official") == [episode]


U = {"role": "user", "content": "u"}
A = {"role": "assistant", "reasoning_content": "t", "content": "a"}
SHORT = {"messages": [U, A, U, A]}


def test_harmony_keeps_the_analysis_of_the_last_turn() -> None:
    """The template on the web drops the analysis of calls once there is an answer; the guide of
    the format does not, because the model has seen it when it answered.
    """
    d = mypt_spec.dialect("harmony")
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    asked = {"role": "assistant", "reasoning_content": "c", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "content": "r"}
    turn = [U, asked, result, A]
    episode, _ = d.read({"messages": turn + turn})
    assert episode is not None
    found = [d.serialize(e) for e in d.trained(episode, history="per-turn")]
    assert [text.count("analysis") for text in found] == [2, 2]
    assert found[1].index("analysis") > found[1].rindex("<|start|>user")
    assert [text.count("<|return|>") for text in found] == [1, 1]


def test_an_answer_before_a_last_call_is_trained() -> None:
    """It ends with the mark of last answers, which a conversation that ends with a call lacks."""
    d = mypt_spec.dialect("harmony")
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    episode, _ = d.read({"messages": [U, A, U, {"role": "assistant", "tool_calls": [call]}]})
    assert episode is not None
    first, whole = d.trained(episode, history="per-turn")
    assert d.serialize(first).endswith("<|message|>a<|return|>")
    assert d.serialize(whole).count("<|return|>") == 0


@pytest.mark.parametrize("history", HISTORIES)
@settings(max_examples=examples(10))
@given(data=st.data())
def test_prepared_lines_are_the_episodes(history: str, data: st.DataObject) -> None:
    """Ids and masks of `mypt-prepare` are those of the library, and the counts add up."""
    mask = data.draw(st.sampled_from(["model", "trl", "no-think", "last", "trl+last"]))
    record = data.draw(records("qwen3"))
    for message in record["messages"]:
        if message["role"] == "assistant" and data.draw(st.integers(0, 3)) == 0:
            message["weight"] = data.draw(st.sampled_from([0, 0.5, 1]))
    options = Options("qwen3", history=history, mask=mask, context_length=1 << 16)
    outcome = Encoder(options).lines([json.dumps(record).encode()])[0]
    if not any(m.get("weight", 1) for m in record["messages"] if m["role"] == "assistant"):
        assert [f.code for f in outcome.findings if f.severity == "error"] == ["MYP501"]
        return
    found = QWEN.trained(read(record), history=history)
    if "last" in mask:  # the last turn, which is in steps where thinking is off
        asked = max(i for i, m in enumerate(record["messages"]) if m["role"] == "user")
        each = parts(record) if history == "per-turn" else [record]
        found = [e for e, p in zip(found, each, strict=True) if len(p["messages"]) > asked]
    encoded = [QWEN.encode(e, mask=options.episode_mask) for e in found]
    some = [e for e in encoded if e.loss.any()] or encoded[-1:]
    assert [s.ids.tolist() for s in outcome.samples] == [e.ids.tolist() for e in some]
    assert [s.mask.tolist() for s in outcome.samples] == [e.loss.tolist() for e in some]
    weights = [e.weights if e.weights is None else e.weights.tolist() for e in some]
    assert weights == [s.weights if s.weights is None else s.weights.tolist() for s in outcome.samples]  # fmt: skip
    if history == "keep":
        assert outcome.history is None
        return
    counts = outcome.history
    assert counts is not None
    assert counts["tokens"] == sum(len(e.ids) for e in some)
    assert counts["trained_tokens"] == sum(int(e.loss.sum()) for e in some)
    assert counts["whole_tokens"] == len(encoded[-1].ids)
    if history == "per-turn":
        assert counts["answers"] == sum(bool(e.loss.any()) for e in some)
        assert counts["answers"] + counts["untrained_answers"] >= len(found) - 1


def folder(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """A copy of the folder of Qwen3, changed."""
    out = tmp_path / "own"
    out.mkdir()
    for file in Path("grammar/qwen3").iterdir():
        text = file.read_text(encoding="utf-8").replace('name = "qwen3"', 'name = "own"')
        for old, new in changes:
            text = text.replace(old, new)
        (out / file.name).write_text(text, encoding="utf-8")
    return out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('drops = ["think"]', 'drops = ["thought"]'), 'must list kinds of block, got'),
        (('drops = ["think"]', 'drops = ["think"]\nnever = 1'), "unknown key never"),
        (('empty = "assistant"', 'empty = "assistant"\nleaves_empty = true'), '"leaves_empty" cannot be combined'),
        (('empty = "assistant"', 'empty = "assistant"\nleaves = "x"'), '"leaves" must be white space'),
        (('empty = "assistant"', "each = true"), '"each" needs "empty"'),
        (('empty = "assistant"', 'empty = "model"'), '"empty" must be a kind of block'),
        (('turn_opener = "user"', ""), 'needs "turn_opener"'),
        (("ASSISTANT_OPEN think? TEXT* END", "ASSISTANT_OPEN think TEXT* END"), "the grammar needs 'think'"),
        (('["think"]', '["tool_call"]'), "the grammar needs 'tool_call': without it, "),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        mypt_spec.load(folder(tmp_path, change))


def test_a_table_without_turns_has_no_per_turn(tmp_path: Path) -> None:
    rule = '[history]\ndrops = ["think"]\nempty = "assistant"\nstrip = "left lines"\n'
    d = mypt_spec.load(folder(tmp_path, ('turn_opener = "user"', ""), (rule, "")))
    episode, _ = d.read(SHORT)
    assert episode is not None
    assert d.trained(episode, history="official") == [episode]
    with pytest.raises(ValueError, match="set turn_opener"):
        d.trained(episode, history="per-turn")
    with pytest.raises(ValueError, match="no history 'none'; known are keep, official, per-turn"):
        d.trained(episode, history="none")


@pytest.mark.parametrize("name", ["llama3", "mistral-v13"])
@given(data=st.data())
def test_formats_that_leave_nothing_out(name: str, data: st.DataObject) -> None:
    """The template of Llama 3.1 has no thoughts, and mistral-common keeps those of all turns, so
    official is keep, and per-turn only cuts.
    """
    d = mypt_spec.dialect(name)
    record = data.draw(records(name))
    episode, _ = d.read(record)
    assert episode is not None
    assert d.table.history.drops == ()
    assert d.trained(episode, history="official") == [episode]
    cut = [d.read(part)[0] for part in parts(record)]
    assert d.trained(episode, history="per-turn")[-1] == cut[-1] == episode
    assert all(part in cut for part in d.trained(episode, history="per-turn"))
