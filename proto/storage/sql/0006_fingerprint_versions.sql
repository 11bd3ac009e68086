-- The version of the rules that made the fingerprint (docs/adr/041-upgrade-of-grouping.md). Rows of earlier releases, and
-- those that their gateways still insert while a new release is deployed, are of version 1.
ALTER TABLE error_occurrences ADD COLUMN IF NOT EXISTS fingerprint_version UInt8 DEFAULT 1 CODEC(ZSTD(1));
