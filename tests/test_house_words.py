"""The rules of naming and prose that can be counted, in the words of the field.

What is left of older names is counted, too: each number may only fall, and ends at none.
"""

import ast
import builtins
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.source_trees import (
    PACKAGES,
    ROOT,
    is_test,
    nodes,
    nodes_of,
    source_trees,
    statements,
    syntax_trees,
)

MAX_LOOSE_MODULES = 6
MAX_RANKS = 14
#: Exception classes by who can fix what they say; ``proxy/errors.py`` lists them.
MAX_PUBLIC_EXCEPTIONS = 10
#: Folders with a most of their own, by path.
MAX_FILES = {"proxy/prefix": 45}
#: Files directly in a folder, ``__init__.py`` aside.
MAX_FOLDER_FILES = 15
#: Names that say nothing of what they hold, and their greatest share among names that are bound.
VAGUE_NAMES = {
    "asked", "at", "each", "found", "got", "kept", "known", "meant", "said", "taken", "told",
    "wanted",
}  # fmt: skip
MAX_VAGUE_SHARE, MAX_VAGUE_SHARE_OF_TESTS = 0.002, 0.006
#: Files within five percent of the wall: an idea there wants to be split before the next one comes.
NEAR_WALL_LINES = 380
MAX_FILES_NEAR_WALL = 6
MAX_DOCSTRING_WORDS = 25
MIN_LINES_OF_ONE_IMPORTER = 60
#: Names that end like a participle and are none, or are the field's word for what they return.
FIELD_WORDS = {
    "accept", "account", "agent", "assistant", "attempt", "beginning", "bound", "bring", "build",
    "caching", "ceiling", "client", "comment", "content", "count", "discount", "document",
    "draft", "during", "element", "encoding", "endpoint", "environment", "event", "everything",
    "extend", "feed", "field", "find", "fingerprint", "found", "get", "head", "heading", "hold",
    "interrupt", "keyring", "layout", "listen", "markdown", "moment", "nothing", "open",
    "opening", "output", "parent", "percent", "ping", "planning", "print", "prompt", "put",
    "read", "reasoning", "receipt", "remaining", "sampling", "seed", "segment", "send", "setting",
    "shortcoming", "spending", "string", "teardown", "thinking", "throughput", "token", "warming",
    "warning", "weight",
}  # fmt: skip
#: How many are left of what the rules rule out.
LEFT = {
    "duplicate public classes": 0,
    "functions named by a bare participle": 0,
    "docstrings and entries that begin with a question word": 0,
    "docstrings with a long first sentence": 0,
    "short modules with one importer": 0,
}
_QUESTION_WORD = re.compile(r"(What|Whether|How|Why)\b")
#: An entry of a docstring's "Args:" or "Attributes:", and a comment on what follows it.
_ENTRY = re.compile(r" +\*{0,2}\w+(?:(?: /|,) \w+)*: (\S.*)")
_COMMENT = re.compile(r" *#: (\S.*)")
_PARTICIPLE = re.compile(r"_?[a-z]+(ed|en|wn|ght|ld|pt|ft|nt|ut|ing)\Z")
Trees = dict[str, ast.Module]


@pytest.fixture(scope="module")
def modules() -> Trees:
    """Each source by its path."""
    return dict(source_trees())


def docstrings(modules: Trees) -> list[tuple[str, str]]:
    """Return where each docstring stands, and its first paragraph."""
    return [
        (f"{path}:{getattr(node, 'name', '')}", text.partition("\n\n")[0])
        for path in modules
        for node in nodes_of(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node))
    ]


def documentation_lines(tree: ast.Module, source: str) -> list[tuple[int, str]]:
    """Each docstring, entry of one and ``#:`` comment: its line's number, and its first line."""
    lines = source.splitlines()
    blocks = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in statements(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    entries = [
        (number, entry[1])
        for first, last in blocks
        for number in range(first + 1, last + 1)
        if (entry := _ENTRY.match(lines[number - 1]))
    ]
    comments = [
        (number, comment[1])
        for number, line in enumerate(lines, 1)
        if (comment := _COMMENT.match(line)) and not _COMMENT.match(lines[number - 2])
    ]
    first_lines = [(first, lines[first - 1].strip().strip('"')) for first, _ in blocks]
    return [*first_lines, *entries, *comments]


def excess(names: list[str], what: str) -> list[str]:
    """All that was found where it is more than was left; [] where it is not."""
    return names if len(names) > LEFT[what] else []


def _is_context_manager(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True if a function makes a block, such as ``closing`` of the standard library."""
    names = {decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)}
    return not names.isdisjoint({"contextmanager", "asynccontextmanager"})


def test_public_class_names_occur_once() -> None:
    places = defaultdict(list)
    for path, tree in syntax_trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    twice = [f"{name}: {', '.join(files)}" for name, files in places.items() if len(files) > 1]

    assert excess(twice, "duplicate public classes") == []


def test_functions_are_named_by_verbs_and_nouns() -> None:
    bare = [
        f"{path}:{node.lineno} {node.name}"
        for path, inside in nodes().items()
        for node in inside
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and _PARTICIPLE.fullmatch(node.name)
        and node.name.lstrip("_") not in FIELD_WORDS
        and not _is_context_manager(node)
    ]

    assert excess(bare, "functions named by a bare participle") == []


def test_docstrings_and_their_entries_do_not_begin_with_a_question_word(modules: Trees) -> None:
    asking = [
        f"{path}:{number} {text}"
        for path, tree in modules.items()
        for number, text in documentation_lines(tree, (ROOT / path).read_text(encoding="utf8"))
        if _QUESTION_WORD.match(text)
    ]

    assert excess(asking, "docstrings and entries that begin with a question word") == []


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('"""Why it failed."""', ["Why it failed."]),
        ('X = 1\n"""How long it takes."""', ["How long it takes."]),
        ("#: What it costs.\nX = 1", ["What it costs."]),
        ('"""Sends.\n\nArgs:\n    size: Whether large.\n"""', ["Sends.", "Whether large."]),
        ('text = """\nWhy: What.\n"""', []),
    ],
)
def test_described_finds_docstrings_entries_and_comments(source: str, texts: list[str]) -> None:
    assert [text for _, text in documentation_lines(ast.parse(source), source)] == texts


def test_names_of_tests_do_not_begin_with_a_question_word() -> None:
    asking = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in re.findall(
            r"^ *(?:async )?def (test_(?:what|whether|how|why)_\w+)",
            path.read_text(encoding="utf8"),
            re.MULTILINE,
        )
    ]

    assert asking == []


def test_the_first_sentence_of_a_docstring_is_short(modules: Trees) -> None:
    long = [
        f"{where}: {sentence[:80]}"
        for where, text in docstrings(modules)
        if len((sentence := re.split(r"(?<=[.;:])\s", text)[0]).split()) > MAX_DOCSTRING_WORDS
    ]

    assert excess(long, "docstrings with a long first sentence") == []


def test_a_short_module_with_one_importer_stands_in_its_importer(modules: Trees) -> None:
    names = {path.removesuffix(".py").replace("/", "."): path for path in modules}
    importers = defaultdict(set)
    for path in modules:
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    importers[full if full in names else node.module].add(path)
    short = [
        path
        for name, path in names.items()
        if not path.endswith("__init__.py")
        and not path.startswith("slo/policies/")  # a kind of policy is a module, however short
        and len(importers[name]) == 1
        and len((ROOT / path).read_text(encoding="utf8").splitlines()) < MIN_LINES_OF_ONE_IMPORTER
    ]

    assert excess(short, "short modules with one importer") == []


def test_files_that_documents_name_exist() -> None:
    folders = (*PACKAGES, "tests")
    sources = {
        path.relative_to(ROOT).as_posix()
        for room in folders
        for path in (ROOT / room).rglob("*.py")
    }
    documents = [
        ROOT / "README.md",
        *(document for room in folders for document in room_documents(room)),
    ]
    gone = [
        f"{document.relative_to(ROOT)}: {named}"
        for document in documents
        for named in re.findall(r"`([a-z_/]+\.py)`", document.read_text(encoding="utf8"))
        if not any(f"/{path}".endswith(f"/{named}") for path in sources)
    ]

    assert gone == []


def exception_classes(modules: Trees) -> dict[str, str]:
    """The path of each exception class by its name."""
    bases = {
        node.name: (path, {ast.unparse(base).rpartition(".")[2] for base in node.bases})
        for path in modules
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    }
    classes = {"CancelledError", *(name for name in vars(builtins) if is_builtin_exception(name))}
    while more := {name for name, (_, own) in bases.items() if own & classes} - classes:
        classes |= more
    return {name: path for name, (path, _) in bases.items() if name in classes}


def is_builtin_exception(name: str) -> bool:
    """True if Python has an exception of this name."""
    value = getattr(builtins, name)
    return isinstance(value, type) and issubclass(value, BaseException)


def test_public_exceptions_stay_few_and_are_listed(modules: Trees) -> None:
    public = sorted(name for name in exception_classes(modules) if not name.startswith("_"))
    listed = ast.get_docstring(modules["proxy/errors.py"]) or ""

    assert len(public) <= MAX_PUBLIC_EXCEPTIONS, public
    assert [name for name in public if f"{name} " not in listed] == []


def test_private_exceptions_are_used_in_one_module_only(modules: Trees) -> None:
    private = {name for name in exception_classes(modules) if name.startswith("_")}
    shared = [
        f"{path}: {alias.name}"
        for path in modules
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in private
    ]

    assert shared == []


def room_documents(room: str) -> list[Path]:
    """The READMEs of a folder and those within it."""
    return sorted((ROOT / room).rglob("README.md"))


def test_the_rooms_stay_few(modules: Trees) -> None:
    loose = {path for path in modules if re.fullmatch(r"proxy/\w+\.py", path)}
    rules = (ROOT / "pyproject.toml").read_text(encoding="utf8")
    inside = rules.partition('containers = ["proxy"]')[2]
    ranks = re.findall(r'"[^"]+"', re.split(r"layers = \[|^\]", inside, flags=re.MULTILINE)[1])
    files = Counter(
        folder
        for path in modules
        for folder in MAX_FILES
        if path.startswith(folder) and not path.endswith("/__init__.py")
    )

    assert len(loose - {"proxy/__init__.py"}) <= MAX_LOOSE_MODULES
    assert 0 < len(ranks) <= MAX_RANKS
    assert all(files[folder] <= most for folder, most in MAX_FILES.items())


def test_folders_hold_few_files(modules: Trees) -> None:
    files = Counter(str(Path(path).parent) for path in modules if not path.endswith("__init__.py"))

    assert {folder: n for folder, n in files.items() if n > MAX_FOLDER_FILES} == {}


def test_few_files_stand_near_the_wall(modules: Trees) -> None:
    near = [
        path
        for path in modules
        if len((ROOT / path).read_text(encoding="utf8").splitlines()) >= NEAR_WALL_LINES
    ]

    assert len(near) <= MAX_FILES_NEAR_WALL, near


def bound_names(tree: ast.Module) -> Iterator[str]:
    """The names of parameters and of what is assigned, in the order of the syntax tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_locals_are_named_by_what_they_hold(modules: Trees) -> None:
    tests = [tree for path, tree in syntax_trees().items() if is_test(path)]
    for trees, max_share in (
        (modules.values(), MAX_VAGUE_SHARE),
        (tests, MAX_VAGUE_SHARE_OF_TESTS),
    ):
        names = Counter(name for tree in trees for name in bound_names(tree))

        assert sum(names[name] for name in VAGUE_NAMES) <= max_share * names.total()
