"""The OTLP endpoints over HTTP. One request after admission (`gateway` has all steps):

    ExportHandlers.export_traces, export_logs    the flat list of steps for both signals
    request_media                                the encoding of the body; 415 for others
    ExportSteps.ingest                           what `gateway.export` does for every protocol
    OtlpResponses.success, error                 renders the response, and counts refusals

`openapi` declares the same operations for `/openapi.json`.
"""
