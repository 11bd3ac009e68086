# Decodes one log record.

cdef struct LogRecord:
    Chunk trace_id
    Chunk span_id
    Chunk severity_text
    Chunk event_name
    Encoded body
    uint64_t time
    uint64_t observed_time
    uint64_t severity_number
    uint32_t flags
    uint32_t dropped_attributes


cdef int gather_log_record(Work* work, Chunk message, LogRecord* record) except -1 nogil:
    cdef Cursor c = cursor(message)
    cdef Field field
    memset(record, 0, sizeof(LogRecord))
    work.attributes.size = 0
    work.bodies.size = 0
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH:
            if field.number == 6:
                push_chunk(&work.attributes, field.chunk)
            elif field.number == 5:
                push_chunk(&work.bodies, field.chunk)
            elif field.number == 9:
                record.trace_id = field.chunk
            elif field.number == 10:
                record.span_id = field.chunk
            elif field.number == 3:
                record.severity_text = field.chunk
            elif field.number == 12:
                record.event_name = field.chunk
        elif field.wire == FIXED64:
            if field.number == 1:
                record.time = field.value
            elif field.number == 11:
                record.observed_time = field.value
        elif field.wire == VARINT:
            if field.number == 2:
                record.severity_number = field.value
            elif field.number == 7:
                record.dropped_attributes = <uint32_t> field.value
        elif field.wire == FIXED32 and field.number == 8:
            record.flags = <uint32_t> field.value
    return 0


cdef int read_log_record(Work* work, Columns* columns, Chunk message, Place* place) except -1 nogil:
    cdef LogRecord record
    cdef Part* part = NULL
    cdef uint64_t time
    cdef uint8_t source = 0
    gather_log_record(work, message, &record)
    time = record.time
    if time == 0:
        source = 1
        time = record.observed_time
    if time == 0:
        source = 2
        time = columns.now
    if time > columns.max_time or time < columns.min_time:
        columns.rejected[<int> (TIME_IN_FUTURE if time > columns.max_time else TIME_TOO_OLD)] += 1
        return 0
    settle(work, columns, place)
    part_of_day(columns, <int64_t> (time // NANOS_PER_DAY), &part)
    put_u64(&part.time, time)
    put_u8(&part.kind, source)
    begin_cuts(work, MAX_ITEM_TRUNCATIONS)
    enter(work, "", -1)
    put_record_fields(work, part, &record)
    forget_caught(work)
    collect_all(work, &work.attributes, &record.dropped_attributes)
    put_u8(&part.prefixed, any_prefixed(work))
    put_attributes(work, &part.attributes, &columns.known)
    put_u32(&part.dropped, record.dropped_attributes)
    put_body(work, part)
    if record.severity_number >= 17:
        catch_record(work, columns, part, <int64_t> time, place)
    return accept(work, columns, part, place)


cdef int put_record_fields(Work* work, Part* part, LogRecord* record) except -1 nogil:
    cdef uint32_t symbol = 0
    put_u64(&part.other, clamped(work, record.observed_time))
    put_id(work, &part.trace_id, record.trace_id, 16)
    put_id(work, &part.span_id, record.span_id, 8)
    put_u32(&part.flags, record.flags)
    if <uint32_t> record.severity_number:
        record.severity_number = enumerated(work, record.severity_number, 24)
    else:
        record.severity_number = severity_of(record.severity_text)
    put_u8(&part.level, <uint8_t> record.severity_number)
    intern_member(work, record.severity_text, &symbol, "/severityText")
    put_u32(&part.label, symbol)
    intern_member(work, record.event_name, &symbol, "/eventName")
    return put_u32(&part.name, symbol)


cdef const char** SEVERITIES = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"]

cdef uint64_t severity_of(Chunk text) noexcept nogil:
    # The severity number with this short name, in any case: TRACE is 1, TRACE2 is 2, FATAL4 is 24. 0 for another text.
    cdef uint64_t number = 1
    cdef size_t i, size
    cdef int name
    if text.size == 0 or text.size > 6:
        return 0
    if 50 <= text.at[text.size - 1] <= 52:
        text.size -= 1
        number = text.at[text.size] - 48
    for name in range(6):
        size = strlen(SEVERITIES[name])
        i = 0
        while i < size and size == text.size and (text.at[i] & 0xDF) == <uint8_t> SEVERITIES[name][i]:
            i += 1
        if i == size:
            return 4 * name + number
    return 0


cdef int put_body(Work* work, Part* part) except -1 nogil:
    cdef Encoded body
    cdef Value value
    cdef uint32_t letter = 0
    cdef Chunk name
    cdef size_t i
    memset(&body, 0, sizeof(Encoded))
    work.arena.size = 0
    work.entries.size = 0
    for i in range(count_chunks(&work.bodies)):
        add_piece(work, &body, chunks(&work.bodies)[i])
    enter_value(work, "/body", 0)
    read_value_text(work, &body, False, work.limits.body, False, &value)
    if value.cut:
        put_cut(work, "/body", literal(""), False, value.cut)
    put_string(&part.text, value.text)
    name.at = &value.letter
    name.size = 1
    intern(work.symbols, name, &letter)
    return put_u32(&part.body_type, letter)


cdef int catch_record(Work* work, Columns* columns, Part* part, int64_t time, Place* place) except -1 nogil:
    if work.caught_type.size == 0 and work.caught_message.size == 0:
        return 0
    return put_raised(
        work, columns, time, part.trace_id.data + part.trace_id.size - 16, part.span_id.data + part.span_id.size - 8, place.resource
    )
