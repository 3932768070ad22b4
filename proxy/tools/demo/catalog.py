"""The shipped catalog with the simulator for every upstream: real names, prices and rules."""

from collections.abc import Mapping

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Upstream
from proxy.providers.kinds import credentials
from proxy.tools.simulator.models import MODELS, SimulatedModel, of_models

#: Made up; the simulator takes any.
KEY = "sk-simulated"


def redirected_catalog(shipped: Catalog, base_url: str) -> str:
    """A catalog in TOML that, laid over the shipped one, sends every call to ``base_url``.

    No upstream keeps the environment variable of its key, so no real key can leave the machine.
    """
    lines = (_upstream(upstream, base_url) for upstream in shipped.upstreams.values())
    return "\n".join(("[upstreams]", *lines, ""))


def simulated_models(shipped: Catalog) -> Mapping[str, SimulatedModel]:
    """The models that the simulator must serve so that every model of the catalog answers."""
    vectors = {name: model for name, model in MODELS.items() if model.dimensions}
    return of_models(shipped.models.values()) | vectors


def _upstream(upstream: Upstream, base_url: str) -> str:
    header, value = credentials(upstream, KEY)
    line = f'base_url = "{base_url}", key_env = "", headers = {{ {header} = "{value}" }}'
    return f"{upstream.name} = {{ {line} }}"
