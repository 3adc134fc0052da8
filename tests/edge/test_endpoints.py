"""Which S3 endpoints a tenant may name: those on the operator's list, as bare origins, and no other."""

import pytest

from sluice.buckets.endpoints import EndpointRefused, require_allowed

LISTED = ("s3.example.org", "minio.example.org:9000")


@pytest.mark.parametrize(
    "endpoint",
    ["https://s3.example.org", "https://s3.example.org:8443", "https://S3.EXAMPLE.ORG/", "http://minio.example.org:9000"],
)
def test_a_listed_host_is_allowed(endpoint: str) -> None:
    require_allowed(endpoint, LISTED)


@pytest.mark.asvs("1.3.6")
@pytest.mark.parametrize(
    "endpoint",
    [
        "http://169.254.169.254",
        "http://localhost",
        "http://127.0.0.1:9000",
        "http://[::1]",
        "http://2130706433",
        "http://minio.example.org",
        "https://s3.example.org.evil.example",
        "https://s3.example.org@evil.example",
        "https://user:password@s3.example.org",
        "https://s3.example.org/path",
        "https://s3.example.org?x=y",
        "https://s3.example.org#x",
        "ftp://s3.example.org",
        "file:///etc/passwd",
        "gopher://s3.example.org",
        "//s3.example.org",
        "https://",
        "https://s3.example.org:99999",
        "https://[",
        "",
    ],
)
def test_any_other_is_refused(endpoint: str) -> None:
    with pytest.raises(EndpointRefused):
        require_allowed(endpoint, LISTED)


@pytest.mark.asvs("1.3.6")
def test_without_a_list_there_is_none() -> None:
    with pytest.raises(EndpointRefused):
        require_allowed("https://s3.example.org", ())
