import asyncio

import pytest

from proxy.api.connections.body_limits import BodyMemoryLimit
from proxy.api.refused_keys import unauthenticated_error
from proxy.api.request import (
    read_body,
    read_head,
    request_token,
)
from proxy.calls.deadlines import ClientDisconnected
from proxy.providers.json_size import MAX_REQUEST
from tests.fakes.asgi import AsgiConnection, scope
from tests.fakes.clock import run_in_instant_time
from tests.fakes.loop_turns import with_loop_turns
from tests.fakes.refusals import refusing


def test_a_head_is_read():
    head = read_head(
        scope(
            query="a=1&b=%20",
            headers={
                "content-type": "Application/JSON; charset=utf-8",
                "content-length": "12",
                "content-encoding": "GZIP",
                "x-thriftgate-conversation": "c-1",
                "x-thriftgate-slots": "0=stable",
                "x-thriftgate-compaction": "dry-run",
                "x-thriftgate-draft": " small ",
                "x-thriftgate-feature": "search",
                "x-thriftgate-trailer": "1",
                "openai-beta": "x=1",
                "openai-organization": "org-1",
                "openai-project": "proj_1",
                "cookie": "secret",
                "x-forwarded-for": "10.0.0.1",
            },
        )
    )

    assert (head.method, head.endpoint, head.query) == ("POST", "chat/completions", "a=1&b=%20")
    assert (head.token, head.feature, head.wants_trailer) == ("tg-1", "search", True)
    assert head.conversation == "c-1"
    assert head.slots == "0=stable"
    assert (head.compaction, head.draft) == ("dry-run", "small")
    assert (head.length, head.media, head.encoding) == (12, "application/json", "gzip")
    assert head.forwarded == {
        "content-type": "Application/JSON; charset=utf-8",
        "openai-beta": "x=1",
        "openai-organization": "org-1",
        "openai-project": "proj_1",
    }


def test_a_head_that_says_nothing_is_read_as_nothing():
    head = read_head(scope(headers={"content-type": "", "authorization": ""}))

    assert (head.token, head.feature, head.wants_trailer) == ("", "", False)
    assert head.conversation == ""
    assert (head.slots, head.compaction, head.draft) == ("", "", "")
    assert (head.length, head.media, head.encoding, head.forwarded) == (0, "", "", {})


@pytest.mark.parametrize(
    "name",
    [
        "helicone-session-id",
        "session-id",
        "session_id",
        "thread-id",
        "thread_id",
        "x-claude-code-session-id",
        "x-grok-conv-id",
        "x-session-affinity",
        "x-session-id",
    ],
)
def test_headers_that_name_a_session_are_read_and_kept_apart(name):
    one, same, other, nameless = (
        read_head(scope(headers={name: value})).session for value in ("one", "one", "two", "")
    )

    assert one == same != other
    assert len(one) == 32
    assert nameless == ""


def test_a_sessions_name_counts_in_its_header_and_up_to_a_length():
    def session(**headers):
        return read_head(scope(headers=headers)).session

    assert session(session_id="a") != session(thread_id="a")
    assert session(session_id="a" * 256) == session(session_id="a" * 9_000)
    assert session(session_id="a", thread_id="b") != session(session_id="a")


@pytest.mark.parametrize(
    "name", ["x-client-request-id", "x-codex-window-id", "x-codex-turn-metadata", "x-request-id"]
)
def test_headers_that_name_a_request_or_a_window_name_no_session(name):
    assert read_head(scope(headers={name: "one"})).session == ""


@pytest.mark.parametrize("length", ["-1", "1e9", "x", "9" * 30, "٣"])
def test_a_length_that_is_no_number_is_not_believed(length):
    sent = scope()
    sent["headers"].append((b"content-length", length.encode()))

    assert read_head(sent).length == 0


def test_an_identity_encoding_is_none():
    assert read_head(scope(headers={"content-encoding": "identity"})).encoding == ""


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"authorization": "Bearer tg-1"}, "tg-1"),
        ({"authorization": "bearer   tg-1 "}, "tg-1"),
        ({"authorization": "tg-1"}, "tg-1"),
        ({"authorization": "", "api-key": "tg-2"}, "tg-2"),
        ({"authorization": "", "x-api-key": "tg-3"}, "tg-3"),
        ({"authorization": "Bearer tg-1", "api-key": "tg-2", "x-api-key": "tg-3"}, "tg-1"),
        ({"authorization": "Bearer ", "x-api-key": "tg-3"}, "tg-3"),
        ({"authorization": "", "api-key": " "}, ""),
    ],
)
def test_a_key_is_found_where_clients_put_it(headers, expected):
    assert request_token(scope(headers=headers)) == expected
    assert read_head(scope(headers=headers)).token == expected


def test_a_path_keeps_its_encoding():
    head = read_head(scope("/v1/files/a b", raw="/v1/files/a%20b"))

    assert head.endpoint == "files/a%20b"


@pytest.mark.parametrize("usual", ["chat/completions", "responses", "images/edits"])
@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("hidden", range(3))
def test_a_path_we_know_is_known_however_it_is_spelt(usual, end, hidden):
    escaped = f"{usual[:hidden]}%{ord(usual[hidden]):02x}{usual[hidden + 1 :]}"
    for spelt in (usual, escaped, escaped.upper().replace("/V1/", "/v1/")):
        assert read_head(scope(f"/v1/{usual}", raw=f"/v1/{spelt}{end}")).endpoint == usual


@pytest.mark.parametrize("trimming", [";x=y", ";", "%20", "%00", "%3bx", "/%09", ";a/"])
def test_a_path_we_know_is_not_found_with_trimmings_that_a_server_may_drop(trimming):
    with refusing(404, match=r"did you mean /v1/chat/completions\?") as caught:
        read_head(scope(raw=f"/v1/chat/completions{trimming}"))

    assert caught.value.code == "unknown_path"


@pytest.mark.parametrize(
    "raw",
    [
        "files/",
        "files/a%62c",
        "files/ABC",
        "chat/completions/x%79z",
        "messages/batches/",
        "files/%C3%A9",
        "files/a;b",
    ],
)
def test_a_path_we_do_not_know_stays_unmodified(raw):
    assert read_head(scope(f"/v1/{raw}", raw=f"/v1/{raw}")).endpoint == raw


def test_gateway_headers_are_read_as_utf8_else_as_latin1():
    sent = scope()
    for name in ("feature", "conversation", "slots", "compaction"):
        sent["headers"].append((f"x-thriftgate-{name}".encode(), f"日本 {name}".encode()))
    head = read_head(sent)

    assert (head.feature, head.conversation) == ("日本 feature", "日本 conversation")
    assert (head.slots, head.compaction) == ("日本 slots", "日本 compaction")
    assert read_head(scope(headers={"x-thriftgate-feature": "caf\xe9"})).feature == "café"


def test_forwarded_headers_of_the_caller_keep_their_bytes():
    sent = scope()
    sent["headers"].append((b"x-client-request-id", "日本".encode()))

    assert read_head(sent).forwarded["x-client-request-id"].encode("latin-1") == "日本".encode()


def test_a_models_name_may_hold_slashes_escaped_or_not_but_leads_nowhere_else():
    for name in ("org/m", "org%2Fm", "org%2fm"):
        assert read_head(scope(f"/v1/models/{name}", "DELETE")).endpoint == "models/org/m"
    for name in ("..%2Ffiles", "a%2F%2Fb", "%2e%2e%2Ffiles"):
        with refusing(404):
            read_head(scope(f"/v1/models/{name}", "DELETE"))


def test_a_server_that_gives_no_raw_path_gives_the_decoded_one():
    sent = scope("/v1/embeddings")
    del sent["raw_path"]

    assert read_head(sent).endpoint == "embeddings"


@pytest.mark.parametrize(
    ("path", "intended"),
    [
        ("/v1/v1/chat/completions", "/v1/chat/completions?"),
        ("/v1/v1/v1/models", "/v1/models?"),
        ("/v1/v1/" + "a" * 200, "/v1/" + "a" * 100 + "?"),
    ],
)
def test_a_prefix_that_stands_twice_is_reported_with_the_path_that_was_meant(path, intended):
    with refusing(404, match="base_url ends in /v1 already") as caught:
        read_head(scope(path))

    assert (caught.value.status, caught.value.code) == (404, "unknown_path")
    assert f"did you mean {intended}" in caught.value.message


def test_a_path_that_only_begins_alike_is_none_of_them():
    assert read_head(scope("/v1/v1beta/models")).endpoint == "v1beta/models"


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("/v1/chat/../files", None),
        ("/v1/chat/./..", "/v1/chat/%2e%2E"),
        ("/v1/chat/.%2e/files", "/v1/chat/.%2e/files"),
        ("/v1//files", None),
        ("/v1/chat//x", None),
        ("/v1/chat/a/b", "/v1/chat/a%2Fb"),
        ("/v1/chat\\files", None),
        ("/v1/chat\\files", "/v1/chat%5Cfiles"),
        ("/v1/files", "/v1/%66iles"),
        ("/v1/chat/./completions", None),
        ("/v1/chat/.", None),
        ("/v1/chat/completions", "/v1/chat/completions//"),
        ("/v1/chat/..", "/v1/chat/%2%65."),
        ("/v1/files/100%", "/v1/files/100%"),
        ("/v1/files", "/%761/files"),
        ("/v1/Files", None),
        ("/v1/files;x", None),
        ("/v1/", None),
    ],
)
def test_a_path_that_could_lead_elsewhere_leads_nowhere(path, raw):
    with refusing(404) as caught:
        read_head(scope(path, raw=raw))

    assert caught.value.code == "not_found"


def read_request_body(connection: AsgiConnection, *, length: int = 0, limit: int = 10) -> bytes:
    with BodyMemoryLimit(per_body=limit, all_together=limit).reserve() as claim:
        return run_in_instant_time(read_body(connection.receive, length, claim))


@pytest.mark.parametrize("pieces", [[b""], [b"abc"], [b"a", b"", b"bc"], [b"0123456789"]])
def test_a_body_is_put_together_up_to_the_limit(pieces):
    whole = b"".join(pieces)

    assert read_request_body(AsgiConnection(pieces), length=len(whole)) == whole


def test_a_body_announced_too_large_is_not_read():
    connection = AsgiConnection([b"x" * 11])
    with refusing(413, match="over 10 bytes"):
        read_request_body(connection, length=11)

    assert asyncio.run(connection.receive())["body"] == b"x" * 11


@pytest.mark.parametrize("pieces", [[b"x" * 11], [b"x" * 11, None], [b"x" * 10, b"x", None]])
def test_a_body_that_turns_out_too_large_is_read_no_further(pieces):
    with refusing(413) as caught:
        read_request_body(AsgiConnection(pieces))

    assert caught.value.code == "body_too_large"


def test_a_body_of_too_many_keys_is_refused_once_all_of_it_has_arrived():
    piece = b",".join(b'"key%06d":0' % number for number in range(5_000)) + b","
    connection = AsgiConnection([b"{", *[piece] * 40, b"}"])
    with (
        refusing(413) as caught,
        BodyMemoryLimit(per_body=1 << 24, all_together=1 << 24).reserve() as room,
    ):
        run_in_instant_time(read_body(connection.receive, 0, room, json_limit=MAX_REQUEST))

    assert caught.value.code == "too_many_json_values"
    assert not connection._pieces


def test_other_calls_run_while_a_body_arrives_and_is_measured():
    sent = b'{"text":"%b"}' % (b"{a: [1, 2]}" * 400_000)

    async def work() -> bytes:
        with BodyMemoryLimit(per_body=1 << 24, all_together=1 << 24).reserve() as room:
            return await read_body(AsgiConnection([sent]).receive, 0, room, json_limit=MAX_REQUEST)

    body, turns = run_in_instant_time(with_loop_turns(work()))
    assert body == sent
    assert turns > 2 * len(sent) // 65_536


class DisconnectingCaller(AsgiConnection):
    """A caller that announces more and leaves."""

    async def receive(self):
        message = await super().receive()
        return {**message, "more_body": True} if "body" in message else message


@pytest.mark.parametrize(
    "connection", [AsgiConnection([], leaves_after=0), DisconnectingCaller(leaves_after=1)]
)
def test_a_caller_that_leaves_before_the_end_of_its_body_is_gone(connection):
    with pytest.raises(ClientDisconnected):
        read_request_body(connection)


def test_a_missing_key_and_a_bad_one_are_kept_apart():
    missing, bad = unauthenticated_error(""), unauthenticated_error("tg-unknown")

    assert (missing.status, missing.code) == (401, "missing_api_key")
    assert (bad.status, bad.code) == (401, "invalid_api_key")
