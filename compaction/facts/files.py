"""Facts about files: each path, and what was done to it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from compaction.facts.call_lines import parse_arguments
from compaction.facts.call_outcomes import CallOutcome
from compaction.facts.fact import Fact, FactKind
from compaction.facts.region_contents import RegionContents, ToolExchange
from compaction.results.rereadable_results import is_file

#: Regular expression for a path with a folder, or a file's name; bounded, so one pass is enough.
_PATH: Final = re.compile(
    r"(?<![\w.@:/*?+$)}-])(?:~|\.{1,2})?/?(?:[\w.@+-]{1,80}/){1,20}[\w.@+-]{0,80}"
    r"|(?<![\w.@:/*?+$)}-])/?[\w@+-]{1,80}(?:\.[\w-]{1,40}){1,4}(?![(/\w])"
)
#: Regular expression for expressions of sed, which are not paths; nor is text given to a shell.
_EDIT: Final = re.compile(r"\b[sy]/")
#: Regular expression for quoted instructions to sed, which are followed by a file.
_QUOTED: Final = r"""(?:'[^']*'|"(?:[^"\\]|\\.)*")"""
_PROGRAM: Final = re.compile(
    rf"\bsed(?:\s+-[\w=.-]{{1,40}}){{0,8}}(?:\s+(?:''|\"\"))?\s+{_QUOTED}(?:\s+-e\s+{_QUOTED}){{0,20}}"
)
#: Names of arguments that hold a shell command.
_COMMANDS: Final = frozenset({"command", "cmd", "commands", "script", "args", "input"})
#: Maximum characters of a call that are searched for paths.
_SCANNED_CHARS: Final = 4_000
#: Maximum paths read from one call.
_MAX_PATHS: Final = 12
_WORD: Final = re.compile(r"[a-z]+")
_DONE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("create", "touch", "mkdir", "new"), "created"),
    **dict.fromkeys(
        (
            "edit",
            "write",
            "replace",
            "insert",
            "patch",
            "sed",
            "append",
            "update",
            "apply",
            "overwrite",
        ),
        "edited",
    ),
    **dict.fromkeys(("delete", "remove", "rm", "unlink"), "deleted"),
    **dict.fromkeys(("move", "rename", "mv"), "moved"),
    **dict.fromkeys(
        ("python", "python3", "pytest", "node", "make", "npm", "cargo", "go", "run", "execute"),
        "run",
    ),
}

#: Actions that change a file.
_CHANGES: Final = frozenset({"created", "edited", "deleted", "moved"})


def file_facts(part: RegionContents) -> Iterator[Fact]:
    """Each path that calls named, with what they did to it, in the order of first appearance."""
    done: dict[str, dict[str, None]] = {}
    turns: dict[str, dict[int, None]] = {}
    last: dict[str, int] = {}
    for exchange in part.exchanges:
        verb = _with_outcome(exchange, _effect_verb(exchange))
        for path in _paths(exchange):
            done.setdefault(path, {})[verb] = None
            turns.setdefault(path, {})[exchange.turn] = None
            last[path] = exchange.messages[-1]
    for path, verbs in done.items():
        yield Fact(
            kind=FactKind.FILE,
            text=f"{path} {', '.join(verbs)}",
            turns=tuple(turns[path]),
            messages=(last[path],),
            key=path,
        )


def _effect_verb(exchange: ToolExchange) -> str:
    """The verb for a call's effect on the files that it names."""
    read = parse_arguments(exchange.called)
    words = _WORD.findall(exchange.called.name[:128].lower())
    if isinstance(read, dict):
        words += _WORD.findall(str(read.get("command", ""))[:200].lower())
    else:
        words += _WORD.findall(exchange.called.arguments[:200].lower())
    return next((_DONE[word] for word in words if word in _DONE), "read")


def _with_outcome(exchange: ToolExchange, verb: str) -> str:
    """The effect of a call on a file; for a change also that it failed or is unknown."""
    if verb not in _CHANGES:
        return verb
    if CallOutcome(exchange).is_wrong:
        return f"{verb} (error)"
    return verb if exchange.result else f"{verb} (unknown)"


def _paths(exchange: ToolExchange) -> dict[str, None]:
    """The paths that a call names, each once."""
    paths: dict[str, None] = {}
    for text in _path_arguments(parse_arguments(exchange.called), exchange.called.arguments):
        for path in _PATH.finditer(_PROGRAM.sub("sed", text[:_SCANNED_CHARS])):
            if len(paths) == _MAX_PATHS:
                return paths
            if _is_path(path[0]):
                paths[path[0]] = None
    return paths


def _is_path(word: str) -> bool:
    """True if a word that may be a path is one: with a folder that is named, or a file's ending."""
    if "/" not in word:
        return is_file(word) is not None
    return not _EDIT.match(word) and any(map(str.isalnum, word))


def _path_arguments(read: Any, raw: str) -> Iterator[str]:  # noqa: ANN401
    """The arguments of a call that may name files: paths alone, and shell commands."""
    if not isinstance(read, dict):
        yield raw
        return
    for key, value in read.items():
        if isinstance(value, str) and (key in _COMMANDS or _PATH.fullmatch(value)):
            yield value
