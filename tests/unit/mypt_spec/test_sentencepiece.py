"""Vocabularies converted from SentencePiece: ids are the library's, and what is refused."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.own_format.begin import begin
from mypt.prepare.cli import main as prepare
from mypt_infer.decode.decoder import Decoder
from mypt_spec import VocabularyError
from mypt_spec.tokenizer.probe import PROBE
from mypt_spec.tokenizer.sources import read_vocabulary
from mypt_train.export.tokenizer_file import tokenizer_json
from tests.support.examples import examples
from tests.support.scripts import SCRIPTS
from tests.support.sentencepiece import KINDS, PREPEND, SIGN, TO_SIGN, content_of, metaspace

pytestmark = pytest.mark.skipif(
    find_spec("tokenizers") is None, reason="tokenizers is not installed: it reads tokenizer.json"
)
ADDED = ("<b>", "</td>", "\n\n", "\n\n\n", "[multi]", SIGN * 2)
CHARS = sorted(set("".join(SCRIPTS)))


def saved(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


def library_of(content: dict[str, Any]) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_str(json.dumps(content))


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    content = content_of(request.param, added=ADDED)
    folder = saved(tmp_path_factory.mktemp(request.param), content)
    return mypt_spec.dialect("chatml", vocabulary=folder), library_of(content)


@settings(max_examples=examples(400), deadline=None)
@given(
    parts=st.lists(
        st.sampled_from(SCRIPTS) | st.text(st.sampled_from(CHARS), max_size=8) | st.text(max_size=4)
    )
)
def test_ids_are_the_librarys(both: Any, parts: list[str]) -> None:
    ours, library = both
    text = "".join(parts).replace(SIGN, "").encode("utf-8", "ignore").decode()
    ids = ours.tokenizer.encode(text)
    theirs = library.encode(f"<bos>{text}", add_special_tokens=False).ids[1:]
    tags = {i for tag, i in ours.vocabulary.special.items() if tag in text}
    assert tags or ids == theirs
    assert ours.tokenizer.decode_bytes(ids) == text.encode()


def test_all_texts_together(both: Any) -> None:
    ours, library = both
    texts = [PROBE, *SCRIPTS, " ".join(SCRIPTS), " " * 9000, "x" * 9000, ""]
    ids, lengths = ours.tokenizer.encode_batch(texts)
    expected = [library.encode(f"<bos>{t}", add_special_tokens=False).ids[1:] for t in texts]
    assert ids.tolist() == [i for one in expected for i in one]
    assert lengths.tolist() == [*map(len, expected)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_has_the_ids_of_its_text(kind: str, tmp_path: Path) -> None:
    """Special tokens part the text, and no text after one begins with a space that is not there."""
    begin(tmp_path / "own")
    content = content_of(kind, added=ADDED)
    ours = mypt_spec.dialect(tmp_path / "own", vocabulary=saved(tmp_path, content))
    for text in (" Hi  there, 字?", "Hi ", *filter(str.strip, SCRIPTS)):
        record = {"messages": [
            {"role": "user", "content": text}, {"role": "assistant", "content": f"Yes: {text}."},
        ]}  # fmt: skip
        episode, findings = ours.read(record)
        assert episode is not None, findings
        ids = ours.encode(episode).ids.tolist()
        assert ids == library_of(content).encode(ours.serialize(episode)).ids
        assert ours.parse_ids(ids)[0] == episode


def test_the_copy_says_all(both: Any, tmp_path: Path) -> None:
    ours, _ = both
    file = tmp_path / ours.vocabulary.file
    file.write_bytes(ours.vocabulary.data)
    again = read_vocabulary(file)
    assert again.data == ours.vocabulary.data
    copied = mypt_spec.dialect("chatml", vocabulary=file)
    text = PROBE + " ".join(SCRIPTS)
    assert copied.tokenizer.encode(text) == ours.tokenizer.encode(text)


def test_the_export_gives_the_same_ids(both: Any) -> None:
    ours, _ = both
    exported = library_of(tokenizer_json(ours))
    for text in (PROBE, *SCRIPTS, " ".join(SCRIPTS)):
        ids = exported.encode(text, add_special_tokens=False).ids
        assert ids == ours.tokenizer.encode(text), text
        assert exported.decode(ids, skip_special_tokens=False) == text


def test_the_decoder_allows_the_encoders_ids(both: Any) -> None:
    ours, _ = both
    record = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes, 字 😀\x01."}]}  # fmt: skip
    episode, _ = ours.read(record)
    assert episode is not None
    decoder, ids = Decoder(ours), ours.encode(episode).ids.tolist()
    trained = ours.encode(episode).loss.tolist()
    begin_at = trained.index(1)
    state = decoder.start(ids[:begin_at])
    for i, loss in zip(ids[begin_at:], trained[begin_at:], strict=True):
        if not loss:
            break
        assert decoder.takes(state, i)
        state = decoder.next(state, i)


def test_prepare(both: Any, tmp_path: Path) -> None:
    ours, _ = both
    record = {"messages": [{"role": "user", "content": "Hi 字"}, {"role": "assistant", "content": "Yes"}]}  # fmt: skip
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    (tmp_path / "v.json").write_bytes(ours.vocabulary.data)
    out = tmp_path / "out"
    argv = [str(tmp_path / "a.jsonl"), "--dialect", "chatml", "--vocab", str(tmp_path / "v.json")]
    assert prepare([*argv, "--out", str(out), "--context", "64", "--val", "0"]) == 0
    episode, _ = ours.read(record)
    ids = ours.encode(episode).ids
    rows = [np.fromfile(shard, np.uint16).tolist() for shard in out.glob("train/*.bin")]
    assert any(row[: len(ids)] == ids.tolist() for row in rows)


def test_the_sign_itself_has_a_finding(both: Any) -> None:
    ours, library = both
    text = f"a{SIGN}b"
    assert ours.tokenizer.decode(ours.tokenizer.encode(text)) == text
    record = {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Y"}]}  # fmt: skip
    assert [f.code for f in ours.check(record)[1]] == ["MYP369"]
    assert library.encode(text).ids == library.encode("a b").ids


ALWAYS = "it puts a space before the text after each special token"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"normalizer": {"type": "Sequence", "normalizers": [PREPEND, TO_SIGN]}}, ALWAYS),
        ({"normalizer": None, "pre_tokenizer": metaspace("always", split=True)}, ALWAYS),
        ({"normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": SIGN}}, ALWAYS),
        ({"normalizer": {"type": "NFKC"}}, "it normalises text with NFKC"),
        ({"model": {"byte_fallback": False}}, "with byte_fallback, of text as it is"),
        ({"model": {"type": "Unigram"}}, "its model is Unigram; only BPE is read"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    content = content_of("bare")
    model = content["model"] | change.get("model", {})
    file = saved(tmp_path, content | change | {"model": model})
    with pytest.raises(VocabularyError, match=says):
        mypt_spec.dialect("chatml", vocabulary=file)


def test_a_format_that_begins_with_text_is_refused(tmp_path: Path) -> None:
    """There the library would put a space before the first text."""
    saved(tmp_path, content_of("mistral"))
    for name in ("tags", "own"):
        begin(tmp_path / name)
    assert mypt_spec.dialect(tmp_path / "tags", vocabulary=tmp_path)
    table = tmp_path / "own" / "tokens.toml"
    table.write_text(table.read_text().replace('special = "', 'text = "'))
    with pytest.raises(VocabularyError, match="puts a space before what begins with text"):
        mypt_spec.dialect(tmp_path / "own", vocabulary=tmp_path)


def test_byte_level_with_byte_fallback_that_does_nothing(tmp_path: Path) -> None:
    """As transformers writes it for SmolLM2 from its GGUF."""
    from tests.support.foreign import path

    content = json.loads((path("qwen") / "tokenizer.json").read_bytes())
    usual = mypt_spec.dialect("mypt", vocabulary=path("qwen"))
    content["model"]["byte_fallback"] = True
    assert mypt_spec.dialect("mypt", vocabulary=saved(tmp_path, content)).table == usual.table
