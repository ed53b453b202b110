"""What gabgpt has and other dialects do not: segments without closing tags, and an end tag that is
sometimes forgiven.
"""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Episode
from tests.support.strategies import episodes

D = mypt_spec.dialect("gabgpt")
# The tokens of grammar/gabgpt/SPEC.md, section 1.
TAGS = ["<|user|>", "<|think|>", "<|assistant|>", "<|end|>"]
IDS = dict(zip(TAGS, range(50257, 50261), strict=True))


def test_ids_of_the_tags() -> None:
    assert D.tokenizer.special == IDS
    assert D.tokenizer.vocab_size == 50304
    for tag, number in IDS.items():
        assert D.tokenizer.decode([number]) == tag


@given(episodes("gabgpt"), st.data())
def test_an_end_behind_other_segments_is_read_with_a_warning(
    episode: Episode, data: st.DataObject
) -> None:
    text = D.serialize(episode)
    put = 0
    changed = ""
    for event in D.lex(text):
        if event.terminal in ("THINK", "ASSISTANT") and data.draw(st.booleans()):
            changed += "<|end|>"
            put += 1
        changed += event.text
    again, findings = D.parse(changed)
    assert again == episode
    assert [f.code for f in findings] == ["MYP232"] * put
    for finding in reversed(findings):
        assert finding.fix is not None
        ((start, end, new),) = finding.fix.edits
        changed = changed[:start] + new + changed[end:]
    assert changed == text


def test_many_warnings_are_no_reason_to_stop() -> None:
    turn = "<|user|>u<|end|><|assistant|>a<|end|>"
    episode, findings = D.parse(turn * 60)
    assert [f.code for f in findings] == ["MYP232"] * 60
    assert episode is not None
    assert len(episode.messages) == 180


@given(st.lists(st.sampled_from([*TAGS, "x", " ", "\n"]), max_size=14))
def test_what_is_read_is_written_again_or_said(pieces: list[str]) -> None:
    """Whatever is not in the text that is written again was a finding."""
    text = "".join(pieces)
    episode, findings = D.parse(text)
    grammar = re.fullmatch(
        r"(?:<\|user\|>[^<]+(?:<\|think\|>[^<]*)?<\|assistant\|>[^<]*<\|end\|>)+", text
    )
    assert (grammar is not None) == (findings == [] or {f.code for f in findings} <= {"MYP314"})
    if episode is not None:
        dropped = sum(f.code == "MYP232" for f in findings)
        spaces = any(f.code == "MYP224" for f in findings)
        again = D.serialize(episode)
        assert again.count("<|end|>") == text.count("<|end|>") - dropped
        assert (again == text) == (not dropped and not spaces)
        assert re.sub(r"\s|<\|end\|>", "", again) == re.sub(r"\s|<\|end\|>", "", text)
