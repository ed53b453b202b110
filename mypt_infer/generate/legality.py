"""Measures how often a model answers legally, freely and under the constraint, and how it fails.

Input: a model, prompts and a decoder. Output: "legal", or the reason, for each prompt. This shows
what the grammar buys (bench/RESULTS.md) and what training has achieved.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from mypt_infer.decode.base.tools import SchemaFault, ToolSpec
from mypt_infer.decode.decoder import Decoder
from mypt_infer.decode.prompt import PromptError, opening
from mypt_infer.generate.generate import generate
from mypt_infer.generate.loop import Model, run
from mypt_infer.generate.sample import draw_free
from mypt_infer.generate.strange import RefusedMass
from mypt_spec import Dialect, Episode, Finding
from mypt_spec.bodies.json_body import calls_of
from mypt_spec.bodies.strict_json import JSON_TYPES
from mypt_spec.parser import messages_of
from mypt_spec.states import awaits_result
from mypt_spec.validator import Run

LEGAL, UNFINISHED = "legal", "unfinished"
NOT_DECLARED, NARROWER = "call-not-as-declared", "text-not-offered"


def judge(dialect: Dialect, ids: Sequence[int]) -> str:
    """Returns "legal" for ids that are a complete episode, or wait for a result of the system.

    Returns the name of the first error otherwise, or "unfinished".
    """
    table = dialect.table
    episode, findings = dialect.parse_ids(ids)
    if episode is not None:
        return _first_error([*findings, *dialect.validate(episode)]) or LEGAL
    events, broken = dialect.lex_ids(ids)
    outcome = Run(table, dialect.automaton, spaces=False, complete=False).check(events)
    if error := _first_error([*broken, *outcome.findings]):
        return error
    if not awaits_result(outcome.state, dialect.automaton, table):
        return UNFINISHED
    return _first_error(messages_of(outcome.events, table)[1]) or LEGAL


def _first_error(findings: Iterable[Finding]) -> str:
    return next((f.name for f in findings if f.severity == "error"), "")


def alone(
    model: Model,
    prompts: Sequence[Sequence[int]],
    decoder: Decoder,
    *,
    max_new_tokens: int,
    temperature: float,
    seed: int,
) -> list[str]:
    """Lets a model continue prompts without a constraint; returns "legal" or the reason for each.

    A generation stops where it is complete, at the first token that the decoder would refuse, or
    when its tokens are spent. Legal is what the decoder could write, so calls are of declared tools
    with arguments that fit. A refused token in which the validator finds no error is
    "call-not-as-declared" or "text-not-offered".
    """
    results = [UNFINISHED] * len(prompts)
    if not prompts or max_new_tokens < 1:
        return results
    sequences = [list(map(int, prompt)) for prompt in prompts]
    states = [decoder.start(sequence) for sequence in sequences]
    holder = decoder.hold(states)
    chances = [random.Random(f"{seed} {row}") for row in range(len(sequences))]
    ends = [len(sequence) + max_new_tokens for sequence in sequences]

    def choose(row: int, logits: torch.Tensor) -> list[int] | None:
        sequence = sequences[row]
        token = draw_free(logits, temperature, chances[row].random())
        sequence.append(token)
        try:
            states[row] = decoder.next(states[row], token)
        except ValueError:
            results[row] = judge(decoder.dialect, sequence)
            if results[row] in (LEGAL, UNFINISHED):
                results[row] = NOT_DECLARED if decoder.calling(states[row]) else NARROWER
            return None
        if decoder.final(states[row]):
            results[row] = judge(decoder.dialect, sequence)
            return None
        return [token] if len(sequence) < ends[row] else None

    with holder:
        run(model, [list(sequence) for sequence in sequences], max(ends), choose)
    return results


def constrained(
    model: Model,
    prompts: Sequence[Sequence[int]],
    decoder: Decoder,
    *,
    mass: RefusedMass | None = None,
    **options: Any,
) -> list[str]:
    """Lets a model continue prompts under the constraint; takes and returns the same as `alone`.

    Adds the refused mass of the answers to `mass`.
    """
    generations = generate(model, prompts, decoder=decoder, greedy_calls=False, **options)
    if mass is not None:
        for generation in generations:
            mass.add(generation)
    return [judge(decoder.dialect, g.prompt + g.ids) for g in generations]


def accepted(prompts: Iterable[Sequence[int]], decoder: Decoder) -> list[list[int] | None]:
    """Returns the prompts with the header after which the model writes, if the format has one.

    A prompt that the decoder refuses becomes None.
    """
    out: list[list[int] | None] = []
    for prompt in prompts:
        ids = [int(i) for i in prompt]
        ids += opening(decoder.dialect, ids)
        try:
            decoder.start(ids)
            out.append(ids)
        except PromptError:
            out.append(None)
    return out


def observed_tools(episodes: Iterable[Episode], dialect: Dialect) -> list[ToolSpec]:
    """Returns tools as some episodes call them.

    The arguments have the types that were seen, and are required if no call was without them.
    Raises SchemaFault if no schema can be told from what was seen.
    """
    arguments: dict[str, list[dict[str, Any]]] = {}
    for episode in episodes:
        for call in calls_of(episode.messages, dialect.table):
            arguments.setdefault(call.name, []).append(call.arguments)
    return [ToolSpec(name, _schema(name, values)) for name, values in sorted(arguments.items())]


def _schema(tool: str, values: Sequence[Any]) -> dict[str, Any]:
    kinds = sorted({JSON_TYPES.get(type(value), "") for value in values})
    if "" in kinds:
        raise SchemaFault(tool, "", "a value of a type that no schema has")
    out: dict[str, Any] = {"type": [k for k in kinds if not (k == "integer" and "number" in kinds)]}
    if "object" in kinds:
        objects = [value for value in values if isinstance(value, dict)]
        names = list(dict.fromkeys(name for value in objects for name in value))
        out["properties"] = {
            name: _schema(tool, [value[name] for value in objects if name in value])
            for name in names
        }
        out["required"] = [name for name in names if all(name in value for value in objects)]
    if "array" in kinds:
        items = [item for value in values if isinstance(value, list) for item in value]
        out["items"] = _schema(tool, items) if items else {"type": "string"}
    if len(out["type"]) == 1:
        out["type"] = out["type"][0]
    return out
