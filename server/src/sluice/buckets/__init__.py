"""Storage buckets: a tenant's own S3 storage, and which store a file belongs to.

How a store is spoken to lives in `engines.storage`.
"""

from sluice.buckets.bucket import Bucket, BucketProbe, ProbedStep

__all__ = ["Bucket", "BucketProbe", "ProbedStep"]
