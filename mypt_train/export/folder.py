"""Writes a checkpoint as a Hugging Face folder.

Input: a checkpoint of `mypt-train`. Output: its weights, tokenizer, chat template and the ids that
end a generation. The folder loads in transformers without code of this project; writing it does not
need transformers.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mypt_spec
from mypt_cli import atomic
from mypt_model.folder import CONFIG, WEIGHTS, beside, dialect_of, newest
from mypt_model.shape import ModelError, fits
from mypt_spec import Dialect, VocabularyError
from mypt_spec.states import open_blocks
from mypt_spec.table import TEXT, Terminal
from mypt_spec.tokenizer.vocabulary import COPIES
from mypt_train.export.chat_template import chat_template
from mypt_train.export.tokenizer_file import ExportError, padding, tokenizer_config, tokenizer_json


def export(
    checkpoint: str | Path,
    out: str | Path,
    *,
    dialect: str | None = None,
    vocabulary: str | Path | None = None,
) -> Path:
    """Writes a checkpoint, or the latest of a run, to the folder `out`; returns `out`.

    `out` must be new or empty. `dialect` is by default the one that the checkpoint was trained on,
    or "mypt" if the checkpoint does not say. `vocabulary` is by default the file in the checkpoint,
    or GPT-2's. Raises ExportError, before anything is written, for a folder that is no checkpoint,
    for a vocabulary of another size than the model's, and for a dialect without a chat template;
    and when the folder cannot be written.
    """
    source, out = newest(checkpoint), Path(out)
    config = _config(source)
    try:
        name = dialect_of(source, wanted=dialect, default="mypt")
        d = mypt_spec.dialect(name, vocabulary=vocabulary or beside(source, *COPIES))
    except (KeyError, VocabularyError, ModelError) as error:
        raise ExportError(error.args[0]) from None
    if not fits(config.get("vocab_size", 0), d.tokenizer.vocab_size):
        hint = "name the vocabulary that it was trained on with --vocab"
        raise ExportError(
            f"{source / CONFIG}: the model has {config.get('vocab_size')} ids, {name} has "
            f"{d.tokenizer.vocab_size}; {hint}"
        )
    shown = chat_template(d, reserved=(padding(d),))
    ends = {tag: d.tokenizer.special[tag] for tag in endings(d)}
    last = next(reversed(ends), padding(d))
    stops = {} if ends else {"stop_strings": stop_strings(d)}
    ids: dict[str, Any] = {
        "bos_token_id": None,
        "eos_token_id": list(ends.values()),
        "pad_token_id": d.tokenizer.pad,
    }
    files = {
        CONFIG: {"architectures": ["LlamaForCausalLM"], "model_type": "llama"} | config | ids,
        "generation_config.json": {"do_sample": True} | ids | stops,
        "tokenizer.json": tokenizer_json(d),
        "tokenizer_config.json": tokenizer_config(d, last),
    }
    if out.exists() and any(out.iterdir()):
        raise ExportError(f"{out}: is not empty; name another folder, or empty it")
    try:
        out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / WEIGHTS, out / WEIGHTS)
        for name, content in files.items():
            atomic.write(
                out / name, [json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"]
            )
        atomic.write(out / "chat_template.jinja", [shown.encode()])
        for name, data in (d.vocabulary.copy if d.vocabulary is not None else {}).items():
            atomic.write(out / name, [data])
    except OSError as error:
        raise ExportError(
            f"{error.filename or out}: {error.strerror or error}; delete the folder, and export "
            "again when there is room for it"
        ) from None
    return out


def endings(dialect: Dialect) -> list[str]:
    """Returns the tags after which the model writes no further; the end of the turn comes last.

    A tag counts if it is one id, and if in some state after it only the system may write, or the
    episode is over. Section "Generation" of each `grammar/*/SPEC.md` describes these tags.
    """
    table, found = dialect.table, _last_tags(dialect)
    return sorted(
        (tag for tag in found if tag in table.special),
        key=lambda tag: (found[tag], table.special[tag]),
    )


def stop_strings(dialect: Dialect) -> list[str]:
    """Returns the texts of such tags that are no single id, for a format without `endings`."""
    return sorted(tag for tag in _last_tags(dialect) if tag not in dialect.table.special)


def _last_tags(dialect: Dialect) -> dict[str, bool]:
    """Returns the tags after which the model writes no further, and whether all is over then."""
    table, machine = dialect.table, dialect.automaton
    blocks = open_blocks(machine, table)
    found: dict[str, bool] = {}
    for before, row in enumerate(machine.steps):
        if any(not table.openers[kind].body_loss for kind in blocks[before]):
            continue  # what the system writes, quotations too
        for name, state in row.items():
            terminal = table.terminals.get(name)
            if (
                terminal is not None
                and _own(terminal)
                and not any(n == TEXT or _own(table.terminals[n]) for n in machine.steps[state])
            ):
                found[terminal.shown] = found.get(terminal.shown, False) or state in machine.accepts
    return found


def _own(terminal: Terminal) -> bool:
    return terminal.by_model


def _config(source: Path) -> dict[str, Any]:
    for name in (CONFIG, WEIGHTS):
        if not (source / name).is_file():
            raise ExportError(f"{source}: has no {name}; name the folder of a checkpoint")
    try:
        config: dict[str, Any] = json.loads((source / CONFIG).read_bytes())
    except (OSError, ValueError) as error:
        raise ExportError(f"{source / CONFIG}: cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise ExportError(f"{source / CONFIG}: expected an object")
    return config
