"""Family 6, data set: what no episode shows by itself, and what only a pass over all of them looks at (`--data-set`)."""

from __future__ import annotations

from mypt_spec.findings import rule


@rule("MYP601", "duplicate-episode", "warning")
class DuplicateEpisode:
    """An episode stands in the data twice.

    ## What it finds
    With `--data-set`: an episode that is equal, character for character, to one before it, in this file or another. Metadata
    does not count.

    ## Why it matters
    What stands twice is learned twice: the model recites it, and a share of the compute is wasted.

    ## Bad
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], "_id": 2}
    ```

    ## Good
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    {"system": "S", "messages": [{"role": "user", "content": "Bye"}, {"role": "assistant", "content": "See you."}], "_id": 2}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP602", "same-prompt-other-answer", "info")
class SamePromptOtherAnswer:
    """The same prompt has another answer elsewhere.

    ## What it finds
    With `--data-set`: two episodes that are equal up to their last answer, and differ in it.

    ## Why it matters
    Often one of the two is a mistake; where both are right, the model learns to toss a coin.

    ## Bad
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
    {"system": "S", "messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "5"}]}
    ```

    ## Good
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
    {"system": "S", "messages": [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": "5"}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP603", "train-eval-overlap")
class TrainEvalOverlap:
    """Questions of the evaluation data are trained on.

    ## What it finds
    With `--data-set`, where some of the files are for evaluation: an episode of the others whose user messages are those of an
    evaluation episode, but for case and white space. Files for evaluation are those that `--eval` names, or whose name or
    folder says so: eval, val, test, dev.

    ## Why it matters
    What the model has seen measures its memory and nothing else.

    ## Bad
    An episode that stands in `train.jsonl` and in `eval.jsonl`.

    ## Good
    Files that share no question.

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP604", "unseen-source", "warning")
class UnseenSource:
    """A call or a citation names a document that stands nowhere before it.

    ## What it finds
    With `--data-set`: a `doc_id` among the arguments of a call, or a citation, that no text before it in the episode
    mentions.

    ## Why it matters
    The model learns to invent sources.

    ## Bad
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "How?"}, {"role": "assistant", "content": "Run init.", "cite": "Setup Guide"}]}
    ```

    ## Good
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "How?", "context": "Setup Guide: run init."}, {"role": "assistant", "content": "Run init.", "cite": "Setup Guide"}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP605", "answer-in-other-language", "warning")
class AnswerInOtherLanguage:
    """An answer is in another language than the record says.

    ## What it finds
    With `--data-set`: an answer that is, by its script or its common words, surely not in the record's `language`. Short answers
    and code are left alone.

    ## Why it matters
    The model learns to change the language in the middle of a conversation.

    ## Bad
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "Warum?"}, {"role": "assistant", "content": "This is the way it is, and that is all there is to be said of it for the time you have."}], "language": "de"}
    ```

    ## Good
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "Warum?"}, {"role": "assistant", "content": "Das ist so, und mehr ist dazu nicht zu sagen, auch wenn die Zeit dafür da ist."}], "language": "de"}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP606", "reserved-prompt")
class ReservedPrompt:
    """A prompt that is reserved for evaluation is trained on.

    ## What it finds
    With `--data-set` and `--eval-prompts`: a user message that is, but for case and white space, one of the prompts in that
    file.

    ## Why it matters
    The evaluation would measure what the model remembers of its training.

    ## Bad
    A user message that stands in the list.

    ## Good
    Training data without the prompts of the list.

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP607", "few-distinct-answers", "info")
class FewDistinctAnswers:
    """Most answers of a file are the same.

    ## What it finds
    With `--data-set`: a file of 50 episodes or more in which less than half of the final answers differ.

    ## Why it matters
    The model learns the answer and not the question.

    ## Bad
    A file in which every second answer is "I do not know."

    ## Good
    A file in which most answers differ.

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP608", "white-space-around-text", "info")
class WhiteSpaceAroundText:
    r"""A text begins with white space, or ends in it.

    ## What it finds
    With `--data-set`: a text of the record that has white space at one end or both, and more than white space. Bodies of calls and
    results are not looked at.

    ## Why it matters
    A word behind a space is another token than the word behind a tag, so the same answer is learned in two spellings; and white
    space at the end of an answer is learned as a part of it. In code, an indent at the beginning may be meant.

    ## Bad
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": " Hello.\n"}]}
    ```

    ## Good
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Content
    """


@rule("MYP609", "text-not-nfc", "warning")
class TextNotNfc:
    r"""A text holds characters that Unicode's normal form NFC writes otherwise.

    ## What it finds
    With `--data-set`: a text of the record that is not in NFC, and the first place where it is not. Bodies of calls and results are
    not looked at.

    ## Why it matters
    An "é" of one character and one of two look alike and are different tokens: the model learns a word twice, and the
    decomposed one badly; a search for the word finds one of the two.

    ## Bad
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Cafe\u0301?"}]}
    ```

    ## Good
    ```jsonl data-set=yes
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Caf\u00e9?"}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Content
    """
