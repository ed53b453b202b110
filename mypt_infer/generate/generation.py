"""Holds the answer to a prompt: its tokens, and what the decoder refused at each."""

from dataclasses import dataclass, field
from typing import NamedTuple

from mypt_spec import Dialect, Episode, Finding


class Step(NamedTuple):
    """One token, and the decoder's state in which it was chosen.

    `refused_mass` is the probability that the model gave to refused ids; None if the token was
    forced, NaN if it was not measured.
    """

    token: int
    state: int
    refused_mass: float | None


@dataclass
class Generation:
    """The answer to one prompt.

    `ended` is "turn" (complete), "call" (a tool's result has to come) or "stop" (at a tag to stop
    at). `redrawn` counts draws that the decoder refused when they were taken.
    """

    dialect: Dialect
    prompt: list[int]
    steps: list[Step] = field(default_factory=list)
    ended: str = ""
    redrawn: int = 0

    @property
    def ids(self) -> list[int]:
        """Returns the ids that were generated, without the prompt."""
        return [s.token for s in self.steps]

    @property
    def text(self) -> str:
        """Returns the text that was generated, tags included."""
        return self.dialect.tokenizer.decode(self.ids)

    @property
    def episode(self) -> tuple[Episode | None, list[Finding]]:
        """Returns prompt and answer as an episode, and the validator's findings."""
        return self.dialect.parse_ids(self.prompt + self.ids)

    @property
    def refused_mass(self) -> float:
        """Returns the mean probability of refused ids, over the sampled steps.

        0 means that the model keeps the format without the decoder. NaN if it was not measured.
        """
        masses = [s.refused_mass for s in self.steps if s.refused_mass is not None]
        return sum(masses) / len(masses) if masses else 0.0
