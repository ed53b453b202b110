"""`nox -l` shows the first line of each task's docstring, so that line is a sentence."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

NOXFILE = Path(__file__).parents[2] / "noxfile.py"
TASKS = [
    node
    for node in ast.parse(NOXFILE.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.decorator_list
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_says_in_a_sentence_what_it_does(task: ast.FunctionDef) -> None:
    first, *more = (ast.get_docstring(task) or "").split("\n")
    assert re.fullmatch(r"[A-Z].{15,}[a-z`.)]\.", first)
    assert not more or (more[0] == "" and more[1])


def test_all_tasks_are_looked_at() -> None:
    assert {"tests", "thorough", "lint", "fuzz"} <= {task.name for task in TASKS}
