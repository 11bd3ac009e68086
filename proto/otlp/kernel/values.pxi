# Attribute values: protobuf's merging rules, canonical text, JSON. docs/codec.md section 2.

cdef enum:
    TRUNCATED = 1
    REPAIRED = 2
    CLAMPED = 4
    SCRUBBED_FLAG = 8
    DEDUPLICATED = 16
    REVERSED = 32

cdef enum:
    EXPECTED_KEYS = 32

cdef enum AnyKind:
    ANY_NONE
    ANY_STRING
    ANY_BOOL
    ANY_INT
    ANY_DOUBLE
    ANY_ARRAY
    ANY_MAP
    ANY_BYTES

cdef struct Encoded:
    # An encoded message: absent (count 0), in one piece, or in several in Work.arena from `first` on.
    Chunk piece
    uint32_t first
    uint32_t count

cdef struct Entry:
    uint32_t key
    uint8_t sensitive   # KeyVerdict
    size_t cut_key      # the sent size of the key's first occurrence if it was truncated, otherwise 0
    Encoded value

cdef struct AnyValue:
    AnyKind kind
    Chunk bytes         # for ANY_STRING, ANY_BYTES
    int64_t integer     # for ANY_INT, ANY_BOOL
    double number       # for ANY_DOUBLE
    Encoded body        # for ANY_ARRAY, ANY_MAP: the ArrayValue or KeyValueList

cdef struct Value:
    # A value in its stored form; `text` is valid until the next value is read.
    uint8_t letter
    Chunk text
    bint finite         # type letter i, or d with a finite number
    double number
    uint64_t cut        # the sent size if the text was truncated, otherwise 0

cdef struct Limits:
    uint64_t items
    uint64_t parts
    size_t key
    size_t value
    size_t name
    size_t body
    size_t attributes
    size_t events
    size_t links
    size_t exceptions
    size_t resource     # this and the next two: SIZE_MAX for no limit
    size_t scope
    uint64_t repeated

cdef struct Work:
    # Working memory of one decoding. All Bufs first, so that they are released together.
    Buf arena           # Chunk: pieces of merged messages, used as a stack
    Buf entries         # Entry: current attribute lists, used as a stack
    Buf marks           # uint64 per symbol: list << 32 | index of the key in the current list
    Buf clean           # text that was changed
    Buf text            # the generated text of a value
    Buf types           # current attribute_types
    Buf typed           # uint64: key << 8 | type letter of each attribute in the current list
    Buf typed_before    # the same for the previous list, whose attribute_types is the symbol `types_before`
    Buf json            # current events, links, entity references
    Buf attributes      # Chunk: fields of the current item
    Buf events          # Chunk
    Buf links           # Chunk
    Buf resources       # Chunk
    Buf scopes          # Chunk
    Buf bodies          # Chunk
    Buf origin_fields   # Chunk: attributes of the current resource or scope
    Buf origin_refs     # Chunk: its entity references
    Buf caught_type     # exception.type, .message, .stacktrace of the current event or log record
    Buf caught_message
    Buf caught_stack
    Buf cuts            # truncations in the current item, resource or scope: entries of a JSON list
    Buf path            # the JSON Pointer of one truncation
    Limits limits
    SensitiveWords* words
    Symbols* symbols
    uint32_t expected[EXPECTED_KEYS]    # symbols of the keys of the previous list
    uint32_t types_before
    uint32_t lists
    uint32_t flags      # modifications of the current item, resource or scope
    uint32_t stack_trace    # symbol of exception.stacktrace
    uint64_t unwritten      # bytes of the current array or map beyond its limit
    size_t cuts_limit       # bytes of `cuts`
    uint64_t cuts_left_out  # sent bytes of truncations that do not fit into `cuts`
    const char* parent      # of the paths of truncations: "", "/events/", "/links/", "/resource", "/scope"
    int64_t parent_index    # index of an event or link, otherwise -1
    const char* member      # the current value: "/attributes/" and the key `attribute`, or "/body"
    uint32_t attribute
    bint cut_key_noted      # for the current value: recorded once for all keys in it, of which there may be a million

cdef enum:
    WORK_BUFS = 22


cdef inline Entry* entries(Work* work) noexcept nogil:
    return <Entry*> work.entries.data


cdef inline size_t count_entries(Work* work) noexcept nogil:
    return work.entries.size // sizeof(Entry)


cdef inline bint clean_text(Work* work, Chunk* text, bint scrub, size_t limit) except -1 nogil:
    # Repairs, scrubs and truncates. Returns whether it truncated. `text` usually still points to the received bytes. Valid
    # until the next call.
    if not is_plain(text.at, text.size):
        change_text(work, text, scrub)
    if text.size > limit:
        text.size = character_boundary(text.at, text.size, limit)
        work.flags |= TRUNCATED
        return True
    return False


cdef inline int clean_member(Work* work, Chunk* text, size_t limit, const char* member) except -1 nogil:
    # Like `clean_text` for a text that is not scrubbed and has the path of `member`.
    cdef size_t sent = text.size
    if clean_text(work, text, False, limit):
        put_cut(work, member, literal(""), False, sent)
    return 0


# --- what was cut ----------------------------------------------------------------------------------------------------


cdef int put_cut(Work* work, const char* member, Chunk key, bint is_key, uint64_t sent) except -1 nogil:
    # Records that `member` of the current parent was truncated, or with "/attributes/" the attribute `key` or the key itself.
    cdef size_t before = work.cuts.size
    work.flags |= TRUNCATED
    work.path.size = 0
    put_literal(&work.path, work.parent)
    if work.parent_index >= 0:
        put_integer(&work.path, work.parent_index)
    put_literal(&work.path, member)
    put_pointer_token(&work.path, key)
    if is_key:
        put_literal(&work.path, "/#")
    put_cut_entry(&work.cuts, chunk_of(&work.path, 0), sent)
    if work.cuts.size > work.cuts_limit:
        work.cuts.size = before
        work.cuts_left_out += sent
    return 0


cdef int put_cut_entry(Buf* out, Chunk path, uint64_t sent) except -1 nogil:
    if out.size:
        put_u8(out, 44)
    put_literal(out, '{"path":')
    put_json_string(out, path)
    put_literal(out, ',"bytes":')
    put_integer(out, <int64_t> sent)
    return put_u8(out, 125)


cdef inline void begin_cuts(Work* work, size_t limit) noexcept nogil:
    work.cuts.size = 0
    work.cuts_limit = limit
    work.cuts_left_out = 0


cdef inline int finish_cuts(Work* work) except -1 nogil:
    if work.cuts_left_out:
        put_cut_entry(&work.cuts, literal("/truncations"), work.cuts_left_out)
        work.cuts_left_out = 0
    return 0


cdef int put_pointer_token(Buf* out, Chunk token) except -1 nogil:
    # RFC 6901: ~ is ~0, / is ~1.
    cdef size_t i
    for i in range(token.size):
        if token.at[i] == 126:
            put_literal(out, "~0")
        elif token.at[i] == 47:
            put_literal(out, "~1")
        else:
            put_u8(out, token.at[i])
    return 0


cdef inline void enter(Work* work, const char* parent, int64_t index) noexcept nogil:
    # Sets the path of the next values: the path of the item (""), or of its event, link, resource or scope.
    work.parent = parent
    work.parent_index = index


cdef int change_text(Work* work, Chunk* text, bint scrub) except -1 nogil:
    cdef size_t start, first = 0, end = 0
    work.clean.size = 0
    if not is_utf8(text.at, text.size):
        put_repaired(&work.clean, text[0])
        text[0] = chunk_of(&work.clean, 0)
        work.flags |= REPAIRED
    if not scrub or not find_number(text[0], &first, &end):
        return 0
    start = work.clean.size
    # The input may be in the output buffer, which must not be reallocated. A match of 11 bytes becomes 10.
    reserve(&work.clean, text.size)
    if start:
        text[0] = chunk_of(&work.clean, 0)
    put_scrubbed(&work.clean, text[0], first, end)
    work.flags |= SCRUBBED_FLAG
    text[0] = chunk_of(&work.clean, start)
    return 0


cdef inline bint intern_text(Work* work, Chunk text, size_t limit, uint32_t* symbol) except -1 nogil:
    # Interns a key or name. A known one is not checked again. Returns whether it was truncated.
    cdef uint64_t hashed
    cdef bint truncated
    if text.size <= limit:
        hashed = hash_bytes(text.at, text.size)
        if find_symbol(work.symbols, text, hashed, symbol):
            return False
        if is_utf8(text.at, text.size):
            symbol[0] = symbol_count(work.symbols)
            add_symbol(work.symbols, text, hashed)
            return False
    truncated = clean_text(work, &text, False, limit)
    intern(work.symbols, text, symbol)
    return truncated


cdef inline int intern_member(Work* work, Chunk text, uint32_t* symbol, const char* member) except -1 nogil:
    # Interns a name, which has the path of `member`.
    if intern_text(work, text, work.limits.name, symbol):
        put_cut(work, member, literal(""), False, text.size)
    return 0


cdef inline uint8_t verdict_of(Work* work, uint32_t key) noexcept nogil:
    return key_state(work.symbols, work.words, key) // KEY_VERDICT


cdef int judge_key(Work* work, Chunk key, Entry* entry) except -1 nogil:
    # Uses the full key: the truncated part may contain the sensitive word.
    if same(symbol_text(work.symbols, entry.key), key):
        entry.sensitive = verdict_of(work, entry.key)
        return 0
    clean_text(work, &key, False, SIZE_MAX)
    entry.sensitive = judge(work.words, key)
    return 0


# --- attribute lists -------------------------------------------------------------------------------------------------


cdef int add_piece(Work* work, Encoded* message, Chunk piece) except -1 nogil:
    # Adds an occurrence of a singular message field. The pieces of one message are adjacent in the arena: nothing else is
    # pushed while they are collected.
    if message.count == 0:
        message.piece = piece
    else:
        if message.count == 1:
            message.first = <uint32_t> count_chunks(&work.arena)
            push_chunk(&work.arena, message.piece)
        push_chunk(&work.arena, piece)
    message.count += 1
    return 0


cdef inline Chunk piece_of(Work* work, Encoded* message, uint32_t i) noexcept nogil:
    if message.count == 1:
        return message.piece
    return chunks(&work.arena)[message.first + i]


cdef inline uint64_t* mark_of(Work* work, uint32_t symbol) except NULL nogil:
    cdef size_t size = <size_t> symbol_count(work.symbols) * 8
    if work.marks.size < size:
        reserve(&work.marks, size - work.marks.size)
        memset(work.marks.data + work.marks.size, 0, work.marks.cap - work.marks.size)
        work.marks.size = work.marks.cap & ~<size_t> 7
    return <uint64_t*> work.marks.data + symbol


cdef inline bint split_short(Chunk message, Chunk* key, Encoded* value) noexcept nogil:
    # Fast path for the usual KeyValue: exactly a key and a value, both under 128 bytes.
    cdef size_t key_size, value_size
    if message.size < 4 or message.at[0] != 0x0A:
        return False
    key_size = message.at[1]
    if key_size >= 128 or key_size + 4 > message.size or message.at[key_size + 2] != 0x12:
        return False
    value_size = message.at[key_size + 3]
    if value_size >= 128 or key_size + 4 + value_size != message.size:
        return False
    key.at = message.at + 2
    key.size = key_size
    value.piece.at = key.at + key_size + 2
    value.piece.size = value_size
    value.count = 1
    return True


cdef int split_key_value(Work* work, Chunk message, Chunk* key, Encoded* value) except -1 nogil:
    cdef Cursor c = cursor(message)
    cdef Field field
    key[0] = literal("")
    value.count = 0
    while next_field(&c, &field) == FIELD:
        if field.wire != LENGTH:
            continue
        if field.number == 1:
            key[0] = field.chunk
        elif field.number == 2:
            add_piece(work, value, field.chunk)
    return 0


cdef inline bint is_expected(Work* work, Chunk key, size_t place, uint32_t* symbol) noexcept nogil:
    # Consecutive lists are similar: compares with the key at this index in the previous list before the look-up.
    if place >= EXPECTED_KEYS:
        return False
    symbol[0] = work.expected[place]
    return same(symbol_text(work.symbols, symbol[0]), key)


cdef inline void expect(Work* work, size_t place, uint32_t symbol) noexcept nogil:
    if place < EXPECTED_KEYS:
        work.expected[place] = symbol


cdef int collect(Work* work, Chunk key_value, size_t start, size_t limit, uint32_t* dropped) except -1 nogil:
    # Adds one KeyValue to the list that begins at entry `start`, replaces the entry with the same key, or drops it.
    cdef Entry entry
    cdef Chunk key
    cdef uint64_t* mark
    cdef uint32_t flags = work.flags
    if not split_short(key_value, &key, &entry.value):
        split_key_value(work, key_value, &key, &entry.value)
    work.flags = 0
    entry.cut_key = 0
    if is_expected(work, key, count_entries(work) - start, &entry.key):
        entry.sensitive = verdict_of(work, entry.key)
    else:
        if intern_text(work, key, work.limits.key, &entry.key):
            entry.cut_key = key.size
        expect(work, count_entries(work) - start, entry.key)
        judge_key(work, key, &entry)
    mark = mark_of(work, entry.key)
    if mark[0] >> 32 == work.lists:
        entries(work)[start + <uint32_t> mark[0]].value = entry.value
        entries(work)[start + <uint32_t> mark[0]].sensitive = entry.sensitive
        work.flags = flags | DEDUPLICATED
    elif count_entries(work) - start >= limit:
        work.flags = flags
        if dropped[0] != UINT32_MAX:
            dropped[0] += 1
    else:
        mark[0] = <uint64_t> work.lists << 32 | (count_entries(work) - start)
        put(&work.entries, &entry, sizeof(Entry))
        work.flags |= flags
    return 0


cdef int collect_all(Work* work, Buf* fields, uint32_t* dropped) except -1 nogil:
    # Collects an attribute list of an item from its occurrences in `fields` onto the empty stack of entries.
    cdef size_t i
    work.lists += 1
    work.entries.size = 0
    work.arena.size = 0
    for i in range(count_chunks(fields)):
        collect(work, chunks(fields)[i], 0, work.limits.attributes, dropped)
    return 0


# --- values ----------------------------------------------------------------------------------------------------------


cdef int read_any(Work* work, Encoded* message, AnyValue* value) except -1 nogil:
    cdef Cursor c
    cdef Field field
    cdef uint32_t i
    cdef size_t base = work.arena.size
    value.kind = ANY_NONE
    for i in range(message.count):
        c = cursor(piece_of(work, message, i))
        while next_field(&c, &field) == FIELD:
            if field.wire == LENGTH:
                if field.number == 1:
                    value.kind = ANY_STRING
                    value.bytes = field.chunk
                elif field.number == 7:
                    value.kind = ANY_BYTES
                    value.bytes = field.chunk
                elif field.number == 5 or field.number == 6:
                    if value.kind != (ANY_ARRAY if field.number == 5 else ANY_MAP):
                        value.kind = ANY_ARRAY if field.number == 5 else ANY_MAP
                        value.body.count = 0
                        work.arena.size = base
                    add_piece(work, &value.body, field.chunk)
            elif field.wire == VARINT:
                if field.number == 3:
                    value.kind = ANY_INT
                    value.integer = <int64_t> field.value
                elif field.number == 2:
                    value.kind = ANY_BOOL
                    value.integer = field.value != 0
                elif field.number == 8:
                    value.kind = ANY_NONE
            elif field.wire == FIXED64 and field.number == 4:
                value.kind = ANY_DOUBLE
                memcpy(&value.number, &field.value, 8)
    return 0


cdef inline bint is_short_string(Encoded* message, Chunk* text) noexcept nogil:
    # Fast path for the usual value: exactly a string under 128 bytes.
    if message.count != 1 or message.piece.size < 2 or message.piece.at[0] != 0x0A:
        return False
    text.at = message.piece.at + 2
    text.size = message.piece.at[1]
    return text.size < 128 and text.size + 2 == message.piece.size


cdef inline bint is_short_scalar(Encoded* message, AnyValue* any) noexcept nogil:
    # Fast path for exactly a bool or an integer in one byte, or a double.
    if message.count != 1:
        return False
    if message.piece.size == 2 and message.piece.at[1] < 128:
        any.integer = message.piece.at[1]
        if message.piece.at[0] == 0x18:
            any.kind = ANY_INT
            return True
        any.kind = ANY_BOOL
        return message.piece.at[0] == 0x10
    any.kind = ANY_DOUBLE
    if message.piece.size != 9 or message.piece.at[0] != 0x21:
        return False
    memcpy(&any.number, message.piece.at + 1, 8)
    return True


cdef inline void enter_value(Work* work, const char* member, uint32_t attribute) noexcept nogil:
    work.member = member
    work.attribute = attribute
    work.cut_key_noted = False


cdef inline int note_cut_key(Work* work, Entry* entry) except -1 nogil:
    if entry.cut_key == 0 or work.cut_key_noted:
        return 0
    work.cut_key_noted = True
    return put_cut(work, work.member, symbol_text(work.symbols, work.attribute), True, entry.cut_key)


cdef int read_attribute(Work* work, Entry* entry, Value* value) except -1 nogil:
    # The stored form of an attribute's value. Records truncations of the value. Without a value its text is `null`.
    enter_value(work, "/attributes/", entry.key)
    note_cut_key(work, entry)
    read_value_text(work, &entry.value, entry.sensitive, work.limits.value, entry.key == work.stack_trace, value)
    if value.letter == 110:
        value.text = literal("null")
    if value.cut:
        put_cut(work, "/attributes/", symbol_text(work.symbols, entry.key), False, value.cut)
    return 0


cdef int is_scrubbed(Work* work, Encoded* message, uint8_t verdict) except -1 nogil:
    # Whether the value of a key with this verdict is replaced.
    cdef AnyValue any
    cdef size_t base = work.arena.size
    if verdict == VERDICT_KEPT:
        return False
    if is_short_string(message, &any.bytes):
        any.kind = ANY_STRING
    elif not is_short_scalar(message, &any):
        read_any(work, message, &any)
        work.arena.size = base
    if verdict == VERDICT_NUMBERS and any.kind == ANY_STRING:
        return not reads_as_number(any.bytes)
    return any.kind != ANY_BOOL and (verdict == VERDICT_SCRUBBED or (any.kind != ANY_INT and any.kind != ANY_DOUBLE))


cdef int read_value_text(
    Work* work, Encoded* message, uint8_t sensitive, size_t limit, bint keep_end, Value* value
) except -1 nogil:
    # The stored form of an attribute's value or of a log body. With `keep_end`, half of the limit is for a string's end.
    cdef AnyValue any
    value.finite = False
    value.cut = 0
    if sensitive and is_scrubbed(work, message, sensitive):
        value.letter = 115
        value.text = literal(SCRUBBED)
        work.flags |= SCRUBBED_FLAG
        return 0
    if is_short_string(message, &value.text):
        return clean_string(work, limit, keep_end, value)
    if not is_short_scalar(message, &any):
        read_any(work, message, &any)
    if any.kind == ANY_STRING:
        value.text = any.bytes
        return clean_string(work, limit, keep_end, value)
    work.text.size = 0
    if any.kind == ANY_NONE:
        value.letter = 110
    elif any.kind == ANY_BOOL:
        value.letter = 98
        put_literal(&work.text, "true" if any.integer else "false")
    elif any.kind == ANY_INT:
        value.letter = 105
        put_integer(&work.text, any.integer)
        value.finite = True
        value.number = <double> any.integer
    elif any.kind == ANY_DOUBLE:
        value.letter = 100
        value.number = any.number
        value.finite = special_double(any.number) == NULL
        if value.finite:
            put_double(&work.text, any.number, False)
        else:
            put_literal(&work.text, special_double(any.number))
    elif any.kind == ANY_BYTES:
        value.letter = 120
        if any.bytes.size > limit:
            value.cut = any.bytes.size
            any.bytes.size = limit
        put_base64(&work.text, any.bytes)
    else:
        value.letter = 97 if any.kind == ANY_ARRAY else 109
        work.unwritten = 0
        put_json_any(work, &any, &work.text, limit)
        if work.text.size > limit:
            value.letter = 115
            value.cut = work.text.size + work.unwritten
            work.text.size = character_boundary(work.text.data, work.text.size, limit)
    value.text = chunk_of(&work.text, 0)
    return 0


cdef inline int clean_string(Work* work, size_t limit, bint keep_end, Value* value) except -1 nogil:
    cdef size_t sent = value.text.size
    value.letter = 115
    if keep_end:
        return clean_at_both_ends(work, limit, value)
    if clean_text(work, &value.text, True, limit):
        value.cut = sent
    return 0


cdef int clean_at_both_ends(Work* work, size_t limit, Value* value) except -1 nogil:
    # Cuts the middle of a longer text. A line says how many bytes were cut.
    cdef size_t sent = value.text.size, head, tail
    clean_text(work, &value.text, True, SIZE_MAX)
    if value.text.size <= limit:
        return 0
    value.cut = sent
    head = character_boundary(value.text.at, value.text.size, limit // 2)
    tail = value.text.size - limit // 2
    while tail < value.text.size and (value.text.at[tail] & 0xC0) == 0x80:
        tail += 1
    work.text.size = 0
    put(&work.text, value.text.at, head)
    put_literal(&work.text, "\n[")
    put_integer(&work.text, <int64_t> (tail - head))
    put_literal(&work.text, " bytes cut]\n")
    put(&work.text, value.text.at + tail, value.text.size - tail)
    value.text = chunk_of(&work.text, 0)
    return 0


cdef int put_json_value(Work* work, Value* value, Buf* out) except -1 nogil:
    # A value in its stored form as a member of a JSON object.
    if value.letter == 115:
        return put_json_string(out, value.text)
    if value.letter == 100:
        return put_json_double(out, value.number)
    if value.letter == 120:
        return put_json_base64(out, value.text)
    if value.letter == 110:
        return put_literal(out, "null")
    return put_chunk(out, value.text)


cdef int put_json_base64(Buf* out, Chunk encoded) except -1 nogil:
    put_literal(out, '{"bytesValue":"')
    put_chunk(out, encoded)
    return put_literal(out, '"}')


# --- nested values: JSON, written up to a limit; the rest is still read for its flags -----------------------------------


cdef inline bint full(Buf* out, size_t limit) noexcept nogil:
    return out.size > limit


cdef int put_json_any(Work* work, AnyValue* any, Buf* out, size_t limit) except -1 nogil:
    cdef Chunk text
    if any.kind == ANY_ARRAY:
        return put_json_array(work, &any.body, out, limit)
    if any.kind == ANY_MAP:
        return put_json_map(work, &any.body, out, limit)
    if any.kind == ANY_STRING:
        text = any.bytes
        clean_text(work, &text, True, SIZE_MAX)
        return put_nested_text(work, text, out, limit)
    if any.kind == ANY_BYTES and full(out, limit):
        work.unwritten += 17 + (any.bytes.size + 2) // 3 * 4
        return 0
    return put_json_scalar(work, any, out, limit)


cdef int put_json_scalar(Work* work, AnyValue* any, Buf* out, size_t limit) except -1 nogil:
    cdef size_t size = out.size
    if any.kind == ANY_NONE:
        put_literal(out, "null")
    elif any.kind == ANY_BOOL:
        put_literal(out, "true" if any.integer else "false")
    elif any.kind == ANY_INT:
        put_integer(out, any.integer)
    elif any.kind == ANY_DOUBLE:
        put_json_double(out, any.number)
    else:
        put_literal(out, '{"bytesValue":"')
        put_base64(out, any.bytes)
        put_literal(out, '"}')
    if size > limit:
        work.unwritten += out.size - size
        out.size = size
    return 0


cdef int put_nested_text(Work* work, Chunk text, Buf* out, size_t limit) except -1 nogil:
    if not full(out, limit):
        return put_json_string(out, text)
    work.unwritten += json_string_size(text)
    return 0


cdef inline int put_mark(Work* work, Buf* out, uint8_t mark, size_t limit) except -1 nogil:
    if not full(out, limit):
        return put_u8(out, mark)
    work.unwritten += 1
    return 0


cdef int put_json_array(Work* work, Encoded* array, Buf* out, size_t limit) except -1 nogil:
    cdef Cursor c
    cdef Field field
    cdef Encoded element
    cdef AnyValue any
    cdef uint32_t i
    cdef size_t base = work.arena.size
    cdef bint first = True
    put_mark(work, out, 91, limit)
    for i in range(array.count):
        c = cursor(piece_of(work, array, i))
        while next_field(&c, &field) == FIELD:
            if field.number != 1 or field.wire != LENGTH:
                continue
            if not first:
                put_mark(work, out, 44, limit)
            first = False
            element.piece = field.chunk
            element.count = 1
            read_any(work, &element, &any)
            put_json_any(work, &any, out, limit)
            work.arena.size = base
    return put_mark(work, out, 93, limit)


cdef int put_json_map(Work* work, Encoded* map, Buf* out, size_t limit) except -1 nogil:
    cdef Cursor c
    cdef Field field
    cdef uint32_t i, unlimited = 0
    cdef size_t e, start = count_entries(work), base = work.arena.size
    work.lists += 1
    for i in range(map.count):
        c = cursor(piece_of(work, map, i))
        while next_field(&c, &field) == FIELD:
            if field.number == 1 and field.wire == LENGTH:
                collect(work, field.chunk, start, SIZE_MAX, &unlimited)
    put_mark(work, out, 123, limit)
    for e in range(start, count_entries(work)):
        if e > start:
            put_mark(work, out, 44, limit)
        put_json_entry(work, entries(work)[e], out, limit)
    work.entries.size = start * sizeof(Entry)
    work.arena.size = base
    return put_mark(work, out, 125, limit)


cdef int put_json_entry(Work* work, Entry entry, Buf* out, size_t limit) except -1 nogil:
    # `entry` is a copy, because the stack that it came from grows below.
    cdef AnyValue any
    cdef size_t base = work.arena.size
    note_cut_key(work, &entry)
    put_nested_text(work, symbol_text(work.symbols, entry.key), out, limit)
    put_mark(work, out, 58, limit)
    if entry.sensitive and is_scrubbed(work, &entry.value, entry.sensitive):
        work.flags |= SCRUBBED_FLAG
        return put_nested_text(work, literal(SCRUBBED), out, limit)
    read_any(work, &entry.value, &any)
    put_json_any(work, &any, out, limit)
    work.arena.size = base
    return 0
