"""Manifests by what runs the replicas, each a YAML template that a profile fills.

A scalar ``${name}`` becomes the value of that name; where that is None it is left out with its key.
A mapping with ``_if`` is left out where the value that it names is empty.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Any, Final

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.manifests.deployment import (
    PORT,
    EngineDeployment,
    ManifestOptions,
    attached_profile,
    plan_deployment,
)
from proxy.engines.profiles import Engine, EngineProfile

#: Where downloaded weights are kept in a pod.
_MODEL_FOLDER: Final = "/models"
_PROBE_INTERVAL_S: Final = 10
#: Flags of vLLM's API server that the target writes itself.
_SERVER_FLAGS: Final = ("--host", "--served-model-name", "--shutdown-timeout")
_CHART_FLAGS: Final = ("--host", "--enable-prefix-caching", "--no-enable-prefix-caching")
_KSERVE_FLAGS: Final = (*_SERVER_FLAGS, "--tensor-parallel-size")
_PLACEHOLDER: Final = re.compile(r"\$\{(\w+)\}")
_CONDITION: Final = "_if"


class ManifestTarget(StrEnum):
    """Software that runs replicas on a cluster."""

    KUBERNETES = "kubernetes"
    PRODUCTION_STACK = "production-stack"
    KSERVE = "kserve"
    RAY_SERVE = "ray-serve"


#: The command that puts documents into force, and the URL at which the gateway reaches a router.
#: Only the cluster knows KServe's gateway: `kubectl get llminferenceservice` shows it.
_APPLY: Final[Mapping[ManifestTarget, tuple[str, str]]] = {
    ManifestTarget.KUBERNETES: ("kubectl apply -f FILE", ""),
    ManifestTarget.PRODUCTION_STACK: (
        "helm install {name} vllm/vllm-stack -n {namespace} -f FILE",
        "http://{name}-router-service.{namespace}.svc/v1",
    ),
    ManifestTarget.KSERVE: ("kubectl apply -f FILE", "http://GATEWAY/{namespace}/{name}/v1"),
    ManifestTarget.RAY_SERVE: (
        "serve deploy FILE",
        f"http://{{name}}-serve-svc.{{namespace}}.svc:{PORT}/v1",
    ),
}


@dataclass(frozen=True, slots=True)
class EngineManifest:
    """The documents of a target, and how the gateway attaches to what they start.

    Attributes:
        documents: YAML documents, or the one of Helm values.
        apply: The command that puts them into force; FILE stands for the documents.
        attached: The table for the gateway's engines file.
    """

    documents: tuple[dict[str, Any], ...]
    apply: str
    attached: str


def build_manifest(
    profile: EngineProfile, target: ManifestTarget, options: ManifestOptions
) -> EngineManifest:
    """The manifest that runs a profile's replicas.

    Raises:
        ValueError: If the target cannot run the profile.
    """
    has_router = target is not ManifestTarget.KUBERNETES
    if has_router and profile.engine is not Engine.VLLM:
        raise ValueError(f"{target} runs vLLM alone; --for kubernetes takes {profile.engine} too")
    deployment = plan_deployment(profile, options, has_router=has_router)
    values = _values(deployment)
    templates = resources.files("proxy.engines.manifests") / "templates"
    text = (templates / f"{target}.yaml").read_text(encoding="utf8")
    import yaml  # noqa: PLC0415 - other commands name the targets without it

    filled = (_fill(document, values) for document in yaml.safe_load_all(text))
    apply, url = (part.format_map(values) for part in _APPLY[target])
    if has_router:
        hints = ["llm-d"] if target is ManifestTarget.KSERVE else []
        attached = attached_profile(deployment, [url], hints=hints)
    else:
        attached = _attached_pods(deployment)
    return EngineManifest(tuple(filter(None, filled)), apply, attached)


def _attached_pods(deployment: EngineDeployment) -> str:
    """The table of the pods, each by the address that its number gives it."""
    name, port = deployment.name, deployment.events_port
    hosts = [
        f"{name}-{number}.{name}.{deployment.options.namespace}.svc"
        for number in range(deployment.replica_limit)
    ]
    return attached_profile(
        deployment,
        [f"http://{host}:{PORT}/v1" for host in hosts],
        kv_events=[f"tcp://{host}:{port}" for host in hosts] if port else [],
    )


def _values(deployment: EngineDeployment) -> dict[str, Any]:
    """The values of every placeholder, by its name."""
    profile, options = deployment.profile, deployment.options
    environment = deployment.environment()
    arguments = shlex.join(deployment.arguments(_KSERVE_FLAGS))  # KServe hands them to a shell
    repository, _, tag = deployment.image.rpartition(":")
    return {
        "name": deployment.name,
        "namespace": options.namespace,
        "image": deployment.image,
        "repository": repository,
        "tag": tag,
        "model": profile.model,
        "served_name": profile.served_name,
        "port": PORT,
        "events_port": deployment.events_port,
        "command": list(deployment.command.program),
        "all_arguments": deployment.arguments(),
        "chart_arguments": deployment.arguments(_CHART_FLAGS),
        "engine_kwargs": _engine_kwargs(deployment.arguments(_SERVER_FLAGS)),
        "environment": environment,
        "environment_with_weights": [{"name": "HF_HOME", "value": _MODEL_FOLDER}, *environment],
        "environment_with_arguments": [
            *environment,
            {"name": "VLLM_ADDITIONAL_ARGS", "value": arguments},
        ],
        # A serve config is no place for secrets.
        "plain_environment": {v["name"]: v["value"] for v in environment if "value" in v},
        "weights_folder": _MODEL_FOLDER,
        "storage": options.storage,
        "gpu": profile.gpu or None,
        "gpus": profile.gpus_per_replica,
        "resources": deployment.resources(),
        "tensor_parallel": profile.tensor_parallel if profile.tensor_parallel > 1 else None,
        "prefix_caching": profile.prefix_caching,
        "health_path": ADAPTERS[profile.engine].health_path,
        "probe_interval": _PROBE_INTERVAL_S,
        "start_tries": -(-profile.start_seconds // _PROBE_INTERVAL_S),
        "grace_seconds": deployment.grace_seconds,
        "scales": deployment.scales,
        "replicas": profile.replicas,
        "fixed_replicas": None if deployment.scales else profile.replicas,
        "max_replicas": options.max_replicas,
        "triggers": deployment.triggers(),
    }


def _fill(part: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever YAML can say
    """A part of a template with its values; None where it is left out."""
    if isinstance(part, dict):
        pairs = ((key, _fill(inner, values)) for key, inner in part.items() if key != _CONDITION)
        filled = {key: inner for key, inner in pairs if inner is not None}
        return filled if values[part.get(_CONDITION, "name")] else None
    if isinstance(part, list):
        return [inner for item in part if (inner := _fill(item, values)) is not None]
    if isinstance(part, str) and (whole := _PLACEHOLDER.fullmatch(part)):
        return values[whole[1]]
    is_text = isinstance(part, str)
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), part) if is_text else part


def _engine_kwargs(arguments: list[str]) -> dict[str, Any]:
    """Flags as keyword arguments of vLLM's engine: ``--max-num-seqs 8`` is ``max_num_seqs: 8``."""
    options: dict[str, Any] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name = argument.removeprefix("--no-").removeprefix("--").replace("-", "_")
            options[name] = not argument.startswith("--no-")
        else:
            options[name] = _value(argument)
    return options


def _value(text: str) -> object:
    """A flag's value as YAML should say it: a number or JSON object, else the text."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value
