"""A detector of tool calls for SGLang, for any format of this package.

SGLang has no plugins for these, only a table of its detectors, so a script starts it:

    import runpy
    from sglang.srt.function_call import base_format_detector, core_types, function_call_parser
    from sglang_detector import detector

    table = function_call_parser.FunctionCallParser.ToolCallParserEnum
    table["mypt"] = detector("qwen3", base_format_detector, core_types)
    runpy.run_module("sglang.launch_server", run_name="__main__")  # with --tool-call-parser mypt

Thoughts are read before, by a --reasoning-parser of SGLang; those that are left are text. Nothing
binds calls: `response_format` takes the structural tag of `mypt-export --for sglang`.
"""

from __future__ import annotations

from typing import Any

import mypt_spec
from mypt_infer.plugins.answer_stream import AnswerStream, usual_prompt


def detector(name: str, base: Any, types: Any) -> Any:
    """Returns a class of detectors for a format, a name or folder that `mypt_spec.dialect` takes.

    `base` and `types` are SGLang's modules `base_format_detector` and `core_types`.
    """
    dialect = mypt_spec.dialect(name)

    class Detector(base.BaseFormatDetector):
        def __init__(self) -> None:
            super().__init__()
            self._stream: AnswerStream | None = None

        def has_tool_call(self, text: str) -> bool:
            stream = AnswerStream(dialect, "".join(usual_prompt(dialect)))
            return bool(stream.push_text(text) + stream.end() and stream.calls)

        def detect_and_parse(self, text: str, tools: list[Any]) -> Any:
            stream = self._new(tools)
            stream.push_text(text)
            stream.end()
            indices = {tool.function.name: i for i, tool in enumerate(tools)}
            functions = [call["function"] for call in stream.message.get("tool_calls", [])]
            calls = [
                types.ToolCallItem(
                    tool_index=indices.get(one["name"], -1),
                    name=one["name"],
                    parameters=one["arguments"],
                )
                for one in functions
            ]
            message = stream.message
            text = message.get("reasoning", "") + (message["content"] or "")
            return types.StreamingParseResult(normal_text=text, calls=calls)

        def parse_streaming_increment(self, new_text: str, tools: list[Any]) -> Any:
            self._stream = self._stream or self._new(tools)
            return self._result(self._stream.push_text(new_text))

        def finish(self, tools: list[Any]) -> Any:
            return self._result(self._stream.end() if self._stream else [])

        def supports_structural_tag(self) -> bool:
            return False

        def parses_required_natively(self) -> bool:
            return True

        def structure_info(self) -> Any:
            raise NotImplementedError("the structural tag is that of mypt-export --for sglang")

        def _new(self, tools: list[Any]) -> AnswerStream:
            declared = [tool.model_dump() for tool in tools]
            return AnswerStream(dialect, "".join(usual_prompt(dialect)), tools=declared)

        def _result(self, deltas: list[dict[str, Any]]) -> Any:
            calls, text = [], ""
            for delta in deltas:
                text += delta.get("reasoning", "") + delta.get("content", "")
                for call in delta.get("tool_calls", ()):
                    one = call["function"]
                    index = self.current_tool_id = call["index"]
                    if "name" in one:
                        self.prev_tool_call_arr.append({"name": one["name"], "arguments": {}})
                        self.streamed_args_for_tool.append("")
                    self.streamed_args_for_tool[index] += one.get("arguments", "")
                    item = types.ToolCallItem(
                        tool_index=index, name=one.get("name"), parameters=one.get("arguments", "")
                    )
                    calls.append(item)
            return types.StreamingParseResult(normal_text=text, calls=calls)

    return Detector
