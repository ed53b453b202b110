"""Reads configs: what a training run is made with.

A config is a JSON file: `{"model": {...}, "train": {...}}`. `docs/training.md` describes its keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta, ValidationError, convert

from mypt_cli.errors import suggestion
from mypt_model.folder import read_object
from mypt_model.shape import LlamaConfig, ModelError

_HERE = Path(__file__).parents[2]


class ConfigError(ValueError):
    """A config cannot be used; the message names the key and what was expected."""


# A bound as msgspec writes it, and in words.
_BOUND = re.compile(r"(?:int|float) (>=|<=|>) (-?[0-9]+)(?:\.0)?")
_WORDS = {">=": "{} or more", "<=": "{} or less", ">": "a number above {}"}

Count = Annotated[int, Meta(ge=1)]
Every = Annotated[int, Meta(ge=-1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train. With the data and the number of processes, these keys decide the result.

    - `steps`: of the whole schedule. `batch_rows`: rows of a step, over all processes.
      `micro_rows`: rows of one forward pass.
    - `context_length`: tokens of a row; by default as the data was prepared.
    - `train_on`: the loss "mask" of the data, or "all" tokens, for comparison.
    - `replay`: the share of a phase's rows that comes from earlier phases.
    - `timeout`: seconds that processes wait for each other.
    - `save_every`, `val_every`, `legality_every`: in steps; 0 is only at the end, -1 never.
    - `patience`: validations without a better loss after which the run ends; 0 is never. With it,
      a checkpoint is written after each validation that is the best so far, and at no other time.
    - `lora_rank`: train low-rank adapters of this rank, not the weights; 0 trains all weights.
    - `compile`: layers run as torch.compile makes them, but for attention that is not "flex".
    - `recompute`: keep no activations within layers, and compute them again for the gradients.
    - `tag_words`: words for tags; the new embedding of a tag starts as the mean of its words'.
    - `reference`: the folder of the model that DPO and KTO compare with; by default the model with
      which training begins.

    `docs/training.md` lists all keys. Raises ConfigError for values out of range.
    """

    objective: Literal["sft", "dpo", "orpo", "kto"] = "sft"
    steps: Count = 600
    batch_rows: Count = 16
    micro_rows: Count = 4
    context_length: int | None = None
    lr: Positive = 1e-3
    final_lr: Share = 0.1
    schedule: Literal["cosine", "wsd", "constant"] = "cosine"
    warmup: Annotated[int, Meta(ge=0)] = 30
    decay: Share = 0.2
    weight_decay: NotNegative = 0.1
    beta1: Share = 0.9
    beta2: Share = 0.95
    clip: Positive = 1.0
    seed: int = 0
    train_on: Literal["mask", "all"] = "mask"
    replay: Share = 0.2
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    attention: Literal["auto", "slices", "mask", "flex"] = "auto"
    parallel: Literal["ddp", "fsdp"] = "ddp"
    threads: Count | None = None
    log_every: Count = 10
    save_every: Every = 200
    keep: Count = 2
    timeout: Count = 1800
    val_every: Every = 0
    val_rows: Count = 256
    patience: Annotated[int, Meta(ge=0)] = 0
    lora_rank: Annotated[int, Meta(ge=0)] = 0
    lora_alpha: Count = 32
    recompute: bool = False
    compile: bool = False
    legality_every: Every = 0
    legality_prompts: Count = 32
    legality_tokens: Count = 256
    beta: Positive = 0.1
    reference: str | None = None
    tag_words: dict[str, str] = field(default_factory=dict)
    tensorboard: bool = False

    def __post_init__(self) -> None:
        if self.save_every == -1:
            raise ConfigError(
                "train.save_every is -1: the model would be lost; use 0 to save it at the end"
            )
        if self.patience and self.val_every <= 0:
            raise ConfigError("train.patience needs validations: set train.val_every")
        if self.replay == 1:
            raise ConfigError("train.replay is 1: nothing of a phase itself would be learnt")


@dataclass(frozen=True, kw_only=True)
class Config:
    """A model's shape, and how to train the model. The data decides the size of the vocabulary.

    `model` is empty where the shape is that of the model that training begins with.
    """

    model: dict[str, Any]
    train: TrainConfig = field(default_factory=TrainConfig)

    def shape(self, vocab_size: int, context_length: int | None = None) -> LlamaConfig:
        """Returns the shape of the model for a vocabulary and rows of some length.

        Raises ModelError for an impossible shape.
        """
        return LlamaConfig(
            **{"max_position_embeddings": context_length} | self.model, vocab_size=vocab_size
        )

    def as_dict(self) -> dict[str, Any]:
        return {"model": self.model, "train": asdict(self.train)}

    @staticmethod
    def load(value: Config | Mapping[str, Any] | str | Path) -> Config:
        """Returns a config from its content, a file, or the name of one in the package ("tiny").

        Raises ConfigError naming the key, and which key may have been meant.
        """
        if isinstance(value, Config):
            return value
        where = "the config"
        if isinstance(value, str | Path):
            path = _find(value)
            where = str(path)
            try:
                value = read_object(path)
            except ModelError as error:
                raise ConfigError(str(error)) from None
        if not isinstance(value, Mapping):
            raise ConfigError(f'{where}: expected an object {{"model": ..., "train": ...}}')
        _check_keys(value, ("model", "train"), where)
        for key in ("model", "train"):
            if not isinstance(value.get(key, {}), Mapping):
                raise ConfigError(f"{where}: {key} must be an object")
        model = dict(value.get("model", {}))
        if not model:
            return Config(model={}, train=_train(dict(value.get("train", {})), where))
        model.setdefault("tie_word_embeddings", True)
        model.setdefault("num_key_value_heads", model.get("num_attention_heads"))
        names = [f.name for f in fields(LlamaConfig) if f.name != "vocab_size"]
        if "vocab_size" in model:
            raise ConfigError(
                f"{where}: model.vocab_size is not set here: the data says how many ids there are"
            )
        _check_keys(model, names, f"{where}: model")
        lacking = [name for name in names[:5] if model.get(name) is None]
        if lacking:
            raise ConfigError(f"{where}: model lacks {', '.join(lacking)}")
        return Config(model=model, train=_train(dict(value.get("train", {})), where))

    def set(self, assignments: list[str]) -> Config:
        """Returns the config with keys from a command line, as `train.lr=0.001`.

        Keys of the model are set as `model.hidden_size=64`. Raises ConfigError for an unknown key
        or a bad value.
        """
        raw = self.as_dict()
        for text in assignments:
            path, equals, value = text.partition("=")
            part, _, key = path.partition(".")
            if not equals or part not in raw or not key:
                raise ConfigError(f"--set {text}: expected train.KEY=VALUE or model.KEY=VALUE")
            try:
                raw[part][key] = json.loads(value)
            except (ValueError, RecursionError):
                raw[part][key] = value
        return Config.load(raw)


def _train(values: dict[str, Any], where: str) -> TrainConfig:
    _check_keys(values, [f.name for f in fields(TrainConfig)], f"{where}: train")
    try:
        convert(values, TrainConfig)
        return TrainConfig(**values)  # as it is given: a 1 is written to checkpoints as 1, not 1.0
    except ValidationError as error:
        problem, _, name = str(error).replace("`", "").rpartition(" - at $.")
        name = name.partition("[")[0]
        if not problem:  # of several keys together
            raise ConfigError(f"{where}: {error}") from None
        problem = _BOUND.sub(lambda match: _WORDS[match[1]].format(match[2]), problem)
        problem = f", {problem[0].lower()}{problem[1:]}"
        if "enum" in problem:
            choices = get_args(get_type_hints(TrainConfig)[name])
            hint = suggestion(str(values[name]), choices, show=repr)
            problem = f"{hint}; it is one of {', '.join(choices)}"
        raise ConfigError(f"{where}: train.{name} is {values[name]!r}{problem}") from None


def _check_keys(values: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    for key in values:
        if key not in names:
            hint = suggestion(key, names, show=repr)
            raise ConfigError(f"{where} has no key {key!r}{hint}; keys are {', '.join(names)}")


def configs_folder() -> Path:
    """Returns the folder of configs in the package; in a checkout, it is next to the package."""
    inside = _HERE / "configs"
    return inside if inside.is_dir() else _HERE.parent / "configs"


def _find(value: str | Path) -> Path:
    path = Path(value)
    if not path.exists() and path.suffix == "" and len(path.parts) == 1:
        names = sorted(p.stem for p in configs_folder().glob("*.json"))
        if path.name not in names:
            hint = suggestion(path.name, names, show=repr)
            raise ConfigError(
                f"no config {path.name!r}{hint}; name a file, or one of {', '.join(names)}"
            )
        return configs_folder() / f"{path.name}.json"
    return path
