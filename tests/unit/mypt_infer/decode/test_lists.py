"""Lists of calls with ids (usf-omega): what validates can be written, each id once in a message,
within every budget.
"""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from mypt_infer.decode import Decoder
from mypt_infer.decode.base.listed_ids import LONGEST, Ids
from mypt_infer.decode.decoder import machine
from mypt_spec import Episode
from tests.support import build
from tests.support.build import chat, tool, user
from tests.support.decoding import TOOLS, complete, decoder, distances, prompt
from tests.support.examples import either
from tests.support.scripted import ids_of

NAME = "usf-omega"
ENGINES = ("table", "llguidance")
OPEN = "<tool_calls_start>"
IDS = ["c1", "call_0af3", "a", "ab", "abc", "größe 😀", '","', ":", 'q"uo\\te\n', "x" * LONGEST, "9.", "id"]  # fmt: skip


def decoder_by(engine: str) -> Decoder:
    if engine == "llguidance":
        pytest.importorskip("llguidance")
    return decoder(NAME, engine=engine)


def item(number: str | None, name: str = "list_docs", arguments: Any = None) -> dict[str, Any]:
    """A call as lists have it, with its id if it has one."""
    identity = {} if number is None else {"id": number}
    return {**identity, **build.call(name, arguments or {})}


def call(number: str | None, choose: random.Random) -> dict[str, Any]:
    """A call of one of the tools, with arguments that its schema takes."""
    name, arguments = choose.choice(
        [
            ("search", {"query": choose.choice(["", 'x", {"id": "a"', "}]", "größe"]), "exact": True}),
            ("search_all", {"tags": ["}, {", None, 3], "where": {"month": 2}}),
            ("list_docs", {}),
        ]
    )  # fmt: skip
    return item(number, name, arguments)


def record(choose: random.Random) -> dict[str, Any]:
    """A legal record that ends with a message that calls: lists with ids, and single calls with and
    without.
    """
    free = choose.sample(IDS, len(IDS))
    contents: list[dict[str, Any]] = []
    for _ in range(choose.randint(1, 3)):
        count = choose.choice([1, 1, 2, 3])
        ids = [None] if count == 1 and choose.random() < 0.4 else [free.pop() for _ in range(count)]
        contents.append({"type": "tool_calls", "tool_calls": [call(i, choose) for i in ids]})
        if choose.random() < 0.5:
            contents.append({"type": "text", "text": "So."})
    tools = [{"type": "function", "function": t.get("function", t)} for t in TOOLS]
    return chat(user(), {"role": "assistant", "contents": contents}, tools=tools)


def list_text(*ids: str | None, end: str = "]") -> str:
    """The beginning of a list of calls, as text."""
    return OPEN + json.dumps([item(i) for i in ids], ensure_ascii=False)[:-1] + end


def after(of: Decoder, *texts: str) -> int:
    """The state after the prompt and texts of the model."""
    return of.run(of.start(prompt(NAME)), [i for text in texts for i in ids_of(text, NAME)])


def next_id(of: Decoder, text: str) -> int:
    """The first id of a text."""
    return of.dialect.tokenizer.encode(text)[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_legal_record_can_be_written(engine: str) -> None:
    of = decoder_by(engine)
    for seed in range(12 if engine == "table" else 2):
        episode, findings = of.dialect.read(record(random.Random(seed)))
        assert episode is not None
        assert not [f for f in findings if f.severity != "info"]
        messages = [m for m in episode.messages if m.role != "assistant"][:-1]
        ids = of.ids_of(Episode(NAME, tuple(messages)))
        whole = of.dialect.encode(episode).ids.tolist()
        assert whole[: len(ids)] == ids
        state = of.start(ids)
        for at, token in enumerate(whole[len(ids) : -1]):
            assert at % 9 or of.allowed(state)[token]
            state = of.next(state, token)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (list_text("a", end=', {"id": "a'), '",'),
        (list_text("a", "b", end=', {"id": "a'), '"'),
        (list_text("ab", end=', {"id": "a'), 'b",'),
        (OPEN + '[{"id": "', '"'),
        (list_text(None, end=""), ","),
        (list_text(None, end=""), ", "),
        (list_text("a", end=", {"), '"type'),
        (list_text("a", end=', {"'), "type"),
    ],
)
def test_ids_are_distinct_and_stand_where_several_calls_do(
    engine: str, text: str, refused: str
) -> None:
    of = decoder_by(engine)
    state = after(of, text)
    with pytest.raises(ValueError, match="not allowed"):
        of.run(state, of.dialect.tokenizer.encode(refused))
    assert of.allow(state).count


def test_ids_of_a_message_are_distinct_in_all_its_blocks() -> None:
    of = decoder_by("table")
    newline = of.dialect.tokenizer.encode("\n")  # which the model writes between two blocks
    begun = [*ids_of(list_text("a", "b") + "<tool_calls_end>", NAME), *newline]
    again, before = ids_of(OPEN + '[{"id": "b', NAME), [*of.ids_of(prompt(NAME)), *begun]
    for state in (
        of.run(of.start(prompt(NAME)), [*begun, *again]),
        of.run(of.start(before), again),
        of.start([*before, *again]),
    ):
        assert not of.allowed(state)[next_id(of, '",')]
        assert of.allowed(state)[next_id(of, "c")]
    special = of.dialect.tokenizer.special
    episode, _ = of.dialect.parse_ids([*before, special["<end>"], *newline, special["<eos>"]])
    assert episode is not None


def test_a_later_message_may_use_an_id_again() -> None:
    of = decoder_by("table")
    asked = {"role": "assistant", "tool_calls": [call("a", random.Random(1))]}
    episode, findings = of.dialect.read(chat(user(), asked, tool("1", tool_call_id="a")))
    assert episode is not None
    assert not [f for f in findings if f.severity == "error"]
    state = of.run(of.start(episode), ids_of(OPEN + '[{"id": "a', NAME))
    assert of.allowed(state)[next_id(of, '",')]


@pytest.mark.parametrize("engine", ENGINES)
def test_lists_end_within_every_budget(engine: str) -> None:
    """From everywhere in a list, at the least budget and a little more: ids that collide are gone
    around.
    """
    of = decoder_by(engine)
    before = of.ids_of(prompt(NAME))
    body = ids_of(list_text("0", "!", "00", ",", end=', {"id": "00'), NAME)
    for cut in range(2, len(body) + 1, either(19, 9)) if engine == "table" else (5, len(body)):
        place = of.run(of.start(before), body[:cut])
        least = of.minimum(place)
        for more in (0, 1, 4):
            for seed in range(either(1 + (more == 1), 2)):
                choose = random.Random(f"{cut} {more} {seed}")
                state = of.at(machine(place), max_new_tokens=least + more)
                out = list(body[:cut])
                while not of.final(state):
                    ids = of.ids(state)
                    assert len(ids), of.dialect.tokenizer.decode(out)
                    near = distances(of, state, ids)
                    worst = int(near.argmax()) if seed else choose.randrange(len(ids))
                    out.append(int(ids[worst]))
                    state = of.next(state, out[-1])
                assert len(out) <= cut + least + more
                assert complete(of, before + out), of.dialect.tokenizer.decode(out)


def test_what_is_offered_is_taken_and_nothing_else() -> None:
    """All ids, in places all over a list, with a tight budget and with none."""
    of = decoder_by("table")
    before, choose = of.ids_of(prompt(NAME)), random.Random(0)
    body = ids_of(list_text("ab", "a", "abc", end=', {"id": "abcd", "type": "fun'), NAME)
    for cut in range(1, len(body), either(9, 4)):
        place = of.run(of.start(before), body[:cut])
        for budget in (None, of.minimum(place), of.minimum(place) + 2):
            state = of.at(machine(place), max_new_tokens=budget)
            allowed = of.allowed(state)
            tokens = [*np.flatnonzero(allowed)[:20].tolist(), *choose.sample(range(50275), 20)]
            for token in tokens:
                if allowed[token]:
                    then = of.next(state, int(token))
                    assert of.final(then) or of.allow(then).count
                else:
                    with pytest.raises(ValueError, match="not allowed"):
                        of.next(state, int(token))


def test_a_long_id_is_not_gone_on_with() -> None:
    of = decoder_by("table")
    state = after(of, OPEN + '[{"id": "' + "x" * LONGEST)
    assert {of.dialect.tokenizer.decode([i])[0] for i in of.ids(state)} == {'"'}
    half = after(of, OPEN + '[{"id": "' + "x" * (LONGEST - 1))
    token = next(i for i in of.ids(half) if of.dialect.tokenizer.decode_bytes([int(i)]) == b"\xc3")
    assert not of.final(of.next(half, int(token)))
    assert of.allow(of.next(half, int(token))).count, "a character is completed"


def test_where_a_list_stops() -> None:
    def read(text: str) -> Ids | None:
        return Ids().read(text.removeprefix(OPEN).encode())

    ids, alone = read(list_text("a", 'b"\\', end=', {"id": "c')), read(list_text(None))
    assert ids is not None
    assert (ids.seen, ids.inside) == ({b"a", b'b\\"\\\\'}, b"c")
    assert read(list_text("a", "a")) is None
    assert alone is not None
    assert (alone.seen, alone.depth) == (frozenset(), -1)


def test_whatever_makes_no_list_has_the_tables_own_states() -> None:
    of = decoder_by("table")
    state = of.start(prompt(NAME))
    for token in ids_of("<message_start>Hi", NAME):
        state = of.next(state, token)
        assert machine(state) < of.tables.size
    assert machine(after(of, list_text(None)[:-20])) < of.tables.size


def test_text_behind_a_list_is_as_free_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    of = decoder_by("table")
    first = after(of, "<message_start>Hi")
    newline = of.dialect.tokenizer.encode("\n")
    later = of.run(after(of, list_text("a") + "<tool_calls_end>"), newline)
    later = of.run(later, ids_of("<message_start>Hi", NAME))
    assert machine(later) >= of.tables.size
    monkeypatch.setattr(Ids, "read", None)  # nothing of it is looked at as a list
    assert (of.allowed(later) == of.allowed(first)).all()


def test_tables_stay_small() -> None:
    of = decoder_by("table")
    assert of.tables.size < 16_000  # one tool of three arguments, which come in any order
    assert of.tables.after.size < 4_000_000
