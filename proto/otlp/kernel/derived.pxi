# Rows derived from the spans and logs of a day: trace index and attribute keys. docs/codec.md section 5.

cdef struct TraceKey:
    uint64_t project_id
    uint8_t trace_id[16]
    uint64_t signal

cdef struct TraceRow:
    TraceKey key
    int64_t min_time
    int64_t max_time
    uint64_t items

cdef struct Index:
    # An open-addressing index over rows that are stored elsewhere, by the hashes of their keys.
    Buf slots
    Buf hashes

cdef struct Derived:
    Buf traces          # TraceRow
    Buf cells           # KeyCell
    Buf buckets         # BucketRow
    Index by_trace
    Index by_bucket
    Index by_cell
    Buf fresh           # NewKey
    Index by_new
    Buf days            # KeySet*
    Buf day_of          # uint32 per bucket: index into `days`
    Buf rests           # uint32 per bucket: index + 1 of the cell for keys that are not named, or 0

cdef enum:
    DERIVED_BUFS = 15
    BUCKET_SECONDS = 300

cdef struct BucketRow:
    uint64_t project_id
    uint64_t bucket

cdef struct KeyCell:
    # One row of attribute_keys.
    uint64_t project_id
    uint32_t bucket_row
    uint32_t key            # index into the dictionary
    uint64_t bucket
    Chunk text
    uint64_t spans
    uint64_t numeric


cdef int begin_index(Index* index) except -1 nogil:
    index.hashes.size = 0
    return resize_slots(&index.slots, &index.hashes, 128)


cdef inline int add_to_index(Index* index, uint64_t hashed) except -1 nogil:
    cdef size_t slots = count_u32(&index.slots), at, count
    put_u64(&index.hashes, hashed)
    count = index.hashes.size >> 3
    if count * 2 > slots:
        return resize_slots(&index.slots, &index.hashes, slots * 2)
    at = hashed & (slots - 1)
    while u32s(&index.slots)[at]:
        at = (at + 1) & (slots - 1)
    u32s(&index.slots)[at] = <uint32_t> count
    return 0


# --- traces ----------------------------------------------------------------------------------------------------------


cdef int count_trace(Derived* derived, TraceKey* key, int64_t time) except -1 nogil:
    cdef TraceRow* rows = <TraceRow*> derived.traces.data
    cdef TraceRow* row = NULL
    cdef TraceRow fresh
    cdef uint64_t hashed = 0
    cdef size_t count = derived.traces.size // sizeof(TraceRow), slots, at
    # Spans of a trace are usually adjacent.
    if count and memcmp(&rows[count - 1].key, key, sizeof(TraceKey)) == 0:
        row = &rows[count - 1]
    else:
        hashed = hash_bytes(<Bytes> key, sizeof(TraceKey))
        slots = count_u32(&derived.by_trace.slots)
        at = hashed & (slots - 1)
        while u32s(&derived.by_trace.slots)[at]:
            row = &rows[u32s(&derived.by_trace.slots)[at] - 1]
            if memcmp(&row.key, key, sizeof(TraceKey)) == 0:
                break
            row = NULL
            at = (at + 1) & (slots - 1)
    if row == NULL:
        fresh.key = key[0]
        fresh.min_time = fresh.max_time = time
        fresh.items = 1
        put(&derived.traces, &fresh, sizeof(TraceRow))
        return add_to_index(&derived.by_trace, hashed)
    row.items += 1
    if time < row.min_time:
        row.min_time = time
    if time > row.max_time:
        row.max_time = time
    return 0


cdef int count_traces(Derived* derived, Source* source, uint64_t signal) except -1 nogil:
    cdef TraceKey key
    cdef size_t row
    key.project_id = source.columns.project_id
    key.signal = signal
    for row in range(source.part.rows):
        memcpy(key.trace_id, source.part.trace_id.data + row * 16, 16)
        if signal == SIGNAL_LOGS and all_zero(key.trace_id, 16):
            continue
        count_trace(derived, &key, (<int64_t*> source.part.time.data)[row])
    return 0


cdef int put_trace_block(Block* block, Derived* derived, int64_t day) except -1 nogil:
    cdef TraceRow* rows = <TraceRow*> derived.traces.data
    cdef size_t i
    cdef uint16_t date = <uint16_t> day
    begin_column(block)
    for i in range(block.rows):
        put_u64(&block.out, rows[i].key.project_id)
    begin_column(block)
    for i in range(block.rows):
        put(&block.out, rows[i].key.trace_id, 16)
    begin_column(block)
    for i in range(block.rows):
        put_u8(&block.out, <uint8_t> rows[i].key.signal)
    begin_column(block)
    for i in range(block.rows):
        put(&block.out, &date, 2)
    begin_column(block)
    for i in range(block.rows):
        put_u64(&block.out, <uint64_t> rows[i].min_time)
    begin_column(block)
    for i in range(block.rows):
        put_u64(&block.out, <uint64_t> rows[i].max_time)
    begin_column(block)
    for i in range(block.rows):
        put_u64(&block.out, rows[i].items)
    return 0


# --- attribute keys --------------------------------------------------------------------------------------------------


cdef int bucket_row(Derived* derived, uint64_t project_id, uint64_t bucket, uint32_t* found) except -1 nogil:
    cdef BucketRow* rows = <BucketRow*> derived.buckets.data
    cdef BucketRow row
    cdef size_t slots = count_u32(&derived.by_bucket.slots), at
    cdef uint64_t hashed
    row.project_id = project_id
    row.bucket = bucket
    hashed = hash_bytes(<Bytes> &row, sizeof(BucketRow))
    at = hashed & (slots - 1)
    while u32s(&derived.by_bucket.slots)[at]:
        found[0] = u32s(&derived.by_bucket.slots)[at] - 1
        if memcmp(&rows[found[0]], &row, sizeof(BucketRow)) == 0:
            return 0
        at = (at + 1) & (slots - 1)
    found[0] = <uint32_t> (derived.buckets.size // sizeof(BucketRow))
    put(&derived.buckets, &row, sizeof(BucketRow))
    return add_to_index(&derived.by_bucket, hashed)


cdef inline int cell_of(Derived* derived, Dictionary* keys, uint32_t bucket, uint32_t symbol, KeyCell** found) except -1 nogil:
    cdef KeyCell* cells = <KeyCell*> derived.cells.data
    cdef KeyCell fresh
    cdef uint32_t key
    cdef size_t slots = count_u32(&derived.by_cell.slots), at
    cdef uint64_t hashed
    translate(keys, symbol, &key)
    hashed = (<uint64_t> bucket << 32 | key) * 0x9E3779B97F4A7C15ULL
    hashed ^= hashed >> 32
    at = hashed & (slots - 1)
    while u32s(&derived.by_cell.slots)[at]:
        found[0] = &cells[u32s(&derived.by_cell.slots)[at] - 1]
        if found[0].key == key and found[0].bucket_row == bucket:
            return 0
        at = (at + 1) & (slots - 1)
    fresh.project_id = (<BucketRow*> derived.buckets.data)[bucket].project_id
    fresh.bucket = (<BucketRow*> derived.buckets.data)[bucket].bucket
    fresh.bucket_row = bucket
    fresh.key = key
    fresh.text = chunks(&keys.values)[key]
    fresh.spans = fresh.numeric = 0
    put(&derived.cells, &fresh, sizeof(KeyCell))
    add_to_index(&derived.by_cell, hashed)
    found[0] = <KeyCell*> (derived.cells.data + derived.cells.size - sizeof(KeyCell))
    return 0


cdef struct Run:
    # Consecutive rows of one bucket, resource and scope, counted together.
    uint32_t bucket
    uint32_t resource
    uint32_t scope
    uint64_t rows


cdef int count_keys(Derived* derived, Dictionary* keys, Source* source) except -1 nogil:
    cdef Part* part = source.part
    cdef Attributes* own = &part.attributes
    cdef size_t row, i, keys_at = 0, numbers_at = 0
    cdef uint64_t time, since = 1, until = 0
    cdef KeyCell* cell = NULL
    cdef Run run
    memset(&run, 0, sizeof(Run))
    use_symbols(keys, &source.columns.symbols)
    for row in range(part.rows):
        time = (<uint64_t*> part.time.data)[row] // 1000000000
        if time < since or time >= until:
            end_run(derived, keys, source, &run)
            since = time - time % BUCKET_SECONDS
            until = since + BUCKET_SECONDS
            bucket_row(derived, source.columns.project_id, since, &run.bucket)
        for i in range(keys_at, keys_at + u32s(&own.counts)[row]):
            cell_of(derived, keys, run.bucket, u32s(&own.keys)[i], &cell)
            cell.spans += 1
        for i in range(numbers_at, numbers_at + u32s(&own.number_counts)[row]):
            cell_of(derived, keys, run.bucket, u32s(&own.number_keys)[i], &cell)
            cell.numeric += 1
        if run.resource != u32s(&part.resource)[row] or run.scope != u32s(&part.scope)[row] or part.prefixed.data[row]:
            end_run(derived, keys, source, &run)
            run.resource = u32s(&part.resource)[row]
            run.scope = u32s(&part.scope)[row]
        run.rows += 1
        if part.prefixed.data[row]:
            end_hiding_run(derived, keys, source, &run, row, keys_at)
        keys_at += u32s(&own.counts)[row]
        numbers_at += u32s(&own.number_counts)[row]
    return end_run(derived, keys, source, &run)


cdef int end_run(Derived* derived, Dictionary* keys, Source* source, Run* run) except -1 nogil:
    if run.rows:
        count_origin(derived, keys, source, run, &origins(source.columns)[run.resource], SIZE_MAX, 0)
        count_origin(derived, keys, source, run, &origins(source.columns)[run.scope], SIZE_MAX, 0)
    run.rows = 0
    return 0


cdef int end_hiding_run(Derived* derived, Dictionary* keys, Source* source, Run* run, size_t row, size_t keys_at) except -1 nogil:
    # A run of one row, whose attributes may have the same names as attributes of its resource or scope.
    count_origin(derived, keys, source, run, &origins(source.columns)[run.resource], row, keys_at)
    count_origin(derived, keys, source, run, &origins(source.columns)[run.scope], row, keys_at)
    run.rows = 0
    return 0


cdef int count_origin(
    Derived* derived, Dictionary* keys, Source* source, Run* run, Origin* origin, size_t hiding_row, size_t keys_at
) except -1 nogil:
    cdef size_t i
    cdef KeyCell* cell = NULL
    for i in range(count_u32(&origin.full_keys)):
        if hiding_row == SIZE_MAX or not carries(source, hiding_row, keys_at, u32s(&origin.full_keys)[i]):
            cell_of(derived, keys, run.bucket, u32s(&origin.full_keys)[i], &cell)
            cell.spans += run.rows
    for i in range(count_u32(&origin.full_number_keys)):
        if hiding_row == SIZE_MAX or not carries(source, hiding_row, keys_at, u32s(&origin.full_number_keys)[i]):
            cell_of(derived, keys, run.bucket, u32s(&origin.full_number_keys)[i], &cell)
            cell.numeric += run.rows
    count_named(derived, keys, source, run, origin.full_name, hiding_row, keys_at)
    return count_named(derived, keys, source, run, origin.full_version, hiding_row, keys_at)


cdef int count_named(
    Derived* derived, Dictionary* keys, Source* source, Run* run, uint32_t full, size_t hiding_row, size_t keys_at
) except -1 nogil:
    cdef KeyCell* cell = NULL
    if full != UINT32_MAX and (hiding_row == SIZE_MAX or not carries(source, hiding_row, keys_at, full)):
        cell_of(derived, keys, run.bucket, full, &cell)
        cell.spans += run.rows
    return 0


cdef int compare_cells(const void* left, const void* right) noexcept nogil:
    cdef const KeyCell* a = <const KeyCell*> left
    cdef const KeyCell* b = <const KeyCell*> right
    cdef int order
    if a.project_id != b.project_id:
        return -1 if a.project_id < b.project_id else 1
    if a.bucket != b.bucket:
        return -1 if a.bucket < b.bucket else 1
    if a.text.size and b.text.size:
        order = memcmp(a.text.at, b.text.at, a.text.size if a.text.size < b.text.size else b.text.size)
        if order:
            return order
    return -1 if a.text.size < b.text.size else a.text.size > b.text.size


cdef int put_key_block(Block* block, Derived* derived) except -1 nogil:
    cdef KeyCell* cells = <KeyCell*> derived.cells.data
    cdef size_t i
    cdef uint32_t index
    cdef uint32_t seconds
    qsort(cells, block.rows, sizeof(KeyCell), compare_cells)
    begin_column(block)
    for i in range(block.rows):
        put_u64(&block.out, cells[i].project_id)
    begin_column(block)
    for i in range(block.rows):
        seconds = <uint32_t> cells[i].bucket
        put_u32(&block.out, seconds)
    begin_column(block)
    put_u64(&block.out, 1)
    begin_dictionary(&block.dictionary)
    for i in range(block.rows):
        value_of(&block.dictionary, cells[i].text, hash_bytes(cells[i].text.at, cells[i].text.size), &index)
        put_u32(&block.dictionary.indexes, index)
    finish_dictionary(&block.dictionary, &block.out)
    begin_column(block)
    for i in range(block.rows):
        put_u64(&block.out, cells[i].spans)
    begin_column(block)
    for i in range(block.rows):
        put_u64(&block.out, cells[i].numeric)
    return 0
