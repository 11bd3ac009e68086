# Growing buffers, and the bounds-checked cursor through which all reads of a request go.

ctypedef const uint8_t* Bytes

cdef struct Chunk:
    # Borrowed bytes: of the request body, or of a buffer that outlives the chunk.
    Bytes at
    size_t size

cdef struct Buf:
    # Owned bytes. `cap` is the allocated size. A zeroed Buf is empty.
    uint8_t* data
    size_t size
    size_t cap


cdef int grow(Buf* buf, size_t extra) except -1 nogil:
    cdef size_t cap = buf.cap * 2 if buf.cap else 256
    while cap < buf.size + extra:
        cap *= 2
    cdef void* data = realloc(buf.data, cap)
    if data == NULL:
        with gil:
            raise MemoryError
    buf.data = <uint8_t*> data
    buf.cap = cap
    return 0


cdef inline int reserve(Buf* buf, size_t extra) except -1 nogil:
    if buf.cap - buf.size < extra:
        grow(buf, extra)
    return 0


cdef inline int put(Buf* buf, const void* data, size_t size) except -1 nogil:
    if size == 0:
        return 0
    reserve(buf, size)
    memcpy(buf.data + buf.size, data, size)
    buf.size += size
    return 0


cdef inline int put_u8(Buf* buf, uint8_t value) except -1 nogil:
    reserve(buf, 1)
    buf.data[buf.size] = value
    buf.size += 1
    return 0


cdef inline int put_u32(Buf* buf, uint32_t value) except -1 nogil:
    reserve(buf, 4)
    memcpy(buf.data + buf.size, &value, 4)
    buf.size += 4
    return 0


cdef inline int put_u64(Buf* buf, uint64_t value) except -1 nogil:
    reserve(buf, 8)
    memcpy(buf.data + buf.size, &value, 8)
    buf.size += 8
    return 0


cdef inline int put_f64(Buf* buf, double value) except -1 nogil:
    reserve(buf, 8)
    memcpy(buf.data + buf.size, &value, 8)
    buf.size += 8
    return 0


cdef inline int put_chunk(Buf* buf, Chunk chunk) except -1 nogil:
    return put(buf, chunk.at, chunk.size)


cdef inline int put_literal(Buf* buf, const char* text) except -1 nogil:
    return put(buf, text, strlen(text))


cdef inline int put_varint(Buf* buf, uint64_t value) except -1 nogil:
    reserve(buf, 10)
    while value > 127:
        buf.data[buf.size] = <uint8_t> (value & 127) | 128
        buf.size += 1
        value >>= 7
    buf.data[buf.size] = <uint8_t> value
    buf.size += 1
    return 0


cdef inline int put_string(Buf* buf, Chunk text) except -1 nogil:
    # A string in ClickHouse's Native format: its length as a varint, then its bytes.
    cdef uint8_t* out
    reserve(buf, text.size + 10)
    out = buf.data + buf.size
    if text.size == 0:
        out[0] = 0
        buf.size += 1
        return 0
    if text.size < 128:
        out[0] = <uint8_t> text.size
        memcpy(out + 1, text.at, text.size)
        buf.size += text.size + 1
        return 0
    put_varint(buf, text.size)
    memcpy(buf.data + buf.size, text.at, text.size)
    buf.size += text.size
    return 0


cdef inline Chunk chunk_of(Buf* buf, size_t start) noexcept nogil:
    # The bytes written since `start`; valid until the buffer grows.
    cdef Chunk chunk
    chunk.at = buf.data + start
    chunk.size = buf.size - start
    return chunk


cdef inline Chunk literal(const char* text) noexcept nogil:
    cdef Chunk chunk
    chunk.at = <Bytes> text
    chunk.size = strlen(text)
    return chunk


cdef inline uint64_t load_word(Bytes at, size_t size) noexcept nogil:
    # The last bytes of `size`, at most 8, as a number, padded with zeros.
    cdef uint64_t word = 0
    cdef uint32_t low = 0, high = 0
    if size >= 8:
        memcpy(&word, at + size - 8, 8)
        return word
    if size >= 4:
        memcpy(&low, at, 4)
        memcpy(&high, at + size - 4, 4)
        return <uint64_t> high << 32 | low
    if size:
        word = at[0] | <uint64_t> at[size >> 1] << 8 | <uint64_t> at[size - 1] << 16
    return word


cdef inline bint same(Chunk a, Chunk b) noexcept nogil:
    cdef uint64_t left = 0, right = 0
    if a.size != b.size:
        return False
    if a.size <= 8:
        return load_word(a.at, a.size) == load_word(b.at, b.size)
    if a.size <= 16:
        memcpy(&left, a.at, 8)
        memcpy(&right, b.at, 8)
        return left == right and load_word(a.at, a.size) == load_word(b.at, b.size)
    return memcmp(a.at, b.at, a.size) == 0


cdef inline uint32_t* u32s(Buf* buf) noexcept nogil:
    return <uint32_t*> buf.data


cdef inline size_t count_u32(Buf* buf) noexcept nogil:
    return buf.size >> 2


cdef void release(Buf* bufs, size_t count) noexcept nogil:
    cdef size_t i
    for i in range(count):
        free(bufs[i].data)
        bufs[i].data = NULL
        bufs[i].size = 0
        bufs[i].cap = 0


cdef void empty(Buf* bufs, size_t count) noexcept nogil:
    # Removes the bytes and keeps the memory.
    cdef size_t i
    for i in range(count):
        bufs[i].size = 0


cdef void trim(Buf* bufs, size_t count) noexcept nogil:
    # Reduces the memory of buffers that grow no more to what they need. Copies, because shrinking in place would leave
    # fragments that are too small for new buffers; a freed buffer has the initial size of the next ones.
    cdef size_t i
    cdef void* data
    for i in range(count):
        if bufs[i].size == 0:
            release(&bufs[i], 1)
        elif bufs[i].size < bufs[i].cap:
            data = realloc(NULL, bufs[i].size)
            if data != NULL:
                memcpy(data, bufs[i].data, bufs[i].size)
                free(bufs[i].data)
                bufs[i].data = <uint8_t*> data
                bufs[i].cap = bufs[i].size


cdef size_t capacity(const Buf* bufs, size_t count) noexcept nogil:
    cdef size_t i, total = 0
    for i in range(count):
        total += bufs[i].cap
    return total


# --- protobuf's wire format ------------------------------------------------------------------------------------------

cdef enum:
    VARINT = 0
    FIXED64 = 1
    LENGTH = 2
    GROUP = 3
    GROUP_END = 4
    FIXED32 = 5

cdef enum:
    # Results of a walk other than success.
    END = 0
    FIELD = 1
    MALFORMED = -2
    TOO_DEEP = -3
    TOO_MANY_ITEMS = -4
    TOO_MANY_PARTS = -5
    RESOURCES_TOO_LARGE = -6

cdef struct Cursor:
    Bytes at
    Bytes end

cdef struct Field:
    uint32_t number
    uint32_t wire
    uint64_t value      # for VARINT, FIXED64, FIXED32
    Chunk chunk         # for LENGTH


cdef inline Cursor cursor(Chunk chunk) noexcept nogil:
    cdef Cursor c
    c.at = chunk.at
    c.end = chunk.at + chunk.size
    return c


cdef inline int read_varint(Cursor* c, int max_bytes, uint64_t* out) noexcept nogil:
    # 0, or MALFORMED. Callers check the width of what fits in fewer bits.
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int i
    if c.at < c.end and c.at[0] < 128:
        out[0] = c.at[0]
        c.at += 1
        return 0
    for i in range(max_bytes):
        if c.at >= c.end:
            return MALFORMED
        byte = c.at[0]
        c.at += 1
        if i == 9 and byte > 1:
            return MALFORMED
        value |= <uint64_t> (byte & 127) << (7 * i)
        if byte < 128:
            out[0] = value
            return 0
    return MALFORMED


cdef inline int read_tag(Cursor* c, uint32_t* number, uint32_t* wire) noexcept nogil:
    cdef uint64_t tag = 0
    if read_varint(c, 5, &tag) < 0 or tag >> 32 or tag >> 3 == 0:
        return MALFORMED
    number[0] = <uint32_t> (tag >> 3)
    wire[0] = <uint32_t> (tag & 7)
    return 0


cdef inline int read_value(Cursor* c, Field* field) noexcept nogil:
    # The value of a field whose tag was read, for all wire types except groups.
    cdef uint64_t size = 0
    cdef uint32_t half
    if field.wire == LENGTH:
        if read_varint(c, 5, &size) < 0 or size > <uint64_t> (c.end - c.at):
            return MALFORMED
        field.chunk.at = c.at
        field.chunk.size = size
        c.at += size
    elif field.wire == VARINT:
        return read_varint(c, 10, &field.value)
    elif field.wire == FIXED64:
        if c.end - c.at < 8:
            return MALFORMED
        memcpy(&field.value, c.at, 8)
        c.at += 8
    elif field.wire == FIXED32:
        if c.end - c.at < 4:
            return MALFORMED
        memcpy(&half, c.at, 4)
        field.value = half
        c.at += 4
    else:
        return MALFORMED
    return 0


cdef int skip_group(Cursor* c, uint32_t number, int depth) noexcept nogil:
    cdef Field field
    cdef int status
    if depth > GROUP_DEPTH:
        return TOO_DEEP
    while True:
        if read_tag(c, &field.number, &field.wire) < 0:
            return MALFORMED
        if field.wire == GROUP_END:
            return 0 if field.number == number else MALFORMED
        if field.wire == GROUP:
            status = skip_group(c, field.number, depth + 1)
        else:
            status = read_value(c, &field)
        if status < 0:
            return status


cdef inline int next_field(Cursor* c, Field* field) noexcept nogil:
    # FIELD, END, MALFORMED or TOO_DEEP. A group is skipped completely and returned as a field of wire type GROUP.
    cdef int status
    cdef size_t size
    if c.at >= c.end:
        return END
    if c.end - c.at > 1 and 8 <= c.at[0] < 128 and (c.at[0] & 7) == LENGTH and c.at[1] < 128:
        # Fast path for the usual field: a short string or message with a small number.
        size = c.at[1]
        if size > <size_t> (c.end - c.at) - 2:
            return MALFORMED
        field.number = c.at[0] >> 3
        field.wire = LENGTH
        field.chunk.at = c.at + 2
        field.chunk.size = size
        c.at += size + 2
        return FIELD
    if read_tag(c, &field.number, &field.wire) < 0:
        return MALFORMED
    if field.wire == GROUP:
        status = skip_group(c, field.number, 1)
    else:
        status = read_value(c, field)
    return status if status < 0 else FIELD
