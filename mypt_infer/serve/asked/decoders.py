"""Makes the decoder of a request, and keeps it for the next one that asks the same.

Input: tools, the choice among them, and what the answer has to be. Output: a `Ready` decoder. To
compile tools takes from milliseconds to seconds; agents send the same ones at every turn.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mypt_infer.decode.decoder import Decoder
from mypt_infer.decode.llguidance.response import Response, ResponseError
from mypt_infer.decode.tools import SchemaFault
from mypt_infer.run_format import Format, format_of
from mypt_infer.serve.errors import ApiError
from mypt_spec import Dialect
from mypt_spec.memo import Memo

if TYPE_CHECKING:
    from mypt_infer.generate.device import DeviceDecoder

_KEPT = 64
_LOG = logging.getLogger("mypt-serve")
AUTO, NONE, REQUIRED = "auto", "none", "required"


@dataclass(frozen=True)
class Choice:
    """Which calls a request wants: `how` is auto, none or required; `name` is the only tool."""

    how: str = AUTO
    name: str = ""


@dataclass(frozen=True, eq=False)
class Ready:
    """A decoder, and the same for tensors. `choice` says whether a call has to come."""

    format: Format
    decoder: Decoder
    tensors: DeviceDecoder
    choice: Choice


def choice_of(given: str | dict[str, Any] | None, names: Sequence[str]) -> Choice:
    """Returns what `tool_choice` says. Raises ApiError for what is none of its values."""
    if given is None or given in (AUTO, NONE):
        return Choice(given or (AUTO if names else NONE))
    said = (
        f"expected auto, none, required or the name of a tool: {', '.join(names) or 'none given'}"
    )
    if given == REQUIRED and names:
        return Choice(REQUIRED, names[0] if len(names) == 1 else "")
    function = given.get("function") if isinstance(given, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if isinstance(given, dict) and given.get("type") == "function" and name in names:
        return Choice(REQUIRED, str(name))
    shown = json.dumps(given, ensure_ascii=False)[:80]
    raise ApiError(f"tool_choice is {shown}; {said}", param="tool_choice")


def response_of(given: dict[str, Any] | None) -> Response | None:
    """Returns what `response_format` says. Raises ApiError for what is none of its values."""
    kind = "text" if given is None else given.get("type")
    if given is None or kind == "text":
        return None
    if kind == "json_object":
        return Response(schema={"type": "object"})
    inner = given.get("json_schema")
    if kind != "json_schema" or not isinstance(inner, dict) or "schema" not in inner:
        raise ApiError(
            'expected {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", '
            '"json_schema": {"name": ..., "schema": {...}}}',
            param="response_format",
        )
    try:
        return Response(schema=inner["schema"])
    except ValueError as error:
        raise _unfit(error) from None


def _unfit(error: Exception) -> ApiError:
    return ApiError(f"response_format: {error}", param="response_format")


@dataclass(frozen=True)
class Wanted:
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
        return json.dumps([self.tools, self.choice.how, self.choice.name, schema, self.think])


class Decoders:
    """The decoders of a model, the last ones kept. Threads may share it."""

    def __init__(self, dialect: Dialect, *, engine: str = "auto") -> None:
        self.dialect, self.format, self._engine = dialect, format_of(dialect), engine
        self._made = Memo[str, Ready](_KEPT)

    def get(self, wanted: Wanted) -> Ready:
        """Returns the decoder of a request. Raises ApiError where there is none."""
        return self.known(wanted) or self._made.keep(wanted.key, self._make(wanted))

    def known(self, wanted: Wanted) -> Ready | None:
        """Returns the decoder of a request if it is there; None if it would have to be made."""
        found = self._made.known.get(wanted.key)
        return None if found is None else self._made.keep(wanted.key, found)

    def _make(self, wanted: Wanted) -> Ready:
        from mypt_infer.generate.device import DeviceDecoder

        choice = wanted.choice
        tools = () if choice.how == NONE else wanted.tools
        if choice.name:
            tools = [tool for tool in tools if tool["function"]["name"] == choice.name]
        if tools and not self.format.calls:
            raise ApiError(f"{self.dialect.name} has no tool calls: leave tools out", param="tools")
        forbidden: Iterable[str] = () if wanted.think else self.format.thinking
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                decoder = Decoder(
                    self.dialect,
                    tools,
                    engine=self._engine,
                    forbidden_blocks=forbidden,
                    response=wanted.response,
                )
        except SchemaFault as error:
            raise ApiError(f"tools: {error}", param="tools") from None
        except ResponseError as error:
            raise _unfit(error) from None
        except ValueError as error:
            raise ApiError(str(error)) from None
        for warning in said:
            _LOG.warning("%s", warning.message)
        return Ready(self.format, decoder, DeviceDecoder(decoder), choice)
