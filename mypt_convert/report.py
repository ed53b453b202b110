"""Counts and prints the outcome for every record, line by line and in sums that add up."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from mypt_cli.jsonl.values import Line
from mypt_cli.terminal import Display
from mypt_cli.words import counted, either
from mypt_convert.engine import Converted


class Report:
    """Prints what is refused or lost, and counts: `read` = `lossless` + `with_losses` + `refused`.

    Losses are counted by field: those of the records that are written, or, with `on_loss` "error",
    those that are refused for them.
    """

    def __init__(self, stream: TextIO, *, on_loss: str = "error") -> None:
        self.stream, self.on_loss, self.display = stream, on_loss, Display(stream)
        self.read = self.lossless = self.with_losses = self.refused = 0
        self.reasons: Counter[str] = Counter()  # a finding's code, or "loss" -> refused records
        self.records: Counter[str] = Counter()  # field -> records that lost it
        self.values: Counter[str] = Counter()  # field -> times it was lost
        self.metadata_keys: Counter[str] = Counter()  # key -> written records with it as metadata
        self.new_ids = 0  # calls that got an id
        self.hints: list[str] = []

    def misnamed(self, path: str, source: str, formats: Sequence[str]) -> None:
        """Notes that a file, read as the format `source`, is in one of other formats."""
        if formats:
            hint = f"{path} is {either(formats)}, not {source}: --from {formats[0]} converts it"
            self.hints.append(self.display.line(hint))

    def add(self, line: Line, outcome: Converted | None) -> dict[str, Any] | None:
        """Counts one line. Returns the record to write, if any."""
        self.read += 1
        if outcome is None:
            assert line.fault is not None
            self._refuse(line, line.fault.code, "", line.fault.message)
        elif outcome.record is None:
            first = outcome.findings[0]
            extra = f" (and {len(outcome.findings) - 1} more)" if len(outcome.findings) > 1 else ""
            self._refuse(line, first.code, first.pointer, first.message + extra)
        elif outcome.losses and self.on_loss == "error":
            self._count_losses(outcome)
            loss = outcome.losses[0]
            message = f"would lose {_fields(outcome)}: {loss.reason}"
            self._refuse(line, "loss", loss.pointer, message)
        else:
            self.lossless += not outcome.losses
            self.with_losses += bool(outcome.losses)
            self.new_ids += outcome.named
            self.metadata_keys.update({at.rpartition("/")[2] for at in outcome.metadata})
            self._count_losses(outcome)
            for loss in outcome.losses if self.on_loss == "warn" else ():
                self._say(line, f"lost {loss.field}", loss.pointer, loss.reason)
            return outcome.record
        return None

    def _count_losses(self, outcome: Converted) -> None:
        self.values.update(loss.field for loss in outcome.losses)
        self.records.update({loss.field for loss in outcome.losses})

    def _refuse(self, line: Line, why: str, pointer: str, message: str) -> None:
        self.refused += 1
        self.reasons[why] += 1
        self._say(line, "refused" if why == "loss" else f"refused {why}", pointer, message)

    def _say(self, line: Line, kind: str, pointer: str, message: str) -> None:
        where = f" {pointer}" if pointer else ""
        text = f"{line.path}:{line.row}: {kind}{where}: {message}"
        print(self.display.line(text), file=self.stream)

    def lines(self) -> Iterator[str]:
        """Yields the summary: sums that add up, and losses by field."""
        lossy = f" ({self.with_losses} with losses)" if self.with_losses else ""
        written = self.lossless + self.with_losses
        records = counted(self.read, "record")
        yield f"{records} read: {written} written{lossy}, {self.refused} refused"
        width = max(map(len, self.records), default=0)
        verb = "would lose" if self.on_loss == "error" else "lost"
        for name, count in sorted(self.records.items(), key=lambda item: (-item[1], item[0])):
            times = f"{counted(self.values[name], 'time')} in {counted(count, 'record')}"
            yield f"  {verb} {name:<{width}}  {times}"
        if self.reasons["loss"]:
            refused = f"{counted(self.reasons['loss'], 'record')} refused for that"
            yield f"  {refused}; --on-loss warn writes them without it"
        for key, count in sorted(self.metadata_keys.items()):
            where = f'key "{key}" kept as "_{key}" in {counted(count, "record")}'
            yield self.display.line(f"  {where}: metadata, which has no effect")
        if self.new_ids:
            calls = f"{counted(self.new_ids, 'call')} and the results got ids"
            yield f"  {calls}: the format has them, and the records had none"
        yield from self.hints

    def as_dict(self) -> dict[str, Any]:
        """Returns the counts as JSON values."""
        return {
            "read": self.read,
            "written": self.lossless + self.with_losses,
            "with_losses": self.with_losses,
            "refused": self.refused,
            "kept_as_metadata": dict(sorted(self.metadata_keys.items())),
            "calls_with_new_ids": self.new_ids,
            "refused_by": dict(sorted(self.reasons.items())),
            "lost": {
                name: {"records": self.records[name], "values": self.values[name]}
                for name in sorted(self.records)
            },
        }


def _fields(outcome: Converted) -> str:
    """Returns the fields that are lost, each but the first with its first place."""
    places: dict[str, str] = {}
    for loss in outcome.losses:
        places.setdefault(loss.field, loss.pointer)
    return ", ".join(f"{name} ({at})" if i else name for i, (name, at) in enumerate(places.items()))
