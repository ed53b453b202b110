"""Draws the ids of a conversation from a model on a server.

Input: ids that the conversation adds. Output: the next id, or a repair of the server's text. A
request is open as long as the conversation goes on as the server says; what the controller puts in
itself is compared with what comes, and only a difference makes a new request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from mypt_infer.controller.events import Repaired
from mypt_infer.endpoint.chats import Chats
from mypt_infer.endpoint.connect import OURS, Endpoint, EndpointError, NoCompletions, NoIds
from mypt_infer.endpoint.texts import prompt_text, read_text
from mypt_infer.run_format import format_of
from mypt_spec import Dialect

Drawn = int | Repaired


class EndpointSource:
    """A `Source` that asks a server; `tools` are schemas, which bind the calls of mypt-serve.

    `speaks` is "ids", "text" or "chat": with None, ids are asked for first, then texts, then chats,
    until the server has what is asked for. `sampling` are parameters of the API, such as
    `temperature`. Raises ValueError for a server of another format.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        dialect: Dialect,
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: dict[str, Any] | None = None,
        speaks: str | None = None,
    ) -> None:
        if endpoint.dialect and endpoint.dialect != dialect.name:
            raise ValueError(f"{endpoint.url} speaks {endpoint.dialect}, not {dialect.name}")
        if endpoint.grammar and endpoint.grammar != dialect.fingerprint:
            raise ValueError(
                f"{endpoint.url} has another grammar or vocabulary of {dialect.name} than is here"
            )
        self.endpoint, self.speaks = endpoint, speaks
        self._format, self._tools, self._wanted = format_of(dialect), list(tools), speaks
        self._told: set[str] = set()  # what the server is not shown, and that was said
        self._sampling = dict(sampling or {})
        self._forbidden: frozenset[str] = frozenset()
        self._ids: list[int] = []
        # What the open request still says, and ids of the context that it has not said yet.
        self._coming: Iterator[Drawn] | None = None
        self._ahead: list[int] = []
        self._said = False  # whether the open request has said anything that was taken

    @cached_property
    def _chats(self) -> Chats:
        return Chats(self._format, self._tools)

    @property
    def context_length(self) -> int | None:
        """Returns the number of ids that the model can see; None if the server does not say."""
        return self.endpoint.context_length

    @property
    def held(self) -> int:
        return len(self._ids)

    def forbid(self, kinds: frozenset[str]) -> None:
        if kinds != self._forbidden:
            self._forget()
        self._forbidden = kinds

    def append(self, ids: Sequence[int]) -> None:
        self._ids += ids
        self._ahead += ids

    def truncate(self, length: int) -> None:
        del self._ids[length:]
        self._forget()

    def next(self, left: int) -> Drawn:
        """Returns the next id, or a repair. Raises EndpointError and NoRoom."""
        self._catch_up()
        drawn = None if self._coming is None else next(self._coming, None)
        if drawn is None and (self._coming is None or self._said):
            self._forget()
            self._coming, self._said = self._asked(left), False
            drawn = next(self._coming, None)
        if drawn is None:
            self._forget()
            raise EndpointError(
                f"{self.endpoint.url}: the model ends where {self._format.dialect.name} goes on"
            )
        ids = drawn.ids if isinstance(drawn, Repaired) else [drawn]
        self._said = self._said or bool(ids)
        self._ids += ids
        return drawn

    def _catch_up(self) -> None:
        """Takes from the open request what the context has already; drops it where they differ."""
        while self._ahead and self._coming is not None:
            drawn = next(self._coming, None)
            said = list(drawn.ids) if isinstance(drawn, Repaired) else [drawn]
            if drawn is None or not said or self._ahead[: len(said)] != said:
                self._forget()
            else:
                del self._ahead[: len(said)]
        self._ahead = []

    def _forget(self) -> None:
        """Ends the open request."""
        close = getattr(self._coming, "close", None)
        self._coming, self._ahead = None, []
        if close is not None:
            close()

    def _asked(self, left: int) -> Iterator[Drawn]:
        """Yields what the server says after the context."""
        if self.speaks in (None, "ids"):
            try:
                for token in self.endpoint.ids(self._ids, left, self._options()):
                    self.speaks = "ids"
                    yield token
                return
            except NoIds:
                if self.speaks == "ids":
                    raise EndpointError(f"{self.endpoint.url} returns no ids") from None
                self.speaks = "text"
                yield Repaired((), "the server returns no ids: its texts are read", damage=False)
            except NoCompletions:
                yield self._chatting()
        if self.speaks != "chat":
            prompt = prompt_text(self._format.dialect, self._ids)
            try:
                said = self.endpoint.text(prompt, left, self._options())
                yield from read_text(self._format, self._ids, prompt, said, self._forbidden)
                return
            except NoCompletions:
                yield self._chatting()
        yield from self._chat(left)

    def _chatting(self) -> Repaired:
        """Asks for chats from now on, and returns the notice of it.

        Raises EndpointError where something else is wanted.
        """
        if self._wanted is not None:
            raise EndpointError(f"{self.endpoint.url} has chats alone, and no completions")
        self.speaks = "chat"
        return Repaired((), "the server has chats alone: its messages are read", damage=False)

    def _chat(self, left: int) -> Iterator[Drawn]:
        """Yields what the server says in a chat, or a call that it made before."""
        ids, chats = list(self._ids), self._chats
        shown = chats.shown(ids)
        if calls := chats.waiting(shown):
            yield from chats.made(ids, shown, calls, self._forbidden)
            return
        for kind in sorted({*shown.unseen} - self._told):
            self._told.add(kind)
            yield Repaired((), f"the server is not shown: {kind}", damage=False)
        binds = not self._format.calls <= self._forbidden
        options = self._options()
        options.get("extra_body", {}).pop("tools", None)
        said = self.endpoint.chat(shown.messages, chats.tools if binds else (), left, options)
        yield from chats.read(ids, shown, said, self._forbidden)

    def _options(self) -> dict[str, Any]:
        """Returns the parameters of a request; what binds calls is for our server alone."""
        extra: dict[str, Any] = dict(self._sampling.get("extra_body", {}))
        if self.endpoint.owner == OURS:
            form = self._format
            if self._tools and not form.calls <= self._forbidden:
                extra["tools"] = self._tools
            if form.thinking and form.thinking <= self._forbidden:
                extra["reasoning_effort"] = "none"
        return {**self._sampling, **({"extra_body": extra} if extra else {})}
