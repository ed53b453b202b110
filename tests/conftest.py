"""Set up Hypothesis, torch and the garbage collector for all tests, and the fixtures that many share.

`tests/support/examples.py` says what the profiles of Hypothesis are for.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import secrets
import urllib.request
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from mypt_spec.templates.bounds import Bounded
from tests.support.examples import FULL, PROFILE, examples

_START, _OUTCOMES = Bounded.start, Bounded._outcomes
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
_COMMON = settings(deadline=None, suppress_health_check=_SLOW, print_blob=True)
# Workers of pytest-xdist share the cores; threads of torch would fight for them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Collecting makes some million objects that stay: looking at them again and again takes a quarter of it.
gc.set_threshold(200_000, 20, 20)

settings.register_profile(
    "quick", _COMMON, max_examples=examples(FULL), derandomize=True, database=None
)
settings.register_profile("thorough", _COMMON, max_examples=FULL)
settings.register_profile("deep", _COMMON, max_examples=3000)
settings.load_profile(PROFILE)


# Tests of these folders keep tables of decoders; those before them fork, which takes the longer the
# more memory a process has.
_LARGE = ("tests/property/", "tests/unit/mypt_infer/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs large tests last, and skips those with `extra("package", ...)` without the package."""
    items.sort(key=lambda item: item.nodeid.startswith(_LARGE))
    for item in items:
        if "s3_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.extra("moto", "flask", "flask_cors"))
        packages = {name for mark in item.iter_markers("extra") for name in mark.args}
        missing = sorted(name for name in packages if not _installed(name))
        if missing:
            reason = f"needs {', '.join(missing)}: CONTRIBUTING.md says in which extra or session"
            item.add_marker(pytest.mark.skip(reason=reason))


@cache
def _installed(package: str) -> bool:
    return find_spec(package) is not None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Lets the garbage collector look at what tests make only."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def frozen_objects() -> None:
    """Lets collections in a test leave out what other tests have made, some million objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder of the test run: no test writes to the user's."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    return folder


@pytest.fixture(autouse=True, scope="session")
def quick_fsync() -> Iterator[None]:
    """No test cuts the power: what a process has written is there, even if the process is killed.

    Waiting for the disk would take half a minute of the quick suite.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def templates_here() -> Iterator[None]:
    """Renders templates in this process: it has millions of objects, and takes long to fork."""

    def outcomes(self: Any, calls: Any) -> list[tuple[Any, Exception | None]]:
        out: list[tuple[Any, Exception | None]] = []
        for call in pickle.loads(pickle.dumps(calls)):
            try:
                self.work = getattr(self, "work", None) or self._make(*self._args)
                out.append((self.work(*call), None))
            except Exception as error:
                out.append((None, error))
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bounded, "start", lambda _: None)
        patch.setattr(Bounded, "_outcomes", outcomes)
        yield


@pytest.fixture
def templates_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renders templates in a process of its own, as the product does."""
    monkeypatch.setattr(Bounded, "start", _START)
    monkeypatch.setattr(Bounded, "_outcomes", _OUTCOMES)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a server of S3 on loopback."""
    from moto import server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new bucket on loopback; its credentials are in the environment."""
    bucket = f"{s3_server}/bucket-{secrets.token_hex(6)}"
    with urllib.request.urlopen(urllib.request.Request(bucket, method="PUT")):
        pass
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-tests")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return f"s3://{bucket.rpartition('/')[2]}"
