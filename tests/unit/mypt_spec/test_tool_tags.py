"""Definitions as tags: texts in them that look like values of Python, and are none."""

from __future__ import annotations

import pytest

from mypt_spec.bodies.tool_tags import read_tool_tags


@pytest.mark.parametrize("text", ["['a', {[]: 1}]", "['a', 1]", "['a'", "[1, {[]: 1}]", "1" * 9000])
def test_a_text_that_is_no_list_of_strings_stays_text(text: str) -> None:
    of = f"<parameter>\n<name>q</name>\n<title>{text}</title>\n</parameter>"
    whole = f"<function>\n<name>f</name>\n<parameters>\n{of}\n</parameters>\n</function>"
    (tool,) = read_tool_tags(whole)
    assert tool["function"]["parameters"]["properties"]["q"]["title"] == text
