"""Reads `tekken.json` of Mistral: ranks and a pattern, after the ids of special tokens.

The file says how many special tokens there are; text has the ids after these. Files up to version 7
may leave out what the special tokens are called, and then it is `OLD`. Ids that the file does not
name are called `<SPECIAL_number>`. mistral-common encodes with tiktoken too, so nothing has to be
tried here; a test compares the ids of both.
"""

import base64
from typing import Any

from mypt_spec.tokenizer.vocabulary import Vocabulary, VocabularyError, from_tokens

OLD = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
    "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)  # fmt: skip


def from_tekken(content: dict[str, Any], path: str) -> Vocabulary:
    """Returns the vocabulary of the content of a `tekken.json`. Raises VocabularyError."""
    try:
        config = content["config"]
        count = int(config["default_num_special_tokens"])
        size = int(config["default_vocab_size"]) - count
        rows = content.get("special_tokens")
        special = (
            {tag: i for i, tag in enumerate(OLD)}
            if rows is None
            else {str(row["token_str"]): int(row["rank"]) for row in rows}
        )
        ranks = {
            base64.b64decode(row["token_bytes"], validate=True): int(row["rank"]) + count
            for row in content["vocab"]
            if int(row["rank"]) < size
        }
        if len(ranks) != size or len(special) > count or size < 256:
            raise ValueError(f"{len(ranks)} tokens of text and {len(special)} special ones")
        special |= {f"<SPECIAL_{i}>": i for i in sorted({*range(count)} - {*special.values()})}
        return from_tokens(ranks, special, (str(config["pattern"]),))
    except (KeyError, TypeError, ValueError) as error:
        raise VocabularyError(f"{path}: is not a complete tekken.json: {error!r}") from None
