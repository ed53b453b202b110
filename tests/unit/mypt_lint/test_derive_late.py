"""`mypt-lint derive`: a text beside calls that is after their results, and is ended there."""

from __future__ import annotations

import pytest

import mypt_spec
from mypt_infer.decode.decoder import Decoder
from mypt_infer.serve.asked.prompts import Prompter
from mypt_lint.derive.derive import derive
from mypt_lint.template.model import ModelFolder
from mypt_spec import Dialect
from mypt_spec.templates.sandbox import compiled
from mypt_train.export.chat_template import chat_template
from tests.support.build import assistant, call, calls, chat, tool, user
from tests.unit.mypt_lint.test_derive_turns import TOOLS, TURNS

LATE = "{% if loop.last or loop.nextitem.role != 'tool' %}{{ ns.late }}{{ '<turn|>\n' if ns.late and ENDS }}{% endif %}"
TEMPLATE = TURNS.replace("~}<result|>", f"~}}<result|>{LATE}").replace(
    "{{ m.content }}{% for",
    "{% set ns.late = m.content or '' if m.tool_calls else '' %}{{ m.content if not m.tool_calls }}{% for",
)
# Of the second, only prompts have the end.
TEMPLATES = {
    "ended": TEMPLATE.replace("ENDS", "true"),
    "prompts": TEMPLATE.replace("ENDS", "loop.last"),
}
TAGS = "<|call>", "<call|>", "<turn|>", "<|result>"
ASK = calls(call("f", {"q": "x"}, id="a"), content="L")
BOTH = calls(call("f", {"q": "y"}, id="b"), call("f", {"q": "z"}, id="c"))
del BOTH["content"]
RECORD = chat(
    user("Q"), ASK, tool("r", name="f", tool_call_id="a"), BOTH,
    tool("s", name="f", tool_call_id="b"), tool("t", name="f", tool_call_id="c"),
    ASK | {"content": "M"}, tool("u", name="f", tool_call_id="a"), assistant("A"),
    user("P"), assistant("B"), tools=TOOLS,
)  # fmt: skip


@pytest.fixture(scope="module", params=TEMPLATES)
def derived(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Dialect]:
    (folder := tmp_path_factory.mktemp("late") / "toy").mkdir()
    template = folder.parent / "template.jinja"
    template.write_text(TEMPLATES[request.param], encoding="utf-8")
    out = derive(ModelFolder(str(template)), "toy", conversations=8)
    complete = [level.name for level in out.levels if level.is_complete]
    assert complete == ["chat", "tools"], {level.name: level.reason for level in out.levels}
    return TEMPLATES[request.param], out.load(folder)


def test_text_and_records(derived: tuple[str, Dialect]) -> None:
    template, d = derived
    episode, findings = d.check(RECORD)
    assert episode is not None
    text = d.serialize(episode)
    assert (findings, text) == ([], compiled(template)(**RECORD)[0])
    assert d.write(episode) == RECORD
    parsed, findings = d.parse(text)
    assert (parsed, findings) == (episode, [])
    encoded = d.encode(episode)
    assert d.parse_ids(encoded.ids)[0] == episode
    more = "<turn|>" * (template == TEMPLATES["ended"])
    said = (
        f"<|call>f{{q:~x~}}<call|><|result>L{more}<|call>f{{q:~y~}}<call|><|call>f{{q:~z~}}<call|>"
    )
    said += f"<|result><|call>f{{q:~x~}}<call|><|result>M{more}A<turn|>B<turn|>"
    assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == said


def test_prompts_and_what_follows_them(derived: tuple[str, Dialect]) -> None:
    template, d = derived
    render, export = compiled(template), compiled(chat_template(d))
    prompter, decoder = Prompter(d, str(d.folder)), Decoder(d, TOOLS)
    for end in (3, 6, 8):
        record = {"messages": RECORD["messages"][:end], "tools": TOOLS}
        ids = prompter.prompt(record["messages"], TOOLS).ids
        prompt = render(**record, add_generation_prompt=True)[0]
        assert d.tokenizer.decode(ids) == prompt
        assert export(**record, add_generation_prompt=True)[0] == prompt
        call_open, call_end, stop, result = (d.table.special[tag] for tag in TAGS)
        called = [call_open, *d.tokenizer.encode("f{n:1,q:~x~}"), call_end]
        for answer, last in ((d.tokenizer.encode("Yes"), stop), (called, result)):
            assert last in decoder.ids(decoder.run(decoder.start(ids), answer))
    assert export(**RECORD)[0] == render(**RECORD)[0]


def test_a_prompt_of_gemma4_ends_the_text() -> None:
    prompter = Prompter(mypt_spec.dialect("gemma4"), "gemma4")
    ids = prompter.prompt(RECORD["messages"][:3], TOOLS).ids
    assert prompter.dialect.tokenizer.decode(ids).endswith('r<|"|>}<tool_response|>L<turn|>\n')
