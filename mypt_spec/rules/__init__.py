"""Checks an Episode by all rules, and collects the checks for what the grammar cannot see.

Rules are rows in rules.toml, each with a page in pages/, whose Bad and Good blocks are run as
tests. Importing this package registers the checks. Codes are `MYP` and three digits, of which the
first is the family.
"""

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

from mypt_spec.automaton import Automaton
from mypt_spec.bodies.strict_json import faults, lone_surrogate
from mypt_spec.compiled.toml import load
from mypt_spec.episode import Episode, events_of
from mypt_spec.findings import Finding
from mypt_spec.rules.context import CHECKS, Context, Limits, ToolsOf
from mypt_spec.table import TokenTable
from mypt_spec.tokenizer.tokenizer import Tokenizer
from mypt_spec.validator import Run

__all__ = ["FAMILIES", "Context", "Limits", "check_episode"]

FAMILIES = load(Path(__file__).with_name("families.toml"))

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
_CHECKS = [function for _, function in sorted(CHECKS.items())]


def check_episode(
    episode: Episode,
    table: TokenTable,
    automaton: Automaton,
    tokenizer: Tokenizer,
    limits: Limits,
    extend: Callable[[Context, list[Finding]], list[Finding]] | None = None,
    tools: ToolsOf = lambda episode: [],
) -> list[Finding]:
    """Returns every finding about an Episode, in a fixed order. Never raises.

    `extend` adds what the adapter knows beyond the text: it takes the findings so far and returns
    the whole list. `tools` returns the definitions to which calls are held.
    """
    try:
        events = list(events_of(episode.messages, table))
    except ValueError as error:
        return [Finding("MYP105", str(error))]
    outcome = Run(table, automaton, spaces=False).check(events)
    context = Context(episode, table, automaton, tokenizer, limits, events, outcome.before, tools)
    findings = list(outcome.findings)
    for event in events if lone_surrogate("".join([e.text for e in events])) else ():
        findings += [
            Finding(f.code, f.message, event.at.pointer, event.at.span) for f in faults(event.text)
        ]
    for check in _CHECKS:
        findings += check(context)
    return extend(context, findings) if extend else findings
