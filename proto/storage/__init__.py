"""The ClickHouse tables, and the migrations that create them (`sql/`)."""
