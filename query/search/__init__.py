"""Lists of spans and log records: pages of rows, newest first (`listing`), serialized to objects of the API
(`serializers`).
"""
