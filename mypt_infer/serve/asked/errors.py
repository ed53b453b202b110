"""Holds errors in the shape that clients of OpenAI's API know."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from mypt_spec.bodies.strict_json import unescape

LATER = {"retry-after": "1"}
# OpenAI's clients try again after a time-out or an error of the server, unless they are told.
ONCE = {"x-should-retry": "false"}


@dataclass(eq=False)
class ApiError(ValueError):
    """A request that is not answered: the status, and what is wrong where.

    `param` is the place in the request, such as `messages[0].content`. `headers` go with the
    answer.
    """

    message: str
    _: KW_ONLY
    status: int = 400
    kind: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        body = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": body}


def too_late() -> ApiError:
    """Returns the error of a request whose time is over."""
    message = "the time of this request is over; see --timeout"
    return ApiError(message, status=408, kind="timeout_error", code="timeout", headers=ONCE)


def shutting_down() -> ApiError:
    """Returns the error of a request that comes, or still waits, when the server is stopped."""
    message = "the server is shutting down"
    return ApiError(message, status=503, kind="server_error", code="shutting_down", headers=ONCE)


def place_of(pointer: str) -> str | None:
    """Returns a JSON pointer as clients of the API write places; None for the whole request.

    >>> place_of("/messages/0/content")
    'messages[0].content'
    """
    out = ""
    for key in map(unescape, pointer.split("/")[1:]):
        out += f"[{key}]" if key.isdecimal() else f".{key}" if out else key
    return out or None
