"""Keys of public conventions that only look like credentials, with their sources (docs/codec.md 4).

A `*`, at the end or the beginning of a key, stands for at least one byte. No entry keeps a value under
a word that is scrubbed in all cases, such as `password`.
"""

from typing import Final, NamedTuple


class Convention(NamedTuple):
    """Keys that one publisher documents, and where."""

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
