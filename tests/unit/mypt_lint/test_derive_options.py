"""`mypt-lint derive`: options of chat templates, which are learned, proved, or named as lacking; and masks."""

from __future__ import annotations

from pathlib import Path

import pytest

import mypt_spec
from mypt_infer.decode.prompt import prompt_ids
from mypt_lint.derive.derive import Derived, derive
from mypt_lint.derive.probe import Renderings
from mypt_lint.derive.proof import Level, prove
from mypt_lint.derive.spec import levels_table
from mypt_lint.template.model import ModelFolder
from mypt_spec.templates.sandbox import compiled
from tests.unit.mypt_lint.test_derive import EMPTIES, PROMPT, STRIPS, THINKS

EMPTY = "<think>\n\n</think>\n\n"
SWITCH = "{% if enable_thinking is defined and enable_thinking is false %}" + EMPTY + "{% endif %}"
# What Qwen3 does, with an option of Qwen3.6, one that is text, and one that changes nothing.
OPTIONS = "{% if idle %}{% endif %}" + (
    THINKS.replace(PROMPT, PROMPT.replace("{% endif %}", SWITCH + "{% endif %}"))
    .replace("loop.index0 > ns.last and", "(preserve_thinking or loop.index0 > ns.last) and")
    .replace("<|im_start|>{{ m.role }}", "<|im_start|>{{ m.role }}{{ suffix }}")
)  # fmt: skip
OTHER = EMPTIES.replace(EMPTY, "{% if not enable_thinking %}" + EMPTY + "{% endif %}")
OPENS = EMPTIES.replace(EMPTY, "<think>\n{{ '' if enable_thinking else '\\n</think>\\n\\n' }}")


def derived_of(folder: Path, template: str) -> tuple[Derived, ModelFolder]:
    (folder / "template.jinja").write_text(template, encoding="utf-8")
    model = ModelFolder(str(folder / "template.jinja"))
    return derive(model, "toy", conversations=12), model


def prompt_of(dialect: mypt_spec.Dialect, **options: object) -> str:
    messages = [{"role": "user", "content": "Q"}]
    episode, _ = dialect.read({"messages": messages, "chat_template_kwargs": options})
    assert episode is not None
    return dialect.tokenizer.decode(prompt_ids(dialect, episode))


def test_options_are_learned_proved_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mypt_lint.derive.derive._LEARNED_ON", range(40))
    derived, model = derived_of(tmp_path, OPTIONS)
    assert [level.is_complete for level in derived.levels[:2]] == [True, True]
    row = [*levels_table(derived.levels, derived.shape)][-1]
    assert row.startswith("| options | in part | enable_thinking: true, false; preserve_thinking:")
    assert row.endswith("| the format has no preserve_thinking = true, suffix |")
    assert row in derived.files["SPEC.md"]
    dialect = derived.load(tmp_path)
    assert prompt_of(dialect).endswith("assistant\n")
    assert prompt_of(dialect, enable_thinking=False).endswith("assistant\n" + EMPTY)
    messages = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    for name, code in {"preserve_thinking": "MYP104", "suffix": "MYP361"}.items():
        record = {"messages": messages, "chat_template_kwargs": {name: True}}
        assert [finding.code for finding in dialect.check(record)[1]] == [code]
    with Renderings(model) as render:
        for old, new, why in (
            ("empty_thought = false", "empty_thought = true", "the prompt is"),
            ("values = [false]", "values = [true]", "the text is"),
        ):
            text = derived.files["records.toml"]
            assert old in text
            (tmp_path / "records.toml").write_text(text.replace(old, new), encoding="utf-8")
            level = prove(mypt_spec.load(tmp_path), render, Level("thoughts"), range(20))
            assert why in level.reason


@pytest.mark.parametrize(("template", "end"), [(OTHER, ""), (OPENS, "<think>\n")])
def test_a_prompt_without_an_empty_thought_is_an_option(
    tmp_path: Path, template: str, end: str
) -> None:
    derived, _ = derived_of(tmp_path, template)
    assert [level.is_complete for level in derived.levels[:2]] == [True, True]
    assert derived.shape is not None
    assert (derived.shape.options["enable_thinking"]["values"], derived.shape.lacks) == (
        [True, False],
        (),
    )
    dialect = derived.load(tmp_path)
    assert prompt_of(dialect).endswith("assistant\n" + EMPTY)
    assert prompt_of(dialect, enable_thinking=True).endswith("assistant\n" + end)


def test_masks_are_proved_without_a_vocabulary(tmp_path: Path) -> None:
    """What is trained is compared by characters: here the closing tag of an answer."""
    derived, model = derived_of(tmp_path, STRIPS)
    derived.load(tmp_path)
    table = (tmp_path / "tokens.toml").read_text(encoding="utf-8")
    assert 'origin = "model"' in table
    masked = table.replace('origin = "model"', 'origin = "system"')
    (tmp_path / "tokens.toml").write_text(masked, encoding="utf-8")
    with Renderings(model) as render:
        render.stops, dialect = ("[END]",), mypt_spec.load(tmp_path)
        assert prove(dialect, render, Level("chat"), range(9)).is_proved
        level = prove(dialect, render, Level("chat"), range(9), model)
    assert "the trained text is" in level.reason
    assert "[END]" in level.reason.partition(", not ")[0]
    assert "[END]" not in level.reason.partition(", not ")[2]


def test_the_template_is_rendered_with_its_marks_of_what_is_trained(tmp_path: Path) -> None:
    """A comment of TRL's training templates names them, and what is set between them ends there."""
    body = "{% generation -%}  [{{ m.content }}]{% set x = 1 %}{% endgeneration %}\n{{ x }}"
    comment = "{#- Added {% generation %} / {% endgeneration %} around answers. -#}\n"
    text = f"{comment}{{%- for m in messages %}}{body}{{% endfor %}}"
    (tmp_path / "chat_template.jinja").write_text(text, encoding="utf-8")
    messages = [{"role": "user", "content": "Hi"}]
    with Renderings(ModelFolder(str(tmp_path))) as render:
        assert render.text(messages) == compiled(text)(messages=messages)[0] == "[Hi]"
