"""Times the formats of models on made-up chats: linting and encoding, each against its yardstick.

    python -m bench.chats [--mb 16] [--rounds 7] [--only qwen3 ...] [--what lint prepare]

Linting against parsing alone; encoding of a file's records, in one process and without files,
against the faster of tiktoken and tokenizers on the texts of these records, which neither read JSON
nor check nor make a mask. Where the package dashscope is installed, qwen3 is on Qwen's vocabulary,
too. Interleaved in one process; medians of the ratios of processor time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tiktoken

import mypt_spec
from bench.data import TOOL, text
from bench.lint import lint, parse_only
from mypt_lint.check.checker import Checker
from mypt_spec import Dialect
from mypt_spec.findings import RULES
from mypt_spec.tokenizer.tokenizer import gpt2

# What each format has: chats, thoughts before answers, calls of a tool with their results, and
# calls of tools that no other record has.
FORMATS = {
    "chatml": ("chats",),
    "llama3": ("chats", "calls", "tools"),
    "qwen3": ("chats", "thoughts", "calls", "tools"),
    "mistral": ("chats", "calls", "tools"),
    "harmony": ("chats", "thoughts", "calls", "tools"),
}
ROOT = Path(__file__).resolve().parents[1]
QWEN = "qwen3 on Qwen's"
# A folder, in which calls and tools are tags.
CODER = "qwen3-coder"
FORMATS[CODER] = ("calls", "tools")


def words(rng: random.Random, size: int) -> str:
    """Returns about `size` bytes of English words."""
    return text(rng, "en", size)


def name(rng: random.Random) -> str:
    """Returns a name that hardly comes again."""
    words = re.findall("[a-z]+", text(rng, "en", 30).lower()) or ["it"]
    return f"{words[0]}_{words[-1]}_{rng.randrange(1000)}"


def schema(rng: random.Random) -> tuple[dict[str, Any], Callable[[], Any]]:
    """Returns the schema of a parameter as data sets have it, and what makes values for it."""
    said = {"description": text(rng, "en", 60)}
    kind = rng.choice(
        ("string", "string", "string", "integer", "number", "boolean", "array", "enum")
    )
    if kind == "enum":
        words = [name(rng) for _ in range(3)]
        return {"type": "string", **said, "enum": words}, lambda: rng.choice(words)
    if kind == "array":
        words = [text(rng, "en", 20) for _ in range(2)]
        return {"type": kind, **said, "items": {"type": "string"}}, lambda: words
    makes: dict[str, Callable[[], Any]] = {
        "string": lambda: text(rng, "en", 20),
        "integer": lambda: rng.randint(1, 99),
        "number": lambda: rng.randint(1, 99) / 4,
        "boolean": lambda: rng.random() < 0.5,
    }
    return {"type": kind, **said}, makes[kind]


def tool(rng: random.Random) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Returns a tool as those of BFCL, ToolACE and xLAM are, and what makes arguments for it."""
    made = {name(rng): schema(rng) for _ in range(rng.randint(1, 5))}
    given = {
        "type": "object",
        "properties": {key: said for key, (said, _) in made.items()},
        "required": list(made)[: rng.randint(1, len(made))],
    }
    function = {"name": name(rng), "description": text(rng, "en", 120), "parameters": given}
    return {"type": "function", "function": function}, lambda: {
        key: make() for key, (_, make) in made.items()
    }


def record(
    rng: random.Random, kind: str, *, ids: bool, say: Callable[[random.Random, int], str] = words
) -> dict[str, Any]:
    """Returns a record of one to four turns. With `ids` calls have ids of nine characters."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": text(rng, "en", 60)}]
    tools = [(TOOL, lambda: {"q": text(rng, "en", 20), "top_k": rng.randint(1, 9)})]
    tools = [tool(rng) for _ in range(rng.randint(1, 4))] if kind == "tools" else tools
    for turn in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": say(rng, 100)})
        if kind in ("calls", "tools"):
            call: dict[str, Any] = {"id": f"call{turn:05}"} if ids else {}
            chosen, arguments = rng.choice(tools)
            called = chosen["function"]["name"]
            call |= {"type": "function", "function": {"name": called, "arguments": arguments()}}
            messages.append({"role": "assistant", "tool_calls": [call]})
            named = {"tool_call_id": call["id"]} if ids else {"name": called}
            messages.append({"role": "tool", **named, "content": say(rng, 200)})
        thought = {"reasoning_content": say(rng, 200)} if kind == "thoughts" else {}
        messages.append({"role": "assistant", **thought, "content": say(rng, 400)})
    declared = {"tools": [each for each, _ in tools]} if kind in ("calls", "tools") else {}
    return {"messages": messages} | declared


def write(
    path: Path, size: int, kind: str, *, ids: bool,
    say: Callable[[random.Random, int], str] = words,
) -> Path:  # fmt: skip
    """Writes about `size` bytes of records; the same arguments make the same bytes."""
    rng = random.Random(7)
    with path.open("w") as out:
        while out.tell() < size:
            out.write(json.dumps(record(rng, kind, ids=ids, say=say)) + "\n")
    return path


def ratio(sides: dict[str, Callable[[], Any]], mine: str, rounds: int) -> float:
    """Returns the speed of `mine` over that of the fastest other side; the first round warms up."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            began = time.process_time()
            side()
            if number:
                found[name].append(time.process_time() - began)
    best = min((statistics.median(t), name) for name, t in found.items() if name != mine)[1]
    return statistics.median(b / a for a, b in zip(found[mine], found[best], strict=True))


def encode(name: str, vocabulary: str | None, lines: list[bytes]) -> None:
    """Encodes lines as a worker of mypt-prepare does."""
    from mypt_train.data.encode_line import Encoder
    from mypt_train.data.formats.options import Options
    from mypt_train.data.unit_files import WRITTEN

    options = Options(dialect=name, context_length=1 << 14, vocabulary=vocabulary)
    encoder = Encoder(options)
    for begin in range(0, len(lines), 500):
        assert all(o.status == WRITTEN for o in encoder.lines(lines[begin : begin + 500]))


def encoders(
    name: str, d: Dialect, plain: tiktoken.Encoding, library: Any, lines: list[bytes], folder: Path
) -> dict[str, Callable[[], Any]]:
    """Returns what encodes some records: ours, and the libraries on their texts."""
    texts = [d.serialize(d.read(json.loads(line))[0]) for line in lines]  # type: ignore[arg-type]
    sides: dict[str, Callable[[], Any]] = {
        "tiktoken": lambda: [plain.encode_ordinary(text) for text in texts],
        "prepare": partial(encode, name, str(folder) if library is not None else None, lines),
    }
    if library is not None:
        sides["tokenizers"] = partial(library.encode_batch, texts, add_special_tokens=False)
    return sides


def qwen(folder: Path) -> tuple[Dialect, tiktoken.Encoding, Any] | None:
    """Returns the dialect on Qwen's vocabulary, and both libraries with it; None without it."""
    found = importlib.util.find_spec("dashscope")
    if found is None or importlib.util.find_spec("tokenizers") is None:
        return None
    from tokenizers import Tokenizer

    from tests.support.model_vocabularies import RANKS, content, ranks

    (folder / "tokenizer.json").write_text(json.dumps(content("qwen", every=True)))
    plain = tiktoken.Encoding(
        "qwen", pat_str=RANKS["qwen"][2], mergeable_ranks=ranks("qwen"), special_tokens={}
    )
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return mypt_spec.dialect("qwen3", vocabulary=folder), plain, library


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=float, default=16)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--only", nargs="*", default=[*FORMATS, QWEN])
    options.add_argument("--what", nargs="*", default=["lint", "prepare"])
    chosen = options.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        # The text of harmony's tools says less than they do, which is told (info) of most records.
        codes = frozenset(code for code, rule in RULES.items() if rule.severity != "info")
        print("speed of lint against parsing alone, of prepare against the faster tokenizer")
        for name in chosen.only:
            own = name.split()[0]
            d, plain, library = mypt_spec.dialect(own), gpt2(), None
            if name == QWEN:
                found = qwen(folder) if "prepare" in chosen.what else None
                if found is None:
                    continue
                d, plain, library = found
            for kind in FORMATS[name.split()[0]]:
                ids = d.name.startswith("mistral")
                path = write(folder / "chats.jsonl", int(chosen.mb * 2**20), kind, ids=ids)
                shown = f"{name:20} {kind:9}"
                if "lint" in chosen.what and name != QWEN:
                    sides: dict[str, Callable[[], Any]] = {
                        "parse": partial(parse_only, path),
                        "lint": partial(lint, Checker(d, codes=codes), path, 1),
                    }
                    shown += f"  lint {ratio(sides, 'lint', chosen.rounds):5.2f}"
                if "prepare" in chosen.what:
                    sides = encoders(own, d, plain, library, path.read_bytes().splitlines(), folder)
                    shown += f"  prepare {ratio(sides, 'prepare', chosen.rounds):5.2f}"
                print(shown, flush=True)


if __name__ == "__main__":
    main()
