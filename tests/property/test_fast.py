"""The fast path: what it calls clean, the checker has nothing to say about.

And clean lines it does call clean.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from contextlib import suppress
from functools import cache
from itertools import accumulate
from random import Random
from typing import Any

import numpy  # noqa: F401 - a way of counting is tested with it loaded
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.adapter_scan import AdapterScan
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_records.prefilter import TextBytes
from mypt_spec import Limits
from mypt_spec.adapters.message_splitter import MessageSplitter, unescaped_quotes
from mypt_spec.adapters.splitter import splitter
from mypt_spec.damage.cut_tags import fragment, fragment_spots
from mypt_spec.damage.near_miss import near_miss, sieve
from tests.support.build import assistant, call, chat, function, lines, system, tool, user
from tests.support.examples import examples
from tests.support.fast_paths import assert_sound, codes_of, parts
from tests.support.lines import LIMITS, TRAPS, any_lines, chat_text, tool_text
from tests.support.maker import drawn, fragments, line
from tests.support.strategies import DIALECTS, legal, lines_of, mutate, records, tag_texts


@cache
def checker(name: str) -> Checker:
    return Checker(mypt_spec.dialect(name))


@cache
def prover(name: str) -> CleanFilter:
    """Returns a filter for all examples: what it learns of one record is tried on others."""
    return CleanFilter(checker(name))


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_sound(name: str, data: st.DataObject) -> None:
    raw = data.draw(st.lists(any_lines(name), min_size=1, max_size=4))
    assert_sound(CleanFilter(Checker(mypt_spec.dialect(name), data.draw(LIMITS))), raw)
    assert_sound(prover(name), raw)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_sound_for_many_turns(name: str, data: st.DataObject) -> None:
    """Turns are judged one by one; a rule that sees more of an episode than a turn would show here."""
    some = CleanFilter(Checker(mypt_spec.dialect(name), data.draw(LIMITS)))
    assert_sound(some, lines(*data.draw(drawn(lambda random: many_turns(random, name)))))


def many_turns(random: Random, name: str) -> list[Any]:
    """Returns a record that has pieces of others one after another, and these."""
    clean = random.choice((True, False))
    pool = [legal(random, name, clean=clean) for _ in range(random.randint(2, 4))]
    pieces = [record["messages"] for record in pool]
    for messages in [*pieces]:
        at = random.randint(0, len(messages))
        pieces.append(messages[at : at + random.randint(1, 3)])
    chosen = [random.choice(pieces) for _ in range(random.randint(4, 8))]
    return [pool[0] | {"messages": [message for piece in chosen for message in piece]}, *pool]


DIVIDED = [
    name
    for name in DIALECTS
    if isinstance(splitter(mypt_spec.dialect(name).adapter), MessageSplitter)
]


def rich(name: str) -> Any:
    """Returns a clean record with all that the format takes of: thoughts, calls, a weight."""
    return json.loads(_rich(name))


@cache
def _rich(name: str) -> bytes:
    asked = [
        call("f", {"q": "a", "n": 1, "x": 1.5, "l": ["b", {"c": ""}]}, id="call00001"),
        call("g", '{"q": "a \\"b\\" \\\\", "n": 2}', id="call00002"),
    ]
    thought, weighed = {"reasoning_content": "t"}, {"weight": 0.5}
    for most in (2, 1, 0):
        message = assistant(None, tool_calls=asked[:most])
        results = [tool("r", tool_call_id=c["id"]) for c in asked[:most]]
        more = {"tools": [function("f"), function("g")]} if most else {}
        for notes in (thought | weighed, thought, weighed, {}):
            called = [message | notes, *results] if most else []
            messages = [user(), *called, assistant("Hi", **notes), user(), *called, assistant("Hi")]
            for first in ([system("Hi")], []):
                (raw,) = lines(chat(*first, *messages, **more))
                if not codes_of(checker(name), raw):
                    return raw
    raise AssertionError("no record is clean")


def changed(random: Random, record: Any, tag: str) -> bytes:
    """Returns a line of the record with one change, which a skeleton must show, or leave uncounted."""
    made = json.loads(json.dumps(record))
    places = parts(made["messages"]) + parts(made)[:4]
    chosen = random.choice(sorted({str(key) for _, key in places}))
    where, key = random.choice([place for place in places if str(place[1]) == chosen])
    values: list[Any] = [None, "", " ", tag, 1, 1.0, True, 2**60, [], [1], {}, "{}", '{"q": "a", "n": 2, "n": 2}']  # fmt: skip
    values += [json.loads(json.dumps(at[k])) for at, k in places if k == key] * 3
    how = random.choice(("value", "value", "value", "value", "none", "more", "twice", "bytes"))
    if how == "value":
        where[key] = random.choice(values)
    elif how == "none":
        del where[key]
    elif how == "more" and isinstance(where, dict):
        names = ("_note", "_mypt_lint", "weight", "name", "thinking", "content", "tool_calls", "x")
        where[random.choice(names)] = random.choice(values)
    elif how == "twice" and isinstance(where, list):
        where.insert(key, where[key])
    raw = line(random, made)
    return mutate(random, raw) if how == "bytes" else raw


@pytest.mark.parametrize("name", DIVIDED)
@settings(max_examples=examples(60))
@given(st.booleans(), st.data())
def test_a_skeleton_shows_each_change(name: str, noted: bool, data: st.DataObject) -> None:
    """After a record is known to be clean, no line is taken for it that has a finding."""
    tag = sorted(checker(name).dialect.table.special)[0]
    first = rich(name) | ({"_note": ["x", {"y": 1}]} if noted else {})

    def changes(random: Random) -> list[bytes]:
        record = random.choice((first, rich(name)))
        return [changed(random, record, tag) for _ in range(random.randint(4, 8))]

    fresh = CleanFilter(checker(name))
    assert not fresh.doubtful([json.dumps(first).encode()])
    assert_sound(fresh, [json.dumps(first).encode(), *data.draw(drawn(changes))])


@pytest.mark.parametrize("name", DIVIDED)
@pytest.mark.parametrize("note", [{}, {"_note": ["x"]}])
def test_a_line_like_another_is_not_judged(
    name: str, note: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = rich(name) | note
    fresh = CleanFilter(checker(name))
    for _ in range(2):  # what is rare is learnt first
        assert not fresh.doubtful([json.dumps(record).encode()])
    record["messages"][-1]["content"] = "other words"
    for message in record["messages"]:
        message |= {"weight": 0.25} if "weight" in message else {}
    monkeypatch.delattr(AdapterScan, "_judge")
    assert not fresh.doubtful([json.dumps(record).encode()])


@pytest.mark.parametrize("name", ["mypt", "praxis", "qwen3"])
def test_what_no_splitter_looks_at_ends_nothing(name: str) -> None:
    """Bytes that are no UTF-8, and whole numbers beyond 64 bits, in members that are skipped."""
    record = json.dumps(chat(user("Hi"), assistant("Yes."))).encode()
    for member in (b'"_l\xb4": "pt"', b'"_l": {"\xb4": 1}', b'"_l": ' + b"1" * 400):
        fresh = CleanFilter(checker(name))
        assert_sound(fresh, [record[:-1] + b", " + member + b"}"] * 2)


@pytest.mark.parametrize("name", ["mypt", "praxis", "qwen3", "usf-omega"])
@pytest.mark.parametrize("key", ["_a\\b", '_"', "_\x1f", "_\u2028", "_\ue000"])
def test_keys_of_metadata_may_have_any_characters(name: str, key: str) -> None:
    for messages in ([user("Hi"), assistant("Yes.")], [user("Hi", **{key: 1}), assistant("Yes.")]):
        noted = json.dumps(chat(*messages, **{key: {"x": "y"}})).encode()
        fresh = CleanFilter(checker(name))
        assert_sound(fresh, [noted, json.dumps(chat(*messages, _n=1)).encode()] * 2)


@pytest.mark.parametrize("name", ["mypt", "gabgpt", "praxis", "mypt-3b", "qwen3", "usf-omega"])
def test_the_beginning_of_a_record_is_judged_as_a_record(name: str) -> None:
    """Also where pieces of records before began like it, and were no error there."""
    said = [[user("Hi")] * n + [assistant("Yes.")] * (n < 5) for n in (3, 2, 1, 5)] * 2
    begun = [some[:n] for some in said for n in (len(some), 1, 2)]
    head = {"system": "S"} if "system" in checker(name).dialect.adapter.SCHEMA.top else {}
    assert_sound(CleanFilter(checker(name)), lines(*(chat(*some, **head) for some in begun)))


@pytest.mark.parametrize("name", DIVIDED)
def test_a_key_of_messages_in_the_record(name: str) -> None:
    fresh = CleanFilter(checker(name))
    for key in ("tool_calls", "content", "reasoning_content", "weight"):
        for value in ([None], [{"function": {"arguments": {"q": "x"}}}], "x", {}):
            assert_sound(fresh, lines(rich(name) | {key: value}))


@pytest.mark.parametrize("name", DIVIDED)
def test_keys_that_are_null_are_proved(name: str) -> None:
    """As in files whose messages all have the same columns; another value there is a finding."""
    record = rich(name)
    nulls = dict.fromkeys(("tool_calls", "tool_call_id", "name", "weight", "reasoning"))
    record["messages"] = [nulls | message for message in record["messages"]]
    fresh = CleanFilter(checker(name))
    line = json.dumps(record).encode()
    assert [not fresh.doubtful([line]), fresh.unproved(line + b"\n" + line + b"\n")] == [
        True,
        (2, []),
    ]
    for key in nulls:
        for value in ("x", 0.5, [], {}):
            other = json.loads(line)
            other["messages"][0][key] = value
            assert_sound(fresh, [line, json.dumps(other).encode()])


@pytest.mark.parametrize("name", DIVIDED)
@pytest.mark.parametrize("where", ["record", "message"])
def test_an_unknown_key_is_not_taken_for_metadata(name: str, where: str) -> None:
    """The first record with metadata teaches no skeleton that does not show it."""

    def with_key(key: str) -> bytes:
        record = rich(name)
        (record if where == "record" else record["messages"][-1])[key] = 1
        return json.dumps(record).encode()

    for first in ([], [with_key("_note")], [with_key("_note")] * 2):
        fresh = CleanFilter(checker(name))
        assert not [one for one in first if fresh.doubtful([one])]
        assert fresh.doubtful([with_key("x")])
        fresh = CleanFilter(checker(name))
        for _ in range(2):  # in one block with what is learnt from, and after it
            block = b"\n".join([*first, with_key("x")])
            assert [i for i, _ in fresh.unproved(block)[1]] == [len(first)]


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_complete(name: str, data: st.DataObject) -> None:
    """Speed must not die in silence: a line without findings is proved clean, but for the
    exceptions named here.
    """
    record = data.draw(records(name))
    raw = data.draw(lines_of(record))
    some = Checker(mypt_spec.dialect(name), data.draw(LIMITS))
    if (
        codes_of(some, raw)
        or beyond(record)
        or empty(record)
        or some.limits.schemas
        or piece_of_tag(record)
        or tag_in_metadata(record)
        or (some.limits.max_tokens or 10**9) < 2 * len(raw + b"\n")
    ):
        return
    assert not CleanFilter(some).doubtful([raw])
    assert CleanFilter(some).unproved(raw + b"\n" + raw + b"\n") == (2, [])


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=examples(200))
@given(st.data())
def test_no_tag_begins_otherwise(name: str, data: st.DataObject) -> None:
    """What the sieve does not find holds neither a tag nor anything that is almost one."""
    table = mypt_spec.dialect(name).table
    text = data.draw(tag_texts(name))
    if table.literals.search(text) or near_miss(text, table):
        for form in (text, json.dumps(text, ensure_ascii=False)):
            encoded = form.encode("utf-8", "surrogatepass").lower()
            assert any(regex.search(encoded) for regex in sieve(table))


@pytest.mark.parametrize(
    "tags", [("<tin>", "</tin>"), ("<a>", "</a>", "</>", "<a>\n</b>"), ("[x]",)]
)
def test_joined_texts_have_a_spot_in_each_text_with_a_cut_tag(tags: tuple[str, ...]) -> None:
    cut = [f"{lead}{tag[a:b]}{end}" for tag in tags for a in range(3) for b in range(1, len(tag) + 1)
           for lead in ("", "x ", "é") for end in ("", " \n", " y", "-")]  # fmt: skip
    texts = [text for one in cut for text in (one, "a <b> c > d")]
    spots = [*fragment_spots("\n".join(texts), tags)]
    ends = [*accumulate(len(text) + 1 for text in texts)]
    torn = {i for i, text in enumerate(texts) if fragment(text, tags)}
    assert torn <= {bisect_right(ends, at) for at in spots}
    assert len(torn) > 20 or tags == ("[x]",)
    if "<tin>" in tags:
        assert {bisect_right(ends, at) for at in spots} <= set(range(0, len(texts), 2))


@pytest.mark.parametrize("name", [*DIALECTS, "mistral-v1", "kimi-k2", "deepseek-v3.1", "gemma4"])
@settings(max_examples=examples(60))
@given(st.data())
def test_joined_texts_are_doubtful_where_each_is(name: str, data: st.DataObject) -> None:
    dialect = mypt_spec.dialect(name)
    texts = CleanTexts(dialect.table, dialect.automaton)
    pieces = [*fragments(name), *texts.ends, *texts.begins, *"aK<#>\0\u0130\u212a\ud800\uff5c /\\"]
    some = st.lists(st.sampled_from(pieces), min_size=1, max_size=3).map("".join).filter(str.strip)
    drawn = data.draw(st.lists(some, min_size=1, max_size=4))
    alone = [i for i, text in enumerate(drawn) if texts.doubtful([text])]
    assert {*alone} <= {*texts.doubtful(drawn, TextBytes(drawn))}


def test_an_answer_with_more_calls_than_the_record_has_messages_is_proved() -> None:
    contents = [
        item for name in ("a", "b", "c")
        for item in ({"type": "toolcall", "name": name, "arguments": {}}, {"type": "toolresult", "content": "r"})
    ]  # fmt: skip
    (raw,) = lines(chat(user(), {"role": "assistant", "contents": contents}))
    assert not CleanFilter(checker("praxis")).doubtful([raw])


@pytest.mark.parametrize("schema", [False, {"type": ["string", "null"]}, {"type": "string"}])
def test_arguments_with_schemas_of_any_kind_are_proved(schema: Any) -> None:
    asked = {"role": "assistant", "tool_calls": [call("f", {}, id="c")]}
    messages = [user(), asked, tool("r", tool_call_id="c"), assistant("Hi")]
    (raw,) = lines(chat(*messages, tools=[function("f", {"q": schema})]))
    assert not CleanFilter(checker("usf-omega")).doubtful([raw])


def beyond(value: Any) -> bool:
    """What the fast path leaves to the checker: numbers from 2**53 on, which it pairs with no tool."""
    if isinstance(value, dict):
        return any(beyond(v) for v in value.values())
    if isinstance(value, list):
        return any(map(beyond, value))
    if isinstance(value, str) and value.startswith("{"):  # arguments that are a text
        with suppress(ValueError):
            return beyond(json.loads(value))
    return isinstance(value, int | float) and not -(2**53) < value < 2**53


def empty(record: Any) -> bool:
    """A content may be empty in some dialects, and a name blank.

    The fast path leaves it to the checker everywhere.
    """
    values = [value for message in record["messages"] for value in message.values()]
    return any(isinstance(value, str) and not value.strip() for value in values)


def piece_of_tag(record: Any) -> bool:
    """A tool may have the name `<ti` or `tin>`, which in content would be a tag cut short.

    The fast path leaves it to the checker.
    """
    items = [item for message in record["messages"] for item in message.get("contents", ())]
    names = [item.get("name", "") for item in items if isinstance(item, dict)]
    return any("<" in name or ">" in name for name in names)


def tag_in_metadata(record: Any) -> bool:
    """What may spell a tag in metadata is left to the checker, which has nothing against it."""
    items = (record, *record["messages"])
    held = [value for item in items for key, value in item.items() if key.startswith("_")]
    return any(sign in json.dumps(held) for sign in ("<", "[BOS]", "[SEP]", "[EOS]"))


@pytest.mark.parametrize("trap", TRAPS)
def test_known_traps(trap: str) -> None:
    clean, metadata, raw = lines(chat_text(), chat_text(', "_x": "m"'), trap)
    assert codes_of(checker("mypt"), raw)
    assert_sound(CleanFilter(checker("mypt")), [clean, raw, metadata, clean, raw])
    if not trap.endswith("\r"):
        block = b"\n".join([clean] * 3 + [raw, metadata])
        assert [i for i, _ in CleanFilter(checker("mypt")).unproved(block)[1]] == [3]


@pytest.mark.parametrize("phase", [1, 3])
def test_a_system_prompt_that_is_one_quoted_call(phase: int) -> None:
    limited = Checker(mypt_spec.dialect("mypt"), Limits(phase=phase))
    raw = chat_text(system='"<myPT_toolcall>x</myPT_toolcall>"').encode()
    assert codes_of(limited, raw) == ["MYP401"]
    assert_sound(CleanFilter(limited), [raw, raw])


def test_a_record_over_two_lines_and_two_on_one() -> None:
    """As many records as lines, but not one on each."""
    clean = chat_text()
    halves = clean.replace(', "messages"', '\n, "messages"', 1)
    fresh = CleanFilter(checker("mypt"))
    two = (
        clean + halves,
        halves + clean,
        f"{clean}{clean}\n\n{clean}",
        f"{clean}\n{halves}{clean}",
    )
    for data in two:
        count, doubtful = fresh.unproved(data.encode() + b"\n")
        rows = data.split("\n")
        assert count == len(rows)
        assert {i for i, row in enumerate(rows) if row != clean} <= {i for i, _ in doubtful}


QUOTED = st.sampled_from([b"\\", b"\\\\", b'"', b"a", b"\n", b"\\" * 61, b"\\" * 64, b'\\"'])


@given(st.lists(QUOTED, max_size=40))
def test_counting_quotes(pieces: list[bytes]) -> None:
    block = b"".join(pieces)
    plain = 0
    escaped = False
    for byte in block:
        plain += byte == ord('"') and not escaped
        escaped = byte == ord("\\") and not escaped
    assert unescaped_quotes(block) == plain
    assert unescaped_quotes(bytearray(block)) == plain


EXPONENTS = st.integers(0, 18).map(lambda e: f"{e}e{e}")
SHORT = EXPONENTS | st.sampled_from(["1e15", "9e15", "123e13", "[]", "{}", "0", "1E9"])


@given(st.lists(SHORT, min_size=50, max_size=200))
def test_tokens_are_at_most_twice_the_bytes(values: list[str]) -> None:
    """What lets the fast path skip counting tokens under a limit."""
    d = mypt_spec.dialect("mypt")
    raw = tool_text(result=f"[{','.join(values)}]").replace(", ", ",").replace(": ", ":")
    episode, _ = d.read(json.loads(raw))
    assert len(d.encode(episode)) <= 2 * len(raw)


def test_a_tag_without_the_space_before_it_is_in_no_clean_text() -> None:
    dialect = mypt_spec.dialect("mistral-v1")
    texts = CleanTexts(dialect.table, dialect.automaton)
    assert texts.doubtful(["Yes.", "Fine[/INST]ok"]) == [1]
