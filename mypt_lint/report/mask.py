"""Masks keys and personal data in what is reported: messages, excerpts, and fixes."""

from dataclasses import replace
from typing import Any

from mypt_lint.check.diagnostic import Diagnostic
from mypt_records.private import masked
from mypt_spec.findings import Fix, regraded


def without_values(item: Diagnostic) -> Diagnostic:
    """Returns a finding without keys and personal data.

    A fix that would show some keeps its title alone: it can be read, and `--fix` makes it.
    """
    finding, snippet, fix = item.finding, item.snippet, item.finding.fix
    text = masked(snippet.text) if snippet else ""
    shows = fix is not None and any(masked(value) != value for value in _texts(fix))
    words = finding.message, finding.help, finding.pointer
    hidden = tuple(map(masked, words))
    if hidden == words and not shows and (snippet is None or text == snippet.text):
        return item
    if fix is not None and shows:
        fix = Fix(fix.title, fix.safe)
    message, hint, pointer = hidden
    new = replace(finding, message=message, help=hint, pointer=pointer, fix=fix)
    new = regraded(new, finding.severity)
    edit = None if shows else item.edit
    return item._replace(finding=new, edit=edit, snippet=snippet and snippet._replace(text=text))


def _texts(fix: Fix) -> list[str]:
    values: list[Any] = [operation.get("value") for operation in fix.patch]
    return [str(value) for value in [*values, *(text for *_, text in fix.edits)]]
