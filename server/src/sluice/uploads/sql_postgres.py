"""The statements of the upload path for PostgreSQL. Each is one statement, so one round trip and one transaction.

`:name` is a value; which values there are is in `repository`. `clock_timestamp()` is the moment of the row, `now()`
that of the transaction. A batch statement takes the values that differ between uploads as arrays and is carried out for
all of them or, if the conditions do not hold, for none. Arrays of text carry no length: a cast to `varchar(n)` would
cut a value off without an error.
"""

from typing import Final

# A context with all that an upload into it needs: its tenant's plan and use of it this month, and the bucket that its
# files go to.
SNAPSHOT: Final = """
SELECT contexts.context_id, contexts.tenant_id, contexts.context_key, contexts.display_name, contexts.description,
       contexts.allowed_extensions, contexts.max_file_size_mb, contexts.storage_path_template,
       contexts.reject_blank_files, contexts.reject_corrupt_files, contexts.scan_for_viruses,
       contexts.rate_max_uploads, contexts.rate_window_seconds, contexts.storage_quota_mb, contexts.storage_used_bytes,
       contexts.status, contexts.metadata, contexts.storage_config_id, contexts.rules_version,
       contexts.created_at, contexts.updated_at, contexts.check_modes, contexts.policies,
       contexts.external_checks, contexts.sanitise, contexts.document_kind,
       tenants.plan,
       plan_usage.uploads,
       (SELECT string_agg(DISTINCT list || ':' || algorithm, ',') FROM hash_entry_counts
         WHERE tenant_id IN (:tenant_id, '*') AND entries > 0) AS hash_algorithms,
       now()                             AS present,
       storage_configs.config_id         AS bucket_config_id,
       storage_configs.tenant_id         AS bucket_tenant_id,
       storage_configs.name              AS bucket_name,
       storage_configs.provider          AS bucket_provider,
       storage_configs.settings          AS bucket_settings,
       storage_configs.secret_sealed     AS bucket_secret_sealed,
       storage_configs.default_bucket    AS bucket_default_bucket,
       storage_configs.base_path         AS bucket_base_path,
       storage_configs.is_active         AS bucket_is_active,
       storage_configs.created_at        AS bucket_created_at,
       storage_configs.updated_at        AS bucket_updated_at,
       storage_configs.config_id = default_buckets.config_id AS bucket_is_default
  FROM contexts
  JOIN tenants ON tenants.tenant_id = contexts.tenant_id
  LEFT JOIN plan_usage
         ON plan_usage.tenant_id = contexts.tenant_id
        AND plan_usage.month = to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM')
  LEFT JOIN default_buckets ON default_buckets.tenant_id = contexts.tenant_id
  LEFT JOIN storage_configs
         ON storage_configs.tenant_id = contexts.tenant_id
        AND storage_configs.config_id = coalesce(contexts.storage_config_id, default_buckets.config_id)
 WHERE contexts.tenant_id = :tenant_id
   AND contexts.context_key = :context_key
"""


def _unchanged(at: str) -> str:
    """Return the condition that tenant, key, context and bucket are active and of the versions that the upload was
    judged by.

    A key must not have expired at the moment `at`. Uploads of users have no key.
    """
    return f"""
       contexts.tenant_id = :tenant_id
   AND contexts.context_id = :context_id
   AND contexts.status = 'active'
   AND contexts.rules_version = :rules_version
   AND coalesce(contexts.storage_config_id,
                (SELECT config_id FROM default_buckets WHERE tenant_id = :tenant_id))
       IS NOT DISTINCT FROM :storage_config_id
   AND NOT EXISTS (SELECT FROM storage_configs
                    WHERE tenant_id = :tenant_id
                      AND config_id = :storage_config_id
                      AND updated_at IS DISTINCT FROM :bucket_changed_at)
   AND EXISTS (SELECT FROM tenants
                WHERE tenant_id = :tenant_id AND status = 'active' AND plan = :plan)
   AND NOT EXISTS (SELECT FROM hash_entry_counts
                    WHERE tenant_id IN (:tenant_id, '*')
                      AND entries > 0
                      AND strpos(:hash_algorithms::text, list || ':' || algorithm) = 0)
   AND (:key_id::varchar IS NULL
        OR EXISTS (SELECT FROM api_keys
                    WHERE api_key_id = :key_id
                      AND tenant_id = :tenant_id
                      AND status = 'active'
                      AND updated_at IS NOT DISTINCT FROM :key_changed_at
                      AND (expires_at IS NULL OR expires_at > {at})))
"""  # noqa: S608  (composed of constants)


def _reserve(before: str = "", condition: str = "") -> str:
    """Return the statement that reserves a file, with a common table expression before it and a further condition.

    The quota in megabytes is multiplied as a bigint: 2 GB and more are beyond an integer.
    """
    return f"""
WITH {before} reserved AS (
    UPDATE contexts
       SET storage_used_bytes = storage_used_bytes + :size_bytes::bigint
     WHERE {_unchanged(":created_at::timestamptz")}
       AND (storage_quota_mb IS NULL
            OR storage_used_bytes + :size_bytes::bigint <= storage_quota_mb * 1048576::bigint)
       {condition}
    RETURNING context_id
)
INSERT INTO files (file_id, tenant_id, context_id, context_key, state, original_filename, content_type, size_bytes,
                   sha256, storage_config_id, object_key, uploaded_by, uploaded_by_name, metadata, download_count,
                   report_id, created_at, lease_until, scanned_with, scanned_at)
SELECT :file_id::varchar, :tenant_id::varchar, :context_id::varchar, :context_key::varchar, 'pending',
       :original_filename::varchar, :content_type::varchar, :size_bytes::bigint, :sha256::varchar,
       :storage_config_id::varchar, :object_key::varchar, :uploaded_by::varchar, :uploaded_by_name::varchar,
       :metadata::json, 0, :report_id::varchar, :created_at::timestamptz,
       clock_timestamp() + :lease_seconds::float8 * interval '1 second',
       :scanned_with::varchar, :scanned_at::timestamptz
  FROM reserved
RETURNING file_id
"""  # noqa: S608  (composed of constants)


# Take the file's bytes from the context's quota, if nothing has changed and there is room, and write the file's pending
# row.
RESERVE: Final = _reserve()

# The same for an upload with an idempotency key, if it still has the key, whose row then names the file. If there is no
# room, the row names a file that does not exist, which is read as none.
RESERVE_WITH_KEY: Final = _reserve(
    """held AS (
    UPDATE idempotency_keys
       SET file_id = :file_id::varchar,
           lease_until = clock_timestamp() + :key_lease_seconds::float8 * interval '1 second'
     WHERE tenant_id = :tenant_id AND key_hash = :key_hash AND report_id = :key_report_id
    RETURNING key_hash
),""",
    "AND EXISTS (SELECT FROM held)",
)

# The same for files that one uploader sends to one context.
RESERVE_BATCH: Final = f"""
WITH given AS (
    SELECT *
      FROM unnest(:file_id::varchar[], :original_filename::varchar[], :content_type::varchar[], :size_bytes::bigint[],
                  :sha256::varchar[], :object_key::varchar[], :metadata::text[], :report_id::varchar[],
                  :created_at::timestamptz[], :scanned_with::varchar[], :scanned_at::timestamptz[])
        AS rows (file_id, original_filename, content_type, size_bytes, sha256, object_key, metadata, report_id,
                 created_at, scanned_with, scanned_at)
),
reserved AS (
    UPDATE contexts
       SET storage_used_bytes = storage_used_bytes + (SELECT sum(size_bytes) FROM given)::bigint
     WHERE {_unchanged("(SELECT max(created_at) FROM given)")}
       AND (storage_quota_mb IS NULL
            OR storage_used_bytes + (SELECT sum(size_bytes) FROM given)::bigint <= storage_quota_mb * 1048576::bigint)
    RETURNING context_id
)
INSERT INTO files (file_id, tenant_id, context_id, context_key, state, original_filename, content_type, size_bytes,
                   sha256, storage_config_id, object_key, uploaded_by, uploaded_by_name, metadata, download_count,
                   report_id, created_at, lease_until, scanned_with, scanned_at)
SELECT given.file_id, :tenant_id::varchar, :context_id::varchar, :context_key::varchar, 'pending',
       given.original_filename, given.content_type, given.size_bytes, given.sha256,
       :storage_config_id::varchar, given.object_key, :uploaded_by::varchar, :uploaded_by_name::varchar,
       given.metadata::json, 0, given.report_id, given.created_at,
       clock_timestamp() + :lease_seconds::float8 * interval '1 second',
       given.scanned_with, given.scanned_at
  FROM given CROSS JOIN reserved
RETURNING file_id
"""  # noqa: S608  (composed of constants)

# Make a pending file visible, until `life_seconds` are over (null: for good), log its decision, and write its event.
RECORD: Final = """
WITH stored AS (
    UPDATE files
       SET state = 'stored',
           lease_until = NULL,
           due_at = clock_timestamp() + :life_seconds::float8 * interval '1 second',
           quarantined_at = :quarantined_at::timestamptz
     WHERE tenant_id = :tenant_id AND file_id = :stored_id AND state = 'pending'
    RETURNING file_id
),
event AS (
    INSERT INTO events (event_id, tenant_id, type, created_at, data)
    SELECT :event_id::varchar, :tenant_id::varchar, :event_type::varchar, :created_at::timestamptz, :event_data::json
      FROM stored
)
INSERT INTO decisions (report_id, tenant_id, file_id, context_key, mode, rules, rules_version, facts, engines, outcome,
                       reason, detail, actor, created_at, original_filename, actor_id, duration_ms)
SELECT :report_id::varchar, :tenant_id::varchar, :file_id::varchar, :context_key::varchar, :mode::varchar, :rules::json,
       :rules_version::integer, :facts::json, :engines::json, :outcome::varchar, :reason::varchar, :detail::varchar,
       :actor::json, :created_at::timestamptz, :original_filename::varchar, :actor_id::varchar, :duration_ms::integer
  FROM stored
RETURNING report_id
"""

# The same for files of one tenant. Those whose lease was lost have no row in `stored` and are left out.
RECORD_BATCH: Final = """
WITH given AS (
    SELECT *
      FROM unnest(:report_id::varchar[], :file_id::varchar[], :context_key::varchar[], :mode::varchar[], :rules::text[],
                  :rules_version::integer[], :facts::text[], :engines::text[], :outcome::varchar[], :reason::varchar[],
                  :detail::varchar[], :actor::text[], :created_at::timestamptz[], :stored_id::varchar[],
                  :life_seconds::float8[], :quarantined_at::timestamptz[], :original_filename::varchar[],
                  :actor_id::varchar[], :duration_ms::integer[], :event_id::varchar[], :event_type::varchar[],
                  :event_data::text[])
        AS rows (report_id, file_id, context_key, mode, rules, rules_version, facts, engines, outcome, reason, detail,
                 actor, created_at, stored_id, life_seconds, quarantined_at, original_filename, actor_id, duration_ms,
                 event_id, event_type, event_data)
),
stored AS (
    UPDATE files
       SET state = 'stored',
           lease_until = NULL,
           due_at = clock_timestamp() + given.life_seconds * interval '1 second',
           quarantined_at = given.quarantined_at
      FROM given
     WHERE files.tenant_id = :tenant_id AND files.file_id = given.stored_id AND files.state = 'pending'
    RETURNING files.file_id
),
event AS (
    INSERT INTO events (event_id, tenant_id, type, created_at, data)
    SELECT given.event_id, :tenant_id::varchar, given.event_type, given.created_at, given.event_data::json
      FROM given JOIN stored ON stored.file_id = given.stored_id
)
INSERT INTO decisions (report_id, tenant_id, file_id, context_key, mode, rules, rules_version, facts, engines, outcome,
                       reason, detail, actor, created_at, original_filename, actor_id, duration_ms)
SELECT given.report_id, :tenant_id::varchar, given.file_id, given.context_key, given.mode, given.rules::json,
       given.rules_version, given.facts::json, given.engines::json, given.outcome, given.reason, given.detail,
       given.actor::json, given.created_at, given.original_filename, given.actor_id, given.duration_ms
  FROM given JOIN stored ON stored.file_id = given.stored_id
RETURNING report_id
"""

# Log the decision on a rejected upload, and write its event.
REJECT: Final = """
WITH event AS (
    INSERT INTO events (event_id, tenant_id, type, created_at, data)
    VALUES (:event_id::varchar, :tenant_id::varchar, :event_type::varchar, :created_at::timestamptz, :event_data::json)
)
INSERT INTO decisions (report_id, tenant_id, file_id, context_key, mode, rules, rules_version, facts, engines, outcome,
                       reason, detail, actor, created_at, original_filename, actor_id, duration_ms, repeat_key)
VALUES (:report_id, :tenant_id::varchar, :file_id, :context_key, :mode, :rules, :rules_version, :facts, :engines,
        :outcome, :reason, :detail, :actor, :created_at::timestamptz, :original_filename, :actor_id, :duration_ms,
        :repeat_key)
RETURNING report_id
"""
