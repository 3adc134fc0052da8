"""The statements of the upload path for SQLite.

A unit of several statements runs them in one transaction, each only if the one before it returned a row.

`:name` is a value; which values there are is in `repository`. Moments are text in UTC with microseconds, as SQLAlchemy
writes them.
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
       (SELECT group_concat(DISTINCT list || ':' || algorithm) FROM hash_entry_counts
         WHERE tenant_id IN (:tenant_id, '*') AND entries > 0) AS hash_algorithms,
       strftime('%Y-%m-%d %H:%M:%f000', 'now') AS present,
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
        AND plan_usage.month = strftime('%Y-%m', 'now')
  LEFT JOIN default_buckets ON default_buckets.tenant_id = contexts.tenant_id
  LEFT JOIN storage_configs
         ON storage_configs.tenant_id = contexts.tenant_id
        AND storage_configs.config_id = coalesce(contexts.storage_config_id, default_buckets.config_id)
 WHERE contexts.tenant_id = :tenant_id
   AND contexts.context_key = :context_key
"""

# Tenant, key, context and bucket are active and of the versions that the upload was judged by, and the key has not
# expired. Uploads of users have no key.
_UNCHANGED: Final = """
       contexts.tenant_id = :tenant_id
   AND contexts.context_id = :context_id
   AND contexts.status = 'active'
   AND contexts.rules_version = :rules_version
   AND coalesce(contexts.storage_config_id,
                (SELECT config_id FROM default_buckets WHERE tenant_id = :tenant_id)) IS :storage_config_id
   AND NOT EXISTS (SELECT 1 FROM storage_configs
                    WHERE tenant_id = :tenant_id AND config_id = :storage_config_id
                      AND updated_at IS NOT :bucket_changed_at)
   AND EXISTS (SELECT 1 FROM tenants
                WHERE tenant_id = :tenant_id AND status = 'active' AND plan = :plan)
   AND NOT EXISTS (SELECT 1 FROM hash_entry_counts
                    WHERE tenant_id IN (:tenant_id, '*') AND entries > 0
                      AND instr(:hash_algorithms, list || ':' || algorithm) = 0)
   AND (:key_id IS NULL
        OR EXISTS (SELECT 1 FROM api_keys
                    WHERE api_key_id = :key_id
                      AND tenant_id = :tenant_id
                      AND status = 'active'
                      AND updated_at IS :key_changed_at
                      AND (expires_at IS NULL OR expires_at > :created_at)))
"""

# Take the file's bytes from the context's quota, if nothing has changed and there is room, and write the file's pending
# row.
RESERVE: Final = (
    f"""
UPDATE contexts
   SET storage_used_bytes = storage_used_bytes + :size_bytes
 WHERE {_UNCHANGED}
   AND (storage_quota_mb IS NULL OR storage_used_bytes + :size_bytes <= storage_quota_mb * 1048576)
RETURNING context_id
""",  # noqa: S608  (composed of constants)
    """
INSERT INTO files (file_id, tenant_id, context_id, context_key, state, original_filename, content_type, size_bytes,
                   sha256, storage_config_id, object_key, uploaded_by, uploaded_by_name, metadata, download_count,
                   report_id, created_at, lease_until, scanned_with, scanned_at)
VALUES (:file_id, :tenant_id, :context_id, :context_key, 'pending', :original_filename, :content_type, :size_bytes,
        :sha256, :storage_config_id, :object_key, :uploaded_by, :uploaded_by_name, :metadata, 0, :report_id,
        :created_at, strftime('%Y-%m-%d %H:%M:%f000', 'now', :lease_seconds || ' seconds'),
        :scanned_with, :scanned_at)
RETURNING file_id
""",
)

# The same for an upload with an idempotency key, if it still has the key, whose row then names the file.
RESERVE_WITH_KEY: Final = (
    """
UPDATE idempotency_keys
   SET file_id = :file_id,
       lease_until = strftime('%Y-%m-%d %H:%M:%f000', 'now', :key_lease_seconds || ' seconds')
 WHERE tenant_id = :tenant_id AND key_hash = :key_hash AND report_id = :key_report_id
RETURNING key_hash
""",
    *RESERVE,
)

_WRITE_EVENT: Final = """
INSERT INTO events (event_id, tenant_id, type, created_at, data)
VALUES (:event_id, :tenant_id, :event_type, :created_at, :event_data)
RETURNING event_id
"""

_LOG_DECISION: Final = """
INSERT INTO decisions (report_id, tenant_id, file_id, context_key, mode, rules, rules_version, facts, engines, outcome,
                       reason, detail, actor, created_at, original_filename, actor_id, duration_ms, repeat_key)
VALUES (:report_id, :tenant_id, :file_id, :context_key, :mode, :rules, :rules_version, :facts, :engines, :outcome,
        :reason, :detail, :actor, :created_at, :original_filename, :actor_id, :duration_ms, :repeat_key)
RETURNING report_id
"""

# Make a pending file visible, until `life_seconds` are over (null: for good), write its event, and log its decision.
RECORD: Final = (
    """
UPDATE files
   SET state = 'stored',
       lease_until = NULL,
       due_at = strftime('%Y-%m-%d %H:%M:%f000', 'now', :life_seconds || ' seconds'),
       quarantined_at = :quarantined_at
 WHERE tenant_id = :tenant_id AND file_id = :stored_id AND state = 'pending'
RETURNING file_id
""",
    _WRITE_EVENT,
    _LOG_DECISION,
)

# Write the event of a rejected upload, and log its decision.
REJECT: Final = (_WRITE_EVENT, _LOG_DECISION)
