"""One export request, whatever protocol it came over. HTTP (`gateway.http`) and gRPC (`gateway.grpc`) authenticate it,
read its body and render the result; the steps between are here:

    ExportSteps.admit             quota and ingest: can the request be taken; before its body is read
    ExportSteps.lease             its part of the memory budget
    ExportSteps.ingest            decompresses, decodes, reserves the quota, submits
      Decoder.decompress, decode  columns and outcomes, in a thread if the body is large
      find_field_errors           for a malformed JSON body, one issue per field
    count_refused                 the outcome of a request that ends with an error
"""
