"""Family 1, schema: the shape of a record."""

from __future__ import annotations

from mypt_spec.findings import rule


@rule("MYP101", "record-not-an-object")
class RecordNotAnObject:
    """A line is JSON, but not an object.

    ## What it finds
    A line whose JSON is an array, a string, a number or null.

    ## Why it matters
    A record has keys; without them there is no conversation to train on.

    ## Bad
    ```jsonl
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP102", "missing-key")
class MissingKey:
    """A required key is missing.

    ## What it finds
    A record, or a message, without a key that it needs.

    ## Why it matters
    There is no safe guess: a message without content would become an empty block, and one without role no block at all.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP103", "unknown-key")
class UnknownKey:
    """A key that the format does not have.

    ## What it finds
    A key that is none of the format's, at the top or in a message. Keys that begin with `_` are metadata and allowed.

    ## Why it matters
    The serialiser would not write it, so the model never sees it: reasoning under `thinking` instead of `think` is lost that way.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "thinking": "Greet back."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "think": "Greet back."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP104", "wrong-type")
class WrongType:
    """A value has another JSON type than the format wants.

    ## What it finds
    A value of another JSON type: content as an array of parts, `null` content beside a call, a number as a name.

    ## Why it matters
    Converting it silently gives the model text such as `None` or `[{'type': 'text'}]`.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP105", "unknown-role")
class UnknownRole:
    """A message has a role that the format does not have.

    ## What it finds
    A message whose role the format does not have.

    ## Why it matters
    The serialiser has no block for it, so the message would be lost, or worse, be trained under another role.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "narrator", "content": "A pause."}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP107", "no-messages")
class NoMessages:
    """A conversation has no messages.

    ## What it finds
    A record whose list of messages is empty.

    ## Why it matters
    It trains nothing and still counts as a record.

    ## Bad
    ```jsonl
    {"system": "S", "messages": []}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP108", "role-system-in-messages")
class RoleSystemInMessages:
    """The system prompt stands among the messages.

    ## What it finds
    A message with role "system". The prompt is the top-level key `system`; as the first message it has a safe fix.

    ## Why it matters
    A preparer that looks only at the top-level key drops it without a word, and the model is trained without its instructions.

    ## Bad
    ```jsonl
    {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP109", "role-alias")
class RoleAlias:
    """A role goes by a name that other formats use.

    ## What it finds
    A role that other formats use for something that this one has, such as `tool_result` for `toolresult`, `human` for `user`, or
    `gpt`, `model` and `bot` for `assistant`. The fix is safe.

    ## Why it matters
    Not every reader knows the other name; the one that does not drops the message, and the answer behind it has no ground.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "tool_result", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "toolresult", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP110", "object-as-string")
class ObjectAsString:
    r"""An object is written as a JSON string.

    ## What it finds
    `arguments` as a string that holds JSON, as OpenAI's records have it. The fix is safe.

    ## Why it matters
    Written as it is, the call would hold a quoted string with backslashes, and the model would learn to write that.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": "{\"q\": \"x\"}"}, {"role": "toolresult", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "toolresult", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP111", "language-tag", "warning")
class LanguageTag:
    """The language is no BCP 47 tag.

    ## What it finds
    A `language` that is no BCP 47 tag.

    ## Why it matters
    Filters and counts by language pass it over: `German`, `de_DE` and `de` become three languages.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], "language": "German"}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], "language": "de"}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """


@rule("MYP120", "mixed-styles", "warning")
class MixedStyles:
    """Assistant messages stand in `messages`, and the last answer stands at the top level.

    ## What it finds
    The record has assistant messages among its messages, and a top-level answer besides.

    ## Why it matters
    Both are read, the top-level answer as the last message; but one place for answers is what tools and people look at.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "Hello"}], "assistant": "Hi!"}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Records
    """


@rule("MYP121", "reasoning-given-twice", "warning")
class ReasoningGivenTwice:
    """Reasoning is given in `contents` and beside it.

    ## What it finds
    `contents` has a reasoning item and there is a `reasoning` key too; the item is read, the key is not.

    ## Why it matters
    The text of the key never reaches the model.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "reasoning": "One.", "contents": [{"type": "reasoning", "reasoning": "Two."}, {"type": "text", "text": "Hi!"}]}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "contents": [{"type": "reasoning", "reasoning": "Two."}, {"type": "text", "text": "Hi!"}]}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Records
    """


@rule("MYP123", "two-final-answers")
class TwoFinalAnswers:
    """A preference record also has a top-level answer.

    ## What it finds
    `chosen` and a top-level answer are both there.

    ## Why it matters
    The conversation can end with one answer only.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}], "assistant": "Hi!", "chosen": {"role": "assistant", "content": "Hi!"}, "rejected": {"role": "assistant", "content": "No."}}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}], "chosen": {"role": "assistant", "content": "Hi!"}, "rejected": {"role": "assistant", "content": "No."}}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Training shapes
    """


@rule("MYP124", "tools-and-functions")
class ToolsAndFunctions:
    """Tools are defined under two keys.

    ## What it finds
    `tools` and `functions` are both there.

    ## Why it matters
    They mean the same, and nothing says which holds.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}], "tools": [{"type": "function", "function": {"name": "search"}}], "functions": [{"name": "search"}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}], "tools": [{"type": "function", "function": {"name": "search"}}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Functions
    """


@rule("MYP125", "empty-list", "warning")
class EmptyList:
    """A list is empty.

    ## What it finds
    `tools`, `functions` or `tool_calls` is `[]`; it is read as if the key were not there.

    ## Why it matters
    An empty list says nothing in the text, and often something was lost on the way.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}], "tools": []}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Records
    """


@rule("MYP126", "duplicate-tool")
class DuplicateTool:
    """Two tools have the same name.

    ## What it finds
    A name is defined twice.

    ## Why it matters
    A call of that name could mean either.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}], "tools": [{"type": "function", "function": {"name": "search"}}, {"type": "function", "function": {"name": "search"}}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}], "tools": [{"type": "function", "function": {"name": "search"}}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Functions
    """


@rule("MYP127", "unknown-value")
class UnknownValue:
    """A value is none of those that the format has.

    ## What it finds
    A key whose values are listed in the format has another one: an effort level, the type of an item, a role where only
    one can stand, a budget below zero, an empty name.

    ## Why it matters
    Nothing would read it as it was meant.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}], "reasoning_effort": "maximum"}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}], "reasoning_effort": "max"}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Flags
    """


@rule("MYP128", "unusable-schema")
class UnusableSchema:
    """A schema is no JSON Schema, or cannot be used.

    ## What it finds
    `response_schema`, or the one in `response_format`, is malformed, or refers to what is not in it.

    ## Why it matters
    No answer can be checked against it.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "{}"}], "response_schema": {"type": "dict"}}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "{}"}], "response_schema": {"type": "object"}}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Flags
    """


@rule("MYP129", "rejected-equals-chosen", "warning")
class RejectedEqualsChosen:
    """The rejected answer is the chosen one.

    ## What it finds
    `chosen` and `rejected` say the same.

    ## Why it matters
    There is no preference to learn.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}], "chosen": {"role": "assistant", "content": "Hi!"}, "rejected": {"role": "assistant", "content": "Hi!"}}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}], "chosen": {"role": "assistant", "content": "Hi!"}, "rejected": {"role": "assistant", "content": "No."}}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Training shapes
    """


@rule("MYP130", "missing-reflection-flag", "warning")
class MissingReflectionFlag:
    """The record does not say that self-reflection is on.

    ## What it finds
    An answer reflects on itself and `self_reflection_enabled` is not there.

    ## Why it matters
    The flag is off unless it is set, so the record contradicts itself.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!", "self_reflection": "Short."}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!", "self_reflection": "Short."}], "self_reflection_enabled": true}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Flags
    """
