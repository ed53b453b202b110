"""Runs `mypt-train`, also as `torchrun -m mypt.train`: trains a model on prepared shards.

The result goes to stdout, progress to stderr.
"""

import argparse
import json
import math
import os
import sys

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.errors import refuse_url
from mypt_cli.inputs import tools_of

PROG = "mypt-train"


def _run(chosen: argparse.Namespace) -> None:
    # When a process is gone, torch prints a page of its stack as a warning: ours is one line. It
    # reads this when it is loaded.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from mypt_train.training.parts.config import Config, ConfigError

    try:
        from mypt.legality import legality
        from mypt_train.training.trainer import train
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ConfigError("training needs torch: pip install 'mypt-tags[train]'") from None

    refuse_url(chosen.out, what="a folder", then="copy its checkpoints to the store")
    if chosen.config is None and chosen.init_from is None:
        raise ConfigError("name a --config, such as tiny, or a model with --init-from")
    config = Config.load(chosen.config or "finetune").set(chosen.set)
    if chosen.threads is not None:
        config = config.set([f"train.threads={chosen.threads}"])
    needs = config.train.legality_every >= 0
    measured = legality(tools_of(chosen.tools)) if needs else None
    report = train(
        chosen.data, config, chosen.out, steps=chosen.steps, phases=_phases(chosen.phases),
        init_from=chosen.init_from, resume=chosen.resume, legality=measured,
        verify=not chosen.no_verify, quiet=chosen.quiet,
    )  # fmt: skip
    loss = None if math.isnan(report.loss) else report.loss
    if report.first and loss is None:
        print(f"mypt-train: no step is left: {report.folder} is the end", file=sys.stderr)
    elif report.first and sys.stdout.isatty():  # a person has seen the rest as progress
        print(f"{report.folder}: step {report.step}, loss {loss:.4f}")
    if report.first and not sys.stdout.isatty():
        names = ("step", "loss", "folder", "validation", "legality")
        values = {name: getattr(report, name) for name in names} | {"loss": loss}
        print(json.dumps(values, default=str))


def _phases(text: str | None) -> list[int] | None:
    from mypt_train.training.parts.config import ConfigError

    if text is None:
        return None
    out: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(f'--phases {text}: expected phases as "1-5" or "1,2,4"')
        out += range(int(first), int(last or first) + 1)
    if not out or len(set(out)) < len(out):
        raise ConfigError(f"--phases {text}: names no phase, or names one twice")
    return out


main = Command(
    PROG,
    __file__,
    options(__file__),
    _run,
    quiet="no progress",
    interrupted="interrupted; go on with --resume",
)

if __name__ == "__main__":
    sys.exit(main())
