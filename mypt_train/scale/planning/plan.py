"""Says once what is prepared from what: inputs, options and units, pinned and hashed.

A plan is a file of JSON. It holds all that a unit depends on, so that any machine makes the same
bytes of it: how the inputs were when they were listed, the options, the grammar's fingerprint, the
vocabulary's hash, the version. It holds no credentials, and no time or name of a machine. Its own
hash shows that nobody edited it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

import mypt_spec
from mypt_cli import atomic
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.names import MANIFEST, PLAN, REJECTS, WORK
from mypt_cli.store import Store, StoreError, is_url, locate, redacted
from mypt_lint.settings.settings import NO_SETTINGS, Settings
from mypt_spec.tokenizer.vocabulary import VocabularyError
from mypt_train.data.formats.options import Options
from mypt_train.scale.planning import GROUP, UNIT
from mypt_train.scale.planning.cut import cut_inputs, units_of
from mypt_train.scale.planning.pieces import CUTS, Input, Piece

SCHEMA = "mypt_plan_v1"
# The keys of an input that need no conversion.
_PLAIN = [field.name for field in fields(Input) if field.name != "rules"]


class PlanError(UsageError):
    """A plan cannot be made or followed; the message says why and what to do."""


@dataclass(frozen=True)
class Plan:
    """What is prepared: `units` of `inputs`, with `options`, for the folder or URL `out`.

    - `units`: the pieces of each unit. Its number is its place here.
    - `group`: how many units are packed into rows together.
    - `fingerprint`, `vocabulary`: the grammar and the hashes of the files of the vocabulary.
    - `version`: the version of the package that made the plan.
    - `sha256`: the hash of all this, "" if nobody else follows it.
    """

    out: str
    options: Options
    inputs: tuple[Input, ...]
    units: tuple[tuple[Piece, ...], ...]
    group: int
    fingerprint: str
    vocabulary: Mapping[str, str]
    version: str
    sha256: str = ""

    @property
    def display_name(self) -> str:
        """Returns `out` as messages may show it."""
        return redacted(self.out)

    @cached_property
    def groups(self) -> int:
        return -(-len(self.units) // self.group)

    def of_group(self, number: int) -> list[int]:
        """Returns the numbers of the units of a group, in order.

        They are drawn from all the inputs by the seed, so that shards of all groups are alike.
        """
        return sorted(self._drawn[number * self.group : (number + 1) * self.group])

    @cached_property
    def _drawn(self) -> list[int]:
        """Returns the numbers of all units in the order in which groups take them."""
        if self.groups == 1:
            return [*range(len(self.units))]
        import numpy as np

        drawn = np.random.Generator(np.random.PCG64(self.options.seed)).permutation(len(self.units))
        return [int(number) for number in drawn]

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

    def store(self) -> Store:
        return Store.at(self.out)

    @property
    def alone(self) -> bool:
        """Returns whether nobody else follows the plan."""
        return not self.sha256

    def put(self, key: str, data: bytes) -> None:
        """Puts an object into the data set. Raises StoreError and OSError.

        Of a plan that nobody else follows, the next run takes over what a kill leaves.
        """
        if not self.alone:
            self.store().put(key, data)
            return
        path = Path(self.out, *key.split("/"))
        path.parent.mkdir(exist_ok=True)
        atomic.write(path, [data])


def make_plan(
    sources: Sequence[Source],
    rules: Sequence[Settings],
    options: Options,
    out: str,
    *,
    unit: int = UNIT,
    group: int = GROUP,
    alone: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Plan:
    """Returns a plan for some inputs; `unit` and `group` are in bytes of input.

    Reads all local inputs once, for their hashes; `progress` is told the bytes that are done. With
    `alone`, the plan is followed here and at once: it has one group, and whether the folder is free
    is for the caller to say. Raises PlanError and UsageError.
    """
    for name, size in (("unit", unit), ("group", group)):
        if size < 1:
            raise PlanError(f"--{name}-size is {size}, expected 1 or more bytes")
    options.possible()
    if not alone:
        _refuse_full(out)
    overrides = {"phase": options.phase, "fail-on": "error"}
    judging = [settings.judging(overrides) for settings in rules] or [NO_SETTINGS] * len(sources)
    inputs, pieces = cut_inputs(sources, judging, size=unit, progress=progress)
    units = units_of(inputs, pieces, size=unit)
    if not units and not alone:
        raise PlanError("nothing to prepare: all inputs are empty")
    together = max(1, group // unit)
    if alone or (len(units) > together and options.preferences):
        together = max(1, len(units))  # pairs are numbered through
    dialect = options.loaded_dialect
    plan = Plan(
        out, options, tuple(inputs), tuple(units), together, dialect.fingerprint,
        dialect.tokenizer.files, mypt_spec.__version__,
    )  # fmt: skip
    return plan if alone else replace(plan, sha256=_hash(_body(plan)))


def _refuse_full(out: str) -> None:
    """Raises PlanError for a folder with something else than a plan in it, and for a web server."""
    refuse_web_server(out)
    store = Store.at(out)
    if store.exists(MANIFEST):
        raise PlanError(f"{redacted(out)}: holds a data set; name another folder")
    if not is_url(out) and Path(out).exists():
        others = {p.name for p in Path(out).iterdir()} - {PLAN, WORK, REJECTS}
        if others:
            raise PlanError(f"{out}: is not empty; name another folder, or empty it")


def refuse_web_server(out: str) -> None:
    """Raises PlanError for a data set on a web server."""
    if out.startswith(("http://", "https://")):
        raise PlanError(
            f"{redacted(out)}: nothing can be written to a web server; name a local folder, or a "
            "URL of s3://, gs:// or az://"
        )


def dumped(plan: Plan) -> bytes:
    return msgspec.json.encode(_body(plan) | {"sha256": plan.sha256}) + b"\n"


def write_plan(plan: Plan) -> str:
    """Writes a plan into the folder of its data set; returns where.

    The same plan may be there already. Raises PlanError if anything else is there, and StoreError
    for a store that cannot write an object only if there is none.
    """
    store, content = plan.store(), dumped(plan)
    path = store.name(PLAN)
    if not store.exists(PLAN):
        if store.entries(WORK):
            raise PlanError(
                f"{store.name(WORK)}: has units of another plan; delete it, or name another folder"
            )
        store.prove_exclusive(WORK)
        if store.put_if_absent(PLAN, content):
            return path
    if store.read(PLAN) == content:
        return path
    raise PlanError(f"{path}: another plan is there; name another folder, or delete it and {WORK}")


def read_plan(path: str) -> Plan:
    """Reads a plan, and refuses one that cannot be followed here. `path` may be a URL.

    Raises PlanError for another version, grammar, vocabulary or set of options, and for a file that
    was edited or is not there; StoreError for one that cannot be read.
    """
    store, key = locate(path)
    name = redacted(path)
    if not key or not key.endswith(".json"):
        key = f"{key}/{PLAN}".lstrip("/")
    try:
        content = store.read(key)
    except StoreError as error:
        if error.kind != "missing":
            raise
        raise PlanError(
            f"{store.name(key)}: there is no plan; name the folder or the {PLAN} that mypt-prepare "
            "plan wrote"
        ) from None
    plan = parsed(content, name)
    refuse(plan, name)
    return plan


def parsed(content: bytes, name: str) -> Plan:
    """Returns the plan in a file. Raises PlanError, which has the `name` of the file."""
    again = "plan again with this version"
    try:
        value = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        raise PlanError(
            f"{name}: is not a plan; name the {PLAN} that mypt-prepare plan wrote"
        ) from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        schema = value.get("schema") if isinstance(value, dict) else None
        raise PlanError(
            f"{name}: is not a plan of schema {SCHEMA}, but {schema or 'something else'}; {again}"
        )
    sha256 = value.pop("sha256", "")
    if value.get("version") != mypt_spec.__version__:
        raise PlanError(
            f"{name}: was made by version {value.get('version')}, here is "
            f"{mypt_spec.__version__}; use that version on all machines, or plan again"
        )
    if _hash(value) != sha256:
        raise PlanError(f"{name}: was changed after it was written; plan again")
    names = {field.name for field in fields(Options)}
    if unknown := sorted({*value["options"]} - names):
        raise PlanError(
            f"{name}: has options that this version does not know: {', '.join(unknown)}; {again}"
        )
    try:
        return Plan(
            value["out"],
            Options(**value["options"]),
            tuple(_input(item) for item in value["inputs"]),
            tuple(tuple(Piece(*piece) for piece in unit) for unit in value["units"]),
            value["group"],
            value["fingerprint"],
            value["vocabulary"],
            value["version"],
            sha256,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PlanError(f"{name}: is not a complete plan ({error}); {again}") from None


def refuse(plan: Plan, name: str) -> None:
    """Raises PlanError for a plan of another grammar or vocabulary than is installed here."""
    try:
        dialect = plan.options.loaded_dialect
    except (KeyError, OSError, VocabularyError) as error:
        raise PlanError(f"{name}: {error}; run where the plan was made") from None
    if dialect.fingerprint != plan.fingerprint:
        raise PlanError(
            f"{name}: was made with another grammar of {dialect.name} ({plan.fingerprint[:12]}, "
            f"here is {dialect.fingerprint[:12]}); plan again, or use that grammar on all machines"
        )
    if dict(dialect.tokenizer.files) != dict(plan.vocabulary):
        raise PlanError(f"{name}: was made with another vocabulary; plan again, or use that one")


def _body(plan: Plan) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "version": plan.version,
        "out": plan.out,
        "options": plan.options.as_dict(),
        "fingerprint": plan.fingerprint,
        "vocabulary": dict(plan.vocabulary),
        "group": plan.group,
        "inputs": [
            {key: value for key in _PLAIN if (value := getattr(item, key))}
            | ({"rules": json.loads(json.dumps(item.rules.values))} if item.rules.values else {})
            for item in plan.inputs
        ],
        "units": [
            [[p.file, p.start, p.end, *([p.sha256] if p.sha256 else [])] for p in unit]
            for unit in plan.units
        ],
    }


def _hash(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _input(entry: Mapping[str, Any]) -> Input:
    if entry["cut"] not in CUTS:
        raise ValueError(f"inputs are cut in {', '.join(CUTS)}, not {entry['cut']!r}")
    rules = Settings(_frozen(entry["rules"]), ()) if "rules" in entry else NO_SETTINGS
    return Input(**{"bytes": 0, **entry, "rules": rules})


def _frozen(value: Any) -> Any:
    """Returns lists as tuples, as `Settings` has them."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
