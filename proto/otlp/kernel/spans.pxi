# Decodes one span.

cdef struct Span:
    Chunk trace_id
    Chunk span_id
    Chunk parent_span_id
    Chunk trace_state
    Chunk name
    Chunk status_message
    uint64_t start
    uint64_t end
    uint64_t kind
    uint64_t status_code
    uint32_t flags
    uint32_t dropped_attributes
    uint32_t dropped_events
    uint32_t dropped_links


cdef int gather_span(Work* work, Chunk message, Span* span) except -1 nogil:
    cdef Cursor c = cursor(message)
    cdef Field field
    memset(span, 0, sizeof(Span))
    work.attributes.size = 0
    work.events.size = 0
    work.links.size = 0
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH:
            if field.number == 9:
                push_chunk(&work.attributes, field.chunk)
            elif field.number == 1:
                span.trace_id = field.chunk
            elif field.number == 2:
                span.span_id = field.chunk
            elif field.number == 4:
                span.parent_span_id = field.chunk
            elif field.number == 5:
                span.name = field.chunk
            elif field.number == 11:
                push_chunk(&work.events, field.chunk)
            elif field.number == 15:
                gather_status(field.chunk, span)
            elif field.number == 3:
                span.trace_state = field.chunk
            elif field.number == 13:
                push_chunk(&work.links, field.chunk)
        elif field.wire == FIXED64:
            if field.number == 7:
                span.start = field.value
            elif field.number == 8:
                span.end = field.value
        elif field.wire == VARINT:
            if field.number == 6:
                span.kind = field.value
            elif field.number == 10:
                span.dropped_attributes = <uint32_t> field.value
            elif field.number == 12:
                span.dropped_events = <uint32_t> field.value
            elif field.number == 14:
                span.dropped_links = <uint32_t> field.value
        elif field.wire == FIXED32 and field.number == 16:
            span.flags = <uint32_t> field.value
    return 0


cdef void gather_status(Chunk message, Span* span) noexcept nogil:
    cdef Cursor c = cursor(message)
    cdef Field field
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH and field.number == 2:
            span.status_message = field.chunk
        elif field.wire == VARINT and field.number == 3:
            span.status_code = field.value


cdef int span_fault(Columns* columns, Span* span) noexcept nogil:
    # The reason of the rejection, or -1.
    if span.trace_id.size != 16 or all_zero(span.trace_id.at, 16):
        return INVALID_TRACE_ID
    if span.span_id.size != 8 or all_zero(span.span_id.at, 8):
        return INVALID_SPAN_ID
    if span.start == 0:
        return MISSING_START_TIME
    if span.start > columns.max_time:
        return START_TIME_IN_FUTURE
    if span.start < columns.min_time:
        return START_TIME_TOO_OLD
    return -1


cdef int read_span(Work* work, Columns* columns, Chunk message, Place* place) except -1 nogil:
    cdef Span span
    cdef Part* part = NULL
    cdef int fault
    gather_span(work, message, &span)
    fault = span_fault(columns, &span)
    if fault >= 0:
        columns.rejected[fault] += 1
        return 0
    settle(work, columns, place)
    part_of_day(columns, <int64_t> (span.start // NANOS_PER_DAY), &part)
    begin_cuts(work, MAX_ITEM_TRUNCATIONS)
    enter(work, "", -1)
    put_span_fields(work, part, &span)
    collect_all(work, &work.attributes, &span.dropped_attributes)
    put_u8(&part.prefixed, any_prefixed(work))
    put_attributes(work, &part.attributes, NULL)
    put_u32(&part.dropped, span.dropped_attributes)
    put_events(work, columns, part, &span, place)
    put_links(work, part, &span)
    return accept(work, columns, part, place)


cdef int put_span_fields(Work* work, Part* part, Span* span) except -1 nogil:
    cdef uint64_t end = clamped(work, span.end)
    cdef uint32_t name = 0
    if end < span.start:
        work.flags |= REVERSED
    put_u64(&part.time, span.start)
    put_u64(&part.other, end - span.start)
    put_chunk(&part.trace_id, span.trace_id)
    put_chunk(&part.span_id, span.span_id)
    put_id(work, &part.parent, span.parent_span_id, 8)
    put_u32(&part.flags, span.flags)
    put_u8(&part.kind, enumerated(work, span.kind, 5))
    put_u8(&part.level, enumerated(work, span.status_code, 2))
    intern_member(work, span.name, &name, "/name")
    put_u32(&part.name, name)
    clean_member(work, &span.trace_state, work.limits.value, "/traceState")
    put_string(&part.trace_state, span.trace_state)
    clean_member(work, &span.status_message, work.limits.value, "/statusMessage")
    return put_string(&part.text, span.status_message)


cdef int put_events(Work* work, Columns* columns, Part* part, Span* span, Place* place) except -1 nogil:
    cdef size_t i, count = count_chunks(&work.events)
    if count > work.limits.events:
        span.dropped_events = saturated(<uint64_t> span.dropped_events + count - work.limits.events)
        count = work.limits.events
    work.json.size = 0
    if count:
        put_u8(&work.json, 91)
    for i in range(count):
        if i:
            put_u8(&work.json, 44)
        enter(work, "/events/", <int64_t> i)
        put_event(work, columns, chunks(&work.events)[i], span, place)
    if count:
        put_u8(&work.json, 93)
    put_string(&part.events, chunk_of(&work.json, 0))
    return put_u32(&part.dropped_events, span.dropped_events)


cdef int put_event(Work* work, Columns* columns, Chunk message, Span* span, Place* place) except -1 nogil:
    cdef Cursor c = cursor(message)
    cdef Field field
    cdef uint64_t time = 0
    cdef uint32_t dropped = 0
    cdef Chunk name = literal("")
    cdef bint is_exception
    work.attributes.size = 0
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH:
            if field.number == 3:
                push_chunk(&work.attributes, field.chunk)
            elif field.number == 2:
                name = field.chunk
        elif field.wire == FIXED64 and field.number == 1:
            time = field.value
        elif field.wire == VARINT and field.number == 4:
            dropped = <uint32_t> field.value
    put_literal(&work.json, '{"timeUnixNano":')
    put_integer(&work.json, <int64_t> clamped(work, time))
    put_literal(&work.json, ',"name":')
    clean_member(work, &name, work.limits.name, "/name")
    is_exception = same(name, literal("exception"))
    put_json_string(&work.json, name)
    put_literal(&work.json, ',"attributes":')
    forget_caught(work)
    put_json_attributes(work, &work.attributes, &work.json, &dropped, &columns.known if is_exception else NULL)
    put_dropped(work, dropped)
    if is_exception:
        put_raised(work, columns, <int64_t> span.start, span.trace_id.at, span.span_id.at, place.resource)
    return put_u8(&work.json, 125)


cdef inline int put_dropped(Work* work, uint32_t dropped) except -1 nogil:
    put_literal(&work.json, ',"droppedAttributesCount":')
    return put_integer(&work.json, dropped)


cdef int put_links(Work* work, Part* part, Span* span) except -1 nogil:
    cdef size_t i, count = count_chunks(&work.links)
    if count > work.limits.links:
        span.dropped_links = saturated(<uint64_t> span.dropped_links + count - work.limits.links)
        count = work.limits.links
    work.json.size = 0
    if count:
        put_u8(&work.json, 91)
    for i in range(count):
        if i:
            put_u8(&work.json, 44)
        enter(work, "/links/", <int64_t> i)
        put_link(work, chunks(&work.links)[i])
    if count:
        put_u8(&work.json, 93)
    put_string(&part.links, chunk_of(&work.json, 0))
    return put_u32(&part.dropped_links, span.dropped_links)


cdef int put_link(Work* work, Chunk message) except -1 nogil:
    cdef Cursor c = cursor(message)
    cdef Field field
    cdef uint32_t dropped = 0, flags = 0
    cdef Chunk trace_id = literal(""), span_id = literal(""), trace_state = literal("")
    work.attributes.size = 0
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH:
            if field.number == 1:
                trace_id = field.chunk
            elif field.number == 2:
                span_id = field.chunk
            elif field.number == 3:
                trace_state = field.chunk
            elif field.number == 4:
                push_chunk(&work.attributes, field.chunk)
        elif field.wire == VARINT and field.number == 5:
            dropped = <uint32_t> field.value
        elif field.wire == FIXED32 and field.number == 6:
            flags = <uint32_t> field.value
    put_literal(&work.json, '{"traceId":"')
    put_linked_id(work, trace_id, 16)
    put_literal(&work.json, '","spanId":"')
    put_linked_id(work, span_id, 8)
    put_literal(&work.json, '","traceState":')
    clean_member(work, &trace_state, work.limits.value, "/traceState")
    put_json_string(&work.json, trace_state)
    put_literal(&work.json, ',"attributes":')
    put_json_attributes(work, &work.attributes, &work.json, &dropped, NULL)
    put_dropped(work, dropped)
    put_literal(&work.json, ',"flags":')
    put_integer(&work.json, flags)
    return put_u8(&work.json, 125)


cdef int put_linked_id(Work* work, Chunk id, size_t size) except -1 nogil:
    if id.size == size:
        return put_hex(&work.json, id.at, size)
    if id.size:
        work.flags |= REPAIRED
    return 0
