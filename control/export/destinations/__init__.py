"""Object stores and warehouses, each behind one interface: an object is stored under a new key, or not at all. A file
is loaded once.

    interfaces      of both; `control.export.sink_destination` chooses and combines them by the config of a sink
    object_stores   S3 and compatible stores, the XML interface of Google Cloud Storage, and Azure Blob Storage
    replies         what the answers of object stores mean
    snowflake       COPY from an external stage, by the SQL API
    bigquery        load jobs, by the REST API

Every request goes through the guarded client (`control.outbound.egress`): tenants name the addresses.
"""
