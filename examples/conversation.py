"""Trains a tiny model to search a folder and to cite what it found, then asks it 200 questions.

    python examples/conversation.py [--folder DIR] [--out DIR] [--steps 1200] [--turns 200]

The folder holds the documents of this project, or Markdown of your own. A question has the first
words of a sentence of these documents. Its answer is a call of workspace.search, the rest of the
sentence, and a reference to a chunk that has it. Nothing is asked about sentences that the search
does not show.

The training data are conversations that a script has with the same tools, through the same
controller. No question of the 200 occurs in them. Three of four are about a sentence that occurs,
in other questions (known); the model may have learnt the answer by heart. One of four is about a
sentence that was never asked for (new); the model has to copy the answer from the result.

Prints how many turns are

- legal: the linter finds no error in the turn
- finished: the model ended the turn by itself, within its limits
- shown: a result of the turn has the whole sentence
- cited: the answer has a reference
- found: each reference is a chunk that a result of the turn has
- right: each of these chunks has the sentence, too, and the answer is its rest
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import torch

import mypt_spec
from mypt_cli.jsonl.paths import expand
from mypt_infer.controller import Controller, Options, Script
from mypt_infer.controller.events import Cite, Event, TextDelta, ToolResult, TurnEnd
from mypt_infer.controller.model_source import ModelSource
from mypt_infer.decode.decoder import Decoder
from mypt_infer.generate.llama import load
from mypt_infer.generate.sample import Sampling
from mypt_infer.toolbox import Toolbox
from mypt_infer.workspace import WorkspaceEngine, WorkspaceTools, toolbox
from mypt_spec import Dialect
from mypt_spec.encoder import encode_events
from mypt_spec.tokenizer.vocabulary import write_ranks
from mypt_train import Options as Preparing
from mypt_train import prepare
from mypt_train.curriculum.bpe import BpeError, learn
from mypt_train.training.trainer import train

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (
    *(ROOT / "docs").glob("[!r]*.md"),  # without rules.md: the pages of the rules, once more
    *(ROOT / "grammar").rglob("*.md"),
    *(ROOT / "mypt_spec/rules/pages").glob("*.md"),
)
SYSTEM = "Search the workspace, quote and cite."
ASKED = (
    'How does "{}" go on?',
    'Which words follow "{}"?',
    'Quote what comes after "{}".',
    'Where is "{}", and how does it end?',
    'Please finish "{}".',
    'What is the rest of "{}"?',
)
HITS = 1
BEGIN = 3  # words of a sentence that a question has
Texts = dict[str, str]  # of chunks, by their ids
# Words without what JSON would escape.
_SENTENCE = re.compile(r"(?<!\S)(?:[A-Z][a-z]*|`[^` \"\\]+`)(?: [\w'`-]+){4,11}\.(?!\S)")
# The context holds one turn: older ones are dropped from it, and stay in the history.
LIMITS = Options(
    context_length=448, max_tokens=160, max_result_tokens=144, max_toolcall_tokens=48
)  # fmt: skip
SHAPE = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True}
ROWS = {"batch_rows": 2, "micro_rows": 2, "threads": 1, "dtype": "float32"}
HOW = {"lr": 0.004, "warmup": 30, "save_every": 0, "val_every": -1, "legality_every": -1}


@dataclass(frozen=True)
class Question:
    """Asks how a sentence goes on that begins so; `kind` is "trained", "known" or "new"."""

    kind: str
    begin: str
    rest: str
    text: str

    @property
    def sentence(self) -> str:
        return f"{self.begin} {self.rest}"


def own_documents(folder: Path) -> Path:
    """Copies this project's documents to a folder, and returns it."""
    for path in DOCUMENTS:
        to = folder / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
    return folder


def chunks(engine: WorkspaceEngine) -> Texts:
    """Returns all chunks, white space collapsed."""
    found = (
        engine.get_chunk(f"{document.doc_id}#{position}")
        for document in engine.list_docs()
        for position in range(engine.count_chunks(document.doc_id))
    )
    return {chunk.chunk_id: " ".join(chunk.text.split()) for chunk in found if chunk is not None}


def sentences(texts: Iterable[str]) -> dict[str, str]:
    """Returns the rests of the sentences of some texts, by their first words."""
    words = (match[0].split() for text in texts for match in _SENTENCE.finditer(text))
    return {" ".join(each[:BEGIN]): " ".join(each[BEGIN:]) for each in words}


def hits(events: Sequence[Event]) -> Texts:
    """Returns the chunks that the searches of a turn have returned, as far as they are shown."""
    results = (e.value for e in events if isinstance(e, ToolResult) and not e.error)
    found = (hit for result in results for hit in result.get("documents", ()) if "text" in hit)
    return {hit["chunk_id"]: " ".join(hit["text"].split()) for hit in found}


class Teacher:
    """Says what the model is to learn, through a controller: searches, reads the result, cites."""

    def __init__(self, dialect: Dialect, tools: Toolbox) -> None:
        self._dialect, self._tools, self._coming = dialect, tools, list[int]()

    def turn(self, begin: str, rest: str) -> list[dict[str, Any]]:
        """Returns the messages of a turn after the question; none if no result has the sentence."""
        source = Script(iter(lambda: self._coming.pop(0) if self._coming else -1, None))
        controller = Controller(
            source, self._tools, dialect=self._dialect, system=SYSTEM, options=LIMITS
        )
        self._coming.clear()
        call = {"name": "workspace.search", "query": begin, "top_k": HITS}
        self._say(f"<myPT_toolcall>{json.dumps(call)}</myPT_toolcall>")
        for event in controller.say("?"):
            if isinstance(event, ToolResult):
                found = (key for key, text in hits([event]).items() if f"{begin} {rest}" in text)
                if (chunk := next(found, None)) is None:
                    return []
                self._say(f"{rest} <myPT_cite>{chunk}</myPT_cite></myPT_assistant>")
        messages: list[dict[str, Any]] = controller.record()["messages"]
        return messages[1:]

    def _say(self, text: str) -> None:
        d = self._dialect
        self._coming += encode_events(d.lex(text), d.table, d.tokenizer).ids.tolist()


def questions(shown: dict[str, str], chance: random.Random) -> list[Question]:
    """Returns all questions: every fifth sentence is new, two questions of the others are known."""
    out = []
    for number, (begin, rest) in enumerate(chance.sample(list(shown.items()), len(shown))):
        for place, asked in enumerate(chance.sample(ASKED, len(ASKED))):
            kind = "new" if number % 5 == 0 else "known" if place < 2 else "trained"
            out.append(Question(kind, begin, rest, asked.format(begin)))
    return out


def drawn(every: Sequence[Question], turns: int, chance: random.Random) -> list[Question]:
    """Returns the questions of the conversation, three of four of them about known sentences."""
    known, new = ([q for q in every if q.kind == kind] for kind in ("known", "new"))
    few = min(turns // 4, len(new))
    out = chance.sample(known, min(turns - few, len(known))) + chance.sample(new, few)
    return chance.sample(out, len(out))


def episode(asked: Sequence[Question], turns: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Returns the record of a conversation."""
    said = (({"role": "user", "content": q.text}, *turns[q.begin]) for q in asked)
    return {"system": SYSTEM, "messages": [message for turn in said for message in turn]}


@dataclass
class Score:
    """Counts turns."""

    turns: int = 0
    legal: int = 0
    finished: int = 0
    shown: int = 0
    cited: int = 0
    found: int = 0
    right: int = 0

    def add(self, events: Sequence[Event], question: Question, texts: Texts, legal: bool) -> bool:
        """Counts a turn that answered a question; returns whether it is right."""
        results = hits(events)
        cites = [event.text for event in events if isinstance(event, Cite)]
        said = "".join(event.text for event in events if isinstance(event, TextDelta)).strip()
        found = bool(cites) and set(cites) <= set(results)
        has = all(question.sentence in texts.get(cite, "") for cite in cites)
        right = found and has and said == question.rest
        self.turns += 1
        self.legal += legal
        self.finished += any(isinstance(e, TurnEnd) and e.reason == "stop" for e in events)
        self.shown += any(question.sentence in text for text in results.values())
        self.cited += bool(cites)
        self.found += found
        self.right += right
        return right


def is_legal(controller: Controller) -> bool:
    """Returns whether the linter finds no error in the last turn."""
    history = controller.history
    ids = history.ids[: history.head] + history.ids[history.turns[-1] :]
    episode, findings = history.dialect.parse_ids(ids)
    found = [*findings, *(history.dialect.validate(episode) if episode is not None else ())]
    return episode is not None and not any(f.severity == "error" for f in found)


def talk(controller: Controller, asked: Sequence[Question], texts: Texts) -> dict[str, Score]:
    """Asks all questions in one conversation, and prints the first answers; returns the counts."""
    scores = {"known": Score(), "new": Score(), "all": Score()}
    for number, question in enumerate(asked):
        events, legal = list(controller.say(question.text)), is_legal(controller)
        for kind in (question.kind, "all"):
            right = scores[kind].add(events, question, texts, legal)
        if number < 8:
            said = "".join(e.text for e in events if isinstance(e, TextDelta)).strip()
            cites = ", ".join(e.text for e in events if isinstance(e, Cite))
            verdict = "right" if right else "wrong"
            print(f"{verdict}, {question.kind}: {question.text}  {said} [{cites}]", flush=True)
    return scores


def table(scores: dict[str, Score]) -> str:
    """Returns a table in Markdown: a row for each score."""
    head = ["sentences", *(field.name for field in fields(Score))]
    rows = [[kind, *map(str, astuple(score))] for kind, score in scores.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def main(arguments: Sequence[str] | None = None) -> dict[str, Score]:
    """Runs all of it; returns the counts of the conversation by the kind of their sentences."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="Markdown; default: this project's documents")
    parser.add_argument("--out", type=Path, help="a new folder; default: one for temporary files")
    numbers = {"steps": 1200, "turns": 200, "episodes": 3000, "text-ids": 2028, "seed": 0}
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value, help="default: %(default)s")
    chosen = parser.parse_args(arguments)
    chance = random.Random(chosen.seed)
    out = chosen.out or Path(tempfile.mkdtemp(prefix="mypt-conversation-"))
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)

    engine = WorkspaceEngine(chosen.folder or own_documents(out / "workspace"), out / "index")
    texts, tools = chunks(engine), toolbox(WorkspaceTools(engine))
    found = sentences(texts.values())
    small = out / "small.tiktoken"
    spoken = [f"{asked} {begin} {rest}" for begin, rest in found.items() for asked in ASKED]
    spoken += [f'{{"chunk_id": "{key}", "top_k": {HITS}}}' for key in texts] * 3
    try:
        small.write_bytes(write_ranks(learn([*texts.values(), *spoken], chosen.text_ids)))
    except BpeError as error:
        parser.error(f"--text-ids: {error}")
    dialect = mypt_spec.dialect("mypt", vocabulary=small)
    teacher = Teacher(dialect, tools)
    turns = {begin: turn for begin, rest in found.items() if (turn := teacher.turn(begin, rest))}
    if len(turns) < 5:
        parser.error(f"the search shows {len(turns)} sentences of the folder, expected 5 or more")
    every = questions({begin: found[begin] for begin in turns}, chance)
    trained = [question for question in every if question.kind == "trained"]
    print(f"{len(texts)} chunks; {len(turns)} of {len(found)} sentences are shown", flush=True)

    data, how = out / "data.jsonl", Preparing(context_length=1024, vocabulary=str(small))
    records = (episode(chance.choices(trained, k=2), turns) for _ in range(chosen.episodes))
    data.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    prepare(expand([str(data)]), out / "data", how)
    steps = {"steps": chosen.steps, "seed": chosen.seed}
    config = {"model": SHAPE | HEADS, "train": ROWS | HOW | steps}
    model = load(train([out / "data"], config, out / "run", quiet=False).folder)

    decoder = Decoder(dialect, tools.schemas, max_toolcall_tokens=LIMITS.max_toolcall_tokens)
    source = ModelSource(model, decoder, sampling=Sampling(temperature=0.0))
    controller = Controller(source, tools, dialect=dialect, system=SYSTEM, options=LIMITS)
    scores = talk(controller, drawn(every, chosen.turns, chance), texts)
    print(table(scores))
    return scores


if __name__ == "__main__":
    main()
