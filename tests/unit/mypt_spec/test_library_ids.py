"""Ids of texts of all scripts are those of the library `tokenizers`, on vocabularies made here."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import is_normalized, normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.decode.decoder import Decoder
from mypt_infer.decode.prompt import prompt_ids
from mypt_spec import VocabularyError
from mypt_spec.tokenizer.runs import encode_run
from mypt_spec.tokenizer.sources import read_vocabulary
from mypt_train.export.tokenizer_file import tokenizer_json
from tests.support.build import assistant, chat, function, user
from tests.support.examples import THOROUGH, examples
from tests.support.foreign import KINDS, tokenizer
from tests.support.scripts import APART, MARKUP, SCRIPTS

pytestmark = pytest.mark.skipif(
    find_spec("tokenizers") is None, reason="tokenizers is not installed: it reads tokenizer.json"
)
TEXTS = (*SCRIPTS, *MARKUP, *APART)
WRITTEN = st.lists(st.sampled_from(TEXTS), max_size=6).map("".join)


def saved(folder: Path, kind: str, *added: Any) -> Any:
    """The library's tokenizer of a kind, in a folder; "nfc" is Qwen's, which composes."""
    from tokenizers import normalizers

    parts = {"normalizer": normalizers.NFC()} if kind == "nfc" else {}
    library = tokenizer("qwen" if kind == "nfc" else kind, **parts)
    library.add_tokens([*added])
    library.save(str(folder / "tokenizer.json"))
    library.encode_special_tokens = True  # text stays text, as it always does here
    return library


@pytest.fixture(scope="module", params=[*KINDS, "nfc"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(request.param)
    library = saved(folder, request.param)
    return mypt_spec.dialect("chatml", vocabulary=folder), library, request.param == "nfc"


@pytest.fixture(scope="module")
def nfc(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("nfc")
    library = saved(folder, "nfc")
    return mypt_spec.dialect("chatml", vocabulary=folder), library


def ids_of(library: Any, text: str) -> list[int]:
    ids: list[int] = library.encode(text, add_special_tokens=False).ids
    return ids


def test_ids_of_all_scripts(both: Any) -> None:
    d, library, composes = both
    for text in (*TEXTS, "".join(TEXTS), " ".join(TEXTS)):
        ids, written = d.tokenizer.encode(text), normalize("NFC", text) if composes else text
        assert ids == ids_of(library, text), text
        assert d.tokenizer.decode_bytes(ids) == written.encode()
        assert library.decode(ids, skip_special_tokens=False) == written
        decoder = codecs.getincrementaldecoder("utf-8")()
        assert "".join(decoder.decode(d.tokenizer.decode_bytes([i])) for i in ids) == written
    every_id, lengths = d.tokenizer.encode_batch([*TEXTS])
    assert every_id.tolist() == [i for text in TEXTS for i in ids_of(library, text)]
    assert lengths.tolist() == [len(ids_of(library, text)) for text in TEXTS]


@settings(max_examples=examples(200), deadline=None)
@given(text=WRITTEN)
def test_texts_are_composed_as_the_library_composes_them(nfc: Any, text: str) -> None:
    d, library = nfc
    assert d.tokenizer.encode(text) == ids_of(library, text)
    written = d.tokenizer.encode_as_written(text)
    assert d.tokenizer.decode(written) == text
    library.normalizer, usual = None, library.normalizer
    assert written == ids_of(library, text)
    library.normalizer = usual


@settings(max_examples=examples(200), deadline=None)
@given(texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5))
def test_a_run_is_composed_as_a_whole(nfc: Any, texts: list[str]) -> None:
    """Each token belongs to the text in which it begins, though texts grow shorter."""
    d, library = nfc
    parts = [*encode_run([*enumerate(texts)], d.tokenizer)]
    assert [i for _, ids in parts for i in ids] == ids_of(library, "".join(texts))
    begins = [len(normalize("NFC", "".join(texts[:n])).encode()) for n in range(len(texts))]
    at = 0
    for number, ids in parts:
        for i in ids:
            assert number == max(n for n, begin in enumerate(begins) if begin <= at)
            at += d.tokenizer.length(i)


def records(texts: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for text in filter(str.strip, texts):
        yield chat(user(text.strip()), assistant(f"Yes: {text.strip()}."))


def test_a_conversation_has_the_ids_of_the_text(nfc: Any) -> None:
    """It is read back in NFC, and then nothing is left to compose: MYP369 says so."""
    d, library = nfc
    library.encode_special_tokens = False
    for record in records((*APART, *SCRIPTS)):
        episode, _ = d.read(record)
        encoded, text = d.encode(episode), d.serialize(episode)
        assert encoded.ids.tolist() == ids_of(library, text)
        assert encoded.ids[encoded.loss == 1].tolist()
        back, _ = d.parse_ids(encoded.ids)
        assert d.serialize(back) == normalize("NFC", text)
        assert d.encode(back).ids.tolist() == encoded.ids.tolist()
        assert d.encode(back).loss.tolist() == encoded.loss.tolist()
        codes = [f.code for f in d.check(record)[1]]
        assert codes.count("MYP369") == sum(not is_normalized("NFC", m["content"]) for m in record["messages"])  # fmt: skip
    library.encode_special_tokens = True


def test_copy_and_export_compose_too(nfc: Any, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    d, library = nfc
    file = tmp_path / d.vocabulary.file
    file.write_bytes(d.vocabulary.data)
    copied = mypt_spec.dialect("chatml", vocabulary=file)
    assert (copied.table, copied.fingerprint) == (d.table, d.fingerprint)
    exported = Tokenizer.from_str(json.dumps(tokenizer_json(d)))
    exported.encode_special_tokens = True
    for text in TEXTS:
        assert copied.tokenizer.encode(text) == ids_of(exported, text) == ids_of(library, text)


@pytest.mark.skipif(not THOROUGH, reason="compiles the calls of a format, which takes seconds")
def test_forced_text_is_spelled_as_the_schema_has_it(tmp_path: Path) -> None:
    """A value that is not in NFC must be written as it is, or it would be another value."""
    saved(tmp_path, "nfc")
    d = mypt_spec.dialect("qwen3", vocabulary=tmp_path)
    schema = {"q": {"type": "string", "enum": ["Cafe\u0301"]}}
    tools = [function("find", schema, required=["q"])]
    episode, _ = d.read(chat(user("e\u0301?")) | {"tools": tools})
    assert episode is not None
    decoder, ids = Decoder(d, tools), prompt_ids(d, episode)
    ids.append(d.tokenizer.special["<tool_call>"])
    state = decoder.start(ids)
    forced = decoder.forced(state, ids)
    assert '{"q": "Cafe\u0301"' in d.tokenizer.decode(forced)


def test_text_that_is_found_before_nfc_is_refused(tmp_path: Path) -> None:
    from tokenizers import AddedToken

    saved(tmp_path, "nfc", AddedToken("cafe", normalized=False))
    with pytest.raises(VocabularyError, match="'cafe' is text that is found before NFC is applied"):
        read_vocabulary(tmp_path)
    saved(tmp_path, "nfc", AddedToken("cafe", normalized=True))
    assert read_vocabulary(tmp_path).composed
