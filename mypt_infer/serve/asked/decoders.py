"""Makes the decoder of a request, and keeps it for the next one that asks the same.

Input: tools, the choice among them, and what the answer has to be. Output: a `Ready` decoder. To
compile tools takes from milliseconds to seconds; agents send the same ones at every turn.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

from mypt_infer.decode.base.schemas import plain_tools
from mypt_infer.decode.base.tools import SchemaFault, declare
from mypt_infer.decode.decoder import Decoder
from mypt_infer.decode.llguidance.response import Response, ResponseError
from mypt_infer.run_format import format_of
from mypt_infer.serve.asked.errors import ApiError
from mypt_infer.serve.asked.thoughts import ThoughtLimits
from mypt_spec import Dialect

# The most decoders that are kept, and the most bytes of them.
_MOST, _ROOM = 64, 1 << 30
_LOG = logging.getLogger("mypt-serve")
AUTO, NONE, REQUIRED = "auto", "none", "required"


class Choice(NamedTuple):
    """Which calls a request wants: `how` is auto, none or required; `names` are the only tools."""

    how: str = AUTO
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Ready:
    """A decoder."""

    decoder: Decoder

    @cached_property
    def thoughts(self) -> ThoughtLimits:
        """Returns the decoders of rows with a budget of thoughts."""
        return ThoughtLimits(self.decoder)


def choice_of(
    value: str | dict[str, Any] | None, names: Sequence[str], inner: Callable[[str], str]
) -> Choice:
    """Returns what `tool_choice` says; `inner` maps the names of the client to those of tools.

    Raises ApiError for what is none of its values.
    """
    if value is None or value in (AUTO, NONE):
        return Choice(value or (AUTO if names else NONE))
    expected = (
        "expected auto, none, required, allowed_tools or the name of a tool: "
        f"{', '.join(names) or 'none given'}"
    )
    if value == REQUIRED and names:
        return Choice(REQUIRED)
    how: Any = REQUIRED
    entries: Any = [value]
    if isinstance(value, dict) and isinstance(several := value.get("allowed_tools"), dict):
        how, entries = several.get("mode"), several.get("tools")
    chosen = [_tool_named(entry) for entry in entries] if isinstance(entries, list) else []
    allowed = tuple(inner(name) for name in chosen)
    if chosen and how in (AUTO, REQUIRED) and {*names}.issuperset(allowed):
        return Choice(how, allowed)
    excerpt = json.dumps(value, ensure_ascii=False)[:80]
    raise ApiError(f"tool_choice is {excerpt}; {expected}", param="tool_choice")


def _tool_named(entry: Any) -> str:
    """Returns the name of the function that an entry of a choice names, "" for none."""
    function = entry.get("function") if isinstance(entry, dict) else None
    if not isinstance(function, dict) or entry.get("type") != "function":
        return ""
    return str(function.get("name", ""))


def response_of(value: dict[str, Any] | None) -> Response | None:
    """Returns what `response_format` says. Raises ApiError for what is none of its values."""
    kind = "text" if value is None else value.get("type")
    if value is None or kind == "text":
        return None
    if kind == "json_object":
        return Response(schema={"type": "object"})
    inner = value.get("json_schema")
    if kind != "json_schema" or not isinstance(inner, dict) or "schema" not in inner:
        raise ApiError(
            'expected {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", '
            '"json_schema": {"name": ..., "schema": {...}}}',
            param="response_format",
        )
    try:
        return Response(
            schema=inner["schema"], strict=_is_strict(inner, "response_format.json_schema")
        )
    except ApiError:
        raise
    except ValueError as error:
        raise _unfit(error) from None


def check_strict(tools: Sequence[dict[str, Any]]) -> None:
    """Raises ApiError for a tool with `strict` whose schema has a keyword that nothing enforces.

    All else in a schema is enforced, or refused with and without `strict`.
    """
    for at, tool in enumerate(tools):
        place = f"tools[{at}].function"
        if _is_strict(tool["function"], place):
            try:
                plain_tools(declare([tool]), strict=True)
            except SchemaFault as error:
                message = f"{place}.parameters: {error}"
                raise ApiError(message, param=f"{place}.parameters") from None


def _is_strict(value: dict[str, Any], place: str) -> bool:
    strict = value.get("strict")
    if strict is not None and not isinstance(strict, bool):
        message = f"{place}.strict is {json.dumps(strict)[:80]}; expected true or false"
        raise ApiError(message, param=f"{place}.strict")
    return bool(strict)


def _unfit(error: Exception) -> ApiError:
    return ApiError(f"response_format: {error}", param="response_format")


@dataclass(frozen=True)
class Recipe:
    """What a request asks of a decoder: tools, the choice among them, the answer, thoughts."""

    tools: Sequence[dict[str, Any]]
    choice: Choice
    response: Response | None = None
    think: bool = True

    @cached_property
    def key(self) -> str:
        """Returns a text that is equal for equal requests."""
        schema = None if self.response is None else self.response.plain
        # The order of keys counts: arguments are written in it.
        return json.dumps([self.tools, *self.choice, schema, self.think])


class Decoders:
    """The decoders of a model. Threads may share it.

    Those that were asked for last are kept, within a number and within bytes. A decoder grows as it
    is used, so all are counted again whenever one is asked for.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect, self.format = dialect, format_of(dialect)
        self._ready: dict[str, Ready] = {}  # the one that was asked for last is the last
        self._lock = Lock()

    def get(self, recipe: Recipe) -> Ready:
        """Returns the decoder of a request. Raises ApiError where there is none."""
        return self.cached(recipe) or self._keep(recipe.key, self._make(recipe))

    def cached(self, recipe: Recipe) -> Ready | None:
        """Returns the decoder of a request if it is there; None if it would have to be made."""
        ready = self._ready.get(recipe.key)
        return None if ready is None else self._keep(recipe.key, ready)

    def _keep(self, key: str, ready: Ready) -> Ready:
        """Keeps a decoder, and those asked for before it that there is room for."""
        with self._lock:
            self._ready.pop(key, None)
            room = _ROOM - ready.decoder.nbytes
            for number, (old, other) in enumerate(reversed([*self._ready.items()]), 1):
                room -= other.decoder.nbytes  # which grow as they are used
                if room < 0 or number >= _MOST:
                    del self._ready[old]
            self._ready[key] = ready
        return ready

    def _make(self, recipe: Recipe) -> Ready:
        choice = recipe.choice
        tools = () if choice.how == NONE else recipe.tools
        if choice.names:
            tools = [tool for tool in tools if tool["function"]["name"] in choice.names]
        if tools and not self.format.calls:
            raise ApiError(f"{self.dialect.name} has no tool calls: leave tools out", param="tools")
        is_required = choice.how == REQUIRED
        forbidden: Iterable[str] = () if recipe.think else self.format.thinking
        try:
            plain, notes = plain_tools(declare(tools))
            if text := notes.text("the schemas of tools"):
                _LOG.warning("%s", text)  # warnings would be caught for all threads at once
            decoder = Decoder(
                self.dialect,
                plain,
                engine="auto",
                forbidden_blocks=forbidden,
                response=None if is_required else recipe.response,
                require_call=is_required,
            )
        except SchemaFault as error:
            raise ApiError(f"tools: {error}", param="tools") from None
        except ResponseError as error:
            raise _unfit(error) from None
        except ValueError as error:
            raise ApiError(str(error)) from None
        return Ready(decoder)
