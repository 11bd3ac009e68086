"""The process: settings, telemetry, health, memory, file descriptors, periodic tasks."""
