"""Lets random models answer in each format with tools, and judges what they write.

    python -m bench.walks [--format NAME ...] [--walks 1000] [--show 3]

Answers have budgets from the least that holds a legal end, and thoughts, where a format has them,
have none, 1 token or 6. Columns: answers, tokens, calls; answers that are over their budget or not
legal; calls whose arguments do not fit; and answers in which other projects read other calls, as
whole texts: SGLang's parsers (`llm-router-utils`), those of vLLM (which need `ijson`, too), the
parser of transformers by our response template, and the structural tag of xgrammar for the model,
with or without reasoning, which must accept the answer, if its arguments are in the order of the
schema: these tags take no other. A dash says that a project has nothing for the format; what is not
installed is left out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
import warnings
from collections.abc import Callable
from itertools import islice
from typing import Any

from bench.stream import cut, sglang, vllm_tokenizer
from mypt_infer.run_format import format_of
from mypt_infer.serve.deltas import DeltaReader
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.states import calling_blocks
from mypt_train.export.chat_facts import endings
from mypt_train.export.response_template import response_template
from tests.support import decoding
from tests.support.answers import Known
from tests.support.families import ALL
from tests.support.walks import SCHEMAS, TOOLS, Walk, decoder, ends, in_order, walks

# Of each format: names of SGLang's and of vLLM's parsers of calls and of reasoning, and of a tag
# of xgrammar.
READERS = {
    "qwen2.5": (("qwen25", ""), ("hermes", ""), "qwen_3"),
    "qwen2.5-base": (("qwen25", ""), ("hermes", ""), "qwen_3"),
    "qwen3-instruct": (("qwen25", ""), ("hermes", ""), "qwen_3"),
    "qwen3": (("qwen25", "qwen3"), ("hermes", "qwen3"), "qwen_3"),
    "qwen3-thinking": (("qwen25", "qwen3"), ("hermes", "qwen3"), "qwen_3"),
    "qwen3-coder": (("qwen3_coder", ""), ("qwen3_coder", ""), "qwen_3_coder"),
    "qwen3.5": (("qwen3_coder", "qwen3"), ("qwen3_coder", "qwen3"), "qwen_3_5"),
    "qwen3.5-small": (("qwen3_coder", "qwen3"), ("qwen3_coder", "qwen3"), "qwen_3_5"),
    "qwen3.6": (("qwen3_coder", "qwen3"), ("qwen3_coder", "qwen3"), "qwen_3_5"),
    "qwen3.8": (("qwen3_coder", "qwen3"), ("qwen3_coder", "qwen3"), "qwen_3_5"),
    "nemotron3": (("qwen3_coder", "nemotron_3"), ("qwen3_coder", "nemotron_v3"), ""),
    "llama3.1": (("llama3", ""), ("llama3_json", ""), "llama"),
    "glm4.5": (("glm45", "glm45"), ("glm45", "glm45"), ""),
    "glm5": (("glm47", "glm45"), ("glm47", "glm45"), "glm_4_7"),
    "glm5.1": (("glm47", "glm45"), ("glm47", "glm45"), "glm_4_7"),
    "glm5.2": (("glm47", "glm45"), ("glm47", "glm45"), "glm_4_7"),
    "gemma4": (("gemma4", "gemma4"), ("gemma4", "gemma4"), ""),
    "gemma4-26b": (("gemma4", "gemma4"), ("gemma4", "gemma4"), ""),
    "minimax-m2": (("minimax-m2", "minimax"), ("minimax_m2", "minimax_m2"), "minimax"),
    "gemma4-31b": (("gemma4", "gemma4"), ("gemma4", "gemma4"), ""),
    "gemma4-v4": (("gemma4", "gemma4"), ("gemma4", "gemma4"), ""),
    "minimax-m2.1": (("minimax-m2", "minimax"), ("minimax_m2", "minimax_m2"), "minimax"),
    "minimax-m2.5": (("minimax-m2", "minimax"), ("minimax_m2", "minimax_m2"), "minimax"),
    "minimax-m2.7": (("minimax-m2", "minimax"), ("minimax_m2", "minimax_m2"), "minimax"),
    "deepseek-r1-0528": (
        *(("deepseekv3", "deepseek-r1"), ("deepseek_v3", "deepseek_r1")),
        "deepseek_r1",
    ),
    "deepseek-v3.1": (("deepseekv31", ""), ("deepseek_v31", ""), "deepseek_v3_1"),
    "deepseek-v3.2": (
        *(("deepseekv32", "deepseek-v3"), ("deepseek_v32", "deepseek_v3")),
        "deepseek_v3_2",
    ),
    "deepseek-v4": (("deepseekv4", "deepseek-v4"), ("deepseek_v4", "deepseek_v4"), "deepseek_v4"),
    "granite4": (("qwen25", ""), ("granite4", ""), ""),
    "granite4.1": (("qwen25", ""), ("granite4", ""), ""),
    "lfm2": (("lfm2", ""), ("lfm2", ""), ""),
    "lfm2.5": (("lfm2", "qwen3"), ("lfm2", ""), ""),
    "olmo3": (None, ("olmo3", ""), ""),
    "olmo3-7b": (None, ("olmo3", ""), ""),
    "hunyuan": (None, ("hunyuan_a13b", ""), ""),
    "kimi-k2": (("kimi_k2", ""), ("kimi_k2", ""), "kimi"),
    "kimi-k2-thinking": (("kimi_k2", "kimi_k2"), ("kimi_k2", "kimi_k2"), "kimi"),
    "kimi-k2.5": (("kimi_k2", ""), ("kimi_k2", ""), "kimi"),
    "kimi-k2.7": (("kimi_k2", "kimi_k2"), ("kimi_k2", "kimi_k2"), "kimi"),
    "mistral": (None, ("mistral", ""), ""),
    "mistral-v13": (("mistral", "mistral"), ("mistral", "mistral"), ""),
    "mistral-small4": (("mistral", ""), ("mistral", ""), ""),
    "mistral-small4-thinking": (("mistral", "mistral"), ("mistral", "mistral"), ""),
}  # fmt: skip


COLUMNS = ("SGLang", "vLLM", "transformers", "xgrammar")
Reader = Callable[[Walk], "list[list[Any]] | str"]


def known(name: str, walk: Walk) -> Known:
    """Returns an answer as parsers of streams are handed it."""
    dialect = decoder(name).dialect
    stops = [dialect.table.special[tag] for tag in endings(dialect)]
    opened = DeltaReader(format_of(dialect), walk.prompt).is_thinking
    return Known(dialect, walk.prompt, walk.ids, {}, stops, opened)


def of_vllm_text(name: str, calls: str, reasoning: str) -> Reader:
    """Returns what reads whole texts by vLLM's parsers."""
    manager = importlib.import_module("vllm.parser.parser_manager").ParserManager
    protocol = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")
    made = manager.get_parser(calls, reasoning or None, enable_auto_tools=True)
    tokenizer = vllm_tokenizer(known(name, next(walks(name))))

    def read(walk: Walk) -> list[list[Any]] | str:
        answer = known(name, walk)
        request = protocol.ChatCompletionRequest(model="", messages=[], tools=TOOLS)
        parser = made(tokenizer, request.tools, chat_template_kwargs={}, model_config=None)
        request, text = parser.adjust_request(request), cut(answer, [])[0][1]
        try:
            found = parser.parse(
                text, request, enable_auto_tools=True, model_output_token_ids=walk.ids
            )[2]
        except Exception as error:  # another project's code
            return f"{type(error).__name__}: {error}"
        return [[call.name, loads(call.arguments)] for call in found or ()]

    return read


def of_sglang_text(name: str, calls: str, reasoning: str) -> Reader:
    """Returns what reads whole texts by SGLang's parsers."""
    parsers, thinker, tools = sglang(TOOLS)

    def read(walk: Walk) -> list[list[Any]] | str:
        answer = known(name, walk)
        text = cut(answer, [])[0][1]
        try:
            if reasoning:
                thinking = thinker(reasoning, force_reasoning=answer.opened or None)
                text = thinking.parse_non_stream(text)[1] or ""
            found = parsers.FunctionCallParser(tools, calls).parse_non_stream(text)[1]
        except Exception as error:  # another project's code
            return f"{type(error).__name__}: {error}"
        return [[call.name, loads(call.parameters)] for call in found]

    return read


def of_transformers(name: str) -> Reader:
    parsing = importlib.import_module("transformers.utils.chat_parsing")
    dialect = decoder(name).dialect
    template, decode = response_template(dialect), dialect.tokenizer.decode

    def read(walk: Walk) -> list[list[Any]] | str:
        parser = parsing.ResponseParser(template, prefix=decode(walk.prompt), tools=TOOLS)
        try:
            parser.feed(decode(walk.ids))
            message = parser.finalize()[0]
        except Exception as error:  # another project's code
            return f"{type(error).__name__}: {error}"
        functions = [call["function"] for call in message.get("tool_calls", [])]
        return [[each["name"], each["arguments"]] for each in functions]

    return read


def of_xgrammar(name: str, tag: str) -> Reader:
    """Returns what accepts an answer; it returns the calls that were written, or why not."""
    xgrammar = importlib.import_module("xgrammar")
    accepts = importlib.import_module("xgrammar.testing")._is_grammar_accept_string
    grammars = []
    for reasoning in ("enabled", "disabled"):
        made = xgrammar.get_model_structural_tag(tag, tools=TOOLS, reasoning=reasoning)
        grammars.append(xgrammar.Grammar.from_structural_tag(made))

    def read(walk: Walk) -> list[list[Any]] | str:
        text = cut(known(name, walk), [])[0][1]
        if any([*call.arguments] != in_order(call.arguments) for call in walk.calls):
            return expected(walk)
        is_legal = any(accepts(grammar, text) for grammar in grammars)
        return expected(walk) if is_legal else "not accepted"

    return read


def expected(walk: Walk) -> list[list[Any]]:
    return [[call.name, call.arguments] for call in walk.calls]


def loads(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def readers(name: str) -> dict[str, Reader]:
    """Returns what reads the answers of a format, as far as it is installed."""
    sglang, vllm, tag = READERS.get(name, (None, None, ""))
    makers: dict[str, Callable[[], Reader]] = {"transformers": lambda: of_transformers(name)}
    if sglang:
        makers["SGLang"] = lambda: of_sglang_text(name, *sglang)
    if vllm:
        makers["vLLM"] = lambda: of_vllm_text(name, *vllm)
    if tag:
        makers["xgrammar"] = lambda: of_xgrammar(name, tag)
    out: dict[str, Reader] = {}
    for column, make in makers.items():
        try:
            out[column] = make()
        except Exception as error:  # it is not installed, or needs what is not here
            print(f"{name}: {column} left out, {type(error).__name__}: {error}")
    return out


def row(name: str, count: int, show: int) -> tuple[str, int]:
    """Returns the row of a format, and how many answers or calls are wrong."""
    began, sums, wrong = time.process_time(), [0, 0, 0, 0], dict[str, int]()
    reading = readers(name)
    for walk in islice(walks(name), count):
        dialect, made = decoder(name).dialect, decoder(name)
        faults = len(walk.ids) > walk.most or not ends(made, walk.prompt + walk.ids)
        misfit = sum(bool(misfits(call.arguments, SCHEMAS[call.name])) for call in walk.calls)
        for place, more in enumerate((len(walk.ids), len(walk.calls), faults, misfit)):
            sums[place] += more
        for column, read in reading.items():
            found = read(walk)
            if found != expected(walk):
                wrong[column] = wrong.get(column, 0) + 1
                if wrong[column] <= show:
                    print(f"  {column}: {dialect.tokenizer.decode(walk.ids)!r}\n    {found}")
    others = " | ".join(str(wrong.get(c, 0)) if c in reading else "-" for c in COLUMNS)
    tokens, calls, faults, misfit = sums
    seconds = time.process_time() - began
    figures = f"{count:,} | {tokens:,} | {calls:,} | {faults} | {misfit} | {others}"
    return f"| `{name}` | {figures} | {seconds:.0f} |", faults + misfit


def formats() -> list[str]:
    """Returns the formats with tools; the ids of calls of mistral-v11 have no constraint."""
    families = [name for name in ALL if calling_blocks(ALL[name].dialect.table)]
    return [name for name in (*decoding.CALLERS, *families) if name != "mistral-v11"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--format", nargs="*", default=formats(), metavar="NAME")
    parser.add_argument("--walks", type=int, default=1000, help="of each format")
    parser.add_argument("--show", type=int, default=0, help="print so many that are read otherwise")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = ("format", "answers", "tokens", "calls", "illegal", "do not fit", *COLUMNS, "s")
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    faults = 0
    for name in asked.format:
        text, more = row(name, asked.walks, asked.show)
        faults += more
        print(text, flush=True)
    raise SystemExit(faults > 0)


if __name__ == "__main__":
    main()
