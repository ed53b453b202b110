"""Ids and masks that others have published: of three models, by the digest of their ids.

They are those of one chat in `tests/golden_renderer_outputs.json` of PrimeIntellect-ai/renderers:
what it renders with the tokenizers of Qwen3-8B, Llama-3.2-1B-Instruct and gpt-oss-20b.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support import harmony
from tests.support.build import assistant, system, user
from tests.support.model_vocabularies import llama, qwen

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Return the weather for a city.", "parameters": SCHEMA}  # fmt: skip
ASKED = [system("You are concise."), user("What is 2+2?")]
TOOLS = {"tools": [{"type": "function", "function": WEATHER}]}
FOUR, PRIOR = assistant("Four."), assistant("Prior answer.")
THOUGHT = {"reasoning_content": "Two plus two equals four."}
AGAIN = [user("And 3+3?"), FOUR]
DATE = {"chat_template_kwargs": {"date_string": "26 Jul 2024"}}
START = {"chat_template_kwargs": {"conversation_start_date": "2025-01-15"}}


@dataclass(frozen=True)
class Case:
    """A chat: how many ids the first of it and all of it have, and their digests."""

    dialect: str
    record: dict[str, Any]
    first: int
    prompt: str
    whole: int = 0
    sha256: str = ""
    unlearnt: int = 0  # ids after the last one that is trained


QWEN_PROMPT = "080aab54d0ee370f49c843eae30a493eabc252eca32ef5ecc0b3b1ddc72ae500"
CASES = {
    "qwen2.5": Case(
        "qwen3", {"messages": [*ASKED, FOUR]} | TOOLS, 158, QWEN_PROMPT,
        162, "7e2438ca9883ff87c221f58e1c0d88b43689ffc815ffc8cdbbcde7315dc518fb", 1,
    ),
    "qwen3": Case(
        "qwen3", {"messages": [*ASKED, FOUR | THOUGHT]} | TOOLS, 158, QWEN_PROMPT,
        172, "0a3b9ecf2923febbe4f40a14cfdf1b293e7b2e3073230ddbf5e1f00914883109", 1,
    ),
    "qwen3, the second turn": Case(
        "qwen3", {"messages": [*ASKED, PRIOR | {"reasoning_content": ""}, *AGAIN]}, 47,
        "ae61a84d8b9ad2ce6d57335f11d3b25ce73936e2abd5e4fc6ed4a75b03c2747c",
    ),
    "llama3": Case(
        "llama3", {"messages": [*ASKED, FOUR]} | TOOLS | DATE, 184,
        "bf6e3613f5731ec844e14744b434dcd3e68e619bd26ba061e7165704ed68f6ce",
        187, "a62739bb8f58556690620f7fe58e9ed4c5ad401ba1312bfea39c6cc74dedf61c",
    ),
    "llama3, the second turn": Case(
        "llama3", {"messages": [*ASKED, PRIOR, *AGAIN]} | DATE, 65,
        "192ae0293aba2c5f83fb0daba913e79aa12c1e38752efe819c3d67cb882cf058",
    ),
    # Their prompt goes on as the thought begins, which here is the model's to choose.
    "harmony": Case(
        "harmony", {"messages": [*ASKED, FOUR | THOUGHT]} | TOOLS | START, 137,
        "2b3451835637d6aab0b61ba661839c2ea87edea6c24d00f5e7729907627ae14a",
    ),
    "harmony, an answer": Case(
        "harmony", {"messages": [*ASKED, FOUR]} | TOOLS | START, 0, "",
        140, "e1d61a4419e80253f3ddcae9c9299c8afde2a6a68f198bd05e35813654a44c3b",
    ),
}  # fmt: skip


def digest(ids: list[int]) -> str:
    return hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()


DIALECTS = {"qwen3": qwen, "llama3": llama, "harmony": harmony.ours}


@pytest.mark.parametrize("name", DIALECTS)
def test_ids_are_the_published_ones(name: str) -> None:
    d = DIALECTS[name]()
    for title, case in CASES.items():
        if case.dialect != name:
            continue
        episode, findings = d.check(case.record)
        assert episode is not None
        assert [f.code for f in findings if f.severity == "error"] == [], title
        encoded = d.encode(episode)
        ids = encoded.ids.tolist()
        if case.prompt:
            assert digest(ids[: case.first]) == case.prompt, (title, d.tokenizer.decode(ids))
        if case.sha256:
            published = len(ids), digest(ids)
            assert published == (case.whole, case.sha256), (title, d.serialize(episode))
        if case.sha256 and case.first:
            learnt = case.whole - case.first - case.unlearnt
            mask = [0] * case.first + [1] * learnt + [0] * case.unlearnt
            assert encoded.loss.tolist() == mask, title
