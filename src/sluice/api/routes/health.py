"""Health: is the process alive, and is each engine well. Asks for no credential and shows no secret."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from sluice.engines.health import EngineHealth, EngineState

router = APIRouter(prefix="/health", tags=["Health"])


@router.get("/live")
async def live() -> dict[str, str]:
    """Answer as long as the process serves at all."""
    return {"status": "up"}


@router.get("/ready", responses={503: {"description": "An engine is down."}})
async def ready(request: Request) -> JSONResponse:
    """Answer how each engine is: 200 when all can serve, 503 when one is down."""
    healths: list[EngineHealth] = await request.app.state.healths()
    down = any(health.state is EngineState.DOWN for health in healths)
    worst = EngineState.DOWN if down else max((health.state for health in healths), key=list(EngineState).index)
    engines: list[dict[str, Any]] = [
        {
            "kind": health.kind,
            "name": health.name,
            "state": health.state.value,
            "version": health.version,
            "detail": health.detail,
            "limits": dict(health.limits),
        }
        for health in healths
    ]
    return JSONResponse({"status": worst.value, "engines": engines}, status_code=503 if down else 200)
