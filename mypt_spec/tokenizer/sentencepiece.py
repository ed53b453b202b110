"""Reads what is special in a `tokenizer.json` that was converted from SentencePiece, with BPE.

Input: the content of the file. Output: how it treats spaces, and the bytes of its tokens. Such a
vocabulary, as Gemma's, Llama 2's and Mistral's v1 to v3, writes each space as U+2581, and joins
characters. A character without a token becomes its bytes, whose tokens are `<0x00>` to `<0xFF>`.

A text that has U+2581 itself has no ids there of which it could be read again: the library takes it
for a space. Here it becomes bytes, and has a finding (MYP369).
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from unicodedata import is_normalized

from mypt_spec.table import TokenTable

SPACE_SIGN = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SIGNS = re.compile(r"[\\\]\[^&~|-]")
_ALWAYS = (
    "it puts a space before the text after each special token ({}), so a text could not be read "
    "again from its ids; to train with a space only at the beginning of the input, change that to "
    "a pre_tokenizer Metaspace with prepend_scheme 'first' and split false, and tokenizer_class in "
    "tokenizer_config.json to PreTrainedTokenizerFast"
)


class Spaces(NamedTuple):
    """How a vocabulary treats spaces: whether each begins a piece, and whether the library `leads`
    a text at the beginning of its input with a space."""

    cut: bool
    leads: bool


def read_spaces(normalizers: list[dict[str, Any]], cuts: list[dict[str, Any]]) -> Spaces | None:
    """Returns how these steps treat spaces; None where they are not SentencePiece's.

    Raises ValueError for a space before each text.
    """
    kinds = [step.get("type") for step in normalizers]
    if [step.get("type") for step in cuts] == ["Metaspace"] and not kinds:
        (step,) = cuts
        usual = "always" if step.get("add_prefix_space", True) else "never"
        scheme = step.get("prepend_scheme", usual)
        if step.get("replacement") != SPACE_SIGN:
            return None
        if scheme == "always":
            raise ValueError(_ALWAYS.format("its Metaspace has prepend_scheme 'always'"))
        return Spaces(bool(step.get("split", True)), scheme == "first")
    written = [step for step in normalizers if step.get("type") == "Replace"]
    if kinds not in (["Replace"], ["Prepend", "Replace"], ["Replace", "Prepend"]):
        return None
    if written[0].get("pattern") != {"String": " "} or written[0].get("content") != SPACE_SIGN:
        return None
    # Where no space is left, a cut at spaces does nothing; Gemma has one.
    if any(s.get("type") != "Split" or s.get("pattern") != {"String": " "} for s in cuts):
        return None
    if "Prepend" in kinds:
        raise ValueError(_ALWAYS.format("its normalizer Prepend"))
    return Spaces(cut=False, leads=False)


def rewrites(table: TokenTable, text: str) -> bool:
    """Returns whether the tokenizer of models with a table's vocabulary would alter a text."""
    signs = table.spaced and SPACE_SIGN in text
    return signs or (table.composed and not is_normalized("NFC", text))


def byte_tokens(vocab: dict[str, int]) -> dict[bytes, int]:
    """Returns the bytes of the tokens `<0x00>` to `<0xFF>`, with their ids."""
    matches = ((_BYTE.fullmatch(token), i) for token, i in vocab.items())
    return {bytes.fromhex(match[1]): i for match, i in matches if match}


def is_text(token: str) -> bool:
    """Returns whether a token can be part of a text: it is no byte's, and has no real space."""
    return " " not in token and not _BYTE.fullmatch(token)


def bytes_of(token: str) -> bytes:
    """Returns the bytes of a token of text."""
    return token.replace(SPACE_SIGN, " ").encode()


def pattern_of(spaces: Spaces, tokens: Iterable[bytes]) -> str:
    """Returns a pattern that cuts text where no token goes across: before spaces, mostly."""
    if spaces.cut:
        return " [^ ]*|[^ ]+"
    texts = (token.decode() for token in tokens if b" " in token.lstrip(b" "))
    before = {a for text in texts for a in re.findall(r"([^ ]) ", text)}
    if not before:
        return " *[^ ]+| +"
    inside = "".join(_SIGNS.sub(r"\\\g<0>", a) for a in sorted(before))
    return rf" *(?:[{inside}] +|[^ ])+| +"
