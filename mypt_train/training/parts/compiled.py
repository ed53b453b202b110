"""Compiles the layers of a model by torch.compile, all but their attention.

The layers of a model are alike, so the code for the first serves all. The attention of each batch
is another function, with the lengths of its episodes, which would be compiled for each batch anew;
FlexAttention is compiled already.
"""

from __future__ import annotations

from typing import Any

import torch

from mypt_model.llama import Attend
from mypt_model.pretrained import Net
from mypt_train.training.parts.config import ConfigError


def compile_layers(model: Net) -> None:
    """Lets the layers of a model run compiled, from their first call on.

    Raises ConfigError where torch cannot compile.
    """
    try:
        torch.compile(torch.neg)(torch.ones(2))
    except Exception as error:  # of many kinds: no compiler, no Triton, an unknown platform
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"train.compile: torch cannot compile here: {reason}; install a C++ compiler such as "
            "g++, or leave it out"
        ) from None
    for layer in model.model.layers:
        layer.forward = torch.compile(layer.forward)


def uncompiled(attend: Attend, backend: str) -> Attend:
    """Returns an attention, of a backend, that compiled layers call as it is."""
    disable: Any = torch.compiler.disable
    out: Attend = disable(attend, recursive=backend != "flex")
    return out
