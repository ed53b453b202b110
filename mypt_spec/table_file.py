"""Reads a token table from the text of a tokens.toml, and checks each entry.

What an entry shows by itself is checked by `grammar/tokens.schema.json`, which editors read too;
`TomlFile` checks the other TOML files of a grammar folder likewise. What only the whole table shows
is checked here. An entry that is wrong raises SpecError with the entry's name, so that who writes a
dialect need not read this code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from mypt_spec.bodies.call_tags import BareKeys, Keywords, Tags
from mypt_spec.compiled.toml import copy_of, loads
from mypt_spec.table import (
    CALLS,
    END,
    TEXT,
    History,
    IdSet,
    Mistake,
    Piece,
    RequiredVocabulary,
    SpecError,
    Terminal,
    TokenTable,
    padded,
)

Need = Callable[[bool, str, str], None]
_Faults = Iterator[tuple[str, str]]  # the entry, and what is wrong with it
_PACKAGE = Path(__file__).parent
_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "str"),
    "integer": (int, "int"),
    "boolean": (bool, "true or false"),
    "array": (list, "list"),
    "object": (dict, "a table"),
}
_LABELS = {"[[mistake]]": "code", "[[message]]": "role"}  # the key that names a row; else "name"
_TABLES = {"object": "[{}]", "array": "[[{}]]"}
_RULES: dict[str, Callable[[Any, Any, Any], bool]] = {  # of (what is said, the value, `fits`)
    "enum": lambda choices, value, _: value in choices,
    "minimum": lambda least, value, _: value >= least,
    "minLength": lambda least, value, _: len(value) >= least,
    "minItems": lambda least, value, _: len(value) >= least,
    "maxItems": lambda most, value, _: len(value) <= most,
    "pattern": lambda pattern, value, _: re.fullmatch(pattern, value) is not None,
    "contains": lambda rule, value, fits: any(fits(rule, item) for item in value),
    "oneOf": lambda rules, value, fits: sum(fits(rule, value) for rule in rules) == 1,
    "not": lambda rule, value, fits: not fits(rule, value),
}
_BETWEEN = '"joins" with a "spelling" is for blocks that the model writes: "origin" is not "model"'


def _template(**columns: Any) -> str:
    from mypt_spec.templates.sandbox import ToolTemplate  # few formats have one

    return ToolTemplate(**columns)


_BODIES: dict[str, Callable[..., str]] = {"bare_keys": BareKeys, "keywords": Keywords}
_BODIES |= {"template": _template}
_OPTIONS = (
    *("opens", "body", "quotes", "body_loss", "body_origin", "mark", "again", "both", "role"),
    *("joins", "before", "after", "first", "stops", "strip", "prefix", "suffix", "blank"),
)


def grammar_root() -> Path:
    """Returns the folder of grammar folders: inside an installed package, or next to it."""
    inside = _PACKAGE / "grammar"
    return inside if inside.is_dir() else _PACKAGE.parent / "grammar"


class TomlFile:
    """A TOML file of a grammar folder; messages call it `where`."""

    def __init__(self, where: str) -> None:
        self.where = where

    def need(self, ok: bool, entry: str, message: str) -> None:
        """Raises SpecError, which names the entry, unless it is `ok`."""
        if not ok:
            raise SpecError(f"{self.where}: {entry}: {message}")

    def read(self, source: str, schema: str) -> dict[str, Any]:
        """Returns the data in the text of the file. Raises SpecError for the first fault in it.

        `schema` is the name of a JSON Schema in `grammar`, without its suffix. A text with a copy
        was checked when this was written (`tools/regenerate.py`).
        """
        data: dict[str, Any] | None = copy_of(source)
        return self.checked(source, schema) if data is None else data

    def checked(self, source: str, schema: str) -> dict[str, Any]:
        """Does the same for any text."""
        try:
            data = loads(source)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"{self.where}: not TOML: {error}") from None
        rules = _schema(schema)
        for entry, message in _faults(rules, data, "", "", rules["$defs"]):
            self.need(False, entry or "the file", message)
        return data


@cache
def _schema(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((grammar_root() / f"{name}.schema.json").read_bytes())
    return data


def _faults(schema: dict[str, Any], value: Any, entry: str, key: str, defs: Any) -> _Faults:
    """Yields what does not fit a JSON Schema, of which it knows the keywords that `grammar` uses.

    `key` is that of the value in its entry, in quotes; "" for the entry itself. The words are those
    of `errorMessage`: one text for all faults in the value, or one for a keyword, or for a key that
    is missing; `{}` in it is the value, `{key}` the key. `allOf` and `uniqueItems` are only advice.
    """
    words = schema.get("errorMessage", {})
    if isinstance(words, str):
        if any(True for _ in _faults(schema | {"errorMessage": {}}, value, entry, key, defs)):
            yield entry, words.replace("{}", repr(value))
        return

    def fault(name: str, usual: str = "") -> tuple[str, str]:
        text = words.get(name, f"{key} {usual}".strip()).replace("{key}", key)
        return entry, text.replace("{}", repr(value))

    def fits(other: dict[str, Any], item: Any) -> bool:
        return next(_faults(other, item, entry, key, defs), None) is None

    kind, noun = _TYPES[schema["type"]] if "type" in schema else (type(value), "")
    if type(value) is not kind:
        yield fault("type", f"must be {noun}")
        return
    if isinstance(value, list) and "items" in schema:
        name = _LABELS.get(entry, "name")
        for row in value:
            label = (isinstance(row, dict) and row.get(name)) or f"(no {name})"
            place = (entry if key else f"{entry} {label}", key)
            yield from _faults(schema["items"], row, *place, defs)
    if isinstance(value, dict):
        fields, required = schema.get("properties", {}), schema.get("required", ())
        others = schema.get("additionalProperties", {})
        unknown = ", ".join(sorted(value.keys() - fields.keys())) if others is False else ""
        if unknown:
            yield fault("unknown", f"unknown key {unknown}; known are {', '.join(sorted(fields))}")
        for name in dict.fromkeys([*required, *value]):
            field, place = fields.get(name, others or {}), (entry, f'"{name}"')
            if not entry:
                place = _TABLES.get(field.get("type"), '"{}"').format(name), ""
            if name in value and field:
                yield from _faults(field, value[name], *place, defs)
            elif name not in value and name in words:
                yield fault(name)
            elif name not in value:
                yield from _faults(field or {"type": "object"}, None, *place, defs)
    for keyword, rule in schema.items():
        if keyword in _RULES and not _RULES[keyword](rule, value, fits):
            choice = f"one of {', '.join(map(str, schema.get('enum', ())))}"
            yield fault(keyword, f"must be {choice if keyword == 'enum' else f'{noun}, not empty'}")
    rules = [defs[schema["$ref"].removeprefix("#/$defs/")]] if "$ref" in schema else []
    rules += [rule for name, rule in schema.get("dependentSchemas", {}).items() if name in value]
    rules += [schema["then" if fits(schema["if"], value) else "else"]] if "if" in schema else []
    for rule in rules:
        yield from _faults(rule, value, entry, key, defs)


def load_table(source: str, *, where: str = "tokens.toml") -> TokenTable:
    """Returns the token table in a TOML text. Raises SpecError: the file `where`, and the entry."""
    file = TomlFile(where)
    data, need = file.read(source, "tokens"), file.need
    head: dict[str, Any] = {"title": data["dialect"]["name"], "doc": "", "base_vocabulary": "gpt2"}
    head |= {"layouts": {"compact": ""}, "pad_vocabulary_to": 64} | data["dialect"]
    first, pad = head.pop("first_special_id", 50257), head["pad_vocabulary_to"]
    spec = data.get("vocabulary")
    if spec is not None:
        spec = RequiredVocabulary(**spec | {"special": tuple(spec.get("special", {}).items())})
    rows = _rows(data["terminal"], need)
    terminals: dict[str, Terminal] = {}
    for row in rows:
        entry, body = f"[[terminal]] {row['name']}", row.get("body")
        need(row["name"] not in terminals, entry, "occurs twice")
        need(body not in _BODIES or body in row, entry, f"the body {body} needs a column {body}")
        terminals[row["name"]] = _terminal(_derived(row, rows) | row)
    _check_spellings(terminals, need)
    _check_blocks(terminals, need)
    _check_head(head, terminals, need)
    special = {
        piece.value: 0
        for t in terminals.values()
        for form in (t.spelling, *t.also)
        for piece in form
        if piece.kind == "special"
    }
    special = {tag: first + i for i, tag in enumerate(special)}
    for tag in head.get("texts", ()):
        need(tag in special, "[dialect]", f'"texts" names {tag!r}, which is no special token of it')
    ids = _declared_ids(rows, None if spec is not None else special, need)
    ordinary, vocab_size = IdSet((range(first - 1),)), padded(first + len(special), pad)
    if spec is not None:
        ordinary, vocab_size, first = IdSet(()), 0, 0
        special = {tag: ids.get(tag, -2 - i) for i, tag in enumerate(special)}
    return TokenTable(
        **head | {key: tuple(head.get(key, ())) for key in ("phases", "texts")},
        ordinary=ordinary,
        pad=first - 1,
        vocab_size=vocab_size,
        terminals=terminals,
        special=special,
        mistakes=_mistakes(data.get("mistake", []), terminals, need),
        required=spec,
        declared_ids=tuple(ids.items()),
        history=_history(data.get("history"), terminals, head, need),
    )


def _rows(rows: list[dict[str, Any]], need: Need) -> list[dict[str, Any]]:
    """Returns the rows of terminals; one that `joins` another is like it but for its own keys."""
    out: list[dict[str, Any]] = []
    for row in rows:
        if "joins" not in row:
            out.append(row)
            continue
        entry = f"[[terminal]] {row['name']}"
        base = next((r for r in out if r["name"] == row["joins"] and "joins" not in r), {})
        fine = "opens" in base
        need(fine, entry, f'"joins" names no terminal above that opens a block: {row["joins"]!r}')
        need(
            row.get("after") != base["opens"],
            entry,
            f'"after" is another block, not {base["opens"]!r}',
        )
        placed = "spelling" in row and "after" in row  # where it is after another block
        later = "spelling" in row and not base["spelling"]  # where it is not the first tag
        after = row["after"] if placed else base["opens"]
        own = row | {"joins": "", "after": after, "again": not (placed or later)}
        if "space" in row:
            own = row | {"spelling": [{"space": row["space"], "exact": True}, *base["spelling"]]}
        own = {k: v for k, v in base.items() if k not in ("id", "also")} | own
        nothing = {"spelling": [], "origin": "system", "loss": 0, "body_loss": 1}
        own |= nothing if "resumes" in row else {}
        keys = ("opens", "joins", "after", "before")
        twice = any(all(r.get(k) == own.get(k) for k in keys) for r in out)
        need(not twice, entry, f"another terminal joins {row['joins']}")
        fine = own.get("origin") == "model" or own.get("body") == "template"
        fine = fine or "space" in row or "resumes" in row or later or placed
        need(fine, entry, _BETWEEN)
        out.append(own)
    return out


def _derived(row: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns what a row of a terminal may leave out, as it follows from the rest."""
    closes = row.get("closes")
    opener = next((r for r in rows if "opens" in r and r["opens"] == closes), {})
    origin = row.get("origin", opener.get("origin", "system"))
    doc = {"doc": f"Closes {closes}."} if isinstance(closes, str) else {}
    return {"origin": origin, "loss": int(origin == "model"), "phase": 1} | doc


def _terminal(row: dict[str, Any]) -> Terminal:
    """Returns the terminal of a row that leaves nothing out."""
    options: dict[str, Any] = {"body_loss": row["loss"]} | {k: row[k] for k in _OPTIONS if k in row}
    if (body := row.get("body")) == "tagged":
        options["body"] = Tags(**row.get("tags", {}))
    elif body in _BODIES:
        options["body"] = _BODIES[body](**row[body])
    if "closes" in row:
        ends = [row["closes"]] if isinstance(row["closes"], str) else row["closes"]
        options |= {"closes": ends[0], "shared": tuple(ends[1:])}
    options |= {"stops": tuple(row.get("stops", ()))}
    spelling, *also = (tuple(map(_piece, p)) for p in (row["spelling"], *row.get("also", ())))
    options |= {key: row[key] for key in ("name", "loss", "origin", "phase", "doc")}
    return Terminal(spelling=spelling, also=tuple(also), **options)


def _piece(raw: dict[str, Any]) -> Piece:
    kind = next(k for k in ("special", "text", "space", "attr") if k in raw)
    return Piece(kind, raw[kind], **{k: raw[k] for k in Piece._fields[2:] if k in raw})


def _check_spellings(terminals: dict[str, Terminal], need: Need) -> None:
    """Checks that texts can be read as the terminals that they are."""
    names: dict[tuple[Piece, ...], str] = {}
    trails = {t.stem[-1]: t.trail for t in terminals.values() if t.trail and t.stem}
    for t in terminals.values():
        entry, pieces = f"[[terminal]] {t.name}", t.spelling
        need(bool(pieces or (t.opens and not t.loss)), entry, '"spelling" is empty')
        # Or content and the white space of a tag after it could spell this one together.
        bare = "".join(p.value for p in pieces if p.kind == "text")
        plain = {p.kind for p in pieces} <= {"text", "space"}
        need(not plain or bare == bare.strip(), entry, "white space at its ends is a space piece")
        attrs = {(p.value, p.pattern) for p in pieces if p.kind == "attr"}
        for form in t.also:
            fine = {(p.value, p.pattern) for p in form if p.kind == "attr"} == attrs
            need(fine, entry, 'a spelling of "also" has the attributes of "spelling"')
            kinds = {p.kind for p in form}
            message = 'a spelling of "also" has a special piece, and no white space of its own'
            need("special" in kinds and "space" not in kinds, entry, message)
        for form in (pieces, *t.also):
            twice = f"is spelled as {names.get(form)} is"
            twice = 'a spelling of "also" is there twice' if names.get(form) == t.name else twice
            need(form not in names, entry, twice)
            names[form] = t.name
        masked = [i for i, piece in enumerate(pieces) if not piece.loss]
        fine = not masked or (masked == [len(pieces) - 1] and pieces[-2:][0].kind == "special")
        need(fine, entry, 'a piece of "loss" 0 is the last one, after a special piece')
        fine = all(p.prompts for p in pieces[bool(t.opens and t.body_loss) :])
        need(fine, entry, 'a piece with "prompts" begins the tag of a block that the model fills')
        message = "another tag that ends with the same special piece has other white space after it"
        need(not t.stem or trails.get(t.stem[-1], t.trail) == t.trail, t.name, message)


def _check_blocks(terminals: dict[str, Terminal], need: Need) -> None:
    """Checks that each block is opened and closed in one way."""
    blocks = {t.opens for t in terminals.values()}
    closed = {kind for t in terminals.values() for kind in t.closing}
    usual = {o.opens: o for o in terminals.values() if not (o.joins or o.before or o.after)}
    for t in terminals.values():
        rows = [o for o in terminals.values() if not (o.joins or o.after)]
        rivals = [o for o in rows if o is not t and not (t.joins or t.after)]
        opens = next((o.name for o in rivals if t.opens and o.opens == t.opens), None)
        parted = opens is None or any(o.before for o in [t, *rivals] if o.opens == t.opens)
        text = f"opens {t.opens!r}, as {opens} does: nothing says where each of them is written"
        need(parted, t.name, f'{text}; expected "joins", "before" or "also"')
        shuts = set(() if t.mark else t.closing)
        shut = next((o.name for o in rivals if not o.mark and shuts & {*o.closing}), None)
        text = f"closes {t.closes!r}, as {shut} does: nothing says where each of them is written"
        need(shut is None, t.name, text)
        for end in t.ends:
            need(end in blocks, t.name, f"closes {end!r}, which nothing opens")
        text = f'"resumes" is of a block with a closing tag, and {t.opens!r} has none'
        need(bool(t.spelling or not t.again or t.opens in closed), t.name, text)
        text = '"before" is of another opening tag of a block: the kind that it begins with, not '
        fine = not t.before or usual.keys() >= {t.opens, t.before}
        need(fine, t.name, f"{text}{t.before!r}")
        fine = t.after in ("", "text", t.opens) or (t.after,) in (o.ends for o in rows)
        need(fine, t.name, f'"after" is a block with a closing tag of its own, not {t.after!r}')
        text = '"spelling" of a terminal that joins another has the same attributes'
        need(not t.after or t.patterns == usual[t.opens].patterns, t.name, text)
        if isinstance(t.body, Tags):
            marks = [mark for mark in t.body.marks if mark[0] == "<"]
            fine = all(map(str.strip, t.body.argument)) and len({*marks}) == len(t.body.marks)
            text = 'the tags of calls differ and begin with "<", those of "argument" are not empty'
            need(fine, t.name, f"{text}: {[*t.body.function, *t.body.argument]}")
            one, other = t.body.types or ("0", "1")
            fine = not (one.startswith(other) or other.startswith(one))
            need(fine, t.name, '"types" are two texts, and neither begins as the other')
            before = "".join(t.body.wrap[1:2])
            text = '"wrap" begins with characters, one of which is in the text before a string'
            need(t.body.wrapped(before) != before or not t.body.wrap, t.name, text)
        for stop in (terminals.get(name, t) for name in t.stops):
            closers = [o for o in rivals if t.opens in o.closing and not o.mark]
            text = f'"stops" of a block with a closing tag names results in it, not {stop.name}'
            need(not closers or stop.role == "result", t.name, text)
            fine = stop.spelling[0].kind == "special" or not t.body_loss
            fine = fine and stop is not t and bool(stop.opens) and t.stops.count(stop.name) == 1
            fine = fine and not (stop.trail or stop.loss)
            text = '"stops" names opening tags of the system once, a special piece first, not'
            need(fine, t.name, f"{text} {[*t.stops]}")
        text = f'"strip" is of a block of text, or of a call beside one; the body is {t.body!r}'
        need(not t.strip or t.body in ("text", *CALLS), t.name, text)


def _check_head(head: dict[str, Any], terminals: dict[str, Terminal], need: Need) -> None:
    """Checks the kinds of block that `[dialect]` names."""
    bare, naming = head.get("untagged", ""), ("call", "function", "parameters")
    kinds = {t.opens for t in terminals.values() if t.opens and t.body in naming}
    kinds &= {t.closes for t in terminals.values() if t.both}
    message = '"untagged" is a block of calls that one tag closes with the block around it ("both")'
    need(bare == "" or bare in kinds, "[dialect]", f"{message}, not {bare!r}")
    turn = head.get("turn_opener", "")
    openers = sorted({t.opens for t in terminals.values() if t.opens})
    message = f'"turn_opener" is not a block that a terminal opens: {turn!r}; blocks are'
    need(turn in ("", *openers), "[dialect]", f"{message} {', '.join(openers)}")


def as_texts(table: TokenTable, tags: Iterable[str]) -> TokenTable:
    """Returns the table with some of its special tokens as text."""

    def spelled(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
        return tuple(p._replace(kind="text") if p.value in tags else p for p in pieces)

    terminals = {
        name: replace(t, spelling=spelled(t.spelling), also=(*map(spelled, t.also),))
        for name, t in table.terminals.items()
    }
    special = {tag: i for tag, i in table.special.items() if tag not in tags}
    return replace(table, terminals=terminals, special=special)


def _declared_ids(
    rows: list[dict[str, Any]], ordered: dict[str, int] | None, need: Need
) -> dict[str, int]:
    """Returns the ids that a table for another vocabulary says of its tags.

    A table for GPT-2's has ids in the order of its tags, `ordered`, and may say the same.
    """
    ids: dict[str, int] = {}
    for row in rows:
        entry = f"[[terminal]] {row['name']}"
        for piece in row["spelling"]:
            need("id" not in piece or ordered is None, entry, '"id" of a piece needs [vocabulary]')
        for piece in [*row["spelling"], *[piece | row for piece in row["spelling"][:1]]]:
            if "id" not in piece:
                continue
            tag, i = piece["special"], piece["id"]
            if ordered is not None:
                message = f'"id" is {i}, the order of the table says {ordered[tag]}'
                need(ordered[tag] == i, entry, message)
                continue
            owner = next((other for other, its in ids.items() if its == i), tag)
            need(owner == tag, entry, f"id {i} is that of {owner}")
            need(ids.setdefault(tag, i) == i, entry, f"{tag} has id {ids[tag]} above")
    return ids


def _mistakes(
    rows: list[dict[str, Any]], terminals: dict[str, Terminal], need: Need
) -> tuple[Mistake, ...]:
    kinds = {"", *(t.opens or t.name.lower() for t in terminals.values() if t.mark or not t.closes)}
    out = []
    for row in rows:
        entry = f"[[mistake]] {row['code']}"
        for key in ("terminal", "expected"):
            exists = row.get(key, TEXT) in {*terminals, TEXT, END}
            need(exists, entry, f"no terminal {row.get(key)!r}")
        lists: dict[str, Any] = {key: tuple(row[key]) for key in ("inside", "after") if key in row}
        for key, names in lists.items():
            need({*names} <= kinds, entry, f'"{key}" names no block or mark: {row[key]}')
        out.append(Mistake(**row | lists))
    return tuple(out)


def _history(
    raw: dict[str, Any] | None, terminals: dict[str, Terminal], head: dict[str, Any], need: Need
) -> History:
    if raw is None:
        return History()
    entry, drops, empty = "[history]", raw["drops"], raw.get("empty", "")
    kinds = {t.opens for t in terminals.values() if t.opens}
    need({*drops} <= kinds, entry, f'"drops" must list kinds of block, got {drops}')
    need(empty in {"", *kinds}, entry, f'"empty" must be a kind of block, got {empty!r}')
    need(not empty or len(drops) == 1, entry, '"empty" needs one kind of block in "drops"')
    need(bool(head.get("turn_opener")), entry, 'needs "turn_opener" in [dialect]')
    options = {key: raw[key] for key in raw.keys() - {"drops", "empty"}}
    return History(tuple(drops), empty, **options)
