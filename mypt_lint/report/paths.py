"""Writes file names as other programs want them: relative names, and URIs."""

import os
import re
from urllib.parse import quote

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def relative(filename: str) -> str:
    """Returns the name, relative to the working folder if the file is below it, with `/`."""
    if os.path.isabs(filename):
        below = os.path.join(os.getcwd(), "")
        filename = filename.removeprefix(below)
    if os.sep != "/":
        filename = filename.replace(os.sep, "/")
    while filename.startswith("./"):
        filename = filename[2:].lstrip("/")
    return filename


def uri(filename: str) -> tuple[str, bool]:
    """Returns a URI reference for the file, and whether it is relative to the checked root.

    The bytes of the name are percent-encoded, so a name that is not UTF-8 survives.
    """
    name = relative(filename)
    try:
        raw = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = name.encode("utf-8", "surrogatepass")
    quoted = quote(raw)
    if "://" in name:
        scheme, _, path = quoted.partition("%3A//")
        return f"{scheme}://{path}", False
    if _DRIVE.match(name):
        return "file:///" + quoted, False
    if name.startswith("/"):
        return "file://" + quoted, False
    return quoted, name != "<stdin>" and ".." not in name.split("/")
