"""Exports trained models for `transformers` and servers: the same ids, masks and logits there."""

from mypt_train.export.chat_facts import endings
from mypt_train.export.folder import export
from mypt_train.export.servers import SERVERS, chosen, server_files, write_server_files
from mypt_train.export.tokenizer_file import ExportError
from mypt_train.export.trainers import TRAINERS, write_entries

__all__ = [
    "SERVERS",
    "TRAINERS",
    "ExportError",
    "chosen",
    "endings",
    "export",
    "server_files",
    "write_entries",
    "write_server_files",
]
