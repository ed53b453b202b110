"""A warning when the refused mass says that the format is strange to the model."""

from __future__ import annotations

import pytest

import mypt_spec

pytest.importorskip("torch")

from mypt_infer.generate.generate import generate
from mypt_infer.generate.generation import Generation, Step
from mypt_infer.generate.llama import LlamaConfig
from mypt_infer.generate.strange import STEPS, RefusedMass
from tests.support.tiny_models import random_model

D = mypt_spec.dialect("gabgpt")
PROMPT = [50257, *D.tokenizer.encode("Hi")]


def generation(mass: float, steps: int) -> Generation:
    ids = [D.tokenizer.special["<|assistant|>"], *D.tokenizer.encode(" yes" * (steps - 1))]
    return Generation(D, PROMPT, [Step(token, 0, mass) for token in ids])


@pytest.mark.parametrize(
    ("mass", "steps", "warned"),
    [(0.3, STEPS, True), (0.3, STEPS - 1, False), (0.1, 500, False), (float("nan"), 500, False)],
)
def test_when_it_warns(mass: float, steps: int, warned: bool) -> None:
    assert bool(RefusedMass([generation(mass, steps)]).warning) is warned


def test_it_names_the_format_and_where() -> None:
    warning = RefusedMass([generation(0.3, 30), generation(0.3, 30)]).warning
    assert "'gabgpt'" in warning
    assert "30%" in warning
    assert "after <|assistant|> (30%)" in warning
    assert "--dialect" in warning


def test_forced_steps_do_not_count() -> None:
    strange = generation(0.9, STEPS - 1)
    strange.steps += [Step(D.tokenizer.special["<|end|>"], 0, None)] * 9
    assert not RefusedMass([strange]).warning


def test_a_model_that_never_saw_the_format() -> None:
    """A random model gives about all to text, where tags have to come; text itself is allowed."""
    model = random_model(LlamaConfig(D.tokenizer.vocab_size, 8, 16, 1, 2, 1), 0)
    answers = generate(model, [PROMPT] * (2 * STEPS), dialect=D, max_new_tokens=4, seed=1)
    warning = RefusedMass(answers).warning
    assert "<|user|>" in warning
