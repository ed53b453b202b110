"""Counts the right calls of a real model: free, under our mask, and under those of two libraries.

    python -m bench.real.right_calls --model DIR [--data DIR] [--rows 240] [--part all|test]
        [--write calls|json] [--ways free ours ...] [--device cuda]
        [--longest 2000] [--new-tokens 256] [--answers FILE] [--processes 12]

Questions, tools and ground truths are BFCL's (`bench/real/functions.py`), equally many of each
category where it has enough. All ways are greedy, begin with the same ids, and end where a JSON
object is complete; llguidance and xgrammar get the same schema of all calls, with canonical
spacing, and "flexible" is llguidance with any white space. Each prompt is read once, and so is each
beginning of an answer that several ways share: equal ids have equal logits in all ways.

- `calls`: the tools are declared as the dialect declares them, and the answer begins inside a call.
  For a model that has been trained on calls.
- `json`: the tools stand in the system prompt, which asks for one JSON object. For a model that has
  never seen the tags.

`ours` asks the model wherever more than one id is allowed, `jumps` takes the encoder's ids where
one text can follow. Prints a table in Markdown: right calls by category, calls of a tool that was
declared, the mean refused mass. `--part test` leaves out what `bench.real.job` trains on.
`--answers` writes each answer as a line of JSON, with its question and the ground truth.
`--processes` on one device share the tests, since a step of a small model waits for the host.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor

import mypt_spec
from bench.calls import tokenizer_info
from bench.real.functions import CATEGORIES, Test, data, tests
from mypt_infer.decode import Decoder, Response, SchemaWarning
from mypt_infer.decode.base.allow import BudgetError
from mypt_infer.decode.base.tools import ToolSpec, declare
from mypt_infer.decode.compile.grammar_graph import call_ends, kinds_of
from mypt_infer.decode.compile.nfa import CALLING
from mypt_infer.decode.llguidance.grammar import words
from mypt_infer.decode.llguidance.response import SPACING
from mypt_infer.generate.generate import generate
from mypt_infer.generate.llama import Cache, Llama, load
from mypt_infer.generate.loop import read, run
from mypt_model.folder import beside
from mypt_spec import Dialect

WAYS = ("free", "ours", "jumps", "llguidance", "xgrammar", "flexible")
# On a CPU, so few rows are read one by one, which is faster than all rows of the batch together.
FEW = 3
# Of the prompts of a batch, with padding: what they read of each other's mask has to fit.
MOST_TOKENS = 1 << 17
ASK = """You may call these functions:
{functions}
Answer the question with one function call, as a JSON object and nothing else:
{{"name": "NAME OF THE FUNCTION", "arguments": {{"ARGUMENT": VALUE}}}}"""


class Case(NamedTuple):
    """A test, the ids that every way begins with, its tools and the JSON Schema of their calls."""

    test: Test
    prompt: list[int]
    tools: list[dict[str, Any]]
    schema: dict[str, Any]


def is_heldout(number: int) -> bool:
    """Returns whether a test is for measuring: every third one. The others are for training."""
    return number % 3 == 0


def cases(
    dialect: Dialect,
    folder: Path,
    count: int,
    part: str,
    write: str,
    longest: int,
    share: tuple[int, int] = (0, 1),
) -> tuple[list[Case], Counter[str]]:
    """Returns about `count` cases, the same number of each category, and what is left out.

    A share (n, of) is that of one process of several.
    """
    left, by_category = Counter[str](), {category: list[Case]() for category in CATEGORIES}
    asked = [t for i, t in enumerate(tests(folder)) if part == "all" or is_heldout(i)]
    for test in asked[share[0] :: share[1]]:
        if not test.is_right(test.call):
            left["a ground truth that is not right itself"] += 1
        elif len(prompt := _prompt(dialect, test, write)) > longest:
            left[f"more than {longest} tokens"] += 1
        else:
            schema = {"anyOf": [_call_schema(tool) for tool in declare(test.tools)]}
            by_category[test.category].append(Case(test, prompt, test.tools, schema))
    out = list[Case]()
    for candidates in by_category.values():
        most = max(1, count // len(by_category))
        for case in candidates[:: max(1, len(candidates) // most)][:most]:
            try:
                if write == "calls":
                    Decoder(dialect, case.tools, engine="auto")
                out.append(case)
            except ValueError as error:
                left[str(error)[:60]] += 1
    return sorted(out, key=lambda case: len(case.prompt)), left


def batches(found: Sequence[Case], rows: int) -> Iterator[Sequence[Case]]:
    """Yields at most `rows` cases at a time, fewer where prompts are long."""
    at = 0
    while at < len(found):
        size = rows
        while size > 1 and size * len(found[at : at + size][-1].prompt) > MOST_TOKENS:
            size -= 1
        yield found[at : at + size]
        at += size


def _call_schema(tool: ToolSpec) -> dict[str, Any]:
    """Returns the schema of a call of a tool, without members that the tool does not name."""
    arguments = _closed({"type": "object", **tool.schema})
    properties = {"name": {"const": tool.name}, "arguments": arguments}
    required = ["name", "arguments"]
    return {"type": "object", "properties": properties, "required": required,
            "additionalProperties": False}  # fmt: skip


def _closed(schema: Any) -> Any:
    """Returns a schema whose objects have no members but those that it names, as tools have it."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    more = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return more | {name: _closed(part) for name, part in schema.items()}


def _prompt(dialect: Dialect, test: Test, write: str) -> list[int]:
    record: dict[str, Any] = {"messages": test.question}
    if write == "calls":
        record["tools"] = [{"type": "function", "function": tool} for tool in test.tools]
    else:
        functions = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in test.tools)
        system = {"role": "system", "content": ASK.format(functions=functions)}
        rest = [m for m in test.question if m["role"] != "system"]
        record["messages"] = [system, *rest]
    episode, findings = dialect.read(record)
    assert episode is not None, findings
    ids = Decoder(dialect).ids_of(episode)
    if write == "calls":
        call = {"function": {"name": test.name, "arguments": test.call["arguments"]}}
        answer = {"role": "assistant", "tool_calls": [{"type": "function", **call}]}
        whole, findings = dialect.read({**record, "messages": [*test.question, answer]})
        assert whole is not None, findings
        encoded = [*map(int, dialect.encode(whole).ids)]
        opener, *rest = dialect.table.openers[kinds_of(dialect, CALLING)[0]].stem
        at = len(encoded) - encoded[::-1].index(dialect.table.special[opener.value])
        ids = encoded[:at] + [i for part in rest for i in dialect.tokenizer.encode(part.value)]
        assert ids == encoded[: len(ids)], "a call does not begin as its opening tag does"
    return ids


def object_in(text: str) -> Any:
    """Returns the first JSON object in a text; None if there is no complete one."""
    at = text.find("{")
    try:
        return json.JSONDecoder().raw_decode(text, at)[0] if at >= 0 else None
    except json.JSONDecodeError:
        return None


class Free:
    """No constraint."""

    def mask(self, logits: Tensor) -> None:
        pass

    def consume(self, token: int) -> None:
        pass


class Guidance:
    """The mask of llguidance."""

    def __init__(self, dialect: Dialect, schema: dict[str, Any], *, flexible: bool = False) -> None:
        import llguidance
        import llguidance.torch as kernels

        tokenizer = words(dialect, call_ends(dialect)[1])
        spacing = {"whitespace_flexible": True} if flexible else SPACING
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema, overrides=spacing)
        self.matcher, self.kernels = llguidance.LLMatcher(tokenizer, grammar), kernels
        assert not self.matcher.is_error(), self.matcher.get_error()
        self.bits = kernels.allocate_token_bitmask(1, dialect.tokenizer.vocab_size)

    def mask(self, logits: Tensor) -> None:
        self.kernels.fill_next_token_bitmask(self.matcher, self.bits, 0)
        self.kernels.apply_token_bitmask_inplace(logits[None], self.bits)

    def consume(self, token: int) -> None:
        assert self.matcher.consume_token(token)


class Xgrammar:
    """The mask of xgrammar."""

    compilers: dict[str, Any] = {}  # noqa: RUF012  one for each vocabulary

    def __init__(self, dialect: Dialect, schema: dict[str, Any]) -> None:
        import xgrammar

        compiler = self.compilers.get(dialect.fingerprint)
        if compiler is None:
            info = tokenizer_info(dialect, call_ends(dialect)[1])
            compiler = self.compilers[dialect.fingerprint] = xgrammar.GrammarCompiler(info)
        compiled = compiler.compile_json_schema(
            schema, any_whitespace=False, separators=(", ", ": ")
        )
        self.lib, self.matcher = xgrammar, xgrammar.GrammarMatcher(compiled)
        self.bits = xgrammar.allocate_token_bitmask(1, dialect.tokenizer.vocab_size)

    def mask(self, logits: Tensor) -> None:
        self.matcher.fill_next_token_bitmask(self.bits, 0)
        self.lib.apply_token_bitmask_inplace(logits[None], self.bits)

    def consume(self, token: int) -> None:
        assert self.matcher.accept_token(token)


class SharedReads:
    """A Model whose rows begin with prompts, and that reads equal ids once for all ways."""

    def __init__(self, model: Llama, prompts: Sequence[list[int]], room: int, device: str) -> None:
        self.model, self.prompts, self.vocab_size = model, prompts, model.vocab_size
        self.cache = model.begin(len(prompts), max(map(len, prompts)) + room)
        self.logits: list[dict[tuple[int, ...], Tensor]] = [{} for _ in prompts]
        self.cached = list[list[int]]([] for _ in prompts)  # the ids of each row of the cache
        self.few = FEW if device == "cpu" else 0
        self._read([prompt[:-1] for prompt in prompts], device)

    def begin(self, rows: int, capacity: int) -> list[list[int]]:
        return [[] for _ in range(rows)]

    def __call__(self, ids: Tensor, lengths: Tensor, cache: list[list[int]]) -> Tensor:
        for row, length in enumerate(lengths.tolist()):
            cache[row] += ids[row, :length].tolist()
        new = [
            [] if not length or tuple(path) in self.logits[row] else path
            for row, (path, length) in enumerate(zip(cache, lengths.tolist(), strict=True))
        ]
        if any(new):
            self._read(new, ids.device)
        some = next(iter(self.logits[0].values()))
        return torch.stack(
            [self.logits[r].get(tuple(path), some * 0) for r, path in enumerate(cache)]
        )

    def _read(self, paths: Sequence[list[int]], device: torch.device | str) -> None:
        pending = []
        for row, path in enumerate(paths):
            same = next(
                (n for n, (a, b) in enumerate(zip(path, self.cached[row], strict=False)) if a != b),
                min(len(path), len(self.cached[row])),
            )
            same = min(same, max(0, len(path) - 1))  # logits need at least one id
            if path:
                self.cache.filled[row], self.cached[row] = same, list(path)
            pending.append(path[same:])
        few = [row for row, ids in enumerate(pending) if ids]
        spans = [slice(row, row + 1) for row in few] if len(few) <= self.few else [slice(None)]
        for span in spans:
            cache = self.cache
            part = Cache(cache.keys[:, span], cache.values[:, span], cache.filled[span])
            for row, logits in zip(
                range(len(paths))[span], read(self.model, pending[span], part, device), strict=True
            ):
                if paths[row]:
                    self.logits[row][tuple(paths[row])] = logits


def texts(
    model: SharedReads,
    dialect: Dialect,
    batch: Sequence[Case],
    make: Callable[[Case], Any],
    room: int,
    device: str,
) -> list[str]:
    """Returns what the model writes under some masks, greedily, up to the end of an object.

    Nothing where a library refuses the schema.
    """
    out: list[list[int]] = [[] for _ in batch]
    matchers = list[Any]()
    for case in batch:
        try:
            matchers.append(make(case))
        except (AssertionError, RuntimeError, ValueError) as error:
            print(f"{case.test.name}: {str(error)[:200]}", flush=True)
            matchers.append(None)
    stops = {*dialect.table.special.values()}

    def choose(row: int, logits: Tensor) -> list[int] | None:
        row_logits = logits.float().clone()
        matchers[row].mask(row_logits)
        token = int(row_logits.argmax())
        if token in stops:
            return None
        matchers[row].consume(token)
        out[row].append(token)
        closes = "}" in dialect.tokenizer.decode([token])
        ended = closes and object_in(dialect.tokenizer.decode(out[row])) is not None
        return None if ended or len(out[row]) >= room else [token]

    prompts = [case.prompt if m else None for case, m in zip(batch, matchers, strict=True)]
    run(
        model,
        prompts,
        max(len(case.prompt) for case in batch) + room,
        choose,
        device,
        vocabulary=dialect.tokenizer.vocab_size,
    )
    return [dialect.tokenizer.decode(ids) for ids in out]


def ours(
    model: SharedReads, dialect: Dialect, batch: Sequence[Case], write: str, room: int,
    device: str, *, jumps: bool,
) -> tuple[list[str], list[float]]:  # fmt: skip
    """Returns what the model writes under our mask, and the refused mass of each answer."""
    if write == "calls":
        decoders = [Decoder(dialect, case.tools, engine="auto") for case in batch]
    else:
        decoders = [Decoder(dialect, response=Response(schema=case.schema)) for case in batch]
    answers = generate(
        model,
        [case.prompt for case in batch],
        decoder=decoders,
        max_new_tokens=room,
        temperature=0,
        jump_forward=jumps,
        device=device,
    )
    return [dialect.tokenizer.decode(a.ids) for a in answers], [a.refused_mass for a in answers]


class Tally(NamedTuple):
    """What one way has written: right calls and calls of a tool by category, the refused masses."""

    right: Counter[str]
    called: Counter[str]
    masses: list[float]
    seconds: list[float]

    def with_(self, other: Tally) -> Tally:
        """Returns what two processes have tallied."""
        right, called = self.right + other.right, self.called + other.called
        return Tally(right, called, self.masses + other.masses, self.seconds + other.seconds)


def measure(
    model: Llama, dialect: Dialect, batch: Sequence[Case], tallies: dict[str, Tally], write: str,
    room: int, device: str, answers_to: IO[str] | None,
) -> None:  # fmt: skip
    """Lets a model answer some cases in all ways; adds what was right to the tallies."""
    shared = SharedReads(model, [case.prompt for case in batch], room, device)
    makes: dict[str, Callable[[Case], Any]] = {
        "free": lambda _: Free(),
        "llguidance": lambda case: Guidance(dialect, case.schema),
        "xgrammar": lambda case: Xgrammar(dialect, case.schema),
        "flexible": lambda case: Guidance(dialect, case.schema, flexible=True),
    }
    for way, tally in tallies.items():
        since = time.time()
        masses: Sequence[float | None] = [None] * len(batch)
        if way in makes:
            answers = texts(shared, dialect, batch, makes[way], room, device)
        else:
            answers, masses = ours(
                shared, dialect, batch, write, room, device, jumps=way == "jumps"
            )
            tally.masses.extend(masses)
        tally.seconds.append(time.time() - since)
        for case, answer, mass in zip(batch, answers, masses, strict=True):
            call, test = object_in(answer), case.test
            right = test.is_right(call)
            tally.right[test.category] += right
            names = {tool["name"] for tool in case.tools}
            tally.called[test.category] += isinstance(call, dict) and call.get("name") in names
            if answers_to is not None:
                row = {"way": way, "category": test.category, "right": right, "answer": answer,
                       "refused_mass": mass, "question": test.question[-1]["content"],
                       "truth": {test.name: test.truth}, "tools": test.tools}  # fmt: skip
                answers_to.write(json.dumps(row, ensure_ascii=False) + "\n")
                answers_to.flush()


def answered(
    chosen: argparse.Namespace, share: tuple[int, int]
) -> tuple[Counter[str], Counter[str], dict[str, Tally]]:
    """Lets the model answer a share of the tests; returns how many, what is left out, tallies."""
    warnings.simplefilter("ignore", SchemaWarning)
    torch.set_num_threads(1 if share[1] > 1 else torch.get_num_threads())
    model = load(chosen.model).to(chosen.device)
    if chosen.dtype:
        model.net.to(getattr(torch, chosen.dtype))
    name = chosen.dialect or {"calls": "qwen3", "json": "chatml"}[chosen.write]
    dialect = mypt_spec.dialect(name, vocabulary=_vocabulary(chosen.model))
    found, left = cases(
        dialect, chosen.data or data(), max(1, chosen.rows // share[1]), chosen.part, chosen.write,
        chosen.longest, share,
    )  # fmt: skip
    tallies = {way: Tally(Counter(), Counter(), [], []) for way in chosen.ways}
    path = chosen.answers
    if path and share[1] > 1:
        path = path.with_name(f"{path.stem}.{share[0]}{path.suffix}")
    with ExitStack() as stack:
        file = stack.enter_context(path.open("w")) if path else None
        for batch in batches(found, chosen.batch):
            try:
                measure(
                    model, dialect, batch, tallies, chosen.write, chosen.new_tokens, chosen.device,
                    file,
                )  # fmt: skip
            except BudgetError as error:
                raise SystemExit(f"--new-tokens is too small for a call: {error}") from None
    return Counter(case.test.category for case in found), left, tallies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--dialect", help="default: qwen3 for calls, chatml for json")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=int, default=240)
    parser.add_argument("--part", choices=("all", "test"), default="all")
    parser.add_argument("--write", choices=("calls", "json"), default="json")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="default: the folder's")
    parser.add_argument("--longest", type=int, default=2000, help="of a prompt, in tokens")
    parser.add_argument("--new-tokens", type=int, default=256)
    parser.add_argument("--answers", type=Path, help="a file for all answers, as JSONL")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.processes == 1:
        parts = [answered(chosen, (0, 1))]
    else:
        with ProcessPoolExecutor(chosen.processes, get_context("spawn")) as pool:
            of = chosen.processes
            parts = list(pool.map(answered, [chosen] * of, [(n, of) for n in range(of)]))
    totals, left, tallies = parts[0]
    for more_totals, more_left, more in parts[1:]:
        totals, left = totals + more_totals, left + more_left
        tallies = {way: tallies[way].with_(more[way]) for way in tallies}
    for reason, number in left.items():
        print(f"left out: {number}: {reason}")
    print(f"{totals.total()} tests, written as {chosen.write}; {chosen.model}")
    heads = [f"{c} ({totals[c]})" for c in CATEGORIES]
    print(f"\n| way | {' | '.join(heads)} | all | calls of a tool | refused mass | seconds |")
    print("| --- " * (len(heads) + 5) + "|")
    for way, tally in tallies.items():
        cells = [f"{100 * tally.right[c] / max(1, totals[c]):.1f} %" for c in CATEGORIES]
        both = (tally.right, tally.called)
        all_of, calls = (100 * part.total() / max(1, totals.total()) for part in both)
        masses = tally.masses
        shown = f"{sum(masses) / len(masses):.3f}" if masses else ""
        row = [way, *cells, f"{all_of:.1f} %", f"{calls:.1f} %", shown, f"{sum(tally.seconds):.0f}"]
        print(f"| {' | '.join(row)} |", flush=True)


def _vocabulary(folder: Path) -> Path:
    """Returns the vocabulary of a model folder or of a training run."""
    path = beside(folder, "tokenizer.json", "vocabulary.json")
    if path is None:
        raise SystemExit(f"{folder}: no tokenizer.json and no vocabulary.json")
    return path


if __name__ == "__main__":
    main()
