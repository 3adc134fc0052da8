"""The recipes for servers, as their applications run: FastAPI, Flask, Django."""

import re
import sys
from collections.abc import Callable

import httpx

from tests.api.samples import picture
from tests.examples.conftest import BROKEN, EXAMPLES, RunRecipe


def test_fastapi_stores_files_and_shows_sentences(
    run_recipe: RunRecipe, sentence: str, newest: Callable[[], str]
) -> None:
    folder = EXAMPLES / "fastapi"
    with run_recipe(sys.executable, "-m", "uvicorn", "main:app", "--app-dir", folder, "--port", "PORT") as url:
        assert 'type="file"' in httpx.get(url).text
        stored = httpx.post(f"{url}/claims", files={"file": ("fastapi.png", picture())})
        assert (stored.status_code, newest()) == (201, "fastapi.png")
        assert stored.json()["file_id"].startswith("file_")
        rejected = httpx.post(f"{url}/claims", files={"file": ("broken.png", BROKEN)})
        assert (rejected.status_code, rejected.json()) == (400, {"detail": sentence})


def test_flask_stores_files_and_shows_sentences(
    run_recipe: RunRecipe, sentence: str, newest: Callable[[], str]
) -> None:
    app = EXAMPLES / "flask" / "app.py"
    with run_recipe(sys.executable, "-m", "flask", "--app", app, "run", "--port", "PORT") as url:
        assert 'type="file"' in httpx.get(url).text
        stored = httpx.post(url, files={"file": ("flask.png", picture())})
        assert (stored.status_code, newest()) == (201, "flask.png")
        assert "Thank you: we have flask.png." in stored.text
        rejected = httpx.post(url, files={"file": ("broken.png", BROKEN)})
        assert (rejected.status_code, sentence in rejected.text) == (400, True)
        assert httpx.post(url).status_code == 400


def test_django_stores_files_and_shows_sentences(
    run_recipe: RunRecipe, sentence: str, newest: Callable[[], str]
) -> None:
    manage = EXAMPLES / "django" / "manage.py"
    with (
        run_recipe(sys.executable, manage, "runserver", "--noreload", "PORT") as url,
        httpx.Client(base_url=url) as visitor,
    ):

        def send(name: str, content: bytes) -> httpx.Response:
            (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', visitor.get("/").text)
            return visitor.post("/", data={"csrfmiddlewaretoken": token}, files={"file": (name, content)})

        stored = send("django.png", picture())
        assert (stored.status_code, newest()) == (201, "django.png")
        assert "Thank you: we have django.png." in stored.text
        rejected = send("broken.png", BROKEN)
        assert (rejected.status_code, sentence in rejected.text) == (400, True)
