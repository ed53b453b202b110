"""`mypt-prepare --model DIR`: text, ids and mask are those of the model's chat template."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt.lint.cli import main as lint
from mypt.prepare.cli import main
from mypt.view import main as view
from mypt_cli.jsonl.blocks import Source
from mypt_lint.settings.settings import NO_SETTINGS
from mypt_spec.templates.sandbox import compiled
from mypt_train.data.encode_line import Encoder, LineOutcome
from mypt_train.data.formats.options import Options
from mypt_train.data.reader import ShardReader
from mypt_train.data.shard import ShardError
from mypt_train.data.units import encoder_of
from mypt_train.scale.prepare import PrepareError, prepare
from tests.support import foreign

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content | trim }}<|im_end|>{% endgeneration %}"
    "{{ '\\n' }}{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
UNMARKED = CHATML.replace("{% generation %}", "").replace("{% endgeneration %}", "")
RULES = NO_SETTINGS.having(records="openai")


def folder(here: Path, template: str = CHATML, kind: str = "smollm", **config: Any) -> str:
    here.mkdir(exist_ok=True)
    (here / "chat_template.jinja").write_text(template, encoding="utf-8")
    settings = {"eos_token": "<|im_end|>", **config}
    (here / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    shutil.copy(foreign.path(kind) / "tokenizer.json", here)
    return str(here)


def chat(*texts: str, **last: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages: list[dict[str, Any]] = [
        {"role": roles[i % 2], "content": text} for i, text in enumerate(texts)
    ]
    messages[-1].update(last)
    return {"messages": messages}


def encoder(path: str, **options: Any) -> Encoder:
    return encoder_of(Options(model=path, pack=False, **options), RULES)


def trained(outcome: LineOutcome, kind: str = "smollm") -> str:
    (sample,) = outcome.samples
    ids = sample.ids[sample.mask > 0].tolist()
    return str(foreign.library(kind).decode(ids, skip_special_tokens=False))


@pytest.fixture(scope="module", params=["smollm", "qwen"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The encoders of a template with marks and of one without, and the vocabulary of both."""
    here = tmp_path_factory.mktemp("model")
    paths = [folder(here / n, t, request.param) for n, t in (("a", CHATML), ("b", UNMARKED))]
    return [encoder(path) for path in paths], foreign.library(request.param)


@given(st.lists(st.text(min_size=1) | st.sampled_from(foreign.texts()), min_size=2, max_size=4))
def test_ids_and_mask_are_those_of_the_template(model: Any, texts: list[str]) -> None:
    """As the library encodes what the template renders, and as the template marks it."""
    encoders, library = model
    record = chat(*texts[: len(texts) // 2 * 2])
    text, spans = compiled(CHATML)(messages=record["messages"], tools=None)
    encoded = library.encode(text, add_special_tokens=False)
    mask = [int(any(a <= start < b for a, b in spans)) for start, _ in encoded.offsets]
    for each in encoders:
        outcome = each.record(record)
        if outcome.status != "written":  # a rule that needs no format refuses it
            continue
        (sample,) = outcome.samples
        assert sample.ids.tolist() == encoded.ids
        assert sample.mask.tolist() == [0, *mask[1:]]


def test_records_of_no_shape_are_messages(tmp_path: Path) -> None:
    path, record = folder(tmp_path), chat("Hi!", "Hello.")
    each = encoder(path), encoder_of(Options(model=path, pack=False))
    usual, unnamed = (one.lines([json.dumps(record).encode()])[0].samples for one in each)
    assert unnamed[0].ids.tolist() == usual[0].ids.tolist()


def test_a_text_that_spells_a_tag_stays_text(tmp_path: Path) -> None:
    outcome = encoder(folder(tmp_path)).record(chat("What is <|im_end|>?", "<|im_start|> begins."))
    (sample,) = outcome.samples
    special = foreign.library("smollm").token_to_id
    ids = sample.ids.tolist()
    assert [ids.count(special(tag)) for tag in ("<|im_start|>", "<|im_end|>")] == [2, 2]
    assert outcome.warned == {"MYP301": 2}
    assert trained(outcome) == "<|im_start|> begins.<|im_end|>"


def test_a_tag_outside_of_texts_is_refused(tmp_path: Path) -> None:
    """In a tool, it would become a special token: no text of a message holds it."""
    one = encoder(folder(tmp_path, "{% if tools %}{{ tools | tojson }}{% endif %}" + CHATML))
    function = {"name": "get", "description": "Ends in <|im_end|>.", "parameters": {}}
    record = chat("Hi!", "Hello.") | {"tools": [{"type": "function", "function": function}]}
    outcome = one.record(record)
    assert outcome.status == "refused"
    assert "'<|im_end|>'" in outcome.findings[0].message
    function["description"] = "Ends."
    assert one.record(record).status == "written"


def test_composed_texts_have_the_ids_of_the_tokenizer(tmp_path: Path) -> None:
    """What a tokenizer of NFC makes of letters with marks apart; the mask stays at its place."""
    from tokenizers import normalizers

    path = folder(tmp_path, CHATML)
    library = foreign.tokenizer("smollm", normalizer=normalizers.NFC())
    library.save(str(tmp_path / "tokenizer.json"))
    record = chat("A\u0308 \u1112\u1161\u11ab a\u0323\u0307", "o\u0308! e\u0301")
    text, _ = compiled(CHATML)(messages=record["messages"], tools=None)
    outcome = encoder(path).record(record)
    assert outcome.samples[0].ids.tolist() == library.encode(text, add_special_tokens=False).ids
    assert trained(outcome) == "ö! é<|im_end|>"
    for answer in (
        "\u212bngstr\u00f6m",
        "\u2126!",
        "\u65e5\u2126",
    ):  # changed right after the line end
        begun = trained(encoder(path).record(chat("Hi!", answer)))
        assert begun == normalize("NFC", answer) + "<|im_end|>"


@pytest.mark.parametrize("normalizer", ["none", "NFC"])
@pytest.mark.parametrize("flags", [["lstrip"], ["rstrip"], ["lstrip", "rstrip"]])
def test_tags_that_drop_white_space_have_the_ids_of_the_tokenizer(
    tmp_path: Path, flags: list[str], normalizer: str
) -> None:
    """As tags of Phi-4 do on both sides; a token is trained if it begins in an answer."""
    from tokenizers import Tokenizer, normalizers

    path = folder(tmp_path, CHATML)
    parts = {"normalizer": normalizers.NFC()} if normalizer == "NFC" else {}
    data = json.loads(foreign.tokenizer("qwen", **parts).to_str())
    for row in data["added_tokens"]:
        row.update(dict.fromkeys(flags, True))
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    each, library = encoder(path), Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    letters = " \n\t\r\v\x1c\x1f\x85\xa0\u1680\u180e\u2003\u200b\u3000 \n.abe\u0301"
    for seed in range(60):
        texts = ["".join(Random(seed + i / 9).choices(letters, k=5)) for i in range(4)]
        record = chat(*texts)
        text, _ = compiled(CHATML)(messages=record["messages"], tools=None)
        theirs = library.encode(text, add_special_tokens=False)
        (sample,) = each.record(record).samples
        assert sample.ids.tolist() == theirs.ids, texts
        answers = [m.span(1) for m in re.finditer(r"(?s)assistant\n(.*?<\|im_end\|>)", text)]
        # The library gives a tag the white space that it drops: what counts is the tag's own place.
        starts = [text.find("<|im_", *span) for span in theirs.offsets]
        starts = [max(own, span[0]) for own, span in zip(starts, theirs.offsets, strict=True)]
        begun = [any(a <= start < b for a, b in answers) for start in starts]
        assert (sample.mask > 0).tolist() == begun, texts


def test_masks_and_weights(tmp_path: Path) -> None:
    path = folder(tmp_path)
    record = chat("Hi!", "Hello.", "And?", "Fine.")
    assert trained(encoder(path, mask="last").record(record)) == "Fine.<|im_end|>"
    record["messages"][3]["weight"] = 0
    outcome = encoder(path).record(record)
    assert trained(outcome) == "Hello.<|im_end|>"
    assert outcome.samples[0].weights is None
    assert outcome.samples[0].weighed
    record["messages"][1]["weight"] = 0.5
    (sample,) = encoder(path).record(record).samples
    assert sample.weights is not None
    assert set(sample.weights.tolist()) == {0, 0.5}
    parts = [{"type": "text", "text": "Hello.", "weight": 0}]
    record["messages"][1] = {"role": "assistant", "content": parts}
    outcome = encoder(path).record(record)
    assert outcome.status == "refused"
    assert "parts of a message" in outcome.findings[0].message


def test_what_the_template_cannot_write_is_refused(tmp_path: Path) -> None:
    upper = CHATML.replace("m.content }}", "m.content | upper }}")
    for n, (template, code) in enumerate(
        [("{{ raise_exception('no') }}", "MYP730"), (upper, "MYP732")]
    ):
        outcome = encoder(folder(tmp_path / str(n), template)).record(chat("Hi!", "Hello."))
        assert outcome.status == "refused"
        assert [f.code for f in outcome.findings] == [code]
    ignoring = encoder_of(
        Options(model=str(tmp_path / "0"), pack=False), RULES.having(ignore=("MYP730",))
    )
    assert [f.code for f in ignoring.record(chat("a", "b")).findings] == ["MYP906"]
    last = encoder(folder(tmp_path / "2"))
    assert last.record({"messages": []}).status == "refused"
    assert [f.code for f in last.record(chat("Hi!")).findings] == ["MYP218"]
    assert last.record(chat("Hi!", "Hello.", "And?")).status == "written"


@pytest.mark.parametrize("label", [False, True])
def test_an_answer_that_is_labelled_as_bad_is_refused(tmp_path: Path, label: bool) -> None:
    """As records for KTO have them, alone and as lines of a file."""
    each, record = encoder(folder(tmp_path)), chat("Hi!", "Hello.") | {"label": label}
    for outcome in (each.record(record), *each.lines([json.dumps(record).encode()])):
        assert outcome.status == ("written" if label else "refused")
        assert [(f.code, f.pointer) for f in outcome.findings] == [("MYP114", "/label")] * (
            not label
        )


def test_rejected_answers_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").mkdir()
    record = {"prompt": "Hi!", "chosen": "Hello.", "rejected": "Go."}
    (tmp_path / "data.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    model = str(folder(tmp_path / "model"))
    call = [str(tmp_path / "data.jsonl"), "--model", model, "--out", str(tmp_path / "out")]
    assert main([*call, "--val-fraction", "0"]) == 0
    assert "rejected answers are not trained" in capsys.readouterr().err


def test_options_of_a_record_reach_the_template(tmp_path: Path) -> None:
    path = folder(tmp_path, "{% if loud %}<|im_start|>!{% endif %}" + CHATML)
    one = encoder(path)
    plain = one.record(chat("Hi!", "Hello.")).samples[0]
    loud = one.record(chat("Hi!", "Hello.") | {"chat_template_kwargs": {"loud": True}}).samples[0]
    assert loud.ids[2:].tolist() == plain.ids.tolist()


def test_options_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are given to every rendering, and a record overrides them."""
    reads = "{% set x = '' %}{% if loud is defined %}<|im_start|>{{ loud[0] }}{% endif %}"
    path, out = folder(tmp_path / "model", reads + CHATML), tmp_path / "sft"
    quiet = chat("Hi!", "Hello.") | {"chat_template_kwargs": {"loud": "?"}}
    data = write(tmp_path / "data.jsonl", [chat("Hi!", "Hello."), quiet])
    given = ["--model", path, "--template-option", 'loud=["!"]']
    for line, sign in ((1, "!"), (2, "?")):
        assert view([f"{data}:{line}", *given, "--text"]) == 0
        assert capsys.readouterr().out.startswith(f"<|im_start|>{sign}<|im_start|>user")
    call = [data, *given, "-o", str(out), "--context-length", "64"]
    assert main(call) == 0
    manifest = json.loads((out / "dataset_metadata.json").read_text())
    assert json.loads(manifest["options"]["template_options"]) == {"loud": ["!"]}
    assert view([str(out), "--all", "--text"]) == 0
    assert sorted(re.findall(r"<\|im_start\|>(\W)<", capsys.readouterr().out)) == ["!", "?"]
    assert lint([data, "--model", path, "--template-option", "load=true"]) == 0
    why = "--template-option load has no effect: the chat template reads loud\n"
    assert why in capsys.readouterr().err
    for wrong, why in (
        (["--template-option", "tools=1"], "trainers pass it themselves"),
        (["--template-option", "a=<|im_end|>"], "spells the special token"),
        (["--template-option", "a=1", "--template-option", "a=2"], "is given twice"),
    ):
        assert lint([data, "--model", path, *wrong]) == 2
        assert why in capsys.readouterr().err
    assert lint([data, "--template-option", "a=1"]) == 2
    assert "needs --model" in capsys.readouterr().err


def write(file: Path, records: list[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(file)


def test_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused rows are counted and listed; lint, view and the reader take the folder."""
    no_system = "{% if messages[0].role == 'system' %}{{ raise_exception('none') }}{% endif %}"
    path = folder(tmp_path / "model", no_system + CHATML)
    records = [chat(f"What is {i}?", f"It is {i}.") for i in range(6)]
    records[2]["messages"].insert(0, {"role": "system", "content": "Be brief."})
    data, out = write(tmp_path / "data.jsonl", [*records, records[0]]), tmp_path / "sft"
    call = [data, "--model", path, "-o", str(out), "--context-length", "64", "--dedup"]
    assert main(call) == 2
    assert "data.jsonl:3: MYP730" in capsys.readouterr().err
    assert main([*call, "--on-error", "reject", "--val-fraction", "0.4"]) == 1
    assert "mypt-prepare: the chat template writes no thoughts; they are" in capsys.readouterr().err
    manifest = json.loads((out / "dataset_metadata.json").read_text())
    lines = manifest["lines"]
    assert lines == {"lines": 7, "written": 5, "refused": 1, "long": 0, "duplicate": 1}
    assert "dialect" not in manifest["options"]
    assert len(manifest["spec_fingerprint"]) == 64
    assert [*manifest["vocabulary_sha256"]] == ["vocabulary.json"]
    assert sum(split["episodes"] for split in manifest["splits"].values()) == 5
    assert "MYP730" in (out / "rejects.jsonl").read_text()
    assert (out / "chat_template.jinja").read_text() == no_system + CHATML
    assert lint([str(out)]) == 0
    capsys.readouterr()
    assert view([str(out), "--mask"]) == 0
    shown = capsys.readouterr().out
    assert "chat template" in shown
    assert "<|im_start|>assistant" in shown
    assert view([f"{out}:1", "--text"]) == 0
    assert capsys.readouterr().out.startswith("<|im_start|>user\nWhat is ")
    (out / "chat_template.jinja").write_text(CHATML)
    with pytest.raises(ShardError, match="chat template"):
        ShardReader(out)


def test_records_are_shown_as_prepare_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path / "model")
    data = write(tmp_path / "data.jsonl", [chat("Hi!", "Hello."), chat("What is <|im_end|>?", "A")])
    assert view([data, "--model", path, "--text"]) == 0
    assert capsys.readouterr().out.startswith("<|im_start|>user\nHi!<|im_end|>")
    assert view([f"{data}:2", "--model", path, "--ids"]) == 0
    (sample,) = encoder(path).record(chat("What is <|im_end|>?", "A")).samples
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = [row for row in rows if row[0].isdecimal()]
    assert [int(row[1]) for row in rows] == sample.ids.tolist()
    assert [row[2] == "trained" for row in rows] == (sample.mask > 0).tolist()
    for option in (["--dialect", "qwen3"], ["--layout", "lines", "--text"]):
        assert view([data, "--model", path, *option]) == 2
        assert option[0] in capsys.readouterr().err
    (tmp_path / "model" / "chat_template.jinja").write_text("{{ raise_exception('no') }}")
    assert view([data, "--model", path, "--mask"]) == 1
    assert "MYP730" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["trl", "axolotl", "skyrl", "verl", "megatron"])
def test_rows_for_trainers(tmp_path: Path, form: str) -> None:
    path = folder(tmp_path / "model")
    data, out = write(tmp_path / "data.jsonl", [chat("Hi!", "Hello.")]), tmp_path / form
    assert main([data, "--model", path, "-o", str(out), "--format", form, "-q"]) == 0
    (sample,) = encoder(path).record(chat("Hi!", "Hello.")).samples
    if form == "megatron":
        ids = np.fromfile(out / "train" / "shard_00000.bin", "<u2").tolist()
    else:
        ids = json.loads((out / "train" / "shard_00000.jsonl").read_text())["input_ids"]
    assert ids == sample.ids.tolist()
    with pytest.raises(ShardError, match="--format bin"):
        ShardReader(out)


@pytest.mark.parametrize(
    "option",
    [
        ["--dialect", "qwen3"], ["--phase", "2"], ["--history", "official"], ["--preferences"],
        ["--mask", "calls"], ["--long", "split-turns"], ["--vocab", "x.json"], ["--system", "Hi"],
        ["--message-indices", "--format", "trl"],
    ],
)  # fmt: skip
def test_options_of_dialects_are_refused_by_name(
    tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(tmp_path / "data.jsonl", [chat("Hi!", "Hello.")])
    path = folder(tmp_path / "model")
    assert main([data, "--model", path, "-o", str(tmp_path / "out"), *option]) == 2
    error = capsys.readouterr().err
    assert option[0] in error
    assert "--model" in error
    assert "True" not in error, "as it was typed"
    assert not (tmp_path / "out").exists()


def test_folders_and_records_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(tmp_path / "data.jsonl", [chat("Hi!", "Hello.")])
    path = folder(tmp_path / "model")
    native = tmp_path / "native.txt"
    native.write_text('{"system": "S", "messages": [], "tools": []}\n')
    (tmp_path / "model" / "tokenizer.json").unlink()
    for call, why in (
        ([data, "--model", path], "holds none of"),
        ([data, "--model", str(tmp_path / "none")], "none"),
        ([data, "--model", str(tmp_path)], "no chat template"),
    ):
        assert main([*call, "-o", str(tmp_path / "out")]) == 2
        assert why in capsys.readouterr().err


def test_plain_texts_are_not_checked_by_a_template(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, path = write(tmp_path / "data.jsonl", [{"text": "Once."}]), folder(tmp_path / "model")
    assert lint([data, "--model", path]) == 0
    assert "there is no chat to check by the chat template" in capsys.readouterr().err
    assert main([data, "--model", path, "-o", str(tmp_path / "out")]) == 2
    assert "MYP906" in capsys.readouterr().err


def test_resumed_data_has_the_same_bytes(tmp_path: Path) -> None:
    """After a run that stopped between units; workers have processes that render, too.

    Options of the template must be the same.
    """
    options = Options(model=folder(tmp_path / "model"), context_length=64)
    records = [chat(f"What is {i}?", f"It is {i}.") for i in range(12)]
    data = write(tmp_path / "data.jsonl", records)
    source = Source(data, "", Path(data).stat().st_size)

    def run(name: str, options: Options = options, **more: Any) -> dict[str, Any]:
        out = tmp_path / name
        return prepare([source], out, options, rules=[RULES], unit_size=400, **more)

    def stops(what: str, done: int, of: int) -> None:
        if what == "encoding" and 0 < done < of:
            raise KeyboardInterrupt

    whole = run("whole")
    with pytest.raises(KeyboardInterrupt):
        run("stopped", progress=stops)
    with pytest.raises(PrepareError, match="--resume"):
        run("stopped")
    with pytest.raises(PrepareError, match="template_options"):
        run("stopped", replace(options, template_options='{"loud": true}'), resume=True)
    assert run("stopped", resume=True) == whole == run("workers", workers=2)


def test_training_goes_without_legality(tmp_path: Path) -> None:
    """A checkpoint has the files of the model, and says no dialect."""
    pytest.importorskip("torch")
    from mypt_infer.generate.opened import spoken
    from mypt_train.training.parts.config import Config
    from mypt_train.training.trainer import train

    path = folder(tmp_path / "model")
    data = write(tmp_path / "data.jsonl", [chat(f"Is {i}?", f"It is {i}.") for i in range(4)])
    out = tmp_path / "sft"
    call = [data, "--model", path, "-o", str(out), "--context-length", "64", "-q"]
    assert main([*call, "--val-fraction", "0.5"]) == 0
    settings = ["train.steps=1", "train.batch_rows=1", "model.num_hidden_layers=1"]
    report = train(
        [out], Config.load("tiny").set(settings), tmp_path / "run",
        legality=lambda *_: pytest.fail("it was measured"), quiet=True,
    )  # fmt: skip
    facts = json.loads((report.folder / "trainer.json").read_text())
    assert "dialect" not in facts["data"]
    assert (report.folder / "chat_template.jinja").read_text() == CHATML
    says: list[str] = []
    name, dialect = spoken(tmp_path / "run", choice=None, say=says.append)
    assert (dialect.name, dialect.folder) == ("chat-template", Path(name))
    assert "derived from the chat template; proved: chat" in says[0]
    text = "It is 5."
    assert dialect.tokenizer.encode(text) == foreign.library("smollm").encode(text).ids
    assert spoken(tmp_path / "run", choice="chatml")[0] == "chatml"
    log = (tmp_path / "run" / "log.jsonl").read_text()
    assert "legality is not measured" in log
