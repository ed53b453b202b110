"""Describes a derived format in plain English, with what is proved of it."""

import json
from collections.abc import Iterator, Sequence

from mypt_lint.derive.folder import blocks_of
from mypt_lint.derive.proof import Level
from mypt_lint.derive.shape import NAME, Shape

_SPEC = """\
# {name}

`mypt-lint derive` learned this format from a chat template. Read this page before using it.

| block | opening tag | closing tag | white space around the text | empty text |
| --- | --- | --- | --- | --- |
{blocks}

{notes}

## Proof

Text and prompt are those of the template, byte for byte, on conversations that were not used to
learn the format. So is the loss mask of ten of each level, and the ids, if the folder of the model
has a vocabulary. A token never crosses the end of a prompt, so an answer that begins with white
space may have other ids than in transformers.

{levels}
"""


def spec(name: str, shape: Shape, levels: Sequence[Level]) -> str:
    """Returns the text of a SPEC.md."""
    texts = {"blocks": _blocks(shape), "notes": _notes(shape)}
    texts["levels"] = levels_table(levels, shape)
    return _SPEC.format(name=name, **{key: "\n".join(lines) for key, lines in texts.items()})


def levels_table(levels: Sequence[Level], shape: Shape | None) -> Iterator[str]:
    """Yields the lines of a Markdown table of what is proved."""
    yield "| level | proved | equal conversations | refused or different |"
    yield "| --- | --- | --- | --- |"
    for level in levels:
        proved = "yes" if level.is_complete else "in part" if level.is_proved else "no"
        yield _row(level.name, proved, f"{level.equal} of {level.count}", level.reason)
    if shape is not None and (shape.options or shape.lacks):
        proved = "no" if not shape.options else "in part" if shape.lacks else "yes"
        values = (f"{n}: {json.dumps(row['values'])[1:-1]}" for n, row in shape.options.items())
        lacks = f"the format has no {', '.join(shape.lacks)}" if shape.lacks else ""
        yield _row("options", proved, "; ".join(values), lacks)


def _blocks(shape: Shape) -> Iterator[str]:
    for piece, block in blocks_of(shape).items():
        space = f"strip {block.strip}" if block.strip else "kept"
        space += f", after {_code(block.prefix)}" if block.prefix else ""
        tags = [_code(block.opener) if block.opener else "none"]
        tags.append(_code(block.closer) if block.closer else "the next tag")
        yield _row(piece, *tags, space, "allowed" if block.blank else "refused")


def _notes(shape: Shape) -> Iterator[str]:
    if shape.begin:
        yield f"- A conversation begins with {_code(shape.begin)}."
    if shape.tail:
        instead = " in place of the closing tag of the answer" * shape.ends
        yield f"- It ends with {_code(shape.tail)}{instead}."
    if shape.day[0]:
        name, day, _ = map(_code, shape.day)
        yield f"- The date is the option {name}, by default {day}, when the format was derived."
    theirs, ours = shape.ending
    if theirs:
        yield f"- The template's texts end with {_code(theirs)}; this format's do not."
    if ours:
        yield f"- The template does not end the last answer; this format does, with {_code(ours)}."
    if shape.default is not None:
        yield f"- The system message of conversations without one is {_code(shape.default)}."
    elif shape.plain:
        yield f"- {_code(shape.plain)} is in place of a missing system message."
    elif shape.needs_system:
        yield "- A conversation needs a system message: without one, the template writes a date."
    if shape.system_in is not None:
        system = _code("...".join(shape.system_in[:2]))
        yield f"- The first question begins with the system message: {system}."
    if shape.bare_end:
        yield "- White space between turns is not written at the end."
    if shape.unprompted:
        yield "- Prompts end without the white space with which the header of an answer begins."
    if shape.no_system:
        yield f"- System messages are refused: {shape.no_system}."
    if shape.drops:
        how = "empty" if shape.always else "left out"
        yield f"- Thoughts of earlier turns are {how} (`--history official`)."
    if shape.leaves:
        yield f"- A thought that is left out leaves {_code(shape.leaves)} before the text after it."
    if shape.strip_before_calls:
        yield f"- In earlier turns, texts before calls are stripped: {shape.strip_before_calls}."
    if shape.answer.lead:
        yield f"- Before a thought, the header of an answer is {_code(shape.answer.lead)}."
    if shape.system is not None and shape.system.lead:
        yield f"- Without a system message, {_code(shape.system.lead)} is before tools."
    if shape.always or shape.fills:
        last = "each answer after the last question" if shape.each else "the last answer"
        which = "Each answer" if shape.always else f"With `--history official`, {last}"
        yield f"- {which} has an empty thought if it has no other."


def _code(text: str) -> str:
    return f"`` {json.dumps(text.replace(NAME, 'NAME'), ensure_ascii=False)[1:-1]} ``"


def _row(*cells: str) -> str:
    escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
