lock: ## Recompute the hash-pinned locks (host-free: see CONTRIBUTING)
	uv pip compile pyproject.toml --group build --universal --generate-hashes --no-header --python-version 3.11 -q -o requirements.lock
	uv pip compile pyproject.toml --group build --group dev --universal --generate-hashes --no-header --python-version 3.11 -c requirements.lock -q -o requirements-dev.lock
