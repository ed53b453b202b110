"""Family 7, generation: what a model wrote, read as the continuation of a prompt."""

from __future__ import annotations

from mypt_spec.findings import rule


@rule("MYP701", "unfinished-generation", "info")
class UnfinishedGeneration:
    """A generation is legal so far, but not complete.

    ## What it finds
    What a model wrote is legal as far as it goes, but its turn is not complete.

    ## Why it matters
    The token budget ran out, or the stop token was not learnt. Used as training data it would teach unfinished answers.

    ## Bad
    ```generation
    Hello, I am
    ```

    ## Good
    ```generation
    Hello, I am MyPT.</myPT_assistant><myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Generation
    """


@rule("MYP702", "injected-tag-generated")
class InjectedTagGenerated:
    """A model wrote a tag that only the system may write.

    ## What it finds
    A tag that only the system writes, such as `<myPT_toolresult>`, in the output of a model.

    ## Why it matters
    The model invents what it should wait for. The mask was wrong in training, or decoding was not constrained.

    ## Bad
    ```generation
    <myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant><myPT_toolresult>1</myPT_toolresult>
    ```

    ## Good
    ```generation
    <myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Generation
    """


@rule("MYP703", "generation-past-end")
class GenerationPastEnd:
    """A model went on after the end of its turn.

    ## What it finds
    Output behind the end of the turn: mostly the user's next message.

    ## Why it matters
    Generation did not stop at `<myPT_eot>`. The user would see a conversation that never took place.

    ## Bad
    ```generation
    Hello.</myPT_assistant><myPT_eot><myPT_user>And you?</myPT_user>
    ```

    ## Good
    ```generation
    Hello.</myPT_assistant><myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Generation
    """
