"""Classifies a region's tool results: records to keep, or output that the agent can read again."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from compaction.reading.message import CalledTool, ParsedMessage, Voice

#: Minimum share of the results' tokens that must be re-readable.
MIN_REREADABLE_SHARE: Final = 0.7
#: Maximum lines of a result that are read.
_SCANNED_LINES: Final = 80
_SCANNED_LINE_CHARS: Final = 200
#: Maximum characters at each end of a result that are searched for what only a shell prints.
_SCANNED_EDGE_CHARS: Final = 400
#: Minimum share of lines that must look like a file, a listing or a shell's output.
_MIN_TELLING_LINES_SHARE: Final = 0.3
#: Minimum number of such lines: prose too may hold one tag or heading.
_MIN_TELLING_LINES: Final = 2


class ResultProfile(StrEnum):
    """The kind of results, which decides how they are compacted."""

    RECORDS = "records"  #: They become records: the same is not asked again.
    REREADABLE = "rereadable"  #: They are masked: files, listings, what a shell prints.


_source_line = re.compile(
    r"[ \t]*+(?:"
    r"\d{1,6}[ \t]*[:|→\t]"  # a numbered line
    r"|[-\w./~+@]+:\d+[:\s]"  # a hit of a search
    r"|[-dl](?:[r-][w-][xsStT-]){3}"  # ls -l
    r"|(?:diff --git |index [0-9a-f]{7}|@@ -|\+\+\+ |--- )"  # a diff
    r"|(?:Traceback \(most|File \"|at \S+ ?\(|\$ |# |//|/\*|\*/|\* |#include |#define )"
    r"|(?:import|from|package|use) [\w./:@{*\"']+(?: import\b| from\b|;|$)"
    r"|(?:if|elif|else|for|while|try|except|finally|with|case)\b[^.]*:$"
    r"|(?:def|class|return|if|for|while|try|async|await|const|let|var|function|export|public|private"
    r"|protected|static|void|int|fn|pub|func|type|interface|struct|enum|switch|throw|raise|with|self)"
    r"\b(?=.*[=({;\[]).*[\w)(:;{},\]\"']$"
    r"|[})\]]+[,;)]*$"
    r"|</?[a-z][\w-]*[^>]{0,200}>"
    r"|(?:~|\.{1,2})?/?(?:[-\w.@+]+/)+[-\w.@+]*:?$"  # a path alone
    r"|[-\w@+]+\.[A-Za-z]\w{0,7}$"
    r"|.{0,200}[;{]$"
    r")"
).match
_shell = re.compile(
    r"bash-\$\s*\Z|\A\[File: |\(Current directory: |\bexit(?:ed with)?[ _]?(?:code|status)\b"
    r"|<returncode>|Successfully (?:replaced|wrote)|\A\(no output\)",
    re.IGNORECASE,
).search
_runs = re.compile(
    r"(?:\w*[_-])?(?:bash|shell|terminal|console|exec|execute|run|ls|grep|rg|glob|sed|find_file"
    r"|str_replace\w*|apply_patch|list_dir\w*|run_command\w*)(?:[_-](?:file|files|dir|directory|command|bash|shell|ipython|cell))*",
    re.IGNORECASE,
).fullmatch
_reads = re.compile(
    r"(?:\w*[_-])?(?:cat|view|open|edit|write|read|create|insert)"
    r"(?:[_-](?:file|files|path|text|editor))*",
    re.IGNORECASE,
).fullmatch
_path = re.compile(r"/[\w.-]|\w\.\w{1,5}\b|\"(?:command|cmd|path)\"").search
_source = re.compile(
    r"\w\.(?:py|pyi|ipynb|tsx?|jsx?|[cm]js|vue|toml|cfg|ini|lock|rst|mdx?|s?css|html?|svg|[ch]|cc|[ch]pp|go"
    r"|rs|java|kt|swift|rb|php|pl|sh|lua|sql|json|ya?ml)\b"
).search
_record = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\[{\"\d\]-])").match


def result_profile(messages: Sequence[ParsedMessage]) -> ResultProfile:
    """Re-readable where most of what tools gave back is; records where there is nothing."""
    calls = {call.id: call for message in messages for call in message.calls if call.id}
    results = [message for message in messages if message.voice is Voice.RESULT]
    read = sum(
        result.tokens for result in results if is_rereadable(result.text, calls.get(result.answers))
    )
    whole = sum(result.tokens for result in results)
    return (
        ResultProfile.REREADABLE
        if whole and read >= MIN_REREADABLE_SHARE * whole
        else ResultProfile.RECORDS
    )


def is_rereadable(text: str, call: CalledTool | None = None) -> bool:
    """True if a result could be had again by asking again: a file, a listing, a shell's answer."""
    if call is not None:
        name, arguments = call.name[:_SCANNED_LINE_CHARS], call.arguments
        if (_runs(name) and _path(arguments)) or (_reads(name) and _source(arguments)):
            return True
    if _record(text):
        return False
    if _shell(text[:_SCANNED_EDGE_CHARS]) or _shell(text[-_SCANNED_EDGE_CHARS:]):
        return True
    lines = [line for line in text.split("\n", _SCANNED_LINES)[:_SCANNED_LINES] if line.strip()]
    telling = sum(1 for line in lines if _source_line(line[:_SCANNED_LINE_CHARS]))
    return telling >= _MIN_TELLING_LINES and telling > _MIN_TELLING_LINES_SHARE * len(lines)
