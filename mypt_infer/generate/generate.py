"""Answers prompts legally, with a model under a decoder.

Input: a Model and prompts. Output: a Generation for each. Rows run as one batch. Tokens that have
no alternative are not sampled: they are read by the model later, in one chunk with the next sampled
token.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mypt_infer.decode.base.tools import Declaration
from mypt_infer.decode.batch import BatchDecoder
from mypt_infer.decode.decoder import Decoder, machine
from mypt_infer.decode.one_way import TAIL
from mypt_infer.generate.generation import Generation, Step
from mypt_infer.generate.loop import Model, check_vocabulary, positions, run
from mypt_infer.generate.sample import Sampling, draw
from mypt_spec import Dialect, Episode


def generate(
    model: Model,
    prompts: Episode | Sequence[Episode | Sequence[int]],
    *,
    dialect: Dialect | str | None = None,
    tools: Iterable[Declaration] = (),
    decoder: Decoder | Sequence[Decoder] | None = None,
    max_new_tokens: int = 256,
    max_think_tokens: int | None = None,
    max_toolcall_tokens: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    greedy_calls: bool = True,
    jump_forward: bool = True,
    refused_mass: bool = True,
    seed: int | None = None,
    stop: Iterable[str] = (),
    on_step: Callable[[int, Step], None] | None = None,
    device: torch.device | str = "cpu",
) -> list[Generation]:
    """Returns one Generation for each prompt, all complete and legal.

    A prompt is a partial Episode, or ids.

    - `decoder` takes the place of `dialect`, `tools` and the budgets of blocks. A list has one for
      each prompt; these may differ in tools, and in all else but the dialect.
    - `max_new_tokens`: the budget of each answer, in tokens.
    - `temperature`, `top_k`, `top_p`, `greedy_calls`: see `Sampling`.
    - `jump_forward`: where only one text may follow, take the encoder's ids for it without asking
      the model; else only where one id may follow.
    - `refused_mass`: measure it at each sampled step. Without it, only the logits of allowed ids
      are read where these are few, and `Step.refused_mass` is NaN.
    - `seed`: with a seed, a row's tokens depend on the row's number and logits alone.
    - `stop`: tags after which to stop before the end.
    - `on_step(row, step)` is called for each token.

    Raises PromptError, BudgetError, SchemaFault, or ValueError for bad options or for a prompt that
    leaves fewer than `max_new_tokens` of the model's positions, all before the model is called; and
    ValueError when logits are not finite numbers.
    """
    if isinstance(prompts, Episode):
        prompts = [prompts]
    if not prompts:
        return []
    if decoder is None:
        prompt_dialect = next((p.dialect for p in prompts if isinstance(p, Episode)), None)
        if dialect is None and prompt_dialect is None:
            raise ValueError("prompts of ids need a dialect, or a decoder")
        decoder = Decoder(
            dialect or prompt_dialect or "",
            tools,
            max_think_tokens=max_think_tokens,
            max_toolcall_tokens=max_toolcall_tokens,
        )
    elif tuple(tools) or max_think_tokens is not None or max_toolcall_tokens is not None:
        raise ValueError("tools and budgets of blocks belong to the decoder that is given")
    sampling = Sampling(
        temperature=temperature, top_k=top_k, top_p=top_p, greedy_calls=greedy_calls
    )
    batch = BatchDecoder([decoder] * len(prompts) if isinstance(decoder, Decoder) else decoder)
    check_vocabulary(model, batch.decoders[0])
    stops = _stops(batch.dialect, stop)
    loop = _Loop(model, batch, sampling, stops, on_step, device, jump_forward, refused_mass)
    return loop.run(prompts, max_new_tokens, seed)


def _stops(dialect: Dialect, stop: Iterable[str]) -> list[bytes]:
    """Returns the tags to stop at, as bytes. Raises ValueError for one that no model can write."""
    terminals = dialect.table.terminals.values()
    tags = [t.shown.strip() for t in terminals if t.by_model and not t.patterns]
    stops = [stop] if isinstance(stop, str) else list(stop)
    for tag in stops:
        if tag not in tags:
            raise ValueError(
                f"stop is {tag!r}; in {dialect.name} a model can write {', '.join(tags)}"
            )
    return [tag.encode() for tag in stops]


@dataclass
class _Loop:
    model: Model
    batch: BatchDecoder
    sampling: Sampling
    stops: list[bytes]
    on_step: Callable[[int, Step], None] | None
    device: torch.device | str
    jump_forward: bool
    measured: bool

    def run(
        self, prompts: Sequence[Episode | Sequence[int]], budget: int, seed: int | None
    ) -> list[Generation]:
        dialect, decoders = self.batch.dialect, self.batch.decoders
        out = [Generation(dialect, decoders[0].ids_of(p)) for p in prompts]
        states = self.batch.start([g.prompt for g in out], max_new_tokens=budget)
        holder = self.batch.hold(states)
        chances = [
            random.Random(None if seed is None else f"{seed} {row}") for row in range(len(out))
        ]

        def choose(row: int, logits: Tensor) -> list[int] | None:
            state, g, pending = states[row], out[row], list[int]()
            decoder, refusals = decoders[row], decoders[row].refusals
            before = refusals.get(machine(state), 0)
            chance = chances[row].random()
            choice = draw(logits, state, decoder, self.sampling, chance, measured=self.measured)
            g.redrawn += refusals.get(machine(state), 0) - before
            ids = [choice.token]
            if self.jump_forward:
                tail = [*g.prompt[-TAIL:], *g.ids[-TAIL:]]
                ids = decoder.respelled(state, choice.token, tail)
            for at, token in enumerate(ids):
                if not g.ended:
                    mass = choice.refused_mass if at == 0 else None
                    state = self._add(row, g, state, token, mass, pending)
            states[row] = self._forced(row, g, state, pending)
            return None if g.ended else pending

        longest = max(len(g.prompt) for g in out)
        capacity, most = longest + budget, positions(self.model)
        if most is not None and capacity > most:
            raise ValueError(
                f"the prompt has {longest} tokens, and {budget} new ones may come; the model has "
                f"{most} positions"
            )
        rows: list[list[int] | None] = []
        for row, g in enumerate(out):
            pending = list(g.prompt)
            states[row] = self._forced(row, g, states[row], pending)
            rows.append(None if g.ended else pending)
        vocabulary = decoders[0].tables.vocabulary
        with holder:
            run(self.model, rows, capacity, choose, self.device, vocabulary=vocabulary)
        return out

    def _forced(self, row: int, g: Generation, state: int, pending: list[int]) -> int:
        before = [*g.prompt[-TAIL:], *g.ids[-TAIL:]] if self.jump_forward else None
        for token in self.batch.decoders[row].forced(state, before):
            if not g.ended:
                state = self._add(row, g, state, token, None, pending)
        return state

    def _add(
        self,
        row: int,
        g: Generation,
        state: int,
        token: int,
        refused_mass: float | None,
        pending: list[int],
    ) -> int:
        """Adds a token to an answer, and to what the model has to read; returns the state after it.

        Tells the listener, and says how the answer ended if it did.
        """
        step = Step(token, state, refused_mass)
        g.steps.append(step)
        pending.append(token)
        if self.on_step is not None:
            self.on_step(row, step)
        decoder = self.batch.decoders[row]
        state = decoder.next(state, token)
        if decoder.final(state):
            g.ended = "call" if g.episode[0] is None else "turn"
        elif self.stops and self._stopped(g):
            g.ended = "stop"
        return state

    def _stopped(self, g: Generation) -> bool:
        """Returns whether the last token completes a tag to stop at; no text can spell a tag."""
        tokenizer = self.batch.dialect.tokenizer
        tail = tokenizer.decode_bytes(g.ids[-32:])
        added = len(tokenizer.decode_bytes(g.ids[-1:]))
        return any(s in tail[-added - len(s) + 1 :] for s in self.stops)
