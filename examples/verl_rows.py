"""Reads rows of `mypt-prepare --format verl-parquet` in verl's SFT trainer.

data.custom_cls.path=examples/verl_rows.py data.custom_cls.name=PreparedRows
data.train_files=rows/train/shard_00000.parquet data.pad_mode=no_padding
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch


class PreparedRows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """The rows of Parquet files, as `MultiTurnSFTDataset` returns them without padding."""

    def __init__(self, parquet_files: Any, **_: Any) -> None:
        files = [parquet_files] if isinstance(parquet_files, str) else [*parquet_files]
        columns = ["input_ids", "position_ids", "loss_mask"]
        self.rows = pa.concat_tables([pq.read_table(file, columns=columns) for file in files])

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __getitem__(self, item: int) -> dict[str, torch.Tensor]:
        (row,) = self.rows.slice(item, 1).to_pylist()
        return {name: torch.tensor(values) for name, values in row.items()}
