# Text: UTF-8, truncation, numbers as text, JSON strings, base64. docs/codec.md section 2.

cdef extern from "<charconv>" namespace "std" nogil:
    enum chars_format "std::chars_format":
        scientific "std::chars_format::scientific"
        fixed "std::chars_format::fixed"
    struct to_chars_result "std::to_chars_result":
        char* ptr
    to_chars_result to_chars(char* first, char* last, double value, chars_format format)

cdef inline bint is_ascii(Bytes at, size_t size) noexcept nogil:
    cdef uint64_t word = 0, seen = 0
    cdef size_t i = 0
    while i + 8 <= size:
        memcpy(&word, at + i, 8)
        seen |= word
        i += 8
    seen |= load_word(at, size)
    return (seen & 0x8080808080808080ULL) == 0


cdef inline bint is_plain(Bytes at, size_t size) noexcept nogil:
    # Whether the text is ASCII and cannot contain a card or social security number, like nearly all texts. The shortest such
    # number has 11 bytes of digits, spaces and dashes, which cover two neighbouring aligned groups of four bytes; the second
    # one may be behind the words checked here.
    cdef uint64_t word = 0, seen = 0, numeric
    cdef size_t i = 0
    cdef bint low, high = False
    if size < 11:
        return is_ascii(at, size)
    while i + 8 <= size:
        memcpy(&word, at + i, 8)
        seen |= word
        numeric = numeric_bytes(word)
        low = (numeric & 0x80808080ULL) == 0x80808080ULL
        if low and (high or numeric >> 32 == 0x80808080ULL):
            return False
        high = numeric >> 32 == 0x80808080ULL
        i += 8
    seen |= load_word(at, size)
    return (seen & 0x8080808080808080ULL) == 0 and not (high and size & 4)


cdef inline uint64_t numeric_bytes(uint64_t word) noexcept nogil:
    # The high bit of each of eight ASCII bytes that is a digit, a space or a dash. A digit's sum with 0x50 reaches bit 7
    # and its sum with 0x46 does not. Two bytes are equal if their XOR plus 0x7F does not.
    cdef uint64_t digit = (word + 0x5050505050505050ULL) & ~(word + 0x4646464646464646ULL)
    cdef uint64_t space = ~((word ^ 0x2020202020202020ULL) + 0x7F7F7F7F7F7F7F7FULL)
    cdef uint64_t dash = ~((word ^ 0x2D2D2D2D2D2D2D2DULL) + 0x7F7F7F7F7F7F7F7FULL)
    return (digit | space | dash) & 0x8080808080808080ULL


cdef inline bint continues(Bytes at, size_t i, size_t size) noexcept nogil:
    return i < size and (at[i] & 0xC0) == 0x80


cdef bint is_utf8(Bytes at, size_t size) noexcept nogil:
    # Well-formed by Unicode's table 3-7: no over-long forms, no surrogates, nothing beyond U+10FFFF.
    cdef size_t i = 0
    cdef uint8_t lead, second
    if is_ascii(at, size):
        return True
    while i < size:
        lead = at[i]
        if lead < 0x80:
            i += 1
            continue
        if not continues(at, i + 1, size):
            return False
        second = at[i + 1]
        if 0xC2 <= lead <= 0xDF:
            i += 2
        elif 0xE0 <= lead <= 0xEF:
            if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second > 0x9F) or not continues(at, i + 2, size):
                return False
            i += 3
        elif 0xF0 <= lead <= 0xF4:
            if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F):
                return False
            if not continues(at, i + 2, size) or not continues(at, i + 3, size):
                return False
            i += 4
        else:
            return False
    return True


cdef enum:
    REPAIR_STEP = 1048576

cdef int put_repaired(Buf* out, Chunk text) except -1 nogil:
    # Rare, so CPython's decoder does it, with the same replacement characters as the reference by construction. In steps,
    # because it takes several times the memory of the text.
    cdef Py_ssize_t size = 0, read = 0, step
    cdef size_t at = 0
    cdef const char* repaired
    with gil:
        while at < text.size:
            step = <Py_ssize_t> min(text.size - at, <size_t> REPAIR_STEP)
            if at + <size_t> step < text.size:
                decoded = PyUnicode_DecodeUTF8Stateful(<const char*> text.at + at, step, "replace", &read)
            else:
                decoded = PyUnicode_DecodeUTF8Stateful(<const char*> text.at + at, step, "replace", NULL)
                read = step
            repaired = PyUnicode_AsUTF8AndSize(decoded, &size)
            put(out, repaired, <size_t> size)
            at += <size_t> read
    return 0


cdef inline size_t character_boundary(Bytes at, size_t size, size_t limit) noexcept nogil:
    # The longest prefix of at most `limit` bytes that splits no character. `at` is well-formed.
    if size <= limit:
        return size
    while limit > 0 and (at[limit] & 0xC0) == 0x80:
        limit -= 1
    return limit


cdef inline int put_integer(Buf* out, int64_t value) except -1 nogil:
    cdef char digits[24]
    cdef int i = 24
    cdef uint64_t rest = <uint64_t> value
    if value < 0:
        rest = 0 - rest
    while True:
        i -= 1
        digits[i] = <char> (48 + rest % 10)
        rest //= 10
        if rest == 0:
            break
    if value < 0:
        i -= 1
        digits[i] = 45
    return put(out, digits + i, 24 - i)


cdef int put_double(Buf* out, double value, bint keep_point) except -1 nogil:
    # Python's repr: shortest digits, fixed notation for exponents -4 to 15, otherwise at least two exponent digits.
    # `keep_point` keeps the ".0" of integral values (JSON). Without it they look like integers (canonical text).
    cdef char raw[40]
    cdef char digits[24]
    cdef char* end
    cdef char* at = raw
    cdef int count = 0, exponent = 0, i
    cdef bint negative_exponent
    if 1e-4 <= value < 9007199254740992.0:
        return put_usual_double(out, value, keep_point)
    end = to_chars(raw, raw + 40, value, scientific).ptr
    if at[0] == 45:
        put_u8(out, 45)
        at += 1
    while at < end and at[0] != 101:
        if at[0] != 46:
            digits[count] = at[0]
            count += 1
        at += 1
    at += 1
    negative_exponent = at[0] == 45
    at += 1
    while at < end:
        exponent = exponent * 10 + (at[0] - 48)
        at += 1
    if negative_exponent:
        exponent = -exponent
    if exponent < -4 or exponent >= 16:
        return put_scientific(out, digits, count, exponent)
    if exponent < 0:
        put_literal(out, "0.")
        for i in range(-exponent - 1):
            put_u8(out, 48)
        return put(out, digits, count)
    for i in range(exponent + 1):
        put_u8(out, digits[i] if i < count else 48)
    if count > exponent + 1:
        put_u8(out, 46)
        return put(out, digits + exponent + 1, count - exponent - 1)
    if keep_point:
        put_literal(out, ".0")
    return 0


cdef int put_usual_double(Buf* out, double value, bint keep_point) except -1 nogil:
    # Up to 2^53 the fixed notation has the same digits as the shortest one.
    cdef char* first
    cdef char* end
    cdef char* at
    reserve(out, 48)
    first = <char*> (out.data + out.size)
    end = to_chars(first, first + 40, value, fixed).ptr
    out.size += <size_t> (end - first)
    if keep_point:
        at = first
        while at < end:
            if at[0] == 46:
                return 0
            at += 1
        put_literal(out, ".0")
    return 0


cdef int put_scientific(Buf* out, const char* digits, int count, int exponent) except -1 nogil:
    put_u8(out, digits[0])
    if count > 1:
        put_u8(out, 46)
        put(out, digits + 1, count - 1)
    put_u8(out, 101)
    put_u8(out, 45 if exponent < 0 else 43)
    if exponent < 0:
        exponent = -exponent
    if exponent < 10:
        put_u8(out, 48)
    return put_integer(out, exponent)


cdef inline const char* special_double(double value) noexcept nogil:
    # NULL for a finite number.
    if value != value:
        return "NaN"
    if value == INFINITY:
        return "Infinity"
    if value == -INFINITY:
        return "-Infinity"
    return NULL


cdef int put_json_double(Buf* out, double value) except -1 nogil:
    cdef const char* special = special_double(value)
    if special == NULL:
        return put_double(out, value, True)
    put_u8(out, 34)
    put_literal(out, special)
    return put_u8(out, 34)


cdef const char* HEX = "0123456789abcdef"


cdef int put_json_string(Buf* out, Chunk text) except -1 nogil:
    # Escapes as json.dumps(ensure_ascii=False) writes them. `text` is well-formed UTF-8.
    cdef size_t i, start = 0
    cdef uint8_t c
    reserve(out, text.size + 2)
    put_u8(out, 34)
    for i in range(text.size):
        c = text.at[i]
        if c >= 32 and c != 34 and c != 92:
            continue
        put(out, text.at + start, i - start)
        start = i + 1
        put_json_escape(out, c)
    put(out, text.at + start, text.size - start)
    return put_u8(out, 34)


cdef size_t json_string_size(Chunk text) noexcept nogil:
    # The size that `put_json_string` writes.
    cdef size_t i, size = text.size + 2
    cdef uint8_t c
    for i in range(text.size):
        c = text.at[i]
        if c == 34 or c == 92 or c == 10 or c == 13 or c == 9 or c == 12 or c == 8:
            size += 1
        elif c < 32:
            size += 5
    return size


cdef int put_json_escape(Buf* out, uint8_t c) except -1 nogil:
    put_u8(out, 92)
    if c == 34 or c == 92:
        return put_u8(out, c)
    if c == 10:
        return put_u8(out, 110)
    if c == 13:
        return put_u8(out, 114)
    if c == 9:
        return put_u8(out, 116)
    if c == 12:
        return put_u8(out, 102)
    if c == 8:
        return put_u8(out, 98)
    put_literal(out, "u00")
    put_u8(out, HEX[c >> 4])
    return put_u8(out, HEX[c & 15])


cdef const char* BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef int put_base64(Buf* out, Chunk data) except -1 nogil:
    cdef size_t i = 0
    cdef uint32_t word
    reserve(out, (data.size + 2) // 3 * 4)
    while i + 3 <= data.size:
        word = (<uint32_t> data.at[i] << 16) | (<uint32_t> data.at[i + 1] << 8) | data.at[i + 2]
        put_u8(out, BASE64[word >> 18])
        put_u8(out, BASE64[(word >> 12) & 63])
        put_u8(out, BASE64[(word >> 6) & 63])
        put_u8(out, BASE64[word & 63])
        i += 3
    if data.size - i == 1:
        word = <uint32_t> data.at[i] << 16
        put_u8(out, BASE64[word >> 18])
        put_u8(out, BASE64[(word >> 12) & 63])
        return put_literal(out, "==")
    if data.size - i == 2:
        word = (<uint32_t> data.at[i] << 16) | (<uint32_t> data.at[i + 1] << 8)
        put_u8(out, BASE64[word >> 18])
        put_u8(out, BASE64[(word >> 12) & 63])
        put_u8(out, BASE64[(word >> 6) & 63])
        return put_u8(out, 61)
    return 0


cdef int put_hex(Buf* out, Bytes at, size_t size) except -1 nogil:
    cdef size_t i
    for i in range(size):
        put_u8(out, HEX[at[i] >> 4])
        put_u8(out, HEX[at[i] & 15])
    return 0
