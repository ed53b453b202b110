"""Counts provable errors of masks on real schemas: ours, and llguidance's and xgrammar's beside.

    python -m bench.mask_truth --data FOLDER [--sample 300] [--seed 0] [--seconds 20] [--minutes M]
        [--walks 2] [--engines ours llguidance xgrammar] [--faults 10]

FOLDER is `maskbench/data` of github.com/guidance-ai/jsonschemabench, which is no part of this
repository: files with a schema, and values that fit it or do not. Every engine has the vocabulary
of dialect mypt (GPT-2's), the spacing of `json.dumps`, and schemas read to the letter (xgrammar:
`strict_mode=False`). An engine that is not installed is left out.

An engine *claims* a schema that it compiles without an error, or a warning that it leaves a
keyword of JSON Schema out. Of these only:

- *wrong refusal*: an id is refused that continues a valid value. Keys may be in any order: it is
  one if no order of the keys is accepted. Values with numbers or characters that our documents name
  as limits are counted apart, for every engine.
- *wrong end*: a value is accepted that is invalid by the data and by both judges, or a random walk
  through the mask ends with text that is not JSON or that both judges call invalid.
- *dead end*: a walk is where no id is allowed and the text may not end.

The judges are jsonschema-rs and jsonschema; where they disagree, nothing is counted. What breaks
only a `format` is counted apart, because drafts treat formats as annotations. Each schema and
engine has a process of its own, of `--seconds` of processor time and 6 GiB. Prints tables in
Markdown: counts, reasons, and the faults with the file and the text.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import jsonschema
import jsonschema_rs
import numpy as np
import referencing

from bench.mask_engines import ENGINES, Engine, vocabulary
from mypt_infer.decode import SchemaWarning

MOST_TOKENS, LONG_WALK, LONGEST_WALK = 600, 60, 400
ORDERS = 4000  # the most bytes that are tried for an order of keys
MEMORY = 6 << 30
Report = dict[str, Any]


class Judge:
    """What jsonschema-rs and jsonschema say of a value. Raises ValueError for a bad schema."""

    def __init__(self, schema: Any) -> None:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        draft = kind.META_SCHEMA.get("$schema", "").rstrip("#")
        number = next((d for d in ("04", "06", "07") if f"draft-{d}" in draft), None)
        name = f"Draft{number[1]}" if number else "Draft" + draft.split("/")[-2].replace("-", "")
        fast = getattr(jsonschema_rs, f"{name}Validator")
        kind.check_schema(schema)
        checker = kind.FORMAT_CHECKER
        offline: dict[str, Any] = {"retriever": _missing}
        local: dict[str, Any] = {"registry": referencing.Registry()}
        self.slow = kind(schema, **local)
        self.plain = [fast(schema, validate_formats=False, **offline), self.slow]
        self.formats = [
            fast(schema, validate_formats=True, **offline),
            kind(schema, format_checker=checker, **local),
        ]

    def verdict(self, value: Any) -> str:
        """Returns "valid" or "invalid" if both say so, "format" if both do by a format, or ""."""
        try:
            plain = {bool(v.is_valid(value)) for v in self.plain}
            formats = {bool(v.is_valid(value)) for v in self.formats}
        except Exception:  # whatever a judge raises, it has not judged
            return ""
        if len(plain) > 1 or len(formats) > 1:
            return ""
        return "invalid" if plain == {False} else "valid" if formats == {True} else "format"

    def keyword(self, value: Any) -> str:
        """Returns a keyword that an invalid value breaks."""
        return str(min(e.validator for e in self.slow.iter_errors(value)))


def _missing(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema")


def is_documented(value: Any) -> bool:
    """Returns whether a value has what our documents name as a limit: numbers, and U+007F."""
    if isinstance(value, dict):
        return any(is_documented(v) for pair in value.items() for v in pair)
    if isinstance(value, list):
        return any(map(is_documented, value))
    if isinstance(value, str):
        return "\x7f" in value or any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, float):
        text = repr(value)
        return not math.isfinite(value) or "e" in text or len(text.partition(".")[2]) > 15
    return isinstance(value, int) and abs(value) > 1 << 53


def canonical(value: Any) -> Any:
    """Returns a value whose whole numbers are integers: 1.0 is a second spelling of 1."""
    if isinstance(value, dict):
        return {k: canonical(v) for k, v in value.items()}
    if isinstance(value, list):
        return [canonical(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def spelled(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Trial:
    """One schema in one engine: its values and walks, and what was found."""

    def __init__(self, engine: Engine, judge: Judge, tokenizer: Any) -> None:
        self.engine, self.judge, self.tokenizer = engine, judge, tokenizer
        self.counts: Counter[str] = Counter()
        self.faults: list[tuple[str, str]] = []

    def fault(self, kind: str, text: str, keyword: str = "") -> None:
        self.counts[kind] += 1
        self.faults.append((f"{kind}, {keyword}" if keyword else kind, text))

    def run(self, state: Any, text: str) -> tuple[Any, int]:
        """Returns the state after a text, or None, and how many tokens were taken."""
        ids = self.tokenizer.encode(text)
        for place, token in enumerate(ids):
            if not self.engine.mask(state)[token]:
                return None, place
            state = self.engine.next(state, token)
            if state is None:
                return None, place
        return state, len(ids)

    def value(self, value: Any, *, labelled: bool) -> None:
        """Feeds a value of the data, which says whether it is valid."""
        value = canonical(value)
        text, verdict = spelled(value), self.judge.verdict(value)
        if verdict not in ("valid", "invalid") or (verdict == "valid") != labelled:
            self.counts["no verdict"] += 1
        elif len(self.tokenizer.encode(text)) > MOST_TOKENS:
            self.counts["long"] += 1
        elif labelled and is_documented(value):
            self.counts["documented"] += 1
        else:
            self.counts[verdict] += 1
            state, place = self.run(self.engine.first, text)
            accepted = state is not None and self.engine.ends(state)
            if not labelled and accepted:
                self.fault("wrong end of a value", text, self.judge.keyword(value))
            elif labelled and not accepted:
                self.reordered(value, text, place)

    def reordered(self, value: Any, text: str, place: int) -> None:
        """Looks for an order of the keys that is accepted; without one it is a wrong refusal."""
        self.left = ORDERS
        for _, order in self.orders(self.engine.first, value):
            state, place = self.run(self.engine.first, order)
            if state is not None and self.engine.ends(state):
                self.counts["in another order"] += 1
            else:  # accepted byte by byte, not in the tokens of the vocabulary
                self.fault("wrong refusal", self.cut(order, place))
            return
        if self.left <= 0:
            self.counts["order not found"] += 1
        else:
            self.fault("wrong refusal", self.cut(text, place))

    def cut(self, text: str, place: int) -> str:
        ids = self.tokenizer.encode(text)
        taken = self.tokenizer.decode(ids[:place])
        return f"{taken} ☞ {self.tokenizer.decode(ids[place:])}"

    def orders(self, state: Any, value: Any) -> Iterator[tuple[Any, str]]:
        """Yields (state, text) of the orders of keys that the engine accepts, byte by byte."""
        for after, text in self.written(state, value):
            if self.engine.ends(after):
                yield after, text

    def written(self, state: Any, value: Any) -> Iterator[tuple[Any, str]]:
        if isinstance(value, dict) and value:
            yield from self.members(state, value, list(value), "{")
        elif isinstance(value, list) and value:
            yield from self.items(state, value, "[")
        else:
            yield from self.bytes(state, spelled(value))

    def items(self, state: Any, value: list[Any], before: str) -> Iterator[tuple[Any, str]]:
        if not value:
            yield from self.bytes(state, "]")
        for begun, start in self.bytes(state, before) if value else ():
            for after, text in self.written(begun, value[0]):
                for last, rest in self.items(after, value[1:], ", "):
                    yield last, start + text + rest

    def members(
        self, state: Any, value: dict[str, Any], keys: list[str], before: str
    ) -> Iterator[tuple[Any, str]]:
        if not keys:
            yield from self.bytes(state, "}")
        for key in keys:
            for begun, start in self.bytes(state, f"{before}{spelled(key)}: "):
                for after, text in self.written(begun, value[key]):
                    others = [k for k in keys if k != key]
                    for last, rest in self.members(after, value, others, ", "):
                        yield last, start + text + rest

    def bytes(self, state: Any, text: str) -> Iterator[tuple[Any, str]]:
        for byte in text.encode():
            self.left -= 1
            token = self.tokenizer.encode_single_byte(byte)
            if self.left < 0 or not self.engine.mask(state)[token]:
                return
            state = self.engine.next(state, token)
            if state is None:
                return
        yield state, text

    def walk(self, chance: random.Random) -> None:
        """Walks through the mask at random to an end, and judges the text."""
        state, ids, closers = self.engine.first, list[int](), self.tokenizer.closers
        self.counts["walks"] += 1
        while len(ids) < LONGEST_WALK:
            is_late = len(ids) > LONG_WALK
            if self.engine.ends(state) and (is_late or chance.random() < 0.5):
                self.end(ids)
                return
            mask = self.engine.mask(state)
            near = np.flatnonzero(mask & closers) if is_late or chance.random() < 0.4 else ()
            allowed = near if len(near) else np.flatnonzero(mask)
            while len(allowed):
                token = int(chance.choice(allowed))
                after = self.engine.next(state, token)
                if after is not None:
                    break
                self.counts["refused when taken"] += 1
                mask = mask & self.engine.mask(state)  # a refusal may take others along
                allowed = allowed[(allowed != token) & mask[allowed]]
                if not len(allowed):
                    allowed = np.flatnonzero(mask & ~closers) if len(near) else allowed
                    near = ()
            else:
                if self.engine.ends(state):
                    self.end(ids)
                else:
                    self.fault("dead end", self.tokenizer.decode(ids))
                return
            state, ids = after, [*ids, token]
        self.counts["walks without an end"] += 1

    def end(self, ids: list[int]) -> None:
        text = self.tokenizer.decode_bytes(ids)
        self.counts["walks that end"] += 1
        try:
            value = json.loads(text.decode())
        except (ValueError, RecursionError) as error:
            if "digits" not in str(error):  # the limit of Python's own integers
                self.fault("wrong end of a walk", repr(text))
            return
        verdict = self.judge.verdict(value)
        if verdict == "format":
            self.counts["walks that break a format"] += 1
        elif verdict == "invalid":
            self.fault("wrong end of a walk", text.decode(), self.judge.keyword(value))


class Tokens:
    """A tokenizer with what walks need: the id of each byte, and ids that end a value soon."""

    def __init__(self, tokenizer: Any) -> None:
        self.encode, self.decode = tokenizer.encode, tokenizer.decode
        self.decode_bytes, size = tokenizer.decode_bytes, tokenizer.vocab_size
        self.of_byte: dict[int, int] = {}
        self.closers = np.zeros(size, bool)
        for token in tokenizer.ordinary:
            word = tokenizer.decode_bytes([token])
            if len(word) == 1:
                self.of_byte[word[0]] = token
            self.closers[token] = word in (b'"', b"}", b"]", b'"}', b'"]', b"}}", b"]}")

    def encode_single_byte(self, byte: int) -> int:
        return self.of_byte[byte]


def trial(
    make: Callable[[Any], Engine], case: Any, judge: Judge, tokens: Any, *, walks: int, seed: str
) -> Report:
    """Returns what one engine does with one file of the data."""
    with tempfile.TemporaryFile() as log:
        before = os.dup(2)
        os.dup2(log.fileno(), 2)  # engines in C++ write their warnings there
        try:
            engine = make(case["schema"])
        except (ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            return {"state": "refused", "reason": reason}
        finally:
            os.dup2(before, 2)
            os.close(before)
        log.seek(0)
        notes = [x for x in log.read().decode(errors="replace").splitlines() if "Warning: " in x]
    if notes or not engine.claims:
        reason = notes[0].split("Warning: ")[-1] if notes else "reads keywords as nothing"
        return {"state": "partly", "reason": reason}
    run = Trial(engine, judge, tokens)
    for test in case.get("tests", ()):
        run.value(test["data"], labelled=bool(test["valid"]))
    chance = random.Random(seed)
    for _ in range(walks):
        run.walk(chance)
    return {"state": "claimed", "counts": run.counts, "faults": run.faults}


def apart(job: Callable[[], Report], seconds: int) -> Report:
    """Returns what a job returns in a process of its own, or how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            with os.fdopen(writing, "w") as out:
                json.dump(job(), out)
            status = 0
        except BaseException as error:  # the parent says so
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, ended, used = os.wait4(child, 0)
    if ended == 0:
        return cast(Report, json.loads(text))
    is_late = used.ru_utime + used.ru_stime > seconds - 0.5
    return {"state": "time" if is_late else "crash", "reason": f"ended with {ended}"}


STATES = ("claimed", "partly", "refused", "time", "crash")
COUNTS = (
    "valid", "in another order", "order not found", "wrong refusal", "documented", "invalid",
    "wrong end of a value", "walks", "walks that end", "wrong end of a walk", "dead end",
    "walks that break a format", "refused when taken",
)  # fmt: skip


def measure(
    files: list[Path], engines: dict[str, Callable[[Any], Engine]], chosen: Any, tokens: Any
) -> dict[str, list[tuple[str, Report]]]:
    """Returns the reports by engine. Each has the file's name."""
    reports: dict[str, list[tuple[str, Report]]] = {name: [] for name in engines}
    began, files_read, left_out = time.monotonic(), 0, 0
    for path in files:
        if time.monotonic() - began > 60 * chosen.minutes:
            break
        files_read += 1
        case = json.loads(path.read_text(encoding="utf-8"))
        try:
            judge = Judge(case["schema"])
            judge.verdict({})
        except Exception as error:  # whatever a judge raises: it is no judge of this schema
            left_out += 1
            print(f"left out, no judge: {path.name}: {type(error).__name__}", file=sys.stderr)
            continue
        for name, make in engines.items():
            job = partial(trial, make, case, judge, tokens, walks=chosen.walks, seed=path.name)
            report = apart(job, chosen.seconds)
            reports[name].append((path.name, report))
    print(
        f"{files_read} files, {left_out} left out, which the judges do not read; "
        f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}\n"
    )
    return reports


def table(reports: dict[str, list[tuple[str, Report]]], most_faults: int) -> Iterator[str]:
    """Yields the lines of the tables."""
    yield f"| | {' | '.join(reports)} |"
    yield "| --- |" + " --- |" * len(reports)
    counts = {name: Counter[str]() for name in reports}
    for name, found in reports.items():
        for _, report in found:
            counts[name][report["state"]] += 1
            counts[name].update(report.get("counts", {}))
            kinds = {kind for kind, _ in report.get("faults", ())}
            counts[name].update("schemas with a fault" for _ in kinds and "1")
    for row in (*STATES, *COUNTS, "schemas with a fault"):
        yield f"| {row} | {' | '.join(str(c[row]) for c in counts.values())} |"
    for name, found in reports.items():
        reasons = Counter(
            f"{r['state']}: {r['reason'][:110]}" for _, r in found if r["state"] != "claimed"
        )
        yield f"\n{name}, schemas left out"
        yield from (f"    {n}: {reason}" for reason, n in reasons.most_common(12))
        yield from (
            f"    {n}: {kind}"
            for kind, n in Counter(
                k for _, r in found for k, _ in r.get("faults", ())
            ).most_common()
        )
        faults = [(file, *f) for file, r in found for f in r.get("faults", ())]
        yield f"\n{name}, faults"
        yield from (
            f"    {kind}: {file}: {text[-300:]}" for file, kind, text in faults[:most_faults]
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--sample", type=int, default=300, help="files; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=20, help="of each schema and engine")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no file later")
    parser.add_argument("--walks", type=int, default=2, help="for each schema")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--faults", type=int, default=10, help="printed for each engine")
    chosen = parser.parse_args(arguments)
    files = sorted(chosen.data.glob("*.json"))
    if not files:
        parser.error(f"{chosen.data}: no files *.json; see --help for where they are")
    warnings.simplefilter("ignore", SchemaWarning)
    random.Random(chosen.seed).shuffle(files)
    engines = {}
    for name in chosen.engines:
        if name != "ours" and find_spec(name) is None:
            print(f"left out: {name}, which is not installed")
        else:
            engines[name] = ENGINES[name]
            engines[name]({"type": "integer"})  # what is made once is made before the forks
    if "xgrammar" in engines:
        import torch

        torch.set_num_threads(1)
    names = [n for n in ("llguidance", "xgrammar", "jsonschema-rs", "jsonschema") if
             find_spec(n.replace("-", "_"))]  # fmt: skip
    print(", ".join(f"{name} {version(name)}" for name in names))
    tokens = Tokens(vocabulary()[0].tokenizer)
    reports = measure(files[: chosen.sample or None], engines, chosen, tokens)
    print("\n".join(table(reports, chosen.faults)))
    return int(any(report.get("faults") for _, report in reports.get("ours", ())))


if __name__ == "__main__":
    raise SystemExit(main())
