from functools import partial

import pytest

from slo.alert import Severity
from slo.policies.sinks import Sink, SinkKind
from tests.slo.policies.policy_files import mistakes, read_policies, with_entries

SHORT = '[[sinks]]\nname = "s"\nkind = "webhook"\nurl_env = "U"\nsecret_env = "S"\n'
with_ = partial(with_entries, SHORT)


def sinks(text: str) -> tuple[Sink, ...]:
    return read_policies(text).sinks


def test_a_sink_is_read_as_it_is_written() -> None:
    text = with_(kind='"alertmanager"', at_least='"page"')

    assert sinks(text) == (
        Sink(
            name="s",
            kind=SinkKind.ALERTMANAGER,
            url_env="U",
            secret_env="S",
            at_least=Severity.PAGE,
        ),
    )


def test_sink_gets_tickets_and_pages_by_default() -> None:
    (sink,) = sinks(with_(kind='"slack"', secret_env=""))

    assert (sink.at_least, sink.secret_env) == (Severity.TICKET, "")
    assert sinks("") == ()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ({"kind": '"slak"'}, 'kind: names "slak", which is not known'),
        ({"kind": ""}, "kind: is missing"),
        ({"url_env": ""}, "url_env: is missing"),
        ({"url_env": '""'}, "url_env: is the string"),
        ({"url_env": "7"}, "url_env: is 7"),
        ({"url_env": '"THRIFTGATE_URL"'}, "begins with THRIFTGATE_"),
        ({"secret_env": ""}, "secret_env: is missing"),
        ({"kind": '"slack"'}, "leave it out"),
        ({"kind": '"apprise"'}, "says nothing to Apprise, whose URL is the secret; leave it out"),
        ({"at_least": '"all"'}, 'at_least: names "all", which is not known'),
        ({"name": '"a b"'}, "name: is the string"),
        ({"colour": '"red"'}, "colour: is not known"),
        ({"name": '"s"\n[[sinks]]\nname = "s"'}, "second sink"),
    ],
)
def test_mistake_in_a_sink_is_reported_with_its_place(lines: dict[str, str], problem: str) -> None:
    assert problem in "\n".join(mistakes(with_(**lines)))


def test_an_address_written_where_a_name_belongs_is_not_repeated() -> None:
    (text,) = mistakes(with_(url_env='"https://hooks.slack.com/services/T0/B0/xyzzy"'))

    assert "names no environment variable" in text
    assert "xyzzy" not in text
