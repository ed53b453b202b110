"""Writes file names as other programs want them: relative names, and URIs."""

import os
import re
from urllib.parse import quote

_CHECKOUTS = ("CI_PROJECT_DIR", "GITHUB_WORKSPACE")  # of GitLab, GitHub
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def relative(filename: str) -> str:
    """Returns the name, relative to the checked root if the file is below it, with `/`.

    That is the checkout of a job in CI, if the working folder is in it; else the working folder.
    """
    root = here = os.path.join(os.getcwd(), "")
    for checkout in filter(None, map(os.environ.get, _CHECKOUTS)):
        below = os.path.join(os.path.realpath(checkout), "")
        root = below if here.startswith(below) else root
    if root != here and "://" not in filename and filename != "<stdin>":
        filename = os.path.normpath(os.path.join(here, filename))
    if os.path.isabs(filename):
        filename = filename.removeprefix(root)
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
