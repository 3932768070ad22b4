"""Images and speech of the simulator."""

import base64
import io
import wave

import pytest

from proxy.errors import UpstreamError
from proxy.tools.simulator.apis.media import image_answer, speech


def test_as_many_images_come_as_were_asked_for_with_their_usage() -> None:
    answer = image_answer({"prompt": "a grey cat", "n": 2}, 7)

    assert [base64.b64decode(image["b64_json"])[1:4] for image in answer["data"]] == [b"PNG"] * 2
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_speech_is_silence_whose_length_follows_the_text_up_to_a_minute() -> None:
    def seconds(text: str) -> float:
        with wave.open(io.BytesIO(speech({"input": text, "voice": "alloy"}))) as sound:
            return float(sound.getnframes() / sound.getframerate())

    assert seconds("twenty characters ok") == 1.0
    assert seconds("x" * 10_000) == 60.0


@pytest.mark.parametrize("body", [{}, {"input": "a"}, {"voice": "alloy"}])
def test_speech_without_text_or_voice_is_refused(body: dict[str, str]) -> None:
    with pytest.raises(UpstreamError, match="Field required"):
        speech(body)
