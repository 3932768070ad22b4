"""How endpoints speak."""

from proxy.lab.chat import CHAT
from proxy.lab.completions import COMPLETIONS
from proxy.lab.messages import MESSAGES
from proxy.lab.responses import RESPONSES


def test_each_endpoint_has_its_wire_and_its_own_ids() -> None:
    speeches = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)

    assert [speech.wire for speech in speeches] == ["openai", "openai", "openai", "anthropic"]
    assert len({speech.prefix for speech in speeches}) == 4
