# distutils: language = c++
# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The kernel of the codec: decodes OTLP protobuf to ClickHouse Native columns, without the GIL. Rules: docs/codec.md.

Order of reading: bytes (buffers, the cursor), text, scrub, symbols, prevalidate (first pass), values, items, spans, logs
(second pass), blocks, derived, named (requests to blocks), json_text, json (OTLP/JSON to protobuf). Requests are read
only through `next_field`, which checks every step against the end of the message.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8, PyUnicode_DecodeUTF8Stateful
from libc.math cimport INFINITY, NAN
from libc.stdint cimport (
    INT32_MAX,
    INT64_MAX,
    SIZE_MAX,
    UINT32_MAX,
    UINT64_MAX,
    int8_t,
    int32_t,
    int64_t,
    uint8_t,
    uint16_t,
    uint32_t,
    uint64_t,
)
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memcmp, memcpy, memmove, memset, strlen

import os
from collections import OrderedDict
from contextlib import ExitStack
from threading import Lock

from proto.otlp import policy as _policy
from proto.otlp import sensitive_keys as _sensitive_keys
from proto.otlp.json import names as _names
from proto.storage import tables as _tables

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    __attribute__((target("avx"))) static void zero_upper_halves() { __builtin_ia32_vzeroupper(); }
    static void clear_upper_halves() { if (__builtin_cpu_supports("avx")) zero_upper_halves(); }
    #else
    static void clear_upper_halves() {}
    #endif
    """
    # isal leaves the upper halves of vector registers set. Until they are cleared, every SSE instruction (the default of
    # compilers) waits for the previous instruction, and decoding takes 1.5 times as long.
    void clear_upper_halves() nogil

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size)

cdef int VALUE_DEPTH = _policy.VALUE_DEPTH
cdef int GROUP_DEPTH = _policy.GROUP_DEPTH
cdef uint64_t NANOS_PER_DAY = _policy.NANOS_PER_DAY
cdef size_t MAX_ITEM_TRUNCATIONS = _policy.MAX_ITEM_TRUNCATIONS
cdef size_t MAX_ORIGIN_TRUNCATIONS = _policy.MAX_ORIGIN_TRUNCATIONS
cdef uint64_t SIGNAL_SPANS = _tables.SIGNAL_SPANS
cdef uint64_t SIGNAL_LOGS = _tables.SIGNAL_LOGS
cdef const char* SCRUBBED = "[scrubbed]"
cdef const char* UNNAMED = _tables.UNNAMED_KEYS
cdef uint64_t HASH_SEED = int.from_bytes(os.urandom(8), "little")

WARNING_NAMES = tuple(_policy.RequestWarning)

include "bytes.pxi"
include "text.pxi"
include "scrub.pxi"
include "symbols.pxi"
include "prevalidate.pxi"
include "values.pxi"
include "items.pxi"
include "spans.pxi"
include "logs.pxi"
include "blocks.pxi"
include "derived.pxi"
include "named.pxi"
include "json_text.pxi"
include "json.pxi"

REASON_NAMES = (
    _policy.ItemRejection.INVALID_TRACE_ID,
    _policy.ItemRejection.INVALID_SPAN_ID,
    _policy.ItemRejection.MISSING_START_TIME,
    _policy.ItemRejection.START_TIME_IN_FUTURE,
    _policy.ItemRejection.START_TIME_TOO_OLD,
    _policy.ItemRejection.TIME_IN_FUTURE,
    _policy.ItemRejection.TIME_TOO_OLD,
    _policy.ItemRejection.INVALID_FIELD,
    _policy.ItemRejection.INVALID_RESOURCE,
    _policy.ItemRejection.INVALID_SCOPE,
)
MODIFICATION_NAMES = (
    _policy.ItemModification.TRUNCATED,
    _policy.ItemModification.REPAIRED,
    _policy.ItemModification.CLAMPED,
    _policy.ItemModification.SCRUBBED,
    _policy.ItemModification.DEDUPLICATED,
    _policy.ItemModification.REVERSED,
)


cdef class Lexicon:
    """The key rule of a policy in the layout of the kernel. It is cached for requests with the same policy."""

    cdef SensitiveWords words

    def __cinit__(self, rules):
        load_words(&self.words, rules)

    def __dealloc__(self):
        free_words(&self.words)


# New memory is expensive, because each page causes a page fault. The memory of a few requests is reused, under the GIL.
cdef enum:
    SPARES = 64
    SPARE_BYTES = 1048576

cdef Columns _spares[SPARES]
cdef int _spare_count = 0
cdef Work _spare_work
cdef bint _has_spare_work = False


cdef class Segment:
    """One decoded request (`proto.otlp.policy.DecodedPayload`): its columns, until `build_blocks` uses them."""

    cdef Columns columns
    cdef str fault
    cdef uint32_t warned    # bits of WARN_...

    def __cinit__(self):
        global _spare_count
        self.fault = ""
        if _spare_count:
            _spare_count -= 1
            self.columns = _spares[_spare_count]

    def __dealloc__(self):
        global _spare_count
        if _spare_count < SPARES and count_parts(&self.columns) < 2 and weight(&self.columns) <= SPARE_BYTES:
            recycle(&self.columns)
            _spares[_spare_count] = self.columns
            _spare_count += 1
        else:
            release_columns(&self.columns)

    @property
    def signal(self):
        return "traces" if self.columns.traces else "logs"

    @property
    def project_id(self):
        return self.columns.project_id

    @property
    def accepted(self):
        return self.columns.accepted

    @property
    def symbols(self):
        return symbol_count(&self.columns.symbols)

    def large_origins(self, size_t over):
        cdef const uint64_t* hashes = <const uint64_t*> self.columns.symbols.hashes.data
        cdef size_t i, size
        cdef uint32_t text
        cdef dict found = {}
        for i in range(count_origins(&self.columns)):
            text = origins(&self.columns)[i].text
            size = symbol_text(&self.columns.symbols, text).size
            if size > over:
                found[hashes[text]] = size
        return found

    @property
    def days(self):
        cdef size_t i
        return sorted([parts(&self.columns)[i].day for i in range(count_parts(&self.columns))])

    @property
    def rejected(self):
        return {REASON_NAMES[i]: self.columns.rejected[i] for i in range(REASONS) if self.columns.rejected[i]}

    @property
    def first_fault(self):
        return self.fault

    @property
    def warnings(self):
        return [WARNING_NAMES[i] for i in range(len(WARNING_NAMES)) if self.warned >> i & 1]

    @property
    def modified(self):
        return {MODIFICATION_NAMES[i]: self.columns.modified[i] for i in range(MODIFICATIONS) if self.columns.modified[i]}

    @property
    def exceptions(self):
        cdef Raised* raised = <Raised*> self.columns.raised.data
        cdef size_t i
        return [self._exception(&raised[i]) for i in range(self.columns.raised.size // sizeof(Raised))]

    cdef object _exception(self, Raised* raised):
        cdef Origin* resource = &origins(&self.columns)[raised.resource]
        cdef const char* text = <const char*> self.columns.raised_text.data
        cdef const uint64_t* starts = raised.starts
        return _policy.RaisedException(
            raised.time,
            PyBytes_FromStringAndSize(<const char*> raised.trace_id, 16),
            PyBytes_FromStringAndSize(<const char*> raised.span_id, 8),
            PyUnicode_DecodeUTF8(text + starts[0], <Py_ssize_t> (starts[1] - starts[0]), NULL),
            PyUnicode_DecodeUTF8(text + starts[1], <Py_ssize_t> (starts[2] - starts[1]), NULL),
            PyUnicode_DecodeUTF8(text + starts[2], <Py_ssize_t> (starts[3] - starts[2]), NULL),
            self._symbol(resource.service_name),
            self._symbol(resource.environment),
            self._symbol(resource.release),
        )

    cdef str _symbol(self, uint32_t symbol):
        cdef Chunk text = symbol_text(&self.columns.symbols, symbol)
        return PyUnicode_DecodeUTF8(<const char*> text.at, <Py_ssize_t> text.size, NULL)

    @property
    def exceptions_over_limit(self):
        return self.columns.raised_over_limit

    @property
    def nbytes(self):
        return weight(&self.columns)


def decode(str signal, bytes body, uint64_t project_id, policy, uint64_t now_ns, faults=None):
    """Decode one OTLP request of `signal` ("traces", "logs") for `project_id`, received at `now_ns` (Unix epoch).

    Raises `DecodeError` for a request that is refused. `faults`: items that were already rejected, and warnings.
    """
    return decode_chunk(is_traces(signal), chunk_of_bytes(body), project_id, policy, now_ns, faults, 0)


def decode_json(
    str signal, bytes body, uint64_t project_id, policy, uint64_t now_ns, reader, uint64_t most_left,
    uint64_t most_item = UINT64_MAX,
):
    """Like `decode` for a body in OTLP/JSON. None if the reference must read the body (docs/codec.md section 6).

    `reader`, a `proto.otlp.json.ItemReader`, reads the items that the kernel does not read: at most `most_left` bytes in
    total and `most_item` bytes per item.
    """
    cdef Buf out
    cdef uint32_t warnings = 0
    take_spare(&out)
    try:
        if not convert(is_traces(signal), chunk_of_bytes(body), policy, reader, most_left, most_item, &out, &warnings):
            return None
        return decode_chunk(is_traces(signal), chunk_of(&out, 0), project_id, policy, now_ns, reader.faults, warnings)
    finally:
        leave_spare(&out)


def to_protobuf(str signal, bytes body, policy, reader, uint64_t most_left):
    """The protobuf encoding of a request in OTLP/JSON. None if the reference must read the request."""
    cdef Buf out
    cdef uint32_t warnings = 0
    take_spare(&out)
    try:
        if not convert(is_traces(signal), chunk_of_bytes(body), policy, reader, most_left, UINT64_MAX, &out, &warnings):
            return None
        return PyBytes_FromStringAndSize(<const char*> out.data, <Py_ssize_t> out.size)
    finally:
        leave_spare(&out)


def count_objects(bytes body):
    """The number of opening braces, including braces in strings."""
    cdef Chunk chunk = chunk_of_bytes(body)
    cdef size_t count
    with nogil:
        count = count_braces(chunk.at, chunk.size)
    return count


cdef Chunk chunk_of_bytes(bytes body):
    cdef Chunk chunk
    chunk.at = <Bytes> PyBytes_AS_STRING(body)
    chunk.size = <size_t> PyBytes_GET_SIZE(body)
    return chunk


cdef bint is_traces(str signal) except -1:
    if signal != "traces" and signal != "logs":
        raise ValueError(f"unknown signal {signal!r}")
    return signal == "traces"


cdef bint convert(
    bint traces, Chunk body, policy, reader, uint64_t most_left, uint64_t most_item, Buf* out, uint32_t* warnings
) except -1:
    """Convert OTLP/JSON to protobuf in `out`. False if the reference must read the request."""
    cdef Json j
    cdef bint done
    cdef Buf name
    memset(&j, 0, sizeof(j))
    memset(&name, 0, sizeof(name))
    j.at = body.at
    j.end = body.at + body.size
    j.out = out
    j.name = &name
    j.max_items = policy.max_items
    j.max_objects = policy.max_parts
    j.reader = <void*> reader
    j.most_left = most_left
    j.most_item = most_item
    try:
        with nogil:
            clear_upper_halves()
            done = read_json_request(&j, traces)
        warnings[0] = j.warnings
        return done
    finally:
        release(&name, 1)


cdef Segment decode_chunk(bint traces, Chunk chunk, uint64_t project_id, policy, uint64_t now_ns, faults, uint32_t warnings):
    cdef Segment segment = Segment()
    cdef Columns* columns = &segment.columns
    cdef Lexicon lexicon = lexicon_of(policy.sensitive_words, policy.exempt_keys)
    cdef Work work
    cdef Prevalidation survey
    cdef int status, i
    take_work(&work)
    load_limits(&work.limits, policy)
    work.words = &lexicon.words
    work.symbols = &columns.symbols
    columns.traces = traces
    columns.project_id = project_id
    columns.now = now_ns
    columns.min_time = policy.min_time_ns(now_ns)
    columns.max_time = now_ns + <uint64_t> policy.max_future_ns
    describe(&survey, columns.traces)
    survey.max_items = work.limits.items
    survey.max_parts = work.limits.parts
    try:
        with nogil:
            clear_upper_halves()
            status = prevalidate(&survey, REQUEST, chunk, 0)
            if status == 0:
                start_symbols(&columns.symbols)
                know(columns)
                work.stack_trace = columns.known.exception_stacktrace
                read_request(&work, columns, chunk)
                if columns.repeated > work.limits.repeated:
                    status = RESOURCES_TOO_LARGE
    finally:
        leave_work(&work)
    if status:
        raise refusal(status, policy)
    segment.warned = warnings | survey.warnings
    if faults is not None and faults.warnings:
        for i in range(len(WARNING_NAMES)):
            if WARNING_NAMES[i] in faults.warnings:
                segment.warned |= <uint32_t> 1 << i
    if faults is not None and faults.rejected:
        segment.fault = faults.first
        for i in range(REASONS):
            columns.rejected[i] += faults.rejected[REASON_NAMES[i]]
    return segment


# The output buffer of the JSON conversion, which the next request also reuses.
cdef Buf _spare_out


cdef void take_spare(Buf* out):
    out[0] = _spare_out
    memset(&_spare_out, 0, sizeof(Buf))
    out.size = 0


cdef void leave_spare(Buf* out):
    global _spare_out
    if _spare_out.cap or out.cap > SPARE_BYTES:
        release(out, 1)
    else:
        _spare_out = out[0]


cdef void take_work(Work* work):
    global _has_spare_work
    if _has_spare_work:
        work[0] = _spare_work
        _has_spare_work = False
    else:
        memset(work, 0, sizeof(Work))


cdef void leave_work(Work* work):
    global _has_spare_work, _spare_work
    if _has_spare_work or capacity(<Buf*> work, WORK_BUFS) > SPARE_BYTES:
        release(<Buf*> work, WORK_BUFS)
        return
    empty(<Buf*> work, WORK_BUFS)
    memset(work.expected, 0, sizeof(work.expected))
    work.lists = work.types_before = 0
    _spare_work = work[0]
    _has_spare_work = True


cdef int load_limits(Limits* limits, policy) except -1:
    limits.items = policy.max_items
    limits.parts = policy.max_parts
    limits.key = policy.max_key_bytes
    limits.value = policy.max_value_bytes
    limits.name = policy.max_name_bytes
    limits.body = policy.max_body_bytes
    limits.attributes = policy.max_attributes
    limits.events = policy.max_events
    limits.links = policy.max_links
    limits.exceptions = policy.max_exceptions
    limits.resource = policy.max_resource_bytes or SIZE_MAX
    limits.scope = policy.max_scope_bytes or SIZE_MAX
    limits.repeated = policy.max_repeated_bytes or UINT64_MAX
    return 0


cdef dict _lexicons = {}
cdef tuple _last_words = None
cdef tuple _last_exempt = None
cdef Lexicon _last_lexicon = None


cdef Lexicon lexicon_of(tuple words, tuple exempt):
    # Most requests have the same policy object, which need not be hashed.
    global _last_words, _last_exempt, _last_lexicon
    if words is _last_words and exempt is _last_exempt:
        return _last_lexicon
    lexicon = _lexicons.get((words, exempt))
    if lexicon is None:
        if len(_lexicons) >= 64:  # more policies are unlikely to be in use at once
            _lexicons.clear()
        lexicon = _lexicons[words, exempt] = Lexicon(_sensitive_keys.key_rules(words, exempt))
    _last_words, _last_exempt, _last_lexicon = words, exempt, lexicon
    return _last_lexicon


cdef object refusal(int status, policy):
    return _policy.decode_error(
        {
            MALFORMED: _policy.RequestRejection.MALFORMED,
            TOO_DEEP: _policy.RequestRejection.TOO_DEEP,
            TOO_MANY_ITEMS: _policy.RequestRejection.TOO_MANY_ITEMS,
            TOO_MANY_PARTS: _policy.RequestRejection.TOO_MANY_PARTS,
            RESOURCES_TOO_LARGE: _policy.RequestRejection.RESOURCES_TOO_LARGE,
        }[status],
        policy,
    )


# --- building blocks -------------------------------------------------------------------------------------------------


cdef class Heads:
    """The header of each column in the blocks of a table: its name and type as Native strings."""

    cdef Buf chunks
    cdef Buf text

    def __cinit__(self, table):
        cdef Chunk chunk
        cdef size_t start, i = 0
        cdef list sizes = []
        for column in table.columns:
            start = self.text.size
            for part in (column.name.encode(), column.type.encode()):
                put_varint(&self.text, len(part))
                put(&self.text, <const char*> <bytes> part, len(part))
            sizes.append(self.text.size - start)
        start = 0
        for size in sizes:
            chunk.at = self.text.data + start
            chunk.size = size
            push_chunk(&self.chunks, chunk)
            start += chunk.size

    def __dealloc__(self):
        free(self.chunks.data)
        free(self.text.data)


cdef Heads SPAN_HEADS = Heads(_tables.SPANS)
cdef Heads LOG_HEADS = Heads(_tables.LOGS)
cdef Heads TRACE_HEADS = Heads(_tables.TRACE_INDEX)
cdef Heads KEY_HEADS = Heads(_tables.ATTRIBUTE_KEYS)


cdef class Assembly:
    """The state of building one batch: its segments, and the buffers for one block at a time."""

    cdef list segments
    cdef list pieces
    cdef uint64_t batch_id
    cdef Block block
    cdef Derived derived

    def __cinit__(self):
        self.segments = []
        self.pieces = []
        self.block.pieces = <void*> self.pieces

    def __dealloc__(self):
        release(<Buf*> &self.block, BLOCK_BUFS)
        release(<Buf*> &self.derived, DERIVED_BUFS)

    cdef size_t held(self):
        return capacity(<Buf*> &self.block, BLOCK_BUFS) + capacity(<Buf*> &self.derived, DERIVED_BUFS)

    def days(self):
        cdef Segment segment
        cdef size_t i
        days = set()
        for segment in self.segments:
            for i in range(count_parts(&segment.columns)):
                days.add(parts(&segment.columns)[i].day)
        return sorted(days)

    cdef size_t gather(self, int64_t day, bint traces) except? 999:
        # The rows of one signal and day, in the order of the requests.
        cdef Segment segment
        cdef Source source
        cdef size_t i, rows = 0
        self.block.sources.size = 0
        for segment in self.segments:
            if segment.columns.traces != traces:
                continue
            for i in range(count_parts(&segment.columns)):
                source.columns = &segment.columns
                source.part = &parts(&segment.columns)[i]
                if source.part.day == day:
                    put(&self.block.sources, &source, sizeof(Source))
                    rows += source.part.rows
        return rows

    cdef object finish(self, table, int64_t day):
        hand_over(&self.block)
        block = _policy.Block(table.name, day, self.block.rows, tuple(self.pieces))
        self.pieces.clear()
        return block

    def items(self, list days, bint traces):
        cdef Block* block = &self.block
        cdef uint32_t row = 0
        cdef size_t rows
        blocks = []
        for day in days:
            rows = self.gather(day, traces)
            if rows == 0:
                continue
            with nogil:
                begin_block(block, &SPAN_HEADS.chunks if traces else &LOG_HEADS.chunks, rows)
                if traces:
                    put_span_block(block, self.batch_id, &row)
                else:
                    put_log_block(block, self.batch_id, &row)
            blocks.append(self.finish(_tables.SPANS if traces else _tables.LOGS, day))
        return blocks

    def traces(self, list days):
        cdef size_t i
        cdef int64_t day
        blocks = []
        for day in days:
            self.derived.traces.size = 0
            begin_index(&self.derived.by_trace)
            for traces in (True, False):
                self.gather(day, traces)
                with nogil:
                    for i in range(count_sources(&self.block)):
                        count_traces(&self.derived, &sources(&self.block)[i], SIGNAL_SPANS if traces else SIGNAL_LOGS)
            if self.derived.traces.size:
                with nogil:
                    begin_block(&self.block, &TRACE_HEADS.chunks, self.derived.traces.size // sizeof(TraceRow))
                    put_trace_block(&self.block, &self.derived, day)
                blocks.append(self.finish(_tables.TRACE_INDEX, day))
        return blocks

    def keys(self, list days, NamedKeys named):
        cdef size_t i
        blocks = []
        for day in days:
            self.gather(day, True)
            self.derived.cells.size = 0
            self.derived.buckets.size = 0
            begin_index(&self.derived.by_bucket)
            begin_index(&self.derived.by_cell)
            begin_dictionary(&self.block.dictionary)
            with nogil:
                for i in range(count_sources(&self.block)):
                    count_keys(&self.derived, &self.block.dictionary, &sources(&self.block)[i])
            if named is not None:
                named.limit(&self.derived, &self.block.dictionary, day)
            if self.derived.cells.size:
                with nogil:
                    begin_block(&self.block, &KEY_HEADS.chunks, self.derived.cells.size // sizeof(KeyCell))
                    put_key_block(&self.block, &self.derived)
                blocks.append(self.finish(_tables.ATTRIBUTE_KEYS, day))
        return blocks


def build_blocks(decoded, uint64_t batch_id, NamedKeys named=None):
    """The blocks of one batch, in the order of docs/codec.md section 5. `decoded` are segments of this kernel."""
    cdef Segment segment
    cdef Assembly assembly = _idle.pop() if _idle else Assembly()
    assembly.batch_id = batch_id
    for segment in decoded:
        assembly.segments.append(segment)
    days = assembly.days()
    blocks = [*assembly.items(days, True), *assembly.items(days, False), *assembly.traces(days), *assembly.keys(days, named)]
    assembly.segments.clear()
    if len(_idle) < KEPT_ASSEMBLIES and assembly.held() <= KEPT_BYTES:
        _idle.append(assembly)
    return blocks


# Mapping new memory of the size of a block for each batch is expensive, so a few buffers are reused.
cdef list _idle = []
cdef int KEPT_ASSEMBLIES = 2
cdef size_t KEPT_BYTES = 64 * 2**20
