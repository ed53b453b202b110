"""The explain page of a rule, as Markdown, and the reference of all of them."""

from __future__ import annotations

import inspect

from mypt_spec.findings import RULES

_SAFE = "MYP009 MYP010 MYP011 MYP013 MYP108 MYP109 MYP110 MYP130 MYP217 MYP224 MYP230 MYP232 MYP308 MYP309 MYP341 MYP802"
_UNSAFE = "MYP202 MYP203 MYP206 MYP207 MYP209 MYP210 MYP211 MYP212 MYP213 MYP214 MYP216 MYP220 MYP242 MYP256 MYP303 MYP310 MYP311"
FIXES = {
    **dict.fromkeys(_SAFE.split(), "safe"),
    **dict.fromkeys(_UNSAFE.split(), "unsafe, where one place shows what was meant"),
    "MYP601": "unsafe, with --data-set: delete the line",
    "MYP608": "unsafe, with --data-set: take the white space away",
    "MYP609": "unsafe, with --data-set: write the text in NFC",
    "MYP105": "safe for a context that stands as a message, else none",
    "MYP301": "safe for a thought, citation or end of turn in the text of an answer, unsafe for calls and results in it, else none",
}


def page(code: str) -> str:
    """Heading, severity, fix and the rule's own text."""
    rule = RULES[code]
    fix = FIXES.get(code, "none")
    return f"# {rule.name} ({code})\n\nSeverity: {rule.severity}. Fix: {fix}.\n\n{inspect.cleandoc(rule.doc)}"


def table(codes: list[str]) -> list[str]:
    """A row of a Markdown table for each rule, with a link to its page."""
    rows = ["| code | name | severity | fix | finds |", "|---|---|---|---|---|"]
    for code in codes:
        rule, fix = RULES[code], FIXES.get(code, "").split(",")[0].split(" for ")[0]
        rows.append(
            f"| [{code}](#{rule.name}-{code.lower()}) | {rule.name} | {rule.severity} | {fix} | {rule.summary} |"
        )
    return rows


def reference(families: dict[str, str]) -> str:
    """All pages behind a table for each family."""
    lines = [
        "# Rules of mypt-lint",
        "",
        "`mypt-lint explain all --format md` writes this page, `mypt-lint explain CODE` one of them.",
        "",
    ]
    for digit, family in families.items():
        codes = [code for code in sorted(RULES) if code[3] == digit]
        if codes:
            lines += [f"## {digit}: {family}", "", *table(codes), ""]
    return "\n".join(lines) + "\n" + "\n\n---\n\n".join(page(code) for code in sorted(RULES)) + "\n"
