"""Tags of text that have letters beyond ASCII: a model may not write them as text."""

from __future__ import annotations

from itertools import product

import pytest

from mypt_infer.decode.compile.byte_dfa import string_dfa, text_dfa

TAGS = ["<用户>", "用户：", "é<"]
TEXTS = ["".join(p) for p in product(["<", "用", "户", ">", "：", "é", "璧", "€", "a"], repeat=3)]


@pytest.mark.parametrize("tag", TAGS)
def test_no_text_spells_a_tag(tag: str) -> None:
    """A text is refused if and only if it has the tag; `璧` has two of the bytes of `用`."""
    text, string = text_dfa([tag], [], {}, {}), string_dfa((tag,))
    for each in TEXTS:
        assert (text.run(each.encode()) >= 0) == (tag not in each), each
        assert (string.run(f'{each}"'.encode()) != -1) == (tag not in each), each


def test_a_tag_ends_a_text() -> None:
    leaf = text_dfa(["用户：", "<a>", "é<"], ["用户："], {}, {}, never_last=["é"])
    for text in ("ab用户：", "用户：", "用用户："):
        assert leaf.exits[-2 - leaf.run(text.encode())][1] == "用户："
    for refused in ("aé用户：", "a<a>", "aé<"):
        assert leaf.run(refused.encode()) == -1
    for place in range(1, 3):  # no tag of one id, and nothing else, inside a character
        inside = leaf.run("用".encode()[:place])
        assert not leaf.whole[inside]
        assert leaf.step[inside, ord("a")] == -1
