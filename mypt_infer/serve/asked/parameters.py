"""Reads the parameters of a request. Nothing is dropped in silence.

Input: the JSON object of a request. Output: `Chat` or `Completion`. A parameter is read, or it is
in `IGNORED`, or it has the one value that changes nothing; all else is refused by its name.
"""

from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from mypt_infer.serve.asked.errors import ApiError
from mypt_spec.compiled.toml import load

_TABLES = load(Path(__file__).with_suffix(".toml"))  # its comments say which
IGNORED, NEUTRAL, INSTEAD = (_TABLES[key] for key in ("ignored", "neutral", "instead"))
MOST_CHOICES, MOST_STOPS, MOST_TOP = 16, 16, 20
MOST_THOUGHTS = 1 << 17


class Reasoning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much is thought: OpenRouter's parameter. `enabled` false is an effort of none."""

    max_tokens: int | None = None
    effort: Literal["none"] | None = None
    enabled: bool | None = None


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include_usage: bool = False


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """What both ways to ask have."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    return_token_ids: bool | None = None
    reasoning_effort: Literal["none"] | None = None
    thinking_token_budget: int | None = None
    thinking_budget_tokens: int | None = None
    reasoning: Reasoning | None = None

    @property
    def budgets(self) -> dict[str, int | None]:
        """Returns the budgets of thoughts, by the names of their parameters; a ban is a 0."""
        reasoning = self.reasoning or Reasoning()
        return {
            "thinking_token_budget": self.thinking_token_budget,
            "thinking_budget_tokens": self.thinking_budget_tokens,
            "reasoning.max_tokens": reasoning.max_tokens,
            "reasoning_effort": None if self.reasoning_effort is None else 0,
            "reasoning.effort": None if reasoning.effort is None else 0,
            "reasoning.enabled": 0 if reasoning.enabled is False else None,
        }

    @property
    def thoughts(self) -> int | None:
        """Returns how many tokens all thoughts together may have; None without a budget."""
        return next((value for value in self.budgets.values() if value is not None), None)

    @property
    def stops(self) -> list[str]:
        """Returns the texts to stop at."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    @property
    def choices(self) -> int:
        """Returns the number of answers."""
        return 1 if self.n is None else self.n

    @property
    def with_usage(self) -> bool:
        """Returns whether a stream ends with the numbers of tokens."""
        return self.stream_options is not None and self.stream_options.include_usage


class Chat(Params, frozen=True, kw_only=True):
    """What is asked of /v1/chat/completions."""

    messages: list[Any]
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class Completion(Params, frozen=True, kw_only=True):
    """What is asked of /v1/completions."""

    prompt: str | list[Any]
    logprobs: int | None = None
    # Not OpenAI's: who writes prompts in the format may bind calls as those of chats are bound.
    tools: list[dict[str, Any]] | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """Returns the prompts: each a text, or ids."""
        alone = isinstance(self.prompt, str) or all(type(i) is int for i in self.prompt)
        return [self.prompt] if alone else list(self.prompt)


_T = TypeVar("_T", Chat, Completion)


def read(shape: type[_T], request: Any) -> _T:
    """Returns the parameters of a request.

    Raises ApiError naming the parameter that is unknown, is not supported or has a wrong value.
    """
    if not isinstance(request, dict):
        raise ApiError("the body of a request is a JSON object")
    names = {field.name for field in msgspec.structs.fields(shape)}
    for name, value in request.items():
        if name not in names:
            _pass(name, value)
    try:
        params = msgspec.convert(request, shape)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        if message.startswith("Invalid enum value"):  # of an effort
            message += "; only 'none' is taken: leave it out, or set thinking_token_budget"
        missing = message.partition("missing required field `")[2].rstrip("`")
        place = where.rstrip("`") or missing or None
        raise ApiError(f"{place}: {message}" if where else message, param=place) from None
    _ranges(params)
    return params


def _pass(name: str, value: Any) -> None:
    """Raises ApiError for a parameter that is not read, unless it changes nothing."""
    if name in IGNORED or (value is None and (name in NEUTRAL or name in INSTEAD)):
        return
    if name in INSTEAD:
        raise ApiError(
            f"{name} is not supported: use {INSTEAD[name]}",
            param=name,
            code="unsupported_parameter",
        )
    if name not in NEUTRAL:
        raise ApiError(f"unknown parameter: {name}", param=name, code="unknown_parameter")
    if not any(
        v == value and isinstance(v, bool) == isinstance(value, bool) for v in NEUTRAL[name]
    ):
        only = " or ".join(repr(v) for v in NEUTRAL[name])
        note = f"; only {only} is taken, which changes nothing" if only else ""
        raise ApiError(
            f"{name} is not supported{note}: leave it out", param=name, code="unsupported_parameter"
        )


def _ranges(params: Chat | Completion) -> None:
    """Raises ApiError for a number that is out of range, or parameters that contradict."""
    bounds: dict[str, tuple[float, float]] = {
        "max_tokens": (1, 1 << 20),
        "max_completion_tokens": (1, 1 << 20),
        "temperature": (0, 2),
        "top_p": (0, 1),
        "top_k": (1, 1 << 20),
        "n": (1, MOST_CHOICES),
        "top_logprobs": (0, MOST_TOP),
        "logprobs": (0, MOST_TOP),
    }
    for name, (least, most) in bounds.items():
        value = getattr(params, name, None)
        if value is not None and not least <= value <= most:
            raise ApiError(f"{name} is {value}; expected {least} to {most}", param=name)
    first = ""
    for name, value in params.budgets.items():
        if value is None:
            continue
        if not 0 <= value <= MOST_THOUGHTS:
            message = f"{name} is {value}; expected 0 to {MOST_THOUGHTS}"
            raise ApiError(f"{message}, or leave it out for no budget", param=name)
        if first and value != params.thoughts:
            message = f"{first} and {name} ask for different budgets of thoughts: keep one"
            raise ApiError(message, param=name)
        first = first or name
    if params.reasoning and params.reasoning.enabled and params.thoughts == 0:
        message = f"reasoning.enabled is true, and {first} forbids thoughts: keep one"
        raise ApiError(message, param="reasoning.enabled")
    if params.top_p == 0:
        raise ApiError("top_p is 0; expected more", param="top_p")
    if len(params.stops) > MOST_STOPS or not all(params.stops):
        raise ApiError(f"stop is one text, or up to {MOST_STOPS}, none of them empty", param="stop")
    if params.stream_options is not None and not params.stream:
        raise ApiError("stream_options needs stream: true", param="stream_options")
    if isinstance(params, Chat):
        both = (params.max_tokens, params.max_completion_tokens)
        if None not in both and both[0] != both[1]:
            raise ApiError(
                "max_tokens and max_completion_tokens differ: keep one", param="max_tokens"
            )
        if params.top_logprobs is not None and not params.logprobs:
            raise ApiError("top_logprobs needs logprobs: true", param="top_logprobs")
        return
    for prompt in params.prompts:
        ids = isinstance(prompt, list) and prompt and all(type(i) is int for i in prompt)
        if not (ids or (isinstance(prompt, str) and prompt)):
            raise ApiError(
                "expected a text, ids, or a list of such; none of them empty", param="prompt"
            )
