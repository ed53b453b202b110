"""Reads the prompt of a command or a server: a record, or serialised text, to token ids."""

from __future__ import annotations

import json
from typing import Any

from mypt_spec import Dialect, Finding
from mypt_spec.encoder import encode_events


def read_prompt(dialect: Dialect, text: str) -> tuple[list[int], list[Any]]:
    """Returns the ids of a prompt, and the tools that it declares.

    The prompt is a record, or serialised text in any layout, which declares none. Raises ValueError
    saying where it is wrong.
    """
    from mypt_infer.decode.prompt import opening, prompt_ids

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
        return prompt_ids(dialect, episode), dialect.adapter.tools(episode) or []
    outcome = dialect.check_prefix(text.removesuffix("\n"))
    _refuse(outcome.findings, "text")
    ids = [int(i) for i in encode_events(outcome.events, dialect.table, dialect.tokenizer).ids]
    return ids + opening(dialect, ids), []


def _refuse(findings: list[Finding], noun: str) -> None:
    errors = [f for f in findings if f.severity == "error"]
    if errors:
        first = errors[0]
        place = first.pointer or (f"character {first.span[0]}" if first.span else "")
        raise ValueError(
            f"the prompt is not a legal beginning as a {noun}: {first.code} "
            f"{first.message}{f' ({place})' if place else ''}"
        )
