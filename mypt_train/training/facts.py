"""Says what a run trains on and how, and refuses checkpoints that were trained in another way."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from mypt_model.folder import TRAINER
from mypt_train.data.reader import ShardReader
from mypt_train.training.batches import Stage
from mypt_train.training.begin import check_vocabulary
from mypt_train.training.parts.checkpoint import CheckpointError
from mypt_train.training.parts.config import Config, TrainConfig

# Keys of the config that may change when a run is resumed.
_FREE = (
    *("parallel", "keep", "log_every", "save_every", "threads", "tensorboard", "compile"),
    *("val_every", "val_rows", "patience", "micro_rows", "recompute", "timeout"),
    *("legality_every", "legality_prompts", "legality_tokens"),
)
# Keys that came later. A checkpoint without them is one with their defaults, so it does not name
# these: what it says stays the same from release to release.
_LATER = ("timeout", "compile")


USUAL_MASK = "model"  # of data, and of a checkpoint that says none


def facts_of_run(
    readers: Sequence[ShardReader], config: Config, stages: Sequence[Stage]
) -> dict[str, Any]:
    """Returns what a checkpoint says of how it was made."""
    first = readers[0].manifest
    splits = [split for reader in readers for split in reader.manifest["splits"].values()]
    files = [shard["files"] for split in splits for shard in split["shards"]]
    data = {
        "spec_fingerprint": first["spec_fingerprint"],
        "vocabulary_sha256": first["vocabulary_sha256"],
        "vocab_size": first["vocab_size"],
        "fingerprint": hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest(),
    }
    if readers[0].dialect.table.terminals:  # not what a chat template writes
        data["dialect"] = readers[0].dialect.name
    if readers[0].dialect.table.history.drops and "history" not in first:
        data["history"] = "keep"
    if (mask := readers[0].mask) != USUAL_MASK:
        data["mask"] = mask
    usual, values = asdict(TrainConfig()), config.as_dict()
    settings = {k: v for k, v in values["train"].items() if k not in _LATER or v != usual[k]}
    return {
        "data": data,
        "config": values | {"train": settings},
        "phases": [stage.phase for stage in stages],
        "reference": None,
        "torch": str(torch.__version__),
    }


def check_same(folder: Path, facts: Mapping[str, Any], run: Mapping[str, Any]) -> int:
    """Returns the number of steps that a checkpoint has done.

    `facts` is what it says of itself, `run` what `facts_of_run` returns. Raises CheckpointError if
    it was trained on other data, or with another config or other phases.
    """
    check_grammar(folder, facts, run)
    if not facts:
        raise CheckpointError(
            f"{folder}: has no {TRAINER}, so training cannot go on from it; use --init-from"
        )
    if facts["data"]["fingerprint"] != run["data"]["fingerprint"]:
        was, now = facts["data"]["fingerprint"][:12], run["data"]["fingerprint"][:12]
        raise CheckpointError(
            f"{folder}: was trained on other data ({was}, this is {now}); give the same, or "
            "use --init-from to train on this"
        )
    before, now = _with_defaults(facts["config"]), _with_defaults(run["config"])
    for part in ("model", "train"):
        for key in now[part]:
            if before[part].get(key) != now[part][key] and key not in _FREE:
                raise CheckpointError(
                    f"{folder}: {part}.{key} was {before[part].get(key)!r}, now it is "
                    f"{now[part][key]!r}; resume with the same config"
                )
    if facts["phases"] != run["phases"]:
        raise CheckpointError(
            f"{folder}: the phases were {facts['phases']}, now they are "
            f"{run['phases']}; resume with the same"
        )
    return int(facts["step"])


def check_grammar(folder: Path, facts: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """Raises CheckpointError for a model made with another grammar or vocabulary than a run has.

    `facts` and `run` are those of `check_same`. Of a model that another program has made, only the
    vocabulary in its folder is known, if there is one.
    """
    if not facts:
        check_vocabulary(folder, run["data"]["vocabulary_sha256"])
        return
    for key, part in (("spec_fingerprint", "grammar"), ("vocabulary_sha256", "vocabulary")):
        was, now = facts["data"][key], run["data"][key]
        if was != now:
            digests = [
                value[:12] if isinstance(value, str) else json.dumps(value, sort_keys=True)
                for value in (was, now)
            ]
            raise CheckpointError(
                f"{folder}: was trained with another {part} ({digests[0]}, the data has "
                f"{digests[1]}); prepare the data with the same"
            )


def other_mask(facts: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Returns how the masks of a model's data and of a run differ, for people; "" if they do not.

    `facts` and `run` are those of `check_same`; of another program's model nothing is known.
    """
    was, now = ((f.get("data") or {}).get("mask", USUAL_MASK) for f in (facts, run))
    if not facts or was == now:
        return ""
    return (
        f"the model was trained with the mask {was}, the data has {now}: other tokens are trained"
    )


def _with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the config of a checkpoint, with what was not a key when it was written."""
    return {"model": config["model"], "train": asdict(TrainConfig()) | config["train"]}
