"""`mypt-lint derive`: how chats begin and end."""

from __future__ import annotations

from pathlib import Path

from mypt_lint.derive.derive import Derived, derive
from mypt_lint.template.model import ModelFolder
from mypt_lint.template.sandbox import compiled
from tests.support.build import Record, assistant, chat, system, user

PLAIN = (
    "<s><role>SYSTEM</role>{{ messages[0].content + '\n' if messages[0].role == 'system' else '' }}brief<|end|>"
    "{% for m in messages %}{% if m.role != 'system' %}<role>{{ m.role | upper }}</role>{{ m.content }}<|end|>"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<role>ASSISTANT</role>{% endif %}"
)
TURNS = (user("Q"), assistant("A"), user("B"), assistant("C"))


def learned(folder: Path, template: str) -> Derived:
    """Returns what is derived of a template, of which chats are proved and complete."""
    file = folder / "template.jinja"
    file.write_text(template, encoding="utf-8")
    derived = derive(ModelFolder(str(file)), "toy", conversations=15)
    assert derived.levels[0].is_complete, derived.levels[0].reason
    return derived


def texts(derived: Derived, folder: Path, record: Record) -> tuple[str, str]:
    """Returns the text of a record in a format, and that of `text` read again."""
    dialect = derived.load(folder)
    episode, findings = dialect.check(record)
    assert not findings
    assert episode is not None
    text = dialect.serialize(episode)
    assert dialect.write(episode) == record
    assert dialect.parse(text) == (episode, [])
    return text, compiled(folder.joinpath("template.jinja").read_text())(bos_token="<s>", **record)[
        0
    ]


def test_what_is_in_place_of_a_system_block_is_learned(tmp_path: Path) -> None:
    derived = learned(tmp_path, PLAIN)
    assert 'without_system = "plain"' in derived.files["records.toml"]
    assert "is in place of a missing system message" in derived.files["SPEC.md"]
    for record in (chat(*TURNS), chat(system("S"), *TURNS)):
        ours, theirs = texts(derived, tmp_path, record)
        assert ours == theirs
