"""Turns GGUF files into model folders, once each, so that commands take them as models.

Input: a path that an option names. Output: the path of a folder, as transformers saves one, in the
user's cache; or the path itself if it is no GGUF file. transformers reads the file: its vocabulary,
its chat template and its weights, which become bfloat16.
"""

import hashlib
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

try:
    import fcntl
except ImportError:  # processes then may turn the same file twice
    fcntl = None  # type: ignore[assignment]

from mypt_cli.atomic import folder
from mypt_cli.errors import UsageError, refuse_url

_SUFFIX, _MAGIC = ".gguf", b"GGUF"
_TEXT, _ARRAY = 8, 9  # kinds of values, and the letters of `struct` for the others
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_HEAD = 1 << 20  # bytes of a file that its key depends on
_PACKAGES = ("gguf", "torch", "transformers")
_INSTEAD = "name the folder of the original model (config.json and *.safetensors) instead"
_Read = TypedDict("_Read", {  # of the metadata
    "tokenizer.chat_template": str, "tokenizer.ggml.tokens": list[str],
    "tokenizer.ggml.token_type": list[int], "tokenizer.ggml.bos_token_id": int,
    "tokenizer.ggml.eos_token_id": int, "tokenizer.ggml.eot_token_id": int,
}, total=False)  # fmt: skip


class LackingError(UsageError):
    """A package that turns a file into a folder is missing."""


def model_path(path: str) -> str:
    """Returns the folder of the model in a GGUF file, made if it is not in the cache.

    Other paths are returned as they are. Raises UsageError for a file that is not GGUF, or that
    transformers cannot read, and OSError.
    """
    file = Path(path)
    if file.suffix.lower() != _SUFFIX or file.is_dir():
        return path
    refuse_url(path, what="a GGUF file", then="download it first")
    if not file.is_file():
        raise UsageError(f"{path}: no such file; name a GGUF file, or a model folder")
    with file.open("rb") as source:
        head = source.read(_HEAD)
    if not head.startswith(_MAGIC):
        pointer = head.startswith(b"version https://git-lfs")
        why = "a Git LFS pointer; run git lfs pull" if pointer else "download it again"
        raise UsageError(f"{path}: not a GGUF file: it begins with {head[:4]!r}; {why}")
    facts = file.stat()
    key = hashlib.sha256(head)
    key.update(f"{file.name}\0{facts.st_size}\0{facts.st_mtime_ns}".encode())
    from mypt_spec.tokenizer.proved import cache_folder

    cache = cache_folder() / "gguf" / key.hexdigest()[:16]
    target = cache / file.stem
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / ".lock"):
        if not target.is_dir():
            if missing := lacking():
                raise LackingError(f"{path}: GGUF files need {missing}")
            print(f"{path}: turning it into a model folder; this may take minutes", file=sys.stderr)
            with folder(target) as part:
                write_folder(file, part)
            print(f"{path}: kept in {target}", file=sys.stderr)
    return str(target)


def metadata(path: str) -> dict[str, Any]:
    """Returns the keys and values at the beginning of a GGUF file, without its tensors.

    Raises UsageError for a file that is not GGUF, or that is cut off.
    """
    import msgspec  # which --help does not need

    try:
        with Path(path).open("rb") as file:
            if (begin := file.read(4)) != _MAGIC:
                raise UsageError(f"{path}: not a GGUF file: it begins with {begin!r}")
            count = _unpacked(file, "IQQ")[2]
            facts = {_value(file, _TEXT): _value(file, *_unpacked(file, "I")) for _ in range(count)}
        msgspec.convert(facts, _Read)
        return facts
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}; convert the model to GGUF again") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name a GGUF file") from None
    except (struct.error, KeyError, OverflowError, MemoryError, RecursionError):
        raise UsageError(
            f"{path}: the GGUF file is cut off or damaged; download it again"
        ) from None


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _TEXT:
        (size,) = _unpacked(file, "Q")
        return _unpacked(file, f"{size}s")[0].decode("utf-8", "replace")
    if kind == _ARRAY:
        inner, size = _unpacked(file, "IQ")
        if inner in (_TEXT, _ARRAY):
            return [_value(file, inner) for _ in range(size)]
        return list(_unpacked(file, f"{size}{_SCALARS[inner]}"))
    return _unpacked(file, _SCALARS[kind])[0]


def _unpacked(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))


def write_folder(file: Path, out: Path) -> None:
    """Writes the model of a GGUF file to a folder, in bfloat16.

    Raises UsageError if transformers cannot read the file, or does not find all weights in it.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is fetched
    from importlib.metadata import version

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    models: Any = AutoModelForCausalLM
    logging: Any = transformers_logging
    source: dict[str, Any] = {
        "pretrained_model_name_or_path": str(file.absolute().parent),
        "gguf_file": file.name,
    }
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # else it advises to keep the weights quantized
    try:
        tokenizer = AutoTokenizer.from_pretrained(**source)
        read, report = models.from_pretrained(
            **source, dtype=torch.bfloat16, output_loading_info=True
        )
    except Exception as error:  # of any kind: transformers and gguf do not say which they raise
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise UsageError(
            f"{file}: transformers {version('transformers')} cannot read this GGUF file: "
            f"{reason}; {_INSTEAD}"
        ) from None
    finally:
        logging.set_verbosity(verbosity)
    if missing := sorted(report["missing_keys"]):
        raise UsageError(
            f"{file}: the file has no weights for {missing[0]} ({len(missing)} missing); it may be "
            f"one of several parts: join them with llama-gguf-split --merge, or {_INSTEAD}"
        )
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config  # the weights are plain numbers from here on
    model = models.from_config(read.config, dtype=torch.bfloat16)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    tokenizer.save_pretrained(out)
    model.save_pretrained(out)


def lacking() -> str:
    """Returns the packages that are missing to turn a file into a folder, and what to do; or ""."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    return f"{' and '.join(missing)}; pip install 'mypt-tags[gguf]'" if missing else ""


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lets one process in at a time; a lock ends with its process."""
    with path.open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
