"""--dialect auto: which dialect a file is in, and records of another one in it."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_spec.lint.cli import main
from mypt_spec.lint.detect import detect, error_count
from mypt_spec.lint.sources import Source
from tests.conversion import FEATURES
from tests.strategies import DIALECTS, records

KNOWN = [
    mypt_spec.dialect(name) for name in sorted(mypt_spec.dialects(), key=lambda n: n != "mypt")
]


def guess(data: bytes, kind: str = "record") -> tuple[str, tuple[str, ...], bool]:
    found = detect(Source("x", stream=io.BytesIO(data)), kind, KNOWN)
    assert found.source.open().read() == data[: 1 << 20], "what was looked at is read again"
    return found.dialect.name, found.others, found.sure


def jsonl(*values: Any) -> bytes:
    return b"".join(json.dumps(v).encode() + b"\n" for v in values)


@given(st.data())
def test_the_dialect_or_one_that_fits_as_well(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(DIALECTS))
    lines = data.draw(st.lists(records(name), min_size=1, max_size=3))
    found, others, sure = guess(jsonl(*lines))
    assert sure
    assert name == found or name in others
    for fitting in (found, *others):
        assert not any(error_count(line, mypt_spec.dialect(fitting)) for line in lines)


@given(st.data())
def test_the_dialect_of_a_text(data: st.DataObject) -> None:
    d = mypt_spec.dialect(data.draw(st.sampled_from(DIALECTS)))
    episode, _ = d.read(data.draw(records(d.name)))
    assert episode is not None
    assert guess(d.serialize(episode).encode(), "text")[0] == d.name


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda t: json.dumps(t).encode()))
def test_any_bytes(data: bytes) -> None:
    """Whether it is right or not, nothing is raised, and `sure` means that a line is legal."""
    found, _, sure = guess(data)
    assert sure == any(
        not error_count(json.loads(line), mypt_spec.dialect(found))
        for line in data.split(b"\n")
        if is_json(line)
    )


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_a_few_errors_do_not_mislead() -> None:
    assert guess(Path("examples/broken.jsonl").read_bytes())[0] == "mypt"
    assert guess(Path("examples/phase5.jsonl").read_bytes()) == ("mypt", (), True)


def test_tags_in_the_data_are_a_sign() -> None:
    plain = FEATURES["question and answer"]["gabgpt"]
    tagged = {
        "messages": [
            {"role": "user", "content": "<|user|>"},
            {"role": "assistant", "content": "No."},
        ]
    }
    assert guess(jsonl(plain, tagged))[0] == "gabgpt"


def test_the_command_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mixed = tmp_path / "mixed.jsonl"
    thinking = FEATURES["thinking"]
    mixed.write_bytes(jsonl(thinking["gabgpt"], thinking["gabgpt"], thinking["mypt"]))
    assert (
        main(["--dialect", "auto", "--format", "jsonl", str(mixed), "examples/phase5.jsonl"]) == 1
    )
    out = capsys.readouterr()
    found = [json.loads(line) for line in out.out.splitlines()]
    assert [(f["code"], f["location"]["row"], f["dialect"]) for f in found[:-1]] == [
        ("MYP014", 3, "gabgpt")
    ]
    assert found[0]["message"] == "this record is mypt, the file is gabgpt"
    assert f"{mixed}: gabgpt\n" in out.err
    assert "examples/phase5.jsonl: mypt\n" in out.err
    assert main(["--dialect", "auto", "-q", str(mixed)]) == 1
    assert capsys.readouterr().err == ""


def test_nothing_legal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"nope\n{}\n")
    assert main(["--dialect", "auto", str(path)]) == 1
    out = capsys.readouterr()
    assert "nothing at its beginning is legal" in out.err
    assert "MYP001" in out.out
    assert "MYP014" not in out.out


def test_streams_and_compressed_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = jsonl(*[FEATURES["thinking"]["gabgpt"]] * 9000)
    assert len(data) > 1 << 19, "more than is looked at"
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(data))
    assert main(["--dialect", "auto", str(packed)]) == 0
    assert "x.jsonl.gz: gabgpt\n9000 lines clean" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["--dialect", "auto", "-"]) == 0
    assert "<stdin>: gabgpt\n9000 lines clean" in capsys.readouterr().err
