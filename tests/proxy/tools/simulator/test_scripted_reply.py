"""Tests of how endpoints speak."""

from proxy.tools.simulator.apis.chat import CHAT
from proxy.tools.simulator.apis.completions import COMPLETIONS
from proxy.tools.simulator.apis.messages import MESSAGES
from proxy.tools.simulator.apis.responses import RESPONSES


def test_each_endpoint_has_its_wire_and_its_own_ids() -> None:
    speeches = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)

    assert [speech.wire for speech in speeches] == ["openai", "openai", "openai", "anthropic"]
    assert len({speech.prefix for speech in speeches}) == 4
