"""Counts how the decoder takes the schemas of JSON-Schema-Test-Suite as arguments of a tool.

    python -m bench.schema_suite FOLDER

FOLDER is `tests/draft2020-12` of github.com/json-schema-org/JSON-Schema-Test-Suite, which is no
part of this repository. Each schema is that of one argument of a tool in dialect praxis, with
engine "auto"; each value is written canonically, keys in the order of the schema, and walked token
by token. Prints a table in Markdown with a row for each file: schemas that are read, values that
fit and are taken, values that do not fit and are refused.
"""

from __future__ import annotations

import argparse
import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from bench.schemas import Ours, Tally, measure
from mypt_infer.decode import SchemaWarning

ARGUMENT = "v"


def moved(schema: Any) -> Any:
    """Returns a schema with its references as they are inside of the argument's object."""
    if isinstance(schema, list):
        return [moved(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: moved(value) for key, value in schema.items()}
    ref = out.get("$ref")
    if isinstance(ref, str) and (ref == "#" or ref.startswith("#/")):
        out["$ref"] = f"#/properties/{ARGUMENT}{ref[1:]}"
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore", SchemaWarning)
    files = sorted(folder.glob("*.json"))
    if not files:
        raise SystemExit(f"{folder}: no files of tests, *.json")
    total = Tally()
    print("| file | schemas read | valid taken | invalid refused |\n| --- | --- | --- | --- |")
    for path in files:
        tally = Tally()
        for group in json.loads(path.read_text(encoding="utf-8")):
            schema = {
                "type": "object",
                "properties": {ARGUMENT: moved(group["schema"])},
                "required": [ARGUMENT],
            }
            tests = [test | {"data": {ARGUMENT: test["data"]}} for test in group["tests"]]
            measure(tally, partial(Ours, schema, engine="auto"), tests, schema)
        total.counts += tally.counts
        total.reasons += tally.reasons
        print(_row(path.stem, tally), flush=True)
    print(_row("all", total))
    for reason, count in total.reasons.most_common(20):
        print(f"    {count}: {reason}")


def _row(name: str, tally: Tally) -> str:
    c = tally.counts
    return (
        f"| {name} | {c['read']} of {c['schemas']} | {c['valid taken']} of {c['valid']} | "
        f"{c['invalid refused']} of {c['invalid']} |"
    )


if __name__ == "__main__":
    main()
