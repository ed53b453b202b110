"""Defines the options of `mypt-lint`, which its language server takes too."""

from mypt_cli.parser import Parser, positive
from mypt_lint.report import FORMATS
from mypt_lint.settings.options import (
    DEFAULTS,
    KINDS,
    add_dialect,
    add_ignore,
    add_model,
    add_records,
    add_settings,
    add_system,
    mask_name,
    model_path,
    template_path,
)

QUIET = "print findings and nothing else"


def options(out: Parser) -> None:
    add = out.group("input")
    add("PATH", "files, folders, patterns, or - for standard input", dest="paths", nargs="*")
    add_dialect(add, "found out, mypt in doubt")
    add_records(add)
    add_system(add)
    does = "check what the chat template of a model makes of each record"
    add_model(add, does, template_path)
    add(
        "--kind",
        "JSONL records, serialised text, what a model wrote, or tokens for a trainer (default: "
        f"{DEFAULTS['kind']})",
        choices=KINDS,
    )
    add(
        "--trainer-rows",
        "the files hold rows of tokens for a trainer (input_ids, labels), as --kind rows",
        dest="kind",
        action="store_const",
        const="rows",
    )
    add(
        "--mask NAME",
        "with --trainer-rows: what the labels train, as mypt-prepare --mask (default: model)",
        type=mask_name,
    )
    add(
        "--exclude PATTERN",
        "in folders and patterns, leave out what matches, written as in .gitignore",
        action="append",
        default=[],
    )
    add("--no-respect-gitignore", "read what .gitignore files leave out, too")
    add(
        "--template PATH",
        "lint a chat template: a file of Jinja, a model folder or a .gguf file; with --dialect it "
        "must write it",
        action="append",
        default=[],
    )
    add = out.group("what is checked")
    add("--phase N", "allow only what the curriculum has introduced by phase N", type=int)
    add("--max-tokens N", "report episodes of more than N tokens", type=positive)
    add(
        "--vocab PATH",
        "count and read tokens by another vocabulary than that of the format, as mypt-prepare "
        "--vocab",
        type=model_path,
    )
    add(
        "--tool NAME",
        "declare a tool, beside those in the system prompt",
        action="append",
        default=[],
    )
    add(
        "--data-set",
        "compare the episodes of all files too: duplicates, overlap, sources, languages (MYP6)",
    )
    add(
        "--eval GLOB",
        "with --data-set: files for evaluation; without it, their names say so (eval, val, test)",
        action="append",
    )
    add(
        "--eval-prompts FILE",
        "with --data-set: texts that must not be trained on, as records, or one a line",
        action="append",
    )
    add(
        "--select CODES",
        "report only these: codes, their beginnings (MYP2), names, groups (content, default), with "
        "commas between",
        action="append",
    )
    add_ignore(add)
    add = out.group("known findings")
    add("--write-baseline FILE", "write what is found now to FILE as known, and exit with 0")
    add(
        "--baseline FILE", "report only what FILE does not know; an edited episode is known no more"
    )
    add("--prune-baseline", "with --baseline: remove entries that are no longer found from FILE")
    add(
        "--max-rate RULE=PERCENT",
        "accept findings of a rule in this share of records, such as MYP353=0.5%%, or of the rules "
        "in a file of --write-rates; exit status 3 if only a rate is exceeded",
        action="append",
        default=[],
    )
    add("--write-rates FILE", "write the share of records in which each rule finds faults to FILE")
    add = out.group("fixing")
    add("--fix", "repair what has a safe fix, in place, then report what is left")
    add(
        "--unsafe-fixes",
        "with --fix, --fix-only or --diff: make the fixes too that may change content",
    )
    add(
        "--drop-invalid",
        "with --fix, --fix-only or --diff: leave out records that still fail; their lines are "
        "appended to FILE.rejects",
    )
    add("--fix-only", "as --fix, but report nothing else and exit with 0")
    add(
        "--diff",
        "show as a diff what --fix would change, and write nothing; exit status 1 if anything",
    )
    add = out.group("output")
    add(
        "--format NAME[=FILE]",
        f"how findings are printed: {', '.join(FORMATS)} (default: {DEFAULTS['format']}); more "
        "than one with a file each",
        action="append",
    )
    add(
        "-o --out FILE",
        "write the findings to FILE; with --fix the fixed data, - for standard output",
        dest="output",
        old=["--output"],
    )
    add("--show-all", "print all findings of a kind in text, not the first three of a file")
    add("--statistics", "print counts by rule instead of the findings")
    add(
        "--fail-on",
        f"lowest severity that makes the exit status 1 (default: {DEFAULTS['fail-on']})",
        choices=("error", "warning", "info"),
    )
    add("--exit-zero", "exit with 0 whatever is found; failures still are 2")
    add = add_settings(out)
    add(
        "--show-settings",
        "print the settings, for each file if some are named, and where they come from",
    )
    add = out.group("performance")
    add("-j --jobs N", "processes; 0 chooses by size and cores (default)", type=int, default=0)
    add = out.group("other")
    add("--explain CODE", "explain a rule (code or name, or `all`) and exit")
    add("--watch", "run again whenever a file changes")
