"""Encodes only the texts and values of a chat: its pieces share their other tokens with others.

Input: what the linter's pass keeps of a clean line (mypt_lint/fast/adapter_scan.py), the keys of
its pieces of turns for one, and the line. Output: a template, and the values for its slots.

Theory of operation. A piece is encoded alike wherever its key, which holds the head of the record
and what is around the piece, comes again in an equal place: first or not, before the last question
or after it, cut where an episode of the history per-turn ends, and where weights of its turn are 0,
1 or others. So a template is learnt for each piece, and those of an episode are joined. The first
record with a piece is encoded as a whole. The second one is read with a mark in place of each text,
id and name, of arguments, and of all tools (marks.py); what is encoded by itself
(`encoder.runs`) is cut where a piece begins, and where a mark comes out, a value will be. Marks of
weights tell whose weight a run has. A piece whose marks do not all come out there, or whose
template does not make the tokens of that record, never gets one.

A text may begin with what has another loss than the rest of it, such as the line ends after a
thought by the mask no-think: a token belongs to the side in which it begins, so it is counted, when
the text is encoded, how many begin there (`template`).

In dialect qwen3, the piece of a question, a call of `find` with `{"q": "x"}` and its result has the
tokens of `<|im_start|>user`, slot 0, those up to `{"name": "` with slot 1, `", "arguments": ` with
slot 2, `{"q": "x"}`, and so on. Slot 1 is at the path (1, "tool_calls", 0, "function", "name") of
messages. The head has a slot for the definitions of tools, wherever a format writes them.

Only lines that the linter's fast path proves clean come here: no text holds a tag.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import msgspec

from mypt_lint.fast.adapter_scan import LineParts
from mypt_spec.adapters.message_splitter import MessageSplitter, begins
from mypt_spec.bodies.call_tags import Tags
from mypt_spec.dialect import Dialect
from mypt_spec.encoder import EncodedAlone, Mask, runs
from mypt_spec.episode import Episode
from mypt_spec.history import beginnings, official, turn_starts
from mypt_spec.memo import Memo
from mypt_spec.table import TEXT, Terminal
from mypt_train.data.templates.histories import answers, tally
from mypt_train.data.templates.marks import MARK, SYSTEM, TEXTS, TOOLS, Marked, with_marks
from mypt_train.data.templates.pieces import (
    Path,
    PieceTemplate,
    join,
    moved,
    owners_of,
    place_of,
    renumbered,
    weights_of_turns,
)
from mypt_train.data.templates.template import (
    MARKS,
    MEMBERS,
    PLAIN,
    VALUE,
    Template,
    filled,
    template_of,
)

# Chats and pieces that are remembered, the bytes of keys that one may have, and the sum of these.
_ENTRIES, _LONGEST, _ROOM = 5000, 8000, 8 << 20
_decode = msgspec.json.Decoder().decode


class Chat(NamedTuple):
    """The templates of the episodes that chats become, and the paths of the values of all.

    `blocks` has for each path what changes the text there, if anything. `counts` is what the
    history made of each, but for tokens; empty where all is kept. `plain`: all values are contents
    as they are, in their order.
    """

    templates: list[Template]
    paths: tuple[Path, ...] = ()
    blocks: Sequence[Terminal | None] = ()
    counts: Sequence[Counter[str]] = ()
    plain: bool = False


class ChatTemplates:
    """The templates of the chats of one dialect, with the loss of one mask of episodes.

    `history` says which episodes a chat becomes, a name of `mypt_spec.history.HISTORIES`; with
    `only_last`, it becomes the last of these.
    """

    def __init__(
        self,
        dialect: Dialect,
        splitter: MessageSplitter,
        mask: str,
        *,
        history: str,
        only_last: bool,
    ) -> None:
        self.dialect, self.splitter = dialect, splitter
        self.mask, self.history = mask, history
        self.only_last = only_last
        self.turns = history != "keep" or Mask.from_name(mask).last  # what is made depends on turns
        # None: seen, and not learnt yet; False: never to be.
        self.pieces = Memo[Hashable, PieceTemplate | bool | None](_ENTRIES, room=_ROOM)
        self.chats = Memo[tuple[bytes, ...], Chat](_ENTRIES, room=_ROOM)

    def _counts(self, before: Episode) -> Counter[str]:
        counts = tally(before, self.dialect)
        if self.history == "official":
            counts["answers"] = answers(before, self.dialect, last=self.only_last)
        return counts

    def _end(self, episode: Episode) -> int:
        """Returns how many messages of its record an episode has."""
        blocks = [m for m in episode.messages if m.role not in self.dialect.table.marks]
        return 1 + max([*map(place_of, blocks), *(place_of(p) for b in blocks for p in b.parts)])

    def _by_policy(self, episode: Episode) -> Episode:
        return episode if self.history == "keep" else official(episode, self.dialect.table)

    def _episodes(self, episode: Episode) -> list[Episode]:
        """Returns the episodes that a chat becomes, before anything is left out of them."""
        if self.history != "per-turn":
            return [episode]
        parts = beginnings(episode, self.dialect.table, self.dialect.automaton)
        return parts[-1:] if self.only_last else parts

    def _cut_at_calls(self, episode: Episode) -> bool:
        """Returns whether turns of a chat become an episode for each call: these have no pieces."""
        table, automaton = self.dialect.table, self.dialect.automaton
        cut = self.dialect.trained(episode, history=self.history)
        return self.history == "per-turn" and len(cut) > len(beginnings(episode, table, automaton))

    def find(self, parts: LineParts, line: bytes) -> tuple[Chat, list[Any]] | None:
        """Returns what is known of a line that has these parts, and the values for its slots.

        None where the record must be encoded as a whole.
        """
        keys = parts.keys
        chat = self.chats.entries.get(keys)
        if chat is None:
            size = sum(map(len, keys))
            if size > _LONGEST or len(keys) < 2:
                return None
            record = _decode(line)
            chat = self._joined(keys, record)
            if chat is None:
                return None
            self.chats.keep(keys, chat, size + sum(len(t.lengths) for t in chat.templates))
        if chat.plain and len(chat.paths) == len(parts.texts):
            return chat, parts.texts
        return chat, self._values(parts.record, chat.paths, chat.blocks)

    def _blocks(self, record: dict[str, Any], paths: Iterable[Path]) -> list[Terminal | None]:
        """Returns for each path in a record what changes the text there, None if nothing does."""
        block_of, messages = self.dialect.adapter.block_of, record["messages"]
        return [block_of(messages[p[0]], str(p[1])) if p[1:] in TEXTS else None for p in paths]

    def _values(self, record: Any, paths: Iterable[Path], blocks: Iterable[Any]) -> list[Any]:
        """Returns the values at these paths in a record that the splitter decoded."""
        messages, values = record.messages, list[Any]()
        for path, block in zip(paths, blocks, strict=True):
            if len(path) == 2:
                value = getattr(messages[path[0]], cast("str", path[1]))
                values.append(value if block is None else block.written(value))
            elif path == TOOLS:
                values.append(self.splitter.tools_text(_decode(record.tools)))
            else:
                values.append(messages[0].content if path == SYSTEM else _value(messages, path))
        return values

    def _joined(self, keys: tuple[bytes, ...], record: dict[str, Any]) -> Chat | None:
        """Returns the templates of all pieces as those of episodes; None where one is not known."""
        roles = [message["role"] for message in record["messages"]]
        starts = begins(roles)
        if len(starts) + 1 != len(keys):
            return None
        episodes: list[Episode] = []
        ends = [len(roles)]
        if self.history != "keep":
            episode = self.dialect.read(record)[0]
            assert episode is not None, "the line is proved clean"
            if self._cut_at_calls(episode):
                return None
            episodes = self._episodes(episode)
            ends = [*[self._end(part) for part in episodes[:-1]], len(roles)]
        results = [self._episode(keys, record, starts, n, end) for n, end in enumerate(ends)]
        parts = [one for one in results if one is not None]
        if len(parts) < len(results):
            return None
        paths: dict[Path, int] = {}
        templates = []
        for part in parts:
            numbers = [paths.setdefault(path, len(paths)) for path in part.paths]
            templates.append(renumbered(part.template, numbers))
        counts = [self._counts(one) for one in episodes]
        blocks = self._blocks(record, paths)
        contents = sorted(path for path in paths if path[1:] == ("content",))
        plain = contents == [*paths] and not any(blocks)
        return Chat(templates, tuple(paths), blocks, counts, plain)

    def _episode(
        self,
        keys: tuple[bytes, ...],
        record: dict[str, Any],
        starts: list[int],
        which: int,
        end: int,
    ) -> PieceTemplate | None:
        """Returns the template of the episode of this number, which `end`s before a message."""
        messages = record["messages"]
        number = 1 + bisect_left(starts, end)
        cut = end - [0, *starts][number - 1] if end < len(messages) else None
        questions = [n for n, at in enumerate(starts, 1) if messages[at]["role"] == "user"]
        final = max(questions, default=0)  # some formats write tools before the last of the chat
        question = max((n for n in questions if n < number), default=0)
        # What is in a key, which is first, whether questions follow, and how much is left of it.
        weights = weights_of_turns(messages, [0, *starts], questions)
        names: list[Hashable] = [
            (key, min(n, 2), n < question, n < final, cut if n == number - 1 else None, weights[n])
            for n, key in enumerate(keys[:number])
        ]
        pieces = [self.pieces.entries.get(name, True) for name in names]
        if False in pieces:
            return None
        if True in pieces:
            for name, one, key in zip(names, pieces, keys, strict=False):
                if one is True:
                    self.pieces.keep(name, None, len(key))
            return None
        if None in pieces:
            learnt = self._learn(record, starts, which, end, [0, *starts][question])
            for n, (name, key) in enumerate(zip(names, keys, strict=False)):
                if pieces[n] is None and learnt[n] is not None:
                    one = pieces[n] = learnt[n]
                    size = len(one.template.lengths) if isinstance(one, PieceTemplate) else 0
                    self.pieces.keep(name, one, len(key) + size)
        parts = [one for one in pieces if isinstance(one, PieceTemplate)]
        return join(parts, [0, *starts]) if len(parts) == len(pieces) else None

    def _learn(
        self, record: dict[str, Any], begins: list[int], which: int, end: int, question: int
    ) -> Sequence[PieceTemplate | bool | None]:
        """Returns what is learnt of the pieces of an episode, None for those that another may tell.

        It is False for those that can have no template. The episode is that of the number `which`
        of a record whose pieces begin at `begins`; its last question is the message `question`.
        """
        number = 1 + bisect_left(begins, end)
        never: list[PieceTemplate | bool | None] = [False] * number
        table = self.dialect.table
        fronted = self.dialect.adapter.system.question != ""
        marked = with_marks(record, self.splitter.free, fronted=fronted)
        episode = self.dialect.read(marked.record)[0]
        if episode is None or marked.starts != begins:
            return never
        episode = self._episodes(episode)[which]
        turns = [place_of(episode.messages[n]) for n in turn_starts(episode.messages, table)]
        if self.turns and max(turns, default=0) != question:
            return never  # turns are other than pieces tell
        dropped_marks = _marks(episode)
        episode = self._by_policy(episode)
        dropped_marks -= _marks(episode)  # what is left out of earlier turns
        segments = self.dialect.segments(episode, mask=self.mask)
        mask = self.dialect.mask(episode, self.mask)
        last = Mask.from_name(self.mask).last
        alone = runs(segments, self.dialect.table, self.dialect.tokenizer, mask)
        starts = [0, *begins[: number - 1]]
        owners = owners_of(segments, starts[1:])
        if len({0, *owners}) < number:  # but for the head, which may have none
            return [None] * number  # a piece has no tokens: the end of its block went to another
        torn = {  # pieces whose tokens are encoded together, or with two losses
            n
            for run in alone
            for n in owners[run.first : run.last + 1]
            if run.loss < 0 or owners[run.first] != owners[run.last]
        }
        out: list[PieceTemplate | bool] = []
        # The marks of the messages from `start` on, and of tools, which any piece may hold.
        texts = [
            "".join(r.content for r in alone if owners[r.first] == n and isinstance(r.content, str))
            for n in range(number)
        ]
        for piece, (start, until) in enumerate(pairwise([*starts, end])):
            group = [run for run in alone if owners[run.first] == piece]
            inside = [s for s, owner in zip(segments, owners, strict=True) if owner == piece]
            tags = Counter(s.event.terminal for s in inside if s.event.terminal != TEXT)
            numbers = [
                n
                for n, slot in enumerate(marked.slots)
                if n not in dropped_marks
                and (
                    MARK.format(n) in texts[piece]
                    if slot.path in (TOOLS, SYSTEM)
                    else start <= cast("int", slot.path[0]) < until
                )
            ]
            template = None if piece in torn else self._piece(group, numbers, marked, start, tags)
            if template is not None and start < question and last:  # no weight acts in the context
                template = template._replace(template=template.template._replace(weighed=False))
            out.append(template or False)
        learnt = [one for one in out if isinstance(one, PieceTemplate)]
        if len(learnt) < number:
            return [None if isinstance(one, PieceTemplate) else False for one in out]
        return out if self._right(record, which, join(learnt, starts)) else never

    def _piece(
        self,
        encoded_runs: list[EncodedAlone],
        numbers: list[int],
        marked: Marked,
        start: int,
        tags: Counter[str],
    ) -> PieceTemplate | None:
        """Returns the template of a piece that has the marks of these numbers."""

        def around(run: EncodedAlone, number: int, at: int) -> tuple[int | Tags, tuple[str, str]]:
            return self._around(str(run.content), at, marked.slots[number].kind)

        template = template_of(
            encoded_runs,
            {number: i for i, number in enumerate(numbers)},
            around,
            needed=[n for n in numbers if marked.slots[n].kind not in ("word", "weight")],
            tags=tags,
            tokenizer=self.dialect.tokenizer,
        )
        if template is None:
            return None
        paths = [marked.slots[n].path for n in numbers]
        return PieceTemplate(template, tuple((moved(path, -start)) for path in paths))

    def _around(self, text: str, start: int, kind: str) -> tuple[int | Tags, tuple[str, str]]:
        """Returns how the value of a mark that begins at `start` is written, and what is around
        the mark in its place.
        """
        if kind == "tools":
            tools = [{"type": "function", "function": {"name": MARK}}]
            before, after = self.splitter.tools_text(tools).split(MARK)
            return PLAIN, (before, after)
        if kind == "result" and self.dialect.adapter.quoted:
            return VALUE, ('"', '"')
        if kind == "object" and (tags := self.dialect.table.tagged):
            before, after, end = tags.argument
            return tags, (before, f"{after}{''.join(tags.types[1:])}0{end}")
        if kind == "object":
            alone = text.startswith('{"', start - 2)
            return (VALUE, ('{"', '": 0}')) if alone else (MEMBERS, (', "', '": 0'))
        return PLAIN, ("", "")

    def _right(self, record: dict[str, Any], which: int, piece: PieceTemplate) -> bool:
        """Returns whether a template makes the tokens of an episode of a record."""
        chat, _ = self.dialect.read(record)
        if chat is None:
            return False
        episode = self._by_policy(self._episodes(chat)[which])
        expected = self.dialect.encode(episode, mask=self.mask, proved=True)
        loss = [0, *expected.loss.tolist()[1:]]
        split = self.splitter.decode(msgspec.json.encode(record))
        values = self._values(split, piece.paths, self._blocks(record, piece.paths))
        (one,) = filled([(piece.template, values)], self.dialect.tokenizer, expected.ids.dtype)
        weights = [None if w is None else w.tolist()[1:] for w in (one.weights, expected.weights)]
        same: bool = one.ids.tolist() == expected.ids.tolist() and one.mask.tolist() == loss
        return same and weights[0] == weights[1]


def _marks(episode: Episode) -> set[int]:
    """Returns the numbers of the marks in the texts of an episode."""
    texts = (part.text for message in episode.messages for part in message.parts)
    return {int(number) for text in texts for number in MARKS.findall(text)}


def _value(value: Any, path: Path) -> Any:
    for step in path:
        if step.__class__ is str:
            value = getattr(value, str(step))
        else:
            value = _decode(value) if step is None else value[step]
    return value
