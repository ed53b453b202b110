"""Holds errors in the shape that clients of OpenAI's API know."""

from __future__ import annotations

from typing import Any

INVALID = "invalid_request_error"


class ApiError(ValueError):
    """A request that is not answered: the status, and what is wrong where.

    `param` is the place in the request, such as `messages[0].content`. `headers` go with the
    answer.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.headers = message, status, headers or {}
        self.kind, self.param, self.code = kind, param, code

    @property
    def body(self) -> dict[str, Any]:
        """Returns the body of the answer."""
        body = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": body}


def place_of(pointer: str) -> str | None:
    """Returns a JSON pointer as clients of the API write places; None for the whole request.

    >>> place_of("/messages/0/content")
    'messages[0].content'
    """
    out = ""
    for key in pointer.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        out += f"[{key}]" if key.isdecimal() else f".{key}" if out else key
    return out or None
