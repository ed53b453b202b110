"""The faults of tools/planted.py: each fits the sources, so the list cannot rot; and the tool itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import planted
from tools.planted import Fault, FaultError, Result

FAULTS = planted.faults()


def fault(**other: object) -> Fault:
    row = {
        "name": "one", "family": "f", "file": "a.py", "text": "b", "replacement": "c",
        "tests": ("tests/a.py",), "wrong": "It is wrong.",
    }  # fmt: skip
    return Fault(**row | other)  # type: ignore[arg-type]


def test_each_fault_fits_its_file_once() -> None:
    """The file with the fault in it is still one that can be read, and so are its tests."""
    for one in FAULTS:
        path = planted.ROOT / one.file
        assert one.planted(path.read_text(encoding="utf-8")) != path.read_text(encoding="utf-8")
        missing = [name for name in one.tests if not (planted.ROOT / name).exists()]
        assert not missing, f"{one.name}: no such file of tests"
        assert one.tests, f"{one.name} names no tests"


def test_there_are_faults_in_all_dialects_and_packages() -> None:
    assert len(FAULTS) >= 70
    files = {one.file for one in FAULTS}
    folders = {path.parent.name for path in planted.ROOT.glob("grammar/*/tokens.toml")}
    assert folders <= {Path(name).parent.name for name in files}
    # Models are run and trained by the tests of mypt_train and mypt_infer.
    packages = {path.parent.name for path in planted.ROOT.glob("mypt_*/__init__.py")}
    assert packages - {"mypt_model"} <= {name.partition("/")[0] for name in files}


def test_a_fault_that_does_not_fit_is_refused() -> None:
    assert fault().planted("a = b") == "a = c"
    for source, other, why in [
        ("a = d", {}, "0 times"),
        ("b = b", {}, "2 times"),
        ("b", {"replacement": "b"}, "1 times"),
        ("b", {"replacement": "("}, "cannot be read"),
        ("b = 1", {"file": "a.toml", "replacement": ""}, "cannot be read"),
        ("start: b\n%declare A TEXT b", {"file": "a.lark"}, "2 times"),
        ("start: (A B)\n%declare A B", {"file": "a.lark", "text": ")", "replacement": ""}, "read"),
    ]:
        with pytest.raises(FaultError, match=why):
            fault(**other).planted(source)


def test_a_name_is_there_once(tmp_path: Path) -> None:
    row = '[[fault]]\nname = "n"\nfamily = ""\nfile = ""\ntext = ""\nreplacement = ""\n'
    row += 'tests = []\nwrong = ""\n'
    (tmp_path / "list.toml").write_text(row + row, encoding="utf-8")
    with pytest.raises(FaultError, match="n: the name is there twice"):
        planted.faults(tmp_path / "list.toml")


def test_tests_that_do_not_count_are_there() -> None:
    for name in planted.UNCOUNTED:
        path, _, test = name.partition("::")
        assert f"def {test}" in (planted.ROOT / path).read_text(encoding="utf-8"), name


def test_what_is_printed() -> None:
    listed = [fault(name="a"), fault(name="b", wrong="It | is wrong."), fault(name="c")]
    results = {
        "a": Result("a", "tests/x.py::test_y", 2.0, "first"),
        "b": Result("b", "", 9, "rest"),
    }
    assert [*planted.summary(listed, results)] == [
        "   1 of  2  f",
        "   1 of  2  in all: 50.0%, 2 s each",
        "survivor b (a.py): It | is wrong.",
    ]
    assert [*planted.table(listed, results)][2:] == [
        "| `a` | It is wrong. | `x.py::test_y` | 2 |",
        "| `b` | It \\| is wrong. | none | 9 |",
        "| `c` | It is wrong. | none | - |",
    ]
