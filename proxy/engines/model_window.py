"""The longest context that a model's files say it was made for: Hugging Face folders and GGUF."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

_MAGIC: Final = b"GGUF"
#: Entries of a GGUF header that are read at most, and bytes of one text.
_MAX_ENTRIES: Final = 10_000
_MAX_TEXT_BYTES: Final = 64 * 1024 * 1024
#: Formats of GGUF's value types by their number. Source: ggml, docs/gguf.md (2026-11).
_FORMATS: Final = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_TEXT: Final = 8
_ARRAY: Final = 9
_WHOLE_NUMBERS: Final = "BHIQbhiq"


class _Config(msgspec.Struct):
    max_position_embeddings: int | None = None
    text_config: "_Config | None" = None


def model_window(model: Path) -> int | None:
    """Tokens of prompt and answer that a model's files name; None where they name none.

    Args:
        model: A folder with ``config.json``, or a GGUF file.
    """
    try:
        if model.is_dir():
            config = msgspec.json.decode((model / "config.json").read_bytes(), type=_Config)
            inner = config.text_config or config
            return config.max_position_embeddings or inner.max_position_embeddings
        if model.is_file():
            with model.open("rb") as file:
                return _gguf_window(file)
    except (OSError, msgspec.DecodeError, struct.error, ValueError):
        pass
    return None


def _gguf_window(file: BinaryIO) -> int | None:
    """The first entry ``….context_length`` of a GGUF header."""

    def number(form: str) -> int:
        size = struct.calcsize(f"<{form}")
        (value,) = struct.unpack(f"<{form}", file.read(size))
        return int(value)

    if file.read(4) != _MAGIC:
        return None
    number("I")  # its version
    number("Q")  # tensors
    for _ in range(min(number("Q"), _MAX_ENTRIES)):
        name = _read_text(file, number)
        kind = number("I")
        if name.endswith(b".context_length") and _FORMATS.get(kind, "") in _WHOLE_NUMBERS:
            return number(_FORMATS[kind])
        _skip_value(file, kind, number)
    return None


def _skip_value(file: BinaryIO, kind: int, number: Callable[[str], int]) -> None:
    if kind == _TEXT:
        _read_text(file, number)
    elif kind == _ARRAY:
        inner, count = number("I"), number("Q")
        if inner in _FORMATS:
            file.seek(count * struct.calcsize(f"<{_FORMATS[inner]}"), 1)
            return
        for _ in range(min(count, _MAX_TEXT_BYTES)):
            _skip_value(file, inner, number)
    else:
        file.seek(struct.calcsize(f"<{_FORMATS.get(kind, 'x')}"), 1)


def _read_text(file: BinaryIO, number: Callable[[str], int]) -> bytes:
    size = number("Q")
    if size > _MAX_TEXT_BYTES:
        raise ValueError("a text of a GGUF header is too long")
    return file.read(size)
