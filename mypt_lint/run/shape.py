"""Detects the shape of the records of a source by the first of them.

Input are settings and a source; output are the settings with the shape, and the source to read
from now on. Records are left as they are where the first is of the dialect, and none after it has
what other tools alone write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.parser import dialect_name
from mypt_cli.words import either
from mypt_lint.check.detect import beginning, failures, mentions, of_a_dialect
from mypt_lint.settings.settings import Settings
from mypt_records.chat import ROLES
from mypt_records.names import AUTO, DETECTABLE, OTHER
from mypt_records.reading import closest_key
from mypt_spec.dialect import RECORDS, Dialect, detectable_dialects, families, folder
from mypt_spec.extra_keys import extra_key
from mypt_spec.findings import Finding
from mypt_spec.record_schema import WEIGHTS_OF_OTHERS

_WORST = 5  # errors of one record that count
# What other tools write, and no dialect whose records code reads.
_OTHER_KEYS = ("tools", "functions", "chat_template_kwargs", "parallel_tool_calls", "tool_choice")
_OTHER_MESSAGE_KEYS = ("tool_calls", "function_call", "tool_call_id", "reasoning_content")
_MISSING = "MYP102"  # a record without its messages is not of the dialect
_OF_TEXTS = "MYP3"  # from this code on, findings are about what is said, in any shape


def with_shape(
    settings: Settings, source: Source, *, definite: bool, foreign: bool = False
) -> tuple[Settings, Source]:
    """Returns settings whose `records` are the shape that was found, and the source to read.

    Without a `definite` dialect, records that are as good without one are records of a shape;
    `foreign` ones also where they could be of a dialect or cannot be read at all.
    Raises UsageError where both exclude one another.
    """
    if settings["kind"] not in (None, "record"):
        return settings, source
    requested, name = settings["records"], settings["dialect"]
    if requested in DETECTABLE and not _reads_others(name):
        raise UsageError(
            f"{name} reads its own records alone, because no records.toml describes them: leave "
            "out --records or --dialect"
        )
    if requested not in DETECTABLE and name != AUTO and not foreign:
        # A pipe that begins well need not wait for more.
        some, source = beginning(source, least=1) if source.streamed else beginning(source)
        if not some or not (_errors(_reader(name)(some[0])) or any(map(_has_parts, some))):
            return settings, source
    beginning_records, source = beginning(source)
    shape = requested if requested in DETECTABLE else ""
    if requested in (None, AUTO) and _reads_others(name):
        shape = guessed(beginning_records, name, definite=definite, foreign=foreign)
        if foreign and not any(isinstance(record, dict) for record in beginning_records):
            shape = shape or OTHER  # nothing is a record, and each line says so
    return (settings.having(records=shape) if shape else settings), source


def _reads_others(name: str) -> bool:
    """Returns whether records of other tools can become records of a dialect."""
    return name in (AUTO, *mypt_spec.dialects()) or (folder(name) / RECORDS).is_file()


def format_of_texts(source: Source) -> tuple[str, str, Source]:
    """Returns the format that explains most of the first texts, doubts about it, and the source."""
    from mypt_records.shapes.text import distinct, formats_of

    records, source = beginning(source)
    texts = [record.get("text") for record in records if isinstance(record, dict)]
    names = Counter(name for t in texts if isinstance(t, str) for name in formats_of(t))
    best = distinct(name for name in names if names[name] == max(names.values()))
    doubt = f"the texts may be {either(best)}; choose with --dialect"
    return (*best, "")[0], doubt * (len(best) > 1 and best[0] in families()), source


def guessed(records: Sequence[object], name: str, *, definite: bool, foreign: bool = False) -> str:
    """Returns the shape that explains records better than dialects do; empty for none.

    The dialect `name` is preferred where it is better; if it is `definite`, also where it is as
    good or safe fixes are enough; another one only where it is better, and then without any error.
    """
    from mypt_records.shapes import SHAPES, read, shape_of

    shapes = Counter(map(shape_of, records))
    for each in [*shapes]:
        if also := getattr(SHAPES.get(each), "ALSO", ""):
            shapes[each] += shapes.pop(also, 0)
    none = shapes.pop("", 0)
    shape, count = max(shapes.items(), key=lambda item: item[1], default=("", 0))
    if count <= none:
        lost = foreign and any(isinstance(r, dict) and "messages" in r for r in records)
        return "openai" if lost else (shape or OTHER) if _of_no_format(records, name) else ""
    if shape == OTHER or not any(isinstance(record, dict) for record in records):
        return shape  # no dialect reads a list
    native = [False] * len(records) if foreign else _natives(records, name)
    best = sum(
        _WORST if is_native else _errors(read(record, shape).findings)
        for record, is_native in zip(records, native, strict=True)
    )
    as_good = best if definite else best - 1  # a dialect that nobody named must be better
    if name != AUTO and _worse(_reader(name), records, best) <= as_good:
        return ""
    if best and definite and name != AUTO:
        dialect = mypt_spec.dialect(dialect_name(name))
        if not any(failures(record, dialect) for record in records):
            return ""  # safe fixes repair all
    most = 1 if definite else best  # errors that another dialect has not
    names = detectable_dialects() if best else ()
    return "" if any(_worse(_reader(each), records, best) < most for each in names) else shape


def _of_no_format(values: Sequence[object], name: str) -> bool:
    """Returns whether records have no key that could be the messages of any dialect."""
    names = {*detectable_dialects(), *({name} - {AUTO})}
    keys = {mypt_spec.dialect(dialect_name(each)).adapter.SCHEMA.messages for each in names}
    records = [record for record in values if isinstance(record, dict)]
    return bool(records) and not any(
        key in keys or (isinstance(record[key], list) and closest_key(key, tuple(keys)))
        for record in records
        for key in record
    )


def shape_note(shape: str, dialect: str) -> str:
    """Returns the detected shape and the option that chooses it; `dialect` is empty for none."""
    if dialect:
        return f"{about(shape)}; checked as {dialect}; use --records {shape} to choose this shape"
    how = "checked without a format; use --dialect NAME or --model DIR to check them in one"
    if shape == "text":
        how = "each is checked as the format of its tags; use --dialect NAME to check them as one"
    return f"{about(shape)}; {how}"


def about(shape: str) -> str:
    """Returns what the records of a shape are called."""
    from mypt_records.shapes import SHAPES

    return SHAPES[shape].ABOUT


def _reader(name: str) -> Callable[[object], list[Finding]]:
    """Returns what finds how a record is not one of a dialect: by its shape and its turns."""
    dialect = mypt_spec.dialect(dialect_name(name))

    def findings(record: object) -> list[Finding]:
        try:
            items = [f for f in dialect.check(record)[1] if f.code < _OF_TEXTS]
            return items * _WORST if any(f.code == _MISSING for f in items) else items
        except Exception:  # the check of the line reports it
            return []

    return findings


def _worse(check: Callable[[object], list[Finding]], records: Iterable[object], best: int) -> int:
    """Returns the number of errors of records; not more of them than tell that it is worse."""
    count = 0
    for record in records:
        count += _errors(check(record))
        if count > best:
            break
    return count


def _errors(findings: Iterable[Finding]) -> int:
    """Returns the number of errors; keys that no format has say nothing about the format."""
    keys = ((extra_key(f), f.severity == "error") for f in findings)
    return min(_WORST, sum(key in _keys() if key else error for key, error in keys))


@cache
def _keys() -> frozenset[str]:
    from mypt_records.shapes import SHAPES

    schemas = [mypt_spec.dialect(name).adapter.SCHEMA for name in detectable_dialects()]
    tables = [*(schema.top for schema in schemas), *(shape.TOP for shape in SHAPES.values())]
    return frozenset(key for table in tables for key in table)


def _natives(records: Sequence[object], name: str) -> list[bool]:
    """Returns which records are of the dialect `name`, whatever errors they have.

    A role or a tag that only the dialect has decides; a system prompt beside the messages does so
    only if nothing in all these records is as other tools write it.
    """
    dialect = None if name == AUTO else mypt_spec.dialect(dialect_name(name))
    plain = not any(map(_has_foreign_keys, records))
    return [
        (plain and of_a_dialect(record)) or (dialect is not None and _marked(record, dialect))
        for record in records
    ]


def _has_foreign_keys(record: object) -> bool:
    """Returns whether a record has keys or contents that dialects with code do not have."""
    if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
        return False
    if any(record.get(key) for key in _OTHER_KEYS):
        return True
    messages = [m for m in record["messages"] if isinstance(m, dict)]
    return _has_parts(record) or any(m.get(k) for m in messages for k in _OTHER_MESSAGE_KEYS)


def _has_parts(record: object) -> bool:
    """Returns whether a message has its text in parts, or a weight by a name of other tools."""
    messages = record.get("messages") if isinstance(record, dict) else None
    return isinstance(messages, list) and any(
        isinstance(m.get("content"), list) or not WEIGHTS_OF_OTHERS.isdisjoint(m)
        for m in messages
        if isinstance(m, dict)
    )


def _marked(record: object, dialect: Dialect) -> bool:
    messages = record.get("messages") if isinstance(record, dict) else None
    if not isinstance(messages, list):
        return False
    special = dialect.adapter.SCHEMA.roles.keys() - {*ROLES}
    roles = {
        m.get("role") for m in messages if isinstance(m, dict) and m.get("role").__class__ is str
    }
    return not special.isdisjoint(roles) or (
        not _has_foreign_keys(record) and mentions(record, dialect)
    )
