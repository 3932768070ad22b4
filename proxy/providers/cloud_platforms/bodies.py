"""Bodies of the Messages API as clouds take them: the model in the path, the version in the body.

What a cloud does not take is left out with a note where the answer's meaning stays, and refused
where it does not.

Source: Anthropic, Claude on Amazon Bedrock, Claude on Vertex AI, features by platform (2026-11);
anthropic 2.11.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.catalog.entries import Route
from proxy.errors import CallerError
from proxy.providers.anthropic.adapter import AnthropicWire
from proxy.providers.chat.compaction_blocks import HEADER, merge_betas
from proxy.providers.lenient import UNREADABLE
from proxy.providers.port import PreparedRequest
from proxy.records.call import MESSAGES, Call
from proxy.records.request_fields import replace_fields
from slo.price import BillingTerms

COUNT_TOKENS: Final = f"{MESSAGES}/count_tokens"
#: Calls that clouds take.
_ENDPOINTS: Final = frozenset({MESSAGES, COUNT_TOKENS, "chat/completions", "responses"})
#: Fields that only Anthropic's own API knows, and that change speed, tier or reports alone.
_LEFT_OUT: Final = ("service_tier", "speed", "diagnostics")
#: Fields that only Anthropic's own API knows, and without which the answer would be another.
_REFUSED: Final = ("container", "thread", "mcp_servers", "inference_geo")
_NOTHING: Final = frozenset({b"null", b"[]", b"{}", b'""'})
#: Beta features that clouds call by another name.
#: Source: AWS, Bedrock, tool search; LiteLLM's table of beta features (2026-10).
_RENAMED: Final[Mapping[str, str]] = {
    "advanced-tool-use-2025-11-20": "tool-search-tool-2025-10-19",
}
_MARK: Final = b'"cache_control"'
_MAX_MARKS: Final = 4
#: Blocks that carry no mark. Source: Anthropic, prompt caching (2026-08).
_UNMARKABLE: Final = frozenset({"thinking", "redacted_thinking"})

_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


class CloudForm(msgspec.Struct, frozen=True):
    """A cloud's form of the Messages API.

    Attributes:
        without: Fields that stand in the path.
        betas_in_body: True if beta features stand in the body; False for the usual header.
        places_marks: True if a mark at the top of a body is not taken, so that it is set on the
            last block.
    """

    title: str
    version: bytes
    without: tuple[str, ...]
    betas_in_body: bool = False
    places_marks: bool = False


class CloudRequest(msgspec.Struct, frozen=True):
    """A body in a cloud's form."""

    body: bytes
    headers: Mapping[str, str]
    notes: tuple[str, ...]


class CloudWire(AnthropicWire):
    """Claude as a cloud serves it.

    Attributes:
        form: The cloud's form of the Messages API.
    """

    key_header = "authorization"
    form: CloudForm

    def request(self, call: Call, route: Route) -> PreparedRequest:
        """The call as the cloud takes it, always made from the caller's own bytes."""
        model = served_model(call, route, self.form)
        own = super().request(call, route)
        upstream = route.upstream
        cloud = cloud_request(own.body, own.headers, self.form, upstream.headers, upstream.betas)
        prepared = msgspec.structs.replace(
            own,
            headers=cloud.headers,
            body=cloud.body,
            notes=(*own.notes, *cloud.notes),
            endpoint=MESSAGES,
        )
        return self._with_path(prepared, call, model)

    def terms(
        self, requested: str, answered: str, usage: Mapping[str, Any], region: str
    ) -> BillingTerms:
        """The terms of an answer: the region is that of the upstream."""
        return BillingTerms(region=region)

    @abstractmethod
    def _with_path(self, prepared: PreparedRequest, call: Call, model: str) -> PreparedRequest:
        """The request with its path."""


def served_model(call: Call, route: Route, form: CloudForm) -> str:
    """The cloud's name of the model that answers a call."""
    if call.method != "POST" or call.endpoint not in _ENDPOINTS:
        raise CallerError(
            f"This model is served by {form.title}, which takes no /v1/{call.endpoint[:100]} from"
            " here: it answers messages, and has no batches, files, skills or list of models of"
            " Anthropic's. Ask a model that Anthropic serves.",
            code="unsupported_endpoint",
            param="model",
        )
    if not (name := route.model or call.model):
        raise CallerError("Name a model.", code="missing_model", param="model")
    return name


def cloud_request(
    body: bytes,
    headers: Mapping[str, str],
    form: CloudForm,
    always: Mapping[str, str],
    accepted: Collection[str] | None,
) -> CloudRequest:
    """A body of the Messages API in a cloud's form; all that need not change is the caller's.

    Args:
        headers: Headers of the request in Anthropic's own form.
        always: The upstream's own headers; beta features in them are sent.
        accepted: Beta features that the cloud takes of callers; None for all.
    """
    fields = _fields(body)
    _refuse(fields, form)
    notes = []
    gone: list[str] = [name for name in _LEFT_OUT if name in fields]
    if left_out := [name for name in gone if bytes(fields[name]) not in _NOTHING]:
        notes.append(f"left out {', '.join(left_out)}: {form.title} does not take it")
    added = {"anthropic_version": form.version}
    if form.places_marks and "cache_control" in fields:
        gone.append("cache_control")
        added |= _with_placed_mark(fields, body.count(_MARK), notes)
    betas = _betas(headers, always, accepted, form, notes)
    sent = {"content-type": "application/json"}
    if betas and form.betas_in_body:
        added["anthropic_beta"] = msgspec.json.encode(betas)
    elif betas:
        sent[HEADER] = ",".join(betas)
    without = (*form.without, *gone)
    return CloudRequest(replace_fields(body, added, without=without), sent, tuple(notes))


def _refuse(fields: Mapping[str, Raw], form: CloudForm) -> None:
    """Refuse a body that asks for what the cloud has not."""
    for name in _REFUSED:
        if name in fields and bytes(fields[name]) not in _NOTHING:
            raise CallerError(
                f"`{name}` works at Anthropic's own API alone, and this model is served by"
                f" {form.title}: leave `{name}` out, or ask a model that Anthropic serves.",
                code="unsupported_parameter",
                param=name,
            )


def _betas(
    headers: Mapping[str, str],
    always: Mapping[str, str],
    accepted: Collection[str] | None,
    form: CloudForm,
    notes: list[str],
) -> list[str]:
    """The beta features to ask for, each once: the operator's own, and of the caller's those taken.

    An unknown one would fail the whole call.
    """
    own = _features(merge_betas(always, {}, ()))
    features = _features(merge_betas({}, headers, ()))
    if accepted is None:
        return list(dict.fromkeys([*own, *features]))
    features = [_RENAMED.get(feature, feature) for feature in features]
    if left := [feature for feature in features if feature not in accepted and feature not in own]:
        notes.append(f"left out {', '.join(left)}: no beta feature that {form.title} takes")
    return list(dict.fromkeys([*own, *(feature for feature in features if feature in accepted)]))


def _features(header: str) -> list[str]:
    return header.split(",") if header else []


def _with_placed_mark(fields: Mapping[str, Raw], marks: int, notes: list[str]) -> dict[str, bytes]:
    """The messages, with the mark of the body's top on their last block; {} where it fits none."""
    mark = fields["cache_control"]
    if bytes(mark) == b"null":
        return {}
    written = None if marks > _MAX_MARKS else _mark_last_block(fields.get("messages"), mark)
    if written is None:
        notes.append("left out cache_control at the top of the body: no block is free for it")
        return {}
    return {"messages": written}


def _mark_last_block(raw: Raw | None, mark: Raw) -> bytes | None:
    """The messages with a mark on the last block that may have one; None where there is none."""
    try:
        *earlier, newest = _raws(raw or b"[]")
        last = _object(newest)
        content = last["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in reversed(blocks):
            if block["type"] not in _UNMARKABLE:
                if "cache_control" in block:
                    return None
                block["cache_control"] = mark
                written = msgspec.json.encode({**last, "content": blocks})
                return b"[%b]" % b",".join([*map(bytes, earlier), written])
    except (*UNREADABLE, KeyError, TypeError, ValueError):
        return None
    return None
