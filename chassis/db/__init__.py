"""The database of organizations, keys and accounts: SQLAlchemy Core over SQLite or PostgreSQL, and its migrations.

A service starts with `migrations.check`, which verifies the schema, and `database.Database.start`, which creates the
connection pool. Each use is one transaction, `Database.read` or `Database.write`. If the database is unavailable, they
raise `DatabaseUnavailable` (503). `sqlite` and `postgresql` adapt the drivers.
"""
