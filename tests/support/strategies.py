"""Hypothesis strategies, by dialect: legal records, Episodes and texts, seeded faults, and things
that are almost JSON.

A dialect joins in with one entry in `RECORDS`: a function `(clean) -> strategy` of its legal
records. `clean` records have no finding at all; the others may have warnings (blank blocks, tags in
JSON strings).
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Episode, Message, Part
from mypt_spec.damage.near_miss import near_miss
from mypt_spec.table import TokenTable
from tests.support import dialects

Record = dict[str, Any]
# Arguments that a "call" writes under another key, beside the name of the tool.
NAMED_ARGUMENTS = ["name", "name_", "name__"]
CHARACTERS = st.characters(exclude_categories=["Cs"])
TRICKY = [
    "\u2028",
    "\x85",
    "\x00",
    "\ufeff",
    "\ufffd",
    "e\u0301",
    "\U0001f469\u200d\U0001f4bb",
    "\U0010ffff",
    "\\",
    '"',
    "\\u003c",
    "<",
    ">",
    "</",
    " ",
    "\n",
    "\r\n",
    "\t",
    "{",
    "}",
    "a",
]


@cache
def fragments(name: str) -> list[str]:
    """Pieces that could grow into tags: whole tags, their beginnings and ends, and near misses."""
    table = mypt_spec.dialect(name).table
    tags = [t.shown for t in table.terminals.values()]
    cut = [
        part
        for tag in tags
        for part in (tag[: len(tag) // 2], tag[len(tag) // 2 :], tag[:-1], tag[1:])
    ]
    return [*tags, *cut, *(tag.upper() for tag in tags), *(tag.replace("_", " ") for tag in tags)]


@cache
def any_text(name: str, min_size: int = 0) -> st.SearchStrategy[str]:
    """Content of any kind: all planes, white space, tags, near tags and their fragments."""
    pieces = st.one_of(
        st.sampled_from([*fragments(name), *TRICKY]), st.text(CHARACTERS, max_size=3)
    )
    return st.text(CHARACTERS, min_size=min_size, max_size=20) | st.lists(
        pieces, min_size=min_size, max_size=6
    ).map("".join)


@cache
def clean_text(name: str, *, blank: bool = False) -> st.SearchStrategy[str]:
    """Content that no rule has anything to say about; with `blank`, it may be white space."""
    table = mypt_spec.dialect(name).table

    def fine(text: str) -> bool:
        return (
            bool(text if blank else text.strip())
            and not table.literals.search(text)
            and near_miss(text, table) is None
        )

    tame = st.sampled_from(
        [
            "Hello.",
            "Sag Hallo.",
            "Grüße, 世界 \U0001f600",
            "a < b",
            "x\n\n- y",
            "<b>bold</b>",
            " lead",
            "trail ",
        ]
    )
    return st.one_of(tame, any_text(name, 1).filter(fine))


@cache
def json_values(strings: st.SearchStrategy[str], *, leaves: int = 8) -> st.SearchStrategy[Any]:
    numbers = (
        st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.sampled_from([10**30, -0.0, 1e16, 5e-324])
    )
    scalars = st.none() | st.booleans() | numbers | strings
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
        max_leaves=leaves,
    )


_CLEAN_STRINGS = clean_text("mypt") | st.just("")


def with_notes(
    draw: st.DrawFn, messages: list[Record], values: Any, *, tools: list[Record] | None = None
) -> Record:
    """A record of messages, here and there with tools, metadata and a language."""
    for message in messages:
        if draw(st.integers(0, 9)) == 0:
            message["_note"] = draw(values)
    record: Record = {"messages": messages}
    if tools is not None and draw(st.booleans()):
        record["tools"] = tools
    if draw(st.integers(0, 3)) == 0:
        record["_meta"] = draw(values)
    if draw(st.integers(0, 3)) == 0:
        record["language"] = "de"
    return record


def with_options(draw: st.DrawFn, record: Record, **options: st.SearchStrategy[Any]) -> Record:
    """A record, here and there with options of its format's template."""
    if draw(st.integers(0, 4)) == 0:
        record["chat_template_kwargs"] = draw(st.fixed_dictionaries({}, optional=options))
    return record


@st.composite
def mypt_records(draw: st.DrawFn, clean: bool = True, phase: int = 5) -> Record:
    text = clean_text("mypt", blank=not clean)
    strings = _CLEAN_STRINGS if clean else any_text("mypt")
    values = json_values(strings)
    tools = (
        draw(
            st.lists(
                st.sampled_from(["search", "workspace.get_doc", "a-b", "_x"]),
                max_size=2,
                unique=True,
            )
        )
        if phase >= 4
        else []
    )
    system = draw(text) + "".join(f"\n- {tool}(query, top_k=5) - a tool" for tool in tools)
    if phase >= 4 and draw(st.booleans()):
        system = (
            draw(st.sampled_from([f"{system}\nFormat: {{}}", f"{{}}{system}", "{}"]))
            .replace("{}", "\0", 1)
            .replace("{}", "")
        )
        quoted = draw(text.filter(lambda t: "\0" not in t))
        system = system.replace("\0", f"<myPT_toolcall>{quoted}</myPT_toolcall>", 1)
        tools = (
            sorted(mypt_spec.dialect("mypt").table.tool_names.findall(system)) if tools else tools
        )  # type: ignore[union-attr]
    names = (
        st.sampled_from(tools)
        if tools
        else clean_text("mypt")
        if clean
        else any_text("mypt", 1).filter(bool)
    )
    messages: list[Record] = []
    for _ in range(draw(st.integers(1, 3 if phase >= 3 else 1))):
        messages += draw(_mypt_turn(text, values, strings, names, phase))
    for message in messages:
        if draw(st.integers(0, 9)) == 0:
            message["_note"] = draw(values)
    record: Record = {"system": system, "messages": messages}
    if draw(st.booleans()):
        record["language"] = draw(
            st.sampled_from(["en", "de", "pt-BR", "zh-Hant-TW", "sl-rozaj-biske", "x-private"])
        )
    if draw(st.integers(0, 3)) == 0:
        record["_meta"] = draw(values)
    return record


@st.composite
def _mypt_turn(
    draw: st.DrawFn, text: Any, values: Any, strings: Any, names: Any, phase: int
) -> list[Record]:
    def maybe(message: Record, key: str) -> Record:
        return message | {key: draw(text)} if phase >= 5 and draw(st.booleans()) else message

    out = [maybe({"role": "user", "content": draw(text)}, "context")]
    if phase >= 5 and draw(st.integers(0, 3)) == 0:
        out.append({"role": "assistant_context", "content": draw(text)})
    for _ in range(draw(st.integers(0, 2)) if phase >= 4 else 0):
        arguments = draw(
            st.dictionaries(strings | st.sampled_from(NAMED_ARGUMENTS), values, max_size=3)
        )
        name = draw(names)
        out.append(
            maybe({"role": "assistant_toolcall", "name": name, "arguments": arguments}, "think")
        )
        out.append({"role": "toolresult", "name": name, "content": draw(values)})
    content = draw(text)
    if phase >= 5:
        before = draw(st.lists(text, max_size=2))
        after = draw(st.lists(st.tuples(text, st.sampled_from(["", " "]) | text), max_size=2))
        content = "".join(f"<myPT_cite>{t}</myPT_cite>" for t in before) + content
        content += "".join(f"<myPT_cite>{t}</myPT_cite>{rest}" for t, rest in after)
    out.append(maybe(maybe({"role": "assistant", "content": content}, "think"), "cite"))
    return out


def _of(folder: str) -> Callable[..., st.SearchStrategy[Record]]:
    """The strategy of `tests/dialects/<folder>.py`, which is imported late: it is built from the
    ones here.
    """
    return lambda clean=True: importlib.import_module(f"tests.dialects.{folder}").records(clean)


RECORDS: dict[str, Callable[..., st.SearchStrategy[Record]]] = {
    "mypt": mypt_records,
    **{
        path.stem.replace("_", "-"): _of(path.stem)
        for path in sorted((Path(__file__).parents[1] / "dialects").glob("[a-z]*.py"))
    },
}
DIALECTS = [name for name in dialects.DIALECTS if name in RECORDS]


@cache
def records(name: str, *, clean: bool = True) -> st.SearchStrategy[Record]:
    """Legal records: no error.

    Those on which a piece of content happens to join into a tag are left out.
    """
    dialect = mypt_spec.dialect(name)

    def fine(record: Record) -> bool:
        episode, findings = dialect.read(record)
        if episode is None:
            return False
        findings = findings + dialect.validate(episode)
        return not (findings if clean else [f for f in findings if f.severity == "error"])

    return RECORDS[name](clean).filter(fine)


def episodes(name: str, *, clean: bool = True) -> st.SearchStrategy[Episode]:
    return records(name, clean=clean).map(lambda record: mypt_spec.dialect(name).read(record)[0])


@st.composite
def any_episodes(draw: st.DrawFn, name: str) -> Episode:
    """Blocks and marks of the dialect in any order and nesting that the model can hold; mostly
    illegal.
    """
    table = mypt_spec.dialect(name).table
    kinds = sorted(table.openers)
    attrs = {kind: tuple((key, "n") for key in table.openers[kind].patterns) for kind in kinds} | {
        "text": ()
    }

    def body_of(role: str, kind: str) -> st.SearchStrategy[str]:
        return st.sampled_from([body(table, role if kind == "text" else kind), ""])

    def part(role: str) -> st.SearchStrategy[Part]:
        return st.sampled_from(["text", *kinds]).flatmap(
            lambda kind: st.builds(Part, st.just(kind), body_of(role, kind), st.just(attrs[kind]))
        )

    def block(role: str) -> st.SearchStrategy[Message]:
        return st.builds(
            Message,
            st.just(role),
            st.lists(part(role), max_size=4).map(tuple),
            st.just(attrs[role]),
        )

    blocks = st.sampled_from(kinds).flatmap(block)
    marks = st.sampled_from([Message(m) for m in table.marks]) if table.marks else st.nothing()
    return Episode(table.name, tuple(draw(st.lists(blocks | marks, max_size=8))))


BODIES = {
    "arguments": "{}",
    "function": '{"name": "n", "arguments": {}}',
    "parameters": '{"name": "n", "parameters": {}}',
    "calls": '[{"id": "c", "type": "function", "function": {"name": "n", "arguments": {}}}]',
    "functions": '[{"name": "n", "arguments": {}, "id": "c"}]',
    "tool_list": '[{"name": "n"}]',
    "signatures": "type n = () => any;\n\n} // namespace functions",
    "namespace": "namespace functions {\n\ntype n = () => any;\n\n} // namespace functions",
}


def body(table: TokenTable, kind: str) -> str:
    """Content that is legal in a block of this kind."""
    return BODIES.get(table.openers[kind].body if kind else "text", '{"name": "n"}')


def layouts(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(mypt_spec.dialect(name).table.layouts))


ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["role", "user", "system", "<myPT_user>", math.nan, "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=3)
            | st.sampled_from(["role", "content", "name", "arguments", "_x", "\udfff"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@st.composite
def almost_records(draw: st.DrawFn, name: str) -> Any:
    """A record with a few values replaced, keys renamed, dropped or doubled, or messages shuffled."""
    record = json.loads(json.dumps(draw(RECORDS[name](False))))
    for _ in range(draw(st.integers(1, 3))):
        owner: Any = record
        for _ in range(draw(st.integers(0, 3))):
            inner = [
                v
                for v in (owner.values() if isinstance(owner, dict) else owner)
                if isinstance(v, (dict, list)) and v
            ]
            owner = draw(st.sampled_from(inner)) if inner else owner
        if not owner:
            continue
        key = draw(
            st.sampled_from(list(owner) if isinstance(owner, dict) else list(range(len(owner))))
        )
        change = draw(st.sampled_from(["replace", "drop", "rename", "add", "shuffle"]))
        if change == "replace":
            owner[key] = draw(ANY_JSON)
        elif change == "drop":
            del owner[key]
        elif isinstance(owner, dict):
            other = draw(
                st.sampled_from(
                    [
                        "role",
                        "content",
                        "think",
                        "cite",
                        "context",
                        "name",
                        "arguments",
                        "system",
                        "messages",
                        "_m",
                        "",
                    ]
                )
                | st.text(max_size=3)
            )
            owner[other] = owner.pop(key) if change == "rename" else draw(ANY_JSON)
        else:
            owner.insert(
                draw(st.integers(0, len(owner))),
                owner.pop(key) if change == "shuffle" else owner[key],
            )
    return record


@st.composite
def lines_of(draw: st.DrawFn, record: Any) -> bytes:
    """A record as one line of JSON, in any spelling of it: separators, escapes."""
    separators = draw(st.sampled_from([(", ", ": "), (",", ":"), (" ,", " :\t")]))
    return json.dumps(record, ensure_ascii=draw(st.booleans()), separators=separators).encode(
        "utf-8", "surrogatepass"
    )


_BYTES = [b'"', b"\\", b"\\u0022", b"\\u003c", b"\\ud800", b"\\n", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\x00", b"\t", b" ", b",", b"{", b"}", b"[", b"]", b":", b"NaN", b"-Infinity", b"1e999", b"0", b"null", b"<myPT_user>", b'"role":"user",', b'"_m":"x",', b'"content":"y",', b"<myPT_", b"\xe2\x80\xa8"]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, lines: st.SearchStrategy[bytes]) -> bytes:
    """A line with a few of its bytes removed, repeated, or put in."""
    line = draw(lines)
    for _ in range(draw(st.integers(1, 3))):
        a = draw(st.integers(0, len(line)))
        b = min(len(line), a + draw(st.integers(0, 12)))
        put = draw(
            st.sampled_from(_BYTES) | st.just(b"") | st.just(line[a:b] * 2) | st.binary(max_size=3)
        )
        line = line[:a] + put + line[b:]
    return line.replace(b"\n", b" ")


Fault = tuple[str, str, str]  # what was done, the expected code, the expected pointer


def _mypt_faults(record: Record) -> list[tuple[Fault, Callable[[], object]]]:
    """Everything that can be broken in this record: the fault, and a function that does it."""
    messages = record["messages"]
    out: list[tuple[Fault, Callable[[], object]]] = [
        (("no system", "MYP208", "/messages/0/role"), lambda: record.pop("system")),
        (("empty system", "MYP214", "/system"), lambda: record.update(system="")),
        (("blank system", "MYP314", "/system"), lambda: record.update(system=" \n")),
        (("system is a number", "MYP104", "/system"), lambda: record.update(system=1)),
        (("unknown top key", "MYP103", "/sytem"), lambda: record.update(sytem="s")),
        (("language", "MYP111", "/language"), lambda: record.update(language="english!")),
        (
            ("system twice", "MYP108", "/messages/0/role"),
            lambda: messages.insert(0, {"role": "system", "content": "s"}),
        ),
        (("a message is a string", "MYP104", "/messages/0"), lambda: messages.insert(0, "hello")),
        (("nan in metadata", "MYP005", "/_x/0"), lambda: record.update(_x=[math.nan])),
        (("surrogate in metadata", "MYP006", "/_x"), lambda: record.update(_x="a\udc80")),
        (
            ("deep metadata", "MYP008", "/_x" + "/0" * 200),
            lambda: record.update(_x=json.loads("[" * 201 + "]" * 201)),
        ),
    ]
    for at, message in enumerate(messages):
        out += _mypt_message_faults(messages, at, message)
    return out


def _mypt_message_faults(
    messages: list[Record], at: int, m: Record
) -> list[tuple[Fault, Callable[[], object]]]:
    here, role = f"/messages/{at}", m["role"]
    out: list[tuple[Fault, Callable[[], object]]] = [
        (("no role", "MYP102", here), lambda: m.pop("role")),
        (("unknown role", "MYP105", f"{here}/role"), lambda: m.update(role="usr")),
        (("role is null", "MYP104", f"{here}/role"), lambda: m.update(role=None)),
        (("unknown key", "MYP103", f"{here}/contents"), lambda: m.update(contents="x")),
    ]
    for key in ("content", "context", "think", "cite"):
        if isinstance(m.get(key), str) and role != "toolresult":
            place = f"{here}/{key}"
            # The cite brings one space with it.
            empty = "MYP314" if key == "content" and "cite" in m else "MYP214"
            out += [
                ((f"empty {key}", empty, place), lambda key=key: m.update({key: ""})),
                ((f"blank {key}", "MYP314", place), lambda key=key: m.update({key: " \t"})),
                (
                    (f"tag in {key}", "MYP301", place),
                    lambda key=key: m.update({key: m[key] + "</myPT_toolresult>"}),
                ),
                (
                    (f"near miss in {key}", "MYP303", place),
                    lambda key=key: m.update({key: m[key] + " <MyPT_usr>"}),
                ),
                (
                    (f"surrogate in {key}", "MYP006", place),
                    lambda key=key: m.update({key: m[key] + "\ud83d"}),
                ),
                ((f"{key} is a list", "MYP104", place), lambda key=key: m.update({key: ["x"]})),
            ]
    if role == "assistant_toolcall":
        wrong = {"role": "toolresult", "name": m["name"], "content": 1}
        out += [
            (
                ("arguments as a string", "MYP110", f"{here}/arguments"),
                lambda: m.update(arguments=json.dumps(m["arguments"])),
            ),
            (
                ("arguments as a list", "MYP104", f"{here}/arguments"),
                lambda: m.update(arguments=[]),
            ),
            (
                ("infinite argument", "MYP005", f"{here}/arguments/zz"),
                lambda: m["arguments"].update(zz=math.inf),
            ),
            (
                ("tag in an argument", "MYP302", f"{here}/arguments/z~1~0z"),
                lambda: m["arguments"].update({"z/~z": "<myPT_eot>"}),
            ),
            (
                ("result before its call", "MYP310", f"{here}/role"),
                lambda: messages.insert(at, wrong),
            ),
            (("no name", "MYP102", here), lambda: m.pop("name")),
        ]
    if role == "toolresult":
        out += [
            (("another name", "MYP312", f"{here}/name"), lambda: m.update(name=m["name"] + "x")),
            (("alias", "MYP109", f"{here}/role"), lambda: m.update(role="tool_result")),
            (("result removed", "MYP311", f"{here}/role"), lambda: messages.pop(at)),
            (
                ("tag in the result", "MYP302", f"{here}/content/0"),
                lambda: m.update(content=["</myPT_system>"]),
            ),
            (
                ("two results", "MYP310", f"/messages/{at + 1}/role"),
                lambda: messages.insert(at, dict(m)),
            ),
        ]
    if role == "assistant" and at + 1 < len(messages):
        out.append((("answer removed", "MYP218", f"{here}/role"), lambda: messages.pop(at)))
        out.append(
            (
                ("two answers", "MYP219", f"/messages/{at + 1}/role"),
                lambda: messages.insert(at, dict(m)),
            )
        )
    if role == "user":
        following = messages[at + 1]["role"]
        if following == "assistant":
            out.append((("user removed", "MYP219", f"{here}/role"), lambda: messages.pop(at)))
        out.append(
            (
                ("two users", "MYP218", f"/messages/{at + 1}/role"),
                lambda: messages.insert(at, dict(m)),
            )
        )
    return out


FAULTS: dict[str, Callable[[Record], list[tuple[Fault, Callable[[], object]]]]] = {
    "mypt": _mypt_faults
}


@st.composite
def broken_records(draw: st.DrawFn, name: str) -> tuple[Record, Fault]:
    """A clean record with exactly one fault, and the finding that it must have."""
    record = json.loads(json.dumps(draw(records(name))))
    faults = FAULTS[name](record)
    kind = draw(st.sampled_from(sorted({fault[0] for fault, _ in faults})))
    fault, do = draw(st.sampled_from([item for item in faults if item[0][0] == kind]))
    do()
    return record, fault
