"""The explain page of a rule, as Markdown."""

from __future__ import annotations

import inspect

from mypt_spec.findings import RULES


def page(code: str) -> str:
    """Heading, severity and the rule's own text."""
    rule = RULES[code]
    return f"# {rule.name} ({code})\n\nSeverity: {rule.severity}\n\n{inspect.cleandoc(rule.doc)}"
