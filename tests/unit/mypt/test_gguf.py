"""GGUF files where commands take a model folder."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from mypt.generate import main as generate
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
from mypt.train import main as train
from mypt_cli.errors import UsageError
from mypt_cli.store import gguf as module
from mypt_cli.store.gguf import model_path

WIDTH, LAYERS, HEADS = 32, 1, 2
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
)
RECORD = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
    ]
}


def write_gguf(path: Path, *, arch: str = "llama", without: str = "") -> Path:
    """Writes a tiny model with a byte-level vocabulary."""
    import gguf

    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    letters = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra{i}|>" for i in range(60))]
    tokens = [letters[b] for b in range(256)] + ["He", *special]
    kinds = [gguf.TokenType.NORMAL] * 257 + [gguf.TokenType.CONTROL] * 63
    out = gguf.GGUFWriter(path, arch)
    out.add_context_length(128)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(64)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_freq_base(10000.0)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("default")
    out.add_token_list(tokens)
    out.add_token_types(kinds)
    out.add_token_merges(["H e"])
    out.add_bos_token_id(258)
    out.add_eos_token_id(259)
    out.add_chat_template(TEMPLATE)
    shapes = {
        "token_embd": (len(tokens), WIDTH),
        "output_norm": (WIDTH,),
        "output": (len(tokens), WIDTH),
    }
    for i in range(LAYERS):
        shapes |= {
            f"blk.{i}.{n}": (WIDTH, WIDTH) for n in ("attn_q", "attn_k", "attn_v", "attn_output")
        }
        shapes |= {f"blk.{i}.{n}": (WIDTH,) for n in ("attn_norm", "ffn_norm")}
        shapes |= {f"blk.{i}.{n}": (64, WIDTH) for n in ("ffn_gate", "ffn_up")}
        shapes[f"blk.{i}.ffn_down"] = (WIDTH, 64)
    random = np.random.default_rng(1)
    for name, shape in shapes.items():
        if name != without:
            out.add_tensor(f"{name}.weight", random.normal(0, 0.1, shape).astype(np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    warnings.simplefilter("ignore")  # of transformers


@pytest.mark.extra("gguf")
def test_a_file_becomes_a_folder_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch
    from safetensors.torch import load_file

    file = write_gguf(tmp_path / "tiny.gguf")
    folder = Path(model_path(str(file)))
    assert folder.name == "tiny"
    assert folder.is_relative_to(tmp_path / "cache" / "mypt-tags" / "gguf")
    assert "turning it into a model folder" in capsys.readouterr().err
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["vocab_size"]) == ("llama", 320)
    assert "quantization_config" not in config
    weights = load_file(folder / "model.safetensors")
    assert {w.dtype for w in weights.values()} == {torch.bfloat16}
    wanted = np.random.default_rng(1).normal(0, 0.1, (320, WIDTH)).astype(np.float32)
    written = weights["model.embed_tokens.weight"]
    assert torch.equal(written, torch.from_numpy(wanted).to(torch.bfloat16))
    assert model_path(str(file)) == str(folder)
    assert capsys.readouterr().err == ""
    write_gguf(file, without="none")
    assert model_path(str(file)) != str(folder)  # another time of change


@pytest.mark.extra("gguf")
def test_commands_take_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write_gguf(tmp_path / "tiny.gguf"))
    record, prompt, data, run = (tmp_path / n for n in ("r.jsonl", "p.json", "data", "run"))
    record.write_text((json.dumps(RECORD) + "\n") * 8)
    prompt.write_text(json.dumps(RECORD | {"messages": RECORD["messages"][:2]}))
    assert lint(["--template", file]) in (0, 1)
    words = [
        str(record),
        "--dialect",
        "chatml",
        "--vocab",
        file,
        "-o",
        str(data),
        "--context-length",
        "64",
    ]
    assert prepare([*words, "--val", "0"]) == 0, capsys.readouterr().err
    words = ["--data", str(data), "--init-from", file, "--out", str(run), "--steps", "1"]
    assert train([*words, "--set", "train.steps=1"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    words = [
        "--model",
        file,
        "--dialect",
        "chatml",
        "--prompt",
        str(prompt),
        "--max-new-tokens",
        "9",
    ]
    assert generate([*words, "--json", "--seed", "1"]) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["ids"][-1] in range(320)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    with pytest.raises(UsageError, match=r"x\.gguf: no such file; name a GGUF file"):
        model_path(str(file))
    file.write_bytes(b"PK\x03\x04")
    with pytest.raises(UsageError, match=r"not a GGUF file: it begins with .*; download it again"):
        model_path(str(file))
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(UsageError, match=r"a Git LFS pointer; run git lfs pull"):
        model_path(str(file))
    with pytest.raises(UsageError, match=r"is a URL; name a GGUF file here, and download it first"):
        model_path("s3://models/x.gguf")


def test_other_paths_stay(tmp_path: Path) -> None:
    for path in ("gpt2", "runs/tiny", str(tmp_path), "s3://models/x"):
        assert model_path(path) == path


def test_packages_that_are_missing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "gguf" else name)
    with pytest.raises(UsageError, match=r"GGUF files need gguf; pip install 'mypt-tags\[gguf\]'"):
        model_path(str(tmp_path / "x.gguf"))
    assert not list((tmp_path / "cache").rglob("x"))


@pytest.mark.extra("gguf")
def test_what_transformers_cannot_read_is_refused(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf", arch="rwkv6")
    with pytest.raises(
        UsageError, match=r"cannot read this GGUF file: .*rwkv6.*name the folder of"
    ):
        model_path(str(file))
    assert not list((tmp_path / "cache").rglob("*.json"))


@pytest.mark.extra("gguf")
def test_weights_that_are_missing_are_named(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf", without="blk.0.attn_q")
    with pytest.raises(UsageError, match=r"no weights for .*q_proj.*llama-gguf-split --merge"):
        model_path(str(file))
