"""Shows generated tokens to people as they come: tags by the name of their block, text as it is."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from mypt_spec import Dialect
from mypt_spec.table import TEXT

TAG, PLAIN = "tag", "text"


class TokenText:
    """Turns tokens into (kind, text) pieces.

    Text that may still become a tag, and half a character, are held back.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.by_id = {i: tag for tag, i in dialect.tokenizer.special.items()}
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.tail = ""
        self.names = {t.name: t.opens for t in dialect.table.terminals.values()}
        self.tags = [t.spell().lstrip() for t in dialect.table.plain_tags]

    def token(self, token: int) -> Iterator[tuple[str, str]]:
        """Yields the pieces that one more token makes certain."""
        if token in self.by_id:
            yield from self.rest()
            self.tail = self.by_id[token]
            yield from self._pieces(final=True)
        else:
            self.tail += self.decoder.decode(self.dialect.tokenizer.decode_bytes([token]))
            yield from self._pieces(final=False)

    def rest(self) -> Iterator[tuple[str, str]]:
        """Yields what was held back."""
        self.tail += self.decoder.decode(b"", True)
        self.decoder.reset()
        yield from self._pieces(final=True)

    def _pieces(self, *, final: bool) -> Iterator[tuple[str, str]]:
        keep = 0 if final else self._unsure()
        text, self.tail = self.tail[: len(self.tail) - keep], self.tail[len(self.tail) - keep :]
        for event in self.dialect.lex(text):
            if event.terminal == TEXT:
                yield PLAIN, event.text
            elif name := self.names.get(event.terminal, ""):
                yield TAG, name + "".join(f" {value}" for _, value in event.attrs)

    def _unsure(self) -> int:
        """Returns how many characters at the end may be the beginning of a tag."""
        firsts = {tag[0] for tag in self.tags}
        for at in range(max(0, len(self.tail) - 200), len(self.tail)):
            tail = self.tail[at:]
            if tail[0] in firsts and any(
                tag.startswith(tail[: len(tag)]) or (tag[:9] == tail[:9] and ">" not in tail)
                for tag in self.tags
            ):
                return len(tail) if not any(tail.startswith(tag) for tag in self.tags) else 0
        return 0
