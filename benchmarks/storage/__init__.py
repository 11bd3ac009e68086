"""The cost of layouts of the telemetry tables: inserting, merging, bytes on disk, and the reads of the explore API."""
