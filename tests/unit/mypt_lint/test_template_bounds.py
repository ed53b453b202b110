"""Templates of strangers are rendered within bounds of memory and time, by a process that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_lint.template.lint import lint_templates
from mypt_spec.templates import bounds, sandbox
from mypt_spec.templates.bounds import Bounded, OutOfBoundsError
from mypt_spec.templates.sandbox import ToolTemplate
from tests.support.children import child
from tests.support.examples import either

pytestmark = pytest.mark.usefixtures("templates_elsewhere")
posix = pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="counts the memory of a process")
GROWING = {
    "a product": "{{ 'a' * 9999999999 }}",
    "a padded text": "{{ 'a'.center(9999999999) }}",
    "a replacement": "{% set n = namespace(t='aaaaaaaaaa') %}{% for i in range(30) %}"
    "{% set n.t = n.t.replace('a', 'aaaaaaaaaa') %}{% endfor %}{{ n.t }}",
    "a text doubled": "{% set n = namespace(t='aaaaaaaa') %}{% for i in range(60) %}"
    "{% set n.t = n.t ~ n.t %}{% endfor %}{{ n.t }}",
}
ENDLESS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a power": "{{ 10 ** 100000000 }}",
}


def found(path: Path, text: str) -> list[tuple[str, str, str]]:
    path.write_text(text, encoding="utf-8")
    chunks = lint_templates([str(path)], None, frozenset({"MYP710"}), {})
    return [
        (d.filename, d.finding.code, d.finding.message) for chunk in chunks for d in chunk.findings
    ]


@linux
@pytest.mark.parametrize("name", GROWING)
def test_memory_is_bounded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MEMORY", 64 << 20)
    path = tmp_path / "chat_template.jinja"
    message = "it renders nothing: rendering was stopped after 64 MiB of memory"
    assert found(path, GROWING[name]) == [(str(path), "MYP710", message)]


@posix
@pytest.mark.parametrize("name", either(["a power"], [*ENDLESS]))  # loops: see below, too
def test_time_is_bounded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SECONDS", 1)
    path = tmp_path / "chat_template.jinja"
    message = "it renders nothing: rendering was stopped after 1 seconds of processor time"
    assert found(path, ENDLESS[name]) == [(str(path), "MYP710", message)]


def test_the_clock_is_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "DEADLINE", 0.2)
    assert "0.2 seconds" in found(tmp_path / "t.jinja", ENDLESS["nested loops"])[0][2]


@linux
def test_other_templates_of_a_folder_are_checked(tmp_path: Path) -> None:
    more = tmp_path / "additional_chat_templates"
    more.mkdir()
    (more / "growing.jinja").write_text(GROWING["a product"])
    (tmp_path / "chat_template.jinja").write_text("{{ nothing.at.all }}")
    chunks = lint_templates([str(tmp_path)], None, frozenset({"MYP710"}), {})
    first, second = (d.finding.message for chunk in chunks for d in chunk.findings)
    assert first.startswith("it renders no conversation: 'nothing' is undefined")
    assert second.startswith("template growing: it renders nothing: rendering was stopped")


def test_a_message_of_a_template_is_cut(tmp_path: Path) -> None:
    (one,) = found(tmp_path / "t.jinja", "{{ raise_exception('a' * 99999) }}")
    assert len(one[2]) < 400


def refuse() -> None:
    raise UsageError("no")


def stop() -> None:
    signal.raise_signal(signal.SIGTERM)


def test_work_is_done_elsewhere() -> None:
    call = Bounded(lambda: lambda work, *args: work(*args))
    assert call(sum, [1, 2]) == 3
    with pytest.raises(UsageError, match="no"):
        call(refuse)
    with pytest.raises(OutOfBoundsError, match="exit status -15"):
        call(stop)
    call.close()


def misbehave(what: object) -> object:
    if what == "stop":
        os.kill(os.getpid(), signal.SIGTERM)
    if what == "memory":
        raise MemoryError
    return what


@posix
def test_a_bad_call_takes_no_others_with_it() -> None:
    calls: Bounded[object] = Bounded(partial, misbehave)
    values: list[object] = [1, "stop", 2, "memory", 3, "stop", "memory", 4]
    try:
        outcomes = [*calls.each([(value,) for value in values])]
        assert [*calls.each([])] == []
    finally:
        calls.close()
    assert [o for o in outcomes if not isinstance(o, OutOfBoundsError)] == [1, 2, 3, 4]
    stopped = [str(outcomes[i]) for i, value in enumerate(values) if isinstance(value, str)]
    assert ["exit status -15" in each for each in stopped] == [True, False, True, False]
    assert ["of memory" in each for each in stopped] == [False, True, False, True]


def test_a_process_that_is_not_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    path = tmp_path / "t.jinja"
    path.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    codes = frozenset({"MYP718", "MYP722"})
    chunks = lint_templates([str(path)], mypt_spec.dialect("chatml"), codes, {})
    assert {d.finding.code for chunk in chunks for d in chunk.findings} == codes


SPINNING = """
from mypt_spec.templates import bounds, sandbox
def spin():
    print("spinning", flush=True)
    while True:
        pass
bounds.SECONDS = bounds.DEADLINE = 3600
bounds.Bounded(lambda: spin)()
"""


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_the_process_ends_with_its_parent(name: str) -> None:
    command = [sys.executable, "-c", SPINNING]
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"spinning\n"
        parent.send_signal(getattr(signal, name))
        # Its output ends when the last process that holds it has ended.
        assert parent.communicate(timeout=60)[0] == b""


TOOLS = [{"type": "function", "function": {"name": "f"}}]


@linux
@pytest.mark.parametrize("name", either(["a product"], [*GROWING]))
def test_templates_of_tools_are_bounded_in_memory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_process(monkeypatch, MEMORY=64 << 20):
        why = "template of the tools fails: it was stopped after 64 MiB of memory"
        with pytest.raises(ValueError, match=why):
            ToolTemplate(GROWING[name]).write(TOOLS)
        assert ToolTemplate("{{ tools[0].function.name }}").write(TOOLS) == "f"


def test_templates_of_tools_are_bounded_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    template = ToolTemplate(ENDLESS["nested loops"])
    with own_process(monkeypatch, DEADLINE=0.2):
        for tools in (TOOLS, TOOLS * 2):  # the second time it does not run
            with pytest.raises(ValueError, match=r"stopped after 0\.2 seconds"):
                template.write(tools)
            monkeypatch.setattr(sandbox, "_BOUNDED", None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{ tools[0].nothing.at_all }}", "has no attribute 'nothing'"),
        ("{{ raise_exception('x' * 9999) }}", "x{300}$"),
        ("{% for i in range(2100) %}{{ 'a' * 9999 }}{% endfor %}", "writes 20997900 characters"),
        ("{{ tools", "unexpected"),
    ],
)
def test_what_templates_of_tools_do_wrong(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"the template of the tools fails: .*{why}"):
        ToolTemplate(text).write(TOOLS)


def test_equal_tools_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    template = ToolTemplate("{{ tools | tojson }}!")
    texts = [template.write([{"a": value}]) for value in (1, 1.0, True)]
    assert texts == ['[{"a": 1}]!', '[{"a": 1.0}]!', '[{"a": true}]!']
    monkeypatch.setattr(sandbox, "_BOUNDED", None)
    assert [template.write([{"a": value}]) for value in (1, 1.0, True)] == texts


@contextmanager
def own_process(monkeypatch: pytest.MonkeyPatch, **limits: float) -> Iterator[None]:
    """Lets templates of tools run in a new process with other limits."""
    for name, limit in limits.items():
        monkeypatch.setattr(bounds, name, limit)
    process: Bounded[tuple[str, str]] = Bounded(partial, sandbox._written)
    monkeypatch.setattr(sandbox, "_BOUNDED", process)
    try:
        yield
    finally:
        process.close()


def test_a_process_ends_with_what_started_it() -> None:
    """A later one has inherited the pipe, so it does not end by itself."""
    first, second = Bounded(partial, os.getpid), Bounded(partial, os.getpid)
    process, _ = first(), second()
    del first
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    second.close()
