"""Runs the body of a command: one line for each expected error, the same exit statuses for all.

Exit status: what the command returns; 2 for an error; 130 when interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

FAILED, INTERRUPTED = 2, 130
_OURS = "mypt_"  # modules whose exceptions carry a message for people


def saying(prog: str, *, quiet: bool) -> Callable[[str], None]:
    """Returns what prints a line about the run, unless it is to be quiet."""

    def say(text: str) -> None:
        if not quiet:
            print(f"{prog}: {text}", file=sys.stderr)

    return say


def run(
    prog: str,
    body: Callable[[], int],
    *,
    errors: tuple[type[Exception], ...] = (),
    interrupted: str = "interrupted",
    gone: int = 0,
) -> int:
    """Returns the exit status of `body`, having printed what stopped it, if anything did.

    `errors` are exceptions of other packages that carry a message for people; `interrupted` is what
    to say after Ctrl-C; `gone` is the status when the reader of the output has gone (`| head`).
    """
    try:
        status = body()
        sys.stdout.flush()
    except KeyboardInterrupt:
        start = "\n" if sys.stderr.isatty() else ""  # after the ^C that the terminal has echoed
        print(f"{start}{prog}: {interrupted}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # What is still in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return gone
    except Exception as error:
        if not (isinstance(error, (*errors, OSError)) or type(error).__module__.startswith(_OURS)):
            traceback.print_exc()
            print(f"{prog}: error: this is a fault of {prog}, not of what it was given; please "
                  "report it with the lines above", file=sys.stderr)  # fmt: skip
            return FAILED
        print(f"{prog}: error: {message_of(error)}", file=sys.stderr)
        return FAILED
    return status


def end_with_parent() -> None:
    """Ends this process as soon as the one that started it has gone, however it went.

    What it writes has to be whole or not there: nothing is put in order.
    """
    from multiprocessing import parent_process
    from threading import Thread

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def message_of(error: Exception) -> str:
    """Returns the message of an error for people; that of the system names its file."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
