"""A renderer for the package `renderers`, for the format of any model: a line of TOML names it.

    [renderer]
    name = "custom"
    import_path = "mypt_infer.plugins.renderers.Renderer"

Ids are those of the format on the tokenizer's vocabulary. What it refuses, it refuses by name, with
ValueError: tools that the format cannot declare, messages that it has no place for, unknown ids.
"""

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict
from renderers import base
from renderers.configs import BaseRendererConfig

import mypt_spec
from mypt_infer.plugins.answer_stream import usual_prompt
from mypt_infer.plugins.extend import extend, indices_of
from mypt_infer.serve.asked.prompts import Prompter
from mypt_infer.serve.deltas import CONTENT, THOUGHT, DeltaReader
from mypt_lint.derive.of_model import dialect_of_model
from mypt_spec.bodies.tagged import types_of
from mypt_spec.history import official
from mypt_spec.table import TEXT
from mypt_train.export.chat_facts import endings

Messages = Sequence[dict[str, Any]]
Tools = Sequence[dict[str, Any]] | None


class Config(BaseRendererConfig):  # type: ignore[misc]
    """Settings of a renderer: `format` is a dialect's name or folder; others are options of it."""

    model_config = ConfigDict(frozen=True, extra="allow")
    _internal_fields = frozenset({"format"})
    _allow_opaque_template_kwargs = True
    name: Literal["mypt"] = "mypt"
    format: str = ""


class Renderer:
    """Renders and parses conversations of one format; see `renderers.Renderer`."""

    config_class = Config

    def __init__(self, tokenizer: Any, config: Config | None = None) -> None:
        self.config = config or Config()
        self._options = dict(self.config.model_extra or {})
        name, self.dialect = _format_of(tokenizer, self.config.format)
        self._prompter = Prompter(self.dialect, name, all_tools=True)
        stops = {self.dialect.table.special[tag] for tag in endings(self.dialect)}
        eos = getattr(tokenizer, "eos_token_id", None)
        self._stops = sorted(stops | ({eos} if isinstance(eos, int) else set()))
        # Whether a longer conversation begins with the ids of a shorter one.
        self.is_prefix_stable = not self.dialect.table.history.drops
        self.effective_thinking_retention = base.resolve_thinking_retention(
            self.config, "all" if self.is_prefix_stable else "tool_cycle"
        )

    def render(
        self, messages: Messages, *, tools: Tools = None, add_generation_prompt: bool = False
    ) -> base.RenderedTokens:
        """Returns the ids of a conversation, each with its message, as the template writes them."""
        episode, parsed, sources = self._prompter.episode(messages, tools or (), self._options)
        episode = official(episode, self.dialect.table)
        partial = add_generation_prompt or bool(self.dialect.refusal(episode))
        encoded = self.dialect.encode(episode, partial=partial)
        ids = (
            self._prompter.ids(episode, parsed, sources)
            if add_generation_prompt
            else encoded.ids.tolist()
        )
        assert encoded.origin is not None
        key = f"/{self.dialect.adapter.SCHEMA.messages}/"
        texts = [
            segment.event.terminal == TEXT and segment.event.at.pointer.startswith(key)
            for segment in encoded.origin.segments
            for _ in segment.ids
        ]
        sampled = [bool(loss) for loss in encoded.loss]
        return self._tokens(ids, indices_of(encoded, sources, len(ids)), messages, sampled, texts)

    def render_ids(self, messages: Messages, **options: Any) -> list[int]:
        """Returns the ids of a conversation; options are those of `render`."""
        return list(self.render(messages, **options).token_ids)

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Tools = None, prompt_ids: Sequence[int] = ()
    ) -> base.ParsedResponse:
        """Returns what the ids of an answer say; calls that are none have a status that says why.

        Raises ValueError for an id that has no meaning in the format.
        """
        prompt = prompt_ids or usual_prompt(self.dialect)[0]
        types = types_of(tools) if tools else None
        reader = DeltaReader(self._prompter.format, prompt, types)
        end = next((n for n, i in enumerate(token_ids) if i in self._stops), len(token_ids))
        deltas = [delta for i in token_ids[:end] for delta in reader.push(int(i))]
        is_thinking, deltas = reader.is_thinking, deltas + reader.end()
        names = {tool.get("function", tool).get("name") for tool in tools or ()} | {""}
        calls = []
        for call in reader.calls:
            unknown = tools and call.name not in names
            status = base.ToolCallParseStatus("unknown_tool" if unknown else call.status)
            data = call.raw, call.name or None, call.arguments, (call.begin, call.end)
            calls.append(base.ParsedToolCall(*data, status, call.id or None))
        text, thought = ("".join(d.text for d in deltas if d.kind == k) for k in (CONTENT, THOUGHT))
        return base.ParsedResponse(text, thought or None, calls, not is_thinking)

    def get_stop_token_ids(self) -> list[int]:
        """Returns the ids at which a model stops."""
        return self._stops

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Messages,
        *,
        tools: Tools = None,
    ) -> base.RenderedTokens | None:
        """Returns the next prompt: the ids so far, and those of the new messages.

        None where the whole conversation has to be rendered, as the format writes it otherwise: a
        new question, where the template leaves out earlier thoughts; an answer that cannot go on.
        """
        del tools  # they are in the prompt
        ids = [*previous_prompt_ids, *previous_completion_ids]
        if not previous_prompt_ids or base.should_rerender_for_thinking_retention(
            self.effective_thinking_retention, list(new_messages)
        ):
            return None
        with suppress(ValueError):
            out = extend(self._prompter, ids, new_messages, self._options)
            if out.kept == len(ids):
                return self._tokens(out.ids, out.message_indices, new_messages, [], [])
        return None

    def _tokens(
        self, ids: list[int], indices: list[int], messages: Messages, *masks: list[bool]
    ) -> base.RenderedTokens:
        """Returns ids with their masks, of what is sampled and of texts, which may be too short."""
        sampled, texts = ((mask + [False] * len(ids))[: len(ids)] for mask in masks)
        roles = [str(message.get("role") or "") for message in messages]
        for at, n in enumerate(indices):  # of what begins the next block, where the model stops
            if n > 0 and sampled[at] and roles[n] != "assistant":
                indices[at] = indices[at - 1]
        ours = [n >= 0 and roles[n] == "assistant" for n in indices]
        both = zip(ours, sampled, texts, indices, strict=True)
        content = [own if is_ours else text and n >= 0 for is_ours, own, text, n in both]
        names = base.extract_message_tool_names(list(messages))
        return base.RenderedTokens(ids, indices, sampled, content, roles, names)


def _format_of(tokenizer: Any, name: str) -> tuple[str, mypt_spec.Dialect]:
    """Returns the name and the dialect of a format on the vocabulary of a tokenizer."""
    path = Path(str(getattr(tokenizer, "name_or_path", "") or ""))
    with tempfile.TemporaryDirectory() as temporary:
        if not path.name or not path.is_dir():
            path = Path(temporary)
            tokenizer.save_pretrained(temporary)
        name = name or dialect_of_model(path, None)
        if not name:
            raise ValueError(f"{path}: no chat template says the format; name one with `format`")
        return name, mypt_spec.dialect(name, vocabulary=path)
