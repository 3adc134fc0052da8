"""Download links that S3 itself checks (signature version 4 in the query). No network, no client, no settings of the machine."""

from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sluice.engines.storage.s3_address import Address
from sluice.kit.disposition import attachment


class LinkSigner:
    """Signs links to the objects of one bucket.

    botocore's signing class alone, not its client: that would read profile files and `AWS_*` variables, and load 1 MB of JSON.
    """

    def __init__(self, address: Address, region: str, access_key_id: str, secret_access_key: str) -> None:
        self._address = address
        self._region = region
        self._credentials = Credentials(access_key_id, secret_access_key)

    def sign(self, key: str, *, expires_in: int, filename: str, content_type: str) -> str:
        """Answer a URL that S3 answers for `expires_in` seconds with exactly this file name and type."""
        headers = {"response-content-disposition": attachment(filename), "response-content-type": content_type}
        request = AWSRequest("GET", self._address.url(key), params=headers)
        S3SigV4QueryAuth(self._credentials, "s3", self._region, expires=expires_in).add_auth(request)
        return str(request.url)
