"""Family 9, the tool itself."""

from __future__ import annotations

from mypt_spec.findings import rule


@rule("MYP901", "internal-error")
class InternalError:
    """The linter failed on this line.

    ## What it finds
    An exception inside the linter. The line was not checked; all others were.

    ## Why it matters
    It is a fault of the tool, not of the data. Please report it with the line.

    ## Bad
    Nothing in the data is known to cause it.

    ## Good
    Every line, whatever it holds, gives findings and never an exception.

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP902", "findings-not-shown")
class FindingsNotShown:
    """A line has so many findings that not all are shown.

    ## What it finds
    More than a hundred findings on one line, or in one serialised text. The first hundred are shown, the rest is counted
    by code.

    ## Why it matters
    A line like this is usually broken as a whole: the wrong file, the wrong format, or an attack. A complete list would
    cost time and memory and help nobody.

    ## Bad
    A record with a thousand unknown keys.

    ## Good
    A record with fewer mistakes than anybody wants to read about.

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP903", "not-expressible")
class NotExpressible:
    """A record cannot be said in the format that it is converted to.

    ## What it finds
    `mypt-convert` wrote a record, read it back, and found in it what was never there; or the dialect has no record for it.

    ## Why it matters
    A record like this would be trained on as something else than it was. It is refused instead.

    ## Bad
    An answer with a citation in it that would be read back at another place.

    ## Good
    A record that comes back, but for the losses that are reported.

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP904", "unused-opt-out", "warning")
class UnusedOptOut:
    """A record opts out of a rule that finds nothing in it.

    ## What it finds
    A code under `"_mypt_lint": {"ignore": [...]}` of a record that the rule has nothing to say about.

    ## Why it matters
    An exception that has outlived its cause hides the next mistake of its kind.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], "_mypt_lint": {"ignore": ["MYP314"], "reason": "silence is meant"}}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": " "}], "_mypt_lint": {"ignore": ["MYP314"], "reason": "silence is meant"}}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP905", "malformed-opt-out")
class MalformedOptOut:
    """What a record says about the rules that it opts out of cannot be understood.

    ## What it finds
    A `_mypt_lint` that is not `{"ignore": [...], "reason": "..."}`, or names a rule that does not exist.

    ## Why it matters
    An exception that is not understood is none: its findings are reported, and nobody knows why.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], "_mypt_lint": ["MYP314"]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": " "}], "_mypt_lint": {"ignore": ["blank-content"]}}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """
