# Interns repeated strings (keys, names, services): once per request, identified by number. Symbol 0 is "".

cdef struct Symbols:
    Buf text
    Buf starts      # uint64, one more than there are symbols
    Buf hashes      # uint64
    Buf slots       # uint32: symbol + 1, or 0; their number is a power of two
    Buf states      # uint8, see KEY_*

cdef enum:
    KEY_KNOWN = 1       # the following bits are computed
    KEY_PREFIXED = 4    # begins with "resource." or "scope."
    KEY_VERDICT = 8     # and above: a KeyVerdict


cdef inline uint64_t hash_bytes(Bytes at, size_t size) noexcept nogil:
    # Not cryptographic, but seeded: clients cannot predict which keys collide.
    cdef uint64_t h = HASH_SEED ^ (size * 0x9E3779B97F4A7C15ULL)
    cdef uint64_t word = 0
    while size > 8:
        memcpy(&word, at, 8)
        h = (h ^ word) * 0xFF51AFD7ED558CCDULL
        h ^= h >> 32
        at += 8
        size -= 8
    h = (h ^ load_word(at, size)) * 0xFF51AFD7ED558CCDULL
    h ^= h >> 32
    h *= 0xC4CEB9FE1A85EC53ULL
    return h ^ (h >> 29)


cdef inline uint32_t symbol_count(Symbols* symbols) noexcept nogil:
    return <uint32_t> (symbols.hashes.size >> 3)


cdef inline Chunk symbol_text(Symbols* symbols, uint32_t symbol) noexcept nogil:
    cdef const uint64_t* starts = <const uint64_t*> symbols.starts.data
    cdef Chunk chunk
    chunk.at = symbols.text.data + starts[symbol]
    chunk.size = starts[symbol + 1] - starts[symbol]
    return chunk


cdef int resize_slots(Buf* slots, Buf* hashes, size_t count) except -1 nogil:
    # An open-addressing index over `hashes`; grown before it is half full.
    cdef uint32_t* table
    cdef const uint64_t* hash_of = <const uint64_t*> hashes.data
    cdef size_t i, at
    slots.size = 0
    reserve(slots, count * 4)
    slots.size = count * 4
    memset(slots.data, 0, slots.size)
    table = u32s(slots)
    for i in range(hashes.size >> 3):
        at = hash_of[i] & (count - 1)
        while table[at]:
            at = (at + 1) & (count - 1)
        table[at] = <uint32_t> i + 1
    return 0


cdef int start_symbols(Symbols* symbols) except -1 nogil:
    put_u64(&symbols.starts, 0)
    resize_slots(&symbols.slots, &symbols.hashes, 128)
    add_symbol(symbols, literal(""), hash_bytes(literal("").at, 0))
    return 0


cdef int add_symbol(Symbols* symbols, Chunk text, uint64_t hashed) except -1 nogil:
    cdef size_t slots = count_u32(&symbols.slots), at
    put_chunk(&symbols.text, text)
    put_u64(&symbols.starts, symbols.text.size)
    put_u64(&symbols.hashes, hashed)
    put_u8(&symbols.states, 0)
    if symbol_count(symbols) * 2 > slots:
        return resize_slots(&symbols.slots, &symbols.hashes, slots * 2)
    at = hashed & (slots - 1)
    while u32s(&symbols.slots)[at]:
        at = (at + 1) & (slots - 1)
    u32s(&symbols.slots)[at] = symbol_count(symbols)
    return 0


cdef inline bint find_symbol(Symbols* symbols, Chunk text, uint64_t hashed, uint32_t* found) noexcept nogil:
    cdef const uint32_t* slots = u32s(&symbols.slots)
    cdef const uint64_t* hashes = <const uint64_t*> symbols.hashes.data
    cdef size_t mask = count_u32(&symbols.slots) - 1
    cdef size_t at = hashed & mask
    while slots[at]:
        if hashes[slots[at] - 1] == hashed and same(symbol_text(symbols, slots[at] - 1), text):
            found[0] = slots[at] - 1
            return True
        at = (at + 1) & mask
    return False


cdef inline int intern(Symbols* symbols, Chunk text, uint32_t* symbol) except -1 nogil:
    # `text` must be well-formed UTF-8 and must not point into the symbols.
    cdef uint64_t hashed = hash_bytes(text.at, text.size)
    if not find_symbol(symbols, text, hashed, symbol):
        symbol[0] = symbol_count(symbols)
        add_symbol(symbols, text, hashed)
    return 0


cdef bint begins_with(Chunk text, const char* prefix) noexcept nogil:
    cdef size_t size = strlen(prefix)
    return text.size >= size and memcmp(text.at, prefix, size) == 0


cdef inline uint8_t key_state(Symbols* symbols, SensitiveWords* words, uint32_t symbol) noexcept nogil:
    cdef uint8_t state = symbols.states.data[symbol]
    cdef Chunk key
    if state == 0:
        key = symbol_text(symbols, symbol)
        state = <uint8_t> (KEY_KNOWN | judge(words, key) * KEY_VERDICT)
        if begins_with(key, "resource.") or begins_with(key, "scope."):
            state |= KEY_PREFIXED
        symbols.states.data[symbol] = state
    return state
