"""Summarizes a text with a model, under the grammar without tools, within a budget.

Input: a model and a dialect. Output: a function from a text to its summary, which the tool
workspace.summarize calls.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import mypt_spec
from mypt_infer.decode.decoder import Decoder
from mypt_infer.generate.generate import generate
from mypt_infer.generate.loop import Model
from mypt_infer.run_format import of

ASKED = "Summarize the text in a few sentences."


def summarizer(
    model: Model,
    dialect: str | mypt_spec.Dialect = "mypt",
    *,
    max_new_tokens: int = 128,
    max_text_tokens: int = 1024,
    temperature: float = 0.0,
    device: torch.device | str = "cpu",
) -> Callable[[str], str]:
    """Returns a function from a text to its summary, for `WorkspaceTools(engine, summarizer=...)`.

    The text becomes the context of the question if the format has one, else a part of the question.
    The model reads the first `max_text_tokens` tokens of a text, and a summary ends legally within
    `max_new_tokens`. The model may think; its thoughts are no part of the summary. Raises
    BudgetError at once if no answer can be that short.
    """
    decoder = Decoder(
        dialect, max_think_tokens=None if max_new_tokens < 16 else max_new_tokens // 2
    )
    d = decoder.dialect
    messages = d.adapter.SCHEMA.messages

    def asked(text: str) -> mypt_spec.Episode:
        said = {"role": "user", "content": ASKED}
        harmless = of(dialect).harmless(text)
        if text and "context" in d.adapter.SCHEMA.roles["user"]:
            said["context"] = harmless
        else:
            said["content"] = f"{ASKED}\n\n{harmless}"
        record = {messages: [said]} | (
            {"system": "You summarize texts."} if "system" in d.adapter.SCHEMA.top else {}
        )
        episode, findings = d.read(record)
        if episode is None:
            raise ValueError(findings[0].message)
        return episode

    decoder.start(asked("x"), max_new_tokens=max_new_tokens)

    def summary(text: str) -> str:
        ids = d.tokenizer.encode(text)
        if len(ids) > max_text_tokens:
            text = d.tokenizer.decode_bytes(ids[:max_text_tokens]).decode("utf-8", "ignore")
        found = generate(
            model,
            asked(text),
            decoder=decoder,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            device=device,
        )[0]
        episode, _ = found.episode
        assert episode is not None
        last = next(m for m in reversed(episode.messages) if any(p.kind == "text" for p in m.parts))
        return "".join(p.text for p in last.parts if p.kind == "text").strip()

    return summary
