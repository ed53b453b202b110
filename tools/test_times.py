"""Measure the processor time of the tests, by suite, by file and by test.

`python tools/test_times.py [-o TABLE] [arguments]` runs pytest with this file as a plugin. The time
of child processes counts once they have ended. A shared fixture counts for the test that is the
first to use it, and loading the test files counts for none.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SLOWEST = 60
_BEGINNING = pytest.StashKey[float]()


def processor_seconds() -> float:
    """Returns user and system time of this process and of its ended children, in seconds."""
    return sum(os.times()[:4])


class TestTimes:
    """Measures in each worker of pytest-xdist, and adds up in the process that hands out tests."""

    __test__ = False

    def __init__(self, table: Path | None) -> None:
        self.table = table
        self.processor: Counter[str] = Counter()
        self.clock: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.stash[_BEGINNING] = processor_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        report = yield
        if call.when == "teardown":
            seconds = processor_seconds() - item.stash[_BEGINNING]
            report.user_properties.append(("processor_seconds", seconds))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.clock[report.nodeid] += report.duration
        self.processor[report.nodeid] += dict(report.user_properties).get("processor_seconds", 0)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        text = "\n".join(table_lines(self.processor, self.clock)) + "\n"
        if self.table is None:
            print(f"\n{text}")
        else:
            self.table.write_text(text, encoding="utf-8")


def table_lines(processor: Counter[str], clock: Counter[str]) -> list[str]:
    """Returns the table: a row for all, each suite, each file and each of the slowest tests.

    `processor` and `clock` are seconds by the names of the tests.
    """
    rows = {"all": dict.fromkeys(processor, "all"), "suite": {}, "file": {}}
    for name in processor:
        file = name.partition("::")[0]
        depth = 3 if file.startswith("tests/unit/") else 2
        rows["suite"][name] = "/".join(file.split("/")[:depth])
        rows["file"][name] = file
    lines = ["processor s  clock s  tests"]
    for title, groups in rows.items():
        seconds, waits = Counter[str](), Counter[str]()
        for name, group in groups.items():
            seconds[group] += processor[name]
            waits[group] += clock[name]
        counts = Counter(groups.values())
        lines += ["", f"by {title}"] * (title != "all")
        lines += [f"{s:11.1f}{waits[g]:9.1f}{counts[g]:7d}  {g}" for g, s in seconds.most_common()]
    lines += ["", f"the {SLOWEST} slowest tests"]
    slowest = processor.most_common(SLOWEST)
    return lines + [f"{s:11.1f}{clock[n]:9.1f}         {n}" for n, s in slowest]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times-table", type=Path, help="where to write the table of times")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(TestTimes(config.getoption("--times-table")), "times-of-tests")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["-o"]:
        arguments = [f"--times-table={arguments[1]}", *arguments[2:]]
    here = str(Path(__file__).parent)
    sys.path.insert(0, here)
    # Workers of pytest-xdist are processes that do not know the path of this one.
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]).strip(":")
    sys.exit(pytest.main(["-p", "test_times", *arguments]))
