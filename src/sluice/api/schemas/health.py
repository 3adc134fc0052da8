"""Bodies of the health endpoints, which monitors read: no envelope around them."""

from typing import Literal

from pydantic import Field

from sluice.api.schemas.envelope import ResponseBody

State = Literal["up", "degraded", "down"]


class Alive(ResponseBody):
    """The process serves."""

    status: Literal["up"] = Field("up", description="Always `up`: no answer is the other one.")


class Engine(ResponseBody):
    """One engine: `degraded` works but wants a person's attention, `down` cannot serve."""

    kind: str = Field(description="What it does for the service, such as `storage`.")
    name: str = Field(description="Which engine does it, such as `local`.")
    state: State = Field(description="How it is.")
    version: str = Field(description="What it reports of itself; empty when nothing.")
    detail: str = Field(description="Why it is not well; empty when it is.")
    limits: dict[str, int | str] = Field(description="What it can take, as far as it says.")


class Ready(ResponseBody):
    """Every engine, and the worst state among them."""

    status: State = Field(description="The worst state among the engines.")
    engines: list[Engine] = Field(description="Every engine of this process.")
