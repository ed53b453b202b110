"""Renders messages and tools by a chat template, in the sandbox of transformers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

from mypt_cli.errors import UsageError
from mypt_lint.template.source import Template

_MARKED = re.compile(r"\{%-?\s*generation\s*-?%\}")
_MAX_MESSAGE = 300  # characters of a message, which a template may write
_NEEDS = "--template needs {}; pip install 'mypt-tags[templates]'"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text, and its spans (code points) in `{% generation %}`; None for a template without."""

    text: str
    spans: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a conversation has no text: `refused` if the template says so by `raise_exception`.

    `line` is the place in the template, None where it is not known.
    """

    message: str
    refused: bool
    line: int | None


Outcome = Rendered | Failed
Render = Callable[..., Outcome]


def sandbox() -> Any:
    """Loads the sandbox of transformers. Raises UsageError where it, or Jinja, is missing."""
    try:
        import jinja2  # noqa: F401
        from transformers.utils import chat_template_utils
    except ImportError as error:
        raise UsageError(_NEEDS.format(error.name or "transformers")) from None
    return chat_template_utils.render_jinja_template


def renderer(template: Template) -> Render:
    """Returns a function of (messages, tools, prompt) that renders them.

    `prompt` asks for what a model continues (`add_generation_prompt`). Raises UsageError where
    transformers or Jinja is missing.
    """
    rendering = sandbox()
    import jinja2

    marked = bool(_MARKED.search(template.text))

    def render(messages: list[Any], tools: list[Any] | None, *, prompt: bool = False) -> Outcome:
        try:
            texts, spans = rendering(
                conversations=[messages],
                tools=tools,
                chat_template=template.text,
                return_assistant_tokens_mask=marked,
                add_generation_prompt=prompt,
                **template.tokens,
            )
        except ImportError as error:  # a Jinja too old for the sandbox
            raise UsageError(str(error)) from None
        except MemoryError:  # a bound of the process
            raise
        except Exception as error:  # whatever a template does wrong
            message = str(error)[:_MAX_MESSAGE] or type(error).__name__
            return Failed(message, type(error) is jinja2.TemplateError, _line(error))
        return Rendered(texts[0], tuple((a, b) for a, b in spans[0]) if marked else None)

    return render


def literals(template: Template) -> str:
    """Returns the text that a template has outside of its code, and in strings of it."""
    import jinja2

    try:
        lexed = list(jinja2.Environment().lex(template.text))
    except jinja2.TemplateError:
        return template.text
    return "\n".join(text for _, kind, text in lexed if kind in ("data", "string"))


def _line(error: Exception) -> int | None:
    if isinstance(line := getattr(error, "lineno", None), int):
        return line
    lines = [
        line
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename in ("<template>", "<unknown>")
    ]
    return lines[-1] if lines else None
