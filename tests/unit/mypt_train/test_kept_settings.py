"""What the folder of a model says of it survives training and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from tests.support.training import SHAPE, config, data

pytest.importorskip("torch")

from mypt_infer.generate.llama import load
from mypt_train.export.folder import export
from mypt_train.training.parts.config import Config
from mypt_train.training.trainer import train

FACTS = {
    "max_position_embeddings": 8192,
    "bos_token_id": 1,
    "eos_token_id": [2, 5],
    "pad_token_id": 2,
}
GENERATION = {"temperature": 0.2, "top_p": 0.9, "_from_model_config": True}
GENERATION |= {"transformers_version": "5.0.0"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Rows of 512 tokens, and a model of another program that reads 8,192."""
    from safetensors.torch import save_file

    from mypt_model.llama import random_transformer

    folder = tmp_path_factory.mktemp("base")
    rows = data(folder / "rows")
    ids = mypt_spec.dialect("mypt").tokenizer.vocab_size
    model = random_transformer(Config.load({"model": SHAPE}).shape(ids), 5)
    said = model.config.as_json() | FACTS
    (folder / "config.json").write_text(json.dumps(said))
    (folder / "generation_config.json").write_text(json.dumps(GENERATION))
    save_file(dict(model.state_dict()), folder / "model.safetensors", metadata={"format": "pt"})
    return rows, folder


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.mark.parametrize("named", [False, True], ids=["its own shape", "the config's shape"])
def test_what_a_model_says_of_itself_survives(
    base: tuple[Path, Path], named: bool, tmp_path: Path
) -> None:
    rows, folder = base
    chosen = config(steps=2) | ({} if named else {"model": {}})
    report = train(rows, chosen, tmp_path / "run", steps=1, init_from=folder)
    kept = read(report.folder / "config.json")
    expected = FACTS if not named else {"max_position_embeddings": 8192}
    assert {key: kept[key] for key in expected} == expected
    assert read(report.folder / "generation_config.json") == GENERATION
    again = train(rows, chosen, tmp_path / "run", resume=True)
    assert read(again.folder / "config.json") == kept
    exported = export(again.folder, tmp_path / "out")
    assert read(exported / "config.json")["max_position_embeddings"] == 8192
    settings = read(exported / "generation_config.json")
    assert (settings["temperature"], settings["top_p"]) == (0.2, 0.9)
    assert not {"transformers_version", "_from_model_config"} & settings.keys()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "expected an object"),
        ('{"temperature": "hot"}', "temperature is 'hot', expected a number"),
        ('{"top_k": 1.5}', "top_k is 1.5, expected a whole number"),
        ('{"eos_token_id": [2, "x"]}', "eos_token_id is 'x', expected a whole number"),
        ('{"eos_token_id": true}', "eos_token_id is True, expected a whole number"),
        ('{"eos_token_id": [2, 999999]}', "eos_token_id is 999999, but the model has"),
        ('{"eos_token_id": -1}', "eos_token_id is -1, but the model has"),
    ],
)
def test_broken_settings_of_generation_are_named(
    base: tuple[Path, Path], text: str, words: str, tmp_path: Path
) -> None:
    from mypt_model.shape import ModelError

    rows, folder = base
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "generation_config.json").unlink()
    (tmp_path / "generation_config.json").write_text(text)
    with pytest.raises(ModelError) as caught:
        load(tmp_path)
    assert words in str(caught.value)
    assert "copy the file that came with the model, or delete it" in str(caught.value)
    with pytest.raises(ModelError) as again:
        train(rows, config(steps=2) | {"model": {}}, tmp_path / "run", init_from=tmp_path)
    assert str(again.value) == str(caught.value)
