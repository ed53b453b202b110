"""Finds every text of a conversation in what the chat template of a model makes of it.

A conversation is rendered twice: as it is, and with a word of its own in place of each text. What
is between the words are the literals of the template. If the literals, with each text put back as
it is or through one of a few filters, give the first rendering, the place of each text is known,
and so is what the model writes: from the end of its prompt to the stop token after its answer.
Where a template looks into a text, that text stays in the second rendering too, and is looked for
between the others.

Literals depend on the form of a conversation alone: the second rendering is made once for all
conversations of one form. Ids, integers and tools differ in all of them, so they have words, too,
unless the template looks into them. Of many answers, the prompts in the middle are not rendered if
those at both ends have the same part of the same literal. Nothing else is learned of a template.

>>> def render(messages, tools, prompt=False):
...     text = "".join(f"<{m['role']}>{m['content'].strip()}</s>" for m in messages)
...     return text + "<assistant>" * prompt, []
>>> chat = [{"role": "user", "content": " Hi! "}, {"role": "assistant", "content": "Hello."}]
>>> aligned = Aligner(render, frozenset({"</s>"}), frozenset()).align(chat)
>>> [aligned.text[piece.start : piece.end] for piece in aligned.pieces]
['Hi!', 'Hello.']
>>> [aligned.text[span.start : span.end] for span in aligned.trained]
['Hello.</s>']
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from mypt_records.written import THOUGHT_TAGS
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.memo import Memo
from mypt_spec.patch import in_common
from mypt_spec.templates.sandbox import tojson

# Words for texts, which some templates write in capitals, and integers for integers.
_WORD = re.compile("(?:Qx|7310000)([0-9]{6})[z7]", re.IGNORECASE)
_MAX_MISSES = 8  # conversations in a row in whose ids, integers or tools a template looks
_MAX_LEAVES = 100_000  # numbers of words are consecutive
_MAX_FORMS = 4096
_ABSENT = re.compile(r"None|null|undefined|\[object")
_MAX_PROMPTS = 32  # prompts that are rendered at both ends of a conversation
_MAX_UNCHANGED = 8  # texts of one conversation that a template looks into
THOUGHT, NAME = "thought", "name"
_ID, _NUMBER, _OBJECT = _NO_TEXTS = "id", "number", "object"  # they differ between records, too
_ARGUMENTS = 5  # the length of the path of all arguments of a call
_THOUGHT = re.compile("|".join(map(re.escape, THOUGHT_TAGS)))  # in an answer
Path = tuple[str | int, ...]
Spans = list[tuple[int, int]]


class Leaf(NamedTuple):
    """A text of a conversation: its path in the messages, its kind in findings, its message.

    `cut_at` is the number of characters that the template writes of it, if it drops the others.
    """

    text: str
    path: Path
    kind: str
    message: int
    cut_at: int = 0


CHANCE = Leaf("", (), "", -1)  # no text: two renderings of one conversation differ


class Piece(NamedTuple):
    """The span (code points) of a text in a rendering, with the message and kind of the text."""

    start: int
    end: int
    message: int
    kind: str


class Trained(NamedTuple):
    """A span (code points) that the model writes; `stopped` if a stop token ends it."""

    start: int
    end: int
    message: int
    stopped: bool


class Aligned(NamedTuple):
    """A rendering in which every text has its place.

    `missing` are the texts that are nowhere in it, `other_prompts` the messages of the model whose
    prompt is not the beginning of the rendering, `absent` what `_Form` says.
    """

    text: str
    pieces: tuple[Piece, ...]
    trained: tuple[Trained, ...]
    missing: tuple[Leaf, ...]
    other_prompts: tuple[int, ...]
    absent: tuple[tuple[int, str, str], ...] = ()

    def __reduce__(self) -> Any:  # renderings are sent from process to process: a few lists do
        lists = [*chain(*self.pieces)], [*chain(*self.trained)]
        return _joined, (self.text, *lists, self.missing, self.other_prompts, self.absent)


def _joined(text: str, pieces: list[Any], trained: list[Any], *rest: Any) -> Aligned:
    fields = [pieces[i::4] for i in range(4)], [trained[i::4] for i in range(4)]
    return Aligned(text, tuple(map(Piece, *fields[0])), tuple(map(Trained, *fields[1])), *rest)


class AlignError(ValueError):
    """A text has no place, because the template looks into it or rewrites it."""

    def __init__(self, leaf: Leaf | None) -> None:
        super().__init__("the rendering is not made of the texts")
        self.leaf = leaf


@dataclass(slots=True)
class _Form:
    """What conversations of one form share: literals, and the numbers of the texts between them.

    `prompts` are the ends of the prompts: a message of the model, a literal, and the code points of
    it that belong to the prompt. `absent` are messages with a key that they lack, and the word that
    the template writes in its place. `filters` fitted the last conversation, and are tried first.
    """

    literals: list[str]
    order: list[int]
    prompts: list[tuple[int, int, int]]
    other_prompts: tuple[int, ...]
    absent: tuple[tuple[int, str, str], ...]
    filters: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.filters = [0] * len(self.order)


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


# How templates write texts, the most frequent first.
FILTERS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    str.strip,
    str.rstrip,
    str.lstrip,
    lambda text: text.strip("\n"),
    lambda text: text.rstrip("\n"),
    lambda text: text.lstrip("\n"),
    _json,
    _ascii,
    lambda text: repr(text)[1:-1],
    lambda text: _json(_json(text)),
    lambda text: _ascii(_ascii(text)),
    lambda text: _json(text.strip()),
    lambda text: text.replace("\r\n", "\n"),
    lambda text: text.replace("\r\n", "\n").replace("\n\n", "\n"),
)


def _leaves(messages: Iterable[dict[str, Any]]) -> Iterator[Leaf]:
    """Yields texts, and what differs from record to record: ids, integers, arguments as JSON."""
    for index, message in enumerate(messages):
        yield from [leaf for leaf in _of_message(message, index) if leaf.text.strip()]


def _of_message(message: dict[str, Any], index: int) -> Iterator[Leaf]:
    for key in THOUGHTS:
        if isinstance(value := message.get(key), str):
            yield Leaf(value, (index, key), THOUGHT, index)
    content = message.get("content")
    if isinstance(content, str):
        yield Leaf(content, (index, "content"), message["role"], index)
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield Leaf(part["text"], (index, "content", number, "text"), message["role"], index)
    if isinstance(answers := message.get("tool_call_id"), str):
        yield Leaf(answers, (index, "tool_call_id"), _ID, index)
    for number, call in enumerate(message.get("tool_calls") or ()):
        path: Path = (index, "tool_calls", number)
        if isinstance(call.get("id"), str):
            yield Leaf(call["id"], (*path, "id"), _ID, index)
        yield Leaf(call["function"]["name"], (*path, "function", "name"), NAME, index)
        path, arguments = (*path, "function", "arguments"), call["function"].get("arguments")
        if isinstance(arguments, dict):
            yield Leaf(tojson(arguments), path, _OBJECT, index)
        yield from _in_arguments(arguments, path, index)


def _in_arguments(value: Any, path: Path, index: int) -> Iterator[Leaf]:
    if isinstance(value, str):
        yield Leaf(value, path, "argument", index)
    elif value.__class__ is int:
        yield Leaf(str(value), path, _NUMBER, index)
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _in_arguments(item, (*path, key), index)


class _Number(int):
    """A word for an integer or an object: a template may write it as JSON, but not look into it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"the template looks for {name!r} in a word")


def _replaced(messages: list[Any], words: Mapping[Path, Any]) -> list[Any]:
    """Returns messages with words in place of what is at their paths; they share all else."""
    out, copies = [*messages], dict[Path, Any]()
    for path, word in words.items():
        here: Any = out
        for depth, key in enumerate(path[:-1], 1):
            if (inner := copies.get(path[:depth])) is None:
                inner = here[key] = copies[path[:depth]] = here[key].copy()
            here = inner
        here[path[-1]] = word
    return out


class Aligner:
    """Places the texts of conversations in what one template makes of them.

    `render(messages, tools, prompt=False)` returns a text and its spans in `{% generation %}`, or
    raises. `stops` are the spellings of the tokens at which generation ends, `special` those of all
    special tokens.
    """

    def __init__(
        self, render: Callable[..., tuple[str, Spans]], stops: frozenset[str],
        special: frozenset[str],
    ) -> None:  # fmt: skip
        self.render = render
        self._stop, self._special = spelled(stops), spelled(stops | special)
        self._forms: Memo[Any, _Form] = Memo(_MAX_FORMS)
        self._misses = [0, 0]  # of each attempt
        self._tools_leaves: tuple[Any, list[Leaf]] = None, []  # the last tools, and theirs

    @staticmethod
    def without_texts(messages: list[dict[str, Any]]) -> Any:
        """Returns messages with "" for each text: what else they say has no place of its own."""
        texts = (leaf for leaf in _leaves(messages) if leaf.kind not in _NO_TEXTS)
        return _replaced(messages, {leaf.path: "" for leaf in texts})

    def align(self, messages: list[Any], tools: Any = None, key: Any = None) -> Aligned:
        """Returns the rendering of a conversation with the place of each text.

        Conversations with one `key` differ in texts, arguments, ids and tools alone. Raises
        AlignError, and what the template raises.
        """
        text, marked = self.render(messages, tools)
        every = [*_leaves(messages)]
        try:
            return self._aligned(messages, tools, every, text, marked, key=key)
        except AlignError as error:
            if any(message in messages[:i] for i, message in enumerate(messages)):
                with suppress(AlignError):
                    return self._aligned(messages, tools, every, text, marked, shared=True)
            with suppress(Exception):
                if self.render(messages, tools)[0] != text:
                    error.leaf = CHANCE
                elif error.leaf is not None:
                    error.leaf = self._with_cut(error.leaf, messages, tools, text)
            raise

    def _aligned(
        self, messages: list[Any], tools: Any, every: list[Leaf], text: str, marked: Spans,
        *, shared: bool = False, key: Any = None,
    ) -> Aligned:  # fmt: skip
        """Returns the places of all texts. Raises AlignError.

        If `shared`, equal messages have equal words, because some templates compare messages.
        """
        unchanged, base = set[int](), _unused(text)  # texts that stay in the second rendering
        spans: Spans | None = None
        attempts = () if shared else self._attempts(every, tools)
        every = leaves = [leaf for leaf in every if leaf.kind not in _NO_TEXTS]
        for number, attempt in enumerate(attempts):
            if attempt == leaves or self._misses[number] >= _MAX_MISSES:
                continue
            with suppress(Exception):  # with fewer words, the template may go on
                whole = None if number or base else key  # values in arguments differ in number
                form = self._form(messages, tools, attempt, unchanged, base, key=whole)
                spans, _ = _fit(form, attempt, text)
                without_place = {*range(len(attempt))}.difference(form.order)
                if any(attempt[i].kind == _OBJECT for i in without_place):
                    spans = None  # of arguments, each is missing
            self._misses[number] = self._misses[number] + 1 if spans is None else 0
            if spans is not None:
                every = attempt
                break
        while spans is None:
            whole = key if attempts and leaves == attempts[0] and not (base or unchanged) else None
            form = self._form(messages, tools, leaves, unchanged, base, shared=shared, key=whole)
            spans, suspects = _fit(form, leaves, text)
            if spans is not None:
                break
            new = [i for i in suspects if i not in unchanged]
            if not new or len(unchanged) == _MAX_UNCHANGED:
                raise AlignError(leaves[suspects[0]] if suspects else None)
            unchanged.add(new[0])
        texts = {i: leaf for i, leaf in enumerate(every) if leaf.kind not in (_ID, _NUMBER)}
        placed = [(texts[i], span) for i, span in zip(form.order, spans, strict=True) if i in texts]
        pieces = [Piece(*span, leaf.message, leaf.kind) for leaf, span in placed]
        missing: tuple[Leaf, ...] = ()
        if not texts.keys() <= {*form.order}:
            written = {(leaf.text, leaf.kind, leaf.message) for leaf, _ in placed}
            dropped: list[Leaf] = []  # thoughts in answers
            for i in sorted(unchanged):
                parts, unwritten = _between(leaves[i], pieces, text)
                dropped += unwritten
                if not parts:  # is it written at all?
                    worded = _THOUGHT.sub(lambda tag: f"Qx999999z{tag[0]}", leaves[i].text)
                    worded = f"Qx999999z{worded}Qx999999z" if worded == leaves[i].text else worded
                    longer = _replaced(messages, {leaves[i].path: worded})
                    if self.render(longer, tools)[0] != text:
                        raise AlignError(leaves[i])
                else:
                    written.add((leaves[i].text, leaves[i].kind, leaves[i].message))
                pieces += parts
            pieces.sort(key=lambda piece: piece.start)
            by_key = {(leaf.text, leaf.kind, leaf.message): leaf for leaf in texts.values()}
            missing = (*(leaf for key, leaf in by_key.items() if key not in written), *dropped)
            others = [texts[i] for i in texts.keys() - {*form.order} - unchanged if not shared]
            missing += tuple(x for x in others if x.kind == NAME and x not in missing)
        starts = [0, *(end for _, end in spans)]
        prompts = form.prompts if not marked else ()
        ends_of_prompts = [(index, starts[n] + size) for index, n, size in prompts]
        names = Counter(leaf.message for leaf in texts.values() if leaf.kind == NAME)
        begins = [
            (index, _after_earlier(pieces, index, start) if index in form.other_prompts else start)
            for index, start in ends_of_prompts
        ]
        trained = self._trained(text, pieces, begins, marked, names)
        return Aligned(text, tuple(pieces), trained, missing, form.other_prompts, form.absent)

    def _attempts(self, every: list[Leaf], tools: Any) -> tuple[list[Leaf], list[Leaf]]:
        """Returns what may have words: arguments and tools as a whole, or values in arguments."""
        if tools is not self._tools_leaves[0]:
            texts = enumerate(map(tojson, tools or ()))
            self._tools_leaves = tools, [Leaf(text, (-1, i), _NUMBER, -1) for i, text in texts]
        whole = [leaf for leaf in every if len(leaf.path) <= _ARGUMENTS]
        return [*whole, *self._tools_leaves[1]], [leaf for leaf in every if leaf.kind != _OBJECT]

    def _with_cut(self, leaf: Leaf, messages: list[Any], tools: Any, text: str) -> Leaf:
        """Returns a text with the place at which the template cuts it off, if it does."""
        n = len(leaf.text)
        size = bisect_left(range(n), True, key=lambda i: leaf.text[: i + 1] not in text)
        other = leaf.text[:size] + "x" * (n - size)
        is_cut = size > 0 and self.render(_replaced(messages, {leaf.path: other}), tools)[0] == text
        return leaf._replace(cut_at=size) if is_cut else leaf

    def _absent(self, worded: list[Any], tools: Any, text: str) -> Iterator[tuple[int, str, str]]:
        """Yields messages with a key that they lack, and the word that is written in its place."""
        words = Counter(_ABSENT.findall(text))
        for index, message in enumerate(worded if words else ()):
            for key in ("content", "name", "tool_call_id")[: 3 if message["role"] == "tool" else 1]:
                if message.get(key) is None:
                    filled = [*worded[:index], message | {key: ""}, *worded[index + 1 :]]
                    with suppress(Exception):  # where it fails, nothing is known
                        filled_text, _ = self.render(filled, tools)
                        for word in words - Counter(_ABSENT.findall(filled_text)):
                            yield index, key, word

    def _form(
        self, messages: list[Any], tools: Any, leaves: list[Leaf], unchanged: set[int],
        base: int, *, shared: bool = False, key: Any = None,
    ) -> _Form:  # fmt: skip
        if key:
            ids = dict[str, int]()  # equal ones have one number
            same = [ids.setdefault(x.text, i) for i, x in enumerate(leaves) if x.kind == _ID]
            key = key, len(tools or ()), len(leaves), *same
            if key in self._forms.entries:
                return self._forms.entries[key]
        firsts: dict[tuple[Any, ...], int] = {}
        equal: dict[int, list[int]] = {}  # the number of a word, and of the texts that it replaces
        words: dict[Path, str | int] = {}
        for i, leaf in enumerate(leaves):
            if i not in unchanged:
                message = messages.index(messages[leaf.message]) if shared else leaf.message
                is_id = leaf.kind == _ID  # of a call, and in its result
                key_of = (_ID, leaf.text) if is_id else (message, *leaf.path[1:])
                first = firsts.setdefault(key_of, i)
                if first == i or not is_id:
                    equal.setdefault(first, []).append(i)
                number = f"{base + first:06d}"
                is_number = leaf.kind in (_NUMBER, _OBJECT)
                words[leaf.path] = _Number(f"7310000{number}7") if is_number else f"Qx{number}z"
        if tools:
            tools = [words.pop((-1, i), tool) for i, tool in enumerate(tools)]
        worded = _replaced(messages, words)
        key = key or json.dumps([worded, tools])
        form = self._forms.entries.get(key)
        return form or self._forms.keep(key, self._new_form(worded, tools, equal, base, leaves))

    def _new_form(
        self, worded: list[Any], tools: Any, equal: dict[int, list[int]], base: int,
        leaves: list[Leaf],
    ) -> _Form:  # fmt: skip
        text, _ = self.render(worded, tools)
        words = [word for word in _WORD.finditer(text) if int(word[1]) - base in equal]
        ends_by_word: dict[str, list[int]] = {}
        first = dict[int, int]()  # the literal before the first text of each message
        for n, word in enumerate(words):
            ends_by_word.setdefault(word[0], []).append(word.end())
            first.setdefault(leaves[int(word[1]) - base].message, n)
        starts, prompts, others = [0, *(word.end() for word in words)], [], []
        ends = [*(word.start() for word in words), len(text)]
        literals = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        answers = [i for i, message in enumerate(worded) if message["role"] == "assistant"]
        inner = {*answers[_MAX_PROMPTS:-_MAX_PROMPTS]}
        sizes: dict[str, set[int]] = {}  # of what prompts have of a literal; -1 where none is alike
        for index in sorted(answers, key=inner.__contains__):
            number = first.get(index, -1)
            alike = sizes.setdefault(literals[number], set())
            if index in inner and len(alike) == 1 and -1 not in alike:
                prompts.append((index, number, min(alike)))
                continue
            before = worded[:index] or [m for m in worded if m["role"] == "user"][:1]
            prompt, _ = self.render(before, tools, prompt=True)
            if not index:  # nothing was asked: the header after the first question
                header = prompt.removeprefix(self.render(before, tools)[0])
                at = literals[number].rfind((self._special.match(header) or [header])[0])
                prompt = text[: starts[number] + max(at, 0)] + header
            size = in_common(prompt, text)
            if size < len(prompt):  # then after the last text that both have
                others.append(index)
                both = [word for word in _WORD.finditer(prompt) if word[0] in ends_by_word]
                for word in both[-1:]:
                    same = ends_by_word[word[0]]
                    start = same[: [w[0] for w in both].count(word[0])][-1]
                    size = start + in_common(prompt[word.end() :], text[start:])
                for tag in self._special.finditer(text):  # no part of another token
                    size = tag.start() if tag.start() < size < tag.end() else size
            expected, number = number, bisect_right(starts, size) - 1
            in_literal = min(size - starts[number], len(literals[number]))
            prompts.append((index, number, in_literal))
            alike.add(in_literal if number == expected and index not in others else -1)
        order = [int(word[1]) - base for word in words]
        for number, same in equal.items():  # of equal texts, the first one is written first
            if len(same) > 1:
                if order.count(number) != len(same):
                    raise AlignError(None)
                numbers = iter(same)
                order = [next(numbers) if n == number else n for n in order]
        absent = tuple(self._absent(worded, tools, text))
        return _Form(literals, order, sorted(prompts), tuple(sorted(others)), absent)

    def _trained(
        self, text: str, pieces: list[Piece], begins: Spans, marked: Spans, names: Mapping[int, int]
    ) -> tuple[Trained, ...]:
        """Returns what the model writes: what the template marks, else from prompt to stop.

        `names` counts the calls of messages: a result may repeat the name of its call.
        """
        if marked:
            return tuple(Trained(*s, -1, bool(self._stop.search(text, *s))) for s in marked)
        own: dict[int, list[Piece]] = {index: [] for index, _ in begins}
        for piece in pieces:
            if piece.message in own:
                own[piece.message].append(piece)
        starts, out = [piece.start for piece in pieces], []
        for n, (index, start) in enumerate(begins):
            limit = begins[n + 1][1] if n + 1 < len(begins) else len(text)
            here = [p for p in own[index] if start <= p.end <= limit]
            repeated = [p for p in here if p.kind == NAME][names[index] :]
            here = [p for p in here if p not in repeated]
            begin: int | None = start
            while begin is not None:  # again if a part of the answer is after a result
                later = pieces[bisect_left(starts, begin) :]
                results = (p.start for p in later if p.message > index or p in repeated)
                end = min(limit, next(results, limit))
                ends = (p.end for p in here if begin <= p.end and p.start < end)
                after = max(ends, default=begin)
                stop = self._stop.search(text, after, end)
                other = stop or self._special.search(text, after, end)
                until = other.end() if other else after
                if not stop and end == len(text):  # all that is written after the last answer
                    until = max(until, len(text.rstrip()))
                out.append(Trained(begin, until, index, bool(stop)))
                begin = next((p.start for p in here if p.start >= max(end, begin + 1)), None)
        return tuple(out)


def _after_earlier(pieces: list[Piece], index: int, start: int) -> int:
    """Returns where an answer begins whose prompt is not there: after all earlier texts before."""
    first = next((p.start for p in pieces if p.message == index), None)
    ends = (p.end for p in pieces if p.message < index and (first is None or p.end <= first))
    return max((start, *ends))


def spelled(tokens: frozenset[str]) -> re.Pattern[str]:
    """Returns what finds the first of some tokens, of two that begin alike the longer."""
    longest_first = sorted(filter(None, tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def _unused(text: str) -> int:
    """Returns a number from which on no word stands in a text; it is 0, but for such texts."""
    if "qx" not in text.lower() and "7310000" not in text:
        return 0
    used = {int(word[1]) // _MAX_LEAVES for word in _WORD.finditer(text)}
    return _MAX_LEAVES * min({*range(9)} - used, default=0)


def _fit(form: _Form, leaves: list[Leaf], text: str) -> tuple[Spans | None, list[int]]:
    """Returns the spans of the texts of a form, or None and the numbers of texts to suspect.

    Where the literal after a text differs, the template has most likely looked into the next one.
    """
    literals, order = form.literals, form.order
    at, spans, last = len(literals[0]), Spans(), len(order) - 1
    if not text.startswith(literals[0]) or not (order or text == literals[0]):
        return None, order[:1]
    for n, i in enumerate(order):
        literal, is_there = literals[n + 1], False
        for which in (form.filters[n], *range(len(FILTERS))):
            written = FILTERS[which](leaves[i].text)
            end = at + len(written)
            after = end + len(literal)
            if not text.startswith(written, at):
                continue
            is_there = is_there or bool(written)
            if text.startswith(literal, end) and (n < last or after == len(text)):
                form.filters[n] = which
                spans.append((at, end))
                at = after
                break
        else:
            suspects = order[n : n + 2]
            return None, suspects[::-1] if is_there else suspects
    return spans, []


def _between(leaf: Leaf, pieces: list[Piece], text: str) -> tuple[list[Piece], list[Leaf]]:
    """Returns the place of a text that the template looks into; [] if it is not found once.

    A thought that an answer holds between tags may have left it: then these are two pieces. Or it
    is nowhere: such thoughts are returned, too.
    """
    start = max((p.end for p in pieces if p.message < leaf.message), default=0)
    end = min((p.start for p in pieces if p.message > leaf.message), default=len(text))
    if start > end:  # the template does not keep the order
        start, end = 0, len(text)
    free = [(start, end)]  # what no other text takes
    for piece in sorted(pieces, key=lambda piece: piece.start):
        last = free[-1]
        if last[0] <= piece.start and piece.end <= last[1]:
            free[-1:] = [(last[0], piece.start), (piece.end, last[1])]
    span = _once(leaf.text, text, free)
    if span is not None:
        return [Piece(*span, leaf.message, leaf.kind)], []
    out, dropped = [], []
    for part in _THOUGHT.split(leaf.text) if _THOUGHT.search(leaf.text) else ():
        span = _once(part, text, free) if part.strip() else None
        if span is not None:
            out.append(Piece(*span, leaf.message, leaf.kind))
            free = [(max(a, span[1]), b) for a, b in free if b > span[1]]
        elif part.strip() and not any(each(part.strip()) in text for each in FILTERS):
            dropped.append(Leaf(part.strip(), leaf.path, THOUGHT, leaf.message))
    is_there = out and out[-1].end - out[-1].start >= len(part.strip())
    return (out, dropped) if is_there else ([], [])


def _once(part: str, text: str, free: Spans) -> tuple[int, int] | None:
    """Returns where a text stands in parts of another, if it stands there exactly once."""
    for written in filter(None, dict.fromkeys(each(part) for each in FILTERS)):
        places = [(at, end) for start, end in free if (at := text.find(written, start, end)) >= 0]
        if len(places) == 1 and text.find(written, places[0][0] + 1, places[0][1]) < 0:
            return places[0][0], places[0][0] + len(written)
    return None
