"""Keeps the format that a model's own chat template writes, so that it is derived only once.

Input: the folder of a model. Output: a folder in the user's cache with the derived format. It is
named by what the format depends on: templates, tokens, vocabulary, and the code that derives it.
"""

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_cli.progress import waiting
from mypt_cli.words import either
from mypt_lint.derive.conversations import LEVELS
from mypt_lint.derive.derive import derive
from mypt_lint.derive.probe import Renderings, chat
from mypt_lint.derive.proof import Level, prove
from mypt_lint.template.model import ModelFolder
from mypt_lint.template.source import templates_of_folder
from mypt_model.folder import TRAINER, beside, dialect_of, newest, read_object
from mypt_model.shape import ModelError
from mypt_records.shapes.text import with_tags
from mypt_spec import Dialect
from mypt_spec.dialect import detectable_dialects, families
from mypt_spec.table_file import grammar_root
from mypt_spec.tokenizer.proved import cache_folder
from mypt_spec.tokenizer.vocabulary import COPIES

NAME = "chat-template"
FOLDERS = 8  # formats and families that are kept at most
_PROVED, _FAMILY, _SUM = "PROVED.txt", "FAMILY.txt", "SHA256.txt"
_HOUR = 3600  # seconds
_CONVERSATIONS = 10  # of each level, to recognize a family
_FEWEST = 3  # chats that are equal


def dialect_of_model(
    folder: str | Path, choice: str | None, say: Callable[[str], None] = lambda _: None
) -> str:
    """Returns the name or folder of the dialect of a model; "" where nothing says it.

    It is what `dialect_of` returns, or else the folder of the format that the model's chat template
    writes. `say` is told what is proved of that. Raises ModelError as `dialect_of` does, and if
    chats are not proved.
    """
    name, model = dialect_of(folder, choice=choice, default=""), newest(folder)
    try:
        return name or (_format_of(model, say) if templates_of_folder(model) else "")
    except UsageError as error:
        raise ModelError(str(error)) from None
    except OSError as error:
        raise ModelError(
            f"{model}: its format cannot be kept in the cache folder: {error}; set XDG_CACHE_HOME "
            "to a folder that can be written"
        ) from None


def vocabulary_of_model(folder: str | Path) -> Path | None:
    """Returns the file of a model's vocabulary; None if training wrote it on the dialect's own.

    Training that names no dialect keeps the files of the model whose template wrote the data.
    """
    facts = beside(folder, TRAINER)
    data = read_object(facts).get("data") if facts else {}
    known = not isinstance(data, dict) or "dialect" in data
    return beside(folder, *COPIES, *(() if known else ("tokenizer.json", "tekken.json")))


def family_of(source: ModelFolder) -> str:
    """Returns the names of shipped formats whose text is that of a chat template; "" for none.

    It is recognized by 40 conversations, and kept in the cache. Raises OSError, or RuntimeError for
    a user without a home, if it cannot be kept.
    """
    folder = cache_folder() / "formats" / _digest(source.fingerprint, {})
    _keep(folder, lambda: {_FAMILY: _family(source)})
    return (folder / _FAMILY).read_text(encoding="utf-8")


def _family(source: ModelFolder) -> str:
    names = sorted({*mypt_spec.dialects(), *families()} - {*detectable_dialects()})
    with Renderings(source) as render:
        names = with_tags(names, render.text(chat("Hi", "Yes")) or "")
        for says_less in (False, True):
            counts = {name: _count(mypt_spec.dialect(name), render, says_less) for name in names}
            most, left_out = max(counts.values(), default=(0, ()))
            if best := [name for name in names if counts[name][0] == most > 0]:
                return either(best) + f", but leaves out {' and '.join(left_out)}" * bool(left_out)
    return ""


def report_family(source: ModelFolder, say: Callable[[str], None]) -> None:
    """Tells `say` the family of a chat template without options, if it has one."""
    with suppress(OSError, RuntimeError, ValueError):  # no cache, or a template that takes too long
        if not source.templates[0].options and (name := family_of(source)):
            say(f"the chat template writes the same text as --dialect {name}")


def _count(
    dialect: Dialect, render: Renderings, says_less: bool = False
) -> tuple[int, tuple[str, ...]]:
    """Returns how many conversations are equal, and what the template leaves out of them.

    The count is 0 if one differs, or few chats are taken of those that a format could take.
    """
    count, left_out = 0, set[str]()
    for name in LEVELS:
        seeds = range(_CONVERSATIONS)
        level = prove(dialect, render, Level(name), seeds, says_less=says_less)
        if level.unequal or (not count and level.equal < max(_FEWEST, level.refused.total())):
            return 0, ()
        count += level.equal
        left_out |= level.left_out
    return count, (*sorted(left_out, reverse=True),)


def _format_of(model: Path, say: Callable[[str], None]) -> str:
    source = ModelFolder(str(model))
    folder = cache_folder() / "formats" / _digest(source.fingerprint, source.files)
    _keep(folder, lambda: _derived(source))
    says = (folder / _PROVED).read_text(encoding="utf-8")
    if not (folder / "tokens.toml").is_file():
        raise UsageError(
            f"{model}: no format could be derived from its chat template ({says}); name one that "
            "writes the same text with --dialect, such as chatml or qwen3"
        )
    say(f"the format is derived from the chat template; {says}")
    return f"{folder}/"


def _digest(fingerprint: str, files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(fingerprint.encode() + _sum(files))
    code = [Path(__file__).parents[1], Path(mypt_spec.__file__).parent]
    paths = [file for package in code for file in sorted(package.rglob("*.py"))]
    for file in paths + sorted(grammar_root().rglob("*.toml")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _sum(files: Mapping[str, bytes]) -> bytes:
    rows = [name.encode() + hashlib.sha256(files[name]).digest() for name in sorted(files)]
    return hashlib.sha256(b"".join(rows)).hexdigest().encode()


def _derived(source: ModelFolder) -> dict[str, str]:
    """Returns the files of what is derived, and what is proved of it."""
    with waiting("deriving a format from the chat template"):
        derived = derive(source, NAME)
    names: dict[str, list[str]] = {}
    for level in derived.levels:
        names.setdefault("" if level.is_proved else level.reason, []).append(level.name)
    proved = f"proved: {', '.join(names.pop('', ['nothing']))}"
    proved += "".join(f"; not {', '.join(left)}: {why}" for why, left in names.items())
    if derived.shape is not None and derived.shape.lacks:
        proved += f"; without the options {', '.join(derived.shape.lacks)}"
    return derived.files | {_PROVED: proved}


def _keep(folder: Path, make: Callable[[], dict[str, str]]) -> None:
    """Makes the files of a folder of the cache, which has its name only when it is complete.

    If they are there as they were written, they are not made again.
    """
    stored = {file.name: file.read_bytes() for file in folder.glob("*")}
    if stored.pop(_SUM, b"") == _sum(stored):
        os.utime(folder)
        return
    files = {name: text.encode() for name, text in make().items()}
    part = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}")
    part.mkdir(parents=True)
    for name, content in (files | {_SUM: _sum(files)}).items():
        (part / name).write_bytes(content)
    shutil.rmtree(folder, ignore_errors=True)  # it was damaged
    try:
        part.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(part)
    ages = sorted((other.stat().st_mtime, other) for other in folder.parent.iterdir())
    folders = [other for _, other in ages if not other.suffix]
    parts = [other for age, other in ages if other.suffix and age < time.time() - _HOUR]
    for other in folders[:-FOLDERS] + parts:  # a process was killed while it wrote a part
        shutil.rmtree(other, ignore_errors=True)
