"""The OTLP endpoints: handlers, decoding, responses, errors."""
