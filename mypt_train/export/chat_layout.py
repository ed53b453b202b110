"""Says which block of a dialect each piece of a chat becomes, for its chat template.

Input: a dialect. Output: a `ChatLayout`. Where `records.toml` declares the messages of OpenAI, that
is the layout; a dialect whose records are read by code has a `chat.toml` beside its grammar, with
the same keys and these: `after` is a mark that follows each answer; `[blocks]` may have `context`
(of a question), `note` (a message of its own), `cite` (after an answer), `result_id` and
`result_name` (blocks in a result); `[inline]` names the block that a text may spell whole.
"""

import tomllib
from dataclasses import dataclass, field
from typing import Any

from mypt_spec import Dialect
from mypt_spec.adapters.declared import Declared
from mypt_spec.adapters.messages import Messages
from mypt_spec.adapters.template_options import SystemText, TemplateOptions
from mypt_spec.table_file import grammar_root
from mypt_train.export.tokenizer_file import ExportError

CHAT = "chat.toml"
_PIECES = {
    "system", "developer", "user", "context", "note", "tools", "thought", "said", "answer", "cite",
    "call", "result", "result_id", "result_name",
}  # fmt: skip
Path = tuple[str, ...]


@dataclass(frozen=True)
class ChatLayout:
    """Where each piece of a chat is written: a block, or a block in another.

    `begin` and `finish` are marks at both ends, `after` is one after each answer; "" for none.
    `tools_before` and `after_tools` are as in `records.toml`; with `told`, tools are part of the
    text of a question, after these words. `late` is its `text_after_results`. `inline` maps a piece
    to the kind of block that its text may spell. With `empty`, a thought without text is one.
    `options` are those that a chat may be asked for with. `system` says which question has one in
    its text, and what that of a chat is that has none.
    """

    paths: dict[str, Path]
    begin: str = ""
    finish: str = ""
    after: str = ""
    tools_before: str = "first"
    after_tools: str = ""
    late: bool | str = False
    empty: bool = False
    told: str = ""
    inline: dict[str, str] = field(default_factory=dict)
    options: TemplateOptions = field(default_factory=TemplateOptions)
    system: SystemText = field(default_factory=SystemText)

    @property
    def turns(self) -> bool:
        """Returns whether one block has all from one question to the next, results included."""
        return self.paths.get("result", ("",))[0] == self.paths["answer"][0]

    @property
    def shared(self) -> set[str]:
        """Returns the blocks that hold others, so that pieces of a message share them."""
        return {path[0] for path in self.paths.values() if len(path) > 1}


def chat_layout(dialect: Dialect) -> ChatLayout:
    """Returns the layout of a dialect. Raises ExportError where nothing says it, or wrongly."""
    adapter, table = dialect.adapter, dialect.table
    file = (dialect.folder or grammar_root() / dialect.name.replace("-", "_")) / CHAT
    if not file.is_file():
        if isinstance(adapter, Messages):
            return ChatLayout(
                dict(adapter.paths),
                adapter.begin,
                adapter.finish,
                tools_before=adapter.tools_before,
                after_tools=adapter.after_tools,
                late=adapter.late,
                empty=True,
                told=adapter.intro,
                options=adapter.options,
                system=adapter.system,
            )
        if isinstance(adapter, Declared):
            return _declared(dialect, adapter)
        raise ExportError(
            f"{dialect.name} has no chat template: nothing says which block a message of a chat "
            f"becomes; write a {CHAT} beside its grammar"
        )
    try:
        data: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExportError(f"{file}: cannot be read: {error}") from None
    blocks, inline = data.get("blocks", {}), data.get("inline", {})
    marks = {key: data.get(key, "") for key in ("begin", "finish", "after")}
    paths = {piece: tuple(str(value).split("/")) for piece, value in blocks.items()}
    wrong = [f"[blocks] {p}: no such piece" for p in paths if p not in _PIECES]
    wrong += [
        f"[blocks] {p}: no block {kind!r}"
        for p, path in paths.items()
        for kind in path
        if kind not in table.openers
    ]
    wrong += [f"{k}: no mark {m!r}" for k, m in marks.items() if m and m not in table.marks]
    wrong += [f"[inline] {p}: no block {k!r}" for p, k in inline.items() if k not in table.openers]
    wrong += ["[blocks]: needs user and answer"] * (not {"user", "answer"} <= set(paths))
    if wrong:
        raise ExportError(f"{file}: {wrong[0]}")
    return ChatLayout(paths, **marks, inline=inline, tools_before=data.get("tools_before", "first"))


def _declared(dialect: Dialect, adapter: Declared) -> ChatLayout:
    paths: dict[str, Path] = {}
    after = ""
    for role in adapter.roles.values():
        piece = {"assistant": "answer"}.get(role.name, role.name)
        plain = all(key.name == "content" and key.body == "text" for key in role.keys)
        if piece not in _PIECES or not plain or (role.end and piece != "answer"):
            raise ExportError(
                f"{dialect.name} has no chat template: its records have the role {role.name!r} "
                f"with {', '.join(key.name for key in role.keys)}, which servers do not "
                f"send; write a {CHAT} beside its grammar"
            )
        paths[piece] = (role.block,)
        after = role.end or after
    if not {"user", "answer"} <= set(paths):
        raise ExportError(
            f"{dialect.name} has no chat template: its records need the roles user and assistant"
        )
    return ChatLayout(paths, adapter.begin, after=after)
