"""Holds the text by which a vocabulary is tried: our ids must be those of the library it is for.

It is in NFC, and has what patterns cut apart: contractions in both cases, digits in groups of all
lengths, white space of all kinds at all places, code, punctuation, many scripts, marks without a
letter, emoji with joiners, control characters and what has no name.
"""

_WORDS = """\
The quick brown fox doesn't jump; it's WE'LL, I'M, they'd, you've, O'Neil's, 'tis, rock'n'roll's.
I’ll say “yes” — or ‘no’… don´t SHOUT'S HE'S She'Re it'lL a'b 'S 'T ''s
camelCaseWord snake_case_word kebab-case-word HTTPServer iPhone15 x86_64 v2.0.1 3rd 1st 22nd
1 12 123 1234 12345 123456 1234567 12345678 1,234,567.89 -1 +1 1e-10 0x1F4A9 3.14159
½ ² Ⅻ ٣٤٥ १२३ 一二三 ①②
"""
_CODE = """\
def main(argv: list[str]) -> int:
    \"\"\"Docstring.\"\"\"
\tif x != y and (a <= b or c >= d):  # comment
        return {"key": [1, 2.5, null, true], "path": "C:\\\\dir\\\\file.txt"}
for (int i=0;i<n;++i) { a[i]+=b[i]*c; }  // end\r
<div class="a b">&nbsp;</div><!-- x --> https://example.com/a/b?c=d&e=%20f#g me@host.org $HOME ~/.x
SELECT * FROM t WHERE a='b'; \\begin{eq} \\frac{1}{2} \\end{eq} #include <stdio.h>
@dec !!! ??? ... --- ===
"""
_SCRIPTS = """\
Grüße, größer Straße, naïve café, Ærøskøbing, Łódź, İstanbul, ﬁne ﬂow, ǅungla
Привет, мир! Как дела? Ёлка. Γειά σου Κόσμε. שלום עולם שָׁלוֹם مرحبا بالعالم السَّلَام درود
नमस्ते दुनिया, স্বাগতম, வணக்கம், తెలుగు, ഹലോ, ಕನ್ನಡ, สวัสดีชาวโลก, ລາວ, မြန်မာ, ភាសាខ្មែរ, አማርኛ
你好，世界！今天天气很好。日本語のテキスト、カタカナとひらがな。ﾊﾝｶｸ 안녕하세요 세계 繁體中文 𠮷野家
Բարեւ ქართული ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ ⵜⴰⵎⴰⵣⵉⵖⵜ བོད་ཡིག ᠮᠣᠩᠭᠣᠯ 𐌰𐌱𐌲 𝒜𝓑 ℝ ∑∫√∞≠ αβγδ
"""
_SIGNS = """\
😀 👍🏽 👩‍👩‍👧‍👦 🇩🇪 ❤️ ☃ ★☆ →⇒ ©®™ €£¥₹ §¶ «» „“ ‹› • † ‰ ° µ ª º ¿¡ \u0301\u0302x \u200b\u200d\ufeff
\u0001\u0007\u001b[0m \x7f \u0085 \xad \ue000 \uffff \U0010ffff ~`^|\\/_{}[]()<>
"""
_SPACES = (
    " a  b   c    d     e        f                h\n\n\ni\n \n  \n\t\n \tj\t\tk\r\n\r\nl\n   m \n"
    "n\xa0o\u2003p\u3000q\u2028r\u2029s\x0bt\x0cu  1  ,  '  é\n 1\n  ,\n\n  x \xa0 y\t 1\r\r.\n\n "
)

PROBE = _WORDS + _CODE + _SCRIPTS + _SIGNS + _SPACES + "end  "
