"""Exports trained models for `transformers`, with the same ids, masks and logits there."""

from mypt_train.export.folder import endings, export
from mypt_train.export.tokenizer_file import ExportError

__all__ = ["ExportError", "endings", "export"]
