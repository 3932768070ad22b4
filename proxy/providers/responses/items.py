"""Output items while they grow: each turns its additions into events.

::

    message     content_part.added ─ output_text.delta… | refusal.delta… ─ ….done ─ part.done
    reasoning   reasoning_summary_part.added ─ reasoning_summary_text.delta… ─ ….done ─ part.done
    call        function_call_arguments.delta… | custom_tool_call_input.delta… ─ ….done
    compaction  nothing: it comes whole

``output_item.added`` and ``output_item.done`` around them are the same for all and not said here.

Source: OpenAI API reference, Responses, streaming events (2026-11).
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, Protocol

import msgspec

from proxy.providers.chat.chat_chunk import Citation, Token
from proxy.providers.responses.fields import Json
from proxy.providers.responses.namespaces import OwnName, text_of_arguments
from proxy.providers.responses.reasoning import OpaqueParts, seal_parts

Event = Json
PartKind = Literal["output_text", "refusal"]
ToolNames = Mapping[str, OwnName]


class OutputItem(Protocol):
    """An output item that is not yet done."""

    def close(self) -> Iterator[Event]:
        """The events before it is done."""
        ...

    def item(self, status: str) -> Json:
        """The item as it is now."""
        ...


class OutputMessage:
    """A message of the model; text and refusal are parts of one message."""

    def __init__(self, name: str, place: int) -> None:
        self._place = {"item_id": f"msg_{name}", "output_index": place}
        self._parts: list[OutputPart] = []

    def say(self, kind: PartKind, text: str, tokens: list[Token]) -> Iterator[Event]:
        """It gains words of one kind, with their log probabilities if there are any."""
        if not self._parts or self._parts[-1].kind != kind:
            yield from self.close()
            self._parts.append(OutputPart(kind, self._place | {"content_index": len(self._parts)}))
            yield self._parts[-1].begin()
        yield self._parts[-1].gain(text, tokens)

    def cite(self, citation: Citation) -> Iterator[Event]:
        """It gains a citation on its text; one with no text to stand on is left out."""
        if self._parts and self._parts[-1].kind == "output_text":
            yield self._parts[-1].cite(citation)

    def close(self) -> Iterator[Event]:
        """Its last part is done."""
        if self._parts:
            yield from self._parts[-1].finish()

    def item(self, status: str) -> Json:
        """The item as it is now."""
        return {
            "id": self._place["item_id"],
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [part.part() for part in self._parts],
        }


class OutputPart:
    """A part of a message while it grows."""

    def __init__(self, kind: PartKind, place: Json) -> None:
        self.kind = kind
        self._place = place
        self._texts: list[str] = []
        self._tokens: list[Json] = []
        self._annotations: list[Json] = []

    def begin(self) -> Event:
        """It begins, empty."""
        return {"type": "response.content_part.added", **self._place, "part": self.part()}

    def gain(self, text: str, tokens: list[Token]) -> Event:
        """It gains some text."""
        self._texts.append(text)
        event = {"type": f"response.{self.kind}.delta", **self._place, "delta": text}
        if self.kind == "refusal":
            return event
        logprobs = [token.for_responses() for token in tokens]
        self._tokens += logprobs
        return event | {"logprobs": logprobs}

    def cite(self, citation: Citation) -> Event:
        """It gains a citation, which chat nests one level deeper."""
        annotation = {"type": "url_citation", **msgspec.structs.asdict(citation)}
        self._annotations.append(annotation)
        return {
            "type": "response.output_text.annotation.added",
            **self._place,
            "annotation_index": len(self._annotations) - 1,
            "annotation": annotation,
        }

    def finish(self) -> Iterator[Event]:
        """It is whole."""
        part = self.part()
        event = {"type": f"response.{self.kind}.done", **self._place}
        if self.kind == "refusal":
            yield event | {"refusal": part["refusal"]}
        else:
            yield event | {"text": part["text"], "logprobs": part["logprobs"]}
        yield {"type": "response.content_part.done", **self._place, "part": part}

    def part(self) -> Json:
        """The part as it is now."""
        text = "".join(self._texts)
        if self.kind == "refusal":
            return {"type": "refusal", "refusal": text}
        return {
            "type": "output_text",
            "text": text,
            "annotations": list(self._annotations),
            "logprobs": list(self._tokens),
        }


class OutputReasoning:
    """Reasoning of the model, readable as a summary, with the opaque parts sealed beside it."""

    def __init__(self, name: str, place: int) -> None:
        self._place = {"item_id": f"rs_{name}", "output_index": place}
        self._texts: list[str] = []
        self._blocks: list[msgspec.Raw] = []

    def think(self, text: str, blocks: list[msgspec.Raw]) -> Iterator[Event]:
        """It gains some reasoning, blocks, or both."""
        self._blocks += blocks
        if not text:
            return
        if not self._texts:
            yield self._event("part.added", part={"type": "summary_text", "text": ""})
        self._texts.append(text)
        yield self._event("text.delta", delta=text)

    def close(self) -> Iterator[Event]:
        """Its summary is whole, if it has one."""
        for part in self._summary():
            yield self._event("text.done", text=part["text"])
            yield self._event("part.done", part=part)

    def item(self, status: str) -> Json:
        """The item as it is now, what must come back sealed into it."""
        opaque = OpaqueParts(thinking_blocks=self._blocks, reasoning_content="".join(self._texts))
        return {
            "id": self._place["item_id"],
            "type": "reasoning",
            "status": status,
            "summary": self._summary(),
            "encrypted_content": seal_parts(opaque) if opaque else None,
        }

    def _summary(self) -> list[Json]:
        text = "".join(self._texts)
        return [{"type": "summary_text", "text": text}] if text else []

    def _event(self, what: str, **members: object) -> Event:
        kind = f"response.reasoning_summary_{what}"
        return {"type": kind, **self._place, "summary_index": 0, **members}


class OutputCompaction:
    """The compaction of all before it, sealed: the caller must send it back."""

    def __init__(self, name: str, block: msgspec.Raw) -> None:
        self._item = {
            "id": f"cmp_{name}",
            "type": "compaction",
            "encrypted_content": seal_parts(OpaqueParts(thinking_blocks=[block])),
        }

    def close(self) -> Iterator[Event]:
        """Nothing: it has no further events."""
        yield from ()

    def item(self, status: str) -> Json:
        """The item, which has no status."""
        return self._item


class OutputCall:
    """A call the model makes, with JSON arguments or with free text."""

    _CUSTOM: Final = ("custom_tool_call", "input", "response.custom_tool_call_input", "ctc")
    _PLAIN: Final = ("function_call", "arguments", "response.function_call_arguments", "fc")

    def __init__(
        self, name: str, place: int, call_id: str, own: OwnName, *, custom: bool = False
    ) -> None:
        """Nothing of it is said yet.

        Args:
            name: Suffix of its id.
            custom: True if the model calls it with free text, and not with arguments.
        """
        self._kind, self._field, self._event, letters = (
            self._CUSTOM if custom or own.is_custom else self._PLAIN
        )
        self._place = {"item_id": f"{letters}_{name}", "output_index": place}
        self._call_id = call_id
        self._own = own
        self._holds = own.is_custom and not custom
        self._texts: list[str] = []

    def gain(self, text: str) -> Iterator[Event]:
        """It gains some of what it is called with; arguments that hold a text are held."""
        if text:
            self._texts.append(text)
            if not self._holds:
                yield self._delta(text)

    def close(self) -> Iterator[Event]:
        """End the arguments of the call."""
        text = self._text()
        if self._holds and text:
            yield self._delta(text)
        done = {"type": f"{self._event}.done", **self._place, self._field: text}
        yield done | {"name": self._own.name}

    def item(self, status: str) -> Json:
        """The item as it is now."""
        space = {"namespace": self._own.namespace} if self._own.namespace else {}
        return {
            "id": self._place["item_id"],
            "type": self._kind,
            "call_id": self._call_id,
            "name": self._own.name,
            **space,
            self._field: self._text(),
            "status": status,
        }

    def _delta(self, text: str) -> Event:
        return {"type": f"{self._event}.delta", **self._place, "delta": text}

    def _text(self) -> str:
        """All that it is called with so far."""
        arguments = "".join(self._texts)
        return text_of_arguments(arguments) if self._holds and arguments else arguments
