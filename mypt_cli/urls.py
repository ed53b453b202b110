"""Takes apart the names of objects: URLs, local paths and patterns."""

import os
import re
from collections.abc import Callable

from mypt_spec.memo import lazy_re

BUCKETS = ("s3", "gs", "az")
SCHEMES = (*BUCKETS, "http", "https")
_URL = lazy_re(r"([a-zA-Z][a-zA-Z0-9+.-]+)://([^/?#]*)/*([^?#]*)(\?[^#]*)?(#.*)?\Z", re.DOTALL)
_HUB = lazy_re(r"hf://(datasets/)?((?!datasets/)[^/@]+/[^/@]+)(?:@([^/]+))?/(.+)", re.IGNORECASE)
_WILD = lazy_re(r"[*?\[]")


def is_url(path: str) -> bool:
    """Returns whether a path begins as a URL, of whatever scheme."""
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+://", path) is not None


def redacted(url: str) -> str:
    """Returns a URL as messages may show it: without user, password, and values of a query.

    >>> redacted("https://me:pw@host/a.jsonl?X-Sig=abc&part=1#x"), redacted("s3://b/c")
    ('https://***@host/a.jsonl?***', 's3://b/c')
    """
    if not is_url(url):
        return url
    scheme, _, location = url.partition("://")
    place = re.split(r"[/?#]", location, maxsplit=1)[0]
    # A password may hold any of these signs: all up to the last @ before the path is hidden.
    user, at, host = place.rpartition("@")
    after = location[len(place) :]
    if not at and "@" in after and ":" in place and not place.rpartition(":")[2].isdecimal():
        return f"{scheme}://***"
    # The key of an object may hold a #; of other URLs it begins what no server sees.
    path = re.split("[?]" if scheme in BUCKETS else "[?#]", after, maxsplit=1)[0]
    return f"{scheme}://{'***@' if user or at else ''}{host}{path}{'?***' * ('?' in after)}"


def address(url: str) -> str:
    """Returns the address of a file of a hub that a URL of huggingface_hub names; others as is.

    Raises ValueError for a URL of a hub that names no file.

    >>> address("hf://datasets/me/chats@v2/data/a.jsonl")
    'https://huggingface.co/datasets/me/chats/resolve/v2/data/a.jsonl'
    """
    if not url.lower().startswith("hf://"):
        return url
    if (match := _HUB.fullmatch(url)) is None:
        raise ValueError("names no file; write hf://datasets/OWNER/NAME[@REVISION]/FILE")
    kind, name, revision, path = match.groups("")
    hub = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    return f"{hub}/{kind.lower()}{name}/resolve/{revision or 'main'}/{path}"


def parts(url: str) -> tuple[str, str, str]:
    """Returns the scheme, the bucket or host, and the key of a URL.

    Raises ValueError, which says why, for another scheme, and for a URL that holds credentials.
    """
    split = _URL.match(url)
    scheme = url.partition("://")[0].lower()
    if scheme not in SCHEMES:
        names = ", ".join(f"{name}://" for name in SCHEMES)
        raise ValueError(f"{scheme}:// is not a supported store: use {names} or a local path")
    if split is None or not split[2]:
        raise ValueError(f"names no {'host' if scheme.startswith('http') else 'bucket'}")
    if _WILD.search(split[2]) and scheme in BUCKETS:
        raise ValueError("a pattern is for the part after the bucket; name the bucket whole")
    if split[4] and scheme not in BUCKETS:
        raise ValueError(
            "has a query (?), which may be a signature, and what is read is named in plans, "
            "manifests and messages; download it (curl -o NAME 'URL'), or name the object itself "
            "(s3://, gs://, az://): credentials are read from the environment"
        )
    if "@" in split[2] or split[4]:
        raise ValueError(
            "holds a user or a query (?), which may be credentials; name the object alone, or use "
            "* in a pattern: credentials are read from the environment"
        )
    return scheme, split[2], split[3] + (split[5] or "" if scheme in BUCKETS else "")


def is_pattern(key: str) -> bool:
    """Returns whether a key has signs of a pattern: `*`, `?` or `[`."""
    return _WILD.search(key) is not None


def fixed(pattern: str) -> str:
    """Returns the folder before the first part of a pattern that has signs of one.

    >>> fixed("a/b/*.jsonl"), fixed("*.jsonl")
    ('a/b', '')
    """
    head = pattern[: match.start()] if (match := _WILD.search(pattern)) else pattern
    return head.rpartition("/")[0]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Returns whether a key matches: `*` and `?` stay inside a folder, `**` goes through any.

    >>> match = matcher("a/**/[xy]*.zst")
    >>> [match(key) for key in ("a/x.zst", "a/b/c/y1.zst", "a/b/z.zst", "a/x/b.zst", "a/xzst")]
    [True, True, False, False, False]
    """
    out, at = "", 0
    while at < len(pattern):
        if pattern.startswith("**/", at) and pattern[at - 1 : at] in ("", "/"):
            out, at = out + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            out, at = out + ".*", at + 2
        elif bracket := re.compile(r"\[(!?)([^]]+)\]").match(pattern, at):
            inside = bracket[2].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            out, at = out + f"[{'^' * bool(bracket[1])}{inside}]", bracket.end()
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(pattern[at], re.escape(pattern[at]))
            at += 1
    compiled = re.compile(out, re.DOTALL)
    return lambda key: compiled.fullmatch(key) is not None
