"""Where engines find the words for their health; the words themselves live in `kit.health`, since the database uses them too."""

from sluice.kit.health import EngineHealth, EngineState

__all__ = ["EngineHealth", "EngineState"]
