"""Defines the options of `prepare`. Equal options and equal inputs make equal bytes."""

from dataclasses import asdict, dataclass
from typing import Any

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_cli.words import either
from mypt_spec.encoder import Mask
from mypt_spec.history import valid_policy
from mypt_train.data.formats import FORMATS, TRAINERS, in_parquet, packs, parquet, trainer_of

_USUAL = {("mask", "model"), ("history", "keep"), ("message_indices", False)}
_USUAL |= {("model", None), ("template_options", None)}
# The values of options that need no dialect.
_OF_MODELS: dict[str, list[Any]] = {
    "phase": [None], "vocabulary": [None], "preferences": [False], "message_indices": [False],
    "history": ["keep"], "mask": ["model", "last"], "long": ["error", "drop"],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `prepare`.

    - `dialect`: the name of the format; `phase`: what the curriculum has introduced, or None for
      all.
    - `context_length`: tokens of a row.
    - `pack`: put whole episodes into rows, padded at the end; else episodes follow one another.
    - `val_fraction`: the share of episodes, chosen by their hash, that goes to the split `val`.
    - `tokens_per_shard`: the most tokens of a shard, if one row does not need more.
    - `seed`: of the order of rows.
    - `long`: what to do with an episode that no row holds: "error" refuses its line, "drop" leaves
      it out, "split-turns" cuts it between turns.
    - `on_error`: "fail" when a line is refused, or "reject" the line and continue.
    - `dedup`: leave out an episode whose ids were there before.
    - `format`: of shards, one of `formats.FORMATS`. Of those for trainers, all but TRL's need
      `pack` to be False.
    - `preferences`: keep rejected answers and labels, too.
    - `mask`: what is trained, a name of `mypt_spec.encoder.MASKS`, or several with "+" between.
    - `history`: what each conversation becomes, a name of `mypt_spec.history.HISTORIES`.
    - `message_indices`: rows for trainers say of each token which message of its record it comes
      from.
    - `model`: the folder of a model whose chat template writes the records, in place of a dialect.
    - `template_options`: the options of this template, a JSON object.
    - `vocabulary`: the path of a file of ranks to use in place of the dialect's own vocabulary.

    Raises ValueError for values out of range, and for values that exclude one another.
    """

    dialect: str = "mypt"
    phase: int | None = None
    context_length: int = 2048
    pack: bool = True
    val_fraction: float = 0.0
    tokens_per_shard: int = 10_000_000
    seed: int = 0
    long: str = "error"
    on_error: str = "fail"
    dedup: bool = False
    format: str = "bin"
    preferences: bool = False
    vocabulary: str | None = None
    mask: str = "model"
    history: str = "keep"
    message_indices: bool = False
    model: str | None = None
    template_options: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", str(Mask.from_name(self.mask)))
        for name, values in _OF_MODELS.items() if self.model is not None else ():
            if (value := getattr(self, name)) not in values:
                option = {"vocabulary": "vocab"}.get(name, name.replace("_", "-"))
                raise ValueError(
                    f"--{option}{'' if value is True else f' {value}'} needs a dialect, and "
                    "--model names none; remove it, or use --dialect"
                )
        if valid_policy(self.history) == "per-turn" and self.preferences:
            raise ValueError(
                "preferences rank the last answers alone: leave out the history per-turn, or take "
                "official"
            )
        for name in ("context_length", "tokens_per_shard"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 2 or more")
        if not 0 <= self.val_fraction <= 1:
            raise ValueError(f"val_fraction is {self.val_fraction}, expected 0 to 1")
        if self.long not in ("error", "drop", "split-turns"):
            raise ValueError(f"long is {self.long!r}, expected error, drop or split-turns")
        if self.on_error not in ("fail", "reject"):
            raise ValueError(f"on_error is {self.on_error!r}, expected fail or reject")
        if self.format not in FORMATS:
            raise ValueError(f"format is {self.format!r}, expected {', '.join(FORMATS)}")
        if in_parquet(self.format) and self.tokens_per_shard >= 1 << 31:
            raise ValueError(
                f"a Parquet shard of {self.tokens_per_shard} tokens is too large; at most "
                f"{(1 << 31) - 1}"
            )
        if self.format != "bin" and self.preferences:
            raise ValueError(
                f"the format {self.format} has no place for preferences; leave out one of the two"
            )
        if self.message_indices and self.format.removesuffix("-parquet") not in TRAINERS:
            raise ValueError(
                f"the format {self.format} has no place for message_indices; choose one of "
                f"{', '.join(TRAINERS)}"
            )
        if self.pack and not packs(self.format):
            hint = ", and set sample_packing in axolotl's config" * ("axolotl" in self.format)
            raise ValueError(
                f"rows for {trainer_of(self.format)} hold one episode each, because nothing in "
                f"them would keep several apart; leave out pack{hint}"
            )
        if self.pack and self.tokens_per_shard < self.context_length:
            raise ValueError(
                f"a shard of {self.tokens_per_shard} tokens holds no row of {self.context_length}"
            )

    @property
    def episode_mask(self) -> str:
        """Returns the mask of each episode: by the history per-turn, only its last answer."""
        mask = Mask.from_name(self.mask)
        return str(mask._replace(last=True) if self.history == "per-turn" else mask)

    @property
    def loaded_dialect(self) -> mypt_spec.Dialect:
        """Returns the dialect on the vocabulary.

        Raises KeyError and VocabularyError as `mypt_spec.dialect` does, and UsageError for a model
        without a chat template or a vocabulary that is read.
        """
        if self.model is not None:
            from mypt_train.data.formats.model import model_format  # not loaded at every start

            return model_format(self.model, self.template_options)
        dialect = mypt_spec.dialect(self.dialect, vocabulary=self.vocabulary)
        dialect.tokenizer.encode("")  # raises now for a missing vocabulary, not at the first line
        return dialect

    def as_dict(self) -> dict[str, Any]:
        """Returns the options as JSON. Those that came later are left out where they are usual."""
        values = asdict(self).items()
        no_dialect = self.model is not None
        return {
            k: v for k, v in values if (k, v) not in _USUAL and (k, no_dialect) != ("dialect", True)
        }

    def possible(self) -> None:
        """Raises UsageError if the dialect or the installed packages cannot follow the options."""
        lacks = parquet.missing() if in_parquet(self.format) else ""
        if lacks:
            raise UsageError(lacks)
        dialect = self.loaded_dialect
        if self.preferences and not dialect.adapter.ranks:
            names = mypt_spec.dialects()
            ranking = either([name for name in names if mypt_spec.dialect(name).adapter.ranks])
            raise UsageError(
                f"records of {self.dialect} hold no preferences: leave out --preferences, or use "
                f"--dialect {ranking}"
            )
        if self.history == "per-turn" and not dialect.table.turn_opener:
            raise UsageError(
                f"{self.dialect}: the history per-turn needs to know where a turn begins: set "
                "turn_opener in [dialect] of its tokens.toml"
            )
