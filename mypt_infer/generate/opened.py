"""Opens the model and reads the prompt that a command or a request names. Starts without torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mypt_spec
from mypt_infer.decode.prompt import opening, prompt_ids
from mypt_lint.derive.of_model import dialect_of_model, vocabulary_of_model
from mypt_model.folder import is_plain, newest
from mypt_model.shape import ModelError
from mypt_spec import Dialect, Finding, VocabularyError
from mypt_spec.encoder import encode_events

if TYPE_CHECKING:
    from mypt_infer.generate.llama import Llama


def spoken(
    folder: str | Path, *, choice: str | None, vocabulary: str | Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[str, Dialect]:  # fmt: skip
    """Returns (name or folder, dialect) of a model, "mypt" where its checkpoint does not say.

    Without `choice`, that of a model with a chat template is the format that the template writes;
    `say` is told what is proved of it.

    The vocabulary is by default the one beside the model: the copy that training keeps, or the
    `tokenizer.json` or `tekken.json` of a model that another program made. Raises ModelError where
    the checkpoint contradicts `choice`, for an unknown dialect, for a vocabulary that cannot be
    read, where neither of them names the format, and where there is no model at all.
    """
    is_plain(newest(Path(folder)))  # raises where there is no config.json
    recorded = dialect_of_model(folder, choice, say)
    name = recorded or "mypt"
    try:
        loaded = mypt_spec.dialect(name, vocabulary=vocabulary or vocabulary_of_model(folder))
    except (KeyError, VocabularyError) as error:
        raise ModelError(error.args[0]) from None
    tags = loaded.vocabulary.special if loaded.vocabulary else {}
    if tags and not recorded and not tags.keys() & loaded.tokenizer.special.keys():
        raise ModelError(
            f"{folder}: does not say its format, and its vocabulary has no tag of {name}; name the "
            "format with --dialect, such as chatml or qwen3"
        )
    return name, loaded


def loaded(folder: str | Path, device: str) -> Llama:
    """Returns the model in a folder on a device. Raises ModelError where it cannot be had there."""
    from mypt_infer.generate.llama import load

    try:
        return load(folder).to(device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"--device {device}: {str(error).splitlines()[0]}") from None


def read_prompt(
    dialect: Dialect, text: str, history: str = "official"
) -> tuple[list[int], list[Any], Any]:
    """Returns the ids of a prompt, the tools that it declares, and its `tool_choice`.

    The prompt is a record, of which `history` says which thoughts are kept, or serialised text in
    any layout, which declares none. Raises ValueError saying where it is wrong.
    """
    if text.lstrip().startswith("{"):
        try:
            record = json.loads(text)
        except ValueError as error:
            if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
                raise ValueError(
                    "the prompt is more than one JSON value; give one record, such as a line of "
                    "the file"
                ) from None
            raise ValueError(f"the prompt is not JSON: {error}") from None
        episode, findings = dialect.read(record)
        _refuse(findings, "record")
        assert episode is not None
        (written,) = dialect.trained(episode, history=history)
        choice = record.get("tool_choice")
        return prompt_ids(dialect, written), dialect.adapter.tools(episode), choice
    outcome = dialect.check_prefix(text.removesuffix("\n"))
    _refuse(outcome.findings, "text")
    ids = [int(i) for i in encode_events(outcome.events, dialect.table, dialect.tokenizer).ids]
    return ids + opening(dialect, ids), [], None


def _refuse(findings: list[Finding], noun: str) -> None:
    errors = [f for f in findings if f.severity == "error"]
    if errors:
        first = errors[0]
        place = first.pointer or (f"character {first.span[0]}" if first.span else "")
        raise ValueError(
            f"the prompt is not a legal beginning as a {noun}: {first.code} "
            f"{first.message}{f' ({place})' if place else ''}"
        )
