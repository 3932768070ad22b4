"""Makes a call of a request: its headers and its body, as far as the gateway reads them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from proxy.api.request import RequestHead, feature_label
from proxy.calls.eligibility.retry_policy import GENERATING_ENDPOINTS
from proxy.errors import CallerError
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.providers.multipart import is_form
from proxy.records.agents import agent_feature, agent_of_product, agent_tag
from proxy.records.body_reader import BodyReader
from proxy.records.call import Call, Key
from proxy.records.request_fields import RequestFields, parse_request_fields
from slo.policies.reports import TagRule, tag_keys

#: Paths where a stored prompt or an earlier answer may name the model, so the provider judges a
#: call without one.
#: Source: OpenAI API reference, create a response, ``model`` (2026-11).
_WITHOUT_MODEL: Final = frozenset({"responses"})
_IDEMPOTENCY_KEY: Final = "idempotency-key"
_MAX_TAG_CHARS: Final = 64
#: The key whose value the gateway finds itself where a caller names none.
_AGENT_TAG: Final = "agent"


class _TaggedBody(msgspec.Struct, frozen=True):
    """The one field of a body that holds tags."""

    metadata: Any = None


_decode_tagged_body = msgspec.json.Decoder(_TaggedBody).decode


def build_call(
    call_id: str, key: Key, head: RequestHead, sent: bytes, arrived: float, seal: Pseudonymizer
) -> Call:
    """The call of a request, with its body unread."""
    feature, notes = feature_label(head.feature or key.feature)
    return Call(
        id=call_id,
        key=key,
        method=head.method,
        endpoint=head.endpoint,
        query=head.query,
        headers=_scope_idempotency_key(head.forwarded, key, seal),
        body=sent,
        fields=None,
        feature=feature,
        conversation=head.conversation,
        session=head.session,
        slots=head.slots,
        compaction=head.compaction,
        draft=head.draft,
        cache_control=head.cache_control,
        cache_tags=head.cache_tags,
        regions=head.regions,
        arrived=arrived,
        notes=notes,
    )


def _scope_idempotency_key(
    headers: dict[str, str], key: Key, seal: Pseudonymizer
) -> dict[str, str]:
    """The headers with an idempotency key that no other team's equals: the account is one."""
    if _IDEMPOTENCY_KEY not in headers:
        return headers
    return headers | {
        _IDEMPOTENCY_KEY: seal.pseudonym(key.team, headers[_IDEMPOTENCY_KEY].encode())
    }


def check_media(head: RequestHead) -> None:
    """Refuse a body that cannot be read.

    Raises:
        CallerError: If it is packed, or no JSON where JSON is needed.
    """
    if head.encoding:
        raise CallerError(
            f"The body is encoded as {head.encoding[:40]}. Send it without content-encoding.",
            code="unsupported_content_encoding",
            status=415,
        )
    if head.endpoint in GENERATING_ENDPOINTS and head.media not in {"application/json", ""}:
        raise CallerError(
            f"The body's content type is {head.media[:80]}. Send application/json.",
            code="unsupported_content_type",
            status=415,
        )


def parse_fields(call: Call, head: RequestHead, bodies: BodyReader) -> Call:
    """The call with its body read, where the body is for us to read.

    Raises:
        CallerError: If an endpoint we know got a body we cannot read.
    """
    if call.endpoint not in GENERATING_ENDPOINTS:
        return msgspec.structs.replace(call, fields=_parse_other_fields(call, head))
    if call.method != "POST":
        return call
    read, split = bodies.read(call.key.team, call.body)
    if not read.model and call.endpoint not in _WITHOUT_MODEL:
        raise CallerError(
            "The body names no model. Send `model`; GET /v1/models lists them.",
            code="missing_model",
            param="model",
        )
    feature, notes = feature_label(read.feature)
    if head.feature or not read.feature:
        agent = agent_of_product(head.user_agent)
        feature, notes = call.feature or agent_feature(agent, read), call.notes
    return msgspec.structs.replace(call, fields=read, split=split, feature=feature, notes=notes)


def with_tags(call: Call, head: RequestHead, rules: Iterable[TagRule]) -> Call:
    """The call with the values of the keys that its team named: of its metadata, else its header.

    Where neither names an ``agent``, it is what the call was sent with.
    """
    keys = tag_keys(rules, call.key.team_name)
    if not keys:
        return call
    values = {**_header_tags(head.tags), **_metadata(call)}
    if _AGENT_TAG in keys and not values.get(_AGENT_TAG):
        values[_AGENT_TAG] = agent_tag(head.user_agent, call.fields)
    named = ((key, _tag_label(values[key])) for key in keys if key in values)
    return msgspec.structs.replace(call, tags=tuple(tag for tag in named if tag[1]))


def _header_tags(header: str) -> Mapping[str, str]:
    pairs = (pair.partition("=") for pair in header.split(",") if "=" in pair)
    return {key.strip(): value for key, _, value in pairs}


def _metadata(call: Call) -> Mapping[str, str]:
    """The texts in the metadata of a body that the gateway reads."""
    if call.fields is None or call.fields.metadata is None:
        return {}
    body = call.body if call.split is None else call.split.around
    try:
        metadata = _decode_tagged_body(body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(metadata, dict):
        return {}
    return {key: text for key, text in metadata.items() if isinstance(text, str)}


def _tag_label(text: str) -> str:
    """A tag's value that is safe to store and show."""
    text = text.strip()[:_MAX_TAG_CHARS]
    return text if text.isprintable() else "".join(c for c in text if c.isprintable())


def _parse_other_fields(call: Call, head: RequestHead) -> RequestFields | None:
    """The fields of an unknown endpoint's body; None where the gateway does not read it.

    A form asks for the deployment that its path names.
    """
    if head.deployment and is_form(head.media):
        return parse_request_fields(msgspec.json.encode({"model": head.deployment}))
    if head.media != "application/json" or not call.body:
        return None
    try:
        return parse_request_fields(call.body)
    except CallerError:
        return None
