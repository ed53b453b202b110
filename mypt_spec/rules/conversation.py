"""Families 2, 4, 5 and 8: checks a conversation for what the grammar takes and a user may not want.

It finds prompts, what the curriculum has not introduced yet, episodes that train nothing or are too
long, and tags of plain text that a stop cut short. Most of families 2 and 8 is found by
validator.py and the parser.
"""

from collections.abc import Iterator
from contextlib import suppress

from mypt_spec.damage.cut_tags import fragment
from mypt_spec.encoder import MODEL, encode_events
from mypt_spec.findings import Finding
from mypt_spec.masks.record import cut_texts, weights_of
from mypt_spec.rules.context import Context, check


@check("MYP252")
def prompt_only(context: Context) -> Iterator[Finding]:
    """Finds a conversation that ends before an answer."""
    if context.is_prompt:
        text = "the conversation ends before an answer: this is a prompt, for online training"
        yield Finding("MYP252", text, *context.events[-1].at)


@check("MYP401")
def tag_of_later_phase(context: Context) -> Iterator[Finding]:
    """Finds tags that belong to a later phase than the one given."""
    phase = context.limits.phase
    if phase is None:
        return
    for event in context.events:
        terminal = context.table.terminals.get(event.terminal)
        if terminal is not None and terminal.phase > phase and not terminal.closes:
            later = f"phase {terminal.phase}"
            message = f"`{terminal.shown}` belongs to {later}, this is phase {phase}"
            hint = f"move the episode to {later}, or lint with --phase {terminal.phase}"
            yield Finding("MYP401", message, *event.at, help=hint)


@check("MYP402")
def turn_of_later_phase(context: Context) -> Iterator[Finding]:
    """Finds a second turn in a phase of single turns."""
    phase, first = context.limits.phase, context.table.multi_turn_phase
    if phase is None or phase >= first:
        return
    users = [m for m in context.episode.messages if m.role == context.table.turn_opener]
    for message in users[1:2]:
        text = f"a second turn belongs to phase {first}, this is phase {phase}"
        hint = f"one turn an episode here; {len(users)} are given"
        yield Finding("MYP402", text, *message.at, help=hint)


@check("MYP501")
def no_trained_token(context: Context) -> Iterator[Finding]:
    """Finds an episode of which nothing is trained."""
    if context.is_prompt:  # which says more
        return
    terminals = context.table.terminals
    weights = weights_of(context.episode.messages, context.table)
    weighed = zip(context.events, weights or [1.0] * len(context.events), strict=True)
    rows = [terminals.get(event.terminal) for event, weight in weighed if weight]
    if any(t is not None and (t.loss or t.body_loss) and not t.closes for t in rows):
        return
    if weights:  # texts may have others than the tags around them
        cuts = cut_texts(context.episode.messages, context.table, "content")
        with suppress(ValueError):  # a lone surrogate, which has its own finding
            how = context.table, context.tokenizer, MODEL, weights, cuts
            if encode_events(context.events, *how).loss.any():
                return
    text = "no token of this episode is trained: the model has nothing to learn from it"
    hint = "give an answer a weight above 0, or drop the record"
    yield Finding("MYP501", text, help=hint if weights else "give it an answer, or leave it out")


@check("MYP502")
def too_many_tokens(context: Context) -> Iterator[Finding]:
    """Finds an episode that is longer than the limit in tokens."""
    limit = context.limits.max_tokens
    if limit is None:
        return
    try:
        length = len(encode_events(context.events, context.table, context.tokenizer))
    except ValueError:  # a lone surrogate, which has its own finding
        return
    if length > limit:
        message = f"the episode has {length} tokens, the limit is {limit}"
        hint = "split it after a complete turn, or raise --max-tokens"
        yield Finding("MYP502", message, help=hint)


@check("MYP514")
def character_without_token(context: Context) -> Iterator[Finding]:
    """Finds characters that the vocabulary has no token for; the first of each text."""
    for event in context.events if context.tokenizer.lacks else ():
        places = context.tokenizer.unspelled(event.text)
        if places:
            at, suffix = places[0], f" (and {len(places) - 1} more)" if len(places) > 1 else ""
            base = event.at.extent[0]
            text = f"the vocabulary has no token for U+{ord(event.text[at]):04X}{suffix}"
            place = event.at._replace(span=(base + at, base + at + 1))
            yield Finding("MYP514", text, *place)


@check("MYP801")
def truncated_tag(context: Context) -> Iterator[Finding]:
    """Finds pieces of tags of plain text in content. Nothing is repaired."""
    for event in [run.event for run in context.texts if run.body == "text"]:
        piece = fragment(event.text, context.inner_tags)
        while piece is not None:
            start, end, tag = piece
            base = event.at.extent[0]
            text = f"`{event.text[start:end]}` looks like a piece of `{tag}`"
            place = event.at._replace(span=(base + start, base + end))
            hint = f"write `{tag}` where the block ends, or remove it"
            yield Finding("MYP801", text, *place, help=hint)
            piece = fragment(event.text, context.inner_tags, end)
