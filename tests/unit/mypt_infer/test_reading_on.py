"""A model reads on: from a hit to its place, page by page, through long lists and documents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mypt_infer.decode import Decoder
from mypt_infer.run_format import format_of
from mypt_infer.toolbox import Tool, Toolbox, error_type
from mypt_infer.truncate_result import count_result
from mypt_infer.workspace import WorkspaceEngine, WorkspaceTools, toolbox
from mypt_infer.workspace.excerpts import snippet
from tests.support.build import write_texts
from tests.support.examples import either, examples
from tests.support.scripted import ANY, DONE, call_text, controller_of
from tests.support.vocabulary import small

SENTENCES = [f"Line {i} of the manual speaks of part {i * 7}.\n" for i in range(400)]
LONG = "The Manual\n\n" + "".join(SENTENCES)
WIDE = "手册\n\n" + "".join(f"第{i}行说明零件的用途。\n" for i in range(300))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceEngine:
    texts = {"manual.txt": LONG, "wide.txt": WIDE}
    padding = "Nothing of it matters here. " * 25
    for i in range(30):
        text = f"Rule {i}\n\n{padding}The crane {i} stops at noon." + " And so on, and so on." * 20
        texts[f"rules/rule-{i:02}.txt"] = text
    base = write_texts(tmp_path_factory.mktemp("docs"), texts)
    return WorkspaceEngine(base, tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="module")
def tools(engine: WorkspaceEngine) -> Toolbox:
    return toolbox(WorkspaceTools(engine))


def result_of(tools: Toolbox, name: str, arguments: dict[str, Any], most: int) -> Any:
    """Returns a result as a model sees it, in `most` tokens."""
    pairs = "".join(
        f', "{key}": {json.dumps(v, ensure_ascii=False)}' for key, v in arguments.items()
    )
    controller = controller_of(call_text(name, pairs) + DONE, tools, max_result_tokens=most)
    list(controller.say("Go"))
    (result,) = (m for m in controller.messages() if m["role"] == "toolresult")
    assert count_result(format_of("mypt"), result["content"]) <= most
    return result["content"]


@pytest.mark.parametrize("most", [64, 128, 512, 1024])
@pytest.mark.parametrize(("title", "text"), [("The Manual", LONG), ("手册", WIDE)])
def test_a_long_document_is_read_to_its_end(
    tools: Toolbox, title: str, text: str, most: int
) -> None:
    """Page by page, nothing missing and nothing twice, however little a result may take."""
    read, pages, enough = "", 0, either(400, 4000)
    arguments: dict[str, Any] = {"title": title}
    while len(read) <= enough or pages < 3:
        pages += 1
        page = result_of(tools, "workspace.get_doc", arguments, most)
        assert "truncated" not in page
        read += page["text"]
        if page["next"] is None:
            break
        arguments = {"title": title, "position": page["next"]}
        if "next_offset" in page:
            arguments["offset"] = page["next_offset"]
    assert text.startswith(read)
    assert len(read) == len(text) or len(read) > enough


def test_without_a_limit_pages_are_long(tools: Toolbox) -> None:
    first = tools.call("workspace.get_doc", {"title": "The Manual"})
    assert list(first) == ["doc_id", "title", "text", "position", "next", "total"]
    assert 10_000 < len(first["text"]) < len(LONG)
    rest = tools.call("workspace.get_doc", {"title": "The Manual", "position": first["next"]})
    assert first["text"] + rest["text"] == LONG
    assert (rest["position"], rest["next"]) == (first["next"], None)
    assert first["total"] == rest["total"] > first["next"]


def test_from_a_hit_to_its_place(tools: Toolbox) -> None:
    found = tools.call("workspace.search", {"query": "part 2695", "top_k": 1})["documents"][0]
    assert "part 2695" in found["text"]
    place = {"doc_id": found["doc_id"], "position": found["position"]}
    assert "part 2695" in tools.call("workspace.get_doc", place)["text"][:1100]


def test_what_is_not_there_is_said(tools: Toolbox) -> None:
    beyond = tools.call("workspace.get_doc", {"title": "The Manual", "position": 99})
    assert error_type(beyond) == "not_found"
    assert "0 to 1" in beyond["error"]["message"]
    far = {"title": "The Manual", "position": 10**30}
    assert error_type(tools.call("workspace.get_doc", far)) == "not_found"
    assert tools.call("workspace.list_docs", {"offset": 10**30})["documents"] == []
    for wrong in ({"position": -1}, {"position": "1"}, {"offset": -1}, {"offset": 1.5}):
        given = {"title": "The Manual", **wrong}
        assert error_type(tools.call("workspace.get_doc", given)) == "bad_arguments"


def test_all_that_was_found_is_shown(tools: Toolbox) -> None:
    """Five snippets in 512 tokens, each around its hit, and in 460."""
    for most in (512, 460):
        value = result_of(
            tools, "workspace.search", {"query": "crane stops noon", "top_k": 5}, most
        )
        assert value["total"] == len(value["documents"]) == 5
        assert "truncated" not in value
        assert all("stops at noon" in d["text"] for d in value["documents"])
        assert all("  " not in d["text"] and "\n" not in d["text"] for d in value["documents"])


def test_one_hit_is_shown_at_length(tools: Toolbox) -> None:
    (one,) = tools.call("workspace.search", {"query": "crane noon", "top_k": 1})["documents"]
    assert len(one["text"]) > 900
    many = tools.call("workspace.search", {"query": "crane noon", "top_k": 20})["documents"]
    assert all(len(d["text"]) <= 200 for d in many)


def test_a_long_list_is_read_to_its_end(tools: Toolbox) -> None:
    listed: list[str] = []
    arguments: dict[str, Any] = {"prefix": "Rules/", "offset": 0}
    while True:
        page = result_of(tools, "workspace.list_docs", arguments, 300)
        assert page["total"] == 30
        assert "truncated" not in page
        assert 0 < len(page["documents"]) < 10
        listed += [d["path"] for d in page["documents"]]
        if page["next"] is None:
            break
        arguments["offset"] = page["next"]
    assert listed == [f"rules/rule-{i:02}.txt" for i in range(30)]
    assert tools.call("workspace.list_docs", {})["total"] == 32
    assert tools.call("workspace.list_docs", {})["next"] is None
    nothing = {"documents": [], "total": 0, "next": None}
    assert tools.call("workspace.list_docs", {"prefix": "none/"}) == nothing


def test_the_tables_of_the_decoder_hold_the_schemas(tools: Toolbox) -> None:
    assert Decoder(small("mypt"), tools.schemas, engine="table")


def test_a_tool_that_cannot_shorten_is_shortened_by_others() -> None:
    def fails(arguments: dict[str, Any], value: Any, fits: Any) -> Any:
        raise RuntimeError

    long = {"text": "word " * 500}
    for shorten in (None, fails, lambda arguments, value, fits: long):
        box = Toolbox([Tool("f", "", ANY, lambda _: long, shorten)])
        assert result_of(box, "f", {}, 100)["truncated"] is True
        assert box.shortened("f", {}, {"text": "short"}, lambda value: True) == {"text": "short"}


# Snippets


def test_a_snippet_is_the_passage_around_the_hit() -> None:
    text = "Alpha beta.  " * 40 + "The password has\n12 characters. " + "Gamma delta. " * 40
    made = snippet(text, "Which PASSWORDS, with how many characters?", 80)
    assert made.startswith("…The password has 12 characters.")
    assert len(made) <= 80
    assert made.endswith("…")
    assert snippet("Short  text.", "anything", 80) == "Short text."
    assert snippet(text, "nothing of it", 40).startswith("Alpha beta.")
    assert "密码" in snippet("手册" * 100 + "密码有十二个字符" + "手册" * 100, "密码是什么", 40)
    assert "Straße" in snippet("x " * 100 + "Die Straße ist gesperrt. " + "y " * 100, "STRASSE straße", 40)  # fmt: skip


@given(
    st.text("ab .\n\u00dfİé漢字", max_size=300), st.text("ab \u00dfİé漢字([*", max_size=20),
    st.integers(20, 200),
)  # fmt: skip
@settings(max_examples=examples(200))
@example("手册" * 100 + "密码" + "手册" * 100, "密码", 40)  # cut on both sides, with no space
def test_a_snippet_is_a_bounded_piece_of_its_text(text: str, query: str, letters: int) -> None:
    made, whole = snippet(text, query, letters), " ".join(text.split())
    assert len(made) <= letters
    assert made.strip("…") in whole
    assert made == whole or len(whole) > letters
    assert made.strip("…") or not whole
