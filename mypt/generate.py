"""Runs `mypt-generate`: a model continues a prompt, within the format.

Text goes to stdout, errors to stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.inputs import json_of, text_of, tools_of
from mypt_cli.run import saying
from mypt_infer.run_format import format_of
from mypt_spec import Dialect
from mypt_spec.episode import as_read
from mypt_spec.table import TEXT

if TYPE_CHECKING:
    from mypt_infer.decode.decoder import Decoder
    from mypt_infer.decode.llguidance.response import Response
    from mypt_infer.generate.generation import Generation
    from mypt_infer.stream_parser import Piece

PROG = "mypt-generate"


def _run(chosen: argparse.Namespace) -> None:
    try:
        import torch
    except ImportError:
        raise ValueError("running a model needs torch: pip install 'mypt-tags[infer]'") from None
    from mypt_infer.generate.generate import generate
    from mypt_infer.generate.generation import Step
    from mypt_infer.generate.loop import positions
    from mypt_infer.generate.opened import loaded, read_prompt, spoken
    from mypt_infer.generate.strange import RefusedMass
    from mypt_model.folder import history_of

    _, dialect = spoken(
        chosen.model, choice=chosen.dialect, vocabulary=chosen.vocab,
        say=saying(PROG, quiet=False),
    )  # fmt: skip
    prompt, declared, choice = read_prompt(
        dialect, text_of(chosen.prompt), history_of(chosen.model)
    )
    tools = declared if chosen.tools is None else tools_of(chosen.tools) or []
    decoder = _decoder(chosen, dialect, tools, choice)
    # An error in the prompt is reported before the weights are read.
    decoder.start(prompt, max_new_tokens=chosen.max_new_tokens)
    model = loaded(chosen.model, chosen.device)
    chosen.max_new_tokens = _room(chosen.max_new_tokens, len(prompt), positions(model))
    # With fewer tokens there may be no legal ending.
    decoder.start(prompt, max_new_tokens=chosen.max_new_tokens)
    names = ("max_new_tokens", "temperature", "top_k", "top_p", "seed", "stop")
    options: dict[str, Any] = {name: getattr(chosen, name) for name in names}
    screen = None if chosen.json or chosen.raw else Screen(dialect)

    def show(_: int, step: Step) -> None:
        if screen is not None:
            screen.token(step.token)
        elif chosen.raw:
            sys.stdout.buffer.write(dialect.tokenizer.decode_bytes([step.token]))
            sys.stdout.buffer.flush()

    device = torch.device(chosen.device)
    (generation,) = generate(
        model, [prompt], decoder=decoder, device=device, on_step=show, **options
    )
    if screen is not None:
        screen.end()
    if warning := RefusedMass([generation]).warning:
        print(f"{PROG}: {warning}", file=sys.stderr)
    if chosen.json:
        print(json.dumps(_summary(generation), ensure_ascii=False))


def _room(max_new_tokens: int, prompt: int, positions: int | None) -> int:
    """Returns how many tokens may come after a prompt; reports a lower limit.

    Raises ValueError for a prompt that is too long.
    """
    if positions is None or prompt + max_new_tokens <= positions:
        return max_new_tokens
    if prompt >= positions:
        raise ValueError(
            f"the prompt has {prompt} tokens; the model has {positions} positions, for prompt and "
            "answer together"
        )
    print(
        f"{PROG}: at most {positions - prompt} new tokens: the model has {positions} positions, "
        f"the prompt {prompt} tokens",
        file=sys.stderr,
    )
    return positions - prompt


def _decoder(
    chosen: argparse.Namespace, dialect: Dialect, tools: list[Any], tool_choice: Any
) -> Decoder:
    """Returns the decoder; what it leaves out or reads as nothing is said, a line each."""
    from mypt_infer.decode.base.schemas import SchemaWarning
    from mypt_infer.decode.base.tools import declare
    from mypt_infer.decode.decoder import Decoder
    from mypt_infer.serve.asked.decoders import NONE, REQUIRED, Choice, choice_of

    forbidden, choice = format_of(dialect).thinking if chosen.no_think else frozenset(), Choice()
    if tool_choice is not None:
        tools = [*declare(tools)]
        choice = choice_of(tool_choice, [tool.name for tool in tools], str)
    if choice.names:
        tools = [tool for tool in tools if tool.name in choice.names]
    if choice.how == NONE:
        forbidden |= format_of(dialect).calls
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", SchemaWarning)
        decoder = Decoder(
            dialect,
            tools,
            max_think_tokens=chosen.max_think_tokens,
            max_toolcall_tokens=chosen.max_toolcall_tokens,
            engine=chosen.engine,
            forbidden_blocks=forbidden,
            skip_unreadable=chosen.skip_unreadable,
            response=_response(chosen),
            require_call=choice.how == REQUIRED,
        )
    for line in (*(w.message for w in notes), *(f"left out: {s.reason}" for s in decoder.skipped)):
        print(f"{PROG}: {line}", file=sys.stderr)
    return decoder


def _response(chosen: argparse.Namespace) -> Response | None:
    from mypt_infer.decode.llguidance.response import Response

    if chosen.response_regex is not None:
        return Response(regex=chosen.response_regex)
    if chosen.response_lark is not None:
        return Response(lark=text_of(chosen.response_lark))
    if chosen.response_schema is None:
        return None
    return Response(schema=json_of(chosen.response_schema))


def _summary(generation: Generation) -> dict[str, Any]:
    """Returns what `--json` prints."""
    episode, _ = generation.episode
    record = None
    if episode is not None:
        with suppress(ValueError):
            record = generation.dialect.write(as_read(episode, generation.dialect.table))
    drawn = [s for s in generation.steps if s.refused_mass is not None]
    return {
        "text": generation.text,
        "ended": generation.ended,
        "tokens": len(generation.steps),
        "forced": len(generation.steps) - len(drawn),
        "lost": round(generation.refused_mass, 6),
        "ids": generation.ids,
        "record": record,
    }


class Screen:
    """Shows blocks by name, and text as it comes. No text of the model is read as markup."""

    def __init__(self, dialect: Dialect) -> None:
        from rich.console import Console

        from mypt_infer.stream_parser import StreamParser

        self.parser, self.table = StreamParser(dialect), dialect.table
        self.console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.fresh, self.closed = True, False

    def token(self, token: int) -> None:
        self._write(self.parser.push(token))

    def end(self) -> None:
        self._write(self.parser.flush())
        if not self.fresh:
            self.console.print()

    def _write(self, pieces: Sequence[Piece]) -> None:
        from rich.text import Text

        for event in (piece.event for piece in pieces):
            if event.terminal == TEXT:
                text = "".join(
                    c if c.isprintable() or c in "\n\t" else "\ufffd" for c in event.text
                )
                self.console.print(Text("\n" * self.closed + text), end="")
            elif event.terminal in self.table.stops:
                continue  # it ends the answer
            elif (terminal := self.table.terminals.get(event.terminal)) and terminal.opens:
                tag = " ".join([terminal.opens, *(value for _, value in event.attrs)])
                start = "" if self.fresh else "\n"
                self.console.print(start, Text(f"{tag}: ", style="bold cyan"), sep="", end="")
            else:
                self.closed = not self.fresh
                continue
            self.fresh = self.closed = False


main = Command(PROG, __file__, options(__file__), _run, quiet="", errors=(ValueError,))

if __name__ == "__main__":
    sys.exit(main())
