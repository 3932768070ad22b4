"""Tests of how endpoints speak."""

from proxy.tools.simulator.chat import CHAT
from proxy.tools.simulator.completions import COMPLETIONS
from proxy.tools.simulator.messages import MESSAGES
from proxy.tools.simulator.responses import RESPONSES


def test_each_endpoint_has_its_wire_and_its_own_ids() -> None:
    speeches = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)

    assert [speech.wire for speech in speeches] == ["openai", "openai", "openai", "anthropic"]
    assert len({speech.prefix for speech in speeches}) == 4
