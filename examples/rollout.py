"""Makes rollouts for an outside trainer (PPO, GRPO).

Input: a model, prompts and a decoder. Output: exact ids, which of them the model chose, and their
log-probabilities.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mypt_infer.decode import Decoder
from mypt_infer.generate.generate import generate
from mypt_infer.generate.generation import Generation, Step
from mypt_infer.generate.loop import Model
from mypt_spec import Episode


@dataclass(frozen=True, eq=False)
class Rollout:
    """One answer. All arrays have shape (n,), for prompt and answer together.

    - `ids`: uint32.
    - `mask`: uint8, 1 for a sampled token, which is an action; 0 for the prompt and for forced
      tokens.
    - `logprobs`: float32, under the model as it is (temperature 1, the whole vocabulary).
    - `drawn_logprobs`: float32, under the distribution that was sampled from: with the temperature,
      and over the allowed ids alone.

    Both log-probabilities are 0 where `mask` is 0.
    """

    ids: npt.NDArray[np.uint32]
    mask: npt.NDArray[np.uint8]
    logprobs: npt.NDArray[np.float32]
    drawn_logprobs: npt.NDArray[np.float32]
    generation: Generation


class _Watched:
    """Wraps a model, and keeps its last logits."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.logits = torch.zeros(0)

    @property
    def vocab_size(self) -> int:
        return self.model.vocab_size

    def begin(self, rows: int, capacity: int) -> Any:
        return self.model.begin(rows, capacity)

    def __call__(self, ids: Tensor, lengths: Tensor, cache: Any) -> Tensor:
        self.logits = self.model(ids, lengths, cache).cpu()
        return self.logits


def rollout(
    model: Model, prompts: Sequence[Episode | Sequence[int]], *,
    decoder: Decoder | Sequence[Decoder],
    max_new_tokens: int = 256,
    temperature: float = 1.0, group: int = 1, seed: int | None = None,
) -> list[Rollout]:  # fmt: skip
    """Returns `group` answers to each prompt; answers to the same prompt are adjacent.

    `decoder` is one for all, or a list with one for each prompt.
    All tokens are sampled, also inside calls. Raises what `generate` raises, and ValueError for a
    temperature of 0, at which nothing is sampled, or a group below 1.
    """
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}; rollouts are drawn, above 0")
    if group < 1:
        raise ValueError(f"group is {group}, expected 1 or more answers to a prompt")
    watched = _Watched(model)
    each = [prompt for prompt in prompts for _ in range(group)]
    decoders_of_prompts = [decoder] * len(prompts) if isinstance(decoder, Decoder) else decoder
    decoders = [one for one in decoders_of_prompts for _ in range(group)]
    if len(decoders) != len(each):
        raise ValueError(f"{len(decoders) // group} decoders for {len(prompts)} prompts")
    logprobs: list[list[tuple[float, float]]] = [[] for _ in each]

    def note(row: int, step: Step) -> None:
        if step.refused_mass is None:
            logprobs[row].append((0.0, 0.0))
            return
        logits = watched.logits[row].float()
        bias = torch.from_numpy(decoders[row].bias([step.state])[0])
        tempered = torch.log_softmax(logits[: len(bias)] / temperature + bias, dim=-1)
        logprobs[row].append(
            (float(torch.log_softmax(logits, dim=-1)[step.token]), float(tempered[step.token]))
        )

    generations = generate(
        watched,
        each,
        decoder=decoders,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        greedy_calls=False,
        jump_forward=False,
        seed=seed,
        on_step=note,
    )
    out = []
    for g, pairs in zip(generations, logprobs, strict=True):
        before = [0] * len(g.prompt)
        mask = np.array([*before, *(s.refused_mass is not None for s in g.steps)], np.uint8)
        plain, masked = (np.array([*before, *(p[i] for p in pairs)], np.float32) for i in (0, 1))
        ids = np.array([*g.prompt, *g.ids], np.uint32)
        out.append(Rollout(ids, mask, plain, masked, g))
    return out
