"""Warns when a format is strange to a model: when it gives much probability to refused ids.

Input: generations. Output: one warning that names where in the format this is worst, or "".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mypt_infer.generate.generate import Generation
from mypt_infer.stream_parser import StreamParser
from mypt_spec.table import TEXT

# A model that has learned a format has a mean near 0, one that never saw it .21 to .45. Of fewer
# steps, the mean says little: a few first tags of an answer weigh too much.
SHARE, STEPS = 0.2, 50
_PLACES, _LEAST = 3, 3  # the most places that are named, and the least steps in each


def strange_format(generations: Iterable[Generation]) -> str:
    """Returns a warning if the mean refused mass of the sampled steps is large; else ""."""
    masses: dict[str, list[float]] = {}
    name = ""
    for generation in generations:
        name = generation.dialect.name
        for place, mass in _places(generation):
            masses.setdefault(place, []).append(mass)
    count = sum(map(len, masses.values()))
    mean = sum(map(sum, masses.values())) / max(1, count)
    if count < STEPS or not mean > SHARE:  # NaN where nothing was measured
        return ""
    means = {place: sum(m) / len(m) for place, m in masses.items() if len(m) >= _LEAST}
    worst = sorted(means.items(), key=lambda item: -item[1])[:_PLACES]
    places = ", ".join(f"{place} ({share:.0%})" for place, share in worst)
    return (
        f"the format {name!r} is strange to this model: it gave {mean:.0%} of its probability to "
        f"refused tokens, most after {places}. Train it on this format, or choose the one that it "
        "was trained on with --dialect (docs/decoding.md, Refused mass)"
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
