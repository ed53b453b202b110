"""A file with faults that safe fixes repair, and what it is afterwards."""

from __future__ import annotations

from tests.support.linting import GOOD as _GOOD

GOOD = _GOOD.encode()
# A system prompt among the messages; escapes and spacing of a line stay.
LIFTED = (
    rb'{"messages":[{"role":"system","content":"\u00fc\/"},{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo"}]}'
    b"\n"
)
LIFTED_FIXED = (
    rb'{"system":"\u00fc\/","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo"}]}'
    b"\n"
)
_CALL = (
    '{"system": "ä\\u00e4", "messages": [{"role": "user", "content": "Hi"}, {"role":  "toolcall", "name": "t", "arguments": "{\\"a\\": \\"ö\\"}"}, '
    '{"role": "tool", "name": "t", "content": 1}, {"role": "assistant", "content": "Yo"}]}\n'
).encode()
_CALL_FIXED = (
    '{"system": "ä\\u00e4", "messages": [{"role": "user", "content": "Hi"}, {"role":  "assistant_toolcall", "name": "t", "arguments": {"a": "ö"}}, '
    '{"role": "toolresult", "name": "t", "content": 1}, {"role": "assistant", "content": "Yo"}]}\n'
).encode()
_BROKEN = b'{"system": "S",\n'
MESSY = (
    b"\xef\xbb\xbf" + GOOD[:-1] + b"\r\n" + LIFTED + b"  \n" + _BROKEN + b"\n" + _CALL + GOOD[:-1]
)
MESSY_FIXED = GOOD + LIFTED_FIXED + _BROKEN + _CALL_FIXED + GOOD
