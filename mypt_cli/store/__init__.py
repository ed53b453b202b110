"""Reads objects of `s3://`, `gs://`, `az://` and `http(s)://`, by obstore (the extra `store`).

Credentials come from the environment only (`AWS_*`, `GOOGLE_*`, `AZURE_*`); no message holds any.
"""

from mypt_cli.store.remote import Entry
from mypt_cli.store.store import Store, StoreError, find, locate
from mypt_cli.urls import is_url, redacted

__all__ = ["Entry", "Store", "StoreError", "find", "is_url", "locate", "redacted"]
