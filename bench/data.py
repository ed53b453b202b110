"""Makes the bench file: clean MyPT records of 200 B to 20 KB, phases 1-5, in English and German.

Words are drawn by a seed.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

SYSTEM = {"en": "You are MyPT.", "de": "Du bist MyPT."}
TOOLS = (
    "\n\nTools:\n- workspace.search(query, top_k=5) - find relevant documents\n- "
    "workspace.get_doc(doc_id or title) - get document text\n\n"
    'Format: <myPT_toolcall>{"name": "workspace.search", "query": "..."}</myPT_toolcall>'
)
TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "d",
        "parameters": {
            "type": "object",
            "properties": {"q": {"type": "string"}, "top_k": {"type": "integer"}},
        },
    },
}
_TEXTS = {
    "en": "the model reads every line of its data and learns what comes next so a wrong tag is a "
    'wrong lesson, said "Ada", and 42 files later nobody knows why; search, list, summarise. '
    "Passwords must hold twelve characters or more\n",
    "de": "Das Modell liest jede Zeile seiner Daten und lernt, was als Nächstes kommt: ein "
    "falsches Tag ist eine falsche Lektion. Größe, Straße, Übung und „Anführung“ gehören "
    "dazu; nach 42 Dateien weiß niemand mehr, warum.\n",
}
WORDS = {language: words.split(" ") for language, words in _TEXTS.items()}
# What people write among such words: quotes, code, markup, paths, formulas, emoji, other scripts.
_ODD = """
"why?" 'no' don't “so” C:\\data\\x \\alpha^2 $x_{i}$ `pip` ``x`` **bold** ## | <b>now</b> <br/> a<b
[a](https://b.org/?q=1&p=2) x>=y {"a":[1,2]} {0} [1] 3/4 50% #5 e@example.org — … naïve Größe
🙂 👩‍💻 ❤️ Łódź москва день 東京 你好,世界 日本語です 한국어 مرحبا שלום नमस्ते สวัสดี Ελλάδα
"""
ODD = [*_ODD.split(), "\n\n-", "\t1.", "\n\n## Why\n\n", '```python\nprint("hi")\n```']


def text(rng: random.Random, language: str, size: int) -> str:
    """Returns about `size` bytes of words."""
    out: list[str] = []
    length = 0
    while length < size:
        word = rng.choice(WORDS[language])
        out.append(word)
        length += len(word.encode()) + 1
    return " ".join(out).strip() or "ok"


def prose(rng: random.Random, size: int) -> str:
    """Returns about `size` bytes as people write them: every tenth word is an odd one."""
    out: list[str] = []
    length = 0
    while length < size:
        word = rng.choice(ODD) if rng.random() < 0.1 else rng.choice(WORDS["en"])
        out.append(word)
        length += len(word.encode()) + 1
    return f"{' '.join(out).strip()}."  # a sentence that ends is not cut


def record(rng: random.Random) -> dict[str, Any]:
    """Returns one clean record; its size is spread evenly over the orders of magnitude."""
    phase, language = rng.randint(1, 5), rng.choice(["en", "de"])
    size = int(200 * 100 ** rng.random())
    turns = 1 if phase < 3 else rng.randint(1, 4)
    share = max(10, (size - 120) // (turns * (2 if phase < 4 else 4)))
    messages: list[dict[str, Any]] = []
    for _ in range(turns):
        user: dict[str, Any] = {"role": "user", "content": text(rng, language, share // 2)}
        if phase == 5 and rng.random() < 0.3:
            user["context"] = text(rng, language, share)
        messages.append(user)
        if phase >= 4:
            call: dict[str, Any] = {
                "role": "assistant_toolcall",
                "name": "workspace.search",
                "arguments": {"query": text(rng, language, 30), "top_k": 3},
            }
            if phase == 5:
                call["think"] = text(rng, language, share // 2)
            found = [
                {
                    "doc_id": f"doc-{i}",
                    "title": text(rng, language, 20),
                    "snippet": text(rng, language, share // 3),
                }
                for i in range(3)
            ]
            messages += [
                call,
                {
                    "role": "toolresult",
                    "name": "workspace.search",
                    "content": {"documents": found, "total": 3},
                },
            ]
        answer: dict[str, Any] = {"role": "assistant", "content": text(rng, language, share)}
        if phase == 5:
            answer["cite"] = "doc-1"
        messages.append(answer)
    return {
        "system": SYSTEM[language] + (TOOLS if phase >= 4 else ""),
        "messages": messages,
        "language": language,
    }


def random_record(rng: random.Random) -> dict[str, Any]:
    """Returns one clean record whose answer is random words of letters and digits, all new."""
    code = base64.b64encode(rng.randbytes(rng.randint(100, 1500))).decode()
    words = re.findall(r"\w{4,12}", code)
    user = {"role": "user", "content": "Give me random words."}
    answer = {"role": "assistant", "content": " ".join(words)}
    return {"system": SYSTEM["en"], "messages": [user, answer]}


def make(
    path: Path, size: int, seed: int = 1, one: Callable[[random.Random], dict[str, Any]] = record
) -> None:
    """Writes about `size` bytes of records from `one`; the same seed makes the same bytes."""
    rng = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with path.open("wb") as out:
        while written < size:
            line = json.dumps(one(rng), ensure_ascii=False).encode() + b"\n"
            out.write(line)
            written += len(line)
