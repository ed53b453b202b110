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

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mypt_cli import atomic
from mypt_model.folder import checkpoints, newest
from mypt_model.pretrained import Net
from mypt_train.data.formats.manifest import BAD, GOOD
from mypt_train.data.shard import ShardError
from mypt_train.training.batches import Batch, Stage, batch, idle, share, stages
from mypt_train.training.begin import begun, frozen, name_tags, named_tags, shaped
from mypt_train.training.corpus import Corpus, Row, corpus, open_data
from mypt_train.training.facts import check_grammar, check_same, facts_of_run, other_mask
from mypt_train.training.meter import Meter
from mypt_train.training.objective import Objective, validate
from mypt_train.training.parts import checkpoint, lora
from mypt_train.training.parts.attention import compile_layers
from mypt_train.training.parts.checkpoint import CheckpointError
from mypt_train.training.parts.config import Config, ConfigError, TrainConfig
from mypt_train.training.parts.distributed import (
    ProcessLost,
    World,
    full_tensor,
    joined,
    precision,
    send_weights,
    spread_out,
    use_threads,
)
from mypt_train.training.parts.interrupt import Interrupt
from mypt_train.training.parts.log import BOARD, LOG, Log
from mypt_train.training.parts.optimizer import adamw, rate

__all__ = [
    "CheckpointError",
    "ConfigError",
    "ProcessLost",
    "Report",
    "ShardError",
    "TrainError",
    "train",
]


Legality = Callable[[Net, Corpus, World, TrainConfig], tuple[dict[str, Any], str]]
"""Measures how often a model answers legally; returns (shares, what a person reads of them).

All processes call it; the shares are {} on all but the first.
"""


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
    legality: Legality | None = None,
    verify: bool = True,
    quiet: bool = True,
) -> Report:
    """Trains a model on one or several prepared folders, into the folder `out`.

    - `steps`: stop after this step; the schedule is that of the config.
    - `phases`: the curriculum, in this order, each phase with replay of those before it.
    - `init_from`: a model folder to begin with.
    - `resume`: continue from the last checkpoint in `out`, with the same data and config.
    - `legality`: measures how often the model answers legally; `mypt.legality.legality` makes it.
    - `verify`: compare the SHA-256 of all data files first.

    Raises TrainError, ConfigError, ModelError, ShardError or CheckpointError, all before anything
    is written; later only for a step that fails, a disk that is full or a process that is gone
    (ProcessLost).
    """
    settings, out = Config.load(config), Path(out)
    folders = [data] if isinstance(data, str | Path) else list(data)
    with joined(timeout=settings.train.timeout) as world:
        run = _Run(
            folders, settings, out, phases, init_from, world, legality, resume=resume,
            verify=verify, quiet=quiet or not world.first,
        )  # fmt: skip
        last = settings.train.steps if steps is None else steps
        if not 0 < last <= settings.train.steps:
            raise ConfigError(
                f"stop after step {last}: the schedule of the config has {settings.train.steps} "
                "steps; set train.steps"
            )
        log = Log(
            out, step=run.begin, steps=last, writes=world.first, quiet=quiet,
            tensorboard=settings.train.tensorboard,
        )  # fmt: skip
        # With patience, only better weights are saved: there is nothing to wait for.
        with log, Interrupt(enabled=not settings.train.patience, first=world.first) as interrupt:
            return run.go(last, log, interrupt)


class _Run:
    """All that a run needs, opened and checked."""

    def __init__(
        self, folders: Sequence[str | Path], config: Config, out: Path,
        phases: Iterable[int] | None, init_from: str | Path | None,
        world: World, legality: Legality | None, *,
        resume: bool, verify: bool, quiet: bool,
    ) -> None:  # fmt: skip
        self.config, self.out, self.world, self.legality = config, out, world, legality
        c = config.train
        if c.batch_rows < world.size:
            raise ConfigError(
                f"train.batch_rows is {c.batch_rows}, fewer than the {world.size} processes"
            )
        self.readers = open_data(folders, verify=verify)
        self.train, self.val = corpus(self.readers, "train"), corpus(self.readers, "val")
        self.notes: list[str] = []
        if legality is not None and not self.train.dialect.table.terminals:
            self.legality = None
            self.notes.append("legality is not measured: a chat template has no grammar")
        self.stages = self._stages([None] if phases is None else list(phases))
        self.val_rows = _rows(self.val, c)[: c.val_rows]
        if c.patience and not self.val_rows:
            raise TrainError(
                f"{self.readers[0].name}: train.patience needs a validation split; prepare the "
                "data with --val-fraction"
            )
        last = _last_checkpoint(out, resume=resume)
        # Reading them compares the digests of all files, so it is done once.
        before = None if last is None else checkpoint.facts_of(last, world)
        source = self._source(init_from, last, before)
        config = self.config = shaped(config, last or source)
        self.facts = facts_of_run(self.readers, config, self.stages)
        self.begin = 0
        if last is not None and before is not None:
            self.begin = check_same(last, before, self.facts)
        elif source is not None:
            theirs = checkpoint.facts_of(source, world)
            check_grammar(source, theirs, self.facts)
            self.notes += filter(None, [other_mask(theirs, self.facts)])
        if c.lora_rank:
            self.facts["base"] = self._base(source, last, before)
        ids = int(self.facts["data"]["vocab_size"])
        width = c.context_length or self.train.packed or None
        # Of processes that share weights, the first makes the model, and gives the others theirs.
        sends_weights = world.shares(c.parallel)
        hollow = sends_weights and not world.first
        model, self.fresh_ids = begun(config, ids, width, source, hollow=hollow)
        self.threads = use_threads(c.threads, model.config.hidden_size, world)
        compared = self._compared(init_from, last, before)
        words = c.tag_words if last is None or c.lora_rank else {}
        tag_ids = named_tags(self.train.dialect, words)
        if not hollow:
            name_tags(model, tag_ids)
        tags = sorted({*self.train.dialect.new_tags.values(), *tag_ids})
        if c.lora_rank:
            lora.add(model, c, tags)
            if last is not None:
                lora.restore(model, last)
            if precision(c.dtype, world.device) == torch.bfloat16:
                lora.narrow(model, world)
        if c.compile:
            compile_layers(model, world.device)
        model.recompute = c.recompute
        out.mkdir(parents=True, exist_ok=True)
        checkpoint.check_space(out, model, c.keep)
        values = {n: w.detach() for n, w in model.named_parameters()} if sends_weights else {}
        dtype = precision(c.dtype, world.device)
        self.called: nn.Module = spread_out(model, world, c.parallel, dtype)
        self.model = model
        if sends_weights:
            send_weights(model, values, world)
        # After the model, so that no process has both of them whole.
        reference = None
        if c.objective in ("dpo", "kto"):
            reference = frozen(config, model, width, compared, world)
        self.objective = Objective(c, self.train, world, reference)
        self.optimizer = adamw(model, c)
        if last is not None:
            checkpoint.load_state(last, model, self.optimizer)
        self.beside = self.train.dialect.all_files | checkpoint.generation_of(last or source)
        self.best = math.inf if before is None else before.get("best", math.inf)
        self.stale = 0  # validations since the best one
        self.result = Report(self.begin, math.nan, last or out, world.first)

    def _source(
        self, init_from: str | Path | None, last: Path | None, before: dict[str, Any] | None
    ) -> Path | None:
        """Returns the folder of the model that training begins or goes on with, if there is one.

        With adapters, that is always the model that they are added to.
        """
        if before is not None and self.config.train.lora_rank:
            base = before.get("base")
            if base is None:
                raise CheckpointError(f"{last}: has no adapters; resume with the same config")
            return Path(base["folder"])
        return last or (None if init_from is None else newest(init_from))

    def _base(
        self, source: Path | None, last: Path | None, before: dict[str, Any] | None
    ) -> dict[str, str]:
        """Returns what checkpoints say of the model that adapters are added to.

        Raises ConfigError if there is none, CheckpointError if it was altered since `last`.
        """
        if source is None:
            raise ConfigError("train.lora_rank adapts a model: name it with --init-from")
        facts = {"folder": str(source.resolve()), "sha256": checkpoint.digest(source)}
        if before is not None and facts != before["base"]:
            raise CheckpointError(
                f"{source}: is no longer the model that {last} adapts; put it back, or begin a "
                "new run"
            )
        return facts

    def _stages(self, phases: Sequence[int | None]) -> list[Stage]:
        c = self.config.train
        pools: list[tuple[int | None, list[Row]]] = []
        for phase in phases:
            rows = _rows(self.train, c, phase)
            if phase is not None and not rows and not self.train.is_distinct(phase):
                self.notes.append(
                    f"phase {phase}: no tag distinguishes it from earlier phases, so its episodes "
                    f"are counted among theirs; prepare it by itself with --phase {phase}"
                )
                continue
            if not rows:
                nouns = {"dpo": "pairs", "orpo": "pairs", "kto": "labels"}
                of, have = "", ""
                if phase is not None:
                    of = f" of phase {phase}"
                    have = f"; it has {', '.join(map(str, self.train.phases)) or 'no phases'}"
                raise TrainError(
                    f"{self.readers[0].name}: the data has no "
                    f"{nouns.get(c.objective, 'episodes')}{of} to train on{have}"
                )
            pools.append((phase, rows))
        if len(pools) > c.steps:
            raise ConfigError(f"train.steps is {c.steps}: {len(pools)} phases need more")
        return stages(pools, steps=c.steps, size=c.batch_rows, replay=c.replay, seed=c.seed)

    def _compared(
        self, init_from: str | Path | None, last: Path | None, before: dict[str, Any] | None
    ) -> Path | None:
        """Returns the folder of the model that DPO and KTO compare with.

        None for other objectives, and for the weights that the config draws. A run that is resumed
        uses the reference with which it began.
        """
        c = self.config.train
        if c.objective not in ("dpo", "kto"):
            return None
        begun = None if before is None else before["reference"]
        where = begun["folder"] if begun is not None else c.reference or init_from
        if where is None or (begun is None and last is not None):
            return None
        folder = newest(where).resolve()
        self.facts["reference"] = {"folder": str(folder), "sha256": checkpoint.digest(folder)}
        if begun is not None and begun != self.facts["reference"]:
            raise CheckpointError(
                f"{folder}: is no longer the reference that {last} was trained with; put it "
                "back, or begin a new run"
            )
        return folder

    # The steps.

    def go(self, last: int, log: Log, interrupt: Interrupt) -> Report:
        """Runs the steps up to `last`, or up to the end of the one in which it is interrupted."""
        c = self.config.train
        weights = sum(weight.numel() for weight in self.model.parameters())
        tuned = sum(w.numel() for w in self.model.parameters() if w.requires_grad)
        processes = f"{self.world.size} process{'es' * (self.world.size > 1)}"
        of = f"{tuned:,} of " if tuned < weights else ""
        begun = f"{of}{weights:,} weights, {len(self.train.episodes):,} episodes, {processes}"
        on = f" on {self.threads} thread{'s' * (self.threads > 1)}" if self.threads else ""
        facts: dict[str, Any] = {"notes": self.notes, "weights": weights}
        facts |= {"processes": self.world.size, "threads": self.threads}
        facts |= {"fresh_ids": self.fresh_ids} | self.facts
        log.record_event("begin", self.begin, begun + on, **facts)
        for note in self.notes:
            log.show(note)
        meter, warm = Meter(self.world, weights), 0.0
        for step in range(self.begin, last):
            rows = next(s for s in self.stages if s.begin <= step < s.end).rows(step, c.batch_rows)
            mine = share(rows, self.world.rank, self.world.size, c.micro_rows)
            every = c.train_on == "all"
            batches = [
                self._batch(part, every=every) if part else idle(self._batch(rows[:1]))
                for part in mine
            ]
            for group in self.optimizer.param_groups:
                group["lr"] = rate(step, c)
            loss, norm, count = self._step(batches)
            if not math.isfinite(loss + norm):
                raise TrainError(self._blame(step, rows, loss, norm))
            self.optimizer.step()
            self.result = replace(self.result, step=step + 1, loss=loss)
            meter.add(batches)
            log.at(step + 1, f"loss {loss:.4f}{on}")
            if (step + 1) % c.log_every == 0 or step + 1 == last:
                speed, words = meter.read()
                text = f"step {step + 1}: loss {loss:.4f}, gradient {norm:.3f}, {words}"
                facts = {"loss": loss, "norm": norm, "lr": rate(step, c), "counted": count} | speed
                log.record_event("step", step + 1, text, **facts)
            elif step == self.begin:  # the first line may be long in coming
                log.show(f"step {step + 1}: loss {loss:.4f}; a line every {c.log_every} steps")
            warm = time.perf_counter() if step == self.begin else warm  # the first is slower
            if step == self.begin + 2 and step + 1 < last:
                pace = (time.perf_counter() - warm) / 2
                rest = timedelta(seconds=round(pace * (last - step - 1)))
                log.show(f"step {step + 1}: {pace:.2g} s a step, {rest} to step {last}")
            ends = interrupt.on_any(self.world)
            self._evaluate(step + 1, last, log, saves=ends)
            if ends and step + 1 < last:
                raise KeyboardInterrupt
            if c.patience and self.stale >= c.patience:
                kept = f"{self.result.folder} is kept"
                log.show(f"step {step + 1}: no better validation for {self.stale}; {kept}")
                break
        return self.result

    def _batch(self, rows: Sequence[Row], *, every: bool = False) -> Batch:
        return batch(self.train, rows, every=every).to(self.world.device)

    def _step(self, batches: list[Batch]) -> tuple[float, float, float]:
        """Computes the gradients of a step, and clips them; returns (loss, norm, count).

        `norm` is that of the gradients before clipping; `count` divides the loss.
        """
        self.optimizer.zero_grad(set_to_none=True)
        count = self.objective.count(batches)
        if not count:
            return math.nan, math.nan, 0
        loss = self.objective.step(self.called, batches, count)
        norm = full_tensor(
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.train.clip)
        )
        return float(loss), float(norm), count

    def _evaluate(self, step: int, last: int, log: Log, *, saves: bool) -> None:
        """Does what is due after some steps: validation, a checkpoint, legality."""
        c, better = self.config.train, False
        if _due(c.val_every, step, last) and self.val_rows:
            figures = validate(self.objective, self.called, self.val, self.val_rows)
            self.result = replace(self.result, validation=figures)
            better = figures["loss"] < self.best
            self.best, self.stale = (figures["loss"], 0) if better else (self.best, self.stale + 1)
            accuracy = f", accuracy {figures['accuracy']:.2%}" if "accuracy" in figures else ""
            text = f"step {step}: validation loss {figures['loss']:.4f}{accuracy}"
            log.record_event("validation", step, text, **figures)
        # With patience, the newest checkpoint is the best one.
        if better if c.patience else saves or _due(c.save_every, step, last):
            best = {"best": self.best} if c.patience else {}
            path = checkpoint.save(
                self.out, step, self.model, self.optimizer, self.facts | best, self.world,
                keep=c.keep, beside=self.beside,
            )  # fmt: skip
            self.result = replace(self.result, folder=path)
            log.record_event("checkpoint", step, f"step {step}: {path}", folder=path.name)
        if self.legality and _due(c.legality_every, step, last) and len(self.val.episodes):
            shares, text = self.legality(self.model, self.val, self.world, c)
            self.result = replace(self.result, legality=shares)
            if shares:
                log.record_event("legality", step, f"step {step}: {text}", **shares)

    def _blame(self, step: int, rows: Sequence[Row], loss: float, norm: float) -> str:
        """Returns a message that names the batch in which a step failed, and its lines of input.

        If there are rows that fail alone, only their lines are named.
        """
        alone: list[Row] = []
        if self.world.size == 1 and self.objective.config.objective == "sft":
            with torch.no_grad():
                for row in rows:
                    total, *_ = self.objective.token_losses(self.called, self._batch([row]))
                    if not math.isfinite(float(total)):
                        alone.append(row)
        lines = [self.train.place(number) for row in alone or rows for number in row.tolist()]
        others = f" and {len(lines) - 20} others" if len(lines) > 20 else ""
        places = ", ".join(lines[:20]) + others
        paths = checkpoints(self.out)
        note = f"the last good checkpoint is {paths[-1]}" if paths else "there is no checkpoint yet"
        problem = f"has loss {loss}, gradient {norm}"
        numbers = [number for row in rows for number in row.tolist()]
        trained = any(self.train.tokens(number)[1].any() for number in numbers)
        if math.isnan(norm) and math.isnan(loss) and not trained:
            problem = "has no trained token"
        advice = "Look at these lines, or lower train.lr"
        return f"step {step + 1} {problem}; {note}. Its batch holds {places}. {advice}"


def _rows(corpus: Corpus, config: TrainConfig, phase: int | None = None) -> list[Row]:
    if config.objective in ("dpo", "orpo"):
        return corpus.pairs(config.context_length)
    kinds = {"kinds": (GOOD, BAD)} if config.objective == "kto" else {}
    return corpus.rows(config.context_length, phase=phase, **kinds) if len(corpus.episodes) else []


def _last_checkpoint(out: Path, *, resume: bool) -> Path | None:
    """Returns the checkpoint to continue from; None to begin a new run.

    Raises TrainError if that would overwrite an earlier run.
    """
    paths = checkpoints(out) if out.exists() else []
    if paths and not resume:
        raise TrainError(
            f"{out}: holds {paths[-1].name} of an earlier run; go on with --resume, or name "
            "another folder"
        )
    if (
        not paths
        and out.exists()
        and any(p.name not in (LOG, BOARD) and p.suffix != atomic.PART for p in out.iterdir())
    ):
        raise TrainError(f"{out}: is not empty, and holds no checkpoint; name another folder")
    return paths[-1] if paths else None


def _due(every: int, step: int, last: int) -> bool:
    return every >= 0 and (step == last or (every > 0 and step % every == 0))
