"""Reads chat templates from a file or a model folder, with the special tokens beside them.

Input is a path: a file of Jinja, a `tokenizer_config.json`, a `chat_template.json`, or a folder as
transformers saves one. Output are templates. Nothing is run here.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_cli.inputs import json_of, text_of
from mypt_cli.store.gguf import metadata
from mypt_spec.tokenizer.proved import cached

_CONFIG, _SAVED, _OLD = "tokenizer_config.json", "chat_template.jinja", "chat_template.json"
_IN_GGUF, _GGML = "tokenizer.chat_template", "tokenizer.ggml."
_ADDED = (3, 4)  # kinds of tokens: control, and those of a user
TEMPLATE_FOLDER = "additional_chat_templates"
TEMPLATE_FILES = (_SAVED, _CONFIG, _OLD, "special_tokens_map.json", "generation_config.json")
_WITHOUT_FOLDER = {"bos_token": "<s>", "eos_token": "</s>"}


@dataclass(frozen=True, slots=True)
class Template:
    """A chat template: its name ("" for the only one), its file, and its source.

    `tokens` are the special tokens by their names, as the template sees them. `stops` are spellings
    at which generation stops; empty where nothing says. `assumed` are tokens that a lone file
    does not spell, so that nobody knows them. `options` are given to every rendering.
    """

    name: str
    path: str
    text: str
    tokens: dict[str, str]
    stops: frozenset[str]
    assumed: frozenset[str] = frozenset()
    options: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None  # which has the vocabulary; or a GGUF file


class AddedToken(TypedDict):
    """What is read of a token in `tokenizer.json`."""

    id: int
    content: str


def load(path: str) -> list[Template]:
    """Returns the templates of a file or folder. Raises UsageError where there is none."""
    here, assumed = Path(path), frozenset[str]()
    if not here.exists() and re.fullmatch(r"[\w-]+/[\w.-]+", path):
        get = f"hf download {path} --include '*.json' '*.jinja' --local-dir {here.name}"
        raise UsageError(f"{path}: no such folder; a model of a hub is downloaded first: {get}")
    if here.is_dir():
        texts = templates_of_folder(here)
        if not texts:
            raise UsageError(
                f"{path}: no chat template; expected {_SAVED}, or chat_template in {_CONFIG}"
                f"{_advice(here)}"
            )
        config = _json(here / _CONFIG) if (here / _CONFIG).is_file() else {}
        tokens, stops = _tokens(config, here), _stops(config, here)
    elif here.suffix == ".json":
        config = _json(here)
        texts = _of_config(config, here)
        if not texts:
            raise UsageError(f"{path}: it has no chat_template")
        tokens, stops = _tokens(config, here.parent), _stops(config, here.parent)
    elif here.suffix.lower() == ".gguf":
        values = metadata(path)
        names = [key for key in values if re.fullmatch(rf"{_IN_GGUF}(\..+)?", key)]
        if not names:
            raise UsageError(f"{path}: the file has no {_IN_GGUF}")
        if wrong := [key for key in names if not isinstance(values[key], str)]:
            raise UsageError(f"{path}: {wrong[0]} is not a text; convert the model to GGUF again")
        texts = [(key[len(_IN_GGUF) + 1 :], here, values[key]) for key in names]
        tokens, stops = _tokens_of_gguf(values)
    else:
        text = text_of(str(here))
        texts, tokens = [("", here, text)], _WITHOUT_FOLDER
        adds_eos = "eos_token" in text and not re.search(r"\bset\s+eos_token\b", text)
        stops = frozenset({tokens["eos_token"]} if adds_eos else ())
        assumed = frozenset(token for token in tokens.values() if token not in text)
    is_file = here.suffix.lower() not in (".json", ".gguf")
    folder = here.parent if here.suffix == ".json" else None if here.is_file() and is_file else here
    return [
        Template(name, str(file), text, tokens, stops, assumed, folder=folder)
        for name, file, text in texts
    ]


def _tokens_of_gguf(values: dict[str, Any]) -> tuple[dict[str, str], frozenset[str]]:
    spelled = dict(enumerate(values.get(_GGML + "tokens", ())))
    ids = {name: values.get(f"{_GGML}{name}_token_id") for name in ("bos", "eos", "eot")}
    tokens = {f"{name}_token": spelled[i] for name, i in ids.items() if i in spelled}
    stops = frozenset(tokens[key] for key in ("eos_token", "eot_token") if key in tokens)
    return tokens, stops


def _advice(here: Path) -> str:
    """Returns the shipped dialects whose special tokens a model has, as an advice."""
    tags = {row["content"] for row in added_tokens(here)}
    special = {name: {*mypt_spec.dialect(name).table.special} for name in mypt_spec.dialects()}
    names = [name for name, own in special.items() if own and own <= tags]
    return f"; its tokens fit {', '.join(names)}: use --dialect {names[0]} instead" if names else ""


def templates_of_folder(here: Path) -> list[tuple[str, Path, str]]:
    """Returns (name, file, source) of each template, files before settings. Raises UsageError."""
    out = [("", here / _SAVED, text_of(str(here / _SAVED)))] if (here / _SAVED).is_file() else []
    out += [
        (file.stem, file, text_of(str(file)))
        for file in sorted((here / TEMPLATE_FOLDER).glob("*.jinja"))
    ]
    for name in (_CONFIG, _OLD):
        if not out and (here / name).is_file():
            out = _of_config(_json(here / name), here / name)
    return out


def _of_config(config: dict[str, Any], file: Path) -> list[tuple[str, Path, str]]:
    template = config.get("chat_template")
    if isinstance(template, str):
        return [("", file, template)]
    if template is None:
        return []
    entries = template if isinstance(template, list) else [template]
    keys = ("name", "template")
    if not all(
        isinstance(x, dict) and all(isinstance(x.get(k), str) for k in keys) for x in entries
    ):
        form = "a string, or a list of names and templates"
        raise UsageError(f"{file}: chat_template must be {form}")
    return [(item["name"], file, item["template"]) for item in entries]


def _tokens(config: dict[str, Any], here: Path) -> dict[str, str]:
    saved = here / "special_tokens_map.json"
    settings = (_json(saved) if saved.is_file() else {}) | config
    tokens = {key: _spelled(value) for key, value in settings.items() if key.endswith("_token")}
    return {key: value for key, value in tokens.items() if value is not None}


def _spelled(token: Any) -> str | None:
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def _stops(config: dict[str, Any], here: Path) -> frozenset[str]:
    ids: set[Any] = set()
    settings = here / "generation_config.json"
    if settings.is_file():
        ids_of_eos = _json(settings).get("eos_token_id")
        listed = ids_of_eos if isinstance(ids_of_eos, list) else [ids_of_eos]
        if not all(number is None or isinstance(number, int) for number in listed):
            raise UsageError(f"{settings}: eos_token_id must be an id, or a list of ids")
        ids |= set(listed)
    decoder = config.get("added_tokens_decoder")
    added: dict[Any, str | None] = {
        int(key): _spelled(value)
        for key, value in (decoder if isinstance(decoder, dict) else {}).items()
        if re.fullmatch("[0-9]+", key)
    }
    if not ids <= set(added):
        for item in added_tokens(here):
            added.setdefault(item["id"], item["content"])
    stops = {added.get(number) for number in ids} | {_spelled(config.get("eos_token"))}
    return frozenset(token for token in stops if token)


def added_tokens(here: Path) -> list[AddedToken]:
    """Returns the added tokens of the `tokenizer.json` in a folder, or of a GGUF file.

    Raises UsageError.
    """
    if here.suffix.lower() == ".gguf" and here.is_file():
        values = metadata(str(here))
        tokens, kinds = (values.get(_GGML + key, ()) for key in ("tokens", "token_type"))
        rows = enumerate(zip(tokens, kinds, strict=False))
        return [{"id": i, "content": token} for i, (token, kind) in rows if kind in _ADDED]
    file = here / "tokenizer.json"
    try:
        return cached("added tokens", file, _added_tokens) if file.is_file() else []
    except (OSError, ValueError) as error:
        form = "added_tokens must be a list of objects with id and content"
        raise UsageError(f"{file}: {error}; {form}") from None


def _added_tokens(data: bytes) -> list[AddedToken]:
    import msgspec

    # Of a file of megabytes, the other values are skipped.
    raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get("added_tokens", b"[]")
    return msgspec.json.decode(raw, type=list[AddedToken] | None) or []


def _json(file: Path) -> dict[str, Any]:
    value = json_of(str(file))
    if not isinstance(value, dict):
        raise UsageError(f"{file}: expected a JSON object")
    return value
