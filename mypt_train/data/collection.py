"""Assigns the samples of units to splits, and leaves out duplicates.

Input: unit files, in order. Output: the split and the origin of each sample, the lines that were
refused, and counts that account for every line. Only the headers of the unit files are read.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mypt_train.data.formats.manifest import CHOSEN, REJECTED, SFT
from mypt_train.data.formats.options import Options
from mypt_train.data.unit_files import LONG, REFUSED, Part, Placed, UnitFile

SPLITS = ("train", "val")
_OUTCOMES = ("written", REFUSED, LONG, "duplicate")


@dataclass(slots=True)
class Totals:
    """Counts of some units, for the manifest.

    `accounts` has for the number of each input how many `lines` it has, and how many of these were
    written, refused, too long or duplicates.
    """

    accounts: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    tags: Counter[str] = field(default_factory=Counter)
    history: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    weighed: int = 0
    weights: bool = False

    def account_of(self, *files: int) -> dict[str, int]:
        """Returns the account of inputs together, as the manifest has it."""
        return {
            name: sum(self.accounts[file][name] for file in files) for name in ("lines", *_OUTCOMES)
        }

    @property
    def all(self) -> dict[str, int]:
        """Returns the account of all inputs together."""
        return self.account_of(*self.accounts)

    def take(self, file: int, head: Mapping[str, Any]) -> Counter[str]:
        """Adds what the header of a unit file says; returns the account of its input.

        Written lines are not counted yet: they may be duplicates.
        """
        counts = {name: head["statuses"].get(name, 0) for name in (REFUSED, LONG)}
        self.tags.update(head["tags"])
        self.history.update(head.get("history", {}))
        self.warnings.update(head.get("warnings", {}))
        self.weighed += head.get("weighed", 0)
        self.weights |= head.get("weights", False)
        self.accounts[file].update(counts | {"lines": head["lines"]})
        return self.accounts[file]

    @property
    def add_up(self) -> bool:
        """Returns whether every line of every input is accounted for."""
        return all(
            account["lines"] == sum(account[name] for name in _OUTCOMES)
            for account in self.accounts.values()
        )


class Collection:
    """What all units hold, taken in order: totals, rejects, and where each sample goes.

    `names` are those of the inputs. `parts` are the unit files taken; `Placed.unit` counts them.
    """

    def __init__(self, names: Sequence[str], options: Options) -> None:
        self.names, self.options = names, options
        self.totals = Totals()
        self.parts: list[Part] = []
        self.placed: dict[str, list[Placed]] = {name: [] for name in SPLITS}
        self.rejects: list[bytes] = []  # a line of JSON each
        self.pieces: dict[tuple[int, int], int] = {}  # the lines before each piece of a file
        self.sample_keys: set[bytes] = set()
        self.pairs = 0

    def take(self, part: Part) -> int:
        """Takes a unit file; returns the byte after it. Raises OSError if it cannot be read."""
        unit = UnitFile.open(part)
        head, file = unit.head, unit.head["file"]
        base = self.pieces.setdefault((file, head["piece"]), self.totals.accounts[file]["lines"])
        account = self.totals.take(file, head)
        for reject in head["rejects"]:
            entry = {"file": self.names[file], "line": base + reject["row"]} | {
                key: reject[key] for key in ("status", "findings")
            }
            self.rejects.append(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        new = self._place(len(self.parts), file, base, unit)
        self.parts.append(part)
        account["written"] += sum(new.values())
        account["duplicate"] += len(new) - sum(new.values())
        return unit.end

    def _place(self, number: int, file: int, base: int, unit: UnitFile) -> dict[int, bool]:
        """Puts samples into splits; returns for each row whether any of its samples is new."""
        offset, before, split = 0, -1, "train"
        new: dict[int, bool] = {}
        keys = self.sample_keys if self.options.dedup else None
        by_turn = self.options.history == "per-turn"
        limit = self.options.val_fraction * 2**64
        kinds: list[int] = unit.head.get("kinds") or [SFT] * len(unit.lengths)
        digests = unit.digests.tobytes()
        samples = zip(unit.lengths.tolist(), unit.rows.tolist(), kinds, strict=True)
        for i, (length, row, kind) in enumerate(samples):
            if kind != REJECTED:  # a rejected answer follows its chosen one
                key = digests[16 * i : 16 * i + 16]
                own_split = "val" if int.from_bytes(key[:8], "little") < limit else "train"
                if kind:
                    key += bytes([kind])
                    key += digests[16 * i + 16 : 16 * i + 32] if kind == CHOSEN else b""
                fresh = keys is None or key not in keys
                if keys is not None:
                    keys.add(key)
                if not by_turn or row != before:  # a record is in one split
                    split = own_split
                before = row
                self.pairs += kind == CHOSEN
            new[row] = new.get(row, False) or fresh
            if fresh:
                pair = self.pairs if kind in (CHOSEN, REJECTED) else 0
                self.placed[split].append(
                    Placed(number, offset, length, file, base + row, kind, pair)
                )
            offset += length
        return new
