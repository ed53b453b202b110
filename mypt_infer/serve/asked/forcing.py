"""Finds the ids with which a model begins a call, where the client requires one.

Input: a decoder and the ids of a prompt. Output: the ids of the shortest way, by the grammar, to
the body of a call. The way opens no thought and holds no text. After it only a call can come.
"""

from collections import deque

from mypt_infer.decode.decoder import BudgetError, Decoder
from mypt_infer.run_format import Format
from mypt_infer.serve.asked.prompts import Prompt, state_after
from mypt_spec.table import TEXT, Terminal


def call_ids(decoder: Decoder, form: Format, prompt: Prompt, name: str, most: int) -> list[int]:
    """Returns the ids that begin a call after a prompt.

    `name` is that of the tool where a tag says it, "" where several may be called: the ids end
    before it then. Raises ValueError where no call can come, and BudgetError where none can be
    ended within `most` tokens.
    """
    ids, state = _begun(decoder, form, prompt, name)
    least = len(ids) + decoder.minimum(state)
    if most < least:
        raise BudgetError(
            f"max_new_tokens is {most}; the shortest legal call takes {least} tokens", least
        )
    return ids


def _begun(decoder: Decoder, form: Format, prompt: Prompt, name: str) -> tuple[list[int], int]:
    """Returns the ids that begin a call, and the state after them."""
    out: list[int] = []
    state = decoder.start(prompt.ids, called=prompt.called)
    events, _ = decoder.dialect.lex_ids(prompt.ids)
    for terminal in _way(form, state_after(decoder.dialect, events)):
        for token in _ids(decoder, terminal, name):
            if decoder.calling(state):
                return out, state
            try:
                state = decoder.next(state, token)
            except ValueError:  # white space that belongs to the next choice, or a name
                break
            out.append(token)
    return out, state


def _way(form: Format, begin: int) -> list[Terminal]:
    """Returns the tags of the shortest way from a state of the grammar into a call."""
    steps, terminals = form.dialect.automaton.steps, form.dialect.table.terminals
    ways: dict[int, list[Terminal]] = {begin: []}
    waiting = deque([begin])
    while waiting:
        here = waiting.popleft()
        for name in sorted(form.model_writes[here]):
            if name == TEXT or name not in terminals or terminals[name].opens in form.thinking:
                continue
            way = [*ways[here], terminals[name]]
            if terminals[name].opens in form.calls:
                return way
            if (there := steps[here][name]) not in ways:
                ways[there] = way
                waiting.append(there)
    problem = "no answer to this prompt begins with a call, but maybe with a thought"
    raise ValueError(f"{form.dialect.name}: {problem}; leave tool_choice out")


def _ids(decoder: Decoder, terminal: Terminal, name: str) -> list[int]:
    """Returns the ids of a tag; without a name, those before the place of the name."""
    tokenizer, out, plain = decoder.dialect.tokenizer, list[int](), ""
    for piece in terminal.stem:
        if piece.kind == "special":
            out += [*tokenizer.encode_as_written(plain), tokenizer.special[piece.value]]
            plain = ""
        elif piece.kind == "attr":
            if not name:
                break
            plain += name
        else:
            plain += piece.value
    return out + tokenizer.encode_as_written(plain)
