import asyncio

import pytest

from proxy.services.alerts.configured_sinks import send_test_alert
from proxy.services.alerts.http_sender import DeliveryFailure
from slo.alert import Severity
from tests.fakes.alerts import NOW, an_outlet, json_of_post
from tests.fakes.server import Server, head, serving


def send(*answer: bytes, at_least: Severity) -> tuple[DeliveryFailure | None, Server]:
    async def to_a_server() -> tuple[DeliveryFailure | None, Server]:
        async with serving(list(answer)) as server:
            outlet = an_outlet(server, at_least=at_least)
            return await send_test_alert(outlet, "ann sent it from the dashboard", NOW), server

    return asyncio.run(to_a_server())


@pytest.mark.parametrize("severity", list(Severity))
def test_a_test_is_an_open_alert_that_is_urgent_enough_for_the_sink(severity: Severity) -> None:
    failure, server = send(head(200, "content-length: 0"), at_least=severity)
    (alert,) = json_of_post(server.got[0])["data"]["alerts"]

    assert failure is None
    assert alert["title"].startswith("TEST: ")
    assert (alert["severity"], alert["ended"]) == (severity.value, None)
    assert alert["fix"] == "Nothing: ann sent it from the dashboard."


def test_a_sink_that_takes_no_test_says_why() -> None:
    failure, _ = send(head(404, "content-length: 0"), at_least=Severity.PAGE)

    assert failure is not None
    assert failure.reason == "it answered 404"
