"""The SDKs' operations are found whole, and their bodies are checked by their own types."""

from types import NoneType

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage
from anthropic.types.messages import MessageBatchIndividualResponse
from openai.types import FileObject
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.conformance.operations import Operation, fields, operations
from tests.conformance.sdks import ANTHROPIC


@pytest.fixture(scope="module")
def every_operation() -> list[Operation]:
    return operations()


@pytest.fixture(scope="module")
def claudes() -> list[Operation]:
    return operations(ANTHROPIC)


def one(every_operation: list[Operation], method: str, path: str, query: str = "") -> Operation:
    return next(
        operation for operation in every_operation if operation.matches(method, path, query)
    )


def test_every_operation_of_the_sdk_has_an_answer(every_operation):
    assert len(every_operation) > 300
    assert [operation.path for operation in every_operation if operation.answer is None] == []


def test_a_path_and_a_method_name_an_operation(every_operation):
    assert one(every_operation, "GET", "/files/file-1").answer is FileObject
    assert one(every_operation, "GET", "/files/file-1/content").is_binary
    assert one(every_operation, "POST", "/chat/completions").answer is ChatCompletion
    assert one(every_operation, "POST", "/chat/completions").events is ChatCompletionChunk
    assert one(every_operation, "POST", "/realtime/calls/1/hangup").answer is NoneType
    assert not any(operation.matches("GET", "/no/such/path", "") for operation in every_operation)


def test_an_operation_with_a_query_of_its_own_comes_first(every_operation):
    beta = one(every_operation, "POST", "/responses", "beta=true")

    assert beta.query == "beta=true"
    assert one(every_operation, "POST", "/responses").query == ""
    assert beta.answer is not one(every_operation, "POST", "/responses").answer


def test_a_body_without_a_required_field_is_a_problem(every_operation):
    chat = one(every_operation, "POST", "/chat/completions")

    assert chat.problem(frozenset({"messages", "model"})) == ""
    assert "requires messages" in chat.problem(frozenset({"model"}))
    assert "has no field mesages" in chat.problem(frozenset({"model", "messages", "mesages"}))


def test_a_required_field_that_stands_in_the_path_need_not_be_in_the_body(every_operation):
    update = one(every_operation, "POST", "/vector_stores/vs_1/files/file_1")

    assert update.problem(frozenset({"attributes"})) == ""


def test_every_type_of_a_body_can_be_read(every_operation):
    params = [kind for operation in every_operation for kind in operation.params]

    assert len(params) > 100
    assert all(fields(kind) for kind in params)


def test_every_operation_of_anthropics_sdk_has_an_answer(claudes):
    assert len({(claude.method, claude.path) for claude in claudes}) > 250
    assert [claude.path for claude in claudes if claude.answer is None] == []
    assert sum(len(claude.params) for claude in claudes) > 150


def test_the_beta_version_of_an_operation_answers_where_its_query_asks_for_it(claudes):
    plain, beta = (one(claudes, "POST", "/messages", query) for query in ("", "beta=true"))

    assert (plain.answer, beta.answer) == (Message, BetaMessage)
    assert plain.events is RawMessageStreamEvent
    assert one(claudes, "POST", "/sessions", "").answer is not None  # there is but the beta one


def test_a_body_that_a_method_writes_out_is_checked_by_the_methods_arguments(claudes):
    message = one(claudes, "POST", "/messages")

    assert message.problem(frozenset({"model", "messages", "max_tokens", "tools"})) == ""
    assert "requires max_tokens" in message.problem(frozenset({"model", "messages"}))
    sent = frozenset({"model", "messages", "max_tokens", "n"})
    assert "has no field n" in message.problem(sent)
    assert "requires file" in one(claudes, "POST", "/files", "beta=true").problem(frozenset())


def test_results_of_a_batch_are_lines_though_no_method_names_their_path(claudes):
    results = one(claudes, "GET", "/messages/batches/b1/results")

    assert results.line is MessageBatchIndividualResponse
    assert one(claudes, "POST", "/messages").line is None
