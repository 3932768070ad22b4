"""Images and speech: answers of the right form and size, whose content is plainly made up."""

import base64
import struct
import zlib
from typing import Final

from proxy.tools.simulator.bodies import Body, output_bound, required_field
from proxy.tools.simulator.streams import Json

#: Tokens of one image; the simulator's own figure.
_IMAGE_TOKENS: Final = 1_056
_MAX_IMAGES: Final = 10
_CHARS_PER_TOKEN: Final = 4
#: Samples a second of simulated speech, each of 16 bits.
_SAMPLE_RATE_HZ: Final = 8_000
#: Samples for each character that is spoken, up to a minute.
_SAMPLES_PER_CHAR: Final = 400
_MAX_SAMPLES: Final = 60 * _SAMPLE_RATE_HZ


def image_answer(body: Body, created: int) -> Json:
    """The answer of an image model: one grey pixel for each image that was asked for.

    Source: OpenAI API reference, create image (2026-11).
    """
    prompt = required_field(body, "prompt", str)
    count = output_bound({"n": 1, **body}, ("n",), _MAX_IMAGES)
    read, generated = len(prompt) // _CHARS_PER_TOKEN + 1, count * _IMAGE_TOKENS
    pixel = base64.b64encode(_grey_pixel()).decode()
    return {
        "created": created,
        "data": [{"b64_json": pixel} for _ in range(count)],
        "output_format": "png",
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"text_tokens": read, "image_tokens": 0},
            "output_tokens": generated,
            "total_tokens": read + generated,
        },
    }


def speech(body: Body) -> bytes:
    """Silence as a WAV file, as long as the text would take to speak, at most a minute.

    Source: OpenAI API reference, create speech (2026-11).
    """
    text = required_field(body, "input", str)
    required_field(body, "voice", (str, dict))
    size = 2 * min(len(text) * _SAMPLES_PER_CHAR, _MAX_SAMPLES)
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 1),
        *(_SAMPLE_RATE_HZ, 2 * _SAMPLE_RATE_HZ, 2, 16, b"data", size),
    )
    return head + bytes(size)


def _grey_pixel() -> bytes:
    """A PNG of one pixel."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0\x80")),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
