"""Compares what a chat template writes with what the grammar of a format says.

Input are a dialect and rendered conversations; output are faults. The text must be legal, and be
what the serializer writes of the same conversation; the marks of `{% generation %}` must be the
loss mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

from mypt_lint.template.checks import Fault, difference, quoted
from mypt_lint.template.render import Rendered
from mypt_lint.template.source import Template

if TYPE_CHECKING:
    from mypt_spec import Dialect, Episode

_PROMPT = "You are helpful."  # of conversations without one, where a format needs it


def losses(dialect: Dialect, episode: Episode) -> list[int]:
    """Returns the loss of each character of the text of an Episode."""
    encoded, decode = dialect.encode(episode), dialect.tokenizer.decode
    pairs = zip(encoded.ids.tolist(), encoded.loss.tolist(), strict=True)
    runs = groupby(pairs, lambda pair: pair[1])
    return [loss for loss, run in runs for _ in decode(token for token, _ in run)]


class Format:
    """A dialect, and the shipped conversations as its records."""

    def __init__(self, dialect: Dialect) -> None:
        from mypt_convert.engine import Converter

        self.dialect = dialect
        name = str(dialect.folder or dialect.name)
        # As it is; and with a prompt, where the format must have one.
        self._converters = [Converter("openai", name, system=s) for s in (None, _PROMPT)]

    def __reduce__(self) -> tuple[type[Format], tuple[Dialect]]:
        """Returns what makes it again in another process, which is started and not forked."""
        return Format, (self.dialect,)

    def named(self, template: Template) -> Template:
        """Returns a template with the first token of the format, if a lone file does not say."""
        chat = self.dialect.adapter.chat
        begin = chat.blocks.get("begin", ()) if chat else ()
        spelled = "".join(self.dialect.table.marks[kind].bare for kind in begin)
        unknown = template.tokens.get("bos_token") in template.assumed
        tokens = template.tokens | ({"bos_token": spelled} if unknown else {})
        return replace(template, tokens=tokens)

    def record(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Returns a conversation as a record of the dialect; None where it has no place for it."""
        public = {key: record[key] for key in record if key[0] != "_"}
        tries = (converter.record(public) for converter in self._converters)
        out = next((out for out in tries if out.record is not None), None)
        return None if out is None or out.losses else out.record

    def messages(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the messages of a record of the dialect, as a template takes them."""
        system = record.get("system")
        first = [] if system is None else [{"role": "system", "content": system}]
        return [*first, *record["messages"]]

    def faults(
        self, text: Rendered, record: dict[str, Any] | None, *, complete: bool = True
    ) -> Iterable[Fault]:
        """Yields how a text differs from the format; `record` is the record of its conversation.

        Without `complete`, the text need only be the beginning of a legal one, as a prompt is.
        """
        name = self.dialect.name
        if not complete and not self.dialect.check_prefix(text.text).findings:
            return
        episode, findings = self.dialect.parse(text.text)
        error = next((f for f in findings if f.severity == "error"), None)
        if episode is None or error:
            at = error.span[0] if error and error.span else 0
            why = error.message if error else "it is not an episode"
            here = quoted(text.text[at:])
            yield Fault("MYP722", "legal", f"no legal {name} at character {at}, {here}: {why}")
            return
        parsed = None if record is None else self.dialect.read(record)[0]
        # A template may keep earlier thoughts, or forget them as the official one does.
        forms = parsed and [parsed, *self.dialect.trained(parsed, history="official")]
        if forms and episode not in forms:
            pairs = product(forms, self.dialect.table.layouts)
            layouts = [self.dialect.serialize(one, layout=layout) for one, layout in pairs]
            nearest = max(layouts, key=lambda ours: difference(text.text, ours)[0])
            at, got, ours = difference(text.text, nearest)
            message = f"at character {at} stands {quoted(got)}, and {name} writes {quoted(ours)}"
            yield Fault("MYP722", "serializer", message)
        elif text.spans is not None:
            yield from self._mask(episode, text)

    def _mask(self, episode: Episode, text: Rendered) -> Iterable[Fault]:
        """Yields where the marks of the template are not the loss mask; white space is left out."""
        chars = zip(self.dialect.serialize(episode), losses(self.dialect, episode), strict=True)
        ours = [bool(loss) for char, loss in chars if not char.isspace()]
        marked = [
            (i, any(a <= i < b for a, b in text.spans or ()))
            for i, char in enumerate(text.text)
            if not char.isspace()
        ]
        for expected, (at, is_marked) in zip(ours, marked, strict=False):
            if expected != is_marked:
                where, mask = ("outside", "is") if expected else ("inside", "is not")
                place = f"at character {at}, {quoted(text.text[at:])} is {where}"
                message = f"{place} of {{% generation %}}, and {mask} trained by the loss mask"
                yield Fault("MYP719", "mask", message)
                return
