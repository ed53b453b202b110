"""Copies checkpoints to a store, and brings the last one back.

Input: the folder of a run, and the URL of a store, or another folder. Output: the same files there.
trainer.json, which lists all others of a checkpoint, is the last that is copied and the first that
is deleted, so only checkpoints with this file are whole.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from mypt_cli import atomic
from mypt_cli.store import Store
from mypt_model.folder import TRAINER, checkpoints
from mypt_train.training.parts.checkpoint import CheckpointError
from mypt_train.training.parts.log import LOG


class Mirror:
    """A copy of a run in a store. All methods raise StoreError, naming the object."""

    def __init__(self, url: str) -> None:
        self.store = Store.at(url)

    def push(self, path: Path, keep: int) -> None:
        """Copies a checkpoint and the log of its run; deletes all but the last `keep` there."""
        files = [file for file in path.rglob("*") if file.is_file()]
        for file in sorted(files, key=lambda file: (file.name == TRAINER, file)):
            self.store.put(f"{path.name}/{file.relative_to(path).as_posix()}", file)
        log = path.with_name(LOG)
        if log.is_file():
            self.store.put(LOG, log)
        for old in self.complete_steps()[:-keep]:
            keys = [entry.key for entry in self.store.entries(old)]
            for key in sorted(keys, key=lambda key: not key.endswith(f"/{TRAINER}")):
                self.store.delete(key)

    def complete_steps(self) -> list[str]:
        """Returns the names of the checkpoints in the store that are whole, oldest first."""
        keys = [entry.key.split("/") for entry in self.store.entries()]
        steps = [key[0] for key in keys if len(key) == 2 and key[1] == TRAINER]
        return sorted((s for s in steps if s[5:].isdecimal()), key=lambda step: int(step[5:]))

    def begin(self, out: Path, *, resume: bool) -> None:
        """Brings the last checkpoint and the log to the folder `out`, if it has no checkpoint.

        Digests are compared when the checkpoint is read. Raises CheckpointError for a run that does
        not `resume` the one in the store.
        """
        names = self.complete_steps()
        if names and not resume:
            raise CheckpointError(
                f"{self.store.name('')}: holds {names[-1]} of an earlier run; go on with --resume, "
                "or name another folder with --mirror"
            )
        if not names or (out.exists() and checkpoints(out)):
            return
        out.mkdir(parents=True, exist_ok=True)
        if self.store.exists(LOG):
            atomic.write(out / LOG, [self.store.read(LOG)])
        with atomic.folder(out / names[-1]) as part:
            for entry in self.store.entries(names[-1]):
                file = part / entry.key.partition("/")[2]
                file.parent.mkdir(parents=True, exist_ok=True)
                stored = self.store.open(entry.key, etag=entry.etag, size=entry.size)
                with stored as data, file.open("wb") as copy:
                    shutil.copyfileobj(data, copy, 1 << 20)
