"""What is fuzzed: a module per target with `check(data)`, which returns when all is well and raises on a finding.

A module may have `mutate(data, max_size, random, mutate)`: a mutator that knows the structure of the input; `mutate` is
libFuzzer's own, for a piece of it. docs/fuzzing.md says what each target holds to.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Target(NamedTuple):
    """`instrument`: top-level packages whose Python is watched for coverage. `sanitized`: runs with the kernel built
    by clang. `corpus`: whose committed inputs it begins with.
    """

    module: str
    corpus: str
    instrument: tuple[str, ...] = ()
    sanitized: bool = False
    max_len: int = 4096
    timeout_s: int = 20


TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {
        "kernel": Target("kernel", "kernel", sanitized=True, max_len=2048),
        "kernel_agrees": Target("kernel_agrees", "kernel", sanitized=True),
        "json_kernel": Target("json_kernel", "json_kernel", sanitized=True),
        "otlp_json": Target("otlp_json", "otlp_json", ("proto",)),
        "inflate": Target("inflate", "inflate", ("gateway",)),
        "filters": Target("filters", "filters", ("query", "chassis")),
        "filters_engine": Target("filters_engine", "filters", ("query",)),
        "cursor": Target("cursor", "cursor", ("chassis",), max_len=600),
        "instant": Target("instant", "instant", ("query",), max_len=200),
        "credentials": Target("credentials", "credentials", ("proto", "chassis"), max_len=600),
        "id_token": Target("id_token", "id_token", ("control",), max_len=2_000),
        "bodies": Target("bodies", "bodies", ("chassis", "control"), max_len=1024),
        "heads": Target("heads", "heads", ("chassis",), max_len=2_000),
        "return_path": Target("return_path", "return_path", ("control",), max_len=300),
        "grpc_frames": Target("grpc_frames", "grpc_frames", ("gateway",), max_len=40_000),
        "saml": Target("saml", "saml", ("control",), max_len=700, timeout_s=5),
        "scim_filters": Target("scim_filters", "scim_filters", ("control", "scim2_models"), max_len=700),
        "scim_patch": Target("scim_patch", "scim_patch", ("control", "scim2_models"), max_len=1_500),
        "scim_users": Target("scim_users", "scim_users", ("control", "scim2_models"), max_len=1_500),
        "scm_events": Target("scm_events", "scm_events", ("control",), max_len=4_096),
        "code_messages": Target("code_messages", "code_messages", ("control",), max_len=2_000),
        "tracker_events": Target("tracker_events", "tracker_events", ("control",), max_len=2_000),
        "chat_events": Target("chat_events", "chat_events", ("control",), max_len=1_500),
        "fingerprint": Target("fingerprint", "fingerprint", ("proto",), max_len=20_000, timeout_s=5),
        "webhook_signatures": Target("webhook_signatures", "webhook_signatures", ("control",), max_len=1_000),
        "proof_bundles": Target("proof_bundles", "proof_bundles", ("proto",), max_len=6_000),
        "payment_events": Target("payment_events", "payment_events", ("control",), max_len=4_000),
    }
)
