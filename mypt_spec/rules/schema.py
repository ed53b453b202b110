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
    A role that other formats use for something that this one has, such as `tool_result` for `toolresult`. The fix is safe.

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
