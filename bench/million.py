"""Lets random models write many turns under the mask, and judges each by other code.

    python -m bench.million [--format NAME ...] [--turns 1000000] [--seconds S] [--out FILE]

A turn is an answer that is drawn at temperature 1 from random logits, in which tags have a bonus
that changes from turn to turn; one in three turns has a thinking budget of 0 to 64 tokens, and
another one most likely begins with a call. Turn number N is always the same. Each turn of harmony
must be messages with a well-formed header by a regular expression that was written from harmony's
guide, and knows nothing of the automaton. Every `--judged`-th turn is also read by the validator,
calls must fit their schemas, and the stream parser reads its text cut in two at every place. With
FILE, a run goes on where the last one ended.
Prints a row of a table for each tenth, with processor time and memory.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.plugins.answer_stream import AnswerStream
from mypt_infer.serve.asked.prompts import Prompter
from mypt_infer.serve.asked.thoughts import Position, ThoughtLimits
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.patch import in_common
from mypt_spec.states import calling_blocks
from tests.support.build import call, calls, function, user
from tests.support.decoding import calls_in, complete

TOOLS = [
    function("search", {"query": {"type": "string"}, "n": {"type": "integer"}}, required=["query"]),
    function("set_kind", {"kind": {"enum": ["note", "notes"]}, "exact": {"type": "boolean"}}),
    function("list_docs", {}),
]
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
HEADER = (
    r"(?:<\|channel\|>(?:analysis|final|commentary)"
    r"|(?: to=functions\.\w+)?<\|channel\|>commentary(?: to=functions\.\w+)?"
    r"(?: ?<\|constrain\|>json)?)<\|message\|>"
)
BODY = r"(?:(?!<\|(?:start|end|message|channel|constrain|return|call)\|>).)*"
HARMONY = re.compile(
    rf"{HEADER}{BODY}(?:<\|end\|><\|start\|>assistant{HEADER}{BODY})*<\|(?:return|call)\|>", re.S
)
BUDGETS, ROWS = 65, 32
# Counts that are no faults.
FINE = {"turns", "tokens", "headers", "judged", "turns with calls", "calls", "splits"}


class Writer:
    """Random models of one format, and their judge."""

    def __init__(self, name: str, vocabulary: Path | None = None) -> None:
        self.prompter = prompter = Prompter(mypt_spec.dialect(name, vocabulary=vocabulary), name)
        self.dialect = dialect = prompter.dialect
        tools: list[Any] = TOOLS if calling_blocks(dialect.table) else []
        question = [user("Hi")]
        try:
            self.prompt = prompter.prompt(question, tools).ids
        except ValueError:  # a format whose conversations begin with a system prompt
            question = [{"role": "system", "content": "S"}, *question]
            self.prompt = prompter.prompt(question, tools).ids
        self.name = name
        try:
            self.free = Decoder(dialect, tools)
        except ValueError:  # a format whose calls have an id that nothing constrains
            tools, self.free = [], Decoder(dialect)
        self.tools = tools
        self.opening = self._opening(prompter) if tools else []
        self.later = self._later(question)
        self.limits = ThoughtLimits(self.free)
        self.least = self.free.minimum(self.free.start(self.prompt))
        logits = np.random.default_rng(0).standard_normal((ROWS, dialect.tokenizer.vocab_size))
        self.weights = np.exp(logits)
        self.sums = self.weights.cumsum(axis=1)
        self.special = np.array(sorted(dialect.tokenizer.special.values()))
        self.counts: Counter[str] = Counter()
        self.examples: list[str] = []

    def _opening(self, prompter: Prompter) -> list[int]:
        """Returns the ids with which a call begins, up to its name; none where it is not sure."""
        prompts = []
        for name, arguments in (("search", {"query": "x"}), ("list_docs", {})):
            said = calls(call(name, arguments, id="call00001"), content=None)
            result = {"role": "tool", "tool_call_id": "call00001", "name": name, "content": "y"}
            try:
                prompts.append(prompter.prompt([user("Hi"), said, result], self.tools).ids)
            except ValueError:
                return []
        ids = prompts[0][: in_common(*prompts)]
        known = len(self.prompt)
        return ids[known:] if ids[:known] == self.prompt else []

    def _later(self, question: list[dict[str, Any]]) -> list[int]:
        """Returns what may follow an answer that ends as the last one does not; else nothing."""
        turn = [*question, {"role": "assistant", "content": "A"}]
        ids = []
        for messages in (turn, [*turn, *turn[-2:]]):
            episode, _ = self.dialect.read({"messages": messages})
            ids.append([] if episode is None else [*map(int, self.dialect.encode(episode).ids)])
        at = in_common(*ids)
        return ids[1][at:] if at < len(ids[0]) else []

    def turn(self, number: int, *, judged: bool) -> None:
        """Writes and judges one turn; adds to the counts."""
        chance = random.Random(f"{self.name} {number}")
        budget = number // 3 % BUDGETS if number % 3 == 0 else None
        state = self.free.start(self.prompt, max_new_tokens=self.least + 8 + chance.randrange(96))
        at = Position(state, None) if budget is None else self.limits.begin(state, budget)
        bonus, ids = float(np.exp(chance.uniform(0, 12))), list[int]()
        while not self.free.final(at.state):
            made = self.free if at.remaining is None else self.limits.decoder(at.remaining)
            token = self.draw(made, at.state, chance, bonus)
            if number % 3 == 1 and ids == self.opening[: len(ids)] and chance.random() < 0.9:
                wanted = self.opening[len(ids) : len(ids) + 1]
                token = next((i for i in wanted if made.allow(at.state).has(i)), token)
            if not made.takes(at.state, token):
                continue
            ids.append(token)
            if at.remaining is None:
                at = Position(made.next(at.state, token), None)
            else:
                at = self.limits.next(at, token)
        self.check(number, self.prompt, ids, budget, judged=judged)

    def check(
        self, number: int, prompt: list[int], ids: list[int], budget: int | None, *, judged: bool,
        of_each: bool = False,
    ) -> None:  # fmt: skip
        """Judges one turn; adds to the counts. The budget is that of all thoughts, or `of_each`."""
        self.counts["turns"] += 1
        self.counts["tokens"] += len(ids)
        if self.name == "harmony":
            text = self.dialect.tokenizer.decode(ids)
            self.counts["headers"] += text.count("<|message|>")
            if not HARMONY.fullmatch(text):
                self.fault("malformed header", number, ids)
            elif (
                budget is not None and (max if of_each else sum)([0, *self.thoughts(ids)]) > budget
            ):
                self.fault("over the thinking budget", number, ids)
        if judged:
            self.judge(number, prompt, ids)

    def thoughts(self, ids: list[int]) -> list[int]:
        """Returns how many tokens each thought of an answer of harmony has."""
        text, special = self.dialect.tokenizer.decode, self.dialect.tokenizer.special
        ends, counts, begun = {special[f"<|{n}|>"] for n in ("end", "return", "call")}, [], None
        for place, token in enumerate(ids):
            if token == special["<|message|>"]:
                header = text(ids[:place]).rpartition("<|channel|>")[2]
                begun = place if header == "analysis" else None
            elif token in ends and begun is not None:
                counts.append(place - begun - 1)
                begun = None
        return counts

    def draw(self, made: Decoder, state: int, chance: random.Random, bonus: float) -> int:
        """Draws from the allowed ids, by the weights of one of the rows of logits."""
        row = chance.randrange(ROWS)
        allowed = made.allow(state)
        tags = [int(i) for i in self.special if allowed.has(int(i))]
        tag_mass = bonus * float(self.weights[row][tags].sum()) if tags else 0.0
        ids = allowed.only
        if ids is not None and len(ids) < 2000:
            weights = self.weights[row][ids]
            weights[np.isin(ids, self.special)] *= bonus
            sums = weights.cumsum()
            return int(ids[min(len(ids) - 1, sums.searchsorted(chance.random() * sums[-1]))])
        total = float(self.sums[row, -1])
        if chance.random() * (total + tag_mass) < tag_mass:
            return tags[chance.randrange(len(tags))]
        for _ in range(1000):
            token = int(self.sums[row].searchsorted(chance.random() * total))
            if allowed.has(token):
                return token
        return int(chance.choice(made.ids(state)))

    def judge(self, number: int, prompt: list[int], ids: list[int]) -> None:
        """Reads a turn by the validator, and by the stream parser in all pieces."""
        self.counts["judged"] += 1
        later = self.later[1:] if ids[-1:] == self.later[:1] else []
        if not (complete(self.free, prompt + ids) or complete(self.free, prompt + ids + later)):
            self.fault("refused by the validator", number, ids)
            return
        written = [*calls_in(self.free, prompt + ids)]
        self.counts["turns with calls"] += bool(written)
        for each in written:
            self.counts["calls"] += 1
            if misfits(each.arguments, SCHEMAS[each.name]):
                self.fault("arguments that do not fit", number, ids)
        text = self.dialect.tokenizer.decode(ids)
        whole = self.read(prompt, text, len(text))
        for cut in range(1, len(text)):
            self.counts["splits"] += 1
            if self.read(prompt, text, cut) != whole:
                self.fault("another answer when cut in two", number, ids)

    def read(self, prompt: list[int], text: str, cut: int) -> str:
        stream = AnswerStream(self.dialect, prompt, tools=self.tools)
        for piece in (text[:cut], text[cut:]):
            stream.push_text(piece)
        stream.end()
        return re.sub(r'"id": "\w+"', "", json.dumps(stream.message))

    def fault(self, kind: str, number: int, ids: list[int]) -> None:
        self.counts[kind] += 1
        if len(self.examples) < 5:
            self.examples.append(f"{kind}, turn {number}: {self.dialect.tokenizer.decode(ids)!r}")


def run(name: str, first: int, last: int, judged: int, seconds: float) -> Counter[str]:
    """Writes turns first to last, at most so long; prints a row for each tenth of them."""
    writer, began, part = Writer(name), time.process_time(), max(1, (last - first) // 10)
    before = began
    for number in range(first, last):
        writer.turn(number, judged=number % judged == 0)
        ended = time.process_time() - began > seconds
        if (number - first + 1) % part == 0 or ended:
            now, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            count = (number - first) % part + 1
            print(
                f"| {name} | {number + 1:,} | {count / (now - before):,.0f} a second | "
                f"{memory // 1024} MiB |", flush=True,
            )  # fmt: skip
            before = now
        if ended:
            break
    print(f"{name}: {dict(writer.counts)}", *writer.examples, sep="\n    ", flush=True)
    return writer.counts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--format", nargs="*", default=["harmony"], metavar="NAME")
    parser.add_argument("--turns", type=int, default=1_000_000, help="of each format")
    parser.add_argument("--judged", type=int, default=100, metavar="N", help="one turn in N")
    parser.add_argument("--seconds", type=float, default=1e9, help="processor time of each format")
    parser.add_argument("--out", type=Path, help="counts of each run, to go on later")
    chosen = parser.parse_args()
    faulty = False
    for name in chosen.format:
        lines = chosen.out.read_text().splitlines() if chosen.out and chosen.out.exists() else []
        done = sum(d["turns"] for d in map(json.loads, lines) if d["format"] == name)
        counts = run(name, done, chosen.turns, chosen.judged, chosen.seconds)
        if chosen.out and counts["turns"]:
            with chosen.out.open("a") as file:
                file.write(json.dumps({"format": name, **counts}) + "\n")
        faulty |= bool(counts.keys() - FINE)
    raise SystemExit(faulty)


if __name__ == "__main__":
    main()
