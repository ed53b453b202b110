"""Family 0, file: bytes, lines and JSON, before any schema."""

from __future__ import annotations

from mypt_spec.findings import rule


@rule("MYP001", "invalid-json")
class InvalidJson:
    """A line is not JSON.

    ## What it finds
    A line that no JSON parser reads: cut off, with a comma too many, or with something behind the object.

    ## Why it matters
    A loader that skips such lines trains on less than you think; one that stops has wasted the run.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP002", "invalid-utf8")
class InvalidUtf8:
    r"""A line is not UTF-8.

    ## What it finds
    Bytes that are not UTF-8, most often text saved as Latin-1. The message gives the byte.

    ## Why it matters
    Readers that replace such bytes train the model on U+FFFD in the place of the letter, and it learns to write it.

    ## Bad
    ```bytes
    b'{"system": "S", "messages": [{"role": "user", "content": "Gr\xfc\xdfe"}, {"role": "assistant", "content": "Hello."}]}\n'
    ```

    ## Good
    ```bytes
    b'{"system": "S", "messages": [{"role": "user", "content": "Gr\xc3\xbc\xc3\x9fe"}, {"role": "assistant", "content": "Hello."}]}\n'
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP003", "broken-compression")
class BrokenCompression:
    """A compressed file ends early or is damaged.

    ## What it finds
    A `.gz` or `.zst` file that ends in the middle or does not decompress. Lines before the damage are still checked.

    ## Why it matters
    A copy that broke off looks like a smaller data set. Everything behind the damage is missing from the run.

    ## Bad
    A file `data.jsonl.gz` of which only the first half was copied.

    ## Good
    The whole file: compress it again from its source.

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP004", "duplicate-key")
class DuplicateKey:
    """A key stands twice in one JSON object.

    ## What it finds
    An object that holds the same key two times, at any depth.

    ## Why it matters
    JSON readers keep the last value and drop the other without a word, so part of the data never reaches the model.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi", "content": "Hello?"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP005", "non-finite-number")
class NonFiniteNumber:
    """A number that JSON does not have: NaN, Infinity, or one too large to read.

    ## What it finds
    `NaN`, `Infinity`, or a number beyond the largest float.

    ## Why it matters
    Python writes and reads them, other readers stop there; inside a call they teach the model to write JSON that no tool can read.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], "_score": NaN}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], "_score": null}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP006", "lone-surrogate")
class LoneSurrogate:
    r"""Half of a surrogate pair, which no UTF-8 can hold.

    ## What it finds
    A `\ud800`..`\udfff` escape without its partner: half of an emoji, cut by a length limit.

    ## Why it matters
    It has no bytes. A tokenizer raises, or puts U+FFFD in its place, and then the ids are not the text.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi \ud83d"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi \ud83d\ude00"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP007", "line-too-long")
class LineTooLong:
    """A line is longer than is read at once.

    ## What it finds
    A line of more than 8 MiB. It is counted, not read.

    ## Why it matters
    One conversation is never that long: mostly the line ends are lost, and a whole file would be trained as one record or not at all.

    ## Bad
    A file of 10 MiB without a single line end.

    ## Good
    One record a line, each line ended by LF.

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP008", "nested-too-deep")
class NestedTooDeep:
    """JSON nests deeper than is read.

    ## What it finds
    Arrays and objects inside each other, more than 200 levels deep.

    ## Why it matters
    JSON readers recurse; somewhere down the pipeline one of them stops with an error that names no line.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], "_x": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], "_x": [[[]]]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP009", "byte-order-mark")
class ByteOrderMark:
    r"""A byte order mark begins the file.

    ## What it finds
    The bytes EF BB BF at the start of the file, which some editors write.

    ## Why it matters
    Most JSON readers refuse the first line for it, so the first conversation is lost; others make it part of the text.

    ## Bad
    ```bytes
    b'\xef\xbb\xbf{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\n'
    ```

    ## Good
    ```bytes
    b'{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\n'
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP010", "carriage-return", "warning")
class CarriageReturn:
    r"""A line ends in CR LF.

    ## What it finds
    A line that ends in carriage return and line feed, as Windows writes it.

    ## Why it matters
    Tools disagree whether the CR belongs to the line. Where it does, hashes and offsets differ between machines.

    ## Bad
    ```bytes
    b'{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\r\n'
    ```

    ## Good
    ```bytes
    b'{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\n'
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP011", "blank-line", "warning")
class BlankLine:
    r"""A line is empty.

    ## What it finds
    A line with nothing on it but white space.

    ## Why it matters
    Some loaders skip it, some stop, and some count it: then the numbers of lines and of records differ.

    ## Bad
    ```bytes
    b'{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\n\n{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\n'
    ```

    ## Good
    ```bytes
    b'{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\n{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\n'
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP012", "empty-file", "warning")
class EmptyFile:
    r"""A file holds nothing.

    ## What it finds
    A file of zero bytes.

    ## Why it matters
    It is the usual trace of a job that died before it wrote. Training would run on what is left and say nothing.

    ## Bad
    ```bytes
    b''
    ```

    ## Good
    ```bytes
    b'{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\n'
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP013", "no-final-newline", "info")
class NoFinalNewline:
    r"""The last line has no line end.

    ## What it finds
    A file whose last line is not ended by LF.

    ## Why it matters
    It may have been cut off there. And appending to it glues two records together on one line.

    ## Bad
    ```bytes
    b'{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}'
    ```

    ## Good
    ```bytes
    b'{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\n'
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """


@rule("MYP014", "other-dialect")
class OtherDialect:
    """A record of another dialect stands in the file.

    ## What it finds
    With `--dialect auto`: a record that has errors in the dialect of the file, and none in another one.

    ## Why it matters
    Two formats in one file are two models in one: the tokenizer's special tokens, the mask and the prompt differ. A list of what
    is wrong with the record would send its reader looking for faults that it does not have.

    ## Bad
    ```jsonl auto=yes
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "cite": "c"}]}
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "think": "t"}]}
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "think": "t"}]}
    ```

    ## Good
    ```jsonl auto=yes
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "cite": "c"}]}
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "think": "t"}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Files
    """
