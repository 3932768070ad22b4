"""Batches of both APIs, and the files of OpenAI's; a batch has ended as soon as it is created.

Source: Anthropic API, message batches; OpenAI API reference, batches and files (2026-11).
"""

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping
from email import message_from_bytes
from typing import Final

import orjson

from proxy.errors import UpstreamError
from proxy.tools.simulator.bodies import Body, required_field
from proxy.tools.simulator.refusals import envelope, provider_refusal
from proxy.tools.simulator.streams import Json

#: Answers the body of one call of a batch, or raises a refusal.
AnswerOne = Callable[[Body], Json]
#: Bytes that uploaded and written files may take together.
_MAX_FILE_BYTES: Final = 64 << 20
_MOMENT: Final = "2026-11-21T00:00:00Z"


class BatchShelf:
    """The batches and files of one simulator, the oldest of which are dropped."""

    def __init__(self, capacity: int) -> None:
        self._kept = capacity
        self._batches: OrderedDict[str, Json] = OrderedDict()
        self._files: OrderedDict[str, bytes] = OrderedDict()

    def batch(self, name: str) -> Json:
        """The batch with this id."""
        _check_known(self._batches, name)
        return self._batches[name]

    def batches(self) -> list[Json]:
        """All batches, the newest first."""
        return [*reversed(self._batches.values())]

    def file(self, name: str) -> bytes:
        """The content of the file with this id."""
        _check_known(self._files, name)
        return self._files[name]

    def add_batch(self, batch: Json) -> Json:
        """Keep a batch under its id, and return it."""
        self._batches[batch["id"]] = batch
        while len(self._batches) > self._kept:
            self._batches.popitem(last=False)
        return batch

    def add_file(self, name: str, content: bytes) -> None:
        """Keep a file; the oldest make room."""
        self._files[name] = content
        while len(self._files) > 1 and (
            len(self._files) > self._kept or sum(map(len, self._files.values())) > _MAX_FILE_BYTES
        ):
            self._files.popitem(last=False)


def uploaded_file(raw: bytes, content_type: str) -> tuple[str, bytes]:
    """The name and the content of the file in a form."""
    form = message_from_bytes(f"content-type: {content_type}\r\n\r\n".encode() + raw)
    parts = form.get_payload() if form.is_multipart() else []
    for part in parts:
        if (
            not isinstance(part, str)
            and part.get_param("name", header="content-disposition") == "file"
        ):
            content = part.get_payload(decode=True)
            return part.get_filename() or "file", content if isinstance(content, bytes) else b""
    raise provider_refusal(400, "file: Field required.", param="file")


def file_object(name: str, filename: str, size: int, created: int) -> Json:
    """A file as OpenAI's API shows it."""
    return {
        "id": name,
        "object": "file",
        "bytes": size,
        "created_at": created,
        "filename": filename,
        "purpose": "batch",
        "status": "processed",
    }


def openai_batch(body: Body, name: str, created: int, counts: tuple[int, int]) -> Json:
    """A batch of OpenAI's that is complete.

    Args:
        counts: The number of calls, and of those that failed.
    """
    total, failed = counts
    return {
        "id": name,
        "object": "batch",
        "endpoint": body.get("endpoint"),
        "input_file_id": body["input_file_id"],
        "completion_window": body.get("completion_window") or "24h",
        "status": "completed",
        "output_file_id": f"file-{name}-output",
        "error_file_id": None,
        "created_at": created,
        "completed_at": created,
        "request_counts": {"total": total, "completed": total - failed, "failed": failed},
        "metadata": body.get("metadata"),
    }


def openai_results(lines: bytes, answers: Mapping[str, AnswerOne]) -> tuple[bytes, tuple[int, int]]:
    """The results of a batch's file in JSON lines; and how many calls there were and failed.

    Args:
        answers: By path, such as ``/v1/chat/completions``.
    """
    results = []
    failed = 0
    for number, line in enumerate(filter(None, map(bytes.strip, lines.splitlines()))):
        call = _call(line)
        status, answer = _result(answers, call)
        failed += status != 200
        response = {"status_code": status, "request_id": f"req_{number}", "body": answer}
        identity = {"id": f"batch_req_{number}", "custom_id": call.get("custom_id")}
        results.append(orjson.dumps({**identity, "response": response, "error": None}))
    return b"\n".join(results) + b"\n", (len(results), failed)


def _call(line: bytes) -> Body:
    try:
        call = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise provider_refusal(400, "A line of the batch is not valid JSON.") from error
    if not isinstance(call, dict) or not isinstance(call.get("body"), dict):
        raise provider_refusal(400, "A line of the batch has no body.")
    return call


def _result(answers: Mapping[str, AnswerOne], call: Body) -> tuple[int, Json]:
    answer_one = answers.get(str(call.get("url")))
    if answer_one is None:
        raise provider_refusal(400, f"url: {call.get('url')} is not taken in batches.", param="url")
    try:
        return 200, answer_one(call["body"])
    except UpstreamError as refusal:
        return refusal.status, orjson.loads(envelope("openai", refusal, ""))


def messages_results(body: Body, answer_one: AnswerOne) -> list[Json]:
    """The results of a new batch of Messages calls."""
    requests = required_field(body, "requests", list)
    results = []
    for request in requests:
        if not isinstance(request, dict) or not isinstance(request.get("params"), dict):
            raise provider_refusal(400, "requests: each needs custom_id and params.")
        try:
            outcome: Json = {"type": "succeeded", "message": answer_one(request["params"])}
        except UpstreamError as refusal:
            error = orjson.loads(envelope("anthropic", refusal, ""))
            outcome = {"type": "errored", "error": error}
        results.append({"custom_id": request.get("custom_id"), "result": outcome})
    return results


def messages_batch(name: str, results: Iterable[Json], url: str) -> Json:
    """A batch of Messages calls that has ended."""
    types = [result["result"]["type"] for result in results]
    named = ("succeeded", "errored", "canceled", "expired")
    return {
        "id": name,
        "type": "message_batch",
        "processing_status": "ended",
        "request_counts": {"processing": 0, **{kind: types.count(kind) for kind in named}},
        "created_at": _MOMENT,
        "expires_at": "2026-11-22T00:00:00Z",
        "ended_at": _MOMENT,
        "archived_at": None,
        "cancel_initiated_at": None,
        "results_url": url,
    }


def _check_known(entries: Container[str], name: str) -> None:
    if name not in entries:
        raise provider_refusal(404, f"{name} does not exist in this simulator.", code="not_found")
