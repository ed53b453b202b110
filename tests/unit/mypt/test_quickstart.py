"""docs/quickstart.md: each of its commands runs as it is shown, one after another, on a tiny model."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mypt_spec
from tests.support.children import child
from tests.support.foreign import tokenizer
from tests.support.linting import ROOT
from tests.support.pages import blocks, commands, run

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("openai")

PAGE = (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")
INSTALL, *BLOCKS = blocks(PAGE, "sh")
# Of SmolLM2, without its system prompt: it has no place for tools.
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SIZES = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
# A tiny model learns to call with larger steps than the page's, and more of them.
LEARNS = {"train.steps=12": "train.steps=60", "train.lr=3e-4": "train.lr=3e-3"}
BRIEF = {"train.steps=60": "train.steps=2"}  # of the adapters
ENV = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
# Names of cities, and the system prompt: the vocabulary is so large that a chat fits a row.
WORDS = [" ".join(BLOCKS)]


def chat() -> dict[str, object]:
    """The chat that the page shows."""
    return json.loads(re.search(r"chat\.json <<'EOF'\n(.*?)\nEOF", PAGE, re.DOTALL)[1])  # type: ignore[index, no-any-return]


def write_model(folder: Path) -> None:
    """Writes a Llama with random weights, as one is downloaded."""
    qwen3 = mypt_spec.dialect("qwen3")
    episode, _ = qwen3.read(chat())
    assert episode is not None
    learnt = tokenizer("smollm", 700, learn=(qwen3.serialize(episode), *WORDS) * 3)
    torch.manual_seed(0)
    sizes = SIZES | {"vocab_size": learnt.get_vocab_size(), "max_position_embeddings": 1024}
    config = transformers.LlamaConfig(**sizes, tie_word_embeddings=True)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    learnt.save(str(folder / "tokenizer.json"))
    config_of_tokenizer = {"eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config_of_tokenizer))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def replace(text: str, pairs: dict[str, str]) -> str:
    for before, after in pairs.items():
        assert before in text
        text = text.replace(before, after)
    return text


def test_the_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (asked,) = re.findall(r"\.\[(.*?)\]", INSTALL)
    assert set(asked.split(",")) <= set(project["optional-dependencies"])


@pytest.mark.extra("peft")
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model")
    served = None
    for block in BLOCKS:
        pairs = LEARNS if "runs/full --set" in block else BRIEF if "runs/lora" in block else {}
        for step in commands(replace(block, pairs)):
            if step[0] == "mypt-serve":
                served = step
            else:
                run(step)
    out, err = capfd.readouterr()
    assert err.count("40 lines clean (1 file)") == 2
    assert "40 lines: 40 written, 0 refused, 0 too long" in err + out
    assert (tmp_path / "runs/lora").is_dir()
    assert (tmp_path / "exported/README.md").is_file()
    called = '"name": "get_weather", "arguments": {"city": "'
    assert called in out[out.rindex("tool_call: ") :]
    assert served is not None
    port = ["0" if word == "8000" else word for word in served[1:]]
    command = [sys.executable, "-m", "mypt.serve", *port]
    (client,) = blocks(PAGE, "python")
    with child(command, stderr=subprocess.PIPE, text=True, env=ENV) as server:
        assert server.stderr is not None
        url = re.search(r"http://\S+/v1", server.stderr.readline())
        assert url is not None
        (tmp_path / "client.py").write_text(client.replace("http://127.0.0.1:8000/v1", url[0]))
        runpy.run_path("client.py")
    assert re.search(r"arguments='{\"city\": \".*\"}', name='get_weather'", capfd.readouterr().out)
