"""Content parts of the Responses API, and their translation to chat.

Source: OpenAI API reference, Responses and Chat Completions, content parts (2026-11).
"""

from typing import Any

import msgspec

from proxy.providers.responses.fields import Json


class InputPart(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """One piece of content; a cache marker on it, OpenAI's or Anthropic's, stays on it."""

    prompt_cache_breakpoint: Any = None
    cache_control: Any = None

    def chat(self) -> Json:
        """The same piece as a chat content part."""
        marks = {
            "prompt_cache_breakpoint": self.prompt_cache_breakpoint,
            "cache_control": self.cache_control,
        }
        return self._chat_part() | {name: mark for name, mark in marks.items() if mark is not None}

    def _chat_part(self) -> Json:
        raise NotImplementedError


class InputText(InputPart, frozen=True, kw_only=True, tag="input_text"):
    """Text for the model."""

    text: str

    def _chat_part(self) -> Json:
        return {"type": "text", "text": self.text}


class OutputText(InputText, frozen=True, kw_only=True, tag="output_text"):
    """Earlier text of the model; its annotations and log probabilities are left out."""


class RefusalText(InputPart, frozen=True, kw_only=True, tag="refusal"):
    """Text with which the model refused earlier."""

    refusal: str

    def _chat_part(self) -> Json:
        return {"type": "refusal", "refusal": self.refusal}


class InputImage(InputPart, frozen=True, kw_only=True, tag="input_image"):
    """An image by URL; chat has no images by file id."""

    image_url: str | None = None
    detail: str | None = None

    def __post_init__(self) -> None:
        if self.image_url is None:
            raise ValueError("an image needs `image_url`, a web address or a data URL")

    def _chat_part(self) -> Json:
        detail = {} if self.detail is None else {"detail": self.detail}
        return {"type": "image_url", "image_url": {"url": self.image_url, **detail}}


class InputFile(InputPart, frozen=True, kw_only=True, tag="input_file"):
    """A file by its bytes or its id; chat has no files by URL."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None

    def __post_init__(self) -> None:
        if self.file_data is None and self.file_id is None:
            raise ValueError("a file needs `file_data` (base64) or `file_id`; a URL is not enough")

    def _chat_part(self) -> Json:
        names = ("file_data", "file_id", "filename")
        members = {name: getattr(self, name) for name in names}
        return {"type": "file", "file": {k: v for k, v in members.items() if v is not None}}


class InputAudio(InputPart, frozen=True, kw_only=True, tag="input_audio"):
    """Sound for the model; chat has the same form."""

    input_audio: dict[str, str]

    def _chat_part(self) -> Json:
        return {"type": "input_audio", "input_audio": self.input_audio}


AnyPart = InputText | OutputText | RefusalText | InputImage | InputFile | InputAudio
Content = str | list[AnyPart]


def chat_content(content: Content) -> str | list[Json]:
    """The content in chat's form: text stays text, a list of parts stays a list."""
    return content if isinstance(content, str) else [part.chat() for part in content]
