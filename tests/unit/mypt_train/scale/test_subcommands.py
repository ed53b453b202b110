"""The subcommands of mypt-prepare, as a newcomer uses them."""

from __future__ import annotations

import gzip
import json
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from mypt.lint.cli import main as lint
from mypt.main import main as mypt
from mypt.prepare.cli import main
from mypt_cli.jsonl.names import MANIFEST
from mypt_cli.jsonl.paths import expand
from mypt_cli.store import Store
from mypt_train import Options, ShardReader, prepare
from mypt_train.scale.planning.plan import read_plan
from tests.support.build import chat, contents, write
from tests.support.shards import ROOT


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = (ROOT / "examples" / "phase1.jsonl").read_bytes()
    Path("a.jsonl").write_bytes(lines)
    Path("plan").write_bytes(lines)


def test_from_a_plan_to_a_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["./plan", "a.jsonl", "--out", "sft", "--unit-size", "0.4k", "--context-length", "256"]
    assert mypt(["prepare", "plan", *words]) == 0
    out = capsys.readouterr().out
    assert out.startswith("sft/plan.json: 2 inputs, 6 units in 1 group\n")
    assert "mypt-prepare run --plan sft/plan.json --units 0-5" in out
    plan = ["--plan", "sft/plan.json"]
    assert main(["run", *plan, "--units", "0,2-3"]) == 0
    assert main(["run", *plan, "--units", "3-5,5"]) == 0
    assert capsys.readouterr().out == "sft: 3 units made\nsft: 2 units made, 1 there before\n"
    assert main(["status", *plan]) == 1
    assert capsys.readouterr().out == (
        "sft: 5 of 6 units are made\n  missing: 1\n  next: mypt-prepare run --plan sft/plan.json\n"
    )
    assert main(["commit", *plan]) == 2
    assert "1 of 6 units are not made yet (1); make them with" in capsys.readouterr().err
    assert lint(["sft"]) == 1
    assert "is planned, but not committed; mypt-prepare status" in capsys.readouterr().out
    assert main(["run", *plan]) == 0
    assert capsys.readouterr().out == "sft: 1 unit made, 5 there before\n"
    assert main(["status", "--plan", "sft"]) == 0
    assert "next: mypt-prepare commit --plan sft/plan.json" in capsys.readouterr().out
    assert main(["commit", *plan]) == 0
    assert "sft: 12 lines: 12 written, 0 refused" in capsys.readouterr().out
    assert main(["commit", *plan]) == 0
    assert "was committed before, by the same plan" in capsys.readouterr().err
    assert main(["run", *plan]) == 0
    assert capsys.readouterr().out.endswith("sft: 0 units made, 6 there before\n")
    assert replace(read_plan("sft"), out="s3://me:pw@b/sft").display_name == "s3://***@b/sft"
    for quiet in ("run", "commit"):
        assert main([quiet, *plan, "-q"]) == 0
        assert not capsys.readouterr().out
    assert main(["status", *plan]) == 0
    assert capsys.readouterr().out == "sft: is committed\n"
    assert ShardReader("sft", verify=True).manifest["lines"]["written"] == 12


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--plan", "sft", "--units", "0,7"], "unit 7: the plan has units 0 to 0"),
        (["run", "--plan", "sft", "--units", "3-1"], "'3-1' ends before it begins"),
        (
            ["run", "--plan", "sft", "--units", "all"],
            "'all' are not units; expected 7, 0-99",
        ),
        (["run", "--plan", "sft", "--jobs", "0"], "--jobs: 0 is not a positive number"),
        (["status", "--plan", "a.json"], "a.json: there is no plan; name the folder or the"),
        (["status", "--plan", "none"], "none/plan.json: there is no plan; name the folder or the"),
        (["status", "--plan", "a.jsonl"], "a.jsonl"),
        (["plan", "a.jsonl", "--out", "x", "--unit-size", "large"], "'large' is not a size"),
        (["plan", "a.jsonl", "--out", "x", "--unit-size", "0"], "--unit-size is 0, expected 1"),
        (["plan", "a.jsonl", "--out", "."], ".: is not empty; name another folder"),
        (["plan", "a.jsonl", "--out", "sft", "--seed", "1"], "another plan is there"),
        (["plan", "a.jsonl", "--out", "https://h/x"], "nothing can be written to a web server"),
        (["plan", "empty.jsonl", "--out", "x"], "nothing to prepare: all inputs are empty"),
        (["a.jsonl", "--out", "sft", "--resume"], "is planned for several machines; go on with"),
        (["plan", "-", "--out", "x", "--dialect", "mypt"], "a stream cannot be read twice"),
        (
            ["a.jsonl", "--out", "s3://bucket/a b", "--dedup"],
            "without --jobs and --resume, then\n  mypt-prepare run --plan 's3://bucket/a b' --jobs ",
        ),
        (["a.jsonl", "--out", "https://h/x"], "nothing can be written to a web server"),
    ],
)
def test_what_cannot_be_done(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.jsonl").touch()
    assert main(["plan", "a.jsonl", "--out", "sft", "-q"]) == 0
    with suppress(SystemExit):  # argparse ends by itself
        assert main(words) == 2
    assert says in capsys.readouterr().err
    assert not Path("x").exists()


def test_many_files_are_read_side_by_side(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Path("a.jsonl").read_bytes().splitlines()
    monkeypatch.setattr("mypt_lint.run.plan._MANY", 3)
    monkeypatch.setattr("mypt_lint.run.plan._THREADS", 2)
    monkeypatch.setattr("mypt_train.scale.planning.cut._THREADS", 2)
    names = [f"in/{number:02}.jsonl" for number in range(40)]
    for number, name in enumerate(names):
        write(name, *([chat()] if number % 4 else lines))
    assert main(["plan", "in", "--out", "x", "--dialect", "mypt"]) == 0
    named = [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()]
    assert named == [name for number, name in enumerate(names) if number % 4]
    plan = read_plan("x")
    assert [source.path for source in plan.inputs] == names
    assert [piece.file for piece in plan.units[0]] == [*range(40)]


def test_the_one_liner_reads_objects(s3: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path("a.jsonl").read_bytes()
    Path("in").mkdir()
    files = {"a.jsonl": lines, "b.jsonl.gz": gzip.compress(lines), "c.jsonl": lines}
    for name, content in files.items():
        Path("in", name).write_bytes(content)
        Store.at(s3).put(f"in/{name}", content)
    options = ["--context-length", "256", "--dedup"]
    assert main(["in", "--out", "here", *options]) == 0
    assert main([f"{s3}/in", "--out", "there", *options]) == 0
    prepare(
        expand([f"{s3}/in"]), Path("two"), Options(context_length=256, dedup=True),
        workers=2, unit_size=500,
    )  # fmt: skip
    here, *others = (contents(Path(name)) for name in ("here", "there", "two"))
    manifests = [json.loads(files_there.pop(MANIFEST)) for files_there in (here, *others)]
    assert [*others] == [here, here]
    assert [entry["path"] for entry in manifests[1]["inputs"]] == [f"{s3}/in/{n}" for n in files]
    assert all(entry["etag"] for entry in manifests[1]["inputs"])
    for manifest in manifests:
        del manifest["inputs"]
    assert manifests[0] == manifests[1] == manifests[2]
    capsys.readouterr()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_reason_is_told_once_for_all_its_units(
    jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Path("a.jsonl").read_bytes()
    assert main(["plan", "./plan", "a.jsonl", "--out", "x", "--unit-size", "300", "-q"]) == 0
    Path("a.jsonl").unlink()
    plan = ["--plan", "x"]
    assert main(["run", *plan, "--jobs", jobs]) == 1
    out, err = capsys.readouterr()
    assert out == "x: 4 units made, 4 failed\n"
    assert "units 4-7: a.jsonl: is not there (from the folder " in err
    assert err.count("a.jsonl: is not there") == 1
    assert main(["status", *plan]) == 1
    assert "missing: 4-7\n" in capsys.readouterr().out
    assert main(["commit", *plan]) == 2
    assert "4 of 8 units are not made yet (4-7); make them with" in capsys.readouterr().err
    Path("a.jsonl").write_bytes(lines)
    assert main(["run", *plan, "--jobs", jobs]) == main(["commit", *plan, "--jobs", jobs]) == 0
    assert ShardReader("x", verify=True).manifest["lines"]["written"] == 12


def test_a_plan_that_takes_the_place_of_another_is_followed() -> None:
    for source, lines in (("plan", 6), ("a.jsonl", 5)):
        Path("a.jsonl").write_bytes(b"".join(Path("plan").read_bytes().splitlines(True)[:5]))
        assert main(["plan", f"./{source}", "--out", "x", "-q"]) == 0
        assert main(["run", "--plan", "x"]) == main(["commit", "--plan", "x"]) == 0
        assert ShardReader("x").manifest["lines"]["written"] == lines
        shutil.rmtree("x")


@pytest.mark.parametrize("key", ["units/00000.json", "groups/00000.json"])
def test_a_damaged_object_of_an_unfinished_plan_is_named(
    capsys: pytest.CaptureFixture[str], key: str
) -> None:
    assert main(["plan", "a.jsonl", "--out", "sft"]) == 0
    plan = ["--plan", "sft/plan.json"]
    assert main(["run", *plan]) == 0
    path = Path("sft/.work", key)
    path.parent.mkdir(exist_ok=True)
    for data in (b'{"unit":0}', b"[" * 100_000, b""):
        path.write_bytes(data)
        capsys.readouterr()
        assert main(["commit", *plan]) == 2
        err = capsys.readouterr().err
        assert f"sft/.work/{key}: is damaged (" in err
        assert "; delete it and run again" in err


def test_a_plan_that_nests_too_deep_is_no_plan(capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.json").write_bytes(b"[" * 100_000)
    assert main(["status", "--plan", "plan.json"]) == 2
    assert "plan.json: is not a plan; name the plan.json" in capsys.readouterr().err
