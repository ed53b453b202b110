"""Writes the files that servers of models read: chat template, grammars, and how to start them.

Input: a dialect on its vocabulary, and names of servers. Output: files by name, all of them made
before any is written. Every grammar says the same: what a model may write after a prompt.
"""

import json
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mypt_cli import atomic
from mypt_spec import Dialect
from mypt_train.export.answers import answers
from mypt_train.export.chat_facts import endings, stop_strings
from mypt_train.export.chat_template import chat_template
from mypt_train.export.gbnf import ALWAYS_ENDS, gbnf
from mypt_train.export.response_template import response_template, vllm_template
from mypt_train.export.tokenizer_file import ExportError, padding

TEMPLATE, RESPONSE = "chat_template.jinja", "response_template.json"
TAG, GBNF, README = "structural_tag.json", "answer.gbnf", "README.md"
PARSERS, VLLM_RESPONSE = "mypt_parsers.py", "vllm_response_template.json"
SERVERS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("servers.toml").read_text("utf-8")
)


def chosen(names: Iterable[str], known: Iterable[str] = tuple(SERVERS)) -> tuple[str, ...]:
    """Returns servers by name, each once, in a fixed order; names may be joined by commas.

    Raises ExportError for a name that is not known.
    """
    requested_names = {part.strip() for name in names for part in name.split(",") if part.strip()}
    for name in sorted(requested_names - {*known}):
        raise ExportError(f"--for {name}: no such program; known are {', '.join(known)}")
    return tuple(name for name in known if name in requested_names)


def server_files(
    dialect: Dialect, servers: Iterable[str], say: Callable[[str], None] = lambda _: None,
    *, history: str = "official",
) -> dict[str, str]:  # fmt: skip
    """Returns the files for some servers. Raises ExportError where one cannot be written.

    Optional files that cannot be written are left out; `say` is told why, and so is the README.
    `history` says which thoughts of earlier turns the chat template writes.
    """
    servers = tuple(servers)
    required, optional = (
        {file for server in servers for file in SERVERS[server].get(key, ())}
        for key in ("files", "optional")
    )
    reserved = (padding(dialect),)
    ends = endings(dialect)

    def tag() -> str:
        rules = answers(dialect, ends[-1:], reserved=reserved)
        grammar = {"type": "grammar", "grammar": gbnf(dialect, rules, token="Token({})")}
        return _json({"type": "structural_tag", "format": grammar})

    def llama_grammar() -> str:
        stops = [*ends[-1:], *(e for e in ends if e in ALWAYS_ENDS)]
        return gbnf(dialect, answers(dialect, stops, reserved=reserved))

    call = f"from mypt_infer.plugins.vllm import register\n\nregister({dialect.spec!r})\n"
    makers: dict[str, Callable[[], str]] = {
        TEMPLATE: lambda: chat_template(dialect, reserved=reserved, history=history),
        RESPONSE: lambda: _json(response_template(dialect)),
        VLLM_RESPONSE: lambda: _json(vllm_template(dialect)),
        PARSERS: lambda: call,
        TAG: tag,
        GBNF: llama_grammar,
    }
    out, missing = dict[str, str](), list[str]()
    for file, make in makers.items():
        if file in {TEMPLATE, *required, *optional}:
            try:
                out[file] = make()
            except ExportError as error:
                if file in {TEMPLATE, *required}:
                    raise
                missing.append(f"{file} is not written: {error}")
                say(missing[-1])
    return out | {README: _readme(dialect, servers, missing)}


def write_server_files(
    dialect: Dialect, servers: Iterable[str], out: str | Path,
    say: Callable[[str], None] = lambda _: None,
) -> Path:  # fmt: skip
    """Writes the files for some servers to a new or empty folder, and returns it.

    Raises ExportError before anything is written, and where the folder cannot be written.
    """
    files = server_files(dialect, servers, say)
    return write_folder(Path(out), {name: text.encode() for name, text in files.items()})


def write_folder(
    out: Path, files: Mapping[str, bytes], *, copies: Mapping[str, Path] | None = None
) -> Path:
    """Writes files by name to a new or empty folder, `copies` of others first; returns the folder.

    Raises ExportError for a folder that is not empty, and where it cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out}: is not empty; name another folder, or empty it")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, source in (copies or {}).items():
            shutil.copyfile(source, out / name)
        for name, data in files.items():
            atomic.write(out / name, [data])
    except OSError as error:
        raise ExportError(
            f"{error.filename or out}: {error.strerror or error}; delete the folder, and export "
            "again when there is room for it"
        ) from None
    return out


def _readme(dialect: Dialect, servers: tuple[str, ...], missing: list[str]) -> str:
    ends = endings(dialect)
    stops = f"These tags end an answer, and are ids: {' '.join(f'`{tag}`' for tag in ends)}."
    if not ends:
        texts = " ".join(f"`{tag}`" for tag in stop_strings(dialect))
        stops = f"No id ends an answer: give each request `stop`, with {texts}."
    elif len(ends) > 1:
        stops += f" The tokenizer's is `{ends[-1]}`; the others are in generation_config.json."
    head = (
        f"# {dialect.table.title}\n\nMade by mypt-export for the dialect {dialect.name}. The "
        "grammars say what may follow a prompt up to\nthe id that ends the answer, which the "
        "server adds; arguments of calls are any JSON object.\n\n" + stops + "\n"
    )
    head += "".join(f"\n{line}\n" for line in missing)
    return head + "".join(f"\n## {name}\n\n{SERVERS[name]['start']}" for name in servers)


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
