"""The SDK's operations are found whole, and their bodies are checked by its own types."""

from types import NoneType

import pytest
from openai.types import FileObject
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.conformance.operations import Operation, fields, operations


@pytest.fixture(scope="module")
def known() -> list[Operation]:
    return operations()


def one(known: list[Operation], method: str, path: str, query: str = "") -> Operation:
    return next(each for each in known if each.matches(method, path, query))


def test_every_operation_of_the_sdk_has_an_answer(known):
    assert len(known) > 300
    assert [each.path for each in known if each.answer is None] == []


def test_a_path_and_a_method_name_an_operation(known):
    assert one(known, "GET", "/files/file-1").answer is FileObject
    assert one(known, "GET", "/files/file-1/content").is_binary
    assert one(known, "POST", "/chat/completions").answer is ChatCompletion
    assert one(known, "POST", "/chat/completions").events is ChatCompletionChunk
    assert one(known, "POST", "/realtime/calls/1/hangup").answer is NoneType
    assert not any(each.matches("GET", "/no/such/path", "") for each in known)


def test_an_operation_with_a_query_of_its_own_comes_first(known):
    beta = one(known, "POST", "/responses", "beta=true")

    assert beta.query == "beta=true"
    assert one(known, "POST", "/responses").query == ""
    assert beta.answer is not one(known, "POST", "/responses").answer


def test_a_body_without_a_required_field_is_a_problem(known):
    chat = one(known, "POST", "/chat/completions")

    assert chat.problem(frozenset({"messages", "model"})) == ""
    assert "requires messages" in chat.problem(frozenset({"model"}))
    assert "has no field mesages" in chat.problem(frozenset({"model", "messages", "mesages"}))


def test_a_required_field_that_stands_in_the_path_need_not_be_in_the_body(known):
    update = one(known, "POST", "/vector_stores/vs_1/files/file_1")

    assert update.problem(frozenset({"attributes"})) == ""


def test_every_type_of_a_body_can_be_read(known):
    params = [kind for each in known for kind in each.params]

    assert len(params) > 100
    assert all(fields(kind) for kind in params)
