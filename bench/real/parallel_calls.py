"""Counts right answers of several calls: free, and under our mask.

    python -m bench.real.parallel_calls --chats FILE [--rows 250] [--data DIR]
    python -m bench.real.parallel_calls --model RUN [--rows 40] [--categories parallel ...]
        [--data DIR] [--answers FILE]

Questions, tools and ground truths are those of BFCL whose answer is several calls. The first form
writes chats to train on, of the questions that the second does not ask; the second lets a model
that was trained on them answer, greedily, from inside its first call to the end of the turn.
An answer is right if its calls, in any order, are those of the ground truth. Prints a table in
Markdown: right answers by category, answers with the right number of calls, right calls of all.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import mypt_spec
from bench.real.functions import Test, data, rows_of
from bench.real.right_calls import SharedReads, is_heldout, ours
from mypt_infer.generate.llama import load
from mypt_infer.generate.loop import run
from mypt_model.folder import beside

CATEGORIES = ("parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple")
WAYS = ("free", "ours", "jumps")


@dataclass(frozen=True)
class Question:
    """A question whose answer is several calls, each as a `Test` of its own."""

    category: str
    calls: tuple[Test, ...]

    @property
    def tools(self) -> list[dict[str, Any]]:
        return self.calls[0].tools

    @property
    def record(self) -> dict[str, Any]:
        """Returns a chat in which the right calls answer the question."""
        calls = [
            {"id": f"c{i}", "type": "function", "function": {
                "name": test.name,
                "arguments": json.dumps(test.call["arguments"], ensure_ascii=False),
            }}
            for i, test in enumerate(self.calls)
        ]  # fmt: skip
        tools = [{"type": "function", "function": tool} for tool in self.tools]
        answer = {"role": "assistant", "tool_calls": calls}
        return {"messages": [*self.calls[0].question, answer], "tools": tools}

    def right(self, calls: list[Any]) -> int:
        """Returns how many of the calls of the ground truth are among some calls."""
        left = list(calls)
        for test in self.calls:
            match = next((call for call in left if test.is_right(call)), None)
            if match is not None:
                left.remove(match)
        return len(calls) - len(left)


def questions(folder: Path) -> Iterator[Question]:
    """Yields the questions of all categories that are one turn with several calls."""
    for category in CATEGORIES:
        for turns, tools, calls in rows_of(folder, category):
            known = {tool["name"] for tool in tools}
            if len(turns) == 1 and len(calls) > 1 and {n for n, _ in calls} <= known:
                (turn,) = turns
                tests = tuple(Test(category, turn, tools, n, truth) for n, truth in calls)
                if all(test.is_right(test.call) for test in tests):
                    yield Question(category, tests)


def calls_in(text: str) -> list[Any]:
    """Returns the JSON objects of the calls in an answer that begins inside the first."""
    out = []
    for part in text.split("<tool_call>"):
        try:
            out.append(json.JSONDecoder().raw_decode(part.lstrip())[0])
        except json.JSONDecodeError:
            out.append(None)
    return out


def prompt_of(dialect: mypt_spec.Dialect, question: Question) -> list[int]:
    """Returns the ids of a chat up to its first call."""
    episode, findings = dialect.read(question.record)
    assert episode is not None, findings
    ids = [*map(int, dialect.encode(episode).ids)]
    opener = dialect.tokenizer.special["<tool_call>"]
    start = max(
        i for i, token in enumerate(ids) if token == dialect.tokenizer.special["<|im_start|>"]
    )
    at = ids.index(opener, start)
    return [*ids[: at + 1], *dialect.tokenizer.encode("\n")]


def free(
    model: SharedReads, dialect: mypt_spec.Dialect, prompts: list[list[int]], room: int, device: str
) -> list[str]:  # fmt: skip
    """Returns what a model writes without a constraint, up to the end of its turn."""
    out: list[list[int]] = [[] for _ in prompts]
    end = dialect.tokenizer.special["<|im_end|>"]

    def choose(row: int, logits: torch.Tensor) -> list[int] | None:
        token = int(logits.argmax())
        out[row].append(token)
        return None if token == end or len(out[row]) >= room else [token]

    longest = max(map(len, prompts)) + room
    run(model, prompts, longest, choose, device, vocabulary=dialect.tokenizer.vocab_size)
    return [dialect.tokenizer.decode(ids) for ids in out]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--categories", nargs="+", choices=CATEGORIES, default=CATEGORIES)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--new-tokens", type=int, default=300)
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    every = list(enumerate(questions(chosen.data or data())))
    if chosen.chats is not None:
        rows = [json.dumps(q.record, ensure_ascii=False) for i, q in every if not is_heldout(i)]
        lines = sorted(rows, key=len)[: chosen.rows]
        chosen.chats.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return
    model = load(chosen.model).to(chosen.device)
    vocabulary = beside(chosen.model, "tokenizer.json", "vocabulary.json")
    dialect = mypt_spec.dialect("qwen3", vocabulary=vocabulary)
    asked = [q for i, q in every if is_heldout(i) and q.category in chosen.categories]
    cases = [(prompt_of(dialect, q), q) for q in asked]
    cases = sorted(cases, key=lambda case: len(case[0]))[: chosen.rows]
    right, called, counts = Counter[Any](), Counter[str](), Counter[str]()
    totals = Counter(q.category for _, q in cases)
    for at in range(0, len(cases), chosen.batch):
        batch = cases[at : at + chosen.batch]
        prompts = [ids for ids, _ in batch]
        shared = SharedReads(model, prompts, chosen.new_tokens, chosen.device)
        for way in WAYS:
            if way == "free":
                texts = free(shared, dialect, prompts, chosen.new_tokens, chosen.device)
            else:
                texts, _ = ours(
                    shared, dialect, [_Case(ids, q.tools) for ids, q in batch], "calls",
                    chosen.new_tokens, chosen.device, jumps=way == "jumps",
                )  # fmt: skip
            for text, (_, question) in zip(texts, batch, strict=True):
                calls, wanted = calls_in(text), len(question.calls)
                count = question.right(calls)
                whole = count == len(calls) == wanted
                right[way, question.category] += whole
                called[way] += len(calls) == wanted
                counts[way] += count
                if chosen.answers is not None:
                    with chosen.answers.open("a", encoding="utf-8") as file:
                        truth = [{test.name: test.truth} for test in question.calls]
                        row = {"way": way, "category": question.category, "right": whole,
                               "answer": text, "truth": truth,
                               "question": question.calls[0].question[-1]["content"]}  # fmt: skip
                        file.write(json.dumps(row, ensure_ascii=False) + "\n")
    shown = [category for category in CATEGORIES if totals[category]]
    heads = " | ".join(f"{category} ({totals[category]})" for category in shown)
    wanted = sum(len(question.calls) for _, question in cases)
    print(f"| | {heads} | all | number of calls | right calls of {wanted} |")
    print("| --- " * (len(shown) + 4) + "|")
    for way in WAYS:
        cells = [str(right[way, category]) for category in shown]
        row = [way, *cells, str(sum(right[way, c] for c in shown)), called[way], counts[way]]
        print(f"| {' | '.join(map(str, row))} |", flush=True)


@dataclass(frozen=True)
class _Case:
    """What `ours` needs of a case."""

    prompt: list[int]
    tools: list[dict[str, Any]]


if __name__ == "__main__":
    main()
