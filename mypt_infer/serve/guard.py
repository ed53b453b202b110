"""Lets requests in: by a key where there is one, else by the host that the client names.

Input: an ASGI application. Output: the same behind the check. Without a key, a page in a browser
could send requests to this machine under a name of its own; its Host tells.
"""

import hmac
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse

from mypt_infer.serve.asked.errors import ApiError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """Asks each request but those for /health for the key, or for one of the `hosts`.

    A key is compared in constant time. None asks for nothing.
    """

    def __init__(self, app: Any, *, key: str | None, hosts: frozenset[str] | None) -> None:
        self.app, self._key, self._hosts = app, None if key is None else key.encode(), hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        error = self._refusal(scope) if scope["type"] == "http" else None
        await (self.app if error is None else refused(error))(scope, receive, send)

    def _refusal(self, scope: Any) -> ApiError | None:
        headers = Headers(scope=scope)
        if scope["path"] != "/health" and self._key is not None:
            kind, _, key = headers.get("authorization", "").partition(" ")
            # Starlette reads the bytes of a header as Latin-1, whatever the client wrote.
            same = hmac.compare_digest(key.strip().encode("latin-1"), self._key)
            if kind.lower() != "bearer" or not same:
                message = "wrong key" if key else "no key: send Authorization: Bearer KEY"
                return ApiError(
                    message, status=401, kind="authentication_error", code="invalid_api_key"
                )
        if self._hosts is not None:
            try:
                host = urlsplit(f"//{headers.get('host', '')}").hostname
            except ValueError:
                host = None
            if host not in self._hosts:
                return ApiError("this server is not known under that host", status=403)
        return None


def refused(error: ApiError) -> JSONResponse:
    """Returns the answer that says what is wrong."""
    return JSONResponse(error.body, status_code=error.status, headers=error.headers)


async def body_of(request: Request, most: int) -> str:
    """Returns the body of a request that is JSON by its header.

    Raises ApiError for another type, for too many bytes and for what is no UTF-8.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = f"content-type is {kind or 'missing'}; expected application/json"
        raise ApiError(message, status=415)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise ApiError(f"the body has more than {most} bytes", status=413)
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise ApiError("the body is not UTF-8") from None
