"""Entity tags of HTTP (RFC 9110 section 8.8)."""


def names_etag(if_none_match: str | None, etag: str) -> bool:
    """Return whether an If-None-Match header names `etag`, by the weak comparison that section 13.1.2 asks for."""
    if if_none_match is None:
        return False
    opaque = etag.removeprefix("W/")
    return if_none_match.strip() == "*" or opaque in {
        part.strip().removeprefix("W/") for part in if_none_match.split(",")
    }


def is_match(if_match: str, etag: str | None) -> bool:
    """Return whether an If-Match header lets through what has `etag`, by the strong comparison of section 13.1.1."""
    return if_match.strip() == "*" or etag in {part.strip() for part in if_match.split(",")}
