# Builds blocks from requests: the columns of all rows of one table and day in the Native format. docs/codec.md section 5.

cdef struct Source:
    # The rows of one request in one block.
    Columns* columns
    Part* part

cdef struct Dictionary:
    # The LowCardinality column that is being written.
    Buf values          # Chunk per value, in order of first appearance
    Buf hashes          # uint64 per value
    Buf slots           # uint32: value + 1, or 0
    Buf indexes         # uint32 per row
    Buf known           # uint32 per symbol of the current source: its value, or UINT32_MAX
    Symbols* symbols

cdef struct Block:
    # The state of building one block. Bufs first.
    Buf out
    Buf sources         # Source
    Dictionary dictionary
    const Chunk* heads  # per column: name and type
    size_t head
    size_t rows
    void* pieces        # a Python list of bytes: the finished pieces of the block

cdef enum:
    BLOCK_BUFS = 7
    PIECE_BYTES = 1048576  # a few fit into the CPU cache, and none needs newly mapped memory


cdef inline Source* sources(Block* block) noexcept nogil:
    return <Source*> block.sources.data


cdef inline size_t count_sources(Block* block) noexcept nogil:
    return block.sources.size // sizeof(Source)


cdef int begin_block(Block* block, Buf* heads, size_t rows) except -1 nogil:
    block.out.size = 0
    block.heads = chunks(heads)
    block.head = 0
    block.rows = rows
    put_varint(&block.out, count_chunks(heads))
    return put_varint(&block.out, rows)


cdef inline int begin_column(Block* block) except -1 nogil:
    spill(block)
    block.head += 1
    return put_chunk(&block.out, block.heads[block.head - 1])


cdef inline int spill(Block* block) except -1 nogil:
    # A large block is split into pieces, so that it is in memory only once.
    if block.out.size >= PIECE_BYTES:
        hand_over(block)
    return 0


cdef int hand_over(Block* block) except -1 nogil:
    with gil:
        (<list> block.pieces).append(
            PyBytes_FromStringAndSize(<const char*> block.out.data, <Py_ssize_t> block.out.size)
        )
    block.out.size = 0
    return 0


# --- LowCardinality --------------------------------------------------------------------------------------------------


cdef int begin_dictionary(Dictionary* dictionary) except -1 nogil:
    dictionary.values.size = 0
    dictionary.hashes.size = 0
    dictionary.indexes.size = 0
    return resize_slots(&dictionary.slots, &dictionary.hashes, 64)


cdef int use_symbols(Dictionary* dictionary, Symbols* symbols) except -1 nogil:
    cdef size_t size = <size_t> symbol_count(symbols) * 4
    dictionary.symbols = symbols
    dictionary.known.size = 0
    reserve(&dictionary.known, size)
    dictionary.known.size = size
    memset(dictionary.known.data, 0xFF, size)
    return 0


cdef int value_of(Dictionary* dictionary, Chunk text, uint64_t hashed, uint32_t* value) except -1 nogil:
    cdef size_t slots = count_u32(&dictionary.slots), at = hashed & (slots - 1)
    cdef uint32_t* table = u32s(&dictionary.slots)
    cdef const uint64_t* hashes = <const uint64_t*> dictionary.hashes.data
    while table[at]:
        value[0] = table[at] - 1
        if hashes[value[0]] == hashed and same(chunks(&dictionary.values)[value[0]], text):
            return 0
        at = (at + 1) & (slots - 1)
    value[0] = <uint32_t> count_chunks(&dictionary.values)
    push_chunk(&dictionary.values, text)
    put_u64(&dictionary.hashes, hashed)
    if (<size_t> value[0] + 1) * 2 > slots:
        return resize_slots(&dictionary.slots, &dictionary.hashes, slots * 2)
    table[at] = value[0] + 1
    return 0


cdef inline int translate(Dictionary* dictionary, uint32_t symbol, uint32_t* value) except -1 nogil:
    cdef uint32_t* known = u32s(&dictionary.known)
    if known[symbol] == UINT32_MAX:
        value_of(
            dictionary,
            symbol_text(dictionary.symbols, symbol),
            (<const uint64_t*> dictionary.symbols.hashes.data)[symbol],
            &known[symbol],
        )
    value[0] = known[symbol]
    return 0


cdef inline int put_index(Dictionary* dictionary, uint32_t symbol) except -1 nogil:
    cdef uint32_t value
    translate(dictionary, symbol, &value)
    return put_u32(&dictionary.indexes, value)


cdef int put_indexes(Dictionary* dictionary, const uint32_t* symbols, size_t count) except -1 nogil:
    cdef size_t i
    cdef uint32_t* out
    reserve(&dictionary.indexes, count * 4)
    out = <uint32_t*> (dictionary.indexes.data + dictionary.indexes.size)
    for i in range(count):
        translate(dictionary, symbols[i], &out[i])
    dictionary.indexes.size += count * 4
    return 0


cdef int finish_dictionary(Dictionary* dictionary, Buf* out) except -1 nogil:
    # Writes nothing for a column without values, as ClickHouse expects for the keys of an empty Map.
    cdef size_t i, values = count_chunks(&dictionary.values), count = count_u32(&dictionary.indexes)
    cdef const uint32_t* indexes = u32s(&dictionary.indexes)
    cdef uint16_t narrow
    cdef uint64_t width = 0 if values <= 256 else (1 if values <= 65536 else 2)
    if count == 0:
        return 0
    put_u64(out, 1 << 9 | 1 << 10 | width)  # additional keys, its own dictionary, the width of an index
    put_u64(out, values)
    for i in range(values):
        put_string(out, chunks(&dictionary.values)[i])
    put_u64(out, count)
    reserve(out, count << width)
    if width == 0:
        for i in range(count):
            out.data[out.size + i] = <uint8_t> indexes[i]
    elif width == 1:
        for i in range(count):
            narrow = <uint16_t> indexes[i]
            memcpy(out.data + out.size + i * 2, &narrow, 2)
    else:
        memcpy(out.data + out.size, indexes, count * 4)
    out.size += count << width
    return 0


# --- columns ---------------------------------------------------------------------------------------------------------


cdef inline Buf* part_buf(Source* source, int which) noexcept nogil:
    return &(<Buf*> source.part)[which]


cdef int plain(Block* block, int which) except -1 nogil:
    # A column whose parts are concatenated unchanged.
    cdef size_t i
    cdef Buf* buf
    begin_column(block)
    for i in range(count_sources(block)):
        buf = part_buf(&sources(block)[i], which)
        put(&block.out, buf.data, buf.size)
    return 0


cdef int symbolic(Block* block, int which) except -1 nogil:
    cdef size_t i
    cdef Source* source
    begin_column(block)
    put_u64(&block.out, 1)
    begin_dictionary(&block.dictionary)
    for i in range(count_sources(block)):
        source = &sources(block)[i]
        use_symbols(&block.dictionary, &source.columns.symbols)
        put_indexes(&block.dictionary, u32s(part_buf(source, which)), source.part.rows)
    return finish_dictionary(&block.dictionary, &block.out)


cdef int projects(Block* block) except -1 nogil:
    cdef size_t i, row
    begin_column(block)
    for i in range(count_sources(block)):
        for row in range(sources(block)[i].part.rows):
            put_u64(&block.out, sources(block)[i].columns.project_id)
    return 0


cdef int numbering(Block* block, uint64_t batch_id, uint32_t* row) except -1 nogil:
    cdef size_t i
    begin_column(block)
    for i in range(block.rows):
        put_u64(&block.out, batch_id)
    begin_column(block)
    for i in range(block.rows):
        put_u32(&block.out, row[0])
        row[0] += 1
    return 0


cdef int put_offsets(Buf* out, Buf* counts, uint64_t* total) except -1 nogil:
    cdef size_t i
    for i in range(count_u32(counts)):
        total[0] += u32s(counts)[i]
        put_u64(out, total[0])
    return 0


cdef int attribute_map(Block* block) except -1 nogil:
    cdef size_t i
    cdef uint64_t total = 0
    cdef Source* source
    cdef Attributes* attributes
    begin_column(block)
    put_u64(&block.out, 1)
    begin_dictionary(&block.dictionary)
    for i in range(count_sources(block)):
        source = &sources(block)[i]
        attributes = &source.part.attributes
        put_offsets(&block.out, &attributes.counts, &total)
        use_symbols(&block.dictionary, &source.columns.symbols)
        put_indexes(&block.dictionary, u32s(&attributes.keys), count_u32(&attributes.keys))
    finish_dictionary(&block.dictionary, &block.out)
    for i in range(count_sources(block)):
        put_chunk(&block.out, chunk_of(&sources(block)[i].part.attributes.texts, 0))
    return 0


cdef inline Origin* origin_of(Source* source, int which, size_t row) noexcept nogil:
    return &origins(source.columns)[u32s(part_buf(source, which))[row]]


cdef inline bint carries(Source* source, size_t row, size_t keys_at, uint32_t key) noexcept nogil:
    # Whether the row, whose keys begin at `keys_at`, has an attribute `key`.
    cdef size_t i
    for i in range(keys_at, keys_at + u32s(&source.part.attributes.counts)[row]):
        if u32s(&source.part.attributes.keys)[i] == key:
            return True
    return False


cdef enum OriginSymbol:
    SERVICE_NAME
    ENVIRONMENT
    RELEASE
    WHOLE_LIST
    SCHEMA_URL
    ENTITY_REFS
    SCOPE_NAME
    SCOPE_VERSION


cdef inline uint32_t symbol_of(Origin* origin, int which) noexcept nogil:
    if which == SERVICE_NAME:
        return origin.service_name
    if which == ENVIRONMENT:
        return origin.environment
    if which == RELEASE:
        return origin.release
    if which == WHOLE_LIST:
        return origin.text
    if which == SCHEMA_URL:
        return origin.schema_url
    if which == ENTITY_REFS:
        return origin.entity_refs
    if which == SCOPE_NAME:
        return origin.name
    return origin.version


cdef int origin_symbol(Block* block, int which, int symbol) except -1 nogil:
    cdef size_t i, row
    cdef Source* source
    cdef Origin* origin
    cdef Origin* last
    cdef uint32_t value = 0
    begin_column(block)
    put_u64(&block.out, 1)
    begin_dictionary(&block.dictionary)
    for i in range(count_sources(block)):
        source = &sources(block)[i]
        last = NULL
        use_symbols(&block.dictionary, &source.columns.symbols)
        for row in range(source.part.rows):
            origin = origin_of(source, which, row)
            if origin != last:
                translate(&block.dictionary, symbol_of(origin, symbol), &value)
                last = origin
            put_u32(&block.dictionary.indexes, value)
    return finish_dictionary(&block.dictionary, &block.out)


cdef int origin_dropped(Block* block, int which) except -1 nogil:
    cdef size_t i, row
    begin_column(block)
    for i in range(count_sources(block)):
        for row in range(sources(block)[i].part.rows):
            put_u32(&block.out, origin_of(&sources(block)[i], which, row).dropped)
    return 0


# --- the tables, with the columns of proto/storage/tables.py -----------------------------------------------------------


cdef int put_span_block(Block* block, uint64_t batch_id, uint32_t* row) except -1 nogil:
    projects(block)
    plain(block, TIME)
    plain(block, OTHER)
    plain(block, TRACE_ID)
    plain(block, SPAN_ID)
    plain(block, PARENT)
    plain(block, TRACE_STATE)
    plain(block, FLAGS)
    symbolic(block, NAME)
    plain(block, KIND)
    plain(block, LEVEL)
    plain(block, TEXT)
    plain(block, EVENTS)
    plain(block, DROPPED_EVENTS)
    plain(block, LINKS)
    plain(block, DROPPED_LINKS)
    put_origin_columns(block)
    return numbering(block, batch_id, row)


cdef int put_log_block(Block* block, uint64_t batch_id, uint32_t* row) except -1 nogil:
    projects(block)
    plain(block, TIME)
    plain(block, KIND)
    plain(block, OTHER)
    plain(block, TRACE_ID)
    plain(block, SPAN_ID)
    plain(block, FLAGS)
    plain(block, LEVEL)
    symbolic(block, LABEL)
    symbolic(block, NAME)
    plain(block, TEXT)
    symbolic(block, BODY_TYPE)
    put_origin_columns(block)
    return numbering(block, batch_id, row)


cdef int put_origin_columns(Block* block) except -1 nogil:
    origin_symbol(block, RESOURCE, SERVICE_NAME)
    origin_symbol(block, RESOURCE, ENVIRONMENT)
    origin_symbol(block, RESOURCE, RELEASE)
    attribute_map(block)
    symbolic(block, TYPES)
    plain(block, DROPPED)
    origin_symbol(block, RESOURCE, WHOLE_LIST)
    origin_dropped(block, RESOURCE)
    origin_symbol(block, RESOURCE, SCHEMA_URL)
    origin_symbol(block, RESOURCE, ENTITY_REFS)
    origin_symbol(block, SCOPE, SCOPE_NAME)
    origin_symbol(block, SCOPE, SCOPE_VERSION)
    origin_symbol(block, SCOPE, WHOLE_LIST)
    origin_dropped(block, SCOPE)
    origin_symbol(block, SCOPE, SCHEMA_URL)
    return plain(block, TRUNCATIONS)
