"""Parsers for vLLM of any format: `--tool-call-parser mypt --reasoning-parser mypt`.

The package registers them as a plugin of vLLM (`vllm.general_plugins`), for the format that the
chat template beside the model's tokenizer writes; `register` names another. Both read text, in
which special tokens are spelled. The parser of reasoning reads up to the end of the first thoughts,
the parser of tools all that comes after, later thoughts included.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from vllm.entrypoints.generate.base.protocol import DeltaMessage, ExtractedToolCallInformation
from vllm.reasoning.abs_reasoning_parsers import ReasoningParser, ReasoningParserManager
from vllm.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager

import mypt_spec
from mypt_infer.plugins.answer_stream import AnswerStream, usual_prompt
from mypt_infer.run_format import format_of
from mypt_infer.serve.asked.prompts import state_after
from mypt_infer.serve.deltas import THOUGHT, Delta, DeltaReader
from mypt_lint.derive.of_model import dialect_of_model


def register(name: str = "") -> None:
    """Registers both parsers as `mypt`, for the format `name` or that of the served model."""
    for base, manager in ((_Tools, ToolParserManager), (_Reasoning, ReasoningParserManager)):
        manager.register_module("mypt", module=type(base.__name__, (base,), {"format_name": name}))


@cache
def _dialect(name: str, folder: str) -> mypt_spec.Dialect:
    name = name or (dialect_of_model(Path(folder), None) if Path(folder).is_dir() else "")
    if not name:
        raise ValueError(f"{folder}: says no format; name one by mypt_infer.plugins.vllm.register")
    return mypt_spec.dialect(name)


def _delta(deltas: Iterable[dict[str, Any]]) -> DeltaMessage | None:
    fields: dict[str, Any] = {}
    for delta in deltas:
        for key in {"content", "reasoning", "tool_calls"} & {*delta}:
            fields[key] = fields[key] + delta[key] if key in fields else delta[key]
    return DeltaMessage(**fields) if any(fields.values()) else None


class _Parser:
    format_name = ""
    engine_based_streaming = True
    model_tokenizer: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        folder = getattr(self.model_tokenizer, "name_or_path", "")
        self._dialect = _dialect(self.format_name, str(folder))

    def adjust_request(self, request: Any) -> Any:
        """Asks for the text of special tokens. Raises ValueError for what no parser can warrant."""
        if request.tools and request.tool_choice not in (None, "auto", "none"):
            raise ValueError("tool_choice: mypt cannot force a call; send structural_tag.json")
        if request.tools and not format_of(self._dialect).calls:
            raise ValueError(f"tools: {self._dialect.name} has no calls")
        request.skip_special_tokens = request.spaces_between_special_tokens = False
        return request


class _Tools(_Parser, ToolParser):  # type: ignore[misc]
    supports_required_and_named = False
    _stream: AnswerStream | None = None

    def _new(self, request: Any) -> AnswerStream:
        tools = [tool.model_dump() for tool in request.tools or ()]
        return AnswerStream(self._dialect, "".join(usual_prompt(self._dialect)), tools=tools)

    def extract_tool_calls(self, model_output: str, request: Any) -> ExtractedToolCallInformation:
        """Reads the text of an answer without its thoughts; thoughts that are there are text."""
        stream = self._new(request)
        stream.push_text(model_output)
        stream.end()
        message = stream.message
        calls = message.get("tool_calls", [])
        content = message.get("reasoning", "") + (message["content"] or "")
        return ExtractedToolCallInformation(
            tools_called=bool(calls), tool_calls=calls, content=content or None
        )

    def extract_tool_calls_streaming(
        self, before: str, text: str, delta: str, *ids: Sequence[int], request: Any = None
    ) -> DeltaMessage | None:
        """Reads the next piece of text."""
        del before, text
        self._stream = self._stream or self._new(request or ids[-1])
        return _delta(self._stream.push_text(delta))

    def finish_streaming(self) -> DeltaMessage | None:
        """Returns what was held back."""
        return _delta(self._stream.end()) if self._stream else None


class _Reasoning(_Parser, ReasoningParser):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._begin(usual_prompt(self._dialect)[0])

    def _begin(self, prompt: str) -> None:
        self._prompt, self._text, self._end = prompt, "", -1
        self._reader = DeltaReader(format_of(self._dialect), prompt)

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """Takes the prompt, which says whether the answer begins in a thought."""
        self._begin(self.model_tokenizer.decode(list(prompt_token_ids)))

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Returns whether the first thoughts are over."""
        return self._end >= 0

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """Returns ids as they are: text is read."""
        return input_ids

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """Returns all thoughts of an answer, and its text without them."""
        reader = DeltaReader(format_of(self._dialect), self._prompt)
        deltas = reader.push_text(model_output) + reader.end()
        thought = "".join(d.text for d in deltas if d.kind == THOUGHT)
        last = reader.thought_begin if reader.is_thinking else len(model_output)
        at, rest = 0, ""
        for begin, end in [*reader.thoughts, (last, last)]:
            rest, at = rest + model_output[at:begin], end
        return thought or None, rest or None

    def extract_reasoning_streaming(
        self, before: str, text: str, delta: str, *ids: Sequence[int]
    ) -> DeltaMessage | None:
        """Reads the next piece of text; what comes after the first thoughts is content."""
        del before, text, ids
        self._text += delta
        return self._new_message(self._reader.push_text(delta))

    def finish_streaming(self) -> DeltaMessage | None:
        """Returns what was held back in a thought."""
        return self._new_message(self._reader.end()) if self._end < 0 else None

    def _new_message(self, deltas: list[Delta]) -> DeltaMessage | None:
        reader = self._reader
        begun = [end for begin, end in reader.thoughts[:1] if begin == 0]
        if begun or (reader.position and (reader.thought_begin or not reader.is_thinking)):
            self._end = begun[0] if begun else 0
        end = self._end if self._end >= 0 else len(self._text)
        thoughts = [{"reasoning": d.text} for d in deltas if d.kind == THOUGHT and d.end <= end]
        return _delta([*thoughts, {"content": self._text[end:]}])

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Returns whether no thought is open after ids, and none may be opened."""
        dialect, text = self._dialect, self.model_tokenizer.decode(list(input_ids))
        reader = DeltaReader(format_of(dialect), text)
        state = state_after(dialect, dialect.lex(text))
        row = (dialect.table.terminals.get(name) for name in dialect.automaton.steps[state])
        may_think = any(t is not None and t.opens in reader.format.thinking for t in row)
        return not (may_think or reader.is_thinking)
