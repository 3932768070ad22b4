"""The steps of a shell command: each program with its words, and the text given to it."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

#: Maximum characters of a command that are read.
MAX_COMMAND_CHARS: Final = 16_000
#: Regular expression for a text given to a command, up to the line that ends it.
_HEREDOC: Final = re.compile(
    r"<<-?[ \t]{0,4}([\"']?)([A-Za-z_]\w{0,40})\1([^\n]{0,400})\n(.*?)(?:^[ \t]{0,8}\2$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_TOKEN: Final = re.compile(
    r"(?P<end>&&|\|\||[;|\n&](?![>&])|[()])"
    r"|(?P<to>\d?>&\d|[\d&]?>{1,2}|<)"
    r"|(?P<word>(?:[^\s;|&<>'\"\\()]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\")+)",
    re.DOTALL,
)
_quoted: Final = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL).sub
#: Regular expression for words before a program that only say how it is run.
_prefixes: Final = re.compile(
    r"(?:sudo|time|env|nohup|command|exec|then|do|else|timeout|poetry|uv|pdm|npx|bunx|run)\Z"
    r"|[A-Za-z_]\w{0,60}=|\d{1,6}[smh]?\Z"
).match


class ShellStep(msgspec.Struct, frozen=True, gc=False):
    """A program that a command runs.

    Attributes:
        words: The program, without its folder, and its arguments.
        given: The text that stood in the command for it; "" for none.
        writes: Path that its output is written to; "" for none.
        appends: True if the output is added to what stands there.
    """

    words: tuple[str, ...]
    given: str = ""
    writes: str = ""
    appends: bool = False

    @property
    def program(self) -> str:
        """The program's name."""
        return self.words[0]

    @property
    def operands(self) -> Sequence[str]:
        """The arguments that are no options."""
        return [word for word in self.words[1:] if word and not word.startswith("-")]


def shell_steps(command: str) -> tuple[ShellStep, ...]:
    """The programs that a command runs, in order."""
    texts: list[str] = []

    def keep_text(match: re.Match[str]) -> str:
        texts.append(match[4])
        return f" \x00{len(texts) - 1} {match[3]}\n"

    bare = _HEREDOC.sub(keep_text, command[:MAX_COMMAND_CHARS])
    return tuple(_steps(bare, texts))


def _steps(bare: str, texts: Sequence[str]) -> Iterator[ShellStep]:
    """The steps of a command whose texts were taken out."""
    words: list[str] = []
    input_text = redirect = ""
    output = ("", False)
    for token in _TOKEN.finditer(f"{bare}\n"):
        word = token["word"]
        if token["end"]:
            if program := _without_prefixes(words):
                yield ShellStep(program, input_text, *output)
            words, input_text, redirect, output = [], "", "", ("", False)
        elif not word:
            redirect = token["to"] if token["to"].endswith(">") else ""
        elif redirect:
            path, is_added = _plain(word), redirect.endswith(">>")
            output = output if path.startswith("/dev/") else (path, is_added)
            redirect = ""
        elif word[0] == "\x00" and word[1:].isdecimal():
            input_text = texts[int(word[1:])]
        else:
            words.append(_plain(word))


def _without_prefixes(words: Sequence[str]) -> tuple[str, ...]:
    """A program and its arguments, without what only says how it is run; () for none."""
    start = 0
    while start < len(words) and _prefixes(words[start]):
        start += 1
    if start == len(words):
        return ()
    return (words[start].rpartition("/")[2] or words[start], *words[start + 1 :])


def _plain(word: str) -> str:
    """A word without its quotes."""
    if not any(map(word.__contains__, "'\"\\")):
        return word
    return _quoted(lambda match: match[1] or match[2] or match[3] or "", word)
