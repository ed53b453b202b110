"""Builds the graph of all that a model may write in a dialect.

Input: a dialect, tools and forbidden blocks. Output: a graph, and its node for each state of the
grammar in which the model may write. The graph is the grammar's automaton without what only the
system writes, with each tag spelled in bytes and ids, and with the bodies of calls. Section
"Generation" of each `grammar/*/SPEC.md` says what a model may write.

Theory of operation. The automaton reads terminals; a model writes tokens. So each grammar state
becomes a node, and each tag that the model may write in it becomes a path to the node of the state
after the tag. Where text may be written, the node has the leaf of texts, whose exits are the tags;
where not, the tags are alternatives, spelled symbol by symbol. A call's body is a graph of its own
kind (`call_graph`, or a hole that another engine fills) between the opening and the closing tag.
Generation may end in states where the turn is over or where a result has to come; in a block with
"stops", after the first id of the tag that ends it.

In dialect gabgpt the model may write in four states. Node 0, after a user block, reads <|think|>
(50258) or <|assistant|> (50259). Node 1, in the assistant block, is text until <|end|> (50260); the
edge "first" is for an empty text. Node 2, in the thought, is text until <|assistant|>. Node 3,
after <|end|>, is final:

>>> import mypt_spec
>>> dfa = GrammarGraph(mypt_spec.dialect("gabgpt"), ()).build().dfa
>>> [sorted(node.edges) for node in dfa.nodes[:2]]
[[('id', 50258), ('id', 50259)], [('first', 50260), ('id', 50260)]]
>>> [(node.leaf.name if node.leaf else None, node.final) for node in dfa.nodes]
[(None, False), ('text', False), ('text', False), (None, True)]
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mypt_infer.decode.base.listed_ids import DIGITS
from mypt_infer.decode.base.tools import ToolSpec
from mypt_infer.decode.base.vocab import cached_by
from mypt_infer.decode.compile.byte_dfa import ByteDfa, Symbol, text_dfa
from mypt_infer.decode.compile.call_graph import Bodies, Holes, Part
from mypt_infer.decode.compile.nfa import (
    CALLING,
    HOLE,
    NO_BLOCK,
    RESPONSE,
    THINKING,
    Dfa,
    Node,
    chain,
    determinize,
    spelled,
)
from mypt_spec.bodies.json_body import ID, counting
from mypt_spec.damage.cut_tags import inner_tags, pieces
from mypt_spec.damage.near_miss import near_miss
from mypt_spec.dialect import Dialect
from mypt_spec.states import awaits_result, empty_kinds, model_writes, open_blocks, stop_tags
from mypt_spec.table import CALLS, LISTS, TEXT, Piece, Terminal

_CALLED = (*CALLS, *LISTS)


class _Head(NamedTuple):
    """The beginning of a tag's spelling, and the rest.

    `lead` is white space that comes with the tag. Then follows one id, `token`, or, if it is -1,
    `text`. `tail` is the rest: pieces ("text", ...), ("attr", name) and ("special", tag).
    """

    lead: str
    token: int
    text: str
    tail: tuple[tuple[str, str], ...]

    def symbol(self, *, first: bool) -> Symbol:
        """Returns how a leaf of texts is left by the tag; `first`: it follows an empty text."""
        kind = "id" if self.token >= 0 else "tag"
        if self.lead or first:
            kind = " ".join(["first"] * first + ["led"] * bool(self.lead))
        return kind, self.token if self.token >= 0 else self.text


@dataclass(frozen=True, eq=False)
class GrammarDfa:
    """The graph of a dialect and some tools.

    `starts` maps each grammar state in which the model may write to the index of its node. States
    inside a call have none: what may follow there depends on the tool. `text` is the leaf of texts.
    `answers` are the grammar states in which a hole is for the text of the answer.
    """

    dfa: Dfa
    starts: dict[int, int]
    text: ByteDfa
    answers: frozenset[int] = frozenset()


class GrammarGraph:
    """Builds the graph of a dialect with some tools.

    `forbidden_blocks` are kinds of block that the model may not open, or only without text if the
    format writes them `empty`. With `holes`, the bodies of calls are holes that another engine
    fills; `parts`: see `Bodies`. With `response`, the text of the answer is a hole (RESPONSE): each
    state of the grammar has a node before the answer's text and one after it (`answered`). Before,
    no turn may end but with a call; after, no more text of the answer may be written. With
    `require_call`, a call is in its place: before it, no answer has text, and no turn may end.
    """

    def __init__(
        self,
        dialect: Dialect,
        tools: Sequence[ToolSpec],
        forbidden_blocks: frozenset[str] = frozenset(),
        *,
        holes: bool = False,
        response: bool = False,
        require_call: bool = False,
        parts: list[tuple[Bodies, Part]] | None = None,
    ) -> None:
        self.dialect, self.tools = dialect, tools
        self.empty = forbidden_blocks & empty_kinds(dialect.table)
        self.forbidden_blocks = forbidden_blocks - self.empty
        self.holes, self.response, self.parts = holes, response, parts
        self.require_call = require_call
        self.table, self.machine = dialect.table, dialect.automaton
        self.stacks = open_blocks(self.machine, self.table)
        self.writable = model_writes(self.machine, self.table)
        self.stops = stop_tags(self.machine, self.table)
        self.pieces = pieces(inner_tags(self.table, self.machine))
        self.heads = {n: self._head(t) for n, t in self.table.terminals.items() if t.spelling}
        self.forbidden = forbidden_texts(dialect)
        self.text = self._text_leaf()
        self.nodes: dict[tuple[int, bool, bool], Node] = {}
        self.after: dict[tuple[int, str, int, bool], Node] = {}
        # The states directly after a tag of the model.
        self.reached = {
            self.machine.steps[g][n] for g in self.machine.states for n in self._speakable(g)
        }

    def build(self) -> GrammarDfa:
        """Returns the graph. Raises ValueError if no turn can end without the forbidden blocks."""
        outside = [g for g in self.machine.states if self._block(g) != CALLING]
        states = [
            g for g in outside if self._tags(g) or self._writes_text(g) or self._hands_over(g)
        ]
        if any(self._speakable(g) and g not in states for g in outside):
            blocks = " and ".join(sorted(self.forbidden_blocks))
            raise ValueError(f"no turn can be ended without {blocks}, which is forbidden")
        dfa = determinize([self._node(g) for g in states])
        answers = frozenset(g for g in states if self.response and self._answers(g))
        return GrammarDfa(dfa, dict(zip(states, dfa.starts, strict=True)), self.text, answers)

    def follow(self) -> list[_Head]:
        """Returns the heads of the tags that may follow the text of an answer."""
        ends = {self.machine.steps[g][TEXT] for g in self.machine.states if self._answers(g)}
        names = {name for g in ends for name in self._tags(g)}
        return [self.heads[name] for name in sorted(names)]

    # What the grammar lets the model write.

    def _tags(self, state: int) -> list[str]:
        """Returns the tags that the model may write in a state; none opens a forbidden block."""
        terminals, forbidden = self.table.terminals, self.forbidden_blocks
        tags = [n for n in self._speakable(state) if terminals[n].opens not in forbidden]
        return [*tags, *self.stops[state]]

    def _speakable(self, state: int) -> list[str]:
        return [
            n
            for n in self.machine.steps[state]
            if n != TEXT
            and n in self.writable[state]
            and (self.tools or self.table.terminals[n].body not in _CALLED)
        ]

    def _writes_text(self, state: int) -> bool:
        return TEXT in self.writable[state] and self.empty.isdisjoint(self.stacks[state][-1:])

    def _hands_over(self, state: int) -> bool:
        """Returns whether generation may end in a state.

        It may directly after a tag of the model, if nothing is left to write, or a result may
        follow.
        """
        if state not in self.reached or self.stops[state]:
            return False
        goes_on = self._speakable(state) or self._writes_text(state)
        return awaits_result(state, self.machine, self.table) or not goes_on

    def _answers(self, state: int) -> bool:
        """Returns whether text in a state is that of the answer: no thought, and no citation."""
        stack = self.stacks[state]
        if not self._writes_text(state) or not stack or self._block(state) != NO_BLOCK:
            return False
        return not self.table.openers[stack[-1]].role

    def _is_mute(self, state: int) -> bool:
        """Returns whether a block that has just opened can hold nothing but text of the answer."""
        opens = (self.table.terminals[name].opens for name in self._speakable(state))
        return self._answers(state) and not any(opens)

    def _may_end(self, state: int, *, answered: bool) -> bool:
        """Returns whether what has to come has come, with the answer `answered` or not."""
        if answered or not self.response:
            return answered or not self.require_call
        return awaits_result(state, self.machine, self.table)

    def _block(self, state: int) -> int:
        kind = self.stacks[state][-1] if self.stacks[state] else ""
        if kind and self.table.openers[kind].body in _CALLED:
            return CALLING
        return THINKING if kind in self.table.kinds("thought") else NO_BLOCK

    # Nodes.

    def _node(self, state: int, *, text: bool = True, answered: bool = False) -> Node:
        """Returns the node of a grammar state; without `text`, only tags may follow it."""
        key = (state, text, answered)
        if key not in self.nodes:
            final = self._may_end(state, answered=answered) and self._hands_over(state)
            node = self.nodes[key] = Node(block=self._block(state), final=final)
            pending = self.require_call and not answered
            bound = (self.response or pending) and self._answers(state)
            if text and self._writes_text(state) and not bound:
                self._with_text(node, state, answered=answered)
            else:
                if text and bound and not answered and self.response:
                    after = self._node(self.machine.steps[state][TEXT], text=False, answered=True)
                    node.edges[HOLE, RESPONSE] = (after, 0)
                for name in self._tags(state):
                    if pending and self._is_mute(self.machine.steps[state].get(name, state)):
                        continue
                    head = self.heads[name]
                    symbols = spelled(head.lead + head.text)
                    if head.token >= 0:
                        symbols.append(("id", head.token))
                    then = self._after_head(state, name, answered=answered)
                    node.also.append(chain(symbols, then, block=node.block))
        return self.nodes[key]

    def _with_text(self, node: Node, state: int, *, answered: bool) -> None:
        """Gives a node the leaf of texts, and the edges for the tags that may follow.

        A tag directly at the beginning follows the state itself, a tag after a text the state after
        TEXT.
        """
        following = self.machine.steps[state][TEXT]
        node.leaf = self.text
        for before, at in ((True, state), (False, following)):
            for name in self._tags(at):
                then = self._after_head(at, name, answered=answered)
                symbol = self.heads[name].symbol(first=before)
                if symbol in node.edges:  # of a tag that begins alike
                    then = Node(also=[node.edges[symbol][0], then], block=then.block)
                node.edges[symbol] = then, 0

    def _after_head(self, state: int, name: str, *, answered: bool) -> Node:
        """Returns the node after the head of a tag: the tag's tail, then what follows the tag."""
        terminal, head = self.table.terminals[name], self.heads[name]
        then = self.machine.steps[state][name]
        block = NO_BLOCK if terminal.again else self._block(state)  # a call after a call is another
        key = (then, name, block, answered)
        if name in self.stops[state]:
            ends = self._may_end(state, answered=answered)
            return self.nodes.setdefault((-1, ends, False), Node(final=ends))
        if key not in self.after:
            self.after[key] = self._block_node(then, terminal, head, block, answered=answered)
        return self.after[key]

    def _block_node(
        self, then: int, terminal: Terminal, head: _Head, block: int, *, answered: bool
    ) -> Node:
        if terminal.body not in _CALLED or not terminal.opens:
            if any(kind == "attr" for kind, _ in head.tail):
                problem = f"nothing says which attributes a model may write in `{terminal.shown}`"
                raise ValueError(f"{self.table.name}: {problem}")
            return self._tag_end(head, self._node(then, answered=answered), block)
        answered |= self.require_call
        after = self._node(self.machine.steps[then][TEXT], text=False, answered=answered)
        kind, literals = terminal.body, self.table.literals
        bodies: Bodies | Holes = Holes()
        if not self.holes:
            bodies = Bodies(kind, self.tools, literals, self.forbidden, self.parts)
        attrs = [value for kind, value in head.tail if kind == "attr"]
        for attr in attrs:
            if attr != "name" and not counting(self.table):
                problem = f"nothing says which {attr!r} a model may write in `{terminal.shown}`"
                raise ValueError(f"{self.table.name}: {problem}")
        if not attrs:
            return self._tag_end(head, bodies.any_tool(after), block)
        ways = []
        for i, tool in enumerate(self.tools):
            pattern = terminal.patterns["name"]
            if not re.fullmatch(pattern, tool.name):
                problem = f"`{terminal.shown}` takes names that match {pattern}"
                raise ValueError(f"tool {tool.name!r}: {problem}")
            ways.append(self._tag_end(head, bodies.one(i, after), block, tool.name, i))
        return Node(also=ways, block=block)

    # Spellings.

    def _head(self, terminal: Terminal) -> _Head:
        pieces = list(terminal.stem)
        lead = pieces.pop(0).value if pieces[0].kind == "space" else ""
        token, text = -1, ""
        if pieces[0].kind == "special":
            token = self.table.special[pieces.pop(0).value]
        while token < 0 and pieces and pieces[0].kind == "text":
            text += pieces.pop(0).value
        if terminal.shown in self.table.attributed:
            begun = self._beginning(text)
            text, pieces = begun, [Piece("text", text.removeprefix(begun)), *pieces]
        tail = tuple((p.kind if p.kind != "space" else "text", p.value) for p in pieces)
        return _Head(lead, token, text, tail)

    def _tag_end(
        self, head: _Head, then: Node, block: int, name: str = "", owner: int = -1
    ) -> Node:
        """Returns the start of a tag after its head, up to `then`; `name` is that of the tool.

        The number of a call is in its block: digits, of which `Distinct` allows the right ones.
        """
        inside = CALLING if ("attr", ID) in head.tail else block
        for kind, value in reversed(head.tail):
            if (kind, value) == ("attr", ID):
                for _ in range(DIGITS):
                    digits = dict.fromkeys(spelled("0123456789"), (then, 0))
                    then = Node(digits, block=inside, owner=owner)
                inside = block
            elif kind == "special":
                then = chain([("id", self.table.special[value])], then, block=inside, owner=owner)
            else:
                text = name if kind == "attr" else value
                then = chain(spelled(text), then, block=inside, owner=owner)
        return then

    @cached_by(lambda graph: graph.dialect.fingerprint)
    def _text_leaf(self) -> ByteDfa:
        """Returns the leaf of texts. Its exits are all that may end a text in some state.

        The edges of a node say which of these exits are open there. It is the same for all tools
        and forbidden blocks, because graphs of one dialect share it."""
        writing = (s for s in self.machine.states if TEXT in self.writable[s])
        after_text = {n for s in writing for n in self.machine.steps[s] if n in self.writable[s]}
        mine = [self.heads[n] for n in self.table.terminals if n in after_text]
        tags = sorted({h.text for h in mine if h.token < 0 and not h.lead})
        led_tags = {h.text: h.lead for h in mine if h.token < 0 and h.lead}
        led_ids = {h.token: h.lead for h in mine if h.token >= 0 and h.lead}
        begun = [self.heads[t.name].text for t in self.table.plain_tags if t.patterns]
        texts = {*self.forbidden, *self.pieces.anywhere, *begun}
        shortest = [s for s in texts if s in tags or not any(t in s and t != s for t in texts)]
        return text_dfa(
            sorted(shortest), tags, led_tags, led_ids, only_words=self.pieces.words,
            never_first=self.pieces.first, never_last=self.pieces.last,
        )  # fmt: skip

    def _beginning(self, tag: str) -> str:
        """Returns the shortest beginning of a tag with attributes that is almost the tag.

        Whatever follows it is then a mistake in a text, so that it must go on as this tag.
        """
        word = tag.split(maxsplit=1)[0]
        ways = (word[:n] for n in range(1, len(word)))
        return next((way for way in ways if near_miss(way + ">", self.table)), word)


def kinds_of(dialect: Dialect, block: int) -> list[str]:
    """Returns the kinds of block that a budget bounds: THINKING or CALLING."""
    openers = dialect.table.openers.values()
    if block == THINKING:
        return [t.opens for t in openers if t.role == "thought"]
    return [t.opens for t in openers if t.body in _CALLED and t.by_model]


def call_ends(dialect: Dialect) -> tuple[str, int]:
    """Returns the kind of body of the model's calls, and the id that closes a call.

    If the closing tag is text, the id is one without meaning.
    """
    table = dialect.table
    for kind in kinds_of(dialect, CALLING):
        closer = table.closers[kind].stem
        one = closer[0].value if len(closer) == 1 and closer[0].kind == "special" else ""
        return table.openers[kind].body, table.special.get(one, dialect.tokenizer.pad)
    return "call", dialect.tokenizer.pad


def names_in_tags(dialect: Dialect) -> bool:
    """Returns whether the model writes the name of a tool in the tag that opens its call."""
    return any(dialect.table.openers[kind].patterns for kind in kinds_of(dialect, CALLING))


def forbidden_texts(dialect: Dialect) -> list[str]:
    """Returns the spellings that ordinary tokens must not make: each tag of the dialect.

    Of a tag with attributes, the spelling is the text before the first attribute.
    """
    table = dialect.table
    plain = ["".join(_core(t)) for t in table.plain_tags]
    return sorted({*table.special, *plain})


def _core(terminal: Terminal) -> list[str]:
    out: list[str] = []
    for piece in terminal.spelling:
        if piece.kind == "attr" or (piece.kind == "space" and out):
            break
        if piece.kind == "text":
            out.append(piece.value)
    return out
