"""Measures the legality of a model in training, on prompts of the validation split.

This is the only place where training runs the decoder.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mypt_infer.decode.base.tools import SchemaFault, declare
from mypt_infer.decode.compile.table_schemas import check_schema
from mypt_infer.decode.decoder import Decoder
from mypt_infer.generate.legality import LEGAL, accepted, alone, constrained, observed_tools
from mypt_infer.generate.llama import Llama
from mypt_infer.generate.strange import RefusedMass
from mypt_model.pretrained import Net, rebuilt
from mypt_train.training.corpus import Corpus
from mypt_train.training.parts.config import ConfigError, TrainConfig
from mypt_train.training.parts.distributed import World, full_tensor
from mypt_train.training.parts.lora import merged
from mypt_train.training.trainer import Legality

_BATCH = 16
# The number of episodes that are searched for the tools that they call.
_LOOKED_AT = 2000


def legality(tools: Sequence[Mapping[str, Any]] | None = None) -> Legality:
    """Returns what measures legality for `train`, with these tools as JSON schemas.

    Without `tools`, those count that the validation data calls. Raises ConfigError for tools that
    the decoder cannot take.
    """
    try:
        for tool in declare(tools or ()):
            check_schema(tool)
    except SchemaFault as error:
        raise ConfigError(str(error)) from None
    return partial(_legality_of, tools=tools)


def _legality_of(
    model: Net, corpus: Corpus, world: World, config: TrainConfig, *,
    tools: Sequence[Mapping[str, Any]] | None,
) -> tuple[dict[str, Any], str]:  # fmt: skip
    """Returns the shares of legal answers, `unconstrained` and `constrained`, and their text.

    Each has the shares by `phases`, and the `reasons` of failures; `constrained` has the mean
    `refused_mass`, too, and `warning` says whether the format is strange to the model. The shares
    are {} on all processes but the first. If the decoder cannot take the tools or the budget, they
    are only `failed`, which says why, and training continues.
    """
    # All processes take part.
    weights = {name: full_tensor(weight).cpu() for name, weight in merged(model).items()}
    shares: dict[str, Any] = {}
    if world.first:
        try:
            shares = measure(
                Llama(rebuilt(model, weights)),
                corpus,
                prompts=config.legality_prompts,
                max_new_tokens=config.legality_tokens,
                tools=tools,
                seed=config.seed,
            )
        except ValueError as error:
            shares = {"failed": str(error)}
    world.wait()
    return shares, _text(shares)


def measure(
    llama: Llama, corpus: Corpus, *, prompts: int = 32, max_new_tokens: int = 256,
    temperature: float = 1.0,
    tools: Sequence[Mapping[str, Any]] | None = None, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Returns the shares of legal answers of a model that runs alone, on any split.

    Raises SchemaFault or BudgetError as the decoder does.
    """
    dialect, numbers = corpus.dialect, range(min(len(corpus.episodes), _LOOKED_AT))
    read = (dialect.parse_ids(corpus.tokens(number)[0])[0] for number in numbers)
    episodes = (episode for episode in read if episode is not None)
    decoder = Decoder(dialect, observed_tools(episodes, dialect) if tools is None else tools)
    chosen = choose(corpus, prompts, seed)
    ready = accepted([prompt for _, prompt in chosen], decoder)
    phases = [
        int(corpus.phase[number])
        for (number, _), prompt in zip(chosen, ready, strict=True)
        if prompt is not None
    ]
    ready_prompts = [prompt for prompt in ready if prompt is not None]
    out: dict[str, Any] = {
        "prompts": len(ready_prompts),
        "refused_prompts": len(chosen) - len(ready_prompts),
        "temperature": temperature,
        "tools": [tool.name for tool in decoder.tools],
    }
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "temperature": temperature}
    mass = RefusedMass()
    for name, run in (("unconstrained", alone), ("constrained", partial(constrained, mass=mass))):
        results: list[str] = []
        for begin in range(0, len(ready_prompts), _BATCH):
            part = ready_prompts[begin : begin + _BATCH]
            results += run(llama, part, decoder, seed=seed + begin, **options)
        out[name] = _summary(results, phases)
    out["constrained"]["refused_mass"] = mass.mean if mass.steps else None
    out["warning"] = mass.warning
    return out


def choose(corpus: Corpus, count: int, seed: int) -> list[tuple[int, list[int]]]:
    """Returns prompts, each with the number of its episode: `count` episodes, drawn from a split.

    Each is cut where a run of trained tokens begins; the run is drawn, too.
    """
    rng = np.random.Generator(np.random.PCG64([seed, 7]))
    out = []
    for number in rng.permutation(len(corpus.episodes))[:count].tolist():
        ids, mask = corpus.tokens(number)
        begins = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=np.int8(0)) == 1)
        if len(begins):
            out.append((number, ids[: int(rng.choice(begins))].tolist()))
    return out


def _text(shares: Mapping[str, Any]) -> str:
    if not shares:
        return ""
    if "failed" in shares:
        return f"legality was not measured: {shares['failed']}"
    free, bound = (shares[how]["legal"] for how in ("unconstrained", "constrained"))
    text = f"{free:.1%} legal by itself, {bound:.1%} constrained"
    return f"{text}; {shares['warning']}" if shares["warning"] else text


def _summary(results: Sequence[str], phases: Sequence[int]) -> dict[str, Any]:
    by_phase: dict[str, list[bool]] = {}
    for result, phase in zip(results, phases, strict=True):
        by_phase.setdefault(str(phase), []).append(result == LEGAL)
    reasons = Counter(result for result in results if result != LEGAL)
    return {
        "legal": results.count(LEGAL) / max(1, len(results)),
        "phases": {
            phase: sum(legal) / len(legal)
            for phase, legal in sorted(by_phase.items())
            if phase != "0"
        },
        "reasons": dict(reasons.most_common()),
    }
