"""Family 2, placement: tags where the grammar refuses them. The grammar finds these; see placement.py."""

from __future__ import annotations

from mypt_spec.findings import rule


@rule("MYP201", "user-inside-assistant")
class UserInsideAssistant:
    """A user block opens inside an assistant block."""


@rule("MYP202", "toolresult-inside-assistant")
class ToolresultInsideAssistant:
    """A tool result opens inside an assistant block."""


@rule("MYP203", "eot-after-user")
class EotAfterUser:
    """The end of turn follows the user block."""


@rule("MYP204", "assistant-context-inside-user")
class AssistantContextInsideUser:
    """Assistant context opens inside a user block."""


@rule("MYP205", "user-context-outside-user")
class UserContextOutsideUser:
    """User context opens outside a user block."""


@rule("MYP206", "think-not-first")
class ThinkNotFirst:
    """Reasoning opens anywhere but at the start of an assistant block."""


@rule("MYP207", "cite-outside-answer")
class CiteOutsideAnswer:
    """A citation opens anywhere but in the text of an answer."""


@rule("MYP208", "missing-system")
class MissingSystem:
    """A conversation does not begin with its system block."""


@rule("MYP209", "second-system")
class SecondSystem:
    """A system block opens anywhere but first."""


@rule("MYP210", "text-between-blocks")
class TextBetweenBlocks:
    """Text stands between blocks."""


@rule("MYP211", "unclosed-block")
class UnclosedBlock:
    """A block is not closed."""


@rule("MYP212", "stray-closing-tag")
class StrayClosingTag:
    """A closing tag closes nothing."""


@rule("MYP213", "call-and-text-in-one-block")
class CallAndTextInOneBlock:
    """A call shares its assistant block with answer text or another call."""


@rule("MYP214", "empty-block")
class EmptyBlock:
    """A block holds nothing."""


@rule("MYP216", "missing-eot")
class MissingEot:
    """A turn is not ended."""


@rule("MYP217", "repeated-eot")
class RepeatedEot:
    """The end of turn stands twice."""


@rule("MYP218", "turn-without-answer")
class TurnWithoutAnswer:
    """A turn has no answer."""


@rule("MYP219", "turn-without-user")
class TurnWithoutUser:
    """A turn does not begin with the user."""


@rule("MYP220", "unexpected-tag")
class UnexpectedTag:
    """A tag stands where the grammar does not allow it."""


@rule("MYP224", "mixed-layout", "info")
class MixedLayout:
    """White space between blocks that is neither layout of the format."""


@rule("MYP299", "too-many-misplaced")
class TooManyMisplaced:
    """Checking of an episode stopped after too many misplaced tags."""
