"""Checks of a template's source, and of its tokens against the vocabulary beside it.

Nothing is rendered: a template of a stranger may reach into Python, add instructions if a message
has certain words, or hide characters. transformers renders in a sandbox, other programs may not.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from mypt_cli.store.gguf import metadata
from mypt_lint.template.checks import Fault, quoted

_CODE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
# Names of Python's inner attributes, functions that lead to its modules, and other files.
_INNER = (
    "class|globals|mro|bases?|subclasses|builtins|import|init|dict|code|closure|reduce|getattribute"
)
_REACHES = re.compile(
    rf"""[\w\])]\.(?:_\w+|mro|popen|gi_\w+|cr_\w+|f_\w+|func_globals)\b|\[\s*["']_\w+["']\s*\]"""
    rf"""|["']__(?:{_INNER})(?:__)?["']|\\x5f|\\u005f|\\137|\|\s*attr\b"""
    r"""|\b(?:lipsum|cycler|joiner|self)\s*[.\[]\s*\w+|\{%[-+]?\s*(?:import|include|extends|from)\b.*"""
)
_WORDS = r"""["'](?P<{}>[A-Za-z][A-Za-z ,.'-]{{3,}})["']"""
_CONTENT = r"""\b(?:content|text|query)\b(?:["']\])?(?:\s*\|\s*\w+|\.(?:lower|upper|strip)\(\))*"""
_HEADER = r"""(?:<[^<>]*>|\\n|(?:system|user)\\n)*"""
_SENTENCE = (
    rf"""[^%]*?%\}}\s*(?:\{{\{{-?\s*["']{_HEADER})?(?P<text>(?:[A-Za-z][a-z]+[,.]? ){{4}}[^{{%]*)"""
)
_ACTS = re.compile(
    rf"if\b[^%]*?(?:{_WORDS.format('a')}\s+(?:not\s+)?in\s+[\w.\[\]'\"-]*{_CONTENT}"
    rf"|{_CONTENT}(?:\s*==\s*|\.\w+\(){_WORDS.format('b')}){_SENTENCE}"
)
# Characters without a width or glyph, but those that join letters.
_HIDDEN = re.compile(
    r"[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e01ef]"
)
_SPECIAL = re.compile(r"<[|｜][^<>\s]+[|｜]>")


def source_faults(text: str) -> Iterator[tuple[Fault, int]]:
    """Yields the faults of a source, with their lines."""
    for match in _HIDDEN.finditer(text):
        name = unicodedata.name(match[0], "a character without a name")
        message = f"the source has a character that nobody sees: U+{ord(match[0]):04X} {name}"
        yield Fault("MYP743", match[0], message), text.count("\n", 0, match.start()) + 1
    for code in _CODE.finditer(text):
        for match in _REACHES.finditer(code[0]):
            message = f"it reaches into Python or another file: {quoted(match[0])}"
            yield Fault("MYP741", match[0], message), text.count("\n", 0, code.start()) + 1
    for match in _ACTS.finditer(text):
        words = quoted(match["a"] or match["b"])
        message = f"if a message has {words}, it writes {quoted(match['text'].strip())}"
        yield Fault("MYP742", words, message), text.count("\n", 0, match.start()) + 1


def token_faults(text: str, tags: list[str], bos: str, folder: Path | None) -> Iterator[Fault]:
    """Yields where a rendered text and the tokenizer of a folder, or GGUF file, do not fit.

    `tags` are those that the template writes.
    """
    if bos and text.startswith(bos * 2):
        yield Fault("MYP740", "text", f"the text begins with {quoted(bos)} twice")
    written = [tag for tag in tags if _SPECIAL.fullmatch(tag)]
    known, begins = set(written), False
    if folder and folder.suffix.lower() == ".gguf":
        values = metadata(str(folder))
        known = set(values.get("tokenizer.ggml.tokens", written))
        begins = values.get("tokenizer.ggml.add_bos_token") is True
    elif folder and (file := folder / "tokenizer.json").is_file():
        data = file.read_bytes()
        known = {tag for tag in written if any(_quoted(tag, a) in data for a in (True, False))}
        match = re.search(rb'"post_processor"\s*:\s*(.*?)\s*"decoder"\s*:', data, re.DOTALL)
        begins = match is not None and _quoted(bos, False) in match[1]
    for tag in written:
        if tag not in known:
            message = f"the vocabulary has no token {quoted(tag)}, so it is written as several"
            yield Fault("MYP729", tag, message)
    if bos and text.startswith(bos) and begins:
        message = f"the template writes {quoted(bos)}, and the tokenizer adds another one"
        yield Fault("MYP740", "tokenizer", message)


def _quoted(text: str, ascii_only: bool) -> bytes:
    return json.dumps(text, ensure_ascii=ascii_only).encode()
