# Selects the attribute keys that the roll-up names per project and day. The rows of all other keys become one. The rules
# are in proto/otlp/reference/blocks.py.

cdef struct NewKey:
    # A key that is not named yet, and the number of spans of a project in the batch that have it.
    uint32_t day
    uint32_t key            # index into the dictionary
    uint64_t spans
    uint64_t hashed
    Chunk text

cdef struct KeySet:
    Buf slots               # uint64 hashes, 0: free; their number is a power of two
    uint64_t count
    uint64_t room           # number of keys that the current batch may still add


cdef class DayOfKeys:
    """The named keys of one project and day, by their hashes. Readers and writers hold the lock."""

    cdef KeySet keys
    cdef uint64_t counted   # number of these keys that NamedKeys.held includes
    cdef object lock

    def __cinit__(self):
        self.lock = Lock()

    def __dealloc__(self):
        free(self.keys.slots.data)


cdef inline bint has_key(KeySet* keys, uint64_t hashed) noexcept nogil:
    cdef const uint64_t* slots = <const uint64_t*> keys.slots.data
    cdef size_t mask = (keys.slots.size >> 3) - 1
    cdef size_t at
    if keys.slots.size == 0:
        return False
    hashed |= hashed == 0
    at = hashed & mask
    while slots[at]:
        if slots[at] == hashed:
            return True
        at = (at + 1) & mask
    return False


cdef int resize_keys(KeySet* keys, size_t count) except -1 nogil:
    cdef Buf fresh
    cdef const uint64_t* old = <const uint64_t*> keys.slots.data
    cdef uint64_t* slots
    cdef size_t i, at
    memset(&fresh, 0, sizeof(Buf))
    reserve(&fresh, count << 3)
    fresh.size = count << 3
    memset(fresh.data, 0, fresh.size)
    slots = <uint64_t*> fresh.data
    for i in range(keys.slots.size >> 3):
        if old[i]:
            at = old[i] & (count - 1)
            while slots[at]:
                at = (at + 1) & (count - 1)
            slots[at] = old[i]
    free(keys.slots.data)
    keys.slots = fresh
    return 0


cdef int add_key(KeySet* keys, uint64_t hashed) except -1 nogil:
    cdef size_t at
    if keys.count * 2 >= keys.slots.size >> 3:
        resize_keys(keys, keys.slots.size >> 2 if keys.slots.size else 64)
    hashed |= hashed == 0
    at = hashed & ((keys.slots.size >> 3) - 1)
    while (<uint64_t*> keys.slots.data)[at]:
        at = (at + 1) & ((keys.slots.size >> 3) - 1)
    (<uint64_t*> keys.slots.data)[at] = hashed
    keys.count += 1
    return 0


cdef int compare_new_keys(const void* left, const void* right) noexcept nogil:
    # Keys with the most spans first, then by text.
    cdef const NewKey* a = <const NewKey*> left
    cdef const NewKey* b = <const NewKey*> right
    cdef int order
    if a.day != b.day:
        return -1 if a.day < b.day else 1
    if a.spans != b.spans:
        return -1 if a.spans > b.spans else 1
    if a.text.size and b.text.size:
        order = memcmp(a.text.at, b.text.at, a.text.size if a.text.size < b.text.size else b.text.size)
        if order:
            return order
    return -1 if a.text.size < b.text.size else a.text.size > b.text.size


cdef inline KeySet* keys_of(Derived* derived, KeyCell* cell) noexcept nogil:
    return (<KeySet**> derived.days.data)[u32s(&derived.day_of)[cell.bucket_row]]


cdef inline uint64_t hash_of(Dictionary* keys, KeyCell* cell) noexcept nogil:
    return (<const uint64_t*> keys.hashes.data)[cell.key]


cdef int count_new(Derived* derived, Dictionary* keys, KeyCell* cell) except -1 nogil:
    cdef uint32_t day = u32s(&derived.day_of)[cell.bucket_row]
    cdef size_t at, slots = count_u32(&derived.by_new.slots)
    cdef uint64_t hashed = (<uint64_t> day << 32 | cell.key) * 0x9E3779B97F4A7C15ULL
    cdef NewKey* row
    cdef NewKey fresh
    hashed ^= hashed >> 32
    at = hashed & (slots - 1)
    while u32s(&derived.by_new.slots)[at]:
        row = &(<NewKey*> derived.fresh.data)[u32s(&derived.by_new.slots)[at] - 1]
        if row.key == cell.key and row.day == day:
            row.spans += cell.spans
            return 0
        at = (at + 1) & (slots - 1)
    fresh.day = day
    fresh.key = cell.key
    fresh.spans = cell.spans
    fresh.hashed = hash_of(keys, cell)
    fresh.text = cell.text
    put(&derived.fresh, &fresh, sizeof(NewKey))
    return add_to_index(&derived.by_new, hashed)


cdef int name_keys(Derived* derived, Dictionary* keys) except -1 nogil:
    # Adds new keys to the sets of their days, up to the limits.
    cdef KeyCell* cells = <KeyCell*> derived.cells.data
    cdef NewKey* fresh
    cdef KeySet* named
    cdef size_t i
    derived.fresh.size = 0
    begin_index(&derived.by_new)
    for i in range(derived.cells.size // sizeof(KeyCell)):
        named = keys_of(derived, &cells[i])
        if named.room and not has_key(named, hash_of(keys, &cells[i])):
            count_new(derived, keys, &cells[i])
    fresh = <NewKey*> derived.fresh.data
    if derived.fresh.size:
        qsort(fresh, derived.fresh.size // sizeof(NewKey), sizeof(NewKey), compare_new_keys)
    for i in range(derived.fresh.size // sizeof(NewKey)):
        named = (<KeySet**> derived.days.data)[fresh[i].day]
        if named.room:
            add_key(named, fresh[i].hashed)
            named.room -= 1
    return 0


cdef int fold_cells(Derived* derived, Dictionary* keys) except -1 nogil:
    # Merges the rows of keys that are not named into one per bucket.
    cdef KeyCell* cells
    cdef KeyCell* rest
    cdef uint32_t* rests
    cdef size_t i, kept = 0, count = derived.cells.size // sizeof(KeyCell)
    derived.rests.size = 0
    for i in range(derived.buckets.size // sizeof(BucketRow)):
        put_u32(&derived.rests, 0)
    rests = u32s(&derived.rests)
    cells = <KeyCell*> derived.cells.data
    for i in range(count):
        if not has_key(keys_of(derived, &cells[i]), hash_of(keys, &cells[i])):
            if rests[cells[i].bucket_row]:
                rest = &cells[rests[cells[i].bucket_row] - 1]
                rest.spans += cells[i].spans
                rest.numeric += cells[i].numeric
                continue
            rests[cells[i].bucket_row] = <uint32_t> kept + 1
            cells[i].text = literal(UNNAMED)
        if kept != i:
            cells[kept] = cells[i]
        kept += 1
    derived.cells.size = kept * sizeof(KeyCell)
    return 0


cdef class NamedKeys:
    """See `proto.otlp.reference.blocks.NamedKeys`."""

    cdef uint64_t per_batch
    cdef uint64_t per_day
    cdef uint64_t most
    cdef uint64_t held
    cdef object days        # by project and day, least recently used first
    cdef object lock

    def __init__(self, uint64_t per_batch, uint64_t per_day, uint64_t most = 1_000_000):
        self.per_batch = per_batch
        self.per_day = per_day
        self.most = most
        self.days = OrderedDict()
        self.lock = Lock()

    cdef int limit(self, Derived* derived, Dictionary* keys, int64_t day) except -1:
        # The slow part, with up to a million keys, holds only the locks of its projects, which all threads acquire in the
        # same order.
        cdef DayOfKeys each
        cdef size_t i
        cdef KeySet* keys_of_day
        numbers = {}
        if not self.per_batch and not self.per_day:
            return 0
        derived.day_of.size = derived.days.size = 0
        for i in range(derived.buckets.size // sizeof(BucketRow)):
            put_u32(&derived.day_of, numbers.setdefault((<BucketRow*> derived.buckets.data)[i].project_id, len(numbers)))
        with self.lock:
            sets = {project: self.of(project, day) for project in numbers}
        with ExitStack() as locks:
            for project in sorted(sets):
                each = sets[project]
                locks.enter_context(each.lock)
            for each in sets.values():  # in the order of `numbers`
                self.make_room(each)
                keys_of_day = &each.keys
                put(&derived.days, &keys_of_day, sizeof(KeySet*))
            with nogil:
                name_keys(derived, keys)
                fold_cells(derived, keys)
            if self.per_day:
                with self.lock:
                    self.count(sets, day)
                    self.forget()
        return 0

    cdef DayOfKeys of(self, project, int64_t day):
        cdef DayOfKeys keys = self.days.get((project, day))
        if keys is None:
            keys = DayOfKeys()
            if self.per_day:
                self.days[project, day] = keys
        else:
            self.days.move_to_end((project, day))
        return keys

    cdef int make_room(self, DayOfKeys keys) except -1:
        cdef uint64_t room = UINT64_MAX
        if self.per_day:
            room = self.per_day - keys.keys.count if self.per_day > keys.keys.count else 0
        keys.keys.room = self.per_batch if self.per_batch and self.per_batch < room else room
        return 0

    cdef int count(self, dict sets, int64_t day) except -1:
        # Skips sets that were evicted meanwhile.
        cdef DayOfKeys each
        for project, each in sets.items():
            if self.days.get((project, day)) is each:
                self.held += each.keys.count - each.counted
                each.counted = each.keys.count
        return 0

    cdef int forget(self) except -1:
        cdef DayOfKeys oldest
        while self.held > self.most and len(self.days) > 1:
            _, oldest = self.days.popitem(last=False)
            self.held -= oldest.counted
        return 0
