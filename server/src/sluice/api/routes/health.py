"""Health: is the process alive, and is each engine well.

Asks for no credential and shows no secret. Only those who may read `/metrics` see each engine.
"""

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from sluice.api.routes.metrics import MetricsDesk
from sluice.api.schemas.envelope import ResponseBody
from sluice.kit.health import EngineHealth, EngineState

router = APIRouter(prefix="/health", tags=["Health"])


State = Literal["up", "degraded", "down"]


class Alive(ResponseBody):
    """The process serves."""

    status: Literal["up"] = Field("up", description="Always `up`: no response is the other one.")


class Engine(ResponseBody):
    """One engine: `degraded` works but wants a person's attention, `down` cannot serve."""

    kind: str = Field(description="What it does for the service, such as `storage`.")
    name: str = Field(description="Which engine does it, such as `local`.")
    state: State = Field(description="How it is.")
    version: str = Field(description="What it reports of itself; empty when nothing.")
    detail: str = Field(description="Why it is not well; empty when it is.")
    limits: dict[str, int | str] = Field(description="Its limits, as far as they are known.")


class Ready(ResponseBody):
    """The worst state among the engines, and every engine for those who know the metrics token."""

    status: State = Field(description="The worst state among the engines.")
    engines: list[Engine] | None = Field(
        None, description="Every engine of this process; left out without the metrics token."
    )


@router.get("/live")
async def live() -> Alive:
    """Return 200 as long as the process serves at all."""
    return Alive()


@router.get(
    "/ready",
    response_model_exclude_none=True,
    responses={503: {"model": Ready, "description": "An engine is down."}},
)
async def ready(request: Request, response: Response) -> Ready:
    """Return the worst state among the engines: 200 if all can serve, 503 if one is down."""
    desk: MetricsDesk = request.app.state.metrics
    shows_engines = desk.readers.admit(request.headers)
    state = request.app.state
    healths: list[EngineHealth] = await (state.healths() if shows_engines else state.recent_healths())
    worst = max((health.state for health in healths), key=list(EngineState).index)
    response.status_code = 503 if worst is EngineState.DOWN else 200
    if not shows_engines:
        return Ready(status=worst.value)
    return Ready(status=worst.value, engines=[Engine.model_validate(health) for health in healths])
