"""llama.cpp as a judge of GBNF: its own sampler says which ids a grammar lets through."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from mypt_spec import Dialect
from mypt_train.export.tokenizer_file import tokenizer_json
from tests.support.rollouts import stop

NORMAL, CONTROL, UNUSED = 1, 3, 5


def write_vocabulary(d: Dialect, path: Path) -> None:
    """Writes a GGUF file with a dialect's vocabulary, and no model."""
    import gguf

    made = tokenizer_json(d)
    size, model = d.tokenizer.vocab_size, made["model"]
    tokens, kinds = [f"<unused {i}>" for i in range(size)], [UNUSED] * size
    for text, i in model["vocab"].items():
        tokens[i], kinds[i] = text, NORMAL
    for entry in made["added_tokens"]:
        tokens[entry["id"]], kinds[entry["id"]] = entry["content"], CONTROL
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    end = stop(d)
    writer.add_eos_token_id(d.tokenizer.pad if end is None else end)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaCpp:
    """The grammar of a dialect in llama.cpp; `tags` are the ids of its tags.

    Raises ValueError for a grammar that llama.cpp cannot read.
    """

    def __init__(self, path: Path, grammar: str, tags: Collection[int]) -> None:
        os.environ["GGML_NO_BACKTRACE"] = "1"
        import llama_cpp

        self.tags = tags
        self.lib = llama_cpp
        wanted = llama_cpp.llama_model_default_params()
        wanted.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), wanted)
        vocab = self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.sampler: Any = llama_cpp.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")
        if not self.sampler:
            raise ValueError("llama.cpp cannot read the grammar")
        self.end = llama_cpp.llama_vocab_eos(vocab)

    def accepts(self, ids: Sequence[int]) -> bool:
        """Returns whether the grammar lets these ids through, and then the end."""
        self.lib.llama_sampler_reset(self.sampler)
        for place, i in enumerate(ids):
            if not self._passes(i):
                return False
            if self._ends(i):  # llama.cpp stops here, and aborts where an id is taken after it
                return place == len(ids) - 1
            if i in self.tags and self._aborts(i):
                return False
            self.lib.llama_sampler_accept(self.sampler, i)
        return self._passes(self.end)

    def _aborts(self, token: int) -> bool:
        """Returns whether llama.cpp ends the process at an id that it lets through.

        It takes a tag for legal where some of its spelling and then the tag would be, and says so
        only when it is taken.
        """
        child = os.fork()
        if not child:
            self.lib.llama_sampler_accept(self.sampler, token)
            os._exit(0)
        return bool(os.waitpid(child, 0)[1])

    def _ends(self, token: int) -> bool:
        return bool(self.lib.llama_vocab_is_eog(self.vocab, token))

    def _passes(self, token: int) -> bool:
        one = (self.lib.llama_token_data * 1)(self.lib.llama_token_data(token, 1.0, 0.0))
        every = self.lib.llama_token_data_array(one, 1, -1, False)
        self.lib.llama_sampler_apply(self.sampler, ctypes.byref(every))
        return not math.isinf(one[0].logit)
