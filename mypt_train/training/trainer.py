"""Trains a model: from prepared data to a model folder. Read this module from top to bottom.

Input: prepared folders, a config and an output folder. Output: checkpoints, a log and a Report.

Theory of operation. `train` opens the data, makes or loads the model, and runs the steps. The state
of a run is the weights, the optimizer's moments and the number of steps done. Everything else is a
function of data, config and step: which rows a step reads (`batches`), the learning rate (`rate`).
So a run that was killed continues from its last checkpoint to the same weights, and checkpoints
refuse to continue with other data or another config (invariant 9 of ARCHITECTURE.md). A step

1. reads its rows, and this process's share of them, in micro-batches;
2. counts the targets over all processes, since the loss is a mean over the whole step;
3. runs the model on each micro-batch, with attention that keeps the episodes of a row apart, and
   adds up gradients;
4. clips the gradients, and changes the weights once. A loss or gradient that is not finite stops
   the run and names the lines of the input.

An episode in dialect gabgpt on its way. `<|user|>Hi<|assistant|>Hello!<|end|>` was prepared as the
ids 50257 17250 50259 15496 0 50260 with the mask 0 0 1 1 1 1. In its row the ids have the positions
0 to 5. The targets are 50259, 15496, 0 and 50260; the head sees only the hidden states before them,
of positions 1 to 4, so the prompt costs no logits.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mypt_cli import atomic
from mypt_model.folder import TRAINER, checkpoints, newest
from mypt_model.llama import Transformer, random_transformer
from mypt_train.data.kinds import BAD, GOOD
from mypt_train.data.reader import ShardError, ShardReader
from mypt_train.training import checkpoint
from mypt_train.training.batches import Batch, Stage, batch, share, stages
from mypt_train.training.checkpoint import CheckpointError
from mypt_train.training.config import Config, ConfigError, TrainConfig
from mypt_train.training.corpus import Corpus, Row, corpus, open_data
from mypt_train.training.distributed import World, joined, spread_out, use_threads, whole
from mypt_train.training.log import BOARD, LOG, Log
from mypt_train.training.objective import Objective
from mypt_train.training.validation import validate

__all__ = ["CheckpointError", "ConfigError", "Report", "ShardError", "TrainError", "train"]


class TrainError(Exception):
    """Training cannot begin, or has to stop; the message says why, where, and what to do.

    Checkpoints stay as they are.
    """


@dataclass(frozen=True)
class Report:
    """The result of a run.

    `step`: steps done. `loss`: that of the last step. `folder`: the last checkpoint. `validation`,
    `legality`: the last results. `first`: this process is the one that writes, of all that torchrun
    has started.
    """

    step: int
    loss: float
    folder: Path
    first: bool = True
    validation: dict[str, Any] = field(default_factory=dict)
    legality: dict[str, Any] = field(default_factory=dict)


def train(
    data: str | Path | Sequence[str | Path],
    config: Config | Mapping[str, Any] | str | Path,
    out: str | Path,
    *,
    steps: int | None = None,
    phases: Iterable[int] | None = None,
    init_from: str | Path | None = None,
    resume: bool = False,
    tools: Sequence[Mapping[str, Any]] | None = None,
    verify: bool = True,
    quiet: bool = True,
) -> Report:
    """Trains a model on one or several prepared folders, into the folder `out`.

    - `steps`: stop after this step; the schedule is that of the config.
    - `phases`: the curriculum, in this order, each phase with replay of those before it.
    - `init_from`: a model folder to begin with.
    - `resume`: continue from the last checkpoint in `out`, with the same data and config.
    - `tools`: the tools that may be called when legality is measured, as JSON schemas; by default
      those that the validation data calls.
    - `verify`: compare the SHA-256 of all data files first.

    Raises TrainError, ConfigError, ModelError, ShardError or CheckpointError, all before anything
    is written; later only for a step that fails or a disk that is full.
    """
    made, out = Config.of(config), Path(out)
    folders = [data] if isinstance(data, str | Path) else list(data)
    with joined() as world:
        run = _Run(
            folders, made, out, phases, init_from, world, tools, resume=resume, verify=verify
        )
        last = made.train.steps if steps is None else steps
        if not 0 < last <= made.train.steps:
            raise ConfigError(
                f"stop after step {last}: the schedule of the config has {made.train.steps} "
                "steps; set train.steps"
            )
        with Log(
            out, step=run.begin, steps=last, writes=world.first, quiet=quiet,
            tensorboard=made.train.tensorboard,
        ) as log:  # fmt: skip
            return run.go(last, log)


class _Run:
    """All that a run needs, opened and checked."""

    def __init__(
        self, folders: Sequence[str | Path], config: Config, out: Path,
        phases: Iterable[int] | None, init_from: str | Path | None,
        world: World, tools: Sequence[Mapping[str, Any]] | None, *, resume: bool, verify: bool,
    ) -> None:  # fmt: skip
        self.config, self.out, self.world, self.tools = config, out, world, tools
        c = config.train
        if tools is not None and c.legality_every >= 0:
            from mypt_train.training.legality import check_tools

            check_tools(tools)
        if c.batch_rows % world.size:
            raise ConfigError(
                f"train.batch_rows is {c.batch_rows}, which {world.size} processes cannot share "
                "evenly"
            )
        self.readers = open_data(folders, verify=verify)
        self.train, self.val = corpus(self.readers, "train"), corpus(self.readers, "val")
        self.notes: list[str] = []
        self.stages = self._stages([None] if phases is None else list(phases))
        self.val_rows = _rows(self.val, c)[: c.val_rows]
        shape = config.shape(
            int(self.readers[0].manifest["vocab_size"]),
            c.context_length or self.train.packed or None,
        )
        self.threads = use_threads(c.threads, shape.hidden_size, world)
        self.facts = _facts(self.readers, config, self.stages)
        self.beside = self.train.dialect.kept
        last = _last_checkpoint(out, resume=resume)
        self.begin = 0 if last is None else self._check_same(last)
        model = random_transformer(shape, c.seed)
        reference = self._reference(model, init_from, last)
        self.fresh_ids = 0
        if last is not None:
            checkpoint.load_weights(last, model)
        else:
            if init_from is not None:
                self._check_grammar(newest(init_from))
                self.fresh_ids = checkpoint.load_weights(newest(init_from), model)
            _name_tags(model, self.train, c.tag_words)
        out.mkdir(parents=True, exist_ok=True)
        checkpoint.check_space(out, model, c.keep)
        self.objective = Objective(c, self.train, world, reference)
        self.called: nn.Module = spread_out(model, world, c.parallel, self.objective.dtype)
        self.model = model
        self.optimizer = _optimizer(model, c)
        if last is not None:
            checkpoint.load_state(last, model, self.optimizer)
        self.result = Report(self.begin, math.nan, last or out, world.first)

    def _stages(self, phases: Sequence[int | None]) -> list[Stage]:
        c = self.config.train
        pools: list[tuple[int | None, list[Row]]] = []
        for phase in phases:
            rows = _rows(self.train, c, phase)
            if phase is not None and not rows and not self.train.told(phase):
                self.notes.append(
                    f"phase {phase}: no tag distinguishes it from earlier phases, so its episodes "
                    f"are counted among theirs; prepare it by itself with --phase {phase}"
                )
                continue
            if not rows:
                have = (
                    f"; it has {', '.join(map(str, self.train.phases)) or 'no phases'}"
                    if phase is not None
                    else ""
                )
                what = {"dpo": "pairs", "orpo": "pairs", "kto": "labels"}.get(
                    c.objective, "episodes"
                )
                raise TrainError(
                    f"{self.readers[0].folder}: the data has no "
                    f"{what}{f' of phase {phase}' if phase is not None else ''} to train on{have}"
                )
            pools.append((phase, rows))
        if len(pools) > c.steps:
            raise ConfigError(f"train.steps is {c.steps}: {len(pools)} phases need more")
        return stages(pools, steps=c.steps, size=c.batch_rows, replay=c.replay, seed=c.seed)

    def _check_same(self, folder: Path) -> int:
        """Returns the number of steps that a checkpoint has done.

        Raises CheckpointError if it was trained on other data, or with another config or other
        phases.
        """
        self._check_grammar(folder)
        facts = checkpoint.facts_of(folder)
        if not facts:
            raise CheckpointError(
                f"{folder}: has no {TRAINER}, so training cannot go on from it; use --init-from"
            )
        if facts["data"]["fingerprint"] != self.facts["data"]["fingerprint"]:
            was, now = facts["data"]["fingerprint"][:12], self.facts["data"]["fingerprint"][:12]
            raise CheckpointError(
                f"{folder}: was trained on other data ({was}, this is {now}); give the same, or "
                "use --init-from to train on this"
            )
        before, now = facts["config"], self.facts["config"]
        free = (
            "parallel",
            "keep",
            "log_every",
            "save_every",
            "threads",
            "tensorboard",
            "val_every",
            "val_rows",
            "legality_every",
            "legality_prompts",
            "legality_tokens",
            "micro_rows",
        )
        for part in ("model", "train"):
            for key in now[part]:
                if before[part].get(key) != now[part][key] and key not in free:
                    raise CheckpointError(
                        f"{folder}: {part}.{key} was {before[part].get(key)!r}, now it is "
                        f"{now[part][key]!r}; resume with the same config"
                    )
        if facts["phases"] != self.facts["phases"]:
            raise CheckpointError(
                f"{folder}: the phases were {facts['phases']}, now they are "
                f"{self.facts['phases']}; resume with the same"
            )
        return int(facts["step"])

    def _check_grammar(self, folder: Path) -> None:
        facts = checkpoint.facts_of(folder)
        for key, what in (
            (("spec_fingerprint", "grammar"), ("vocabulary_sha256", "vocabulary")) if facts else ()
        ):
            was, now = facts["data"][key], self.facts["data"][key]
            if was != now:
                shown = [
                    value[:12] if isinstance(value, str) else json.dumps(value, sort_keys=True)
                    for value in (was, now)
                ]
                raise CheckpointError(
                    f"{folder}: was trained with another {what} ({shown[0]}, the data has "
                    f"{shown[1]}); prepare the data with the same"
                )

    def _reference(
        self, model: Transformer, init_from: str | Path | None, last: Path | None
    ) -> Transformer | None:
        """Returns the frozen model that DPO and KTO compare with; None for other objectives.

        A run that is resumed uses the reference with which it began.
        """
        c = self.config.train
        if c.objective not in ("dpo", "kto"):
            return None
        frozen = random_transformer(model.config, c.seed)
        before = checkpoint.facts_of(last)["reference"] if last is not None else None
        where = (
            before["folder"]
            if before is not None
            else None
            if last is not None
            else c.reference or init_from
        )
        if where is not None:
            folder = newest(where).resolve()
            checkpoint.load_weights(folder, frozen)
            self.facts["reference"] = {"folder": str(folder), "sha256": checkpoint.digest(folder)}
            if before is not None and before != self.facts["reference"]:
                raise CheckpointError(
                    f"{folder}: is no longer the reference that {last} was trained with; put it "
                    "back, or begin a new run"
                )
        return frozen.requires_grad_(False).to(self.world.device)

    # The steps.

    def go(self, last: int, log: Log) -> Report:
        """Runs the steps up to `last`."""
        c = self.config.train
        weights = sum(weight.numel() for weight in self.model.parameters())
        processes = f"{self.world.size} process{'es' * (self.world.size > 1)}"
        begun = f"{weights:,} weights, {len(self.train.episodes):,} episodes, {processes}"
        on = f" on {self.threads} thread{'s' * (self.threads > 1)}" if self.threads else ""
        log.tell(
            "begin",
            self.begin,
            begun + on,
            notes=self.notes,
            weights=weights,
            processes=self.world.size,
            threads=self.threads,
            fresh_ids=self.fresh_ids,
            **self.facts,
        )
        for note in self.notes:
            log.show(note)
        since, seen = time.perf_counter(), 0
        for step in range(self.begin, last):
            rows = next(s for s in self.stages if s.begin <= step < s.end).rows(step, c.batch_rows)
            mine = share(rows, self.world.rank, self.world.size, c.micro_rows)
            batches = [
                batch(self.train, part, every=c.train_on == "all").to(self.world.device)
                for part in mine
            ]
            for group in self.optimizer.param_groups:
                group["lr"] = rate(step, c)
            loss, norm, count = self._step(batches)
            if not math.isfinite(loss + norm):
                raise TrainError(self._blame(step, rows, loss, norm))
            self.optimizer.step()
            self.result = replace(self.result, step=step + 1, loss=loss)
            seen += sum(b.tokens for b in batches)
            log.at(step + 1, f"loss {loss:.4f}{on}")
            if (step + 1) % c.log_every == 0 or step + 1 == last:
                speed = int(self.world.sum(torch.tensor(seen, device=self.world.device))) / (
                    time.perf_counter() - since
                )
                text = (
                    f"step {step + 1}: loss {loss:.4f}, gradient {norm:.3f}, {speed:,.0f} tokens/s"
                )
                log.tell(
                    "step",
                    step + 1,
                    text,
                    loss=loss,
                    norm=norm,
                    lr=rate(step, c),
                    counted=count,
                    tokens_per_second=speed,
                )
                since, seen = time.perf_counter(), 0
            self._look(step + 1, last, log)
        return self.result

    def _step(self, batches: list[Batch]) -> tuple[float, float, float]:
        """Computes the gradients of a step, and clips them; returns (loss, norm, count).

        `norm` is that of the gradients before clipping; `count` divides the loss.
        """
        self.optimizer.zero_grad(set_to_none=True)
        count = self.objective.count(batches)
        if not count:
            return math.nan, math.nan, 0
        loss = self.objective.step(self.called, batches, count)
        norm = whole(nn.utils.clip_grad_norm_(self.model.parameters(), self.config.train.clip))
        return float(loss), float(norm), count

    def _look(self, step: int, last: int, log: Log) -> None:
        """Does what is due after some steps: validation, a checkpoint, legality."""
        c = self.config.train
        if _due(c.val_every, step, last) and self.val_rows:
            found = self._validate()
            self.result = replace(self.result, validation=found)
            more = f", accuracy {found['accuracy']:.2%}" if "accuracy" in found else ""
            log.tell(
                "validation",
                step,
                f"step {step}: validation loss {found['loss']:.4f}{more}",
                **found,
            )
        if _due(c.save_every, step, last):
            path = checkpoint.save(
                self.out,
                step,
                self.model,
                self.optimizer,
                self.facts,
                self.world,
                keep=c.keep,
                beside=self.beside,
            )
            self.result = replace(self.result, folder=path)
            log.tell("checkpoint", step, f"step {step}: {path}", folder=path.name)
        if _due(c.legality_every, step, last) and len(self.val.episodes):
            from mypt_train.training.legality import legality_of

            found = legality_of(
                self.model,
                self.val,
                self.world,
                prompts=c.legality_prompts,
                max_new_tokens=c.legality_tokens,
                tools=self.tools,
                seed=c.seed,
            )
            self.result = replace(self.result, legality=found)
            if "failed" in found:
                log.tell(
                    "legality",
                    step,
                    f"step {step}: legality was not measured: {found['failed']}",
                    **found,
                )
            elif found:
                free, bound = (found[how]["legal"] for how in ("unconstrained", "constrained"))
                text = f"{free:.1%} legal by itself, {bound:.1%} constrained"
                log.tell("legality", step, f"step {step}: {text}", **found)

    def _validate(self) -> dict[str, Any]:
        c = self.config.train
        if c.objective == "sft":
            return validate(self.objective, self.called, self.val, self.val_rows, c.micro_rows)
        parts = share(self.val_rows, 0, 1, c.micro_rows)  # every process looks at all of them
        judged = Objective(c, self.val, World(0, 1, self.world.device), self.objective.reference)
        return {
            "loss": judged.mean(
                self.called, [batch(self.val, part).to(self.world.device) for part in parts]
            )
        }

    def _blame(self, step: int, rows: Sequence[Row], loss: float, norm: float) -> str:
        """Returns a message that names the batch in which a step failed, and its lines of input.

        If there are rows that fail alone, only their lines are named.
        """
        alone: list[Row] = []
        if self.world.size == 1 and self.objective.config.objective == "sft":
            with torch.no_grad():
                alone = [
                    r
                    for r in rows
                    if not math.isfinite(
                        float(
                            self.objective.tell(
                                self.called, batch(self.train, [r]).to(self.world.device)
                            )[0]
                        )
                    )
                ]
        lines = [self.train.place(number) for row in alone or rows for number in row.tolist()]
        shown = ", ".join(lines[:20]) + (
            f" and {len(lines) - 20} others" if len(lines) > 20 else ""
        )
        kept = checkpoints(self.out)
        left = f"the last good checkpoint is {kept[-1]}" if kept else "there is no checkpoint yet"
        what = (
            "has no trained token"
            if math.isnan(norm) and math.isnan(loss) and not sum(self._trained(r) for r in rows)
            else f"has loss {loss}, gradient {norm}"
        )
        advice = "Look at these lines, or lower train.lr"
        return f"step {step + 1} {what}; {left}. Its batch holds {shown}. {advice}"

    def _trained(self, row: Row) -> int:
        return sum(int(self.train.tokens(number)[1].sum()) for number in row.tolist())


def rate(step: int, config: TrainConfig) -> float:
    """Returns the learning rate of a step, counted from 0.

    It warms up, then follows a cosine, is constant, or is constant with a linear end (WSD).
    """
    c = config
    if step < c.warmup:
        return c.lr * (step + 1) / c.warmup
    if c.schedule == "constant":
        return c.lr
    if c.schedule == "wsd":
        tail = max(1, round(c.steps * c.decay))
        left = min(1.0, (c.steps - step) / tail)
        return c.lr * (c.final_lr + (1 - c.final_lr) * left)
    done = (step - c.warmup) / max(1, c.steps - c.warmup)
    return c.lr * (c.final_lr + (1 - c.final_lr) * (1 + math.cos(math.pi * done)) / 2)


def _rows(corpus: Corpus, config: TrainConfig, phase: int | None = None) -> list[Row]:
    if config.objective in ("dpo", "orpo"):
        return corpus.pairs(config.context_length)
    kinds = {"kinds": (GOOD, BAD)} if config.objective == "kto" else {}
    return corpus.rows(config.context_length, phase=phase, **kinds) if len(corpus.episodes) else []


def _optimizer(model: Transformer, config: TrainConfig) -> torch.optim.AdamW:
    """Returns AdamW; weights of norms are not decayed."""
    wide = [weight for weight in model.parameters() if weight.dim() > 1]
    norms = [weight for weight in model.parameters() if weight.dim() == 1]
    groups = [
        {"params": wide, "weight_decay": config.weight_decay},
        {"params": norms, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), foreach=True)


def _facts(
    readers: Sequence[ShardReader], config: Config, stages: Sequence[Stage]
) -> dict[str, Any]:
    """Returns what a checkpoint says of how it was made."""
    first = readers[0].manifest
    files = [
        shard["files"]
        for reader in readers
        for split in reader.manifest["splits"].values()
        for shard in split["shards"]
    ]
    data = {
        "dialect": readers[0].dialect.name,
        "spec_fingerprint": first["spec_fingerprint"],
        "vocabulary_sha256": first["vocabulary_sha256"],
        "vocab_size": first["vocab_size"],
        "fingerprint": hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest(),
    }
    return {
        "data": data,
        "config": config.as_dict(),
        "phases": [stage.phase for stage in stages],
        "reference": None,
        "torch": str(torch.__version__),
    }


def _last_checkpoint(out: Path, *, resume: bool) -> Path | None:
    """Returns the checkpoint to continue from; None to begin a new run.

    Raises TrainError if that would overwrite an earlier run.
    """
    found = checkpoints(out) if out.exists() else []
    if found and not resume:
        raise TrainError(
            f"{out}: holds {found[-1].name} of an earlier run; go on with --resume, or name "
            "another folder"
        )
    if (
        not found
        and out.exists()
        and any(p.name not in (LOG, BOARD) and p.suffix != atomic.PART for p in out.iterdir())
    ):
        raise TrainError(f"{out}: is not empty, and holds no checkpoint; name another folder")
    return found[-1] if found else None


def _due(every: int, step: int, last: int) -> bool:
    return every >= 0 and (step == last or (every > 0 and step % every == 0))


@torch.no_grad()
def _name_tags(model: Transformer, corpus: Corpus, words: Mapping[str, str]) -> None:
    """Sets the embeddings of tags to the mean of the embeddings of named words.

    Raises ConfigError for a tag that is no single id.
    """
    embedding: Tensor = model.model.embed_tokens.weight
    tokenizer = corpus.dialect.tokenizer
    for tag, word in words.items():
        if tag not in tokenizer.special:
            raise ConfigError(
                f"train.tag_words: {tag!r} is no tag of {corpus.dialect.name}; tags are "
                f"{', '.join(tokenizer.special)}"
            )
        ids = tokenizer.encode(word)
        if not ids:
            raise ConfigError(f"train.tag_words: {tag!r} needs a word")
        embedding[tokenizer.special[tag]] = embedding[ids].mean(dim=0)
