"""Family 2, placement: tags where the grammar refuses them. The grammar finds these; see placement.py."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_spec.findings import Finding, rule
from mypt_spec.rules.context import Context


@rule("MYP201", "user-inside-assistant")
class UserInsideAssistant:
    """A user block opens inside an assistant block.

    ## What it finds
    A user block inside an assistant block: mistake 1 of the reference.

    ## Why it matters
    Everything inside an assistant block is trained, so the model learns to write the user's turn and talks to itself.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.<myPT_user>And you?</myPT_user></myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    <myPT_user>And you?</myPT_user>
    <myPT_assistant>Fine.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP202", "toolresult-inside-assistant")
class ToolresultInsideAssistant:
    """A tool result opens inside an assistant block.

    ## What it finds
    A tool result inside an assistant block: mistake 2 of the reference.

    ## Why it matters
    The result is trained then: the model learns to invent what a tool returns instead of waiting for it.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Let me see.<myPT_toolresult>1</myPT_toolresult></myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP203", "eot-after-user")
class EotAfterUser:
    """The end of turn follows the user block.

    ## What it finds
    An end of turn behind the user block, or inside it: mistake 3 of the reference.

    ## Why it matters
    The token is trained wherever it stands, so the model learns to end the turn without an answer.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_eot>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP204", "assistant-context-inside-user")
class AssistantContextInsideUser:
    """Assistant context opens inside a user block.

    ## What it finds
    Assistant context inside the user block: mistake 4 of the reference.

    ## Why it matters
    At run time it is injected after the user block. A model that has seen it elsewhere does not use it there.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi<myPT_assistant_context>47 documents</myPT_assistant_context></myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant_context>47 documents</myPT_assistant_context>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP205", "user-context-outside-user")
class UserContextOutsideUser:
    """User context opens outside a user block.

    ## What it finds
    User context anywhere but inside the user block: mistake 5 of the reference.

    ## Why it matters
    The model cannot tell whose context it is; inside an assistant block it would even be trained to write it.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user_context>Page 1</myPT_user_context>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user><myPT_user_context>Page 1</myPT_user_context>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Blocks
    """


@rule("MYP206", "think-not-first")
class ThinkNotFirst:
    """Reasoning opens anywhere but at the start of an assistant block.

    ## What it finds
    A think that is not the first thing in an assistant block: mistake 6 of the reference.

    ## Why it matters
    Reasoning that follows its answer teaches the model to justify what it has already said, and the part to hide from the user is not where it is looked for.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.<myPT_think>Greet back.</myPT_think></myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_think>Greet back.</myPT_think>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Blocks
    """


@rule("MYP207", "cite-outside-answer")
class CiteOutsideAnswer:
    """A citation opens anywhere but in the text of an answer.

    ## What it finds
    A citation that is not part of an answer's text: mistake 7 of the reference.

    ## Why it matters
    A citation between blocks belongs to nothing; in a user block it is masked, and the model never learns to cite.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_cite>page 1</myPT_cite>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello. <myPT_cite>page 1</myPT_cite></myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Blocks
    """


@rule("MYP208", "missing-system")
class MissingSystem:
    """A conversation does not begin with its system block.

    ## What it finds
    A conversation whose first block is not system.

    ## Why it matters
    The model would be trained without the prompt that it always gets at run time, and learns to ignore it.

    ## Bad
    ```jsonl
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP209", "second-system")
class SecondSystem:
    """A system block opens anywhere but first.

    ## What it finds
    A second system block, or one inside another block.

    ## Why it matters
    At run time there is one prompt, first. A second one teaches the model that later text can take its place, which is what an injection tries.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi<myPT_system>S</myPT_system></myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP210", "text-between-blocks")
class TextBetweenBlocks:
    """Text stands between blocks.

    ## What it finds
    Text that is in no block. White space between blocks is fine.

    ## Why it matters
    No role owns it, so no mask is right for it; serialising again would drop it.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    Sure!
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Sure! Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP211", "unclosed-block")
class UnclosedBlock:
    """A block is not closed.

    ## What it finds
    A block whose closing tag does not come.

    ## Why it matters
    What follows is swallowed by the block, roles and mask with it: one lost `</myPT_user>` and the answer is masked.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Blocks
    """


@rule("MYP212", "stray-closing-tag")
class StrayClosingTag:
    """A closing tag closes nothing.

    ## What it finds
    A closing tag without its opening tag, or in the wrong place.

    ## Why it matters
    The mask is kept by tags in pairs: a stray one ends the trained part too early.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_cite></myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello. <myPT_cite>page 1</myPT_cite></myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Blocks
    """


@rule("MYP213", "call-and-text-in-one-block")
class CallAndTextInOneBlock:
    """A call shares its assistant block with answer text or another call.

    ## What it finds
    An assistant block with a call and answer text, or with two calls.

    ## Why it matters
    The controller runs the call and drops the text, so the user never sees it; of two calls it runs the first.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Let me see.<myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_think>Let me see.</myPT_think><myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Blocks
    """


@rule("MYP214", "empty-block")
class EmptyBlock:
    """A block holds nothing.

    ## What it finds
    A block with nothing in it, or an answer that is only a think or a citation.

    ## Why it matters
    An empty answer teaches the model to say nothing and stop.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Blocks
    """


@rule("MYP216", "missing-eot")
class MissingEot:
    """A turn is not ended.

    ## What it finds
    A turn whose last assistant block is not followed by `<myPT_eot>`.

    ## Why it matters
    It is the only stop signal: a model that has not learnt it goes on and writes the user's next turn.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP217", "repeated-eot")
class RepeatedEot:
    """The end of turn stands twice.

    ## What it finds
    Two ends of one turn.

    ## Why it matters
    The second is trained as well, so the model learns that something can follow the end.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP218", "turn-without-answer")
class TurnWithoutAnswer:
    """A turn has no answer.

    ## What it finds
    A turn whose last block is not an answer: nothing behind the user, or a tool result at the end.

    ## Why it matters
    There is nothing to train in it, and two user blocks in a row are what the model never meets at run time.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP219", "turn-without-user")
class TurnWithoutUser:
    """A turn does not begin with the user.

    ## What it finds
    A turn that begins with anything but the user.

    ## Why it matters
    An answer to nothing teaches the model to speak without being asked.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP220", "unexpected-tag")
class UnexpectedTag:
    """A tag stands where the grammar does not allow it.

    ## What it finds
    A tag that is not legal where it stands and that no other rule has a name for. The message lists what would be.

    ## Why it matters
    The grammar is the format: what it refuses would be masked, stopped or parsed differently by every tool.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi<myPT_toolcall>{}</myPT_toolcall></myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Blocks
    """


@rule("MYP224", "mixed-layout", "info")
class MixedLayout:
    """White space between blocks that is neither layout of the format.

    ## What it finds
    White space between blocks that is neither layout of the format, `compact` or `lines`. The fix is safe.

    ## Why it matters
    It means nothing, but a tool that encodes the raw text trains on newlines that are never there at run time.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>

    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Layouts
    """


@rule("MYP230", "tag-spacing", "warning")
class TagSpacing:
    """A tag has other white space around it than the format writes.

    ## What it finds
    Serialised text in which a tag that is written with a line end before or behind it stands with other white space, or with
    none.

    ## Why it matters
    The text is read, but it does not come back: the format is written in one way only, and a model that sees two ways learns
    neither. The fix writes the white space of the format. Content is not touched.

    ## Bad
    ```text dialect=mypt-3b
    <user>Hi</user><assistant><toolcall name="t">
    {}
    </toolcall>
    </assistant><toolresult name="t">
    1
    </toolresult><assistant>Hello.</assistant>
    ```

    ## Good
    ```text dialect=mypt-3b
    <user>Hi</user><assistant>
    <toolcall name="t">
    {}
    </toolcall>
    </assistant><toolresult name="t">
    1
    </toolresult><assistant>Hello.</assistant>
    ```

    ## Spec
    `grammar/mypt_3b/SPEC.md`, Layouts
    """


@rule("MYP231", "context-not-before-user")
class ContextNotBeforeUser:
    """Context stands anywhere but right before a user block.

    ## What it finds
    A context block inside another block, behind the question, twice, or with no question behind it, in a format whose
    context is a block of its own.

    ## Why it matters
    Retrieved text belongs to the question that it was retrieved for. Anywhere else the model does not find it where it was
    trained to look.

    ## Bad
    ```text dialect=mypt-3b
    <user><context>c</context>Hi</user><assistant>Hello.</assistant>
    ```

    ## Good
    ```text dialect=mypt-3b
    <context>c</context><user>Hi</user><assistant>Hello.</assistant>
    ```

    ## Spec
    `grammar/mypt_3b/SPEC.md`, Turns
    """


@rule("MYP232", "end-before-answer", "warning")
class EndBeforeAnswer:
    """The end of a turn stands behind a segment that is not its answer.

    ## What it finds
    The end tag between a user or think segment and the segment that follows it.

    ## Why it matters
    The end tag is trained, and it is what stops generation. A segment that is not the answer ends where the next one begins.
    The tag is read as if it did not stand there, and is not written again. With anything else behind it, it is an error.

    ## Bad
    ```text dialect=gabgpt
    <|user|>Hi<|end|><|assistant|>Hello!<|end|>
    ```

    ## Good
    ```text dialect=gabgpt
    <|user|>Hi<|assistant|>Hello!<|end|>
    ```

    ## Spec
    `grammar/gabgpt/SPEC.md`, Turns
    """


@rule("MYP240", "incomplete-tag")
class IncompleteTag:
    """A single token stands without the rest of its tag.

    ## What it finds
    A token that is only the beginning of tags, such as `[BOS]`, with nothing behind it that makes it one: mostly a role that
    the format does not have.

    ## Why it matters
    The block is none: what it holds would reach the model as the tail of the block before, or not at all.

    ## Bad
    ```text dialect=praxis
    [BOS]user
    Hi
    [SEP]
    [BOS]assistent
    Hello.[EOS]
    ```

    ## Good
    ```text dialect=praxis
    [BOS]user
    Hi
    [SEP]
    [BOS]assistant
    Hello.[EOS]
    ```

    ## Spec
    `grammar/praxis/SPEC.md`, Terminals
    """


@rule("MYP242", "second-assistant-block")
class SecondAssistantBlock:
    """An assistant block follows an assistant block.

    ## What it finds
    A turn whose answer is in two assistant blocks, one directly behind the other.

    ## Why it matters
    It is what a stop token in the middle of an answer leaves behind: the text was cut there and went on under a header that
    nobody asked for. Trained, the model learns to stop in the middle.

    ## Bad
    ```text dialect=praxis
    [BOS]user
    What is 2 + 2?
    [SEP]
    [BOS]assistant
    It is
    [SEP]
    [BOS]assistant
    4.[EOS]
    ```

    ## Good
    ```text dialect=praxis
    [BOS]user
    What is 2 + 2?
    [SEP]
    [BOS]assistant
    It is 4.[EOS]
    ```

    ## Spec
    `grammar/praxis/SPEC.md`, Turns
    """


@rule("MYP243", "block-after-end")
class BlockAfterEnd:
    """Something follows the end of the conversation.

    ## What it finds
    A block or text behind the token that ends the conversation.

    ## Why it matters
    Generation stops there: the model would never see what follows.

    ## Bad
    ```jsonl dialect=praxis
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "eos"}, {"role": "user", "content": "And you?"}, {"role": "assistant", "content": "Fine."}]}
    ```

    ## Good
    ```jsonl dialect=praxis
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And you?"}, {"role": "assistant", "content": "Fine."}, {"role": "eos"}]}
    ```

    ## Spec
    `grammar/praxis/SPEC.md`, Turns
    """


@rule("MYP299", "too-many-misplaced")
class TooManyMisplaced:
    """Checking of an episode stopped after too many misplaced tags.

    ## What it finds
    More than 25 misplaced tags in one episode; what follows was not checked.

    ## Why it matters
    It is no conversation in this format: mostly a text of another format, or a document about the format.

    ## Bad
    ```text also=MYP207
    <myPT_system>S</myPT_system>
    <myPT_user>Hi<myPT_cite>1</myPT_cite>.<myPT_cite>2</myPT_cite>.<myPT_cite>3</myPT_cite>.<myPT_cite>4</myPT_cite>.<myPT_cite>5</myPT_cite>.<myPT_cite>6</myPT_cite>.<myPT_cite>7</myPT_cite>.<myPT_cite>8</myPT_cite>.<myPT_cite>9</myPT_cite>.<myPT_cite>10</myPT_cite>.<myPT_cite>11</myPT_cite>.<myPT_cite>12</myPT_cite>.<myPT_cite>13</myPT_cite>.<myPT_cite>14</myPT_cite>.<myPT_cite>15</myPT_cite>.<myPT_cite>16</myPT_cite>.<myPT_cite>17</myPT_cite>.<myPT_cite>18</myPT_cite>.<myPT_cite>19</myPT_cite>.<myPT_cite>20</myPT_cite>.<myPT_cite>21</myPT_cite>.<myPT_cite>22</myPT_cite>.<myPT_cite>23</myPT_cite>.<myPT_cite>24</myPT_cite>.<myPT_cite>25</myPT_cite>.<myPT_cite>26</myPT_cite>.</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP250", "late-instruction", "warning")
class LateInstruction:
    """A system or developer message stands behind the beginning.

    ## What it finds
    It follows a message of the conversation; the format has one developer block, at the front, and it is read there.

    ## Why it matters
    The model sees it before what it was meant to follow.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}, {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Order
    """


@rule("MYP251", "answer-without-user", "warning")
class AnswerWithoutUser:
    """A conversation begins with the assistant.

    ## What it finds
    No user message stands before the first answer.

    ## Why it matters
    The model learns to speak unasked; mostly the question was lost.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "assistant", "content": "Hi!"}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Order
    """


@rule("MYP252", "prompt-only", "info")
def prompt_only(context: Context) -> Iterator[Finding]:
    """A conversation ends before an answer.

    ## What it finds
    The last message is the user's, or a tool's. In formats whose records may be prompts this is legal.

    ## Why it matters
    Online training (PPO, GRPO) takes prompts, and the rollout writes the answers; in supervised data the last answer is
    missing, and with it what would be trained.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Training shapes
    """
    if context.is_prompt:
        event = context.events[-1]
        text = "the conversation ends before an answer: this is a prompt, for online training"
        yield Finding(
            "MYP252",
            text,
            event.at.pointer,
            event.at.span,
            help="for supervised training, add the answer",
        )


@rule("MYP253", "reflection-out-of-order")
class ReflectionOutOfOrder:
    """A self-reflection does not stand behind what it reflects on.

    ## What it finds
    It stands first, behind reasoning, or behind another self-reflection.

    ## Why it matters
    One reflection belongs to the message or the calls just before it.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "contents": [{"type": "self_reflection", "self_reflection": "Good."}, {"type": "text", "text": "Hi!"}]}], "self_reflection_enabled": true}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "contents": [{"type": "text", "text": "Hi!"}, {"type": "self_reflection", "self_reflection": "Good."}]}], "self_reflection_enabled": true}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Blocks
    """


@rule("MYP254", "text-outside-message")
class TextOutsideMessage:
    """Text stands in an assistant block, but in no part of it.

    ## What it finds
    There is text between the parts of an assistant block.

    ## Why it matters
    Every part is marked, so that it can be told what is shown to the user.

    ## Bad
    ```text dialect=usf-omega
    <bos><start>user
    Hello
    <end>
    <start>assistant
    Hi!<end>
    <eos>
    ```

    ## Good
    ```text dialect=usf-omega
    <bos><start>user
    Hello
    <end>
    <start>assistant
    <message_start>Hi!<message_end>
    <end>
    <eos>
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Blocks
    """


@rule("MYP255", "head-out-of-order")
class HeadOutOfOrder:
    """A block of the head stands behind its place.

    ## What it finds
    A developer or functions block stands twice, in the wrong order, or behind the conversation.

    ## Why it matters
    The head has one order: system, developer, functions.

    ## Bad
    ```text dialect=usf-omega
    <bos><start>user
    Hello
    <end>
    <start>developer
    Be brief.
    <end>
    <start>assistant
    <message_start>Hi!<message_end>
    <end>
    <eos>
    ```

    ## Good
    ```text dialect=usf-omega
    <bos><start>user
    Hello
    <end>
    <start>assistant
    <message_start>Hi!<message_end>
    <end>
    <eos>
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Order
    """


@rule("MYP256", "missing-bos")
class MissingBos:
    """A conversation does not begin with its first token.

    ## What it finds
    Something stands before `<bos>`, or in its place.

    ## Why it matters
    Every text begins with it, once.

    ## Bad
    ```text dialect=usf-omega
    <start>user
    Hello
    <end>
    <start>assistant
    <message_start>Hi!<message_end>
    <end>
    <eos>
    ```

    ## Good
    ```text dialect=usf-omega
    <bos><start>user
    Hello
    <end>
    <start>assistant
    <message_start>Hi!<message_end>
    <end>
    <eos>
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Order
    """
