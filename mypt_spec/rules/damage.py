"""Family 8, damage: tags of plain text that a stop cut short, or tore in two. Nothing is repaired here; see truncated.py."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_spec.findings import Finding, rule
from mypt_spec.rules.context import Context
from mypt_spec.truncated import fragment


@rule("MYP801", "truncated-tag")
def truncated_tag(context: Context) -> Iterator[Finding]:
    """A tag of plain text is cut short.

    ## What it finds
    What a stop in the middle of a tag leaves: `<` or `</ti` where a block should close, or `/tin>` in content.

    ## Why it matters
    The call is none, so nobody runs the tool; and a tool that repairs the tag in silence hides how often it happens.

    ## Bad
    ```text dialect=praxis
    [BOS]user
    What is 2 + 2?
    [SEP]
    [BOS]assistant
    <tin>
    {"name": "calc", "arguments": {"x": "2 + 2"}}
    <
    [SEP]

    ```

    ```jsonl dialect=praxis
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "/tin> It is 4."}]}
    ```

    ## Good
    ```text dialect=praxis
    [BOS]user
    What is 2 + 2?
    [SEP]
    [BOS]assistant
    <tin>
    {"name": "calc", "arguments": {"x": "2 + 2"}}
    </tin><tout>4</tout>
    It is 4.
    [SEP]

    ```

    ## Spec
    `grammar/praxis/SPEC.md`, Damaged text
    """
    for run in context.texts:
        found = fragment(run.event.text, context.inner_tags) if run.body == "text" else None
        while found is not None:
            start, end, tag = found
            base = run.event.at.span[0] if run.event.at.span else 0
            text = f"`{run.event.text[start:end]}` looks like a piece of `{tag}`"
            yield Finding(
                "MYP801",
                text,
                run.event.at.pointer,
                (base + start, base + end),
                help=f"write `{tag}` where the block ends, or take it out",
            )
            found = fragment(run.event.text, context.inner_tags, end)


@rule("MYP802", "split-tag")
class SplitTag:
    """A tag of plain text is in two pieces, with other tags between them.

    ## What it finds
    A closing tag that was cut by the end of its block and goes on in a new block of the same kind, or a call and its result
    with such a header between them.

    ## Why it matters
    A stop token in the middle of a tag does this: the call is never closed, and the rest of the tag becomes text that the
    model learns to write.

    ## Bad
    ```text dialect=praxis
    [BOS]user
    What is 2 + 2?
    [SEP]
    [BOS]assistant
    <tin>
    {"name": "calc", "arguments": {"x": "2 + 2"}}
    <[SEP]
    [BOS]assistant
    /tin><tout>4</tout>
    It is 4.
    [SEP]

    ```

    ## Good
    ```text dialect=praxis
    [BOS]user
    What is 2 + 2?
    [SEP]
    [BOS]assistant
    <tin>
    {"name": "calc", "arguments": {"x": "2 + 2"}}
    </tin><tout>4</tout>
    It is 4.
    [SEP]

    ```

    ## Spec
    `grammar/praxis/SPEC.md`, Damaged text
    """
