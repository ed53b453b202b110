"""Reads the objects of a bucket, or of a web server, through obstore.

Retries are the caller's, so obstore makes none. Its messages hold URLs, and these may hold
credentials: of a message only the status and the store's own word for the fault are shown.
"""

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

Kind = Literal["missing", "changed", "denied", "refused", "transient"]

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_TOKENS = ("169.254.169.254", "token request", "metadata.google", "/oauth2/", "credential")
_AGAIN = (408, 409, 425, 429)  # and all of the server's own faults, 5xx
_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_REGION, AWS_ENDPOINT_URL), or "
    "AWS_SKIP_SIGNATURE=true for a public bucket",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_PUBLIC = "check the name, and that all may read it"
# Variables that name the server of S3; the first one counts.
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_LISTED = 1000
# The process that obstore has its threads in. A call in a fork of it would wait for ever.
_users: dict[str, int] = {}


class Entry(NamedTuple):
    """An object: its key, its bytes, and its ETag.

    The ETag is another one when the content is another one.
    """

    key: str
    size: int
    etag: str


class Fault(Exception):
    """A store did not do what it was asked to.

    `kind` is "transient" where it may do so when it is asked again. `why` is for people, and holds
    no text of the store's, which may hold credentials.
    """

    def __init__(self, kind: Kind, why: str = "") -> None:
        super().__init__(why or kind)
        self.kind: Kind = kind
        self.why = why


class Bucket:
    """A bucket of `s3`, `gs` or `az`, or a server of `http` or `https`.

    Keys have `/` between their parts. All methods raise Fault.
    """

    def __init__(self, scheme: str, name: str) -> None:
        self._scheme = scheme
        self._obstore = _module()
        with self._as_faults():
            self._store: Any = importlib.import_module("obstore.store").from_url(
                f"{scheme}://{name}",
                retry_config={"max_retries": 0},
                **client_options(scheme, os.environ),
            )

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yields all objects below a folder ("" for all), in any order."""
        with self._as_faults(listing=True):
            for some in self._obstore.list(self._store, folder or None, chunk_size=_LISTED):
                for meta in some:
                    yield _entry(meta)

    def head(self, key: str) -> Entry:
        """Returns what is known of an object."""
        with self._as_faults():
            return _entry(self._obstore.head(self._store, key))

    def get(self, key: str, start: int, end: int | None) -> tuple[Entry, bytes | memoryview]:
        """Returns the bytes from `start` to before `end`, and what is known of the object."""
        part = (start, end) if end is not None else {"offset": start}
        options = {"range": part} if start or end is not None else None
        with self._as_faults():
            result = self._obstore.get(self._store, key, options=options)
            return _entry(result.meta), memoryview(result.bytes())

    @contextmanager
    def _as_faults(self, *, listing: bool = False) -> Iterator[None]:
        """Names the faults of obstore, and lets none of its text through."""
        if _users.setdefault("process", os.getpid()) != os.getpid():
            raise Fault(
                "refused",
                "the process that this one was forked from has used a store, whose threads are not "
                "here; start processes by spawn, or use stores in the new process alone",
            )
        try:
            yield
        except Exception as error:
            if isinstance(error, Fault | TypeError | MemoryError):
                raise
            raise self._fault(error, listing=listing) from None

    def _fault(self, error: Exception, *, listing: bool) -> Fault:
        errors, text = self._obstore.exceptions, str(error)
        status = int(match[1]) if (match := _STATUS.search(text)) else 0
        code = match[1] if (match := _CODE.search(text)) else ""
        answer = " ".join(str(item) for item in (status or "", code) if item)
        if isinstance(error, errors.PreconditionError):
            return Fault("changed")
        web = self._scheme.startswith("http")
        if web and listing:
            return Fault("refused", "a web server lists no objects; name each one")
        unable = isinstance(error, NotImplementedError | errors.NotSupportedError)
        if unable and "Range" in text:
            return Fault("refused", "this server serves no ranges of bytes; download the file")
        if code == "NoSuchBucket":
            return Fault("missing", "there is no such bucket; check its name and the endpoint")
        if isinstance(error, FileNotFoundError):
            return Fault("missing")
        if not web and (any(word in text for word in _TOKENS) or "Account must be" in text):
            return Fault("denied", f"no credentials were found; set {_VARIABLES[self._scheme]}")
        denied = isinstance(error, errors.PermissionDeniedError | errors.UnauthenticatedError)
        if denied or status in (401, 403):
            hint = f"check {_VARIABLES[self._scheme]}" if not web else _PUBLIC
            return Fault("denied", f"access is denied ({answer or 'no rights'}); {hint}")
        if status == 416:
            return Fault("changed")
        if status and (status < 500 or status == 501) and status not in _AGAIN:
            moved = "; check AWS_REGION and AWS_ENDPOINT_URL" if status < 400 else ""
            return Fault("refused", f"the store refused: {answer}{moved}")
        if not status and not isinstance(error, errors.GenericError | OSError):
            return Fault("refused", f"obstore refused it ({type(error).__name__}); check its name")
        return Fault("transient", f"the store answered {answer}" if answer else "no answer")


def client_options(scheme: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns the options of obstore for a kind of store, in an environment.

    >>> client_options("s3", {}), client_options("s3", {"AWS_ENDPOINT_URL": "http://10.0.0.1:9"})
    ({}, {'client_options': {'allow_http': True}})
    """
    first = next(filter(None, map(environ.get, _ENDPOINTS)), "https://")
    plain = (first if scheme == "s3" else f"{scheme}://").startswith("http://")
    return {"client_options": {"allow_http": True}} if plain else {}


def _entry(meta: Any) -> Entry:
    # Servers without ETags say when a file was changed.
    etag = meta["e_tag"] or f"modified {meta['last_modified'].isoformat()}"
    return Entry(meta["path"], meta["size"], etag)


def _module() -> Any:
    try:
        importlib.import_module("obstore.exceptions")
        return importlib.import_module("obstore")
    except ImportError:
        hint = "reading a store needs obstore: pip install 'mypt-tags[store]'"
        raise Fault("refused", hint) from None
