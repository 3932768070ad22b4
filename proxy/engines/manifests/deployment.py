"""The part that every manifest of a profile has: name, command, environment, GPUs, probes, scaling.

Schedulers of clusters start and stop these replicas; the gateway only attaches to them.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.adapters.launch_command import LaunchCommand
from proxy.engines.profile_table import write_profile
from proxy.engines.profiles import Engine, EngineProfile, KVDtype
from proxy.records.receipt import dollars

PORT: Final = 8_000
#: Port of KV events in a pod whose profile names a socket, which is closed to others.
_EVENTS_PORT: Final = 5_557
_NO_EVENTS: Final = "kv_events are left out: a router stands before the replicas that publish them."
#: Environment variables whose values belong into a Secret.
SECRET_NAME: Final = re.compile(r"(?i)token|secret|password|api_?key")
#: Seconds beyond the drain until Kubernetes kills a pod.
_KILL_MARGIN_S: Final = 10
#: vLLM's own images are tagged by full version.
_VLLM_IMAGE: Final = "vllm/vllm-openai:v{version}"
_DNS_LABEL: Final = re.compile(r"[^a-z0-9-]+")
_MAX_NAME: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """Needs of a cluster besides the profile.

    Attributes:
        image: Container image; "" takes the engine's own where there is one.
        max_replicas: Replicas that autoscaling may start at most; 0 for no autoscaling.
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
        events_port: Port at which each replica publishes its KV events; 0 for nowhere.
        leaves_out_events: True if the profile asks for KV events that the gateway could not read.
    """

    profile: EngineProfile
    command: LaunchCommand
    name: str
    image: str
    options: ManifestOptions
    events_port: int = 0
    leaves_out_events: bool = False

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
        flags = (flag.argv for flag in self.command.flags if flag.argv[0] not in without)
        return [part for argv in flags for part in argv]

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
        server = {"serverAddress": self.options.prometheus}
        return [
            {"type": "prometheus", "metadata": {**server, "query": query, "threshold": str(limit)}}
            for query, limit in triggers
        ]


#: Calls that a replica is given before another is started, where the profile has no batch limit.
_CALLS_PER_REPLICA: Final = 32
#: The same for calls that wait in it. Source: vLLM production-stack, KEDA tutorial (2026-08).
_WAITING_PER_REPLICA: Final = 5


def plan_deployment(
    profile: EngineProfile, options: ManifestOptions, *, has_router: bool = False
) -> EngineDeployment:
    """The profile as containers run it.

    Args:
        profile: The profile, with the speculation that is to run.
        has_router: True if the gateway reaches a router in place of the replicas.

    Raises:
        ValueError: If its replicas are attached, or no image is known.
    """
    adapter = ADAPTERS[profile.engine]
    if profile.is_attached or not adapter.can_launch:
        raise ValueError(f"{profile.name}: others run its replicas; there is nothing to deploy")
    image = options.image or _default_image(profile, adapter.newest_version)
    events_port = 0 if has_router else _events_port(profile)
    contained = replace(
        profile,
        host="0.0.0.0",  # noqa: S104 - in its pod
        port=PORT,
        replicas=1,
        kv_events=(f"tcp://0.0.0.0:{events_port}",) if events_port else (),
    )
    command = adapter.launch_command(contained)
    return EngineDeployment(
        profile=replace(contained, replicas=profile.replicas),
        command=command,
        name=_DNS_LABEL.sub("-", profile.name.lower()).strip("-")[:_MAX_NAME],
        image=image,
        options=options,
        events_port=events_port,
        leaves_out_events=has_router and bool(profile.kv_events),
    )


def _events_port(profile: EngineProfile) -> int:
    """The port of KV events in each pod; 0 where the profile asks for none."""
    if not profile.kv_events:
        return 0
    first = profile.kv_events[0]
    return int(first.rpartition(":")[2]) if first.startswith("tcp://") else _EVENTS_PORT


def attached_profile(
    deployment: EngineDeployment,
    urls: Sequence[str],
    *,
    kv_events: Sequence[str] = (),
    hints: Sequence[str] = (),
) -> str:
    """The ``[engines.NAME]`` table with which a gateway attaches to the deployed replicas.

    Args:
        urls: Their base URLs, up to and including ``/v1``.
        kv_events: Where each of them publishes its KV events.
        hints: Hints for what stands before the replicas, besides the profile's own.
    """
    profile = deployment.profile
    warming, price, drafts = profile.warming, profile.price_per_gpu_hour, profile.speculation
    return write_profile(
        profile.name,
        {
            "engine": str(profile.engine),
            "version": profile.version,
            "served_name": profile.served_name,
            "replicas": list(urls),
            "speculative": None if drafts is None else _without_empty(asdict(drafts)),
            "kv_dtype": "" if profile.kv_dtype is KVDtype.AUTO else str(profile.kv_dtype),
            "prefix_caching": None if profile.prefix_caching else False,
            "max_model_len": profile.max_model_len or None,
            "max_sequences": profile.max_sequences or None,
            "kv_events": list(kv_events),
            "warming": None if warming is None else asdict(warming),
            "shares_cache": profile.shares_cache or None,
            "hints": list(dict.fromkeys((*profile.hints, *hints))),
            "region": profile.region,
            "key_env": profile.key_env,
            "gpu": profile.gpu,
            "gpus": None if price is None else profile.gpus_per_replica,
            "price_per_gpu_hour": None if price is None else dollars(price),
        },
        [_NO_EVENTS] if deployment.leaves_out_events else [],
    )


def _default_image(profile: EngineProfile, newest: str) -> str:
    if profile.engine is not Engine.VLLM:
        raise ValueError(f"{profile.name}: name a container image of {profile.engine} with --image")
    version = profile.version or newest
    return _VLLM_IMAGE.format(version=version if version.count(".") > 1 else f"{version}.0")


def _without_empty(fields: dict[str, object]) -> dict[str, object]:
    """The fields whose value is not ""."""
    return {name: value for name, value in fields.items() if value != ""}
