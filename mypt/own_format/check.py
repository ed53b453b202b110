"""Checks a grammar folder of one's own: that all which is derived from it agrees.

Input is a folder; output are results, a line each. The checks are those that the dialects of this
package pass in its tests: Lark and the automaton accept the same language, episodes come back from
text, ids and records, the vectors hold, and what the decoder generates is legal.
"""

import json
import random
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mypt.own_format.walks import Walks
from mypt_cli.words import counted
from mypt_spec import Dialect, Episode, SpecError, VocabularyError
from mypt_spec.adapters.base import Unread
from mypt_spec.adapters.message_shape import ENDED, REFUSES
from mypt_spec.automaton import make_parser
from mypt_spec.bodies.definitions import EARLY, WRITTEN
from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.dialect import load
from mypt_spec.findings import Finding
from mypt_spec.table import END

EPISODES = 200  # that are made by chance
GENERATIONS = 30
_LIMIT = 120  # characters of an example
_KEYS = {"name", "record", "text", "trained", "findings"}


class Result(NamedTuple):
    """What one check found, in words; `fine` is None where it is only good to know."""

    name: str
    fine: bool | None
    detail: str


def check(folder: Path, vocabulary: str | None = None) -> Iterator[Result]:
    """Yields the results of all checks of a folder; of one that cannot be loaded, only that.

    `vocabulary` is the path of one that replaces the folder's.
    """
    try:
        dialect = load(folder, vocabulary=vocabulary)
    except (SpecError, VocabularyError) as error:
        yield Result("load", False, str(error))
        return
    if isinstance(dialect.adapter, Unread):
        yield Result("load", False, f"{folder}: reading records needs records.toml; add it")
        return
    tags, states = len(dialect.table.terminals), len(dialect.automaton.steps)
    yield Result("load", True, f"{dialect.name}: {tags} tags, {states} states")
    yield _language(dialect)
    episodes, why = Walks(dialect, random.Random(0)).episodes(EPISODES)
    if not episodes:
        yield Result("episodes", False, f"none could be made: {why}")
        return
    yield _texts(dialect, episodes)
    if dialect.table.required is not None and dialect.vocabulary is None:
        why = "[vocabulary] names no file: ids, vectors and the decoder are not checked; "
        why += "name one with --vocab"
        yield Result("ids", None, why)
        yield _records(dialect, episodes)
        return
    yield _ids(dialect, episodes)
    yield _records(dialect, episodes)
    yield _vectors(dialect, folder / "vectors.json")
    yield _generations(dialect, episodes)


def _language(dialect: Dialect) -> Result:
    """Walks Lark's parser and the automaton side by side through all that Lark can reach."""
    grammar = next(data for name, data in dialect.files.items() if name.endswith(".lark"))
    first = make_parser(grammar.decode()).parse_interactive([])
    first.parser_state.parse_conf.callbacks = {}  # builds no trees
    states, queue = {tuple(first.parser_state.state_stack): dialect.automaton.start}, deque([first])
    from lark import Token

    while queue:
        here = queue.popleft()
        state = states[tuple(here.parser_state.state_stack)]
        takes = here.accepts()
        allowed = set(dialect.automaton.steps[state])
        if takes - {END} != allowed or (END in takes) != dialect.automaton.accepting(state):
            differ = ", ".join(sorted((takes - {END}) ^ allowed)) or "the end"
            return Result("grammar", False, f"Lark and the automaton differ about {differ}")
        for terminal in allowed:
            following = here.copy(deepcopy_values=False)
            following.feed_token(Token(terminal, ""))
            key = tuple(following.parser_state.state_stack)
            if key not in states:
                states[key] = dialect.automaton.steps[state][terminal]
                queue.append(following)
    return Result("grammar", True, f"Lark and the automaton agree in {len(states)} configurations")


def _texts(dialect: Dialect, episodes: list[Episode]) -> Result:
    for episode in episodes:
        for layout in dialect.table.layouts:
            try:
                text = dialect.serialize(episode, layout=layout)
            except ValueError as error:
                return Result("text", False, f"no text: {error}")
            back, findings = dialect.parse(text)
            if back != episode:
                return Result("text", False, f"does not come back: {_example(text, findings)}")
    return Result("text", True, f"{len(episodes)} episodes come back from their texts")


def _ids(dialect: Dialect, episodes: list[Episode]) -> Result:
    tokens = trained = 0
    for episode in episodes:
        try:
            encoded = dialect.encode(episode)
        except ValueError as error:
            return Result("ids", False, f"no ids: {error}")
        back, findings = dialect.parse_ids(encoded.ids)
        if back != episode:
            text = dialect.tokenizer.decode(encoded.ids)
            return Result("ids", False, f"does not come back: {_example(text, findings)}")
        tokens, trained = tokens + len(encoded.ids), trained + int(encoded.loss.sum())
    share = f"{trained / tokens:.0%} of their tokens are trained"
    return Result("ids", True, f"{len(episodes)} episodes come back from their ids; {share}")


def _records(dialect: Dialect, episodes: list[Episode]) -> Result:
    without, blank = list[tuple[Episode, str]](), 0
    for episode in episodes:
        try:
            dialect.write(episode)
        except (ValueError, KeyError) as error:
            without.append((episode, str(error)))
            blank += str(error).endswith((REFUSES, WRITTEN, EARLY, ENDED))
    count = f"{len(episodes) - len(without)} of {len(episodes)} episodes have a record"
    if len(without) == blank < len(episodes):  # as the table says
        refused = "a blank text that the format refuses, tools that a template wrote or that are "
        refused += f"not before the last question, or {ENDED}"
        count += f"; {blank} have {refused}" * (blank > 0)
        return Result("records", True, count)
    episode, why = min(without, key=lambda pair: len(dialect.serialize(pair[0])))
    text = _example(dialect.serialize(episode), [])
    fine = None if len(without) < len(episodes) else False
    return Result("records", fine, f"{count}; one that has none: {text}: {why}")


def _vectors(dialect: Dialect, path: Path) -> Result:
    if not path.is_file():
        return Result("vectors", None, "there is no vectors.json: no example says what is right")
    try:
        vectors = loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, Fault) as error:
        return Result("vectors", False, f"{path}: {error}")
    if not isinstance(vectors, list):
        return Result("vectors", False, f"{path}: expected a list")
    for at, vector in enumerate(vectors):
        if not isinstance(vector, dict) or not {"record", "text"} & set(vector):
            return Result("vectors", False, f"{path}: number {at}: expected a record or a text")
        name = vector.get("name", at)
        if unknown := set(vector) - _KEYS:
            return Result("vectors", False, f"{name}: unknown key {', '.join(sorted(unknown))}")
        wrong = _vector(dialect, vector)
        if wrong:
            return Result("vectors", False, f"{name}: {wrong}")
    return Result(
        "vectors", True, f"{counted(len(vectors), 'vector')} hold{'s' * (len(vectors) == 1)}"
    )


def _vector(dialect: Dialect, vector: dict[str, Any]) -> str:
    expected = Counter(vector.get("findings", ()))
    for kind in ("record", "text"):
        if kind not in vector:
            continue
        if kind == "record":
            episode, findings = dialect.check(vector[kind])
        else:
            episode, findings = dialect.parse(vector[kind])
            findings += [] if episode is None else dialect.validate(episode)
        codes = Counter(f.code for f in findings)
        if codes != expected:
            listing = "; ".join(f"{f.code} {f.message}" for f in findings) or "nothing"
            return f"the {kind} has other findings than {sorted(expected)}: {listing}"
        if episode is None or any(f.severity == "error" for f in findings):
            continue
        try:
            text, encoded = dialect.serialize(episode), dialect.encode(episode)
        except ValueError as error:
            return f"the {kind} cannot be written: {error}"
        if vector.get("text", text) != text:
            return f"the {kind} is written as {text!r}"
        trained = dialect.tokenizer.decode(encoded.ids[encoded.loss == 1])
        if vector.get("trained", trained) != trained:
            return f"the {kind} has other trained tokens: {trained!r}"
    return ""


def _generations(dialect: Dialect, episodes: list[Episode]) -> Result:
    """Lets random models answer the beginnings of episodes, within budgets."""
    from mypt_infer.decode.decoder import BudgetError, Decoder
    from mypt_infer.decode.prompt import PromptError

    decoder, chance, count = Decoder(dialect), random.Random(0), 0
    stops = [dialect.table.terminals[name].spell() for name in dialect.table.stops]
    for episode in episodes:
        prompt, begun = list[int](), False
        if dialect.refusal(episode):  # text that would be read as something else
            continue
        for segment in dialect.segments(episode):
            tag = dialect.table.terminals.get(segment.event.terminal)
            by_model = tag is not None and tag.opens and tag.by_model
            if by_model or (begun and (tag is None or not tag.opens)):
                break
            prompt += segment.ids
            begun = begun or (tag is not None and tag.opens != "" and tag.body_by_model)
        if not prompt:
            continue
        try:
            least = decoder.minimum(decoder.start(prompt))
            state = decoder.start(prompt, max_new_tokens=least + chance.randrange(40))
        except (PromptError, BudgetError):  # nothing that the model may write
            continue
        ids = list(prompt)
        while not decoder.final(state):
            ids.append(chance.choice(decoder.ids(state)))
            state = decoder.next(state, ids[-1])
        text, last = map(dialect.tokenizer.decode, (ids, ids[-1:]))
        # A model stops after the first id of a tag, the rest of which is in the next prompt.
        texts = [text.removesuffix(last) + tag for tag in stops if tag.startswith(last)] or [text]
        outcome = min(map(dialect.check_prefix, texts), key=lambda o: len(o.findings))
        if any(f.severity == "error" for f in outcome.findings):
            return Result("decoder", False, f"an illegal turn: {_example(text, outcome.findings)}")
        count += 1
        if count == GENERATIONS:
            break
    if not count:
        return Result("decoder", None, "the model never writes: no block that it opens is trained")
    return Result("decoder", True, f"{count} turns of random models are legal and in budget")


def _example(text: str, findings: list[Finding]) -> str:
    quote = json.dumps(text[:_LIMIT], ensure_ascii=False) + ("…" if len(text) > _LIMIT else "")
    return quote + (f": {findings[0].code} {findings[0].message}" if findings else "")
