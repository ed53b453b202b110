"""A headless Chromium. Without one these tests are skipped; `nox -s pages` fails instead."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REQUIRED = "MYPT_BROWSER_REQUIRED"


def missing(reason: str) -> None:
    if os.environ.get(REQUIRED):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")  # its event loop must not outlive it: other tests have their own
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        missing("the Python package playwright is not installed; nox -s pages installs it")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            missing(
                f"no Chromium: install one of {', '.join(NAMES)}, or run `playwright install chromium` ({str(error).splitlines()[0]})"
            )
        yield started
        started.close()
