"""Reads the format of a model from its folder: what its own chat template makes of a conversation.

Input are chats of any shape. Output are findings at the places in the user's record: what the
template refuses, leaves out or rewrites, what is trained without a stop, and what is beyond the
context.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mypt_cli.errors import UsageError
from mypt_cli.inputs import json_of
from mypt_lint.template.align import NAME, THOUGHT, Aligned, Aligner, AlignError, Leaf, spelled
from mypt_lint.template.checks import LIKELY_SPECIAL
from mypt_lint.template.ids import RenderingEncoder
from mypt_lint.template.render import FORMS, Failed, Form, failure, in_form, in_use, variables
from mypt_lint.template.source import TEMPLATE_FILES, TEMPLATE_FOLDER, Template, added_tokens, load
from mypt_records.chat import Chat, Message, Text, located
from mypt_records.checks.control import rendered_twice
from mypt_records.checks.tools import bare_tools
from mypt_records.written import THOUGHT_TAGS
from mypt_spec.bodies.strict_json import escape
from mypt_spec.findings import Finding, regraded
from mypt_spec.memo import Memo
from mypt_spec.table import SpecError
from mypt_spec.templates.bounds import GROWS, Bounded, OutOfBoundsError
from mypt_spec.templates.sandbox import compiled, share
from mypt_spec.tokenizer.sources import NAMES, read_vocabulary
from mypt_spec.tokenizer.vocabulary import Vocabulary, VocabularyError

if TYPE_CHECKING:
    from mypt_lint.template.ids import Ids

_PROBES = Path(__file__).parent / "conversations.jsonl"
_OPTIONS = "chat_template_kwargs"
_STRAY, RENDERING = "stray tag", "rendering"  # facts of a chat
_OWN = frozenset({"messages", "tools", "add_generation_prompt", "self"})  # no options
_MAX_OPTIONS, _MAX_STOPPED = 64, 3
PLAIN = 2  # the version of marshal's format without references: equal values, equal bytes
_MAX_TOOLS, _TOOLS_ROOM = 64, 8 << 20  # lists of tools that are kept, and their bytes
_KINDS = {
    "user": "question", "assistant": "answer", "tool": "result", "system": "system prompt",
    "developer": "developer message", NAME: "name of a call",
}  # fmt: skip
_WITHOUT = "no thoughts; they are left out"
_EMPTY = "name a format that writes it with --dialect, or a folder whose template does"
_EARLIER = "to train them, make a record of each turn"
_NO_THOUGHTS = "add thoughts, or name the option, as in --template-option enable_thinking=false"
_CONTEXT = {"config.json": "max_position_embeddings", "tokenizer_config.json": "model_max_length"}
_NO_LIMIT = 1 << 40  # what transformers writes where nobody knows the length of a context
_PRINTED = "{'type': 'text'"  # content that is not read as parts
Outcome = Aligned | Failed | Leaf | None
Arguments = tuple[list[dict[str, Any]], bytes | None, dict[str, Any]]


class Templates:
    """Aligns conversations by the templates of a folder; in the process that renders.

    Called without a conversation, it returns why Jinja does not compile a template, or else the
    forms of messages that both templates take best, which may be known before, and the stop tokens
    that are assumed. Tools are packed, as `arguments_of` returns them, so that equal ones are one
    object here.
    """

    def __init__(
        self, templates: list[Template], special: frozenset[str], forms: Sequence[Form] = ()
    ) -> None:
        usual, tools = in_use(templates)
        self._tools: Memo[bytes, Any] = Memo(_MAX_TOOLS, room=_TOOLS_ROOM)
        self._shared: Any = None
        self._fault = ""
        try:
            for template in (usual, tools):
                compiled(template.text)
        except (MemoryError, SpecError):
            raise
        except Exception as error:  # whatever a template does wrong
            why = failure(error)
            message = f"line {why.line} of the chat template: {why.message}"
            self._fault = f"{template.path}: {message}"
            return
        self.usual = _OneTemplate(usual, special, *forms[:1])
        self.for_tools = self.usual if tools is usual else _OneTemplate(tools, special, *forms[1:])

    def __call__(
        self,
        messages: list[dict[str, Any]] | None = None,
        tools: bytes | None = None,
        options: dict[str, Any] | None = None,
        how: str = "outcome",
        *key: Any,
    ) -> Outcome | str | tuple[Form, Form, list[str]]:
        if messages is None:
            return self._fault or (self.usual.form, self.for_tools.form, self.usual.assumed)
        declared = None
        if tools is not None and (declared := self._tools.entries.get(tools)) is None:
            declared = self._tools.keep(tools, marshal.loads(tools), len(tools))
        if declared is not None and declared is not self._shared:
            self._shared = declared
            share(declared)
        work = getattr(self.for_tools if declared else self.usual, how)
        result: Outcome | str = work(messages, declared, options or {}, *key)
        return result


class _OneTemplate:
    is_marked = True  # its marks say what is trained

    def __init__(
        self, template: Template, special: frozenset[str], form: Form | None = None
    ) -> None:
        self.template = template
        self._render = compiled(template.text)
        self._aligners: Memo[Any, Aligner] = Memo(_MAX_OPTIONS)  # by their options
        self.now = datetime.now()  # one for all renderings, which are compared
        self.stops = template.stops | {template.tokens.get("eos_token", "")}
        self._special = special
        self.form = form or self._best_form()
        self.assumed = [] if template.folder else self._after_answers()
        self.stops |= {*self.assumed}

    def _after_answers(self) -> list[str]:
        """Returns the tags at which the model stops most likely: after an answer, and the last."""
        chat = [{"role": role, "content": role.title()} for role in ("user", "assistant") * 2]
        outcome = self.outcome(chat, None, {})
        if not isinstance(outcome, Aligned) or len(outcome.pieces) != len(chat):
            return []
        return sorted({*_turn_ends(outcome)} - self.stops)

    def outcome(
        self, messages: Any, tools: Any, options: dict[str, Any], key: Any = None
    ) -> Outcome:
        """Returns what is known of a conversation: all places, why it has no text, or what has no
        place."""
        named = json.dumps(options, sort_keys=True) if options else "", frozenset(self.stops)
        if (aligner := self._aligners.entries.get(named)) is None:
            text = partial(self.text, options=options)
            aligner = self._aligners.keep(named, Aligner(text, self.stops, self._special))
        try:
            return aligner.align(in_form(messages, self.form), tools, key)
        except AlignError as error:
            return error.leaf
        except MemoryError:
            raise
        except Exception as error:  # whatever a template does wrong
            return failure(error)

    def written(
        self, messages: Any, tools: Any, options: dict[str, Any], *, prompt: bool = False
    ) -> str | Failed:
        """Returns the text of a conversation, or why it has none."""
        formed = in_form(messages, self.form)
        try:
            return self.text(formed, tools, prompt=prompt, options=options)[0]
        except MemoryError:
            raise
        except Exception as error:  # whatever a template does wrong
            return failure(error)

    def text(
        self, messages: Any, tools: Any, *, prompt: bool = False, options: dict[str, Any]
    ) -> tuple[str, list[tuple[int, int]]]:
        usual = {"documents": None, "strftime_now": self.now.strftime}
        variables = {**self.template.tokens, **usual, **self.template.options, **options}
        text, marked = self._render(
            messages=messages, tools=tools, add_generation_prompt=prompt, **variables
        )
        return text, marked * self.is_marked

    def _best_form(self) -> Form:
        """Returns the form of messages in which the most texts of the shipped ones are written."""
        rows = [json.loads(line) for line in _PROBES.read_text("utf-8").splitlines()]
        rows = [row for row in rows if row.get("_plain") or row.get("tools")]
        outcomes: dict[str, Outcome] = {}  # most messages are equal in several forms

        def outcome(row: dict[str, Any], form: Form) -> Outcome:
            messages, tools = in_form(row["messages"], form), row.get("tools")
            if (key := json.dumps([messages, tools])) not in outcomes:
                self.form = form
                outcomes[key] = self.outcome(messages, tools, {})
            return outcomes[key]

        def score(form: Form) -> tuple[int, int]:
            every = (outcome(row, form) for row in rows)
            aligned = [o for o in every if isinstance(o, Aligned) and _PRINTED not in o.text]
            return sum(not one.missing for one in aligned), len(aligned)

        scores: dict[Form, tuple[int, int]] = {}
        for form in FORMS:
            if (len(rows), len(rows)) not in scores.values():  # no other form writes more
                scores[form] = score(form)
        return max(scores, key=scores.__getitem__)  # of equals the first


class ModelFolder:
    """The chat template and the vocabulary of a model, as its folder has them.

    Templates run in a process of their own, within bounds. `options`, a JSON object, are given to
    every rendering; those of a record override them. `encodes` loads the vocabulary at once.
    Raises UsageError for a folder without a template.
    """

    def __init__(self, path: str, options: str | None = None, *, encodes: bool = False) -> None:
        self.path, self.options = path, json.loads(options or "{}")
        self.templates = [replace(template, options=self.options) for template in load(path)]
        names = {token for template in self.templates for token in template.tokens.values()}
        names |= {row["content"] for row in added_tokens(Path(path))}
        self.special = frozenset(filter(None, names))
        self._aligned: Bounded[Any] = Bounded(Templates, self.templates, self.special)
        self.stopped = 0  # records in a row whose rendering was stopped
        self._aligned.start()
        if encodes and self.vocabulary:  # loaded here while the process loads Jinja
            self.encoder.load()
        try:
            forms = self._aligned()
        except OutOfBoundsError as error:
            forms = f"{path}: reading the chat template was stopped after {error}"
        if isinstance(forms, str):
            self._aligned.close()
            raise UsageError(forms)
        *self.forms, self.assumed_stops = forms

    def report(self, say: Callable[[str], None]) -> None:
        """Tells `say` which stop tokens are assumed, and which option is never read.

        Raises UsageError for an option that is not allowed.
        """
        if self.assumed_stops:
            lacks = f"{self.path} does not say at which tokens the model stops"
            say(f"{lacks}; assumed from its answers: {', '.join(self.assumed_stops)}")
        if not self.options:
            return
        if own := sorted(_OWN & set(self.options)):
            raise UsageError(f"--template-option {own[0]}: trainers pass it themselves; remove it")
        if tag := spelled(self.special).search(json.dumps(self.options, ensure_ascii=False)):
            raise UsageError(f"--template-option: a value spells the special token {tag[0]!r}")
        names, likely = self.read_options
        read = ", ".join(sorted(likely)) or "no option"
        for name in sorted(set(self.options) - names):
            say(f"--template-option {name} has no effect: the chat template reads {read}")

    @property
    def read_options(self) -> tuple[set[str], set[str]]:
        """Returns what `variables` does, without what each template gets."""
        names, likely = Bounded(partial, variables)(in_use(self.templates))
        own = {*_OWN, "documents"}.union(*(template.tokens for template in self.templates))
        return names, likely - own

    def _json(self, name: str) -> dict[str, Any]:
        file = Path(self.path) / name
        value = json_of(str(file)) if file.is_file() else {}
        return value if isinstance(value, dict) else {}

    @cached_property
    def context_length(self) -> int | None:
        """Returns how many tokens the model reads; None where the folder does not say."""
        lengths = [self._json(name).get(key) for name, key in _CONTEXT.items()]
        return next((n for n in lengths if type(n) is int and 0 < n < _NO_LIMIT), None)

    @property
    def files(self) -> dict[str, bytes]:
        """Returns the files of templates and vocabulary, by name: a folder of these is the same."""
        here = Path(self.path)
        names = (*NAMES, *TEMPLATE_FILES)
        files = [here / name for name in names] + sorted(here.glob(f"{TEMPLATE_FOLDER}/*.jinja"))
        return {f.relative_to(here).as_posix(): f.read_bytes() for f in files if f.is_file()}

    @cached_property
    def fingerprint(self) -> str:
        """Returns a SHA-256 that is equal for equal templates with equal tokens."""
        rows = [[t.name, t.text, t.tokens, sorted(t.stops)] for t in self.templates]
        data = json.dumps([rows, sorted(self.special)], sort_keys=True)
        return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """Returns the vocabulary; None where the folder has none that is read."""
        try:
            return self.required_vocabulary
        except VocabularyError:
            return None

    @cached_property
    def required_vocabulary(self) -> Vocabulary:
        """Returns the vocabulary. Raises VocabularyError where the folder has none that is read."""
        return read_vocabulary(self.path)

    @cached_property
    def encoder(self) -> RenderingEncoder:
        assert self.vocabulary is not None
        return RenderingEncoder(self.vocabulary)

    def ids(self, aligned: Aligned) -> Ids:
        """Returns the ids of a rendering, and where in it each begins (code points).

        Raises ValueError as `RenderingEncoder.encoded` returns them.
        """
        (ids,) = self.encoder.encoded([aligned])
        if isinstance(ids, ValueError):
            raise ids
        return ids

    def outcomes(self, calls: Sequence[tuple[Any, ...]]) -> Iterator[Outcome | OutOfBoundsError]:
        """Yields what is known of conversations: the places of all texts, why one has no text, or
        what has no place; or where the rendering of one was stopped."""
        for outcome in self._aligned.each(calls):
            assert not isinstance(outcome, str)
            yield outcome

    def text(self, chat: Chat) -> str | Failed:
        """Returns the text of a chat, or why it has none. Raises OutOfBoundsError."""
        text: str | Failed = self._aligned(*arguments_of(chat), "written")
        return text

    def stray(self, chat: Chat) -> Finding | None:
        """Returns the finding about a special token that tools, keys, ids or options spell."""
        if _STRAY not in chat.facts:
            chat.facts[_STRAY] = self.stray_tag(arguments_of(chat))
        tag, what = chat.facts[_STRAY], "a tool, key, id or option"
        message = f"{what} spells the special token {tag!r}; remove it"
        return None if tag is None else Finding("MYP301", message)

    def stray_tag(self, arguments: Arguments) -> str | None:
        """Returns a special token that is not in a text, where nothing would keep it text."""
        messages, tools, options = arguments  # the bytes of strings are in those of values
        if not self._tags.search(marshal.dumps((messages, options), PLAIN) + (tools or b"")):
            return None
        rest = [Aligner.without_texts(messages), options, tools and marshal.loads(tools)]
        tags = self.encoder.tags if self.vocabulary else spelled(self.special)
        tag = tags.search(json.dumps(rest, ensure_ascii=False))
        return tag[0] if tag else None

    @cached_property
    def _tags(self) -> re.Pattern[bytes]:
        """Returns what finds special tokens, and perhaps others, without the whole vocabulary."""
        is_loaded = "vocabulary" in self.__dict__ or not (Path(self.path) / NAMES[-1]).is_file()
        tags = self.encoder.tags if is_loaded and self.vocabulary else spelled(self.special)
        return re.compile(tags.pattern.encode("utf-8", "surrogatepass"))

    def read(self, _: object, chat: Chat) -> tuple[None, list[Finding]]:
        """Returns the findings of a chat, and no Episode, because no format is known."""
        findings = self.placed(chat)[1]
        if chat.is_readable and chat.rejected:
            messages = (*chat.messages[: chat.shared], *chat.rejected)
            rejected = self.placed(replace(chat, messages=messages, rejected=()))[1]
            findings += [finding for finding in rejected if finding not in findings]
        return None, findings

    def render(self, chats: Iterable[Chat]) -> None:
        """Renders chats at once: what is known of each is a fact of it."""
        chats = [] if self.stopped >= _MAX_STOPPED else [*filter(self.is_rendered, chats)]
        stopped = self.stopped
        for chat, outcome in zip(chats, self.outcomes([*map(arguments_of, chats)]), strict=False):
            chat.facts[RENDERING] = outcome
            stopped = stopped + 1 if isinstance(outcome, OutOfBoundsError) else 0
            if stopped == _MAX_STOPPED:
                break

    def placed(self, chat: Chat) -> tuple[Aligned | None, list[Finding]]:
        """Returns the rendering of a chat, None where a text has no place, and the findings."""
        if not self.is_rendered(chat):
            refusal = self.refusal(chat) if chat.is_readable and chat.messages else None
            return None, [refusal] if refusal else []
        if self.stopped >= _MAX_STOPPED:
            message = f"not rendered: the {_MAX_STOPPED} renderings before it were stopped"
            return None, [Finding("MYP730", message, help=GROWS)]
        if RENDERING not in chat.facts:
            self.render([chat])
        outcome = chat.facts[RENDERING]
        if isinstance(outcome, OutOfBoundsError):
            self.stopped += 1
            return None, [Finding("MYP730", f"rendering was stopped after {outcome}", help=GROWS)]
        self.stopped = 0
        findings = list(self.findings(outcome, chat))
        return (outcome if isinstance(outcome, Aligned) else None), findings

    def is_rendered(self, chat: Chat) -> bool:
        """Returns whether `placed` renders a chat, unless rendering was stopped before."""
        return chat.is_readable and bool(chat.messages) and not self.refusal(chat)

    def refusal(self, chat: Chat) -> Finding | None:
        """Returns why a chat is not rendered, if that is known before."""
        if media := [part for message in chat.messages for part in message.media]:
            kind = media[0].value.get("type") if isinstance(media[0].value, dict) else "part"
            message = f"{kind}: only texts are rendered, so the template is not checked here"
            hint = "omit --model to lint it; to prepare it, put a text in its place"
            return Finding("MYP730", message, media[0].at, help=hint)
        options = chat.extras.get(_OPTIONS, {})
        if not isinstance(options, dict):
            return Finding("MYP104", f'"{_OPTIONS}" must be an object', f"/{_OPTIONS}")
        if own := sorted(_OWN & set(options)):
            message = f'"{_OPTIONS}" has "{own[0]}", which trainers pass themselves'
            return Finding("MYP730", message, f"/{_OPTIONS}", help=f'remove "{own[0]}"')
        return None

    def findings(self, outcome: Outcome, chat: Chat) -> Iterator[Finding]:
        """Yields what is wrong with the rendering of a chat."""
        if isinstance(outcome, Failed):
            does = "refuses this conversation" if outcome.refused else "fails"
            yield Finding("MYP730", f"the chat template {does}: {outcome.message}")
        elif isinstance(outcome, Aligned):
            yield from self._of_rendering(outcome, chat)
        elif outcome is None:
            yield Finding("MYP732", "the chat template writes other texts than those of the record")
        elif outcome.message < 0:  # CHANCE
            yield Finding("MYP739", "the chat template renders a record in two ways")
        else:
            size = outcome.cut_at
            does, where = ("cuts off", f" after {size} characters") if size else ("rewrites", "")
            kind = _KINDS.get(outcome.kind, outcome.kind)
            yield _at("MYP732", f"the chat template {does} this {kind}{where}", outcome, chat)

    def _of_rendering(self, outcome: Aligned, chat: Chat) -> Iterator[Finding]:
        yield from (*filter(None, [self.stray(chat)]), *rendered_twice(chat))
        yield from self._of_thoughts(outcome, chat)
        yield from self._of_missing(outcome, chat)
        for index, key, word in outcome.absent:
            message = f'the chat template writes "{word}" for the absent "{key}" of this message'
            yield Finding("MYP738", message, chat.messages[index].at)
        absent = [t.name for t in chat.tools or () if t.name and t.name.text not in outcome.text]
        if absent:
            listed = ", ".join(name.text for name in absent[:3])
            more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
            message = f"the chat template leaves out the declared tools: {listed}{more}"
            yield located("MYP731", message, absent[0])
        yield from (f for f in bare_tools(chat) if self.tells_bare_tools)
        for span in outcome.trained:
            if not span.stopped and span.message >= 0:
                message = "no stop token is trained after this answer"
                yield Finding("MYP733", message, chat.messages[span.message].at)
        for index in outcome.other_prompts:
            message = "the prompt of this answer is not the beginning of what is trained"
            yield Finding("MYP734", message, chat.messages[index].at)
        yield from self._of_length(outcome, chat)

    def _of_missing(self, outcome: Aligned, chat: Chat) -> Iterator[Finding]:
        """Yields what is left out: a call once, an answer of which nothing is left as an error."""
        written = {piece.message for piece in outcome.pieces}
        calls = {leaf.path[:3] for leaf in outcome.missing if leaf.kind == NAME}  # their paths
        for leaf in outcome.missing:
            source = chat.messages[leaf.message]
            trained = source.role == "assistant" and (source.weight is None or source.weight.value)
            is_empty = trained and leaf.message not in written
            is_earlier = leaf.kind == THOUGHT and leaf.message <= chat.last_question
            if (is_earlier and not is_empty) or (leaf.kind != NAME and leaf.path[:3] in calls):
                continue  # MYP737, or an argument of a call that is left out whole
            kind = "call" if leaf.kind == NAME else _KINDS.get(leaf.kind, leaf.kind)
            message = f"the chat template leaves out this {kind}"
            finding = _at("MYP731", message, leaf, chat)
            if is_empty:
                message += ", and with it all of the answer: an empty answer would be trained"
                finding = regraded(replace(finding, message=message, help=_EMPTY), "error")
            yield finding

    def _of_thoughts(self, outcome: Aligned, chat: Chat) -> Iterator[Finding]:
        """Yields what many records of a file have alike: each is one finding of the file."""
        last = chat.last_question
        for leaf in [x for x in outcome.missing if x.kind == THOUGHT and x.message < last][:1]:
            message = "the chat template leaves out thoughts before the last question"
            yield regraded(replace(_at("MYP737", message, leaf, chat), help=_EARLIER), "info")
        answers = [m for m in chat.messages[last + 1 :] if m.role == "assistant"]
        thinks = any(m.thoughts or any(tag in m.text for tag in THOUGHT_TAGS) for m in answers)
        options = ",".join({*self.options, *chat.extras.get(_OPTIONS, ())})
        is_decided = "think" in options or "reasoning" in options
        if answers and not (thinks or is_decided or self.thoughts == _WITHOUT):
            message = "the last answer has no thoughts, and the chat template writes thoughts"
            yield Finding("MYP737", message, answers[-1].at, help=_NO_THOUGHTS)

    @cached_property
    def thoughts(self) -> str:
        """Returns which thoughts the template writes, in words."""
        user = Message("user", "user", "", (Text("Hi!", ""),))
        answer = Message("assistant", "assistant", "", (Text("Hello.", ""),), (Text("Hm.", ""),))
        (outcome,) = self.outcomes([arguments_of(Chat("openai", (user, answer) * 2))])
        missing = {x.message for x in outcome.missing} if isinstance(outcome, Aligned) else {1, 3}
        earlier = " before the last question" * (3 not in missing)
        return f"no thoughts{earlier}; they are left out" if missing else "all thoughts"

    @cached_property
    def tells_bare_tools(self) -> bool:
        """Whether the text of a tool that is not under the key `function` is another one."""
        forms = [{"name": "f"}], [{"type": "function", "function": {"name": "f"}}]
        question: Any = [{"role": "user", "content": ""}]
        both = self.outcomes([(question, marshal.dumps(form, PLAIN), {}) for form in forms])
        return len({x.text for x in both if isinstance(x, Aligned)}) > 1

    def _of_length(self, outcome: Aligned, chat: Chat) -> Iterator[Finding]:
        if self.context_length is None or self.vocabulary is None:
            return
        if len(outcome.text.encode()) <= self.context_length:
            return  # a token has a byte at least
        try:
            ids, starts = self.ids(outcome)
        except ValueError:  # then no length is known
            return
        if len(ids) <= self.context_length:
            return
        limit = int(starts[self.context_length])
        lengths = f"the conversation has {len(ids)} tokens, the model reads {self.context_length}"
        for span in outcome.trained:
            at = chat.messages[span.message].at if span.message >= 0 else ""
            if span.start >= limit:
                yield Finding("MYP736", f"{lengths}: this answer is beyond", at)
            elif span.end > limit:
                yield Finding("MYP735", f"{lengths}: this answer is cut off", at)


def arguments_of(chat: Chat) -> Arguments:
    """Returns the messages, tools (packed) and options of a chat, as a template takes them."""
    if _OPTIONS not in chat.facts:
        tools = None if chat.tools is None else [tool.value for tool in chat.tools]
        options = chat.extras.get(_OPTIONS)
        options = options if isinstance(options, dict) else {}
        packed = None if tools is None else marshal.dumps(tools, PLAIN)
        chat.facts[_OPTIONS] = [m.as_openai() for m in chat.messages], packed, options
    arguments: Arguments = chat.facts[_OPTIONS]
    return arguments


def _at(code: str, message: str, leaf: Leaf, chat: Chat) -> Finding:
    """Returns a finding at the place that the record has for a text."""
    source = chat.messages[leaf.message]
    _, key, *path = leaf.path
    if key == "tool_calls":
        call = source.calls[int(path[0])]
        if leaf.kind != NAME and call.arguments is not None:
            pointer = "".join(f"/{escape(str(token))}" for token in path[3:])
            return located(code, message, call.arguments, pointer)
        return located(code, message, call.name)
    texts = source.content if key == "content" else source.thoughts
    return located(code, message, texts[0]) if texts else Finding(code, message, source.at)


def _turn_ends(aligned: Aligned) -> Iterator[str]:
    """Yields the tags that end the answers of two questions with one answer each.

    It is the last tag of the end, if that is tags alone, and after both answers. Else, of the tags
    between an answer and a question, the last one begins the question. One that ends the question,
    too, comes before others, then one as `<|end|>`.
    """
    question, first, second, last = aligned.pieces
    regions = (question.end, first.start), (first.end, second.start), (last.end, None)
    texts = [aligned.text[a:b] for a, b in regions]
    asked, tags, at_end = map(LIKELY_SPECIAL.findall, texts)
    is_end = not LIKELY_SPECIAL.sub("", texts[2]).strip() and texts[1].startswith(texts[2].rstrip())
    for some in filter(None, [at_end[-1:]] if is_end else [at_end, at_end and tags[:-1]]):
        ends = {*asked[:1]} & {*tags} & {*some}
        yield min(ends) if ends else min(some, key=lambda tag: tag[1] not in "|｜")
