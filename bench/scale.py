"""Compares units of a plan with the one-liner of `mypt-prepare`: here and in a store.

    python -m bench.scale [--mb 16] [--rounds 5]

One run, interleaved, medians of ratios. One process is measured in processor time: encoding, then
all until the data set is there. The store is moto's server on this machine, in a process by itself;
its time is in neither. What a store adds is small beside encoding, so it is also measured alone:
units whose lines are read and whose object is written, but whose encoding is recalled. The store is
left out where it is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from time import process_time, sleep
from typing import Any
from urllib.request import urlopen

from bench.data import make
from bench.lint import DATA
from mypt_cli.jsonl.blocks import Block, Source
from mypt_cli.jsonl.paths import expand
from mypt_cli.store import Store
from mypt_train.data.formats.options import Options
from mypt_train.data.units import Encoded
from mypt_train.scale import run
from mypt_train.scale.commit import commit
from mypt_train.scale.planning.plan import Plan, make_plan
from mypt_train.scale.prepare import prepare
from mypt_train.scale.run import run_unit

OPTIONS = Options(context_length=1 << 14, long="drop")
UNITS = 8


def planned(paths: list[Source], out: str, mb: int) -> Plan:
    """Returns a plan of about UNITS units."""
    return make_plan(paths, (), OPTIONS, out, unit=(mb << 20) // UNITS + 1)


def alone(source: Source, folder: Path, mb: int) -> tuple[float, float]:
    """Returns processor seconds of the one-liner, and of plan, units and commit."""
    times = []
    for name in ("liner", "plan"):
        begin = process_time()
        if name == "liner":
            prepare([source], folder / name, OPTIONS)
        else:
            plan = planned([source], str(folder / name), mb)
            for number in range(len(plan.units)):
                run_unit(plan, number)
            commit(plan)
        times.append(process_time() - begin)
        shutil.rmtree(folder / name)
    return times[0], times[1]


@contextmanager
def bucket() -> Iterator[str]:
    """Yields the URL of an empty bucket on moto's server, for this process."""
    port = 5577
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    os.environ |= {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    try:
        for _ in range(600):
            try:
                urlopen(url)
                break
            except OSError:
                sleep(0.1)
        subprocess.run(["curl", "-sf", "-X", "PUT", f"{url}/bench"], check=True)
        yield "s3://bench"
    finally:
        server.terminate()
        server.wait()


def in_store(
    path: Path, url: str, folder: Path, mb: int, rounds: int
) -> tuple[list[float], list[float]]:
    """Returns, for some rounds, processor seconds of units in a store by those of local ones.

    First as they are; then 1 and what the store adds, measured without encoding.
    """
    larger, times = folder / "in.jsonl", max(1, 96 // mb)
    larger.write_bytes(path.read_bytes() * times)  # two units, each of several reads
    Store.at(url).put("in.jsonl", larger)
    plans = [
        planned(expand([where]), out, mb * times * UNITS // 2)
        for where, out in (
            (str(larger), str(folder / "local")),
            (f"{url}/in.jsonl", f"{url}/out"),
        )
    ]

    def spent(plan: Plan) -> float:
        begin = process_time()
        for number in range(len(plan.units)):
            run_unit(plan, number)
        return process_time() - begin

    whole = [[spent(plan) for plan in plans] for _ in range(rounds + 1)][1:]
    unit = statistics.median(local for local, _ in whole)
    with recalled():
        alone = [[spent(plan) for plan in plans] for _ in range(2 * rounds + 1)][1:]
    return [far / local for local, far in whole], [1 + (b - a) / unit for a, b in alone]


@contextmanager
def recalled() -> Iterator[None]:
    """Lets units read their lines as ever, but encode no line twice."""
    module: Any = run
    encoded, known = module.encoded, dict[bytes, list[Encoded]]()

    def recall(blocks: Iterator[Block], *rest: Any, **options: Any) -> Iterator[Encoded]:
        some = [*islice(blocks, 1)]
        first = some[0].data if some else b""
        if first not in known:
            known[first] = [*encoded(chain(some, blocks), *rest, **options)]
        for block in blocks:
            block.lines()
        yield from known[first]

    module.encoded = recall
    try:
        yield
    finally:
        module.encoded = encoded


def said(what: str, ratios: list[float]) -> None:
    print(f"{what:58} {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mb", type=int, default=16)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    path = DATA / f"mixed-{chosen.mb}.jsonl"
    if not path.exists():
        make(path, chosen.mb << 20)
    source = Source(str(path), size=path.stat().st_size)
    with tempfile.TemporaryDirectory(dir=DATA) as name:
        folder = Path(name)
        alone(source, folder, chosen.mb)
        times = [alone(source, folder, chosen.mb) for _ in range(chosen.rounds)]
        said("plan, units, commit: speed of the one-liner, 1 process", [a / b for a, b in times])
        if importlib.util.find_spec("moto") and importlib.util.find_spec("obstore"):
            with bucket() as url:
                ratios, added = in_store(path, url, folder, chosen.mb, chosen.rounds)
            said("units in a store: processor time of local units", ratios)
            said("the same, what the store adds measured without encoding", added)


if __name__ == "__main__":
    main()
