"""System prompts that calls used most, in a file, so that a gateway that starts can warm them.

It holds text of prompts, so it has those of teams alone that keep prompts. A gateway replaces it
every minute and when it ends; without such prompts there is no file.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from proxy.engines.state_file import replace_private_file

_log = logging.getLogger("thriftgate.engines")

#: Prompts in the file, those of one team, and bytes of all of them.
MAX_PROMPTS: Final = 64
MAX_PROMPTS_OF_TEAM: Final = 16
MAX_BYTES: Final = 4 * 1024 * 1024
#: Seconds after its last use from which on a prompt is not read back.
MAX_AGE_S: Final = 24 * 3600.0
_NAME: Final = "system-prompts.json"
_VERSION: Final = 1


class PromptBody(msgspec.Struct, frozen=True):
    """A body with a system prompt, and the path below ``/v1/`` of the API that it is of."""

    endpoint: str
    body: bytes


class KeptPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A system prompt and its uses.

    Attributes:
        model: Name under which engines serve its model.
        team: The id of the team whose it is.
        key: The id of the key that used it last.
        feature: Feature of its calls.
        regions: Regions where it may be processed; None for anywhere.
        sent: It as engines get it.
        asked: It as callers write it; None where that is the same.
        calls: Calls that used it.
        weight: Uses, of which one counts half after an hour; as of the last use.
        used_at: Time of the last use, in seconds since the epoch.
    """

    model: str
    team: str
    key: str
    feature: str
    regions: tuple[str, ...] | None = None
    sent: PromptBody
    asked: PromptBody | None = None
    calls: int
    weight: float
    used_at: float

    @property
    def size(self) -> int:
        """Bytes of its bodies."""
        return len(self.sent.body) + (0 if self.asked is None else len(self.asked.body))


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    version: int = _VERSION
    prompts: tuple[KeptPrompt, ...] = ()


class SystemPromptFile:
    """The file of one data folder.

    Args:
        folder: The data folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "engines" / _NAME
        self._has_failed = False

    def write(self, prompts: Sequence[KeptPrompt]) -> None:
        """Replace the prompts, or remove the file where there are none; a failure is logged once.

        Args:
            prompts: The most used one first; what is over the bounds is left out.
        """
        kept = bounded_prompts(prompts)
        try:
            if not kept:
                self._path.unlink(missing_ok=True)
                return
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private_file(self._path, _Content(prompts=tuple(kept)))
        except OSError as error:
            if not self._has_failed:
                _log.warning("System prompts cannot be written to %s: %s", self._path, error)
            self._has_failed = True

    def read(self, now: float) -> list[KeptPrompt]:
        """The prompts that were used within a day; none where the file cannot be read.

        Args:
            now: Seconds since the epoch.
        """
        with suppress(OSError, msgspec.DecodeError):
            content = msgspec.json.decode(self._path.read_bytes(), type=_Content)
            if content.version == _VERSION:
                return [each for each in content.prompts if now - each.used_at <= MAX_AGE_S]
        return []


def bounded_prompts(prompts: Sequence[KeptPrompt]) -> list[KeptPrompt]:
    """The first prompts that are within the bounds of the file."""
    kept: list[KeptPrompt] = []
    of_team: dict[str, int] = {}
    left = MAX_BYTES
    for each in prompts:
        count = of_team.get(each.team, 0)
        if len(kept) < MAX_PROMPTS and count < MAX_PROMPTS_OF_TEAM and each.size <= left:
            kept.append(each)
            of_team[each.team] = count + 1
            left -= each.size
    return kept
