"""The sources as syntax trees: parsed once and walked once for all rules of the house."""

import ast
import gc
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("proxy", "compaction", "slo", "dashboards", "migrations")
_NODES = (
    ast.Module,
    ast.ClassDef,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ExceptHandler,
    ast.Import,
    ast.ImportFrom,
)
#: Where a statement has others.
_BODIES = ("body", "handlers", "orelse", "finalbody", "cases")


@cache
def _parse_folder(folder: str) -> Mapping[str, ast.Module]:
    gc.disable()  # all of it is kept, and looking for garbage takes twice as long as to parse it
    try:
        return {
            path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf8"))
            for path in sorted((ROOT / folder).rglob("*.py"))
        }
    finally:
        gc.enable()


def source_trees() -> Mapping[str, ast.Module]:
    """Each source of ours by its path, without tests."""
    return {path: tree for folder in PACKAGES for path, tree in _parse_folder(folder).items()}


def syntax_trees() -> Mapping[str, ast.Module]:
    """Each source of ours, and each test, by its path."""
    return {**source_trees(), **_parse_folder("tests")}


def statements(tree: ast.Module) -> list[ast.AST]:
    """The module, its statements, handlers and cases: a tenth of the work of all that is in it."""
    reached: list[ast.AST] = [tree]
    for node in reached:
        for name in _BODIES:
            inside = getattr(node, name, ())
            if isinstance(inside, list):  # a lambda's body is none
                reached += inside
    return reached


@cache
def nodes_of(path: str) -> Sequence[ast.AST]:
    """The modules, classes, functions, imports and handlers of a file, from the top down."""
    tree = _parse_folder(path.partition("/")[0])[path]
    return [node for node in statements(tree) if isinstance(node, _NODES)]


def nodes() -> Mapping[str, Sequence[ast.AST]]:
    """The same of each source of ours, and each test."""
    return {path: nodes_of(path) for path in syntax_trees()}


def is_test(path: str) -> bool:
    """True for a test, and what tests use."""
    return path.startswith("tests/")
