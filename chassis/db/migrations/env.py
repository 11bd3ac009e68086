"""Alembic runs this file to apply the versions on the connection of `chassis.db.migrations`, inside its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
