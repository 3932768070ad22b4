"""Operations on files in a coding agent's call, by command and result, not by its tool's name.

Sources: tools of Claude Code 2.1 (Read, Edit, MultiEdit, Write, Bash), Anthropic's text editor
(``str_replace_based_edit_tool``), OpenHands (``str_replace_editor``), Codex (``apply_patch``), pi,
Gemini CLI, Cline and SWE-agent, by their schemas and recorded calls (2026-11).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

import msgspec

from compaction.agents.shell_steps import ShellStep, shell_steps
from compaction.reading.message import CalledTool, parse_arguments
from compaction.results.rereadable_results import is_file


class FileEffect(StrEnum):
    """The effect of an operation on a file."""

    VIEWED = "viewed"
    SEARCHED = "searched"
    CREATED = "created"
    EDITED = "edited"
    UNDONE = "undone"
    DELETED = "deleted"
    MOVED = "moved"
    RUN = "run"
    TESTED = "tested"


#: Effects that change a file.
CHANGES: Final = frozenset(
    {
        FileEffect.CREATED,
        FileEffect.EDITED,
        FileEffect.UNDONE,
        FileEffect.DELETED,
        FileEffect.MOVED,
    }
)


class FileOperation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An operation of a call on a file.

    Attributes:
        path: As it is named there.
        start: First line that was looked at; 0 where that is not known.
        replaced: Text that an edit took out; "" where it is not known.
        text: Text that it put there.
        is_whole: True if the text is all of the file.
        by_shell: True if a shell did it: one that prints nothing has succeeded.
        is_alone: True if the call did nothing else, so that its outcome is this one's.
    """

    path: str
    effect: FileEffect
    start: int = 0
    replaced: str = ""
    text: str = ""
    is_whole: bool = False
    by_shell: bool = False
    is_alone: bool = True


#: Path that stands for all files that were changed.
ALL_FILES: Final = "*"
#: Maximum operations of one call.
_MAX_OPERATIONS: Final = 12
#: Maximum characters of a path, and of a tool's name that are read.
_MAX_PATH_CHARS: Final = 400
_MAX_NAME_CHARS: Final = 128
_PATH_KEYS: Final = (
    *("path", "file_path", "filepath", "filename", "file_name", "file", "target_file"),
    *("notebook_path", "absolute_path", "relative_path", "source", "destination", "uri"),
)
_COMMAND_KEYS: Final = ("command", "cmd", "commands", "script", "args", "input", "code", "bash")
_OLD_KEYS: Final = ("old_str", "old_string", "oldText", "search", "find", "old_text")
_NEW_KEYS: Final = ("new_str", "new_string", "newText", "replace", "new_text", "replacement")
_TEXT_KEYS: Final = ("file_text", "content", "contents", "text", "new_source", "code_edit")
_START_KEYS: Final = ("offset", "start_line", "line_number", "start", "line_start")
_word = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])").findall
#: Effects by the verbs of commands and tools, the first that a name holds.
_VERBS: Final[Mapping[str, FileEffect]] = {
    **dict.fromkeys(("undo", "revert", "restore", "rollback"), FileEffect.UNDONE),
    **dict.fromkeys(("delete", "remove", "rm", "unlink"), FileEffect.DELETED),
    **dict.fromkeys(("move", "rename", "mv"), FileEffect.MOVED),
    **dict.fromkeys(("view", "read", "open", "cat", "show"), FileEffect.VIEWED),
    **dict.fromkeys(("create", "touch", "mkdir", "new", "write"), FileEffect.CREATED),
    **dict.fromkeys(
        ("edit", "replace", "insert", "patch", "append", "update", "apply", "overwrite"),
        FileEffect.EDITED,
    ),
    **dict.fromkeys(("search", "grep", "find", "glob"), FileEffect.SEARCHED),
    **dict.fromkeys(("run", "execute", "python", "exec"), FileEffect.RUN),
}

#: Shell programs by what they do to the files that they name.
_PROGRAMS: Final[Mapping[str, FileEffect]] = {
    **dict.fromkeys(
        ("cat", "head", "tail", "less", "more", "nl", "bat", "sed", "open", "awk", "goto"),
        FileEffect.VIEWED,
    ),
    **dict.fromkeys(("grep", "rg", "ag", "egrep", "fgrep", "wc", "ls"), FileEffect.SEARCHED),
    **dict.fromkeys(("touch", "mkdir", "create", "cp"), FileEffect.CREATED),
    **dict.fromkeys(("tee", "ed", "edit", "patch", "perl"), FileEffect.EDITED),
    **dict.fromkeys(("rm", "unlink", "rmdir"), FileEffect.DELETED),
    **dict.fromkeys(("mv",), FileEffect.MOVED),
    **dict.fromkeys(
        ("pytest", "tox", "nox", "jest", "vitest", "ctest", "rspec"), FileEffect.TESTED
    ),
    **dict.fromkeys(
        ("python", "python3", "node", "bash", "sh", "ruby", "go", "deno", "bun", "tsx", "make"),
        FileEffect.RUN,
    ),
}
_GIT: Final[Mapping[str, FileEffect]] = {
    **dict.fromkeys(("checkout", "restore", "reset", "stash"), FileEffect.UNDONE),
    "rm": FileEffect.DELETED,
    "mv": FileEffect.MOVED,
}
_ALL_UNDONE: Final = re.compile(
    r"git (?:(?:checkout|restore)(?: --| HEAD| -f)* \.|reset .*--hard|stash(?: push| -u|$))"
).match
#: Regular expression for a command that runs tests.
_TESTS: Final = re.compile(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|ctest|rspec|phpunit|mocha|gradle\w*\s(?:\S+\s)?test"
    r"|(?:npm|yarn|pnpm|go|cargo|make|mvn|dotnet|bun|deno|swift|mix|rake|manage\.py)\s(?:run\s)?"
    r"(?:-\S+\s)*test\w*|runtests?\b)"
).search
#: Programs whose first argument is a pattern or an expression.
_PATTERN_FIRST: Final = frozenset({"sed", "awk", "perl", "grep", "egrep", "fgrep", "rg", "ag"})
_LINES: Final = re.compile(r"(\d{1,7})(?:,\+?(\d{1,7}|\$))?p\Z").match
#: Regular expression for a path as one word: with a folder, or a file's name.
_is_path: Final = re.compile(
    r"(?=.*\w)(?!https?:)(?:~|\.{0,2})?/?(?:[\w.@+\[\]()-]{1,80}/){0,20}[\w.@+\[\]()-]{1,80}/?\Z"
).match
_PATCHED: Final = re.compile(
    r"^\*\*\* (Add|Update|Delete) File: (.{1,400})$|^\+\+\+ (?:b/)?(\S{1,400})", re.MULTILINE
)
_PATCH_EFFECTS: Final = {
    "Add": FileEffect.CREATED,
    "Delete": FileEffect.DELETED,
    "Update": FileEffect.EDITED,
}
_SHOWN: Final = re.compile(r"\[File: (.{1,400}?) \(\d+ lines")
#: Regular expression for the beginning of a result that says that an edit was not made.
_FAILED_EDIT: Final = re.compile(
    r"(?=[cdefimnst])(?:no replacement|no changes? (?:was|were|made)|not found|could ?n[o']t|cannot"
    r"|did not|didn't|does not exist|no match|failed|syntax error|not (?:applied|unique|been)"
    r"|tool_use_error|invalid|must be unique|multiple (?:occurrences|matches)|error)",
    re.IGNORECASE,
).search
#: Maximum characters of a result's first line that are searched for that.
_JUDGED_CHARS: Final = 200


def file_operations(called: CalledTool, result: str = "") -> tuple[FileOperation, ...]:
    """The operations of a call on the files that it names, whether or not it succeeded."""
    read = parse_arguments(called)
    fields = read if isinstance(read, dict) else {}
    command = _shell_command(fields) if fields else called.arguments
    if command and "*** Begin Patch" in command:
        operations = _patch_operations(command)
    elif command:
        operations = _shell_operations(command, result)
    else:
        operations = _editor_operations(called.name, fields)
    named = list(operations)[:_MAX_OPERATIONS]
    return tuple(_with_shown_path(operation, result) for operation in named)


def is_test_run(called: CalledTool) -> bool:
    """True if a call runs tests."""
    read = parse_arguments(called)
    command = _shell_command(read) if isinstance(read, dict) else called.arguments
    return _TESTS(command[:_MAX_PATH_CHARS]) is not None


def is_file_view(name: str, arguments: str) -> bool:
    """True if a call shows a part of a file, which an edit may have to match to the letter."""
    called = CalledTool(id="", name=name, arguments=arguments)
    return any(one.effect is FileEffect.VIEWED for one in file_operations(called))


def says_not_edited(result: str) -> bool:
    """True if a result's first line says that an edit was not made."""
    return _FAILED_EDIT(result[:_JUDGED_CHARS].strip().partition("\n")[0]) is not None


def _shell_command(fields: Mapping[str, Any]) -> str:
    """The shell command among arguments; "" for none, and for one word that an editor takes."""
    for key in _COMMAND_KEYS:
        value = fields.get(key)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return value[-1] if value[:2] in (["bash", "-lc"], ["bash", "-c"]) else " ".join(value)
        if isinstance(value, str) and value and not _path_of(fields):
            return value
    return ""


def _path_of(fields: Mapping[str, Any]) -> str:
    """The path among arguments; "" for none."""
    for key in _PATH_KEYS:
        value = fields.get(key)
        if isinstance(value, str) and _is_path(value[:_MAX_PATH_CHARS].strip()):
            return value.strip()
    return ""


def _editor_operations(name: str, fields: Mapping[str, Any]) -> Iterator[FileOperation]:
    """The operations of an editor's call."""
    verb = fields.get("command") or fields.get("action") or ""
    words = _word(f"{verb if isinstance(verb, str) else ''} {name[:_MAX_NAME_CHARS]}")
    effect = next((_VERBS[word.lower()] for word in words if word.lower() in _VERBS), None)
    path = _path_of(fields) if effect else ""
    if effect is None or not path:
        return
    edits = fields.get("edits")
    for edit in edits if isinstance(edits, list) and edits else [fields]:
        inner = edit if isinstance(edit, dict) else {}
        yield FileOperation(
            path=path,
            effect=effect,
            start=_first_line(fields),
            replaced=_first_text(inner, _OLD_KEYS),
            text=_first_text(inner, (*_NEW_KEYS, *_TEXT_KEYS)),
            is_whole=effect is FileEffect.CREATED,
        )


def _first_text(fields: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((fields[key] for key in keys if isinstance(fields.get(key), str)), "")


def _first_line(fields: Mapping[str, Any]) -> int:
    """The first line that is asked for; 0 for the beginning."""
    span = fields.get("view_range")
    if isinstance(span, list) and span and isinstance(span[0], int):
        return span[0]
    return next((fields[key] for key in _START_KEYS if isinstance(fields.get(key), int)), 0)


def _patch_operations(patch: str) -> Iterator[FileOperation]:
    """The operations of a patch."""
    for match in _PATCHED.finditer(patch):
        path = (match[2] or match[3]).strip()
        yield FileOperation(path=path, effect=_PATCH_EFFECTS[match[1] or "Update"])


def _shell_operations(command: str, result: str) -> Iterator[FileOperation]:
    """The operations of a shell command."""
    steps = [step for step in shell_steps(command) if step.program != "cd"]
    for step in steps:
        for operation in _step_operations(step, result):
            yield msgspec.structs.replace(operation, by_shell=True, is_alone=len(steps) == 1)


def _step_operations(step: ShellStep, result: str) -> Iterator[FileOperation]:
    """The operations of a step of a shell command."""
    if step.writes:
        text = step.given if step.program in {"cat", "tee"} else ""
        yield FileOperation(
            path=step.writes,
            effect=FileEffect.EDITED if step.appends else FileEffect.CREATED,
            text=text,
            is_whole=bool(text) and not step.appends,
        )
    elif step.given and "+++ " in step.given:
        yield from _patch_operations(step.given)
    effect = _step_effect(step)
    if effect is None:
        return
    start = _first_shown_line(step) if effect is FileEffect.VIEWED else 0
    for path in _step_paths(step, result):
        yield FileOperation(path=path, effect=effect, start=start)
    if effect is FileEffect.UNDONE and _ALL_UNDONE(" ".join(step.words)):
        yield FileOperation(path=ALL_FILES, effect=effect)


def _step_effect(step: ShellStep) -> FileEffect | None:
    """The effect of a program on the files it names; None for one that only names them."""
    if _TESTS(" ".join(step.words[:4])):
        return FileEffect.TESTED
    if step.program == "git":
        return _GIT.get(step.words[1] if len(step.words) > 1 else "")
    effect = _PROGRAMS.get(step.program)
    if step.program in {"sed", "perl", "awk"}:
        is_edit = any(word.startswith(("-i", "--in-place", "-pi")) for word in step.words[1:])
        return FileEffect.EDITED if is_edit else FileEffect.VIEWED
    return FileEffect.RUN if effect is None and is_file(step.program) else effect


def _step_paths(step: ShellStep, result: str) -> Iterator[str]:
    """The files that a program is given."""
    operands = _file_operands(step)
    if is_file(step.program):
        operands = [step.words[0], *operands]
    for word in operands:
        path = word.partition("::")[0]
        if _is_named_file(path, step.program):
            yield path
    if step.program in {"edit", "goto", "scroll_down", "scroll_up"} and (
        shown := _SHOWN.search(result)
    ):
        yield shown[1]


def _file_operands(step: ShellStep) -> Sequence[str]:
    """The arguments of a program that may be files: no options, patterns or expressions."""
    expressions = {after for word, after in pairwise(step.words) if word in {"-e", "-c", "-m"}}
    operands = [word for word in step.operands if word not in expressions]
    if step.program in _PATTERN_FIRST and not expressions:
        return operands[1:]
    return operands[-1:] if step.program == "cp" else operands


def _is_named_file(path: str, program: str) -> bool:
    """True if a program's argument is a file or a folder, not a number or a pattern."""
    if not _is_path(path) or len(path) > _MAX_PATH_CHARS or path.startswith("/dev/"):
        return False
    return "/" in path.rstrip("/") or is_file(path) is not None or program in {"cat", "rm", "touch"}


def _first_shown_line(step: ShellStep) -> int:
    """The first line that sed prints; 0 where it prints from the beginning."""
    spans = [match for word in step.operands if (match := _LINES(word))]
    return int(spans[0][1]) if step.program == "sed" and spans else 0


def _with_shown_path(operation: FileOperation, result: str) -> FileOperation:
    """The operation as its result tells it: a file written over was edited, not created."""
    if operation.effect is FileEffect.CREATED and re.search(
        r"\b(?:updated|overwr\w+)\b", result[:_JUDGED_CHARS]
    ):
        return msgspec.structs.replace(operation, effect=FileEffect.EDITED)
    return operation
