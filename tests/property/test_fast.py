"""The fast path: what it calls clean, the checker has nothing to say about.

And clean lines it does call clean.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.adapter_scan import AdapterScan
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_spec import Limits
from mypt_spec.damage.near_miss import beginnings, near_miss
from tests.support.examples import examples
from tests.support.lines import LIMITS, TRAPS, any_lines, chat_text, tool_text
from tests.support.strategies import (
    DIALECTS,
    lines_of,
    mutated,
    records,
)


def says(checker: Checker, line: bytes) -> list[str]:
    return [item.finding.code for item in checker.line(line, row=2, filename="")]


def agree(prover: CleanFilter, lines: list[bytes]) -> None:
    """No line is called clean that the checker has something to say about: one by one, in blocks,
    and asked again.
    """
    found = [says(prover.checker, line) for line in lines]
    for _ in range(2):
        for line, codes in zip(lines, found, strict=True):
            assert not (prover.clean(line) and codes), (line, codes)
        count, doubtful = prover.unproved(b"".join(line + b"\n" for line in lines))
        assert count == len(lines)
        assert [lines[i] for i, _ in doubtful] == [raw for _, raw in doubtful]
        assert {i for i, codes in enumerate(found) if codes} <= {i for i, _ in doubtful}


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_sound(name: str, data: st.DataObject) -> None:
    prover = CleanFilter(Checker(mypt_spec.dialect(name), data.draw(LIMITS)))
    lines = data.draw(
        st.lists(any_lines(name).filter(lambda line: b"\n" not in line), min_size=1, max_size=4)
    )
    agree(prover, lines)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_sound_for_many_turns(name: str, data: st.DataObject) -> None:
    """Turns are judged one by one; a rule that sees more of an episode than a turn would show here."""
    prover = CleanFilter(Checker(mypt_spec.dialect(name), data.draw(LIMITS)))
    pool = data.draw(
        st.lists(records(name, clean=data.draw(st.booleans())), min_size=2, max_size=4)
    )
    pieces = [record["messages"] for record in pool]
    pieces += [
        messages[data.draw(st.integers(0, len(messages))) :][: data.draw(st.integers(1, 3))]
        for messages in pieces
    ]
    order = data.draw(st.lists(st.sampled_from(pieces), min_size=4, max_size=8))
    whole = pool[0] | {"messages": [message for piece in order for message in piece]}
    agree(prover, [json.dumps(whole).encode(), *(json.dumps(record).encode() for record in pool)])


OUTLINED = [name for name in DIALECTS if mypt_spec.dialect(name).adapter.outlines() is not None]


def parts(value: Any) -> list[tuple[Any, Any]]:
    """Returns (container, key) of all values in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()  # fmt: skip
    return [found for key, inner in items for found in [(value, key), *parts(inner)]]


def rich(checker: Checker) -> Any:
    """Returns a clean record with all that the format takes of: thoughts, calls, a weight."""
    calls = [
        {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"q": "a", "n": 1, "x": 1.5, "l": ["b", {"c": ""}]}}},
        {"id": "call00002", "type": "function", "function": {"name": "g", "arguments": '{"q": "a \\"b\\" \\\\", "n": 2}'}},
    ]  # fmt: skip
    system, user, answer = ({"role": role, "content": "Hi"} for role in ("system", "user", "assistant"))  # fmt: skip
    tools = [{"type": "function", "function": {"name": n, "description": "d", "parameters": {"type": "object"}}} for n in "fg"]  # fmt: skip
    thought, weighed = {"reasoning_content": "t"}, {"weight": 0.5}
    for most in (2, 1, 0):
        asked: Any = {"role": "assistant", "content": None, "tool_calls": calls[:most]}
        results = [{"role": "tool", "tool_call_id": c["id"], "content": "r"} for c in calls[:most]]
        more = {"tools": tools} if most else {}
        for notes in (thought | weighed, thought, weighed, {}):
            called = [asked | notes, *results] if most else []
            messages = [user, *called, answer | notes, user, *called, answer]
            for first in ([system], []):
                record = {"messages": [*first, *messages]} | more
                if not says(checker, json.dumps(record).encode()):
                    return record
    raise AssertionError("no record is clean")


@st.composite
def changed(draw: st.DrawFn, record: Any, tag: str) -> bytes:
    """A line of the record with one change, which an outline must show, or leave uncounted."""
    made = json.loads(json.dumps(record))
    found = parts(made["messages"]) + parts(made)[:4]
    chosen = draw(st.sampled_from(sorted({str(key) for _, key in found})))
    where, key = draw(st.sampled_from([part for part in found if str(part[1]) == chosen]))
    values = [
        None,
        "",
        " ",
        tag,
        1,
        1.0,
        True,
        2**60,
        [],
        [1],
        {},
        "{}",
        '{"q": "a", "n": 2, "n": 2}',
    ]
    values += [json.loads(json.dumps(at[k])) for at, k in found if k == key] * 3
    how = draw(
        st.sampled_from(["value", "value", "value", "value", "none", "more", "twice", "bytes"])
    )
    if how == "value":
        where[key] = draw(st.sampled_from(values))
    elif how == "none":
        del where[key]
    elif how == "more" and isinstance(where, dict):
        names = ["_note", "_mypt_lint", "weight", "name", "thinking", "content", "tool_calls", "x"]
        where[draw(st.sampled_from(names))] = draw(st.sampled_from(values))
    elif how == "twice" and isinstance(where, list):
        where.insert(key, where[key])
    line = draw(lines_of(made))
    return draw(mutated(st.just(line))) if how == "bytes" else line


@pytest.mark.parametrize("name", OUTLINED)
@settings(max_examples=examples(60))
@given(st.data())
def test_an_outline_shows_each_change(name: str, data: st.DataObject) -> None:
    """After a record is known to be clean, no line is taken for it that has a finding."""
    checker = Checker(mypt_spec.dialect(name))
    record = rich(checker)
    tag = sorted(checker.dialect.table.special)[0]
    noted = record
    if data.draw(st.booleans()):
        noted = record | {"_note": ["x", {"y": 1}]}
    prover = CleanFilter(checker)
    line = json.dumps(noted).encode()
    assert prover.clean(line)
    some = changed(noted, tag) | changed(record, tag)
    agree(prover, [line, *data.draw(st.lists(some, min_size=4, max_size=8))])


@pytest.mark.parametrize("name", OUTLINED)
@pytest.mark.parametrize("note", [{}, {"_note": ["x"]}])
def test_a_line_like_another_is_not_split(
    name: str, note: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    checker = Checker(mypt_spec.dialect(name))
    record = rich(checker) | note
    prover = CleanFilter(checker)
    for _ in range(2):  # what is rare is learnt first
        assert prover.clean(json.dumps(record).encode())
    record["messages"][-1]["content"] = "other words"
    for message in record["messages"]:
        message |= {"weight": 0} if "weight" in message else {}
    monkeypatch.delattr(AdapterScan, "_split")
    assert prover.clean(json.dumps(record).encode())


@pytest.mark.parametrize("name", OUTLINED)
@pytest.mark.parametrize("key", ["tool_calls", "content", "reasoning_content", "weight"])
def test_a_key_of_messages_in_the_record(name: str, key: str) -> None:
    prover = CleanFilter(Checker(mypt_spec.dialect(name)))
    for value in ([None], [{"function": {"arguments": {"q": "x"}}}], "x", {}):
        agree(prover, [json.dumps(rich(prover.checker) | {key: value}).encode()])


@pytest.mark.parametrize("name", OUTLINED)
@pytest.mark.parametrize("where", ["record", "message"])
def test_an_unknown_key_is_not_taken_for_metadata(name: str, where: str) -> None:
    """The first record with metadata teaches no outline that does not show it."""
    checker = Checker(mypt_spec.dialect(name))

    def line(key: str) -> bytes:
        record = rich(checker)
        (record if where == "record" else record["messages"][-1])[key] = 1
        return json.dumps(record).encode()

    for first in ([], [line("_note")], [line("_note")] * 2):
        prover = CleanFilter(checker)
        assert not [one for one in first if not prover.clean(one)]
        assert not prover.clean(line("x"))
        prover = CleanFilter(checker)
        for _ in range(2):  # in one block with what is learnt from, and after it
            lines = b"\n".join([*first, line("x")])
            assert [i for i, _ in prover.unproved(lines)[1]] == [len(first)]


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_complete(name: str, data: st.DataObject) -> None:
    """Speed must not die in silence: a line without findings is proved clean, but for the
    exceptions named here.
    """
    d = mypt_spec.dialect(name)
    record = data.draw(records(name))
    line = data.draw(lines_of(record))
    checker = Checker(d, data.draw(LIMITS))
    if (
        says(checker, line)
        or beyond(record)
        or empty(record)
        or checker.limits.schemas
        or piece_of_tag(record)
        or tag_in_metadata(record)
        or (checker.limits.max_tokens or 10**9) < 2 * len(line)
    ):
        return
    assert CleanFilter(checker).clean(line)
    assert CleanFilter(checker).unproved(line + b"\n" + line + b"\n") == (2, [])


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_no_tag_begins_otherwise(name: str, data: st.DataObject) -> None:
    """What `beginnings` does not find holds neither a tag nor anything that is almost one."""
    table = mypt_spec.dialect(name).table
    shown = (*table.special, *(t.shown for t in table.plain_tags))
    pieces = st.sampled_from([*shown, "<", "[", "/", "|", " ", "\\", "-", "\n"]) | st.text(
        max_size=3
    )
    text = "".join(
        data.draw(
            st.lists(
                pieces.flatmap(lambda p: st.sampled_from([p, p[1:], p[:-1], p.upper()])), max_size=6
            )
        )
    )
    if table.literals.search(text) or near_miss(text, table):
        assert any(regex.search(text) for _, regex in beginnings(shown))


def beyond(value: Any) -> bool:
    """What the fast path leaves to the checker: integers of more than 64 bits, and odd names of
    metadata.
    """
    if isinstance(value, dict):
        return any(beyond(v) for v in value.values())
    if isinstance(value, list):
        return any(map(beyond, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def empty(record: Any) -> bool:
    """A content may be empty in some dialects, and a name blank.

    The fast path leaves it to the checker everywhere.
    """
    return any(
        isinstance(value, str) and not value.strip()
        for message in record["messages"]
        for value in message.values()
    )


def piece_of_tag(record: Any) -> bool:
    """A tool may have the name `<ti` or `tin>`, which in content would be a tag cut short.

    The fast path leaves it to the checker.
    """
    items = [item for message in record["messages"] for item in message.get("contents", ())]
    names = [item.get("name", "") for item in items if isinstance(item, dict)]
    return any("<" in name or ">" in name for name in names)


def tag_in_metadata(record: Any) -> bool:
    """What may spell a tag in metadata is left to the checker, which has nothing against it."""
    held = [
        value
        for item in (record, *record["messages"])
        for key, value in item.items()
        if key.startswith("_")
    ]
    return any(sign in json.dumps(held) for sign in ("<", "[BOS]", "[SEP]", "[EOS]"))


@pytest.mark.parametrize("line", TRAPS)
def test_known_traps(line: str) -> None:
    clean, metadata = chat_text().encode(), chat_text(', "_x": "m"').encode()
    checker = Checker(mypt_spec.dialect("mypt"))
    assert says(checker, line.encode())
    agree(CleanFilter(checker), [clean, line.encode(), metadata, clean, line.encode()])
    if line.endswith("\r"):
        return
    prover = CleanFilter(checker)
    assert [
        i for i, _ in prover.unproved(b"\n".join([clean] * 3 + [line.encode(), metadata]))[1]
    ] == [3]


@pytest.mark.parametrize("phase", [1, 3])
def test_a_system_prompt_that_is_one_quoted_call(phase: int) -> None:
    checker = Checker(mypt_spec.dialect("mypt"), Limits(phase=phase))
    line = chat_text(system='"<myPT_toolcall>x</myPT_toolcall>"').encode()
    assert says(checker, line) == ["MYP401"]
    agree(CleanFilter(checker), [line, line])


def test_a_record_over_two_lines_and_two_on_one() -> None:
    """As many records as lines, but not one on each."""
    clean = chat_text()
    halves = clean.replace(', "messages"', '\n, "messages"', 1)
    prover = CleanFilter(Checker(mypt_spec.dialect("mypt")))
    for data in (
        clean + halves,
        halves + clean,
        f"{clean}{clean}\n\n{clean}",
        f"{clean}\n{halves}{clean}",
    ):
        count, doubtful = prover.unproved(data.encode() + b"\n")
        lines = data.split("\n")
        assert count == len(lines)
        assert {i for i, line in enumerate(lines) if line != clean} <= {i for i, _ in doubtful}


@given(
    st.lists(
        st.sampled_from([b"\\", b"\\\\", b'"', b"a", b"\n", b"\\" * 61, b"\\" * 64, b'\\"']),
        max_size=40,
    ),
    st.sampled_from([0, 1, 1 << 12, 1 << 16, (1 << 20) - 10, 1 << 20]),
)
def test_counting_quotes(pieces: list[bytes], pad: int) -> None:
    """By every way of counting: the length of the data decides which is taken."""
    block = b"".join(pieces)
    plain = 0
    escaped = False
    for byte in block:
        plain += byte == ord('"') and not escaped
        escaped = byte == ord("\\") and not escaped
    for data in (
        b"x" * pad + block,
        b"x" * (pad // 2) + block + b"y" * (pad - pad // 2),
        block + b"x" * pad,
    ):
        assert unescaped_quotes(data) == plain
        assert unescaped_quotes(bytearray(data)) == plain


@given(st.data())
def test_tokens_are_at_most_twice_the_bytes(data: st.DataObject) -> None:
    """What lets the fast path skip counting tokens under a limit."""
    d = mypt_spec.dialect("mypt")
    numbers = st.integers(0, 18).map(lambda e: f"{e}e{e}") | st.sampled_from(
        ["1e15", "9e15", "123e13", "[]", "{}", "0", "1E9"]
    )
    body = "[" + ",".join(data.draw(st.lists(numbers, min_size=50, max_size=200))) + "]"
    line = tool_text(result=body).replace(", ", ",").replace(": ", ":")
    episode, _ = d.read(json.loads(line))
    assert len(d.encode(episode)) <= 2 * len(line)
