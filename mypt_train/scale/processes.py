"""Calls a function with the numbers of units, here or in processes of this machine."""

import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mypt_spec.templates.bounds import end_with_parent
from mypt_train.scale.planning.plan import Plan

_Do = Callable[[int], Any]


class KilledError(Exception):
    """A process was killed; its message says why that may be."""


def outcomes(plan: Plan, do: _Do, numbers: Sequence[int], jobs: int) -> Iterator[tuple[int, Any]]:
    """Calls `do` with each number, `jobs` at a time; yields the number and what `do` returned.

    An exception that `do` raised is yielded in the place of what it returns. Raises KilledError if
    a process is killed: what is done is there, and nothing else is begun.
    """
    if jobs <= 1 or len(numbers) <= 1:
        for number in numbers:
            try:
                outcome = do(number)
            except Exception as error:
                outcome = error
            yield number, outcome
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_all_start_methods, get_context

    # The threads of a client of stores do not live on in a copy of this process.
    local = all(source.local for source in plan.inputs)
    method = "fork" if local and "fork" in get_all_start_methods() else "spawn"
    plan.options.loaded_dialect.tokenizer.encode_batch([" "])  # loaded once, before they fork
    pool = ProcessPoolExecutor(
        min(jobs, len(numbers)), get_context(method), initializer=_begin, initargs=(do,)
    )
    try:
        futures = {pool.submit(_one, number): number for number in numbers}
        for future in as_completed(futures):
            fault = future.exception()
            if isinstance(fault, BrokenProcessPool):
                raise KilledError("a worker process was killed, possibly out of memory")
            yield futures[future], fault or future.result()
    finally:
        pool.shutdown(cancel_futures=True)


_function: list[_Do] = []  # what this worker process calls


def _begin(do: _Do) -> None:
    """Prepares this worker, and ends it as soon as the process that started it has gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C without a traceback
    _function[:] = [do]
    end_with_parent()


def _one(number: int) -> Any:
    return _function[0](number)
