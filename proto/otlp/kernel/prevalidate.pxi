# The first pass: checks that the encoding is well-formed and within limits. Allocates nothing. docs/codec.md section 1.

cdef enum Kind:
    NOTHING = 0
    REQUEST
    RESOURCE_ITEMS      # ResourceSpans, ResourceLogs
    SCOPE_ITEMS         # ScopeSpans, ScopeLogs
    RESOURCE_KIND
    SCOPE_KIND
    SPAN
    LOG_RECORD
    EVENT
    LINK
    STATUS
    ENTITY_REF
    KEY_VALUE
    ANY
    ARRAY
    KEY_VALUE_LIST
    KINDS

cdef enum:
    FIELDS = 16         # all message fields have smaller numbers
    RETIRED_LIST = 1000 # of InstrumentationLibrarySpans, InstrumentationLibraryLogs
    RETIRED_NAME = 4    # of a log record

cdef enum:
    # Bits for `proto.otlp.policy.RequestWarning`, in its order.
    WARN_SNAKE_CASE = 1
    WARN_ENUM_NAMES = 2
    WARN_REPEATED_LIST = 4
    WARN_REPEATED_MEMBER = 8
    WARN_RETIRED_NAMES = 16
    WARN_SPANS_SENT_AS_LOGS = 32
    WARN_LOGS_SENT_AS_SPANS = 64
    WARN_UNSUPPORTED_SIGNAL = 128

cdef struct Member:
    uint8_t kind
    bint singular       # not repeated: counted as a part from the second occurrence on
    bint counted        # counted as a part at every occurrence

cdef struct Prevalidation:
    Member members[KINDS][FIELDS]
    uint64_t items
    uint64_t parts
    uint64_t max_items
    uint64_t max_parts
    uint32_t warnings


cdef inline uint32_t other_signal(bint traces, Chunk item) noexcept nogil:
    # The warning for an item that evidently belongs to another signal, otherwise 0. Such an item is not read.
    cdef Bytes at = item.at
    if item.size == 0 or (at[0] == (1 << 3 | LENGTH)) == traces:
        return 0  # spans begin with their trace id, log records never with bytes
    if traces:
        return WARN_LOGS_SENT_AS_SPANS if is_log_record(item) else 0
    return WARN_SPANS_SENT_AS_LOGS if item.size > 1 and at[1] == 16 else WARN_UNSUPPORTED_SIGNAL


cdef bint is_log_record(Chunk item) noexcept nogil:
    # Whether a field with a wire type that a span does not have under its number comes before a trace id.
    cdef Cursor c = cursor(item)
    cdef Field field
    while next_field(&c, &field) == FIELD:
        if field.wire == FIXED64 and (field.number == 1 or field.number == 11):
            return True
        if field.wire == VARINT and (field.number == 2 or field.number == 7):
            return True
        if field.wire == LENGTH and (field.number == 6 or field.number == 10 or field.number == 12):
            return True
        if field.wire == FIXED32 and field.number == 8:
            return True
        if field.wire == LENGTH and field.number == 1:
            return False
    return False


cdef void member(Prevalidation* survey, Kind kind, int field, Kind child, bint counted) noexcept nogil:
    survey.members[<int> kind][field].kind = <uint8_t> child
    survey.members[<int> kind][field].counted = counted
    survey.members[<int> kind][field].singular = not counted


cdef void describe(Prevalidation* survey, bint traces) noexcept nogil:
    # The message fields of OTLP 1.11, by number.
    memset(survey, 0, sizeof(Prevalidation))
    member(survey, REQUEST, 1, RESOURCE_ITEMS, True)
    member(survey, RESOURCE_ITEMS, 1, RESOURCE_KIND, False)
    member(survey, RESOURCE_ITEMS, 2, SCOPE_ITEMS, True)
    member(survey, SCOPE_ITEMS, 1, SCOPE_KIND, False)
    member(survey, SCOPE_ITEMS, 2, SPAN if traces else LOG_RECORD, True)
    member(survey, RESOURCE_KIND, 1, KEY_VALUE, True)
    member(survey, RESOURCE_KIND, 3, ENTITY_REF, True)
    member(survey, SCOPE_KIND, 3, KEY_VALUE, True)
    member(survey, SPAN, 9, KEY_VALUE, True)
    member(survey, SPAN, 11, EVENT, True)
    member(survey, SPAN, 13, LINK, True)
    member(survey, SPAN, 15, STATUS, False)
    member(survey, EVENT, 3, KEY_VALUE, True)
    member(survey, LINK, 4, KEY_VALUE, True)
    member(survey, LOG_RECORD, 5, ANY, False)
    member(survey, LOG_RECORD, 6, KEY_VALUE, True)
    member(survey, KEY_VALUE, 2, ANY, False)
    member(survey, ANY, 5, ARRAY, False)
    member(survey, ANY, 6, KEY_VALUE_LIST, False)
    member(survey, ARRAY, 1, ANY, True)
    member(survey, KEY_VALUE_LIST, 1, KEY_VALUE, True)


cdef inline bint is_short_attribute(Chunk message) noexcept nogil:
    # Fast check of the usual KeyValue: exactly a key and a scalar, each under 128 bytes, well-formed.
    cdef size_t key_size, value_size
    cdef Bytes value
    if message.size < 6 or message.at[0] != 0x0A:
        return False
    key_size = message.at[1]
    if key_size >= 128 or key_size + 6 > message.size or message.at[key_size + 2] != 0x12:
        return False
    value_size = message.at[key_size + 3]
    if value_size < 2 or value_size >= 128 or key_size + 4 + value_size != message.size:
        return False
    value = message.at + key_size + 4
    if value[0] == 0x0A:
        return value[1] < 128 and value[1] + <size_t> 2 == value_size
    if value[0] == 0x21:
        return value_size == 9
    return (value[0] == 0x10 or value[0] == 0x18) and value_size == 2 and value[1] < 128


cdef inline int pass_short_attributes(Prevalidation* survey, Cursor* c, uint32_t number) noexcept nogil:
    # Passes the following usual attributes of the same field, because attributes are adjacent.
    cdef Chunk message
    cdef size_t left
    while True:
        left = <size_t> (c.end - c.at)
        if left < 8 or c.at[0] != (number << 3 | LENGTH) or c.at[1] >= 128 or c.at[1] + <size_t> 2 > left:
            return 0
        message.at = c.at + 2
        message.size = c.at[1]
        if not is_short_attribute(message):
            return 0
        survey.parts += 1
        if survey.parts > survey.max_parts:
            return TOO_MANY_PARTS
        c.at += message.size + 2


cdef int prevalidate(Prevalidation* survey, int kind, Chunk message, int depth) noexcept nogil:
    # 0, or the reason of the refusal. `depth` is the number of enclosing values.
    cdef Cursor c = cursor(message)
    cdef Field field
    cdef Member* member
    cdef uint32_t seen = 0, warning = 0
    cdef int status
    if kind == ANY:
        depth += 1
        if depth > VALUE_DEPTH:
            return TOO_DEEP
    while True:
        status = next_field(&c, &field)
        if status != FIELD:
            return status
        if field.wire != LENGTH:
            continue
        if field.number >= FIELDS:
            if field.number == RETIRED_LIST and kind == RESOURCE_ITEMS:
                survey.warnings |= WARN_RETIRED_NAMES
            continue
        member = &survey.members[kind][field.number]
        if member.kind == NOTHING:
            if field.number == RETIRED_NAME and kind == LOG_RECORD and field.chunk.size:
                survey.warnings |= WARN_RETIRED_NAMES
            continue
        if member.kind == SPAN or member.kind == LOG_RECORD:
            survey.items += 1
            if survey.items > survey.max_items:
                return TOO_MANY_ITEMS
        if member.counted or seen >> field.number & 1:
            survey.parts += 1
            if survey.parts > survey.max_parts:
                return TOO_MANY_PARTS
        seen |= <uint32_t> 1 << field.number
        if member.kind == SPAN or member.kind == LOG_RECORD:
            warning = other_signal(member.kind == SPAN, field.chunk)
            if warning:
                survey.warnings |= warning
                continue
        if member.kind == KEY_VALUE and depth < VALUE_DEPTH and is_short_attribute(field.chunk):
            status = pass_short_attributes(survey, &c, field.number)
            if status < 0:
                return status
            continue
        status = prevalidate(survey, member.kind, field.chunk, depth)
        if status < 0:
            return status
