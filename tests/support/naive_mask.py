"""Encodes a text and marks what is trained, a second time and as plainly as possible.

`naive_mask(dialect, text)` returns the ids and the loss that `Dialect.encode` should return for the
episode of that text. It exists to disagree: `FORMATS` is written from the words of the
`grammar/*/SPEC.md` files, and nothing of the encoder, of the automaton or of a `tokens.toml` is
used. So a mistake in any of these is a difference, and a new dialect needs an entry here.

A text is cut at its tags. Each tag says whether it is trained and whether what follows it is:
in ChatML, `<|im_start|>assistant` and its line end are masked and turn training on, and `<|im_end|>`
is as its block and turns training off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mypt_spec.tokenizer.tokenizer import gpt2

MASKED, TRAINED, SAME = 0, 1, -1  # SAME: as what comes before
FIRST_ID = 50257  # after GPT-2's vocabulary

Rule = tuple[str, int, int]  # the pattern of a tag, its loss, and the loss of what follows it
_GPT2 = gpt2().encode_ordinary
_NO_META: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Format:
    """What is trained in a dialect.

    `special` are the tags of one id in the order of their ids. Of `rules` the first one that matches
    counts; special tags that none of them names change nothing. A tag and each text between two tags
    are encoded by themselves; with `joined`, so is what lies between two special tags, as long as
    its loss stays the same. Rules of `prompted` come first where a record has such an option.
    """

    special: tuple[str, ...]
    rules: tuple[Rule, ...]
    joined: bool = False
    prompted: Mapping[tuple[str, object], Rule] = field(default_factory=dict)


def _pairs(opening: str, closing: str, *names: str) -> tuple[str, ...]:
    return tuple(tag.format(name) for name in names for tag in (opening, closing))


_MYPT = (
    *("system", "user", "assistant", "user_context", "assistant_context"),
    *("toolcall", "toolresult", "think", "cite"),
)
_OMEGA = (
    *("message", "reasoning", "tool_calls", "self_reflection"),
    *("functions", "tool_call_id", "tool_name"),
)
_QWEN3 = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_SYSTEM_TOOLS = _pairs("[{}]", "[/{}]", "SYSTEM_PROMPT", "AVAILABLE_TOOLS")
_IM_END = (r"<\|im_end\|>", SAME, MASKED)  # the line end after it is the system's
_MISTRAL: tuple[Rule, ...] = (
    (r"\[(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS)\]", MASKED, MASKED),
    (r"\[/(?:INST|TOOL_RESULTS)\]", MASKED, TRAINED),
)

FORMATS = {
    "mypt": Format(
        (*_pairs("<myPT_{}>", "</myPT_{}>", *_MYPT), "<myPT_eot>"),
        (
            ("<myPT_assistant>", TRAINED, TRAINED),
            ("</myPT_assistant>", SAME, MASKED),
            ("<myPT_eot>", TRAINED, MASKED),
        ),
    ),
    "mypt-3b": Format(
        (),
        (
            ("<assistant>", TRAINED, TRAINED),
            ("</assistant>", SAME, MASKED),
            (r'\n<toolcall name="[^"]*">\n|\n</toolcall>\n', SAME, SAME),
            (r'<toolresult name="[^"]*">\n|\n</toolresult>', SAME, SAME),
            ("</?(?:system|context|user)>", SAME, SAME),
        ),
    ),
    "gabgpt": Format(
        ("<|user|>", "<|think|>", "<|assistant|>", "<|end|>"),
        (
            (r"<\|user\|>", MASKED, MASKED),
            (r"<\|(?:think|assistant|end)\|>", TRAINED, TRAINED),
        ),
    ),
    "praxis": Format(
        ("[BOS]", "[EOS]", "[SEP]"),
        (
            (r"\[BOS\]assistant\n", MASKED, TRAINED),
            (r"\[BOS\]\w+\n", MASKED, MASKED),
            (r"\n\[SEP\]\n|\[EOS\]", SAME, MASKED),
            (r"<tin>\n|\n</tin>", SAME, SAME),
            ("<tout>", MASKED, MASKED),
            ("</tout>", MASKED, TRAINED),
        ),
    ),
    "usf-omega": Format(
        ("<bos>", "<eos>", "<start>", "<end>", *_pairs("<{}_start>", "<{}_end>", *_OMEGA)),
        (
            ("<start>assistant\n", MASKED, TRAINED),
            (r"<start>\w+\n", MASKED, MASKED),
            ("<functions_start>\n|\n<functions_end>\n", MASKED, MASKED),
            ("\n?<end>\n", SAME, MASKED),
            (rf"<(?:{'|'.join(_OMEGA)})_end>\n", SAME, SAME),
            ("<eos>", TRAINED, MASKED),
        ),
    ),
    "chatml": Format(
        ("<|im_start|>", "<|im_end|>"),
        (
            (r"<\|im_start\|>assistant\n", MASKED, TRAINED),
            (r"<\|im_start\|>\w+\n", MASKED, MASKED),
            _IM_END,
        ),
        joined=True,
    ),
    "qwen3": Format(
        ("<|im_start|>", "<|im_end|>", *_QWEN3, "<think>", "</think>"),
        ((r"<\|im_start\|>assistant\n", MASKED, TRAINED), _IM_END),
        joined=True,
        prompted={
            # Prompts then end with an empty thought, so the model writes none.
            ("enable_thinking", False): (
                r"<\|im_start\|>assistant\n<think>\n\n</think>\n\n",
                MASKED,
                TRAINED,
            )
        },
    ),
    "llama3": Format(
        (
            *("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
            *("<|eot_id|>", "<|python_tag|>", "<|eom_id|>"),
        ),
        (
            (r"<\|start_header_id\|>assistant<\|end_header_id\|>\n\n", MASKED, TRAINED),
            (r"<\|start_header_id\|>\w+<\|end_header_id\|>\n\n", MASKED, MASKED),
            (r"<\|eo[tm]_id\|>", SAME, MASKED),
        ),
    ),
    "mistral": Format(
        (
            *("<s>", *_SYSTEM_TOOLS, "[INST]", "[/INST]", "</s>", "[TOOL_CALLS]"),
            *("[TOOL_RESULTS]", "[TOOL_CONTENT]", "[/TOOL_RESULTS]"),
        ),
        _MISTRAL,
    ),
    "mistral-v13": Format(
        (
            *("<s>", *_SYSTEM_TOOLS, "[INST]", "[/INST]", "</s>", "[THINK]", "[/THINK]"),
            *("[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
        ),
        _MISTRAL,
    ),
    "glm": Format(
        (
            *("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<think>", "</think>"),
            *(
                "<tool_call>",
                "</tool_call>",
                "<|observation|>",
                "<tool_response>",
                "</tool_response>",
            ),
        ),
        (
            (r"<\|assistant\|>\n", MASKED, TRAINED),
            (r"<\|(?:user|observation)\|>", SAME, MASKED),  # the stop of the answer before it
        ),
        joined=True,
    ),
    "harmony": Format(
        (
            *("<|start|>", "<|message|>", "<|channel|>", "<|end|>"),
            *("<|return|>", "<|constrain|>", "<|call|>"),
        ),
        (
            (r"<\|end\|>(?!<\|start\|>assistant)", MASKED, MASKED),  # an earlier answer's
            (r"<\|start\|>(?:system|developer|user|functions\.)", MASKED, MASKED),
            # Masked after the user, trained after a thought.
            (r"<\|start\|>assistant", SAME, TRAINED),
            (r"<\|(?:return|call)\|>", SAME, MASKED),
        ),
        joined=True,
    ),
}


def naive_mask(
    dialect: str,
    text: str,
    *,
    meta: Mapping[str, Any] = _NO_META,
    encode: Callable[[str], list[int]] = _GPT2,
    first_id: int = FIRST_ID,
) -> tuple[list[int], list[int]]:
    """Returns the ids and the loss of a legal text in the compact layout.

    `meta` is the metadata of the record, whose options of the chat template count. `encode` returns
    the ids of a text without tags, and `first_id` is that of the first special tag.
    """
    form = FORMATS[dialect]
    ids: list[int] = []
    losses: list[int] = []
    options = meta.get("chat_template_kwargs", {})
    for piece, loss in _encoded_alone(form, _pieces(form, text, options)):
        special = piece in form.special
        new = [first_id + form.special.index(piece)] if special else encode(piece)
        ids += new
        losses += [loss] * len(new)
    return ids, losses


def _pieces(form: Format, text: str, options: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yields tags and the texts between them, each with its loss."""
    prompted = [rule for (key, value), rule in form.prompted.items() if options.get(key) is value]
    named = (*prompted, *form.rules)
    others = "|".join(map(re.escape, form.special))
    rules: tuple[Rule, ...] = (*named, (others, SAME, SAME)) if others else named
    trained, at = MASKED, 0
    for match in re.finditer("|".join(f"({pattern})" for pattern, _, _ in rules), text):
        yield text[at : match.start()], trained
        _, loss, following = rules[(match.lastindex or 0) - 1]
        yield match[0], trained if loss == SAME else loss
        trained = trained if following == SAME else following
        at = match.end()
    yield text[at:], trained


def _encoded_alone(form: Format, pieces: Iterator[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Yields special tags, and the texts that are encoded by themselves, each with its loss."""
    special = "|".join(map(re.escape, form.special))
    run, before = "", MASKED
    for piece, loss in pieces:
        for part in re.split(f"({special})", piece) if special else [piece]:
            if run and (not form.joined or part in form.special or loss != before):
                yield run, before
                run = ""
            if part in form.special:
                yield part, loss
            else:
                run, before = run + part, loss
    if run:
        yield run, before
