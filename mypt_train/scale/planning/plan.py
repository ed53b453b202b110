"""Says once what is prepared from what: inputs, options and units, pinned and hashed.

A plan is a file of JSON. It holds all that a unit depends on: how the inputs were when they were
listed, the options, the grammar's fingerprint, the vocabulary's hash, the version. It holds no
credentials, and no time or name of a machine. A run that continues another compares their plans.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

import mypt_spec
from mypt_cli import atomic
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.names import WORK
from mypt_lint.settings.settings import NO_SETTINGS, Settings
from mypt_train.data.formats.options import Options
from mypt_train.scale.planning.cut import cut_inputs, units_of
from mypt_train.scale.planning.pieces import Input, Piece

SCHEMA = "mypt_plan_v2"
# The keys of an input that need no conversion.
_PLAIN = [name for name in Input._fields if name not in ("rules", "stamp")]


class PlanError(UsageError):
    """A data set cannot be made; the message says why and what to do."""


@dataclass(frozen=True)
class Plan:
    """What is prepared: `units` of `inputs`, with `options`, for the folder `out`.

    - `units`: the pieces of each unit. Its number is its place here.
    - `fingerprint`, `vocabulary`: the grammar and the hashes of the files of the vocabulary.
    - `version`: the version of the package that made the plan.
    """

    out: Path
    options: Options
    inputs: tuple[Input, ...]
    units: tuple[tuple[Piece, ...], ...]
    fingerprint: str
    vocabulary: Mapping[str, str]
    version: str

    @cached_property
    def _row_groups(self) -> Counter[int]:
        every = (piece for unit in self.units for piece in unit)
        out = Counter[int]()
        for piece in every:
            if self.inputs[piece.file].cut == "rows":
                out[piece.file] += piece.end - piece.start
        return out

    def bytes_of(self, piece: Piece) -> int:
        """Returns the bytes of a piece on disk; of row groups, about."""
        size = piece.end - piece.start
        if groups := self._row_groups[piece.file]:
            return self.inputs[piece.file].bytes * size // groups
        return size

    def unit_file(self, number: int) -> Path:
        """Returns the file of an encoded unit, which is there until the data set is done."""
        return self.out / WORK / "units" / f"{number:05}.bin"

    def put(self, name: str, data: bytes) -> None:
        """Writes a file of the data set. Raises OSError."""
        path = self.out / name
        path.parent.mkdir(exist_ok=True)
        atomic.write(path, [data])


def make_plan(
    sources: Sequence[Source],
    rules: Sequence[Settings],
    options: Options,
    out: Path,
    *,
    unit: int,
    progress: Callable[[int], None] = lambda _: None,
) -> Plan:
    """Returns a plan for some inputs, in units of about `unit` bytes of input.

    Reads all local inputs once, for their hashes; `progress` is told the bytes that are done.
    Raises PlanError and UsageError.
    """
    if unit < 1:
        raise PlanError(f"the size of a unit is {unit}, expected 1 or more bytes")
    options.possible()
    overrides = {"phase": options.phase, "fail-on": "error"}
    judging = [settings.judging(overrides) for settings in rules] or [NO_SETTINGS] * len(sources)
    inputs, pieces = cut_inputs(sources, judging, size=unit, progress=progress)
    dialect = options.loaded_dialect
    units = units_of(inputs, pieces, size=unit)
    return Plan(
        out, options, tuple(inputs), tuple(units), dialect.fingerprint, dialect.tokenizer.files,
        mypt_spec.__version__,
    )  # fmt: skip


def dumped(plan: Plan) -> bytes:
    """Returns the plan as the bytes of its file."""
    body = {
        "schema": SCHEMA,
        "version": plan.version,
        "options": plan.options.as_dict(),
        "fingerprint": plan.fingerprint,
        "vocabulary": dict(plan.vocabulary),
        "inputs": [
            {key: value for key in _PLAIN if (value := getattr(item, key))}
            | ({"rules": json.loads(json.dumps(item.rules.values))} if item.rules.values else {})
            for item in plan.inputs
        ],
        "units": [[[p.file, p.start, p.end] for p in unit] for unit in plan.units],
    }
    return msgspec.json.encode(body) + b"\n"
