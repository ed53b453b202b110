"""Writes the entry of a data set in the configuration of axolotl, LLaMA-Factory or ms-swift.

Reads records, or rows of `mypt-prepare --format axolotl`; `trainers.toml` has what trainers want.
"""

import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

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


def write_entries(data: str, trainers: Iterable[str], out: str) -> tuple[Path, list[str]]:
    """Writes the entries of a file for some trainers to a new folder; returns it, and notes.

    Raises ExportError for records that a trainer does not read, before anything is written.
    """
    path, shape, keys, inner = Path(data), "rows", set[str](), Counter[str]()
    names = {"name": path.name.partition(".")[0], "messages": "messages"}
    if (path / MANIFEST).is_file():
        form = json.loads((path / MANIFEST).read_bytes())["options"].get("format", "bin")
        if form != "axolotl":
            raise ExportError(f"{data}: rows of the format {form}; prepare with --format axolotl")
        path /= "train"
    else:
        values = [line.value for line in islice(lines(source_of(data)), 1000)]
        shape = Counter(map(shape_of, values)).most_common(1)[0][0] if values else ""
        records = [value for value in values if isinstance(value, dict)]
        keys = {path.suffix, *(key for r in records for key in r if r[key] is not None)}
        names["messages"] = next((key for key in LISTS if key in keys), "messages")
        items = [m for r in records for m in r.get(names["messages"]) or () if isinstance(m, dict)]
        inner = Counter(key for item in items for key in item if item[key] is not None)
        inner.update(f'role "{item.get("role") or item.get("from")}"' for item in items)
        texts = [json.dumps([m.get("tool_calls"), {"": m.get("content", "")}]) for m in items]
        inner["text arguments"] = sum('"arguments": "' in text for text in texts)
        silent = [m for m in items if m.get("content", m.get("value", "")) is None]
        inner["null content"] = sum(not m.get("tool_calls") for m in silent)
        inner["nulls"] = sum('": null' in text.replace('\\"', "") for text in texts)
    names["path"] = os.path.abspath(path)
    outputs, notes = {}, []
    for name in trainers:
        trainer = TRAINERS[name]
        if shape not in trainer["shapes"]:
            about = SHAPES[shape].ABOUT if shape in SHAPES else shape or "no records that are known"
            about = f"{about}; {name} takes {', '.join(trainer['shapes'])}"
            raise ExportError(f"{data}: {about}: mypt-convert --to chatml writes openai's")
        if path.suffix in trainer.get("refuses", ()):
            raise ExportError(f"{data}: {name} cannot load {path.suffix} files; write .jsonl")
        entry = {**trainer["shapes"][shape]}
        for key in filter(keys.union(inner).__contains__, trainer.get("keys", ())):
            for place, value in trainer["keys"][key].items():
                entry[place] = entry.get(place, {}) | value if isinstance(value, dict) else value
        text = json.dumps(entry, ensure_ascii=False)
        text = _NAME.sub(lambda m: json.dumps(names[m[1]], ensure_ascii=False), text)
        outputs[trainer["file"]] = trainer["text"].format(entry=text, **names).encode()
        says = {k: k if " " in k else f'key "{k}"' for k in inner}
        says = {k: f"does not read the {v} of" for k, v in says.items()} | trainer.get("notes", {})
        notes += [
            f"{name} {says[key]} {counted(count, 'message')}"
            for key, count in inner.items()
            if count
            and key not in trainer["read"]
            and key not in entry.values()
            and (key[:5] != "role " or key[5:] not in text)
        ]
    return write_folder(Path(out), outputs), notes
