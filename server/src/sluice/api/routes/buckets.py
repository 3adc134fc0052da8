"""Storage bucket endpoints."""

from fastapi import APIRouter

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import ByOwnTenant, OwnTenant, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.buckets import AnyNewBucket, BucketDeleted, BucketOut, UpdateBucket
from sluice.api.schemas.envelope import Envelope

router = APIRouter(
    prefix="/api/v1/tenants/{tenant_id}/storage-configs", tags=["Storage buckets"], route_class=GuardedRoute
)


@router.post("", status_code=201, responses=responses(*SCOPED, *BODY, errors.NotFound, errors.BucketExists))
async def add_bucket(body: AnyNewBucket, by: ByOwnTenant, services: Services) -> Envelope[BucketOut]:
    """Add a bucket. The tenant's first becomes its default."""
    bucket = await services.buckets.add(by, body.new_bucket())
    return Envelope(message="Storage bucket added", data=BucketOut.of(bucket))


@router.get("", responses=responses(*SCOPED, errors.NotFound))
async def list_buckets(tenant_id: OwnTenant, services: Services) -> Envelope[list[BucketOut]]:
    """List the tenant's buckets, oldest first."""
    buckets = await services.buckets.list_all(tenant_id)
    return Envelope(message="Storage buckets listed", data=[BucketOut.of(bucket) for bucket in buckets])


@router.get("/{config_id}", responses=responses(*SCOPED, errors.NotFound))
async def get_bucket(config_id: str, tenant_id: OwnTenant, services: Services) -> Envelope[BucketOut]:
    """Read one bucket. Its secret is never shown."""
    return Envelope(message="Storage bucket found", data=BucketOut.of(await services.buckets.get(tenant_id, config_id)))


@router.patch(
    "/{config_id}",
    responses=responses(*SCOPED, *BODY, errors.NotFound, errors.BucketExists, errors.DefaultBucketNeeded),
)
async def update_bucket(config_id: str, body: UpdateBucket, by: ByOwnTenant, services: Services) -> Envelope[BucketOut]:
    """Rename a bucket, rotate its credentials (both together), or switch it on or off."""
    bucket = await services.buckets.change(by, config_id, body.changes())
    return Envelope(message="Storage bucket updated", data=BucketOut.of(bucket))


@router.post("/{config_id}/set-default", responses=responses(*SCOPED, errors.NotFound, errors.BucketInactive))
async def set_default_bucket(config_id: str, by: ByOwnTenant, services: Services) -> Envelope[BucketOut]:
    """Make this bucket the tenant's default; the previous one stops being it."""
    bucket = await services.buckets.set_default(by, config_id)
    return Envelope(message="Default storage bucket set", data=BucketOut.of(bucket))


@router.delete("/{config_id}", responses=responses(*SCOPED, errors.NotFound, errors.BucketBound))
async def delete_bucket(config_id: str, by: ByOwnTenant, services: Services) -> Envelope[BucketDeleted]:
    """Forget a bucket and its credentials. Its objects are not touched."""
    deleted = await services.buckets.delete(by, config_id)
    message = "Storage bucket deleted"
    if deleted.orphaned_files:
        message += f"; {deleted.orphaned_files} file(s) stored in it now resolve to the default bucket"
    return Envelope(message=message, data=BucketDeleted(config_id=config_id))
