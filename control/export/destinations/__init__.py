"""Object stores and warehouses, each behind one interface. An object is stored under a new key, or not at all. A file
is loaded once.

    interfaces      the interfaces of both; `control.export.sink_destination` combines them by the config of a sink
    object_stores   S3 and compatible stores, the XML interface of Google Cloud Storage, and Azure Blob Storage
    replies         interprets the error responses of object stores
    snowflake       COPY from an external stage, by the SQL API
    bigquery        load jobs, by the REST API

Every request goes through the guarded client (`control.outbound.egress`), because tenants name the addresses.
"""
