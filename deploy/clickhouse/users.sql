-- ClickHouse users for services that run separately: one per service, with least privilege.
-- Replace the three passwords with your own. Then run this file once as an administrator
-- (`clickhouse-client --multiquery < users.sql`), and give each service its URL: http(s)://NAME:PASSWORD@HOST:PORT/sluice.

CREATE DATABASE IF NOT EXISTS sluice;

-- `sluice migrate` creates and checks the tables, and stops their merges while it changes a setting. `sluice repair` fills
-- temporary tables and drops them. The role is only needed while one of the two commands runs.
CREATE ROLE IF NOT EXISTS sluice_schema;
GRANT CREATE DATABASE, CREATE TABLE, DROP TABLE, ALTER TABLE, SYSTEM MERGES, SELECT, INSERT ON sluice.* TO sluice_schema;

-- `sluice gateway` inserts rows, lists tables, and counts parts for its metrics. For erasures it deletes rows, and rebuilds
-- indexes in temporary tables.
CREATE ROLE IF NOT EXISTS sluice_writer;
GRANT SELECT, INSERT, ALTER DELETE, CREATE TABLE, DROP TABLE ON sluice.* TO sluice_writer;
GRANT SELECT ON system.parts TO sluice_writer;
GRANT SELECT ON system.mutations TO sluice_writer;

-- `sluice query` only reads. With readonly = 2 the service may lower its own limits, which it sends with every query
-- (1 would reject them), but it cannot write. The limits here are maximums for the limits that the service sends. The
-- service cancels its own queries when a client disconnects, which needs no privilege. A follower of the tables must see the
-- running inserts of another user in system.processes.
CREATE ROLE IF NOT EXISTS sluice_reader;
GRANT SELECT ON sluice.* TO sluice_reader;
GRANT SELECT ON system.processes TO sluice_reader;

CREATE SETTINGS PROFILE IF NOT EXISTS sluice_reader SETTINGS
    readonly = 2,
    max_execution_time = 30 MAX 600,
    max_memory_usage = 2147483648 MAX 4294967296,
    max_concurrent_queries_for_user = 32 CONST
    TO sluice_reader;

CREATE USER IF NOT EXISTS sluice_migrate IDENTIFIED WITH sha256_password BY 'replace-this-1' DEFAULT ROLE sluice_schema DEFAULT DATABASE sluice;
CREATE USER IF NOT EXISTS sluice_gateway IDENTIFIED WITH sha256_password BY 'replace-this-2' DEFAULT ROLE sluice_writer DEFAULT DATABASE sluice;
CREATE USER IF NOT EXISTS sluice_query IDENTIFIED WITH sha256_password BY 'replace-this-3' DEFAULT ROLE sluice_reader DEFAULT DATABASE sluice;

GRANT sluice_schema TO sluice_migrate;
GRANT sluice_writer TO sluice_gateway;
GRANT sluice_reader TO sluice_query;
