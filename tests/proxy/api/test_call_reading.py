"""Tests of the tags of calls: which keys count, where they are read, and how they are bounded."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from proxy.api.call_reading import with_tags
from proxy.api.request import read_head
from proxy.records.body_reader import BodyReader
from proxy.records.call import Call
from slo.policies.reports import TagRule
from tests.fakes.answers import ASKED, COMPLETION
from tests.fakes.asgi import scope
from tests.fakes.call_dependencies import call
from tests.fakes.endpoint_harness import EndpointHarness
from tests.fakes.upstream import ScriptedAnswer

RULES = (TagRule(name="all", keys=("customer", "job")),)
HELLO = [{"role": "user", "content": "Hello"}]
#: A body whose messages are read apart from the rest.
LONG = [{"role": "user", "content": f"{n}: {'word ' * 300}"} for n in range(6)]


def a_call(metadata: object, endpoint: str = "chat/completions", **fields: Any) -> Call:
    field = {"responses": "input"}.get(endpoint, "messages")
    body = json.dumps({"model": "m", field: HELLO, "metadata": metadata, **fields}).encode()
    read, split = BodyReader().read("team_1", body)
    return msgspec.structs.replace(call(body, endpoint), fields=read, split=split)


def tags(
    some: Call, header: str = "", rules: tuple[TagRule, ...] = RULES, agent: str = ""
) -> dict[str, str]:
    head = msgspec.structs.replace(read_head(scope()), tags=header, user_agent=agent)
    return dict(with_tags(some, head, rules).tags)


@pytest.mark.parametrize("endpoint", ["chat/completions", "responses"])
def test_the_metadata_of_openais_apis_names_tags_and_all_else_of_it_is_left_out(endpoint):
    tagged = a_call({"customer": "acme", "job": "nightly", "secret": "x"}, endpoint)

    assert tags(tagged) == {"customer": "acme", "job": "nightly"}


def test_metadata_of_a_long_conversation_is_read_without_its_messages():
    tagged = a_call({"customer": "acme"}, messages=LONG)

    assert tagged.split is not None
    assert tags(tagged) == {"customer": "acme"}


@pytest.mark.parametrize("endpoint", ["messages", "chat/completions", "responses"])
def test_the_header_names_what_the_metadata_of_a_call_does_not(endpoint):
    tagged = a_call({"user_id": "u", "job": "nightly"}, endpoint)

    assert tags(tagged, "customer=acme , job=hourly, x=y") == {
        "customer": "acme",
        "job": "nightly",
    }


def test_another_teams_keys_do_not_count():
    rules = (TagRule(name="other", team="other", keys=("customer",)),)

    assert tags(a_call({"customer": "acme"}), "customer=acme", rules) == {}


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (" acme ", "acme"),
        ("x" * 100, "x" * 64),
        ("a\x1b[2J\u202eb\0\ud800", "a[2Jb"),
        ("<script>", "<script>"),
        ("a=b", "a=b"),
    ],
)
def test_a_tags_value_is_short_and_printable(value, label):
    metadata = msgspec.json.encode(value) if "\ud800" not in value else None
    tagged = a_call({"customer": value} if metadata else {}, "chat/completions")

    assert tags(tagged, f"customer={value}") == {"customer": label}


@pytest.mark.parametrize("metadata", [None, {"customer": 3}, {"customer": ""}, {"customer": "\n"}])
def test_metadata_without_a_text_names_no_tag(metadata):
    assert tags(a_call(metadata)) == {}


@pytest.mark.parametrize("header", ["", "customer", "=acme", ",,=,", "customer="])
def test_a_header_without_a_key_or_value_names_no_tag(header):
    assert tags(call(ASKED), header) == {}


AGENT_RULES = (TagRule(name="all", keys=("agent",)),)
CLINE = [{"role": "system", "content": "You are Cline, a coder."}]


def test_a_call_that_names_no_agent_is_tagged_with_what_sent_it():
    assert tags(a_call({}), "", AGENT_RULES, "claude-cli/2.1.197 (x)") == {"agent": "claude-code"}
    cline = a_call({}, messages=CLINE)
    assert tags(cline, "", AGENT_RULES, "OpenAI/JS 4.9.0") == {"agent": "cline"}
    assert tags(call(ASKED), "", AGENT_RULES, "curl/8.1") == {"agent": "curl"}
    assert tags(a_call({}), "", AGENT_RULES) == {}


def test_a_call_that_names_its_agent_is_tagged_with_that():
    named = a_call({"agent": "crawler"})

    assert tags(named, "agent=other", AGENT_RULES, "claude-cli/2.1") == {"agent": "crawler"}
    assert tags(a_call({}), "agent=bot", AGENT_RULES, "claude-cli/2.1") == {"agent": "bot"}


def test_an_agent_is_no_tag_where_no_rule_names_it():
    assert tags(a_call({}), agent="claude-cli/2.1.197") == {}


def test_an_agents_name_is_short_and_without_markup():
    assert tags(a_call({}), "", AGENT_RULES, "a" * 100 + "/1.0") == {"agent": "a" * 64}
    assert tags(a_call({}), "", AGENT_RULES, "bot<script>/1") == {"agent": "bot"}


def tagged_harness(rules: tuple[TagRule, ...]) -> EndpointHarness:
    harness = EndpointHarness((ScriptedAnswer([COMPLETION]),))
    harness.front.update(replace(harness.front._deps, tags=rules))
    return harness


def test_receipts_have_the_tags_and_the_upstream_gets_the_body_but_no_header():
    body = ASKED[:-1] + b',"metadata":{"job":"nightly","secret":"x"}}'
    harness = tagged_harness(RULES)

    assert harness.ask(body, headers={"x-thriftgate-tags": "customer=acme"}).status == 200
    assert harness.receipts[0].tags == (("customer", "acme"), ("job", "nightly"))
    ((_, sent),) = harness.transport.sent
    assert b'"metadata":{"job":"nightly","secret":"x"}' in sent.body
    assert "x-thriftgate-tags" not in {name.lower() for name in sent.headers}


def test_without_a_rule_receipts_have_no_tags():
    harness = tagged_harness(())

    assert harness.ask(headers={"x-thriftgate-tags": "customer=acme"}).status == 200
    assert harness.receipts[0].tags == ()
