# Decodes items into columns: one Part per day, resources and scopes once per request. docs/codec.md section 3.

cdef enum:
    REASONS = 10
    MODIFICATIONS = 6
    ATTRIBUTES_BUFS = 6
    PART_BUFS = 28
    ORIGIN_BUFS = 8
    COLUMNS_BUFS = 9

cdef enum Mark:
    # Separators of the keys, type letters and texts in a list that is encoded as one text.
    BEFORE_KEY = 1
    AFTER_KEY = 2
    ESCAPE = 3

cdef enum Reason:
    INVALID_TRACE_ID
    INVALID_SPAN_ID
    MISSING_START_TIME
    START_TIME_IN_FUTURE
    START_TIME_TOO_OLD
    TIME_IN_FUTURE
    TIME_TOO_OLD
    INVALID_FIELD       # these three are found when JSON is read
    INVALID_RESOURCE
    INVALID_SCOPE

cdef struct Attributes:
    # A column of attribute lists: the number of entries per row, all keys, and all texts.
    Buf counts          # uint32
    Buf keys            # uint32 symbols
    Buf texts           # Native strings
    Buf types           # uint32 symbols
    Buf number_counts   # uint32
    Buf number_keys     # uint32 symbols of the keys with a finite number

cdef struct Part:
    # The rows of one day. Fixed-width columns and strings are sent to ClickHouse unchanged. Symbols are translated later.
    # PartBuf numbers these buffers in this order.
    Attributes attributes
    Buf time            # int64
    Buf other           # int64: duration of a span, observed time of a log record
    Buf trace_id
    Buf span_id
    Buf parent
    Buf flags           # uint32
    Buf dropped         # uint32
    Buf dropped_events  # uint32
    Buf dropped_links   # uint32
    Buf kind            # uint8: span kind, time source of a log record
    Buf level           # uint8: status code, severity number
    Buf text            # Native strings: status message, log body
    Buf trace_state     # Native strings
    Buf events          # Native strings
    Buf links           # Native strings
    Buf name            # uint32 symbols: span name, event name of a log record
    Buf label           # uint32 symbols: severity text
    Buf body_type       # uint32 symbols
    Buf resource        # uint32, index into Columns.origins
    Buf scope           # uint32, index into Columns.origins
    Buf prefixed        # uint8: whether a key begins with "resource." or "scope."
    Buf truncations     # Native strings
    int64_t day
    size_t rows

cdef enum PartBuf:
    TEXTS = 2
    TYPES = 3
    TIME = 6
    OTHER
    TRACE_ID
    SPAN_ID
    PARENT
    FLAGS
    DROPPED
    DROPPED_EVENTS
    DROPPED_LINKS
    KIND
    LEVEL
    TEXT
    TRACE_STATE
    EVENTS
    LINKS
    NAME
    LABEL
    BODY_TYPE
    RESOURCE
    SCOPE
    PREFIXED
    TRUNCATIONS

cdef struct Origin:
    # A resource, or a scope.
    Attributes attributes
    Buf full_keys       # uint32 symbols: "resource.<key>", "scope.<key>", in the order of the attributes
    Buf full_number_keys
    uint32_t schema_url
    uint32_t dropped
    uint32_t flags
    uint32_t text           # the encoded list, for the columns `resource` and `scope`
    uint32_t cuts           # what was cut: entries of the column `truncations`
    uint32_t entity_refs    # this and the next three: for a resource
    uint32_t service_name
    uint32_t environment
    uint32_t release
    uint32_t name           # this and the next three: for a scope
    uint32_t version
    uint32_t full_name      # "scope.name" if the roll-up counts it, otherwise UINT32_MAX
    uint32_t full_version

cdef struct Raised:
    int64_t time
    uint8_t trace_id[16]
    uint8_t span_id[8]
    uint64_t starts[4]      # offsets of type, message, stack trace and their end in Columns.raised_text
    uint32_t resource

cdef struct Known:
    # Symbols of the keys and values that the kernel searches for.
    uint32_t service_name
    uint32_t service_version
    uint32_t environment_name
    uint32_t environment
    uint32_t unknown
    uint32_t exception
    uint32_t exception_type
    uint32_t exception_message
    uint32_t exception_stacktrace

cdef struct Columns:
    # A decoded request.
    Symbols symbols
    Buf parts               # Part
    Buf origins             # Origin
    Buf raised              # Raised
    Buf raised_text
    Part spare              # buffers for the first part, left by an earlier request
    Known known
    bint traces
    uint64_t project_id
    uint64_t accepted
    uint64_t rejected[REASONS]
    uint64_t modified[MODIFICATIONS]
    uint64_t raised_over_limit
    uint64_t repeated       # bytes of the columns `resource` and `scope`, counted for every item
    uint64_t now
    uint64_t min_time
    uint64_t max_time


cdef inline Part* parts(Columns* columns) noexcept nogil:
    return <Part*> columns.parts.data


cdef inline size_t count_parts(Columns* columns) noexcept nogil:
    return columns.parts.size // sizeof(Part)


cdef inline Origin* origins(Columns* columns) noexcept nogil:
    return <Origin*> columns.origins.data


cdef inline size_t count_origins(Columns* columns) noexcept nogil:
    return columns.origins.size // sizeof(Origin)


cdef int know(Columns* columns) except -1 nogil:
    cdef Symbols* symbols = &columns.symbols
    intern(symbols, literal("service.name"), &columns.known.service_name)
    intern(symbols, literal("service.version"), &columns.known.service_version)
    intern(symbols, literal("deployment.environment.name"), &columns.known.environment_name)
    intern(symbols, literal("deployment.environment"), &columns.known.environment)
    intern(symbols, literal("unknown"), &columns.known.unknown)
    intern(symbols, literal("exception"), &columns.known.exception)
    intern(symbols, literal("exception.type"), &columns.known.exception_type)
    intern(symbols, literal("exception.message"), &columns.known.exception_message)
    return intern(symbols, literal("exception.stacktrace"), &columns.known.exception_stacktrace)


cdef void release_columns(Columns* columns) noexcept nogil:
    cdef size_t i
    release(<Buf*> &columns.spare, PART_BUFS)
    for i in range(count_parts(columns)):
        release(<Buf*> &parts(columns)[i], PART_BUFS)
    for i in range(count_origins(columns)):
        release(<Buf*> &origins(columns)[i], ORIGIN_BUFS)
    release(<Buf*> columns, COLUMNS_BUFS)


cdef size_t weight(Columns* columns) noexcept nogil:
    # Allocated bytes.
    cdef size_t total = capacity(<Buf*> columns, COLUMNS_BUFS) + capacity(<Buf*> &columns.spare, PART_BUFS), i
    for i in range(count_parts(columns)):
        total += capacity(<Buf*> &parts(columns)[i], PART_BUFS)
    for i in range(count_origins(columns)):
        total += capacity(<Buf*> &origins(columns)[i], ORIGIN_BUFS)
    return total


cdef void recycle(Columns* columns) noexcept nogil:
    # Resets the columns of a request with a single part. Keeps the memory of symbols and of that part.
    cdef size_t i
    if count_parts(columns):
        columns.spare = parts(columns)[0]
    empty(<Buf*> &columns.spare, PART_BUFS)
    for i in range(count_origins(columns)):
        release(<Buf*> &origins(columns)[i], ORIGIN_BUFS)
    empty(<Buf*> columns, COLUMNS_BUFS)
    memset(columns.rejected, 0, sizeof(columns.rejected))
    memset(columns.modified, 0, sizeof(columns.modified))
    columns.accepted = columns.raised_over_limit = columns.repeated = 0


cdef int part_of_day(Columns* columns, int64_t day, Part** found) except -1 nogil:
    # Latest part first: most items of a request have the same day. Pointers are valid until the next part is added.
    cdef size_t i = count_parts(columns)
    cdef Part fresh
    while i > 0:
        i -= 1
        if parts(columns)[i].day == day:
            found[0] = &parts(columns)[i]
            return 0
    fresh = columns.spare
    fresh.day = day
    fresh.rows = 0
    put(&columns.parts, &fresh, sizeof(Part))
    memset(&columns.spare, 0, sizeof(Part))
    found[0] = &parts(columns)[count_parts(columns) - 1]
    return 0


# --- attribute lists into columns ------------------------------------------------------------------------------------


cdef int put_attributes(Work* work, Attributes* out, Known* catch) except -1 nogil:
    # Adds the collected entries as one row. With `catch` also keeps the texts of an exception.
    cdef size_t i, count = count_entries(work), base = work.arena.size
    cdef uint32_t numbers = 0
    cdef Entry entry
    cdef Value value
    cdef uint32_t types = 0
    work.typed.size = 0
    put_u32(&out.counts, <uint32_t> count)
    for i in range(count):
        entry = entries(work)[i]
        put_u32(&out.keys, entry.key)
        read_attribute(work, &entry, &value)
        work.arena.size = base
        put_string(&out.texts, value.text)
        if catch != NULL:
            catch_text(work, catch, entry.key, &value)
        put_u64(&work.typed, <uint64_t> entry.key << 8 | value.letter)
        if value.finite:
            numbers += 1
            put_u32(&out.number_keys, entry.key)
    put_u32(&out.number_counts, numbers)
    if count:
        intern_types(work, &types)
    return put_u32(&out.types, types)


cdef int intern_types(Work* work, uint32_t* symbol) except -1 nogil:
    # Most lists have the same keys and types as the previous one.
    cdef const uint64_t* typed = <const uint64_t*> work.typed.data
    cdef size_t i
    if not same(chunk_of(&work.typed, 0), chunk_of(&work.typed_before, 0)):
        work.types.size = 0
        for i in range(work.typed.size >> 3):
            put_typed_key(&work.types, symbol_text(work.symbols, <uint32_t> (typed[i] >> 8)), <uint8_t> typed[i])
        put_u8(&work.types, BEFORE_KEY)
        intern(work.symbols, chunk_of(&work.types, 0), &work.types_before)
        work.typed_before.size = 0
        put_chunk(&work.typed_before, chunk_of(&work.typed, 0))
    symbol[0] = work.types_before
    return 0


cdef int put_typed_key(Buf* out, Chunk key, uint8_t letter) except -1 nogil:
    put_u8(out, BEFORE_KEY)
    put_marked(out, key)
    put_u8(out, AFTER_KEY)
    return put_u8(out, letter)


cdef int put_marked(Buf* out, Chunk text) except -1 nogil:
    # `text` with escaped separators. Few texts have separators.
    cdef size_t i, done = 0
    for i in range(text.size):
        if 0 < text.at[i] <= ESCAPE:
            put(out, text.at + done, i - done)
            put_u8(out, ESCAPE)
            put_u8(out, 64 + text.at[i])
            done = i + 1
    return put(out, text.at + done, text.size - done)


cdef int forget_caught(Work* work) noexcept nogil:
    work.caught_type.size = 0
    work.caught_message.size = 0
    work.caught_stack.size = 0
    return 0


cdef inline int catch_text(Work* work, Known* known, uint32_t key, Value* value) except -1 nogil:
    if value.letter == 110:
        return 0
    if key == known.exception_type:
        return put_chunk(&work.caught_type, value.text)
    if key == known.exception_message:
        return put_chunk(&work.caught_message, value.text)
    if key == known.exception_stacktrace:
        return put_chunk(&work.caught_stack, value.text)
    return 0


cdef int put_json_attributes(Work* work, Buf* fields, Buf* out, uint32_t* dropped, Known* catch) except -1 nogil:
    cdef size_t i, base
    cdef Value value
    cdef Entry entry
    collect_all(work, fields, dropped)
    base = work.arena.size
    put_u8(out, 123)
    for i in range(count_entries(work)):
        if i:
            put_u8(out, 44)
        entry = entries(work)[i]
        put_json_string(out, symbol_text(work.symbols, entry.key))
        put_u8(out, 58)
        read_attribute(work, &entry, &value)
        work.arena.size = base
        put_json_value(work, &value, out)
        if catch != NULL:
            catch_text(work, catch, entry.key, &value)
    return put_u8(out, 125)


cdef inline uint32_t saturated(uint64_t count) noexcept nogil:
    return <uint32_t> count if count < UINT32_MAX else UINT32_MAX


# --- resources and scopes --------------------------------------------------------------------------------------------


cdef int new_origin(Work* work, Columns* columns, Buf* messages, bint is_resource, Chunk schema_url, uint32_t* index) except -1 nogil:
    cdef Origin origin
    memset(&origin, 0, sizeof(Origin))
    origin.full_name = origin.full_version = UINT32_MAX
    index[0] = <uint32_t> count_origins(columns)
    # Stored first, so that its buffers are released with the columns even after an error.
    put(&columns.origins, &origin, sizeof(Origin))
    fill_origin(work, columns, messages, is_resource, schema_url, &origins(columns)[index[0]])
    trim(<Buf*> &origins(columns)[index[0]], ORIGIN_BUFS)  # there may be one per item
    return 0


cdef int fill_origin(Work* work, Columns* columns, Buf* messages, bint is_resource, Chunk schema_url, Origin* origin) except -1 nogil:
    cdef Cursor c
    cdef Field field
    cdef size_t i
    cdef uint32_t attributes_field = 1 if is_resource else 3, dropped_field = 2 if is_resource else 4
    cdef Chunk name = literal(""), version = literal("")
    cdef uint32_t outer_flags = work.flags
    work.flags = 0
    begin_cuts(work, MAX_ORIGIN_TRUNCATIONS)
    enter(work, "/resource" if is_resource else "/scope", -1)
    work.origin_fields.size = 0
    work.origin_refs.size = 0
    for i in range(count_chunks(messages)):
        c = cursor(chunks(messages)[i])
        while next_field(&c, &field) == FIELD:
            if field.wire == LENGTH:
                if field.number == attributes_field:
                    push_chunk(&work.origin_fields, field.chunk)
                elif is_resource and field.number == 3:
                    push_chunk(&work.origin_refs, field.chunk)
                elif not is_resource and field.number == 1:
                    name = field.chunk
                elif not is_resource and field.number == 2:
                    version = field.chunk
            elif field.wire == VARINT and field.number == dropped_field:
                origin.dropped = <uint32_t> field.value
    collect_all(work, &work.origin_fields, &origin.dropped)
    put_attributes(work, &origin.attributes, NULL)
    if drop_what_is_over(work, origin, work.limits.resource if is_resource else work.limits.scope):
        empty(<Buf*> &origin.attributes, ATTRIBUTES_BUFS)
        begin_cuts(work, MAX_ORIGIN_TRUNCATIONS)
        put_attributes(work, &origin.attributes, NULL)
    intern_list(work, &origin.attributes, &origin.text)
    intern_member(work, schema_url, &origin.schema_url, "/schemaUrl")
    if is_resource:
        put_entity_refs(work, origin)
        derive_service(work, columns, origin)
    else:
        intern_member(work, name, &origin.name, "/name")
        intern_member(work, version, &origin.version, "/version")
    put_full_keys(work, origin, "resource." if is_resource else "scope.", is_resource)
    finish_cuts(work)
    intern(work.symbols, chunk_of(&work.cuts, 0), &origin.cuts)
    origin.flags = work.flags
    work.flags = outer_flags
    return 0


cdef size_t drop_what_is_over(Work* work, Origin* origin, size_t limit) except? 0 nogil:
    # Drops collected entries, whose texts were put last, that would exceed `limit` bytes of the list's text. Returns how many.
    cdef const uint64_t* typed = <const uint64_t*> work.typed.data
    cdef size_t i, kept = 0, count = count_entries(work), size = 0, more
    cdef Cursor texts = cursor(chunk_of(&origin.attributes.texts, 0))
    cdef Chunk text
    for i in range(count):
        next_text(&texts, &text)
        more = 3 + marked_size(symbol_text(work.symbols, <uint32_t> (typed[i] >> 8))) + marked_size(text)
        if more > limit - size:
            continue
        size += more
        entries(work)[kept] = entries(work)[i]
        kept += 1
    if kept == count:
        return 0
    work.entries.size = kept * sizeof(Entry)
    work.flags |= TRUNCATED
    origin.dropped = saturated(<uint64_t> origin.dropped + count - kept)
    return count - kept


cdef inline size_t marked_size(Chunk text) noexcept nogil:
    # The size that `put_marked` writes.
    cdef size_t i, size = text.size
    for i in range(text.size):
        size += 0 < text.at[i] <= ESCAPE
    return size


cdef int intern_list(Work* work, Attributes* attributes, uint32_t* symbol) except -1 nogil:
    # Interns the list that was put last, encoded as one text.
    cdef const uint64_t* typed = <const uint64_t*> work.typed.data
    cdef size_t i, count = work.typed.size >> 3
    cdef Cursor texts = cursor(chunk_of(&attributes.texts, 0))
    cdef Chunk text
    if count == 0:
        return 0
    work.types.size = 0
    for i in range(count):
        put_typed_key(&work.types, symbol_text(work.symbols, <uint32_t> (typed[i] >> 8)), <uint8_t> typed[i])
        next_text(&texts, &text)
        put_marked(&work.types, text)
    put_u8(&work.types, BEFORE_KEY)
    return intern(work.symbols, chunk_of(&work.types, 0), symbol)


cdef inline int next_text(Cursor* texts, Chunk* text) except -1 nogil:
    # Reads from a column of Native strings that the kernel wrote, so the next string exists.
    cdef uint64_t size = 0
    read_varint(texts, 10, &size)
    text.at = texts.at
    text.size = size
    texts.at += size
    return 0


cdef int put_entity_refs(Work* work, Origin* origin) except -1 nogil:
    cdef size_t i
    if count_chunks(&work.origin_refs) == 0:
        return 0
    work.json.size = 0
    put_u8(&work.json, 91)
    for i in range(count_chunks(&work.origin_refs)):
        if i:
            put_u8(&work.json, 44)
        put_entity_ref(work, chunks(&work.origin_refs)[i])
    put_u8(&work.json, 93)
    if work.json.size > work.limits.value:
        return put_cut(work, "/entityRefs", literal(""), False, work.json.size)
    return intern(work.symbols, chunk_of(&work.json, 0), &origin.entity_refs)


cdef int put_entity_ref(Work* work, Chunk message) except -1 nogil:
    cdef Cursor c = cursor(message)
    cdef Field field
    cdef Chunk schema_url = literal(""), kind = literal("")
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH and field.number == 1:
            schema_url = field.chunk
        elif field.wire == LENGTH and field.number == 2:
            kind = field.chunk
    put_literal(&work.json, '{"schemaUrl":')
    put_clean_json(work, schema_url)
    put_literal(&work.json, ',"type":')
    put_clean_json(work, kind)
    put_literal(&work.json, ',"idKeys":[')
    put_key_list(work, message, 3)
    put_literal(&work.json, '],"descriptionKeys":[')
    put_key_list(work, message, 4)
    return put_literal(&work.json, "]}")


cdef int put_clean_json(Work* work, Chunk text) except -1 nogil:
    clean_text(work, &text, False, SIZE_MAX)
    return put_json_string(&work.json, text)


cdef int put_key_list(Work* work, Chunk message, uint32_t number) except -1 nogil:
    cdef Cursor c = cursor(message)
    cdef Field field
    cdef bint first = True
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH and field.number == number:
            if not first:
                put_u8(&work.json, 44)
            first = False
            put_clean_json(work, field.chunk)
    return 0


cdef int derive_service(Work* work, Columns* columns, Origin* origin) except -1 nogil:
    # Searches the attributes that were put last, whose type letters are in `work.typed`. An attribute without a value
    # names nothing.
    cdef Cursor texts = cursor(chunk_of(&origin.attributes.texts, 0))
    cdef const uint64_t* typed = <const uint64_t*> work.typed.data
    cdef size_t i
    cdef Chunk text
    cdef uint32_t key
    cdef Chunk service = literal(""), release_text = literal(""), named = literal(""), environment = literal("")
    for i in range(count_u32(&origin.attributes.keys)):
        key = u32s(&origin.attributes.keys)[i]
        next_text(&texts, &text)
        if <uint8_t> typed[i] == 110:
            continue
        if key == columns.known.service_name:
            service = text
        elif key == columns.known.service_version:
            release_text = text
        elif key == columns.known.environment_name:
            named = text
        elif key == columns.known.environment:
            environment = text
    if named.size == 0:
        named = environment
    if named.size == 0:
        named = literal("unknown")
    intern_cut(work, service, &origin.service_name)
    intern_cut(work, named, &origin.environment)
    return intern_cut(work, release_text, &origin.release)


cdef inline int intern_cut(Work* work, Chunk text, uint32_t* symbol) except -1 nogil:
    text.size = character_boundary(text.at, text.size, work.limits.name)
    return intern(work.symbols, text, symbol)


cdef int intern_prefixed(Work* work, const char* prefix, uint32_t key, uint32_t* symbol) except -1 nogil:
    work.types.size = 0
    put_literal(&work.types, prefix)
    put_chunk(&work.types, symbol_text(work.symbols, key))
    return intern(work.symbols, chunk_of(&work.types, 0), symbol)


cdef int put_full_keys(Work* work, Origin* origin, const char* prefix, bint is_resource) except -1 nogil:
    cdef size_t i, keys = count_u32(&origin.attributes.keys)
    cdef uint32_t full = 0, name = UINT32_MAX, version = UINT32_MAX
    if not is_resource:
        intern(work.symbols, literal("scope.name"), &name)
        intern(work.symbols, literal("scope.version"), &version)
    origin.full_name = name if origin.name else UINT32_MAX
    origin.full_version = version if origin.version else UINT32_MAX
    for i in range(keys):
        intern_prefixed(work, prefix, u32s(&origin.attributes.keys)[i], &full)
        put_u32(&origin.full_keys, full)
        if full == name:
            origin.full_name = UINT32_MAX
        if full == version:
            origin.full_version = UINT32_MAX
    for i in range(count_u32(&origin.attributes.number_keys)):
        intern_prefixed(work, prefix, u32s(&origin.attributes.number_keys)[i], &full)
        put_u32(&origin.full_number_keys, full)
    return 0


# --- the walk down to items ------------------------------------------------------------------------------------------


cdef struct Place:
    # The position of the walk: resource and scope of the following items. They are created when the first item is accepted.
    uint32_t resource
    uint32_t scope
    Chunk resource_schema_url
    Chunk scope_schema_url


cdef int settle(Work* work, Columns* columns, Place* place) except -1 nogil:
    if place.resource == UINT32_MAX:
        new_origin(work, columns, &work.resources, True, place.resource_schema_url, &place.resource)
    if place.scope == UINT32_MAX:
        new_origin(work, columns, &work.scopes, False, place.scope_schema_url, &place.scope)
    return 0


cdef int read_request(Work* work, Columns* columns, Chunk body) except -1 nogil:
    cdef Cursor c = cursor(body)
    cdef Field field
    while next_field(&c, &field) == FIELD:
        if field.number == 1 and field.wire == LENGTH:
            read_resource_items(work, columns, field.chunk)
    return 0


cdef int read_resource_items(Work* work, Columns* columns, Chunk message) except -1 nogil:
    cdef Cursor c = cursor(message)
    cdef Field field
    cdef Place place
    place.resource = UINT32_MAX
    place.resource_schema_url = literal("")
    work.resources.size = 0
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH and field.number == 1:
            push_chunk(&work.resources, field.chunk)
        elif field.wire == LENGTH and field.number == 3:
            place.resource_schema_url = field.chunk
    c = cursor(message)
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH and field.number == 2:
            read_scope_items(work, columns, field.chunk, &place)
    return 0


cdef int read_scope_items(Work* work, Columns* columns, Chunk message, Place* place) except -1 nogil:
    cdef Cursor c = cursor(message)
    cdef Field field
    place.scope = UINT32_MAX
    place.scope_schema_url = literal("")
    work.scopes.size = 0
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH and field.number == 1:
            push_chunk(&work.scopes, field.chunk)
        elif field.wire == LENGTH and field.number == 3:
            place.scope_schema_url = field.chunk
    c = cursor(message)
    while next_field(&c, &field) == FIELD:
        if field.wire == LENGTH and field.number == 2 and not other_signal(columns.traces, field.chunk):
            work.flags = 0
            if columns.traces:
                read_span(work, columns, field.chunk, place)
            else:
                read_log_record(work, columns, field.chunk, place)
    return 0


cdef int accept(Work* work, Columns* columns, Part* part, Place* place) except -1 nogil:
    # The last step for every accepted item.
    cdef Origin* resource = &origins(columns)[place.resource]
    cdef Origin* scope = &origins(columns)[place.scope]
    cdef uint32_t flags = work.flags | resource.flags | scope.flags
    cdef int i
    put_u32(&part.resource, place.resource)
    put_u32(&part.scope, place.scope)
    put_truncations(&part.truncations, work, resource, scope)
    columns.accepted += 1
    columns.repeated += repeated_size(&columns.symbols, resource) + repeated_size(&columns.symbols, scope)
    part.rows += 1
    for i in range(MODIFICATIONS):
        columns.modified[i] += flags >> i & 1
    return 0


cdef inline size_t repeated_size(Symbols* symbols, Origin* origin) noexcept nogil:
    return symbol_text(symbols, origin.text).size + symbol_text(symbols, origin.cuts).size


cdef int put_truncations(Buf* out, Work* work, Origin* resource, Origin* scope) except -1 nogil:
    # The truncations in the item, its resource and its scope. Nearly always there are none.
    cdef size_t i
    cdef Chunk more
    finish_cuts(work)
    if work.cuts.size == 0 and resource.cuts == 0 and scope.cuts == 0:
        return put_u8(out, 0)
    for i in range(2):
        more = symbol_text(work.symbols, scope.cuts if i else resource.cuts)
        if more.size and work.cuts.size:
            put_u8(&work.cuts, 44)
        put_chunk(&work.cuts, more)
    put_varint(out, work.cuts.size + 2)
    put_u8(out, 91)
    put_chunk(out, chunk_of(&work.cuts, 0))
    return put_u8(out, 93)


cdef inline bint any_prefixed(Work* work) noexcept nogil:
    cdef size_t i
    for i in range(count_entries(work)):
        if key_state(work.symbols, work.words, entries(work)[i].key) & KEY_PREFIXED:
            return True
    return False


cdef inline bint all_zero(Bytes at, size_t size) noexcept nogil:
    cdef size_t i
    for i in range(size):
        if at[i]:
            return False
    return True


cdef inline int put_id(Work* work, Buf* out, Chunk id, size_t size) except -1 nogil:
    # An optional id: zeros unless it has the right length.
    cdef uint8_t zeros[16]
    if id.size == size:
        return put_chunk(out, id)
    if id.size:
        work.flags |= REPAIRED
    memset(zeros, 0, 16)
    return put(out, zeros, size)


cdef inline uint64_t clamped(Work* work, uint64_t nanos) noexcept nogil:
    if nanos >> 63:
        work.flags |= CLAMPED
        return 0x7FFFFFFFFFFFFFFFULL
    return nanos


cdef inline uint8_t enumerated(Work* work, uint64_t value, int last) noexcept nogil:
    cdef int32_t number = <int32_t> <uint32_t> value
    if 0 <= number <= last:
        return <uint8_t> number
    work.flags |= REPAIRED
    return 0


# --- exceptions ------------------------------------------------------------------------------------------------------


cdef int put_raised(Work* work, Columns* columns, int64_t time, Bytes trace_id, Bytes span_id, uint32_t resource) except -1 nogil:
    # Adds the caught texts as an exception of the item.
    cdef Raised raised
    if columns.raised.size // sizeof(Raised) >= work.limits.exceptions:
        columns.raised_over_limit += 1
        return 0
    raised.time = time
    raised.resource = resource
    memcpy(raised.trace_id, trace_id, 16)
    memcpy(raised.span_id, span_id, 8)
    raised.starts[0] = columns.raised_text.size
    put_chunk(&columns.raised_text, chunk_of(&work.caught_type, 0))
    raised.starts[1] = columns.raised_text.size
    put_chunk(&columns.raised_text, chunk_of(&work.caught_message, 0))
    raised.starts[2] = columns.raised_text.size
    put_chunk(&columns.raised_text, chunk_of(&work.caught_stack, 0))
    raised.starts[3] = columns.raised_text.size
    return put(&columns.raised, &raised, sizeof(Raised))
