"""Manifests by what runs the replicas: Kubernetes alone, vLLM production-stack, KServe, Ray Serve.

Source, each read 2026-08: Helm chart of vllm-project/production-stack; LLMInferenceService
v1alpha2 of kserve/kserve; kedacore/keda-docs; docs.ray.io, Ray Serve LLM.
"""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

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
_POLLING_INTERVAL_S: Final = 15
_COOLDOWN_S: Final = 360
#: Flags of vLLM's API server that the target writes itself.
_SERVER_FLAGS: Final = ("--host", "--served-model-name", "--shutdown-timeout")
_CHART_FLAGS: Final = ("--host", "--enable-prefix-caching", "--no-enable-prefix-caching")
_KSERVE_FLAGS: Final = (*_SERVER_FLAGS, "--tensor-parallel-size")


class ManifestTarget(StrEnum):
    """Software that runs replicas on a cluster."""

    KUBERNETES = "kubernetes"
    PRODUCTION_STACK = "production-stack"
    KSERVE = "kserve"
    RAY_SERVE = "ray-serve"


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
    if target is not ManifestTarget.KUBERNETES and profile.engine is not Engine.VLLM:
        raise ValueError(f"{target} runs vLLM alone; --for kubernetes takes {profile.engine} too")
    has_router = target is not ManifestTarget.KUBERNETES
    return _BUILDERS[target](plan_deployment(profile, options, has_router=has_router))


def _kubernetes(deployment: EngineDeployment) -> EngineManifest:
    """A StatefulSet, so that each replica has an address of its own, and a headless Service."""
    name, namespace = deployment.name, deployment.options.namespace
    labels = {"app": name}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "clusterIP": "None",
            "selector": labels,
            "ports": [{"name": "http", "port": PORT}],
        },
    }
    stateful_set: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod(deployment)},
            "volumeClaimTemplates": [_weights_claim(deployment)],
        },
    }
    if not deployment.scales:
        stateful_set["spec"]["replicas"] = deployment.profile.replicas
    documents = [service, stateful_set]
    if deployment.scales:
        documents.append(_scaled_object(deployment))
    return EngineManifest(tuple(documents), "kubectl apply -f FILE", _attached_pods(deployment))


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


def _pod(deployment: EngineDeployment) -> dict[str, Any]:
    command = deployment.command
    ports = [{"name": "http", "containerPort": PORT}]
    if deployment.events_port:
        ports.append({"name": "kv-events", "containerPort": deployment.events_port})
    container: dict[str, Any] = {
        "name": "engine",
        "image": deployment.image,
        "command": list(command.program),
        "args": deployment.arguments(),
        "env": [{"name": "HF_HOME", "value": _MODEL_FOLDER}, *deployment.environment()],
        "ports": ports,
        "resources": deployment.resources(),
        **deployment.probes(),
        "volumeMounts": [
            {"name": "weights", "mountPath": _MODEL_FOLDER},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - tensor parallelism talks there
        ],
    }
    return {
        "terminationGracePeriodSeconds": deployment.grace_seconds,
        "containers": [container],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }


def _weights_claim(deployment: EngineDeployment) -> dict[str, Any]:
    return {
        "metadata": {"name": "weights"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": deployment.options.storage}},
        },
    }


def _scaled_object(deployment: EngineDeployment) -> dict[str, Any]:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": deployment.name, "namespace": deployment.options.namespace},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": deployment.name,
            },
            "minReplicaCount": deployment.profile.replicas,
            "maxReplicaCount": deployment.options.max_replicas,
            **_pace(),
            "triggers": deployment.triggers(),
        },
    }


def _pace() -> dict[str, int]:
    return {"pollingInterval": _POLLING_INTERVAL_S, "cooldownPeriod": _COOLDOWN_S}


def _production_stack(deployment: EngineDeployment) -> EngineManifest:
    """Values of the Helm chart; its router stands between the gateway and the replicas."""
    profile, options = deployment.profile, deployment.options
    repository, _, tag = deployment.image.rpartition(":")
    model: dict[str, Any] = {
        "name": deployment.name,
        "repository": repository,
        "tag": tag,
        "modelURL": profile.model,
        "replicaCount": profile.replicas,
        "requestCPU": _CPUS,
        "requestMemory": _MEMORY,
        "requestGPU": profile.gpus_per_replica,
        "pvcStorage": options.storage,
        "vllmConfig": {
            # The chart writes --no-enable-prefix-caching where this is false.
            "enablePrefixCaching": profile.prefix_caching,
            "extraArgs": deployment.arguments(_CHART_FLAGS),
        },
        "env": deployment.environment(),
    }
    if deployment.scales:
        model["keda"] = {
            "enabled": True,
            "minReplicaCount": profile.replicas,
            "maxReplicaCount": options.max_replicas,
            **_pace(),
            "triggers": deployment.triggers(),
        }
    values = {
        "servingEngineSpec": {"modelSpec": [model]},
        "routerSpec": {"routingLogic": "prefixaware"},
    }
    url = f"http://{deployment.name}-router-service.{options.namespace}.svc/v1"
    apply = f"helm install {deployment.name} vllm/vllm-stack -n {options.namespace} -f FILE"
    return EngineManifest((values,), apply, attached_profile(deployment, [url]))


#: Request of a replica besides GPUs; weights that are offloaded need more.
_CPUS: Final = 6
_MEMORY: Final = "32Gi"


def _kserve(deployment: EngineDeployment) -> EngineManifest:
    """An LLMInferenceService; llm-d's scheduler, which KServe starts, chooses the replica."""
    profile, options = deployment.profile, deployment.options
    arguments = {"name": "VLLM_ADDITIONAL_ARGS", "value": _shell_arguments(deployment)}
    container = {
        "name": "main",
        "env": [*deployment.environment(), arguments],
        "resources": deployment.resources(),
    }
    spec: dict[str, Any] = {
        "model": {"uri": f"hf://{profile.model}", "name": profile.served_name},
        "router": {"route": {}, "gateway": {}, "scheduler": {}},
        "template": {
            "terminationGracePeriodSeconds": deployment.grace_seconds,
            "containers": [container],
        },
    }
    if profile.tensor_parallel > 1:
        spec["parallelism"] = {"tensor": profile.tensor_parallel}
    if deployment.scales:
        keda = {**_pace(), "triggers": deployment.triggers()}
        limits = {"minReplicas": profile.replicas, "maxReplicas": options.max_replicas}
        spec["scaling"] = {**limits, "keda": keda}
    else:
        spec["replicas"] = profile.replicas
    service = {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": deployment.name, "namespace": options.namespace},
        "spec": spec,
    }
    # Only the cluster knows its gateway's address: `kubectl get llminferenceservice` shows it.
    url = f"http://GATEWAY/{options.namespace}/{deployment.name}/v1"
    attached = attached_profile(deployment, [url], hints=["llm-d"])
    return EngineManifest((service,), "kubectl apply -f FILE", attached)


def _shell_arguments(deployment: EngineDeployment) -> str:
    """Arguments as KServe's launcher takes them, which hands them to a shell."""
    return shlex.join(deployment.arguments(_KSERVE_FLAGS))


def _ray_serve(deployment: EngineDeployment) -> EngineManifest:
    """A serve config of one application, with Ray's own router and autoscaling."""
    profile = deployment.profile
    config: dict[str, Any] = {
        "model_loading_config": {"model_id": profile.served_name, "model_source": profile.model},
        "engine_kwargs": _engine_kwargs(deployment.arguments(_SERVER_FLAGS)),
        "runtime_env": {"env_vars": _plain_environment(deployment)},
    }
    if profile.gpu:
        config["accelerator_type"] = profile.gpu
    if deployment.scales:
        config["deployment_config"] = {
            "autoscaling_config": {
                "min_replicas": profile.replicas,
                "max_replicas": deployment.options.max_replicas,
            }
        }
    else:
        config["deployment_config"] = {"num_replicas": profile.replicas}
    application = {
        "name": deployment.name,
        "import_path": "ray.serve.llm:build_openai_app",
        "route_prefix": "/",
        "args": {"llm_configs": [config]},
    }
    url = f"http://{deployment.name}-serve-svc.{deployment.options.namespace}.svc:{PORT}/v1"
    attached = attached_profile(deployment, [url])
    return EngineManifest(({"applications": [application]},), "serve deploy FILE", attached)


def _plain_environment(deployment: EngineDeployment) -> dict[str, str]:
    """Variables that are no secrets: a serve config is no place for those."""
    return {each["name"]: each["value"] for each in deployment.environment() if "value" in each}


def _engine_kwargs(arguments: list[str]) -> dict[str, Any]:
    """Flags as keyword arguments of vLLM's engine: ``--max-num-seqs 8`` is ``max_num_seqs: 8``."""
    found: dict[str, Any] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            is_on = not argument.startswith("--no-")
            name = argument.removeprefix("--no-").removeprefix("--").replace("-", "_")
            found[name] = is_on
        else:
            found[name] = _value(argument)
    return found


def _value(text: str) -> object:
    """A flag's value as YAML should say it: a number or JSON object, else the text."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value


_BUILDERS: Final[dict[ManifestTarget, Callable[[EngineDeployment], EngineManifest]]] = {
    ManifestTarget.KUBERNETES: _kubernetes,
    ManifestTarget.PRODUCTION_STACK: _production_stack,
    ManifestTarget.KSERVE: _kserve,
    ManifestTarget.RAY_SERVE: _ray_serve,
}
