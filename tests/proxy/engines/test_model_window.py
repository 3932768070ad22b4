"""The context that a model's files were made for."""

import json
import struct

import pytest

from proxy.engines.model_window import model_window
from tests.fakes.engine_profiles import tiny_models


def gguf(*entries: tuple[bytes, int, bytes]) -> bytes:
    """A header with entries of a name, a type and an encoded value."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries))
    return head + b"".join(
        struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value
        for name, kind, value in entries
    )


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def test_the_window_of_a_gguf_file_stands_behind_entries_of_any_type(tmp_path):
    words = struct.pack("<IQ", 8, 2) + text(b"a") + text(b"bc")
    numbers = struct.pack("<IQ", 4, 3) + struct.pack("<III", 1, 2, 3)
    model = tmp_path / "m.gguf"
    model.write_bytes(
        gguf(
            (b"general.name", 8, text(b"tiny")),
            (b"tokenizer.ggml.tokens", 9, words),
            (b"tokenizer.ggml.types", 9, numbers),
            (b"general.quantized", 7, b"\1"),
            (b"llama.context_length", 4, struct.pack("<I", 8192)),
        )
    )

    assert model_window(model) == 8192


def test_the_window_of_the_shipped_model_is_read():
    assert model_window(tiny_models() / "target.gguf") == 4096


@pytest.mark.parametrize(
    "config",
    [{"max_position_embeddings": 40960}, {"text_config": {"max_position_embeddings": 40960}}],
)
def test_the_window_of_a_folder_is_that_of_its_config(tmp_path, config):
    (tmp_path / "config.json").write_text(json.dumps(config))

    assert model_window(tmp_path) == 40960


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GGUF",
        b"no model at all",
        gguf()[:-3],
        gguf((b"n", 8, b"\xff" * 8)),
        gguf((b"n", 77, b"")),
    ],
)
def test_of_a_file_that_cannot_be_read_nothing_is_known(tmp_path, data):
    model = tmp_path / "m.gguf"
    model.write_bytes(data)

    assert model_window(model) is None
    assert model_window(tmp_path / "gone") is None
    assert model_window(tmp_path) is None
