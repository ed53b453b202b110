"""The chat formats of the world: where a model stops, and tags whose last white space is the system's."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.controller import Controller, Options, Script, replay
from mypt_infer.controller.events import TurnEnd
from mypt_infer.controller.history import FORCED, INJECTED, PROMPT
from mypt_infer.decode.prompt import opening
from mypt_lint.check.checker import Checker
from mypt_spec import SpecError
from mypt_spec.dialect import grammar_root
from mypt_spec.table_file import load_table
from mypt_spec.tokenizer.tokenizer import gpt2
from mypt_train.export import endings
from tests.support.chat_shapes import Shape
from tests.support.checked import check_generation
from tests.support.decoding import decoder, generated
from tests.support.maker import drawn
from tests.support.strategies import episodes

STOPS = {"chatml": "<|im_end|>", "llama3": "<|eot_id|>"}
NAMES = pytest.mark.parametrize("name", STOPS)
END = gpt2().encode_ordinary("\n")


def chat(name: str) -> st.SearchStrategy[mypt_spec.Episode]:
    """Conversations without tools."""
    return drawn(Shape(name=name).record).map(lambda r: mypt_spec.dialect(name).read(r)[0])


@NAMES
@given(st.data())
def test_the_model_stops_at_the_end_tag(name: str, data: st.DataObject) -> None:
    """After any history; what it wrote has no finding, and the last id is that of the end tag."""
    d, made = mypt_spec.dialect(name), decoder(name, tools=False)
    episode = data.draw(chat(name))
    until = [i for i, m in enumerate(episode.messages) if m.role == "user"]
    cut = data.draw(st.sampled_from(until)) + 1
    prompt = made.ids_of(mypt_spec.Episode(name, episode.messages[:cut]))
    budget = data.draw(st.integers(1, 12))
    state = made.start(prompt, max_new_tokens=budget)
    out = list(generated(made, state, random.Random(data.draw(st.integers(0, 99)))))
    assert len(out) <= budget
    assert out[-1] == d.table.special[STOPS[name]]
    assert out.count(out[-1]) == 1
    whole, findings = d.parse_ids(prompt + out)
    assert (whole is not None, findings) == (True, [])
    written = d.tokenizer.decode(out)
    assert written.endswith(STOPS[name])
    told = check_generation(Checker(d), written, prompt=d.tokenizer.decode(prompt))
    assert [item.finding for item in told] == []


@given(st.data())
def test_a_prompt_has_the_last_line_end_or_not(data: st.DataObject) -> None:
    """The history of the turns before, up to the end tag of the user, with the line end and without."""
    d, made = mypt_spec.dialect("chatml"), decoder("chatml", tools=False)
    episode = data.draw(episodes("chatml"))
    until = [i for i, m in enumerate(episode.messages) if m.role == "user"]
    cut = data.draw(st.sampled_from(until)) + 1
    whole = d.encode(mypt_spec.Episode("chatml", episode.messages[:cut]), partial=True).ids.tolist()
    short = whole[: -len(END)]
    assert whole[len(short) :] == END
    header = [50257, *gpt2().encode_ordinary("assistant\n")]
    assert opening(d, whole) == header
    assert opening(d, short) == END + header
    assert made.start(whole + header) == made.start(short + header), "read with and without"


def controller(name: str, *answers: str, **more: object) -> Controller:
    d = mypt_spec.dialect(name)
    ids = [i for a in answers for i in [*d.tokenizer.encode(a), d.table.special[STOPS[name]]]]
    return Controller(Script(ids), dialect=name, **more)  # type: ignore[arg-type]


@NAMES
@given(data=st.data())
def test_the_next_turn_writes_the_line_end(name: str, data: st.DataObject) -> None:
    """Turn by turn, the ids are those of the whole conversation; the last line end is missing."""
    d = mypt_spec.dialect(name)
    episode = data.draw(chat(name))
    texts = {role: [m.text for m in episode.messages if m.role == role] for role in d.table.openers}
    if "" in texts["user"] or any(not t.strip() for t in texts["user"]):
        return
    system = next(iter(texts["system"]), "")
    run = controller(name, *texts["assistant"], **({"system": system} if system else {}))
    for said in texts["user"]:
        events = list(run.say(said))
        assert isinstance(events[-1], TurnEnd)
        assert events[-1].reason == "stop"
        assert run.history.ids[-1] == d.table.special[STOPS[name]]
    messages = [m for m in episode.messages if m.role != "system" or system]
    whole = d.encode(mypt_spec.Episode(name, tuple(messages))).ids.tolist()
    assert run.history.ids + run.history.trailing_ids == whole
    assert {origin for origin, _ in run.history.origins} >= {PROMPT, INJECTED}
    assert replay(json.loads(json.dumps(run.record())), name)[0].ids == run.history.ids


def test_a_turn_that_is_stopped_ends_with_the_end_tag() -> None:
    run = controller("chatml", options=Options(max_tokens=4))
    run.source = Script(gpt2().encode_ordinary("Hello and so on and on"))
    events = list(run.say("Hi"))
    assert isinstance(events[-1], TurnEnd)
    assert events[-1].reason == "max_tokens"
    assert run.history.ids[-1] == 50258
    assert run.history.origins[-1][0] == FORCED
    run.source = Script([*gpt2().encode_ordinary("Bye."), 50258])
    list(run.say("Bye"))
    text = run.history.dialect.tokenizer.decode(run.history.ids)
    assert text.count("<|im_end|>\n") == 3
    assert text.endswith("Bye.<|im_end|>")


@NAMES
def test_generation_stops_at_the_end_tag(name: str) -> None:
    calls = ["<|eom_id|>"] * (name == "llama3")
    assert endings(mypt_spec.dialect(name)) == [*calls, STOPS[name]]  # the end of a turn last


TABLE = (grammar_root() / "chatml/tokens.toml").read_text(encoding="utf-8")
TRAIL = '{ space = "\\n", exact = true, loss = 0 }'


@pytest.mark.parametrize(
    ("spelling", "says"),
    [
        ('{ space = "\\n", loss = 0 }', "of an exact space"),
        ('{ space = "\\n", exact = true, loss = 2 }', '"loss" is 0 or 1'),
        (f'{TRAIL}, {{ text = "x" }}', "is the last one, after a special piece"),
        (f'{{ text = "x" }}, {TRAIL}', "is the last one, after a special piece"),
        ('{ text = "x", loss = 0 }', "of an exact space"),
    ],
)
def test_a_wrong_piece_of_the_system_is_refused(spelling: str, says: str) -> None:
    with pytest.raises(SpecError, match=re.escape(says)):
        load_table(TABLE.replace(TRAIL, spelling))


def test_one_special_piece_has_one_line_end_after_it() -> None:
    row = TABLE[TABLE.index('[[terminal]]\nname = "END"') :].partition("# Names")[0]
    other = row.replace('"END"', '"OTHER"').replace(TRAIL, TRAIL.replace("\\n", "\\n\\n"))
    other = other.replace('"system", "user", ', "")
    more = TABLE.replace(row, row.replace(', "assistant"', "") + other)
    with pytest.raises(SpecError, match="other white space after it"):
        load_table(more)
