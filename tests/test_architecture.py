"""The layers of the design, read off the imports; and that the engine knows no dialect, prints nothing and loads little."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mypt_spec

ROOT = Path(__file__).parent.parent
PACKAGES = ("mypt_spec", "mypt_model", "mypt_train", "mypt_infer")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FILES
}
MAX_LINES = 500

# A module may import its own layer and those below. What is not named here is an engine module of layer 2.
LAYERS = [
    ["tokens", "findings"],
    ["automaton", "surface", "episode", "jsonvalue", "nearmiss"],
    [],
    ["rules", "adapters", "bridges"],
    ["frontdoor", ""],
    ["lint", "convert", "view"],
]
MODEL, TRAIN_AND_INFER = 5, 6
# A command may hand a prepared folder to the package that has made it.
HANDED_ON = {
    "mypt_spec.lint.cli": {"mypt_train.check"},
    "mypt_spec.view.cli": {"mypt_train.view"},
    # A trainer tells how often its model answers legally, which is for the decoder to say.
    "mypt_train.legality": {
        "mypt_infer.decode.decoder",
        "mypt_infer.decode.legality",
        "mypt_infer.decode.llama",
        "mypt_infer.decode.tools",
    },
}


def layer(module: str) -> int:
    package, _, rest = module.partition(".")
    if package != "mypt_spec":
        return MODEL if package == "mypt_model" else TRAIN_AND_INFER
    return next((i for i, names in enumerate(LAYERS) if rest.split(".")[0] in names), 2)


def imports(module: str) -> set[str]:
    """The project's modules that a module imports, wherever in the file."""
    found = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            inner = {name for name in names if name in MODULES}
            found |= inner or {node.module or ""}
    return {name for name in found if name in MODULES} - {module}


def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", MODULES)
def test_layers(module: str) -> None:
    above = {name for name in imports(module) if layer(name) > layer(module)}
    above -= HANDED_ON.get(module, set())
    assert not above, f"{module} is below {sorted(above)}"
    package = module.split(".", maxsplit=1)[0]
    others = {
        name
        for name in imports(module)
        if layer(name) == TRAIN_AND_INFER and name.split(".")[0] != package
    }
    others -= HANDED_ON.get(module, set())
    assert not others, f"{package} does not import {sorted(others)}"


def test_the_model_and_the_format_know_nothing_of_each_other() -> None:
    for module in MODULES:
        packages = {name.split(".")[0] for name in imports(module)}
        assert not (module.startswith("mypt_model") and packages - {"mypt_model"}), module
        assert not (module.startswith("mypt_spec") and "mypt_model" in packages), module


def test_no_module_imports_itself_through_others() -> None:
    """Within a layer of the engine too, there is an order. A package's `__init__` re-exports, so it counts as its own top."""
    engine = [
        module for module in MODULES if layer(module) < LAYERS.index(["lint", "convert", "view"])
    ]
    graph = {
        module: {n for n in imports(module) if n != module.rpartition(".")[0]} for module in engine
    }
    done: set[str] = set()
    while ready := {m for m in graph if m not in done and graph[m] <= done}:
        done |= ready
    assert not set(graph) - done, f"in a circle: {sorted(set(graph) - done)}"


def docstrings(parsed: ast.Module) -> set[ast.Constant]:
    found = set()
    for node in ast.walk(parsed):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(first.value)
    return found


def words(module: str) -> Iterator[str]:
    """Names and strings of the code; docstrings may show examples."""
    parsed = tree(module)
    skip = docstrings(parsed)
    for node in ast.walk(parsed):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skip:
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


ENGINE = [
    m
    for m in MODULES
    if (
        layer(m) < TRAIN_AND_INFER
        and not m.startswith(("mypt_spec.adapters.", "mypt_spec.bridges."))
    )
    or m == "mypt_spec.adapters.common"
]
COMMANDS = [
    "mypt_spec.lint.cli",
    "mypt_spec.convert.cli",
    "mypt_spec.view.cli",
]  # their default dialect


@pytest.mark.parametrize("module", sorted(set(ENGINE) - set(COMMANDS)))
def test_the_engine_names_no_dialect(module: str) -> None:
    tags = {
        t.shown
        for name in mypt_spec.dialects()
        for t in mypt_spec.dialect(name).table.terminals.values()
    }
    for word in words(module):
        assert word not in mypt_spec.dialects()
        assert not any(tag in word for tag in tags), word


READERS = [
    "mypt_spec.frontdoor",
    "mypt_spec.ranks",
    "mypt_spec.tokenizer",
    "mypt_spec.bulk",
]  # of grammar folders, and of the vocabulary
OPENING = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir"}
PRINTING = {"print", "input", "stdout", "stderr", "stdin", "breakpoint"}


@pytest.mark.parametrize(
    "module", [m for m in MODULES if layer(m) < LAYERS.index(["lint", "convert", "view"])]
)
def test_nothing_below_the_linter_prints_or_opens_files(module: str) -> None:
    used = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Call):
            used.add(
                node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            )
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "sys"
        ):
            used.add(node.attr)
    assert not used & PRINTING
    assert module in READERS or not used & OPENING


def test_importing_the_package_loads_little() -> None:
    code = "import mypt_spec, sys; d = mypt_spec.dialect('mypt'); d.parse('x'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", "import mypt_spec, sys; print(*sys.modules)"], capture_output=True, text=True, check=True, cwd=ROOT)  # fmt: skip
    heavy = {"torch", "tiktoken", "numpy", "lark", "rich", "msgspec", "jsonschema", "regex"}
    assert not heavy & set(loaded.stdout.split())
    used = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not (heavy - {"lark"}) & set(used.stdout.split()), "reading needs no vocabulary"


@pytest.mark.parametrize("path", [p for p in ROOT.rglob("*.py") if not {".venv", ".nox", "build", "dist"} & set(p.parts)], ids=lambda p: str(p.relative_to(ROOT)))  # fmt: skip
def test_files_are_short(path: Path) -> None:
    """Docstrings do not count: those of rules are their pages."""
    source = path.read_text(encoding="utf-8")
    pages = sum(
        doc.value.count("\n") + 1
        for doc in docstrings(ast.parse(source))
        if isinstance(doc.value, str)
    )
    assert len(source.splitlines()) - pages <= MAX_LINES
