"""Token tables: their schema, what `load_table` refuses, and grammars that do not fit or cannot be
compiled.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import mypt_spec
from mypt_spec import table_file
from mypt_spec.adapters.base import Adapter, Reader
from mypt_spec.automaton import extract
from mypt_spec.compiled import toml
from mypt_spec.dialect import grammar_root, load
from mypt_spec.episode import Episode, Message
from mypt_spec.findings import RULES
from mypt_spec.record_schema import RecordSchema
from mypt_spec.states import model_writes
from mypt_spec.table import CALLS, DEFINITIONS, LISTS, SpecError, TokenTable
from mypt_spec.table_file import load_table
from tests.support.tables import GPT2, SCHEMA, VALIDATOR, head, row, special, write_table

FOLDERS = sorted(path.parent for path in grammar_root().glob("*/tokens.toml"))
RECORD_FILES = sorted(grammar_root().glob("*/records.toml"))
RECORDS = json.loads((grammar_root() / "records.schema.json").read_text(encoding="utf-8"))

OPEN = row("BOX_OPEN", special("<box>"), "id = 50257", 'opens = "box"', doc="Opens box.")
CLOSE = row("BOX_CLOSE", special("</box>"), "id = 50258", 'closes = "box"', doc="Closes box.")
STOP = row("STOP", special("<stop>"), "id = 50259", loss=1, doc="Ends.")
MISTAKE = """[[mistake]]
code = "MYP220"
terminal = "STOP"
inside = ["box"]
help = "close the box first"
"""
TABLE = "\n".join([head("tiny", GPT2), OPEN + CLOSE + STOP + MISTAKE])
GRAMMAR = """
start: (BOX_OPEN TEXT+ BOX_CLOSE)+ STOP
%declare BOX_OPEN BOX_CLOSE STOP TEXT
"""


def swap(old: str, new: str) -> Callable[[str], str]:
    def change(source: str) -> str:
        assert source.count(old) >= 1
        return source.replace(old, new, 1)

    return change


# --- the schema


def test_schema_is_a_schema_with_descriptions() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    described = [SCHEMA["properties"]["dialect"], *SCHEMA["$defs"].values()]
    for part in described:
        for name, field in part.get("properties", {}).items():
            assert field.get("description") or "$ref" in field, name
        if "properties" in part:
            assert part["additionalProperties"] is False


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_table_fits_the_schema(folder: Path) -> None:
    text = (folder / "tokens.toml").read_text(encoding="utf-8")
    assert text.startswith("#:schema ../tokens.schema.json\n"), "editors find it by this line"
    VALIDATOR.validate(tomllib.loads(text))


def test_the_schema_names_each_kind_of_body() -> None:
    bodies = SCHEMA["$defs"]["terminal"]["properties"]["body"]["oneOf"][0]["enum"]
    assert bodies == ["text", "json", *CALLS, *LISTS, *DEFINITIONS]


def test_the_loader_knows_each_keyword_of_the_schemas() -> None:
    """It skips what it does not know, so a new keyword would be checked in editors alone."""
    known = {*table_file._RULES, "$ref", "type", "items", "properties", "additionalProperties"}
    known |= {"required", "dependentSchemas", "if", "then", "else", "errorMessage", "description"}
    advice = {"allOf", "uniqueItems", "format", "$schema", "title", "$defs"}

    def keywords(schema: dict[str, Any]) -> set[str]:
        tables = [schema.get(key, {}) for key in ("properties", "dependentSchemas", "$defs")]
        inner = [rule for table in tables for rule in table.values()] + schema.get("oneOf", [])
        single = ("items", "additionalProperties", "if", "then", "else", "not", "contains")
        inner += [schema[key] for key in single if isinstance(schema.get(key), dict)]
        return {*schema}.union(*map(keywords, inner))

    for schema in (SCHEMA, RECORDS):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert keywords(schema) <= known | advice


@pytest.mark.parametrize("folder", RECORD_FILES, ids=lambda f: f.parent.name)
def test_records_fit_their_schema(folder: Path) -> None:
    jsonschema.validate(tomllib.loads(folder.read_text(encoding="utf-8")), RECORDS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_names_in_a_table_exist(folder: Path) -> None:
    table = load_table((folder / "tokens.toml").read_text(encoding="utf-8"))
    kinds = {"", *table.openers, *table.marks}
    for mistake in table.mistakes:
        assert mistake.code in RULES
        assert {*(mistake.inside or ()), *(mistake.after or ())} <= kinds, mistake
        tags = re.findall(r"<[^<>]+>", " ".join(re.findall(r"`[^`]+`", mistake.help)))
        assert all(table.literals.fullmatch(tag) for tag in tags), mistake.help
    assert not table.turn_opener or table.turn_opener in table.openers
    assert all(1 <= t.phase <= max(1, len(table.phases)) for t in table.terminals.values())


def test_the_tiny_table_is_good() -> None:
    VALIDATOR.validate(tomllib.loads(TABLE))
    table = load_table(TABLE)
    assert table.special == {"<box>": 50257, "</box>": 50258, "<stop>": 50259}
    assert table.vocab_size == 50304
    assert (table.openers["box"].name, table.closers["box"].name) == ("BOX_OPEN", "BOX_CLOSE")
    assert list(table.marks) == ["stop"]


def test_a_row_leaves_out_what_follows_from_the_rest() -> None:
    short = TABLE.replace("phase = 1\n", "").replace('loss = 0\norigin = "system"\n', "")
    short = short.replace('loss = 1\norigin = "model"', 'origin = "model"')
    short = short.replace('doc = "Closes box."\n', "")
    assert not re.search(r"phase|loss|system|Closes", short)
    VALIDATOR.validate(tomllib.loads(short))
    assert load_table(short) == load_table(TABLE)


@pytest.mark.parametrize(("origin", "loss"), [("model", 0), ("system", 1)])
def test_what_is_said_of_a_row_goes_before_what_follows(origin: str, loss: int) -> None:
    lines = f'origin = "{origin}"\nloss = {loss}\nphase = 2\ndoc = "Ends it."'
    usual = 'loss = 1\norigin = "model"\nphase = 1\ndoc = "Ends."'
    stop = load_table(TABLE.replace(usual, lines)).terminals["STOP"]
    assert (stop.origin, stop.loss, stop.phase, stop.doc) == (origin, loss, 2, "Ends it.")


def test_a_tag_that_closes_several_blocks_needs_a_doc() -> None:
    source = TABLE.replace(
        '"box"\nloss = 0\norigin = "system"\nphase = 1\ndoc = "Closes box."', '["box"]'
    )
    assert not VALIDATOR.is_valid(tomllib.loads(source))
    with pytest.raises(SpecError, match='BOX_CLOSE: "doc" must be str'):
        load_table(source)


# --- what the loader refuses: (change, the entry it must name, what it must say, whether the schema
# refuses it too)

# The same table, made for another vocabulary.
OTHER = TABLE.replace('base_vocabulary = "gpt2"\nfirst_special_id = 50257\n', "").replace(
    "[[terminal]]", '[vocabulary]\nkind = "tekken"\n\n[[terminal]]', 1
)

# The opening tag of the box, after a line end.
NEXT = '[[terminal]]\nname = "BOX_NEXT"\njoins = "BOX_OPEN"\nspace = "\\n"\n\n'
# The opening tag of the box after a block that there is not.
PLACED = NEXT.replace("NEXT", "AFTER").replace(
    'space = "\\n"', 'after = "bag"\nspelling = [{ special = "<b>" }]'
)

BAD: dict[str, tuple[Callable[[str], str], str, str, bool]] = {
    "no dialect": (lambda s: s[s.index("[[terminal]]") :], "[dialect]", "name", True),
    "no name of the dialect": (swap('name = "tiny"\n', ""), "[dialect]", "name", True),
    "unknown key of the dialect": (swap("[dialect]\n", "[dialect]\ncolour = 1\n"), "[dialect]", "unknown key colour", True),
    "unknown key of a terminal": (swap('opens = "box"', 'opens = "box"\nopend = "box"'), "BOX_OPEN", "unknown key opend", True),
    "unknown key of a mistake": (swap('help = "close', 'hlp = ""\nhelp = "close'), "MYP220", "unknown key hlp", True),
    "a block without tags is not a call": (swap("[dialect]\n", '[dialect]\nuntagged = "user"\n'), "[dialect]", '"untagged" is a block of calls', False),
    "models are a number": (swap("[dialect]\n", '[dialect]\nmodels = 3\n'), "[dialect]", '"models" must be str', True),
    "glue is a word": (swap("[dialect]\n", '[dialect]\nglue = "yes"\n'), "[dialect]", '"glue" must be true or false', True),
    "joins nothing": (swap("[[mistake]]", NEXT.replace("BOX_OPEN", "BAG_OPEN") + "[[mistake]]"), "BOX_NEXT", "no terminal above that opens", False),
    "joins a closing tag": (swap("[[mistake]]", NEXT.replace("BOX_OPEN", "BOX_CLOSE") + "[[mistake]]"), "BOX_NEXT", "no terminal above that opens", False),
    "joins twice": (swap("[[mistake]]", NEXT + NEXT.replace("NEXT", "MORE") + "[[mistake]]"), "BOX_MORE", "another terminal joins BOX_OPEN", False),
    "joins by a word": (swap("[[mistake]]", NEXT.replace("\\n", "x") + "[[mistake]]"), "BOX_NEXT", "must be white space", True),
    "after no block": (swap("[[mistake]]", PLACED + "[[mistake]]"), "BOX_AFTER", "with a closing tag of its own, not 'bag'", False),
    "after its own block": (swap("[[mistake]]", PLACED.replace("bag", "box") + "[[mistake]]"), "BOX_AFTER", "is another block, not 'box'", False),
    "a space after a block": (swap("[[mistake]]", NEXT.replace("space", 'after = "box"\nspace') + "[[mistake]]"), "BOX_NEXT", 'beside a "space" is "text"', True),
    "first after a text": (swap("[[mistake]]", NEXT.replace("space", 'first = true\nafter = "text"\nspace') + "[[mistake]]"), "BOX_NEXT", "is beside a", True),
    "joins with a loss": (swap("[[mistake]]", NEXT.replace("joins", "loss = 1\njoins") + "[[mistake]]"), "BOX_NEXT", "unknown key loss", True),
    "no terminals": (lambda s: s[: s.index("[[terminal]]")], "[[terminal]]", "none", True),
    "no name of a terminal": (swap('name = "STOP"\n', ""), "(no name)", '"name" must be str', True),
    "name in lower case": (swap('"STOP"', '"Stop"'), "Stop", "UPPER_CASE", True),
    "name TEXT": (lambda s: s.replace('"STOP"', '"TEXT"'), "TEXT", "not TEXT", True),
    "terminal twice": (swap('name = "STOP"', 'name = "BOX_OPEN"'), "BOX_OPEN", "occurs twice", False),
    "loss is a word": (swap("loss = 1\n", 'loss = "1"\n'), "STOP", '"loss" must be int', True),
    "loss of 2": (swap("loss = 1\n", "loss = 2\n"), "STOP", '"loss" must be 0 or 1', True),
    "origin is a number": (swap('origin = "model"\n', "origin = 1\n"), "STOP", '"origin" must be str', True),
    "unknown origin": (swap('"model"', '"user"'), "STOP", '"origin" must be "model" or "system"', True),
    "phase is a word": (swap('phase = 1\ndoc = "Ends."', 'phase = "one"\ndoc = "Ends."'), "STOP", '"phase" must be int', True),
    "no doc": (swap('doc = "Ends."\n', ""), "STOP", '"doc" must be str', True),
    "unknown body": (swap('opens = "box"', 'opens = "box"\nbody = "yaml"'), "BOX_OPEN", '"body" must be', True),
    "blank spelling": (swap('[{ special = "<stop>" }]\nid = 50259', '[{ space = "\\n", exact = true }]'), "STOP", "white space alone", True),
    "empty spelling": (swap('[{ special = "<stop>" }]\nid = 50259', "[]"), "STOP", '"spelling" is empty', True),
    "spelling is a string": (swap('[{ special = "<stop>" }]', '"<stop>"'), "STOP", '"spelling" must be list', True),
    "piece is a string": (swap('[{ special = "<stop>" }]', '["<stop>"]'), "STOP", "a piece of a spelling is a table", True),
    "unknown piece": (swap('{ special = "<stop>" }', '{ specail = "<stop>" }'), "STOP", "one of special, text, attr", True),
    "piece of two kinds": (swap('{ special = "<stop>" }', '{ special = "<stop>", text = "x" }'), "STOP", "one of special", True),
    "attribute without pattern": (swap('[{ special = "<stop>" }]\nid = 50259', '[{ attr = "name" }]'), "STOP", "needs a pattern", True),
    "wrong id": (swap("id = 50259", "id = 50260"), "STOP", "the order of the table says 50259", False),
    "id of plain text": (swap('{ special = "<stop>" }', '{ text = "<stop>" }'), "STOP", "needs a spelling of one special piece", True),
    "closes nothing": (swap('closes = "box"', 'closes = "bag"'), "BOX_CLOSE", "'bag', which nothing opens", False),
    "closes a number": (swap('closes = "box"', "closes = 5"), "BOX_CLOSE", "a kind of block, or a list of them", True),
    "closes an empty list": (swap('closes = "box"', "closes = []"), "BOX_CLOSE", "a kind of block, or a list of them", True),
    "closes nothing in a list": (swap('closes = "box"', 'closes = ["box", "bag"]'), "BOX_CLOSE", "'bag', which nothing opens", False),
    "mark that closes nothing": (swap("loss = 1\n", "loss = 1\nmark = true\n"), "STOP", "for a terminal that closes a block", True),
    "mark is a number": (swap('closes = "box"', 'closes = "box"\nmark = 1'), "BOX_CLOSE", "must be true or false", True),
    "text that ends with a line end": (swap('[{ special = "<stop>" }]\nid = 50259', '[{ text = "Stop.\\n" }]'), "STOP", "is a space piece", False),
    "exact text": (swap('[{ special = "<stop>" }]\nid = 50259', '[{ text = "x", exact = true }]'), "STOP", "true or false, of a space", True),
    "exact is a number": (swap('[{ special = "<stop>" }]\nid = 50259', '[{ space = " ", exact = 1 }]'), "STOP", "true or false, of a space", True),
    "space is a word": (swap('[{ special = "<stop>" }]\nid = 50259', '[{ space = "x" }]'), "STOP", "must be white space", True),
    "mistake about no terminal": (swap('terminal = "STOP"', 'terminal = "HALT"'), "MYP220", "no terminal 'HALT'", False),
    "mistake expects no terminal": (swap('inside = ["box"]', 'expected = "HALT"'), "MYP220", "no terminal 'HALT'", False),
    "first id is a string": (swap("first_special_id = 50257", 'first_special_id = "x"'), "[dialect]", "positive int", True),
    "padding to zero": (swap("pad_vocabulary_to = 64", "pad_vocabulary_to = 0"), "[dialect]", "positive int", True),
    "terminal is a string": (lambda s: 'terminal = "x"\n' + s[: s.index("[[terminal]]")], "[[terminal]]", "expected tables", True),
    "opens and closes": (swap('opens = "box"', 'opens = "box"\ncloses = "box"'), "BOX_OPEN", "opens and closes", True),
    "body loss of 2": (swap('opens = "box"', 'opens = "box"\nbody_loss = 2'), "BOX_OPEN", '"body_loss" must be 0 or 1', True),
    "body of nobody": (swap('opens = "box"', 'opens = "box"\nbody_origin = "user"'), "BOX_OPEN", '"body_origin" must be model or system', True),
    "piece is a number": (swap('{ special = "<stop>" }', "{ special = 5 }"), "STOP", "must be str", True),
    "piece is empty": (swap('{ special = "<stop>" }', '{ special = "" }'), "STOP", "not empty", True),
    "mistake without code": (swap('code = "MYP220"\n', ""), "[[mistake]] (no code)", '"code" must be str', True),
    "mistake inside a string": (swap('inside = ["box"]', 'inside = "box"'), "MYP220", '"inside" must be list', True),
    "mistake inside no block": (swap('inside = ["box"]', 'inside = ["bag"]'), "MYP220", "names no block or mark: ['bag']", False),
    "vocabulary beside GPT-2's": (swap("[[terminal]]", '[vocabulary]\nkind = "tekken"\n\n[[terminal]]'), "[dialect]", "is of GPT-2's vocabulary", True),
    "vocabulary of no kind": (lambda s: OTHER.replace('kind = "tekken"\n', ""), "[vocabulary]", '"kind" must be one of', True),
    "vocabulary of another kind": (lambda s: OTHER.replace("tekken", "spm"), "[vocabulary]", '"kind" must be one of', True),
    "unknown key of the vocabulary": (lambda s: OTHER.replace("[vocabulary]", "[vocabulary]\nfiles = 1"), "[vocabulary]", "unknown key files", True),
    "file is a number": (lambda s: OTHER.replace("[vocabulary]", "[vocabulary]\nfile = 1"), "[vocabulary]", '"file" must be str', True),
    "pattern of no ranks": (lambda s: OTHER.replace("[vocabulary]", '[vocabulary]\npattern = "x"'), "[vocabulary]", 'only of "ranks"', True),
    "short sha256": (lambda s: OTHER.replace("[vocabulary]", '[vocabulary]\nsha256 = "ab"'), "[vocabulary]", "64 digits", True),
    "id below 0": (lambda s: OTHER.replace("id = 50259", "id = -1"), "STOP", "not below 0", True),
    "id twice": (lambda s: OTHER.replace("id = 50259", "id = 50258"), "STOP", "id 50258 is that of </box>", False),
    "id of a piece without a vocabulary": (swap('{ special = "<stop>" }', '{ special = "<stop>", id = 50259 }'), "STOP", "needs [vocabulary]", False),
    "id of a text": (lambda s: OTHER.replace('[{ special = "<stop>" }]\nid = 50259', '[{ text = "<stop>", id = 1 }]'), "STOP", "for a special piece", True),
    "a kind of block is a number": (swap('opens = "box"', "opens = 1"), "BOX_OPEN", '"opens" must be str', True),
    "layouts without the canonical one": (swap('{ compact = "" }', '{ loose = "" }'), "[dialect]", "one that is called compact", True),
    "a table of no name": (lambda s: s + "[historie]\ndrops = []\n", "the file", "unknown key historie; known are dialect, history", True),
    "mistake after no block": (swap('inside = ["box"]', 'after = ["bag"]'), "MYP220", "names no block or mark: ['bag']", False),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_table_is_refused(name: str) -> None:
    change, entry, says, _ = BAD[name]
    with pytest.raises(SpecError) as error:
        load_table(change(TABLE), where="here/tokens.toml")
    message = str(error.value)
    assert message.startswith("here/tokens.toml: ")
    assert entry in message
    assert says in message


@pytest.mark.parametrize("name", [name for name, row in BAD.items() if row[3]])
def test_schema_refuses_it_too(name: str) -> None:
    assert not VALIDATOR.is_valid(tomllib.loads(BAD[name][0](TABLE)))


def test_not_toml() -> None:
    with pytest.raises(SpecError, match=r"here/tokens\.toml: not TOML: .*line 2"):
        load_table("[dialect]\nname = ?", where="here/tokens.toml")


# --- a grammar folder as a whole


class NoRecords(Adapter):
    """An adapter for folders that no record is read with."""

    SCHEMA = RecordSchema(top={}, roles={})

    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        raise NotImplementedError

    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        raise NotImplementedError


def folder_with(tmp_path: Path, grammar: str = GRAMMAR, table: str = TABLE) -> Path:
    return write_table(tmp_path / "tiny", grammar, table)


def test_a_folder_is_a_dialect(tmp_path: Path) -> None:
    d = load(folder_with(tmp_path), NoRecords())
    episode, findings = d.parse("<box>a</box><box>b</box><stop>")
    assert findings == []
    assert episode is not None
    assert d.encode(episode).loss.tolist() == [0] * 6 + [1]
    assert [f.code for f in d.parse("<box>a<stop>")[1]] == ["MYP220"]


def test_what_is_trained_and_who_writes_are_two_columns(tmp_path: Path) -> None:
    table = TABLE.replace('opens = "box"', 'opens = "box"\nbody_loss = 1\nbody_origin = "system"')
    d = load(folder_with(tmp_path, table=table), NoRecords())
    episode, _ = d.parse("<box>a</box><stop>")
    assert episode is not None
    assert d.encode(episode).loss.tolist() == [0, 1, 0, 1]
    own = model_writes(d.automaton, d.table)
    assert set().union(*own.values()) == {"STOP"}


def headed(*, exact: bool) -> str:
    """`<box>` spelled with a word and a line end after it.

    One tag closes a box and a bag, and `<stop>` closes a bag too.
    """
    space = '{ space = "\\n", exact = true }' if exact else '{ space = "\\n" }'
    box = row("BOX_OPEN", special("<box>", '{ text = "box" }', space), 'opens = "box"')
    bag = row("BAG_OPEN", special("<box>", '{ text = "bag" }'), 'opens = "bag"')
    close = CLOSE.replace('closes = "box"', 'closes = ["box", "bag"]')
    stop = STOP.replace("id = 50259", 'closes = "bag"\nmark = true')
    return "\n".join([head("tiny", GPT2), box + close + stop + bag + MISTAKE])


HEADED = """
start: (BOX_OPEN TEXT+ BOX_CLOSE)+ BAG_OPEN TEXT+ (BOX_CLOSE | STOP)
%declare BOX_OPEN BOX_CLOSE BAG_OPEN STOP TEXT
"""


def test_a_tag_that_closes_several_blocks_and_a_mark_that_closes_one(tmp_path: Path) -> None:
    d = load(folder_with(tmp_path, HEADED, headed(exact=True)), NoRecords())
    assert d.table.closers["box"] is d.table.closers["bag"]
    for end, roles in (("</box>", ["box", "bag"]), ("<stop>", ["box", "bag", "stop"])):
        text = "<box>box\na</box><box>bagb" + end
        episode, findings = d.parse(text)
        assert findings == []
        assert episode is not None
        assert [m.role for m in episode.messages] == roles
        assert d.serialize(episode) == text
        assert d.parse_ids(d.encode(episode).ids) == (episode, [])


@pytest.mark.parametrize(
    ("gap", "exact", "content", "codes"),
    [
        ("\n", True, "a", []),
        ("\n\n", True, "\na", []),
        (" ", True, " a", ["MYP230"]),
        ("\r\n", True, "\r\na", ["MYP230"]),
        ("\n", False, "a", []),
        ("\n\n", False, "a", ["MYP230"]),
        (" ", False, "a", ["MYP230"]),
        ("\r\n", False, "a", ["MYP230"]),
    ],
)
def test_white_space_of_a_tag(
    tmp_path: Path, gap: str, exact: bool, content: str, codes: list[str]
) -> None:
    """Exact: the white space itself or none belongs to the tag, all other is content.

    Else: any belongs to the tag.
    """
    d = load(folder_with(tmp_path, HEADED, headed(exact=exact)), NoRecords())
    episode, findings = d.parse(f"<box>box{gap}a</box><box>bagb</box>")
    assert episode is not None
    assert episode.messages[0].text == content
    assert [f.code for f in findings] == codes
    assert d.parse(d.serialize(episode)) == (episode, [])


def test_white_space_after_a_tag_that_ends_in_some_is_content(tmp_path: Path) -> None:
    """It is content too where the next tag takes white space before it, which is then missing."""
    closing = '{ special = "</box>" }]\nid = 50258'
    table = headed(exact=True).replace(closing, '{ space = "\\n" }, { special = "</box>" }]')
    d = load(folder_with(tmp_path, HEADED, table), NoRecords())
    spans = [(e.terminal, e.at.span) for e in d.lex("<box>box\n  </box><box>bagb\n</box>")]
    assert spans == [
        ("BOX_OPEN", (0, 9)), ("TEXT", (9, 11)), ("BOX_CLOSE", (11, 17)),
        ("BAG_OPEN", (17, 25)), ("TEXT", (25, 26)), ("BOX_CLOSE", (26, 33)),
    ]  # fmt: skip


def test_a_word_of_a_tag_must_end(tmp_path: Path) -> None:
    d = load(folder_with(tmp_path, HEADED, headed(exact=True)), NoRecords())
    assert [e.terminal for e in d.lex("<box>boxa</box>")] == ["$STRAY", "TEXT", "BOX_CLOSE"]
    assert "MYP240" in [f.code for f in d.parse("<box>boxa</box><box>bagb</box>")[1]]


@pytest.mark.parametrize("missing", ["tiny.lark", "tokens.toml"])
def test_a_file_is_missing(tmp_path: Path, missing: str) -> None:
    folder = folder_with(tmp_path)
    (folder / missing).unlink()
    with pytest.raises(SpecError, match=re.escape(missing)):
        load(folder, NoRecords())


def test_terminal_without_a_row(tmp_path: Path) -> None:
    grammar = GRAMMAR.replace("STOP", "HALT")
    with pytest.raises(SpecError, match=r"tiny: terminal HALT: tokens\.toml has no row for it"):
        load(folder_with(tmp_path, grammar), NoRecords())


def test_row_without_a_terminal(tmp_path: Path) -> None:
    grammar = GRAMMAR.replace("+ STOP", "+").replace("BOX_CLOSE STOP", "BOX_CLOSE")
    with pytest.raises(SpecError, match="tiny: terminal STOP: the grammar never uses it"):
        load(folder_with(tmp_path, grammar), NoRecords())


def test_grammar_that_nests_without_bound(tmp_path: Path) -> None:
    grammar = GRAMMAR.replace("start:", "start: box STOP\nbox:").replace(
        "(BOX_OPEN TEXT+ BOX_CLOSE)+ STOP", "BOX_OPEN (TEXT | box) BOX_CLOSE"
    )
    says = r"does not close after \d+ parser stacks: .*nests inside itself"
    with pytest.raises(SpecError, match=says):
        load(folder_with(tmp_path, grammar), NoRecords())
    with pytest.raises(SpecError, match="does not close after 20 parser stacks"):
        extract(grammar, limit=20)


def test_recursion_to_the_left_does_not_nest() -> None:
    """A list is recursion too, but its stack stays flat: such a grammar is fine."""
    assert len(extract("start: list STOP\nlist: TEXT | list TEXT\n%declare STOP TEXT").steps) == 3


@pytest.mark.parametrize(
    ("grammar", "says"),
    [
        (  # which of the two was it?
            "start: a STOP | b STOP\na: TEXT\nb: TEXT\n%declare STOP TEXT",
            r"not LALR\(1\): .*; two rules, or two places of one rule",
        ),
        (
            "start: a STOP | b STOP\na: TEXT\nb: TEXT\n%declare STOP TEXT",
            r"where STOP comes next, it is open which fits: `a: TEXT` and `b: TEXT`;",
        ),
        (  # Lark would take TEXT into `a` and refuse one that follows it
            "start: a TEXT STOP\na: TAG TEXT?\n%declare TAG STOP TEXT",
            r"where TEXT comes next, it is open which fits: `a: TAG TEXT` and `a: TAG`;",
        ),
        (
            "start: a+ a+\na: TAG (TEXT | x)*\nx: STOP\n%declare TAG STOP TEXT",
            r"where TAG comes next, it is open which fits: two places of `a\+` of start;",
        ),
        (
            "start: (TEXT | x)* rest\nrest: (TEXT | x)+ TAG\nx: STOP\n%declare TAG STOP TEXT",
            r"where STOP, TAG or TEXT comes next, it is open which fits: two places of `\(TEXT \| x\)\+`",
        ),
        ("start: TEXT? TEXT? STOP\n%declare TEXT", "something that it does not define: .*STOP"),
        ("start: (TEXT STOP\n%declare STOP TEXT", "is not a valid Lark grammar"),
    ],
    ids=["ambiguous", "which", "shift", "repeated", "shared", "undeclared", "syntax"],
)
def test_grammar_that_is_not_lalr(tmp_path: Path, grammar: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        load(folder_with(tmp_path, grammar), NoRecords())


def test_unknown_dialect() -> None:
    with pytest.raises(KeyError, match=r"no dialect 'other'; known are .*mypt"):
        mypt_spec.dialect("other")


def test_the_package_lists_names_that_it_loads_at_their_first_use() -> None:
    assert {*mypt_spec.__all__} <= {*dir(type(mypt_spec)("fresh"))}


def test_tables_are_parsed_without_their_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toml, "COPIES", tmp_path / "none")
    monkeypatch.setattr(toml, "_copies", toml._copies.__wrapped__)
    assert toml.loads("a = 1") == {"a": 1}
