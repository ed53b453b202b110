"""Events of a stream, as the whole text has them."""

from __future__ import annotations

from mypt_spec.table import TEXT


def join_texts(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns terminals and texts with neighbouring texts joined."""
    out: list[tuple[str, str]] = []
    for terminal, text in pairs:
        if out and terminal == out[-1][0] == TEXT:
            out[-1] = (TEXT, out[-1][1] + text)
        else:
            out.append((terminal, text))
    return out
