"""The first schema."""

import sqlalchemy as sa
from alembic import op

from sluice.db.sql import Document, Moment

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("plan", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_tenants")),
    )
    op.create_table(
        "api_keys",
        sa.Column("api_key_id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("key_prefix", sa.String(length=64), nullable=False),
        sa.Column("mode", sa.String(length=8), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("scopes", Document, nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("metadata", Document, nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("updated_at", Moment(), nullable=True),
        sa.Column("expires_at", Moment(), nullable=True),
        sa.Column("last_used_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_api_keys_tenant_id")),
        sa.PrimaryKeyConstraint("api_key_id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("key_prefix", name=op.f("uq_api_keys_key_prefix")),
    )
    op.create_index("ix_api_keys_listing", "api_keys", ["tenant_id", "api_key_id"], unique=False)
    op.create_table(
        "decisions",
        sa.Column("report_id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("file_id", sa.String(length=64), nullable=True),
        sa.Column("context_key", sa.String(length=100), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("rules", Document, nullable=False),
        sa.Column("rules_version", sa.Integer(), nullable=False),
        sa.Column("facts", Document, nullable=False),
        sa.Column("engines", Document, nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("detail", sa.String(length=1000), nullable=False),
        sa.Column("actor", Document, nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_decisions_tenant_id")),
        sa.PrimaryKeyConstraint("report_id", name=op.f("pk_decisions")),
    )
    op.create_index("ix_decisions_age", "decisions", ["created_at"], unique=False)
    op.create_index("ix_decisions_listing", "decisions", ["tenant_id", "report_id"], unique=False)
    op.create_table(
        "plan_usage",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("uploads", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_plan_usage_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "month", name=op.f("pk_plan_usage")),
    )
    op.create_table(
        "storage_configs",
        sa.Column("config_id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("access_key_id", sa.String(length=128), nullable=False),
        sa.Column("secret_sealed", sa.String(), nullable=False),
        sa.Column("region", sa.String(length=64), nullable=False),
        sa.Column("default_bucket", sa.String(length=63), nullable=False),
        sa.Column("base_path", sa.String(length=500), nullable=False),
        sa.Column("endpoint_url", sa.String(length=500), nullable=True),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("updated_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_storage_configs_tenant_id")),
        sa.PrimaryKeyConstraint("config_id", name=op.f("pk_storage_configs")),
        sa.UniqueConstraint("tenant_id", "config_id", name=op.f("uq_storage_configs_tenant_id_config_id")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_storage_configs_tenant_id_name")),
    )
    op.create_table(
        "contexts",
        sa.Column("context_id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("context_key", sa.String(length=100), nullable=False),
        sa.Column("display_name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=1000), nullable=True),
        sa.Column("allowed_extensions", Document, nullable=False),
        sa.Column("max_file_size_mb", sa.Integer(), nullable=False),
        sa.Column("storage_path_template", sa.String(length=500), nullable=False),
        sa.Column("reject_blank_files", sa.Boolean(), nullable=False),
        sa.Column("reject_corrupt_files", sa.Boolean(), nullable=False),
        sa.Column("scan_for_viruses", sa.Boolean(), nullable=False),
        sa.Column("rate_max_uploads", sa.Integer(), nullable=True),
        sa.Column("rate_window_seconds", sa.Integer(), nullable=True),
        sa.Column("storage_quota_mb", sa.Integer(), nullable=True),
        sa.Column("storage_used_bytes", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("metadata", Document, nullable=False),
        sa.Column("storage_config_id", sa.String(length=64), nullable=True),
        sa.Column("rules_version", sa.Integer(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("updated_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id", "storage_config_id"],
            ["storage_configs.tenant_id", "storage_configs.config_id"],
            name=op.f("fk_contexts_tenant_id_storage_config_id"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_contexts_tenant_id")),
        sa.PrimaryKeyConstraint("context_id", name=op.f("pk_contexts")),
        sa.UniqueConstraint("tenant_id", "context_key", name=op.f("uq_contexts_tenant_id_context_key")),
    )
    op.create_table(
        "default_buckets",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("config_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "config_id"],
            ["storage_configs.tenant_id", "storage_configs.config_id"],
            name=op.f("fk_default_buckets_tenant_id_config_id"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_default_buckets_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_default_buckets")),
    )
    op.create_table(
        "files",
        sa.Column("file_id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("context_id", sa.String(length=64), nullable=False),
        sa.Column("context_key", sa.String(length=100), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("original_filename", sa.String(length=255), nullable=False),
        sa.Column("content_type", sa.String(length=255), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("storage_config_id", sa.String(length=64), nullable=True),
        sa.Column("object_key", sa.String(length=2000), nullable=False),
        sa.Column("uploaded_by", sa.String(length=255), nullable=False),
        sa.Column("uploaded_by_name", sa.String(length=255), nullable=False),
        sa.Column("metadata", Document, nullable=False),
        sa.Column("download_count", sa.Integer(), nullable=False),
        sa.Column("last_downloaded_at", Moment(), nullable=True),
        sa.Column("plan_month", sa.String(length=7), nullable=True),
        sa.Column("report_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("lease_until", Moment(), nullable=True),
        sa.Column("due_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], name=op.f("fk_files_context_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_files_tenant_id")),
        sa.PrimaryKeyConstraint("file_id", name=op.f("pk_files")),
    )
    op.create_index("ix_files_by_context", "files", ["tenant_id", "context_key", "state", "file_id"], unique=False)
    op.create_index("ix_files_by_uploader", "files", ["tenant_id", "uploaded_by", "state", "file_id"], unique=False)
    op.create_index("ix_files_due", "files", ["state", "due_at"], unique=False)
    op.create_index("ix_files_leases", "files", ["state", "lease_until"], unique=False)
    op.create_index("ix_files_listing", "files", ["tenant_id", "state", "file_id"], unique=False)
