"""Renders chat templates by other engines, where they are installed."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from typing import Any

from mypt_spec.templates import sandbox

_MARKS = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")


def other_engine(name: str) -> Callable[[str, dict[str, Any]], str] | None:
    """Returns what renders a template with its variables by another engine; None without it.

    "minijinja" has no bounds of memory, "llama.cpp" its own: the module of ggufdoctor.
    """
    try:
        if name == "llama.cpp":
            llama: Any = import_module("ggufdoctor.engines.llamacpp_engine").LlamaCppEngine()
            return (lambda text, values: _text(llama, text, values)) if llama.available else None
        engine: Any = import_module("minijinja")
    except ImportError:
        return None

    def render(text: str, values: dict[str, Any]) -> str:
        environment = engine.Environment(trim_blocks=True, lstrip_blocks=True, pycompat=True)
        environment.add_function("raise_exception", _raise)
        environment.add_function("strftime_now", datetime.now().strftime)
        environment.add_filter("tojson", sandbox.tojson)
        return str(environment.render_str(without_marks(text), **values))

    return render


def _text(llama: Any, text: str, values: dict[str, Any]) -> str:
    result = llama.render(without_marks(text), json.loads(json.dumps(values)))
    return str(result.text) if result.error is None else _raise(result.error)


def without_marks(text: str) -> str:
    """Returns a template with conditions in the place of `{% generation %}`."""
    return _MARKS.sub(lambda m: f"{{%{m[1]} {'endif' if m[2] else 'if true'} {m[3]}%}}", text)


def _raise(message: str) -> str:
    raise ValueError(message)
