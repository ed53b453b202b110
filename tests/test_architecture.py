"""Hold the code to the layers of the design: one test for each rule, over all modules.

The rules are read off the imports and the syntax trees, so nothing is run but in the last test. A
failure lists every module that breaks the rule, with what it does.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import mypt_spec
from mypt_spec.adapters.base import Adapter
from mypt_spec.adapters.declared import Declared
from mypt_spec.adapters.messages import Messages

ROOT = Path(__file__).parent.parent
# From the commands down. A package may import itself and those below it, never one beside or above.
FLOORS = (
    ("mypt",),
    ("mypt_infer",),
    ("mypt_view",),
    ("mypt_train",),
    ("mypt_lint",),
    ("mypt_convert",),
    ("mypt_records",),
    ("mypt_cli",),
    ("mypt_spec", "mypt_model"),
)
PACKAGES = [package for floor in FLOORS for package in floor]
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FILES
}
MAX_LINES = 500
MAX_TEST_LINES = 700  # a file of tests is read one test at a time
MAX_MODULES = 14  # of one folder
# The engine's root is read as a book; in the other, a module is a command.
LARGER = {"mypt_spec": 18, "mypt": 16}

FLOOR = {package: -i for i, packages in enumerate(FLOORS) for package in packages}
ENTRIES = {"mypt_lint.__main__"}  # `python -m mypt_lint` runs a command, so no library imports it
MAX_CHAIN = 21  # modules, each imported by the one before when it is loaded

# The engine has an order of its own: a module may import its own layer and those below.
# What is not named here is in layer 2.
LAYERS = [
    [
        "bodies.call_tags",
        "bodies.strict_json",
        "compiled",
        "templates",
        "table",
        "table_file",
        "findings",
        "memo",
    ],
    ["automaton", "states", "lexer", "episode", "damage.near_miss"],
    [],
    ["rules", "adapters"],
    ["dialect", ""],
]
TORCH = (
    "mypt_model",
    "mypt_train.training",
    "mypt_infer.generate",
    "mypt_infer.serve.rows",
    "mypt_infer.serve.slots",
    "mypt_infer.controller.model_source",
    "mypt_infer.workspace.model_summary",
)


def layer(module: str) -> int:
    """Returns the layer of a module of the engine."""
    rest = module.removeprefix("mypt_spec").removeprefix(".")
    names = [rest, rest.split(".")[0]]
    return next((i for i, group in enumerate(LAYERS) if set(names) & set(group)), 2)


@cache
def imported(module: str, *, late: bool = True) -> frozenset[str]:
    """Returns all that a module imports; without `late`, only what is imported when it is loaded."""
    names: set[str] = set()
    for node in nodes(module) if late else tree(module).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in members if name in MODULES} or {node.module or ""}
    return frozenset(names)


def imports(module: str, *, late: bool = True) -> set[str]:
    """Returns the project's modules that a module imports."""
    return {name for name in imported(module, late=late) if name in MODULES} - {module}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    """Returns all nodes of the syntax tree of a module."""
    return tuple(ast.walk(tree(module)))


@pytest.fixture(autouse=True, scope="module")
def trees() -> Iterator[None]:
    """Lets the syntax trees go: a million objects, which each later fork and collection would pay."""
    yield
    tree.cache_clear()
    nodes.cache_clear()


def check_each(modules: Iterable[str], faults: Callable[[str], Iterable[str]]) -> None:
    """Asserts that no module has a fault; the message lists those that have one."""
    wrong = {module: sorted(set(faults(module))) for module in modules}
    assert not {module: names for module, names in wrong.items() if names}


def package(module: str) -> str:
    return module.partition(".")[0]


def test_packages_import_only_those_below_them() -> None:
    def above(module: str) -> Iterable[str]:
        own = package(module)
        for name in imports(module):
            if package(name) != own and FLOOR[package(name)] >= FLOOR[own]:
                yield name

    check_each({*MODULES} - ENTRIES, above)


def room(module: str) -> str:
    """Returns the folder of a module, as a dotted name."""
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


def test_no_two_folders_import_each_other() -> None:
    """A folder and one inside it may: its modules are the front door to those inside.

    What they then share is in modules of the folder itself, which the other tests keep in order.
    """
    arrows = {(room(m), room(n)) for m in MODULES for n in imports(m) if room(m) != room(n)}
    both = {(a, b) for a, b in arrows if a < b and (b, a) in arrows}
    assert {(a, b) for a, b in both if not b.startswith(f"{a}.")} == set()
    # Only the engine's root is read as a book, from the tables to the front door.
    assert {a for a, b in both if b.startswith(f"{a}.")} <= {"mypt_spec"}


def test_layers_of_the_engine() -> None:
    def above(module: str) -> Iterable[str]:
        return {name for name in imports(module) if layer(name) > layer(module)}

    check_each((m for m in MODULES if m.startswith("mypt_spec")), above)


def test_no_module_imports_itself_through_others() -> None:
    """Neither when it is loaded, nor later, nor for its annotations.

    A package's `__init__` re-exports, so it counts as its own top.
    """
    graph = {m: imports(m) - {m.rpartition(".")[0]} for m in MODULES}
    done: set[str] = set()
    while ready := {m for m in graph if m not in done and graph[m] <= done}:
        done |= ready
    assert not set(graph) - done, f"in a circle: {sorted(set(graph) - done)}"


def test_chains_of_imports_are_short() -> None:
    @cache
    def chain(module: str) -> tuple[str, ...]:
        below = imports(module, late=False) - {module.rpartition(".")[0]}
        return (module, *max(map(chain, below), key=len, default=()))

    longest = max(map(chain, MODULES), key=len)
    assert len(longest) <= MAX_CHAIN, longest


def test_folders_are_small() -> None:
    folders = Counter(path.parent for path in FILES if path.name != "__init__.py")
    large = {str(f.relative_to(ROOT)): n for f, n in folders.items() if n > MAX_MODULES}
    assert all(n <= LARGER.get(name, 0) for name, n in large.items()), large


def test_torch_stays_in_its_rooms() -> None:
    def torch(module: str) -> Iterable[str]:
        return {n for n in imported(module, late=False) if n.split(".")[0] == "torch"}

    check_each((m for m in MODULES if not m.startswith(TORCH)), torch)


def test_plugins_load_no_torch() -> None:
    reached = [module for module in MODULES if module.startswith("mypt_infer.plugins")]
    for module in reached:
        reached += sorted(imports(module, late=False).difference(reached))
    assert {m for m in reached if "torch" in imported(m, late=False)} == set()


def docstrings(nodes: Iterable[ast.AST]) -> set[ast.Constant]:
    strings = set()
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                strings.add(first.value)
    return strings


def words(module: str) -> Iterator[str]:
    """Names and strings of the code; docstrings may show examples."""
    skip = docstrings(nodes(module))
    for node in nodes(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skip:
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


KNOWS = ("mypt_spec.adapters.", "mypt_convert.bridges.")  # a dialect's JSON
ENGINE = [
    module
    for module in MODULES
    if package(module) not in ("mypt", "mypt_model", "mypt_train", "mypt_infer")
    and (not module.startswith(KNOWS) or module == "mypt_spec.adapters.base")
]
PROGRAM = ["mypt_lint.settings.options"]  # the default dialect
# Tokens of other software, which are facts about its files: they are in no grammar's place.
FOREIGN = ["mypt_lint.template.source", "mypt_records.checks.control", "mypt_spec.tokenizer.tekken"]


def test_the_engine_names_no_dialect() -> None:
    names = set(mypt_spec.dialects())
    tags = {t.shown for n in names for t in mypt_spec.dialect(n).table.terminals.values()}

    def named(module: str) -> Iterable[str]:
        return {w for w in set(words(module)) if w in names or any(tag in w for tag in tags)}

    check_each({*ENGINE} - {*PROGRAM, *FOREIGN}, named)


def test_no_hook_of_an_adapter_is_looked_for() -> None:
    """What an adapter may leave out is a method of `Adapter`, not an attribute that may be there."""

    def looked_for(module: str) -> Iterable[str]:
        for node in nodes(module):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("getattr", "hasattr")
                and "adapter" in (ast.unparse(node.args[0]) + module).lower()
            ):
                yield ast.unparse(node)

    check_each(MODULES, looked_for)


def test_an_adapter_is_one_object() -> None:
    """It adds no public name to those of `Adapter`: no engine file could call it."""
    for name in mypt_spec.dialects():
        adapter = mypt_spec.dialect(name).adapter
        assert isinstance(adapter, Adapter)
        assert {n for n in vars(type(adapter)) if n[0] != "_"} <= {*vars(Adapter), "SCHEMA"}, name
        if type(adapter) not in (Declared, Messages):  # they hold what a `records.toml` says
            assert not vars(adapter), f"{name}: it holds no state"


# They read grammar folders, rules and their pages, the vocabulary, and how much memory a process has.
READERS = [
    "mypt_spec.compiled.toml",
    "mypt_spec.dialect",
    "mypt_spec.findings",
    "mypt_spec.table_file",
    "mypt_spec.templates.bounds",
    "mypt_spec.tokenizer.proved",
    "mypt_spec.tokenizer.sources",
    "mypt_spec.tokenizer.tokenizer",
    "mypt_spec.tokenizer.batch",
]
OPENING = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir"}
PRINTING = {"print", "input", "stdout", "stderr", "stdin", "breakpoint"}


def test_the_engine_prints_nothing_and_opens_no_files() -> None:
    def used(module: str) -> Iterator[str]:
        for node in nodes(module):
            if isinstance(node, ast.Call):
                function = node.func
                yield (
                    function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
                )
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "sys"
            ):
                yield node.attr

    def forbidden(module: str) -> Iterable[str]:
        return set(used(module)) & (PRINTING | (set() if module in READERS else OPENING))

    check_each((m for m in MODULES if m.startswith("mypt_spec")), forbidden)


def test_importing_the_package_loads_little() -> None:
    code = "import mypt_spec, sys; d = mypt_spec.dialect('mypt'); d.parse('x'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", "import mypt_spec, sys; print(*sys.modules)"], capture_output=True, text=True, check=True, cwd=ROOT)  # fmt: skip
    heavy = {"torch", "tiktoken", "numpy", "lark", "rich", "msgspec", "jsonschema_rs", "regex"}
    assert not (heavy | {"mypt_spec.dialect", "mypt_spec.findings"}) & set(loaded.stdout.split())
    used = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not (heavy - {"lark"}) & set(used.stdout.split()), "reading needs no vocabulary"


def test_the_package_loads_each_name_at_its_first_use() -> None:
    """The module `dialect`, loaded before or after, does not hide the function."""
    code = """
from mypt_spec.dialect import Dialect
from mypt_spec import dialect
import mypt_spec
print(mypt_spec.dialect is dialect and mypt_spec.Dialect is Dialect, type(dialect).__name__)
print(len({getattr(mypt_spec, name) for name in mypt_spec.__all__}) == len(mypt_spec.__all__))
mypt_spec.Finding, mypt_spec.Dialekt
"""
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.stdout.splitlines() == ["True function", "True"]
    assert "AttributeError: module 'mypt_spec' has no attribute 'Dialekt'" in run.stderr


def test_files_are_short() -> None:
    """Docstrings do not count: those of rules are their pages."""
    long = {}
    for path in ROOT.rglob("*.py"):
        if {".venv", ".nox", "build", "dist"} & set(path.parts):
            continue
        source = path.read_text(encoding="utf-8")
        lines = len(source.splitlines())
        most = MAX_TEST_LINES if "tests" in path.parts else MAX_LINES
        if lines > most:
            lines -= sum(
                doc.value.count("\n") + 1
                for doc in docstrings(ast.walk(ast.parse(source)))
                if isinstance(doc.value, str)
            )
        if lines > most:
            long[str(path.relative_to(ROOT))] = lines
    assert not long
