# Finds sensitive keys, and card and social security numbers in text. docs/codec.md section 4.

cdef struct SensitiveWords:
    # The listed words, normalised, ordered by first byte; `first[b]` is the index of the first word that begins with b.
    Buf text
    Buf chunks
    uint32_t first[257]


cdef inline Chunk* chunks(Buf* buf) noexcept nogil:
    return <Chunk*> buf.data


cdef inline size_t count_chunks(Buf* buf) noexcept nogil:
    return buf.size // sizeof(Chunk)


cdef inline int push_chunk(Buf* buf, Chunk chunk) except -1 nogil:
    return put(buf, &chunk, sizeof(Chunk))


cdef inline uint8_t normalised(uint8_t c) noexcept nogil:
    if 65 <= c <= 90:
        return c | 32
    if c == 46 or c == 45:
        return 95
    return c


cdef int load_words(SensitiveWords* words, tuple listed) except -1:
    cdef Chunk chunk
    cdef size_t start, i
    cdef int byte
    cdef list normal = sorted({entry.encode().lower().replace(b".", b"_").replace(b"-", b"_") for entry in listed} - {b""})
    cdef bytes word
    # All text first: chunks point into it, so it must not be reallocated later.
    for word in normal:
        put(&words.text, <const char*> word, len(word))
    start = 0
    for word in normal:
        chunk.at = words.text.data + start
        chunk.size = len(word)
        push_chunk(&words.chunks, chunk)
        start += chunk.size
    i = 0
    for byte in range(257):
        while i < <size_t> len(normal) and chunks(&words.chunks)[i].at[0] < byte:
            i += 1
        words.first[byte] = <uint32_t> i
    return 0


cdef inline bint word_at(Chunk word, Bytes at, size_t size) noexcept nogil:
    # Whether `word` is at `at` and ends at the end of a part of the key.
    cdef size_t i
    if word.size > size or (word.size < size and normalised(at[word.size]) != 95):
        return False
    for i in range(word.size):
        if normalised(at[i]) != word.at[i]:
            return False
    return True


cdef bint is_sensitive(SensitiveWords* words, Chunk key) noexcept nogil:
    cdef size_t i, w
    cdef uint8_t c
    cdef bint piece_starts = True
    for i in range(key.size):
        c = normalised(key.at[i])
        if piece_starts:
            for w in range(words.first[c], words.first[c + 1]):
                if word_at(chunks(&words.chunks)[w], key.at + i, key.size - i):
                    return True
        piece_starts = c == 95
    return False


cdef inline bint is_digit(uint8_t c) noexcept nogil:
    return <uint8_t> (c - 48) < 10


cdef inline bint may_hold_number(Bytes at, size_t size) noexcept nogil:
    # Whether digits, with at most one space or dash between two of them, are as many as in a card number (13), or as in a
    # social security number (9, with two dashes).
    cdef size_t i, digits = 0, dashes = 0
    cdef bint joined = False
    cdef uint8_t c
    for i in range(size):
        c = at[i]
        if is_digit(c):
            digits += 1
            joined = False
            if digits >= 9 and (dashes >= 2 or digits >= 13):
                return True
        elif joined or digits == 0 or not (c == 32 or c == 45):
            digits = dashes = 0
            joined = False
        else:
            joined = True
            dashes += c == 45
    return False


cdef bint is_issuer(const uint8_t* digit, int count) noexcept nogil:
    cdef int two = digit[0] * 10 + digit[1]
    cdef int three = two * 10 + digit[2]
    cdef int four = three * 10 + digit[3]
    if digit[0] == 4:
        return count == 13 or count == 16 or count == 18 or count == 19
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return count == 16
    if two == 34 or two == 37:
        return count == 15
    if two == 36 or two == 38 or two == 39 or 300 <= three <= 305:
        return count >= 14
    if four == 6011 or 644 <= three <= 649 or two == 65 or 3528 <= four <= 3589 or two == 62:
        return count >= 16
    return two == 50 or 56 <= two <= 58 or two == 67


cdef bint luhn(const uint8_t* digit, int count) noexcept nogil:
    cdef int total = 0, i, value
    for i in range(count):
        value = digit[count - 1 - i]
        if i & 1:
            value *= 2
            if value > 9:
                value -= 9
        total += value
    return total % 10 == 0


cdef size_t card_end(Chunk text, size_t start) noexcept nogil:
    # The end of the longest card number that begins with the group at `start`, or 0.
    cdef uint8_t digit[20]
    cdef int count = 0
    cdef size_t at = start, end = 0
    while True:
        while at < text.size and is_digit(text.at[at]):
            if count == 19:
                return end
            digit[count] = text.at[at] - 48
            count += 1
            at += 1
        if count >= 13 and is_issuer(digit, count) and luhn(digit, count):
            end = at
        if at + 1 < text.size and (text.at[at] == 32 or text.at[at] == 45) and is_digit(text.at[at + 1]):
            at += 1
        else:
            return end


cdef bint is_social_security(Chunk text, size_t start) noexcept nogil:
    # ddd-dd-dddd as three complete groups.
    cdef size_t i
    if start + 11 > text.size or (start + 11 < text.size and is_digit(text.at[start + 11])):
        return False
    for i in range(11):
        if i == 3 or i == 6:
            if text.at[start + i] != 45:
                return False
        elif not is_digit(text.at[start + i]):
            return False
    return True


cdef bint find_number(Chunk text, size_t* start, size_t* end) noexcept nogil:
    # The next card or social security number at or after `start`.
    cdef size_t at = start[0]
    while at < text.size:
        if not is_digit(text.at[at]):
            at += 1
            continue
        end[0] = card_end(text, at)
        if end[0] == 0 and is_social_security(text, at):
            end[0] = at + 11
        if end[0]:
            start[0] = at
            return True
        while at < text.size and is_digit(text.at[at]):
            at += 1
    return False


cdef int put_scrubbed(Buf* out, Chunk text, size_t start, size_t end) except -1 nogil:
    # Writes the text with all numbers replaced; the first one is at `start` to `end`.
    cdef size_t done = 0
    while True:
        put(out, text.at + done, start - done)
        put_literal(out, SCRUBBED)
        done = start = end
        if not find_number(text, &start, &end):
            return put(out, text.at + done, text.size - done)
