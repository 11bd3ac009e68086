# Finds sensitive keys, and card and social security numbers in text. docs/codec.md section 4.

cdef enum KeyVerdict:
    VERDICT_KEPT
    VERDICT_SCRUBBED    # all values except booleans
    VERDICT_NUMBERS     # numbers and booleans are kept

cdef enum:
    MAX_NUMBER_BYTES = 40

cdef struct TextTable:
    # Texts ordered by first byte; `first[b]` is the index of the first text that begins with b.
    Buf text
    Buf chunks
    uint32_t first[257]

cdef struct SensitiveWords:
    # The key rule of a policy: `proto.otlp.sensitive_keys.KeyRules`.
    TextTable strict_words
    TextTable measurable_words
    TextTable measures
    TextTable names
    TextTable kept
    TextTable kept_beginnings
    TextTable kept_middles
    TextTable exempt
    uint32_t starts[1024]   # bit t of starts[32 f + s]: a strict or measurable word may begin with f, s and t, see `letter`

cdef enum:
    KEY_TABLES = 8


cdef inline uint8_t letter(uint8_t c) noexcept nogil:
    # The same number for both cases of a letter. Other bytes may have the same number as a letter.
    return c & 31


cdef inline Chunk* chunks(Buf* buf) noexcept nogil:
    return <Chunk*> buf.data


cdef inline size_t count_chunks(Buf* buf) noexcept nogil:
    return buf.size // sizeof(Chunk)


cdef inline int push_chunk(Buf* buf, Chunk chunk) except -1 nogil:
    return put(buf, &chunk, sizeof(Chunk))


cdef int load_table(TextTable* table, texts) except -1:
    cdef Chunk chunk
    cdef size_t start = 0, i = 0
    cdef int byte
    cdef list ordered = sorted(set(texts) - {b""})
    cdef bytes text
    # All text is added first, because chunks point into it, so it must not be reallocated later.
    for text in ordered:
        put(&table.text, <const char*> text, len(text))
    for text in ordered:
        chunk.at = table.text.data + start
        chunk.size = len(text)
        push_chunk(&table.chunks, chunk)
        start += chunk.size
    for byte in range(257):
        while i < <size_t> len(ordered) and chunks(&table.chunks)[i].at[0] < byte:
            i += 1
        table.first[byte] = <uint32_t> i
    return 0


cdef int load_words(SensitiveWords* words, rules) except -1:
    cdef TextTable* tables = <TextTable*> words
    cdef int i
    cdef bytes word
    for i in range(KEY_TABLES):  # in the order of the fields
        load_table(&tables[i], rules[i])
    for word in (*rules.strict_words, *rules.measurable_words):
        if len(word) < 3 or 95 in word[1:3]:
            for i in range(32):
                words.starts[letter(word[0]) << 5 | i] = UINT32_MAX
        else:
            words.starts[letter(word[0]) << 5 | letter(word[1])] |= <uint32_t> 1 << letter(word[2])
    return 0


cdef inline bint may_begin(SensitiveWords* words, Bytes at) noexcept nogil:
    return words.starts[letter(at[0]) << 5 | letter(at[1])] >> letter(at[2]) & 1


cdef void free_words(SensitiveWords* words):
    cdef TextTable* tables = <TextTable*> words
    cdef int i
    for i in range(KEY_TABLES):
        free(tables[i].text.data)
        free(tables[i].chunks.data)


cdef inline bint is_digit(uint8_t c) noexcept nogil:
    return <uint8_t> (c - 48) < 10


cdef inline bint is_upper(uint8_t c) noexcept nogil:
    return <uint8_t> (c - 65) < 26


cdef inline bint is_lower(uint8_t c) noexcept nogil:
    return <uint8_t> (c - 97) < 26


cdef inline uint8_t lower(uint8_t c) noexcept nogil:
    return c | 32 if is_upper(c) else c


cdef inline bint separates(uint8_t c) noexcept nogil:
    # Each ASCII byte except letters and digits.
    return c < 128 and not is_lower(c | 32) and not is_digit(c)


# --- keys ------------------------------------------------------------------------------------------------------------


cdef inline bint case_changes(Chunk key, size_t at) noexcept nogil:
    return is_upper(key.at[at]) and part_begins(key, at)


cdef bint part_begins(Chunk key, size_t at) noexcept nogil:
    # Whether a part of the key begins with the capital letter at `at`, which is not the first byte.
    cdef uint8_t before = key.at[at - 1]
    if not (is_lower(before) or is_digit(before)):
        if not is_upper(before) or at + 1 == key.size or not is_lower(key.at[at + 1]):
            return False
    if before | 32 != 111 or at + 4 > key.size or memcmp(key.at + at, "Auth", 4) != 0:
        return True
    # `OAuth` and `oAuth` are one part.
    return at > 1 and (is_upper(key.at[at - 2]) if before == 79 else not separates(key.at[at - 2]))


cdef inline bint part_ends(Chunk key, size_t at) noexcept nogil:
    return at == key.size or separates(key.at[at]) or case_changes(key, at)


cdef bint word_at(Chunk word, Chunk key, size_t at) noexcept nogil:
    # Whether `word` and any digits are at `at` and end with a part. The parts of a word may be joined in a key.
    cdef size_t i
    for i in range(word.size):
        if word.at[i] == 95:
            if at < key.size and separates(key.at[at]):
                at += 1
        elif at == key.size or lower(key.at[at]) != word.at[i]:
            return False
        else:
            at += 1
    while True:
        if part_ends(key, at):
            return True
        if not is_digit(key.at[at]):
            return False
        at += 1


cdef inline bint any_word_at(TextTable* table, Chunk key, size_t at, uint8_t first) noexcept nogil:
    cdef uint32_t w
    cdef Chunk word
    for w in range(table.first[first], table.first[first + 1]):
        word = chunks(&table.chunks)[w]
        if at + 1 < key.size and word.size > 1 and word.at[1] != 95 and word.at[1] != lower(key.at[at + 1]):
            continue
        if word_at(word, key, at):
            return True
    return False


cdef bint has_word(TextTable* table, Chunk key) noexcept nogil:
    cdef size_t i
    for i in range(key.size):
        if i == 0 or separates(key.at[i - 1]) or case_changes(key, i):
            if any_word_at(table, key, i, lower(key.at[i])):
                return True
    return False


cdef bint is_listed(TextTable* table, Chunk key) noexcept nogil:
    cdef uint32_t i
    if key.size:
        for i in range(table.first[key.at[0]], table.first[key.at[0] + 1]):
            if same(chunks(&table.chunks)[i], key):
                return True
    return False


cdef bint is_named(TextTable* table, Chunk key) noexcept nogil:
    # Like `is_listed`, in any case.
    cdef uint32_t n
    cdef size_t i
    cdef Chunk name
    if key.size == 0:
        return False
    for n in range(table.first[lower(key.at[0])], table.first[lower(key.at[0]) + 1]):
        name = chunks(&table.chunks)[n]
        i = 0
        if name.size == key.size:
            while i < key.size and lower(key.at[i]) == name.at[i]:
                i += 1
            if i == key.size:
                return True
    return False


cdef bint is_kept(SensitiveWords* words, Chunk key) noexcept nogil:
    # Whether a public convention lists the key.
    cdef size_t i, at
    cdef Chunk text
    if is_listed(&words.kept, key):
        return True
    for i in range(count_chunks(&words.kept_beginnings.chunks)):
        text = chunks(&words.kept_beginnings.chunks)[i]
        if text.size < key.size and memcmp(key.at, text.at, text.size) == 0:
            return True
    for i in range(count_chunks(&words.kept_middles.chunks)):
        text = chunks(&words.kept_middles.chunks)[i]
        at = 1
        while at + text.size < key.size:
            if memcmp(key.at + at, text.at, text.size) == 0:
                return True
            at += 1
    return False


cdef KeyVerdict judge(SensitiveWords* words, Chunk key) noexcept nogil:
    cdef size_t i
    cdef uint8_t first
    cdef bint measurable = False
    if is_listed(&words.exempt, key):
        return VERDICT_KEPT
    if is_named(&words.names, key):
        return VERDICT_SCRUBBED
    for i in range(key.size):
        if i == 0 or separates(key.at[i - 1]) or case_changes(key, i):
            if i + 2 < key.size and not may_begin(words, key.at + i):
                continue
            first = lower(key.at[i])
            if any_word_at(&words.strict_words, key, i, first):
                return VERDICT_SCRUBBED
            measurable = measurable or any_word_at(&words.measurable_words, key, i, first)
    if not measurable or is_kept(words, key):
        return VERDICT_KEPT
    return VERDICT_NUMBERS if has_word(&words.measures, key) else VERDICT_SCRUBBED


cdef bint reads_as_number(Chunk text) noexcept nogil:
    # A sign, digits, a fraction, an exponent. All except the first digits may be missing.
    cdef size_t at = 0
    if text.size > MAX_NUMBER_BYTES:
        return False
    if at < text.size and (text.at[at] == 43 or text.at[at] == 45):
        at += 1
    if not pass_digits(text, &at):
        return False
    if at < text.size and text.at[at] == 46:
        at += 1
        if not pass_digits(text, &at):
            return False
    if at < text.size and text.at[at] | 32 == 101:
        at += 1
        if at < text.size and (text.at[at] == 43 or text.at[at] == 45):
            at += 1
        if not pass_digits(text, &at):
            return False
    return at == text.size


cdef inline bint pass_digits(Chunk text, size_t* at) noexcept nogil:
    cdef size_t start = at[0]
    while at[0] < text.size and is_digit(text.at[at[0]]):
        at[0] += 1
    return at[0] > start


# --- numbers in texts ------------------------------------------------------------------------------------------------


cdef bint is_issuer(const uint8_t* digit, size_t count) noexcept nogil:
    cdef int two = digit[0] * 10 + digit[1]
    cdef int three = two * 10 + digit[2]
    cdef int four = three * 10 + digit[3]
    cdef int six = four * 100 + digit[4] * 10 + digit[5]
    if digit[0] == 4:
        return count == 13 or count == 16 or count == 18 or count == 19
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return count == 16
    if two == 34 or two == 37:
        return count == 15
    if two == 36 or two == 38 or two == 39 or 300 <= three <= 305:
        return count >= 14
    if four == 6011 or 644 <= three <= 649 or two == 65 or 3528 <= four <= 3589 or two == 62 or 2200 <= four <= 2204:
        return count >= 16
    if 508500 <= six <= 508999 or 606985 <= six <= 607984 or 608001 <= six <= 608500:
        return count == 16
    if four == 5018 or four == 5020 or four == 5038 or four == 5893:
        return True
    return four == 6304 or four == 6759 or 6761 <= four <= 6763


cdef bint luhn(const uint8_t* digit, size_t count) noexcept nogil:
    cdef int total = 0, value
    cdef size_t i
    for i in range(count):
        value = digit[count - 1 - i]
        if i & 1:
            value *= 2
            if value > 9:
                value -= 9
        total += value
    return total % 10 == 0


cdef inline bint adjoins(uint8_t c) noexcept nogil:
    # Whether a number next to this byte is a part of a longer text.
    return is_digit(c) or is_lower(c | 32) or c == 46 or c == 95 or c == 45


cdef inline bint goes_on(Chunk text, size_t end) noexcept nogil:
    # Whether the text before `end` continues, so that it is longer than a number. A point may end a sentence.
    if end >= text.size:
        return False
    if text.at[end] == 46:
        return end + 1 < text.size and (is_digit(text.at[end + 1]) or is_lower(text.at[end + 1] | 32))
    return adjoins(text.at[end])


cdef inline size_t next_group(Chunk text, size_t end, uint8_t separator, size_t size) noexcept nogil:
    # The end of exactly `size` digits after the separator at `end`. 0 if there are none.
    cdef size_t i
    if end + 1 + size > text.size or text.at[end] != separator:
        return 0
    for i in range(end + 1, end + 1 + size):
        if not is_digit(text.at[i]):
            return 0
    return end + 1 + size


cdef size_t grouped_card_end(Chunk text, size_t end) noexcept nogil:
    # The end of 4-4-4-4 or 4-6-5 digits whose first group ends at `end`. 0 for another spelling.
    cdef uint8_t separator
    cdef size_t second
    if end >= text.size or not (text.at[end] == 32 or text.at[end] == 45):
        return 0
    separator = text.at[end]
    second = next_group(text, end, separator, 6)
    if second:
        return next_group(text, second, separator, 5)
    second = next_group(text, end, separator, 4)
    second = next_group(text, second, separator, 4) if second else 0
    return next_group(text, second, separator, 4) if second else 0


cdef bint is_card(Chunk text, size_t start, size_t end) noexcept nogil:
    cdef uint8_t digit[19]
    cdef size_t i, count = 0
    for i in range(start, end):
        if is_digit(text.at[i]):
            digit[count] = text.at[i] - 48
            count += 1
    return is_issuer(digit, count) and luhn(digit, count)


cdef size_t number_end(Chunk text, size_t start, size_t first_end) noexcept nogil:
    # The end of the card or social security number whose first digits are from `start` to `first_end`. 0 if there is none.
    cdef size_t end = first_end, size = first_end - start
    if size == 3:
        end = next_group(text, end, 45, 2)
        end = next_group(text, end, 45, 4) if end else 0
    elif size == 4:
        end = grouped_card_end(text, end)
    elif not 13 <= size <= 19:
        return 0
    if end == 0 or goes_on(text, end) or (size > 3 and not is_card(text, start, end)):
        return 0
    return end


cdef bint find_number(Chunk text, size_t* start, size_t* end) noexcept nogil:
    # The next card or social security number at or after `start`.
    cdef size_t at = start[0], first_end
    while at < text.size:
        if not is_digit(text.at[at]):
            at += 1
            continue
        first_end = at
        pass_digits(text, &first_end)
        if at == 0 or not adjoins(text.at[at - 1]):
            end[0] = number_end(text, at, first_end)
            if end[0]:
                start[0] = at
                return True
        at = first_end
    return False


cdef int put_scrubbed(Buf* out, Chunk text, size_t start, size_t end) except -1 nogil:
    # Writes the text with all numbers replaced. The first number is from `start` to `end`.
    cdef size_t done = 0
    while True:
        put(out, text.at + done, start - done)
        put_literal(out, SCRUBBED)
        done = start = end
        if not find_number(text, &start, &end):
            return put(out, text.at + done, text.size - done)
