"""Texts of more than 20 scripts, and of what else is written: emoji, marks, quotes, markup, spaces."""

from __future__ import annotations

SCRIPTS = (
    "Latin é ß ǆ", "Кирилл Ё", "Ελλ ά", "עברית שָׁ", "عربي السَّ", "देव ना", "বাংলা", "தமிழ்", "తెలుగు",
    "ಕನ್ನಡ", "മലയാളം", "ไทย", "ລາວ", "မြန်မာ", "ភាសា", "አማርኛ", "漢字𠮷", "かなカナﾊﾝ", "한글", "Հայ",
    "ქართ", "བོད", "𐌰𐌱", "😀 👍🏽 👩‍👩‍👧 🇩🇪", "\x00\x01\x1b\x7f\x85", "\t\n\r\n \xa0\u3000", "  ", "    a",
    "\n\n\n\n", "<b>x</td>", "<0x41>", "1234 5", "e\u0301", "\u2580\u2582\ufeff", "x > > y", "[multi]",
)  # fmt: skip
MARKUP = (
    "", " ", " x", "x ", "\n x", "x \n\n", "“q” ‘q’ «q» „q“ \"it's\"", "<p class='a'>&amp;</p>", "{\"a\": [1,\n2]}",
    "<|im_start|>user", "<|im_end|>", "</think>", "<s>[INST]", "SHE'LL", "```py\n\tx\n```", "a\r\n\r\nb",
)  # fmt: skip
# Texts that are not in NFC: marks apart or in another order, jamo, signs that are another's double.
APART = (
    "e\u0301", "Cafe\u0301s a\u0308o\u0308", "q\u0301\u0323", "\u1112\u1161\u11ab\u1100", "5 \u212b\u2126",
    "\u0915\u093c \u0958", "\u05e9\u05bc\u05c1", "A\u030a.\u0301", "=\u0338 >\u0338", "\u0301e\u0301",
)  # fmt: skip
