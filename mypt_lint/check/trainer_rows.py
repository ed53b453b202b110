"""Checks rows of tokens that a trainer reads, against the grammar and the loss mask.

Input is a row as TRL and axolotl take them: `input_ids`, `labels` (-100 is not trained), and
perhaps `attention_mask`, `position_ids`, `seq_lengths`. In the place of labels there may be
`loss_mask`, `assistant_masks` and `completion_mask`: what they all have as 1 is trained. A
`loss_mask` beside `num_actions`, as SkyRL has it, is that of so many last tokens. Output are
findings, each at an item of a list.

Theory of operation. First the row is cut into episodes, by what keeps them apart in training:
`seq_lengths`, positions that begin again at 0, or an attention mask that counts them. Then each is
read back from its ids, and its labels are compared with the mask of the encoder. The first token of
an episode is predicted from nothing, so its label does not matter. Where an episode is complete and
the grammar refuses what follows, but would take it as a beginning, two episodes are in one.

>>> import mypt_spec
>>> d = mypt_spec.dialect("gabgpt")
>>> ids = [50257, *d.tokenizer.encode("Hi"), 50259, *d.tokenizer.encode("Hello"), 50260]
>>> labels = [-100, -100, *ids[2:-1], -100]
>>> [(f.code, f.pointer) for f in check_row(d, {"input_ids": ids, "labels": labels})]
[('MYP506', '/labels/4')]
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

from mypt_spec import Dialect
from mypt_spec.bodies.strict_json import a_kind_of
from mypt_spec.episode import Episode
from mypt_spec.findings import Finding

IGNORED = -100
MASKS = ("loss_mask", "assistant_masks", "completion_mask")  # in the place of labels
_LISTS = ("input_ids", "labels", *MASKS, "attention_mask", "position_ids", "seq_lengths")
_OWN_ROWS = "give each its own row, or seq_lengths, or position_ids that begin again at 0"
_ROW = "a row for a trainer has input_ids and labels (or a mask), lists of equal length"
_Span = tuple[int, int]
_Parse = tuple[Episode | None, list[Finding]]
_Part = tuple[int, int, _Parse]  # an episode: its tokens, and what they are read as


def check_row(dialect: Dialect, row: Any, mask: str = "model") -> Iterator[Finding]:
    """Yields what is wrong with a row, in order. Never raises.

    `mask` names what is trained (`mypt_spec.encoder.MASKS`).
    """
    row, lead = _with_whole_mask(row)
    wrong = list(_shape(row))
    yield from wrong
    if wrong:
        return
    if message := _foreign(dialect, row["input_ids"]):
        yield Finding("MYP513", message, "/input_ids", help="name theirs with --vocab")
        return
    masks = [key for key in MASKS if row.get(key) is not None] if row.get("labels") is None else []
    if masks:
        trained = map(all, zip(*(row[key] for key in masks), strict=True))
        pairs = zip(row["input_ids"], trained, strict=True)
        row = row | {"labels": [i if one else IGNORED for i, one in pairs]}
    for finding in _checked(dialect, row, mask):
        at = finding.pointer.removeprefix("/labels/")
        if masks and at != finding.pointer:
            at = f"/{masks[0]}/{int(at) - lead}" if int(at) >= lead else f"/input_ids/{at}"
            finding = replace(finding, pointer=at)
        yield finding


def _with_whole_mask(row: Any) -> tuple[Any, int]:
    """Returns a row whose `loss_mask` has all tokens, and how many of them it did not have."""
    if not isinstance(row, dict) or type(row.get("num_actions")) is not int:
        return row, 0
    ids, mask = row.get("input_ids"), row.get("loss_mask")
    if not isinstance(ids, list) or not isinstance(mask, list) or len(mask) != row["num_actions"]:
        return row, 0
    lead = max(0, len(ids) - len(mask))
    return row | {"loss_mask": [0] * lead + mask}, lead


def _foreign(dialect: Dialect, ids: list[int]) -> str:
    """Returns why ids are those of another vocabulary, "" where they may be of this one."""
    size, tags = dialect.table.vocab_size, set(dialect.table.special.values())
    beyond = [i for i in ids if i >= size]
    if len(beyond) > 1:
        return f"ids of another vocabulary: {beyond[0]} is beyond the {size} of this one"
    if tags and tags.isdisjoint(ids):
        return f"ids of another vocabulary: none of them is a tag of {dialect.name}"
    return ""


def _checked(dialect: Dialect, row: dict[str, Any], mask: str) -> Iterator[Finding]:
    ids, labels = row["input_ids"], row["labels"]
    episodes, faults = _episodes(dialect, row)
    yield from faults
    if not episodes:
        return
    covered = [False] * len(ids)
    for start, end, _ in episodes:
        covered[start:end] = [True] * (end - start)
    mismatches = list(_labels(ids, labels, covered))
    yield from mismatches
    for start, end, parsed in episodes:
        episode_labels = None if mismatches else labels[start:end]
        yield from _episode(dialect, ids[start:end], parsed, episode_labels, start, mask)


def _shape(row: Any) -> Iterator[Finding]:
    """Yields why the lists of a row are none, or do not belong together."""
    if not isinstance(row, dict):
        yield Finding("MYP101", f"the row is {a_kind_of(row)}, expected an object")
        return
    for key in _LISTS:
        if row.get(key) is None:
            masked = key == "labels" and any(row.get(mask) is not None for mask in MASKS)
            if key in ("input_ids", "labels") and not masked:
                yield Finding("MYP510", f'the row has no "{key}"', help=_ROW)
            continue
        value = row[key]
        items = value if isinstance(value, list) else [None]
        bad = next(
            (i for i, x in enumerate(items) if isinstance(x, bool) or type(x) is not int), -1
        )
        if bad >= 0:
            at = f"/{key}/{bad}" if isinstance(value, list) else f"/{key}"
            yield Finding("MYP510", f'"{key}" must be a list of integers', at)
            return
        if key in MASKS and not {0, 1}.issuperset(value):
            odd = next(i for i, x in enumerate(value) if x not in (0, 1))
            yield Finding("MYP510", f'"{key}" must be a list of 0 and 1', f"/{key}/{odd}")
        if key != "seq_lengths" and "input_ids" in row and len(value) != len(row["input_ids"]):
            sizes = f"{len(value)} items, and input_ids {len(row['input_ids'])}"
            yield Finding("MYP510", f'"{key}" has {sizes}', f"/{key}")
    if row.get("input_ids") == []:
        yield Finding("MYP510", "the row has no tokens", "/input_ids")


def _episodes(dialect: Dialect, row: dict[str, Any]) -> tuple[list[_Part], list[Finding]]:
    """Returns the episodes of a row, as read, and what is wrong with how it says where they are."""
    ids, findings = row["input_ids"], list[Finding]()
    lengths, positions = row.get("seq_lengths"), row.get("position_ids")
    mask = row.get("attention_mask") or [1] * len(ids)
    spans: list[_Span] = []
    at = 0
    for value, group in groupby(mask):
        size = len(list(group))
        spans += [(at, at + size)] if value else []
        at += size
    if lengths:
        if min(lengths) < 1 or sum(lengths) != len(ids):
            fault = f"seq_lengths add up to {sum(lengths)}, and the row has {len(ids)} tokens"
            return [], [Finding("MYP512", fault, "/seq_lengths")]
        spans, at = [], 0
        for size in lengths:
            spans.append((at, at + size))
            at += size
    if positions:
        expected = 0
        for i, position in enumerate(positions):
            expected = expected + 1 if position else 0
            if position != expected and mask[i]:
                fault = f"the position is {position}, expected {expected} or 0"
                return [], [Finding("MYP512", fault, f"/position_ids/{i}")]
        if not lengths:
            begun = [i for i, position in enumerate(positions) if position == 0]
            spans = [part for span in spans for part in _split(span, begun)]
    pad = dialect.tokenizer.pad
    out: list[_Part] = []
    for start, end in spans:
        while end > start and ids[end - 1] == pad:
            end -= 1
        if start == end:
            continue
        parsed = dialect.parse_ids(ids[start:end])
        # Where the grammar takes all, nothing begins again.
        inside = _restarts(dialect, ids[start:end]) if parsed[0] is None else []
        for i in inside:
            fault = f"another episode begins here and sees the one before it, from token {start} on"
            findings.append(Finding("MYP512", fault, f"/input_ids/{start + i}", help=_OWN_ROWS))
        parts = _split((start, end), [start + i for i in inside])
        out += [(a, b, dialect.parse_ids(ids[a:b]) if inside else parsed) for a, b in parts]
    return out, findings


def _split(span: _Span, at: list[int]) -> list[_Span]:
    places = [span[0], *(i for i in at if span[0] < i < span[1]), span[1]]
    return list(pairwise(places))


def _restarts(dialect: Dialect, ids: list[int]) -> list[int]:
    """Returns the tokens at which an episode begins where the one before could end."""
    automaton, state, starts = dialect.automaton, dialect.automaton.start, list[int]()
    for event in dialect.lex_ids(ids)[0]:
        following = automaton.steps[state].get(event.terminal)
        if following is None and automaton.accepting(state):
            following = automaton.steps[automaton.start].get(event.terminal)
            if following is not None and event.at.span is not None:
                starts.append(event.at.span[0])
        if following is None:
            return starts  # the reader says what is wrong here
        state = following
    return starts


def _labels(ids: list[int], labels: list[int], covered: list[bool]) -> Iterator[Finding]:
    """Yields the first label that is another token than that at its place, or that is padding's."""
    for i, (token, label) in enumerate(zip(ids, labels, strict=True)):
        if label == IGNORED:
            continue
        if not covered[i]:
            yield Finding(
                "MYP511", f"token {i} is padding and has the label {label}", f"/labels/{i}"
            )
            return
        if label != token:
            ahead, here = (sum(map(int.__eq__, labels, some)) for some in (ids[1:], ids))
            hint = "labels are not shifted: the trainer does that" if ahead > here else ""
            message = f"the label of token {i} is {label}, and the token is {token}"
            yield Finding("MYP511", message, f"/labels/{i}", help=hint)
            return


def _episode(
    dialect: Dialect, ids: list[int], parse: _Parse, labels: list[int] | None, start: int, mask: str
) -> Iterator[Finding]:
    episode, findings = parse
    if episode is not None:
        findings = [*findings, *dialect.validate(episode)]
    for finding in findings:
        # What is said of the text of an Episode has no place among the ids.
        at = finding.span[0] if finding.span and not finding.pointer else 0
        yield replace(finding, pointer=f"/input_ids/{start + at}", span=None, fix=None)
    if episode is None or labels is None:
        return
    masks: list[tuple[list[int], list[bool]]] = []  # each with the tokens at which labels differ
    for meta in ({}, *dialect.adapter.prompting):  # ids do not say what a record's options were
        losses = dialect.encode(replace(episode, meta=meta), mask=mask).loss.tolist()
        if len(losses) == len(ids):
            pairs = enumerate(zip(losses, labels, strict=True))
            differ = [i for i, (loss, label) in pairs if i and loss != (label != IGNORED)]
            if not differ:
                return
            masks.append((differ, [bool(loss) for loss in losses]))
    if masks:
        differ, mask_expected = min(masks, key=lambda pair: len(pair[0]))
        finding = _mask(dialect, ids, mask_expected, differ, start)
        yield finding if mask == "model" else replace(finding, help=f"the mask is {mask}")


def _mask(
    dialect: Dialect, ids: list[int], expected: list[bool], differ: list[int], start: int
) -> Finding:
    first = differ[0]
    spelled = dialect.tokenizer.decode([ids[first]])
    difference = "is not trained, and the model writes it" if expected[first] else (
        "is trained, and the model does not write it"
    )  # fmt: skip
    same = [i for i in differ if ids[i] == ids[first]]
    others = f"; {len(differ)} tokens of the episode are like this" if len(differ) > 1 else ""
    hint = ""
    if expected[first] and len(same) == len(differ) and spelled in dialect.tokenizer.special:
        hint = f"a model that never learns {spelled} does not stop there"
    message = f'token {start + first} "{spelled}" {difference}{others}'
    return Finding("MYP506", message, f"/labels/{start + first}", help=hint)
