"""Process-level services: settings, telemetry, health, memory, file descriptors, periodic tasks.

At its start a process loads its settings (`settings_loader.Settings.load`), configures logging
(`telemetry.configure_logging`) and tunes malloc (`memory.tune_malloc`). While the process runs, `telemetry.Telemetry`
counts requests and `health.Health` probes the dependencies for `/readyz`.
"""
