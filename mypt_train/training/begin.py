"""Makes the model that a run begins with, or goes on with.

Input: a config, the data's vocabulary, and the folder of a model, if there is one. Output: the
model, on the CPU in float32, with an embedding for each id of the data.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mypt_model.folder import check_layers, is_plain, read_config
from mypt_model.llama import Transformer, random_transformer
from mypt_model.pretrained import Net, open_hollow, open_pretrained
from mypt_model.shape import ModelError, fits
from mypt_spec import Dialect, VocabularyError
from mypt_spec.tokenizer.sources import NAMES, read_vocabulary
from mypt_train.training.parts import checkpoint
from mypt_train.training.parts.checkpoint import CheckpointError, lacking
from mypt_train.training.parts.config import Config, ConfigError
from mypt_train.training.parts.distributed import World, precision, send_weights, spread_out

_NO_SHAPE = (
    "the config has no model: name one that has, such as tiny, or begin with a model by --init-from"
)


def shaped(config: Config, source: Path | None) -> Config:
    """Returns a config whose model is that in the folder `source`, if it names none itself.

    The model stays empty where transformers defines its shape. Raises ConfigError, ModelError.
    """
    if source is None:
        if not config.model:
            raise ConfigError(_NO_SHAPE)
        return config
    if is_plain(source):
        if config.model:
            return config
        shape = asdict(read_config(source))
        model = {k: v for k, v in shape.items() if k not in _OF_DATA and v is not None}
        return replace(config, model=model)
    if config.model:
        raise ConfigError(
            f"{source}: its shape is not for a config to say; use --config finetune, or one "
            "without `model`"
        )
    return config


_OF_DATA = ("vocab_size", "max_position_embeddings")


def begun(
    config: Config, ids: int, context: int | None, source: Path | None, *, hollow: bool = False
) -> tuple[Net, int]:
    """Returns a model with at least `ids` ids, and how many of them the folder `source` lacks.

    Without a folder, its weights are random. With `hollow`, nothing is read or drawn: weights have
    memory, but no values. Raises ModelError, CheckpointError.
    """
    if source is not None:
        check_layers(source)
    if source is not None and not config.model:
        net = open_hollow(source, 0) if hollow else open_pretrained(source, torch.float32)
        longest = net.config.max_position_embeddings
        if context and longest and context > longest:
            raise ModelError(
                f"{source}: reads at most {longest} tokens, the rows have {context}; set "
                "train.context_length"
            )
        old_ids = net.config.vocab_size
        _check_room(source, old_ids, ids)
        return open_hollow(source, ids) if hollow else net.grown(ids), max(0, ids - old_ids)
    old_ids = ids
    if source is not None:
        base = read_config(source)
        old_ids, longest = base.vocab_size, base.max_position_embeddings
        _check_room(source, old_ids, ids)
        if longest is not None:  # rows may be short: the model goes on to read what it could
            context = max(context or 0, longest)
    shape = config.shape(max(ids, old_ids), context)
    if hollow:
        with torch.device("meta"):
            model = Transformer(shape)
        model.to_empty(device="cpu")
        return model, 0 if source is None else lacking(source, read_config(source), model)
    model = random_transformer(shape, config.train.seed)
    return model, 0 if source is None else checkpoint.load_weights(source, model)


def frozen(
    config: Config, model: Net, context: int | None, source: Path | None, world: World
) -> Net:
    """Returns the reference of DPO and KTO for a model: one of its shape, without gradients.

    It is what `begun` makes of a folder. Processes that share the weights of the model share those
    of the reference, too, and the first of them reads it. All processes call it. Raises ModelError,
    CheckpointError.
    """
    c = config.train
    shares = world.shares(c.parallel)
    hollow = shares and not world.first
    net, _ = begun(config, model.config.vocab_size, context, source, hollow=hollow)
    if source is not None:
        lacking(source, net.config, model)
    net.requires_grad_(False)
    if not shares:
        return net.to(world.device)
    values = {name: weight.detach() for name, weight in net.named_parameters()}
    spread_out(net, world, c.parallel, precision(c.dtype, world.device))
    send_weights(net, values, world)
    return net


def _check_room(source: Path, old_ids: int, ids: int) -> None:
    if old_ids > ids and not fits(old_ids, ids):
        raise CheckpointError(
            f"{source}: has {old_ids} ids, the data {ids}: these are different vocabularies"
        )


def check_vocabulary(source: Path, files: Mapping[str, str]) -> None:
    """Raises CheckpointError if a model's folder holds another vocabulary than the data has.

    `files` are the digests of the data's vocabulary. A folder without a vocabulary passes.
    """
    if not any((source / name).is_file() for name in NAMES):
        return
    try:
        vocabulary = read_vocabulary(source)
    except VocabularyError as error:
        raise CheckpointError(str(error)) from None
    if vocabulary.sha256 not in files.values():
        raise CheckpointError(
            f"{source}: the data has another vocabulary than this model; prepare it with "
            f"mypt-prepare --vocab {source}"
        )


def named_tags(dialect: Dialect, words: Mapping[str, str]) -> dict[int, list[int]]:
    """Returns the ids of named words, by the ids of the tags that they are for.

    Raises ConfigError for a tag that is no single id.
    """
    tokenizer, out = dialect.tokenizer, dict[int, list[int]]()
    for tag, word in words.items():
        if tag not in tokenizer.special:
            raise ConfigError(
                f"train.tag_words: {tag!r} is not a tag of {dialect.name}; tags are "
                f"{', '.join(tokenizer.special)}"
            )
        ids = tokenizer.encode(word)
        if not ids:
            raise ConfigError(f"train.tag_words: {tag!r} needs a word")
        out[tokenizer.special[tag]] = ids
    return out


@torch.no_grad()
def name_tags(model: Net, tags: Mapping[int, list[int]]) -> None:
    """Sets the rows of tags, in the embedding and the head, to the means of those of words."""
    rows: list[Tensor] = [model.model.embed_tokens.weight]
    head: Any = getattr(model, "lm_head", None)
    if head is not None and head.weight is not rows[0]:
        rows.append(head.weight)
    for weight in rows:
        for tag, ids in tags.items():
            weight[tag] = weight[ids].mean(dim=0)
