"""Makes the decoder of a request, and keeps it for the next one that asks the same.

Input: tools, the choice among them, and what the answer has to be. Output: a `Ready` decoder. To
compile tools takes from milliseconds to seconds; agents send the same ones at every turn.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from mypt_infer.decode.base.schemas import plain_tools
from mypt_infer.decode.base.tools import SchemaFault, declare
from mypt_infer.decode.decoder import Decoder
from mypt_infer.decode.llguidance.response import Response, ResponseError
from mypt_infer.run_format import Format, format_of
from mypt_infer.serve.asked.errors import ApiError
from mypt_spec import Dialect

if TYPE_CHECKING:
    from mypt_infer.generate.device import DeviceDecoder

# The most decoders that are kept, and the most bytes of them.
_KEPT, _ROOM = 64, 1 << 30
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

    @property
    def nbytes(self) -> int:
        """Returns the bytes that it takes now, about; they grow as it is used."""
        return self.decoder.nbytes + self.tensors.nbytes


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
    """The decoders of a model. Threads may share it.

    Those that were asked for last are kept, within a number and within bytes. A decoder grows as it
    is used, so all are counted again whenever one is asked for.
    """

    def __init__(self, dialect: Dialect, *, engine: str = "auto") -> None:
        self.dialect, self.format, self._engine = dialect, format_of(dialect), engine
        self._made: dict[str, Ready] = {}  # the one that was asked for last is the last
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Returns the bytes of all that are kept, about."""
        return sum(ready.nbytes for ready in tuple(self._made.values()))

    def get(self, wanted: Wanted) -> Ready:
        """Returns the decoder of a request. Raises ApiError where there is none."""
        return self.known(wanted) or self._keep(wanted.key, self._make(wanted))

    def known(self, wanted: Wanted) -> Ready | None:
        """Returns the decoder of a request if it is there; None if it would have to be made."""
        found = self._made.get(wanted.key)
        return None if found is None else self._keep(wanted.key, found)

    def _keep(self, key: str, ready: Ready) -> Ready:
        """Keeps a decoder, and those asked for before it that there is room for."""
        with self._lock:
            self._made.pop(key, None)
            room = _ROOM - ready.nbytes
            for number, (old, kept) in enumerate(reversed([*self._made.items()]), 1):
                room -= kept.nbytes
                if room < 0 or number >= _KEPT:
                    del self._made[old]
            self._made[key] = ready
        return ready

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
            plain, ignored = plain_tools(declare(tools))
            if ignored:  # logged, not warned of: warnings are caught for all threads at once
                _LOG.warning("read as nothing in the schemas of tools: %s", ", ".join(ignored))
            decoder = Decoder(
                self.dialect,
                plain,
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
        return Ready(self.format, decoder, DeviceDecoder(decoder), choice)
