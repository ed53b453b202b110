"""What a search finds, what it does not find, and the scores of what it found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mypt_infer.workspace import Chunk, WorkspaceEngine
from mypt_infer.workspace.index.ranking import Word, lengths, rank
from tests.support.build import write_texts
from tests.support.embedder import HashingEmbedder
from tests.support.tolerance import assert_close, is_close

TEXTS = {
    "zh.txt": "员工手册\n\n所有员工必须每九十天更换一次密码。年假为十五天，请假需要提前申请。\n",
    "ja.txt": "就業規則\n\n有給休暇は年に二十日です。パスワードは毎月変更してください。\n",
    "ko.txt": "보안 규정\n\n비밀번호를 90일마다 바꾸어야 합니다. 휴가는 15일입니다.\n",
    "th.txt": "ระเบียบ\n\nพนักงานต้องเปลี่ยนรหัสผ่านทุกเก้าสิบวัน\n",
    "ru.txt": "Правила\n\nПароли меняются каждые девяносто дней. Отпуск пятнадцать дней.\n",
    "ar.txt": "قواعد\n\nيجب تغيير كلمة المرور كل تسعين يوما\n",
    "hi.txt": "नियम\n\nहर नब्बे दिन में पासवर्ड बदलना चाहिए\n",
    "de.txt": "Hausordnung\n\nDie Mietpreisbremse gilt für alle Wohnungen, und die Größe der Räume ist in "
    "dem Vertrag genannt. Kennwörter werden nicht gespeichert.\n",
    "en.txt": "Security policy\n\nPasswords are rotated every ninety days. MAX_RETRIES is the limit for "
    "the function parse_args in x86_64 builds, and policies are reviewed yearly.\n",
    "code.txt": "Release notes\n\nThe option --dry-run of foo2bar prints what it would do.\n",
}


@pytest.fixture(scope="module", params=["words", "hashing"])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> WorkspaceEngine:
    base = write_texts(tmp_path_factory.mktemp("docs"), TEXTS)
    embedder = HashingEmbedder() if request.param == "hashing" else None
    return WorkspaceEngine(base, tmp_path_factory.mktemp("index"), embedder=embedder)


def first(engine: WorkspaceEngine, query: str) -> str:
    paths = {d.doc_id: d.path for d in engine.list_docs()}
    return next((paths[chunk.doc_id] for chunk in engine.search(query)), "")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("密码", "zh.txt"), ("年假", "zh.txt"), ("请假", "zh.txt"), ("员", "zh.txt"), ("更换密码", "zh.txt"), ("有給", "ja.txt"), ("有給休暇", "ja.txt"),
        ("パスワード", "ja.txt"), ("비밀번호", "ko.txt"), ("휴가", "ko.txt"), ("รหัสผ่าน", "th.txt"), ("пароли", "ru.txt"), ("ПАРОЛИ", "ru.txt"),
        ("المرور", "ar.txt"), ("पासवर्ड", "hi.txt"), ("Mietpreis", "de.txt"), ("Groesse", "de.txt"), ("größen", "de.txt"), ("Kennwort", "de.txt"),
        ("password", "en.txt"), ("pasword", "en.txt"), ("rotate", "en.txt"), ("policy review", "en.txt"), ("max retries", "en.txt"),
        ("x86_64", "en.txt"), ("parse_args()", "en.txt"), ("dry run", "code.txt"), ("foo2", "code.txt"), ("code", "code.txt"),
    ],
)  # fmt: skip
def test_a_query_finds_its_document(engine: WorkspaceEngine, query: str, name: str) -> None:
    assert first(engine, query) == name


@pytest.mark.parametrize(
    "query",
    ["qzxqv wvvkj", "Fahrradschlauch", "xylophone", "kubernetes", "鲸鱼", "ぎょうざ", "кит", "", "?!", "𝔷𝔷𝔷"],
)  # fmt: skip
def test_nothing_is_found_where_nothing_is(engine: WorkspaceEngine, query: str) -> None:
    assert engine.search(query, 50) == []


def test_scores_fall_and_say_how_much_was_found(engine: WorkspaceEngine) -> None:
    scores = [c.score for c in engine.search("passwords ninety days", 50)]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    (half,) = [c.score for c in engine.search("rotated xylophone", 1)]
    (full,) = [c.score for c in engine.search("rotated", 1)]
    (misspelt,) = [c.score for c in engine.search("rottated", 1)]
    assert half < 0.7 * full
    assert misspelt < full
    found = engine.search("rotated", 1)[0]
    assert engine.get_chunk(found.chunk_id) == found
    assert Chunk("a#0", "a", "", 0).score == 0


def test_a_document_is_found_by_all_of_its_chunks(tmp_path: Path) -> None:
    """One document has both words, far apart; others have one of them."""
    filler = "nothing of interest is in this sentence. " * 60
    texts = {"both.txt": f"Notes\n\n{filler} walrus {filler} teapot {filler}"}
    for word in ("walrus", "teapot"):
        for i in range(5):
            texts[f"{word[0]}{i}.txt"] = f"Notes\n\n{filler} {word} {i} {filler} {filler}"
    base = write_texts(tmp_path / "docs", texts)
    engine = WorkspaceEngine(base, tmp_path / "index")
    found = engine.search("walrus teapot", 5)
    assert found[0].doc_id.startswith("both")
    assert "walrus" in found[0].text or "teapot" in found[0].text
    assert len({c.doc_id for c in found}) >= 4, "others come before its second chunk"


@pytest.mark.numeric
def test_the_scores_are_those_of_the_formula(tmp_path: Path) -> None:
    """Against the sums written out, term by term."""
    texts = {
        "a.txt": "crane " * 3 + "lorry " * 230 + "crane anchor",
        "b.txt": "anchor lorry lorry",
        "c.txt": "lorry " * 400,
    }
    base = write_texts(tmp_path / "docs", texts)
    engine = WorkspaceEngine(base, tmp_path / "index")
    with engine._reading() as db:
        known = lengths(db)
        # Chunk 0 has "crane" three times, in the lead, too; chunk 1 once.
        postings = np.array([0 << 8 | 3 << 3 | 3, 1 << 8 | 1 << 3], dtype=np.uint32)
        docs, chunks = rank([Word(postings, 0.5)], known)
    counts = [
        [len(c.text.split()) for c in engine.get_chunks(d.doc_id)] for d in engine.list_docs()
    ]
    every = [n for chunk in counts for n in chunk]
    whole, mean = sum(counts[0]), sum(every) / 3
    # The title is the name of the file, and the path has the ending, too.
    leads = [len(f"{n[0]} {n[0]} txt {t.lstrip()[:200]}".split()) for n, t in texts.items()]

    def bm25(times: float, length: float, average: float, b: float) -> float:
        return times / (times + 1.5 * (1 - b + b * length / average))

    rarity = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    best = bm25(3, counts[0][0], sum(every) / len(every), 0.5)
    lead = 1.5 * bm25(3, leads[0], sum(leads) / 3, 0.3)
    expected = 0.5 * rarity * (bm25(4, whole, mean, 0.75) + lead + best) / (rarity * 3.5)
    assert_close(docs[0], expected, terms=12)
    assert not is_close(docs[0], expected * (1 + 1e-5), terms=12)
    assert_close(chunks[0], 0.5 * best / 3.5, terms=12)
    assert docs[1] == docs[2] == 0
