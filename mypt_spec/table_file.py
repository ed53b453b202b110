"""Reads a token table from the text of a tokens.toml, and checks each entry.

An entry that is wrong raises SpecError with the entry's name, so that who writes a dialect need not
read this code.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from mypt_spec.table import (
    BODIES,
    END,
    KINDS,
    ROLES,
    TEXT,
    History,
    IdSet,
    Mistake,
    Piece,
    SpecError,
    Terminal,
    TokenTable,
    Wanted,
    padded,
)

_DIALECT_KEYS = {
    "name", "title", "doc", "base_vocabulary", "first_special_id", "pad_vocabulary_to", "layouts",
    "tool_declaration",
    "multi_turn_phase", "phases", "turn_opener", "prompts", "glue", "models", "untagged",
}  # fmt: skip
_TERMINAL_KEYS = {
    "name",
    "spelling",
    "id",
    "loss",
    "origin",
    "phase",
    "doc",
    "opens",
    "closes",
    "body",
    "quotes",
    "body_loss",
    "body_origin",
    "mark",
    "role",
    "joins",
    "after",
    "again",
    "before",
    "also",
    "both",
}
_JOINING_KEYS = {"name", "joins", "space", "after"}
_OPTIONS = (
    *("opens", "body", "quotes", "body_loss", "body_origin", "mark", "again", "both", "role"),
    *("joins", "before", "after"),
)
_MISTAKE_KEYS = {"code", "terminal", "inside", "after", "expected", "help"}


def load_table(source: str, *, where: str = "tokens.toml") -> TokenTable:
    """Returns the token table in a TOML text. Raises SpecError, which names the wrong entry.

    `where` is the name of the file for messages. `grammar/tokens.schema.json` says the same to
    editors.
    """

    def need(ok: bool, entry: str, what: str) -> None:
        if not ok:
            raise SpecError(f"{where}: {entry}: {what}")

    try:
        data = tomllib.loads(source)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"{where}: not TOML: {error}") from None
    head: dict[str, Any] = data.get("dialect", {})
    need(
        isinstance(head, dict) and bool(head.get("name")),
        "[dialect]",
        'expected a table with a "name"',
    )
    known_keys(head, _DIALECT_KEYS, "[dialect]", need)
    terminals: dict[str, Terminal] = {}
    special: dict[str, int] = {}
    wanted = _wanted(data.get("vocabulary"), need)
    for key in ("base_vocabulary", "first_special_id"):
        what = f'"{key}" is of GPT-2\'s vocabulary, [vocabulary] says another'
        need(wanted is None or key not in head, "[dialect]", what)
    first, pad = head.get("first_special_id", 50257), head.get("pad_vocabulary_to", 64)
    given: dict[str, int] = {}
    for key, number in (("first_special_id", first), ("pad_vocabulary_to", pad)):
        need(isinstance(number, int) and number > 0, "[dialect]", f'"{key}" must be a positive int')
    base = head.get("base_vocabulary", "gpt2")
    what = f'"base_vocabulary" is "gpt2"; [vocabulary] says another, not {base!r}'
    need(base == "gpt2", "[dialect]", what)
    text = "the ids below are those of GPT-2's text"
    need(first >= 50257, "[dialect]", f'"first_special_id" must be at least 50257: {text}')
    for key in ("prompts", "glue"):
        need(isinstance(head.get(key, False), bool), "[dialect]", f'"{key}" must be true or false')
    need(isinstance(head.get("models", ""), str), "[dialect]", '"models" must be str')
    for key in ("terminal", "mistake"):
        rows = data.get(key, [])
        need(
            isinstance(rows, list) and all(isinstance(r, dict) for r in rows),
            f"[[{key}]]",
            "expected tables",
        )
    rows = _rows(data.get("terminal", []), need)
    for said in rows:
        row = _derived(said, rows) | said
        entry = f"[[terminal]] {row.get('name', '(no name)')}"
        known_keys(row, _TERMINAL_KEYS, entry, need)
        for key, kind in (
            ("name", str),
            ("spelling", list),
            ("loss", int),
            ("origin", str),
            ("phase", int),
            ("doc", str),
        ):
            need(isinstance(row.get(key), kind), entry, f'"{key}" must be {kind.__name__}')
        name = row["name"]
        need(
            re.fullmatch(r"[A-Z][A-Z0-9_]*", name) is not None and name != TEXT,
            entry,
            "the name must be UPPER_CASE, not TEXT",
        )
        need(name not in terminals, entry, "stands twice")
        need(row["loss"] in (0, 1), entry, '"loss" must be 0 or 1')
        need(row["origin"] in ("model", "system"), entry, '"origin" must be "model" or "system"')
        need(row.get("body", "text") in BODIES, entry, f'"body" must be one of {", ".join(BODIES)}')
        need(
            row.get("role", ROLES[0]) in ROLES and ("opens" in row or "role" not in row),
            entry,
            f'"role" must be one of {", ".join(ROLES)}, of a terminal that opens a block',
        )
        pieces = tuple(_piece(p, entry, need) for p in row["spelling"])
        for raw in row["spelling"]:
            if "id" in raw:
                need(wanted is not None, entry, '"id" of a piece needs [vocabulary]')
                _give(given, raw["special"], raw["id"], entry, need)
        need(bool(pieces), entry, '"spelling" is empty')
        blank = all(piece.kind == "space" for piece in pieces)
        need(not blank, entry, '"spelling" is white space alone; add a text or a special piece')
        # Or content and the white space of a tag after it could spell this one together.
        bare = "".join(p.value for p in pieces if p.kind == "text")
        plain = {p.kind for p in pieces} <= {"text", "space"}
        need(not plain or bare == bare.strip(), entry, "white space at its ends is a space piece")
        also = _also(row.get("also", []), pieces, entry, need)
        spoken = [(t.name, form) for t in terminals.values() for form in (t.spelling, *t.also)]
        same = next((name for name, form in spoken if form in (pieces, *also)), None)
        need(same is None, entry, f"is spelled as {same} is")
        need(
            not ("opens" in row and "closes" in row),
            entry,
            "opens and closes; a terminal does one of them, or neither",
        )
        masked = [i for i, piece in enumerate(pieces) if not piece.loss]
        need(
            not masked or (masked == [len(pieces) - 1] and pieces[-2:][0].kind == "special"),
            entry,
            'a piece of "loss" 0 is the last one, after a special piece',
        )
        for piece in (piece for form in (pieces, *also) for piece in form):
            if piece.kind == "special":
                special.setdefault(piece.value, first + len(special))
        if "id" in row:
            need(
                len(pieces) == 1 and pieces[0].kind == "special",
                entry,
                '"id" needs a spelling of one special piece',
            )
            if wanted is not None:
                _give(given, pieces[0].value, row["id"], entry, need)
            need(
                wanted is not None or special[pieces[0].value] == row["id"],
                entry,
                f'"id" is {row["id"]}, the order of the table says {special[pieces[0].value]}',
            )
        need(row.get("body_loss", 0) in (0, 1), entry, '"body_loss" must be 0 or 1')
        need(
            row.get("body_origin", "model") in ("model", "system"),
            entry,
            '"body_origin" must be model or system',
        )
        need(isinstance(row.get("mark", False), bool), entry, '"mark" must be true or false')
        need(
            "closes" in row or "mark" not in row,
            entry,
            '"mark" is for a terminal that closes a block',
        )
        need(isinstance(row.get("again", False), bool), entry, '"again" must be true or false')
        need(isinstance(row.get("both", False), bool), entry, '"both" must be true or false')
        need(
            isinstance(row.get("closes"), list) or "both" not in row,
            entry,
            '"both" is for a tag that closes a list of blocks, the inner one first',
        )
        need("opens" in row or "again" not in row, entry, '"again" is for a tag that opens a block')
        options: dict[str, Any] = {"body_loss": row["loss"], "also": also} | {
            k: row[k] for k in _OPTIONS if k in row
        }
        if "closes" in row:
            ends = [row["closes"]] if isinstance(row["closes"], str) else row["closes"]
            fine = isinstance(ends, list) and ends and all(isinstance(e, str) for e in ends)
            need(bool(fine), entry, '"closes" must be a kind of block, or a list of them')
            options |= {"closes": ends[0], "shared": tuple(ends[1:])}
        terminals[name] = Terminal(
            name, pieces, row["loss"], row["origin"], row["phase"], row["doc"], **options
        )
    need(bool(terminals), "[[terminal]]", "none")
    for t in terminals.values():
        rivals = [o for o in terminals.values() if o is not t and not (o.joins or t.joins)]
        opens = next((o.name for o in rivals if t.opens and o.opens == t.opens), None)
        parted = opens is None or any(o.before for o in [t, *rivals] if o.opens == t.opens)
        what = f"opens {t.opens!r}, as {opens} does: nothing says where each of them is written"
        need(parted, t.name, f'{what}; expected "joins", "before" or "also"')
        shuts = set(() if t.mark else t.closing)
        shut = next((o.name for o in rivals if not o.mark and shuts & {*o.closing}), None)
        what = f"closes {t.closes!r}, as {shut} does: nothing says where each of them is written"
        need(shut is None, t.name, what)
    trails = {t.said[-1]: t.trail for t in terminals.values() if t.trail}
    for t in terminals.values():
        need(
            trails.get(t.said[-1], t.trail) == t.trail,
            t.name,
            "another tag that ends with the same special piece has other white space after it",
        )
        for end in t.ends:
            need(
                any(o.opens == end for o in terminals.values()),
                t.name,
                f"closes {end!r}, which nothing opens",
            )
        known = [o for o in terminals.values() if o.opens and not o.joins and not o.before]
        need(
            not t.before or ({o.opens for o in known} >= {t.opens, t.before} and t.opens != ""),
            t.name,
            f'"before" is of another opening tag of a block: the kind that it begins with, not '
            f"{t.before!r}",
        )
    turn = head.get("turn_opener", "")
    openers = sorted({t.opens for t in terminals.values() if t.opens})
    bare, naming = head.get("untagged", ""), ("call", "function", "parameters")
    named = {t.opens for t in terminals.values() if t.opens and t.body in naming}
    named &= {t.closes for t in terminals.values() if t.both}
    what = '"untagged" is a block of calls that one tag closes with the block around it ("both")'
    need(bare == "" or bare in named, "[dialect]", f"{what}, not {bare!r}")
    known_turn = turn in ("", *openers)
    what = f'"turn_opener" is no block that a terminal opens: {turn!r}; blocks are'
    need(known_turn, "[dialect]", f"{what} {', '.join(openers)}")
    kinds = {"", *(t.opens or t.name.lower() for t in terminals.values() if t.mark or not t.closes)}
    lists = ("inside", "after")
    for row in data.get("mistake", []):
        entry = f"[[mistake]] {row.get('code', '(no code)')}"
        known_keys(row, _MISTAKE_KEYS, entry, need)
        need(isinstance(row.get("code"), str), entry, '"code" must be str')
        for key in ("terminal", "expected"):
            need(
                row.get(key, TEXT) in {*terminals, TEXT, END},
                entry,
                f"no terminal {row.get(key)!r}",
            )
        for key in lists:
            need(isinstance(row.get(key, []), list), entry, f'"{key}" must be list')
            need(
                set(row.get(key, [])) <= kinds,
                entry,
                f'"{key}" names no block or mark: {row.get(key)}',
            )
    mistakes = tuple(
        Mistake(**row | {k: tuple(row[k]) for k in lists if k in row})
        for row in data.get("mistake", [])
    )
    ordinary, vocab_size = IdSet((range(first - 1),)), padded(first + len(special), pad)
    if wanted is not None:
        ordinary, vocab_size, first = IdSet(()), 0, 0
        special = {tag: given.get(tag, -2 - i) for i, tag in enumerate(special)}
    return TokenTable(
        name=head["name"],
        title=head.get("title", head["name"]),
        doc=head.get("doc", ""),
        base_vocabulary=head.get("base_vocabulary", "gpt2"),
        ordinary=ordinary,
        pad=first - 1,
        vocab_size=vocab_size,
        pad_vocabulary_to=pad,
        terminals=terminals,
        special=special,
        layouts=head.get("layouts", {"compact": ""}),
        mistakes=mistakes,
        phases=tuple(head.get("phases", ())),
        multi_turn_phase=head.get("multi_turn_phase", 1),
        turn_opener=head.get("turn_opener", ""),
        tool_declaration=head.get("tool_declaration", ""),
        prompts=head.get("prompts", False),
        models=head.get("models", ""),
        untagged=bare,
        wanted=wanted,
        given=tuple(given.items()),
        glue=head.get("glue", False),
        history=_history(data.get("history"), terminals, head, need),
    )


def _rows(rows: list[dict[str, Any]], need: Any) -> list[dict[str, Any]]:
    """Returns the rows of terminals; one that `joins` another is like it but for its own keys."""
    out: list[dict[str, Any]] = []
    for row in rows:
        entry = f"[[terminal]] {row.get('name', '(no name)')}"
        if "joins" not in row:
            need("after" not in row, entry, '"after" is beside "joins"')
            out.append(row)
            continue
        known_keys(row, _JOINING_KEYS, entry, need)
        base = next((r for r in out if r.get("name") == row["joins"] and "joins" not in r), None)
        fine = base is not None and "opens" in base and isinstance(base.get("spelling"), list)
        need(fine, entry, f'"joins" names no terminal above that opens a block: {row["joins"]!r}')
        after = row.get("after", "")
        need(after in ("", "text"), entry, f'"after" is "text", or left out; got {after!r}')
        twice = any((r.get("joins"), r.get("after", "")) == (row["joins"], after) for r in out)
        need(not twice, entry, f"another terminal joins {row['joins']}")
        spelling = [{"space": row.get("space", ""), "exact": True}, *(base or {})["spelling"]]
        own = {"name": row.get("name"), "joins": row["joins"], "spelling": spelling}
        own |= {"after": after} if after else {}
        out.append({k: v for k, v in (base or {}).items() if k != "id"} | own)
    return out


def _derived(row: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns what a row of a terminal may leave out, as it follows from the rest."""
    closes = row.get("closes")
    opener = next((r for r in rows if "opens" in r and r["opens"] == closes), {})
    origin = row.get("origin", opener.get("origin", "system"))
    doc = {"doc": f"Closes {closes}."} if isinstance(closes, str) else {}
    return {"origin": origin, "loss": int(origin == "model"), "phase": 1} | doc


def _history(raw: Any, terminals: dict[str, Terminal], head: dict[str, Any], need: Any) -> History:
    entry = "[history]"
    if raw is None:
        return History()
    need(isinstance(raw, dict), entry, "expected a table")
    known_keys(raw, {"drops", "empty"}, entry, need)
    kinds = {t.opens for t in terminals.values() if t.opens}
    drops, empty = raw.get("drops"), raw.get("empty", "")
    fine = isinstance(drops, list) and drops and set(map(str, drops)) <= kinds
    need(bool(fine), entry, f'"drops" must list kinds of block, got {drops}')
    need(empty in {"", *kinds}, entry, f'"empty" must be a kind of block, got {empty!r}')
    need(not empty or len(drops) == 1, entry, '"empty" needs one kind of block in "drops"')
    need(bool(head.get("turn_opener")), entry, 'needs "turn_opener" in [dialect]')
    return History(tuple(drops), empty)


def _also(
    rows: Any, written: tuple[Piece, ...], entry: str, need: Any
) -> tuple[tuple[Piece, ...], ...]:
    """Returns the other spellings of a terminal that is `written` otherwise."""
    need(isinstance(rows, list), entry, '"also" must be a list of spellings')
    for row in rows:
        need(isinstance(row, list) and bool(row), entry, '"also" must be a list of spellings')
    out = tuple(tuple(_piece(p, entry, need) for p in row) for row in rows)
    attrs = {(p.value, p.pattern) for p in written if p.kind == "attr"}
    for pieces in out:
        fine = {(p.value, p.pattern) for p in pieces if p.kind == "attr"} == attrs
        need(fine, entry, 'a spelling of "also" has the attributes of "spelling"')
        kinds = {p.kind for p in pieces}
        what = 'a spelling of "also" has a special piece, and no white space of its own'
        need("special" in kinds and "space" not in kinds, entry, what)
    need(len({written, *out}) == len(out) + 1, entry, 'a spelling of "also" is there twice')
    return out


def _wanted(raw: Any, need: Any) -> Wanted | None:
    entry = "[vocabulary]"
    if raw is None:
        return None
    need(isinstance(raw, dict), entry, "expected a table")
    known_keys(raw, {"kind", "file", "sha256", "pattern", "special"}, entry, need)
    need(raw.get("kind") in KINDS, entry, f'"kind" must be one of {", ".join(KINDS)}')
    for key in ("file", "sha256", "pattern"):
        need(isinstance(raw.get(key, ""), str), entry, f'"{key}" must be str')
    need(
        re.fullmatch(r"([0-9a-f]{64})?", raw.get("sha256", "")) is not None,
        entry,
        '"sha256" must be 64 digits in hexadecimal',
    )
    own = {"pattern", "special"} & set(raw)
    need(not own or raw["kind"] == "ranks", entry, f'{" and ".join(sorted(own))}: only of "ranks"')
    special = raw.get("special", {})
    need(
        isinstance(special, dict) and all(type(i) is int and i >= 0 for i in special.values()),
        entry,
        '"special" must be a table of ids',
    )
    rest = {key: raw[key] for key in ("kind", "file", "sha256", "pattern") if key in raw}
    return Wanted(**rest, special=tuple(special.items()))


def _give(given: dict[str, int], tag: str, i: Any, entry: str, need: Any) -> None:
    need(type(i) is int and i >= 0, entry, f'"id" of {tag} must be an int, not below 0')
    owner = next((other for other, its in given.items() if its == i), tag)
    need(owner == tag, entry, f"id {i} is that of {owner}")
    need(given.setdefault(tag, i) == i, entry, f"{tag} has id {given[tag]} above")


def known_keys(row: dict[str, Any], keys: set[str], entry: str, need: Any) -> None:
    """Calls `need`, which raises for an unknown key of a table; `entry` is what it is called."""
    unknown = sorted(set(row) - keys)
    need(
        not unknown, entry, f"unknown key {', '.join(unknown)}; known are {', '.join(sorted(keys))}"
    )


def _piece(raw: Any, entry: str, need: Any) -> Piece:
    need(
        isinstance(raw, dict),
        entry,
        "a piece of a spelling is a table: special, text, space or attr",
    )
    kind = next((k for k in ("special", "text", "space", "attr") if k in raw), "")
    need(
        bool(kind) and set(raw) <= {kind, "pattern", "exact", "id", "loss", "usual"},
        entry,
        f"piece {raw} must have one of special, text, attr, space",
    )
    need(
        isinstance(raw[kind], str) and bool(raw[kind]),
        entry,
        f"{kind!r} of a piece must be str, and not empty",
    )
    need(
        kind != "attr" or isinstance(raw.get("pattern"), str),
        entry,
        "an attr piece needs a pattern",
    )
    need("id" not in raw or kind == "special", entry, '"id" is for a special piece')
    need(kind != "space" or raw[kind].isspace(), entry, "a space piece must be white space")
    need(
        "exact" not in raw or (kind == "space" and isinstance(raw["exact"], bool)),
        entry,
        '"exact" is true or false, of a space',
    )
    need(
        "loss" not in raw or (raw["loss"] in (0, 1) and raw.get("exact") is True),
        entry,
        '"loss" is 0 or 1, of an exact space',
    )
    usual = raw.get("usual", "")
    need(isinstance(usual, str), entry, '"usual" of an attr piece must be a pattern')
    need(not usual or kind == "attr", entry, '"usual" is for an attr piece')
    return Piece(
        kind, raw[kind], raw.get("pattern", ""), raw.get("exact", False), raw.get("loss", 1), usual
    )
