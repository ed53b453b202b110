"""Writes the page of a rule as Markdown, and the reference of all rules."""

from mypt_spec.findings import RULES


def page(code: str) -> str:
    """Returns heading, severity, fix and page of a rule."""
    rule = RULES[code]
    more = f" Group: {rule.group}." * bool(rule.group) + " Off by default." * rule.off
    head = f"# {rule.name} ({code})\n\nSeverity: {rule.severity}. Fix: {rule.fix}.{more}"
    return f"{head}\n\n{rule.doc}"


def table(codes: list[str]) -> list[str]:
    """Returns a Markdown table with a row for each rule, which links to its page."""
    rows = ["| code | name | severity | fix | finds |", "|---|---|---|---|---|"]
    for code in codes:
        rule = RULES[code]
        fix = "" if rule.fix == "none" else rule.fix.split(",")[0].split(" for ")[0]
        rows.append(
            f"| [{code}](#{rule.name}-{code.lower()}) | {rule.name} | {rule.severity} | {fix} | "
            f"{rule.summary + ' Off by default.' * rule.off} |"
        )
    return rows


def reference(families: dict[str, str]) -> str:
    """Returns a table for each family, and then all pages."""
    lines = [
        "# Rules of mypt-lint",
        "",
        "`mypt-lint explain all --format md` writes this page, `mypt-lint explain CODE` one rule.",
        "",
    ]
    for digit, family in families.items():
        codes = [code for code in sorted(RULES) if code[3] == digit]
        if codes:
            lines += [f"## {digit}: {family}", "", *table(codes), ""]
    return "\n".join(lines) + "\n" + "\n\n---\n\n".join(page(code) for code in sorted(RULES)) + "\n"
