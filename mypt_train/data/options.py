"""What a data set is made with. Equal options and equal inputs give equal bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import mypt_spec


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `prepare`.

    `context_length`: tokens of a row. `pack`: whole episodes side by side in rows, padded at the
    end; else episodes one after another, without rows. `val_fraction`: the share of episodes,
    chosen by their hash, that goes to `val`. `long`: what becomes of an episode that no row can
    hold: an `error`, `drop` it, or `split-turns`. `on_error`: `fail` when a line is refused, or
    `reject` it and go on. `dedup`: leave out episodes that were there before. `format`: of shards,
    "bin" or "parquet". `vocabulary`: a file of ranks in the place of the dialect's own vocabulary.
    `preferences`: keep rejected answers and labels, too.
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

    def __post_init__(self) -> None:
        for name in ("context_length", "tokens_per_shard"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 2 or more")
        if not 0 <= self.val_fraction <= 1:
            raise ValueError(f"val_fraction is {self.val_fraction}, expected 0 to 1")
        if self.long not in ("error", "drop", "split-turns"):
            raise ValueError(f"long is {self.long!r}, expected error, drop or split-turns")
        if self.on_error not in ("fail", "reject"):
            raise ValueError(f"on_error is {self.on_error!r}, expected fail or reject")
        if self.format not in ("bin", "parquet"):
            raise ValueError(f"format is {self.format!r}, expected bin or parquet")
        if self.format == "parquet" and self.tokens_per_shard >= 1 << 31:
            raise ValueError(
                f"a Parquet shard of {self.tokens_per_shard} tokens is too large; at most "
                f"{(1 << 31) - 1}"
            )
        if self.format == "parquet" and self.preferences:
            raise ValueError(
                "Parquet shards have no place for preferences; leave out one of the two"
            )
        if self.pack and self.tokens_per_shard < self.context_length:
            raise ValueError(
                f"a shard of {self.tokens_per_shard} tokens holds no row of {self.context_length}"
            )

    @property
    def spec(self) -> mypt_spec.Dialect:
        """The dialect, on the vocabulary.

        Raises KeyError and VocabularyError as `mypt_spec.dialect` does.
        """
        return mypt_spec.dialect(self.dialect, vocabulary=self.vocabulary)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
