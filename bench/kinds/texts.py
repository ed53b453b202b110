"""Texts as people write them: sentences of Python's documentation, several scripts, markup, emoji."""

from __future__ import annotations

import functools
import importlib
import random
import re

_MODULES = [
    "argparse",
    "asyncio",
    "base64",
    "bisect",
    "bz2",
    "calendar",
    "cmd",
    "codecs",
    "collections",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "email.message",
    "enum",
    "fileinput",
    "fnmatch",
    "fractions",
    "ftplib",
    "functools",
    "gettext",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http.client",
    "imaplib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "locale",
    "logging",
    "lzma",
    "mailbox",
    "math",
    "mimetypes",
    "multiprocessing",
    "netrc",
    "operator",
    "optparse",
    "os",
    "pathlib",
    "pdb",
    "pickle",
    "platform",
    "plistlib",
    "poplib",
    "pprint",
    "profile",
    "queue",
    "quopri",
    "random",
    "re",
    "sched",
    "secrets",
    "select",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "smtplib",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "stat",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "symtable",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "timeit",
    "tokenize",
    "trace",
    "traceback",
    "turtle",
    "types",
    "typing",
    "unittest",
    "urllib.parse",
    "urllib.request",
    "uuid",
    "wave",
    "weakref",
    "webbrowser",
    "wsgiref.util",
    "xml.dom.minidom",
    "xmlrpc.client",
    "zipapp",
    "zipfile",
    "zoneinfo",
]
_OTHER = """\
Die Straße zum Bahnhof ist wegen Bauarbeiten bis Freitag gesperrt; bitte nimm den Weg über die Brücke.
Könntest du mir erklären, warum die Größe der Datei nach dem Kopieren anders ist?
„Das habe ich so nicht gesagt“, antwortete sie und lächelte.
Le fichier est trop volumineux : réduisez-le à 10 Mo, ou bien compressez-le d’abord.
Où se trouve l’hôtel le plus proche de la gare, s’il te plaît ?
¿Puedes resumir este artículo en tres frases y traducirlo al inglés?
El año pasado vendimos un 20 % más que en 2023, según el informe.
A função devolve uma lista vazia quando não há resultados.
Il treno delle 8:15 è in ritardo di dieci minuti, perché piove.
Программа завершилась с ошибкой: файл не найден.
Сколько будет стоить доставка в Новосибирск?
今天北京的天气怎么样？需要带伞吗？
请把下面这段文字翻译成英文，并保留原来的格式。
東京から京都まで新幹線でどのくらいかかりますか。
データベースの接続がタイムアウトしました。設定を確認してください。
오늘 회의는 오후 세 시로 미뤄졌어요.
ما هي عاصمة المغرب؟ أجب بجملة واحدة.
אפשר לקבל את הקבלה בדואר אלקטרוני?
मुझे इस वाक्य का अर्थ समझाइए।
Cảm ơn bạn, tôi đã nhận được gói hàng hôm nay.
Bugün hava çok güzel, yürüyüşe çıkalım mı?
Η βιβλιοθήκη κλείνει στις οκτώ το βράδυ.
Zażółć gęślą jaźń to zdanie z polskimi znakami.
"""
_MARKUP = (
    "**Note**: back up your data first.",
    "Use `git rebase -i HEAD~3`, then squash.",
    "- first: check the logs\n- second: restart the service\n- third: tell the team",
    "```python\ndef area(r: float) -> float:\n    return 3.14159 * r ** 2\n\nprint(area(2.0))\n```",
    "| item | price |\n|---|---|\n| tea | 3.20 |\n| cake | 4.80 |",
    'The JSON is {"ok": true, "items": [1, 2, 3], "note": "a \\"quoted\\" word"}.',
    "See C:\\Users\\ada\\notes.txt and /etc/hosts.",
    '<div class="box"><p>Hello &amp; welcome</p></div>',
    "$x^2 + y^2 = r^2$, so \\frac{1}{2} of it is left.",
    "Great question! 🎉 Let's go step by step 🚀",
    "Thanks 👍🏽 — that's what I meant…",
    "1. Boil the water.\n2. Add the pasta.\n3. Wait nine minutes.",
    "SELECT name, COUNT(*) FROM users WHERE age >= 18 GROUP BY name;",
    "She said: 'It's 5 o'clock', didn't she?",
    "# Summary\n\nThe plan costs $1,200 (or €1.100) a year.",
    "if (a < b && c > d) { return a / b; }",
)


@functools.cache
def sentences() -> tuple[str, ...]:
    """Returns sentences of the documentation strings of Python's library."""
    found: dict[str, None] = {}
    for name in _MODULES:
        module = importlib.import_module(name)
        members = [module, *(getattr(module, n, None) for n in sorted(dir(module)))]
        members += [
            getattr(m, n, None) for m in members[1:] if isinstance(m, type) for n in sorted(vars(m))
        ]
        for member in members:
            doc = getattr(member, "__doc__", None)
            if not isinstance(doc, str):
                continue
            for sentence in re.split(r"(?<=[.?!])\s+(?=[A-Z])", " ".join(doc.split())):
                if 30 < len(sentence) < 220 and not re.search(
                    r"[<>{}@]|<\||\[/?[A-Z]+\]|%[(s]", sentence
                ):
                    found[sentence] = None
    return tuple(found)


def text(rng: random.Random, size: int) -> str:
    """Returns about `size` characters: plain sentences, one in four of another script or with markup."""
    parts: list[str] = []
    others = _OTHER.splitlines()
    while sum(map(len, parts)) < size:
        draw = rng.random()
        if draw < 0.1:
            parts.append(rng.choice(others))
        elif draw < 0.25:
            parts.append("\n" + rng.choice(_MARKUP) + "\n")
        else:
            parts.append(rng.choice(sentences()))
    return re.sub(r" ?\n ?", "\n", " ".join(parts)).strip()


def question(rng: random.Random) -> str:
    opening = rng.choice((
        "Please explain this:", "What does this mean?", "Can you rewrite it shorter:", "Translate, please:",
        "I don't understand the following.", "Quick question:", "Help me with this one:", "Is it right that",
    ))  # fmt: skip
    return f"{opening} {text(rng, rng.randint(20, 160))}"
