# The tokens of OTLP/JSON: white space, strings and numbers. docs/codec.md section 6.
#
# The functions of this file return True, or False for input that the reference must read: all unusual input, valid or
# not. Text is copied unchanged. Text that is not UTF-8 is repaired later, like text of protobuf.

cdef extern from *:
    """
    #include <charconv>
    #include <cstdint>
    #include <cstring>
    #include <system_error>
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif

    // The number of bytes, of 16, before the first quote, backslash or control character.
    static inline size_t sluice_plain_run(const uint8_t* at) {
    #if defined(__SSE2__)
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
        const __m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
        const __m128i slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\\\'));
        const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(31)), bytes);
        const int mask = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control));
        return mask ? static_cast<size_t>(__builtin_ctz(static_cast<unsigned>(mask))) : 16;
    #else
        size_t run = 0;
        while (run < 16 && at[run] != '"' && at[run] != '\\\\' && at[run] > 31) run++;
        return run;
    #endif
    }

    // Counts opening braces. (Compilers do not see that a byte can count 255 of them.)
    static inline size_t sluice_count_braces(const uint8_t* at, size_t size) {
        size_t i = 0, count = 0;
    #if defined(__SSE2__)
        while (size - i >= 16) {
            __m128i found = _mm_setzero_si128();
            for (int round = 0; round < 255 && size - i >= 16; round++, i += 16) {
                const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i));
                found = _mm_sub_epi8(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('{')));
            }
            uint64_t sums[2];
            _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), _mm_sad_epu8(found, _mm_setzero_si128()));
            count += static_cast<size_t>(sums[0] + sums[1]);
        }
    #endif
        for (; i < size; i++) count += at[i] == '{';
        return count;
    }

    // The double nearest to a decimal number; false if it is out of range, or this library cannot compute it.
    static inline bool sluice_nearest_double(const uint8_t* first, const uint8_t* last, double* value) {
    #if defined(__cpp_lib_to_chars)
        const char* end = reinterpret_cast<const char*>(last);
        const auto read = std::from_chars(reinterpret_cast<const char*>(first), end, *value);
        return read.ec == std::errc() && read.ptr == end;
    #else
        return false;
    #endif
    }
    """
    size_t plain_run "sluice_plain_run"(Bytes at) noexcept nogil
    size_t count_braces "sluice_count_braces"(Bytes at, size_t size) noexcept nogil
    bint nearest_double "sluice_nearest_double"(Bytes first, Bytes last, double* value) noexcept nogil

cdef enum:
    WIDE = 16           # bytes that `plain_run` reads
    SKIPPED_DEPTH = 64  # nesting of skipped values; each level of a value (VALUE_DEPTH) has more than three levels of JSON
    MAX_DIGITS = 20
    LONGEST_SNAKE = 40  # bytes; no name that is read or known is longer

cdef uint8_t NEVER_UTF8 = 0xFF

cdef struct Json:
    Bytes at
    Bytes end
    Buf* out
    Buf* name           # the name of a member, if it has escapes
    uint64_t items
    uint64_t objects
    uint64_t max_items
    uint64_t max_objects
    uint32_t places[3]  # indexes of the resource, the scope and the item in their lists
    void* reader        # reads items in Python
    uint64_t most_left  # bytes of items that `reader` may still read
    uint64_t most_item  # bytes of one such item
    uint32_t warnings   # bits of WARN_...
    uint8_t camel[LONGEST_SNAKE]    # the name of a member in lowerCamelCase, if it was in snake_case


cdef inline uint8_t peek(Json* j) noexcept nogil:
    # The next byte, 0 at the end.
    return j.at[0] if j.at < j.end else 0


cdef inline uint8_t next_byte(Json* j) noexcept nogil:
    # The next byte that is not white space, 0 at the end.
    cdef uint8_t c
    while j.at < j.end:
        c = j.at[0]
        if c > 32:
            return c
        if c != 32 and c != 10 and c != 13 and c != 9:
            return c
        j.at += 1
    return 0


cdef inline bint take(Json* j, uint8_t c) noexcept nogil:
    if j.at < j.end and j.at[0] == c:
        j.at += 1
        return True
    return False


cdef inline bint take_literal(Json* j, const char* text, size_t size) noexcept nogil:
    if <size_t> (j.end - j.at) < size or memcmp(j.at, text, size) != 0:
        return False
    j.at += size
    return True


# --- strings: each begins after the opening quote and ends after the closing one ----------------------------------------


cdef bint put_rest_of_string(Json* j, Buf* out) except -1 nogil:
    cdef size_t run
    while True:
        reserve(out, WIDE)
        if j.end - j.at >= WIDE:
            memcpy(out.data + out.size, j.at, WIDE)
            run = plain_run(j.at)
        else:
            run = 0
            while j.at + run < j.end and j.at[run] > 31 and j.at[run] != 34 and j.at[run] != 92:
                out.data[out.size + run] = j.at[run]
                run += 1
            if j.at + run == j.end:
                return False
        j.at += run
        out.size += run
        if run == WIDE or j.at[0] == 92:
            if run < WIDE and not put_unescaped(j, out):
                return False
            continue
        return take(j, 34)


cdef inline bint put_text(Json* j, Buf* out) except -1 nogil:
    # The unescaped text of a string. Half a surrogate pair becomes a byte that is never UTF-8, as in the reference.
    cdef size_t run
    if j.end - j.at >= WIDE:
        reserve(out, WIDE)
        memcpy(out.data + out.size, j.at, WIDE)
        run = plain_run(j.at)
        if run < WIDE and j.at[run] == 34:
            out.size += run
            j.at += run + 1
            return True
    return put_rest_of_string(j, out)


cdef bint put_unescaped(Json* j, Buf* out) except -1 nogil:
    cdef uint32_t code = 0, low = 0
    cdef uint8_t c
    if j.end - j.at < 2:
        return False
    c = j.at[1]
    if c != 117:
        c = unescaped(c)
        j.at += 2
        put_u8(out, c)
        return c != 0
    if not hex4(j, &code):
        return False
    if 0xDC00 <= code <= 0xDFFF:
        return put_u8(out, NEVER_UTF8) == 0
    if 0xD800 <= code <= 0xDBFF:
        if not (j.end - j.at >= 2 and j.at[0] == 92 and j.at[1] == 117 and hex4(j, &low)):
            return put_u8(out, NEVER_UTF8) == 0
        if not 0xDC00 <= low <= 0xDFFF:
            j.at -= 6  # read it as a separate escape
            return put_u8(out, NEVER_UTF8) == 0
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
    return put_character(out, code) == 0


cdef inline uint8_t unescaped(uint8_t c) noexcept nogil:
    # The character of an escape with one letter; 0 if there is none.
    if c == 34 or c == 92 or c == 47:
        return c
    if c == 110:
        return 10
    if c == 116:
        return 9
    if c == 114:
        return 13
    if c == 98:
        return 8
    if c == 102:
        return 12
    return 0


cdef bint hex4(Json* j, uint32_t* code) noexcept nogil:
    # Reads \uXXXX and moves past it.
    cdef int i, digit
    if j.end - j.at < 6:
        return False
    code[0] = 0
    for i in range(2, 6):
        digit = HEX_VALUES[j.at[i]]
        if digit < 0:
            return False
        code[0] = code[0] << 4 | <uint32_t> digit
    j.at += 6
    return True


cdef int put_character(Buf* out, uint32_t code) except -1 nogil:
    if code < 0x80:
        return put_u8(out, <uint8_t> code)
    if code < 0x800:
        put_u8(out, <uint8_t> (0xC0 | code >> 6))
        return put_u8(out, <uint8_t> (0x80 | code & 0x3F))
    if code < 0x10000:
        put_u8(out, <uint8_t> (0xE0 | code >> 12))
    else:
        put_u8(out, <uint8_t> (0xF0 | code >> 18))
        put_u8(out, <uint8_t> (0x80 | code >> 12 & 0x3F))
    put_u8(out, <uint8_t> (0x80 | code >> 6 & 0x3F))
    return put_u8(out, <uint8_t> (0x80 | code & 0x3F))


# --- numbers ---------------------------------------------------------------------------------------------------------


cdef inline bint are_digits(uint64_t word) noexcept nogil:
    return (((word & 0xF0F0F0F0F0F0F0F0ULL) ^ 0x3030303030303030ULL)
            | ((word + 0x0606060606060606ULL & 0xF0F0F0F0F0F0F0F0ULL) ^ 0x3030303030303030ULL)) == 0


cdef inline uint64_t eight_digits(uint64_t word) noexcept nogil:
    # Pairs of digits, then of pairs, then of fours: the first digit is the lowest byte.
    word = (word & 0x0F0F0F0F0F0F0F0FULL) * 2561 >> 8
    word = (word & 0x00FF00FF00FF00FFULL) * 6553601 >> 16
    return (word & 0x0000FFFF0000FFFFULL) * 42949672960001ULL >> 32


cdef inline int read_digits(Json* j, uint64_t* value) noexcept nogil:
    # The number of digits; 0 if there are too many or the value is too large.
    cdef uint64_t word = 0, total = 0
    cdef uint8_t digit
    cdef int count = 0
    while count < 16 and j.end - j.at >= 8:
        memcpy(&word, j.at, 8)
        if not are_digits(word):
            break
        total = total * 100000000 + eight_digits(word)
        j.at += 8
        count += 8
    while j.at < j.end:
        digit = <uint8_t> (j.at[0] - 48)
        if digit > 9:
            break
        if count >= MAX_DIGITS - 1 and (count == MAX_DIGITS or total > (UINT64_MAX - digit) // 10):
            return 0
        total = total * 10 + digit
        j.at += 1
        count += 1
    value[0] = total
    return count


cdef inline bint read_integer(Json* j, bint quoted, bint* negative, uint64_t* value) noexcept nogil:
    # An integer without a fraction or an exponent, as a number or, if `quoted`, as a string.
    cdef Bytes first
    cdef int count
    cdef bint in_quotes = quoted and take(j, 34)
    negative[0] = take(j, 45)
    first = j.at
    count = read_digits(j, value)
    if count == 0:
        return False
    if in_quotes:
        return take(j, 34)
    if first[0] == 48 and count > 1:
        return False
    return j.at < j.end and j.at[0] != 46 and (j.at[0] | 32) != 101


cdef bint read_number(Json* j, double* value, bint* whole) noexcept nogil:
    # A number in JSON's grammar. `whole`: without a fraction or an exponent.
    cdef Bytes first = j.at, digits
    cdef uint64_t mantissa = 0, fraction = 0
    cdef int count, places = 0, power = 0
    cdef bint negative = take(j, 45), negative_power = False, exact
    digits = j.at
    count = read_digits(j, &mantissa)
    if count == 0 or (digits[0] == 48 and count > 1):
        return False
    exact = count < 16
    whole[0] = True
    if take(j, 46):
        whole[0] = False
        places = read_digits(j, &fraction)
        if places == 0:
            return False
        exact = count + places < 16
        if exact:
            mantissa = mantissa * <uint64_t> TENS[places] + fraction
    if j.at < j.end and (j.at[0] | 32) == 101:
        whole[0] = False
        j.at += 1
        negative_power = peek(j) == 45
        if negative_power or peek(j) == 43:
            j.at += 1
        count = read_digits(j, &fraction)
        if count == 0 or count > 3:
            return False
        power = -<int> fraction if negative_power else <int> fraction
    power -= places
    if exact and -22 <= power <= 22:
        # Both operands are exact in a double, so the single rounding of the operation is correct.
        value[0] = <double> mantissa / TENS[-power] if power < 0 else <double> mantissa * TENS[power]
        if negative:
            value[0] = -value[0]
        return True
    return nearest_double(first, j.at, value)


cdef bint read_double(Json* j, double* value) noexcept nogil:
    # A double, as a number or a string.
    cdef bint whole = False
    if not take(j, 34):
        if not read_number(j, value, &whole):
            return False
        if whole and value[0] == 0:
            value[0] = 0  # an integer has no negative zero
        return True
    if take_literal(j, "NaN", 3):
        value[0] = NAN
    elif take_literal(j, "Infinity", 8):
        value[0] = INFINITY
    elif take_literal(j, "-Infinity", 9):
        value[0] = -INFINITY
    elif not read_number(j, value, &whole):
        return False
    return take(j, 34)


# --- bytes -----------------------------------------------------------------------------------------------------------


cdef int8_t[256] HEX_VALUES
cdef int8_t[256] BASE64_VALUES
cdef double[23] TENS


cdef int load_digits() except -1:
    cdef int i
    for i in range(256):
        HEX_VALUES[i] = BASE64_VALUES[i] = -1
    for i in range(16):
        HEX_VALUES[<uint8_t> HEX[i]] = HEX_VALUES[ord("%X" % i)] = <int8_t> i
    for i in range(64):
        BASE64_VALUES[<uint8_t> BASE64[i]] = <int8_t> i
    BASE64_VALUES[45], BASE64_VALUES[95] = 62, 63  # the URL-safe alphabet
    for i in range(23):
        TENS[i] = float("1e%d" % i)
    return 0

load_digits()


cdef bint from_hex(Buf* out, size_t start) noexcept nogil:
    # Decodes the hex digits since `start` in place. False for other characters or an odd number of digits.
    cdef uint8_t* at = out.data + start
    cdef size_t i, size = out.size - start
    cdef int bad = 0, high, low
    if size & 1:
        return False
    for i in range(size >> 1):
        high = HEX_VALUES[at[2 * i]]
        low = HEX_VALUES[at[2 * i + 1]]
        bad |= high | low
        at[i] = <uint8_t> (<uint32_t> high << 4 | <uint32_t> low)
    out.size = start + (size >> 1)
    return bad >= 0


cdef bint from_base64(Buf* out, size_t start) noexcept nogil:
    # The same for base64 in either alphabet, with or without padding.
    cdef uint8_t* at = out.data + start
    cdef size_t i, done = 0, size = out.size - start
    cdef uint32_t bits = 0
    cdef int digit
    while size and at[size - 1] == 61:
        size -= 1
    if size % 4 == 1:
        return False
    for i in range(size):
        digit = BASE64_VALUES[at[i]]
        if digit < 0:
            return False
        bits = bits << 6 | <uint32_t> digit
        if i % 4:
            at[done] = <uint8_t> (bits >> (6 - 2 * (i % 4)))
            done += 1
    out.size = start + done
    return True


# --- skipped values --------------------------------------------------------------------------------------------------


cdef bint skip_string(Json* j) noexcept nogil:
    cdef uint32_t code = 0
    cdef uint8_t c
    while j.at < j.end:
        if j.end - j.at >= WIDE:
            j.at += plain_run(j.at)
        c = peek(j)
        if c == 34:
            j.at += 1
            return True
        if c < 32:
            return False
        if c != 92:
            j.at += 1
        elif j.end - j.at >= 2 and j.at[1] == 117:
            if not hex4(j, &code):
                return False
        elif j.end - j.at >= 2 and unescaped(j.at[1]):
            j.at += 2
        else:
            return False
    return False


cdef inline size_t skip_digits(Json* j) noexcept nogil:
    cdef Bytes first = j.at
    while j.at < j.end and <uint8_t> (j.at[0] - 48) < 10:
        j.at += 1
    return <size_t> (j.at - first)


cdef bint skip_number(Json* j) noexcept nogil:
    cdef Bytes first
    take(j, 45)
    first = j.at
    if skip_digits(j) == 0 or (first[0] == 48 and j.at - first > 1):
        return False
    if take(j, 46) and skip_digits(j) == 0:
        return False
    if j.at < j.end and (j.at[0] | 32) == 101:
        j.at += 1
        if not take(j, 43):
            take(j, 45)
        return skip_digits(j) > 0
    return True


cdef bint skip_value(Json* j, int depth) noexcept nogil:
    # Skips a value of any kind in JSON's grammar.
    cdef uint8_t c = next_byte(j)
    if c == 34:
        j.at += 1
        return skip_string(j)
    if c == 123 or c == 91:
        return depth < SKIPPED_DEPTH and skip_members(j, depth + 1)
    if c == 116:
        return take_literal(j, "true", 4)
    if c == 102:
        return take_literal(j, "false", 5)
    if c == 110:
        return take_literal(j, "null", 4)
    return skip_number(j)


cdef bint skip_members(Json* j, int depth) noexcept nogil:
    # Skips an array or an object.
    cdef bint named = j.at[0] == 123
    cdef uint8_t c, closing = 125 if named else 93
    j.at += 1
    j.objects += named
    if j.objects > j.max_objects:
        return False
    c = next_byte(j)
    if c == closing:
        j.at += 1
        return True
    while True:
        if named:
            if not (take(j, 34) and skip_string(j)) or next_byte(j) != 58:
                return False
            j.at += 1
        if not skip_value(j, depth):
            return False
        c = next_byte(j)
        j.at += 1
        if c == closing:
            return True
        if c != 44:
            return False
        next_byte(j)
