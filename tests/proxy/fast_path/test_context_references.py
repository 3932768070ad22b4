from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import CallerError
from proxy.fast_path.context_references import (
    ContextReference,
    FetchedPage,
    StoredText,
    may_hold_references,
    prefix_of,
    read_references,
)

HANDBOOK = {"type": "thriftgate.ref", "name": "handbook", "version": 3}
REFUNDS = {"type": "thriftgate.fetch", "url": "https://docs.example.com/guides/refunds"}
TEXTS: dict[ContextReference, bytes] = {
    StoredText("handbook", 3): orjson.dumps('Be "kind".\nÄ'),
    FetchedPage(REFUNDS["url"]): orjson.dumps("Refunds take a week."),
}


def resolve(document: dict[str, Any], endpoint: str = "chat/completions") -> Any:
    body = orjson.dumps(document)
    referencing = read_references(body, endpoint)
    assert may_hold_references(body)
    assert referencing is not None
    return orjson.loads(referencing.resolve(TEXTS))


def problem_of(block: dict[str, Any]) -> CallerError:
    body = orjson.dumps({"messages": [{"role": "user", "content": [block]}]})
    with pytest.raises(CallerError) as refusal:
        read_references(body, "chat/completions")
    return refusal.value


def test_references_of_a_chat_message_become_text_between_its_own_blocks():
    own = {"type": "text", "text": "Answer by these:"}
    content = [own, HANDBOOK, REFUNDS]

    body = resolve({"model": "m", "messages": [{"role": "system", "content": content}]})

    assert body["messages"][0]["content"] == [
        own,
        {"type": "text", "text": 'Be "kind".\nÄ'},
        {"type": "text", "text": "Refunds take a week."},
    ]


def test_reference_in_anthropics_system_keeps_its_cache_control():
    mark = {"cache_control": {"type": "ephemeral"}}

    body = resolve({"system": [{**HANDBOOK, **mark}], "messages": []}, "messages")

    assert body["system"] == [{"type": "text", "text": 'Be "kind".\nÄ', **mark}]


def test_reference_in_a_tool_result_is_resolved():
    result = {"type": "tool_result", "tool_use_id": "t", "content": [HANDBOOK]}

    body = resolve({"messages": [{"role": "user", "content": [result]}]}, "messages")

    assert body["messages"][0]["content"][0]["content"][0]["type"] == "text"


@pytest.mark.parametrize(
    ("role", "expected"), [("user", "input_text"), ("assistant", "output_text")]
)
def test_reference_in_a_responses_item_becomes_the_block_of_its_role(role, expected):
    body = resolve({"input": [{"role": role, "content": [HANDBOOK]}]}, "responses")

    assert body["input"][0]["content"] == [{"type": expected, "text": 'Be "kind".\nÄ'}]


def test_one_text_that_is_named_twice_is_asked_for_once():
    message = {"role": "user", "content": [HANDBOOK, HANDBOOK]}
    referencing = read_references(orjson.dumps({"messages": [message]}), "chat/completions")

    assert referencing is not None
    assert referencing.references == (StoredText("handbook", 3),)
    assert len(orjson.loads(referencing.resolve(TEXTS))["messages"][0]["content"]) == 2


def test_reference_without_text_is_left_out():
    page = {**REFUNDS, "url": "https://docs.example.com/late"}

    body = resolve({"messages": [{"role": "user", "content": [page, HANDBOOK]}]})

    assert body["messages"][0]["content"] == [{"type": "text", "text": 'Be "kind".\nÄ'}]


def test_message_of_nothing_but_a_missing_page_is_refused():
    page = {**REFUNDS, "url": "https://docs.example.com/late"}

    with pytest.raises(CallerError, match="nothing else stands in its message") as refusal:
        resolve({"messages": [{"role": "user", "content": [page]}]})

    assert (refusal.value.code, refusal.value.status) == ("context_unavailable", 424)


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages": [{"role": "user", "content": "see \\"thriftgate.ref\\""}]}',
        b'{"messages": [{"role": "user", "content": "thriftgate.ref"}]}',
        b'{"tools": [{"type": "thriftgate.ref"}]}',
        b'["thriftgate.ref"]',
        b'{"messages": ["thriftgate.ref"',
    ],
)
def test_body_without_references_in_its_content_is_left_alone(body):
    assert read_references(body, "chat/completions") is None


def test_body_that_names_no_reference_is_not_read_at_all():
    assert not may_hold_references(b'{"messages": [{"role": "user", "content": "thriftgate"}]}')


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0},
        {"version": "3"},
        {"version": True},
        {"version": 1 << 31},
        {"version": None},
        {"name": "../etc"},
        {"name": ""},
        {"name": 7},
        {"text": "more"},
    ],
)
def test_malformed_reference_to_a_text_is_refused(change):
    problem = problem_of({**HANDBOOK, **change})

    assert problem.code == "invalid_reference"
    assert '"name" and "version"' in str(problem)


@pytest.mark.parametrize(
    "url",
    [
        "",
        7,
        "file:///etc/passwd",
        "https://a.b/x#y",
        "https://u@a.b/",
        "https://a.b/ x",
        "//a.b/",
        "https://a.b/" + 2_048 * "x",
    ],
)
def test_malformed_address_of_a_page_is_refused(url):
    problem = problem_of({**REFUNDS, "url": url})

    assert problem.code == "invalid_reference"
    assert "an http or https address" in str(problem)


def test_body_may_have_64_references_and_no_more():
    def content(count: int) -> bytes:
        return orjson.dumps({"messages": [{"role": "user", "content": [HANDBOOK] * count}]})

    assert read_references(content(64), "chat/completions") is not None
    with pytest.raises(CallerError, match="has 65 references; 64 are allowed"):
        read_references(content(65), "chat/completions")


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://docs.example.com/guides/refunds?lang=en", True),
        ("https://docs.example.com/guides/", True),
        ("https://docs.example.com/guides", False),
        ("https://docs.example.com.evil.com/guides/", False),
        ("http://docs.example.com/guides/refunds", False),
        ("https://docs.example.com/guides/../secret", False),
        ("https://docs.example.com/guides/./x", False),
        ("https://docs.example.com/guides/%2e%2e/secret", False),
        ("https://docs.example.com/guides/..%2fsecret", False),
        ("https://docs.example.com/guides/..\\secret", False),
    ],
)
def test_page_is_allowed_below_a_prefix_and_never_out_of_its_folder(url, is_allowed):
    prefixes = ("https://other.example.com/", "https://docs.example.com/guides/")

    assert prefix_of(url, prefixes) == (prefixes[1] if is_allowed else "")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_type_that_is_no_string_is_no_reference():
    message = {"role": "user", "content": [{"type": []}, {"type": {}}, HANDBOOK]}

    body = resolve({"messages": [{"type": [], **message}]})

    assert body["messages"][0]["content"][:2] == [{"type": []}, {"type": {}}]


def test_body_that_is_nested_too_deeply_to_be_written_is_refused():
    deep = b"[" * 300 + b"]" * 300
    head = b'{"messages": [{"content": [' + orjson.dumps(HANDBOOK)
    referencing = read_references(head + b']}], "more": ' + deep + b"}", "chat/completions")

    assert referencing is not None
    with pytest.raises(CallerError, match="nested too deeply"):
        referencing.resolve(TEXTS)


@given(others=st.lists(JSON_VALUES, max_size=4), text=st.text(max_size=30))
def test_everything_but_the_reference_stays_as_it_was(others, text):
    content = [*others, HANDBOOK]
    document = {"model": "m", "messages": [{"role": "user", "content": content}]}
    referencing = read_references(orjson.dumps(document), "chat/completions")

    assert referencing is not None
    body = orjson.loads(referencing.resolve({StoredText("handbook", 3): orjson.dumps(text)}))
    content[-1] = {"type": "text", "text": text}
    assert body == document
