"""Checks across the fields of engine profiles, and against what their engines can do."""

import re
from collections.abc import Iterable, Iterator
from itertools import combinations

from proxy.engines.adapters.adapter import EngineAdapter, Misfit, parse_version
from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.profiles import Engine, EngineProfile, KVDtype, RollingOrder

_MAX_PORT = 65_535
KV_EVENTS_ADDRESS = re.compile(r"ipc:///[^\s\0]{1,100}|tcp://[A-Za-z0-9._-]+:\d{1,5}")


def find_problems(profile: EngineProfile) -> Iterator[Misfit]:
    """Find fields that contradict each other or the engine, each with its fix."""
    adapter = ADAPTERS[profile.engine]
    yield from _check_cache_isolation(profile, adapter)
    yield from _check_hints(profile)
    yield from _check_kv_events(profile)
    if profile.is_attached:
        if profile.auto_speculation:
            fix = "write the method with which they are started, or leave it out"
            yield Misfit("speculative", "is auto, but others start the replicas", fix)
        if not profile.served_name:
            fix = 'write served_name = "…", the name it serves the model under'
            yield Misfit("served_name", "is missing", fix)
        return
    if not adapter.can_launch:
        fix = 'start it yourself, and write replicas = ["http://HOST:PORT/v1"]'
        yield Misfit("replicas", f"cannot be started: {profile.engine} is attach-only", fix)
        return
    if not profile.model:
        yield Misfit("model", "is missing", 'write model = "PATH" or its Hugging Face id')
        return
    yield from _check_places(profile)
    yield from _check_speculation_and_kv(profile, adapter)
    misfits = list(adapter.find_misfits(profile))
    yield from misfits
    if not misfits:
        yield from _check_extra_args(profile, adapter)


def _check_cache_isolation(profile: EngineProfile, adapter: EngineAdapter) -> Iterator[Misfit]:
    """A version that refuses what keeps teams apart, unless they may share its cache."""
    since = adapter.cache_salt_since
    if profile.shares_cache or not (since and profile.version):
        return
    if parse_version(profile.version) < parse_version(since):
        what = f"is {profile.version}, which refuses cache_salt and so cannot keep teams apart"
        fix = f"run {since} or newer, or write shares_cache = true if teams may share its cache"
        yield Misfit("version", what, fix)


def _check_hints(profile: EngineProfile) -> Iterator[Misfit]:
    """Hints that what the calls reach cannot understand."""
    if "vllm" in profile.hints and profile.engine is not Engine.VLLM:
        what = f"names vllm, whose field {profile.engine} refuses or ignores"
        yield Misfit("hints", what, "leave it out")
    if not profile.is_attached:
        for name in sorted({"llm-d", "dynamo"}.intersection(profile.hints)):
            what = f"names {name}, but the gateway reaches these replicas directly"
            fix = f'write replicas = ["http://HOST/v1"], the address of {name}, or leave it out'
            yield Misfit("hints", what, fix)


def _check_kv_events(profile: EngineProfile) -> Iterator[Misfit]:
    """Addresses of KV events, of which each replica has one."""
    if not profile.kv_events:
        return
    if profile.engine is not Engine.VLLM or profile.data_parallel > 1:
        what = "is for vLLM without data_parallel, whose ranks publish each for itself"
        yield Misfit("kv_events", what, "leave it out")
    elif len(profile.kv_events) != profile.replica_count:
        what = f"names {len(profile.kv_events)} addresses for {profile.replica_count} replicas"
        yield Misfit("kv_events", what, "write one for each replica, in their order")
    for address in profile.kv_events:
        if not KV_EVENTS_ADDRESS.fullmatch(address):
            fix = 'write "ipc:///run/thriftgate/kv-0.sock" or "tcp://gpu1:5557"'
            yield Misfit("kv_events", f"names {address[:60]}, which is no address", fix)


def _check_places(profile: EngineProfile) -> Iterator[Misfit]:
    """Ports, GPUs, replicas for comparison, and the order of a rolling change."""
    if profile.control_replicas >= profile.replicas and profile.control_replicas:
        fix = "write fewer control_replicas, or more replicas"
        yield Misfit("speculative", "leaves no replica that speculates", fix)
    if profile.ports[-1] > _MAX_PORT:
        fix = f"write {_MAX_PORT + 1 - profile.replicas} or less: each replica takes a port"
        yield Misfit("port", f"leaves no port for {profile.replicas} replicas", fix)
    if profile.rolling_order is RollingOrder.STOP_FIRST and profile.replicas == 1:
        fix = "write replicas = 2 or more, or leave it out"
        yield Misfit("rolling_order", "leaves no replica that serves meanwhile", fix)
    if profile.gpus and profile.parallel_gpus > profile.gpus:
        sizes = "tensor_parallel * pipeline_parallel * data_parallel"
        fix = f"write {profile.parallel_gpus} or more, or lower one of the sizes"
        yield Misfit("gpus", f"is below {profile.parallel_gpus}, which is {sizes}", fix)


def _check_speculation_and_kv(profile: EngineProfile, adapter: EngineAdapter) -> Iterator[Misfit]:
    speculation = profile.speculation
    if speculation and speculation.method not in adapter.speculative_methods:
        methods = ", ".join(sorted(adapter.speculative_methods))
        what = f"has the method {speculation.method}, which {profile.engine} lacks"
        yield Misfit("speculative", what, f"write one of {methods}")
    auto = profile.auto_speculation
    for method in auto.methods if auto else ():
        if method not in adapter.speculative_methods:
            what = f"permits the method {method}, which {profile.engine} lacks"
            yield Misfit("speculative", what, "leave it out of methods")
    if profile.kv_dtype not in adapter.kv_dtypes:
        formats = ", ".join(kv_dtype for kv_dtype in KVDtype if kv_dtype in adapter.kv_dtypes)
        what = f"is {profile.kv_dtype}, which {profile.engine} lacks"
        yield Misfit("kv_dtype", what, f"write one of {formats}")


def _check_extra_args(profile: EngineProfile, adapter: EngineAdapter) -> Iterator[Misfit]:
    """Flags in ``extra_args`` that the profile writes already."""
    if adapter.build_command_line is None or not _fits(profile, adapter):
        return
    _, flags = adapter.build_command_line(profile, 0, "python")
    written = {part for flag in flags for part in flag.argv if part.startswith("--")}
    for argument in profile.extra_args:
        if (flag := argument.partition("=")[0]) in written:
            fix = "leave it out, and change the field that it comes from"
            yield Misfit("extra_args", f"repeats {flag}, which the profile writes", fix)


def _fits(profile: EngineProfile, adapter: EngineAdapter) -> bool:
    """True if the engine has the speculative method, without which no flags can be written."""
    speculation = profile.speculation
    return speculation is None or speculation.method in adapter.speculative_methods


def find_shared_ports(profiles: Iterable[EngineProfile]) -> Iterator[tuple[str, Misfit]]:
    """Find profiles whose replicas would listen on another's port, with the later one's name."""
    started = [profile for profile in profiles if not profile.is_attached]
    for first, second in combinations(started, 2):
        shared = set(first.ports) & set(second.ports)
        if shared:
            fix = f"write {first.ports[-1] + 1}, or another that is free"
            what = f"takes port {min(shared)}, which {first.name} takes too"
            yield second.name, Misfit("port", what, fix)
