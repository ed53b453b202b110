"""What mypt-3b has and other dialects do not: plain-text tags with names, and white space that
belongs to tags.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import Episode, Message, Part
from tests.support.strategies import any_text, episodes, lines_of, records

D = mypt_spec.dialect("mypt-3b")
# grammar/mypt_3b/SPEC.md, section 1.
TAG = re.compile(
    r'\n<toolcall name="[^"]*">\n|\n</toolcall>\n|<toolresult name="[^"]*">\n|\n</toolresult>|</?(?:system|context|user|assistant)>'
)


@given(episodes("mypt-3b"), st.data())
def test_any_white_space_around_tags_is_read(episode: Episode, data: st.DataObject) -> None:
    """Every line end of a tag replaced by any white space: the same Episode, a warning for each
    change, and a fix.
    """
    gap = st.text(" \t\n\r\u2028\xa0", max_size=3)
    text = D.serialize(episode)
    changed = ""
    at = 0
    for match in TAG.finditer(text):
        head, core, tail = re.fullmatch(r"(\n?)(<.*>)(\n?)", match[0]).groups()  # type: ignore[union-attr]
        changed += (
            text[at : match.start()]
            + (data.draw(gap) if head else "")
            + core
            + (data.draw(gap) if tail else "")
        )
        at = match.end()
    again, findings = D.parse(changed)
    assert again == episode
    assert {f.code for f in findings} <= {"MYP230"}
    assert bool(findings) == (changed != text)
    for finding in sorted(findings, key=lambda f: f.span or (0, 0), reverse=True):
        assert finding.fix is not None
        ((start, end, new),) = finding.fix.edits
        changed = changed[:start] + new + changed[end:]
    assert changed == text


@given(episodes("mypt-3b"), any_text("mypt-3b"))
def test_any_name_is_written_or_refused(episode: Episode, name: str) -> None:
    """A name that the tag cannot hold is a finding, and never written; any other comes back."""
    renamed = Episode(D.name, tuple(_renamed(message, name) for message in episode.messages))
    assume(renamed != episode)
    errors = [f for f in D.validate(renamed) if f.severity == "error"]
    if not name or re.search(r'["<>\n]', name):
        assert {f.code for f in errors} == {"MYP320"}
        for call in (D.serialize, D.encode):
            with pytest.raises(ValueError, match="no text can say this"):
                call(renamed)
    else:
        assert not errors
        assert D.parse(D.serialize(renamed))[0] == renamed
        assert D.parse_ids(D.encode(renamed).ids)[0] == renamed
        assert D.read(D.write(renamed))[0] == renamed


def _renamed(message: Message, name: str) -> Message:
    attrs = (("name", name),)
    parts = tuple(replace(p, attrs=attrs) if p.kind == "toolcall" else p for p in message.parts)
    return replace(message, parts=parts, attrs=attrs if message.role == "toolresult" else ())


@pytest.mark.parametrize(
    ("attrs", "count"),
    [((), 1), ((("nom", "t"),), 2), ((("name", "t"), ("id", "1")), 1), ((("name", ""),), 1)],
)
def test_attributes_that_no_tag_has(attrs: tuple[tuple[str, str], ...], count: int) -> None:
    text = Part("text", "x")
    call = Message("assistant", (Part("toolcall", "{}", attrs),))
    result = Message("toolresult", (Part("text", "1"),), (("name", "t"),))
    episode = Episode(
        D.name, (Message("user", (text,)), call, result, Message("assistant", (text,)))
    )
    assert [f.code for f in D.validate(episode) if f.code == "MYP320"] == ["MYP320"] * count
    for call in (D.serialize, D.encode):
        with pytest.raises(ValueError, match="no text can say this"):
            call(episode)


@given(records("mypt-3b"), any_text("mypt-3b"), any_text("mypt-3b"), st.data())
def test_the_fast_path_doubts_names(
    record: dict, name: str, other: str, data: st.DataObject
) -> None:
    for message in record["messages"]:
        if "name" in message:
            message["name"] = (
                name
                if message["role"] == "assistant_toolcall"
                else data.draw(st.sampled_from([name, other]))
            )
    line = data.draw(lines_of(record))
    checker = Checker(D)
    if not CleanFilter(checker).doubtful([line]):
        assert not checker.line(line, row=2, filename="")


@given(
    any_text("mypt-3b"),
    any_text("mypt-3b"),
    st.sampled_from(["</toolcall>", "<user>", "</assistant>", '<toolresult name="t">']),
)
def test_tags_in_json_are_escaped_and_come_back(before: str, key: str, tag: str) -> None:
    value = {key + tag: [before + tag + before, {tag: before}], "x": "\\" + tag}
    messages = [
        {"role": "user", "content": "u"},
        {"role": "assistant_toolcall", "name": "n", "arguments": value},
        {"role": "tool_result", "name": "n", "content": [value, tag]},
        {"role": "assistant", "content": "a"},
    ]
    episode, findings = D.read({"messages": messages})
    assert not findings
    assert {f.code for f in D.validate(episode)} <= {"MYP302"}
    for again in (D.parse(D.serialize(episode))[0], D.parse_ids(D.encode(episode).ids)[0]):
        assert again == episode
        assert json.dumps(D.write(again)["messages"]) == json.dumps(messages)
