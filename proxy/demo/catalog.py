"""The shipped catalog with every upstream replaced by the lab: real names, prices and rules."""

from collections.abc import Mapping

from proxy.catalog.entries import Catalog, Upstream
from proxy.lab.models import MODELS, Simulated, of_models
from proxy.wire.kinds import credentials

#: Made up; the lab takes any.
_KEY = "sk-simulated"


def pointing(shipped: Catalog, base_url: str) -> str:
    """A catalog in TOML that, laid over the shipped one, sends every call to ``base_url``.

    No upstream keeps the environment variable of its key, so no real key can leave the machine.
    """
    return "\n".join(_upstream(upstream, base_url) for upstream in shipped.upstreams.values())


def simulated(shipped: Catalog) -> Mapping[str, Simulated]:
    """What the lab must serve so that every model of the catalog answers."""
    vectors = {name: model for name, model in MODELS.items() if model.dimensions}
    return of_models(shipped.models.values()) | vectors


def _upstream(upstream: Upstream, base_url: str) -> str:
    header, value = credentials(upstream, _KEY)
    return (
        f"[upstreams.{upstream.name}]\n"
        f'base_url = "{base_url}"\n'
        'key_env = ""\n'
        f'headers = {{ {header} = "{value}" }}\n'
    )
