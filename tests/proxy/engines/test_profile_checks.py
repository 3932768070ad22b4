import pytest

from proxy.engines.profile_checks import find_problems, find_shared_ports
from proxy.engines.profiles import (
    AutoSpeculation,
    DisaggregatedRole,
    Engine,
    EngineProfile,
    KVDtype,
    Speculation,
    SpeculativeMethod,
)


def problems(**fields):
    given = {"name": "a", "engine": Engine.VLLM, "model": "m", "served_name": "m"}
    return [(m.key, f"{m.what}; {m.fix}") for m in find_problems(EngineProfile(**given | fields))]


@pytest.mark.parametrize("engine", [Engine.SGLANG, Engine.TENSORRT_LLM])
def test_attach_only_engines_are_not_started(engine):
    ((key, text),) = problems(engine=engine)

    assert key == "replicas"
    assert "attach-only; start it yourself, and write replicas" in text
    assert problems(engine=engine, attached_urls=("http://g/v1",)) == []


def test_an_attached_profile_needs_a_name_to_ask_for_and_no_model():
    url = ("http://g/v1",)

    assert problems(attached_urls=url, model="", served_name="x") == []
    assert problems(attached_urls=url, model="", served_name="")[0][0] == "served_name"


def test_a_started_profile_needs_a_model():
    assert problems(model="")[0][0] == "model"


def test_kv_formats_and_methods_that_an_engine_lacks_are_refused_with_those_it_has():
    suffix = Speculation(method=SpeculativeMethod.SUFFIX)
    misfits = problems(engine=Engine.LLAMACPP, kv_dtype=KVDtype.FP8, speculation=suffix)

    assert misfits == [
        (
            "speculative",
            (
                "has the method suffix, which llamacpp lacks; "
                "write one of draft_model, eagle3, mtp, ngram"
            ),
        ),
        ("kv_dtype", "is fp8, which llamacpp lacks; write one of auto, int8, int4"),
    ]


def test_methods_permitted_to_the_advisor_are_those_of_the_engine():
    methods = (SpeculativeMethod.SUFFIX, SpeculativeMethod.MTP)
    ((key, text),) = problems(
        engine=Engine.LLAMACPP, auto_speculation=AutoSpeculation(methods=methods)
    )

    assert (key, text) == (
        "speculative",
        "permits the method suffix, which llamacpp lacks; leave it out of methods",
    )


def test_the_last_replica_needs_a_port():
    assert problems(port=65_535, replicas=2)[0][1].endswith(
        "write 65534 or less: each replica takes a port"
    )


def test_engines_on_processors_may_have_parallel_sizes():
    assert problems(tensor_parallel=2, gpus=0) == []
    assert problems(tensor_parallel=2, gpus=1)[0][0] == "gpus"


@pytest.mark.parametrize("argument", ["--port", "--port=9"])
def test_a_flag_that_the_profile_writes_is_not_repeated(argument):
    ((key, text),) = problems(extra_args=(argument,))

    assert (key, text.split(";")[0]) == (
        "extra_args",
        "repeats --port, which the profile writes",
    )
    assert problems(extra_args=("--seed", "1")) == []


def test_a_role_is_kept_apart_from_offload():
    assert problems(role=DisaggregatedRole.PREFILL) == []
    assert problems(role=DisaggregatedRole.PREFILL, kv_offload_gb=1)[0][0] == "kv_offload_gb"


def test_attached_profiles_share_no_ports():
    first = EngineProfile(name="a", engine=Engine.VLLM)
    attached = EngineProfile(name="b", engine=Engine.VLLM, attached_urls=("http://g/v1",))
    second = EngineProfile(name="c", engine=Engine.VLLM)

    assert [name for name, _ in find_shared_ports((first, attached, second))] == ["c"]


@pytest.mark.parametrize(("version", "is_refused"), [("1.0.2", True), ("1.1.0rc2", False)])
def test_a_version_that_cannot_keep_teams_apart_needs_their_permission(version, is_refused):
    given = {"engine": Engine.TENSORRT_LLM, "attached_urls": ("http://g/v1",), "version": version}
    misfits = problems(**given)

    assert problems(**given, shares_cache=True) == []
    assert bool(misfits) == is_refused
    if is_refused:
        what = "refuses cache_salt and so cannot keep teams apart; run 1.1 or newer, or write"
        assert (misfits[0][0], what in misfits[0][1]) == ("version", True)


def test_profile_without_a_version_takes_what_the_newest_does():
    assert problems(engine=Engine.TENSORRT_LLM, attached_urls=("http://g/v1",)) == []


def test_hints_that_nothing_on_the_way_understands_are_refused():
    url = ("http://g/v1",)

    assert problems(hints=("vllm",)) == []
    assert problems(hints=("vllm", "llm-d", "dynamo"), attached_urls=url) == []
    ((key, text),) = problems(hints=("vllm",), engine=Engine.SGLANG, attached_urls=url)
    assert (key, text) == (
        "hints",
        "names vllm, whose field sglang refuses or ignores; leave it out",
    )
    misfits = problems(hints=("llm-d", "dynamo"))
    assert [text.split(",")[0] for _, text in misfits] == ["names dynamo", "names llm-d"]


def test_each_replica_of_vllm_publishes_its_kv_events_at_an_address_of_its_own():
    two = ("ipc:///run/kv-0.sock", "tcp://gpu1:5557")

    assert problems(kv_events=two, replicas=2) == []
    assert problems(kv_events=two)[0] == (
        "kv_events",
        "names 2 addresses for 1 replicas; write one for each replica, in their order",
    )
    assert "no address" in problems(kv_events=("gpu1:5557",))[0][1]
    for fields in ({"engine": Engine.LLAMACPP}, {"data_parallel": 2, "gpus": 2}):
        assert "without data_parallel" in problems(kv_events=two[:1], **fields)[0][1]
