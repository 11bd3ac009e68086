"""What layouts of the telemetry tables cost: inserting, merging, bytes on disk, and the reads of the explore API."""
