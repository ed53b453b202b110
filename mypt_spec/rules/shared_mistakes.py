"""Names what formats of chats refuse, by rows that all of them share.

Input is grammar/mistakes.toml, whose rows speak of the pieces of a chat, and what these pieces
are in one format; output are `Mistake`s of its terminals and blocks. So each format, those in
folders of one's own too, has these names without a word in its token table.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mypt_spec.compiled.toml import loads
from mypt_spec.table import END, TEXT, Mistake, Terminal, TokenTable

Path = tuple[str, ...]
_WORD = re.compile(r"\{(/?[a-z_]+)\}")  # in a help: a piece, whose tag is written


class Chat(NamedTuple):
    """What the pieces of a chat are in a format.

    `blocks` maps each piece to its kind of block, after that of the block around it, if there is
    one; "begin" and "finish" are marks. `tools_before` says what has the definitions of tools
    before it: the "first" or the "last" question, or the "system" message.
    """

    blocks: Mapping[str, Path]
    tools_before: str = "first"

    def has(self, place: str) -> bool:
        """Returns whether a piece is a block by itself ("tools"), or in another ("user/tools")."""
        outer, _, piece = place.rpartition("/")
        path = self.blocks.get(piece, ())
        return bool(path) and path[:-1] == (self.blocks.get(outer) if outer else ())


def shared_mistakes(source: str, chat: Chat, table: TokenTable) -> tuple[Mistake, ...]:
    """Returns the rows of `source` for a format, without those about pieces that it lacks."""
    tags = _tags(chat, table)
    names = {TEXT: TEXT, END: END} | {piece: tag.name for piece, tag in tags.items()}
    kinds = {"": ""} | {piece: path[-1] for piece, path in chat.blocks.items()}
    before = f"{chat.tools_before} {'message' if chat.tools_before == 'system' else 'question'}"
    words = {"tools_before": before} | {p: tag.shown for p, tag in tags.items()}
    rows = [r for r in loads(source)["mistake"] if "where" not in r or chat.has(r["where"])]
    mistakes = (_mistake(row, names, kinds, words) for row in rows)
    return tuple(row for row in mistakes if row is not None)


def _tags(chat: Chat, table: TokenTable) -> dict[str, Terminal]:
    """Maps each piece to its opening tag or mark, and with a slash before it to its closing tag."""
    out: dict[str, Terminal] = {}
    for piece, path in chat.blocks.items():
        kind = path[-1]
        out[piece] = table.openers[kind] if kind in table.openers else table.marks[kind]
        if kind in table.closers:
            out[f"/{piece}"] = table.closers[kind]
    return out


def _mistake(
    row: dict[str, Any], names: dict[str, str], kinds: dict[str, str], words: dict[str, str]
) -> Mistake | None:
    """Returns a row in the words of a format; None if it names a piece that the format lacks.

    By piece, there are the `names` of terminals, the `kinds` of block, and the `words` of helps.
    """
    fields: dict[str, Any] = {"code": row["code"]}
    try:
        fields |= {key: names[row[key]] for key in ("terminal", "expected") if key in row}
        lists = {key: row[key] for key in ("inside", "after") if key in row}
        fields |= {key: tuple(kinds[p] for p in pieces) for key, pieces in lists.items()}
        fields["help"] = _WORD.sub(lambda match: words[match[1]], row["help"])
    except KeyError:
        return None
    return Mistake(**fields)
