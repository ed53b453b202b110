"""Reads `tokenizer.json` of Hugging Face, where it is byte-level BPE or SentencePiece's BPE.

Input: the content of the file. Output: a Vocabulary whose ids are those of the library
`tokenizers`, or an error that says what cannot be reproduced.

Theory of operation. The library joins neighbours in the order of a list of merges; a Vocabulary
joins those first whose token has the lowest id, whatever they were made of. Both are the same if
(1) each token's own bytes are joined to that token, and (2) the merges that do this come in the
order of their tokens' ids. For take two neighbours that would make a token: nothing outside has
joined them, so the bytes of that token alone come to the same two neighbours, and by (1) go on with
their merge. (1) and (2) are checked for each token; one that fails (1) is made by no text, and its
id then means nothing. How text is cut is tried with a text of all kinds (`probe`): the first
difference is an error. Of SentencePiece's vocabularies all this holds with characters in
place of bytes (`sentencepiece`).

Where the file says NFC, a text is encoded in NFC, as the library does it; if it was not written in
NFC, it has a finding (MYP369), because its ids are read back as another text.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any
from unicodedata import normalize

from mypt_spec.patch import in_common
from mypt_spec.tokenizer.added import read_added
from mypt_spec.tokenizer.bpe import Bpe, encoding
from mypt_spec.tokenizer.probe import PROBE
from mypt_spec.tokenizer.sentencepiece import (
    SPACE_SIGN,
    Spaces,
    byte_tokens,
    bytes_of,
    is_text,
    pattern_of,
    read_spaces,
)
from mypt_spec.tokenizer.tokenizer import gpt2_letters
from mypt_spec.tokenizer.vocabulary import GPT2_PATTERN, Vocabulary, VocabularyError, from_tokens

_NEEDS = "only BPE is read, at the level of bytes or with byte_fallback"


def from_tokenizer_json(content: dict[str, Any], path: str) -> Vocabulary:
    """Returns the vocabulary of the content of a `tokenizer.json`.

    Raises VocabularyError for what is not byte-level BPE or cannot be reproduced, and where the
    library `tokenizers` is not installed.
    """
    try:
        import tokenizers  # noqa: F401
    except ImportError:
        raise VocabularyError(
            f"{path}: reading it needs tokenizers: pip install 'mypt-tags[tokenizers]'"
        ) from None
    try:
        spaces, rows = _spaces(content), content.get("added_tokens") or ()
        patterns = () if spaces else _patterns(content)
        composed = not spaces and bool(_steps(content.get("normalizer"), "normalizers"))
        added = read_added(rows, content["model"]["vocab"] if spaces else (), composed=composed)
        ranks = _ranks(content, added.special | added.texts, by_character=spaces is not None)
        ranks |= {token.encode(): i for token, i in added.texts.items()}
        if spaces:
            patterns = (pattern_of(spaces, ranks),)
        cutting = added.cutting(patterns)
        flags = {"by_character": bool(spaces), "leads": bool(spaces and spaces.leads)}
        vocabulary = from_tokens(ranks, added.special, cutting, composed=composed, **flags)
        _try(content, vocabulary, [*added.texts], next(iter(added.anywhere), ""))
    except (KeyError, TypeError, AttributeError) as error:
        raise VocabularyError(f"{path}: is not a complete tokenizer.json: {error!r}") from None
    except ValueError as error:
        raise VocabularyError(f"{path}: {error}") from None
    return replace(vocabulary, unfit=added.unfit, strips=added.strips)


def _spaces(content: dict[str, Any]) -> Spaces | None:
    """Returns how a vocabulary of SentencePiece treats spaces, None for a byte-level one."""
    model = content["model"]
    if model.get("type") != "BPE":
        raise ValueError(f"its model is {model.get('type') or 'of no type'}; {_NEEDS}")
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise ValueError(f"its model has {key} = {model[key]!r}; {_NEEDS}")
    # Some write byte_fallback of byte-level BPE, too; without such tokens it does nothing.
    if not model.get("byte_fallback") or not byte_tokens(model["vocab"]):
        return None
    normalizers = _steps(content.get("normalizer"), "normalizers")
    spaces = read_spaces(normalizers, _steps(content.get("pre_tokenizer"), "pretokenizers"))
    if spaces is None:
        steps = ", ".join(str(step.get("type")) for step in normalizers) or "nothing"
        raise ValueError(
            f"its model has byte_fallback, and it normalises text with {steps}; there, text is "
            f"only read where spaces become {SPACE_SIGN!r} and nothing else is altered or cut"
        )
    return spaces


def _patterns(content: dict[str, Any]) -> tuple[str, ...]:
    for step in _steps(content.get("normalizer"), "normalizers"):
        if step.get("type") != "NFC":
            how = f"it normalises text with {step.get('type')}"
            raise ValueError(f"{how}; {_NEEDS}, of text as it is")
    steps = _steps(content.get("pre_tokenizer"), "pretokenizers")
    if not steps or steps[-1].get("type") != "ByteLevel":
        names = ", ".join(str(step.get("type")) for step in steps) or "nothing"
        raise ValueError(f"it cuts text with {names} and not, in the end, with ByteLevel; {_NEEDS}")
    if steps[-1].get("add_prefix_space"):
        raise ValueError("it puts a space before each text (add_prefix_space), which is not read")
    out = [_pattern(step) for step in steps[:-1]]
    if steps[-1].get("use_regex", True) or not out:
        out.append(GPT2_PATTERN)
    return tuple(out)


def _steps(part: dict[str, Any] | None, inside: str) -> list[dict[str, Any]]:
    if part is None:
        return []
    return list(part[inside]) if part.get("type") == "Sequence" else [part]


def _pattern(step: dict[str, Any]) -> str:
    kind = step.get("type")
    if kind == "Digits":
        return r"\p{N}" if step.get("individual_digits") else r"\p{N}+"
    if kind == "Split" and step.get("behavior") == "Isolated" and not step.get("invert"):
        pattern: dict[str, str] = step["pattern"]
        return pattern["Regex"] if "Regex" in pattern else re.escape(pattern["String"])
    if kind == "Split" and step.get("behavior") == "Removed" and step.get("invert"):
        return str(step["pattern"]["Regex"])  # what is between matches is dropped; see `_try`
    how = f" ({step.get('behavior')})" if kind == "Split" else ""
    raise ValueError(f"it cuts text with {kind}{how}, which is not read")


def _ranks(
    content: dict[str, Any], special: dict[str, int], *, by_character: bool
) -> dict[bytes, int]:
    """Returns the ids of tokens of text; if joined `by_character`, in the order of their merges.

    Raises ValueError for merges of a byte-level vocabulary in another order than ids.
    """
    byte_of = {letter: byte for byte, letter in enumerate(gpt2_letters())}
    vocab = {token: i for token, i in content["model"]["vocab"].items() if token not in special}
    spelled = {
        token: i
        for token, i in vocab.items()
        if (is_text(token) if by_character else all(letter in byte_of for letter in token))
    }
    merges = [tuple(m.split(" ") if isinstance(m, str) else m) for m in content["model"]["merges"]]
    order = {pair: i for i, pair in enumerate(merges)}
    merges_of: defaultdict[str, list[int]] = defaultdict(list)
    for i, (left, right) in enumerate(merges):
        merges_of[left + right].append(i)
    joined, ignore = _alone(content, list(spelled)), bool(content["model"].get("ignore_merges"))
    out = {t: i for (t, i), fits in zip(spelled.items(), joined, strict=True) if fits}
    last, before = -1, ""
    places: dict[str, int] = {}
    for token in sorted(out, key=out.__getitem__):
        if len(token) == 1:
            continue
        ways = merges_of[token]
        several = len(ways) < ways[-1] - ways[0] + 1
        at = _joined(token, lambda *pair: order.get(pair))[1] if several else ways[0]
        places[token] = at
        if at < last and not by_character:
            order_of = f"the merge of {token!r} comes before that of {before!r}, whose id is lower"
            raise ValueError(f"{order_of}; only merges in the order of ids are read")
        last, before = at, token
    if ignore and by_character and len(out) < len(spelled):
        token = next(iter(spelled.keys() - out.keys()))
        raise ValueError(f"it has ignore_merges, and no merges make its token {token!r}; {_NEEDS}")
    if ignore:
        # The library takes a whole piece that is a token without joining it. So does tiktoken,
        # which would also join it inside of other pieces if it could.
        for token in spelled.keys() - out.keys():
            if len(_joined(token, lambda a, b: spelled.get(a + b))[0]) > 1:
                out[token] = spelled[token]
    if by_character:
        # "A" and <0x41> are the same text, and no text becomes the second one.
        ordered = sorted(out, key=lambda token: places.get(token, -1))
        return byte_tokens(vocab) | {bytes_of(token): out[token] for token in ordered}
    return {bytes(byte_of[letter] for letter in token): i for token, i in out.items()}


def _alone(content: dict[str, Any], tokens: list[str]) -> list[bool]:
    """Returns for each token whether the merges join its bytes to it."""
    bare = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": content["model"] | {"ignore_merges": False, "unk_token": None},
    }  # fmt: skip
    vocab = content["model"]["vocab"]
    encoded = _library(bare).encode_batch(tokens, add_special_tokens=False)
    return [e.ids == [vocab[token]] for token, e in zip(tokens, encoded, strict=True)]


def _library(content: dict[str, Any]) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(json.dumps(content))
    except Exception as error:  # the library raises plain Exception
        raise ValueError(f"the library tokenizers cannot read it: {error}") from None


def _joined(token: str, rank: Callable[[str, str], int | None]) -> tuple[list[str], int]:
    """Returns what becomes of letters if the lowest rank is joined first, and the last rank."""
    parts, last = list(token), -1
    while True:
        ranks = ((rank(*pair), i) for i, pair in enumerate(pairwise(parts)))
        last_pair = min(((r, i) for r, i in ranks if r is not None), default=None)
        if last_pair is None:
            return parts, last
        last, where = last_pair
        parts[where : where + 2] = [parts[where] + parts[where + 1]]


def _try(content: dict[str, Any], vocabulary: Vocabulary, added: list[str], before: str) -> None:
    """Raises ValueError for the first difference to the library in the probe.

    That has each text that was `added`, too: beside letters, spaces and itself. The library gets
    the special token `before` it, so that it does not begin the input.
    """
    library = _library(content | {"truncation": None, "padding": None})
    probe = PROBE + "".join(f"a{text}b {text} {text}{text}\n" for text in added)
    apart, text = probe + normalize("NFD", probe), probe + normalize("NFC", probe)
    given, probe = (apart, text) if vocabulary.composed else (probe, probe)
    for tag, i in vocabulary.special.items():
        if library.token_to_id(tag) != i:
            message = f"its added token {tag!r} has id {i}, the library gives it"
            raise ValueError(f"{message} {library.token_to_id(tag)}")
    try:
        ours = Bpe(partial(encoding, vocabulary), vocabulary.patterns)
        ids = ours.encode(probe)
    except Exception as error:  # regular expressions of another kind
        raise ValueError(f"its pattern cannot be used: {error}") from None
    if vocabulary.leads and not before:
        raise ValueError("it puts a space before a text, and has no special token to come first")
    theirs = library.encode(before + given, add_special_tokens=False).ids[bool(before) :]
    if ids == theirs and ours.decode_bytes(ids) == probe.encode():
        return
    same = in_common(ids, theirs)
    at = len(ours.decode_bytes(ids[:same]).decode("utf-8", "ignore"))
    has, would = (some[same] if same < len(some) else "none" for some in (theirs, ids))
    inside = [tag for tag in vocabulary.special if tag and tag in probe]
    why = f"; its special token {inside[0]!r} is ordinary text" if inside else ""
    raise ValueError(
        f"its ids cannot be reproduced: of the text that is tried, character {at} "
        f"({probe[at : at + 12]!r}) has id {has} there and would have {would} here{why}"
    )
