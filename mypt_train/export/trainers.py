"""Writes the entry of a data set in the configuration of axolotl, LLaMA-Factory or ms-swift.

Reads records, or rows of `mypt-prepare --format axolotl`; `trainers.toml` has what trainers want.
"""

import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mypt_cli.jsonl.names import MANIFEST
from mypt_cli.jsonl.paths import source_of
from mypt_cli.jsonl.values import lines
from mypt_cli.words import counted
from mypt_records.shapes import SHAPES, shape_of
from mypt_records.shapes.sharegpt import LISTS
from mypt_train.export.servers import write_folder
from mypt_train.export.tokenizer_file import ExportError

TRAINERS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_NAME = re.compile(r'"\{(name|messages|path)\}"')  # a value that is filled in
_RECORDS = 1000  # the first records of a file, which tell what it is
_ROLE = "role "  # what the name of a role begins with


class _File(NamedTuple):
    """A file of records, or a prepared folder, as an entry describes it.

    `keys` are the ending of the file and the top-level keys of its records. `counts` has how many
    messages have a key, a role, or something else by which trainers differ, as `trainers.toml`
    names these. `messages` is the key of the list of messages.
    """

    path: Path
    shape: str
    keys: frozenset[str] = frozenset()
    counts: Mapping[str, int] = MappingProxyType({})
    messages: str = "messages"


def write_entries(data: str, trainers: Iterable[str], out: str) -> tuple[Path, list[str]]:
    """Writes the entries of a file for some trainers to a new folder; returns it, and notes.

    Raises ExportError for records that a trainer does not read, before anything is written.
    """
    file = _read(data)
    outputs: dict[str, bytes] = {}
    notes: list[str] = []
    name = Path(data).name.partition(".")[0]
    names = {"name": name, "messages": file.messages, "path": os.path.abspath(file.path)}
    for trainer in trainers:
        entry = _entry(data, file, trainer)
        text = json.dumps(entry, ensure_ascii=False)
        text = _NAME.sub(lambda m: json.dumps(names[m[1]], ensure_ascii=False), text)
        form = TRAINERS[trainer]
        outputs[form["file"]] = form["text"].format(entry=text, **names).encode()
        notes += _notes(file, trainer, entry, text)
    return write_folder(Path(out), outputs), notes


def _read(data: str) -> _File:
    """Returns what is known of a prepared folder, or of the first records of a file."""
    path = Path(data)
    if (path / MANIFEST).is_file():
        form = json.loads((path / MANIFEST).read_bytes())["options"].get("format", "bin")
        if form != "axolotl":
            raise ExportError(f"{data}: rows of the format {form}; prepare with --format axolotl")
        return _File(path / "train", "rows")
    values = [line.value for line in islice(lines(source_of(data)), _RECORDS)]
    shape = Counter(map(shape_of, values)).most_common(1)[0][0] if values else ""
    records = [value for value in values if isinstance(value, dict)]
    keys = {path.suffix, *(key for r in records for key in r if r[key] is not None)}
    name = next((key for key in LISTS if key in keys), "messages")
    messages = [m for r in records for m in r.get(name) or () if isinstance(m, dict)]
    return _File(path, shape, frozenset(keys), _counts(messages), name)


def _counts(messages: Sequence[dict[str, Any]]) -> Counter[str]:
    """Returns how many messages have each key and role, and what else trainers may not read."""
    counts = Counter(key for message in messages for key in message if message[key] is not None)
    counts.update(f'{_ROLE}"{m.get("role") or m.get("from")}"' for m in messages)
    texts = [json.dumps([m.get("tool_calls"), {"": m.get("content", "")}]) for m in messages]
    silent = [m for m in messages if m.get("content", m.get("value", "")) is None]
    counts["text arguments"] = sum('"arguments": "' in text for text in texts)
    counts["null content"] = sum(not m.get("tool_calls") for m in silent)
    counts["nulls"] = sum('": null' in text.replace('\\"', "") for text in texts)
    return counts


def _entry(data: str, file: _File, trainer: str) -> dict[str, Any]:
    """Returns the entry of a file. Raises ExportError if the trainer does not read the file."""
    form, shape = TRAINERS[trainer], file.shape
    if shape not in form["shapes"]:
        about = SHAPES[shape].ABOUT if shape in SHAPES else shape or "no records that are known"
        about = f"{about}; {trainer} takes {', '.join(form['shapes'])}"
        raise ExportError(f"{data}: {about}: mypt-convert --to chatml writes openai's")
    if file.path.suffix in form.get("refuses", ()):
        raise ExportError(f"{data}: {trainer} cannot load {file.path.suffix} files; write .jsonl")
    entry = {**form["shapes"][shape]}
    for key, additions in form.get("keys", {}).items():
        if key in file.keys or key in file.counts:
            for place, value in additions.items():
                entry[place] = entry.get(place, {}) | value if isinstance(value, dict) else value
    return entry


def _notes(file: _File, trainer: str, entry: Mapping[str, Any], text: str) -> Iterator[str]:
    """Yields what a trainer does not read of the messages; `text` is the entry as it is written."""
    form = TRAINERS[trainer]
    for key, count in file.counts.items():
        is_read = key in form["read"] or key in entry.values()
        is_named_role = key.startswith(_ROLE) and key.removeprefix(_ROLE) in text
        if count and not is_read and not is_named_role:
            subject = key if " " in key else f'key "{key}"'
            words = form.get("notes", {}).get(key, f"does not read the {subject} of")
            yield f"{trainer} {words} {counted(count, 'message')}"
