"""Writes the end of a run in words: one line of totals, and a table by rule."""

from collections import Counter
from collections.abc import Mapping, Sequence

from mypt_cli.words import counted
from mypt_lint.check.diagnostic import MAX_KEYS, Summary
from mypt_spec.findings import RULES

_KEYS = 10  # keys of a rule that statistics name


def summary_line(summary: Summary) -> str:
    """Returns what the run found: everything that was read is either clean or faulty."""
    units, files = counted(summary.units, summary.unit_name), counted(summary.files, "file")
    counts = by_severity(summary.by_severity)
    if not counts and not summary.faulty:
        return (
            f"{units} clean ({files})" if summary.units else f"nothing to check: {units} ({files})"
        )
    if not summary.faulty:  # a key that all records have, a file that is cut off
        if not summary.files:  # a folder that holds none yet
            return f"{counts}; no file was checked"
        about = "the file" if summary.files == 1 else "whole files"
        clean = f"; {units} clean" if summary.units else ""
        return f"{counts} about {about}{clean} ({files})"
    where = f"{summary.faulty} of {units}" if summary.units else units
    return (
        f"{counts or 'faults'} in {where} ({summary.clean} clean, {summary.faulty} faulty; {files})"
    )


def statistics(summary: Summary) -> list[str]:
    """Returns rows `count  code  name  [lines touched, their share]`, the most frequent first.

    The columns are aligned; keys at fault come below the row of their code.
    """
    rows = sorted(summary.by_code.items(), key=lambda item: (-item[1], item[0]))
    names = {code: RULES[code].name if code in RULES else "" for code, _ in rows}
    count_width = max((len(str(count)) for _, count in rows), default=0)
    code_width = max(map(len, names), default=0)
    name_width = max(map(len, names.values()), default=0)
    lines = []
    for code, count in rows:
        units = summary.units_by_code[code]
        share = f", {units / summary.units:.1%}" if summary.units else ""
        lines.append(
            f"{count:>{count_width}}  {code:<{code_width}}  {names[code]:<{name_width}}  "
            f"[{counted(units, summary.unit_name)}{share}]"
        )
        keys = Counter({key: n for (of, key), n in summary.keys.items() if of == code})
        common = [f'"{key}" {n}' for key, n in keys.most_common(_KEYS)]
        if common:
            beyond = "" if len(summary.keys) >= MAX_KEYS else f" {len(keys) - _KEYS}"
            and_more = f" and{beyond} more" if len(keys) > _KEYS else ""
            lines.append(f"{'':{count_width}}    keys: {', '.join(common)}{and_more}")
    return lines


def by_severity(counts: Mapping[str, int]) -> str:
    """Returns counts of severities in words.

    >>> by_severity({"warning": 1, "error": 2})
    '2 errors, 1 warning'
    """
    return ", ".join(counted(counts[s], s) for s in ("error", "warning", "info") if counts.get(s))


def fixable_line(summary: Summary) -> str:
    """Returns what `--fix` would do."""
    safe, unsafe = summary.fixable["safe"], summary.fixable["unsafe"]
    if not safe:
        return f"No fixes available with --fix ({unsafe} with --unsafe-fixes)."
    return f"{safe} fixable with --fix{f' ({unsafe} more with --unsafe-fixes)' if unsafe else ''}."


def dropped_line(codes: Counter[str], files: Sequence[str]) -> str:
    """Returns what was dropped and where it is now, or would be; "" for nothing.

    `codes` has the number of records under "".
    """
    if not codes:
        return ""
    most_first = sorted((-n, code) for code, n in codes.items() if code)
    rules = ", ".join(f"{-n} {code}" for n, code in most_first[:_KEYS])
    where = f"; they are in {', '.join(files[:3])}" if files else ""
    others = f" and {len(files) - 3} more" if len(files) > 3 else ""
    verb = "Dropped" if files else "Would drop"
    return f"{verb} {counted(codes[''], 'record')} ({rules}){where}{others}."


def fixed_line(count: int, remaining: int | None, *, would: bool, files: int) -> str:
    """Returns how many findings were fixed, and how many remain, if that is known."""
    if remaining is not None and (count or remaining):
        total = counted(count + remaining, "finding")
        return f"Found {total} ({count} fixed, {remaining} remaining)."
    if not count:
        return "Nothing would be fixed." if would else "Nothing to fix."
    fixed = f"{counted(count, 'finding')} in {counted(files, 'file')}"
    return f"{'Would fix' if would else 'Fixed'} {fixed}."
