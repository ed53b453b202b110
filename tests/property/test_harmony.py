"""Harmony: ids against OpenAI's library, other spellings of a call, and what ends a turn."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.controller import Controller, Options, Script, replay
from mypt_infer.controller.events import TurnEnd
from mypt_infer.controller.transcript import trainable
from mypt_infer.decode.prompt import opening
from mypt_infer.stream_parser import StreamParser
from mypt_spec import patch
from mypt_train.export import endings
from tests.dialects.harmony import SHAPE
from tests.support.conversations import conversations
from tests.support.decoding import decoder, generated
from tests.support.harmony import library, ours, theirs
from tests.support.strategies import episodes

D = mypt_spec.dialect("harmony")
TAGS = D.table.special
GIVEN = "<|start|>assistant"


def words(message: Any) -> str:
    """The text of a message of the library; that of the developer as it is written."""
    (content,) = message.content
    if hasattr(content, "text"):
        return str(content.text)
    return str(library().decode(library().render(message)[3:-1]))


def test_ids_are_those_of_the_library() -> None:
    """Both ways: their ids are ours, and what they read in ours is what was said."""
    encoding, d = library(), ours()
    import openai_harmony as harmony

    keep = harmony.RenderConversationConfig(auto_drop_analysis=False)
    for number, record in conversations(SHAPE):
        conversation = harmony.Conversation.from_messages(theirs(record))
        episode, _ = d.read(record)
        assert episode is not None
        ids = d.encode(episode).ids.tolist()
        assert encoding.render_conversation_for_training(conversation, config=keep) == ids, number
        assert d.parse_ids(ids) == (episode, []), number
        read = encoding.parse_messages_from_completion_tokens(ids, role=None)
        given = [(m.channel, m.recipient, m.author.name) for m in conversation.messages]
        assert [(m.channel, m.recipient, m.author.name) for m in read] == given, number
        # The text of options depends on there being tools, so that of the library's message is less.
        head = slice(int("chat_template_kwargs" in record), None)
        said = [words(m) for m in theirs(record)]
        assert [m.content[0].text for m in read][head] == said[head], number


def test_thoughts_of_earlier_turns_are_kept() -> None:
    """The library leaves out those before the first answer, unless it is told to keep them."""
    import_ = pytest.importorskip("openai_harmony")
    said = {"role": "assistant", "reasoning_content": "t", "content": "a"}
    record = {"messages": [{"role": "user", "content": "u"}, said] * 3}
    conversation = import_.Conversation.from_messages(theirs(record))
    episode, _ = ours().read(record)
    assert episode is not None
    text = ours().serialize(episode)
    assert text.count("analysis") == 3
    dropped = library().decode(library().render_conversation_for_training(conversation))
    assert dropped == text.replace(f"<|channel|>analysis<|message|>t<|end|>{GIVEN}", "", 1)


@given(st.data())
def test_the_model_stops_at_return(data: st.DataObject) -> None:
    """After any history; the prompt ends inside of the header, and what was written is legal."""
    made = decoder("harmony", tools=False)
    episode = data.draw(episodes("harmony"))
    messages = tuple(m for m in episode.messages if m.role not in ("call", "result"))
    until = [i for i, m in enumerate(messages) if m.role == "user"]
    cut = data.draw(st.sampled_from(until)) + 1
    prompt = made.ids_of(mypt_spec.Episode("harmony", messages[:cut]))
    assert D.tokenizer.decode(prompt).endswith(GIVEN)
    assert opening(D, prompt) == []
    budget = data.draw(st.integers(4, 16))
    state = made.start(prompt, max_new_tokens=budget)
    out = list(generated(made, state, random.Random(data.draw(st.integers(0, 99)))))
    assert len(out) <= budget
    assert out.index(TAGS["<|return|>"]) == len(out) - 1
    whole, findings = D.parse_ids(prompt + out)
    assert (whole is not None, findings) == (True, [])


@pytest.mark.parametrize("number", range(8))
def test_other_spellings_are_read_as_the_library_reads_them(number: int) -> None:
    """Both read the same call; ours is written in one way, by the fix and by the serialiser."""
    opener = D.table.terminals["CALL_OPEN"]
    assert len(opener.also) == 8
    given = "".join("f" if p.kind == "attr" else p.value for p in opener.also[number])
    call = f"{GIVEN}{opener.spell((('name', 'f'),))}{{}}<|call|>"
    rest = "<|start|>functions.f to=assistant<|channel|>commentary<|message|>1<|end|>"
    whole = (
        f"<|start|>user<|message|>u<|end|>{call}{rest}{GIVEN}<|channel|>final<|message|>a<|return|>"
    )
    text = whole.replace(call, f"{GIVEN}{given}{{}}<|call|>")
    episode, findings = D.parse(text)
    assert episode is not None
    assert [f.code for f in findings] == ["MYP233"]
    assert findings[0].fix is not None
    assert patch.apply(text, findings[0].fix) == D.serialize(episode) == whole
    d = ours()
    parts = re.split("(" + "|".join(map(re.escape, TAGS)) + ")", text)
    ids = [i for p in parts for i in ([d.table.special[p]] if p in TAGS else d.tokenizer.encode(p))]
    read, said = d.parse_ids(ids)
    assert (read, [f.code for f in said]) == (d.read(D.write(episode))[0], ["MYP233"])
    parser = StreamParser(D)
    pieces = [p.event for i in spoken(text) for p in parser.push(i)]
    assert [e.terminal for e in pieces if e.terminal != "TEXT"] == [
        e.terminal for e in D.lex(whole) if e.terminal != "TEXT"
    ]
    if "<|constrain|> json" in given:  # which it writes where it is told to, and cannot read
        with pytest.raises(Exception, match="unexpected tokens remaining in message header"):
            library().parse_messages_from_completion_tokens(ids, role=None)
        return
    found = library().parse_messages_from_completion_tokens(ids, role=None)[1]
    assert (found.channel, found.recipient, found.content[0].text) == (
        "commentary",
        "functions.f",
        "{}",
    )


def test_generation_stops_at_one_id() -> None:
    assert endings(D) == ["<|call|>", "<|return|>"]


def spoken(text: str) -> list[int]:
    parts = re.split("(" + "|".join(map(re.escape, TAGS)) + ")", text)
    return [i for p in parts for i in ([TAGS[p]] if p in TAGS else D.tokenizer.encode(p))]


def test_the_next_turn_takes_the_return_away() -> None:
    """Turn by turn, the ids are those of the whole conversation."""
    said = f"<|channel|>analysis<|message|>t<|end|>{GIVEN}<|channel|>final<|message|>a<|return|>"
    run = Controller(Script(spoken(said * 3)), dialect="harmony", system="S")
    for turn in range(1, 4):
        (*_, end) = run.say("u")
        assert isinstance(end, TurnEnd)
        assert end.reason == "stop"
        question = {"role": "user", "content": "u"}
        answer = {"role": "assistant", "reasoning_content": "t", "content": "a"}
        record = {"messages": [{"role": "system", "content": "S"}] + [question, answer] * turn}
        episode, _ = D.read(record)
        assert episode is not None
        assert run.history.ids == D.encode(episode).ids.tolist()
    assert run.record()["messages"] == record["messages"]
    assert trainable(run.history) == (run.history.ids, [])
    assert replay(json.loads(json.dumps(run.record())), "harmony")[0].ids == run.history.ids


def test_a_turn_that_is_stopped_ends_with_return() -> None:
    run = Controller(Script([]), dialect="harmony", options=Options(max_tokens=12))
    run.source = Script(spoken("<|channel|>analysis<|message|>Hmm and so on and on and on and on"))
    (*_, end) = run.say("Hi")
    assert isinstance(end, TurnEnd)
    assert end.reason == "max_tokens"
    assert run.history.ids[-1] == TAGS["<|return|>"]
    run.source = Script(spoken("<|channel|>final<|message|>Bye.<|return|>"))
    list(run.say("Bye"))
    assert D.tokenizer.decode(run.history.ids).count("<|return|>") == 1
    assert run.record()["messages"][-1] == {"role": "assistant", "content": "Bye."}
