"""Token tables that are made for another vocabulary than GPT-2's: `[vocabulary]` and ids of tags."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.own_format.check import check
from mypt.prepare.cli import main as prepare
from mypt_infer.decode import Decoder
from mypt_spec.tokenizer.sources import read_vocabulary
from mypt_spec.tokenizer.vocabulary import COPIES, JSON_FILE, VocabularyError
from mypt_train import ShardReader
from tests.support.build import chat, write
from tests.support.foreign import QWEN, tekken
from tests.support.foreign import path as foreign
from tests.support.tables import VALIDATOR, head, row, special, write_table
from tests.support.vocabulary import path as small

# `VOCABULARY` is replaced.
TABLE = "\n".join([
    head("tiny", "pad_vocabulary_to = 8"), "VOCABULARY\n",
    row("USER_OPEN", special("[INST]"), 'opens = "user"')
    + row("USER_CLOSE", 'spelling = [{ special = "[/INST]", id = 4 }]', 'closes = "user"')
    + row("ANSWER_OPEN", special("<answer>"), 'opens = "assistant"', "body_loss = 1")
    + row("END", special("</s>"), "id = 2", 'closes = "assistant"', loss=1),
])  # fmt: skip
GRAMMAR = """start: (user answer)+
user: USER_OPEN TEXT USER_CLOSE
answer: ANSWER_OPEN TEXT END
%declare USER_OPEN USER_CLOSE ANSWER_OPEN END TEXT
"""
DECLARED = """[[message]]
role = "user"

[[message]]
role = "assistant"
"""
TEXT = "[INST]Hi 12[/INST]<answer>You're right</s>"


def folder(tmp_path: Path, vocabulary: str, table: str = TABLE) -> Path:
    written = table.replace("VOCABULARY", vocabulary)
    assert VALIDATOR.is_valid(tomllib.loads(written))
    return write_table(tmp_path / "tiny", GRAMMAR, written)


def test_ids_of_tags(tmp_path: Path) -> None:
    """From the vocabulary, from the table, or after the last one."""
    (tmp_path / "tekken.json").write_bytes(tekken().read_bytes())
    d = mypt_spec.load(folder(tmp_path, '[vocabulary]\nkind = "tekken"\nfile = "../tekken.json"'))
    assert d.tokenizer.special == {"[INST]": 3, "[/INST]": 4, "<answer>": 390, "</s>": 2}
    assert (str(d.tokenizer.ordinary), d.tokenizer.pad) == ("10-389", 5)
    assert d.tokenizer.vocab_size == 392
    episode, _ = d.parse(TEXT)
    assert episode is not None
    encoded = d.encode(episode)
    assert d.tokenizer.decode(encoded.ids) == TEXT
    assert d.parse_ids(encoded.ids)[0] == episode
    assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == "You're right</s>"
    state = Decoder(d).start([3, *d.tokenizer.encode("Hi"), 4, 390])
    assert 2 in Decoder(d).ids(Decoder(d).next(state, d.tokenizer.encode("Yo")[0]))


def test_a_user_names_the_vocabulary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without one there are tags and rules, and no ids."""
    here = folder(tmp_path, '[vocabulary]\nkind = "tekken"')
    d = mypt_spec.load(here)
    episode, findings = d.parse(TEXT)
    assert episode is not None
    assert findings == []
    says = r"tiny has ids only on a vocabulary \(tekken\): name"
    with pytest.raises(VocabularyError, match=says):
        d.encode(episode)
    with pytest.raises(VocabularyError, match="only on a vocabulary"):
        Decoder(d)
    assert {f.code for f in d.parse_ids([-2, -3, 3, 20])[1]} >= {"MYP503"}
    on = mypt_spec.dialect(here, vocabulary=tekken())
    assert on.encode(episode).ids[0] == 3
    assert on.fingerprint != d.fingerprint


def test_another_vocabulary_than_it_is_made_for(tmp_path: Path) -> None:
    vocabulary = read_vocabulary(tekken())
    here = folder(tmp_path, f'[vocabulary]\nkind = "tekken"\nsha256 = "{vocabulary.sha256}"')
    assert mypt_spec.dialect(here, vocabulary=tekken()).tokenizer.special["</s>"] == 2
    copy = tmp_path / JSON_FILE
    copy.write_bytes(vocabulary.data)
    one, other = (mypt_spec.dialect(here, vocabulary=file) for file in (copy, tekken()))
    assert one.fingerprint == other.fingerprint
    with pytest.raises(VocabularyError, match=f"one: SHA-256 .* says {vocabulary.sha256}"):
        mypt_spec.dialect(here, vocabulary=small())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("id = 2", "id = 20", "id 20 of '</s>' does not fit the vocabulary: it has id 2 there"),
        ('"[/INST]", id = 4', '"<x>", id = 4', "id 4 of '<x>' .*: it is of '\\[/INST\\]' there"),
        ('"[/INST]", id = 4', '"<x>", id = 40', "id 40 of '<x>' .*: it is of text there"),
        (
            '"[/INST]", id = 4',
            '"<x>", id = 999999',
            "id 999,999 of '<x>' .*: its last id is 389, and",
        ),
    ],
)
def test_ids_that_do_not_fit(tmp_path: Path, old: str, new: str, says: str) -> None:
    here = folder(tmp_path, '[vocabulary]\nkind = "tekken"', TABLE.replace(old, new))
    with pytest.raises(VocabularyError, match=says):
        mypt_spec.dialect(here, vocabulary=tekken())


def test_ids_that_models_leave_unused_are_free(tmp_path: Path) -> None:
    """Models have more rows of embeddings than their vocabulary has ids."""
    table = TABLE.replace('"[/INST]", id = 4', '"<x>", id = 1500')
    here = folder(tmp_path, '[vocabulary]\nkind = "tekken"', table)
    d = mypt_spec.dialect(here, vocabulary=tekken())
    assert d.tokenizer.special["<x>"] == 1500


def test_ranks_with_a_special_id_far_above(tmp_path: Path) -> None:
    vocabulary = '[vocabulary]\nkind = "ranks"\nfile = "r.tiktoken"\nspecial = { "</s>" = 999999 }'
    here = folder(tmp_path, vocabulary, TABLE.replace(", id = 4", "").replace("id = 2\n", ""))
    (here / "r.tiktoken").write_bytes(small().read_bytes())
    with pytest.raises(VocabularyError, match="id 999,999 of '</s>' does not fit"):
        mypt_spec.load(here)


def test_ranks_with_a_pattern(tmp_path: Path) -> None:
    vocabulary = f"[vocabulary]\nkind = \"ranks\"\nfile = \"r.tiktoken\"\npattern = '''{QWEN}'''\n"
    vocabulary += 'special = { "<pad>" = 380, "[INST]" = 381, "</s>" = 2000 }'
    table = TABLE.replace(", id = 4", "").replace("id = 2\n", "")
    here = folder(tmp_path, vocabulary, table)
    (here / "r.tiktoken").write_bytes(small().read_bytes())
    d = mypt_spec.load(here)
    assert d.tokenizer.special == {"[INST]": 381, "[/INST]": 2001, "<answer>": 2002, "</s>": 2000}
    assert d.tokenizer.pad == 380
    assert d.vocabulary is not None
    assert d.vocabulary.patterns == (QWEN,)
    same = mypt_spec.dialect("mypt", vocabulary=tekken()).tokenizer
    text = "I'LL say  12 34\n\n x"
    assert d.tokenizer.encode(text) == [i - 10 for i in same.encode(text)]


def test_a_folder_is_checked(tmp_path: Path) -> None:
    """Without a vocabulary as far as that goes, and with one whole."""
    here = folder(tmp_path, '[vocabulary]\nkind = "tekken"')
    (here / "records.toml").write_text(DECLARED, encoding="utf-8")
    results = {result.name: result for result in check(here)}
    assert results["text"].fine
    assert results["ids"].fine is None
    assert "names no file" in results["ids"].detail
    tokens = here / "tokens.toml"
    named = tokens.read_text(encoding="utf-8").replace('"tekken"', '"tekken"\nfile = "t.json"')
    tokens.write_text(named, encoding="utf-8")
    (only,) = check(here)
    assert only.fine is False
    assert "t.json: cannot be read" in only.detail
    (here / "t.json").write_bytes(tekken().read_bytes())
    results = {result.name: result for result in check(here)}
    assert results["ids"].fine
    assert "decoder" in results


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    here = folder(tmp_path, '[vocabulary]\nkind = "tekken"\nfile = "none.json"')
    with pytest.raises(VocabularyError, match=r"none\.json: cannot be read"):
        mypt_spec.load(here)
    assert mypt_spec.dialect(here, vocabulary=tekken()).tokenizer.special["[INST]"] == 3


@pytest.mark.parametrize("named", [False, True])
def test_prepared_data_keep_all(
    tmp_path: Path, named: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    vocabulary = '[vocabulary]\nkind = "tekken"' + ("" if named else '\nfile = "tekken.json"')
    here = folder(tmp_path, vocabulary)
    (here / "records.toml").write_text(DECLARED, encoding="utf-8")
    path, out = write(tmp_path / "x.jsonl", chat()), str(tmp_path / "o")
    args = [path, "--dialect", f"{here}/", "--out", out, "--workers", "1", "-q"]
    args += ["--context-length", "64"]
    if named:
        assert prepare(args) == 2
        assert "tiny has ids only on a vocabulary" in capsys.readouterr().err
        args += ["--vocab", str(tekken())]
    else:
        (here / "tekken.json").write_bytes(tekken().read_bytes())
    assert prepare(args) == 0, capsys.readouterr().err
    for file in [*here.iterdir()]:
        file.unlink()
    assert (tmp_path / "o" / COPIES[1]).is_file()
    reader = ShardReader(tmp_path / "o", verify=True)
    ((ids, _),) = [e for shard in reader.shards() for e in shard.episodes()]
    assert reader.dialect.tokenizer.decode(ids) == "[INST]Hi[/INST]<answer>Hello.</s>"
    assert lint([str(tmp_path / "o")]) == 0


@pytest.mark.parametrize("tags", [[], ["<tool_response>", "</tool_response>"]])
def test_a_tag_may_be_text_where_the_vocabulary_lacks_it(tmp_path: Path, tags: list[str]) -> None:
    """As results in Qwen2.5: its own tokenizer has tokens for calls alone, that of Qwen3 for both."""
    tokenizers = pytest.importorskip("tokenizers")
    library = tokenizers.Tokenizer.from_file(str(foreign("smollm") / "tokenizer.json"))
    library.add_special_tokens(["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", *tags])
    library.save(str(tmp_path / "tokenizer.json"))
    d = mypt_spec.dialect("qwen2.5", vocabulary=tmp_path)
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    result = {"role": "tool", "content": "1"}
    asked = {"role": "assistant", "content": "", "tool_calls": [call, call]}
    answer = {"role": "assistant", "content": "Yes."}
    messages = [{"role": "user", "content": "Hi"}, asked, result, result, answer]
    episode, _ = d.read({"messages": messages})
    assert episode is not None
    ids = d.encode(episode).ids.tolist()
    assert ids == library.encode(d.serialize(episode), add_special_tokens=False).ids
    assert ("<tool_response>" in d.table.special) == bool(tags)
    assert d.parse_ids(ids) == (episode, [])


def test_only_special_tokens_may_be_text(tmp_path: Path) -> None:
    table = TABLE.replace("VOCABULARY", "").replace("[dialect]", '[dialect]\ntexts = ["x"]')
    with pytest.raises(mypt_spec.SpecError, match="\"texts\" names 'x', which is no special"):
        mypt_spec.load(write_table(tmp_path / "tiny", GRAMMAR, table))
