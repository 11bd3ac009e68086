-- What was cut: a JSON list of the path and the size as sent of each text; empty text for nothing (docs/codec.md). Rows of
-- earlier releases have nothing, whatever was cut.
ALTER TABLE spans ADD COLUMN IF NOT EXISTS truncations String CODEC(ZSTD(1));
ALTER TABLE logs ADD COLUMN IF NOT EXISTS truncations String CODEC(ZSTD(1));
