"""Plant faults in a copy of the checkout, one at a time, and say which test sees each.

    python tools/planted.py [NAME ...] [--family FAMILY] [--only-first] [--rev REV] [--jobs N]

A suite of tests is worth the faults that it sees. `planted.toml` beside this file lists mistakes
that an engineer could make in one line: what the line says, what it would say, and what would go
wrong. Each is planted alone in a copy of the working tree, or of the commit REV. The files of
tests that the fault names run first, until one test fails. If none does, the rest of the suite
runs. The output names the test that failed and the seconds of processor time until then, and at
the end the share of faults that were caught, by family, and the survivors.

A test that fails without the fault, too, has not seen it: each test that fails is run once more in
a copy without any fault. Tests that read files instead of behaviour do not count; see UNCOUNTED.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
LIST = TOOLS / "planted.toml"
# Tests that see any change of a file, whatever it does, and those that see this tool itself.
UNCOUNTED = {
    "tests/unit/mypt_lint/test_messy.py": "compares with a generated file, examples/messy.txt",
    "tests/unit/mypt/test_lint_commands.py::test_explain": "compares with docs/rules.md",
    "tests/test_architecture.py": "reads sources: imports, sizes and names",
    "tests/unit/test_planted.py": "holds the list of faults to the sources",
}
PACKAGES = "mypt_*"
_REPORT = "PLANTED_REPORT"  # the variable that names the file for what fails
_AGAIN = 5  # runs of the same tests, each without one more that fails without a fault
_LIMIT = 1800  # seconds for one run of tests


class FaultError(Exception):
    """A fault cannot be planted; the message says which and why."""


@dataclass(frozen=True)
class Fault:
    """A mistake in one place of one file, and the files of tests that should see it."""

    name: str
    family: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]
    wrong: str

    def planted(self, source: str) -> str:
        """Returns the file with the fault. Raises FaultError unless there is one place for it."""
        count = source.count(self.text)
        if count != 1 or self.text == self.replacement:
            raise FaultError(f"{self.name}: the text is {count} times in {self.file}, expected 1")
        found = source.replace(self.text, self.replacement)
        try:
            _read(self.file, found)
        except Exception as error:
            raise FaultError(f"{self.name}: {self.file} cannot be read then: {error}") from None
        return found


def faults(path: Path = LIST) -> list[Fault]:
    """Returns the list of faults. Raises FaultError for a name that is there twice."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    listed = [Fault(**row | {"tests": tuple(row["tests"])}) for row in rows]
    twice = [name for name, count in Counter(f.name for f in listed).items() if count > 1]
    if twice:
        raise FaultError(f"{twice[0]}: the name is there twice")
    return listed


def _read(name: str, text: str) -> None:
    """Raises what the reader of such a file raises where it is no longer one."""
    kind = Path(name).suffix
    if kind == ".py":
        compile(text, name, "exec")
    elif kind == ".toml":
        tomllib.loads(text)
    elif kind == ".lark":
        from mypt_spec.automaton import make_parser

        make_parser(text)


@dataclass(frozen=True)
class Result:
    """What became of a fault. `test` is the first that saw it, "" for a survivor.

    `seconds` are those of the processor until then. `stage` is "first" or "rest": the tests that
    ran when it was seen, or the last that ran. `note` names tests that fail without a fault, too.
    """

    name: str
    test: str
    seconds: float
    stage: str
    note: str = ""


class Run(NamedTuple):
    """The ids of tests that failed, seconds of processor time, and why there is no answer."""

    failed: list[str]
    seconds: float
    why: str


class Copy:
    """A copy of a checkout, in which tests run on its own packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def environment(self) -> dict[str, str]:
        """Returns the variables of a process whose imports come from the copy."""
        paths = os.pathsep.join(map(str, [self.folder, TOOLS]))
        return os.environ | {"PYTHONPATH": paths, "COLUMNS": "200"}

    def check(self) -> None:
        """Raises FaultError unless packages and grammars are those of the copy."""
        code = (
            "import mypt_spec, mypt_lint, mypt_train, mypt_infer;"
            "from mypt_spec.dialect import _COMPILED, grammar_root;"
            "print(mypt_spec.__file__, mypt_lint.__file__, mypt_train.__file__,"
            "mypt_infer.__file__, grammar_root(), _COMPILED, sep='\\n')"
        )
        done = self._python("-c", code)
        lines = done.stdout.split()
        elsewhere = [line for line in lines if not Path(line).is_relative_to(self.folder)]
        if elsewhere or len(lines) != 6:
            why = elsewhere or done.stderr[-500:]
            raise FaultError(f"not imported from the copy {self.folder}: {why}")

    def loads(self, fault: Fault) -> None:
        """Raises FaultError for a planted fault with which the package cannot be imported."""
        code = "import mypt_spec; [mypt_spec.dialect(name) for name in mypt_spec.dialects()]"
        if fault.file.endswith(".py"):
            code += f"; import {fault.file.removesuffix('.py').replace('/', '.')}"
        done = self._python("-c", code)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            raise FaultError(f"{fault.name}: nothing can be imported then: {last}")

    def _python(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=self.environment(),
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def pytest(self, *words: str) -> Run:
        """Runs tests until one fails."""
        report = self.folder / ".planted-report"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-p", "planted", "-p", "no:cacheprovider"]
        command += ["-x", "-q", "--tb=no", *words]
        process = subprocess.Popen(
            command, cwd=self.folder, env=self.environment() | {_REPORT: str(report)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            shown, _ = process.communicate(timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            return Run([], _LIMIT, f"took more than {_LIMIT} s")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        lines = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
        told = [json.loads(line) for line in lines]
        failed = [item for item in told if isinstance(item, str)]
        seconds = sum(item for item in told if isinstance(item, float))
        why = ""
        if not failed and process.returncode not in (0, 5):  # 5: no test was selected
            last = (shown.strip().splitlines() or ["no output"])[-1]
            why = f"pytest ended with status {process.returncode}: {last}"
        return Run(failed, seconds, why)


# What pytest calls in the copy, where this file is a plugin.


def pytest_runtest_logreport(report: Any) -> None:
    """Notes the id of a test that failed."""
    if report.failed:
        _note(report.nodeid)


def pytest_collectreport(report: Any) -> None:
    """Notes a file that cannot be collected."""
    pytest_runtest_logreport(report)


def pytest_unconfigure() -> None:
    """Notes the processor time of the run: of this process, and of its workers, which ended."""
    _note(sum(os.times()[:4]))


def _note(value: str | float) -> None:
    """Adds a line to the report; only the process that has no pytest above it does so."""
    if "PYTEST_XDIST_WORKER" not in os.environ and _REPORT in os.environ:
        with open(os.environ[_REPORT], "a", encoding="utf-8") as out:
            out.write(json.dumps(value) + "\n")


class Bench:
    """Copies of one checkout: one for each job, and one that stays without faults."""

    def __init__(self, folder: Path, rev: str | None, jobs: int, workers: int) -> None:
        self.workers = ["-n", str(workers)] if workers > 1 else []
        self.sound = Copy(folder / "sound")
        _fill(self.sound.folder, rev)
        _compile(self.sound.folder)
        self.sound.check()
        self.copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(jobs):
            copy = Copy(folder / f"copy{number}")
            shutil.copytree(self.sound.folder, copy.folder, symlinks=True)
            copy.check()
            self.copies.put(copy)
        self._lock = threading.Lock()
        self._passes: dict[str, bool] = {}

    def passes(self, test: str) -> bool:
        """Returns whether a test passes where there is no fault."""
        with self._lock:
            if test not in self._passes:
                only = [] if "::" in test else ["--collect-only"]
                run = self.sound.pytest(test, *only)
                if run.why:
                    raise FaultError(f"{test}, without a fault: {run.why}")
                self._passes[test] = not run.failed
            return self._passes[test]

    def examine(self, fault: Fault, *, only_first: bool) -> Result:
        """Plants a fault, runs tests, and takes it out again."""
        copy = self.copies.get()
        path = copy.folder / fault.file
        source = path.read_text(encoding="utf-8")
        try:
            path.write_text(fault.planted(source), encoding="utf-8")
            copy.loads(fault)
            first = [name for name in fault.tests if (copy.folder / name.split("::")[0]).exists()]
            found = Result(fault.name, "", 0.0, "first", "" if first else "its tests are not there")
            if first:
                found = self._seen(copy, first, found)
            if not found.test and not only_first:
                rest = [f"--ignore={name}" for name in first if "::" not in name]
                found = self._seen(copy, [*self.workers, *rest], replace(found, stage="rest"))
            return found
        finally:
            path.write_text(source, encoding="utf-8")
            self.copies.put(copy)

    def _seen(self, copy: Copy, words: Sequence[str], before: Result) -> Result:
        """Returns a result with the test that sees the fault, if one does.

        Raises FaultError for a run that says neither that tests failed nor that they passed.
        """
        left_out = [f"--{'deselect' if '::' in name else 'ignore'}={name}" for name in UNCOUNTED]
        broken: list[str] = []
        test, seconds = "", before.seconds
        for _ in range(_AGAIN):
            more = [f"--deselect={name}" for name in broken]
            run = copy.pytest(*words, *left_out, *more)
            seconds += run.seconds
            if run.why:
                raise FaultError(f"{before.name}: {run.why}")
            test = next((name for name in run.failed if self.passes(name)), "")
            if test or not run.failed:
                break
            broken += run.failed
        notes = [before.note, *(f"fails without a fault: {name}" for name in broken)]
        note = "; ".join(filter(None, notes))
        return replace(before, test=test, seconds=round(seconds, 1), note=note)


def _fill(folder: Path, rev: str | None) -> None:
    """Writes the files of a commit, or those of the working tree that git does not ignore."""
    folder.mkdir(parents=True)
    if rev is not None:
        archive = subprocess.run(
            ["git", "archive", rev], cwd=ROOT, stdout=subprocess.PIPE, check=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        return
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def _compile(folder: Path) -> None:
    """Compiles the packages. Python compares hashes then: a change within a second is seen, too."""
    packages = [str(path) for path in folder.glob(PACKAGES)]
    words = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", *packages]
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)


def results_in(path: Path | None) -> dict[str, Result]:
    """Returns the results in a file of an earlier run, by the names of the faults."""
    if path is None or not path.exists():
        return {}
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["name"]: Result(**row) for row in rows}


def summary(listed: Sequence[Fault], results: dict[str, Result]) -> Iterator[str]:
    """Yields the share of faults that were caught, by family, and the survivors."""
    known = [fault for fault in listed if fault.name in results]
    caught = [fault for fault in known if results[fault.name].test]
    families = Counter(fault.family for fault in known)
    seen = Counter(fault.family for fault in caught)
    for family, count in families.items():
        yield f"{seen[family]:4} of {count:2}  {family}"
    share = len(caught) / len(known) if known else 0
    seconds = sum(results[fault.name].seconds for fault in caught) / max(1, len(caught))
    yield f"{len(caught):4} of {len(known):2}  in all: {share:.1%}, {seconds:.0f} s each"
    for fault in known:
        if not results[fault.name].test:
            yield f"survivor {fault.name} ({fault.file}): {fault.wrong}"


def table(listed: Iterable[Fault], results: dict[str, Result]) -> Iterator[str]:
    """Yields the results as a table in Markdown."""
    yield "| fault | what goes wrong | first test that sees it | seconds |"
    yield "|---|---|---|---|"
    for fault in listed:
        result = results.get(fault.name)
        test = f"`{result.test.removeprefix('tests/')}`" if result and result.test else "none"
        shown = f"{result.seconds:.0f}" if result else "-"
        cells = [f"`{fault.name}`", fault.wrong, test, shown]
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main(words: Sequence[str] | None = None) -> int:
    """Runs the tool; returns 0 if each fault was caught, 1 for a survivor or a refused fault."""
    options = _options().parse_args(words)
    every = faults()
    strange = {*options.names} - {fault.name for fault in every}
    if strange:
        print(f"no fault is called {', '.join(sorted(strange))}; --list names them")
        return 2
    listed = [
        fault
        for fault in every
        if (not options.names or fault.name in options.names)
        and (not options.family or fault.family in options.family)
    ]
    results = results_in(options.results)
    if options.list:
        for fault in listed:
            print(f"{fault.family}: {fault.name}: {fault.wrong}")
        return 0
    if options.table:
        print("\n".join(table(listed, results)))
        return 0
    todo = [fault for fault in listed if fault.name not in results]
    results |= _run(todo, options)
    print("\n".join(summary(listed, results)))
    return 0 if all(f.name in results and results[f.name].test for f in listed) else 1


def _run(todo: Sequence[Fault], options: argparse.Namespace) -> dict[str, Result]:
    """Examines faults, prints and keeps what becomes of each."""
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        bench = Bench(Path(folder).resolve(), options.rev, options.jobs, options.workers)
        with ThreadPoolExecutor(options.jobs) as threads:
            running = {
                threads.submit(bench.examine, fault, only_first=options.only_first): fault
                for fault in todo
            }
            for future in as_completed(running):
                try:
                    result = future.result()
                except FaultError as error:
                    print(f"refused  {error}", flush=True)
                    continue
                results[result.name] = result
                mark = "caught " if result.test else "ESCAPED"
                note = f" ({result.note})" if result.note else ""
                print(f"{mark}  {result.name}  {result.test}  {result.seconds} s{note}", flush=True)
                if options.results is not None:
                    with options.results.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(asdict(result)) + "\n")
    return results


def _options() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    add = out.add_argument
    add("names", nargs="*", metavar="NAME", help="faults to plant; all by default")
    add("--family", action="append", help="plant the faults of this family")
    add("--only-first", action="store_true", help="run only the files of tests that a fault names")
    add("--rev", help="take product and tests of this commit, not of the working tree")
    add("--jobs", type=int, default=1, help="copies in which faults are planted at a time")
    add("--workers", type=int, default=2, help="processes that run the rest of the suite")
    add("--results", type=Path, help="a file of JSON lines; what it has is not run again")
    add("--list", action="store_true", help="print the list of faults")
    add("--table", action="store_true", help="print --results as a table in Markdown")
    return out


if __name__ == "__main__":
    sys.exit(main())
