# One command to run, one to test; `make help` lists the rest. PYTHON chooses the interpreter, 3.11 or newer.
PYTHON ?= python3
export PYTHON
BIN := .venv/bin
FOLDER ?= ../shared/corpus
WORKERS ?= 3
KILLS ?= 9
EXAMPLES ?= 500
REPEATS ?= 20
SECONDS_EACH ?= 20
# the tests of the interface, a module for each resource; those beside them kill, starve or measure servers of their own
CONTRACT := $(addprefix tests/api/test_,$(addsuffix .py,api_keys audit authentication bucket_deletion bucket_routing buckets concurrency context_rules contexts corpus downloads envelope equal_times files limits openapi remembered scopes tenants_apart upload upload_rules upload_wire))

.DEFAULT_GOAL := help
.PHONY: help run test test-long check lint types imports format lock verdicts fuzz fuzz-edge security audit sbom docs clean venv venv-dev servers kill-sweep faults rolling-upgrade failover contract-matrix races state-machine matrix bench bench-scale bench-scanner

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: venv ## Serve on 127.0.0.1:8000 (SLUICE_HOST, SLUICE_PORT), data in .data (SLUICE_DATA_DIR); Ctrl-C drains
	@$(BIN)/sluice serve

test: venv-dev servers ## Run the whole suite on real servers (ARGS='-k name' for a part of it)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

test-long: venv-dev servers ## Run the whole forms of what `make test` runs in a short form: 1,000 uploads, 1.5 million signatures, KILLS at every failpoint (an hour or two)
	@SLUICE_TEST_LONG=1 SLUICE_TEST_KILLS=$(KILLS) $(BIN)/python -m pytest -n 0 tests/api/test_fleet.py tests/api/test_hostile_names.py tests/api/test_hostile_fields.py tests/api/test_openapi.py tests/formats/test_same_verdicts.py tests/worker/test_stale_parts.py tests/scanning/test_fault_matrix.py tests/scanning/test_chaos.py tests/recovery/test_kill_sweep.py tests/recovery/test_audited.py $(ARGS)

check: lint types imports ## Run every static check: ruff, mypy, import-linter

lint: venv-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: venv-dev
	$(BIN)/mypy

imports: venv-dev
	$(BIN)/lint-imports

format: venv-dev ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: ## Recompute the hash-pinned locks with uv (no host names in them)
	uv pip compile pyproject.toml --extra heif --extra media --group build --universal --generate-hashes --no-header --python-version 3.11 -q -o requirements.lock
	uv pip compile pyproject.toml --all-extras --group build --group dev --universal --generate-hashes --no-header --python-version 3.11 -c requirements.lock -q -o requirements-dev.lock

fuzz: venv-dev ## Fuzz every parser (ARGS="pdf zip --seconds 60"; ten minutes each by default)
	@test -d .fuzz/lib/atheris || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: --target .fuzz/lib atheris || echo "no atheris for this Python: random changes instead"
	@PYTHONPATH=$(CURDIR)/.fuzz/lib $(BIN)/python scripts/fuzz.py $(ARGS)

fuzz-edge: venv-dev ## Fuzz what reads strangers' requests, a minute each (ARGS="multipart --seconds 10")
	@test -d .fuzz/lib/atheris || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: --target .fuzz/lib atheris || echo "no atheris for this Python: random changes instead"
	@PYTHONPATH=$(CURDIR)/.fuzz/lib $(BIN)/python scripts/fuzz_edge.py $(ARGS)

security: venv-dev servers audit sbom ## Run the proofs of docs/security/asvs.md, the attack files, the static rules, the audit and the bill of materials
	$(BIN)/ruff check src
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q -m asvs
	@SLUICE_TEST_LONG=1 SLUICE_TEST_TEXT_STEP=8 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q tests/edge tests/api/test_hostile_names.py tests/api/test_hostile_fields.py tests/engines/identity tests/engines/sandbox/test_attacks.py tests/kit tests/files tests/contexts tests/docs/test_asvs.py

audit: venv-dev ## Ask the index for known vulnerabilities of pinned libraries, where one can be reached
	@scripts/audit_dependencies.sh

sbom: venv-dev ## Write the bill of materials as CycloneDX (build/sbom.json)
	@$(BIN)/python scripts/sbom.py build/sbom.json

verdicts: venv ## Score the checks against a folder of labelled files (FOLDER=../shared/corpus)
	@$(BIN)/python scripts/verdicts.py $(FOLDER)

kill-sweep: venv-dev servers ## Kill the service KILLS times at every failpoint on every pair of database and store, and check what is left
	@SLUICE_TEST_KILLS=$(KILLS) $(BIN)/python -m pytest -n 0 tests/recovery/test_kill_sweep.py

faults: venv-dev servers ## Put six faults of 20 s each before PostgreSQL, S3 and Redis while clients upload (SECONDS_EACH=n)
	@SLUICE_TEST_FAULT_SECONDS=$(SECONDS_EACH) $(BIN)/python -m pytest -n 0 tests/api/test_faults_under_load.py $(ARGS)

rolling-upgrade: venv-dev servers ## Serve with the code before the last migration on the schema after it (needs the history)
	@$(BIN)/python -m pytest -n 0 tests/long/rolling_upgrade.py $(ARGS)

failover: venv-dev ## Kill the primary of three PostgreSQL nodes under Patroni while clients upload
	@scripts/servers.sh patroni etcd-server python3-psycopg2
	@$(BIN)/python -m pytest -n 0 tests/long/failover.py $(ARGS)

contract-matrix: venv-dev servers ## Run the contract tests on PostgreSQL with the local store, and on PostgreSQL, S3 and Redis by three servers and two workers behind HAProxy
	@SLUICE_TEST_SETUPS=postgres-local,postgres-s3-redis $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(CONTRACT) $(ARGS)

races: venv-dev servers ## Repeat the races for quota, rate, default bucket, bound bucket and revoked key on three servers (REPEATS=n)
	@SLUICE_TEST_REPEATS=$(REPEATS) $(BIN)/python -m pytest -n 0 tests/long/races.py $(ARGS)

state-machine: venv-dev servers ## Let two tenants use the whole API in 500 random ways, and hold every answer to a model (EXAMPLES=n)
	@SLUICE_TEST_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n 0 tests/api/test_state_machine.py $(ARGS)

matrix: venv-dev servers ## Run the scanner's fault matrix with 1.5 million signatures, and 1,000 uploads under random kills (minutes)
	@SLUICE_TEST_SIGNATURES=1500000 SLUICE_TEST_UPLOADS=1000 $(BIN)/python -m pytest -s tests/scanning/test_fault_matrix.py tests/scanning/test_chaos.py $(ARGS)

bench: venv-dev servers ## Measure against an afternoon's service, as ratios (ARGS="--quick", "--only PNG", "--json FILE")
	@$(BIN)/python -m bench $(ARGS)

bench-scale: venv-dev servers ## Measure what must not grow (ARGS="lists", "memory", "neighbours", "soak", "start" or "throughput"; "--json FILE")
	@$(BIN)/python -m bench.scale $(ARGS)

bench-scanner: venv-dev servers ## Measure scans against clamd alone and print the figures of docs/scanner.md (minutes)
	@PYTHONPATH=$(CURDIR) $(BIN)/python scripts/bench_scanner.py $(ARGS)

docs: venv-dev ## Write the pages of docs/ that come from the code
	@$(BIN)/python scripts/docs.py

clean: ## Remove what the other targets made, but never the data in .data
	rm -rf .venv .fuzz .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@scripts/venv.sh requirements.lock

venv-dev:
	@scripts/venv.sh requirements-dev.lock

servers:
	@scripts/servers.sh
