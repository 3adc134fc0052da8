"""A check for Sluice: photos of meters are pictures of a phone's shape, and taken by a camera that says so."""

from collections.abc import Iterator, Mapping

from sluice_inspect.checks import CheckFinding, Source

_LEAST_PIXELS = 640 * 480


def check(source: Source, facts: Mapping[str, object]) -> Iterator[CheckFinding]:
    """Yield what speaks against a photo of a meter."""
    width, height = facts.get("width"), facts.get("height")
    if not isinstance(width, int) or not isinstance(height, int):
        yield CheckFinding("no_picture", detail=f"found {facts['content_type']}")
        return
    if width * height < _LEAST_PIXELS:
        yield CheckFinding("too_small", "quarantine", f"found {width} x {height} pixels")
    if b"Exif\0\0" not in source.read_at(0, 64 * 1024):
        yield CheckFinding("no_camera", "report")
