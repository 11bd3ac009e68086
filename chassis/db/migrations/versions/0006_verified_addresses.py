"""Several accounts of one e-mail address: at most one verified, the others confined to one organization each."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# The organization that the account joined first; NULL for an account that is not a member of any.
_HOME = (
    "SELECT org_id FROM memberships WHERE memberships.principal_id = users.principal_id"
    " ORDER BY created_at, org_id LIMIT 1"
)
_KEPT = (
    "principal_id, email, email_verified, password_hash, totp_secret, totp_confirmed_at, totp_step, locale, theme,"
    " avatar_url, created_at"
)
_CHECK = "NOT (email_verified AND home_org_id IS NOT NULL)"
_VERIFIED = sa.text("email_verified")


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _rebuild_users()
    else:
        _alter_users()
    op.create_index(
        "ix_users_email", "users", ["email"], unique=True, sqlite_where=_VERIFIED, postgresql_where=_VERIFIED
    )
    _email_verifications()
    op.add_column("invitations", sa.Column("mailed", sa.Boolean, server_default=sa.false(), nullable=False))


def _alter_users() -> None:
    op.drop_constraint("uq_users_email", "users", type_="unique")
    op.add_column("users", sa.Column("home_org_id", text(32)))
    op.create_foreign_key("fk_users_home_org_id", "users", "organizations", ["home_org_id"], ["id"])
    op.execute(f"UPDATE users SET home_org_id = ({_HOME}) WHERE NOT email_verified")
    op.create_check_constraint("ck_users_home_org_id", "users", _CHECK)
    op.create_unique_constraint("uq_users_email_home_org_id", "users", ["email", "home_org_id"])


def _rebuild_users() -> None:
    """SQLite cannot drop a constraint. The rows that reference the table are moved as well: dropping a table deletes
    its rows first, and foreign keys are enforced within a transaction.
    """
    op.execute(f"CREATE TABLE moved_users AS SELECT {_KEPT}, ({_HOME}) AS home_org_id FROM users")
    op.execute("CREATE TABLE moved_codes AS SELECT principal_id, hash, used_at FROM recovery_codes")
    op.execute("DELETE FROM recovery_codes")
    op.drop_table("users")
    _users()
    home = "CASE WHEN email_verified THEN NULL ELSE home_org_id END"
    op.execute(f"INSERT INTO users ({_KEPT}, home_org_id) SELECT {_KEPT}, {home} FROM moved_users")
    op.execute("INSERT INTO recovery_codes (principal_id, hash, used_at) SELECT * FROM moved_codes")
    op.drop_table("moved_users")
    op.drop_table("moved_codes")


def _users() -> None:
    op.create_table(
        "users",
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("email", text(254), nullable=False),
        sa.Column("email_verified", sa.Boolean, nullable=False),
        sa.Column("password_hash", text(200)),
        sa.Column("totp_secret", sa.LargeBinary(512)),
        sa.Column("totp_confirmed_at", UtcTime),
        sa.Column("totp_step", sa.BigInteger),
        sa.Column("locale", text(35), nullable=False),
        sa.Column("theme", text(16), nullable=False),
        sa.Column("avatar_url", text(2048)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("home_org_id", text(32)),
        sa.PrimaryKeyConstraint("principal_id", name="pk_users"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_users_principal_id"),
        sa.ForeignKeyConstraint(["home_org_id"], ["organizations.id"], name="fk_users_home_org_id"),
        sa.UniqueConstraint("email", "home_org_id", name="uq_users_email_home_org_id"),
        sa.CheckConstraint(_CHECK, name="ck_users_home_org_id"),
    )


def _email_verifications() -> None:
    op.create_table(
        "email_verifications",
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("email", text(254), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("principal_id", name="pk_email_verifications"),
        sa.ForeignKeyConstraint(["principal_id"], ["users.principal_id"], name="fk_email_verifications_principal_id"),
    )
