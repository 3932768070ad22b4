# Every target sets up what it needs: a virtual environment, pinned versions, an editable install.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCUST := $(VENV)/.locust
VLLM := .venv-vllm
ARGS ?=
FILE ?= proxy/tools/replay/samples/parcels.jsonl.gz
BY_FILE := --dist loadfile --no-loadscope-reorder

.PHONY: setup demo demo-engine serve test test-whole test-fast test-browser test-vllm vllm check format bench conformance load

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Thriftgate needs Python 3.11 or newer; name one with make PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV), once; it takes a minute or two." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary xllamacpp \
	  --constraint constraints.txt --editable '.[local]' || \
	  echo "No wheel of xllamacpp for this machine: tests of a local engine skip." >&2
	@touch $@

# A gateway, a simulated upstream and two hundred calls of three teams.
# ARGS='--exit --json' for scripts: one line on stdout.
demo: $(READY)
	@$(BIN)/thriftgate demo $(ARGS)

# A tiny model on this machine behind the gateway; ARGS as above.
demo-engine: $(READY)
	@$(BIN)/thriftgate engine demo $(ARGS)

# Savings on the calls of any tool's log: make replay FILE=log.jsonl; of a sample without FILE.
replay: $(READY)
	@$(BIN)/thriftgate replay $(FILE) $(ARGS)

# The gateway itself; OPENAI_API_KEY or ANTHROPIC_API_KEY is all it needs.
serve: $(READY)
	@$(BIN)/thriftgate serve $(ARGS)

# Python keeps what it compiled: to collect the tests then takes a third of the processor time.
# Each worker gets a file at a time, so that what the tests of a module share is made once, and the
# longest come first; three workers for two cores, as some tests wait for a database or a process.
test test-whole: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)
	$(BIN)/python -m pytest -q -n 3 $(BY_FILE) -m 'not vllm' --ignore tests/whole --ignore tests/browser $(ARGS)

# Whole gateways before whole simulators and engines: outages, kills, replicas, SDKs.
test-whole: $(READY)
	$(BIN)/python -m pytest -q -n 3 $(BY_FILE) -m 'not vllm' tests/whole $(ARGS)

# What needs no database and no process, without slow tests: in under a minute, before each commit.
FAST := $(addprefix tests/,compaction slo dashboards) \
  $(addprefix tests/proxy/,api caches calls catalog prefix providers records tokens)
test-fast: export PYTHONDONTWRITEBYTECODE :=
test-fast: $(READY)
	$(BIN)/python -m pytest -q -n 2 $(BY_FILE) -m 'not slow' $(FAST) $(ARGS)

# Real vLLM on processors, in an environment of its own: 2.5 GB, for tests only.
vllm: $(VLLM)/.ready

$(VLLM)/.ready: .ci/vllm.txt .ci/vllm-requirements.txt
	@test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	@$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --require-hashes --only-binary :all: --requirement .ci/vllm.txt
	@$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --only-binary :all: --requirement .ci/vllm-requirements.txt
	@touch $@

# Its tests, in one process: they share one engine, and behind it one without a draft model. Without `make vllm` they skip and say so.
test-vllm: $(READY)
	$(BIN)/python -m pytest -q -rs -m vllm tests/whole/test_vllm.py tests/whole/test_vllm_plain.py $(ARGS)

# The admin pages in a real Chromium, in one process; ARGS='--pictures DIR' keeps a picture of each.
test-browser: $(READY)
	$(BIN)/python -m pytest -q -rs -m browser tests/browser $(ARGS)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint --trusted-registry docker.io --disable-ignore-pragma .container/Containerfile

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The tests of openai-python and anthropic-python, without the gateway and through it.
# ARGS='--sdk anthropic' for one of them, ARGS='-k chat' for some tests.
conformance: $(READY)
	@$(BIN)/python -m tests.conformance.run $(ARGS)

$(LOCUST): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[load]'
	@touch $@

# Realistic callers before a gateway and a simulated upstream, for a minute. ARGS='--web' for a page.
load: $(LOCUST)
	@$(BIN)/python -m tests.load.run $(ARGS)

# Added latency, throughput, streams and memory, beside the upstream itself and nginx.
bench: $(READY)
	$(BIN)/python -m tests.bench.gateway $(ARGS)
