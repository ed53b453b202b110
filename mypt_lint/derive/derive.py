"""Derives a format from the folder of a model: learns it, writes it, proves it.

What is not proved on conversations that the learner has never seen is left out of the format, so
that it claims nothing else.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from mypt_lint.derive.folder import files, literals_of
from mypt_lint.derive.learn import Learner
from mypt_lint.derive.learn_tools import ToolsLearner
from mypt_lint.derive.probe import Renderings, chat
from mypt_lint.derive.proof import Level, prove
from mypt_lint.derive.shape import NotLearnedError, Shape
from mypt_lint.derive.spec import spec
from mypt_lint.template.checks import LIKELY_SPECIAL
from mypt_lint.template.model import ModelFolder
from mypt_spec import Dialect, SpecError
from mypt_spec.bodies.call_tags import BareKeys, Tags
from mypt_spec.dialect import load

CONVERSATIONS = 100  # of a level, for the proof
_EXAMPLES = {
    "a question": chat("What is 2 + 2?", "4."),
    "two questions": chat("Hi!", "Hello.", "What is 2 + 2?", "4."),
    "a system message": chat("What is 2 + 2?", "4.", system="Be brief."),
    "a thought": chat("What is 2 + 2?", ("Two and two.", "4.")),
}
# The option of templates whose prompts have an empty thought, if they say nothing else.
_THINKING = {"name": "enable_thinking", "values": [False], "default": False, "empty_thought": False}
_EMPTY: dict[str, dict[str, Any]] = {"enable_thinking": _THINKING}
_LEARNED_ON, _BLANKS = range(40), 0.15
_FIRST_SEED = 1_000_000  # of conversations that the learner never sees


class Derived(NamedTuple):
    """A format that was learned: its files by name, empty if nothing is proved, and its levels."""

    name: str
    files: dict[str, str]
    levels: tuple[Level, ...]
    shape: Shape | None

    def load(self, folder: Path, vocabulary: str | None = None) -> Dialect:
        """Writes the files into a folder, and returns the format. Raises SpecError."""
        for file, text in self.files.items():
            (folder / file).write_text(text, encoding="utf-8")
        return load(folder, vocabulary=vocabulary)


def derive(
    model: ModelFolder, name: str, *, conversations: int = CONVERSATIONS, seed: int = 0
) -> Derived:
    """Returns the format of a model's chat template. Another seed proves it on other conversations.

    `name` is that of the format. Raises UsageError as `ModelFolder` does.
    """
    first = _FIRST_SEED + seed * 1_000_000
    seeds = range(first, first + conversations)
    with Renderings(model) as render:
        return _Deriving(model, render, name, seeds).derived()


class _Deriving:
    """Derives one format. `seeds` are those of the proof."""

    def __init__(self, model: ModelFolder, render: Renderings, name: str, seeds: range) -> None:
        self.model, self.render, self.name, self.seeds = model, render, name, seeds

    def derived(self) -> Derived:
        """Returns the format, without files if chats are not proved."""
        with tempfile.TemporaryDirectory() as place:
            self.folder = Path(place, self.name)
            self.folder.mkdir()
            try:
                levels, shape = self._proved(self._with_options(self._learned()))
            except (NotLearnedError, SpecError) as error:
                why = str(error).rpartition("toml: ")[2]
                return Derived(self.name, {}, (Level("chat", why),), None)
            if not levels[0].is_proved:
                return Derived(self.name, {}, levels, shape)
            dialect, texts = self._loaded(shape)
            texts["vectors.json"] = json.dumps([*self._vectors(dialect)], indent=2) + "\n"
            texts["SPEC.md"] = spec(self.name, shape, levels)
        return Derived(self.name, texts, levels, shape)

    def _learned(self) -> Shape:
        """Returns a shape that is equal wherever the learner looks. Raises NotLearnedError."""
        learned = Learner(self.render, self.model.templates[0].tokens).shape()
        learned = replace(learned, options=_EMPTY if learned.empties else {})
        ends = LIKELY_SPECIAL.findall(learned.answer.closer)[-1:]
        ends = ends or LIKELY_SPECIAL.findall(learned.after_answer and learned.ending[1])
        self.render.stops = (*(ends or LIKELY_SPECIAL.findall(learned.user.opener)[:1]),)
        shape = self._fitting("chat", _restricted(_without_thoughts(learned, learned.no_thoughts)))
        if learned.thought is not None and not learned.no_thoughts:
            try:
                full = replace(shape, thought=learned.thought, drops=learned.drops)
                shape = self._fitting("thoughts", _restricted(full))
            except NotLearnedError as error:
                shape = _without_thoughts(shape, str(error))
        self.without_tools = shape
        try:
            full = ToolsLearner(self.render, shape).learned()
            call_end = full.tools.end if full.tools else ""
            self.render.stops += (*LIKELY_SPECIAL.findall(call_end)[-1:],)
            return self._fitting("tools" if shape.no_thoughts else "all", _restricted(full))
        except (NotLearnedError, SpecError) as error:
            return replace(shape, no_tools=str(error).rpartition("toml: ")[2])

    def _with_options(self, shape: Shape) -> Shape:
        """Returns the shape with the options of the template, and what it lacks of these."""
        self.without_options = shape
        name = "tools" if shape.no_thoughts else "all"
        name = name if not shape.no_tools else "chat" if shape.no_thoughts else "thoughts"
        arguments = "how", "clock", "stops", shape.day[0]  # of renderings
        for option in sorted(self.model.read_options[1].difference(arguments)):
            texts = re.findall(rf"\b{option} *[=!]= *['\"](\w+)", self.model.templates[0].text)
            new, lacks, values = shape, list[str](), list[Any]()
            for value in dict.fromkeys(texts or (True, False)):
                try:
                    new = self._fitting(name, _with_value(new, option, value))
                    values.append(value)
                except (NotLearnedError, SpecError):
                    lacks.append(f"{option} = {json.dumps(value)}")
            row = new.options.get(option, {}) | {"values": values}
            if lacks or "empty_thought" in row:  # else it changes nothing
                options = shape.options | ({option: row} if values else {})
                lacks = [*shape.lacks, *(lacks if values else [option])]
                shape = replace(new, options=options, lacks=(*lacks,))
        return shape

    def _fitting(self, name: str, shapes: Iterable[Shape]) -> Shape:
        """Returns the first shape that is equal where the learner looks. Raises NotLearnedError."""
        level = Level(name)
        for one in shapes:
            level = Level(name)
            prove(self._loaded(one)[0], self.render, level, _LEARNED_ON, blanks=_BLANKS)
            if level.is_proved:
                return one
        raise NotLearnedError(level.reason)

    def _proved(self, shape: Shape) -> tuple[tuple[Level, ...], Shape]:
        """Returns what is proved of each level, and the shape without what is not."""
        whys = {"chat": "", "thoughts": shape.no_thoughts, "tools": shape.no_tools}
        whys["all"] = whys["tools"] or (whys["thoughts"] and "as tools, without thoughts")
        dialect, levels = self._loaded(shape)[0], list[Level]()
        for name, why in whys.items():
            level = Level(name, why)
            if not why:
                prove(dialect, self.render, level, self.seeds, self.model)
            if not why and not level.is_proved and shape.options != self.without_options.options:
                names = {*shape.lacks, *shape.options} - {*self.without_options.options}
                return self._proved(replace(self.without_options, lacks=(*sorted(names),)))
            if not why and not level.is_proved and name == "thoughts":
                return self._proved(_without_thoughts(shape, level.reason))
            if name == "chat" and level.refused and shape.tools is not None:
                chats = self._loaded(self.without_tools)[0]
                if prove(chats, self.render, Level(name), self.seeds).is_complete:
                    return self._bare(f"with tools the format refuses chats: {level.reason}")
            if not why and not level.is_proved and name != "chat":
                return self._bare(level.reason)
            levels.append(level)
        return (*levels,), shape

    def _bare(self, why: str) -> tuple[tuple[Level, ...], Shape]:
        """Returns what is proved without tools, and its shape. `why` says why there are none."""
        return self._proved(self._with_options(replace(self.without_tools, no_tools=why)))

    def _loaded(self, shape: Shape) -> tuple[Dialect, dict[str, str]]:
        """Returns the format of a shape, and its files."""
        special = self.model.special
        body = shape.tools.call_body if shape.tools is not None else ""
        words = (*body.function, *body.argument) if isinstance(body, Tags) else ()
        if self.model.vocabulary is None:
            tags = {tag for text in literals_of(shape) for tag in LIKELY_SPECIAL.findall(text)}
            special |= tags.difference(LIKELY_SPECIAL.findall("".join(shape.system_in or "")))
        special = frozenset(tag for tag in special if not any(tag in text for text in words))
        special -= {body.end} if isinstance(body, BareKeys) else set()
        derived = Derived(self.name, files(self.name, shape, special), (), shape)
        vocabulary = None if self.model.vocabulary is None else self.model.path
        return derived.load(self.folder, vocabulary), derived.files

    def _vectors(self, dialect: Dialect) -> Iterator[dict[str, Any]]:
        """Yields examples that the format writes as the template does."""
        for what, messages in _EXAMPLES.items():
            record = {"messages": messages}
            episode, findings = dialect.check(record)
            text = self.render.text(messages, clock="now")
            with suppress(ValueError):  # the format reads its content as a tag
                if episode is None or findings or dialect.serialize(episode) != text:
                    continue
                encoded = dialect.encode(episode)
                trained = dialect.tokenizer.decode(encoded.ids[encoded.loss == 1])
                yield {"name": what, "record": record, "text": text, "trained": trained}


def _without_thoughts(shape: Shape, why: str) -> Shape:
    """Returns a shape without thoughts, or with empty ones alone if the template writes these."""
    if (shape.empties or shape.always) and why and not shape.only_prompts:
        raise NotLearnedError(f"an answer without a thought has an empty one, but {why}")
    if shape.fills or shape.opens or shape.empties or shape.always:
        return replace(shape, no_thoughts=why)
    answer = replace(shape.answer, lead="")
    return replace(shape, thought=None, answer=answer, drops=False, no_thoughts=why)


def _with_value(shape: Shape, name: str, value: Any) -> Iterator[Shape]:
    """Yields shapes with a value of an option: it changes nothing, or the thoughts of prompts."""
    row = shape.options.get(name, {"name": name, "values": []})
    row = row | {"values": [*dict.fromkeys((row.get("default", value), value))]}
    same = replace(shape, options=shape.options | {name: row})
    yield same
    if shape.thought is not None and not (shape.no_thoughts or shape.empties):
        options = shape.options | {name: row | {"empty_thought": value}}
        yield replace(shape, options=options, only_prompts=not (shape.fills or shape.always))
    elif shape.thought is not None and not (shape.no_thoughts or shape.only_prompts):
        yield from (replace(same, fills=not shape.always, opens=opens) for opens in (True, False))


def _restricted(shape: Shape) -> Iterator[Shape]:
    """Yields a shape, then without empty texts, then without system messages in questions."""
    yield shape
    blocks = {p: b for p in ("system", "user", "answer", "thought") if (b := getattr(shape, p))}
    changes: dict[str, Any] = {piece: replace(b, blank=False) for piece, b in blocks.items()}
    if shape.tools is not None:
        changes["tools"] = replace(shape.tools, result=replace(shape.tools.result, blank=False))
    yield replace(shape, **changes)
    if shape.system_in is not None:
        why = "they are written otherwise in a question"
        yield replace(shape, **changes, system_in=None, no_system=why)
