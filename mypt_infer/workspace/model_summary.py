"""Summarizes a text with a model, under the grammar without tools, within a budget.

Input: a model and a dialect. Output: a function from a text to its summary, which the tool
workspace.summarize calls.
"""

from collections.abc import Callable

import torch

import mypt_spec
from mypt_infer.decode.decoder import Decoder
from mypt_infer.generate.generate import generate
from mypt_infer.generate.loop import Model, positions
from mypt_infer.run_format import format_of

REQUEST = "Summarize the text in a few sentences."


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
    The model reads the first `max_text_tokens` tokens of a text, or as many as it has positions
    for, and a summary ends legally within `max_new_tokens`. The model may think; its thoughts are
    no part of the summary. Raises BudgetError at once if no answer can be that short, and
    ValueError if the model has no position for a text.
    """
    decoder = Decoder(
        dialect, max_think_tokens=None if max_new_tokens < 16 else max_new_tokens // 2
    )
    d = decoder.dialect
    messages = d.adapter.SCHEMA.messages

    def episode_for(text: str) -> mypt_spec.Episode:
        message = {"role": "user", "content": REQUEST}
        harmless = format_of(dialect).harmless(text)
        if text and "context" in d.adapter.SCHEMA.roles["user"]:
            message["context"] = harmless
        else:
            message["content"] = f"{REQUEST}\n\n{harmless}"
        record = {messages: [message]} | (
            {"system": "You summarize texts."} if "system" in d.adapter.SCHEMA.top else {}
        )
        episode, findings = d.read(record)
        if episode is None:
            raise ValueError(findings[0].message)
        return episode

    decoder.start(episode_for("x"), max_new_tokens=max_new_tokens)
    most = positions(model)
    room = None if most is None else most - max_new_tokens
    if room is not None and len(decoder.ids_of(episode_for("x"))) > room:
        raise ValueError(
            f"the model has {most} positions: too few for a text and a summary of {max_new_tokens}"
        )

    def summary(text: str) -> str:
        ids = d.tokenizer.encode(text)
        length = min(len(ids), max_text_tokens)
        while True:
            if length < len(ids):
                text = d.tokenizer.decode_bytes(ids[:length]).decode("utf-8", "ignore")
            prompt = decoder.ids_of(episode_for(text))
            if room is None or len(prompt) <= room:
                break
            # Text that is written so that it spells no tag has more tokens than before.
            length = max(0, min(length - 1, length - (len(prompt) - room)))
        generation = generate(
            model,
            [prompt],
            decoder=decoder,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            device=device,
        )[0]
        episode, _ = generation.episode
        assert episode is not None
        last = next(m for m in reversed(episode.messages) if any(p.kind == "text" for p in m.parts))
        return "".join(p.text for p in last.parts if p.kind == "text").strip()

    return summary
