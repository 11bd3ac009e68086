"""The tables of the first release, in one step."""

from alembic import op

from chassis.db.migrations.baseline import statements

revision = "0023"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    for statement in statements(connection.dialect.name):
        connection.exec_driver_sql(statement)
