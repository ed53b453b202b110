"""What models write, as ids, and what they may not: for grammars that are written for servers."""

from __future__ import annotations

import random
from typing import NamedTuple

from mypt_spec import Dialect, Episode
from mypt_spec.parser import build
from mypt_spec.validator import Run
from mypt_train.export.chat_facts import endings, prompts


class Rollout(NamedTuple):
    """An answer without the id at which a server stops, if it `stops`, and all ids before it."""

    before: list[int]
    ids: list[int]
    stops: bool


def stop(d: Dialect) -> int | None:
    """The id at which a server stops; None where no tag is an id."""
    ends = endings(d)
    return d.tokenizer.special[ends[-1]] if ends else None


def rollouts(d: Dialect, episode: Episode) -> list[Rollout]:
    """Each run of ids that the model writes, without what the prompt already has of it."""
    encoded = d.encode(episode)
    ids, loss = encoded.ids.tolist(), encoded.loss.tolist()
    forced = {
        tuple(d.tokenizer.special.get(t, -1) for n in way for t in [d.table.terminals[n].bare])
        if all(d.table.terminals[n].bare in d.tokenizer.special for n in way)
        else tuple(i for n in way for i in d.tokenizer.encode(d.table.terminals[n].bare))
        for way in prompts(d).values()
    }
    out, at, end = [], 0, stop(d)
    while at < len(ids):
        if not loss[at]:
            at += 1
            continue
        begin = at
        while at < len(ids) and loss[at]:
            at += 1
        run = ids[begin:at]
        head = max((f for f in forced if tuple(run[: len(f)]) == f), key=len, default=())
        run = run[len(head) :]
        cut = run.index(end) if end in run else len(run)
        out.append(Rollout(ids[: begin + len(head)], run[:cut], cut < len(run)))
    return out


def mutated(d: Dialect, rollout: Rollout, rng: random.Random) -> list[int]:
    """The ids of an answer with one id more, fewer, twice, or replaced by that of a tag."""
    ids = list(rollout.ids)
    at, kind = rng.randrange(len(ids) + 1), rng.randrange(5)
    tags = [i for i in d.tokenizer.special.values() if i != stop(d)]
    if kind == 0 and at < len(ids):
        del ids[at]
    elif kind == 1 and tags:
        ids.insert(at, rng.choice(tags))
    elif kind == 2 and at < len(ids):
        ids.insert(at, ids[at])
    elif kind == 3 and at < len(ids) and tags:
        ids[at] = rng.choice(tags)
    else:
        ids[at:at] = d.tokenizer.encode(rng.choice(['"', "}", "{", "\n", ",", "</"]))
    return ids


def faults(d: Dialect, rollout: Rollout, ids: list[int]) -> set[str]:
    """The codes of the errors in a conversation whose last answer has these ids."""
    special = d.tokenizer.special
    ended = not rollout.stops or ids[-1:] in [[special[tag]] for tag in endings(d)]
    events, found = d.lex_ids([*rollout.before, *ids, *([] if ended else [stop(d)])])
    outcome = Run(d.table, d.automaton, spaces=False, complete=False).check(events)
    _, more = build(outcome, d.table)
    every = [*found, *outcome.findings, *more]
    return {f.code for f in every if f.severity == "error"}
