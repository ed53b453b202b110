"""Decides what becomes of one line of input by the chat template of a model.

Input: a line of JSONL. Output: a LineOutcome, as `encode_line` has it. Text and ids are those of
the template; a token is trained if it begins in a part that the model writes.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_cli.jsonl.line import read_line
from mypt_lint.check.from_settings import checker
from mypt_lint.check.suppress import untrainable
from mypt_lint.settings.settings import NO_SETTINGS, Settings
from mypt_lint.template.align import Aligned
from mypt_lint.template.clean_chats import CleanChat, CleanChats
from mypt_lint.template.model import RENDERING
from mypt_records.chat import Chat, JsonValue
from mypt_records.shapes import read
from mypt_spec.encoder import Mask
from mypt_spec.findings import Finding, with_help
from mypt_train.data.encode_line import Encoder, LineOutcome, refused
from mypt_train.data.formats.manifest import dtype_of
from mypt_train.data.formats.model import ModelFormat
from mypt_train.data.formats.options import Options
from mypt_train.data.templates.template import Sample
from mypt_train.data.unit_files import WRITTEN


class _Read(NamedTuple):
    """A record, the findings about its line, and its chat."""

    record: Any
    about: list[Finding]
    chat: Chat


class ModelEncoder(Encoder):
    """Turns lines into samples by the chat template of a model, for one set of options.

    Records are messages as OpenAI has them, unless `rules` name another shape.
    """

    def __init__(self, options: Options, rules: Settings = NO_SETTINGS) -> None:
        self.options = options
        self.dialect = options.loaded_dialect
        assert isinstance(self.dialect, ModelFormat)
        self.model = self.dialect.model
        self.dtype = np.dtype(dtype_of(self.dialect.tokenizer.vocab_size))
        base = checker(rules, self.dialect, with_fixes=False, formatless=True)
        base = replace(base, shape=base.shape or "openai")
        self.checker = replace(base, by_model=lambda _, chat: (None, self.model.placed(chat)[1]))
        self.clean = CleanChats(base, self.model)
        self.counting = rules.counting
        self.refuses_crlf = bool(self._against([Finding("MYP010", "")]))

    def lines(self, raw_lines: list[bytes], *, first: bool = False) -> list[LineOutcome]:
        """Returns the outcomes of several lines: the same as `line` of each, but faster."""
        lines = raw_lines if self.refuses_crlf else [raw.removesuffix(b"\r") for raw in raw_lines]
        read_lines = [
            self._chat(raw, first=first and i == 0)
            if clean is None or self._against(clean.findings)
            else clean
            for i, (raw, clean) in enumerate(zip(lines, self.clean.placed(lines), strict=True))
        ]
        self.model.render(each.chat for each in read_lines if isinstance(each, _Read))
        out: list[LineOutcome | CleanChat] = []
        for each in read_lines:
            if isinstance(each, _Read):
                out.append(self._judged(*each))
            else:
                if isinstance(each, CleanChat):
                    self.model.stopped = 0
                out.append(each)
        return self._outcomes(out)

    def _chat(self, raw: bytes, *, first: bool) -> _Read | LineOutcome:
        line = read_line(raw, first=first)
        if line.fault is not None:
            return refused(line.fault.finding)
        chat = read(line.value, self.checker.shape)
        return _Read(line.value, [spot.finding for spot in line.spots], chat)

    def record(self, record: Any, about: Iterable[Finding] = ()) -> LineOutcome:
        """Returns the outcome of a JSON value; `about` are the findings about its line."""
        chat = read(record, self.checker.shape)
        return self._outcomes([self._judged(record, about, chat)])[0]

    def _judged(self, record: Any, about: Iterable[Finding], chat: Chat) -> LineOutcome | CleanChat:
        """Returns the chat and rendering of a record, or the outcome of one that is refused."""
        findings = [*about, *self.checker.read(record, chat)[1]]
        against = self._against(findings)
        aligned = chat.facts.get(RENDERING)
        if against or not isinstance(aligned, Aligned):
            by_model = self.model.placed(chat)[1] if not against else ()
            errors = [untrainable(f) for f in by_model if f.severity == "error"]
            nothing = [Finding("MYP906", "the chat template has no conversation to write")]
            return refused(*map(with_help, against or errors or nothing))
        if stray := self.model.stray(chat):  # also if its rule is ignored
            return refused(stray)
        return CleanChat(chat, aligned, findings)

    def _outcomes(self, judged: list[LineOutcome | CleanChat]) -> list[LineOutcome]:
        """Returns the outcomes of lines: what is written is encoded."""
        out: list[LineOutcome | None] = [None] * len(judged)
        written: list[tuple[int, CleanChat]] = []
        for i, item in enumerate(judged):
            if isinstance(item, LineOutcome):
                out[i] = item
            elif not item.aligned.trained:  # a prompt alone is legal, but trains nothing
                out[i] = refused(Finding("MYP218", "the conversation has no answer"))
            elif (label := item.chat.label) is not None and not label.value:
                message = "the label says that this answer is bad, and it would be trained"
                hint = "drop the record, or name a --dialect that keeps labels, with --preferences"
                out[i] = refused(Finding("MYP114", message, label.at, help=hint))
            else:
                written.append((i, item))
        renderings = [item.aligned for _, item in written]
        encoded = self.model.encoder.encoded(renderings, self.dialect.tokenizer.encode_batch)
        for (i, item), ids in zip(written, encoded, strict=True):
            try:
                if isinstance(ids, ValueError):
                    raise ids
                sample = self._sample(item, *ids)
            except ValueError as error:
                out[i] = refused(Finding("MYP301", str(error)))
                continue
            if self._fits(sample):
                out[i] = LineOutcome(
                    WRITTEN, (sample,), warned=self._warnings(item.findings) or None
                )
            else:
                out[i] = self._too_long(sample) or refused(self._length_finding(sample))
        return [outcome for outcome in out if outcome is not None]

    def _sample(
        self, written: CleanChat, ids: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
    ) -> Sample:
        chat, aligned, _ = written
        weights = np.zeros(len(ids), np.float32)
        first = chat.last_question if Mask.from_name(self.options.mask).last else -1
        weighed = False
        bounds = [at for span in aligned.trained for at in (span.start, span.end)]
        tokens = np.searchsorted(starts, bounds).tolist()
        for span, begin, end in zip(aligned.trained, tokens[::2], tokens[1::2], strict=True):
            inside = (p.message for p in aligned.pieces if span.start <= p.start < span.end)
            number = span.message if span.message >= 0 else next(inside, len(chat.messages) - 1)
            if number < first:
                continue
            weight = _weight(chat, number)
            weighed |= weight != 1
            weights[begin:end] = weight
        weights[:1] = 0  # no token before it could predict it
        mask: npt.NDArray[np.uint8] = (weights > 0).astype(np.uint8)
        each = weights if weighed and (weights != mask).any() else None
        return Sample(ids.astype(self.dtype), mask, weights=each, weighed=weighed)


def _weight(chat: Chat, number: int) -> float:
    """Returns how much a message is trained. Raises ValueError for weights of parts."""
    message = chat.messages[number]
    weight = message.weight or JsonValue(1, "")
    if isinstance(weight.value, dict) or any(t.weight is not None for t in message.content or ()):
        raise ValueError(
            "parts of a message have weights of their own, which --model does not read: give the "
            "message one weight, or use --dialect"
        )
    return float(weight.value)
