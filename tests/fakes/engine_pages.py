"""Metrics pages and supervisors' states of engines, as a test says."""

import asyncio

from proxy.engines.profiles import EngineProfile
from proxy.engines.state.replica_report import ProcessState, ReplicaReport
from proxy.engines.state.state_file import EngineState
from proxy.services.engines.replica_monitor import ReplicaMonitor

PAGE = b"vllm:num_requests_running 2\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.5\n"


def report(name: str, state: ProcessState, *, pid: int = 1, reason: str = "") -> ReplicaReport:
    return ReplicaReport(
        name=name,
        base_url=f"http://127.0.0.1:{name}/v1",
        metrics_url=f"http://127.0.0.1:{name}/metrics",
        state=state,
        since=0.0,
        pid=pid,
        reason=reason,
    )


class PlayedPages:
    """Pages by URL; an exception is raised, None hangs."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes | Exception | None] = {}
        self.asked: list[str] = []
        self.key_envs: list[str] = []
        self.states: list[EngineState] = []
        self.takes_s = 0.0

    async def fetch(self, url: str, key_env: str = "") -> bytes:
        self.asked.append(url)
        self.key_envs.append(key_env)
        await asyncio.sleep(self.takes_s)
        answer = self.answers.get(url, PAGE)
        if answer is None:
            await asyncio.sleep(1e6)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, bytes)
        return answer

    def supervise(self, *reports: ReplicaReport, is_running: bool = True) -> None:
        self.states = [
            EngineState(
                profile="house", pid=1, started=0.0, replicas=reports, is_running=is_running
            )
        ]

    def monitor(self, profile: EngineProfile) -> ReplicaMonitor:
        return ReplicaMonitor(
            {profile.name: profile},
            self.fetch,
            lambda: self.states,
            asyncio.get_running_loop().time,
        )
