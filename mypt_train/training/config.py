"""Reads configs: what a training run is made with.

A config is a JSON file: `{"model": {...}, "train": {...}}`. `docs/training.md` describes its keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mypt_cli.errors import suggestion
from mypt_model.shape import LlamaConfig

_HERE = Path(__file__).parents[1]


class ConfigError(ValueError):
    """A config cannot be used; the message names the key and what was expected."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train. With the data and the number of processes, these keys decide the result.

    - `steps`: of the whole schedule. `batch_rows`: rows of a step, over all processes.
      `micro_rows`: rows of one forward pass.
    - `context_length`: tokens of a row; by default as the data was prepared.
    - `train_on`: the loss "mask" of the data, or "all" tokens, for comparison.
    - `replay`: the share of a phase's rows that comes from earlier phases.
    - `save_every`, `val_every`, `legality_every`: in steps; 0 is only at the end, -1 never.
    - `tag_words`: words for tags; the new embedding of a tag starts as the mean of its words'.
    - `reference`: the folder of the model that DPO and KTO compare with; by default the model with
      which training begins.

    `docs/training.md` lists all keys. Raises ConfigError for values out of range.
    """

    objective: str = "sft"
    steps: int = 600
    batch_rows: int = 16
    micro_rows: int = 4
    context_length: int | None = None
    lr: float = 1e-3
    final_lr: float = 0.1
    schedule: str = "cosine"
    warmup: int = 30
    decay: float = 0.2
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    clip: float = 1.0
    seed: int = 0
    train_on: str = "mask"
    replay: float = 0.2
    dtype: str = "auto"
    attention: str = "auto"
    parallel: str = "ddp"
    threads: int | None = None
    log_every: int = 10
    save_every: int = 200
    keep: int = 2
    val_every: int = 0
    val_rows: int = 256
    legality_every: int = 0
    legality_prompts: int = 32
    legality_tokens: int = 256
    beta: float = 0.1
    reference: str | None = None
    tag_words: dict[str, str] = field(default_factory=dict)
    tensorboard: bool = False

    def __post_init__(self) -> None:
        _choice(self, "objective", ("sft", "dpo", "orpo", "kto"))
        _choice(self, "schedule", ("cosine", "wsd", "constant"))
        _choice(self, "train_on", ("mask", "all"))
        _choice(self, "dtype", ("auto", "float32", "bfloat16"))
        _choice(self, "attention", ("auto", "slices", "mask", "flex"))
        _choice(self, "parallel", ("ddp", "fsdp"))
        for name in (
            "steps",
            "batch_rows",
            "micro_rows",
            "keep",
            "log_every",
            "legality_prompts",
            "legality_tokens",
            "val_rows",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"train.{name} is {getattr(self, name)}, expected 1 or more")
        for name in ("save_every", "val_every", "legality_every"):
            if getattr(self, name) < -1:
                raise ConfigError(
                    f"train.{name} is {getattr(self, name)}, expected steps, 0 (at the end) or -1 "
                    "(never)"
                )
        for name in ("final_lr", "decay", "replay", "beta1", "beta2"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"train.{name} is {getattr(self, name)}, expected 0 to 1")
        for name in ("lr", "clip", "beta"):
            if getattr(self, name) <= 0:
                raise ConfigError(
                    f"train.{name} is {getattr(self, name)}, expected a number above 0"
                )
        if self.threads is not None and self.threads < 1:
            raise ConfigError(f"train.threads is {self.threads}, expected 1 or more")
        if self.warmup < 0 or self.weight_decay < 0:
            raise ConfigError("train.warmup and train.weight_decay are 0 or more")
        if self.save_every == -1:
            raise ConfigError(
                "train.save_every is -1: the model would be lost; use 0 to save it at the end"
            )
        if self.replay == 1:
            raise ConfigError("train.replay is 1: nothing of a phase itself would be learnt")


@dataclass(frozen=True, kw_only=True)
class Config:
    """A model's shape, and how to train the model. The data decides the size of the vocabulary."""

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

    def with_train(self, **changes: Any) -> Config:
        """Returns the config with other keys of `train`."""
        return replace(self, train=replace(self.train, **changes))

    @staticmethod
    def of(value: Config | Mapping[str, Any] | str | Path) -> Config:
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
                value = json.loads(path.read_bytes())
            except ValueError as error:
                raise ConfigError(f"{path} is not JSON: {error}") from None
            except OSError as error:
                raise ConfigError(f"cannot read {path}: {error.strerror}") from None
        if not isinstance(value, Mapping):
            raise ConfigError(f'{where}: expected an object {{"model": ..., "train": ...}}')
        _known(value, ("model", "train"), where)
        for key in ("model", "train"):
            if not isinstance(value.get(key, {}), Mapping):
                raise ConfigError(f"{where}: {key} must be an object")
        model = dict(value.get("model", {}))
        model.setdefault("tie_word_embeddings", True)
        model.setdefault("num_key_value_heads", model.get("num_attention_heads"))
        names = [f.name for f in fields(LlamaConfig) if f.name != "vocab_size"]
        if "vocab_size" in model:
            raise ConfigError(
                f"{where}: model.vocab_size is not set here: the data says how many ids there are"
            )
        _known(model, names, f"{where}: model")
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
            except ValueError:
                raw[part][key] = value
        return Config.of(raw)


def _train(given: dict[str, Any], where: str) -> TrainConfig:
    known = {f.name: f for f in fields(TrainConfig)}
    _known(given, tuple(known), f"{where}: train")
    for name, value in given.items():
        kind = str(known[name].type)
        kinds: dict[str, tuple[type, ...]] = {
            "int": (int,),
            "float": (int, float),
            "str": (str,),
            "bool": (bool,),
            "dict[str, str]": (dict,),
        }
        wanted = kinds[kind.removesuffix(" | None")]
        if value is None and kind.endswith("None"):
            continue
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "bool"):
            raise ConfigError(
                f"{where}: train.{name} is {value!r}, expected "
                f"{kind.replace('dict[str, str]', 'an object of strings')}"
            )
    try:
        return TrainConfig(**given)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _choice(config: TrainConfig, name: str, values: tuple[str, ...]) -> None:
    if getattr(config, name) not in values:
        given = getattr(config, name)
        meant = suggestion(str(given), values, show=repr)
        raise ConfigError(f"train.{name} is {given!r}{meant}; it is one of {', '.join(values)}")


def _known(given: Mapping[str, Any], names: tuple[str, ...] | list[str], where: str) -> None:
    for key in given:
        if key not in names:
            meant = suggestion(key, names, show=repr)
            raise ConfigError(f"{where} has no key {key!r}{meant}; keys are {', '.join(names)}")


def configs_folder() -> Path:
    """Returns the folder of configs in the package; in a checkout, it is next to the package."""
    inside = _HERE / "configs"
    return inside if inside.is_dir() else _HERE.parent / "configs"


def _find(value: str | Path) -> Path:
    path = Path(value)
    if not path.exists() and path.suffix == "" and len(path.parts) == 1:
        known = sorted(p.stem for p in configs_folder().glob("*.json"))
        if path.name not in known:
            meant = suggestion(path.name, known, show=repr)
            raise ConfigError(
                f"no config {path.name!r}{meant}; name a file, or one of {', '.join(known)}"
            )
        return configs_folder() / f"{path.name}.json"
    return path
