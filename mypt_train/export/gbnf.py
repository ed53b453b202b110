"""Writes what a model may write as a grammar in GBNF, as llama.cpp and xgrammar read it.

Input: `Answers`. Output: text. The two differ in how they name an id: `<[50257]>`, `Token(50257)`.

Theory of operation. GBNF has no complement, and characters of an ordinary token can spell a tag. So
text that spells no tag is written as the automaton that searches for tags (Aho and Corasick): a
rule for each beginning of a tag that the last characters may be, and no rule for a whole tag. After
`<my` of `<myPT_user>` comes the rule of `<myP`, or of the longest beginning that is still one.
"""

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mypt_spec import Dialect
from mypt_spec.bodies.call_tags import Tags
from mypt_train.export.answers import Answers, Item, Way, quoted, rule, shortest

# Tags that llama.cpp takes for the end of an answer wherever they are in a vocabulary.
ALWAYS_ENDS = frozenset(
    {"<|call|>", "<|eom_id|>", "<|eot_id|>", "<|im_end|>", "<|return|>", "[EOS]"}
)

_OPEN_STRING = r'"\\\x00-\x1F'
_RULES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("gbnf.toml").read_text("utf-8"))


def gbnf(dialect: Dialect, answer: Answers, *, token: str = "<[{}]>") -> str:
    """Returns the grammar, with `root` as its first rule; `token` is how an id is written."""
    kinds = answer.bodies
    lines = [f"root ::= {' | '.join(rule(state) for state in answer.starts)}"]
    ids = dialect.tokenizer.special

    def written(way: Way) -> str:
        items = [_item(item, lambda tag: token.format(ids[tag])) for item in way.items]
        items += [] if way.then is None else [rule(way.then)]
        return " ".join(items) or '""'

    for state, ways in answer.rules.items():
        lines.append(f"{rule(state)} ::= {' | '.join(written(way) for way in ways)}")
    lines += _free("text", answer.forbidden)
    if tags := next((kind for kind in kinds if isinstance(kind, Tags)), None):
        before, after, end = map(quoted, tags.argument)
        lines += ["tag-name ::= [a-zA-Z0-9_.:/-]+"]
        after += f" ({' | '.join(map(quoted, tags.types))})" * bool(tags.types)
        lines += [f"tagged-argument ::= {before} tag-name {after} between-0 {end}"]
        lines += _free("between", shortest({*answer.forbidden, *tags.marks}))
        before, after, end = map(quoted, tags.function)
        arguments = f"(tagged-argument+ | {quoted(tags.none)})" if tags.none else "tagged-argument*"
        lines += [f"body-{tags} ::= {before} tag-name {after} {arguments} {end}"]
        kinds = kinds - {tags}
    if kinds:
        lines += _RULES["json"].strip().split("\n")
        listed = _RULES["listed"]
        lines += [listed[kind] for kind in sorted(kinds) if kind in listed]
        lines += [f"body-{kind} ::= {_RULES['bodies'][kind]}" for kind in sorted(kinds)]
        lines += _free("string", answer.forbidden, string=True)
    return "\n".join(lines) + "\n"


def _item(item: Item, token: Callable[[str], str]) -> str:
    kind, value = item
    if kind == "id":
        return token(value)
    if kind == "attr":
        return value.replace(r"\s", r" \t\n\r")
    return "text-some" if kind == "text" else f"body-{value}" if kind == "body" else quoted(value)


def _search(words: Sequence[str]) -> list[dict[str, int]]:
    """Returns the automaton that searches for words: of each state, characters and states after.

    A character that is not there leads to state 0, and one that ends a word to -1.
    """
    begun = sorted({w[:n] for w in words for n in range(len(w))} | {""}, key=lambda b: (len(b), b))
    number = {b: i for i, b in enumerate(begun)}
    letters = sorted({c for w in words for c in w})
    rows: list[dict[str, int]] = []
    for b in begun:
        row: dict[str, int] = {}
        for c in letters:
            text = b + c
            if text.endswith(tuple(words)):
                row[c] = -1
                continue
            longest = next(text[i:] for i in range(len(text) + 1) if text[i:] in number)
            if longest:
                row[c] = number[longest]
        rows.append(row)
    return rows


def _free(name: str, words: Sequence[str], *, string: bool = False) -> list[str]:
    """Returns the rules of text without words, NAME-some (not empty) and NAME-0, NAME-1, ...

    Of a string, they end with its quote.
    """
    out = []
    steps = _search(words)
    end = '"\\""' if string else '""'
    for state in (-1, *range(len(steps))):
        row = steps[max(state, 0)]
        row = {c: to for c, to in row.items() if not (string and c in '"\\')}
        ways = [] if state < 0 else [end]
        ways += [f"json-escape {name}-0"] if string else []
        others = "".join(_in_class(c) for c in row)
        outside = (_OPEN_STRING if string else "") + others
        ways.append(f"[^{outside}] {name}-0" if outside else f". {name}-0")
        for to in sorted({t for t in row.values() if t >= 0}):
            group = "".join(_in_class(c) for c, t in row.items() if t == to)
            ways.append(f"[{group}] {name}-{to}")
        rule = f"{name}-some" if state < 0 else f"{name}-{state}"
        out.append(f"{rule} ::= {' | '.join(ways)}")
    return out


def _in_class(letter: str) -> str:
    special = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
    return special.get(letter, f"\\x{ord(letter):02X}" if letter in r"\]^-[" else letter)
