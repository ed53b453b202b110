"""Runs `mypt-train`, also as `torchrun -m mypt.train`: trains a model on prepared shards.

The result goes to stdout, progress to stderr.
"""

import argparse
import json
import os
import sys

from mypt_cli.command import Command
from mypt_cli.errors import refuse_url
from mypt_cli.inputs import tools_of
from mypt_cli.parser import Parser
from mypt_cli.store.gguf import model_path

PROG = "mypt-train"
ABOUT = "Train a model on shards that mypt-prepare has made."


def _options(out: Parser) -> None:
    add = out.group("input")
    add(
        "--data DIR",
        "a folder that mypt-prepare has made; may be repeated",
        action="append",
        required=True,
    )
    add(
        "--config FILE",
        "a JSON file, or the name of a config that comes with the package: tiny, small, medium, "
        "toolchat_150M; finetune (default with --init-from), lora",
    )
    add(
        "--set KEY=VALUE",
        "another value for a key of the config, as train.lr=0.001; may be repeated",
        action="append",
        default=[],
    )
    add(
        "--init-from DIR",
        "a model to begin with: a run of mypt-train, or a folder of Hugging Face (Llama, Qwen2, "
        "Qwen3, ...), or a .gguf file",
        type=model_path,
    )
    add(
        "--tools FILE",
        "a JSON list of tools in OpenAI's style, for legality; without it, what the validation "
        "data calls",
    )
    add = out.group("course")
    add(
        "--phases A-B",
        'run the curriculum in order, as "1-5" or "1,2,4", each phase with replay of those before '
        "it",
    )
    add("--steps N", "stop after step N; the schedule stays that of the config", type=int)
    add = out.group("output")
    add("-o --out DIR", "checkpoints and log; an empty folder, or a new one", required=True)
    add("--resume", "go on from the last checkpoint in --out")
    add = out.group("performance")
    add(
        "--threads N",
        "threads on the CPU (default: by the size of the model and the cores)",
        type=int,
    )
    add("--no-verify", "do not compare the SHA-256 of all data files first")


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
    if report.first and sys.stdout.isatty():  # a person has seen the rest as progress
        print(f"{report.folder}: step {report.step}, loss {report.loss:.4f}")
    elif report.first:
        names = ("step", "loss", "folder", "validation", "legality")
        print(json.dumps({name: getattr(report, name) for name in names}, default=str))


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
    ABOUT,
    __file__,
    _options,
    _run,
    quiet="no progress",
    interrupted="interrupted; go on with --resume",
)

if __name__ == "__main__":
    sys.exit(main())
