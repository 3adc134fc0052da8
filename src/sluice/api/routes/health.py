"""Health: is the process alive, and is each engine well. Asks for no credential and shows no secret."""

from fastapi import APIRouter, Request, Response

from sluice.api.schemas.health import Alive, Engine, Ready
from sluice.kit.health import EngineHealth, EngineState

router = APIRouter(prefix="/health", tags=["Health"])


@router.get("/live")
async def live() -> Alive:
    """Answer as long as the process serves at all."""
    return Alive()


@router.get("/ready", responses={503: {"model": Ready, "description": "An engine is down."}})
async def ready(request: Request, response: Response) -> Ready:
    """Answer how each engine is: 200 when all can serve, 503 when one is down."""
    healths: list[EngineHealth] = await request.app.state.healths()
    worst = max((health.state for health in healths), key=list(EngineState).index)
    response.status_code = 503 if worst is EngineState.DOWN else 200
    return Ready(status=worst.value, engines=[Engine.model_validate(health) for health in healths])
