"""The bytes of an answer that are kept, within a bound, and what can be read of them at its end."""

from collections.abc import Iterator
from typing import Final

from proxy.providers.answers.assistant_message import assistant_message
from proxy.providers.answers.generated_text import (
    Place,
    answer_pieces,
    stream_choices,
    stream_pieces,
)
from proxy.providers.answers.output_items import output_items
from proxy.providers.json_size import MAX_OBJECTS, may_exceed

#: Bytes of a stream in which all its choices have begun; they are generated at once.
_OPENING_BYTES: Final = 64 * 1024


class KeptAnswer:
    """The runs of one answer, as many as there is room for.

    Args:
        bound: Bytes that are kept.
    """

    __slots__ = ("_is_cut", "_room", "_runs", "_streamed")

    def __init__(self, *, streamed: bool, bound: int) -> None:
        self._streamed = streamed
        self._room = bound
        self._runs: list[bytes] = []
        self._is_cut = False

    def add(self, run: bytes) -> None:
        """Keep a run while there is room."""
        if len(run) <= self._room:
            self._room -= len(run)
            self._runs.append(run)
        else:
            self._is_cut = True

    @property
    def may_have_text(self) -> bool:
        """True if text was generated, or where looking for it would take long."""
        is_dense = any(may_exceed(run, MAX_OBJECTS) for run in self._runs)
        return is_dense or any(True for _ in self._pieces())

    def text(self) -> str:
        """The text generated, one line for each part of the answer."""
        parts: dict[Place, list[str]] = {}
        for place, piece in self._pieces():
            parts.setdefault(place, []).append(piece)
        return "\n".join("".join(pieces) for pieces in parts.values())

    def begun_choices(self) -> int:
        """Choices that began, by the stream's first events; 0 for an answer that is no stream."""
        choices: set[int] = set()
        size = 0
        for run in self._runs if self._streamed else ():
            if (size := size + len(run)) > _OPENING_BYTES:
                break
            choices |= stream_choices(run)
        return len(choices)

    def assistant_message(self, max_bytes: int) -> bytes | None:
        """The answer's message as its caller will send it back; None where it is not all kept."""
        is_whole = self._is_whole(max_bytes)
        return assistant_message(self._runs, streamed=self._streamed) if is_whole else None

    def output_items(self, max_bytes: int) -> bytes | None:
        """The items of a Responses answer as its caller will send them back, as a JSON list."""
        is_whole = self._is_whole(max_bytes)
        return output_items(self._runs, streamed=self._streamed) if is_whole else None

    def _is_whole(self, max_bytes: int) -> bool:
        return not self._is_cut and sum(map(len, self._runs)) <= max_bytes

    def _pieces(self) -> Iterator[tuple[Place, str]]:
        pieces = stream_pieces if self._streamed else answer_pieces
        for run in self._runs:
            yield from pieces(run)
