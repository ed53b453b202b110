"""Times `mypt-prepare --model` end to end against `apply_chat_template` of transformers.

    python -m bench.model_folder [FOLDER ...] [--records 3000] [--rounds 3] [--derived] [--prose]
        [--gigatoken]

Without a folder, the vocabulary is GPT-2's, and the template below marks what is trained. Records
are made up: chats, calls of one tool, and calls of tools that no other record has. A side is the
processor time of a process and its children for all records, less that for one: `mypt-prepare -j 1`
reads, checks, encodes and writes; the other reads JSON and makes ids, and a mask where the template
marks one. Runs are interleaved; medians. The start is that of a record, from the command to its
shards, once with an empty cache and once after that.

`--derived` times chats from lines to ids and mask in this process, one thread, nothing written: by
the shipped format that writes the folder's text, or the derived one, checked, but not compared with
renderings (`dialect`); and by `apply_chat_template` from parsed records. Each round has records of
its own. With `--prose`, every tenth word is a quote, code, markup or of another script. With
`--gigatoken`, that is loaded before the first round, as after 128 characters for each token.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import mypt_spec
from bench.chats import words, write
from bench.data import prose
from mypt_spec.tokenizer import batch
from mypt_train.export.tokenizer_file import padding, tokenizer_config, tokenizer_json

TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == "system" %}{{ messages[0].content }}

{% endif %}# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% elif messages[0].role == "system" %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == "user" %}<|im_start|>user
{{ m.content }}<|im_end|>
{% elif m.role == "tool" %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role == "assistant" %}<|im_start|>assistant
{% generation %}{{ m.content or "" }}{% for call in m.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>{% endgeneration %}

{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
THEIRS = """
import json, sys
from transformers import AutoTokenizer
tokenizer, mask = AutoTokenizer.from_pretrained(sys.argv[1]), sys.argv[3] == "True"
for line in open(sys.argv[2], encoding="utf-8"):
    record = json.loads(line)
    tokenizer.apply_chat_template(
        record["messages"], tools=record.get("tools"), tokenize=True, return_dict=True,
        return_assistant_tokens_mask=mask,
    )
"""
KINDS = ("chats", "calls", "tools")


def made_folder(here: Path, dialect: mypt_spec.Dialect | None = None) -> Path:
    """Writes the folder of a model with a dialect's vocabulary: without one, chatml on GPT-2's."""
    dialect = dialect or mypt_spec.dialect("chatml")
    content = {
        "tokenizer.json": json.dumps(tokenizer_json(dialect)),
        "tokenizer_config.json": json.dumps(tokenizer_config(dialect, padding(dialect))),
        "chat_template.jinja": TEMPLATE,
    }
    here.mkdir()
    for name, text in content.items():
        (here / name).write_text(text, encoding="utf-8")
    return here


def times(command: list[str], cache: Path, codes: tuple[int, ...] = (0,)) -> tuple[float, float]:
    """Returns the processor time of a command and its children, and the time by the clock.

    Raises CalledProcessError if it does not end with one of `codes`.
    """
    env = os.environ | {"XDG_CACHE_HOME": str(cache), "TOKENIZERS_PARALLELISM": "false"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    null = subprocess.DEVNULL
    done = subprocess.run(command, check=False, env=env, stdout=null, stderr=null)
    if done.returncode not in codes:
        raise subprocess.CalledProcessError(done.returncode, command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.perf_counter() - began


def in_process(folder: Path, lines: list[bytes], rounds: int, *, gigatoken: bool = False) -> None:
    """Prints the time of encoders in this process, and how many ids are those of transformers."""
    from transformers import AutoTokenizer

    from mypt_lint.derive.of_model import dialect_of_model, family_of, vocabulary_of_model
    from mypt_lint.template.model import ModelFolder
    from mypt_train.data.encode_line import Encoder
    from mypt_train.data.formats.options import Options

    tokenizer = AutoTokenizer.from_pretrained(folder)  # type: ignore[no-untyped-call]
    name = family_of(ModelFolder(str(folder))) or dialect_of_model(folder, None, print)
    file = vocabulary_of_model(folder)
    size = len(lines) // (rounds + 1)
    parts = [lines[n * size : (n + 1) * size] for n in range(rounds + 1)]
    records = [[(r["messages"], r.get("tools")) for r in map(json.loads, part)] for part in parts]
    how = {"tokenize": True, "return_dict": True}
    how["return_assistant_tokens_mask"] = marked = "generation %}" in tokenizer.chat_template
    derived = Options(
        dialect=name,
        vocabulary=str(file),
        context_length=100_000,
        mask="trl" if marked else "model",
    )
    encoder = Encoder(derived)
    sides: dict[str, Callable[[int], list[Any]]] = {
        "apply_chat_template": lambda n: [
            tokenizer.apply_chat_template(messages, tools=tools, **how)
            for messages, tools in records[n]
        ],
        "dialect": lambda n: encoder.lines(parts[n]),
    }
    if gigatoken:
        sides["dialect"](0)
        batch._met.update(dict.fromkeys(batch._met, 1 << 40))
    wanted = sides["apply_chat_template"](0)
    spent: dict[str, list[float]] = {side: [] for side in sides}
    made = [outcome.samples for outcome in sides["dialect"](0)]
    for key, what in (("input_ids", "ids"), ("assistant_masks", "mask"))[: 1 + marked]:
        equal = sum(
            [getattr(sample, what).tolist() for sample in samples] == [theirs[key]]
            for samples, theirs in zip(made, wanted, strict=True)
        )
        print(f"{equal} of {len(wanted)} have the {what} of transformers")
    for number in range(1, rounds + 1):
        for side, run in sides.items():
            before = time.process_time()
            run(number)
            spent[side].append(time.process_time() - before)
    for side, each in spent.items():
        pairs = zip(spent["apply_chat_template"], each, strict=True)
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{side}: {statistics.median(each):.3f} s, {ratio:.2f} times as fast")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("folders", nargs="*", type=Path)
    options.add_argument("--records", type=int, default=3000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--derived", action="store_true")
    options.add_argument("--prose", action="store_true")
    options.add_argument("--gigatoken", action="store_true")
    options.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    chosen = options.parse_args()
    if chosen.derived:
        with tempfile.TemporaryDirectory() as made:
            folders = chosen.folders or [made_folder(Path(made) / "gpt2")]
            for kind, folder in product(chosen.kinds, folders):
                size = chosen.records * 1000 * (chosen.rounds + 1)
                say = prose if chosen.prose else words
                write(path := Path(made) / "x.jsonl", size, kind, ids=True, say=say)
                print(f"{folder.name}, {kind}:")
                data = path.read_bytes().splitlines()
                in_process(folder, data, chosen.rounds, gigatoken=chosen.gigatoken)
        return
    with tempfile.TemporaryDirectory() as made:
        here = Path(made)
        for folder in chosen.folders or [made_folder(here / "gpt2")]:
            marked = "generation %}" in (folder / "chat_template.jinja").read_text("utf-8")

            def ours(
                path: Path, out: Path = here / "out", folder: Path = folder
            ) -> tuple[float, float]:
                shutil.rmtree(out, ignore_errors=True)
                command = [sys.executable, "-m", "mypt.prepare.cli", str(path), "-q", "-j", "1"]
                command += ["--model", str(folder), "--records", "openai", "--out", str(out)]
                return times([*command, "--context-length", "100000"], here / "cache")

            def theirs(
                path: Path, folder: Path = folder, marked: bool = marked
            ) -> tuple[float, float]:
                command = [sys.executable, "-c", THEIRS, str(folder), str(path), str(marked)]
                return times(command, here / "cache")

            for kind in chosen.kinds:
                several, one = here / f"{kind}.jsonl", here / f"{kind}-1.jsonl"
                write(several, chosen.records * 1000, kind, ids=True)
                lines = several.read_text("utf-8").splitlines(keepends=True)[: chosen.records]
                several.write_text("".join(lines), encoding="utf-8")
                one.write_text(lines[0], encoding="utf-8")
                if kind == chosen.kinds[0]:
                    first, again = ours(one), min(ours(one) for _ in range(chosen.rounds))
                    print(
                        f"{folder.name}: start {first[0]:.2f} s of processor time, {first[1]:.2f} "
                        f"by the clock; from the cache {again[0]:.2f}, {again[1]:.2f}"
                    )
                rows = []
                for _ in range(chosen.rounds):
                    each = [side(several)[0] - side(one)[0] for side in (ours, theirs)]
                    rows.append([1e3 * spent / (len(lines) - 1) for spent in each])
                mine, other = (statistics.median(column) for column in zip(*rows, strict=True))
                ratio = statistics.median(b / a for a, b in rows)
                print(
                    f"{folder.name}, {kind}: {mine:.3f} ms a record, apply_chat_template "
                    f"{other:.3f}: {ratio:.2f} times as fast",
                    flush=True,
                )


if __name__ == "__main__":
    main()
