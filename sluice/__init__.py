"""The command: where the services are put together. Nothing imports this package.

    main        which sub-command, with which options; a StartupError becomes one sentence and an exit code
    options     settings of all services from file, environment and command line
    extras      what of the package's extras is installed; without one a command says what to install
    data        the data directory: private, writable, one `up` at a time
    interface   what all services answer, as data (`openapi.json`), for the page of each
    services    settings -> services -> one application
    process     an event loop for one piece of work; a store's fault becomes one sentence
    workers     several such processes on one port

`sluice up` (in `up`) walks: data directory, port, migrations, first-run bootstrap, services, serve. A service alone (in
`alone`) checks schemas instead of migrating them. A sub-command imports only the service that it runs.
"""

__version__ = "0.1.0"
