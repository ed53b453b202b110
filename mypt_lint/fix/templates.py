"""Fixes chat templates by small edits of their expressions, each proved by all conversations.

An edit is made only if its finding goes, no other comes, and every conversation that was rendered
without the finding is as before, byte for byte, and so is its prompt.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import Any

from mypt_cli.jsonl.blocks import Source
from mypt_cli.progress import Bar
from mypt_lint.fix.files import Fixes, Piece, Write, show_pieces, write_pieces
from mypt_lint.template.formats import Format
from mypt_lint.template.lint import look
from mypt_lint.template.render import CODE, QUOTED, Outcome, Rendered, Rows, renderer
from mypt_lint.template.source import Template
from mypt_spec.templates.bounds import Bounded, OutOfBoundsError

_EMPTY, _JSON = ("({0} or '')",), ("{0} | tojson", "({0} if {0} is string else {0} | tojson)")
_EDITS = {"MYP711": _EMPTY, "MYP723": _EMPTY, "MYP725": _JSON, "MYP726": _JSON}
_FIXABLE = re.compile("None|no attribute|^value$|constant in JSON|arguments")  # their subjects
_MOST = 80  # edits that are tried for a finding
# A value that an expression reads: names, keys and `get`, without a method that is called of it.
_VALUE = re.compile(
    rf"{QUOTED}|(?<![\w.|])(?<!\| )(?<!is )(?<!for )(?!(?:if|else|for|in|not|and|or|is|set)\b)"
    r"(?P<value>[A-Za-z_]\w*\b(?:\.get\([^()]*\)|\.\w+\b(?!\s*\()|\[[^\[\]]*\])*)"
    r"(?!\s*(?:\(|=[^=]|is\b))(?:\s*\|\s*string\b)?",
    re.DOTALL,
)
_OF_MESSAGES = re.compile(r"[.\[]|content|text")  # another name may be an option, which is needed
# Conversations with a fault, by its code and subject; all, and their texts without and with prompt.
_Outcomes = tuple[dict[tuple[str, str], set[int]], list[dict[str, Any]], list[list[Outcome]]]


def fix_template(
    fixes: Fixes, codes: frozenset[str], diff: Write | None, quiet: bool,
    rows: Rows, style: Format | None, template: Template,
) -> Template:  # fmt: skip
    """Returns a template, fixed in its file, or as it is and with a `diff`; adds to `fixes`."""
    if template.path.lower().endswith((".json", ".gguf")):
        fixes.refused.append(f"{template.path}: not fixed; save its template as a file of Jinja")
        return template
    fixed, new, check = Counter[str](), template, Bounded(partial, _outcomes, rows, style)
    with suppress(OutOfBoundsError):
        outcomes: Any = check(template)
        keys = [key for key in outcomes[0] if key[0] in codes and _FIXABLE.search(key[1])]
        with Bar(len(keys), unit=f"faults of {template.path}", quiet=quiet) as bar:
            for number, key in enumerate(keys):
                edited, current = new, outcomes
                while key in current[0]:
                    edits = _edits(edited, "MYP723" if key[1] == "None" else key[0])
                    for tried, edit in enumerate(islice(edits, _MOST)):
                        bar.at(number + tried / _MOST)
                        if outcome := check(edit, current, key):
                            edited, current = edit, outcome
                            break
                    else:
                        current = ({},)
                if len(current) > 1:
                    fixed += Counter(code for code, _ in outcomes[0].keys() - current[0].keys())
                    new, outcomes = edited, current
    check.close()
    pieces = partial(iter, [Piece(0, template.text.encode(), new.text.encode(), fixed)])
    if diff:
        show_pieces(pieces, template.path, diff)
    else:
        write_pieces(pieces, Source(template.path), None)
    fixes.by_code += fixed
    fixes.files += [template.path] * bool(fixed)
    return template if diff else new


def _outcomes(
    rows: Rows, style: Format | None, template: Template, before: _Outcomes | None = None,
    key: tuple[str, str] = ("", ""),
) -> _Outcomes | None:  # fmt: skip
    """Returns what a template shows; None if it is no fix of the fault `key` of `before`."""
    render = renderer(style.named(template) if style else template)

    def texts(row: dict[str, Any]) -> list[Outcome]:
        messages, tools = row["messages"], row.get("tools")
        return [render(messages, tools, prompt=prompt) for prompt in (False, True)]

    if before:
        every = [(n in before[0][key], *x) for n, x in enumerate(zip(*before[1:], strict=True), 1)]
        if not any(own and texts(row) != old for own, row, old in every):
            return None
        if any(
            not own and old[0].__class__ is Rendered and texts(row) != old
            for own, row, old in every
        ):
            return None
    out, faults = look(template, rows, style), defaultdict[tuple[str, str], set[int]](set)
    for number, _, fault in out.faults:
        faults[fault.code, fault.subject].add(number)
    if before and not (faults.keys() <= before[0].keys() and faults[key] < before[0][key]):
        return None
    return {k: v for k, v in faults.items() if v}, out.rows, [*map(texts, out.rows)]


def _edits(template: Template, code: str) -> Iterator[Template]:
    """Yields a template with one value that it reads in another form."""
    text, places = template.text, list[re.Match[str]]()
    for part in filter(lambda part: part[0][1] != "#", CODE.finditer(text)):
        places += _VALUE.finditer(text, part.start() + 2, part.end() - 2)
    places.sort(key=lambda match: "content" not in match[0])
    for match, edit in product([m for m in places if m["value"]], _EDITS.get(code, ())):
        if edit in _JSON or _OF_MESSAGES.search(match["value"]):
            end = match.end(0 if edit in _JSON else "value")  # JSON replaces `string`, too
            new = text[: match.start()] + edit.format(match["value"]) + text[end:]
            yield replace(template, text=new)
