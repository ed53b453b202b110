"""Writes a page that is one file: no network, no font, no data that is ever markup.

Its data is JSON in a script element that is never run, with `<` escaped; the page's own script puts
it into the document as text. A policy in the page allows this one script and this one style sheet,
and no request at all.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from mypt_cli.terminal import HIDDEN

_BASE = files("mypt_cli") / "assets"  # what all pages share


def page(
    folder: Traversable, template: str, styles: Sequence[str], scripts: Sequence[str], data: Any,
    **values: str,
) -> bytes:  # fmt: skip
    """Returns a page made of files of a folder; `values` replace other names in the template."""

    def joined(base: str, names: Sequence[str]) -> str:
        texts = [_BASE / base, *(folder / name for name in names)]
        return "\n".join(file.read_text(encoding="utf-8") for file in texts)

    style = joined("base.css", styles)
    script = joined("base.js", scripts).replace("HIDDEN_CHARACTERS", _for_script(HIDDEN.pattern))
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    values |= {"policy": policy, "style": style, "script": script, "data": _inert(as_json(data))}
    text = (folder / template).read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda m: values[m[1]], text).encode()


def as_json(value: Any) -> str:
    """Returns a value as JSON that UTF-8 can hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which a record may hold
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text


def _for_script(pattern: str) -> str:
    """Returns a character class of Python as one of JavaScript, in ASCII."""
    return "".join(
        char if char.isascii() and char.isprintable() else f"\\u{{{ord(char):x}}}"
        for char in pattern
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inert(text: str) -> str:
    """Returns JSON that is no markup, wherever in the page it is."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
