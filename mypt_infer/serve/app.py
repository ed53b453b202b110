"""Routes requests to the service, and writes what comes back: JSON, or a stream of events."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mypt_infer.serve.answers import Json
from mypt_infer.serve.asked.errors import ApiError, place_of
from mypt_infer.serve.asked.parameters import Chat, Completion, Params, read
from mypt_infer.serve.guard import Guard, body_of, refused
from mypt_infer.serve.jobs import Ended, NewIds
from mypt_infer.serve.metrics import Metrics
from mypt_infer.serve.service import Running, Service, refusal
from mypt_spec.bodies.strict_json import Fault, faults, loads

CHAT, TEXT = "chat.completion", "text_completion"
_Params = TypeVar("_Params", Chat, Completion)


def app(
    service: Service, *, key: str | None = None, hosts: frozenset[str] | None = None
) -> Starlette:
    """Returns the application. `key` and `hosts` are those of `Guard`."""
    metrics = Metrics(service.rows)
    handlers = _App(service, metrics)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.close)

    return Starlette(
        routes=[
            Route("/health", handlers.health),
            Route("/metrics", handlers.metrics_text),
            Route("/v1/models", handlers.models),
            Route("/v1/models/{name:path}", handlers.model),
            Route("/v1/chat/completions", handlers.chat, methods=["POST"]),
            Route("/v1/completions", handlers.complete, methods=["POST"]),
        ],
        middleware=[Middleware(Guard, key=key, hosts=hosts)],
        exception_handlers={HTTPException: _refused, ApiError: _refused},
        lifespan=lifespan,
    )


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        message = f"{request.method} {request.url.path}: {error.detail}"
        error = ApiError(message, status=error.status_code)
    return refused(refusal(error))


class _App:
    def __init__(self, service: Service, metrics: Metrics) -> None:
        self.service, self.metrics = service, metrics

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics_text(self, _: Request) -> Response:
        return Response(self.metrics.text, media_type="text/plain; version=0.0.4")

    async def models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        self.service.check_model(request.path_params["name"])
        return JSONResponse(self._model())

    def _model(self) -> Json:
        service = self.service
        return {
            "id": service.name,
            "object": "model",
            "created": service.began,
            "owned_by": "mypt-serve",
            "max_model_len": service.rows.positions,
            "dialect": service.dialect.name,
            "grammar": service.dialect.fingerprint,
        }

    async def chat(self, request: Request) -> Response:
        return await self._answered(request, CHAT, Chat, self.service.chat)

    async def complete(self, request: Request) -> Response:
        return await self._answered(request, TEXT, Completion, self.service.complete)

    async def _answered(
        self,
        request: Request,
        kind: str,
        shape: type[_Params],
        run: Callable[[_Params], Awaitable[Running]],
    ) -> Response:
        began, status = time.monotonic(), 200
        try:
            params = read(shape, _value(await body_of(request, self.service.limits.body)))
            running = await self._while_there(request, run(params))
            try:
                await self._while_there(request, running.wait())
                self.metrics.first.observe(time.monotonic() - began)
                reply = _Reply(self.service, kind, params, running)
                if params.stream:
                    events = self._counted(reply.events(), running, began)
                    return StreamingResponse(events, media_type="text/event-stream")
                document = await self._while_there(request, reply.document())
                self._count(running, began)
                return JSONResponse(document)
            except BaseException:
                running.close()
                raise
        except _ClientGone:
            status = 499
            self.metrics.cancelled.inc()
            return Response(status_code=499)
        except Exception as error:  # the client gets an answer, and the log the rest
            api_error = refusal(error)
            status = api_error.status
            return refused(api_error)
        finally:
            self.metrics.requests.labels(request.url.path, str(status)).inc()

    async def _while_there(self, request: Request, work: Any) -> Any:
        """Returns what some work returns. Raises _ClientGone as soon as the client has gone."""
        working = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise _ClientGone
            return working.result()
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def _counted(
        self, events: AsyncIterator[bytes], running: Running, began: float
    ) -> AsyncIterator[bytes]:
        """Yields events, and ends the answers when the client has gone."""
        try:
            async for event in events:
                yield event
        finally:
            if not all(answer.reason for answer in running.answers):
                self.metrics.cancelled.inc()
            running.close()
            self._count(running, began)

    def _count(self, running: Running, began: float) -> None:
        self.metrics.request_seconds.observe(time.monotonic() - began)
        self.metrics.tokens.labels("prompt").inc(sum(len(p.ids) for p in running.prompts))
        self.metrics.tokens.labels("answer").inc(sum(len(a.ids) for a in running.answers))


class _ClientGone(Exception):
    """The client has gone."""


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Reply:
    """The answer to one request, whole or as events."""

    def __init__(self, service: Service, kind: str, params: Params, running: Running) -> None:
        self.params, self.running, self.kind = params, running, kind
        prefix = "chatcmpl" if kind == CHAT else "cmpl"
        self.head: Json = {
            "id": f"{prefix}-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": service.name,
            "system_fingerprint": f"{service.dialect.name}-{service.dialect.fingerprint[:12]}",
        }

    @property
    def usage(self) -> Json:
        """Returns the numbers of tokens; a prompt counts once, whatever its number of answers."""
        prompts = self.running.prompts[:: self.params.choices]
        answers = sum(len(answer.ids) for answer in self.running.answers)
        before = sum(len(prompt.ids) for prompt in prompts)
        total = before + answers
        return {"prompt_tokens": before, "completion_tokens": answers, "total_tokens": total}

    async def document(self) -> Json:
        """Returns the whole answer. Raises ApiError where it fails."""
        async for _ in self.running.steps():
            pass
        choices = [{"index": i, **a.choice()} for i, a in enumerate(self.running.answers)]
        out = {**self.head, "choices": choices, "usage": self.usage}
        if self.params.return_token_ids:
            for choice, answer in zip(choices, self.running.answers, strict=True):
                choice["token_ids"] = answer.ids
            for choice, prompt in zip(choices, self.running.prompts, strict=True):
                choice["prompt_token_ids"] = prompt.ids
            out["prompt_token_ids"] = self.running.prompts[0].ids
        return out

    async def events(self) -> AsyncIterator[bytes]:
        """Yields the answer as events. An error after the first token is an event, too."""
        if self.kind == CHAT:
            for at in range(len(self.running.answers)):
                begun: Json = {"index": at, "delta": {"role": "assistant", "content": ""}}
                yield self._event(
                    [begun | {"logprobs": None, "finish_reason": None}], first=at == 0
                )
        sent_ids = [0] * len(self.running.answers)
        empty: Json = {"delta": {}} if self.kind == CHAT else {"text": ""}
        try:
            async for at, update, new in self.running.steps():
                answer = self.running.answers[at]
                if self.params.return_token_ids and not new and isinstance(update, NewIds):
                    new = [{**empty, "logprobs": None}]
                for number, choice in enumerate(new):
                    if self.params.return_token_ids:
                        choice["token_ids"] = answer.ids[sent_ids[at] :] if number == 0 else []
                        sent_ids[at] = len(answer.ids)
                    yield self._event([{"index": at, **choice, "finish_reason": None}])
                if answer.reason or isinstance(update, Ended):
                    last = {"index": at, **empty, "logprobs": None, "finish_reason": answer.reason}
                    yield self._event([last])
        except ApiError as error:
            yield _data(error.body)
            return
        if self.params.with_usage:
            yield self._event([], usage=self.usage)
        yield b"data: [DONE]\n\n"

    def _event(self, choices: list[Json], *, first: bool = False, **fields: Json) -> bytes:
        kind = "chat.completion.chunk" if self.kind == CHAT else self.kind
        body = {**self.head, "object": kind, "choices": choices}
        if self.params.with_usage:
            body["usage"] = None
        if first and self.params.return_token_ids:
            body["prompt_token_ids"] = self.running.prompts[0].ids
        return _data(body | fields)


def _value(body: str) -> Any:
    """Returns the JSON value of a body. Raises ApiError for what is no strict JSON."""
    try:
        value = loads(body)
        fault = next(iter(faults(value)), None)
    except Fault as error:
        fault = error
    if fault is not None:
        place = place_of(fault.pointer)
        where = f"{place}: " if place else ""
        raise ApiError(f"the body is not valid JSON: {where}{fault.message}", param=place)
    return value


def _data(body: Json) -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()
