"""Draws many answers at once from one model: requests join and leave at every step. Needs torch.

Input: jobs, from any thread. Output: what each is told, from one thread, which alone asks model and
decoders.

Theory of operation. A step first ends rows that nobody waits for, then lets jobs that wait take the
free rows. Each row has ids that the model has not read: of a new row its prompt, less what another
row has read of it, else the id that was drawn and what the grammar forces after it. Prompts are
read together, apart from rows that draw, a part a step, so that one long prompt does not hold up
all others; the rest is one call of the model. Of each row that was read to its end the next id is
drawn under its own decoder, which is told to keep the state that the row is in.
"""

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mypt_infer.decode.decoder import Decoder
from mypt_infer.decode.one_way import TAIL
from mypt_infer.generate.generation import Generation, Step
from mypt_infer.generate.llama import Llama
from mypt_infer.generate.loop import positions
from mypt_infer.generate.sample import draw
from mypt_infer.generate.strange import RefusedMass
from mypt_infer.serve.asked.errors import LATER, ApiError, shutting_down, too_late
from mypt_infer.serve.asked.thoughts import Position
from mypt_infer.serve.jobs import Ended, Failed, Job, Logprob, NewIds
from mypt_infer.serve.slots import Slots
from mypt_spec.patch import in_common

# Longer pieces are not read with those of rows that draw; at most so many ids of one in a step.
_TOGETHER, _PART = 24, 256
# The refused mass is measured in each answer until it is known over so many steps, then in one
# answer of so many.
_MEASURED_STEPS, _MEASURED_ANSWERS = 200, 16
_LOG = logging.getLogger("mypt-serve")


@dataclass(eq=False)
class Counts:
    """What the rows have done so far, in seconds, jobs and ids."""

    model: float = 0.0
    constraint: float = 0.0
    drawing: float = 0.0
    steps: int = 0
    ids: int = 0
    read: int = 0
    reused: int = 0
    running: int = 0
    waiting: int = 0


class _Row:
    """A row: its job, its state, the answer so far, and what the model has not read of it.

    `forced` are ids that come next, read one by one. `masses` has the refused mass of the ids that
    were drawn, by their places in `ids`, if it is measured.
    """

    def __init__(self, job: Job, state: int, *, measured: bool) -> None:
        self.job, self.chance = job, random.Random(job.seed)
        self.ids: list[int] = []
        self.measured, self.masses = measured, dict[int, float]()
        self.unread = list(job.prompt.ids)
        self.forced: deque[int] = deque()
        self.begun = self.cut = False
        at = Position(state, None)
        if job.thoughts is not None:
            at = job.ready.thoughts.begin(state, job.thoughts)
        self._states, self.remaining = [at.state], at.remaining
        self._holder = job.ready.decoder.hold(self._states)

    @property
    def state(self) -> int:
        """Returns the decoder's state."""
        return self._states[0]

    @property
    def decoder(self) -> Decoder:
        """Returns the decoder of the next id, with what remains for thoughts."""
        ready = self.job.ready
        return ready.decoder if self.remaining is None else ready.thoughts.decoder(self.remaining)

    def after(self, ids: Sequence[int]) -> tuple[Position, int]:
        """Returns the position after some drafted ids, and how many of them hold."""
        at, count, ready = Position(self.state, self.remaining), 0, self.job.ready
        if at.remaining is None:
            count = ready.decoder.accepts(at.state, ids)
            return Position(ready.decoder.run(at.state, ids[:count]), None), count
        for token in ids:
            try:
                at = ready.thoughts.next(at, token)
            except ValueError:
                break
            count += 1
        return at, count

    def take(self, ids: Sequence[int]) -> None:
        """Moves on by some ids. Raises ValueError if one is not allowed."""
        if self.remaining is None:
            self._states[0] = self.job.ready.decoder.run(self.state, ids)
            return
        for token in ids:
            at = self.job.ready.thoughts.next(Position(self.state, self.remaining), token)
            self._states[0], self.remaining = at


class Rows:
    """The rows of a model, and the jobs that wait for one.

    `most` is the number of rows, `queue` how many jobs may wait. Start its thread with `start`.
    """

    def __init__(
        self, model: Llama, *, most: int, queue: int, device: torch.device | str = "cpu"
    ) -> None:
        self.model, self.most, self.queue = model, most, queue
        self.counts, self.refused = Counts(), RefusedMass()
        self._begun_count, self._warned = 0, False
        self.positions = positions(model)
        self._slots = Slots(model, most, device)
        self._rows: list[_Row] = []
        self._waiting: deque[Job] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="mypt-serve rows", daemon=True)

    def start(self) -> None:
        """Starts the thread that draws."""
        self._thread.start()

    def put(self, *jobs: Job) -> None:
        """Takes jobs, all or none. Raises ApiError."""
        with self._wake:
            if self._closed:
                raise shutting_down()
            free = self.most - len(self._rows) + self.queue - len(self._waiting)
            if len(jobs) > free:
                raise ApiError(
                    f"{len(self._waiting)} requests wait and {len(self._rows)} run; the server "
                    f"runs {self.most} at once and lets {self.queue} wait: try again later",
                    status=429,
                    kind="rate_limit_error",
                    code="queue_full",
                    headers=LATER,
                )
            self._waiting.extend(jobs)
            self.counts.waiting = len(self._waiting)
            self._wake.notify()

    def close(self) -> None:
        """Ends all rows, and the thread; those who wait are told."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._rows or self._waiting or self._closed):
                    self._wake.wait()
                if self._closed:
                    break
            self._step()
        for job in [*(row.job for row in self._rows), *self._waiting]:
            _notify(job, Failed(shutting_down()))
        self._rows, self._slots.count = [], 0
        self._waiting.clear()
        self.counts.running = self.counts.waiting = 0

    def _step(self) -> None:
        self._leave()
        self._join()
        if not self._rows:
            return
        self.counts.steps += 1
        try:
            self._read()
        except Exception as error:  # whatever a model raises ends its rows alone
            for at in reversed(range(len(self._rows))):
                self._end(at, Failed(error))

    def _leave(self) -> None:
        """Ends rows that nobody waits for, and tells those whose time is over."""
        for at in reversed(range(len(self._rows))):
            job = self._rows[at].job
            if job.cancelled or job.late:
                self._end(at, Failed(too_late()))

    def _join(self) -> None:
        while len(self._rows) < self.most:
            with self._wake:
                job = self._waiting.popleft() if self._waiting else None
                self.counts.waiting = len(self._waiting)
            if job is None:
                return
            if job.cancelled or job.late:
                _notify(job, Failed(too_late()))
                continue
            began = time.perf_counter()
            try:
                row = self._begun(job)
            except Exception as error:  # a bad prompt is its own request's fault
                _notify(job, Failed(error))
                continue
            finally:
                self.counts.constraint += time.perf_counter() - began
            if job.ready.decoder.final(row.state) and not row.forced:
                _notify(job, Ended(cut=False))  # the grammar left no choice at all
                continue
            self._rows.append(row)
            self._slots.add()
            self.counts.running = len(self._rows)

    def _begun(self, job: Job) -> _Row:
        """Returns a row that has read nothing yet. Raises what `Decoder.start` raises."""
        decoder = job.ready.decoder
        state = decoder.start(job.prompt.ids, max_new_tokens=job.most, called=job.prompt.called)
        measured = self.refused.steps < _MEASURED_STEPS or not self._begun_count % _MEASURED_ANSWERS
        self._begun_count += 1
        row = _Row(job, state, measured=measured)
        self._force(row)
        return row

    def _end(self, at: int, update: Ended | Failed) -> None:
        job = self._rows[at].job
        self._add_masses(self._rows[at])
        self._slots.drop(at)
        self._rows[at] = self._rows[-1]
        self._rows.pop()
        self.counts.running = len(self._rows)
        _notify(job, update)

    def _add_masses(self, row: _Row) -> None:
        """Counts the refused mass of an answer; logs once if the format is strange to the model."""
        if not row.masses:
            return
        steps = [Step(token, 0, row.masses.get(at)) for at, token in enumerate(row.ids)]
        prompt = list(row.job.prompt.ids)
        self.refused.add(Generation(row.job.ready.decoder.dialect, prompt, steps))
        enough = self.refused.steps >= _MEASURED_STEPS
        if enough and not self._warned and (warning := self.refused.warning):
            self._warned = True
            _LOG.warning("%s", warning)

    def _read(self) -> None:
        """Lets the model read what it has not, and draws for each row that was read to its end."""
        logits: dict[int, Tensor] = {}
        began = time.perf_counter()
        self._begin()
        parts = [row.unread[:_PART] if row.begun else [] for row in self._rows]
        for span, parts_of_span in calls(parts):
            logits_of_span = self._slots.read(span, parts_of_span)
            for at, part, last in zip(span, parts_of_span, logits_of_span, strict=True):
                row = self._rows[at]
                row.unread = row.unread[len(part) :]
                self.counts.read += len(part)
                if part and not row.unread:
                    logits[at] = last
        self.counts.model += time.perf_counter() - began
        for at in sorted(logits, reverse=True):  # ending a row moves the last one
            self._draw(at, logits[at])

    def _begin(self) -> None:
        """Begins new rows with what others have read of their prompts.

        A prompt that begins as one that is being read waits until that is read.
        """
        for at, row in enumerate(self._rows):
            if row.begun:
                continue
            count = self._slots.reusable_ids(row.unread)
            others = (r for r in self._rows if r.begun and len(r.unread) > _TOGETHER)
            if any(in_common(r.job.prompt.ids, row.unread) > count + _TOGETHER for r in others):
                continue
            size = self._slots.begin(at, row.unread)
            self.counts.reused += size
            row.unread, row.begun = row.unread[size:], True

    def _draw(self, at: int, logits: Tensor) -> None:
        row = self._rows[at]
        decoder = row.decoder
        logits = logits[: decoder.tables.vocabulary]
        try:
            logprobs: list[Logprob] = []
            if row.forced:
                ids = [row.forced.popleft()]
            else:
                before = [*row.job.prompt.ids[-TAIL:], *row.ids[-TAIL:]]
                drawn = self._draw_next(row, logits)
                ids = decoder.respelled(row.state, drawn, before)
                ids = ids if len(ids) == 1 or row.after(ids)[1] == len(ids) else [drawn]
            if row.job.top is not None:  # the model is asked for each
                row.forced.extendleft(reversed(ids[1:]))
                ids = ids[:1]
                logprobs.append(logprob(logits, ids[0], row.job.top))
            self._take(row, ids, logprobs)
            if not row.forced:
                self._force(row)
        except Exception as error:  # one row's fault ends no other row
            self._end(at, Failed(error))
            return
        if decoder.final(row.state) and not row.forced:
            self._end(at, Ended(row.cut))

    def _draw_next(self, row: _Row, logits: Tensor) -> int:
        began = time.perf_counter()
        decoder = row.decoder
        decoder.allow(row.state)
        then = time.perf_counter()
        self.counts.constraint += then - began
        chance = row.chance.random()
        choice = draw(logits, row.state, decoder, row.job.sampling, chance, measured=row.measured)
        if row.measured:
            row.masses[len(row.ids)] = choice.refused_mass
        if choice.cut:  # a thought that its own budget ends is no answer that is cut
            remaining = decoder.left(row.state)
            row.cut |= remaining is not None and remaining <= decoder.free(row.state)[0]
        self.counts.drawing += time.perf_counter() - then
        return choice.token

    def _force(self, row: _Row) -> None:
        """Takes ids that have no alternative.

        Where log-probabilities are wanted, the model is asked for each of them.
        """
        decoder, began, state = row.decoder, time.perf_counter(), row.state
        before = [*row.job.prompt.ids[-TAIL:], *row.ids[-TAIL:]]
        # What only the budget forces is drawn: whether it cuts the answer, the model says.
        ids = [] if decoder.final(state) else decoder.forced(decoder.endless(state), before)
        ids = ids[: row.after(ids)[1]]
        self.counts.constraint += time.perf_counter() - began
        if row.job.top is not None:
            row.forced.extend(ids)
        elif ids:
            self._take(row, ids, [])

    def _take(self, row: _Row, ids: list[int], logprobs: list[Logprob]) -> None:
        began = time.perf_counter()
        row.take(ids)
        self.counts.constraint += time.perf_counter() - began
        row.ids += ids
        row.unread += ids
        self.counts.ids += len(ids)
        _notify(row.job, NewIds(ids, logprobs))


def calls(parts: Sequence[Sequence[int]]) -> Iterator[tuple[range, list[list[int]]]]:
    """Yields calls of the model: some rows side by side, and what each reads, perhaps nothing.

    Shorter parts are padded to the longest one. Long ones are read together where at least half of
    the call is no padding, else alone; short ones are read together.

    >>> [(list(rows), [len(part) for part in read]) for rows, read in calls([[1], [1] * 99, [1]])]
    [([1], [99]), ([0, 1, 2], [1, 0, 1])]
    """
    remaining = [list(part) for part in parts]
    long = [at for at, part in enumerate(remaining) if len(part) > _TOGETHER]
    spans = [range(at, at + 1) for at in long]
    if long:
        block = remaining[long[0] : long[-1] + 1]
        if len(block) * max(map(len, block)) <= 2 * sum(map(len, block)):
            spans = [range(long[0], long[-1] + 1)]
    for span in spans:
        yield span, [remaining[at] for at in span]
        for at in span:
            remaining[at] = []
    if any(remaining):
        yield range(len(remaining)), remaining


def logprob(logits: Tensor, token: int, top: int) -> Logprob:
    """Returns the log-probability of an id under the model as it is: temperature 1, all ids."""
    every = torch.log_softmax(logits.float(), 0)
    values, ids = every.topk(top) if top else (every[:0], every[:0])
    best = zip((int(i) for i in ids.tolist()), values.tolist(), strict=True)
    return Logprob(float(every[token]), tuple(best))


def _notify(job: Job, update: NewIds | Ended | Failed) -> None:
    """Tells whoever waits for an answer, if anybody still does."""
    if not job.cancelled:
        job.notify(update)
