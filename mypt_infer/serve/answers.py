"""Makes the bodies of answers, whole or as chunks of a stream, in the shapes of OpenAI's API.

Input: what the model tells of one answer. Output: deltas, and the message that they add up to: the
message of an answer that is not streamed is made of the same deltas.
"""

import codecs
import json
import secrets
from collections.abc import Sequence
from typing import Any

from mypt_infer.run_format import Format
from mypt_infer.serve.asked.names import Names
from mypt_infer.serve.deltas import (
    CALLED,
    CITED,
    CONTENT,
    NO_CALL,
    THOUGHT,
    Delta,
    DeltaReader,
    Stopper,
)
from mypt_infer.serve.jobs import Ended, Logprob, NewIds
from mypt_spec import Dialect
from mypt_spec.bodies.tagged import Types

Json = dict[str, Any]
THOUGHTS = (THOUGHT, "reasoning")  # DeepSeek's name, which many servers took, and vLLM's new one
_COLUMNS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


class ChatAnswer:
    """An answer of /v1/chat/completions that grows. With `single`, it ends after its first call.

    `reader` reads it; `types` are those of the arguments of tools, if the prompt does not say them.
    `ids` are those that count, `reason` is why it ended, or "".
    """

    def __init__(
        self,
        form: Format,
        prompt: Sequence[int] | str,
        names: Names,
        stops: Sequence[str] = (),
        *,
        logprobs: bool = False,
        single: bool = False,
        types: Types | None = None,
    ) -> None:
        self.ids: list[int] = []
        self.reason = ""
        self._form, self._names, self._single = form, names, single
        self.reader, self._stopper = DeltaReader(form, prompt, types), Stopper(stops)
        self._wants, self._values = logprobs, list[Logprob]()
        self._logged: list[Json] = []
        self._texts: dict[str, list[str]] = {CONTENT: [], THOUGHT: [], CITED: []}
        self._calls: list[Json] = []
        self._has_call = False  # whether a call is complete

    def take(self, update: NewIds | Ended) -> list[Json]:
        """Returns what is new, as choices of chunks without their index."""
        out: list[Json] = []
        if isinstance(update, NewIds):
            self._values += update.logprobs
            for token in update.ids:
                self.ids.append(token)
                self.add(self.reader.push(token), out)
                if self._stopper.stopped or (self._single and self._has_call):
                    self.reason = "tool_calls" if self._calls else "stop"
                    break
        else:
            self.add(self.reader.end(), out)
            self._join(self._text(self._stopper.push("", last=True), []), out)
            self.reason = "length" if update.cut else "tool_calls" if self._calls else "stop"
        return out

    def choice(self) -> Json:
        """Returns the whole answer, as a choice without its index."""
        content, thoughts, cited = ("".join(self._texts[k]) for k in (CONTENT, THOUGHT, CITED))
        message: Json = {"role": "assistant", "content": content}
        if self._calls:
            message |= {"content": content or None, "tool_calls": self._calls}
        message |= dict.fromkeys(THOUGHTS, thoughts) if thoughts else {}
        message |= {"citations": self._texts[CITED]} if cited else {}
        logged = {"content": self._logged, "refusal": None} if self._wants else None
        return {"message": message, "logprobs": logged, "finish_reason": self.reason}

    def add(self, deltas: list[Delta], out: list[Json]) -> None:
        """Adds choices for deltas to those of the same step."""
        for delta in deltas:
            if self._single and self._has_call:
                break
            self._join(self._parts(delta), out)

    def _join(self, new: list[Json], out: list[Json]) -> None:
        """Adds choices to those of the same step, texts of one kind joined."""
        for choice in new:
            last = out[-1]["delta"] if out else {}
            kind = next(iter(choice["delta"]))
            if kind in (CONTENT, THOUGHT) and kind in last:
                for name, text in choice["delta"].items():
                    last[name] += text
                if choice["logprobs"]:
                    out[-1]["logprobs"]["content"] += choice["logprobs"]["content"]
            else:
                out.append(choice)

    def _parts(self, delta: Delta) -> list[Json]:
        if delta.kind in (CONTENT, NO_CALL):
            return self._text(self._stopper.push(delta.text), self._entries(delta))
        if delta.kind == CALLED:
            self._has_call = self._has_call or delta.ended
            return [_chunk({CALLED: [piece]}) for piece in self._call_chunks(delta)]
        self._texts[delta.kind].append(delta.text)
        if delta.kind == THOUGHT:
            return [_chunk(dict.fromkeys(THOUGHTS, delta.text))]
        return [_chunk({delta.kind: [delta.text]})]

    def _text(self, text: str, logged: list[Json]) -> list[Json]:
        self._logged += logged
        if not text and not logged:
            return []
        self._texts[CONTENT].append(text)
        return [
            _chunk({CONTENT: text}, {"content": logged, "refusal": None} if self._wants else None)
        ]

    def _call_chunks(self, delta: Delta) -> list[Json]:
        """Returns what a delta says of calls, as chunks tell it, and keeps it for the message."""
        if delta.text:
            self._calls[-1]["function"]["arguments"] += delta.text
            return [{"index": len(self._calls) - 1, "function": {"arguments": delta.text}}]
        if delta.name:
            return [self._begun(delta.name, written_id=delta.id)]
        return [
            self._begun(call.name, json.dumps(call.arguments, ensure_ascii=False), call.id)
            for call in delta.calls
        ]

    def _begun(self, name: str, arguments: str = "", written_id: str = "") -> Json:
        call: Json = {
            "id": written_id or f"call_{secrets.token_hex(12)}",
            "type": "function",
            "function": {"name": self._names.back(name), "arguments": arguments},
        }
        self._calls.append(call)
        return {"index": len(self._calls) - 1, **call, "function": dict(call["function"])}

    def _entries(self, delta: Delta) -> list[Json]:
        if not self._wants:
            return []
        span = slice(delta.begin, delta.end)
        pairs = zip(self.ids[span], self._values[span], strict=True)
        return [entry(self._form.dialect, token, value) for token, value in pairs]


class TextAnswer:
    """An answer of /v1/completions: the text as the model wrote it, tags included.

    It has the same methods and attributes as a ChatAnswer.
    """

    def __init__(self, dialect: Dialect, stops: Sequence[str], *, logprobs: bool) -> None:
        self.ids: list[int] = []
        self.reason = ""
        self._dialect, self._stopper, self._wants = dialect, Stopper(stops), logprobs
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._log: list[tuple[Any, ...]] = []  # of each id, its columns

    def take(self, update: NewIds | Ended) -> list[Json]:
        new, log = "", list[tuple[Any, ...]]()
        if isinstance(update, Ended):
            new = self._stopper.push(self._utf8.decode(b"", True), last=True)
            self.reason = "length" if update.cut else "stop"
        else:
            for at, token in enumerate(update.ids):
                self.ids.append(token)
                piece = self._utf8.decode(self._dialect.tokenizer.decode_bytes([token]))
                if self._wants:
                    value = update.logprobs[at]
                    best = {_token_text(self._dialect, i): v for i, v in value.best}
                    text = _token_text(self._dialect, token)
                    log.append((text, value.value, best, len(self._text) + len(new)))
                new += self._stopper.push(piece)
                if self._stopper.stopped:
                    self.reason = "stop"
                    break
        self._text += new
        self._log += log
        return [{"text": new, "logprobs": self._columns(log)}] if new or log else []

    def choice(self) -> Json:
        logprobs = self._columns(self._log)
        return {"text": self._text, "logprobs": logprobs, "finish_reason": self.reason}

    def _columns(self, log: list[tuple[Any, ...]]) -> Json | None:
        columns = {name: [row[at] for row in log] for at, name in enumerate(_COLUMNS)}
        return columns if self._wants else None


Answer = ChatAnswer | TextAnswer


def entry(dialect: Dialect, token: int, value: Logprob) -> Json:
    """Returns the log-probability of an id, with those of the best ids, as the API has them."""

    def one(i: int, logprob: float) -> Json:
        raw = list(dialect.tokenizer.decode_bytes([i])) if i in dialect.tokenizer.ordinary else []
        return {"token": _token_text(dialect, i), "logprob": logprob, "bytes": raw or None}

    return one(token, value.value) | {"top_logprobs": [one(i, v) for i, v in value.best]}


def _token_text(dialect: Dialect, token: int) -> str:
    """Returns the text of an id; what is no text by itself has replacement characters."""
    try:
        return dialect.tokenizer.decode_bytes([token]).decode("utf-8", "replace")
    except (KeyError, ValueError):  # an id that fills up the vocabulary
        return f"<{token}>"


def _chunk(delta: Json, logprobs: Json | None = None) -> Json:
    return {"delta": delta, "logprobs": logprobs}
