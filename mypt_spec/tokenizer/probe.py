"""Holds the text by which a vocabulary is tried: our ids must be those of the library it is for.

It is in NFC, and has what patterns cut apart: contractions in both cases, digits in groups of all
lengths, white space of all kinds at all places, code, punctuation, many scripts, marks without a
letter, emoji with joiners, control characters and what has no name.
"""

from pathlib import Path

from mypt_spec.compiled.toml import load

PROBE = "".join("".join(part) for part in load(Path(__file__).with_suffix(".toml")).values())
