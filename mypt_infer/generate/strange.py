"""Warns when a format is strange to a model: when it gives much probability to refused ids.

Input: generations. Output: the mean, and one warning that names where in the format it is worst, or
"".
"""

import math
from collections.abc import Iterable, Iterator

from mypt_infer.generate.generation import Generation
from mypt_infer.stream_parser import StreamParser
from mypt_spec.table import TEXT

# A model that has learned a format has a mean near 0, one that never saw it .21 to .45. Of fewer
# steps, the mean says little: a few first tags of an answer weigh too much.
SHARE, STEPS = 0.2, 50
_WORST, _LEAST = 3, 3  # the most places that are named, and the least steps in each


class RefusedMass:
    """The refused mass of the sampled steps of some generations, by the tags before them."""

    def __init__(self, generations: Iterable[Generation] = ()) -> None:
        self.format, self.steps, self.total = "", 0, 0.0
        self._places: dict[str, tuple[int, float]] = {}
        for generation in generations:
            self.add(generation)

    def add(self, generation: Generation) -> None:
        """Counts the sampled steps of a generation whose mass was measured."""
        self.format = generation.dialect.name
        for place, mass in _places(generation):
            if not math.isnan(mass):
                count, total = self._places.get(place, (0, 0.0))
                self._places[place] = count + 1, total + mass
                self.steps, self.total = self.steps + 1, self.total + mass

    @property
    def mean(self) -> float:
        """Returns the mean over all steps; NaN without any."""
        return self.total / self.steps if self.steps else math.nan

    @property
    def warning(self) -> str:
        """Returns a warning if the mean is large, and over enough steps to say so; else ""."""
        if self.steps < STEPS or self.mean <= SHARE:
            return ""
        means = {place: t / count for place, (count, t) in self._places.items() if count >= _LEAST}
        worst = sorted(means.items(), key=lambda item: -item[1])[:_WORST]
        places = ", ".join(f"{place} ({share:.0%})" for place, share in worst)
        return (
            f"the format {self.format!r} is strange to this model: it gave {self.mean:.0%} of its "
            f"probability to refused tokens, most after {places}. Train it on this format, "
            "choose the one that it was trained on with --dialect, or describe the schema of the "
            "answer in the prompt (docs/decoding.md, Refused mass)"
        )


def _places(generation: Generation) -> Iterator[tuple[str, float]]:
    """Yields the last tag before each sampled step, and the refused mass there."""
    parser = StreamParser(generation.dialect)
    events, _ = generation.dialect.lex_ids(generation.prompt)
    tags = [event.text.strip() for event in events if event.terminal != TEXT]
    last_tag = tags[-1] if tags else "the prompt"
    for step in generation.steps:
        if step.refused_mass is not None:
            yield last_tag, step.refused_mass
        for piece in parser.push(step.token):
            if piece.event.terminal != TEXT:
                last_tag = piece.event.text.strip()
