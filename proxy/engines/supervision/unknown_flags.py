"""Flags that an engine does not know: found in its last output, and left out where it may be.

Another version of an engine may lack a flag, or a word that it takes. Where answers are the same
without it, the engine is started without; a flag such as its model or its port is never left out.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from proxy.engines.adapters.launch_command import SPECULATION, LaunchCommand, LaunchFlag

_NO_SPECULATION: Final = "none"
#: Last words of engines that refuse a flag.
#: Source: argparse of Python 3.11 (vLLM); common/arg.cpp of llama.cpp (2026-11).
_MESSAGES: Final = (
    re.compile(r"error: unrecognized arguments: (.+)"),
    re.compile(r"error: argument (\S+): invalid choice"),
    re.compile(r"error: invalid argument: (\S+)"),
    re.compile(r'error while handling argument "([^"]+)"'),
)


def unknown_flags(lines: Sequence[str]) -> frozenset[str]:
    """The flags that an engine refuses in the output with which it ended."""
    return frozenset(_names(lines))


def _names(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        for message in _MESSAGES:
            if refusal := message.search(line):
                for word in re.split(r"[\s/]+", refusal[1]):
                    if word.startswith("--"):
                        yield word.partition("=")[0]


def without_flags(command: LaunchCommand, unknown: frozenset[str]) -> LaunchCommand | None:
    """The command without flags that its engine does not know; None where that cannot help.

    All flags of one feature are left out together. It cannot help where one has to be followed,
    or where the profile itself adds it.
    """
    refused = [flag for flag in command.flags if not unknown.isdisjoint(flag.argv)]
    features = {flag.feature for flag in refused}
    if not refused or "" in features:
        return None
    flags = tuple(flag for flag in command.flags if flag.feature not in features)
    speculation = _NO_SPECULATION if SPECULATION in features else command.speculation
    return replace(command, flags=flags, speculation=speculation)


def flags_left_out(command: LaunchCommand, launched: LaunchCommand) -> tuple[str, ...]:
    """The flags that one command has and the other one has not, each with its reason."""
    launched_flags = set(launched.flags)
    return tuple(_describe(flag) for flag in command.flags if flag not in launched_flags)


def _describe(flag: LaunchFlag) -> str:
    return f"{' '.join(flag.argv)} ({flag.reason.rstrip('.')})"
