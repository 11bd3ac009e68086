"""The OTLP endpoints. One request after admission (`gateway` has all steps):

    ExportHandlers.export_traces, export_logs    the flat list of steps for both signals
    request_media                                the encoding of the body; 415 for others
    Decoder.decompress, Decoder.decode           columns and outcomes, in a thread if the body is large
    find_field_errors                            for a malformed JSON body, one issue per field of the 400
    OtlpResponses.success, error                 renders the response, and counts refusals

`openapi` declares the same operations for `/openapi.json`.
"""
