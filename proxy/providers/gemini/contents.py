"""Chat messages as a system instruction and the contents of a conversation.

::

    leading system, developer    systemInstruction
    later ones                   labelled text of a user's content
    user                         user: text, inlineData
    assistant                    model: text, functionCall with its thoughtSignature
    tool, neighbours together    user: functionResponse

Source: Google, Gemini API, generateContent, function calling, thought signatures (2026-11).
"""

from typing import Final

from proxy.providers.chat.call_parts import arguments_object
from proxy.providers.chat.chat_answer import Json
from proxy.providers.chat.chat_body import (
    ChatMessage,
    ContentPart,
    ToolCall,
    invalid_parameter,
    unsupported_parameter,
)
from proxy.providers.gemini.signatures import UNSIGNED, signature_of

_SYSTEM: Final = frozenset({"system", "developer"})
_OPENING: Final = "(The conversation begins.)"
_PDF: Final = "application/pdf"
_ENDINGS: Final = {"pdf": _PDF, "txt": "text/plain", "md": "text/markdown"}
_ROLES: Final = "use system, developer, user, assistant or tool."


def system_instruction(messages: list[ChatMessage]) -> tuple[list[Json], int]:
    """The parts of the leading system and developer messages, and how many those are."""
    parts: list[Json] = []
    for number, message in enumerate(messages):
        if message.role not in _SYSTEM:
            return parts, number
        parts += _text_parts(message, f"messages[{number}]")
    return parts, len(messages)


def contents(messages: list[ChatMessage], start: int, notes: list[str]) -> list[Json]:
    """The contents from message ``start`` on; the first is the user's."""
    conversation = _Conversation(notes)
    for number in range(start, len(messages)):
        conversation.add(messages[number], f"messages[{number}]")
    turns = conversation.contents
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "parts": [{"text": _OPENING}]})
        notes.append("added a first user turn: this model's conversations begin with one")
    return turns


class _Conversation:
    """Turns messages into contents; knows the names of the functions that were called."""

    def __init__(self, notes: list[str]) -> None:
        self.contents: list[Json] = []
        self._notes = notes
        self._functions: dict[str, str] = {}
        self._answers = False

    def add(self, message: ChatMessage, path: str) -> None:
        """Add a message."""
        if message.role == "tool":
            self._add_result(message, path)
            return
        self._answers = False
        if message.role == "assistant":
            self._add_content("model", self._assistant_parts(message, path))
        elif message.role == "user":
            self._add_content("user", _user_parts(message, path))
        elif message.role in _SYSTEM:
            self._add_later_system(message, path)
        else:
            raise invalid_parameter(f"{path}.role", f"Unknown role {message.role!r}: {_ROLES}")

    def _add_content(self, role: str, parts: list[Json]) -> None:
        if parts:
            self.contents.append({"role": role, "parts": parts})

    def _add_later_system(self, message: ChatMessage, path: str) -> None:
        """Add labelled text in its place: moved to the front it would change the whole prefix."""
        parts = _text_parts(message, path)
        for part in parts:
            part["text"] = f"<system_message>\n{part['text']}\n</system_message>"
        self._add_content("user", parts)
        self._notes.append("sent a later system message as labelled user text")

    def _assistant_parts(self, message: ChatMessage, path: str) -> list[Json]:
        parts = _text_parts(message, path)
        if message.refusal:
            parts.append({"text": message.refusal})
        if parts and (signature := signature_of(message.extra_content)):
            parts[-1]["thoughtSignature"] = signature
        if message.thinking_blocks:
            self._notes.append("dropped thinking_blocks: this model takes none of another's")
        for number, call in enumerate(message.tool_calls or ()):
            part = self._call(call, f"{path}.tool_calls[{number}]")
            signature = signature_of(call.extra_content) or ("" if number else UNSIGNED)
            parts.append(part | ({"thoughtSignature": signature} if signature else {}))
        return parts

    def _call(self, call: ToolCall, path: str) -> Json:
        if call.type != "function" or call.function is None:
            raise unsupported_parameter(
                path, f"`{path}` is no function call: this model knows only functions."
            )
        self._functions[call.id] = call.function.name
        arguments = arguments_object(call.function.arguments or "")
        return {"functionCall": {"id": call.id, "name": call.function.name, "args": arguments}}

    def _add_result(self, message: ChatMessage, path: str) -> None:
        """Add a result, beside others of the same turn."""
        name = message.tool_call_id
        if name is None or name not in self._functions:
            raise invalid_parameter(
                f"{path}.tool_call_id",
                f"`{path}` answers no call before it: send its `tool_call_id`, after the call.",
            )
        parts = _user_parts(message, path)
        words = "\n\n".join(part["text"] for part in parts if "text" in part)
        response: Json = {
            "id": name,
            "name": self._functions[name],
            "response": {"error" if message.is_error else "output": words},
        }
        if media := [part for part in parts if "text" not in part]:
            response["parts"] = media
        if not self._answers:
            self.contents.append({"role": "user", "parts": []})
            self._answers = True
        self.contents[-1]["parts"].append({"functionResponse": response})


def _text_parts(message: ChatMessage, path: str) -> list[Json]:
    """The parts of a message that may hold text alone; empty text is left out."""
    content = message.content
    if not isinstance(content, list):
        return [{"text": content}] if content else []
    for number, part in enumerate(content):
        if part.type not in {"text", "refusal"}:
            raise invalid_parameter(
                f"{path}.content[{number}].type",
                f"{part.type!r} cannot stand in a {message.role} message: send text there.",
            )
    return [{"text": words} for part in content if (words := part.text or part.refusal)]


def _user_parts(message: ChatMessage, path: str) -> list[Json]:
    content = message.content
    if not isinstance(content, list):
        return [{"text": content}] if content else []
    parts = [_part(part, f"{path}.content[{number}]") for number, part in enumerate(content)]
    return [part for part in parts if part.get("text") != ""]


def _part(part: ContentPart, path: str) -> Json:
    if part.type == "text" and part.text is not None:
        return {"text": part.text}
    if part.type == "image_url" and part.image_url is not None:
        return _inline(part.image_url.url, "", f"{path}.image_url.url")
    if part.type == "file" and part.file is not None and part.file.file_data is not None:
        ending = (part.file.filename or "").rpartition(".")[2].lower()
        return _inline(part.file.file_data, _ENDINGS.get(ending, _PDF), f"{path}.file.file_data")
    if part.type == "file":
        raise unsupported_parameter(
            f"{path}.file", "This model cannot see files kept by OpenAI: send `file_data`."
        )
    raise invalid_parameter(
        path,
        f"`{path}` of type {part.type!r} cannot be translated: send text, image_url or file in"
        " full.",
    )


def _inline(content: str, kind: str, path: str) -> Json:
    """A data URL, or base64 of a known type, within the request.

    The prefix of a data URL is read alone: the picture behind it may be megabytes.
    """
    if content.startswith("data:"):
        head, comma, content = content.partition(",")
        kind, *options = head.removeprefix("data:").split(";")
        if not comma or "base64" not in options:
            raise invalid_parameter(path, f"`{path}` must be a data URL in base64.")
    elif not kind or content.startswith(("https://", "http://")):
        raise unsupported_parameter(
            path, "This model fetches no addresses: send the content as a data URL in base64."
        )
    return {"inlineData": {"mimeType": kind.lower() or "text/plain", "data": content}}
