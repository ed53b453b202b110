"""mypt-prepare: exact masks, packing, accounting.

And that it survives a kill at any moment with nothing lost or doubled.
"""

from __future__ import annotations

import errno
import gzip
import itertools
import json
import os
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
import mypt_spec.states
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main
from mypt_cli import atomic
from mypt_cli.jsonl.paths import expand
from mypt_spec.episode import events_of
from mypt_train import Options, PrepareError, ShardError, ShardReader, prepare
from mypt_train.data.encode_line import Encoder
from mypt_train.data.packing import pack
from tests.support.build import assistant, contents, lines, native, read, user, write
from tests.support.examples import either, examples
from tests.support.kills import is_killed, steps_of
from tests.support.shards import PHASES, prepare_files
from tests.support.strategies import DIALECTS, records


@given(data=st.data())
@settings(max_examples=examples(25))
@pytest.mark.parametrize("name", DIALECTS)
def test_what_is_read_back_is_what_the_dialect_encodes(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("set")
    drawn = data.draw(st.lists(records(name), min_size=1, max_size=5))
    d, packed = mypt_spec.dialect(name), data.draw(st.booleans())
    options = {"dialect": name, "pack": packed, "context_length": 4096, "val_fraction": 0.3}
    prepare_files([write(folder / "in.jsonl", *drawn)], folder / "out", **options)
    expected = []
    for number, record in enumerate(drawn, 1):
        episode, _ = d.read(record)
        assert episode is not None
        encoded = d.encode(episode)
        expected.append((number, encoded.ids.tolist(), [0, *encoded.loss.tolist()[1:]]))
    written = []
    reader = ShardReader(folder / "out", verify=True)
    for shard in (shard for split in ("train", "val") for shard in reader.shards(split)):
        covered = np.zeros(len(shard.ids), bool)
        for entry, (ids, mask) in zip(shard.index, shard.episodes(), strict=True):
            written.append((int(entry["line"]), ids.tolist(), mask.tolist()))
            start, end = int(entry["start"]), int(entry["start"] + entry["length"])
            covered[start:end] = True
            within = {start // 4096, (end - 1) // 4096, int(entry["row"])}
            assert not packed or len(within) == 1, "within one row"
        assert (shard.ids[~covered] == 50256).all()
        assert not shard.mask[~covered].any()
        assert packed or covered.all()
    assert sorted(written) == sorted(expected)


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(50, 70), st.integers(1, 20))
def test_every_item_is_in_one_row(lengths: list[int], row: int, window: int) -> None:
    items = [(length, i) for i, length in enumerate(lengths)]
    rows = list(pack(items, row, window=window))
    assert sorted(i for numbers in rows for i in numbers) == list(range(len(lengths)))
    assert all(numbers == sorted(numbers) for numbers in rows)
    assert rows == list(pack(items, row, window=window))
    sums = sorted(sum(lengths[i] for i in numbers) for numbers in rows)
    assert all(size <= row for size in sums)
    if window >= len(lengths) and lengths:  # no two rows would fit into one
        assert len(sums) == 1 or sums[0] + sums[1] > row
    with pytest.raises(ValueError, match="a row holds 1 to"):
        list(pack([(row + 1, 0)], row))


def test_padding_is_small() -> None:
    rng = random.Random(1)
    lengths = [int(50 * 30 ** rng.random()) for _ in range(20_000)]
    rows = sum(1 for _ in pack([(length, i) for i, length in enumerate(lengths)], 2048))
    assert rows * 2048 <= sum(lengths) * 1.002


def test_bytes_do_not_depend_on_workers_or_units(tmp_path: Path) -> None:
    options = {"val_fraction": 0.3, "seed": 7, "tokens_per_shard": 1024}
    one = prepare_files(PHASES, tmp_path / "one", **options)
    for workers in (2, 4):
        assert prepare_files(PHASES, tmp_path / str(workers), workers=workers, **options) == one
        assert contents(tmp_path / str(workers)) == contents(tmp_path / "one")
    assert (
        prepare_files(PHASES, tmp_path / "whole", unit_size=1 << 20, **options)["splits"]
        == one["splits"]
    )
    assert len(one["splits"]["train"]["shards"]) > 1
    other = prepare_files(
        PHASES, tmp_path / "other", val_fraction=0.3, seed=8, tokens_per_shard=1024
    )
    assert other["splits"] != one["splits"]
    assert other["lines"] == one["lines"]


def test_every_line_is_accounted_for(tmp_path: Path) -> None:
    good, long = native("Hi"), native("word " * 3000)
    some = lines(good, "nope", good, "", native("<myPT_user>"), long, native("Ho"))
    path, packed = tmp_path / "in.jsonl", tmp_path / "more.jsonl.gz"
    path.write_bytes(b"\n".join(some))
    packed.write_bytes(gzip.compress(b"\n".join([*some, b"{}"])))
    manifest = prepare_files(
        [str(path), str(packed)], tmp_path / "out",
        unit_size=300, on_error="reject", long="drop", dedup=True,
    )  # fmt: skip
    assert manifest["lines"] == {"lines": 15, "written": 2, "refused": 7, "long": 2, "duplicate": 4}
    assert [entry["lines"] for entry in manifest["inputs"]] == [7, 8]
    rejects = read(tmp_path / "out" / "rejects.jsonl")
    both = [(2, "MYP001"), (4, "MYP011"), (5, "MYP301"), (6, "MYP502")]
    assert [(r["file"], r["line"], r["findings"][0]["code"]) for r in rejects] == [
        *[(str(path), *reject) for reject in both],
        *[(str(packed), *reject) for reject in [*both, (8, "MYP102")]],
    ]
    assert manifest["tags"]["USER_OPEN"] == 2 + 4


@pytest.mark.extra("pyarrow")
@pytest.mark.parametrize("packed", [True, False])
def test_parquet_holds_the_same(tmp_path: Path, packed: bool) -> None:
    import pyarrow.parquet as pq

    options: dict[str, Any] = {"val_fraction": 0.3, "tokens_per_shard": 1024, "pack": packed}
    prepare_files(PHASES, tmp_path / "bin", **options)
    manifest = prepare_files(PHASES, tmp_path / "parquet", format="parquet", **options)
    assert len(manifest["splits"]["train"]["shards"]) > 1
    mine, theirs = (ShardReader(tmp_path / form, verify=True) for form in ("bin", "parquet"))
    for split in ("train", "val"):
        for one, other in zip(mine.shards(split), theirs.shards(split), strict=True):
            assert one.index.tolist() == other.index.tolist()
            assert one.ids.tolist() == other.ids.tolist()
            assert one.mask.tolist() == other.mask.tolist()
            table = pq.read_table(tmp_path / "parquet" / f"{other.name}.parquet").to_pylist()
            assert [i for row in table for i in row["input_ids"]] == one.ids.tolist()
            assert [i for row in table for i in row["loss_mask"]] == one.mask.tolist()
            assert [line for row in table for line in row["lines"]] == one.index["line"].tolist()
            if packed:
                assert {len(row["input_ids"]) for row in table} == {1024}
                starts = [start for row in table for start in row["starts"]]
                assert starts == [entry["start"] % 1024 for entry in one.index]
    assert lint([str(tmp_path / "parquet")]) == 0
    broken = tmp_path / "parquet" / "train" / "shard_00000.parquet"
    broken.write_bytes(broken.read_bytes()[:-9])
    with pytest.raises(ShardError, match="copy or prepare it again"):
        ShardReader(tmp_path / "parquet")


def test_a_refused_line_makes_no_data_set(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", native("Hi"), {"messages": []})
    for _ in range(2):  # the same folder may be named again
        with pytest.raises(PrepareError, match=r"1 of 2 lines are refused") as refusal:
            prepare_files([path], tmp_path / "out")
        first, reason, last = str(refusal.value).split("\n")
        assert "--on-error reject" in first
        assert reason == f"  {path}:2: MYP107 the conversation has no messages"
        assert last == f"all of them: {tmp_path / 'out' / 'rejects.jsonl'}"
        assert [p.name for p in (tmp_path / "out").iterdir()] == ["rejects.jsonl"]
        with pytest.raises(ShardError, match=r"rejects\.jsonl"):
            ShardReader(tmp_path / "out")
    write(tmp_path / "in.jsonl", native("Hi"))
    assert prepare_files([path], tmp_path / "out")["lines"]["written"] == 1
    assert (tmp_path / "out" / "rejects.jsonl").read_bytes() == b""


def test_a_set_without_an_episode_says_why(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", *[{"messages": []}] * 5)
    with pytest.raises(PrepareError, match="nothing to write: none of 5 lines") as refusal:
        prepare_files([path], tmp_path / "out", on_error="reject")
    reasons = str(refusal.value).split("\n")[1:4]
    assert all(reason.endswith("the conversation has no messages") for reason in reasons)
    assert len(reasons) == 3


def test_a_refusal_names_the_dialect_of_a_file_that_is_in_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [{"type": "text", "text": "Yes."}]
    plain = {"messages": [user(), {"role": "assistant", "contents": parts}]}
    path = write(tmp_path / "x.jsonl", plain, plain)
    assert main([path, "--out", str(tmp_path / "a"), "-q"]) == 2
    assert f"; {path} is praxis or usf-omega: use --dialect praxis\n" in capsys.readouterr().err
    plain["messages"][0]["stray"] = 1
    path = write(tmp_path / "y.jsonl", plain)
    assert main([path, "--out", str(tmp_path / "b"), "-q"]) == 2
    assert "use --dialect" not in capsys.readouterr().err


def turns(count: int, words: int) -> dict[str, Any]:
    return {"system": "S", "messages": [
        part for i in range(count)
        for part in (user(f"{i} " + "word " * words), assistant(f"Yes {i}."))
    ]}  # fmt: skip


def test_an_episode_that_fills_a_row_fits() -> None:
    """On each way to encode it: by itself, by a template."""
    (line,) = lines(native())
    size = len(Encoder(Options()).line(line).samples[0].ids)
    for length, status in ((size, "written"), (size - 1, "long")):
        encoder = Encoder(Options(context_length=length, long="drop"))
        outcomes = [encoder.line(line), *encoder.lines([line] * 3), *encoder.lines([line] * 3)]
        assert {outcome.status for outcome in outcomes} == {status}


def test_parts_that_fill_a_row_are_not_split_further() -> None:
    sizes = {n: len(Encoder(Options()).record(turns(n, 9)).samples[0].ids) for n in (1, 2, 3)}
    for length, parts in ((sizes[2], [2, 1]), (sizes[2] - 1, [1, 1, 1]), (sizes[3], [3])):
        encoder = Encoder(Options(context_length=length, long="split-turns"))
        samples = encoder.record(turns(3, 9)).samples
        assert [len(sample.ids) for sample in samples] == [sizes[n] for n in parts]


def test_long_episodes_are_split_after_turns(tmp_path: Path) -> None:
    record = turns(7, 300)
    path = write(tmp_path / "in.jsonl", record, turns(1, 2000))
    manifest = prepare_files([path], tmp_path / "out", long="split-turns", on_error="reject")
    assert manifest["lines"] == {"lines": 2, "written": 1, "refused": 1, "long": 0, "duplicate": 0}
    d = mypt_spec.dialect("mypt")
    texts: list[str] = []
    (shard,) = ShardReader(tmp_path / "out").shards()
    episodes = [d.parse_ids(ids)[0] for ids, _ in shard.episodes()]
    assert len(episodes) > 1
    for episode in episodes:
        assert episode is not None
        written = d.write(episode)
        assert written["system"] == "S"
        texts += [part["content"] for part in written["messages"]]
    assert sorted(texts) == sorted(part["content"] for part in record["messages"]), (
        "every turn once, and no other"
    )


def turns_of(d: mypt_spec.Dialect, episode: mypt_spec.Episode) -> tuple[int, list[int]]:
    """Returns the number of messages before the first turn, and where turns end."""
    terminals = [[e.terminal for e in events_of([m], d.table)] for m in episode.messages]
    return mypt_spec.states.turns(terminals, d.automaton, d.table)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
@settings(max_examples=examples(40))
def test_parts_are_legal_and_together_the_whole(name: str, data: st.DataObject) -> None:
    record = data.draw(records(name))
    d = mypt_spec.dialect(name)
    episode, _ = d.read(record)
    assert episode is not None
    whole = len(d.encode(episode).ids)
    length = data.draw(st.integers(2, max(2, whole)))
    encoder = Encoder(Options(dialect=name, context_length=length, long="split-turns"))
    outcome = encoder.record(record)
    if outcome.status != "written":
        assert outcome.findings
        return
    assert all(len(s.ids) <= length for s in outcome.samples)
    parts = [d.parse_ids(s.ids)[0] for s in outcome.samples]
    assert None not in parts
    head = turns_of(d, episode)[0]
    joined = list(parts[0].messages)
    for part in parts[1:]:
        assert part.messages[:head] == episode.messages[:head]
        joined += part.messages[head:]
    assert tuple(joined) == d.parse_ids(d.encode(episode).ids)[0].messages
    if len(parts) > 1:
        assert [len(s.ids) for s in outcome.samples] == greedy(encoder, episode)


def greedy(encoder: Encoder, episode: mypt_spec.Episode) -> list[int]:
    """Returns the lengths of the parts; each turn is put after the others while all of them fit."""
    messages = episode.messages
    head, bounds = turns_of(encoder.dialect, episode)
    out: list[int] = []
    begin = head
    for end, after in itertools.pairwise([*bounds, 0]):
        size, wider = (
            len(encoder.sample(replace(episode, messages=messages[:head] + messages[begin:e])).ids)
            if e
            else 0
            for e in (end, after)
        )
        if not after or wider > encoder.options.context_length:
            out.append(size)
            begin = end
    return out


def test_duplicates_never_straddle(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", *[native(f"Question {i % 40}") for i in range(200)])
    prepare_files([path], tmp_path / "out", val_fraction=0.5)
    reader = ShardReader(tmp_path / "out")
    train, val = (
        {ids.tobytes() for shard in reader.shards(s) for ids, _ in shard.episodes()}
        for s in ("train", "val")
    )
    assert train
    assert val
    assert not train & val


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_small_run_is_killed_before_each_change_of_a_file(tmp_path: Path) -> None:
    """Before one in twelve in the quick suite."""
    path = write(tmp_path / "in.jsonl", native("Hi"), native("Ho"))

    def go(out: Path) -> None:
        prepare_files([path], out, resume=out.exists())

    go(tmp_path / "loaded")
    steps = steps_of(lambda: go(tmp_path / "want"))
    assert steps > 100
    expected = contents(tmp_path / "want")
    for step in range(0, steps, either(12, 1)):
        out = tmp_path / str(step)
        assert is_killed(lambda out=out: go(out), step)
        if not (out / "dataset_metadata.json").exists() or (out / ".work").exists():
            go(out)
        assert contents(out) == expected, step


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_is_killed_anywhere_resumes_to_the_same_bytes(
    tmp_path: Path, workers: int
) -> None:
    """Also when the run that resumes is killed, and by any of its processes."""

    def go(out: Path) -> None:
        prepare_files(
            PHASES, out, unit_size=700, val_fraction=0.3, tokens_per_shard=2048,
            workers=workers, resume=out.exists(),
        )  # fmt: skip

    go(tmp_path / "loaded")  # what is loaded once is no step of the others
    steps = steps_of(lambda: go(tmp_path / "want"))
    expected, rng = contents(tmp_path / "want"), random.Random(4)
    kills = complete = 0
    while kills < examples(50) or not complete:
        out = tmp_path / f"out{complete}"
        kills += is_killed(lambda out=out: go(out), rng.randrange(steps))
        if not (out / "dataset_metadata.json").exists():
            with pytest.raises(ShardError):
                ShardReader(out)
            continue
        ShardReader(out, verify=True)
        if (out / ".work").exists():  # killed behind the manifest
            go(out)
        assert contents(out) == expected
        complete += 1


def _stopped(folder: Path) -> Path:
    """Makes a data set in `want`, and one that is stopped when its units are there; returns that."""
    prepare_files(PHASES[:2], folder / "want", unit_size=1500)

    def stop(what: str, *_: int) -> None:
        if what == "writing":
            raise InterruptedError

    out = folder / "out"
    with pytest.raises(PrepareError, match="--resume"):
        prepare_files(PHASES[:2], out, unit_size=1500, progress=stop)
    return out


@pytest.mark.parametrize("damage", ["cut", "flipped", "header", "empty"])
def test_a_unit_that_was_damaged_is_made_again(tmp_path: Path, damage: str) -> None:
    """Such as a bit of a mask that another program turned, between two runs."""
    out = _stopped(tmp_path)
    unit = sorted((out / ".work/units").glob("*.bin"))[1]
    data = unit.read_bytes()
    mask = len(data) - 33  # the last token's, before the SHA-256
    changed = {
        "cut": data[: len(data) // 2],
        "flipped": data[:mask] + bytes([1 - data[mask]]) + data[mask + 1 :],
        "header": data.replace(b'"samples":', b'"samples":1', 1),
        "empty": b"",
    }[damage]
    unit.write_bytes(changed)
    prepare_files(PHASES[:2], out, unit_size=1500, resume=True)
    assert contents(out) == contents(tmp_path / "want")


@pytest.mark.parametrize("data", [b"{", b"[]", b"[" * 100_000])
def test_a_damaged_plan_of_an_earlier_run_is_named(tmp_path: Path, data: bytes) -> None:
    plan = tmp_path / "out" / ".work" / "plan.json"
    plan.parent.mkdir(parents=True)
    plan.write_bytes(data)
    with pytest.raises(
        PrepareError, match=r"had a plan\.json that is damaged now; delete .*\.work"
    ):
        prepare_files(PHASES[:1], tmp_path / "out", resume=True)


@pytest.mark.parametrize("broken", ["write", "rename", "fsync"])
def test_each_step_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """Every write, rename and fsync in turn: a clear error, no data set, and a resumed run that
    ends the same.
    """
    prepare_files(PHASES[:2], tmp_path / "want", unit_size=1500)
    where, name = {
        "write": (atomic, "replacing"),
        "rename": (atomic.os, "replace"),
        "fsync": (atomic.os, "fsync"),
    }[broken]
    real = getattr(where, name)
    for failing in range(1000):
        out = tmp_path / f"out{failing}"
        left = [failing]

        def step(*args: Any, left: list[int] = left, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == -1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **more)

        monkeypatch.setattr(where, name, step)
        error = None
        try:
            prepare_files(PHASES[:2], out, unit_size=1500)
        except PrepareError as raised:
            error = str(raised)
        monkeypatch.setattr(where, name, real)
        if error is None:
            break
        assert "No space left" in error
        assert "--resume" in error
        if (out / "dataset_metadata.json").exists():  # it failed behind the last rename
            ShardReader(out, verify=True)
        else:
            with pytest.raises(ShardError):
                ShardReader(out)
        prepare_files(PHASES[:2], out, unit_size=1500, resume=True)
        assert contents(out) == contents(tmp_path / "want")
    assert failing > 5


def test_what_does_not_fit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "in.jsonl", native("Hi"))
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["mypt_train.scale.prepare"], "commit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            prepare_files([path], tmp_path / "out")
    with pytest.raises(PrepareError, match="an earlier run stopped here; go on with --resume"):
        prepare_files([path], tmp_path / "out")
    with pytest.raises(PrepareError, match="the earlier run had seed = 0, this one has 1"):
        prepare_files([path], tmp_path / "out", seed=1, resume=True)
    write(tmp_path / "in.jsonl", native("Hi"), native("Ho"))
    with pytest.raises(PrepareError, match="other inputs, or an input has changed"):
        prepare_files([path], tmp_path / "out", resume=True)
    prepare_files([path], tmp_path / "fine")
    with pytest.raises(PrepareError, match="nothing to resume"):
        prepare_files([path], tmp_path / "fine", resume=True)
    with pytest.raises(PrepareError, match="is not empty"):
        prepare_files([path], tmp_path / "fine")


def test_the_reader_refuses_what_is_wrong(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", native("Hi"), native("Ho"))
    prepare_files([path], tmp_path / "out")
    manifest = tmp_path / "out" / "dataset_metadata.json"
    shard = tmp_path / "out" / "train" / "shard_00000.bin"
    good, data = manifest.read_bytes(), shard.read_bytes()
    shard.write_bytes(data[:-1])
    with pytest.raises(ShardError, match=r"shard_00000\.bin: has 2047 bytes, expected 2048"):
        ShardReader(tmp_path / "out")
    shard.write_bytes(data[:-1] + b"\x00")
    ShardReader(tmp_path / "out")
    with pytest.raises(ShardError, match="was altered"):
        ShardReader(tmp_path / "out", verify=True)
    shard.unlink()
    with pytest.raises(ShardError, match="No such file"):
        ShardReader(tmp_path / "out")
    shard.write_bytes(data)
    for change, message in [
        ({"spec_fingerprint": "0" * 64}, "another grammar"),
        ({"version": 3}, "is not a manifest of schema"),
        ({"version": []}, "is not a manifest of schema"),
        ({"version": 2}, "has ids of type uint16 in version 2, expected version 1"),
        ({"version": 2, "dtype": "uint32"}, "dtype is uint32, mypt has uint16"),
    ]:
        manifest.write_text(json.dumps(json.loads(good) | change))
        with pytest.raises(ShardError, match=message):
            ShardReader(tmp_path / "out")
    manifest.write_text("{")
    with pytest.raises(ShardError, match="cannot be read"):
        ShardReader(tmp_path / "out")
    with pytest.raises(ShardError, match="name a folder that mypt-prepare has made"):
        ShardReader(tmp_path)


def test_the_command_prepares_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main([*PHASES, "--out", str(out), "--context-length", "1024", "--workers", "1"]) == 0
    printed = capsys.readouterr()
    assert "26 lines: 26 written, 0 refused, 0 too long, 0 duplicate" in printed.out
    assert printed.err == ""
    for args, says in [
        ([PHASES[0], "--out", str(out)], "is not empty"),
        ([str(tmp_path / "no.jsonl"), "--out", str(tmp_path / "x")], "no such file"),
        ([PHASES[0], "--out", str(tmp_path / "x"), "--dialect", "other"], "no dialect 'other'"),
        ([PHASES[0], "--out", str(tmp_path / "x"), "--phase", "9"], "mypt has phases 1 to 5"),
        ([PHASES[0], "--out", str(tmp_path / "x"), "--val-fraction", "2"], "val_fraction is 2.0"),
        (["-", "--out", str(tmp_path / "x")], "a stream cannot be read twice"),
    ]:
        assert main(args) == 2
        assert says in capsys.readouterr().err
        assert not (tmp_path / "x").exists()


def test_a_file_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "in.jsonl", native("Hi"))
    sources = expand([path])
    Path(path).unlink()
    with pytest.raises(PrepareError, match="no such file"):
        prepare(sources, tmp_path / "out", Options())
    write(tmp_path / "in.jsonl", native("Hi"))

    def grow(*_: object) -> None:
        with open(path, "ab") as more:
            more.write(b"{}\n")

    with pytest.raises(PrepareError, match="has changed while it was read"):
        prepare(expand([path]), tmp_path / "out", Options(), progress=grow)


def test_a_refusal_names_what_is_refused_before_what_was_dropped(tmp_path: Path) -> None:
    """Long episodes are left out as wished: they are not why nothing is written."""
    long = native("a " * 300)
    source = write(tmp_path / "a.jsonl", *[long] * 5, {"messages": 3})
    with pytest.raises(PrepareError) as raised:
        prepare_files([source], tmp_path / "out", context_length=200, long="drop")
    first, *_ = str(raised.value).splitlines()[1:]
    assert first.startswith(f"  {source}:6: "), raised.value
