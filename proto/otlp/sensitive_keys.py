"""The keys that indicate a secret: a list of words, and rules that match a key against the words (docs/codec.md 4).

Keys of public conventions that only look like credentials are listed with their sources (docs/codec.md 4).

A `*` at the end or the beginning of a key stands for at least one byte. No listed key has a word whose values are
always scrubbed, such as `password`.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple


class Convention(NamedTuple):
    """Keys that one publisher documents, and the place of the documentation."""

    source: str
    keys: tuple[str, ...]


KEPT_KEYS: Final = (
    Convention(
        "OpenTelemetry semantic conventions, https://opentelemetry.io/docs/specs/semconv/registry/attributes/",
        (
            *("session.id", "session.previous_id", "mcp.session.id", "aws.secretsmanager.secret.arn"),
            *("k8s.secret.name", "gen_ai.token.type", "gen_ai.usage.*", "gen_ai.client.token.usage"),
            *("gen_ai.server.time_per_output_token", "gen_ai.server.time_to_first_token"),
        ),
    ),
    Convention(
        "OpenInference, https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md",
        ("*.token_count.*",),
    ),
    Convention(
        "OpenLLMetry, https://github.com/traceloop/openllmetry/tree/main/packages/opentelemetry-semantic-conventions-ai",
        ("llm.usage.*", "traceloop.association.properties.session_id"),
    ),
    Convention(
        "Sentry, https://getsentry.github.io/sentry-conventions/attributes/",
        ("aws.secretsmanager.secret.name", "mcp.auth.client.name", "mcp.progress.token"),
    ),
    Convention(
        "OAuth 2.0: RFC 6749 section 5.1, RFC 7009 section 2.1, RFC 8414 section 2",
        ("token_type", "token_type_hint", "token_endpoint"),
    ),
    Convention("Langfuse, https://langfuse.com/integrations/native/opentelemetry", ("langfuse.session.id",)),
    Convention(
        "LangSmith, https://docs.langchain.com/langsmith/trace-with-opentelemetry", ("langsmith.trace.session_id",)
    ),
    Convention(
        "LangChain, https://docs.langchain.com/oss/python/langchain/models (response metadata)",
        ("token_usage", "llm_output.token_usage"),
    ),
    Convention("AI SDK, https://ai-sdk.dev/docs/ai-sdk-core/telemetry", ("ai.telemetry.metadata.sessionId",)),
    Convention(
        "Codex, https://github.com/openai/codex/tree/main/codex-rs/otel",
        (
            *(
                "auth_mode",
                "auth.mode",
                "auth.step",
                "auth.outcome",
                "auth.error",
                "auth.error_code",
                "auth.header_name",
            ),
            *("auth.recovery_mode", "auth.recovery_phase", "auth.recovery_reason", "auth.request_id", "auth.cf_ray"),
            *("auth.env_provider_key_name", "auth.agent_id", "auth.task_id"),
        ),
    ),
    Convention(
        "Gemini CLI, https://github.com/google-gemini/gemini-cli/blob/main/docs/cli/telemetry.md", ("auth_type",)
    ),
    Convention("Splunk RUM, https://github.com/signalfx/splunk-otel-js-web", ("splunk.rumSessionId", "rum.sessionId")),
    Convention(
        "Application Insights, https://learn.microsoft.com/azure/azure-monitor/app/data-model-complete",
        ("ai.session.id",),
    ),
    Convention(
        "Elastic Filebeat, https://www.elastic.co/docs/reference/beats/filebeat/exported-fields-system",
        (
            *("system.auth.ssh.method", "system.auth.ssh.signature", "system.auth.ssh.dropped_ip"),
            *("system.auth.ssh.event", "system.auth.sudo.error", "system.auth.sudo.tty", "system.auth.sudo.user"),
            *("system.auth.sudo.command", "system.auth.useradd.home", "system.auth.useradd.shell"),
        ),
    ),
)


_ANY: Final = "surrogatepass"  # text that cannot be encoded as UTF-8 equals no key
_SEPARATOR: Final = rb"[\x00-/:-@\[-`{-\x7f]"  # each ASCII byte except letters and digits
_SEPARATORS: Final = re.compile(_SEPARATOR)
_BOUNDARY: Final = b"\xff"  # marks a change of case; never occurs in UTF-8
# The places where the case changes: `clientSecret`, `APIKey`, `oauth2Token`. `OAuth` and `oAuth` are one part.
_CASE_CHANGE: Final = re.compile(
    rb"(?:(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]))"
    rb"(?!(?:(?<=\A[oO])|(?<=" + _SEPARATOR + rb"o)|(?<=[^A-Z]O))Auth)"
)

# All values except booleans are scrubbed under these words, and a key with one of these words cannot be exempt.
FLOOR_WORDS: Final = (
    *("pass_word", "pass_words", "passwd", "pwd", "pass_phrase", "pass_code", "authorization", "private_key"),
    *("private_keys", "cookie", "cookies", "set_cookie", "cvv", "cvc", "card_number", "ssn", "social_security"),
    # Passwords written as one word with their purpose.
    *("user_password", "db_password", "database_password", "admin_password", "root_password", "new_password"),
    *("old_password", "current_password", "confirm_password", "smtp_password", "redis_password", "mysql_password"),
    # Environment variables and session cookies.
    *("pgpassword", "sshpass", "jsessionid", "phpsessid", "aspxauth", "aspsessionid"),
)
# All values except booleans are also scrubbed under these words.
STRICT_WORDS: Final = (
    *("pin", "otp", "totp", "csrf", "xsrf", "credential", "credentials", "creds"),
    *("api_key", "api_keys", "access_key", "access_keys", "secret_key", "secret_keys", "encryption_key"),
    *("signing_key", "master_key", "account_key", "shared_key", "ssh_key", "session_key", "subscription_key"),
    *("application_key", "app_key", "functions_key", "rapidapi_key", "recovery_code", "recovery_codes"),
    *("backup_code", "backup_codes", "security_code", "verification_code", "oauth_verifier", "code_verifier"),
    *("csrfmiddlewaretoken", "oidc_data", "jwt_assertion", "bind_pw", "root_pw", "db_pass", "smtp_pass", "mail_pass"),
    *("user_pass", "redis_pass", "mysql_pass", "postgres_pass", "ftp_pass", "admin_pass", "root_pass"),
    *("laravel_session", "ci_session", "connect_sid", "cftoken"),
)
# Numbers under these words are kept if another part of the key says what was measured.
MEASURABLE_WORDS: Final = (
    *("token", "access_token", "refresh_token", "id_token", "auth_token", "api_token", "bearer_token", "user_token"),
    *("session_token", "security_token", "csrf_token", "xsrf_token", "authenticity_token", "auth", "session_id"),
    *("secret", "secrets", "client_secret", "app_secret", "shared_secret"),
)
SENSITIVE_WORDS: Final = (*FLOOR_WORDS, *STRICT_WORDS, *MEASURABLE_WORDS)
# Complete keys under which all values except booleans are scrubbed. They are too short to be searched for inside keys.
SENSITIVE_NAMES: Final = ("pass", "pw", "jwt", "bearer")
MEASURES: Final = (
    *("count", "counts", "counter", "total", "totals", "sum", "usage", "used", "limit", "size", "length", "len"),
    *("budget", "max", "min", "avg", "mean", "median", "num", "remaining", "quota", "rate", "ratio", "percent", "cost"),
    *("price", "bytes", "kb", "mb", "time", "timeout", "timestamp", "ttl", "age", "duration", "latency", "elapsed"),
    *("lifetime", "seconds", "secs", "sec", "millis", "ms", "minutes", "hours", "days", "expires"),
    *("expiry", "expiration", "expired", "exp", "iat", "nbf", "issued", "created", "updated", "refreshed", "date"),
    *("index", "idx", "offset", "position", "logprob", "probability", "attempt", "attempts", "retries", "version"),
    "status",
)


def mark_parts(key: bytes) -> bytes:
    """A key in lower case, in which each separator is `_`, and a byte that never occurs in UTF-8 marks each change of
    case.
    """
    return _SEPARATORS.sub(b"_", _CASE_CHANGE.sub(_BOUNDARY, key).lower())


def normalize_word(word: str) -> bytes:
    """A listed word in lower case, with its parts joined by `_`. Empty if the word has no parts."""
    return b"_".join(part for part in re.split(rb"[_\xff]", mark_parts(word.encode())) if part)


def compile_words(words: Iterable[bytes]) -> re.Pattern[bytes]:
    """The pattern that finds one of the normalized words in a key marked by `mark_parts`."""
    spellings = b"|".join(sorted(map(_spelling, words)))
    return re.compile(rb"(?<![^_\xff])(?:" + spellings + rb")[0-9]*(?![^_\xff])" if spellings else rb"(?!)")


def _spelling(word: bytes) -> bytes:
    """The pattern of one word. The parts of the word may be joined or separated, and the case may change anywhere."""
    return rb"[_\xff]?".join(
        rb"\xff?".join(re.escape(part[at : at + 1]) for at in range(len(part))) for part in word.split(b"_")
    )


class KeyRules(NamedTuple):
    """The words and keys with which the key rule of a policy compares keys. Words have the form of `normalize_word`."""

    strict_words: frozenset[bytes]
    measurable_words: frozenset[bytes]
    measures: frozenset[bytes]
    names: frozenset[bytes]  # complete keys in lower case
    kept: frozenset[bytes]  # complete keys
    kept_beginnings: tuple[bytes, ...]
    kept_middles: tuple[bytes, ...]  # with at least one byte before and after
    exempt: frozenset[bytes]  # complete keys


def key_rules(sensitive_words: Iterable[str], exempt_keys: Iterable[str]) -> KeyRules:
    """The rules for the words and the exempt keys of a policy, without the keys that cannot be exempt."""
    words = frozenset(map(normalize_word, sensitive_words)) - {b""}
    measurable = frozenset(word for word in words if word.replace(b"_", b"") in _MEASURABLE)
    kept = [key.encode() for convention in KEPT_KEYS for key in convention.keys]
    return KeyRules(
        words - measurable,
        measurable,
        frozenset(map(normalize_word, MEASURES)),
        frozenset(name.encode() for name in SENSITIVE_NAMES),
        frozenset(key for key in kept if b"*" not in key),
        tuple(key[:-1] for key in kept if key.endswith(b"*") and not key.startswith(b"*")),
        tuple(key[1:-1] for key in kept if key.startswith(b"*")),
        frozenset(key.encode(errors=_ANY) for key in exempt_keys if is_exemptible(key)),
    )


_MEASURABLE: Final = frozenset(
    normalize_word(word).replace(b"_", b"") for word in (*MEASURABLE_WORDS, "session", "sessions", "tokens")
)
_FLOOR: Final = compile_words(map(normalize_word, FLOOR_WORDS))


def is_exemptible(key: str) -> bool:
    """Whether a project may exempt `key`, a complete key as stored, from the key rule.

    The empty key, keys with a word of `FLOOR_WORDS` and those in `SENSITIVE_NAMES` cannot be exempt.
    """
    named = bool(key) and key.lower() not in SENSITIVE_NAMES
    return named and _FLOOR.search(mark_parts(key.encode(errors=_ANY))) is None
