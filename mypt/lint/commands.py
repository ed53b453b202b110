"""Runs the subcommands of `mypt-lint`: explain, rules, init, new-dialect, and others."""

import argparse
import json
import os
import re
import sys
from pathlib import Path

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.errors import UsageError
from mypt_spec.compiled.toml import load

PROG = "mypt-lint "
_PAGE_WIDTH = 100  # cells of a terminal that a page takes at most
STARTER = Path(__file__).parent / "starter.toml"
_TABLES = Path(__file__).with_suffix(".toml")
ABOUT = {name: table["about"] for name, table in load(_TABLES).items()}
QUIET = "print findings and nothing else"


def subcommand(name: str) -> Command:
    if name == "completion":
        from mypt.complete import command

        return command(PROG + name)
    if name == "server":
        table = options(str(_TABLES.with_name("cli")))
        return Command(PROG + name, "", table, _serve, about=ABOUT[name], quiet=QUIET)
    body = {
        "explain": _explain, "rules": _rules, "init": _init, "new-dialect": _new_dialect,
        "derive": _derive, "check-dialect": _check_dialect,
    }[name]  # fmt: skip
    return Command(PROG + name, "", options(__file__, name), body, quiet="")


def _explain(chosen: argparse.Namespace) -> int:
    from mypt_lint.settings.selection import UnknownRuleError, named
    from mypt_spec.rules import FAMILIES
    from mypt_spec.rules.reference import page, reference

    if chosen.rule == "all" and chosen.format == "md":
        sys.stdout.write(reference(FAMILIES))
        return 0
    try:
        text = "\n\n".join(page(code) for code in named(chosen.rule))
    except UnknownRuleError as error:
        raise UsageError(str(error)) from None
    if chosen.format == "text" and sys.stdout.isatty():
        _lay_out(text)
    else:
        print(text)
    return 0


def _lay_out(text: str) -> None:
    """Prints Markdown on a terminal. Only pages of rules come here, never text of a user."""
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    # Rich would print code on black, which is hard to read on a bright terminal.
    console = Console(emoji=False, theme=Theme({"markdown.code": "bold cyan"}))
    width = min(console.width, _PAGE_WIDTH)
    # The settings that an example needs follow its language, where Markdown does not show them.
    text = re.sub("^```([a-z]+) (.+)$", r"With `\2`:\n\n```\1", text, flags=re.MULTILINE)
    console.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False), width=width)


def _rules(chosen: argparse.Namespace) -> int:
    from mypt_spec.findings import RULES
    from mypt_spec.rules.reference import table

    if chosen.format == "md":
        print("\n".join(table(sorted(RULES))))
    elif chosen.format == "json":
        keys = ("code", "name", "severity", "summary", "fix", "group", "off")
        rows = [{key: getattr(rule, key) for key in keys} for _, rule in sorted(RULES.items())]
        print(json.dumps(rows, indent=1))
    else:
        width = max(len(rule.name) for rule in RULES.values())
        for code, rule in sorted(RULES.items()):
            about = rule.summary + " Off by default." * rule.off
            print(f"{code}  {rule.name:<{width}}  {rule.severity:<7}  {about}")
    return 0


def _init(chosen: argparse.Namespace) -> int:
    from mypt_lint.check.detect import candidates, detect
    from mypt_lint.run.plan import Plan
    from mypt_lint.run.shape import about, with_shape
    from mypt_lint.settings.config import FILES, find

    path = FILES[0]
    if os.path.lexists(path):
        raise UsageError(f"{path} already exists; delete it first, or edit it")
    dialects = candidates("")
    dialect, shape = chosen.dialect, ""
    if dialect is None:
        plan = Plan({}, find())
        try:
            source = plan.files(["."])[0]
        except UsageError:
            dialect = "auto"
        else:
            settings, source = with_shape(plan.of(source.path), source, definite=False)
            shape = settings["records"] or ""
            dialect = "" if shape else detect(source, "record", dialects).dialect.name
    first = f'dialect = "{dialect}"'
    if shape:
        first = f'records = "{shape}"\n# dialect = "{dialects[0].name}"  # as a format, too'
    with open(path, "x", encoding="utf-8") as out:
        out.write(STARTER.read_text(encoding="utf-8").replace("\n\n", f"\n\n{first}\n", 1))
    print(f"{path} written, for {about(shape) if shape else dialect}.")
    return 0


def _new_dialect(chosen: argparse.Namespace) -> int:
    from mypt.own_format.begin import begin

    for path in begin(Path(chosen.folder)):
        print(path)
    print(f"next: mypt-lint check-dialect {chosen.folder}")
    return 0


def _derive(chosen: argparse.Namespace) -> int:
    from mypt.own_format.begin import dialect_name, write
    from mypt_lint.derive.derive import derive
    from mypt_lint.derive.spec import levels_table
    from mypt_lint.template.model import ModelFolder

    folder = Path(chosen.folder)
    name = dialect_name(folder)
    model = ModelFolder(chosen.model)
    derived = derive(model, name, conversations=chosen.conversations, seed=chosen.seed)
    print("\n".join(levels_table(derived.levels, derived.shape)))
    if not derived.files:
        print(f"mypt-lint: {folder} is not written: chats are not proved", file=sys.stderr)
        return 1
    for path in write(folder, derived.files):
        print(path)
    print(f"next: mypt-lint check-dialect {folder}")
    return 0


def _check_dialect(chosen: argparse.Namespace) -> int:
    from mypt.own_format.check import check
    from mypt_spec.dialect import folder, registered

    place = Path(chosen.folder)
    if not place.is_dir() and chosen.folder in registered():
        place = folder(chosen.folder)
    fine = True
    for result in check(place, chosen.vocab):
        mark = {True: "ok   ", False: "error", None: "note "}[result.fine]
        print(f"{mark} {result.name}: {result.detail}")
        fine = fine and result.fine is not False
    return 0 if fine else 1


def _serve(chosen: argparse.Namespace) -> int:
    if chosen.paths:
        raise UsageError(
            f"the editor names the files, not the command line: leave out {chosen.paths[0]}"
        )
    try:
        from mypt.lint.server import serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the language server needs {error.name}; pip install 'mypt-tags[lsp]'"
        ) from None
    serve(chosen)
    return 0
