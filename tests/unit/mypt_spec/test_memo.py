"""A memo keeps to its bounds, whatever is put into it, and never tells what was not put in."""

from __future__ import annotations

import re
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt_spec.memo import Memo, lazy_re

_CALLS = st.lists(st.tuples(st.text("ab", max_size=6), st.integers(0, 12)), max_size=60)


@given(_CALLS, st.integers(1, 8), st.integers(0, 30))
def test_a_memo_keeps_to_its_bounds(calls: list[tuple[str, int]], entries: int, room: int) -> None:
    """Each value is given back, also one too large to be kept; of others the last one is known."""
    memo, last = Memo[str, object](entries, room=room), dict[str, object]()
    sizes: dict[str, int] = {}
    for key, size in calls:
        value = last[key] = object()
        sizes[key] = size
        assert memo.keep(key, value, size) is value
        assert memo.entries.items() <= last.items()
        assert (key in memo.entries) == (size <= room)
        assert len(memo.entries) <= entries
        assert memo.size == sum(sizes[key] for key in memo.entries) <= room


@given(_CALLS, st.integers(1, 8), st.integers(0, 30), st.integers(1, 9))
def test_what_each_entry_takes_counts(
    calls: list[tuple[str, int]], entries: int, room: int, each: int
) -> None:
    memo = Memo[str, int](entries, room=room, each=each)
    for key, size in calls:
        memo.keep(key, size, size)
        assert (key in memo.entries) == (size + each <= room)
        assert len(memo.entries) <= entries
        assert memo.nbytes == sum(size + each for size in memo.entries.values()) <= room


def test_without_room_sizes_count_for_nothing() -> None:
    memo = Memo[int, int](2)
    for number in range(9):
        memo.keep(number, number, 10**9)
    assert memo.entries == {7: 7, 8: 8}


def test_a_full_memo_keeps_the_newer_half() -> None:
    memo = Memo[int, int](8)
    for number in range(9):
        memo.keep(number, -number)
    assert list(memo.entries) == [4, 5, 6, 7, 8]


def test_what_is_too_large_leaves_the_others() -> None:
    memo = Memo[str, str](8, room=10)
    memo.keep("a", "old", 5)
    memo.keep("b", "large", 11)
    assert memo.entries == {"a": "old"}
    memo.keep("a", "large", 11)  # what it knew of this key is not true any more
    assert memo.entries == {}


def test_a_cleared_memo_has_all_its_room() -> None:
    memo = Memo[str, str](8, room=10)
    memo.keep("a", "x", 9)
    memo.clear()
    assert memo.entries == {}
    memo.keep("b", "y", 9)
    memo.keep("c", "z", 1)
    assert memo.entries == {"b": "y", "c": "z"}


def test_a_reader_may_hold_the_dict() -> None:
    memo = Memo[int, int](2)
    find = memo.entries.get
    for number in range(9):
        memo.keep(number, number)
        assert find(number) == number


@pytest.mark.parametrize("entries", [0, -1])
def test_a_memo_of_nothing_is_refused(entries: int) -> None:
    with pytest.raises(ValueError, match="entries"):
        Memo[int, int](entries)


def test_threads_share_a_memo() -> None:
    memo, wrong = Memo[int, int](16, room=300), list[object]()

    def work(first: int) -> None:
        try:
            for number in range(first, first + 4000):
                memo.keep(number % 97, number % 97, number % 17)
                value = memo.entries.get(number % 89)
                if value not in (None, number % 89):
                    wrong.append(value)
        except Exception as error:
            wrong.append(error)

    threads = [Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(memo.entries) <= 16 + len(threads)


def test_a_regular_expression_is_compiled_at_its_first_use() -> None:
    broken = lazy_re("(")
    with pytest.raises(re.error):
        broken.search("")
    words = lazy_re("[a-z]+", re.IGNORECASE)
    assert words.pattern == "[a-z]+"
    assert words.findall("One two") == words.findall("One two") == ["One", "two"]
    assert lazy_re(rb"\d").sub(b"", b"a1") == b"a"
