"""Reads the answer of a model while it is written: ids or text in, deltas of OpenAI's API out.

It is for every format, needs no torch, and constrains nothing: a model may write what it wants.
What comes out does not depend on how the answer was cut into pieces.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from mypt_infer.run_format import format_of
from mypt_infer.serve.answers import ChatAnswer, Json
from mypt_infer.serve.asked.names import Names
from mypt_infer.serve.asked.prompts import Prompter
from mypt_infer.serve.deltas import CallAttempt, Delta, DeltaReader
from mypt_spec import Dialect
from mypt_spec.bodies.tagged import types_of


@cache
def usual_prompt(dialect: Dialect) -> tuple[str, str]:
    """Returns the text of a prompt, and the tag that ends a thought that it opens."""
    prompter = Prompter(dialect, dialect.spec)
    text = dialect.tokenizer.decode(prompter.prompt(prompter.question, ()).ids)
    reader = DeltaReader(prompter.format, text)
    return text, dialect.table.closers[reader.open[-1]].spell() if reader.is_thinking else ""


class AnswerStream:
    """One answer in a dialect.

    `prompt` are the ids or the text before it; by default, those of a question. `tools` are as in a
    request: a format in which calls do not say the types of arguments needs them, if the prompt has
    none.

    >>> import mypt_spec
    >>> stream = AnswerStream(mypt_spec.dialect("qwen3"))
    >>> stream.push_text("<think>\\nHm.\\n</thi") + stream.push_text("nk>\\n\\nYes.<|im")
    [{'reasoning_content': 'Hm.', 'reasoning': 'Hm.'}, {'content': 'Yes.'}]
    >>> stream.push_text("_end|>") + stream.end()
    []
    """

    def __init__(
        self,
        dialect: Dialect,
        prompt: Sequence[int] | str | None = None,
        *,
        tools: Sequence[Any] = (),
    ) -> None:
        prompt = usual_prompt(dialect)[0] if prompt is None else prompt
        types = types_of(tools) if tools else None
        self._answer = ChatAnswer(format_of(dialect), prompt, Names(()), types=types)
        self._reader = self._answer.reader

    @property
    def calls(self) -> list[CallAttempt]:
        """Returns all calls so far, legal or not; each says its status."""
        return self._reader.calls

    @property
    def message(self) -> Json:
        """Returns the message so far, as a response that is not streamed has it."""
        message: Json = self._answer.choice()["message"]
        return message

    def push(self, ids: Iterable[int]) -> list[Json]:
        """Takes ids; returns what is certain now. Raises ValueError for an id without meaning."""
        return self._chunks([delta for i in ids for delta in self._reader.push(int(i))])

    def push_text(self, text: str) -> list[Json]:
        """Takes text in which special tokens are spelled; returns what is certain now."""
        return self._chunks(self._reader.push_text(text))

    def end(self) -> list[Json]:
        """Returns what was held back, because nothing more comes."""
        return self._chunks(self._reader.end())

    def _chunks(self, deltas: list[Delta]) -> list[Json]:
        out: list[Json] = []
        self._answer.add(deltas, out)
        return [chunk["delta"] for chunk in out]
