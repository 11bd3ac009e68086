"""Object stores behind one interface: an object is stored under a new key, or not at all.

    store       the interface
    signing     the signatures of S3 and Google Cloud Storage
    s3          S3 and compatible stores, and the XML interface of Google Cloud Storage
    azure       Azure Blob Storage
    opening     the store of a config

Every request goes through the guarded client (`control.outbound.egress`): tenants name the addresses.
"""
