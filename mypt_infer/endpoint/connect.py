"""Asks a server for completions, and says in plain words why it cannot answer.

Input: a prompt as ids or as text. Output: ids as they are drawn, or a text. llama.cpp's own API is
asked for ids, because the one that it has beside it, for clients of OpenAI's, returns none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import openai

from mypt_infer.controller.source import NoRoom

KEY = "OPENAI_API_KEY"
OURS, LLAMA_CPP = "mypt-serve", "llamacpp"
# What a server says of a path that it does not have.
_NONE_THERE = (404, 405, 501)


class EndpointError(RuntimeError):
    """A server cannot be reached, or refuses, or answers what cannot be read."""


class NoIds(Exception):
    """A server returns texts alone, or takes no ids."""


class NoCompletions(Exception):
    """A server has chats alone."""


class Said(NamedTuple):
    """The text of an answer; `ended`: the model has ended it, and not a limit."""

    text: str
    ended: bool


class Message(NamedTuple):
    """The message of an answer, as the API has it; `ended`: the model has ended it, not a limit."""

    message: dict[str, Any]
    ended: bool


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A model on a server. Get it by `opened`.

    `owner` is what the server calls its maker, `dialect` and `grammar` are those that mypt-serve
    names, "" elsewhere. `context_length` is None where the server does not say it.
    """

    url: str
    model: str
    client: openai.OpenAI = field(repr=False)
    owner: str = ""
    dialect: str = ""
    grammar: str = ""
    context_length: int | None = None

    @classmethod
    def opened(
        cls,
        url: str,
        *,
        model: str | None = None,
        key: str | None = None,
        seconds: float = 60.0,
        retries: int = 2,
    ) -> Endpoint:
        """Returns the model of that name on a server; without a name, the only one there.

        `seconds` is how long the server may be silent. A request that may succeed later is made
        `retries` times more. Raises EndpointError.
        """
        client = openai.OpenAI(
            base_url=url, api_key=key or "none", timeout=seconds, max_retries=retries
        )
        try:
            return cls._found(url, client, model)
        except BaseException:
            client.close()
            raise

    @classmethod
    def _found(cls, url: str, client: openai.OpenAI, model: str | None) -> Endpoint:
        with _plainly(url):
            try:
                there = [entry.model_dump() for entry in client.models.list().data or ()]
            except openai.NotFoundError:
                there = []
        names = ", ".join(entry["id"] for entry in there)
        if model is None and len(there) != 1:
            said = f"it has {names}" if there else "it does not say which models it has"
            raise EndpointError(f"{url}: name the model; {said}")
        found = next((e for e in there if model in (None, e["id"])), None)
        if there and found is None:
            raise EndpointError(f"{url} has no model {model!r}; it has {names}")
        about = found or {"id": model}
        length = about.get("max_model_len")
        return cls(
            url=url,
            model=str(about["id"]),
            client=client,
            owner=str(about.get("owned_by") or ""),
            dialect=str(about.get("dialect") or ""),
            grammar=str(about.get("grammar") or ""),
            context_length=length if isinstance(length, int) else None,
        )

    def close(self) -> None:
        """Closes the connections."""
        self.client.close()

    def ids(self, prompt: Sequence[int], most: int, options: dict[str, Any]) -> Iterator[int]:
        """Yields at most `most` ids that follow a prompt.

        Raises NoIds or NoCompletions before the first one, NoRoom, and EndpointError.
        """
        if self.owner == LLAMA_CPP:
            yield from self._ids_of_llama_cpp(prompt, most, options)
            return
        extra = {**options.get("extra_body", {}), "return_token_ids": True}
        known = False
        with _plainly(self.url):
            try:
                stream = self.client.completions.create(
                    model=self.model,
                    prompt=list(prompt),
                    max_tokens=most,
                    stream=True,
                    **{**options, "extra_body": extra},
                )
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if self.owner == OURS or _no_room(error):
                    raise
                raise NoIds from None
            except openai.APIStatusError as error:
                raise _alone(error) from None
            with stream:
                for chunk in stream:
                    for choice in chunk.choices:
                        found = (choice.model_extra or {}).get("token_ids")
                        if found is None and choice.text and not known:
                            raise NoIds
                        known = known or found is not None
                        yield from map(int, found or ())

    def _ids_of_llama_cpp(
        self, prompt: Sequence[int], most: int, options: dict[str, Any]
    ) -> Iterator[int]:
        given = {k: v for k, v in options.items() if k != "extra_body"}
        body = {"prompt": list(prompt), "n_predict": most, "return_tokens": True, **given}
        root = self.url.rstrip("/").removesuffix("/v1")
        with _plainly(self.url):
            made: Any = self.client.post(f"{root}/completion", cast_to=object, body=body)
        found = made.get("tokens") if isinstance(made, dict) else None
        if not isinstance(found, list) or not all(type(i) is int for i in found):
            raise EndpointError(f"{root}/completion returned no tokens; a newer llama.cpp does")
        yield from found

    def text(self, prompt: str, most: int, options: dict[str, Any]) -> Said:
        """Returns the text that follows a prompt.

        Raises NoCompletions, NoRoom and EndpointError.
        """
        with _plainly(self.url):
            try:
                made = self.client.completions.create(
                    model=self.model, prompt=prompt, max_tokens=most, **options
                )
            except openai.APIStatusError as error:
                raise _alone(error) from None
        choices = getattr(made, "choices", None)
        if not choices or not isinstance(choices[0].text, str):
            raise EndpointError(f"{self.url} answered what is no completion: {str(made)[:200]}")
        return Said(choices[0].text, choices[0].finish_reason != "length")

    def chat(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        most: int,
        options: dict[str, Any],
    ) -> Message:
        """Returns the answer to messages. Raises NoRoom and EndpointError."""
        asked: dict[str, Any] = {"model": self.model, "messages": list(messages), **options}
        asked |= {"tools": list(tools)} if tools else {}
        make: Any = self.client.chat.completions.create
        with _plainly(self.url):
            try:
                made = make(**asked, max_tokens=most)
            except openai.BadRequestError as error:
                if error.param != "max_tokens" or error.code != "unsupported_parameter":
                    raise
                made = make(**asked, max_completion_tokens=most)
        choices = getattr(made, "choices", None)
        if not choices or choices[0].message is None:
            raise EndpointError(f"{self.url} answered what is no chat: {str(made)[:200]}")
        said = choices[0].message.model_dump(warnings=False)
        return Message(said, choices[0].finish_reason != "length")


@contextmanager
def _plainly(url: str) -> Iterator[None]:
    """Raises EndpointError or NoRoom for what the client raises."""
    try:
        yield
    except openai.APITimeoutError:
        raise EndpointError(f"{url} did not answer in time") from None
    except openai.APIConnectionError as error:
        why = error.__cause__ or error
        raise EndpointError(f"no server answers at {url}: {why}") from None
    except openai.APIStatusError as error:
        if _no_room(error):
            raise NoRoom(f"{url}: {error.message}") from None
        raise EndpointError(f"{url}: {_meaning(error)}: {error.message}") from None
    except (openai.APIError, ValueError) as error:  # an error in a stream, or no JSON
        raise EndpointError(f"{url} answered what cannot be read: {error}") from None


def _alone(error: openai.APIStatusError) -> Exception:
    """Returns NoCompletions for the status of a server that has none, else the error."""
    return NoCompletions() if error.status_code in _NONE_THERE else error


def _no_room(error: openai.APIStatusError) -> bool:
    return error.code in ("max_tokens_too_small", "context_length_exceeded")


def _meaning(error: openai.APIStatusError) -> str:
    """Returns what the status of an answer means for who asks."""
    known = {
        401: f"the key is refused; set {KEY} to the server's",
        403: f"the key may not do this; {KEY} has it",
        404: "it has no such model, or neither completions nor chats of it",
        429: "too many requests, or no quota left; try again later",
    }
    status = error.status_code
    return known.get(status, "the server failed" if status >= 500 else f"refused with {status}")
