"""Compares our parser of streams with those of vLLM and SGLang, on the same answers.

    python -m bench.stream [--answers 20] [--formats qwen3 ...] [--three 3] [--every 200] [--show 3]

It needs vLLM's Python code (`pip install --no-deps vllm`, with what its parsers import) and
`llm-router-utils`, which has SGLang's; what is not installed is left out, and said. Each parser is
used as its server uses it: vLLM's by `parse_delta` with ids and text, after `adjust_request`;
SGLang's reasoning parser on the text, and its detector of calls on what that leaves. Ours reads
ids. Texts have all tags but the stop token, which no server shows; half a character waits.

Answers are written by this package in the format's usual spelling: thoughts, texts and calls with
arguments of all types, whose words look like pieces of tags ("</", "<|", "{"). An answer is right
if thoughts, text and calls are those that were written, but for white space around texts. Columns:
how many answers are right in one piece, how many of all cuts into two pieces, how many with a piece
for each id, and processor time per id in that case (median of interleaved rounds).

With `--three`, only our plugins read, that for vLLM by its `parse_delta`, or with `--by sglang` the
detector of the examples behind SGLang's `FunctionCallParser`: each answer in every cut into two
pieces, the shortest in every cut into three, as long as these are no more than `--all-three` in
all, and the others in so many cuts into three as `--three` says, drawn at random. SGLang's detector
reads no thoughts, so answers with thoughts are left out there.

With `--every`, our parser reads text in every cut, into any number of pieces, by induction. The
state after i characters that came one by one is copied, and takes characters i to j as one piece.
If, for all i < j, this is the state after j characters, and the deltas are what the message has
grown by, then every cut gives that message, which must be the one that was written. The number is
the length of the longest answers that are taken, in characters: pairs grow with its square.

Left out, because the formats or what they need differ: gpt-oss (SGLang's detector reads calls whose
recipient is in the channel, ours are written with it in the role; vLLM's parser downloads a
vocabulary), Mistral v11 (neither has `[CALL_ID]`), and SGLang for Mistral Nemo (its detector reads
`[TOOL_CALLS] [`, with a space). Where a parser of reasoning is used, all answers have thoughts.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import pickle
import random
import runpy
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations, pairwise
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import regex

from mypt_infer.plugins.answer_stream import AnswerStream, usual_prompt
from mypt_infer.run_format import Format, format_of
from mypt_infer.serve import answers as served
from mypt_spec import Dialect
from mypt_spec.table import TokenTable
from tests.support.answers import TOOLS, Known, many
from tests.support.state import state_of

Pieces = Sequence[tuple[list[int], str]]
ROUNDS = 3
ROOT = Path(__file__).parents[1]


class Read(NamedTuple):
    """What a parser says of an answer: its text, its thoughts, names and arguments of its calls."""

    content: str
    thoughts: str
    calls: list[list[str]]


Parser = Callable[[Known, Pieces], Read]
# Of each format: the parsers of calls and of reasoning that vLLM and SGLang have for its models.
FORMATS = {
    "qwen2.5": (("hermes", ""), ("qwen25", "")),
    "qwen3": (("hermes", "qwen3"), ("qwen25", "qwen3")),
    "qwen3-coder": (("qwen3_coder", ""), ("qwen3_coder", "")),
    "qwen3.6": (("qwen3_coder", "qwen3"), ("qwen3_coder", "qwen3")),
    "llama3.1": (("llama3_json", ""), ("llama3", "")),
    "mistral": (("mistral", ""), None),
    "mistral-v13": (("mistral", "mistral"), ("mistral", "mistral")),
    "glm4.5": (("glm45", "glm45"), ("glm45", "glm45")),
    "glm5": (("glm47", "glm45"), ("glm47", "glm45")),
    "deepseek-v3.1": (("deepseek_v31", ""), ("deepseekv31", "")),
    "minimax-m2": (("minimax_m2", "minimax_m2"), ("minimax-m2", "minimax")),
    "gemma4": (("gemma4", "gemma4"), ("gemma4", "gemma4")),
    "nemotron3": (("qwen3_coder", "nemotron_v3"), ("qwen3_coder", "nemotron_3")),
    "granite4": (("granite4", ""), None),
}  # fmt: skip
# Tokens of the models' vocabularies that their formats do not write.
BESIDES = {"llama3.1": "<|python_tag|>"}


class Calls:
    """The calls of an answer, put together from their pieces."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def add(self, index: int, name: str | None, arguments: str | None) -> None:
        while len(self.calls) <= index:
            self.calls.append(["", ""])
        self.calls[index][0] += name or ""
        self.calls[index][1] += arguments or ""


def ours(known: Known, pieces: Pieces) -> Read:
    """Reads ids by this package."""
    stream = AnswerStream(known.dialect, known.prompt, tools=TOOLS)
    deltas = [delta for ids, _ in pieces for delta in stream.push(ids)] + stream.end()
    return grown(Read("", "", []), deltas)


def of_vllm(calls: str, reasoning: str) -> Parser:
    """Returns what reads by vLLM's parsers, as its server calls them."""
    manager = importlib.import_module("vllm.parser.parser_manager").ParserManager
    protocol = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")
    made = manager.get_parser(calls, reasoning or None, enable_auto_tools=True)
    tokenizers: dict[int, Any] = {}

    @cache
    def requested(has_calls: bool) -> Any:
        tools = TOOLS if has_calls else None
        return protocol.ChatCompletionRequest(model="", messages=[], tools=tools)

    def parse(known: Known, pieces: Pieces) -> Read:
        request = requested(bool(format_of(known.dialect).calls)).model_copy()
        if id(known.dialect) not in tokenizers:
            tokenizers[id(known.dialect)] = vllm_tokenizer(known)
        tokenizer = tokenizers[id(known.dialect)]
        parser = made(tokenizer, request.tools, chat_template_kwargs={}, model_config=None)
        request = parser.adjust_request(request)
        content, thoughts, told = "", "", Calls()
        for number, (ids, text) in enumerate(pieces):
            prompt, last = None if number else known.prompt, number == len(pieces) - 1
            delta = parser.parse_delta(text, ids, request, prompt, finished=last)
            if delta is not None:
                content += delta.content or ""
                thoughts += delta.reasoning or ""
                for call in delta.tool_calls or ():
                    told.add(call.index, call.function.name, call.function.arguments)
        return Read(content, thoughts, told.calls)

    return parse


def three_pieces(name: str, answers: list[Known], cuts: int, every: int, by: str) -> str:
    """Reads answers in two and three pieces by one of our plugins; returns how many are wrong."""
    parser, draw, counts = OWN[by](name), random.Random(name), {2: [0, 0], 3: [0, 0]}
    longest = 0
    for known in sorted(answers, key=lambda known: len(known.ids)):
        places = range(1, len(known.ids))
        ways: list[tuple[int, ...]] = [*combinations(places, 2)]
        every -= len(ways)
        if every < 0:
            ways = [tuple(sorted(draw.sample(places, 2))) for _ in range(cuts)]
        else:
            longest = len(known.ids)
        for way in [*combinations(places, 1), *ways]:
            count = counts[len(way) + 1]
            read = tried(parser, known, cut(known, way))
            count[0] += 1
            count[1] += isinstance(read, str) or not is_right(known, read)
    figures = ", ".join(f"{n} cuts into {k}: {bad} wrong" for k, (n, bad) in counts.items())
    return f"{name}, {by}: {len(answers)} answers, all cuts into 3 up to {longest} ids, {figures}"


def every_cut(name: str, count: int, most: int) -> str:
    """Proves that our parser reads answers of a format alike in any pieces of their text."""
    counts = "answers", "with thoughts", "with calls", "characters", "pairs", "differ", "misread"
    totals = dict.fromkeys(counts, 0)
    vars(served)["secrets"] = SimpleNamespace(token_hex=lambda size: "0" * 2 * size)  # ids of calls
    for known in many(name, 4 * count, most=4):
        text = known.dialect.tokenizer.decode(known.ids)
        if len(text) > most or totals["answers"] == count:
            continue
        stream = AnswerStream(known.dialect, known.prompt)  # it declares the tools
        states, alike, messages = [saved(stream)], [{b""}], [heard(stream)]
        for character in text:
            stream.push_text(character)
            states.append(saved(stream))
            alike.append({states[-1]})
            messages.append(heard(stream))
        exact = [state_of(pickle.loads(state)) for state in states]  # what we pickled
        for begin, end in combinations(range(len(states)), 2):
            other = pickle.loads(states[begin])
            deltas = other.push_text(text[begin:end])
            if grown(messages[begin], deltas) == messages[end]:
                state = saved(other)
                if state in alike[end] or state_of(other) == exact[end]:
                    alike[end].add(state)
                    continue
            totals["differ"] += 1
        stream.end()
        totals["misread"] += not is_right(known, heard(stream))
        totals["answers"] += 1
        totals["with thoughts"] += "reasoning_content" in known.message
        totals["with calls"] += "tool_calls" in known.message
        totals["characters"] += len(text)
        totals["pairs"] += len(text) * (len(text) + 1) // 2
    return f"{name}: " + ", ".join(f"{value:,} {key}" for key, value in totals.items())


def heard(stream: AnswerStream) -> Read:
    """Returns the message so far."""
    message = stream.message
    functions = [call["function"] for call in message.get("tool_calls", ())]
    calls = [[function["name"], function["arguments"]] for function in functions]
    return Read(message["content"] or "", message.get("reasoning", ""), calls)


def grown(read: Read, deltas: list[Any]) -> Read:
    """Returns what clients have of a message after more deltas."""
    calls = Calls()
    calls.calls = [[*call] for call in read.calls]
    content, thoughts = read.content, read.thoughts
    for delta in deltas:
        content += delta.get("content", "")
        thoughts += delta.get("reasoning", "")
        for call in delta.get("tool_calls", ()):
            function = call["function"]
            calls.add(call["index"], function.get("name"), function.get("arguments"))
    return Read(content, thoughts, calls.calls)


def saved(stream: AnswerStream) -> bytes:
    """Returns the state of a parser, as bytes from which it can go on."""
    for texts in (*stream._answer._texts.values(), stream._reader._buffer):
        texts[:] = ["".join(texts)] if len(texts) > 1 else texts
    file = io.BytesIO()
    pickler = pickle.Pickler(file, 5)
    fixed = Dialect, TokenTable, Format, regex.Pattern, MappingProxyType
    pickler.dispatch_table = dict.fromkeys(fixed, kept)
    pickler.dump(stream)
    return file.getvalue()


KEPT: dict[int, Any] = {}  # values that are no part of a state, by their place in memory


def kept(value: Any) -> tuple[Any, tuple[int]]:
    """Says how to load a value that reading never changes."""
    KEPT[id(value)] = value
    return loaded, (id(value),)


def loaded(place: int) -> Any:
    """Returns a value that was kept."""
    return KEPT[place]


def vllm_tokenizer(known: Known) -> Any:
    """Returns what parsers of vLLM ask a tokenizer for."""
    dialect, special = known.dialect, dict(known.dialect.table.special)
    special |= {
        BESIDES[name]: max(special.values()) + 1000 for name in BESIDES if name == dialect.name
    }
    by_id = {i: token for token, i in special.items()}

    @cache
    def text(ids: tuple[int, ...]) -> str:
        return dialect.tokenizer.decode(list(ids))

    def decode(ids: Any, **_: Any) -> str:
        return text((ids,) if isinstance(ids, int) else tuple(ids))

    def encode(text: str, **_: Any) -> list[int]:
        return [special[text]] if text in special else list(dialect.tokenizer.encode(text))

    return SimpleNamespace(
        name_or_path="",
        decode=decode,
        encode=encode,
        tokenize=lambda text: [decode(i) for i in encode(text)],
        get_vocab=lambda: special,
        vocab=special,
        convert_tokens_to_ids=special.get,
        convert_ids_to_tokens=lambda ids, **_: [by_id.get(i, decode(i)) for i in ids],
        all_special_ids=[*by_id],
        all_special_tokens=[*special],
        eos_token_id=next(iter(known.stops), None),
        bos_token=next(iter(special), None),
        is_fast=True,
    )


def sglang(tools: list[Any]) -> tuple[Any, Any, list[Any]]:
    """Returns SGLang's module of parsers of calls, its parser of thoughts, and its tools."""
    root = "llm_router_utils.sglang.srt"
    parsers = importlib.import_module(f"{root}.function_call.function_call_parser")
    thinker = importlib.import_module(f"{root}.parser.reasoning_parser").ReasoningParser
    base = importlib.import_module(f"{root}.function_call.base_format_detector")
    return parsers, thinker, [base.Tool.model_validate(tool) for tool in tools]


def of_sglang(calls: str, reasoning: str) -> Parser:
    """Returns what reads by SGLang's parsers, in the order of its server."""
    parsers, thinker, tools = sglang(TOOLS)

    def parse(known: Known, pieces: Pieces) -> Read:
        thinking = reasoning and thinker(reasoning, force_reasoning=known.opened or None)
        parser = parsers.FunctionCallParser(tools, calls)
        content, thoughts, told = "", "", Calls()
        for number, (_, text) in enumerate(pieces):
            last = number == len(pieces) - 1
            if thinking:
                thought, text = thinking.parse_stream_chunk(text)
                rest = thinking.parse_stream_end() if last else ("", "")
                thoughts += (thought or "") + (rest[0] or "")
                text = (text or "") + (rest[1] or "")
            steps = [parser.parse_stream_chunk(text)] if text else []
            steps += [parser.parse_stream_end()] if last else []
            for more, items in steps:
                content += more or ""
                for item in items:
                    told.add(item.tool_index, item.name, item.parameters)
        _rest(parser.detector, told)
        return Read(content, thoughts, told.calls)

    return parse


def _rest(detector: Any, told: Calls) -> None:
    """Adds the rest of the last call's arguments, which SGLang's server sends at the end."""
    whole, sent = detector.prev_tool_call_arr, detector.streamed_args_for_tool
    at = len(whole or ()) - 1
    if at >= 0 and at < len(sent):
        arguments = whole[at].get("arguments", {})
        text = (
            arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        )
        if text.startswith(sent[at]):
            told.add(at, None, text[len(sent[at]) :])


def own_vllm(name: str) -> Parser:
    """Returns what reads by our plugin for vLLM."""
    importlib.import_module("mypt_infer.plugins.vllm").register(name)
    return of_vllm("mypt", "mypt")


def own_sglang(name: str) -> Parser:
    """Returns what reads by the detector of our examples."""
    root = "llm_router_utils.sglang.srt.function_call"
    example = runpy.run_path(str(ROOT / "examples" / "sglang_detector.py"))
    modules = (
        importlib.import_module(f"{root}.{part}") for part in ("base_format_detector", "core_types")
    )
    parsers, _, _ = sglang(TOOLS)
    parsers.FunctionCallParser.ToolCallParserEnum["mypt"] = example["detector"](name, *modules)
    return of_sglang("mypt", "")


OWN = {"vllm": own_vllm, "sglang": own_sglang}


def has_thoughts(known: Known) -> bool:
    """Returns whether an answer has thoughts, also where they are empty."""
    end = usual_prompt(known.dialect)[1]
    text = known.dialect.tokenizer.decode(known.ids)
    return "reasoning_content" in known.message or (bool(end) and text.startswith(end))


def cut(known: Known, places: Sequence[int]) -> Pieces:
    """Returns pieces of the ids of an answer, with their texts, as a server decodes them."""
    ids, out, shown = known.ids, [], 0
    for begin, end in pairwise([0, *places, len(ids)]):
        text = text_of(known, end)
        out.append((ids[begin:end], text[shown:]))
        shown = max(shown, len(text))
    return out


TEXTS: dict[
    tuple[int, int], tuple[Known, str]
] = {}  # with the answer, so that its id stays its own


def text_of(known: Known, end: int) -> str:
    """Returns the text that a server shows of the ids up to a place."""
    key = id(known), end
    if key not in TEXTS:
        ids = known.ids
        last = len(ids) - (ids[-1] in known.stops)  # ids whose text is shown
        text = known.dialect.tokenizer.decode(ids[: min(end, last)])
        TEXTS[key] = known, text if end >= last else text.rstrip("\ufffd")
    return TEXTS[key][1]


def is_right(known: Known, read: Read) -> bool:
    """Returns whether an answer was read as it was written."""
    message = known.message
    expected = [
        [call["function"]["name"], call["function"]["arguments"]]
        for call in message.get("tool_calls", ())
    ]
    try:
        calls = [[name, json.loads(text or "{}")] for name, text in read.calls]
    except ValueError:
        return False
    texts = message["content"].strip(), message.get("reasoning_content", "").strip()
    return calls == expected and texts == (read.content.strip(), read.thoughts.strip())


def tried(parser: Parser, known: Known, pieces: Pieces) -> Read | str:
    """Returns what a parser reads, or what it raised."""
    try:
        return parser(known, pieces)
    except Exception as error:  # another project's code
        return f"{type(error).__name__}: {error}"


def row(parser: Parser, answers: list[Known], show: int) -> list[str]:
    """Returns the shares of answers that a parser reads right: whole, in two pieces, by ids."""
    ways: list[list[tuple[Known, Pieces]]] = [[], [], []]
    for known in answers:
        size = len(known.ids)
        ways[0].append((known, cut(known, [])))
        ways[1] += [(known, cut(known, [at])) for at in range(1, size)]
        ways[2].append((known, cut(known, range(1, size))))
    out = []
    for way in ways:
        right = 0
        for known, pieces in way:
            read = tried(parser, known, pieces)
            is_ok = isinstance(read, Read) and is_right(known, read)
            right += is_ok
            if not is_ok and show > 0:
                show -= 1
                print("  wrote", known.message, "\n  pieces", [text for _, text in pieces][:60])
                print("  read ", read)
        out.append(f"{100 * right / len(way):.1f}")
    return out


def times(parsers: dict[str, Parser], answers: list[Known]) -> dict[str, float]:
    """Returns microseconds of processor time per id, where each id is a piece."""
    found: dict[str, list[float]] = {name: [] for name in parsers}
    pieces = [(known, cut(known, range(1, len(known.ids)))) for known in answers]
    for _ in range(ROUNDS):
        for name, parser in parsers.items():
            begin, count = time.process_time(), 0
            for known, each in pieces:
                count += 0 if isinstance(tried(parser, known, each), str) else len(known.ids)
            found[name].append((time.process_time() - begin) * 1e6 / max(1, count))
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--answers", type=int, default=20)
    arguments.add_argument("--formats", nargs="*", default=[*FORMATS])
    arguments.add_argument("--three", type=int, default=0, help="cuts of an answer into three")
    arguments.add_argument("--all-three", type=int, default=0, help="all cuts of short answers")
    arguments.add_argument("--by", choices=[*OWN], default="vllm", help="what reads for --three")
    arguments.add_argument("--every", type=int, default=0, help="every cut of answers up to a size")
    arguments.add_argument("--show", type=int, default=0, help="print so many that are not right")
    asked = arguments.parse_args()
    warnings.simplefilter("ignore")
    if asked.every:
        for name in asked.formats:
            print(every_cut(name, asked.answers, asked.every), flush=True)
        return
    if asked.three:
        for name in asked.formats:
            answers = many(name, asked.answers)
            if asked.by == "sglang":
                more = many(name, 3 * asked.answers)
                answers = [known for known in more if not has_thoughts(known)][: asked.answers]
            print(three_pieces(name, answers, asked.three, asked.all_three, asked.by), flush=True)
        return
    packages = {"vllm": of_vllm, "llm-router-utils": of_sglang}
    for package in packages:
        try:
            print(f"{package} {version(package)}")
        except PackageNotFoundError:
            print(f"{package}: not installed, left out")
    print("| format | parser | one piece, % | two pieces, % | a piece an id, % | us an id |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in asked.formats:
        parsers: dict[str, Parser] = {"ours": ours}
        for (package, make), names in zip(packages.items(), FORMATS[name], strict=True):
            if names is None:
                continue
            try:
                parsers[f"{package} {'+'.join(filter(None, names))}"] = make(*names)
            except Exception as error:  # it needs what is not here
                print(f"| {name} | {package}: left out, {type(error).__name__}: {error} |")
        thinking = any(names and names[1] for names in FORMATS[name])
        answers = many(name, asked.answers, thinking=thinking)
        speeds = times(parsers, answers)
        for parser, function in parsers.items():
            figures = [*row(function, answers, asked.show), f"{speeds[parser]:.0f}"]
            print(f"| {name} | {parser} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
