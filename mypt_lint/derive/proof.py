"""Compares what a derived format writes with what the template renders, byte for byte."""

from collections import Counter
from dataclasses import dataclass, field, replace
from operator import eq
from random import Random
from typing import Any

from mypt_lint.derive.conversations import conversation, is_blank, with_counted_ids
from mypt_lint.derive.probe import Renderings
from mypt_lint.template.align import NAME, THOUGHT, Aligned
from mypt_lint.template.formats import losses
from mypt_lint.template.model import ModelFolder
from mypt_spec import Dialect, Episode
from mypt_spec.adapters.messages import Messages
from mypt_spec.adapters.template_options import KEY
from mypt_spec.episode import events_of
from mypt_spec.history import official
from mypt_spec.patch import in_common
from mypt_spec.states import in_prompts, result_opener, resumed

_COMPARED = 10  # conversations of a level whose masks and ids are compared


@dataclass
class Level:
    """What is proved of one level.

    `equal` counts conversations, `refused` those that the format refuses, by the reason, and
    `excused` those of them that no format could take. `differs` says how the smallest conversation
    differs, with the conversation. `why` is the reason why nothing was learned. `left_out` are the
    texts that only the format writes, where that is allowed.
    """

    name: str
    why: str = ""
    equal: int = 0
    unequal: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    differs: tuple[str, dict[str, Any]] | None = None
    left_out: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        """Returns the number of conversations."""
        return self.equal + self.unequal + self.refused.total() + self.excused.total()

    @property
    def is_proved(self) -> bool:
        """Returns whether no conversation differs that the format takes."""
        return self.equal > 0 and not self.unequal

    @property
    def is_complete(self) -> bool:
        """Returns whether it also takes all conversations but those that are excused."""
        return self.is_proved and not self.refused

    @property
    def reason(self) -> str:
        """Returns why the level is not proved, or what the format refuses; "" for nothing."""
        if self.differs is not None:
            return f"{self.unequal} of {self.unequal + self.equal} differ: {self.differs[0]}"
        causes = *self.refused.most_common(2), *self.excused.items()
        return self.why or "; ".join(f"{cause} ({count})" for cause, count in causes)


def prove(
    dialect: Dialect, render: Renderings, level: Level, seeds: range,
    model: ModelFolder | None = None, blanks: float = 0.03, says_less: bool = False,
) -> Level:  # fmt: skip
    """Returns a level with what is proved of it on conversations with these seeds.

    Those that both refuse do not count. Blank texts, and texts that the template leaves out, are
    excused if the format refuses them. Conversations for which the template's prompt ends the turn
    of the model count as refused: the format has no such prompt. `model` has the vocabulary. If the
    template `says_less`, it may leave out what models write: thoughts, which are then compared
    without, and calls, with which nothing is.
    """
    for seed in range(seeds[0], seeds[0] + 3 * len(seeds)):
        if level.count == len(seeds):
            break
        record = with_counted_ids(dialect, conversation(level.name, seed, blanks))
        messages, tools = record["messages"], record.get("tools")
        clock = "later" if render.day[0] and seed % 2 else "now"
        options = _options(dialect, seed, render.day[0])
        record_options = options | ({render.day[0]: render.day[2]} if clock == "later" else {})
        record |= {KEY: record_options} if record_options else {}
        theirs = render.text(messages, tools, clock=clock, **options)
        placed = render.aligned(messages, tools, **options) if says_less else None
        if placed and dialect.table.kinds("thought"):
            record |= {"messages": (messages := _without_thoughts(messages, placed, level))}
        try:
            whole = _episode(dialect, record)
            episode = official(whole, dialect.table)
            ours = dialect.serialize(episode)
        except ValueError as error:
            if theirs is not None and is_blank(record):
                level.excused["blank texts"] += 1
            elif (placed := render.aligned(messages, tools, **options)) and not placed.missing:
                level.refused[str(error)] += 1
            elif theirs is not None:
                level.excused["texts that the template leaves out"] += 1
            continue
        thoughts = dialect.table.kinds("thought")
        leads = any(kind in thoughts for _, kind in dialect.table.leaders)
        if leads and not dialect.table.history.last:
            options["enable_thinking"] = "reasoning_content" in messages[-1]
        prompt = render.text(messages[:-1], tools, "prompt", clock=clock, **options) or ""
        how = _difference("the text", ours, theirs or "") if theirs else "the template refuses it"
        ours = _prompt(dialect, whole)
        closer = dialect.table.closers.get(episode.messages[-1].role)
        is_over = closer and closer.bare.strip() and prompt.rstrip().endswith(closer.bare.strip())
        if how and placed and any(leaf.kind == NAME for leaf in placed.missing):
            level.left_out.add("calls")
            level.excused["calls that the template leaves out"] += 1
            continue
        if not how and is_over and prompt != ours:
            ours = _begun(dialect, record | {"messages": messages[:-1]})
        if not how and is_over and prompt != ours:
            level.refused["the template's prompt ends the turn of the model"] += 1
            continue
        how = how or _difference("the prompt", ours, prompt)
        if not how and model and clock == "now" and seed - seeds[0] < _COMPARED:
            aligned = render.aligned(messages, tools, **record_options)
            how = "" if aligned is None else _masked(dialect, aligned, episode)
            if not how and aligned is not None and model.vocabulary is not None:
                how = _encoded(dialect, model, aligned, episode)
        level.equal, level.unequal = level.equal + (not how), level.unequal + bool(how)
        if how and (level.differs is None or len(repr(record)) < len(repr(level.differs[1]))):
            level.differs = how, record
    return level


def _without_thoughts(
    messages: list[dict[str, Any]], placed: Aligned, level: Level
) -> list[dict[str, Any]]:
    """Returns messages without the thoughts of the last turn that the template leaves out."""
    last = max(i for i, message in enumerate(messages) if message["role"] == "user")
    places = {f.message for f in placed.missing if f.kind == THOUGHT and f.message > last}
    level.left_out |= {"thoughts"} if places else set()
    return [
        {k: v for k, v in m.items() if k != "reasoning_content" or i not in places}
        for i, m in enumerate(messages)
    ]


def _options(dialect: Dialect, seed: int, day: str) -> dict[str, Any]:
    """Returns values of options that a format has, by chance; none of the option of the day."""
    chance, adapter = Random(f"options {seed}"), dialect.adapter
    options = adapter.options.options if isinstance(adapter, Messages) else ()
    rows = {o.name: o for o in options if o.name not in ("", day) and chance.random() < 0.4}
    texts = {name: [[*dict(o.lists)] or "Some text."] for name, o in rows.items()}
    return {name: chance.choice(o.values or texts[name]) for name, o in rows.items()}


def _episode(dialect: Dialect, record: dict[str, Any]) -> Episode:
    """Returns the episode of a record. Raises ValueError where the format refuses it."""
    episode, findings = dialect.check(record)
    error = next((f for f in findings if f.severity == "error"), None)
    if episode is None or error is not None:
        raise ValueError(f"{error.code} {error.message}" if error is not None else "not read")
    return episode


def _difference(what: str, ours: str, theirs: str) -> str:
    """Returns how two texts differ; "" if they are equal."""
    if ours == theirs:
        return ""
    start = max(in_common(ours, theirs) - 15, 0)
    return f"{what} is {theirs[start : start + 40]!r}, not {ours[start : start + 40]!r}"


def _prompt(dialect: Dialect, episode: Episode) -> str:
    """Returns the text up to the last answer, and what prompts have after it."""
    table, machine, messages = dialect.table, dialect.automaton, list(episode.messages)
    block = next(m.role for m in messages[::-1] if m.role not in table.marks)
    spoken = table.openers[block].by_model  # what the model writes begins in the block before
    while spoken and (
        messages[-1].role in table.marks or table.openers[messages[-1].role].by_model
    ):
        del messages[-1]
    begun = official(replace(episode, messages=(*messages,)), table)
    events = list(events_of(begun.messages, table))
    rows = [table.terminals.get(event.terminal) for event in events]
    opener = result_opener(machine, table)
    result = (opener.opens,) if opener is not None else None  # alone: not what ends all blocks
    ends = [i for i, r in enumerate(rows) if r and (r.opens == block or r.ends == result)]
    end = len(events) if spoken else ends[-1] + 1
    last, texts = rows[end - 1], [event.text for event in events[:end]]
    if last and last.opens:
        texts[-1] = texts[-1].removeprefix(last.bare.removesuffix(in_prompts(last)))
    prompt, empty = "".join(texts), dialect.adapter.prompted(episode.meta)
    if empty and last and last.opens:  # not within a turn
        return prompt + "".join(table.openers[k].bare + table.closers[k].bare for k in empty)
    state = machine.run(event.terminal for event in events[:end])
    steps = {} if state is None else machine.steps[state]
    opened = [row for n in steps if (row := table.terminals.get(n)) and row.opens]
    return prompt + "".join(in_prompts(row) for row in opened if row.body_loss and not row.by_model)


def _begun(dialect: Dialect, record: dict[str, Any]) -> str:
    """Returns the text of a conversation that ends before an answer, if one may go on there."""
    try:
        begun = official(_episode(dialect, record), dialect.table)
    except ValueError:
        return ""
    events = list(events_of(begun.messages, dialect.table))
    state, machine = dialect.automaton.run(event.terminal for event in events), dialect.automaton
    goes_on = state is not None and resumed(state, machine, dialect.table) != state
    return "".join(event.text for event in events) * goes_on


def _masked(dialect: Dialect, aligned: Aligned, episode: Episode) -> str:
    """Returns how the trained text differs from that of the template; "" if it is equal.

    If the prompt is not before an answer, nothing says where its header ends; without a stop token,
    nothing says whether what follows is trained.
    """
    ours, pieces = losses(dialect, episode), aligned.pieces
    text = aligned.text[: len(ours)]
    theirs, starts = [0] * len(text), [*(piece.start for piece in pieces), len(text)]
    for span in aligned.trained:
        theirs[span.start : span.end] = [1] * (span.end - span.start)
        until = min((s for s in starts if s >= span.end and not span.stopped), default=span.end)
        end = max([p.end for p in pieces if p.end <= span.end and not span.stopped] or [span.end])
        theirs[end:until] = ours[end:until]
    for i in aligned.other_prompts:
        start = max((p.end for p in pieces if p.message < i), default=0)
        until = min((p.start for p in pieces if p.message >= i), default=len(text))
        theirs[start:until] = ours[start:until]
    masks = (zip(text, mask, strict=False) for mask in (ours, theirs))
    masked = ("".join(char if loss else "_" for char, loss in mask) for mask in masks)
    return _difference("the trained text", *masked)


def _encoded(dialect: Dialect, model: ModelFolder, aligned: Aligned, episode: Episode) -> str:
    """Returns how ids differ from those of the template; "" if they are equal.

    A format has a token boundary at the end of each prompt, because generation begins there; where
    the tokenizer has none, nothing is compared.
    """
    try:
        ids, starts = model.ids(aligned)
    except ValueError:  # the model's own tokenizer would encode it otherwise
        return ""
    if not {span.start for span in aligned.trained} <= {*starts}:
        return ""
    ours = dialect.encode(episode).ids.tolist()
    return "" if all(map(eq, ours, ids.tolist())) else "the ids are others"
