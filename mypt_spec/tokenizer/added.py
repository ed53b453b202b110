"""Tells apart the tokens that were added to a `tokenizer.json`: special tokens, and text.

Input: the rows of `added_tokens`. Output: ids of both kinds, and patterns that cut text around the
added tokens that are text. The library looks for added tokens before it cuts text; each is a piece
by itself. Here they are the first pattern, and all others leave such a piece whole.

An added token is text where the file does not call it special and it does not look like a tag, as
"covid19" or a run of spaces. What looks like a tag, such as Qwen's `<think>`, is special
here whatever the file says, so that no text becomes a tag of any format.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from mypt_spec.tokenizer.sentencepiece import SPACE_SIGN

_TAG = re.compile(r"<.+>|\[.+\]|\{.+\}|\|.+\|", re.DOTALL)
# Ways to find a token that depend on what is around it.
_AROUND = ("lstrip", "rstrip", "single_word")
_MANY = 100  # texts from which on a pattern is not a plain list of them
_SIGNS = re.compile(r"[\\.^$|?*+()\[\]{}]")


class Added(NamedTuple):
    """The added tokens of a file: `special` and `text` with their ids, in two passes.

    `anywhere` are special tokens that the library finds anywhere, and leaves what is around them.
    `unfit` says of tokens why they cannot be tags of a format. `strips` are the special tokens that
    the library finds anywhere, with whether it drops white space before and after them.
    """

    special: dict[str, int]
    anywhere: tuple[str, ...]
    text: tuple[dict[str, int], dict[str, int]]
    unfit: dict[str, str]
    strips: dict[str, tuple[bool, bool]]

    @property
    def texts(self) -> dict[str, int]:
        """Returns the tokens of both passes."""
        return self.text[0] | self.text[1]

    def cutting(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        """Returns patterns that cut around text that was added, and then as `patterns` do."""
        out: list[str] = []
        prefix = ""
        for texts in filter(None, self.text):
            # The longest one is taken of those that begin at the same place.
            longest = sorted(texts, key=len, reverse=True)
            many = len(longest) > _MANY
            prefix += (_tree(longest) if many else "|".join(map(_literal, longest))) + "|"
            out.append(prefix.removesuffix("|"))
        return (*out, *(prefix + pattern for pattern in patterns))


def _literal(text: str) -> str:
    return _SIGNS.sub(r"\\\g<0>", text)


def _tree(texts: Collection[str]) -> str:
    """Returns a pattern that matches the longest of these texts, without trying one by one."""
    rest: defaultdict[str, list[str]] = defaultdict(list)
    for text in filter(None, texts):
        rest[text[0]].append(text[1:])
    branches = "|".join(_literal(first) + _tree(more) for first, more in rest.items())
    return f"(?:{branches}){'?' if '' in texts else ''}" if branches else ""


def read_added(
    rows: Iterable[dict[str, Any]], vocab: Collection[str] = (), *, composed: bool = False
) -> Added:
    """Returns the added tokens of these rows.

    What is in `vocab` is text, where the file does not call it special: SentencePiece's
    vocabularies have HTML's tags there. Of these, runs of the sign for a space are left out.
    Raises ValueError for text that the library finds only at some places, or before it composes
    the text around it, and KeyError or TypeError for rows that are none.
    """
    special: dict[str, int] = {}
    first: dict[str, int] = {}
    then: dict[str, int] = {}
    unfit: dict[str, str] = {}
    strips: dict[str, tuple[bool, bool]] = {}
    for row in rows:
        content, i = str(row["content"]), int(row["id"])
        around = [flag for flag in _AROUND if row.get(flag)]
        if around:
            unfit[content] = (
                f"has {around[0]} in it: the library drops white space of the text beside it, or "
                "finds it only between words; set that to false, in the model's folder too"
            )
        is_listed = content in vocab
        if row.get("special", True) or (_TAG.fullmatch(content) and not is_listed):
            special[content] = i
            if around and "single_word" not in around:
                strips[content] = "lstrip" in around, "rstrip" in around
            continue
        if is_listed and SPACE_SIGN in content:  # found in a text that has the sign itself
            continue
        if around:
            message = f"its added token {content!r} is text with {around[0]}"
            raise ValueError(f"{message}, which is not read; only text that is found anywhere is")
        if composed and not row.get("normalized", True):
            message = f"its added token {content!r} is text that is found before NFC is applied"
            raise ValueError(f"{message}; set its normalized to true, in the model's folder too")
        unfit[content] = "is not a special token in it, so text becomes it; make it special"
        (then if row.get("normalized", True) else first)[content] = i
    anywhere = tuple(tag for tag in special if tag and tag not in unfit)
    return Added(special, anywhere, (first, then), unfit, strips)
