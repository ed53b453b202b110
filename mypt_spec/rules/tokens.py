"""Family 5, tokens and shards."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_spec.encode import encode_events
from mypt_spec.findings import Finding, rule
from mypt_spec.rules.context import Context


@rule("MYP501", "no-trained-token")
def no_trained_token(context: Context) -> Iterator[Finding]:
    """Nothing in an episode is trained.

    ## What it finds
    An episode in which every token is masked.

    ## Why it matters
    It costs compute and memory and moves no weight; a batch of them divides by zero.

    ## Bad
    ```jsonl also=MYP218
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Loss
    """
    if context.is_prompt:  # which says more
        return
    terminals = context.table.terminals
    roles = {e.terminal for e in context.events}
    if not any(
        t.loss or t.body_loss for name, t in terminals.items() if name in roles and not t.closes
    ):
        yield Finding(
            "MYP501",
            "no token of this episode is trained: the model has nothing to learn from it",
            help="give it an answer, or leave it out",
        )


@rule("MYP502", "too-many-tokens")
def too_many_tokens(context: Context) -> Iterator[Finding]:
    """An episode is longer than the limit in tokens.

    ## What it finds
    With a limit given: an episode of more tokens than that, tags counted.

    ## Why it matters
    Longer episodes are cut by the loader, mostly in the middle of the answer and without its end of turn.

    ## Bad
    ```jsonl max-tokens=10
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl max-tokens=12
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Ids
    """
    limit = context.limits.max_tokens
    if limit is None:
        return
    try:
        length = len(encode_events(context.events, context.table, context.tokenizer))
    except ValueError:  # a lone surrogate, which has its own finding
        return
    if length > limit:
        message = f"the episode has {length} tokens, the limit is {limit}"
        yield Finding(
            "MYP502", message, help="split it after a complete turn, or raise --max-tokens"
        )


@rule("MYP503", "meaningless-id")
class MeaninglessId:
    """A token id that means nothing in the format.

    ## What it finds
    An id that is neither ordinary text nor one of the format's tags: padding, end-of-text, or an id beyond the vocabulary.

    ## Why it matters
    The model would be trained on an id that has no meaning; mostly the shard was written with another vocabulary.

    ## Bad
    ```ids
    [50257, 50, 50258, 50259, 17250, 50260, 50261, 15496, 13, 50262, 50256, 50275]
    ```

    ## Good
    ```ids
    [50257, 50, 50258, 50259, 17250, 50260, 50261, 15496, 13, 50262, 50275]
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Ids
    """


@rule("MYP504", "split-character")
class SplitCharacter:
    """A run of ordinary ids that is not UTF-8.

    ## What it finds
    Ordinary ids whose bytes are not UTF-8: a character cut in half, by truncation or by splitting at a tag.

    ## Why it matters
    The model learns to stop inside a character, and its output shows U+FFFD.

    ## Bad
    ```ids
    [50257, 50, 50258, 50259, 17250, 50260, 50261, 47249, 50262, 50275]
    ```

    ## Good
    ```ids
    [50257, 50, 50258, 50259, 17250, 50260, 50261, 47249, 222, 50262, 50275]
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Ids
    """


@rule("MYP505", "broken-data-set")
class BrokenDataSet:
    """A folder of shards is no whole data set.

    ## What it finds
    A file that the manifest names and that is missing, short or altered; a manifest of another version; shards of another grammar
    than the installed one; a preparation that did not end.

    ## Why it matters
    A trainer would read something else than what was checked, or stop in the middle.

    ## Bad
    A folder from which one shard was not copied.

    ## Good
    A folder as `mypt-prepare` has left it.

    ## Spec
    `grammar/mypt/SPEC.md`, Ids
    """


@rule("MYP506", "wrong-mask")
class WrongMask:
    """The stored mask of an episode is not the one that its tokens have.

    ## What it finds
    The first token of an episode whose mask differs from the one that the token table gives; the first token of an episode
    is never a target.

    ## Why it matters
    Masked answers are not learned, and trained questions are: a model like that talks to itself.

    ## Bad
    A shard whose mask was made by another program.

    ## Good
    A shard as `mypt-prepare` has made it.

    ## Spec
    `grammar/mypt/SPEC.md`, Loss
    """


@rule("MYP507", "misplaced-padding")
class MisplacedPadding:
    """Between episodes stands something else than padding.

    ## What it finds
    A token that no episode covers and that is not the padding id, or is a target; an episode that reaches into another one or
    out of its row.

    ## Why it matters
    Every token of a row is read by the model; what belongs to no episode was checked by nobody.

    ## Bad
    An index that was cut, so that episodes at its end belong to nothing.

    ## Good
    Rows in which episodes stand side by side, padded at the end.

    ## Spec
    `grammar/mypt/SPEC.md`, Ids
    """


@rule("MYP508", "counts-differ")
class CountsDiffer:
    """The manifest says other numbers than its files hold.

    ## What it finds
    Tokens, trained tokens, rows or episodes of a shard that the manifest counts differently; shard files that it does not name.

    ## Why it matters
    The loss is divided by such numbers, and epochs are planned with them. A shard that is not named is never read.

    ## Bad
    A folder into which a shard of another run was copied.

    ## Good
    A folder whose manifest names every shard in it.

    ## Spec
    `grammar/mypt/SPEC.md`, Ids
    """
