"""Finds and reads folders that hold a model: `config.json` and `*.safetensors`, as Hugging Face.

A folder is read with `read_config` (-> LlamaConfig) and `read_weights` (-> tensors by name). A
folder that `mypt-train` wrote holds checkpoints `step_<number>`; each checkpoint is such a folder
and also says in `trainer.json` what it was trained on. Weights are never pickled: reading a
checkpoint runs no code of its author.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mypt_model.shape import LlamaConfig, ModelError

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS, OPTIMIZER = "config.json", "model.safetensors", "optimizer.safetensors"
FOLDER = "a model folder has config.json, *.safetensors and tokenizer.json"
GENERATION = "generation_config.json"  # how a model is sampled, unless somebody says otherwise
# The number of a layer in the name of a weight.
_LAYER = re.compile(r"\.(\d+)\.")
# The file of a checkpoint that says what it was trained with.
TRAINER = "trainer.json"


def newest(folder: str | Path) -> Path:
    """Returns the folder itself if it holds a model, else the latest checkpoint in it.

    Returns the folder unchanged if it holds neither, so that a reader names it in its error.
    """
    folder = Path(folder)
    paths = [] if (folder / CONFIG).exists() else checkpoints(folder)
    return paths[-1] if paths else folder


def checkpoints(folder: Path) -> list[Path]:
    """Returns the checkpoints `step_<number>` of a training run, oldest first.

    Only whole checkpoints are found: a checkpoint gets its name after all its files are written.
    """
    numbered_paths = [
        (int(p.name[5:]), p)
        for p in folder.glob("step_*")
        if p.name[5:].isdecimal() and (p / CONFIG).exists()
    ]
    return [path for _, path in sorted(numbered_paths)]


def beside(folder: str | Path, *names: str) -> Path | None:
    """Returns the path of a file in the folder of a model, of its vocabulary for instance.

    Returns None if the folder has no file of one of these names. `folder` may be the output of a
    training run.
    """
    paths = (newest(folder) / name for name in names)
    return next((path for path in paths if path.is_file()), None)


def history_of(folder: str | Path) -> str:
    """Returns how the thoughts of earlier turns were trained: "keep" if the checkpoint says so."""
    said = _data(newest(folder) / TRAINER).get("history")
    return "keep" if said == "keep" else "official"


def _data(trainer: Path) -> dict[str, Any]:
    """Returns what a checkpoint says of its data, or else what `config.json` says."""
    config = trainer.with_name(CONFIG)
    data = (
        read_object(trainer).get("data")
        if trainer.is_file()
        else config.is_file() and read_object(config)
    )
    return data if isinstance(data, dict) else {}


def dialect_of(folder: str | Path, *, choice: str | None, default: str) -> str:
    """Returns the name or folder of the dialect that a model was trained on, by its checkpoint.

    It is the folder where the checkpoint holds a grammar of its own. An exported model says it in
    `config.json`. Returns `choice`, or else `default`, if neither says; `choice="auto"` is the same
    as None. Raises ModelError if the checkpoint says another dialect than `choice`, or cannot be
    read.
    """
    choice = None if choice == "auto" else choice
    path = newest(folder) / TRAINER
    dialect = _data(path).get("dialect")
    if not isinstance(dialect, str):
        return choice or default
    tokens_file = path.with_name("tokens.toml")
    if tokens_file.is_file() and choice in (None, dialect):
        if (code := tokens_file.with_name("adapter.py")).exists():
            raise ModelError(f"{code}: came with the model and is not run; remove it")
        return f"{tokens_file.parent.as_posix()}/"
    if tokens_file.is_file() and choice and _same(tokens_file, Path(choice) / tokens_file.name):
        return choice
    if choice not in (None, dialect):
        raise ModelError(
            f"{folder}: the model was trained on {dialect}, not on {choice}; leave --dialect out"
        )
    if choice is None and ("/" in dialect or os.sep in dialect or dialect in (".", "..")):
        # Its adapter.py would be run, and nobody here has named it.
        raise ModelError(
            f"{path}: the dialect {dialect!r} is a folder; only a name is taken from data"
        )
    return dialect


def _same(file: Path, other: Path) -> bool:
    try:
        return file.read_bytes() == other.read_bytes()
    except OSError:
        return False


def is_plain(folder: Path) -> bool:
    """Returns whether the model in a folder is one that `read_config` reads.

    Raises ModelError for a folder without a readable `config.json`.
    """
    return _plain(raw_config(folder))


def raw_config(folder: Path) -> dict[str, Any]:
    """Returns the content of `config.json`.

    Raises ModelError for one that cannot be read, and for one that is not as a checkpoint says.
    """
    path, facts = folder / CONFIG, folder / TRAINER
    if folder.is_file():
        raise ModelError(f"{folder} is a file; expected a folder with {CONFIG} and *.safetensors")
    files = read_object(facts).get("files") if facts.is_file() and path.is_file() else None
    entry = files.get(CONFIG) if isinstance(files, dict) else None
    digest = entry.get("sha256") if isinstance(entry, dict) else None
    if digest and hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise ModelError(
            f"{path}: was altered after {TRAINER} was written; copy the checkpoint again, or use "
            "the one before it"
        )
    return read_object(path)


def read_object(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file. Raises ModelError."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        help_text = f"; {FOLDER}" if path.name == CONFIG else ""
        raise ModelError(f"cannot read {path}: {error.strerror}{help_text}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path}: expected an object")
    return value


def _plain(raw: dict[str, Any]) -> bool:
    """Returns whether a config is that of a Llama as `mypt_model.llama` defines it."""
    heads, turned = raw.get("num_attention_heads"), raw.get("rope_parameters") or {}
    usual = raw["hidden_size"] // heads if heads and raw.get("hidden_size") else None
    return (
        raw.get("model_type", "llama") == "llama"
        and not any(raw.get(key) for key in ("attention_bias", "mlp_bias", "rope_scaling"))
        and raw.get("hidden_act", "silu") == "silu"
        and raw.get("head_dim") in (None, usual)
        and turned.get("rope_type", "default") == "default"
    )


def read_config(folder: Path) -> LlamaConfig:
    """Returns the shape of the model in a folder, read from its `config.json`.

    Raises ModelError, naming the file and what is wrong, for a folder without a readable
    `config.json`, for models that are no plain Llama (biases, scaled positions), and for a shape
    that LlamaConfig refuses.
    """
    path, raw = folder / CONFIG, raw_config(folder)
    if not _plain(raw):
        raise ModelError(
            f"{path}: only plain Llama models are read (no biases, no scaled positions)"
        )
    raw.setdefault("num_key_value_heads", raw.get("num_attention_heads"))
    for nested in (raw.get("rope_parameters"), raw.get("rope_theta")):
        if isinstance(nested, dict):
            raw["rope_theta"] = nested.get("rope_theta", 10000.0)
    names = {f.name for f in fields(LlamaConfig)}
    try:
        return LlamaConfig(**{k: v for k, v in raw.items() if k in names})
    except TypeError as error:
        missing = str(error).partition(": ")[2]  # of "missing 1 required positional argument: 'x'"
        message = f"{missing} is missing; copy the config.json that was written with the weights"
        raise ModelError(f"{path}: {message if missing else error}") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def each_weight(folder: Path) -> dict[str, Callable[[], Tensor]]:
    """Returns a function for each weight of the model in a folder, by name, that reads it.

    Files stay open, and only what is read takes memory. Raises ModelError as `read_weights` does,
    here and when a weight is read.
    """
    files = sorted(path for path in folder.glob("*.safetensors") if path.name != OPTIMIZER)
    if not files:
        raise ModelError(f"{folder} holds no *.safetensors file; copy the weights there; {FOLDER}")
    if (index := folder / f"{WEIGHTS}.index.json").is_file():
        named = read_object(index).get("weight_map")
        names = {str(name) for name in named.values()} if isinstance(named, dict) else set()
        lost = names - {path.name for path in files}
        if lost:
            raise ModelError(
                f"{folder / min(lost)} is missing; {index.name} names it: copy it there"
            )
    out: dict[str, Callable[[], Tensor]] = {}
    for path in files:
        opened = _opened(path)
        out |= {name: partial(opened.get_tensor, name) for name in opened.keys()}  # noqa: SIM118
    return out


def _opened(path: Path) -> Any:
    """Returns a file of safetensors, open. Raises ModelError, naming it, if it cannot be read."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ModelError(
            "reading weights needs safetensors: pip install 'mypt-tags[infer]'"
        ) from None
    try:
        return safe_open(path, "pt")
    except (SafetensorError, OSError) as error:
        message = f"cannot read {path}: {error}; download the file again"
        if path.is_file() and path.stat().st_size < 1000 and b"git-lfs" in path.read_bytes():
            message = f"{path} is a pointer of Git LFS, not the file: git lfs pull"
        raise ModelError(message) from None


def check_generation(folder: Path) -> None:
    """Raises ModelError for a `generation_config.json` that is broken, or of another vocabulary."""
    path = folder / GENERATION
    if not path.is_file():
        return
    try:
        settings, raw = read_object(path), raw_config(folder)
        size = raw.get("vocab_size")  # None where the model has several parts
        whole = ("eos_token_id", "top_k")
        for key in (*whole, "top_p", "temperature"):
            value = settings.get(key)
            values = value if isinstance(value, list) and key == "eos_token_id" else [value]
            for item in (item for item in values if item is not None):
                kind, noun = (int, "whole number") if key in whole else (int | float, "number")
                if not isinstance(item, kind) or isinstance(item, bool):
                    raise ModelError(f"{path}: {key} is {item!r}, expected a {noun}")
                if key == "eos_token_id" and not 0 <= item < (size or item + 1):
                    raise ModelError(f"{path}: {key} is {item}, but the model has {size} ids")
    except ModelError as error:
        raise ModelError(f"{error}; copy the file that came with the model, or delete it") from None


def check_layers(folder: Path) -> None:
    """Raises ModelError if `config.json` says another number of layers than the weights have.

    So it does as `check_generation`. Only names of weights are read: building layers that nobody
    has would take all memory. Layers beyond the config are those of another head, where the model
    is no plain Llama.
    """
    raw = raw_config(folder)
    check_generation(folder)
    try:
        names = [*each_weight(folder)]
    except ModelError:  # who reads the weights says what is wrong with them
        return
    for part in (raw, raw.get("text_config")):
        layers = part.get("num_hidden_layers") if isinstance(part, dict) else None
        if layers is None:
            continue
        numbers = {int(match[1]) for name in names if (match := _LAYER.search(name))}
        count = len(numbers)
        if count and layers != count and not (layers == min(layers, count) and not _plain(raw)):
            raise ModelError(
                f"{folder / CONFIG}: num_hidden_layers is {layers}, but the weights have {count} "
                "layers; copy the config.json that was written with them"
            )


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Returns the weights of the model in a folder: tensors by their names, on the CPU.

    Reads all `*.safetensors` but the state of the optimizer. Raises ModelError, naming the file, if
    there is none, if one cannot be read, or if safetensors is not installed.
    """
    return {name: read() for name, read in each_weight(folder).items()}
