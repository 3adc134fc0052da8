"""A service with the context that the recipes of `examples/` upload into, and the applications of the recipes."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.browser.chromium import browser  # noqa: F401  (a fixture)
from tests.browser.conftest import context, page  # noqa: F401  (fixtures)
from tests.deployments import Deployments
from tests.servers import daemon, free_port, listens
from tests.service import ApiClient, running_service

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
BROKEN = b"\x89PNG\r\n\x1a\n" + b"not the rest of a picture"
"""The content of a file that every recipe must reject."""

RunRecipe = Callable[..., AbstractContextManager[str]]


@pytest.fixture(scope="session")
def claims(deployments: Deployments) -> Iterator[ApiClient]:
    """A client of the tenant whose context `claims` the recipes upload into."""
    with running_service(deployments.fresh("sqlite-local")) as service:
        client = service.new_client()
        client.create_context(context_key="claims", allowed_extensions=["png", "pdf", "txt"])
        yield client


@pytest.fixture(scope="session")
def environment(claims: ApiClient) -> Mapping[str, str]:
    """The environment that a recipe's README asks for, and where the Python client is."""
    key = claims.create_key("upload").text
    path = os.pathsep.join([str(ROOT / "clients" / "python" / "src"), str(Path(sys.executable).parent)])
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": path,
        "SLUICE_URL": claims.service.url,
        "SLUICE_API_KEY": key,
    }


@pytest.fixture
def run_recipe(environment: Mapping[str, str], tmp_path: Path) -> RunRecipe:
    """Return what runs the application of a recipe until the block ends, and yields its address."""

    @contextmanager
    def run(*command: str | Path, **more: str) -> Iterator[str]:
        port = free_port()
        words = [str(word).replace("PORT", str(port)) for word in command]
        log, variables = tmp_path / "recipe.log", {**environment, **more, "PORT": str(port)}
        with daemon(words, log, ready=lambda: listens(port), environment=variables):
            yield f"http://127.0.0.1:{port}"

    return run


@pytest.fixture(scope="session")
def sentence(claims: ApiClient) -> str:
    """What Sluice has for the sender of the broken picture."""
    response = claims.upload("broken.png", BROKEN, context="claims").json()
    assert response["report"]["reason"] == "corrupt_file"
    return str(response["report"]["message"])


@pytest.fixture
def newest(claims: ApiClient) -> Callable[[], str]:
    """Return what tells the name of the file that was stored last."""
    return lambda: str(claims.get("/files", context="claims").json()["data"][0]["original_filename"])
