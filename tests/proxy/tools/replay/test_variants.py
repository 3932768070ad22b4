"""Ways to send calls."""

from proxy.tools.replay.variants import UnmodifiedVariant
from slo.usage import Usage
from tests.proxy.tools.replay.scene import call, user


def test_as_sent_sends_the_callers_bytes_and_learns_nothing():
    line, way = call(user("Hi")), UnmodifiedVariant()

    way.record_answer(Usage(input=1))

    assert way.body(line, 0.0) is line.body
    assert way.name == "as sent"
