"""The part that every manifest of a profile has: name, command, environment, GPUs, probes, scaling.

Schedulers of clusters start and stop these replicas; the gateway only attaches to them.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.launch_command import LaunchCommand
from proxy.engines.profiles import Engine, EngineProfile
from proxy.records.receipt import dollars

PORT: Final = 8_000
#: Environment variables whose values belong into a Secret.
SECRET_NAME: Final = re.compile(r"(?i)token|secret|password|api_?key")
#: Seconds beyond the drain until Kubernetes kills a pod.
_KILL_MARGIN_S: Final = 10
_PROBE_INTERVAL_S: Final = 10
#: vLLM's own images are tagged by full version.
_VLLM_IMAGE: Final = "vllm/vllm-openai:v{version}"
_DNS_LABEL: Final = re.compile(r"[^a-z0-9-]+")
_MAX_NAME: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """Needs of a cluster besides the profile.

    Attributes:
        namespace: Namespace of the replicas.
        image: Container image; "" takes the engine's own where there is one.
        storage: Size of the volume for weights of each replica.
        max_replicas: Replicas that autoscaling may start at most; 0 for no autoscaling.
        prometheus: Base URL of the Prometheus that KEDA asks.
    """

    namespace: str = "default"
    image: str = ""
    storage: str = "100Gi"
    max_replicas: int = 0
    prometheus: str = "http://prometheus-operated.monitoring.svc:9090"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDeployment:
    """A profile as containers run it.

    Attributes:
        profile: The profile, listening on every address at ``PORT``.
        command: Command of a replica, the same for all.
        name: Its name as a DNS label.
        image: The container image.
        options: Needs of the cluster besides.
    """

    profile: EngineProfile
    command: LaunchCommand
    name: str
    image: str
    options: ManifestOptions

    @property
    def scales(self) -> bool:
        """True if autoscaling is wanted."""
        return self.options.max_replicas > self.profile.replicas

    @property
    def replica_limit(self) -> int:
        """Replicas that there may be at most."""
        return max(self.profile.replicas, self.options.max_replicas)

    @property
    def grace_seconds(self) -> int:
        """Seconds from SIGTERM to SIGKILL."""
        return self.profile.drain_seconds + _KILL_MARGIN_S

    def arguments(self, without: Sequence[str] = ()) -> list[str]:
        """Flags and values of the command.

        Args:
            without: Flags that the target writes itself.
        """
        kept: list[str] = []
        for flag in self.command.flags:
            if flag.argv[0] not in without:
                kept += flag.argv
        return kept

    def environment(self) -> list[dict[str, Any]]:
        """Environment variables; values whose names say that they are secret come from a Secret."""
        return [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": f"{self.name}-env", "key": name}}}
            if SECRET_NAME.search(name)
            else {"name": name, "value": value}
            for name, value in self.command.env.items()
        ]

    def resources(self) -> dict[str, Any]:
        """The GPUs of a replica; empty where it needs none."""
        gpus = self.profile.gpus_per_replica
        return {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}

    def probes(self) -> dict[str, Any]:
        """Startup, readiness and liveness probes on the engine's health path."""
        path = ADAPTERS[self.profile.engine].health_path
        check = {"httpGet": {"path": path, "port": PORT}, "periodSeconds": _PROBE_INTERVAL_S}
        tries = -(-self.profile.start_seconds // _PROBE_INTERVAL_S)
        return {
            "startupProbe": {**check, "failureThreshold": tries},
            "readinessProbe": {**check, "periodSeconds": 1, "failureThreshold": 3},
            "livenessProbe": {**check, "timeoutSeconds": 5, "failureThreshold": 3},
        }

    def triggers(self) -> list[dict[str, Any]]:
        """KEDA's triggers: calls that gateways have at this engine, and calls that wait there.

        Source: KEDA, Prometheus scaler (2026-08).
        """
        per_replica = self.profile.max_sequences or _CALLS_PER_REPLICA
        demand = f'sum(thriftgate_engine_calls_in_flight{{engine="{self.profile.name}"}})'
        waiting = f'sum(vllm:num_requests_waiting{{model_name="{self.profile.served_name}"}})'
        triggers = [(demand, per_replica)]
        if self.profile.engine is Engine.VLLM:
            triggers.append((waiting, _WAITING_PER_REPLICA))
        return [
            {
                "type": "prometheus",
                "metadata": {
                    "serverAddress": self.options.prometheus,
                    "query": query,
                    "threshold": str(threshold),
                },
            }
            for query, threshold in triggers
        ]


#: Calls that a replica is given before another is started, where the profile has no batch limit.
_CALLS_PER_REPLICA: Final = 32
#: The same for calls that wait in it. Source: vLLM production-stack, KEDA tutorial (2026-08).
_WAITING_PER_REPLICA: Final = 5


def plan_deployment(profile: EngineProfile, options: ManifestOptions) -> EngineDeployment:
    """The profile as containers run it.

    Raises:
        ValueError: If its replicas are attached, or no image is known.
    """
    adapter = ADAPTERS[profile.engine]
    if profile.is_attached or not adapter.can_launch:
        raise ValueError(f"{profile.name}: others run its replicas; there is nothing to deploy")
    image = options.image or _default_image(profile, adapter.newest_version)
    contained = replace(profile, host="0.0.0.0", port=PORT, replicas=1)  # noqa: S104 - in its pod
    command = adapter.launch_command(contained)
    return EngineDeployment(
        profile=replace(contained, replicas=profile.replicas),
        command=command,
        name=_DNS_LABEL.sub("-", profile.name.lower()).strip("-")[:_MAX_NAME],
        image=image,
        options=options,
    )


def attached_profile(deployment: EngineDeployment, urls: Sequence[str]) -> str:
    """The ``[engines.NAME]`` table with which a gateway attaches to the deployed replicas.

    Args:
        deployment: The replicas.
        urls: Their base URLs, up to and including ``/v1``.
    """
    profile = deployment.profile
    lines = [
        f"[engines.{profile.name}]",
        f"engine = {json.dumps(profile.engine)}",
        f"served_name = {json.dumps(profile.served_name)}",
        "replicas = [",
        *(f"  {json.dumps(url)}," for url in urls),
        "]",
    ]
    texts = {"version": profile.version, "region": profile.region, "gpu": profile.gpu}
    if profile.price_per_gpu_hour is not None:
        lines.append(f"gpus = {profile.gpus_per_replica}")
        texts["price_per_gpu_hour"] = dollars(profile.price_per_gpu_hour)
    lines += [f"{key} = {json.dumps(text)}" for key, text in texts.items() if text]
    return "\n".join(lines) + "\n"


def _default_image(profile: EngineProfile, newest: str) -> str:
    if profile.engine is not Engine.VLLM:
        raise ValueError(f"{profile.name}: name a container image of {profile.engine} with --image")
    version = profile.version or newest
    return _VLLM_IMAGE.format(version=version if version.count(".") > 1 else f"{version}.0")
