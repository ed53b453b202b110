"""Keeps compiled tools in a file, so that a later process need not compile them.

Input: a Decoder whose tools tables hold. Output: a file of arrays and JSON (npz, no pickle), and
from it CompiledTools, which `Decoder` takes in the place of tools. A file is good for one version
of this package, one grammar and one vocabulary; anything else is refused.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mypt_cli import atomic
from mypt_infer.decode.base.tools import ToolSpec
from mypt_infer.decode.compile.tables import Edges, Frame, Tables
from mypt_infer.decode.engines import CompiledTools, SavedToolsError
from mypt_spec import Dialect, __version__

if TYPE_CHECKING:
    from mypt_infer.decode.decoder import Decoder

# Counts changes of what a file holds and of what its arrays mean.
FORMAT = 1
_ARRAYS = ("classes", "after", "exits", "row", "base", "frame", "final", "block", "owner")
_EDGES = ("first", "token", "then")
_NOUNS = {
    "format": "format of files", "version": "version of this package", "fingerprint": "grammar",
}  # fmt: skip


def save_tools(decoder: Decoder, path: str | Path) -> None:
    """Writes the compiled tools of a decoder to a file.

    Raises ValueError for a decoder whose tools or answer llguidance reads: it compiles them in
    milliseconds, and has no form to keep them in.
    """
    tables, dialect = decoder.tables, decoder.dialect
    if tables.holes or decoder.response is not None:
        raise ValueError(
            "only tools that tables hold can be saved; llguidance reads some of these, or the "
            "answer, and compiles them in milliseconds"
        )
    leaves = {id(f.away): f.away for f in tables.frames}
    order = list(leaves)
    arrays: dict[str, Any] = {
        **{name: getattr(tables, name) for name in _ARRAYS},
        **{f"edges_{name}": getattr(tables.edges, name) for name in _EDGES},
        **{f"spine_{i}": part for i, part in enumerate(tables.spine)},
        **{f"away_{i}": leaves[key] for i, key in enumerate(order)},
        "frames": np.array([[f.first, f.column, order.index(id(f.away))] for f in tables.frames]),
        "distance": tables.distance,
        "to_close": tables.to_close,
    }
    head = {
        **_kind(dialect),
        "tools": [[t.name, t.schema, t.description] for t in decoder.tools],
        "forbidden_blocks": sorted(decoder.forbidden_blocks),
        "size": tables.size,
        "ids": tables.vocabulary,
        "start": list(tables.start.items()),
    }
    arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
    with atomic.replacing(path) as out:
        np.savez(out, **arrays)


def load_tools(path: str | Path, dialect: Dialect) -> CompiledTools:
    """Returns the compiled tools of a file.

    Raises SavedToolsError for a file of another version, grammar or vocabulary, or a damaged one;
    OSError for one that cannot be read.
    """
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        head = json.loads(arrays.pop("head").tobytes())
        _check(path, head, dialect)
        return _read(head, arrays, dialect)
    except (ValueError, KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, SavedToolsError):
            raise
        raise SavedToolsError(f"{path} holds no compiled tools, or is damaged: {error}") from None


def _kind(dialect: Dialect) -> dict[str, Any]:
    vocabulary = dialect.vocabulary
    return {
        "format": FORMAT,
        "version": __version__,
        "dialect": dialect.name,
        "vocabulary": vocabulary.sha256 if vocabulary else dialect.table.base_vocabulary,
        "fingerprint": dialect.fingerprint,
    }


def _check(path: str | Path, head: dict[str, Any], dialect: Dialect) -> None:
    for word, expected in _kind(dialect).items():
        if head[word] != expected:
            raise SavedToolsError(
                f"{path} is of another {_NOUNS.get(word, word)} ({head[word]}, here {expected}): "
                "save it again"
            )


def _read(
    head: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], dialect: Dialect
) -> CompiledTools:
    first, column, leaf = arrays["frames"].reshape(-1, 3).T.tolist()
    frames = tuple(
        Frame(f, c, arrays[f"away_{i}"]) for f, c, i in zip(first, column, leaf, strict=True)
    )
    size = int(head["size"])
    parts: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
    tables = Tables(
        size, int(head["ids"]), frames=frames, **parts,
        edges=Edges(*(arrays[f"edges_{name}"] for name in _EDGES)),
        start={int(state): int(at) for state, at in head["start"]},
        spine=(arrays["spine_0"], arrays["spine_1"], arrays["spine_2"]),
    )  # fmt: skip
    for name in ("distance", "to_close"):
        vars(tables)[name] = arrays[name]
    by_state = ("row", "base", "frame", "final", "block", "owner", "distance", "to_close")
    if any(arrays[name].shape != (size,) for name in by_state):
        raise ValueError("arrays do not fit together")
    tools = tuple(ToolSpec(*tool) for tool in head["tools"])
    return CompiledTools(head["fingerprint"], tools, frozenset(head["forbidden_blocks"]), tables)
