"""The shapes of specification 2.8 as a table, transcribed from its text and not from our types; examples and limits of
each field are made from the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

SAFE: Final = 9_007_199_254_740_991
TIME: Final = "2026-11-20T15:17:03Z"
DIGEST: Final = "sha256:" + "0af9" * 16


@dataclass(frozen=True)
class Field:
    """A value that is allowed, others that are, and some that are not."""

    example: Any
    allowed: list[Any] = field(default_factory=list)
    refused: list[Any] = field(default_factory=list)


def text(most: int, least: int = 0) -> Field:
    short = [""] if least else []
    return Field(
        "x" * max(least, 1), ["x" * least, "x" * most, "\u00e9" * most], [*short, "x" * (most + 1), 1, True, []]
    )


def integer(least: int = -SAFE, most: int = SAFE) -> Field:
    return Field(max(least, 1), [least, most], [least - 1, most + 1, 1.5, "1", True])


def number(least: float | None, most: float | None, *, above: bool = False) -> Field:
    allowed: list[Any] = [0.5]
    refused: list[Any] = ["1", True, {}]
    if least is not None:
        (refused if above else allowed).append(least)
        refused.append(least - 0.001)
    if most is not None:
        allowed.append(most)
        refused.append(most + 0.001)
    return Field(0.25 if least != 0 or most != 0 else 0, allowed, refused)


def one_of(*names: str) -> Field:
    return Field(names[0], list(names), [names[0].swapcase(), "", names[0] + " ", 1])


def nullable(inner: Any) -> "Nullable":
    return Nullable(inner)


@dataclass(frozen=True)
class Nullable:
    inner: Any


@dataclass(frozen=True)
class Many:
    most: int
    inner: Any


def of(shape: Any, names: str) -> dict[str, Any]:
    """Several fields of one shape."""
    return dict.fromkeys(names.split(), shape)


BOOL: Final = Field(False, [True], [0, "true"])
COUNT: Final = integer(0)
POSITIVE: Final = integer(1)
INT: Final = integer()
RATIO: Final = number(0, 1)
PERCENT: Final = number(0, 100)
STAMP: Final = Field(
    TIME,
    ["2026-11-20T15:17:03.1Z", "2026-11-20T15:17:03.123Z"],
    [
        "2026-11-20T15:17:03",
        "2026-11-20T15:17:03.Z",
        "2026-11-20T15:17:03.1234Z",
        "2026-11-20T15:17:03+00:00",
        "2026-11-20 15:17:03Z",
        "2026-11-20T15:17:03z",
        TIME + "\n",
        " " + TIME,
        "٢026-11-20T15:17:03Z",
        0,
    ],
)
SHA: Final = Field(
    DIGEST,
    ["sha256:" + "f" * 64],
    [DIGEST.upper(), DIGEST[:-1], DIGEST + "0", DIGEST + "\n", "sha512:" + "0" * 64, "0" * 64, "sha256:" + "g" * 64],
)
IDENTIFIER: Final = Field(
    "b-1",
    ["A", "0", "a" * 128, "a._:-Z9"],
    ["", "a" * 129, "-a", ".a", "_a", ":a", "a b", "a/b", "a\n", "\u00e9", "a\u0430b/", 1],
)
STRING_MAP: Final = Field({"a": "b"}, [{}, {"": ""}], [{"a": 1}, {"a": None}, [], "a"])
TIER: Final = one_of("A", "B", "C", "VOID", "NONE")
VERDICT: Final = one_of("PASSED", "VOID", "FAILED")
OBSERVATION: Final = one_of("PASSED", "FAILED", "ERRORED", "NOT_RUN")
ACTOR: Final = one_of("user", "agent", "service")

REPRO: Final = {
    "testPath": text(1024),
    "testDigest": SHA,
    "command": text(2000),
    "observed": OBSERVATION,
    "exitCode": nullable(INT),
    "durationMs": nullable(COUNT),
}
DIVERGENCE_POINT: Final = {
    "index": COUNT,
    "frameKey": text(1024),
    "faultClass": one_of(
        "WRONG_BRANCH",
        "WRONG_VALUE",
        "MISSING_CALL",
        "EXTRA_CALL",
        "ERROR_RAISED",
        "FRAME_MISMATCH",
        "EXECUTION_TRUNCATED",
    ),
    "file": nullable(text(1024)),
    "line": nullable(INT),
    "field": nullable(text(200)),
}
EVIDENCE: Final[dict[str, dict[str, Any]]] = {
    "repro_fails_on_head": {
        **REPRO,
        "baseCommit": nullable(text(80)),
        "qualification": {**of(text(120), "outcome code"), "reason": text(1000), "attributedToIssue": BOOL},
    },
    "repro_passes_post_patch": {**REPRO, "patchDigest": SHA},
    "suite_green": {
        "scope": one_of("full", "affected", "none"),
        "command": nullable(text(2000)),
        "passed": BOOL,
        "exitCode": nullable(INT),
        "durationMs": COUNT,
        **of(nullable(COUNT), "testsRun testsFailed"),
        "decidingTest": nullable(text(512)),
    },
    "mutation_pin_score": {
        "score": nullable(RATIO),
        "threshold": RATIO,
        **of(COUNT, "generated killed survived equivalent invalid aridSuppressed"),
        "equivalents": Many(50, {"file": text(1024), "line": INT, **of(text(80), "operator detector")}),
        "mutantSetHash": nullable(SHA),
        "operators": Many(64, text(80)),
        **of(BOOL, "budgetCapReached scopedToDiff"),
        **of(number(0, None), "costCents sandboxSeconds"),
    },
    "flake_freedom": {
        "decidingTest": text(512),
        "verdict": one_of("STABLE", "FLAKY", "UNKNOWN"),
        **of(COUNT, "samples failures"),
        "flakeRatePct": nullable(PERCENT),
        "windowDays": POSITIVE,
        **of(nullable(STAMP), "observedFrom observedUntil"),
        "explained": BOOL,
        "explanation": nullable(text(1000)),
    },
    "blast_radius_containment": {
        **of(Many(500, text(1024)), "pathsTouched pathsPermitted violations"),
        "derivedFrom": text(200),
        **of(COUNT, "filesChanged addedLines removedLines"),
    },
    "resource_envelope": {
        "cpus": nullable(number(0, None, above=True)),
        **of(nullable(POSITIVE), "memoryMb hardKillMs"),
        **of(COUNT, "wallClockMs activeMs"),
        "headroomRatio": nullable(RATIO),
        "imageDigest": nullable(text(200)),
        "infraErrorClass": text(80),
        "sandboxProvider": text(120),
        "networkIsolation": text(40),
        "egressAllowlist": Many(100, text(300)),
        "noiseBand": {
            **of(BOOL, "known insideBand"),
            "source": text(200),
            "samples": INT,
            "bandPct": nullable(PERCENT),
            "transitionPct": nullable(number(-100, 100)),
            "minReportableDeltaPp": PERCENT,
        },
    },
    "model_attribution": {
        "authorKind": one_of("ai", "human", "hybrid"),
        "agent": {**of(text(200), "id name"), "version": nullable(text(80)), "origin": one_of("internal", "external")},
        "modelId": nullable(text(200)),
        "modelProvider": nullable(text(120)),
        "effort": nullable(text(80)),
        "seed": nullable(INT),
        "temperature": nullable(number(0, 2)),
        "promptPrefixHash": nullable(SHA),
        "servingDeterminism": one_of("NOT_CLAIMED"),
    },
    "approver_identity": {
        "approver": nullable(
            {
                **of(text(200), "principalId displayName"),
                "kind": ACTOR,
                "approvedAt": STAMP,
                "authenticatedBy": text(120),
            }
        ),
        "actChain": Many(
            16,
            {
                **of(text(200), "actorId actorName"),
                "actorKind": ACTOR,
                **of(nullable(text(200)), "onBehalfOf delegationId jti"),
                "audience": nullable(text(300)),
                "scopes": Many(64, text(120)),
                **of(nullable(STAMP), "issuedAt expiresAt"),
            },
        ),
        **of(COUNT, "requiredApprovals receivedApprovals"),
        "humanApproval": BOOL,
        "policyId": nullable(text(200)),
    },
    "durability_window": {
        "state": one_of("OPEN", "CLOSED", "REFUSED"),
        "verdict": one_of("DURABLE", "REGRESSED", "PENDING", "INCONCLUSIVE"),
        "windowDays": POSITIVE,
        **of(STAMP, "openedAt closesAt"),
        "closedAt": nullable(STAMP),
        "originalFingerprintRecurrences": COUNT,
        "newFingerprints": Many(
            50, {"fingerprint": text(200), "blamedCommit": text(80), "firstSeen": STAMP, "events": COUNT}
        ),
        "reverted": BOOL,
        "revertCommit": nullable(text(80)),
        "releaseHealthDelta": nullable(
            {**of(RATIO, "before after"), "delta": number(-1, 1), "sessions": COUNT, "significant": BOOL}
        ),
        "creditBack": nullable(
            {"issued": BOOL, "amountCents": COUNT, "invoiceLineId": nullable(text(200)), "reason": text(600)}
        ),
    },
    "state_slice": {
        "origin": one_of("throw", "probe"),
        "file": text(1024),
        **of(COUNT, "line valuesCaptured valuesWithheld withheldByPolicy"),
        "faultExpression": text(400),
        "analysisComplete": BOOL,
        "incompletenessReasons": Many(16, text(300)),
        "redactionShapes": Many(50, text(120)),
        "sliceDigest": SHA,
        "scrubTiers": Many(4, text(40)),
        "probe": nullable(
            {
                "probeId": text(200),
                "approvedByPrincipalId": nullable(text(200)),
                "approvedAt": nullable(STAMP),
                "expiresAt": STAMP,
                "maxCaptures": POSITIVE,
                "capturesTaken": COUNT,
                "namesApproved": Many(16, text(120)),
            }
        ),
    },
    "behavioral_diff": {
        "baseCommit": nullable(text(80)),
        "patchDigest": SHA,
        "selection": {
            **of(COUNT, "candidatePool selected replayed"),
            "notReplayed": Many(20, {"reason": text(120), "count": COUNT}),
            "criteria": Many(20, {"basis": text(80), "samples": COUNT, "description": text(600)}),
            **of(nullable(STAMP), "recordedFrom recordedUntil"),
        },
        "coverage": {
            **of(INT, "patchedFiles patchedLinesExecutable patchedLinesExercised addedLinesUnreachableByRecording"),
            "ratio": nullable(RATIO),
            "filesNotExercised": Many(200, text(1024)),
            "instrument": text(80),
            "fileGranularityOnly": BOOL,
        },
        "normalizers": Many(32, text(80)),
        **of(COUNT, "samplesWithDiffs diffsFound intended unintended unclassified"),
        "findings": Many(
            200,
            {
                "sampleId": text(200),
                **of(text(80), "selectionBasis change"),
                "pointer": text(512),
                "classification": one_of("INTENDED", "UNINTENDED", "UNCLASSIFIED"),
                "basis": {"rule": text(120), "detail": text(600, 1), "source": text(80)},
                "normalizations": Many(10, text(80)),
            },
        ),
        **of(BOOL, "findingsTruncated dependenciesMockedFromRecording"),
        "sandboxProvider": text(120),
    },
    "divergence_localization": {
        "status": one_of("LOCALIZED", "NO_DIVERGENCE", "INCONCLUSIVE_NONDETERMINISM", "UNAVAILABLE"),
        **of(text(120), "referenceLabel candidateLabel"),
        **of(nullable(text(80)), "referenceCommit candidateCommit patchedCommit"),
        **of(SHA, "referenceTraceDigest candidateTraceDigest"),
        **of(nullable(SHA), "patchedTraceDigest controlTraceDigest"),
        **of(COUNT, "referenceFrames candidateFrames matchedFrames divergenceCount"),
        "firstDivergence": nullable(DIVERGENCE_POINT),
        "normalizationRules": Many(64, {"ruleId": text(120), "occurrences": INT}),
        "disabledNormalizationRules": Many(64, text(120)),
        "unnormalizedNondeterminism": Many(32, text(600)),
        "controlRunPerformed": BOOL,
        "noiseFrontierIndex": nullable(INT),
        "postPatch": {
            "outcome": one_of(
                "RESOLVED", "MOVED_AS_INTENDED", "UNCHANGED", "NEW_DIVERGENCE", "INCONCLUSIVE", "NOT_ASSERTED"
            ),
            "intendedFrameKeys": Many(50, text(1024)),
            "unintendedDivergences": Many(50, DIVERGENCE_POINT),
            "addressedPrior": BOOL,
        },
    },
    "patch_origin": {
        "originKind": one_of("FIRST_PARTY", "EXTERNAL_AGENT", "HUMAN_CONTRACTOR", "UNATTRIBUTED"),
        "externallyAuthored": BOOL,
        "submitter": {"principalId": nullable(text(200)), "kind": ACTOR, "authenticatedBy": text(120)},
        "declaredAuthor": {
            **of(nullable(text(120)), "vendor agentName"),
            "agentVersion": nullable(text(60)),
            "modelId": nullable(text(200)),
        },
        "attestationSource": one_of("FIRST_PARTY_LOOP", "SIGNED_HANDOFF_BUNDLE", "SUBMITTER_DECLARED"),
        "submissionChannel": one_of("REST", "MCP", "INTERNAL_LOOP"),
        "submissionId": nullable(text(200)),
        "patchDigest": SHA,
        "diffBytes": COUNT,
        "filesChanged": Many(200, text(1024)),
        "receivedAt": STAMP,
        "verifierIndependence": {**of(BOOL, "patchAuthoredByIssuer reproAuthoredByIssuer sandboxOperatedByIssuer")},
    },
    "mitigation_applied": {
        "mitigationId": text(200),
        "actionType": text(80),
        "provider": text(120),
        "state": one_of("ACTIVE", "REVERTED", "EXPIRED", "FAILED"),
        **of(STAMP, "appliedAt expiresAt"),
        "ttlMinutes": POSITIVE,
        "withdrawnAt": nullable(STAMP),
        **of(BOOL, "autoReverted issueStatusChangedByMitigation"),
        "withdrawalReason": nullable(text(600)),
        "inverse": nullable({"actionType": text(80), "description": text(600, 1), "applied": BOOL}),
        "blastRadius": {
            "scope": text(40),
            "environments": Many(20, text(120)),
            "targets": Many(50, text(200)),
            "trafficFraction": nullable(RATIO),
            "affectedSessions": nullable(INT),
            "basis": text(300),
            "notes": Many(10, text(300)),
        },
        "approval": {
            **of(nullable(text(200)), "requestId approvedByPrincipalId"),
            "approvedAt": nullable(STAMP),
            **of(INT, "requiredApprovals receivedApprovals"),
            "humanApproval": BOOL,
            "riskClass": text(40),
        },
        "verification": nullable(
            {
                "signal": text(400),
                "kind": text(80),
                "outcome": one_of("OBSERVED", "NOT_OBSERVED", "PENDING", "NOT_MEASURED"),
                "detail": text(600),
                **of(nullable(STAMP), "observedFrom observedUntil"),
                **of(nullable(number(None, None)), "before after"),
            }
        ),
        "reversalDebt": nullable(
            {
                **of(text(200), "debtId ownerPrincipalId"),
                "dueAt": STAMP,
                "status": text(40),
                "clearedAt": nullable(STAMP),
            }
        ),
        "artifactChecksum": SHA,
    },
}


def claim(kind: str) -> dict[str, Any]:
    return {
        "kind": Field(kind, [], ["other", kind.upper(), 1]),
        "claimId": IDENTIFIER,
        "statement": text(400, 1),
        "status": one_of("SUPPORTED", "REFUTED", "INCONCLUSIVE", "NOT_ATTESTED"),
        "recordedAt": STAMP,
        "disclosures": Many(20, text(600)),
        "recheck": nullable(
            {
                "mechanism": one_of("SHELL", "GIT", "ARTIFACT", "API", "NONE"),
                **of(text(2000), "instruction expectation"),
                "inputs": STRING_MAP,
                "reproducibility": one_of("DETERMINISTIC", "STATISTICAL", "NOT_REPRODUCIBLE"),
                "notes": nullable(text(2000)),
            }
        ),
        "evidence": EVIDENCE[kind],
    }


LEDGER: Final[dict[str, Any]] = {
    "formatVersion": Field("0.1.0", [], ["0.1", "0.1.1", "", 0.1]),
    "specUri": text(300),
    "bundleId": IDENTIFIER,
    "issuedAt": STAMP,
    "issuer": {"id": text(300), "name": text(200), "softwareVersion": text(80), "keyId": nullable(text(200))},
    "subject": {
        **of(text(120), "orgSlug projectSlug issueShortId"),
        **of(text(200), "issueId fingerprint runId proposalId"),
        "title": text(400),
        "patch": {"diffDigest": SHA, "filesChanged": Many(500, text(1024)), **of(COUNT, "addedLines removedLines")},
        "repository": nullable(text(500)),
        "commit": nullable(text(80)),
        "commitCheckedOut": BOOL,
    },
    "tier": TIER,
    "verdict": VERDICT,
    "billable": BOOL,
    "claims": Many(200, claim("model_attribution")),
}
PREDICATE: Final[dict[str, Any]] = {
    "formatVersion": Field("0.1.0", [], ["0.1.1", 1]),
    "builder": {"id": text(300), "version": STRING_MAP},
    "attestedAt": STAMP,
    "author": {
        "kind": one_of("ai", "human", "hybrid"),
        **of(text(200), "agentId agentName"),
        "modelId": nullable(text(200)),
    },
    "humanApproval": {
        "approved": BOOL,
        "approverId": nullable(text(200)),
        "approvedAt": nullable(STAMP),
        "actChainLength": COUNT,
    },
    "verification": {"tier": TIER, "verdict": VERDICT, "billable": BOOL, "specUri": text(300)},
    "ledger": LEDGER,
}


def example(shape: Any) -> Any:
    """A value that is allowed; lists have one element."""
    if isinstance(shape, Field):
        return shape.example
    if isinstance(shape, Nullable):
        return example(shape.inner)
    if isinstance(shape, Many):
        return [example(shape.inner)]
    return {name: example(inner) for name, inner in shape.items()}


def allowed(shape: Any) -> Iterator[Any]:
    """Values at the limits of every field in it."""
    if isinstance(shape, Field):
        yield from [shape.example, *shape.allowed]
    elif isinstance(shape, Nullable):
        yield None
        yield from allowed(shape.inner)
    elif isinstance(shape, Many):
        yield []
        yield [example(shape.inner)] * shape.most
        for each in allowed(shape.inner):
            yield [each]
    else:
        whole = example(shape)
        for name, inner in shape.items():
            for each in allowed(inner):
                yield {**whole, name: each}


def refused(shape: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Values beyond the limits of every field in it, with the path of the field; keys that are missing or unknown."""
    if isinstance(shape, Field):
        yield from ((path, each) for each in [None, *shape.refused])
    elif isinstance(shape, Nullable):
        yield from ((where, each) for where, each in refused(shape.inner, path) if each is not None)
    elif isinstance(shape, Many):
        yield path, None
        yield path, {}
        yield path, [example(shape.inner)] * (shape.most + 1)
        for where, each in refused(shape.inner, path + "[0]"):
            yield where, [each]
    else:
        whole = example(shape)
        yield path, None
        yield path, []
        yield f"{path}.more", {**whole, "more": 1}
        for name, inner in shape.items():
            yield f"{path}.{name} missing", {key: value for key, value in whole.items() if key != name}
            for where, each in refused(inner, f"{path}.{name}"):
                yield where, {**whole, name: each}
