"""Decides what becomes of one line of input: encoded episodes, or why not.

Input: a line of JSONL. Output: an LineOutcome. What `mypt-lint` refuses under the same settings is
refused here, and nothing else. Most lines are proved clean by the linter's fast path and encoded by
a template (`templates`); all others are read as the linter reads them.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from mypt_cli.jsonl.line import read_line
from mypt_lint.check.from_settings import checker
from mypt_lint.fast.adapter_scan import LineParts
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.fast.schema_splitter import SchemaSplitter
from mypt_lint.settings.settings import NO_SETTINGS, Settings
from mypt_spec.adapters.message_splitter import MessageSplitter
from mypt_spec.encoder import Mask
from mypt_spec.episode import Episode, events_of
from mypt_spec.findings import RULES, Finding, with_help
from mypt_spec.history import beginnings, by_model, official, turn_starts
from mypt_spec.masks.failures import FAILED
from mypt_spec.masks.record import own_weights
from mypt_spec.states import turns
from mypt_spec.table import TEXT
from mypt_train.data.formats.manifest import BAD, CHOSEN, GOOD, REJECTED, SFT, dtype_of
from mypt_train.data.formats.options import Options
from mypt_train.data.templates.chats import Chat, ChatTemplates
from mypt_train.data.templates.histories import answers, tally
from mypt_train.data.templates.records import Templates
from mypt_train.data.templates.template import Sample, filled
from mypt_train.data.unit_files import LONG, REFUSED, WRITTEN

# What a line has in which a result says that its call failed, escapes of letters included.
_MAY_FAIL = re.compile(rb"[eE]rror|success|\\u00[4-7]")


class LineOutcome(NamedTuple):
    """The outcome for a line: written as samples, refused with findings, or too long.

    `tags` counts the terminals in the samples, `history` what a policy made of the conversation,
    `warned` the warnings about a line that was written, by code.
    """

    status: str
    samples: tuple[Sample, ...] = ()
    findings: tuple[Finding, ...] = ()
    tags: Counter[str] | None = None
    history: Counter[str] | None = None
    warned: Counter[str] | None = None


class _Turn(NamedTuple):
    """A turn as an episode: what the policy made of it, and how often it has each terminal."""

    sample: Sample
    counts: Counter[str]
    tags: Counter[str]


class Encoder:
    """Turns lines into samples, for one set of options.

    `rules` are the settings of `mypt-lint` for these lines. `dtype` is the type of ids.
    """

    def __init__(self, options: Options, rules: Settings = NO_SETTINGS) -> None:
        self.options = options
        self.dialect = options.loaded_dialect
        self.dtype = np.dtype(dtype_of(self.dialect.tokenizer.vocab_size))
        base = checker(rules, self.dialect, with_fixes=False)
        limits = replace(base.limits, phase=base.limits.phase or options.phase)
        self.checker = replace(base, limits=limits)
        self.counting = rules.counting
        # What the settings hide of a line is for the checker: lines that are proved clean need no
        # settings. What is neither counted nor reported is no reason to read a line.
        quiet = {
            code
            for code, rule in RULES.items()
            if rule.severity == "info" == base.severity(Finding(code, ""))
        }
        quiet = set() if "info" in self.counting else quiet
        self.clean_filter = CleanFilter(
            replace(self.checker, codes=frozenset(RULES).difference(quiet), severities=()),
            with_parts=not options.preferences,
        )
        self.refuses_crlf = bool(self._against([Finding("MYP010", "")]))
        self.templates: Templates | None = None
        self.chats: ChatTemplates | None = None
        by_adapter = self.clean_filter.by_adapter
        split = by_adapter.splitter if by_adapter is not None else None
        one_loss = Mask.from_name(options.mask).arguments
        # Templates do not read results: lines that may have a failed call are read.
        self.may_fail = None if Mask.from_name(options.mask).failed_calls else _MAY_FAIL
        episode_mask = str(Mask.from_name(options.episode_mask)._replace(failed_calls=True))
        if options.preferences or options.message_indices or not one_loss:
            pass  # each line is read: templates have one loss for each text, and no places
        elif isinstance(split, MessageSplitter):
            self.chats = ChatTemplates(
                self.dialect, split, episode_mask, history=options.history,
                only_last=Mask.from_name(options.mask).last,
            )  # fmt: skip
        elif (
            options.history == "keep"
            and isinstance(split, SchemaSplitter)
            and not self.dialect.table.glue
        ):
            self.templates = Templates(self.dialect, split, episode_mask)

    def lines(self, raw_lines: list[bytes], *, first: bool = False) -> list[LineOutcome]:
        """Returns the outcomes of several lines: the same as `line` of each, but faster.

        If a record is proved clean and its template is known, only its texts are encoded. `first`
        says that the first line is the first of its file.
        """
        lines = raw_lines if self.refuses_crlf else [raw.removesuffix(b"\r") for raw in raw_lines]
        out: list[LineOutcome | None] = [None] * len(lines)
        matches: list[tuple[int, Chat, list[Any]]] = []
        if self.options.preferences:
            return [self.line(raw, first=first and i == 0) for i, raw in enumerate(lines)]
        parts: list[LineParts | None] = []
        doubtful = set(self.clean_filter.doubtful(lines, parts))
        doubtful |= {i for i, raw in enumerate(lines) if raw.endswith(b"\r")}
        for i, part in enumerate(parts):
            may_fail = self.may_fail is not None and self.may_fail.search(lines[i])
            if part is None or i in doubtful or may_fail:
                continue
            if self.chats is not None:
                match = self.chats.find(part, lines[i])
                if match is not None:
                    matches.append((i, *match))
            elif self.templates is not None:
                alone = self.templates.find_template(part, lines[i])
                if alone is not None:
                    matches.append((i, Chat([alone[0]]), alone[1]))
        every = [(template, values) for _, chat, values in matches for template in chat.templates]
        samples = filled(every, self.dialect.tokenizer, self.dtype)
        for i, chat, _ in matches:
            out[i] = self._of_templates(chat, list(islice(samples, len(chat.templates))))
        # What is proved clean is read without being checked, but for the first line of a file.
        for i in range(int(first), len(lines)):
            if out[i] is None and i not in doubtful:
                record = json.loads(lines[i])
                episode, _ = self.dialect.read(record)
                out[i] = self._outcome(record, episode, proved=True) if episode else None
        return [
            outcome or self.line(lines[i], first=first and i == 0) for i, outcome in enumerate(out)
        ]

    def _of_templates(self, chat: Chat, samples: list[Sample]) -> LineOutcome | None:
        """Returns the outcome of a line by the templates of its episodes.

        None where the line must be read: a turn is too long, and others are to be left out of it.
        """
        templates = chat.templates
        if self.options.history == "keep" and self._fits(samples[0]):
            return LineOutcome(WRITTEN, (samples[0],), tags=templates[0].tags)
        counts = [
            Counter({**base, **sample.counts})
            for base, sample in zip(chat.counts, samples, strict=False)
        ]
        if self.options.history == "per-turn":
            long = not all(map(self._fits, samples))
            if long and self.options.long == "split-turns":
                return None
            each = [
                _Turn(sample, count, template.tags)
                for sample, count, template in zip(samples, counts, templates, strict=True)
            ]
            return self._of_turns(each, lambda _: None)
        (sample,), (template,) = samples, templates
        if not self._fits(sample):
            return self._too_long(sample)
        counts[0]["whole_tokens"] = len(sample.ids)
        return LineOutcome(WRITTEN, (sample,), tags=template.tags, history=counts[0])

    def line(self, raw: bytes, *, first: bool = False) -> LineOutcome:
        """Returns the outcome of a line of JSONL without its line end; never raises.

        `first` says that the line is the first of its file.
        """
        line = read_line(raw, first=first)
        if line.fault is not None:
            return refused(line.fault.finding)
        return self.record(line.value, [spot.finding for spot in line.spots])

    def _against(self, findings: Iterable[Finding]) -> list[Finding]:
        """Returns the findings for which a line is refused."""
        graded = (self.checker.graded(f) for f in findings if self.checker.selects(f.code))
        return [f for f in graded if f.severity in self.counting]

    def record(self, record: Any, about: Iterable[Finding] = ()) -> LineOutcome:
        """Returns the outcome of a JSON value; `about` are the findings about its line."""
        episode, findings = self.checker.read(record)
        against = self._against([*about, *findings])
        if episode is None or against:
            return refused(*(map(with_help, against) if self.checker.shape else against))
        warned = self._warnings([*about, *findings])
        outcome = self._outcome(record, episode)
        return outcome._replace(warned=warned) if warned else outcome

    def _warnings(self, findings: Iterable[Finding]) -> Counter[str]:
        graded = (self.checker.graded(f) for f in findings if self.checker.selects(f.code))
        return Counter(f.code for f in graded if f.severity == "warning")

    def _outcome(self, record: Any, episode: Episode, *, proved: bool = False) -> LineOutcome:
        """Returns the outcome of a record that nothing is against: one line never ends a run."""
        try:
            return self._encoded(record, episode, proved=proved)
        except ValueError as error:
            code, _, message = str(error).partition(" ")
            coded = code in RULES
            return refused(Finding(code if coded else "MYP301", message if coded else str(error)))

    def _encoded(self, record: Any, episode: Episode, *, proved: bool) -> LineOutcome:
        if self.options.preferences:
            return self._preference(record, episode)
        if self.options.history == "per-turn":
            return self._turns(episode, proved=proved)
        sample = self.sample(episode, proved=proved)
        if self._fits(sample):
            return self._written([episode], [sample])
        if (outcome := self._too_long(sample)) is not None:
            return outcome
        parts = self._split(episode)
        if not parts:
            return self._not_split(sample, "the format has no place to split it")
        samples = [self.sample(part) for part in parts]
        if not all(map(self._fits, samples)):
            return self._not_split(sample, "one of its turns alone does not fit")
        return self._written(parts, samples)

    def _written(self, episodes: list[Episode], samples: list[Sample]) -> LineOutcome:
        counts = None
        if self.options.history != "keep":
            last = Mask.from_name(self.options.mask).last
            counts = self._tally(episodes, samples)
            counts["answers"] = sum(answers(e, self.dialect, last=last) for e in episodes)
            counts["whole_tokens"] = counts["tokens"]
        return LineOutcome(WRITTEN, tuple(samples), tags=self._tags(episodes), history=counts)

    def _tally(self, episodes: list[Episode], samples: list[Sample]) -> Counter[str]:
        counts = Counter[str]()
        for before, sample in zip(episodes, samples, strict=True):
            counts.update(tally(before, self.dialect))
            counts.update(sample.counts)
        return counts

    def _turns(self, episode: Episode, *, proved: bool) -> LineOutcome:
        table, steps = self.dialect.table, bool(self.dialect.adapter.prompted(episode.meta))
        if steps:  # an episode may end before the result of its last call
            failed = [*self.dialect.failed_calls(episode).values()]
            episode = replace(episode, meta=episode.meta | {FAILED: failed})
        parts = beginnings(episode, table, self.dialect.automaton, steps=steps)
        if Mask.from_name(self.options.mask).last:
            turns = len(turn_starts(episode.messages, table))
            parts = [p for p in parts if len(turn_starts(p.messages, table)) == turns]

        def turn(part: Episode, sample: Sample) -> _Turn:
            return _Turn(sample, self._tally([part], [sample]), self._tags([part]))

        def shortened(number: int) -> _Turn | None:
            part, sample = self._shortened(parts[number])
            return None if sample is None else turn(part, sample)

        return self._of_turns(
            [turn(part, self.sample(part, proved=proved)) for part in parts], shortened
        )

    def _of_turns(
        self, turns: list[_Turn], shortened: Callable[[int], _Turn | None]
    ) -> LineOutcome:
        """Returns the outcome of a conversation by its turns; `shortened` makes one of a number
        fit.

        A turn of which nothing is trained gets no episode, unless no turn would.
        """
        trained_turns: list[_Turn] = []
        counts = Counter(whole_tokens=len(turns[-1].sample.ids))
        for number, turn in enumerate(turns):
            sample, final = turn.sample, number == len(turns) - 1
            if not sample.mask.any() and (trained_turns or not final):
                counts["untrained_answers"] += 1
                continue
            if not self._fits(sample):
                none = self._too_long(sample)
                if none is None:
                    shorter = shortened(number)
                    if shorter is None:
                        return self._not_split(sample, "its last turn alone does not fit")
                    turn = shorter
                    counts["shortened_answers"] += 1
                elif none.status == REFUSED or (final and not trained_turns):
                    return none
                else:
                    counts["too_long_answers"] += 1
                    continue
            counts["answers"] += bool(turn.sample.mask.any())
            trained_turns.append(turn)
        tags = Counter[str]()
        for turn in trained_turns:
            counts.update(turn.counts)
            tags.update(turn.tags)
        samples = tuple(turn.sample for turn in trained_turns)
        return LineOutcome(WRITTEN, samples, tags=tags, history=counts)

    def _shortened(self, episode: Episode) -> tuple[Episode, Sample | None]:
        """Returns an episode without its first turns, as few as a row needs, and its sample."""
        messages = episode.messages
        starts = turn_starts(messages, self.dialect.table)
        for begin in starts[1:]:
            part = replace(episode, messages=messages[: starts[0]] + messages[begin:])
            sample = self.sample(part)
            if self._fits(sample):
                return part, sample
        return episode, None

    def _preference(self, record: dict[str, Any], episode: Episode) -> LineOutcome:
        """Returns the outcome of a record of preferences, which is never split.

        It is a pair of samples, the chosen one first, or one sample with a label.
        """
        if self.checker.shape:  # the dialect reads what the record became
            record = self.dialect.write(episode)
        other, label = self.dialect.preference(record)
        episodes, kinds = [episode], [SFT if label is None else GOOD if label else BAD]
        if other is not None:
            rejected, findings = self.dialect.read(other)
            if rejected is None:
                return refused(*[f for f in findings if f.severity == "error"])
            episodes, kinds = [episode, rejected], [CHOSEN, REJECTED]
        samples = tuple(
            self.sample(e)._replace(kind=kind) for e, kind in zip(episodes, kinds, strict=True)
        )
        long = next((s for s in samples if not self._fits(s)), None)
        if long is not None:
            return self._too_long(long) or refused(self._length_finding(long))
        return LineOutcome(WRITTEN, samples, tags=self._tags(episodes))

    def sample(self, episode: Episode, *, proved: bool = False) -> Sample:
        """Returns the ids and targets of an episode; see "Loss" of each `grammar/*/SPEC.md`.

        Its first token is never a target, because no token before it could predict it. Nothing is
        found in an episode that is `proved`.
        """
        episode = self._by_policy(episode)
        encoded = self.dialect.encode(episode, mask=self.options.episode_mask, proved=proved)
        mask = encoded.loss.copy()
        mask[:1] = 0
        weights = encoded.weights
        if weights is not None:
            weights[:1] = 0
        last = Mask.from_name(self.options.episode_mask).last  # no weight acts in what comes before
        starts = turn_starts(episode.messages, self.dialect.table) if last else []
        turn = episode.messages[starts[-1] if starts else 0 :]
        if self.options.history == "per-turn" and self.dialect.adapter.prompted(episode.meta):
            ours = [by_model(message, self.dialect.table) for message in turn]
            turn = turn[len(ours) - ours[::-1].index(False) :] if False in ours else turn
        weighed = any(weight != 1 for message in turn for weight in own_weights(message))
        messages = encoded.message_indices if self.options.message_indices else None
        ids = encoded.ids.astype(self.dtype)
        return Sample(ids, mask, weights=weights, weighed=weighed, messages=messages)

    def _by_policy(self, episode: Episode) -> Episode:
        keep = self.options.history == "keep"
        return episode if keep else official(episode, self.dialect.table)

    def _fits(self, sample: Sample) -> bool:
        return not self.options.pack or len(sample.ids) <= self.options.context_length

    def _length_finding(self, sample: Sample) -> Finding:
        return Finding(
            "MYP502",
            f"the episode has {len(sample.ids)} tokens; a row holds {self.options.context_length}",
        )

    def _too_long(self, sample: Sample) -> LineOutcome | None:
        """Returns the outcome of an episode that does not fit a row; None if it is to be split."""
        if self.options.long == "split-turns":
            return None
        return LineOutcome(
            REFUSED if self.options.long == "error" else LONG,
            findings=(self._length_finding(sample),),
        )

    def _not_split(self, sample: Sample, why: str) -> LineOutcome:
        finding = self._length_finding(sample)
        return refused(replace(finding, message=f"{finding.message}, and {why}"))

    def _split(self, episode: Episode) -> list[Episode]:
        """Returns the episode in parts of whole turns; [] if it cannot be split.

        Each part begins with the messages before the first turn.
        """
        messages, most = episode.messages, self.options.context_length
        table = self.dialect.table
        terminals = [[event.terminal for event in events_of([m], table)] for m in messages]
        head, bounds = turns(terminals, self.dialect.automaton, table)
        if len(bounds) < 2:
            return []

        def part(begin: int, end: int) -> Episode:
            return replace(episode, messages=messages[:head] + messages[begin:end])

        lengths = [len(self.sample(part(*span)).ids) for span in pairwise([head, *bounds])]
        # The tokens before the first turn, which are in each part.
        before = lengths[0] + lengths[1] - len(self.sample(part(head, bounds[1])).ids)
        parts: list[Episode] = []
        begin, size = head, lengths[0]
        for (end, _), length in zip(pairwise(bounds), lengths[1:], strict=True):
            size += length - before
            if size > most:
                parts.append(part(begin, end))
                begin, size = end, length
        parts.append(part(begin, len(messages)))
        return parts if len(parts) > 1 else []

    def _tags(self, episodes: list[Episode]) -> Counter[str]:
        table = self.dialect.table
        return Counter(
            e.terminal
            for episode in episodes
            for e in events_of(self._by_policy(episode).messages, table)
            if e.terminal != TEXT
        )


def refused(*findings: Finding) -> LineOutcome:
    """Returns the outcome of a line that is refused for some findings."""
    return LineOutcome(REFUSED, findings=findings)
