"""Compiles chat templates as transformers does, without loading transformers.

A template may use what it may use there: Jinja's sandbox with loop controls, `{% generation %}`,
and the functions below. A test compares the texts of both.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Self

from mypt_spec.memo import Memo
from mypt_spec.table import SpecError
from mypt_spec.templates.bounds import GROWS, Bounded, OutOfBoundsError

_OF_DICTS = frozenset(dir(dict))  # attributes of every dict, which come before its keys
# Methods of a text that the sandbox allows as they are: `format` is the one that it guards.
_OF_TEXTS = frozenset(name for name in dir(str) if name[0] != "_" and name[:6] != "format")
_READS_DICTS = frozenset({"get", "items", "keys", "values"})
_OF_LOOPS = frozenset({"first", "last", "index", "index0", "length", "previtem", "nextitem"})
# Values that many renderings write as JSON: by their ids, with the texts by how they are written.
_SHARED: dict[int, tuple[Any, dict[str, str]]] = {}
_ENCODERS: Memo[str, json.JSONEncoder] = Memo(16)  # `json.dumps` makes one every time
_ONE_AT_A_TIME = threading.Lock()  # the other process answers one call at a time
_MAX_FAULT = 300  # code points of a message, which a template may write
_MAX_TEXT = 16 << 20  # code points that a template may write of tools
_NEEDS = "a chat template needs jinja2 3.1.6 or newer: pip install -U jinja2"

Render = Callable[..., tuple[str, list[tuple[int, int]]]]


def share(*lists: list[Any]) -> None:
    """Lets renderings share the JSON of lists of declared tools, in place of those before."""
    tools = [tool for tools in lists for tool in tools if isinstance(tool, dict)]
    parts = [part for tool in tools for part in (tool, *tool.values())]
    _SHARED.clear()
    _SHARED.update((id(x), (x, {})) for x in (*lists, *parts) if isinstance(x, dict | list))


def tojson(
    x: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None,
    sort_keys: bool = False,
) -> str:  # fmt: skip
    """Returns a value as JSON, as the filter of transformers writes it."""
    texts = _SHARED[id(x)][1] if id(x) in _SHARED else {}
    key = repr((ensure_ascii, indent, separators, sort_keys))
    if key not in texts:
        encoder = _ENCODERS.entries.get(key) or _ENCODERS.keep(key, json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        ))  # fmt: skip
        texts[key] = encoder.encode(x)
    return texts[key]


@lru_cache(maxsize=16)
def compiled(text: str) -> Render:
    """Returns a function of the variables of a template: (text, spans in `{% generation %}`).

    Raises SpecError where Jinja is too old, and jinja2.TemplateSyntaxError.
    """
    import jinja2
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.runtime import LoopContext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    if [*map(int, re.findall("[0-9]+", jinja2.__version__)[:3])] < [3, 1, 6]:
        raise SpecError(_NEEDS)  # older ones let a template out of the sandbox

    blocks: list[str] = []
    spans: list[tuple[int, int]] = []
    counted = [0, 0]  # blocks, and their code points

    class Generation(Extension):
        """Marks what is between `{% generation %}` and `{% endgeneration %}`."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            call = self.call_method("_mark")
            return nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _mark(self, caller: Callable[[], str]) -> str:
            counted[1] += sum(map(len, blocks[counted[0] :]))
            counted[0], start = len(blocks), counted[1]
            text = caller()
            spans.append((start, start + len(text)))
            return text

    class Attributes(Namespace):
        """A namespace without names that begin with an underscore."""

        def __setitem__(self, name: str, value: Any) -> None:
            check(name)
            super().__setitem__(name, value)

    def check(name: str) -> None:
        if str(name).startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace holds no {name!r}")

    def namespace(*args: Any, **kwargs: Any) -> Attributes:
        for name in dict(*args, **kwargs):
            check(name)
        return Attributes(*args, **kwargs)

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    class Sandbox(ImmutableSandboxedEnvironment):
        """The sandbox, which finds what templates read most often without asking whether it may."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            if obj.__class__ is dict and attribute not in _OF_DICTS:
                return (
                    obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
                )
            if attribute in safe.get(obj.__class__, ()):
                return getattr(obj, attribute)
            if obj.__class__ is Attributes and attribute[:1] != "_":
                value = getattr(obj, attribute, sandbox)
                return self.undefined(obj=obj, name=attribute) if value is sandbox else value
            return super().getattr(obj, attribute)

    safe = {LoopContext: _OF_LOOPS, str: _OF_TEXTS, dict: _READS_DICTS}
    # Folding constants takes a fifth of the time of compiling, and saves little when rendering.
    extensions: list[type[Extension]] = [Generation, loopcontrols]
    sandbox = Sandbox(optimized=False, trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    sandbox.filters["tojson"] = tojson
    sandbox.globals.update(
        raise_exception=refuse,
        strftime_now=lambda form: datetime.now().strftime(form),
        namespace=namespace,
        dict=partial(dict),  # not the class, whose attributes lead further
    )
    template = sandbox.from_string(text)
    template.globals = dict(template.globals)  # not in two maps, which each rendering would join

    def render(**variables: Any) -> tuple[str, list[tuple[int, int]]]:
        blocks.clear()
        spans.clear()
        counted[:] = 0, 0
        blocks.extend(template.generate(**variables))
        return "".join(blocks), spans.copy()

    return render


class ToolTemplate(str):
    """The body "template": what Jinja `text` writes of `tools`, in a block for `each` or for all.

    Nothing reads it: only a record says the definitions.
    """

    text: str
    each: bool

    def __new__(cls, text: str, each: bool = False) -> Self:
        """Returns the body with this template."""
        template = super().__new__(cls, "template")
        template.text, template.each = text, each
        return template

    def write(self, tools: list[dict[str, Any]]) -> str:
        """Returns the text of definitions. Raises ValueError where the template fails.

        The template runs in the process of `_BOUNDED`, once for equal definitions. One that had to
        be stopped does not run again.
        """
        key = self.text, repr(tools)
        with _ONE_AT_A_TIME:
            outcome = _WRITTEN.entries.get((self.text, "")) or _WRITTEN.entries.get(key)
            if outcome is None:
                try:
                    outcome = _BOUNDED(self.text, tools)
                except OutOfBoundsError as error:
                    key, outcome = (self.text, ""), ("", f"it was stopped after {error}; {GROWS}")
                _WRITTEN.keep(key, outcome, sum(map(len, (*key, *outcome))))
        text, fault = outcome
        if fault:
            raise ValueError(f"the template of the tools fails: {fault}")
        return text


def _written(text: str, tools: list[Any]) -> tuple[str, str]:
    """Returns what a template writes of tools, or what is wrong with it; in the other process."""
    try:
        out = compiled(text)(tools=tools)[0]
    except MemoryError:
        raise
    except Exception as error:  # whatever a template does wrong
        return "", str(error)[:_MAX_FAULT] or type(error).__name__
    return (out, "") if len(out) <= _MAX_TEXT else ("", f"it writes {len(out)} characters")


_BOUNDED: Bounded[tuple[str, str]] = Bounded(partial, _written)  # starts with its first call
_WRITTEN: Memo[tuple[str, str], tuple[str, str]] = Memo(256, room=32 << 20)
