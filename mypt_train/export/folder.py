"""Writes a checkpoint as a Hugging Face folder.

Input: a checkpoint of `mypt-train`. Output: its weights, tokenizer, chat template and the ids that
end a generation. The folder loads in transformers without code of this project; writing it does not
need transformers.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mypt_spec
from mypt_lint.derive.of_model import dialect_of_model, vocabulary_of_model
from mypt_model import folder as model_folder
from mypt_model.folder import CONFIG, GENERATION, WEIGHTS, newest
from mypt_model.shape import ModelError, fits
from mypt_spec import VocabularyError
from mypt_train.export.chat_facts import endings, stop_strings
from mypt_train.export.servers import RESPONSE, server_files, write_folder
from mypt_train.export.tokenizer_file import ExportError, padding, tokenizer_config, tokenizer_json


def export(
    checkpoint: str | Path, out: str | Path,
    *, dialect: str | None = None, vocabulary: str | Path | None = None,
    servers: Iterable[str] = (), say: Callable[[str], None] = lambda _: None,
) -> Path:  # fmt: skip
    """Writes a checkpoint, or the latest of a run, to the folder `out`; returns `out`.

    `out` must be new or empty. `dialect` and `vocabulary` are by default those of the checkpoint:
    what it was trained on, or else the format of its chat template and its tokenizer; without any,
    "mypt" and GPT-2's. `say` is told what is proved of a derived format, and which optional files
    are not written. `servers` are those of `servers.SERVERS` whose files are added. Raises
    ExportError, before anything is written, for a folder that is no checkpoint, for a vocabulary of
    another size than the model's, and for a dialect of which a file cannot be written; and when the
    folder cannot be written.
    """
    source, out = newest(checkpoint), Path(out)
    try:
        config, path = _config(source), source / GENERATION
        settings = model_folder.read_object(path) if path.is_file() else {}
        name = dialect_of_model(source, dialect, say) or "mypt"
        d = mypt_spec.dialect(name, vocabulary=vocabulary or vocabulary_of_model(source))
    except (KeyError, VocabularyError, ModelError) as error:
        raise ExportError(error.args[0]) from None
    if not fits(config.get("vocab_size", 0), d.tokenizer.vocab_size):
        raise ExportError(
            f"{source / CONFIG}: the model has {config.get('vocab_size')} ids, {name} has "
            f"{d.tokenizer.vocab_size}; name the vocabulary that it was trained on with --vocab"
        )
    history = model_folder.history_of(source)
    names = {"transformers": 0, **dict.fromkeys(servers, 0)}
    texts = server_files(d, names, say, history=history)
    response = json.loads(texts.pop(RESPONSE))
    ends = {tag: d.tokenizer.special[tag] for tag in endings(d)}
    last = next(reversed(ends), padding(d))
    stops = {} if ends else {"stop_strings": stop_strings(d)}
    settings = {k: v for k, v in settings.items() if k[0] != "_" and k != "transformers_version"}
    ids: dict[str, Any] = {
        "bos_token_id": config.get("bos_token_id"),
        "eos_token_id": list(ends.values()),
        "pad_token_id": d.tokenizer.pad,
    }
    for_us = {"dialect": d.name} if d.name in mypt_spec.dialects() else {}
    config |= for_us | ({"history": "keep"} if history == "keep" else {})
    files = {
        CONFIG: {"architectures": ["LlamaForCausalLM"], "model_type": "llama"} | config | ids,
        GENERATION: {"do_sample": True} | settings | ids | stops,
        "tokenizer.json": tokenizer_json(d),
        "tokenizer_config.json": tokenizer_config(d, last) | {"response_template": response},
    }
    written = {
        name: json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"
        for name, content in files.items()
    }
    written |= {name: text.encode() for name, text in texts.items()}
    written |= d.vocabulary.copy if d.vocabulary is not None else {}
    return write_folder(out, written, copies={WEIGHTS: source / WEIGHTS})


def _config(source: Path) -> dict[str, Any]:
    for name in (CONFIG, WEIGHTS):
        if not (source / name).is_file():
            raise ExportError(f"{source}: has no {name}; name the folder of a checkpoint")
    return model_folder.raw_config(source)
