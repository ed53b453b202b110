"""Reads, checks, writes and encodes chat training data, by one grammar for each dialect.

>>> import mypt_spec
>>> d = mypt_spec.dialect("mypt")
>>> ep, findings = d.read({"system": "You are MyPT.", "messages": [
...     {"role": "user", "content": "Say hello."}, {"role": "assistant", "content": "Hello."}]})
>>> findings + d.validate(ep)
[]
>>> print(d.serialize(ep, layout="lines"))
<myPT_system>You are MyPT.</myPT_system>
<myPT_user>Say hello.</myPT_user>
<myPT_assistant>Hello.</myPT_assistant>
<myPT_eot>
>>> enc = d.encode(ep)
>>> d.parse_ids(enc.ids)[0] == ep
True
>>> d.tokenizer.decode(enc.ids[enc.loss == 1])
'<myPT_assistant>Hello.</myPT_assistant><myPT_eot>'
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypt_spec.automaton import Automaton
    from mypt_spec.dialect import Dialect, dialect, dialects, load
    from mypt_spec.encoder import Encoded
    from mypt_spec.episode import Episode, Event, Message, Part
    from mypt_spec.findings import Finding, Fix
    from mypt_spec.rules import Limits
    from mypt_spec.table import SpecError
    from mypt_spec.tokenizer.tokenizer import Tokenizer
    from mypt_spec.tokenizer.vocabulary import VocabularyError

__all__ = [
    "Automaton", "Dialect", "Encoded", "Episode", "Event", "Finding", "Fix", "Limits", "Message",
    "Part", "SpecError", "Tokenizer", "VocabularyError", "dialect", "dialects", "load",
]  # fmt: skip
__version__ = "0.3.0"
_NAMES = {
    "automaton": "Automaton", "dialect": "Dialect dialect dialects load", "encoder": "Encoded",
    "episode": "Episode Event Message Part", "findings": "Finding Fix", "rules": "Limits",
    "table": "SpecError", "tokenizer.tokenizer": "Tokenizer",
    "tokenizer.vocabulary": "VocabularyError",
}  # fmt: skip
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


class _Package(ModuleType):
    """Loads a name at its first use, so that a command loads only what it needs.

    `dialect` stays the function when the module of that name is loaded.
    """

    def __getattr__(self, name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})

    def __setattr__(self, name: str, value: object) -> None:
        if name != "dialect" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
