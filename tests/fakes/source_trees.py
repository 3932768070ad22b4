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


@cache
def syntax_trees() -> Mapping[str, ast.Module]:
    """Each source of ours, and each test, by its path."""
    gc.disable()  # all of it is kept, and looking for garbage takes twice as long as to parse it
    try:
        return {
            path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf8"))
            for folder in (*PACKAGES, "tests")
            for path in sorted((ROOT / folder).rglob("*.py"))
        }
    finally:
        gc.enable()


@cache
def nodes() -> Mapping[str, Sequence[ast.AST]]:
    """The modules, classes, functions, imports and handlers of each, from the top down."""
    return {
        path: [node for node in ast.walk(tree) if isinstance(node, _NODES)]
        for path, tree in syntax_trees().items()
    }


def is_test(path: str) -> bool:
    """True for a test, and what tests use."""
    return path.startswith("tests/")
