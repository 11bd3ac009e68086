# Converts OTLP/JSON to protobuf's wire format in one pass. docs/codec.md section 6; json_text.pxi reads the tokens.
#
# Fields are written in the order in which they appear. Lengths are inserted at the end of a message. The reference reads
# invalid input, and input that no sender writes (a repeated name, several members of one value, integers with a
# fraction), so that only one implementation words errors and joins lists. If such input is inside an item, the reference
# reads that item, otherwise the complete body.

cdef enum Form:
    # The form of a member's value.
    NOT_KNOWN = 0
    AS_TEXT
    AS_TEXTS
    AS_ID
    AS_FIXED64
    AS_FIXED32
    AS_UINT32
    AS_ENUM
    AS_INT64
    AS_INDEX            # an integer without meaning here
    AS_DOUBLE
    AS_BOOL
    AS_BYTES
    AS_MESSAGE
    AS_MESSAGES

cdef enum:
    NAME_SLOTS = 64
    SHORT = 128         # lengths below this take one byte

cdef struct JsonField:
    Chunk name
    uint8_t form
    uint8_t child       # Kind of AS_MESSAGE, AS_MESSAGES; Enumeration of AS_ENUM
    uint8_t width       # bytes reserved for the length
    uint8_t tag_size
    uint16_t tag        # in its encoded form
    uint32_t bit        # identifies the field in its message

cdef struct JsonShape:
    JsonField fields[FIELDS + 1]    # the first one represents all unknown names
    uint8_t slots[NAME_SLOTS]
    uint64_t multiplier

cdef struct UnreadName:
    Chunk name
    uint8_t kind
    uint32_t warning

cdef enum:
    UNREAD_NAMES = 32
    ENUM_VALUES = 32

cdef enum Enumeration:
    # The `child` of AS_ENUM.
    SPAN_KIND = 0
    STATUS_CODE
    SEVERITY_NUMBER
    ENUMERATIONS

cdef JsonShape[2][KINDS] _json_shapes
cdef UnreadName[2][UNREAD_NAMES] _unread_names  # the last one has no name
cdef Chunk[ENUMERATIONS][ENUM_VALUES] _enum_names   # by number; the last one has no name
cdef list _json_names = []  # owns the bytes of the names


cdef inline uint64_t name_slot(const JsonShape* shape, Chunk name) noexcept nogil:
    return (load_word(name.at, name.size) + name.size) * shape.multiplier >> 58


cdef inline JsonField* field_of(int kind, bint traces, Chunk name) noexcept nogil:
    cdef JsonShape* shape = &_json_shapes[traces][kind]
    cdef JsonField* field = &shape.fields[shape.slots[name_slot(shape, name)]]
    return field if same(field.name, name) else &shape.fields[0]


cdef bint camel_case(Json* j, Chunk* name) noexcept nogil:
    # Turns a name in snake_case into lowerCamelCase. False if it is in another form.
    cdef size_t i, size = 0
    cdef uint8_t c
    cdef bint upper = False, any = False
    if name.size == 0 or name.size > LONGEST_SNAKE:
        return False
    for i in range(name.size):
        c = name.at[i]
        if c == 95 and size and not upper:
            upper = any = True
        elif 97 <= c <= 122:
            j.camel[size] = <uint8_t> (c - 32 if upper else c)
            size += 1
            upper = False
        else:
            return False
    if upper or not any:
        return False
    name.at = j.camel
    name.size = size
    return True


cdef JsonField* snake_field(Json* j, int kind, bint traces, Chunk* name, uint32_t* warning) noexcept nogil:
    # The field of a name that is not in lowerCamelCase. If the field is not read, adds a warning if there is one for it.
    cdef JsonField* field = &_json_shapes[traces][kind].fields[0]
    cdef UnreadName* unread = &_unread_names[traces][0]
    if camel_case(j, name):
        field = field_of(kind, traces, name[0])
        if field.form != NOT_KNOWN:
            warning[0] = WARN_SNAKE_CASE
            return field
    while unread.name.size:
        if unread.kind == kind and same(unread.name, name[0]):
            warning[0] = unread.warning
        unread += 1
    return field


cdef inline bint is_empty(Json* j, Bytes at) noexcept nogil:
    # Whether the value at `at`, which ends here, is null, or an empty text, list or object.
    cdef uint8_t c = at[0]
    if c == 110:
        return True
    if c == 34:
        return at[1] == 34
    if c != 91 and c != 123:
        return False
    at += 1
    while at[0] == 32 or at[0] == 10 or at[0] == 13 or at[0] == 9:
        at += 1
    return at[0] == c + 2


# --- writing ---------------------------------------------------------------------------------------------------------


cdef inline int put_tag(Buf* out, const JsonField* field) except -1 nogil:
    reserve(out, 16)
    memcpy(out.data + out.size, &field.tag, 2)
    out.size += field.tag_size
    return 0


cdef inline size_t open_length(Buf* out, const JsonField* field) except? 0 nogil:
    # Writes the tag of a field and reserves space for the length of the following message. Returns where the message begins.
    put_tag(out, field)
    out.size += field.width
    return out.size


cdef inline int close_length(Buf* out, size_t start, size_t width) except -1 nogil:
    # A length may have more bytes than it needs. If it needs more bytes than were reserved, the message is moved.
    cdef size_t size = out.size - start
    cdef size_t needed = 1
    cdef size_t rest = size >> 7
    cdef size_t i
    if rest == 0 and width == 1:
        out.data[start - 1] = <uint8_t> size
        return 0
    while rest:
        needed += 1
        rest >>= 7
    if needed > width:
        reserve(out, needed - width)
        memmove(out.data + start + needed - width, out.data + start, size)
        out.size += needed - width
    start -= width
    width = max(width, needed)
    for i in range(width - 1):
        out.data[start + i] = <uint8_t> (size & 127 | 128)
        size >>= 7
    out.data[start + width - 1] = <uint8_t> size
    return 0


# --- reading ---------------------------------------------------------------------------------------------------------


cdef bint read_escaped_name(Json* j, Chunk* name) except -1 nogil:
    j.name.size = 0
    if not put_rest_of_string(j, j.name):
        return False
    name[0] = chunk_of(j.name, 0)
    return True


cdef inline bint read_name(Json* j, Chunk* name) except -1 nogil:
    # A member's name, after its opening quote. Valid until the next name.
    cdef size_t run
    name.at = j.at
    if j.end - j.at < 2 * WIDE:
        return read_escaped_name(j, name)
    run = plain_run(j.at)
    if run == WIDE:
        run += plain_run(j.at + WIDE)
    if run == 2 * WIDE or j.at[run] != 34:
        return read_escaped_name(j, name)
    name.size = run
    j.at += run + 1
    return True


cdef bint read_message(Json* j, int kind, bint traces, int depth) except -1 nogil:
    # The members of an object, from its opening to its closing brace.
    cdef JsonField* field
    cdef Chunk name
    cdef Bytes value
    cdef size_t start = j.out.size
    cdef uint32_t seen = 0, warning
    cdef uint8_t c
    if not take(j, 123):
        return False
    j.objects += 1
    depth += kind == ANY
    if j.objects > j.max_objects or depth > VALUE_DEPTH:
        return False
    if next_byte(j) == 125:
        j.at += 1
        return True
    while True:
        if not take(j, 34) or not read_name(j, &name) or next_byte(j) != 58:
            return False
        j.at += 1
        field = field_of(kind, traces, name)
        c = next_byte(j)
        warning = 0
        if field.form == NOT_KNOWN:
            field = snake_field(j, kind, traces, &name, &warning)
        if field.form == NOT_KNOWN:
            value = j.at
            if not skip_value(j, 0):
                return False
            if warning and not is_empty(j, value):
                j.warnings |= warning
        elif c == 110:
            if not take_literal(j, "null", 4):
                return False
        else:
            if seen & field.bit:
                return False
            seen |= field.bit
            j.warnings |= warning
            if (kind == ANY and j.out.size != start) or not read_field(j, field, traces, depth):
                return False
        c = next_byte(j)
        j.at += c != 0
        if c == 125:
            return True
        if c != 44:
            return False
        next_byte(j)


cdef bint read_field(Json* j, const JsonField* field, bint traces, int depth) except -1 nogil:
    # One value that is not null.
    cdef Buf* out = j.out
    cdef size_t start
    if field.form == AS_MESSAGES:
        return read_messages(j, field, traces, depth)
    if field.form == AS_TEXTS:
        return read_texts(j, field)
    if field.form >= AS_FIXED64 and field.form <= AS_BOOL:
        return read_scalar(j, field)
    start = open_length(out, field)
    if field.form == AS_MESSAGE:
        if not read_message(j, field.child, traces, depth):
            return False
    else:
        if not take(j, 34) or not put_text(j, out):
            return False
        if field.form == AS_ID:
            if not from_hex(out, start):
                out.size = start
                put_u8(out, 0)  # no id has this length, so the rules for ids of another length apply to the item
        elif field.form == AS_BYTES and not from_base64(out, start):
            return False
    close_length(out, start, field.width)
    return True


cdef bint read_scalar(Json* j, const JsonField* field) except -1 nogil:
    cdef Buf* out = j.out
    cdef uint64_t value = 0, most = UINT32_MAX
    cdef bint negative = False
    cdef double number = 0
    put_tag(out, field)
    if field.form == AS_DOUBLE:
        return read_double(j, &number) and put_f64(out, number) == 0
    if field.form == AS_BOOL:
        value = peek(j) == 116
        if not (take_literal(j, "true", 4) or take_literal(j, "false", 5)):
            return False
        return put_u8(out, <uint8_t> value) == 0
    if field.form == AS_ENUM and peek(j) == 34:
        return read_enum_name(j, field.child, &value) and put_varint(out, value) == 0
    if not read_integer(j, field.form != AS_ENUM, &negative, &value):
        return False
    if field.form == AS_FIXED64:
        most = UINT64_MAX
    elif field.form == AS_INT64 or field.form == AS_INDEX:
        most = <uint64_t> INT64_MAX + negative
    elif field.form == AS_ENUM:
        most = <uint64_t> INT32_MAX + negative
    if value > most or (negative and value and not (field.form == AS_INT64 or field.form == AS_ENUM)):
        return False
    if field.form == AS_FIXED64:
        put_u64(out, value)
    elif field.form == AS_FIXED32:
        put_u32(out, <uint32_t> value)
    elif field.form == AS_INDEX:
        put_u8(out, 0)
    else:
        put_varint(out, 0 - value if negative else value)
    return True


cdef bint read_enum_name(Json* j, int enumeration, uint64_t* value) except -1 nogil:
    cdef Chunk name
    cdef Chunk* names = &_enum_names[enumeration][0]
    j.at += 1
    if not read_name(j, &name):
        return False
    value[0] = 0
    while names[value[0]].size:
        if same(names[value[0]], name):
            j.warnings |= WARN_ENUM_NAMES
            return True
        value[0] += 1
    return False


cdef bint read_texts(Json* j, const JsonField* field) except -1 nogil:
    cdef size_t start
    cdef uint8_t c
    if not take(j, 91):
        return False
    c = next_byte(j)
    if c == 93:
        j.at += 1
        return True
    while True:
        if c != 34:
            return False
        j.at += 1
        start = open_length(j.out, field)
        if not put_text(j, j.out):
            return False
        close_length(j.out, start, field.width)
        c = next_byte(j)
        j.at += c != 0
        if c == 93:
            return True
        if c != 44:
            return False
        c = next_byte(j)


cdef bint read_item(Json* j, const JsonField* field, bint traces) except -1 nogil:
    # A span or a log record. Python reads it if this reader cannot.
    cdef size_t size = j.out.size
    cdef size_t start = open_length(j.out, field)
    cdef uint64_t objects = j.objects
    cdef uint32_t warnings = j.warnings
    cdef Chunk item
    item.at = j.at
    if read_message(j, field.child, traces, 0):
        return close_length(j.out, start, field.width) == 0
    j.out.size = size
    j.objects = objects
    j.warnings = warnings
    j.at = item.at
    if not skip_value(j, 0):
        return False
    item.size = <size_t> (j.at - item.at)
    if item.size > j.most_left or item.size > j.most_item:
        return False
    j.most_left -= item.size
    return leave_item(j, field, item)


cdef bint leave_item(Json* j, const JsonField* field, Chunk item) except -1 nogil:
    # A rejected item is not written. The reader in Python counts it.
    cdef size_t start
    with gil:
        encoded = (<object> j.reader)(
            PyBytes_FromStringAndSize(<const char*> item.at, <Py_ssize_t> item.size), j.places[0], j.places[1], j.places[2]
        )
        if encoded is not None:
            start = open_length(j.out, field)
            put_chunk(j.out, chunk_of_bytes(encoded))
            close_length(j.out, start, field.width)
    return True


cdef bint read_messages(Json* j, const JsonField* field, bint traces, int depth) except -1 nogil:
    # A list of messages. `null` elements are skipped, except in an ArrayValue, where they become empty values.
    cdef int child = field.child
    cdef bint items = child == SPAN or child == LOG_RECORD
    cdef uint32_t place = 0
    cdef size_t start
    cdef uint8_t c
    if not take(j, 91):
        return False
    c = next_byte(j)
    if c == 93:
        j.at += 1
        return True
    while True:
        if items:
            j.items += 1
            if j.items > j.max_items:
                return False
        if c == 110:
            if not take_literal(j, "null", 4):
                return False
            if child == ANY:
                start = open_length(j.out, field)
                close_length(j.out, start, field.width)
        elif items:
            j.places[2] = place
            if not read_item(j, field, traces):
                return False
        elif child != KEY_VALUE or depth >= VALUE_DEPTH or not read_usual_attribute(j, field):
            if child == RESOURCE_ITEMS or child == SCOPE_ITEMS:
                j.places[child == SCOPE_ITEMS] = place
            start = open_length(j.out, field)
            if not read_message(j, child, traces, depth):
                return False
            close_length(j.out, start, field.width)
        place += 1
        c = next_byte(j)
        j.at += c != 0
        if c == 93:
            return True
        if c != 44:
            return False
        c = next_byte(j)


cdef bint read_json_request(Json* j, bint traces) except -1 nogil:
    # The complete body: one object, followed only by white space.
    next_byte(j)
    return read_message(j, REQUEST, traces, 0) and next_byte(j) == 0 and j.at == j.end


# --- the usual attribute ---------------------------------------------------------------------------------------------


cdef enum:
    USUAL_INPUT = 512   # more than the longest usual attribute, including the bytes that are read beyond it
    USUAL_OUTPUT = 320


cdef inline uint64_t load8(Bytes at) noexcept nogil:
    cdef uint64_t word = 0
    memcpy(&word, at, 8)
    return word


cdef inline uint64_t literal8(const char* text) noexcept nogil:
    return load8(<Bytes> text)


cdef inline Bytes short_text(Bytes at, uint8_t* out, size_t* size) noexcept nogil:
    # Copies a string shorter than SHORT without escapes. Accesses up to SHORT + WIDE bytes. The end after its quote, or NULL.
    cdef size_t run, length = 0
    while length < SHORT:
        memcpy(out + length, at + length, WIDE)
        run = plain_run(at + length)
        length += run
        if run < WIDE:
            if length >= SHORT or at[length] != 34:
                return NULL
            size[0] = length
            return at + length + 1
    return NULL


cdef bint read_usual_attribute(Json* j, const JsonField* field) except -1 nogil:
    # Fast path for `{"key":"k","value":{"stringValue":"v"}}`, or with another scalar, as most senders write it, with a
    # short key and value: lengths have one byte, and one check of the remaining body replaces all others. For any other
    # input returns False without effect.
    cdef Buf* out = j.out
    cdef Bytes at = j.at
    cdef uint8_t* to
    cdef uint8_t* value
    cdef size_t key_size = 0, value_size = 0
    cdef uint64_t word
    if j.end - at < USUAL_INPUT:
        return False
    reserve(out, USUAL_OUTPUT)
    to = out.data + out.size
    if (load8(at) & 0x00FFFFFFFFFFFFFFULL) != literal8('{"key":\0'):
        return False
    at += 7
    at += at[0] == 32
    if at[0] != 34:
        return False
    at = short_text(at + 1, to + 4, &key_size)
    if at == NULL or at[0] != 44:
        return False
    at += 1
    at += at[0] == 32
    if load8(at) != literal8('"value":'):
        return False
    at += 8
    at += at[0] == 32
    if at[0] != 123 or at[1] != 34:
        return False
    value = to + key_size + 6
    at = usual_value(j, at + 2, value, &value_size)
    if at == NULL or at[0] != 125 or at[1] != 125 or key_size + value_size + 4 >= SHORT:
        return False
    to[0] = <uint8_t> field.tag
    to[1] = <uint8_t> (key_size + value_size + 4)
    to[2] = 0x0A
    to[3] = <uint8_t> key_size
    to[key_size + 4] = 0x12
    to[key_size + 5] = <uint8_t> value_size
    out.size += key_size + value_size + 6
    j.objects += 2
    j.at = at + 2
    return j.objects <= j.max_objects


cdef inline Bytes usual_value(Json* j, Bytes at, uint8_t* value, size_t* size) noexcept nogil:
    # Reads the member of a scalar AnyValue, from its name on, and writes it at `value`. Returns its end, or NULL.
    cdef uint64_t word = load8(at), number = 0
    cdef Json rest = j[0]
    cdef size_t text_size = 0
    cdef bint negative = False
    cdef double real = 0
    if word == literal8("stringVa"):
        if (load8(at + 8) & 0x000000FFFFFFFFFFULL) != literal8('lue":\0\0\0'):
            return NULL
        at += 13
        at += at[0] == 32
        if at[0] != 34:
            return NULL
        at = short_text(at + 1, value + 2, &text_size)
        value[0] = 0x0A
        value[1] = <uint8_t> text_size
        size[0] = text_size + 2
        return at
    if word == literal8("intValue"):
        if at[8] != 34 or at[9] != 58:
            return NULL
        rest.at = at + 10 + (at[10] == 32)
        if not read_integer(&rest, True, &negative, &number) or negative or number > <uint64_t> INT64_MAX:
            return NULL
        value[0] = 0x18
        size[0] = 1
        while number > 127:
            value[size[0]] = <uint8_t> (number & 127 | 128)
            size[0] += 1
            number >>= 7
        value[size[0]] = <uint8_t> number
        size[0] += 1
        return rest.at
    if word == literal8("doubleVa"):
        if (load8(at + 8) & 0x000000FFFFFFFFFFULL) != literal8('lue":\0\0\0'):
            return NULL
        rest.at = at + 13 + (at[13] == 32)
        if not read_double(&rest, &real):
            return NULL
        value[0] = 0x21
        memcpy(value + 1, &real, 8)
        size[0] = 9
        return rest.at
    if word == literal8("boolValu"):
        if (load8(at + 8) & 0x00000000FFFFFFULL) != literal8('e":\0\0\0\0\0'):
            return NULL
        rest.at = at + 11 + (at[11] == 32)
        value[0] = 0x10
        value[1] = rest.at[0] == 116
        size[0] = 2
        if take_literal(&rest, "true", 4) or take_literal(&rest, "false", 5):
            return rest.at
    return NULL


# --- the messages of OTLP 1.11 ---------------------------------------------------------------------------------------


cdef int load_json_shapes() except -1:
    attributes, dropped = ("attributes", AS_MESSAGES, KEY_VALUE), ("droppedAttributesCount", AS_UINT32)
    trace_id, span_id, flags = ("traceId", AS_ID), ("spanId", AS_ID), ("flags", AS_FIXED32)
    time, name, schema_url = ("timeUnixNano", AS_FIXED64), ("name", AS_TEXT), ("schemaUrl", AS_TEXT)
    by_kind = {
        RESOURCE_KIND: {1: attributes, 2: dropped, 3: ("entityRefs", AS_MESSAGES, ENTITY_REF)},
        SCOPE_KIND: {1: name, 2: ("version", AS_TEXT), 3: attributes, 4: dropped},
        ENTITY_REF: {1: schema_url, 2: ("type", AS_TEXT), 3: ("idKeys", AS_TEXTS), 4: ("descriptionKeys", AS_TEXTS)},
        EVENT: {1: time, 2: name, 3: attributes, 4: dropped},
        LINK: {1: trace_id, 2: span_id, 3: ("traceState", AS_TEXT), 4: attributes, 5: dropped, 6: flags},
        STATUS: {2: ("message", AS_TEXT), 3: ("code", AS_ENUM, STATUS_CODE)},
        SPAN: {
            1: trace_id,
            2: span_id,
            3: ("traceState", AS_TEXT),
            4: ("parentSpanId", AS_ID),
            5: name,
            6: ("kind", AS_ENUM, SPAN_KIND),
            7: ("startTimeUnixNano", AS_FIXED64),
            8: ("endTimeUnixNano", AS_FIXED64),
            9: attributes,
            10: dropped,
            11: ("events", AS_MESSAGES, EVENT),
            12: ("droppedEventsCount", AS_UINT32),
            13: ("links", AS_MESSAGES, LINK),
            14: ("droppedLinksCount", AS_UINT32),
            15: ("status", AS_MESSAGE, STATUS),
            16: flags,
        },
        LOG_RECORD: {
            1: time,
            2: ("severityNumber", AS_ENUM, SEVERITY_NUMBER),
            3: ("severityText", AS_TEXT),
            5: ("body", AS_MESSAGE, ANY),
            6: attributes,
            7: dropped,
            8: flags,
            9: trace_id,
            10: span_id,
            11: ("observedTimeUnixNano", AS_FIXED64),
            12: ("eventName", AS_TEXT),
        },
        KEY_VALUE: {1: ("key", AS_TEXT), 2: ("value", AS_MESSAGE, ANY)},
        ANY: {
            1: ("stringValue", AS_TEXT),
            2: ("boolValue", AS_BOOL),
            3: ("intValue", AS_INT64),
            4: ("doubleValue", AS_DOUBLE),
            5: ("arrayValue", AS_MESSAGE, ARRAY),
            6: ("kvlistValue", AS_MESSAGE, KEY_VALUE_LIST),
            7: ("bytesValue", AS_BYTES),
            8: ("stringValueStrindex", AS_INDEX),
        },
        ARRAY: {1: ("values", AS_MESSAGES, ANY)},
        KEY_VALUE_LIST: {1: ("values", AS_MESSAGES, KEY_VALUE)},
    }
    for traces, names in enumerate((("resourceLogs", "scopeLogs", "logRecords"), ("resourceSpans", "scopeSpans", "spans"))):
        by_kind[REQUEST] = {1: (names[0], AS_MESSAGES, RESOURCE_ITEMS)}
        by_kind[RESOURCE_ITEMS] = {1: ("resource", AS_MESSAGE, RESOURCE_KIND), 2: (names[1], AS_MESSAGES, SCOPE_ITEMS), 3: schema_url}
        by_kind[SCOPE_ITEMS] = {1: ("scope", AS_MESSAGE, SCOPE_KIND), 2: (names[2], AS_MESSAGES, SPAN if traces else LOG_RECORD), 3: schema_url}
        for kind, fields in by_kind.items():
            load_json_shape(&_json_shapes[<int> traces][<int> kind], fields)
    return 0


cdef int load_json_names() except -1:
    # The names of `proto.otlp.json.names`.
    cdef UnreadName* unread
    cdef int traces, number
    cdef dict bits = {warning: 1 << place for place, warning in enumerate(WARNING_NAMES)}
    for traces, signal in enumerate(("logs", "traces")):
        unread = &_unread_names[traces][0]
        for kind, level in zip((REQUEST, RESOURCE_ITEMS, SCOPE_ITEMS, SPAN if traces else LOG_RECORD), _names.LEVELS):
            for name, warning in _names.unread_names(signal, level).items():
                unread.name = kept_chunk(name)
                unread.kind = kind
                unread.warning = bits[warning]
                unread += 1
    for enumeration, member in ((SPAN_KIND, "kind"), (STATUS_CODE, "code"), (SEVERITY_NUMBER, "severityNumber")):
        for number, name in enumerate(_names.ENUM_NAMES[member]):
            _enum_names[<int> enumeration][number] = kept_chunk(name)
    return 0


cdef int load_json_shape(JsonShape* shape, dict fields) except -1:
    cdef JsonField* field = shape.fields
    cdef int wire, number
    wires = {AS_FIXED64: FIXED64, AS_DOUBLE: FIXED64, AS_FIXED32: FIXED32}
    wires.update(dict.fromkeys((AS_UINT32, AS_ENUM, AS_INT64, AS_INDEX, AS_BOOL), VARINT))
    for place, (number, (name, form, *child)) in enumerate(fields.items()):
        field = &shape.fields[1 + <int> place]
        field.name = kept_chunk(name)
        field.form = form
        field.child = child[0] if child else NOTHING
        field.width = {SPAN: 2, LOG_RECORD: 2, SCOPE_ITEMS: 5, RESOURCE_ITEMS: 5}.get(field.child, 1)
        field.bit = <uint32_t> 1 << <int> place
        wire = wires.get(form, LENGTH)
        field.tag = number << 3 | wire
        field.tag_size = 1
        if field.tag > 127:
            field.tag = (field.tag & 127 | 128) | (field.tag >> 7 << 8)
            field.tag_size = 2
    shape.multiplier = 0x9E3779B97F4A7C15ULL
    while not place_names(shape, len(fields)):
        shape.multiplier = shape.multiplier * 6364136223846793005ULL + 1442695040888963407ULL | 1
    return 0


cdef bint place_names(JsonShape* shape, int count) noexcept nogil:
    # Fills the hash slots, one per name; False if two names share a slot.
    cdef uint64_t slot
    cdef int place
    memset(shape.slots, 0, NAME_SLOTS)
    for place in range(1, count + 1):
        slot = name_slot(shape, shape.fields[place].name)
        if shape.slots[slot]:
            return False
        shape.slots[slot] = <uint8_t> place
    return True


cdef Chunk kept_chunk(str name):
    cdef bytes encoded = name.encode()
    _json_names.append(encoded)
    return chunk_of_bytes(encoded)

load_json_shapes()
load_json_names()
