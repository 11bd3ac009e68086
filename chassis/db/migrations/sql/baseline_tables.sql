-- As PostgreSQL takes them; `chassis/db/migrations/baseline.py` has what SQLite calls these types. Empty lines separate statements.

CREATE TABLE delivery_messages (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    message TEXT NOT NULL,
    CONSTRAINT pk_delivery_messages PRIMARY KEY (id)
);

CREATE TABLE erasure_journals (
    journal VARCHAR(200) COLLATE "C" NOT NULL,
    registered_at TIMESTAMP WITH TIME ZONE NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_erasure_journals PRIMARY KEY (journal)
);

CREATE TABLE follower_progress (
    follower VARCHAR(64) COLLATE "C" NOT NULL,
    stored_us BIGINT NOT NULL,
    batch_id BIGINT NOT NULL,
    "row" BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    quiet_until_us BIGINT NOT NULL,
    version BIGINT NOT NULL,
    lease_owner VARCHAR(200) COLLATE "C" NOT NULL,
    lease_until TIMESTAMP WITH TIME ZONE NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_follower_progress PRIMARY KEY (follower)
);

CREATE TABLE organizations (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    slug VARCHAR(64) COLLATE "C" NOT NULL,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    monthly_items BIGINT DEFAULT '0' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    deleted_at TIMESTAMP WITH TIME ZONE,
    retired_slug BYTEA,
    sso_enforced BOOLEAN DEFAULT false NOT NULL,
    user_tokens_blocked BOOLEAN DEFAULT false NOT NULL,
    break_glass_id VARCHAR(32) COLLATE "C",
    CONSTRAINT pk_organizations PRIMARY KEY (id),
    CONSTRAINT uq_organizations_slug UNIQUE (slug)
);

CREATE UNIQUE INDEX ix_organizations_retired_slug ON organizations (retired_slug);

CREATE TABLE principals (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    owner_id VARCHAR(32) COLLATE "C",
    disabled_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_principals PRIMARY KEY (id),
    CONSTRAINT ck_principals_kind CHECK (kind IN ('user', 'agent', 'service')),
    CONSTRAINT ck_principals_owner CHECK ((kind = 'user') = (owner_id IS NULL)),
    CONSTRAINT fk_principals_owner_id FOREIGN KEY(owner_id) REFERENCES principals (id)
);

CREATE INDEX ix_principals_owner_id ON principals (owner_id);

CREATE TABLE signing_keys (
    kid VARCHAR(64) COLLATE "C" NOT NULL,
    public_key BYTEA NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    withdrawn_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_signing_keys PRIMARY KEY (kid)
);

CREATE TABLE access_tokens (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    hint VARCHAR(8) COLLATE "C" NOT NULL,
    scopes JSONB,
    expires_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    minted_with VARCHAR(32) COLLATE "C",
    CONSTRAINT pk_access_tokens PRIMARY KEY (id),
    CONSTRAINT fk_access_tokens_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_access_tokens_principal_id FOREIGN KEY(principal_id) REFERENCES principals (id),
    CONSTRAINT uq_access_tokens_hash UNIQUE (hash)
);

CREATE INDEX ix_access_tokens_org_id_principal_id_id ON access_tokens (org_id, principal_id, id);

CREATE INDEX ix_access_tokens_org_id_minted_with ON access_tokens (org_id, minted_with);

CREATE TABLE audit_events (
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    actor_id VARCHAR(32) COLLATE "C",
    actor_kind VARCHAR(16) COLLATE "C",
    on_behalf_of VARCHAR(32) COLLATE "C",
    act_chain TEXT NOT NULL,
    token_id VARCHAR(32) COLLATE "C",
    action VARCHAR(100) COLLATE "C" NOT NULL,
    object_id VARCHAR(200) COLLATE "C" NOT NULL,
    data TEXT NOT NULL,
    request_id VARCHAR(64) COLLATE "C" NOT NULL,
    prev_hash BYTEA NOT NULL,
    hash BYTEA NOT NULL,
    salt BYTEA,
    erased BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT pk_audit_events PRIMARY KEY (org_id, seq),
    CONSTRAINT fk_audit_events_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_audit_events_org_id_at_seq ON audit_events (org_id, at, seq);

CREATE INDEX ix_audit_events_org_id_action_seq ON audit_events (org_id, action, seq);

CREATE INDEX ix_audit_events_org_id_object_id_seq ON audit_events (org_id, object_id, seq);

CREATE INDEX ix_audit_events_org_id_actor_id_seq ON audit_events (org_id, actor_id, seq);

CREATE TABLE audit_heads (
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    sealed BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT pk_audit_heads PRIMARY KEY (org_id),
    CONSTRAINT fk_audit_heads_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE TABLE chat_link_codes (
    hash BYTEA NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    session_id VARCHAR(32) COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_chat_link_codes PRIMARY KEY (hash),
    CONSTRAINT fk_chat_link_codes_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_chat_link_codes_principal_id FOREIGN KEY(principal_id) REFERENCES principals (id)
);

CREATE INDEX ix_chat_link_codes_org_id ON chat_link_codes (org_id);

CREATE INDEX ix_chat_link_codes_principal_id ON chat_link_codes (principal_id);

CREATE INDEX ix_chat_link_codes_expires_at ON chat_link_codes (expires_at);

CREATE TABLE chat_links (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    platform VARCHAR(16) COLLATE "C" NOT NULL,
    team_id VARCHAR(64) COLLATE "C" NOT NULL,
    user_id VARCHAR(64) COLLATE "C" NOT NULL,
    is_federated BOOLEAN NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_chat_links PRIMARY KEY (id),
    CONSTRAINT ck_chat_links_platform CHECK (platform IN ('chat-a', 'chat-b')),
    CONSTRAINT uq_chat_links_platform_team_id_user_id UNIQUE (platform, team_id, user_id),
    CONSTRAINT fk_chat_links_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_chat_links_principal_id FOREIGN KEY(principal_id) REFERENCES principals (id)
);

CREATE INDEX ix_chat_links_org_id_principal_id ON chat_links (org_id, principal_id);

CREATE INDEX ix_chat_links_principal_id ON chat_links (principal_id);

CREATE TABLE chat_updates (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    platform VARCHAR(16) COLLATE "C" NOT NULL,
    url BYTEA NOT NULL,
    body JSON NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_chat_updates PRIMARY KEY (id),
    CONSTRAINT ck_chat_updates_platform CHECK (platform IN ('chat-a', 'chat-b')),
    CONSTRAINT fk_chat_updates_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_chat_updates_next_attempt_at ON chat_updates (next_attempt_at);

CREATE INDEX ix_chat_updates_org_id ON chat_updates (org_id);

CREATE TABLE code_reverts (
    source_id VARCHAR(32) COLLATE "C" NOT NULL,
    target VARCHAR(64) COLLATE "C" NOT NULL,
    reverts_merge BOOLEAN NOT NULL,
    target_key VARCHAR(65) COLLATE "C" NOT NULL,
    repository VARCHAR(200) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    CONSTRAINT pk_code_reverts PRIMARY KEY (source_id, target),
    CONSTRAINT fk_code_reverts_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_code_reverts_org_id_target_key ON code_reverts (org_id, target_key);

CREATE TABLE commits (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    repository VARCHAR(200) COLLATE "C" NOT NULL,
    sha VARCHAR(64) COLLATE "C" NOT NULL,
    message VARCHAR(8192) COLLATE "C" NOT NULL,
    author_name VARCHAR(200) COLLATE "C",
    author_email VARCHAR(254) COLLATE "C",
    authored_at TIMESTAMP WITH TIME ZONE,
    url VARCHAR(2048) COLLATE "C",
    files JSON,
    files_truncated BOOLEAN NOT NULL,
    default_branch_at TIMESTAMP WITH TIME ZONE,
    default_branch_head VARCHAR(64) COLLATE "C",
    released_at TIMESTAMP WITH TIME ZONE,
    proposal_number VARCHAR(64) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_commits PRIMARY KEY (id),
    CONSTRAINT uq_commits_org_id_repository_sha UNIQUE (org_id, repository, sha),
    CONSTRAINT fk_commits_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_commits_org_id_id ON commits (org_id, id);

CREATE INDEX ix_commits_org_id_sha ON commits (org_id, sha);

CREATE INDEX ix_commits_org_id_repository_authored_at ON commits (org_id, repository, authored_at);

CREATE INDEX ix_commits_org_id_default_branch_at ON commits (org_id, default_branch_at);

CREATE INDEX ix_commits_org_id_default_branch_head ON commits (org_id, default_branch_head) WHERE default_branch_head IS NOT NULL;

CREATE INDEX ix_commits_org_id_repository_proposal_number ON commits (org_id, repository, proposal_number) WHERE proposal_number IS NOT NULL;

CREATE TABLE erasures (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT,
    project_slug VARCHAR(64) COLLATE "C",
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    filters JSON,
    from_ns BIGINT,
    to_ns BIGINT,
    dry_run BOOLEAN NOT NULL,
    requested_by VARCHAR(32) COLLATE "C",
    requested_at TIMESTAMP WITH TIME ZONE NOT NULL,
    state VARCHAR(16) COLLATE "C" NOT NULL,
    counts JSON NOT NULL,
    pending_deletion JSON,
    days JSON,
    message VARCHAR(500) COLLATE "C",
    attempts INTEGER NOT NULL,
    lease_owner VARCHAR(200) COLLATE "C",
    lease_until TIMESTAMP WITH TIME ZONE,
    retry_at TIMESTAMP WITH TIME ZONE,
    purged_at TIMESTAMP WITH TIME ZONE,
    erased_at TIMESTAMP WITH TIME ZONE,
    completed_at TIMESTAMP WITH TIME ZONE,
    expired_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_erasures PRIMARY KEY (id),
    CONSTRAINT ck_erasures_kind CHECK (kind IN ('organization', 'project', 'filter')),
    CONSTRAINT ck_erasures_state CHECK (state IN ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED')),
    CONSTRAINT ck_erasures_project CHECK ((kind = 'organization') = (project_id IS NULL)),
    CONSTRAINT ck_erasures_lease CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CONSTRAINT ck_erasures_completed CHECK ((state = 'COMPLETED') = (completed_at IS NOT NULL)),
    CONSTRAINT uq_erasures_number UNIQUE (number),
    CONSTRAINT fk_erasures_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_erasures_org_id_id ON erasures (org_id, id);

CREATE INDEX ix_erasures_state_number ON erasures (state, number);

CREATE INDEX ix_erasures_unpurged ON erasures (number) WHERE purged_at IS NULL;

CREATE TABLE follower_blocks (
    follower VARCHAR(64) COLLATE "C" NOT NULL,
    batch_id BIGINT NOT NULL,
    day INTEGER NOT NULL,
    stored_us BIGINT NOT NULL,
    "row" BIGINT NOT NULL,
    CONSTRAINT pk_follower_blocks PRIMARY KEY (follower, batch_id, day),
    CONSTRAINT fk_follower_blocks_follower FOREIGN KEY(follower) REFERENCES follower_progress (follower)
);

CREATE TABLE integrations (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    enabled BOOLEAN NOT NULL,
    config JSON NOT NULL,
    hook_id VARCHAR(128) COLLATE "C",
    secret BYTEA NOT NULL,
    previous_secret BYTEA,
    previous_secret_until TIMESTAMP WITH TIME ZONE,
    version INTEGER NOT NULL,
    created_by VARCHAR(32) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_integrations PRIMARY KEY (id),
    CONSTRAINT ck_integrations_kind CHECK (kind IN ('github', 'gitlab', 'bitbucket', 'gitea', 'forgejo', 'linear', 'jira', 'pagerduty', 'generic')),
    CONSTRAINT ck_integrations_previous_secret CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL)),
    CONSTRAINT fk_integrations_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_integrations_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE INDEX ix_integrations_org_id_id ON integrations (org_id, id);

CREATE INDEX ix_integrations_hook_id ON integrations (hook_id);

CREATE TABLE issue_change_numbers (
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    last_number BIGINT NOT NULL,
    CONSTRAINT pk_issue_change_numbers PRIMARY KEY (org_id),
    CONSTRAINT fk_issue_change_numbers_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE TABLE login_codes (
    hash BYTEA NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_login_codes PRIMARY KEY (hash),
    CONSTRAINT fk_login_codes_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_login_codes_principal_id FOREIGN KEY(principal_id) REFERENCES principals (id)
);

CREATE INDEX ix_login_codes_org_id ON login_codes (org_id);

CREATE INDEX ix_login_codes_principal_id ON login_codes (principal_id);

CREATE INDEX ix_login_codes_expires_at ON login_codes (expires_at);

CREATE TABLE memberships (
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    role VARCHAR(16) COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    managed BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT pk_memberships PRIMARY KEY (org_id, principal_id),
    CONSTRAINT ck_memberships_role CHECK (role IN ('VIEWER', 'BILLING', 'MEMBER', 'ADMIN', 'OWNER')),
    CONSTRAINT fk_memberships_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_memberships_principal_id FOREIGN KEY(principal_id) REFERENCES principals (id)
);

CREATE INDEX ix_memberships_principal_id ON memberships (principal_id);

CREATE TABLE platform_events (
    source VARCHAR(16) COLLATE "C" NOT NULL,
    event_id VARCHAR(255) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C",
    result JSON NOT NULL,
    received_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_platform_events PRIMARY KEY (source, event_id),
    CONSTRAINT ck_platform_events_source CHECK (source IN ('chat-a', 'chat-b', 'payments')),
    CONSTRAINT fk_platform_events_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_platform_events_org_id ON platform_events (org_id);

CREATE INDEX ix_platform_events_received_at ON platform_events (received_at);

CREATE TABLE projects (
    id BIGINT NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    slug VARCHAR(64) COLLATE "C" NOT NULL,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    sensitive_words JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    retention_days INTEGER,
    deleted_at TIMESTAMP WITH TIME ZONE,
    resolve_on_merge VARCHAR(16) COLLATE "C" DEFAULT 'next_release' NOT NULL,
    exempt_keys JSONB DEFAULT '[]' NOT NULL,
    source_maps_revision BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_projects PRIMARY KEY (id),
    CONSTRAINT uq_projects_org_id_slug UNIQUE (org_id, slug),
    CONSTRAINT fk_projects_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE TABLE proof_issuer_keys (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    issuer VARCHAR(300) COLLATE "C" NOT NULL,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    key_id VARCHAR(200) COLLATE "C" NOT NULL,
    algorithm VARCHAR(16) COLLATE "C" NOT NULL,
    public_key VARCHAR(1000) COLLATE "C" NOT NULL,
    valid_from TIMESTAMP WITH TIME ZONE NOT NULL,
    valid_until TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    revocation_reason VARCHAR(500) COLLATE "C",
    created_by VARCHAR(32) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_proof_issuer_keys PRIMARY KEY (id),
    CONSTRAINT ck_proof_issuer_keys_algorithm CHECK (algorithm IN ('ED25519', 'ECDSA_P256')),
    CONSTRAINT ck_proof_issuer_keys_revoked CHECK ((revoked_at IS NULL) = (revocation_reason IS NULL)),
    CONSTRAINT uq_proof_issuer_keys_org_id_key_id UNIQUE (org_id, key_id),
    CONSTRAINT fk_proof_issuer_keys_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_proof_issuer_keys_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE TABLE proposals (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    repository VARCHAR(200) COLLATE "C" NOT NULL,
    number VARCHAR(64) COLLATE "C" NOT NULL,
    title VARCHAR(300) COLLATE "C" NOT NULL,
    state VARCHAR(16) COLLATE "C" NOT NULL,
    head_ref VARCHAR(255) COLLATE "C",
    head_sha VARCHAR(64) COLLATE "C",
    merge_sha VARCHAR(64) COLLATE "C",
    author_name VARCHAR(200) COLLATE "C",
    url VARCHAR(2048) COLLATE "C",
    changed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    merged_at TIMESTAMP WITH TIME ZONE,
    targets_default_branch BOOLEAN DEFAULT true NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_proposals PRIMARY KEY (id),
    CONSTRAINT ck_proposals_state CHECK (state IN ('open', 'merged', 'closed', 'superseded')),
    CONSTRAINT uq_proposals_org_id_repository_number UNIQUE (org_id, repository, number),
    CONSTRAINT fk_proposals_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_proposals_org_id_id ON proposals (org_id, id);

CREATE INDEX ix_proposals_org_id_merge_sha ON proposals (org_id, merge_sha);

CREATE TABLE quota_usage (
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    month VARCHAR(7) COLLATE "C" NOT NULL,
    items BIGINT NOT NULL,
    counted_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_quota_usage PRIMARY KEY (org_id, month),
    CONSTRAINT fk_quota_usage_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE TABLE releases (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    version VARCHAR(200) COLLATE "C" NOT NULL,
    ref VARCHAR(255) COLLATE "C",
    url VARCHAR(2048) COLLATE "C",
    released_at TIMESTAMP WITH TIME ZONE,
    reported_at TIMESTAMP WITH TIME ZONE,
    created_by VARCHAR(32) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_releases PRIMARY KEY (id),
    CONSTRAINT uq_releases_org_id_version UNIQUE (org_id, version),
    CONSTRAINT fk_releases_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_releases_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE INDEX ix_releases_org_id_id ON releases (org_id, id);

CREATE TABLE scim_groups (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    display_name VARCHAR(256) COLLATE "C" NOT NULL,
    display_name_folded VARCHAR(1024) COLLATE "C" NOT NULL,
    external_id VARCHAR(256) COLLATE "C",
    version BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_scim_groups PRIMARY KEY (id),
    CONSTRAINT fk_scim_groups_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_scim_groups_org_id_id ON scim_groups (org_id, id);

CREATE INDEX ix_scim_groups_org_id_display_name_folded ON scim_groups (org_id, display_name_folded);

CREATE INDEX ix_scim_groups_org_id_external_id ON scim_groups (org_id, external_id);

CREATE TABLE scim_settings (
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    successor_id VARCHAR(32) COLLATE "C",
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_scim_settings PRIMARY KEY (org_id),
    CONSTRAINT fk_scim_settings_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_scim_settings_successor_id FOREIGN KEY(successor_id) REFERENCES principals (id)
);

CREATE TABLE scim_tokens (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    hint VARCHAR(8) COLLATE "C" NOT NULL,
    created_by VARCHAR(32) COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_scim_tokens PRIMARY KEY (id),
    CONSTRAINT fk_scim_tokens_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT uq_scim_tokens_hash UNIQUE (hash),
    CONSTRAINT fk_scim_tokens_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE INDEX ix_scim_tokens_org_id_id ON scim_tokens (org_id, id);

CREATE TABLE sessions (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    methods JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_sessions PRIMARY KEY (id),
    CONSTRAINT fk_sessions_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_sessions_principal_id FOREIGN KEY(principal_id) REFERENCES principals (id)
);

CREATE INDEX ix_sessions_principal_id_org_id ON sessions (principal_id, org_id);

CREATE TABLE sso_connections (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    protocol VARCHAR(8) COLLATE "C" NOT NULL,
    enabled BOOLEAN NOT NULL,
    enforced BOOLEAN NOT NULL,
    default_role VARCHAR(16) COLLATE "C" NOT NULL,
    attribute_mapping JSON,
    role_mapping JSON,
    idp_entity_id VARCHAR(1024) COLLATE "C",
    idp_sso_url VARCHAR(2048) COLLATE "C",
    idp_certificate BYTEA,
    idp_certificate_alternates BYTEA,
    idp_certificate_alternate_count INTEGER NOT NULL,
    certificate_expires_at TIMESTAMP WITH TIME ZONE,
    oidc_issuer VARCHAR(2048) COLLATE "C",
    oidc_client_id VARCHAR(256) COLLATE "C",
    oidc_client_secret BYTEA,
    oidc_scopes JSON NOT NULL,
    tested_at TIMESTAMP WITH TIME ZONE,
    confirmed_by_owner BOOLEAN NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_sso_connections PRIMARY KEY (id),
    CONSTRAINT ck_sso_connections_protocol CHECK (protocol IN ('SAML', 'OIDC')),
    CONSTRAINT ck_sso_connections_default_role CHECK (default_role <> 'OWNER'),
    CONSTRAINT ck_sso_connections_enforced CHECK (enabled OR NOT enforced),
    CONSTRAINT uq_sso_connections_org_id_protocol UNIQUE (org_id, protocol),
    CONSTRAINT fk_sso_connections_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE TABLE sso_domains (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    domain VARCHAR(253) COLLATE "C" NOT NULL,
    challenge VARCHAR(64) COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    verified_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_sso_domains PRIMARY KEY (id),
    CONSTRAINT uq_sso_domains_org_id_domain UNIQUE (org_id, domain),
    CONSTRAINT fk_sso_domains_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE UNIQUE INDEX ix_sso_domains_domain ON sso_domains (domain) WHERE verified_at IS NOT NULL;

CREATE TABLE sso_settings (
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    mfa_trust VARCHAR(16) COLLATE "C" NOT NULL,
    personal_tokens BOOLEAN NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_sso_settings PRIMARY KEY (org_id),
    CONSTRAINT ck_sso_settings_mfa_trust CHECK (mfa_trust IN ('NEVER', 'ASSERTED', 'ALWAYS')),
    CONSTRAINT fk_sso_settings_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE TABLE subscriptions (
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    customer_id VARCHAR(255) COLLATE "C" NOT NULL,
    subscription_id VARCHAR(255) COLLATE "C",
    "plan" VARCHAR(64) COLLATE "C",
    status VARCHAR(32) COLLATE "C",
    monthly_items BIGINT,
    current_period_end TIMESTAMP WITH TIME ZONE,
    changed_at TIMESTAMP WITH TIME ZONE,
    last_event_id VARCHAR(255) COLLATE "C",
    histories JSON,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_subscriptions PRIMARY KEY (org_id),
    CONSTRAINT fk_subscriptions_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT uq_subscriptions_customer_id UNIQUE (customer_id)
);

CREATE TABLE users (
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    email VARCHAR(254) COLLATE "C" NOT NULL,
    email_verified BOOLEAN NOT NULL,
    home_org_id VARCHAR(32) COLLATE "C",
    password_hash VARCHAR(200) COLLATE "C",
    totp_secret BYTEA,
    totp_confirmed_at TIMESTAMP WITH TIME ZONE,
    totp_step BIGINT,
    locale VARCHAR(35) COLLATE "C" NOT NULL,
    theme VARCHAR(16) COLLATE "C" NOT NULL,
    avatar_url VARCHAR(2048) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_users PRIMARY KEY (principal_id),
    CONSTRAINT ck_users_home_org_id CHECK (NOT (email_verified AND home_org_id IS NOT NULL)),
    CONSTRAINT uq_users_email_home_org_id UNIQUE (email, home_org_id),
    CONSTRAINT fk_users_principal_id FOREIGN KEY(principal_id) REFERENCES principals (id),
    CONSTRAINT fk_users_home_org_id FOREIGN KEY(home_org_id) REFERENCES organizations (id)
);

CREATE UNIQUE INDEX ix_users_email ON users (email) WHERE email_verified;

CREATE TABLE warehouse_sinks (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    enabled BOOLEAN NOT NULL,
    streams JSON NOT NULL,
    config BYTEA NOT NULL,
    created_by VARCHAR(32) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    next_run_at TIMESTAMP WITH TIME ZONE NOT NULL,
    lease_owner VARCHAR(200) COLLATE "C",
    lease_until TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_warehouse_sinks PRIMARY KEY (id),
    CONSTRAINT ck_warehouse_sinks_kind CHECK (kind IN ('BLOBSTORE', 'SNOWFLAKE', 'BIGQUERY')),
    CONSTRAINT fk_warehouse_sinks_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_warehouse_sinks_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE INDEX ix_warehouse_sinks_org_id_id ON warehouse_sinks (org_id, id);

CREATE INDEX ix_warehouse_sinks_next_run_at ON warehouse_sinks (next_run_at);

CREATE TABLE approval_policies (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    action_pattern VARCHAR(120) COLLATE "C" NOT NULL,
    target_type VARCHAR(120) COLLATE "C",
    effect VARCHAR(8) COLLATE "C" NOT NULL,
    risk_class VARCHAR(16) COLLATE "C" NOT NULL,
    min_approvers INTEGER NOT NULL,
    approver_roles JSON NOT NULL,
    machine_approver_ids JSON NOT NULL,
    ttl_minutes INTEGER NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_approval_policies PRIMARY KEY (id),
    CONSTRAINT ck_approval_policies_effect CHECK (effect IN ('ALLOW', 'ASK', 'DENY')),
    CONSTRAINT ck_approval_policies_risk_class CHECK (risk_class IN ('LOW', 'MEDIUM', 'HIGH', 'CRITICAL')),
    CONSTRAINT ck_approval_policies_min_approvers CHECK (min_approvers BETWEEN 1 AND 10),
    CONSTRAINT ck_approval_policies_ttl_minutes CHECK (ttl_minutes BETWEEN 1 AND 43200),
    CONSTRAINT fk_approval_policies_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_approval_policies_project_id FOREIGN KEY(project_id) REFERENCES projects (id)
);

CREATE INDEX ix_approval_policies_org_id_id ON approval_policies (org_id, id);

CREATE TABLE approval_requests (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    requester_id VARCHAR(32) COLLATE "C" NOT NULL,
    on_behalf_of VARCHAR(32) COLLATE "C",
    act_chain JSON NOT NULL,
    circle JSON NOT NULL,
    action VARCHAR(120) COLLATE "C" NOT NULL,
    risk_class VARCHAR(16) COLLATE "C" NOT NULL,
    target_type VARCHAR(120) COLLATE "C" NOT NULL,
    target_id VARCHAR(500) COLLATE "C" NOT NULL,
    project_id BIGINT,
    status VARCHAR(16) COLLATE "C" NOT NULL,
    min_approvers INTEGER NOT NULL,
    approver_roles JSON NOT NULL,
    machine_approver_ids JSON NOT NULL,
    policy_id VARCHAR(32) COLLATE "C",
    policy_source VARCHAR(16) COLLATE "C" NOT NULL,
    policy_reason TEXT NOT NULL,
    decider_id VARCHAR(32) COLLATE "C",
    decided_at TIMESTAMP WITH TIME ZONE,
    reason VARCHAR(4096) COLLATE "C",
    approvals INTEGER,
    independent BOOLEAN,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    payload JSON,
    told_channel_ids JSON NOT NULL,
    expiry_noted BOOLEAN NOT NULL,
    CONSTRAINT pk_approval_requests PRIMARY KEY (id),
    CONSTRAINT ck_approval_requests_status CHECK (status IN ('PENDING', 'APPROVED', 'REJECTED')),
    CONSTRAINT ck_approval_requests_risk_class CHECK (risk_class IN ('LOW', 'MEDIUM', 'HIGH', 'CRITICAL')),
    CONSTRAINT ck_approval_requests_min_approvers CHECK (min_approvers >= 1),
    CONSTRAINT ck_approval_requests_decided CHECK ((status = 'PENDING') = (decided_at IS NULL)),
    CONSTRAINT ck_approval_requests_approved CHECK (status <> 'APPROVED' OR (approvals >= min_approvers AND independent)),
    CONSTRAINT fk_approval_requests_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_approval_requests_requester_id FOREIGN KEY(requester_id) REFERENCES principals (id),
    CONSTRAINT fk_approval_requests_project_id FOREIGN KEY(project_id) REFERENCES projects (id)
);

CREATE INDEX ix_approval_requests_org_id_id ON approval_requests (org_id, id);

CREATE INDEX ix_approval_requests_decided ON approval_requests (org_id, status, id) WHERE status <> 'PENDING';

CREATE INDEX ix_approval_requests_noted ON approval_requests (org_id, id) WHERE expiry_noted;

CREATE INDEX ix_approval_requests_open ON approval_requests (org_id, id, expires_at) WHERE status = 'PENDING' AND NOT expiry_noted;

CREATE INDEX ix_approval_requests_same ON approval_requests (org_id, requester_id, action, target_id) WHERE status = 'PENDING' AND NOT expiry_noted;

CREATE INDEX ix_approval_requests_due ON approval_requests (expires_at, id) WHERE status = 'PENDING' AND NOT expiry_noted;

CREATE TABLE change_events (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT,
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    title VARCHAR(200) COLLATE "C" NOT NULL,
    detail VARCHAR(2000) COLLATE "C",
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    environment VARCHAR(200) COLLATE "C",
    release VARCHAR(200) COLLATE "C",
    service VARCHAR(200) COLLATE "C",
    url VARCHAR(2048) COLLATE "C",
    source VARCHAR(64) COLLATE "C" NOT NULL,
    dedupe_key VARCHAR(200) COLLATE "C",
    created_by VARCHAR(32) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_change_events PRIMARY KEY (id),
    CONSTRAINT ck_change_events_kind CHECK (kind IN ('deployment', 'release', 'flag', 'generic')),
    CONSTRAINT uq_change_events_org_id_dedupe_key UNIQUE (org_id, dedupe_key),
    CONSTRAINT fk_change_events_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_change_events_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_change_events_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE INDEX ix_change_events_org_id_at_id ON change_events (org_id, at, id);

CREATE INDEX ix_change_events_project_id_at_id ON change_events (project_id, at, id);

CREATE TABLE delegations (
    token_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    subject_id VARCHAR(32) COLLATE "C" NOT NULL,
    chain JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_delegations PRIMARY KEY (token_id),
    CONSTRAINT fk_delegations_token_id FOREIGN KEY(token_id) REFERENCES access_tokens (id),
    CONSTRAINT fk_delegations_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_delegations_subject_id FOREIGN KEY(subject_id) REFERENCES principals (id)
);

CREATE TABLE email_verifications (
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    email VARCHAR(254) COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_email_verifications PRIMARY KEY (principal_id),
    CONSTRAINT fk_email_verifications_principal_id FOREIGN KEY(principal_id) REFERENCES users (principal_id)
);

CREATE TABLE erasure_acknowledgements (
    erasure_id VARCHAR(32) COLLATE "C" NOT NULL,
    journal VARCHAR(200) COLLATE "C" NOT NULL,
    acknowledged_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_erasure_acknowledgements PRIMARY KEY (erasure_id, journal),
    CONSTRAINT fk_erasure_acknowledgements_erasure_id FOREIGN KEY(erasure_id) REFERENCES erasures (id)
);

CREATE TABLE inbound_deliveries (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    integration_id VARCHAR(32) COLLATE "C" NOT NULL,
    delivery_key VARCHAR(128) COLLATE "C" NOT NULL,
    event VARCHAR(100) COLLATE "C" NOT NULL,
    status VARCHAR(16) COLLATE "C" NOT NULL,
    result JSON,
    error VARCHAR(500) COLLATE "C",
    body BYTEA,
    attempts INTEGER NOT NULL,
    received_at TIMESTAMP WITH TIME ZONE NOT NULL,
    processed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_inbound_deliveries PRIMARY KEY (id),
    CONSTRAINT ck_inbound_deliveries_status CHECK (status IN ('processed', 'failed')),
    CONSTRAINT uq_inbound_deliveries_integration_id_delivery_key UNIQUE (integration_id, delivery_key),
    CONSTRAINT fk_inbound_deliveries_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_inbound_deliveries_integration_id FOREIGN KEY(integration_id) REFERENCES integrations (id) ON DELETE CASCADE
);

CREATE INDEX ix_inbound_deliveries_integration_id_id ON inbound_deliveries (integration_id, id);

CREATE INDEX ix_inbound_deliveries_org_id ON inbound_deliveries (org_id);

CREATE INDEX ix_inbound_deliveries_received_at ON inbound_deliveries (received_at);

CREATE TABLE invitations (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    email VARCHAR(254) COLLATE "C" NOT NULL,
    role VARCHAR(16) COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    created_by VARCHAR(32) COLLATE "C" NOT NULL,
    minted_with VARCHAR(32) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    accepted_at TIMESTAMP WITH TIME ZONE,
    accepted_by VARCHAR(32) COLLATE "C",
    revoked_at TIMESTAMP WITH TIME ZONE,
    mailed BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT pk_invitations PRIMARY KEY (id),
    CONSTRAINT ck_invitations_role CHECK (role IN ('VIEWER', 'BILLING', 'MEMBER', 'ADMIN', 'OWNER')),
    CONSTRAINT fk_invitations_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT uq_invitations_hash UNIQUE (hash),
    CONSTRAINT fk_invitations_created_by FOREIGN KEY(created_by) REFERENCES principals (id),
    CONSTRAINT fk_invitations_minted_with FOREIGN KEY(minted_with) REFERENCES access_tokens (id),
    CONSTRAINT fk_invitations_accepted_by FOREIGN KEY(accepted_by) REFERENCES principals (id)
);

CREATE INDEX ix_invitations_org_id_id ON invitations (org_id, id);

CREATE INDEX ix_invitations_minted_with ON invitations (minted_with);

CREATE TABLE issue_erasures (
    erasure_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    CONSTRAINT pk_issue_erasures PRIMARY KEY (erasure_id),
    CONSTRAINT fk_issue_erasures_erasure_id FOREIGN KEY(erasure_id) REFERENCES erasures (id),
    CONSTRAINT fk_issue_erasures_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_issue_erasures_project_id FOREIGN KEY(project_id) REFERENCES projects (id)
);

CREATE INDEX ix_issue_erasures_org_id ON issue_erasures (org_id);

CREATE INDEX ix_issue_erasures_project_id ON issue_erasures (project_id);

CREATE TABLE issue_projects (
    project_id BIGINT NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    last_number BIGINT NOT NULL,
    issues BIGINT NOT NULL,
    new_permits FLOAT NOT NULL,
    notify_permits FLOAT NOT NULL,
    regression_permits FLOAT NOT NULL,
    permits_us BIGINT NOT NULL,
    untracked_occurrences BIGINT NOT NULL,
    untracked_since TIMESTAMP WITH TIME ZONE,
    untracked_last TIMESTAMP WITH TIME ZONE,
    unannounced BIGINT NOT NULL,
    summary_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_issue_projects PRIMARY KEY (project_id),
    CONSTRAINT fk_issue_projects_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_issue_projects_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE TABLE issues (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    fingerprint BYTEA NOT NULL,
    type VARCHAR(200) COLLATE "C",
    title VARCHAR(300) COLLATE "C" NOT NULL,
    culprit VARCHAR(300) COLLATE "C",
    search_text VARCHAR(1200) COLLATE "C" NOT NULL,
    status VARCHAR(16) COLLATE "C" NOT NULL,
    decided_status VARCHAR(16) COLLATE "C",
    decided_at TIMESTAMP WITH TIME ZONE,
    resolved_at TIMESTAMP WITH TIME ZONE,
    resolved_in_release VARCHAR(200) COLLATE "C",
    resolved_after_release VARCHAR(200) COLLATE "C",
    ignored_until TIMESTAMP WITH TIME ZONE,
    ignored_until_count BIGINT,
    assignee_id VARCHAR(32) COLLATE "C",
    regressed_at TIMESTAMP WITH TIME ZONE,
    count BIGINT NOT NULL,
    first_seen TIMESTAMP WITH TIME ZONE NOT NULL,
    last_seen TIMESTAMP WITH TIME ZONE NOT NULL,
    first_release VARCHAR(200) COLLATE "C",
    last_release VARCHAR(200) COLLATE "C",
    merged_into VARCHAR(32) COLLATE "C",
    change_number BIGINT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_issues PRIMARY KEY (id),
    CONSTRAINT ck_issues_status CHECK (status IN ('unresolved', 'resolved', 'ignored')),
    CONSTRAINT ck_issues_resolved CHECK (status <> 'resolved' OR resolved_at IS NOT NULL),
    CONSTRAINT uq_issues_project_id_fingerprint UNIQUE (project_id, fingerprint),
    CONSTRAINT uq_issues_project_id_number UNIQUE (project_id, number),
    CONSTRAINT fk_issues_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_issues_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_issues_assignee_id FOREIGN KEY(assignee_id) REFERENCES principals (id)
);

CREATE INDEX ix_issues_assignee_id ON issues (assignee_id) WHERE assignee_id IS NOT NULL;

CREATE INDEX ix_issues_ignored_until ON issues (ignored_until) WHERE ignored_until IS NOT NULL;

CREATE INDEX ix_issues_merged_into ON issues (merged_into) WHERE merged_into IS NOT NULL;

CREATE INDEX ix_issues_updated_at ON issues (updated_at) WHERE merged_into IS NULL;

CREATE INDEX ix_issues_org_id_id ON issues (org_id, id);

CREATE INDEX ix_issues_project_id_count_id ON issues (project_id, count, id);

CREATE INDEX ix_issues_project_id_first_seen_id ON issues (project_id, first_seen, id);

CREATE INDEX ix_issues_project_id_last_seen_id ON issues (project_id, last_seen, id);

CREATE INDEX ix_issues_project_id_status_last_seen_id ON issues (project_id, status, last_seen, id);

CREATE INDEX ix_issues_resolved_after_release ON issues (project_id) WHERE resolved_after_release IS NOT NULL;

CREATE INDEX ix_issues_unnumbered ON issues (org_id) WHERE change_number IS NULL;

CREATE INDEX ix_issues_org_id_change_number ON issues (org_id, change_number);

CREATE TABLE login_addresses (
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    address VARCHAR(32) COLLATE "C" NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_login_addresses PRIMARY KEY (principal_id, address),
    CONSTRAINT fk_login_addresses_principal_id FOREIGN KEY(principal_id) REFERENCES users (principal_id)
);

CREATE INDEX ix_login_addresses_used_at ON login_addresses (used_at);

CREATE TABLE notification_channels (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    enabled BOOLEAN NOT NULL,
    config BYTEA,
    off_reason VARCHAR(16) COLLATE "C",
    failing_since TIMESTAMP WITH TIME ZONE,
    failed_at TIMESTAMP WITH TIME ZONE,
    created_by VARCHAR(32) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    deleted_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_notification_channels PRIMARY KEY (id),
    CONSTRAINT ck_notification_channels_kind CHECK (kind IN ('chat-a', 'chat-b', 'webhook', 'email', 'pager', 'teams')),
    CONSTRAINT ck_notification_channels_off_reason CHECK (off_reason IN ('gone', 'failing')),
    CONSTRAINT ck_notification_channels_config CHECK ((config IS NULL) = (deleted_at IS NOT NULL)),
    CONSTRAINT fk_notification_channels_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_notification_channels_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_notification_channels_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE INDEX ix_notification_channels_org_id_project_id_id ON notification_channels (org_id, project_id, id) WHERE deleted_at IS NULL;

CREATE INDEX ix_notification_channels_deleted_at ON notification_channels (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE project_keys (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    hint VARCHAR(8) COLLATE "C" NOT NULL,
    enabled BOOLEAN NOT NULL,
    rate INTEGER,
    revoked_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    created_by VARCHAR(32) COLLATE "C",
    CONSTRAINT pk_project_keys PRIMARY KEY (id),
    CONSTRAINT fk_project_keys_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_project_keys_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT uq_project_keys_hash UNIQUE (hash),
    CONSTRAINT fk_project_keys_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE INDEX ix_project_keys_project_id_id ON project_keys (project_id, id);

CREATE TABLE proof_bundles (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    bundle_id VARCHAR(128) COLLATE "C" NOT NULL,
    is_verified BOOLEAN NOT NULL,
    issuer_key_id VARCHAR(32) COLLATE "C",
    key_id VARCHAR(200) COLLATE "C",
    submitted_by VARCHAR(32) COLLATE "C",
    received_at TIMESTAMP WITH TIME ZONE NOT NULL,
    media_type VARCHAR(100) COLLATE "C" NOT NULL,
    digest BYTEA NOT NULL,
    size BIGINT NOT NULL,
    issued_at VARCHAR(24) COLLATE "C" NOT NULL,
    issuer VARCHAR(300) COLLATE "C" NOT NULL,
    tier VARCHAR(8) COLLATE "C" NOT NULL,
    verdict VARCHAR(8) COLLATE "C" NOT NULL,
    billable BOOLEAN NOT NULL,
    claims INTEGER NOT NULL,
    issue_id VARCHAR(32) COLLATE "C",
    issue_short_id VARCHAR(120) COLLATE "C" NOT NULL,
    title VARCHAR(400) COLLATE "C" NOT NULL,
    run_id VARCHAR(200) COLLATE "C" NOT NULL,
    proposal_id VARCHAR(200) COLLATE "C" NOT NULL,
    "commit" VARCHAR(80) COLLATE "C",
    errors INTEGER NOT NULL,
    warnings INTEGER NOT NULL,
    findings BYTEA NOT NULL,
    body BYTEA NOT NULL,
    CONSTRAINT pk_proof_bundles PRIMARY KEY (id),
    CONSTRAINT ck_proof_bundles_tier CHECK (tier IN ('A', 'B', 'C', 'VOID', 'NONE')),
    CONSTRAINT ck_proof_bundles_verdict CHECK (verdict IN ('PASSED', 'VOID', 'FAILED')),
    CONSTRAINT ck_proof_bundles_verified CHECK (is_verified = (issuer_key_id IS NOT NULL)),
    CONSTRAINT uq_proof_bundles_project_id_bundle_id_is_verified UNIQUE (project_id, bundle_id, is_verified),
    CONSTRAINT fk_proof_bundles_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_proof_bundles_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_proof_bundles_issuer_key_id FOREIGN KEY(issuer_key_id) REFERENCES proof_issuer_keys (id),
    CONSTRAINT fk_proof_bundles_submitted_by FOREIGN KEY(submitted_by) REFERENCES principals (id)
);

CREATE INDEX ix_proof_bundles_org_id ON proof_bundles (org_id);

CREATE INDEX ix_proof_bundles_project_id_id ON proof_bundles (project_id, id);

CREATE INDEX ix_proof_bundles_project_id_digest ON proof_bundles (project_id, digest);

CREATE INDEX ix_proof_bundles_project_id_issue_id_id ON proof_bundles (project_id, issue_id, id);

CREATE INDEX ix_proof_bundles_project_id_run_id_id ON proof_bundles (project_id, run_id, id);

CREATE INDEX ix_proof_bundles_project_id_commit_id ON proof_bundles (project_id, "commit", id);

CREATE INDEX ix_proof_bundles_project_id_is_verified_verdict_tier_id ON proof_bundles (project_id, is_verified, verdict, tier, id);

CREATE INDEX ix_proof_bundles_issuer_key_id ON proof_bundles (issuer_key_id);

CREATE INDEX ix_proof_bundles_kinds_issue_id ON proof_bundles (project_id, issue_id, is_verified, verdict, tier, id);

CREATE INDEX ix_proof_bundles_kinds_run_id ON proof_bundles (project_id, run_id, is_verified, verdict, tier, id);

CREATE INDEX ix_proof_bundles_kinds_commit ON proof_bundles (project_id, "commit", is_verified, verdict, tier, id);

CREATE TABLE proof_usage (
    project_id BIGINT NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    bundles BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    unsigned_bytes BIGINT NOT NULL,
    CONSTRAINT pk_proof_usage PRIMARY KEY (project_id),
    CONSTRAINT fk_proof_usage_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_proof_usage_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_proof_usage_org_id ON proof_usage (org_id);

CREATE TABLE recovery_codes (
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_recovery_codes PRIMARY KEY (principal_id, hash),
    CONSTRAINT fk_recovery_codes_principal_id FOREIGN KEY(principal_id) REFERENCES users (principal_id)
);

CREATE TABLE refresh_tokens (
    hash BYTEA NOT NULL,
    session_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_refresh_tokens PRIMARY KEY (hash),
    CONSTRAINT fk_refresh_tokens_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
    CONSTRAINT fk_refresh_tokens_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_refresh_tokens_session_id ON refresh_tokens (session_id);

CREATE TABLE release_commits (
    release_id VARCHAR(32) COLLATE "C" NOT NULL,
    commit_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    position INTEGER NOT NULL,
    CONSTRAINT pk_release_commits PRIMARY KEY (release_id, commit_id),
    CONSTRAINT fk_release_commits_release_id FOREIGN KEY(release_id) REFERENCES releases (id),
    CONSTRAINT fk_release_commits_commit_id FOREIGN KEY(commit_id) REFERENCES commits (id),
    CONSTRAINT fk_release_commits_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_release_commits_commit_id ON release_commits (commit_id);

CREATE INDEX ix_release_commits_org_id ON release_commits (org_id);

CREATE TABLE release_projects (
    project_id BIGINT NOT NULL,
    release_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    ordered_at TIMESTAMP WITH TIME ZONE NOT NULL,
    first_seen TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_release_projects PRIMARY KEY (project_id, release_id),
    CONSTRAINT fk_release_projects_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_release_projects_release_id FOREIGN KEY(release_id) REFERENCES releases (id),
    CONSTRAINT fk_release_projects_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_release_projects_org_id ON release_projects (org_id);

CREATE INDEX ix_release_projects_project_id_ordered_at ON release_projects (project_id, ordered_at);

CREATE INDEX ix_release_projects_release_id ON release_projects (release_id);

CREATE TABLE saved_views (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    name VARCHAR(200) COLLATE "C" NOT NULL,
    path VARCHAR(2000) COLLATE "C" NOT NULL,
    shared BOOLEAN NOT NULL,
    created_by VARCHAR(32) COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_saved_views PRIMARY KEY (id),
    CONSTRAINT fk_saved_views_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_saved_views_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_saved_views_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE INDEX ix_saved_views_org_id_created_by ON saved_views (org_id, created_by);

CREATE INDEX ix_saved_views_project_id_id ON saved_views (project_id, id);

CREATE TABLE scim_users (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C",
    owns_account BOOLEAN NOT NULL,
    user_name VARCHAR(1024) COLLATE "C" NOT NULL,
    external_id VARCHAR(256) COLLATE "C",
    active BOOLEAN NOT NULL,
    display_name VARCHAR(1024) COLLATE "C",
    family_name VARCHAR(1024) COLLATE "C",
    given_name VARCHAR(1024) COLLATE "C",
    document JSON NOT NULL,
    version BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_scim_users PRIMARY KEY (id),
    CONSTRAINT uq_scim_users_org_id_user_name UNIQUE (org_id, user_name),
    CONSTRAINT uq_scim_users_org_id_principal_id UNIQUE (org_id, principal_id),
    CONSTRAINT fk_scim_users_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_scim_users_principal_id FOREIGN KEY(principal_id) REFERENCES users (principal_id)
);

CREATE INDEX ix_scim_users_org_id_id ON scim_users (org_id, id);

CREATE INDEX ix_scim_users_org_id_external_id ON scim_users (org_id, external_id);

CREATE INDEX ix_scim_users_org_id_display_name ON scim_users (org_id, display_name);

CREATE INDEX ix_scim_users_principal_id ON scim_users (principal_id);

CREATE TABLE source_maps (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    release VARCHAR(200) COLLATE "C" NOT NULL,
    path VARCHAR(1024) COLLATE "C" NOT NULL,
    debug_id VARCHAR(36) COLLATE "C",
    digest BYTEA NOT NULL,
    size BIGINT NOT NULL,
    created_by VARCHAR(32) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    content BYTEA NOT NULL,
    CONSTRAINT pk_source_maps PRIMARY KEY (id),
    CONSTRAINT uq_source_maps_project_id_release_path UNIQUE (project_id, release, path),
    CONSTRAINT fk_source_maps_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_source_maps_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_source_maps_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE INDEX ix_source_maps_org_id ON source_maps (org_id);

CREATE INDEX ix_source_maps_project_id_id ON source_maps (project_id, id);

CREATE TABLE sso_assertions (
    connection_id VARCHAR(32) COLLATE "C" NOT NULL,
    assertion_hash BYTEA NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_sso_assertions PRIMARY KEY (connection_id, assertion_hash),
    CONSTRAINT fk_sso_assertions_connection_id FOREIGN KEY(connection_id) REFERENCES sso_connections (id),
    CONSTRAINT fk_sso_assertions_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_sso_assertions_expires_at ON sso_assertions (expires_at);

CREATE TABLE sso_identities (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    connection_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    subject VARCHAR(1024) COLLATE "C" NOT NULL,
    subject_hash BYTEA NOT NULL,
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    email VARCHAR(254) COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_login_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_sso_identities PRIMARY KEY (id),
    CONSTRAINT fk_sso_identities_org_id_principal_id FOREIGN KEY(org_id, principal_id) REFERENCES memberships (org_id, principal_id) ON DELETE CASCADE,
    CONSTRAINT uq_sso_identities_connection_id_subject_hash UNIQUE (connection_id, subject_hash),
    CONSTRAINT fk_sso_identities_connection_id FOREIGN KEY(connection_id) REFERENCES sso_connections (id),
    CONSTRAINT fk_sso_identities_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_sso_identities_org_id_principal_id ON sso_identities (org_id, principal_id);

CREATE TABLE sso_link_requests (
    hash BYTEA NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    session_id VARCHAR(32) COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_sso_link_requests PRIMARY KEY (hash),
    CONSTRAINT fk_sso_link_requests_org_id_principal_id FOREIGN KEY(org_id, principal_id) REFERENCES memberships (org_id, principal_id) ON DELETE CASCADE,
    CONSTRAINT fk_sso_link_requests_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_sso_link_requests_org_id_principal_id ON sso_link_requests (org_id, principal_id);

CREATE INDEX ix_sso_link_requests_expires_at ON sso_link_requests (expires_at);

CREATE TABLE sso_logins (
    state_hash BYTEA NOT NULL,
    connection_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    binding_hash BYTEA NOT NULL,
    request_id VARCHAR(64) COLLATE "C" NOT NULL,
    relay_state VARCHAR(1024) COLLATE "C",
    link_principal_id VARCHAR(32) COLLATE "C",
    address_hash BYTEA NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_sso_logins PRIMARY KEY (state_hash),
    CONSTRAINT fk_sso_logins_connection_id FOREIGN KEY(connection_id) REFERENCES sso_connections (id),
    CONSTRAINT fk_sso_logins_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_sso_logins_link_principal_id FOREIGN KEY(link_principal_id) REFERENCES users (principal_id)
);

CREATE INDEX ix_sso_logins_address_hash_created_at ON sso_logins (address_hash, created_at);

CREATE INDEX ix_sso_logins_connection_id ON sso_logins (connection_id);

CREATE INDEX ix_sso_logins_expires_at ON sso_logins (expires_at);

CREATE TABLE warehouse_checkpoints (
    sink_id VARCHAR(32) COLLATE "C" NOT NULL,
    stream VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    cursor BYTEA,
    cursor_at TIMESTAMP WITH TIME ZONE,
    cursor_id VARCHAR(100) COLLATE "C",
    intent BYTEA,
    rows_exported BIGINT NOT NULL,
    last_run_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_warehouse_checkpoints PRIMARY KEY (sink_id, stream),
    CONSTRAINT ck_warehouse_checkpoints_stream CHECK (stream IN ('ERROR_ESSENCES', 'ISSUE_ROLLUPS', 'RELEASE_HEALTH_ROLLUPS', 'INGEST_OUTCOMES')),
    CONSTRAINT fk_warehouse_checkpoints_sink_id FOREIGN KEY(sink_id) REFERENCES warehouse_sinks (id),
    CONSTRAINT fk_warehouse_checkpoints_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_warehouse_checkpoints_org_id ON warehouse_checkpoints (org_id);

CREATE TABLE warehouse_runs (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    sink_id VARCHAR(32) COLLATE "C" NOT NULL,
    stream VARCHAR(32) COLLATE "C" NOT NULL,
    status VARCHAR(16) COLLATE "C" NOT NULL,
    rows BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    object_keys JSON NOT NULL,
    error VARCHAR(500) COLLATE "C",
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_warehouse_runs PRIMARY KEY (id),
    CONSTRAINT ck_warehouse_runs_stream CHECK (stream IN ('ERROR_ESSENCES', 'ISSUE_ROLLUPS', 'RELEASE_HEALTH_ROLLUPS', 'INGEST_OUTCOMES')),
    CONSTRAINT ck_warehouse_runs_status CHECK (status IN ('SUCCEEDED', 'FAILED', 'NOT_CONFIGURED')),
    CONSTRAINT fk_warehouse_runs_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_warehouse_runs_sink_id FOREIGN KEY(sink_id) REFERENCES warehouse_sinks (id)
);

CREATE INDEX ix_warehouse_runs_sink_id_id ON warehouse_runs (sink_id, id);

CREATE INDEX ix_warehouse_runs_org_id ON warehouse_runs (org_id);

CREATE TABLE approval_votes (
    request_id VARCHAR(32) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    verdict VARCHAR(8) COLLATE "C" NOT NULL,
    reason VARCHAR(4096) COLLATE "C",
    on_behalf_of VARCHAR(32) COLLATE "C",
    act_chain JSON NOT NULL,
    circle JSON NOT NULL,
    token_id VARCHAR(32) COLLATE "C" NOT NULL,
    voted_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_approval_votes PRIMARY KEY (request_id, principal_id),
    CONSTRAINT ck_approval_votes_verdict CHECK (verdict IN ('APPROVE', 'REJECT')),
    CONSTRAINT ck_approval_votes_kind CHECK (kind IN ('user', 'agent', 'service')),
    CONSTRAINT fk_approval_votes_request_id FOREIGN KEY(request_id) REFERENCES approval_requests (id),
    CONSTRAINT fk_approval_votes_principal_id FOREIGN KEY(principal_id) REFERENCES principals (id),
    CONSTRAINT fk_approval_votes_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE TABLE channel_subscriptions (
    channel_id VARCHAR(32) COLLATE "C" NOT NULL,
    event VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    CONSTRAINT pk_channel_subscriptions PRIMARY KEY (channel_id, event),
    CONSTRAINT ck_channel_subscriptions_event CHECK (event IN ('issue.new', 'issue.regression')),
    CONSTRAINT fk_channel_subscriptions_channel_id FOREIGN KEY(channel_id) REFERENCES notification_channels (id) ON DELETE CASCADE,
    CONSTRAINT fk_channel_subscriptions_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_channel_subscriptions_org_id_event ON channel_subscriptions (org_id, event);

CREATE TABLE commit_issues (
    commit_id VARCHAR(32) COLLATE "C" NOT NULL,
    issue_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    CONSTRAINT pk_commit_issues PRIMARY KEY (commit_id, issue_id),
    CONSTRAINT fk_commit_issues_commit_id FOREIGN KEY(commit_id) REFERENCES commits (id),
    CONSTRAINT fk_commit_issues_issue_id FOREIGN KEY(issue_id) REFERENCES issues (id),
    CONSTRAINT fk_commit_issues_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_commit_issues_project_id FOREIGN KEY(project_id) REFERENCES projects (id)
);

CREATE INDEX ix_commit_issues_issue_id ON commit_issues (issue_id);

CREATE INDEX ix_commit_issues_org_id ON commit_issues (org_id);

CREATE INDEX ix_commit_issues_project_id ON commit_issues (project_id);

CREATE TABLE deliveries (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    channel_id VARCHAR(32) COLLATE "C" NOT NULL,
    type VARCHAR(64) COLLATE "C" NOT NULL,
    subject VARCHAR(64) COLLATE "C" NOT NULL,
    message_id VARCHAR(32) COLLATE "C" NOT NULL,
    state VARCHAR(16) COLLATE "C" NOT NULL,
    attempts INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    claims INTEGER NOT NULL,
    until TIMESTAMP WITH TIME ZONE,
    taken VARCHAR(400) COLLATE "C",
    next_at TIMESTAMP WITH TIME ZONE,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempted_at TIMESTAMP WITH TIME ZONE,
    detail VARCHAR(200) COLLATE "C",
    failed BOOLEAN NOT NULL,
    permanent BOOLEAN NOT NULL,
    retry_after_s INTEGER,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_deliveries PRIMARY KEY (id),
    CONSTRAINT ck_deliveries_state CHECK (state IN ('READY', 'SENDING', 'DONE', 'DEAD', 'CANCELLED')),
    CONSTRAINT ck_deliveries_next_at CHECK ((state = 'READY') = (next_at IS NOT NULL)),
    CONSTRAINT ck_deliveries_lease_until CHECK ((state = 'SENDING') = (lease_until IS NOT NULL)),
    CONSTRAINT fk_deliveries_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_deliveries_channel_id FOREIGN KEY(channel_id) REFERENCES notification_channels (id),
    CONSTRAINT fk_deliveries_message_id FOREIGN KEY(message_id) REFERENCES delivery_messages (id)
);

CREATE INDEX ix_deliveries_state_next_at ON deliveries (state, next_at);

CREATE INDEX ix_deliveries_state_channel_id_next_at_id ON deliveries (state, channel_id, next_at, id);

CREATE INDEX ix_deliveries_org_id_id ON deliveries (org_id, id);

CREATE INDEX ix_deliveries_org_id_state_id ON deliveries (org_id, state, id);

CREATE INDEX ix_deliveries_org_id_subject_channel_id ON deliveries (org_id, subject, channel_id);

CREATE INDEX ix_deliveries_channel_id_id ON deliveries (channel_id, id);

CREATE INDEX ix_deliveries_message_id ON deliveries (message_id);

CREATE INDEX ix_deliveries_ended_at ON deliveries (ended_at);

CREATE TABLE issue_activity (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    issue_id VARCHAR(32) COLLATE "C" NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C",
    data JSON NOT NULL,
    CONSTRAINT pk_issue_activity PRIMARY KEY (id),
    CONSTRAINT ck_issue_activity_kind CHECK (kind IN ('created', 'resolved', 'unresolved', 'ignored', 'ignore_ended', 'regressed', 'assigned', 'unassigned', 'merged', 'split_from', 'commit', 'proposal', 'link_added', 'link_changed', 'link_removed')),
    CONSTRAINT fk_issue_activity_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_issue_activity_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_issue_activity_issue_id FOREIGN KEY(issue_id) REFERENCES issues (id)
);

CREATE INDEX ix_issue_activity_issue_id_id ON issue_activity (issue_id, id);

CREATE INDEX ix_issue_activity_org_id_id ON issue_activity (org_id, id);

CREATE INDEX ix_issue_activity_project_id_id ON issue_activity (project_id, id);

CREATE TABLE issue_fingerprints (
    project_id BIGINT NOT NULL,
    fingerprint BYTEA NOT NULL,
    issue_id VARCHAR(32) COLLATE "C" NOT NULL,
    rules_version SMALLINT NOT NULL,
    since_us BIGINT NOT NULL,
    CONSTRAINT pk_issue_fingerprints PRIMARY KEY (project_id, fingerprint),
    CONSTRAINT fk_issue_fingerprints_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_issue_fingerprints_issue_id FOREIGN KEY(issue_id) REFERENCES issues (id) ON DELETE CASCADE
);

CREATE INDEX ix_issue_fingerprints_issue_id ON issue_fingerprints (issue_id);

CREATE INDEX ix_issue_fingerprints_project_id_rules_version_since_us ON issue_fingerprints (project_id, rules_version, since_us);

CREATE TABLE issue_links (
    id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    issue_id VARCHAR(32) COLLATE "C" NOT NULL,
    system VARCHAR(32) COLLATE "C" NOT NULL,
    external_id VARCHAR(200) COLLATE "C" NOT NULL,
    url VARCHAR(2048) COLLATE "C" NOT NULL,
    title VARCHAR(200) COLLATE "C",
    state VARCHAR(16) COLLATE "C",
    changed_at TIMESTAMP WITH TIME ZONE,
    created_by VARCHAR(32) COLLATE "C",
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_issue_links PRIMARY KEY (id),
    CONSTRAINT ck_issue_links_state CHECK (state IN ('open', 'closed')),
    CONSTRAINT uq_issue_links_issue_id_system_external_id UNIQUE (issue_id, system, external_id),
    CONSTRAINT fk_issue_links_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_issue_links_project_id FOREIGN KEY(project_id) REFERENCES projects (id),
    CONSTRAINT fk_issue_links_issue_id FOREIGN KEY(issue_id) REFERENCES issues (id),
    CONSTRAINT fk_issue_links_created_by FOREIGN KEY(created_by) REFERENCES principals (id)
);

CREATE INDEX ix_issue_links_org_id_system_external_id ON issue_links (org_id, system, external_id);

CREATE INDEX ix_issue_links_project_id_id ON issue_links (project_id, id);

CREATE TABLE proof_links (
    proof_id VARCHAR(32) COLLATE "C" NOT NULL,
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    target VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    CONSTRAINT pk_proof_links PRIMARY KEY (proof_id, kind, target),
    CONSTRAINT ck_proof_links_kind CHECK (kind IN ('approval_request', 'trace')),
    CONSTRAINT fk_proof_links_proof_id FOREIGN KEY(proof_id) REFERENCES proof_bundles (id),
    CONSTRAINT fk_proof_links_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_proof_links_project_id FOREIGN KEY(project_id) REFERENCES projects (id)
);

CREATE INDEX ix_proof_links_project_id_kind_target_proof_id ON proof_links (project_id, kind, target, proof_id);

CREATE INDEX ix_proof_links_org_id ON proof_links (org_id);

CREATE TABLE proposal_issues (
    proposal_id VARCHAR(32) COLLATE "C" NOT NULL,
    issue_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    project_id BIGINT NOT NULL,
    CONSTRAINT pk_proposal_issues PRIMARY KEY (proposal_id, issue_id),
    CONSTRAINT fk_proposal_issues_proposal_id FOREIGN KEY(proposal_id) REFERENCES proposals (id),
    CONSTRAINT fk_proposal_issues_issue_id FOREIGN KEY(issue_id) REFERENCES issues (id),
    CONSTRAINT fk_proposal_issues_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_proposal_issues_project_id FOREIGN KEY(project_id) REFERENCES projects (id)
);

CREATE INDEX ix_proposal_issues_issue_id ON proposal_issues (issue_id);

CREATE INDEX ix_proposal_issues_org_id ON proposal_issues (org_id);

CREATE INDEX ix_proposal_issues_project_id ON proposal_issues (project_id);

CREATE TABLE scim_group_members (
    group_id VARCHAR(32) COLLATE "C" NOT NULL,
    user_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    CONSTRAINT pk_scim_group_members PRIMARY KEY (group_id, user_id),
    CONSTRAINT fk_scim_group_members_group_id FOREIGN KEY(group_id) REFERENCES scim_groups (id) ON DELETE CASCADE,
    CONSTRAINT fk_scim_group_members_user_id FOREIGN KEY(user_id) REFERENCES scim_users (id) ON DELETE CASCADE,
    CONSTRAINT fk_scim_group_members_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_scim_group_members_user_id ON scim_group_members (user_id);

CREATE INDEX ix_scim_group_members_org_id ON scim_group_members (org_id);

CREATE TABLE scim_user_emails (
    user_id VARCHAR(32) COLLATE "C" NOT NULL,
    position INTEGER NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    value VARCHAR(1024) COLLATE "C",
    type VARCHAR(1024) COLLATE "C",
    is_primary BOOLEAN,
    CONSTRAINT pk_scim_user_emails PRIMARY KEY (user_id, position),
    CONSTRAINT fk_scim_user_emails_user_id FOREIGN KEY(user_id) REFERENCES scim_users (id) ON DELETE CASCADE,
    CONSTRAINT fk_scim_user_emails_org_id FOREIGN KEY(org_id) REFERENCES organizations (id)
);

CREATE INDEX ix_scim_user_emails_value_org_id ON scim_user_emails (value, org_id);

CREATE TABLE sso_handoff_codes (
    hash BYTEA NOT NULL,
    connection_id VARCHAR(32) COLLATE "C" NOT NULL,
    identity_id VARCHAR(32) COLLATE "C" NOT NULL,
    org_id VARCHAR(32) COLLATE "C" NOT NULL,
    principal_id VARCHAR(32) COLLATE "C" NOT NULL,
    methods JSON NOT NULL,
    provisioned BOOLEAN NOT NULL,
    next VARCHAR(1024) COLLATE "C",
    session_expires_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_sso_handoff_codes PRIMARY KEY (hash),
    CONSTRAINT fk_sso_handoff_codes_connection_id FOREIGN KEY(connection_id) REFERENCES sso_connections (id),
    CONSTRAINT fk_sso_handoff_codes_identity_id FOREIGN KEY(identity_id) REFERENCES sso_identities (id) ON DELETE CASCADE,
    CONSTRAINT fk_sso_handoff_codes_org_id FOREIGN KEY(org_id) REFERENCES organizations (id),
    CONSTRAINT fk_sso_handoff_codes_principal_id FOREIGN KEY(principal_id) REFERENCES users (principal_id)
);

CREATE INDEX ix_sso_handoff_codes_identity_id ON sso_handoff_codes (identity_id);

CREATE INDEX ix_sso_handoff_codes_expires_at ON sso_handoff_codes (expires_at);
