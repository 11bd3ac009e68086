"""The bytes of version 1: a segment and a ledger that were written once and for all, and what damage cannot do."""

from pathlib import Path
from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.journal import Batch, JournaledRequest
from gateway.journal import format as fmt
from gateway.journal.format import begin_record, finish_record
from gateway.journal.storage.batch_state import BatchState
from gateway.journal.storage.ledger import encode_ledger
from gateway.journal.storage.scanning import Damage, JournalFrame, frames_and_damage
from gateway.journal.storage.segments import Policies, pack_group
from proto.otlp.policy import Policy

GOLDEN: Final = Path(__file__).parent / "golden"
SALT: Final = b"saltsalt"
SEED: Final = fmt.checksum_seed(SALT)
CREATED_NS: Final = 1_763_700_000_000_000_000
# The default words when the golden segment was written.
WORDS: Final = (
    *("password", "passwd", "pwd", "passphrase", "secret", "secrets", "client_secret", "token", "access_token"),
    *("accesstoken", "refresh_token", "id_token", "authorization", "auth", "cookie", "set_cookie", "cookies"),
    *("api_key", "apikey", "access_key", "secret_key", "private_key", "privatekey", "credential"),
    *("credentials", "session_id", "sessionid", "csrf", "xsrf", "ssn", "card_number", "cardnumber", "cvv"),
    "cvc",
)
POLICY: Final = Policy(sensitive_words=WORDS, max_value_bytes=16 * 2**10)
TRACES = JournaledRequest(7, "traces", "protobuf", "gzip", CREATED_NS + 1, 3, POLICY, b"\x1f\x8b not really", slow=True)
LOGS = JournaledRequest(
    2**63, "logs", "json", "zstd", CREATED_NS + 2, 50_000, msgspec.structs.replace(POLICY, max_items=9), b"{}" * 3000
)
EMPTY = JournaledRequest(0, "logs", "protobuf", "identity", 0, 0, POLICY, b"")
DEFLATED = TRACES._replace(encoding="deflate", slow=False, body=b"12345678")
GROUPS: Final = [[TRACES], [LOGS, EMPTY], [DEFLATED]]


def segment(groups: list[list[JournaledRequest]], first: int = 41, salt: bytes = SALT) -> bytes:
    """A segment with these groups, as it is on disk."""
    file = fmt.pack_file_header(fmt.FileHeader(fmt.SEGMENT, first, CREATED_NS, salt))
    policies = Policies()
    for group in groups:
        packed = pack_group(group, first, len(file), fmt.checksum_seed(salt), policies)
        file += b"".join(packed.pieces)
        assert len(file) == packed.end
        file += bytes(-len(file) % fmt.PAGE)
        first += len(group)
    return file


def ledger() -> bytes:
    progress = BatchState()
    progress.apply(
        finish_record(Batch(5, 1000, ((1, 9), (12, 12)), frozenset({("logs", 20_001)})), {("spans", 20_001): 4}, 7)
    )
    progress.apply(begin_record(Batch(2**63 - 1, 2000, ((10, 11),))))
    return b"".join(encode_ledger(progress, SALT, CREATED_NS))


def requests_of(file: bytes, first: int = 41) -> list[tuple[int, JournaledRequest]]:
    """What a reader takes for requests."""
    header = fmt.read_file_header(file)
    seed = SEED if header is None else fmt.checksum_seed(header.salt)
    policies: dict[int, Policy] = {}
    requests = []
    for part in frames_and_damage(lambda size, at: file[at : at + size], seed, fmt.PAGE, len(file), first - 1):
        if isinstance(part, Damage):
            continue
        if part.header.kind == fmt.POLICY and (policy := fmt.read_policy(bytes(part.payload))):
            policies[part.header.policy_id] = policy
        elif part.header.policy_id in policies:
            request = fmt.decode_request(part.header, bytes(part.payload), policies[part.header.policy_id])
            assert request is not None
            requests.append((part.header.sequence, request))
    return requests


@pytest.mark.parametrize(
    ("name", "written"), [("segment", segment(GROUPS)), ("ledger", ledger())], ids=["segment", "ledger"]
)
def test_version_1_is_written_as_it_always_was(name: str, written: bytes) -> None:
    assert written == (GOLDEN / f"version-1.{name}").read_bytes()


def test_exempt_keys_are_in_the_journal_only_if_there_are_any() -> None:
    policy = Policy(sensitive_words=("token",), exempt_keys=("session_id", "auth.kind"))
    assert fmt.read_policy(fmt.pack_policy(policy)[1]) == policy
    assert b"exempt_keys" not in fmt.pack_policy(POLICY)[1]
    assert fmt.read_policy(fmt.pack_policy(POLICY)[1]) == POLICY


def test_a_segment_of_version_1_is_read() -> None:
    file = (GOLDEN / "version-1.segment").read_bytes()
    assert fmt.read_file_header(file) == fmt.FileHeader(fmt.SEGMENT, 41, CREATED_NS, SALT)
    assert requests_of(file) == list(enumerate([TRACES, LOGS, EMPTY, DEFLATED], 41))


FORGED: Final = segment([[TRACES]], 42, b"a guess.")  # by somebody who knows all but the salt
BODIES: Final = st.one_of(
    st.binary(max_size=300), st.sampled_from([FORGED, FORGED[fmt.PAGE :], fmt.FRAME_MAGIC * 50, bytes(5000)])
)
REQUESTS: Final = st.builds(
    JournaledRequest,
    st.integers(0, 2**64 - 1),
    st.sampled_from(["traces", "logs"]),
    st.sampled_from(["protobuf", "json"]),
    st.sampled_from(["identity", "gzip", "deflate", "zstd"]),
    st.integers(0, 2**63),
    st.integers(0, 2**32 - 1),
    st.sampled_from([Policy(), Policy(max_items=9)]),
    BODIES,
    st.booleans(),
)
FILES: Final = st.lists(st.lists(REQUESTS, min_size=1, max_size=3), min_size=1, max_size=3)


@given(FILES)
@settings(max_examples=40, deadline=None)
def test_what_was_written_is_read(groups: list[list[JournaledRequest]]) -> None:
    written = [request for group in groups for request in group]
    assert requests_of(segment(groups)) == list(enumerate(written, 41))


@given(FILES, st.data())
@settings(max_examples=150, deadline=None)
def test_damage_never_yields_a_request_that_was_not_written(
    groups: list[list[JournaledRequest]], data: st.DataObject
) -> None:
    file = bytearray(segment(groups))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(file) - 1))
        file[at] ^= 1 << data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        del file[data.draw(st.integers(0, len(file))) :]
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(file) // 8)) * 8
        file[at : at + 4096] = bytes(len(file[at : at + 4096]))
    written = dict(enumerate([request for group in groups for request in group], 41))
    read = requests_of(bytes(file))
    assert all(written[sequence] == request for sequence, request in read)
    assert len({sequence for sequence, _ in read}) == len(read)


@given(st.integers(0, 2**16), st.data())
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_costs_one_frame_at_most(seed: int, data: st.DataObject) -> None:
    body = bytes(seed >> shift & 255 for shift in range(17)) * 9
    groups = [[TRACES._replace(body=body), LOGS], [EMPTY, TRACES._replace(body=body * 40)]]
    file = bytearray(segment(groups))
    at = data.draw(st.integers(fmt.PAGE, len(file) - 1))
    frames = [
        part
        for part in frames_and_damage(lambda n, o: bytes(file)[o : o + n], SEED, fmt.PAGE, len(file), 40)
        if isinstance(part, JournalFrame)
    ]
    hit = next((frame for frame in frames if frame.offset <= at < frame.end), None)
    whole = dict(requests_of(bytes(file)))
    file[at] ^= 1 << data.draw(st.integers(0, 7))
    kept = dict(requests_of(bytes(file)))
    gone = whole.keys() - kept.keys()
    if hit is None:
        assert not gone
    elif hit.header.kind == fmt.REQUEST:
        assert gone <= {hit.header.sequence}
    else:
        assert {whole[sequence].policy for sequence in gone} in (set(), {whole[hit.header.sequence].policy})


def test_headers_are_read_from_either_copy() -> None:
    page = bytearray(fmt.pack_file_header(fmt.FileHeader(fmt.SEGMENT, 1, 2, SALT)))
    page[5] ^= 1
    assert fmt.read_file_header(bytes(page)) == fmt.FileHeader(fmt.SEGMENT, 1, 2, SALT)
    page[fmt.PAGE // 2] ^= 1
    assert fmt.read_file_header(bytes(page)) is None
