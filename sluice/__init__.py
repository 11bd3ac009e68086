"""The `sluice` command, which assembles the services. No other package imports this one.

    main               parses the command line; a StartupError becomes one sentence and an exit code
    commands           the sub-commands and their options, as rows (`client_commands` has some of them)
    options            the types of the rows, and of the values of options
    cli/               the sub-commands, one module per subject
    settings_sources   settings of all services from file, environment and command line
    extras             checks which extras of the package are installed, and names the extras that a command lacks
    data_dir           the data directory: private, writable, locked, not copied while in use; its sockets
    backup/            backups of the embedded stores, and their restores
    interface          the OpenAPI document of all services as data (`openapi.json`), for the `/docs` page of each
    all_services       all services in one process: `sluice up`
    app_builder        builds one application from settings and services
    process            runs one coroutine in an event loop; an error of a store becomes one sentence
    supervisor         several worker processes on one port
    handover           passes listening sockets to the next supervisor on the port

`main.main` parses the options and calls `cli.up.run`, which prepares and locks the data directory (`data_dir.locked`),
prints that Sluice is starting, and imports and calls `all_services.run`. This function binds the port, migrates the
relational schema, creates the first organization (`all_services._bootstrap`), builds the application
(`app_builder.compose_app`) and serves it. ClickHouse is migrated when it is opened. `cli.serve_one.run` runs a single
service: it checks schemas, but does not migrate them. A sub-command imports only the services that it runs.
"""

__version__ = "0.1.0"
