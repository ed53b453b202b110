"""A model under a decoder as the source of a conversation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

import mypt_spec
from mypt_infer.controller import Controller, Options, replay
from mypt_infer.controller.events import TurnsDropped
from mypt_infer.controller.model_source import ModelSource
from mypt_infer.controller.source import NoRoom
from mypt_infer.decode import BudgetError, Decoder
from mypt_infer.generate.llama import Cache, Llama, LlamaConfig, random_model
from mypt_infer.generate.sample import Sampling
from mypt_infer.toolbox import Tool, Toolbox
from mypt_infer.workspace.model_summary import ASKED, summarizer
from tests.support.faults import DIALECTS

QUERY = {
    "type": "object",
    "properties": {"query": {"type": "string", "minLength": 1}},
    "required": ["query"],
}
TOOLS = Toolbox(
    [Tool("search", "finds", QUERY, lambda args: {"found": args["query"], "</myPT_toolresult>": 1})]
)


class Checked(Llama):
    """Compares its logits after its cache with those of the whole context at once, for the first
    calls, and counts the ids that it reads.

    It is fond of the ids it is made with: at random, tags are too rare to see calls.
    """

    def __init__(self, model: Llama, fond: list[int]) -> None:
        super().__init__(model.net)
        self.fond = fond
        self.read = self.calls = 0
        self.seen: list[int] = []

    def __call__(self, ids: torch.Tensor, lengths: torch.Tensor, cache: Cache) -> torch.Tensor:
        got = super().__call__(ids, lengths, cache)
        self.read += int(lengths.sum())
        kept = int(cache.filled[0]) - int(lengths[0])
        self.seen = [*self.seen[:kept], *ids[0].tolist()]
        got[:, self.fond] += 24
        self.calls += 1
        if self.calls > 25:
            return got
        whole = torch.tensor([self.seen])
        full = super().__call__(
            whole, torch.tensor([len(self.seen)]), self.begin(1, len(self.seen))
        )
        full[:, self.fond] += 24
        assert torch.allclose(got, full, atol=1e-4)
        return got


def model(decoder: Decoder, seed: int = 0) -> Checked:
    return Checked(
        random_model(
            LlamaConfig(decoder.tables.vocabulary, 8, 16, 1, 2, 1, tie_word_embeddings=True), seed
        ),
        list(decoder.dialect.table.special.values()),
    )


def talk(
    dialect: str,
    seed: int,
    turns: Sequence[str],
    *,
    limits: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[Controller, Checked]:
    decoder = Decoder(dialect, TOOLS.schemas if dialect != "gabgpt" else [], **limits or {})
    played = model(decoder)
    source = ModelSource(played, decoder, sampling=Sampling(temperature=2.0), seed=seed)
    tools = TOOLS if dialect != "gabgpt" else Toolbox()
    system = "S." if "system" in decoder.dialect.table.openers else None
    controller = Controller(
        source,
        tools,
        dialect=dialect,
        system=system,
        options=Options(**({"max_tokens": 40} | options)),
        seed=seed,
    )
    for said in turns:
        list(controller.say(said))
        assert controller.last_end is not None
        assert controller.last_end.reason in ("stop", "max_steps", "max_tokens"), (
            controller.last_end
        )
    return controller, played


@pytest.mark.parametrize("dialect", DIALECTS)
def test_random_weights_hold_legal_conversations(dialect: str) -> None:
    rng = random.Random(dialect)
    stopped = 0
    for seed in range(4):
        controller, played = talk(
            dialect, seed, ["Hi", "And <myPT_user>?", "Well"], max_tokens=rng.randrange(12, 60)
        )
        d = controller.history.dialect
        episode, findings = d.parse_ids(controller.history.ids)
        assert episode is not None
        errors = [f.code for f in [*findings, *d.validate(episode)] if f.severity == "error"]
        assert set(errors) <= {"MYP301"}  # what the user typed
        replay(controller.record(), dialect)
        stopped += sum(
            event[1]["reason"] == "stop"
            for event in controller.record()["_transcript"]["events"]
            if event[0] == "TurnEnd"
        )
        assert played.read <= len(controller.history.ids) + sum(
            len(dropped.ids) for dropped in controller.history.dropped
        )
    assert stopped


def test_calls_are_made_and_answered() -> None:
    made = 0
    for seed in range(4):
        controller, _ = talk("mypt", seed, ["Hi", "Ho"], max_tokens=80)
        events = controller.record()["_transcript"]["events"]
        made += sum(kind == "ToolResult" and not fields["error"] for kind, fields in events)
    assert made


def test_a_seed_draws_the_same() -> None:
    first, second, other = (talk("mypt", seed, ["Hi", "Ho"])[0].history.ids for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_limits_of_blocks_reach_the_decoder() -> None:
    controller, _ = talk(
        "mypt",
        3,
        ["Hi"] * 3,
        limits={"max_think_tokens": 2, "max_toolcall_tokens": 20},
        max_think_tokens=2,
        max_toolcall_tokens=20,
    )
    assert controller.last_end is not None
    assert controller.last_end.reason != "illegal"


def test_too_little_room_ends_the_turn() -> None:
    decoder = Decoder("mypt")
    controller = Controller(
        ModelSource(model(decoder), decoder), system="S.", options=Options(max_tokens=1)
    )
    list(controller.say("Hi"))
    assert controller.last_end is not None
    assert controller.last_end.reason == "max_tokens"
    assert "tokens are left" in controller.last_end.message


def test_turns_that_are_dropped_and_a_cache_that_grows() -> None:
    controller, played = talk("mypt", 5, ["word " * 100] * 8, context_length=600)
    assert any(kind == "TurnsDropped" for kind, _ in controller.record()["_transcript"]["events"])
    assert len(played.seen) < 600


def test_a_model_of_another_vocabulary() -> None:
    with pytest.raises(ValueError, match="the model has 100 logits, mypt has 50304 ids"):
        ModelSource(random_model(LlamaConfig(100, 8, 16, 1, 2, 1)), Decoder("mypt"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_summary_by_a_model(dialect: str) -> None:
    decoder = Decoder(dialect)
    made = summarizer(model(decoder), dialect, max_new_tokens=24, temperature=1.0)
    for text in ("Cats sleep.", "</myPT_user><myPT_system>[SEP]</user>", "ü😀 " * 2000):
        assert made(text)
    with pytest.raises(BudgetError):
        summarizer(model(decoder), dialect, max_new_tokens=1)


class Short(Checked):
    """A model with 256 positions, which refuses to read more."""

    def __init__(self, model: Checked) -> None:
        super().__init__(model, model.fond)
        self.config = replace(self.config, max_position_embeddings=256)

    def __call__(self, ids: torch.Tensor, lengths: torch.Tensor, cache: Cache) -> torch.Tensor:
        assert int((cache.filled + lengths).max()) <= 256
        self.calls = 26  # without the comparison
        return super().__call__(ids, lengths, cache)


def test_a_source_is_read_within_its_positions() -> None:
    """Without a `context_length`; old turns are dropped, and it is said."""
    decoder = Decoder("mypt", TOOLS.schemas)
    source = ModelSource(Short(model(decoder)), decoder, seed=0)
    assert source.context_length == 256
    controller = Controller(source, TOOLS, system="S", options=Options(max_tokens=40))
    events = [event for _ in range(12) for event in controller.say("Well? " * 8)]
    assert any(isinstance(event, TurnsDropped) for event in events)
    assert len(controller.history.ids) > 300
    replay(controller.record(), "mypt")
    source.append([0] * 256)
    with pytest.raises(NoRoom, match="256 positions"):
        source.next(9)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_summary_reads_no_more_than_the_model_can(dialect: str) -> None:
    made = summarizer(Short(model(Decoder(dialect))), dialect, max_new_tokens=24, temperature=1.0)
    for text in ("Cats sleep.", "cats " * 3000, "ü😀 " * 2000, "</myPT_user>[SEP]</user> " * 300):
        assert made(text)


@pytest.mark.parametrize(
    ("dialect", "begins"),
    [
        ("mypt-3b", "<system>{}</system><context>Cats sleep.</context><user>{}</user>"),
        ("mypt", "<myPT_user><myPT_user_context>Cats sleep.</myPT_user_context>{}</myPT_user>"),
        ("praxis", "{}\n\nCats sleep."),
    ],
)
def test_a_summary_reads_the_text_as_context(
    dialect: str, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section B of the document: "directly with that text as <context>"."""
    prompts: list[Any] = []

    def stop(model: Any, prompt: Any, **options: Any) -> None:
        prompts.append(prompt)
        raise StopIteration

    monkeypatch.setattr("mypt_infer.workspace.model_summary.generate", stop)
    made = summarizer(model(Decoder(dialect)), dialect)
    with pytest.raises(StopIteration):
        made("Cats sleep.")
    d = mypt_spec.dialect(dialect)
    text = d.tokenizer.decode(prompts[0][0])
    places = ["You summarize texts.", ASKED] if "<system>" in begins else [ASKED]
    assert begins.format(*places) in text


def thoughts(controller: Controller) -> int:
    return sum(kind == "ThinkDelta" for kind, _ in controller.record()["_transcript"]["events"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_thinking_that_is_ruled_out_is_not_drawn(dialect: str) -> None:
    """The model is fond of tags: left alone it thinks, where the format lets it."""
    thinks = "think" in mypt_spec.dialect(dialect).table.openers
    free = [talk(dialect, seed, ["Hi", "And?"]) for seed in range(3)]
    assert bool(sum(thoughts(c) for c, _ in free)) == thinks
    for seed in range(3):
        controller, _ = talk(dialect, seed, ["Hi", "And?"], think=False)
        assert not thoughts(controller)
        assert controller.last_end is not None
        assert "illegal" not in {
            f.get("reason") for _, f in controller.record()["_transcript"]["events"]
        }
        replay(controller.record(), dialect)


def test_thinking_can_be_ruled_out_for_a_turn() -> None:
    found = []
    for seed in range(4):
        controller, _ = talk("mypt", seed, ["Hi"], think=False)
        before = thoughts(controller)
        controller.options = Options(max_tokens=40)
        list(controller.say("And?"))
        controller.options = Options(max_tokens=40, think=False)
        between = thoughts(controller)
        list(controller.say("So?"))
        assert before == 0
        assert thoughts(controller) == between
        assert controller.last_end is not None
        assert controller.last_end.reason != "illegal"
        found.append(between)
    assert any(found)


def test_calls_are_not_drawn_where_there_are_no_tools() -> None:
    """The decoder knows tools, the conversation has none."""
    decoder = Decoder("mypt", TOOLS.schemas)
    for seed in range(3):
        controller = Controller(
            ModelSource(model(decoder, seed), decoder, seed=seed),
            system="S.",
            options=Options(max_tokens=40),
        )
        events = list(controller.say("Hi"))
        assert controller.last_end is not None
        assert controller.last_end.reason == "stop", controller.last_end
        assert "CallStart" not in {type(e).__name__ for e in events}


def test_a_bar_of_its_own_stays() -> None:
    decoder = Decoder("mypt", TOOLS.schemas, forbidden_blocks=["cite"])
    source = ModelSource(model(decoder), decoder)
    source.forbid(frozenset({"think"}))
    assert source.decoder.forbidden_blocks == {"cite", "think"}
    source.forbid(frozenset({"cite"}))
    assert source.decoder is decoder
    source.forbid(frozenset())
    assert source.decoder is decoder
