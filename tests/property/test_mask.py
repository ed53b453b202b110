"""Invariant 3: a second loss mask, written from the words of each SPEC alone, agrees on all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec.bodies.json_body import argument_spans
from mypt_spec.encoder import MASKS, Mask, Segment
from mypt_spec.episode import Episode, Message, Part
from mypt_spec.states import result_opener
from mypt_spec.table import Terminal
from mypt_spec.tokenizer.tokenizer import gpt2
from tests.support.build import assistant, call, calls, chat, tool, user
from tests.support.dialects import ALL
from tests.support.examples import examples
from tests.support.naive_mask import FORMATS, naive_mask
from tests.support.strategies import DIALECTS, episodes

ROOT = Path(__file__).resolve().parents[2]
D = mypt_spec.dialect("mypt")

NAMES = pytest.mark.parametrize("name", ALL)


@NAMES
@settings(max_examples=examples(100))
@given(st.data())
def test_the_naive_mask_agrees(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(episodes(name, clean=data.draw(st.booleans())))
    encoded = d.encode(episode)
    ids, loss = naive_mask(name, d.serialize(episode), meta=episode.meta)
    assert encoded.ids.tolist() == ids
    assert encoded.loss.tolist() == loss
    assert (encoded.ids.dtype, encoded.loss.dtype) == ("uint32", "uint8")


def test_the_naive_mask_knows_the_tags_of_every_dialect() -> None:
    assert {name: FORMATS[name].special for name in ALL} == {
        name: tuple(mypt_spec.dialect(name).table.special) for name in ALL
    }


@given(episodes("mypt"))
def test_ids_never_merge_across_a_tag(episode: mypt_spec.Episode) -> None:
    encoded = D.encode(episode)
    run: list[int] = []
    for token in [*encoded.ids.tolist(), 50275]:
        if token < 50256:
            run.append(token)
            continue
        assert gpt2().encode_ordinary(gpt2().decode(run)) == run, "a text run is encoded by itself"
        run = []


@given(episodes("mypt"))
def test_partial_encoding_is_a_prefix(episode: mypt_spec.Episode) -> None:
    whole = D.encode(episode)
    for end in range(len(episode.messages) + 1):
        part = D.encode(mypt_spec.Episode("mypt", episode.messages[:end]), partial=True)
        assert part.ids.tolist() == whole.ids[: len(part)].tolist()
        assert part.loss.tolist() == whole.loss[: len(part)].tolist()


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_segments_join_to_the_encoding(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(episodes(name, clean=False))
    encoded, segments = d.encode(episode), d.segments(episode)
    assert [i for s in segments for i in s.ids] == encoded.ids.tolist()
    assert [loss for s in segments for loss in s.losses] == encoded.loss.tolist()
    assert "".join(s.event.text for s in segments) == d.serialize(episode)
    for segment in segments:
        terminal = d.table.terminals.get(segment.event.terminal)
        if terminal is not None and terminal.opens:
            assert segment.inside[-1] == terminal.opens
        elif terminal is not None and terminal.closes:
            assert segment.inside[-1] in terminal.ends
        elif terminal is None:
            assert segment.inside, "text stands in a block"


@pytest.mark.parametrize("layout", ["compact", "lines"])
def test_the_reference_example(layout: str) -> None:
    """ "Phase 4: Simple Tool Call", with its quoted call masked."""
    system = '<myPT_system>Format: <myPT_toolcall>{"name": "x"}</myPT_toolcall></myPT_system>'
    call = '<myPT_assistant><myPT_toolcall>{"name": "x"}</myPT_toolcall></myPT_assistant>'
    blocks = [
        system,
        "<myPT_user>Find.</myPT_user>",
        call,
        "<myPT_toolresult>1</myPT_toolresult>",
        "<myPT_assistant>I.</myPT_assistant>",
        "<myPT_eot>",
    ]
    expected = [0, 0, 1, 0, 1, 1]
    episode, findings = D.parse(("\n" if layout == "lines" else "").join(blocks))
    assert not findings
    encoded = D.encode(episode)
    wanted = [
        weight
        for block, weight in zip(blocks, expected, strict=True)
        for _ in naive_mask("mypt", block)[0]
    ]
    assert encoded.loss.tolist() == wanted


# What people call the model's own blocks and thoughts, dialect by dialect.
OWN = {
    "mypt": ({"assistant"}, {"think"}),
    "mypt-3b": ({"assistant"}, set()),
    "gabgpt": ({"assistant", "think"}, {"think"}),
    "praxis": ({"assistant"}, set()),
    "usf-omega": ({"assistant"}, {"reasoning", "self_reflection"}),
    "chatml": ({"assistant"}, set()),
    "llama3": ({"assistant"}, set()),
    "mistral": ({"assistant"}, set()),
    "mistral-v13": ({"assistant"}, {"think"}),
    "qwen3": ({"assistant"}, {"think"}),
    "harmony": ({"analysis", "commentary", "call", "final"}, {"analysis"}),
}
RESULTS = {"tout", "result"}  # of the system, inside of the model's blocks
CALLS = {
    "mypt": "toolcall",
    "mypt-3b": "toolcall",
    "praxis": "tin",
    "usf-omega": "tool_calls",
    "llama3": "call",
    "mistral": "calls",
    "mistral-v13": "call",
    "qwen3": "tool_call",
    "harmony": "call",
}


def naive_kind(d: mypt_spec.Dialect, found: list[Segment], i: int) -> str:
    """Returns what people would call a segment that the model writes: it looks at its neighbours."""

    def tag(n: int) -> Terminal | None:
        return d.table.terminals.get(found[n].event.terminal)

    def inside(n: int) -> str:
        if OWN[d.name][1] & set(found[n].inside):
            return "thought"
        return "call" if CALLS.get(d.name) in found[n].inside else ""

    if kind := inside(i):
        return kind
    at, terminal = i, tag(i)
    if terminal is None:
        return "answer"
    if terminal.opens:  # the first that is no thought and no header: what the block begins with
        at += 1
        while at < len(found) and (inside(at) == "thought" or _header(tag(at), inside(at))):
            at += 1
    else:  # the last that is no end: what the block ends with
        while at >= 0 and not inside(at) and (closed := tag(at)) and not closed.opens:
            at -= 1
    return "call" if 0 <= at < len(found) and inside(at) == "call" else "answer"


def _header(terminal: Terminal | None, kind: str) -> bool:
    return terminal is not None and bool(terminal.opens) and not kind


def naive_empty(d: mypt_spec.Dialect, found: list[Segment], i: int) -> bool:
    """Returns whether a segment is a tag of a thought that has nothing between its tags."""
    thoughts, terminal = OWN[d.name][1], d.table.terminals.get(found[i].event.terminal)
    if terminal is None or not thoughts & set(found[i].inside):
        return False
    other = i + 1 if terminal.opens else i - 1
    if not 0 <= other < len(found):
        return True
    return found[other].event.terminal != "TEXT" or not thoughts & set(found[other].inside)


# Texts of results, and whether they say that a call failed.
OUTCOMES = {
    '{"error": {"type": "timeout"}}': True,
    '{"status": "error"}': True,
    '{"success": false, "n": 1}': True,
    '{"isError": true}': True,
    '{"error": null, "status": "ok"}': False,
    '{"error": "", "success": true}': False,
    '[{"error": 1}]': False,
    "4": False,
}


def with_outcomes(d: mypt_spec.Dialect, episode: Episode, outcomes: Iterator[str]) -> Episode:
    """Returns an episode whose results are others."""
    opener = result_opener(d.automaton, d.table)
    assert opener is not None
    kind = opener.opens

    def changed(message: Message) -> Message:
        if message.role == kind:
            return replace(message, parts=(Part("text", next(outcomes)),))
        parts = (replace(p, text=next(outcomes)) if p.kind == kind else p for p in message.parts)
        return replace(message, parts=tuple(parts))

    return replace(episode, messages=tuple(changed(message) for message in episode.messages))


def naive_failed(d: mypt_spec.Dialect, found: list[Segment]) -> list[bool]:
    """Returns for each segment whether it is of a call that failed, or of a tag around it."""
    opener = result_opener(d.automaton, d.table)
    assert opener is not None
    calls, waiting = list[tuple[int, int]](), list[tuple[str, int]]()
    out = [False] * len(found)

    def opens(segment: Segment) -> bool | None:
        tag = d.table.terminals.get(segment.event.terminal)
        return bool(tag.opens) if tag is not None else None

    def thinks(segment: Segment) -> bool:
        return bool(OWN[d.name][1] & set(segment.inside))

    for i, segment in enumerate(found):
        quoted = any(d.table.openers[kind].quotes for kind in segment.inside)
        if segment.event.terminal != "TEXT" or quoted:
            continue
        if segment.inside[-1] == CALLS[d.name]:
            begin = end = i
            while begin and (thinks(found[begin - 1]) or opens(found[begin - 1]) is True):
                begin -= 1
            while end + 1 < len(found) and opens(found[end + 1]) is False:
                end += 1
            items = json.loads(segment.event.text) if d.name in ("usf-omega", "mistral") else [{}]
            ids = [item.get("id", dict(found[i - 1].event.attrs).get("id", "")) for item in items]
            waiting += [(ident, len(calls)) for ident in ids]
            calls.append((begin, end))
        elif segment.inside[-1] == opener.opens and waiting:
            ident = dict(found[i - 1].event.attrs).get("id", "")
            chosen = next((pair for pair in waiting if ident and pair[0] == ident), waiting[0])
            waiting.remove(chosen)
            if OUTCOMES[segment.event.text]:
                begin, end = calls[chosen[1]]
                out[begin : end + 1] = [True] * (end + 1 - begin)
    return out


@pytest.mark.parametrize("name", sorted(set(CALLS) & set(DIALECTS)))
@settings(max_examples=examples(40))
@given(st.data())
def test_failed_calls_are_not_trained(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(episodes(name))
    assume(any(CALLS[name] in s.inside for s in d.segments(episode)))
    outcomes = iter(lambda: data.draw(st.sampled_from([*OUTCOMES])), "")
    episode = with_outcomes(d, episode, outcomes)
    found = d.segments(episode)
    failed = naive_failed(d, found)
    for base in ("model", "calls", "trl+last"):
        mask = f"{base}+no-failed-calls"
        encoded, usual = d.encode(episode, mask=mask), d.segments(episode, mask=base)
        assert encoded.ids.tolist() == [i for s in usual for i in s.ids]
        expected = [
            0 if off and naive_kind(d, found, i) == "call" else one
            for i, (segment, off) in enumerate(zip(usual, failed, strict=True))
            for one in segment.losses
        ]
        assert encoded.loss.tolist() == expected, mask


def naive_policy(d: mypt_spec.Dialect, episode: mypt_spec.Episode, name: str) -> list[int]:
    """The loss by a mask, from where each segment is, and not from the losses of the table."""
    own, thoughts = OWN[d.name]
    found = d.segments(episode)
    opened = 0  # the segment at which the last turn begins
    for i, s in enumerate(found):
        terminal = d.table.terminals.get(s.event.terminal)
        question = not (found[i + 1 :] and found[i + 1].event.terminal == "RESPONSE_OPEN")
        if terminal and terminal.opens == "user" and s.inside == ("user",) and question:
            opened = i
    loss: list[int] = []
    for i, s in enumerate(found):
        terminal = d.table.terminals.get(s.event.terminal)
        header = terminal is not None and bool(terminal.opens) and len(s.inside) == 1
        in_own = bool(s.inside) and s.inside[0] in own and not RESULTS & set(s.inside)
        whole = [int(in_own or (not s.inside and s.losses[0]))] * len(s.ids)
        if "trl" in name and header:
            whole = [0] * len(s.ids)
        names = name.split("+")
        chosen = whole if {"trl", "all-assistant"} & set(names) else s.losses
        off = "last" in names and i < opened
        off |= "no-think" in names and bool(thoughts & set(s.inside))
        off |= "calls" in names and naive_kind(d, found, i) != "call"
        off |= "answers" in names and naive_kind(d, found, i) != "answer"
        off |= "no-empty-think" in names and naive_empty(d, found, i)
        chosen = [0] * len(s.ids) if off else chosen
        loss += chosen
    return loss


@pytest.mark.parametrize("name", sorted(set(OWN) & set(DIALECTS)))
@settings(max_examples=examples(12))
@given(st.data())
def test_masks_agree_with_naive_ones(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(episodes(name))
    usual = d.encode(episode)
    masks = ("model", "trl", "all-assistant", "last", "no-think", "trl+last", "last+no-think")
    kinds = (
        "calls",
        "answers",
        "no-empty-think",
        "trl+calls",
        "all-assistant+answers",
        "calls+last",
    )
    for mask in (*masks, *kinds):
        encoded = d.encode(episode, mask=mask)
        assert encoded.ids.tolist() == usual.ids.tolist()
        assert encoded.loss.tolist() == naive_policy(d, episode, mask), mask
        assert [loss for s in d.segments(episode, mask=mask) for loss in s.losses] == (
            encoded.loss.tolist()
        )
    for less in ("last", "no-think", "calls", "answers", "no-empty-think"):
        assert (d.encode(episode, mask=less).loss <= usual.loss).all()
    # Each trained token is of one kind.
    calls, rest, answers = (
        d.encode(episode, mask=m).loss for m in ("calls", "no-think", "answers")
    )
    assert (calls + answers == rest).all()
    header_less, whole = (d.encode(episode, mask=m).loss for m in ("trl", "all-assistant"))
    assert (header_less <= whole).all()


_NAMED = re.compile(r'\{"name": "(?:[^"\\]|\\.)*"(?:, "(?:arguments|parameters)": )?')


def naive_arguments(name: str, body: str) -> tuple[int, int] | None:
    """Returns where the arguments of the only call in a body are; None if it has several calls."""
    if name in ("mypt-3b", "harmony", "mistral-v13"):
        return 0, len(body)
    if name in ("usf-omega", "mistral"):
        items = json.loads(body)
        if len(items) != 1:
            return None
        begin = body.index('"arguments": ') + len('"arguments": ')
        if name == "usf-omega":
            return begin, len(body) - len("}}]")
        return begin, body.rindex(', "id": ') if "id" in items[0] else len(body) - len("}]")
    head = _NAMED.match(body)
    assert head is not None
    return head.end(), len(body) - 1


@pytest.mark.parametrize("name", sorted(set(CALLS) & set(DIALECTS)))
@settings(max_examples=examples(40))
@given(st.data())
def test_arguments_are_not_trained(name: str, data: st.DataObject) -> None:
    """Of the tokens of the whole text, those that begin in arguments."""
    d = mypt_spec.dialect(name)
    episode = data.draw(episodes(name))
    usual, encoded = (d.encode(episode, mask=mask) for mask in ("model", "no-arguments"))
    assert encoded.ids.tolist() == usual.ids.tolist()
    spans, at = [], 0
    for segment in d.segments(episode):
        text = segment.event.text
        quoted = any(d.table.openers[kind].quotes for kind in segment.inside)
        is_body = segment.event.terminal == "TEXT" and segment.inside[-1:] == (CALLS[name],)
        if is_body and not quoted:
            span = naive_arguments(name, text)
            assume(span is not None)
            assert span is not None
            begin, end = (at + len(text[:n].encode()) for n in span)
            spans.append(range(begin, end))
        at += len(text.encode())
    expected, at = [], 0
    for token, loss in zip(usual.ids.tolist(), usual.loss.tolist(), strict=True):
        expected.append(0 if any(at in span for span in spans) else loss)
        at += len(d.tokenizer.decode_bytes([token]))
    assert encoded.loss.tolist() == expected
    segments = d.segments(episode, mask="no-arguments")
    assert [loss for s in segments for loss in s.losses] == expected


def test_arguments_as_tags_and_in_lists() -> None:
    coder = mypt_spec.dialect("qwen3-coder")
    episode, findings = coder.read(
        chat(
            user("a"),
            calls(call("f", {"q": "x"}, id="c")),
            tool("1", tool_call_id="c"),
            assistant("b"),
        )
    )
    assert episode is not None, findings
    encoded = coder.encode(episode, mask="calls+no-arguments")
    text = coder.tokenizer.decode(encoded.ids[encoded.loss == 1])
    assert "<function=f>\n" in text
    assert "<parameter" not in text
    assert "</function>\n</tool_call>" in text
    two = json.dumps([{"name": n, "arguments": {"a": [1]}, "id": "call00000"} for n in "fg"])
    assert [two[a:b] for a, b in argument_spans(two, "functions")] == ['{"a": [1]}'] * 2
    assert argument_spans('{"name": "f"}', "call") == [(12, 12)]


def test_masks_of_a_chatml_record() -> None:
    """<|im_start|> assistant \\n Yes . <|im_end|> \\n, of two turns."""
    d = mypt_spec.dialect("chatml")
    messages = [("user", "Hi"), ("assistant", "Yes."), ("user", "Hi"), ("assistant", "Yes.")]
    episode, _ = d.read({"messages": [{"role": r, "content": c} for r, c in messages]})
    assert episode is not None
    size = len(d.encode(episode)) // 2
    user = size - 8
    wanted = {
        "model": [0, 0, 0, 0, 1, 1, 1, 0],
        "trl": [0, 0, 0, 0, 1, 1, 1, 1],
        "all-assistant": [1, 1, 1, 1, 1, 1, 1, 1],
    }
    for mask, tail in wanted.items():
        assert d.encode(episode, mask=mask).loss.tolist() == ([0] * user + tail) * 2
        alone = d.encode(episode, mask=f"{mask}+last" if mask != "model" else "last").loss.tolist()
        assert alone == [0] * (size + user) + tail


def test_results_begin_no_turn() -> None:
    """Calls of the last turn are part of the last answer, though results are in a block of a user."""
    d = mypt_spec.dialect("qwen3")
    call = {"id": "a", "type": "function", "function": {"name": "t", "arguments": {}}}
    turn = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "4"},
        {"role": "assistant", "content": "Yes."},
    ]
    once, twice = (d.read({"messages": turn * n})[0] for n in (1, 2))
    assert once is not None
    assert twice is not None
    usual = d.encode(once).loss.tolist()
    assert d.encode(once, mask="last").loss.tolist() == usual
    assert d.encode(twice, mask="last").loss.tolist() == [0] * len(usual) + usual


@pytest.mark.parametrize("name", ["", "all", "trl+model", "last+last", "trl+all-assistant", "trl+"])
def test_unknown_masks_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="masks are model, trl"):
        Mask.from_name(name)


def test_masks_have_one_name() -> None:
    assert [str(Mask.from_name(n)) for n in MASKS] == [*MASKS]
    assert str(Mask.from_name("no-think+last+trl")) == "trl+last+no-think"
    assert str(Mask.from_name("model+last")) == "last"
    assert str(Mask.from_name("answers,calls")) == "no-think"
    assert str(Mask.from_name("no-failed-calls+answers")) == "answers"
    assert str(Mask.from_name("no-failed-calls,calls")) == "calls+no-failed-calls"
    assert str(Mask.from_name("calls+no-think+no-empty-think,last")) == "calls+last"


SEEN = "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant"
ASKED = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call><|im_end|>'
MIXED = chat(
    user("a"),
    calls(call("f", {}, id="call00000"), content="Let me see."),
    tool("1", tool_call_id="call00000"),
    calls(call("f", {}, id="call00001")),
    tool("2", tool_call_id="call00001"),
    assistant("b"),
)


@pytest.mark.parametrize(
    ("name", "mask", "trained"),
    [
        ("qwen3", "calls", ["\n" + ASKED, ASKED]),
        ("qwen3", "answers", ["Let me see.", "b<|im_end|>"]),
        ("mistral", "answers", ["Let me see.", "b</s>"]),
        ("harmony", "answers", [SEEN, "<|channel|>final<|message|>b<|return|>"]),
    ],
)
def test_calls_and_answers(name: str, mask: str, trained: list[str]) -> None:
    """The tag that ends a message of calls is trained with the calls: a model must stop there."""
    d = mypt_spec.dialect(name)
    episode, findings = d.read(MIXED)
    assert episode is not None, findings
    encoded = d.encode(episode, mask=mask)
    out: list[list[int]] = []
    last = 0
    for token, loss in zip(encoded.ids.tolist(), encoded.loss.tolist(), strict=True):
        if loss and not last:
            out.append([])
        if loss:
            out[-1].append(token)
        last = loss
    texts = [d.tokenizer.decode(ids) for ids in out]
    assert texts == trained


def test_results_belong_to_the_call_of_their_id() -> None:
    """Also where they come in another order than the calls, as a custom format may have them."""
    d = mypt_spec.dialect("mistral")
    texts = [json.dumps([{"name": "f", "arguments": {}, "id": f"call0000{n}"}]) for n in "01"]
    asked = [Message("assistant", (Part("calls", text),)) for text in texts]
    failed, fine = '{"error": "x"}', "4"
    answers = [
        Message("result", (Part("text", text),), (("id", f"call0000{n}"),))
        for n, text in (("1", failed), ("0", fine), ("2", failed))
    ]
    episode = Episode("mistral", (*asked, *answers))
    assert [*d.failed_calls(episode)] == [1]
    assert [*d.failed_calls(replace(episode, messages=(*asked, answers[2])))] == [0]
