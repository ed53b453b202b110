"""The vocabularies of models, where packages that hold them are installed: ids against theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiktoken

import mypt_spec
from mypt_spec.tokenizer.probe import PROBE
from tests.support.build import assistant, chat, system, user
from tests.support.foreign import CHAT
from tests.support.model_vocabularies import RANKS, content, file_of, ranks
from tests.support.vocabulary import texts


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("name", ["qwen", "cl100k"])
def test_ids_of_ranks(name: str, every: bool, tmp_path: Path) -> None:
    """From `tokenizer.json` come the ids that tiktoken gives with the ranks."""
    pytest.importorskip("tokenizers", reason="reads tokenizer.json")
    merges = ranks(name)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content(name, every=every)))
    d = mypt_spec.dialect("mypt", vocabulary=tmp_path)
    plain = tiktoken.Encoding(
        name, pat_str=RANKS[name][2], mergeable_ranks=merges, special_tokens={}
    )
    for text in (PROBE, *texts(), *CHAT):
        assert d.tokenizer.encode(text) == plain.encode_ordinary(text)
    assert d.tokenizer.special["<myPT_system>"] == len(merges) + len(CHAT)


@pytest.mark.parametrize("release", ["240718", "240911"])
def test_ids_of_tekken(release: str) -> None:
    file = file_of("mistral_common", f"data/tekken_{release}.json")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    theirs = Tekkenizer.from_file(file)
    d = mypt_spec.dialect("mypt", vocabulary=file)
    assert d.vocabulary is not None
    for text in (PROBE, *texts(), "[INST]", "</s>"):
        assert d.tokenizer.encode(text) == theirs.encode(text, bos=False, eos=False)
    assert d.vocabulary.special["[INST]"] == theirs.get_special_token("[INST]")
    assert len(d.vocabulary.special) == 1000
    assert str(d.tokenizer.ordinary) == "1000-131071"
    assert d.tokenizer.pad == theirs.get_special_token("<pad>")


def test_ids_of_a_chat_with_qwen(tmp_path: Path) -> None:
    """The ids of whole conversations in ChatML are those of the library on their text."""
    library = pytest.importorskip("tokenizers", reason="reads tokenizer.json")
    (tmp_path / "tokenizer.json").write_text(json.dumps(content("qwen", every=False)))
    theirs = library.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    d = mypt_spec.dialect("chatml", vocabulary=tmp_path)
    assert (d.table.special["<|im_start|>"], d.table.special["<|im_end|>"]) == (151644, 151645)
    some = [text.lstrip() for text in (PROBE, "", *texts())]
    for prompt, question, answer in zip(some, some[1:], some[2:], strict=False):
        episode, _ = d.read(chat(system(prompt), user(question), assistant(answer)))
        assert episode is not None
        encoded = d.encode(episode)
        ids = theirs.encode(d.serialize(episode), add_special_tokens=False).ids
        assert encoded.ids.tolist() == ids
        assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == f"{answer}<|im_end|>"
        assert d.parse_ids(ids) == (episode, [])
