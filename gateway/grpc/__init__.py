"""The OTLP services over gRPC, on grpcio's asyncio server. The path of one `Export` call
(`service.ExportService._export`), with the codes that each step can refuse with:

    Connections                  counts connections, in all and by address (`gateway.grpc.connections`)
    ConnectionFraming            bounds what a client sends beside its calls (`gateway.grpc.framing`)
    server_options               bounds calls, metadata, pings and windows, before a handler runs
    RefusalCache.cached_error    is the client's limit used up              -> RESOURCE_EXHAUSTED
    RefusalCache.try_acquire     is a slot free                             -> UNAVAILABLE
    check_project_key            the project of the key, its rate           -> UNAUTHENTICATED, PERMISSION_DENIED,
                                                                               RESOURCE_EXHAUSTED, UNAVAILABLE
    ExportSteps.admit            quota, and whether requests are taken      -> RESOURCE_EXHAUSTED, UNAVAILABLE
    MessageReceiver.receive      the single message, as it was sent         -> INVALID_ARGUMENT, UNAVAILABLE
    ExportSteps.ingest           decompresses, decodes, journals, as over HTTP
                                                                            -> INVALID_ARGUMENT, RESOURCE_EXHAUSTED,
                                                                               UNAVAILABLE
    export_response              OK: an empty response, or a partial success
    abort_with                   any other code, with a google.rpc.Status in its details

The method is registered as a method that receives a stream. On the wire there is no difference, but the handler runs
before the message is received, so a call without a valid key needs no memory for its message.

grpcio is imported here and nowhere else; a gateway without a gRPC port does not import this package.
"""
