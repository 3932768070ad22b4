"""The simulator's HTTP surface: both APIs under ``/v1``, marked ``x-simulator: simulated``."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from proxy.errors import UpstreamError
from proxy.tools.simulator import calls, limits
from proxy.tools.simulator.apis import media
from proxy.tools.simulator.apis.batches import (
    file_object,
    messages_batch,
    messages_results,
    openai_batch,
    openai_results,
    uploaded_file,
)
from proxy.tools.simulator.apis.chat import CHAT
from proxy.tools.simulator.apis.clearing import check_edits
from proxy.tools.simulator.apis.completions import COMPLETIONS
from proxy.tools.simulator.apis.messages import MESSAGES
from proxy.tools.simulator.apis.responses import RESPONSES
from proxy.tools.simulator.bodies import Body, parse_body, required_field
from proxy.tools.simulator.calls import PlayedAnswer
from proxy.tools.simulator.fault_directives import (
    DIRECTED_CALL,
    FaultDirectives,
    closing_text,
    next_tool_call,
    parse_directives,
    with_directives,
)
from proxy.tools.simulator.models import WireName, served_name, unknown_model
from proxy.tools.simulator.refusals import HTML_PAGE, envelope, provider_refusal
from proxy.tools.simulator.server import PlayedResponse
from proxy.tools.simulator.streams import HEAD, Json, StreamStep
from proxy.tools.simulator.upstream import SimulatedExchange, Simulator

Acting = Callable[[Body, str, FaultDirectives], PlayedAnswer]

_OPENAI_DIALECTS = {"chat/completions": CHAT, "completions": COMPLETIONS, "responses": RESPONSES}
_JSON_LINES = "application/x-jsonl"
_BORN = "2026-11-21T00:00:00Z"
_OWNER = "thriftgate-simulator"
_ALL = ("GET", "POST", "PUT", "PATCH", "DELETE")


def app(lab: Simulator) -> Starlette:
    """The simulator as an ASGI application."""
    posts: dict[str, tuple[WireName, Acting]] = {
        path: (speech.wire, partial(calls.generate_answer, lab, speech))
        for path, speech in {**_OPENAI_DIALECTS, "messages": MESSAGES}.items()
    }
    posts |= {
        "messages/count_tokens": ("anthropic", partial(calls.count_tokens, lab, MESSAGES)),
        "embeddings": ("openai", partial(calls.embedding_answer, lab)),
        "moderations": ("openai", partial(_moderation, lab)),
        "images/generations": ("openai", partial(_images, lab)),
        "audio/speech": ("openai", partial(_speech, lab)),
    }
    routes = [_post(lab, f"/v1/{path}", wire, acting) for path, (wire, acting) in posts.items()]
    routes += [
        *_batch_routes(lab),
        _get(lab, "/v1/files", _files),
        _get(lab, "/v1/models", partial(_models, lab)),
        _get(lab, "/v1/models/{id:path}", partial(_model, lab)),
        _get(lab, "/{path:path}", _nowhere, methods=_ALL),
    ]
    return Starlette(routes=routes)


def _post(lab: Simulator, path: str, wire: WireName, acting: Acting) -> Route:
    """A route that reads a JSON body."""

    async def handle(request: Request) -> Response:
        exchange = await _record_exchange(lab, request)
        try:
            key = _authenticate(lab, wire, request)
            body = parse_body(exchange.body)
            exchange.cues = _cues(lab, request, body)
            if DIRECTED_CALL in exchange.body:  # only then are all messages looked through
                exchange.cues += next_tool_call(body)
            calls.refuse_as_cued(exchange.cues)
            if wire == "anthropic":
                with calls.refuse_misshapen():
                    check_edits(body, request.headers.get("anthropic-beta", ""))
            act = acting(body, key, exchange.cues)
        except UpstreamError as refusal:
            return _refuse(lab, wire, exchange, refusal)
        return _play(lab, wire, exchange, act)

    return Route(path, handle, methods=["POST"])


def _get(
    lab: Simulator,
    path: str,
    answer: Callable[[Request], Json | bytes],
    methods: Sequence[str] = ("GET",),
) -> Route:
    """A route that reads no body; only the header can cue it."""

    async def handle(request: Request) -> Response:
        exchange = await _record_exchange(lab, request)
        wire: WireName = "anthropic" if "anthropic-version" in request.headers else "openai"
        try:
            _authenticate(lab, wire, request)
            exchange.cues = _header_directives(request)
            calls.refuse_as_cued(exchange.cues)
            content = answer(request)
            if isinstance(content, bytes):
                act = calls.raw(lab, content, _JSON_LINES, exchange.cues)
            else:
                act = calls.plain(lab, content, exchange.cues)
        except UpstreamError as refusal:
            return _refuse(lab, wire, exchange, refusal)
        return _play(lab, wire, exchange, act)

    return Route(path, handle, methods=list(methods))


async def _record_exchange(lab: Simulator, request: Request) -> SimulatedExchange:
    query = f"?{request.url.query}" if request.url.query else ""
    exchange = SimulatedExchange(
        method=request.method,
        path=request.url.path + query,
        headers=dict(request.headers),
        body=await request.body(),
        request_id=f"req_{lab.number()}",
    )
    lab.exchanges.append(exchange)
    return exchange


def _authenticate(lab: Simulator, wire: WireName, request: Request) -> str:
    """The caller's key."""
    headers = request.headers
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    key = bearer or headers.get("x-api-key" if wire == "anthropic" else "api-key", "")
    if not key or key != (lab.settings.key or key):
        reason = "x-api-key: none or invalid." if wire == "anthropic" else "Incorrect API key."
        raise provider_refusal(401, reason, code="invalid_api_key")
    if wire == "anthropic" and not headers.get("anthropic-version"):
        raise provider_refusal(400, "anthropic-version: header is required")
    return key


def _cues(lab: Simulator, request: Request, body: Body) -> FaultDirectives:
    """All cues of a call; the script is asked only where a call names none itself."""
    name = body.get("model")
    model, _, behind = name.partition("+") if isinstance(name, str) else ("", "", "")
    with _refuse_unknown_directives():
        in_body = parse_directives(behind) + with_directives(closing_text(body))
    cues = _header_directives(request) + in_body
    return (cues if cues.entries else lab.next_scripted()) + lab.injected_fault(model)


def _header_directives(request: Request) -> FaultDirectives:
    """The cues of the header."""
    with _refuse_unknown_directives():
        return parse_directives(request.headers.get("x-simulator-fault", ""))


@contextmanager
def _refuse_unknown_directives() -> Iterator[None]:
    try:
        yield
    except ValueError as unknown:
        raise provider_refusal(400, str(unknown)) from unknown


def _play(
    lab: Simulator, wire: WireName, exchange: SimulatedExchange, act: PlayedAnswer
) -> PlayedResponse:
    kind = "text/event-stream; charset=utf-8" if act.streamed else act.media
    headers = [("content-type", kind), *_headers(lab, wire, exchange, act.seconds)]
    if act.length is not None:
        headers.append(("content-length", str(act.length)))
    return PlayedResponse(
        exchange, act.steps, sleep=lab.sleep, status=200, usage=act.usage, headers=headers
    )


def _refuse(
    lab: Simulator, wire: WireName, exchange: SimulatedExchange, refusal: UpstreamError
) -> PlayedResponse:
    body = envelope(wire, refusal, exchange.request_id)
    kind = "text/html" if refusal.code == HTML_PAGE else "application/json"
    headers = [("content-type", kind), ("content-length", str(len(body)))]
    headers += _headers(lab, wire, exchange, 0.0)
    if refusal.retry_after is not None:
        headers += _retry(wire, refusal.retry_after)
    if refusal.code == "insufficient_quota":
        headers.append(("x-should-retry", "false"))
    steps = [HEAD, StreamStep("send", body)]
    return PlayedResponse(exchange, steps, sleep=lab.sleep, status=refusal.status, headers=headers)


def _retry(wire: WireName, seconds: float) -> list[tuple[str, str]]:
    """Headers that say when to come back; only OpenAI says it in milliseconds too."""
    whole = [("retry-after", str(max(0, -int(-seconds // 1))))]
    return whole if wire == "anthropic" else [*whole, ("retry-after-ms", f"{seconds * 1000:.0f}")]


def _headers(
    lab: Simulator, wire: WireName, exchange: SimulatedExchange, seconds: float
) -> list[tuple[str, str]]:
    if wire == "anthropic":
        own = {"request-id": exchange.request_id, "anthropic-organization-id": _OWNER}
    else:
        own = {
            "x-request-id": exchange.request_id,
            "openai-organization": _OWNER,
            "openai-version": "2020-10-01",
            "openai-processing-ms": f"{seconds * 1000:.0f}",
        }
    allowances = limits.headers(wire, lab.requests, lab.tokens, lab.clock())
    return [("x-simulator", "simulated"), *own.items(), *allowances]


def _moderation(lab: Simulator, body: Body, key: str, cues: FaultDirectives) -> PlayedAnswer:
    """Every text is found harmless."""
    inputs = body.get("input")
    verdict = {"flagged": False, "categories": {}, "category_scores": {}}
    results = [verdict] * (len(inputs) if isinstance(inputs, list) else 1)
    answer = {"id": f"modr-{lab.number()}", "model": body.get("model"), "results": results}
    return calls.plain(lab, answer, cues)


def _images(lab: Simulator, body: Body, key: str, cues: FaultDirectives) -> PlayedAnswer:
    return calls.plain(lab, media.image_answer(body, int(lab.clock())), cues)


def _speech(lab: Simulator, body: Body, key: str, cues: FaultDirectives) -> PlayedAnswer:
    return calls.raw(lab, media.speech(body), "audio/wav", cues)


def _batch_routes(lab: Simulator) -> list[Route]:
    """The routes of batches; longer paths first."""

    def batch(request: Request) -> Json:
        return lab.batches.batch(request.path_params["id"])

    def file(request: Request) -> bytes:
        return lab.batches.file(request.path_params["id"])

    def results(request: Request) -> bytes:
        return lab.batches.file(f"{request.path_params['id']}-results")

    return [
        _post(lab, "/v1/messages/batches", "anthropic", partial(_new_messages_batch, lab)),
        _get(lab, "/v1/messages/batches", lambda request: _batch_page(lab, "message_batch")),
        _get(lab, "/v1/messages/batches/{id}/results", results),
        _get(lab, "/v1/messages/batches/{id}/cancel", batch, methods=("POST",)),
        _get(lab, "/v1/messages/batches/{id}", batch),
        _get(lab, "/v1/files", partial(_new_file, lab), methods=("POST",)),
        _get(lab, "/v1/files/{id}/content", file),
        _post(lab, "/v1/batches", "openai", partial(_new_openai_batch, lab)),
        _get(lab, "/v1/batches", lambda request: _batch_page(lab, "batch")),
        _get(lab, "/v1/batches/{id}", batch),
    ]


def _new_messages_batch(
    lab: Simulator, body: Body, key: str, cues: FaultDirectives
) -> PlayedAnswer:
    results = messages_results(body, partial(calls.batched_answer, lab, MESSAGES, key))
    name = f"msgbatch_{lab.number()}"
    lab.batches.add_file(f"{name}-results", b"".join(orjson.dumps(r) + b"\n" for r in results))
    url = f"/v1/messages/batches/{name}/results"
    return calls.plain(lab, lab.batches.add_batch(messages_batch(name, results, url)), cues)


def _new_openai_batch(lab: Simulator, body: Body, key: str, cues: FaultDirectives) -> PlayedAnswer:
    lines = lab.batches.file(required_field(body, "input_file_id", str))
    answers = {
        f"/v1/{path}": partial(calls.batched_answer, lab, speech, key)
        for path, speech in _OPENAI_DIALECTS.items()
    }
    results, counts = openai_results(lines, answers)
    batch = openai_batch(body, f"batch_{lab.number()}", int(lab.clock()), counts)
    lab.batches.add_file(batch["output_file_id"], results)
    return calls.plain(lab, lab.batches.add_batch(batch), cues)


def _new_file(lab: Simulator, request: Request) -> Json:
    filename, content = uploaded_file(
        lab.exchanges[-1].body, request.headers.get("content-type", "")
    )
    name = f"file-{lab.number()}"
    lab.batches.add_file(name, content)
    return file_object(name, filename, len(content), int(lab.clock()))


def _batch_page(lab: Simulator, kind: str) -> Json:
    batches = [
        batch for batch in lab.batches.batches() if kind in {batch.get("object"), batch.get("type")}
    ]
    return {"object": "list", "data": batches, "has_more": False}


def _files(request: Request) -> Json:
    """No files are listed: a simulator keeps those of batches alone."""
    return {"object": "list", "data": [], "has_more": False}


def _models(lab: Simulator, request: Request) -> Json:
    if "anthropic-version" in request.headers:
        names = [name for name, model in lab.settings.models.items() if model.wire == "anthropic"]
        ends = {"first_id": names[0], "last_id": names[-1]} if names else {}
        models = [_anthropic_model(name) for name in names]
        return {"data": models, "has_more": False, **ends}
    openai = [name for name, model in lab.settings.models.items() if model.wire == "openai"]
    return {"object": "list", "data": [_openai_model(name) for name in openai]}


def _model(lab: Simulator, request: Request) -> Json:
    name = request.path_params["id"]
    wire = "anthropic" if "anthropic-version" in request.headers else "openai"
    model = lab.settings.models.get(served_name(lab.settings.models, name))
    if model is None or model.wire != wire:
        reason = unknown_model(lab.settings.models, name)
        raise provider_refusal(404, reason, code="model_not_found")
    return _anthropic_model(name) if wire == "anthropic" else _openai_model(name)


def _openai_model(name: str) -> Json:
    return {"id": name, "object": "model", "created": 0, "owned_by": _OWNER}


def _anthropic_model(name: str) -> Json:
    title = f"{name} (simulated)"
    return {"type": "model", "id": name, "display_name": title, "created_at": _BORN}


def _nowhere(request: Request) -> Json:
    raise provider_refusal(404, f"The simulator has no {request.url.path}.")
