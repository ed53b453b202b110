"""llguidance as an independent judge of allow sets: the same language, said to another engine in
regular expressions.

Written from the automaton, the token table and the words of the specification; nothing of
`mypt_infer` is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import mypt_spec
from mypt_spec import Dialect
from mypt_spec.damage.cut_tags import inner_tags
from mypt_spec.states import open_blocks
from mypt_spec.table import CALLS, LISTS, TEXT, Terminal
from mypt_spec.tokenizer.tokenizer import gpt2
from tests.support.decoding import TOOLS

# Of tags with attributes, what is almost their first word: it must go on as the tag.
ALMOST = {"mypt-3b": ["<toolcal", "<toolresu"]}
STRING = r'"([^"\\\x00-\x1f\x7f]|\\["\\nrtfb]|\\u00(0[0-7bef]|1[0-9a-f]))*"'
SPACES = (
    r"\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
)
INTEGER = r"(0|-?[1-9][0-9]{0,39})"
_FRACTION = "|".join(rf"[1-9][0-9]{{{n - 1}}}\.[0-9]{{1,{15 - n}}}" for n in range(1, 15))


def number() -> str:
    """Whole numbers, and fractions of at most 15 digits in all, the zero in front of the point
    included; exponents of one or two digits."""
    small = "|".join([r"0\.0{1,3}", *(rf"0\.0{{{z}}}[1-9][0-9]{{0,{13 - z}}}" for z in range(4))])
    exponent = r"[1-9](\.[0-9]{1,14})?e[+-]?[0-9]{1,2}"
    return rf"({INTEGER}|-?({small}|{_FRACTION}|{exponent}))"


def value(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "(" + "|".join(re.escape(json.dumps(v)) for v in schema["enum"]) + ")"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    simple = {
        "string": STRING,
        "integer": INTEGER,
        "number": number(),
        "boolean": "(true|false)",
        "null": "null",
    }
    out = []
    for kind in kinds:
        if kind == "array":
            item = value(schema["items"])
            out.append(rf"\[({item}(, {item})*)?\]")
        elif kind == "object":
            out.append(rf"\{{{members(schema)}\}}")
        else:
            out.append(simple[kind])
    return "(" + "|".join(out) + ")"


def members(schema: dict[str, Any], comma: bool = False) -> str:
    """All choices of optional members, spelled out: slow, and plainly right."""
    items = list(schema.get("properties", {}).items())
    required = schema.get("required", [])
    choices: list[str] = []
    for chosen in range(1 << len(items)):
        picked = [(k, s) for i, (k, s) in enumerate(items) if chosen >> i & 1]
        if set(required) <= {k for k, _ in picked}:
            text = ", ".join(f'"{k}": {value(s)}' for k, s in picked)
            choices.append(", " + text if comma and picked else text)
    return "(" + "|".join(choices) + ")"


def body(kind: str, name: str, schema: dict[str, Any]) -> str:
    """The regular expression of a call's body; in a list, of one call from after its id on."""
    if kind == "call":
        # Beside the name of the tool, an argument called `name` has another key.
        keys = {k + "_" * (k.rstrip("_") == "name"): s for k, s in schema["properties"].items()}
        rest = members(schema | {"properties": keys}, comma=True)
        return rf'\{{"name": "{name}"{rest}\}}'
    arguments = rf"\{{{members(schema)}\}}"
    if kind == "arguments":
        return arguments
    function = rf'\{{"name": "{name}", "arguments": {arguments}\}}'
    if kind == "parameters":
        return function.replace('"arguments"', '"parameters"')
    return function if kind == "function" else rf'"type": "function", "function": {function}\}}'


def calls(kind: str, functions: list[dict[str, Any]]) -> str:
    """The regular expression of a list: one call without an id, or some with ids.

    That ids are distinct and not empty it does not say.
    """
    if kind == "functions":
        function = "|".join(body("function", f["name"], f["parameters"])[:-2] for f in functions)
        named = rf'({function}), "id": "[a-zA-Z0-9_-]+"\}}'
        return rf"\[{named}(, {named})*\]"
    one = "(" + "|".join(body(kind, f["name"], f["parameters"]) for f in functions) + ")"
    named = rf'\{{"id": {STRING}, {one}'
    return rf"\[(\{{{one}|{named}(, {named})*)\]"


class Judge:
    """One grammar, for all states of a dialect that the model may speak in."""

    def __init__(self, name: str) -> None:
        self.dialect: Dialect = mypt_spec.dialect(name)
        self.table, self.machine = self.dialect.table, self.dialect.automaton
        self.stacks = open_blocks(self.machine, self.table)
        self.terminals: dict[str, str] = {}
        texts = {t: _text_of(t) for t in self.table.plain_tags}
        tags = [*self.table.special, *(text for t, text in texts.items() if not t.patterns)]
        cut = [text.split('"')[0] for t, text in texts.items() if t.patterns]
        self.no_tag = _without([*tags, *(f'{text}"' for text in cut)])
        self.no_cut = _without([*tags, *cut])
        self.terminals["TEXT"] = f"/(?s:.+)/ & {self.no_tag}{self.no_piece(name)}"

    def no_piece(self, name: str) -> str:
        """Says that a text holds no cut tag (MYP801), and no beginning of a tag with attributes.

        A piece that goes on as a word of other letters than ASCII is refused, too.
        """
        inner = [t for t in inner_tags(self.table, self.machine) if t[0] + t[-1] == "<>"]
        if not inner:
            return ""
        closing = [t for t in inner if t.startswith("</")]
        last = sorted({t[:n] for t in inner for n in range(3, len(t))})
        ways = [
            rf"(?s:.*)({_any([t[:-1] for t in inner])})[^A-Za-z0-9_>-](?s:.*)",
            f"(?s:.*)({_any([*(t[1:] for t in closing), *ALMOST.get(name, ())])})(?s:.*)",
            *[f"({_any([t[2:] for t in closing])})(?s:.*)"] * bool(closing),
            f"(?s:.*)({_any(last)})[{SPACES}]*",
        ]
        return f" & ~/{'|'.join(ways)}/"

    def grammar(self, first: int) -> str:
        rules, queue = [], [first]
        for state in queue:
            ways = []
            for before in (False, True):
                at = state if not before else self.machine.steps[state].get(TEXT)
                if at is None or (
                    before and not (self.stacks[state] and self.own(self.stacks[state]))
                ):
                    continue
                for name in self.machine.steps[at]:
                    if (
                        name != TEXT
                        and self.table.terminals[name].origin == "model"
                        and self.own(self.closed(at))
                    ):
                        for way, then in self.ways(at, self.table.terminals[name], before):
                            ways.append(f"{way} s{then}")
                            if then not in queue:
                                queue.append(then)
            rules.append(f"s{state}: " + " | ".join(ways or ['""']))
            if ways and state != first and self.waits(state):
                rules[-1] += ' | ""'
        lexemes = [f"{n}: {r}" for n, r in self.terminals.items()]
        return "\n".join(['%llguidance {"no_forcing": true}', f"start: s{first}", *rules, *lexemes])

    def waits(self, state: int) -> bool:
        """Whether the system has something to put in that begins no turn and no answer."""
        openers = [self.table.terminals[n] for n in self.machine.steps[state] if n != TEXT]
        return any(
            t.origin == "system"
            and t.opens
            and not t.body_loss
            and t.opens != self.table.turn_opener
            for t in openers
        )

    def own(self, stack: tuple[str, ...]) -> bool:
        return all(self.table.openers[k].body_loss for k in stack)

    def closed(self, state: int) -> tuple[str, ...]:
        """The open blocks that have a closing tag."""
        return tuple(k for k in self.stacks[state] if k in self.table.closers)

    def ways(self, state: int, terminal: Terminal, text: bool) -> list[tuple[str, int]]:
        """The spellings of a tag, with a text before it or without, and the state after it."""
        then = self.machine.steps[state][terminal.name]
        if terminal.opens and terminal.body in (*CALLS, *LISTS):
            after = self.machine.steps[then][TEXT]
            out, more = [], []
            tools: list[dict[str, Any]] = [t.get("function", t) for t in TOOLS]
            for tool in tools[:1] if terminal.body in LISTS else tools:
                lexeme = f"BODY_{tool['name'].upper()}"
                pattern = (
                    calls(terminal.body, tools)
                    if terminal.body in LISTS
                    else body(terminal.body, tool["name"], tool["parameters"])
                )
                self.terminals[lexeme] = f"/{pattern}/ & {self.no_cut}"
                opened = self.written(terminal, text, {"name": tool["name"]})
                out += [f"{opened} {lexeme}"] if opened else []
                again = self.written(terminal, False, {"name": tool["name"]})
                more += [f"{again} {lexeme}"] if terminal.again else []
            closer = self.table.closers[terminal.opens]
            end = self.machine.steps[after][closer.name]
            rest = f"({' | '.join(more)})* " if more else ""
            return [(f"{one} {rest}{self.written(closer, False)}", end) for one in out]
        written = self.written(terminal, text)
        return [(written, then)] if written else []

    def written(self, terminal: Terminal, text: bool, attrs: dict[str, str] | None = None) -> str:
        """A tag in the grammar's words.

        Plain text in front of an id, or of a tag of plain text, is one lexeme with it.
        """
        out: list[str] = []
        plain = ""
        pieces = list(terminal.stem)
        if text and pieces[0].kind == "space" and terminal in self.table.plain_tags:
            return ""  # white space that follows a text would be read as its end
        for piece in pieces:
            if piece.kind == "special":
                if text and not out:
                    out.append(self.lexeme(plain) if plain else "TEXT")
                elif plain:
                    out.append(json.dumps(plain))
                out.append(f"<[{self.table.special[piece.value]}]>")
                plain = ""
            else:
                plain += (attrs or {}).get(piece.value, piece.value)
        if plain and text and not out:
            core = next(p.value for p in pieces if p.kind == "text")
            out.append(self.lexeme(core))
            plain = plain[len(core) :]
        if plain:
            out.append(json.dumps(plain))
        return " ".join(out)

    def lexeme(self, behind: str) -> str:
        name = "TEXT_" + "".join(f"{b:02X}" for b in behind.encode())
        self.terminals[name] = f"TEXT {json.dumps(behind)}"
        return name


def _any(words: Iterable[str]) -> str:
    return "|".join(re.escape(w) for w in sorted(words)).replace("/", "\\/").replace("\\ ", " ")


def _without(words: Iterable[str]) -> str:
    return f"~/(?s:.*)({_any(words)})(?s:.*)/"


def _text_of(terminal: Terminal) -> str:
    return "".join(piece.value for piece in terminal.spelling if piece.kind != "space")


@cache
def tokenizer(name: str) -> Any:
    import llguidance
    import tiktoken
    from llguidance.tiktoken import lltokenizer_from_encoding

    d = mypt_spec.dialect(name)
    base = gpt2()
    special = {"<|endoftext|>": 50256, **d.tokenizer.special}
    special |= {
        f"<|padding {i}|>": i
        for i in range(50256, d.tokenizer.vocab_size)
        if i not in special.values()
    }
    encoding = tiktoken.Encoding(
        name, pat_str=base._pat_str, mergeable_ranks=base._mergeable_ranks, special_tokens=special
    )
    assert llguidance
    return lltokenizer_from_encoding(
        encoding, n_vocab=d.tokenizer.vocab_size, eos_token=50256, slices=[]
    )


def matcher(name: str, first: int) -> Any:
    import llguidance

    # `re.escape` writes a line end as itself, after a backslash.
    written = Judge(name).grammar(first).replace("\\\n", "\\n")
    grammar = llguidance.grammar_from("lark", written)
    judge = llguidance.LLMatcher(tokenizer(name), grammar, log_level=0)
    assert not judge.is_error(), judge.get_error()
    return judge


def allowed(judge: Any, size: int) -> npt.NDArray[np.bool_]:
    """The allow set of a matcher, without its own end token."""
    import llguidance.numpy as packed

    mask = packed.allocate_token_bitmask(1, size)
    packed.fill_next_token_bitmask(judge, mask)
    out = np.unpackbits(mask.view(np.uint8), bitorder="little")[:size].astype(bool)
    out[50256] = False
    return out
