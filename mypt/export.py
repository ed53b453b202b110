"""Runs `mypt-export`: a checkpoint becomes a Hugging Face folder, with files for servers."""

import argparse
import sys

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.errors import refuse_url
from mypt_cli.run import saying

PROG = "mypt-export"


def _run(chosen: argparse.Namespace) -> None:
    import mypt_spec
    from mypt_spec import SpecError, VocabularyError
    from mypt_train import export as rooms

    out = chosen.out or chosen.old_out
    servers = rooms.chosen(chosen.servers, (*rooms.SERVERS, *rooms.TRAINERS))
    trainers = [name for name in servers if name in rooms.TRAINERS]
    if out is None or None not in (chosen.out, chosen.old_out):
        raise rooms.ExportError("name the folder to write once, with --out DIR")
    refuse_url(out, what="a folder")
    if trainers:
        if chosen.checkpoint is None or len(trainers) < len(servers):
            raise rooms.ExportError("for a trainer, name its data, and no server beside it")
        report, notes = rooms.write_entries(chosen.checkpoint, trainers, out)
        print("".join(f"{PROG}: {note}\n" for note in notes), end="", file=sys.stderr)
    elif chosen.checkpoint is not None:
        report = rooms.export(
            chosen.checkpoint, out, dialect=chosen.dialect, vocabulary=chosen.vocab,
            servers=servers, say=saying(PROG, quiet=False),
        )  # fmt: skip
    elif not servers:
        raise rooms.ExportError("name a checkpoint, or a server with --for")
    else:
        try:
            dialect = mypt_spec.dialect(chosen.dialect or "mypt", vocabulary=chosen.vocab)
        except (KeyError, VocabularyError, SpecError) as error:
            raise rooms.ExportError(error.args[0]) from None
        report = rooms.write_server_files(dialect, servers, out, saying(PROG, quiet=False))
    print(report)


main = Command(PROG, __file__, options(__file__), _run, quiet="")

if __name__ == "__main__":
    sys.exit(main())
