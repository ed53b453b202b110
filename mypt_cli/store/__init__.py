"""Reads and writes objects in local folders, `s3://`, `gs://` and `az://`; reads `http(s)://`.

Remote stores need the package obstore (extra `store`); local folders do not. Credentials come from
the environment only (`AWS_*`, `GOOGLE_*`, `AZURE_*`), and no message holds any.
"""

from mypt_cli.store.backend import Entry
from mypt_cli.store.store import Store, StoreError, find, locate
from mypt_cli.urls import is_url, redacted

__all__ = ["Entry", "Store", "StoreError", "find", "is_url", "locate", "redacted"]
