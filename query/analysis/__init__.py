"""Analysis of many spans at once. Each endpoint module has its request, `plan`, `read` and response.

attributes                which keys spans carry, and which of them are numeric
  attribute_usage         counts keys from attribute lists that many spans share
aggregate                 aggregates of groups of spans, over time
figures                   several figures of groups of spans, by up to three keys, over time
heatmap                   spans by time and by a number on a logarithmic scale
service_map               services and the calls between them
  time_buckets            the time buckets of a series
  aggregate_json          aggregates as JSON, and their values without spans
compare                   what distinguishes the spans of a spike
  cohort_sizes            the number of spans of both cohorts, and the sampling rate
  comparison              values that the reads of a comparison share
  candidate_pairs         pairs of key and value that the spike's spans have, and their counts in both cohorts
  low_cardinality_pairs   such pairs of built-in fields, resources and scopes, whose columns are dictionaries
  key_index               the locations of attribute keys
  significance            the statistics computed from the counts
scan_limit                the newest part of a window within the scan limit
"""
