"""The port that every engine's adapter fills: flags, addresses, versions and metric names."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from proxy.catalog.entries import Continues
from proxy.engines.adapters.launch_command import LaunchCommand, LaunchFlag
from proxy.engines.profiles import Engine, EngineProfile, KVDtype, SpeculativeMethod

#: Addresses that mean every interface, and the one to reach them at.
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it is compared with, not bound to

_Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricNames:
    """Names of an engine's Prometheus metrics, newest first; empty where it has none.

    A reader takes the first name that the engine exports and adds up its series. Where none is
    exported, it goes on without that figure and says which one is missing.
    """

    running: _Names = ()  # gauge of calls in the batch
    waiting: _Names = ()  # gauge of calls in the queue
    kv_usage: _Names = ()  # gauge of the KV cache's used part, 0 to 1
    prefix_hits: _Names = ()  # counter of those found there
    #: Counter of prompt tokens; ``prompt_tokens_exclude_cached`` of the adapter says whether those
    #: read from the cache are counted.
    prompt_tokens: _Names = ()
    cached_prompt_tokens: _Names = ()  # counter of prompt tokens read from the cache
    generation_tokens: _Names = ()  # counter of output tokens
    preemptions: _Names = ()  # counter of calls that lost their KV blocks to others
    spec_drafts: _Names = ()  # counter of drafts, one per sequence and step
    spec_draft_tokens: _Names = ()  # counter of tokens in them
    spec_accepted_tokens: _Names = ()  # counter of those that the model accepted
    queue_seconds: _Names = ()  # histogram of seconds in the queue, per request
    prefill_seconds: _Names = ()  # histogram of seconds of prefill, per request
    decode_seconds: _Names = ()  # histogram of seconds of decode, per request
    prefill_seconds_total: _Names = ()  # counter of these seconds where there is no histogram
    decode_seconds_total: _Names = ()  # counter of these seconds where there is no histogram
    #: Gauge whose labels ``num_gpu_blocks`` and ``block_size`` say the room of the prefix cache.
    cache_config: _Names = ()
    cache_tokens: _Names = ()  # gauge of that room in tokens

    def missing_for_advice(self) -> tuple[str, ...]:
        """The figures, in words, without which speculation cannot be judged; empty if all exist."""
        needed = {
            "output tokens": self.generation_tokens,
            "seconds of decode": self.decode_seconds or self.decode_seconds_total,
            "drafts": self.spec_drafts,
            "draft tokens": self.spec_draft_tokens,
            "accepted tokens": self.spec_accepted_tokens,
        }
        return tuple(figure for figure, names in needed.items() if not names)


#: The sentence that a flag of speculation is explained with, by its method.
SPECULATION_REASONS: Final = {
    SpeculativeMethod.DRAFT_MODEL: "A small model drafts tokens, which one pass verifies.",
    SpeculativeMethod.NGRAM: "Drafts repeat text that followed the same words earlier.",
    SpeculativeMethod.SUFFIX: "Drafts come from suffix trees; needs the arctic-inference package.",
    SpeculativeMethod.EAGLE3: "An EAGLE-3 head drafts tokens from the model's hidden states.",
    SpeculativeMethod.MTP: "The model's own multi-token prediction layers draft tokens.",
}


class EngineUrls(NamedTuple):
    """Addresses of one replica."""

    base_url: str
    health_url: str
    metrics_url: str


class Misfit(NamedTuple):
    """A field of a profile that its engine cannot follow: the key, what is wrong, and the fix."""

    key: str
    what: str
    fix: str


#: The program and the flags of one replica, without those of ``extra_args``.
CommandLine = tuple[tuple[str, ...], list[LaunchFlag]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAdapter:
    """All that the gateway knows about one engine.

    Attributes:
        oldest_version: The oldest version whose flags and metrics were read.
        newest_version: The newest one; profiles without a version get its flags.
        build_command_line: Builds the command line of a replica; arguments are the profile, the
            replica's number from 0 and the Python to run modules with. None if attach-only.
        build_env: Builds the environment variables of a replica besides the profile's own.
        properties_path: Where it says the room of its cache, if its metrics do not; "" for nowhere.
        attach_needs: Settings that it has to be started with.
        finishes_streams: True if it ends after SIGTERM once its streams are done; else they break.
        cache_salt_since: The first version that takes the field by which a team's cache is kept
            apart, where earlier ones refuse calls with it; "" where none does.
        regime: Rules of its prefix cache, one of ``proxy.catalog.entries.REGIMES``.
        block_tokens: Tokens of a cache block where the regime counts in blocks, else 0.
        continues: Way in which it goes on from the assistant's last message; "" where it does not.
        prompt_tokens_exclude_cached: True if ``metrics.prompt_tokens`` counts computed tokens only.
    """

    engine: Engine
    oldest_version: str
    newest_version: str
    metrics: MetricNames
    health_path: str = "/health"
    metrics_path: str = "/metrics"
    properties_path: str = ""
    attach_needs: str = ""
    cache_salt_since: str = ""
    regime: str = "implicit"
    block_tokens: int = 0
    serves_responses: bool = False
    continues: Continues = ""
    prompt_tokens_exclude_cached: bool = False
    finishes_streams: bool = True
    speculative_methods: frozenset[SpeculativeMethod] = frozenset(SpeculativeMethod)
    kv_dtypes: frozenset[KVDtype] = frozenset(KVDtype)
    build_command_line: Callable[[EngineProfile, int, str], CommandLine] | None = None
    build_env: Callable[[EngineProfile, int], dict[str, str]] = lambda profile, replica: {}
    find_misfits: Callable[[EngineProfile], Iterator[Misfit]] = lambda profile: iter(())

    @property
    def can_launch(self) -> bool:
        """True if the gateway can start it, False if it can only attach to it."""
        return self.build_command_line is not None

    def launch_command(
        self, profile: EngineProfile, replica: int = 0, python: str = "python"
    ) -> LaunchCommand:
        """The command that starts a replica.

        Args:
            python: Interpreter of the gateway, for engines that are Python modules of its own.

        Raises:
            ValueError: If there is nothing to start, which a profile that was read rules out.
        """
        if self.build_command_line is None or profile.is_attached:
            raise ValueError(f"{profile.name}: replicas of {self.engine} are attached, not started")
        program, flags = self.build_command_line(profile, replica, python)
        if profile.extra_args:
            flags.append(LaunchFlag(profile.extra_args, "The profile adds it in extra_args."))
        urls = self.urls(profile, replica)
        return LaunchCommand(
            program=program,
            flags=tuple(flags),
            env={**self.build_env(profile, replica), **profile.env},
            base_url=urls.base_url,
            health_url=urls.health_url,
            metrics_url=urls.metrics_url,
            start_seconds=float(profile.start_seconds),
            drain_seconds=float(profile.drain_seconds),
            busy_metrics=()
            if self.finishes_streams
            else (*self.metrics.running, *self.metrics.waiting),
            replica=replica,
        )

    def urls(self, profile: EngineProfile, replica: int = 0) -> EngineUrls:
        """The URLs of a replica, whether it is started here or attached."""
        if profile.is_attached:
            base_url = profile.attached_urls[replica]
            origin = base_url.removesuffix("/v1")
        else:
            host = _ANY_HOST.get(profile.host, profile.host)
            bracketed = f"[{host}]" if ":" in host else host
            origin = f"http://{bracketed}:{profile.port + replica}"
            base_url = f"{origin}/v1"
        return EngineUrls(base_url, origin + self.health_path, origin + self.metrics_path)

    def version_note(self, profile: EngineProfile) -> str:
        """Say that the profile's version lies outside those that were read; "" where it does not.

        Flags are still written as for the nearest version; metrics that are missing are left out.
        """
        if not profile.version:
            return ""
        version = parse_version(profile.version)
        oldest, newest = map(parse_version, (self.oldest_version, self.newest_version))
        if oldest <= version[: len(oldest)] and version[: len(newest)] <= newest:
            return ""
        return (
            f"{self.engine} {profile.version} is outside {self.oldest_version} to "
            f"{self.newest_version}, whose flags and metrics are known: a flag that it lacks is "
            "left out or stops the start, and without a known metric replicas are compared by "
            "their load alone."
        )


def parse_version(text: str) -> tuple[int, ...]:
    """The numbers of a version such as ``v0.32.0+cpu`` or ``b11549``."""
    numbers = text.lstrip("vb").partition("+")[0].split(".")
    return tuple(int(number) for number in numbers if number.isdigit())
