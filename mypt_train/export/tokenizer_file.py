"""Makes the files with which Hugging Face's tokenizer gives the same ids as this project's.

Input: a dialect on its vocabulary. Output: the contents of `tokenizer.json`
and `tokenizer_config.json`.
"""

import re
from collections.abc import Sequence
from typing import Any

from mypt_spec import Dialect
from mypt_spec.table import TEXT, Piece, Terminal
from mypt_spec.tokenizer.sentencepiece import SPACE_SIGN
from mypt_spec.tokenizer.tokenizer import gpt2_letters, gpt2_merges, gpt2_ranks
from mypt_spec.tokenizer.vocabulary import GPT2_PATTERN, JSON_FILE

# The name of the id that fills up rows, where the vocabulary has none for it.
PAD = "<|endoftext|>"


class ExportError(Exception):
    """A model cannot be exported; the message says what is missing, and what to do."""


def padding(dialect: Dialect) -> str:
    """Returns the name of the id that fills up rows."""
    special = {} if dialect.vocabulary is None else dialect.vocabulary.special
    names = [tag for tag, i in special.items() if i == dialect.tokenizer.pad]
    return [*names, PAD if PAD not in dialect.tokenizer.special else "<|padding|>"][0]


def tokenizer_json(dialect: Dialect) -> dict[str, Any]:
    """Returns the content of `tokenizer.json`: byte-level BPE, and the tags as added tokens."""
    source, tokenizer = dialect.vocabulary, dialect.tokenizer
    spaced = source is not None and source.by_character
    vocabulary, merges = _gpt2() if source is None else _of_ranks(source.ranks, spaced=spaced)
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    cuts: list[dict[str, Any]] = [byte_level]
    decoder: dict[str, Any] = byte_level
    direct = source is not None and source.file == JSON_FILE
    if source is not None and source.patterns != (GPT2_PATTERN,):
        cuts = [_split(p) for p in source.patterns] + [byte_level | {"use_regex": False}]
    if spaced:
        sign = {"type": "Metaspace", "replacement": SPACE_SIGN, "split": False}
        cuts[-1] = sign | {"prepend_scheme": "never"}
        back = {"type": "Replace", "pattern": {"String": SPACE_SIGN}, "content": " "}
        decoder = {
            "type": "Sequence",
            "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}],
        }
    tags = tag_pieces(dialect)
    if tags:
        cuts.insert(0, _split("|".join(tags)))
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    flags["special"] = True
    added = {padding(dialect): tokenizer.pad, **tokenizer.special}
    if source is not None and source.file == JSON_FILE:
        added = dict(sorted((source.special | added).items(), key=lambda item: item[1]))
        vocabulary |= added  # else the library gives them ids after the number of tokens
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": tag} | flags for tag, i in added.items()],
        "normalizer": {"type": "NFC"} if dialect.table.composed else None,
        "pre_tokenizer": cuts[0] if len(cuts) == 1 else {"type": "Sequence", "pretokenizers": cuts},
        "post_processor": None,
        "decoder": decoder,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": spaced, "ignore_merges": direct,
            "vocab": vocabulary, "merges": merges,
        },
    }  # fmt: skip


def _split(pattern: str) -> dict[str, Any]:
    """Returns a step that makes what a pattern matches a piece by itself."""
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def tag_pieces(dialect: Dialect) -> list[str]:
    """Returns patterns of the plain text in tags, which is encoded apart from the text around it.

    The library cuts a text at special ids first, so plain text before or after these is at an end
    of what a pattern sees. With `glue`, only what is trained otherwise than its text is apart.
    """
    table, patterns = dialect.table, set[str]()
    for terminal in table.terminals.values():
        special = [i for i, piece in enumerate(terminal.spelling) if piece.kind == "special"]
        if not special:
            if not table.glue:
                patterns.add(_run(terminal.spelling))
            continue
        head, tail = terminal.spelling[: special[0]], terminal.spelling[special[-1] + 1 :]
        is_separate = not table.glue or (terminal.opens and terminal.loss != terminal.body_loss)
        before, after = _beside(terminal, dialect)
        if head and before and not table.glue:
            patterns.add(_run(head) + r"\z")
        if tail and after and (is_separate or terminal.trail):
            patterns.add(r"\A" + _run(tail))
    return sorted(patterns, key=lambda p: (-len(p), p))


def _beside(terminal: Terminal, dialect: Dialect) -> tuple[bool, bool]:
    """Returns whether plain text may be directly before a tag, and directly after it."""
    table, steps = dialect.table, dialect.automaton.steps
    last, first = (
        {n for n, t in table.terminals.items() if "special" not in [p.kind for p in t.spelling[at]]}
        for at in (slice(-1, None), slice(1))
    )
    before = any(
        terminal.name in steps[then]
        for row in steps
        for n, then in row.items()
        if n in {TEXT, *last}
    )
    after = any(
        {TEXT, *first} & set(steps[row[terminal.name]]) for row in steps if terminal.name in row
    )
    return before, after


def _run(pieces: Sequence[Piece]) -> str:
    return "".join(p.pattern if p.kind == "attr" else re.escape(p.value) for p in pieces)


def tokenizer_config(dialect: Dialect, end: str) -> dict[str, Any]:
    """Returns the content of `tokenizer_config.json`; `end` is the tag that ends a turn."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end,
        "pad_token": padding(dialect),
        "clean_up_tokenization_spaces": False,
        "additional_special_tokens": list(dialect.tokenizer.special),
    }  # fmt: skip


def _gpt2() -> tuple[dict[str, int], list[list[str]]]:
    vocabulary = {_spell(token): rank for token, rank in gpt2_ranks().items()}
    return vocabulary | {PAD: len(vocabulary)}, [line.split() for line in gpt2_merges()]


def _of_ranks(ranks: dict[bytes, int], *, spaced: bool) -> tuple[dict[str, int], list[list[str]]]:
    """Returns the vocabulary by names, and the merges: all pairs of tokens that spell a token.

    All pairs are listed, in the order of the ranks, because encoding by ranks joins the pair whose
    bytes have the lowest rank, however each half was made.
    """
    merges = [
        [_spell(token[:at], spaced), _spell(token[at:], spaced)]
        for token in ranks
        for at in range(1, len(token))
        if token[:at] in ranks and token[at:] in ranks
        # Of a vocabulary of characters, the bytes of one are never joined.
        if not spaced or token[at] & 0xC0 != 0x80
    ]
    return {_spell(token, spaced): rank for token, rank in ranks.items()}, merges


def _spell(token: bytes, spaced: bool = False) -> str:
    if spaced:
        is_byte = len(token) == 1 and token >= b"\x80"
        return f"<0x{token[0]:02X}>" if is_byte else token.decode().replace(" ", SPACE_SIGN)
    letters = gpt2_letters()
    return "".join(letters[byte] for byte in token)
