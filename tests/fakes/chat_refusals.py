"""Simulators that take every chat call, also those that some models' chat completions refuse.

Models that stand for their cache rules are sent recorded chat calls as they are, with tools, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from proxy.tools.simulator.models import SimulatedModel

#: Traits of models whose chat completions refuse some calls.
CHAT_REFUSALS = frozenset({"tools_at_none", "responses_only"})


def without_chat_refusals(
    models: Mapping[str, SimulatedModel], names: Iterable[str]
) -> dict[str, SimulatedModel]:
    """Return the models of these names, which take any chat call."""
    return {
        name: replace(models[name], traits=models[name].traits - CHAT_REFUSALS) for name in names
    }
