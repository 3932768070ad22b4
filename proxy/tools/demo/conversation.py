"""A scripted conversation that includes the model's real answers, and the parts of a script."""

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Protocol

#: A message of the OpenAI chat wire.
Message = dict[str, Any]

_TEXTS = files("proxy.tools.demo") / "texts"


class Script(Protocol):
    """The turns of one application in one conversation; pure, so each can be built by itself."""

    @property
    def team(self) -> str:
        """The team that pays."""
        ...

    @property
    def feature(self) -> str:
        """The feature that calls."""
        ...

    @property
    def model(self) -> str:
        """The public model name."""
        ...

    @property
    def length(self) -> int:
        """Number of calls it makes."""
        ...

    def body(self, turn: int, time: datetime, answers: Sequence[Message | None]) -> dict[str, Any]:
        """The body of one call, without ``model`` and ``stream``.

        Args:
            turn: Number of the call, from 0.
            answers: The assistant's messages to the calls before it; None where there was none,
                and then the application goes on as its script says.
        """
        ...


class DemoConversation:
    """A script being played: it keeps what the assistant answered."""

    def __init__(self, name: str, script: Script) -> None:
        self.id = name
        self.script = script
        self._answers: list[Message | None] = [None] * script.length

    def body(self, turn: int, time: datetime) -> dict[str, Any]:
        """The body of one call, with the answers that have come so far in its history."""
        return self.script.body(turn, time, self._answers[:turn])

    def with_script(self, script: Script) -> "DemoConversation":
        """The same answers in another script of as many turns."""
        other = DemoConversation(self.id, script)
        other._answers = self._answers
        return other

    def record_answer(self, turn: int, message: Mapping[str, Any]) -> None:
        """Put the assistant's message to this turn into the history; an empty one counts as none.

        Args:
            message: As the chat wire has it: ``content`` and, where tools are called,
                ``tool_calls``; the rest is left out.
        """
        answer = {name: message[name] for name in ("content", "tool_calls") if message.get(name)}
        self._answers[turn] = {"role": "assistant", **answer} if answer else None


def seeded_random(*seed: object) -> random.Random:
    """Dice that fall the same way for the same seed, on every machine."""
    return random.Random("/".join(map(str, seed)))  # noqa: S311 - repeatable, not secret


def text(name: str) -> str:
    """A text of the demo, without space around it."""
    return (_TEXTS / name).read_text(encoding="utf-8").strip()


def sections(name: str) -> dict[str, str]:
    """The parts of a text by the headings of its first heading's level, in order."""
    whole = text(name)
    level = whole.split(" ", 1)[0]
    _, *parts = re.split(rf"^{level} (.+)\n", whole, flags=re.MULTILINE)
    return {title: part.strip() for title, part in zip(parts[::2], parts[1::2], strict=True)}


def table(name: str, key: str) -> list[dict[str, Any]]:
    """The entries of a TOML text's one array of tables."""
    return file_table(_TEXTS / name, key)


def file_table(file: Traversable, key: str) -> list[dict[str, Any]]:
    """The entries of an array of tables in a TOML file of ours."""
    entries: list[dict[str, Any]] = tomllib.loads(file.read_text("utf8"))[key]
    return entries
