// Made by `make interface` from sluice/openapi.json.
import type { Json, Num } from './numbers';

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * Acceptance
         * @description The new member: a new account, or the account that has verified the invited address.
         */
        Acceptance: {
            /**
             * @description Whether the refresh token is in the cookie `__Secure-sluice` instead of the body. Browsers send the cookie only to `/auth` of this origin. If true, the request must have `Sec-Fetch-Site: same-origin`.
             * @default false
             */
            cookie: boolean;
            inviteToken: string;
            /** @description The name of a new account. Ignored for an existing account. */
            name: string;
            /** @description The password of the existing account. For a new account, a password of at least 12 characters. */
            password: string;
            /** @default null */
            totp: string | null;
            /**
             * @description Whether the account that has verified the address becomes the member, instead of a new account. After a mailed invitation, the verified account becomes the member in any case, if there is one.
             * @default false
             */
            existingAccount: boolean;
        };
        /**
         * AccountLink
         * @description The addresses where the login that links the account begins, in the browser with the cookie of this response.
         */
        AccountLink: {
            /** @description Addresses to begin at, by protocol. */
            startUrls: {
                [key: string]: string;
            };
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            expiresAt: string;
        };
        /**
         * ActChainLink
         * @description One actor of a chain of delegation.
         */
        ActChainLink: {
            actorId: string;
            actorKind: components["schemas"]["ActorKind"];
            actorName: string;
            onBehalfOf: string | null;
            delegationId: string | null;
            jti: string | null;
            audience: string | null;
            scopes: string[];
            issuedAt: string | null;
            expiresAt: string | null;
        };
        /**
         * ActivityKind
         * @description The kind of an event in the history of an issue.
         * @enum {unknown}
         */
        ActivityKind: "assigned" | "commit" | "created" | "ignore_ended" | "ignored" | "link_added" | "link_changed" | "link_removed" | "merged" | "proposal" | "regressed" | "resolved" | "split_from" | "unassigned" | "unresolved";
        /**
         * ActorKind
         * @description The kind of an actor.
         * @enum {unknown}
         */
        ActorKind: "agent" | "service" | "user";
        /**
         * Agent
         * @description The agent that wrote a change.
         */
        Agent: {
            id: string;
            name: string;
            version: string | null;
            /** @enum {unknown} */
            origin: "external" | "internal";
        };
        /**
         * Aggregate
         * @description Aggregates of the spans in `range`: one value for each group, and one for each interval of each group.
         */
        Aggregate: {
            fn: components["schemas"]["Fn"];
            field: string | null;
            groupBy: string | null;
            range: components["schemas"]["Range"];
            groups: components["schemas"]["Group"][];
            series: components["schemas"]["Series"][];
            scanned: number;
            scanTruncated: boolean;
            groupCount: number;
            groupsTruncated: boolean;
            limits: components["schemas"]["Limits"];
        };
        /**
         * AggregateRequest
         * @description The function, and the spans to aggregate. A null field means the same as a missing field.
         */
        AggregateRequest: {
            fn: components["schemas"]["Fn"];
            /** @default null */
            from: (string | number | components["schemas"]["SentNumber"]) | null;
            /** @default null */
            to: (string | number | components["schemas"]["SentNumber"]) | null;
            /** @default null */
            hours: number | null;
            /** @default null */
            field: string | null;
            /** @default null */
            groupBy: string | null;
            /** @default null */
            filters: components["schemas"]["WrittenFilter"][] | null;
            /** @default null */
            limit: number | null;
            /** @default null */
            intervalMinutes: number | null;
        };
        /**
         * AiAuthoredChange
         * @description The ai-authored-change predicate.
         */
        AiAuthoredChange: {
            /** @enum {unknown} */
            formatVersion: "0.1.0";
            builder: components["schemas"]["Builder"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            attestedAt: string;
            author: components["schemas"]["ChangeAuthor"];
            humanApproval: components["schemas"]["HumanApproval"];
            verification: components["schemas"]["Verification"];
            ledger: components["schemas"]["ProofBundle"];
        };
        /**
         * Alive
         * @description The process is alive.
         */
        Alive: {
            /** @enum {unknown} */
            status: "alive";
            /** @description The service; `sluice` if one process runs all of them. */
            service: string;
        };
        /**
         * Alternative
         * @description A filter of a group. `value`: omit it for exists and not_exists. Only in and not_in accept a list.
         */
        Alternative: {
            /** @description A built-in field if there is one with this name, otherwise an attribute. With the prefix `attr:` it is always an attribute. */
            key: string;
            op: components["schemas"]["Op"];
            /**
             * @description Each value has at most 1024 characters. in and not_in also accept one comma-separated string. A number or boolean means the same as its text.
             * @default null
             */
            value: string | number | components["schemas"]["SentNumber"] | boolean | (string | number | components["schemas"]["SentNumber"] | boolean)[] | null;
        };
        /**
         * Approval
         * @description An approval, with an optional reason.
         */
        Approval: {
            /** @description Must not contain control or bidirectional formatting characters. */
            reason?: string;
        };
        /**
         * ApprovalInbox
         * @description A page of requests, and the number of pending ones.
         */
        ApprovalInbox: {
            data: components["schemas"]["ApprovalView"][];
            /** @description `cursor` of the next page. Null: this is the last page. */
            nextCursor: string | null;
            hasMore: boolean;
            /** @description Number of all pending requests of the organization, regardless of filters. */
            pendingCount: number;
        };
        /**
         * ApprovalPolicy
         * @description The decision about actions that match a pattern.
         */
        ApprovalPolicy: {
            id: string;
            orgId: string;
            /** @description Null if the policy applies to the whole organization. */
            projectSlug: string | null;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description Must be an action, in which * matches one segment and a trailing ** matches one or more segments. It may also be ** alone, which matches every action. */
            actionPattern: string;
            /** @description Null if the policy applies to every type. */
            targetType: string | null;
            effect: components["schemas"]["Effect"];
            riskClass: components["schemas"]["RiskClass"];
            /** @description Required number of approvals. Used only if `effect` is ASK. */
            minApprovers: number;
            approverRoles: components["schemas"]["Role"][];
            /** @description Ids of the agents and services that may decide. Used only if `effect` is ASK. */
            machineApproverIds: string[];
            /** @description Minutes until a request expires. */
            ttlMinutes: number;
            enabled: boolean;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            updatedAt: string;
        };
        /**
         * ApprovalRefusals
         * @description The reasons why a vote of the caller would be refused or would change nothing, as one sentence each. Null: the
         *         vote would count.
         */
        ApprovalRefusals: {
            approve: string | null;
            reject: string | null;
        };
        /**
         * ApprovalRequest
         * @description A request to approve an action.
         */
        ApprovalRequest: {
            id: string;
            orgId: string;
            requesterPrincipalId: string;
            onBehalfOfPrincipalId: string | null;
            /** @description Must be 2 to 8 lower-case segments joined by dots, such as `domain.verb`. */
            action: string;
            riskClass: components["schemas"]["RiskClass"];
            /** @description Must consist of visible characters, without leading or trailing spaces. */
            targetType: string;
            /** @description Must consist of visible characters, without leading or trailing spaces. */
            targetId: string;
            status: components["schemas"]["Status"];
            minApprovers: number;
            /** @description The policy that applied. Null if a built-in rule applied, or if no rule matched the action, so that the fallback applied. */
            policyId: string | null;
            /** @description The principal whose vote decided the request. */
            deciderPrincipalId: string | null;
            decidedAt: string | null;
            /** @description The reason that the decider gave. */
            reason: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            expiresAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /** @description `summary`, `projectTag`, `policySource` and `policyReason`. The last two describe the rule that applied. */
            payload: components["schemas"]["SentJson"];
        };
        /**
         * ApprovalView
         * @description A request with its votes, with names, and with the caller's possible actions.
         */
        ApprovalView: {
            request: components["schemas"]["ApprovalRequest"];
            /** @description Null if the principal no longer exists. */
            requesterName: string | null;
            onBehalfOfName: string | null;
            deciderName: string | null;
            /** @description The roles that may decide. */
            approverRoles: components["schemas"]["Role"][];
            /** @description The latest votes, at most 100, oldest first. */
            votes: components["schemas"]["ApprovalVote"][];
            /** @description Approvals that count. For a decided request, approvals that counted at the decision. */
            approvals: number;
            /** @description Approvals still required. */
            remaining: number;
            hasIndependentApprover: boolean;
            viewer: components["schemas"]["ApprovalViewer"];
        };
        /**
         * ApprovalViewer
         * @description The caller's possible actions, by the rules that apply to votes.
         */
        ApprovalViewer: {
            mayApprove: boolean;
            mayReject: boolean;
            /** @description Whether the request counts as withdrawn if the caller rejects it. */
            withdraws: boolean;
            why: components["schemas"]["ApprovalRefusals"];
        };
        /**
         * ApprovalVote
         * @description A vote. `approver` and `onBehalfOf` are ids of principals.
         */
        ApprovalVote: {
            approver: string;
            /** @description Null if the principal no longer exists. */
            approverName: string | null;
            /** @description The principal on whose behalf an agent has voted. */
            onBehalfOf: string | null;
            onBehalfOfName: string | null;
            decision: components["schemas"]["Verdict"];
            reason: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            at: string;
            /** @description Whether this approval counts now. It does not count if its voter has lost the right to decide. Null for a rejection, and for a decided request. */
            counts: boolean | null;
        };
        /**
         * Approver
         * @description The approver.
         */
        Approver: {
            principalId: string;
            displayName: string;
            kind: components["schemas"]["ActorKind"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            approvedAt: string;
            authenticatedBy: string;
        };
        /**
         * ApproverIdentity
         * @description The approver of the change, and the person on whose behalf the approver acted.
         */
        ApproverIdentity: {
            approver: components["schemas"]["Approver"] | null;
            actChain: components["schemas"]["ActChainLink"][];
            requiredApprovals: number;
            receivedApprovals: number;
            humanApproval: boolean;
            policyId: string | null;
        };
        /**
         * ApproverIdentityClaim
         * @description A claim: a person or a policy approved the patch.
         */
        ApproverIdentityClaim: {
            /** @enum {unknown} */
            kind: "approver_identity";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["ApproverIdentity"];
        };
        /**
         * AssertionPost
         * @description The form that a SAML provider posts.
         */
        AssertionPost: {
            SAMLResponse: string;
            /** @default null */
            RelayState: string | null;
        };
        /**
         * Attestation
         * @description The in-toto Statement around a bundle, without the bundle.
         */
        Attestation: {
            subject: components["schemas"]["ResourceDescriptor"][];
            predicateType: string;
            builder: components["schemas"]["Builder"];
            attestedAt: string;
            author: components["schemas"]["ChangeAuthor"];
            humanApproval: components["schemas"]["HumanApproval"];
            verification: components["schemas"]["Verification"];
        };
        /**
         * AttributeValues
         * @description Values of a key in the newest spans or log records.
         */
        AttributeValues: {
            key: string;
            data: components["schemas"]["ValueCount"][];
            /** @description Whether the list has all values of the window. False: some spans (or log records) were not read, or some values are not listed. */
            complete: boolean;
            scanned: number;
            range: components["schemas"]["Range"];
        };
        /**
         * AuthorKind
         * @description The kind of author of a change.
         * @enum {unknown}
         */
        AuthorKind: "ai" | "human" | "hybrid";
        /**
         * Basis
         * @description The commits that were considered: the commits of the first release, or of the time before the issue.
         * @enum {unknown}
         */
        Basis: "release" | "time";
        /**
         * BehavioralDiff
         * @description The differences between responses with and without the patch.
         */
        BehavioralDiff: {
            baseCommit: string | null;
            /** @description Must be `sha256:` followed by 64 lowercase hexadecimal digits. */
            patchDigest: string;
            selection: components["schemas"]["Selection"];
            coverage: components["schemas"]["Coverage"];
            normalizers: string[];
            samplesWithDiffs: number;
            diffsFound: number;
            intended: number;
            unintended: number;
            unclassified: number;
            findings: components["schemas"]["DiffFinding"][];
            findingsTruncated: boolean;
            sandboxProvider: string;
            dependenciesMockedFromRecording: boolean;
        };
        /**
         * BehavioralDiffClaim
         * @description A claim: recorded requests behave the same with the patch.
         */
        BehavioralDiffClaim: {
            /** @enum {unknown} */
            kind: "behavioral_diff";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["BehavioralDiff"];
        };
        /**
         * BlastRadius
         * @description The parts that a mitigation affects.
         */
        BlastRadius: {
            scope: string;
            environments: string[];
            targets: string[];
            trafficFraction: components["schemas"]["SentNumber"] | null;
            affectedSessions: number | null;
            basis: string;
            notes: string[];
        };
        /**
         * BlastRadiusContainment
         * @description The patch touches only permitted files.
         */
        BlastRadiusContainment: {
            pathsTouched: string[];
            pathsPermitted: string[];
            violations: string[];
            derivedFrom: string;
            filesChanged: number;
            addedLines: number;
            removedLines: number;
        };
        /**
         * BlastRadiusContainmentClaim
         * @description A claim: the patch changes only permitted files.
         */
        BlastRadiusContainmentClaim: {
            /** @enum {unknown} */
            kind: "blast_radius_containment";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["BlastRadiusContainment"];
        };
        /**
         * Builder
         * @description The system that ran the work that a predicate attests.
         */
        Builder: {
            id: string;
            version: {
                [key: string]: string;
            };
        };
        /**
         * BundleLinks
         * @description The issue that the bundle is about, and the approval requests and traces that it names. They may not exist.
         */
        BundleLinks: {
            issueId: string | null;
            approvalRequestIds: string[];
            traceIds: string[];
        };
        /**
         * Challenge
         * @description A proof-of-work challenge.
         */
        Challenge: {
            challenge: string;
            bits: number;
        };
        /**
         * ChallengeError
         * @description The error of a refused login.
         */
        ChallengeError: {
            error: components["schemas"]["ChallengeErrorBody"];
        };
        /**
         * ChallengeErrorBody
         * @description The reason why a login was refused. `details` is set only if a proof of work helps.
         */
        ChallengeErrorBody: {
            code: components["schemas"]["ErrorCode"];
            message: string;
            requestId: string;
            details?: components["schemas"]["Challenge"];
        };
        /**
         * Change
         * @description A change event. `project` is null if the change concerns all projects. `source`: the system that reported it.
         */
        Change: {
            id: string;
            /** @description The kind of change. `flag`: a feature flag was changed. */
            kind: components["schemas"]["ChangeKind"];
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            title: string;
            project: string | null;
            detail: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            at: string;
            environment: string | null;
            release: string | null;
            service: string | null;
            url: string | null;
            /** @description `api`, `release`, or the name of the platform that reported the change. */
            source: string;
            dedupeKey: string | null;
            createdBy: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
        };
        /**
         * ChangeAuthor
         * @description The author of the change.
         */
        ChangeAuthor: {
            kind: components["schemas"]["AuthorKind"];
            agentId: string;
            agentName: string;
            modelId: string | null;
        };
        /**
         * ChangeEvent
         * @description A deployment, a release or another change. If `environment` or `service` is null, the change concerns all
         *         environments or all services.
         */
        ChangeEvent: {
            id: string;
            kind: components["schemas"]["ChangeKind"];
            title: string;
            detail: string | null;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            time: string;
            environment: string | null;
            release: string | null;
            serviceName: string | null;
            url: string | null;
            /** @description Whether the change concerns only this project. False: it concerns all projects of the organization. */
            ofProject: boolean;
        };
        /**
         * ChangeEventPage
         * @description A page of change events, newest first. `range` is the time range of the first page.
         */
        ChangeEventPage: {
            range: components["schemas"]["Range"];
            data: components["schemas"]["ChangeEvent"][];
            /** @description Pass this text as `cursor` to get the next page; null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ChangeKind
         * @description What changed.
         * @enum {unknown}
         */
        ChangeKind: "deployment" | "flag" | "generic" | "release";
        /**
         * ChangePage
         * @description A page.
         */
        ChangePage: {
            data: components["schemas"]["Change"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ChangeProposal
         * @description A pull or merge request.
         */
        ChangeProposal: {
            id: string;
            repository: string;
            number: string;
            title: string;
            /** @description `superseded`: another proposal for the same issue was merged. */
            state: components["schemas"]["ProposalState"];
            headRef: string | null;
            headSha: string | null;
            mergeSha: string | null;
            authorName: string | null;
            url: string | null;
            /** @description Short ids of the issues that the proposal fixes. */
            issues: string[];
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            changedAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
        };
        /**
         * ChannelChange
         * @description Changes to a channel. Omitted fields are not changed. `config` replaces the complete config.
         */
        ChannelChange: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name?: string;
            enabled?: boolean;
            /** @description The fields depend on the kind. Write-only. `chat-a`: `webhookUrl`, or `botToken` and `channel`. `chat-b`: `webhookUrl`. `webhook`: `url`, `secret` (`whsec_...`), `previousSecret`?, `headers`?. `email`: `to`, up to 20 addresses. `pager`: `routingKey`, `severity`?. `teams`: `workflowUrl`. */
            config?: components["schemas"]["SentJson"];
        };
        /**
         * ChannelEvent
         * @description An event that a channel can subscribe to.
         * @enum {unknown}
         */
        ChannelEvent: "issue.new" | "issue.regression";
        /**
         * ChannelNotification
         * @description The state of the notification of one channel.
         */
        ChannelNotification: {
            channelId: string | null;
            /** @description Kind of the channel, `unknown` if no channel has this id. */
            kind: string;
            delivered: boolean;
            /** @description `not_found` (no channel has this id), `disabled`, `too_many`, `queued` (the delivery is not finished yet), or the reason why the delivery failed. */
            error: string | null;
        };
        /**
         * ChannelPage
         * @description A page.
         */
        ChannelPage: {
            data: components["schemas"]["NotificationChannel"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ChannelScope
         * @description The scope of a channel: a project, or the whole organization.
         * @enum {unknown}
         */
        ChannelScope: "org" | "project";
        /**
         * ChannelSubscriptions
         * @description The events that the channel is notified of.
         */
        ChannelSubscriptions: {
            /** @description `issue.new`: an error that was not seen before, or the number of new issues that got no notification of their own. `issue.regression`: a resolved issue that occurs again. */
            events: components["schemas"]["ChannelEvent"][];
        };
        /**
         * ChannelTest
         * @description The result of a test message. `detail` is human-readable.
         */
        ChannelTest: {
            channelId: string;
            kind: components["schemas"]["Kind"];
            ok: boolean;
            deliveryId: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            attemptedAt: string;
            detail: string;
            failure: components["schemas"]["Failure"] | null;
        };
        /**
         * ChatLink
         * @description A chat user that acts as a principal.
         */
        ChatLink: {
            id: string;
            principalId: string;
            platform: components["schemas"]["ChatPlatform"];
            /** @description The id of the workspace. `null` on platforms where a user is not bound to a workspace. */
            teamId: string | null;
            userId: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /** @description When the chat user last changed something. */
            lastUsedAt: string | null;
        };
        /**
         * ChatLinkCode
         * @description A code that links one chat user, once.
         */
        ChatLinkCode: {
            /** @description Shown once. The first chat user who sends this code acts as you. */
            code: string;
            /**
             * Format: date-time
             * @description When the code expires. The code also expires with the session.
             */
            expiresAt: string;
            /** @description The command to send in the chat. */
            command: string;
        };
        /**
         * ChatLinkPage
         * @description A page.
         */
        ChatLinkPage: {
            data: components["schemas"]["ChatLink"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ChatPlatform
         * @description A chat platform, by the neutral names of the specification.
         * @enum {unknown}
         */
        ChatPlatform: "chat-a" | "chat-b";
        /**
         * ClaimStatus
         * @description The result of one claim.
         * @enum {unknown}
         */
        ClaimStatus: "INCONCLUSIVE" | "NOT_ATTESTED" | "REFUTED" | "SUPPORTED";
        /**
         * ClassificationBasis
         * @description The reason why a difference is classified as intended or not.
         */
        ClassificationBasis: {
            rule: string;
            detail: string;
            source: string;
        };
        /**
         * Code
         * @description A code of the second factor.
         */
        Code: {
            /** @description A six-digit code of an authenticator app, or a recovery code. */
            code: string;
        };
        /**
         * CodeExchange
         * @description A one-time code of `sluice open`.
         */
        CodeExchange: {
            /**
             * @description Whether the refresh token is in the cookie `__Secure-sluice` instead of the body. Browsers send the cookie only to `/auth` of this origin. If true, the request must have `Sec-Fetch-Site: same-origin`.
             * @default false
             */
            cookie: boolean;
            code: string;
        };
        /**
         * ColumnType
         * @description The type of a column. TIMESTAMP: UTC, in microseconds; JSON: text.
         * @enum {unknown}
         */
        ColumnType: "boolean" | "integer" | "number" | "string" | "timestamp";
        /**
         * CommandAnswer
         * @description The reply that the chat user sees.
         */
        CommandAnswer: {
            response_type: string;
            text: string;
            blocks?: unknown[];
        };
        /**
         * Commit
         * @description A commit. `files` is null if they were not reported.
         */
        Commit: {
            repository: string;
            sha: string;
            message: string;
            authorName: string | null;
            authorEmail: string | null;
            authoredAt: string | null;
            url: string | null;
            files: string[] | null;
            /** @description The commit changed more files than are listed. */
            filesTruncated: boolean;
        };
        /**
         * CommitPage
         * @description A page.
         */
        CommitPage: {
            data: components["schemas"]["Commit"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * CompareRequest
         * @description The windows to compare. `keys`: the keys to compare by. If it is empty or null, all keys of the spans are
         *         compared.
         */
        CompareRequest: {
            spike: components["schemas"]["CompareWindow"];
            baseline: components["schemas"]["CompareWindow"];
            /** @default null */
            filters: components["schemas"]["WrittenFilter"][] | string | null;
            /** @default null */
            keys: string[] | null;
            /** @default null */
            minSpikeCount: number | null;
            /** @default null */
            limit: number | null;
        };
        /**
         * CompareWindow
         * @description A half-open time window. `filters`: apply only to this side, in addition to the filters of both sides.
         */
        CompareWindow: {
            /** @description A time: RFC 3339, Unix time in seconds to nanoseconds (string or number), `now`, or `now-15m`. */
            from: string | number | components["schemas"]["SentNumber"];
            /** @description A time: RFC 3339, Unix time in seconds to nanoseconds (string or number), `now`, or `now-15m`. */
            to: string | number | components["schemas"]["SentNumber"];
            /** @default null */
            filters: components["schemas"]["WrittenFilter"][] | null;
        };
        /**
         * CompletedLogin
         * @description A session of a login through an identity provider. `provisioned`: this login made the membership.
         */
        CompletedLogin: {
            user: components["schemas"]["LoginUser"];
            orgId: string;
            role: components["schemas"]["Role"];
            provisioned: boolean;
            relayState: string | null;
            tokens: components["schemas"]["Tokens"];
        };
        /**
         * ConfigReplacement
         * @description The complete config, which replaces the previous one.
         */
        ConfigReplacement: {
            config: {
                [key: string]: components["schemas"]["SentJson"];
            };
        };
        /**
         * Confirmation
         * @description The password, to confirm that the user is present.
         */
        Confirmation: {
            password: string;
        };
        /**
         * ConnectionChange
         * @description Changes to a connection. Null clears a field, an omitted field is not changed.
         */
        ConnectionChange: {
            enabled?: boolean;
            /** @description Whether members must log in through the connection. Requires `enabled` and one successful login. */
            enforced?: boolean;
            /** @enum {unknown} */
            defaultRole?: "ADMIN" | "BILLING" | "MEMBER" | "VIEWER";
            /** @description Names of the claims or attributes that contain `email`, `name` and `groups`. If several names are given, the first claim or attribute that is present counts. Null: the usual names. */
            attributeMapping?: {
                [key: string]: string | string[];
            } | null;
            /** @description Role by group, applied at every login. The highest role counts, or `defaultRole` if no group matches. Null: new members get `defaultRole`, and other members keep their role. */
            roleMapping?: {
                [key: string]: "ADMIN" | "BILLING" | "MEMBER" | "VIEWER";
            } | null;
            idpEntityId?: string | null;
            idpSsoUrl?: string | null;
            /** @description PEM, or base64 as in metadata. Never returned. */
            idpCertificate?: string | null;
            /** @description Further accepted certificates, so that `idpCertificate` can be replaced without an outage. A new list replaces the whole list. */
            idpCertificateAlternates?: string[];
            oidcIssuer?: string | null;
            oidcClientId?: string | null;
            oidcClientSecret?: string | null;
            /** @description Must contain openid. */
            oidcScopes?: string[];
        };
        /**
         * ConnectionDryRun
         * @description Data from a provider: attributes of an assertion, or claims of an ID token.
         */
        ConnectionDryRun: {
            attributes: {
                [key: string]: string | boolean | components["schemas"]["SentNumber"] | string[] | null;
            };
            /** @default null */
            subject: string | null;
        };
        /**
         * ConnectionDryRunResult
         * @description The result of a login with the given data. `account`: the linked account (KNOWN), an account that would be linked
         *         by its address (LINKED) or created (CREATED), or no account (REFUSED), with the reason that the audit log would
         *         have.
         */
        ConnectionDryRunResult: {
            /** @enum {unknown} */
            account: "CREATED" | "KNOWN" | "LINKED" | "REFUSED";
            reason: string | null;
            detail: string | null;
            email: string | null;
            name: string | null;
            groups: string[];
            /** @description The role of a new member. Existing members keep their role unless there is a `roleMapping`. Owners, and the last administrator, always keep their role. */
            role: components["schemas"]["Role"] | null;
        };
        /**
         * ConnectionList
         * @description The connections of the organization: at most one for each protocol.
         */
        ConnectionList: {
            connections: components["schemas"]["SsoConnection"][];
        };
        /**
         * Coverage
         * @description How much of the patch the samples execute.
         */
        Coverage: {
            patchedFiles: number;
            patchedLinesExecutable: number;
            patchedLinesExercised: number;
            ratio: components["schemas"]["SentNumber"] | null;
            filesNotExercised: string[];
            addedLinesUnreachableByRecording: number;
            instrument: string;
            fileGranularityOnly: boolean;
        };
        /**
         * CreditBack
         * @description The refund for a change that did not last.
         */
        CreditBack: {
            issued: boolean;
            amountCents: number;
            invoiceLineId: string | null;
            reason: string;
        };
        /**
         * Decision
         * @description The decision about the action, and its reason.
         */
        Decision: {
            decision: components["schemas"]["Effect"];
            riskClass: components["schemas"]["RiskClass"];
            reason: string;
            /** @description 0 unless the decision is ASK. */
            minApprovers: number;
            policySource: components["schemas"]["Source"];
            /** @description Null unless the decision is ASK. */
            request: components["schemas"]["ApprovalRequest"] | null;
            deliveries: components["schemas"]["ChannelNotification"][];
        };
        /**
         * DeclaredAuthor
         * @description The declared author of the patch.
         */
        DeclaredAuthor: {
            vendor: string | null;
            agentName: string | null;
            agentVersion: string | null;
            modelId: string | null;
        };
        /**
         * Deleted
         * @description The connection was deleted.
         */
        Deleted: {
            /**
             * @default true
             * @enum {unknown}
             */
            deleted: true;
        };
        /**
         * DeliveryPage
         * @description A page.
         */
        DeliveryPage: {
            data: components["schemas"]["StoredDelivery"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * DeliveryStatus
         * @description The status of a webhook event.
         * @enum {unknown}
         */
        DeliveryStatus: "failed" | "processed";
        /**
         * DiffFinding
         * @description One difference between two responses.
         */
        DiffFinding: {
            sampleId: string;
            selectionBasis: string;
            pointer: string;
            change: string;
            /** @enum {unknown} */
            classification: "INTENDED" | "UNCLASSIFIED" | "UNINTENDED";
            basis: components["schemas"]["ClassificationBasis"];
            normalizations: string[];
        };
        /**
         * DisconnectedDirectory
         * @description The numbers of deleted users and groups, revoked tokens, and members that are no longer managed.
         */
        DisconnectedDirectory: {
            users: number;
            groups: number;
            tokens: number;
            /** @description Members that the directory managed and that administrators manage from now on. */
            releasedMembers: number;
        };
        /**
         * DivergenceLocalization
         * @description The first place at which a failing run differs from a successful run.
         */
        DivergenceLocalization: {
            /** @enum {unknown} */
            status: "INCONCLUSIVE_NONDETERMINISM" | "LOCALIZED" | "NO_DIVERGENCE" | "UNAVAILABLE";
            referenceLabel: string;
            candidateLabel: string;
            referenceCommit: string | null;
            candidateCommit: string | null;
            patchedCommit: string | null;
            /** @description Must be `sha256:` followed by 64 lowercase hexadecimal digits. */
            referenceTraceDigest: string;
            /** @description Must be `sha256:` followed by 64 lowercase hexadecimal digits. */
            candidateTraceDigest: string;
            patchedTraceDigest: string | null;
            controlTraceDigest: string | null;
            referenceFrames: number;
            candidateFrames: number;
            matchedFrames: number;
            divergenceCount: number;
            firstDivergence: components["schemas"]["DivergencePoint"] | null;
            normalizationRules: components["schemas"]["NormalizationRule"][];
            disabledNormalizationRules: string[];
            unnormalizedNondeterminism: string[];
            controlRunPerformed: boolean;
            noiseFrontierIndex: number | null;
            postPatch: components["schemas"]["PostPatch"];
        };
        /**
         * DivergenceLocalizationClaim
         * @description A claim: the place at which two runs diverge.
         */
        DivergenceLocalizationClaim: {
            /** @enum {unknown} */
            kind: "divergence_localization";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["DivergenceLocalization"];
        };
        /**
         * DivergencePoint
         * @description The place at which two traces diverge.
         */
        DivergencePoint: {
            index: number;
            frameKey: string;
            /** @enum {unknown} */
            faultClass: "ERROR_RAISED" | "EXECUTION_TRUNCATED" | "EXTRA_CALL" | "FRAME_MISMATCH" | "MISSING_CALL" | "WRONG_BRANCH" | "WRONG_VALUE";
            file: string | null;
            line: number | null;
            field: string | null;
        };
        /**
         * Domain
         * @description A domain of the organization's e-mail addresses.
         */
        Domain: {
            id: string;
            /** @description Must be a domain name of at least two labels. An internationalized name must be in its ASCII form (xn--). */
            domain: string;
            /** @description The text that a TXT record of the domain must contain. */
            txtRecord: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /** @description Null if the domain is not proven yet. */
            verifiedAt: string | null;
        };
        /**
         * DomainList
         * @description The domains of the organization, by name.
         */
        DomainList: {
            data: components["schemas"]["Domain"][];
        };
        /**
         * DryRun
         * @description The action to evaluate.
         */
        DryRun: {
            /** @description Must be 2 to 8 lower-case segments joined by dots, such as `domain.verb`. */
            action: string;
            /** @description Must consist of visible characters, without leading or trailing spaces. */
            targetType: string;
            /** @default null */
            projectTag: string | null;
        };
        /**
         * DryRunResult
         * @description The decision and its reason. `matching` has every rule that matches, the deciding rule first.
         */
        DryRunResult: {
            decision: components["schemas"]["Effect"];
            riskClass: components["schemas"]["RiskClass"];
            reason: string;
            minApprovers: number;
            policySource: components["schemas"]["Source"];
            policyId: string | null;
            approverRoles: components["schemas"]["Role"][];
            machineApproverIds: string[];
            ttlMinutes: number;
            matching: components["schemas"]["MatchingRule"][];
        };
        /**
         * DurabilityWindow
         * @description Whether the change lasted.
         */
        DurabilityWindow: {
            /** @enum {unknown} */
            state: "CLOSED" | "OPEN" | "REFUSED";
            /** @enum {unknown} */
            verdict: "DURABLE" | "INCONCLUSIVE" | "PENDING" | "REGRESSED";
            windowDays: number;
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            openedAt: string;
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            closesAt: string;
            closedAt: string | null;
            originalFingerprintRecurrences: number;
            newFingerprints: components["schemas"]["NewFingerprint"][];
            reverted: boolean;
            revertCommit: string | null;
            releaseHealthDelta: components["schemas"]["ReleaseHealthDelta"] | null;
            creditBack: components["schemas"]["CreditBack"] | null;
        };
        /**
         * DurabilityWindowClaim
         * @description A claim: the issue did not return after the patch.
         */
        DurabilityWindowClaim: {
            /** @enum {unknown} */
            kind: "durability_window";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["DurabilityWindow"];
        };
        /**
         * Effect
         * @description The decision of a rule, from least to most strict.
         * @enum {unknown}
         */
        Effect: "ALLOW" | "ASK" | "DENY";
        /**
         * EnvelopeBody
         * @description An envelope as it is sent, with `payload` in base64. Other fields are ignored (envelope.md, "Parsing rules").
         */
        EnvelopeBody: {
            payload: string;
            payloadType: string;
            signatures: components["schemas"]["Signature"][];
        };
        /**
         * EnvironmentExtent
         * @description Occurrences in one environment.
         */
        EnvironmentExtent: {
            count: number;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            firstSeen: string;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            lastSeen: string;
            environment: string;
        };
        /**
         * EquivalentMutant
         * @description A mutant that behaves like the original.
         */
        EquivalentMutant: {
            file: string;
            line: number;
            operator: string;
            detector: string;
        };
        /**
         * Erasure
         * @description The deletion of a project, an organization, or the items that match filters, and its progress. The filters are
         *         not returned, because their values may be the data to be erased.
         */
        Erasure: {
            id: string;
            kind: components["schemas"]["ErasureKind"];
            /** @description FAILED: the operator has to act (`message` has the reason). COMPLETED: all items are erased, or, in a dry run, counted. */
            state: components["schemas"]["ErasureState"];
            /** @description `null` if the whole organization is erased. */
            projectId: string | null;
            /** @description The slug that the project had. */
            projectSlug: string | null;
            dryRun: boolean;
            /** @description `null` if the filters were deleted after the erasure. */
            filterCount: number | null;
            /** @description Start of the range, inclusive. `null`: no start. */
            from: string | null;
            /** @description End of the range, exclusive. `null`: no end. */
            to: string | null;
            /** @description By table, the number of rows erased so far. In a dry run, the number of rows found. */
            rows: {
                [key: string]: number;
            };
            /** @description The reason why the erasure waits or has failed. */
            message: string | null;
            /** @description `null` if the operator requested the erasure. */
            requestedByPrincipalId: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            requestedAt: string;
            completedAt: string | null;
        };
        /**
         * ErasureDetails
         * @description An erasure, and the destinations to which the erased rows may have been exported.
         */
        ErasureDetails: {
            id: string;
            kind: components["schemas"]["ErasureKind"];
            /** @description FAILED: the operator has to act (`message` has the reason). COMPLETED: all items are erased, or, in a dry run, counted. */
            state: components["schemas"]["ErasureState"];
            /** @description `null` if the whole organization is erased. */
            projectId: string | null;
            /** @description The slug that the project had. */
            projectSlug: string | null;
            dryRun: boolean;
            /** @description `null` if the filters were deleted after the erasure. */
            filterCount: number | null;
            /** @description Start of the range, inclusive. `null`: no start. */
            from: string | null;
            /** @description End of the range, exclusive. `null`: no end. */
            to: string | null;
            /** @description By table, the number of rows erased so far. In a dry run, the number of rows found. */
            rows: {
                [key: string]: number;
            };
            /** @description The reason why the erasure waits or has failed. */
            message: string | null;
            /** @description `null` if the operator requested the erasure. */
            requestedByPrincipalId: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            requestedAt: string;
            completedAt: string | null;
            /** @description Exported rows are not erased. Delete them at the destination. Deleted sinks are not listed. */
            exports: components["schemas"]["ErasureExport"][];
        };
        /**
         * ErasureExport
         * @description A stream of a warehouse sink that exported rows before the erasure was complete.
         */
        ErasureExport: {
            sinkId: string;
            sinkName: string;
            sinkKind: components["schemas"]["SinkKind"];
            stream: components["schemas"]["Stream"];
            /** @description When the last exported row was stored. For issues: when the last exported one was changed. */
            exportedUntil: string | null;
        };
        /**
         * ErasureKind
         * @description The kinds of erasures. To erase an organization's telemetry, each of its projects has its own erasure.
         * @enum {unknown}
         */
        ErasureKind: "filter" | "organization" | "project";
        /**
         * ErasurePage
         * @description A page.
         */
        ErasurePage: {
            data: components["schemas"]["Erasure"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ErasureState
         * @description PENDING: not started. RUNNING: in progress, or waiting for the next attempt. COMPLETED: final. FAILED: the
         *         erasure waits until the operator runs `sluice erasures retry`.
         * @enum {unknown}
         */
        ErasureState: "COMPLETED" | "FAILED" | "PENDING" | "RUNNING";
        /**
         * Error
         * @description The body of every error response.
         */
        Error: {
            error: components["schemas"]["ErrorBody"];
        };
        /**
         * ErrorBody
         * @description The reason why a request was refused. `code` is for programs, and `message` is for people. Give the `requestId`
         *         to the operator when you ask about an error.
         */
        ErrorBody: {
            code: components["schemas"]["ErrorCode"];
            message: string;
            requestId: string;
            details?: components["schemas"]["Issue"][];
        };
        /**
         * ErrorCode
         * @description The reason why a request was refused: `error.code` of the envelope. Clients depend on codes, so codes are never
         *         renamed.
         * @enum {unknown}
         */
        ErrorCode: "bad_request" | "conflict" | "forbidden" | "internal_error" | "method_not_allowed" | "mfa_required" | "not_found" | "not_implemented" | "payload_too_large" | "precondition_failed" | "quota_exceeded" | "rate_limited" | "service_unavailable" | "unauthorized" | "unsupported_media_type";
        /**
         * ErrorHistory
         * @description One error, and its number of occurrences in each interval of the window, including zeros.
         */
        ErrorHistory: {
            /** @description The fingerprint: identifies the error in all releases. */
            fingerprint: string;
            /** @description `exception.type`. */
            type: string | null;
            /** @description `exception.message` of the latest occurrence. */
            message: string | null;
            /** @description Number of stored occurrences. */
            count: number;
            /** @description First occurrence in the window; null if there is none. */
            firstSeen: string | null;
            /** @description Last occurrence in the window; null if there is none. */
            lastSeen: string | null;
            /** @description First stored occurrence in the project, independent of the window and the filters. If it is not before `from`, the error is new. Null if the project has too many occurrences to find it. */
            firstEver: string | null;
            /** @description The release of the first occurrence. */
            firstRelease: string | null;
            /** @description The release of the last occurrence. */
            lastRelease: string | null;
            latestOccurrenceId: string | null;
            /** @description Number of distinct traces with an occurrence. */
            traces: number;
            /** @description False: `traces` is an estimate, because there are too many traces to count in memory. */
            tracesExact: boolean;
            /** @description False: there are too many releases, environments or services to count in memory. For each kind with more than 20 values, the count and the list of the most frequent are estimates. */
            facetsExact: boolean;
            /** @description The most frequent, at most 20. */
            releases: components["schemas"]["ReleaseExtent"][];
            /** @description Number of distinct values; null counts as one. */
            releaseCount: number;
            /** @description The most frequent, at most 20. */
            environments: components["schemas"]["EnvironmentExtent"][];
            environmentCount: number;
            /** @description The most frequent, at most 20. */
            services: components["schemas"]["ServiceExtent"][];
            /** @description Number of distinct values; null counts as one. */
            serviceCount: number;
            sources: components["schemas"]["SourceExtent"][];
            /** @description Null: the error has no issue (yet). Absent while the service cannot read issues, which are in the relational database. */
            issue?: components["schemas"]["ErrorIssue"] | null;
            range: components["schemas"]["Range"];
            intervalMinutes: number;
            series: components["schemas"]["HistoryPoint"][];
        };
        /**
         * ErrorIssue
         * @description The issue that counts the occurrences of an error.
         */
        ErrorIssue: {
            id: string;
            /** @example CHECKOUT-12 */
            shortId: string;
            status: components["schemas"]["IssueStatus"];
        };
        /**
         * ErrorOrder
         * @description Sort order of error groups, always descending; on a tie, the greater fingerprint comes first.
         * @enum {unknown}
         */
        ErrorOrder: "count" | "firstSeen" | "lastSeen";
        /**
         * ErrorPage
         * @description A page of errors. `range`: the window of all pages.
         */
        ErrorPage: {
            data: components["schemas"]["ListedErrorGroup"][];
            /** @description Pass this text as `cursor` to get the next page; null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
            range: components["schemas"]["Range"];
        };
        /**
         * Event
         * @description One change, as it is listed, exported and hashed.
         */
        Event: {
            orgId: string;
            /** @description Sequence number in the organization, from 1, without gaps. */
            seq: number;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            at: string;
            /** @description Null if the system or an unauthenticated caller made the change. */
            actorPrincipalId: string | null;
            actorKind: components["schemas"]["PrincipalKind"] | null;
            onBehalfOfPrincipalId: string | null;
            /** @description Delegation chain (RFC 8693), the acting principal first. */
            actChain: string[];
            tokenId: string | null;
            /** @description `noun.verb`, such as `key.create`. */
            action: string;
            /** @description Id of the changed resource. */
            objectId: string;
            /** @description Details, which depend on the action. Never contains secrets. */
            data: {
                [key: string]: components["schemas"]["SentJson"];
            };
            /** @description Id of the request that made the change, `(command)` for a CLI command. */
            requestId: string;
            /** @description SHA-256, in hexadecimal. */
            prevHash: string;
            /** @description SHA-256, in hexadecimal. */
            hash: string;
            /** @description Random bytes, in hexadecimal. Missing in events of early releases, which had no salts. */
            salt?: string;
        };
        /**
         * EventAnswer
         * @description `challenge`: the challenge of the request that verified this URL.
         */
        EventAnswer: {
            ok?: boolean;
            challenge?: string;
        };
        /**
         * EventPage
         * @description A page.
         */
        EventPage: {
            data: components["schemas"]["Event"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ExportRequest
         * @description How much to export.
         */
        ExportRequest: {
            /**
             * @description Maximum number of batches per stream. A batch has at most 50 000 rows.
             * @default 10
             */
            maxBatchesPerStream: number;
        };
        /**
         * ExportResult
         * @description The results of an export, by stream.
         */
        ExportResult: {
            sinkId: string;
            kind: components["schemas"]["SinkKind"];
            rows: number;
            runs: components["schemas"]["ExportedRun"][];
        };
        /**
         * ExportRun
         * @description A run of one stream. `finishedAt` is null while the run continues.
         */
        ExportRun: {
            id: string;
            stream: components["schemas"]["Stream"];
            status: components["schemas"]["RunStatus"];
            rows: number;
            bytes: number;
            objectKeys: string[];
            /**
             * @description `stored`: sinks export the stored data, which was scrubbed before it was stored.
             * @enum {unknown}
             */
            scrubTier: "stored";
            error: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            startedAt: string;
            finishedAt: string | null;
        };
        /**
         * ExportedLogs
         * @description The result of an export. Empty if every log record was accepted and there is no warning.
         */
        ExportedLogs: {
            partialSuccess?: components["schemas"]["RejectedLogs"];
        };
        /**
         * ExportedRun
         * @description The result of an export of one stream. `idle`: there was nothing to export.
         */
        ExportedRun: {
            runId: string;
            stream: components["schemas"]["Stream"];
            status: components["schemas"]["RunStatus"];
            rows: number;
            bytes: number;
            objectKeys: string[];
            /**
             * @description `stored`: sinks export the stored data, which was scrubbed before it was stored.
             * @enum {unknown}
             */
            scrubTier: "stored";
            error: string | null;
            idle: boolean;
        };
        /**
         * ExportedTraces
         * @description The result of an export. Empty if every span was accepted and there is no warning.
         */
        ExportedTraces: {
            partialSuccess?: components["schemas"]["RejectedSpans"];
        };
        /**
         * Failure
         * @description The reason why nothing was delivered. `permanent`: another attempt would fail, too.
         */
        Failure: {
            permanent: boolean;
            retryAfterSeconds: number | null;
        };
        /**
         * Figures
         * @description Figures of the spans in `range`: for each group, and for each interval of each group. `intervalSeconds` is null
         *         if no series was requested.
         */
        Figures: {
            figures: components["schemas"]["ShownFigure"][];
            groupBy: string[];
            intervalSeconds: number | null;
            range: components["schemas"]["Range"];
            groups: components["schemas"]["FiguresGroup"][];
            series: components["schemas"]["FiguresSeries"][];
            scanned: number;
            scanTruncated: boolean;
            groupCount: number;
            groupsTruncated: boolean;
            limits: components["schemas"]["Limits"];
        };
        /**
         * FiguresGroup
         * @description One group. `count`: the number of all its spans, independent of the filters of the figures.
         */
        FiguresGroup: {
            /** @description One text for each key of `groupBy`; null for the spans without the key. */
            group: (string | null)[];
            count: number;
            /** @description One value for each figure in `figures`. */
            values: (components["schemas"]["SentNumber"] | null)[];
        };
        /**
         * FiguresPoint
         * @description The spans in `range` that start in the interval which begins at `bucket`.
         */
        FiguresPoint: {
            /** Format: date-time */
            bucket: string;
            count: number;
            /** @description One value for each figure in `figures`. */
            values: (components["schemas"]["SentNumber"] | null)[];
        };
        /**
         * FiguresRequest
         * @description The figures, and the spans to group. `sort`: the index of the figure that ranks the groups. `intervalSeconds`: 0
         *         for no series. A null field means the same as a missing field.
         */
        FiguresRequest: {
            figures: components["schemas"]["RequestedFigure"][];
            /** @default null */
            from: (string | number | components["schemas"]["SentNumber"]) | null;
            /** @default null */
            to: (string | number | components["schemas"]["SentNumber"]) | null;
            /** @default null */
            hours: number | null;
            /** @default null */
            groupBy: string[] | null;
            /** @default null */
            filters: components["schemas"]["WrittenFilter"][] | string | null;
            /** @default null */
            limit: number | null;
            /** @default null */
            sort: number | null;
            /** @default null */
            intervalSeconds: number | null;
        };
        /**
         * FiguresSeries
         * @description A series with one point for every interval of the range.
         */
        FiguresSeries: {
            /** @description One text for each key of `groupBy`; null for the spans without the key. */
            group: (string | null)[];
            points: components["schemas"]["FiguresPoint"][];
        };
        /**
         * Finding
         * @description A value that is over-represented in the spike. `lift` is null if no span of the baseline has the value.
         */
        Finding: {
            key: string;
            value: string;
            spikeCount: number;
            baselineCount: number;
            spikeShare: components["schemas"]["SentNumber"];
            baselineShare: components["schemas"]["SentNumber"];
            expectedCount: components["schemas"]["SentNumber"];
            surplus: components["schemas"]["SentNumber"];
            lift: components["schemas"]["SentNumber"] | null;
            contribution: components["schemas"]["SentNumber"];
        };
        /**
         * FindingBody
         * @description An error or warning that a schema cannot express. `code` identifies its kind.
         */
        FindingBody: {
            path: string;
            message: string;
            code: string;
        };
        /**
         * FlakeFreedom
         * @description The deciding test does not fail at random.
         */
        FlakeFreedom: {
            decidingTest: string;
            /** @enum {unknown} */
            verdict: "FLAKY" | "STABLE" | "UNKNOWN";
            samples: number;
            failures: number;
            flakeRatePct: components["schemas"]["SentNumber"] | null;
            windowDays: number;
            observedFrom: string | null;
            observedUntil: string | null;
            explained: boolean;
            explanation: string | null;
        };
        /**
         * FlakeFreedomClaim
         * @description A claim: the deciding test is not flaky.
         */
        FlakeFreedomClaim: {
            /** @enum {unknown} */
            kind: "flake_freedom";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["FlakeFreedom"];
        };
        /**
         * Fn
         * @description The function applied to the spans of a group. pXX: the smallest observed value that at least XX percent of the
         *         values do not exceed.
         * @enum {unknown}
         */
        Fn: "avg" | "count" | "count_unique" | "max" | "min" | "p50" | "p75" | "p90" | "p95" | "p99" | "p999" | "sum";
        /**
         * Group
         * @description One group. `group`: null for the spans without the key. `count`: all spans of the group, with or without the
         *         field.
         */
        Group: {
            group: string | null;
            value: components["schemas"]["SentNumber"] | null;
            count: number;
        };
        /**
         * Handoff
         * @description The session of a login, and the address that the user wanted. `provisioned`: the login made the membership.
         */
        Handoff: {
            orgId: string;
            role: components["schemas"]["Role"];
            provisioned: boolean;
            tokens: components["schemas"]["Tokens"];
            user: components["schemas"]["SessionUser"];
            next: string | null;
        };
        /**
         * HandoffCode
         * @description The code of a login that ended with a redirect.
         */
        HandoffCode: {
            code: string;
            /**
             * @description Whether the refresh token is in the cookie `__Secure-sluice` instead of the body. Browsers send the cookie only to `/auth` of this origin. If true, the request must have `Sec-Fetch-Site: same-origin`.
             * @default false
             */
            cookie: boolean;
        };
        /**
         * HeatmapRequest
         * @description The spans and the number to draw; the default is their duration. A null field means the same as a missing
         *         field.
         */
        HeatmapRequest: {
            /** @default null */
            field: string | null;
            /** @default null */
            filters: components["schemas"]["WrittenFilter"][] | string | null;
            /** @default null */
            from: (string | number | components["schemas"]["SentNumber"]) | null;
            /** @default null */
            to: (string | number | components["schemas"]["SentNumber"]) | null;
            /** @default null */
            hours: number | null;
            /** @default null */
            columns: number | null;
            /** @default null */
            rowsPerOctave: number | null;
        };
        /**
         * HeatmapRow
         * @description A row of values that are at least `from` and less than `to`.
         */
        HeatmapRow: {
            /** @description A number in the field's unit: milliseconds for `durationMs`. */
            from: components["schemas"]["SentNumber"];
            /** @description A number in the field's unit: milliseconds for `durationMs`. */
            to: components["schemas"]["SentNumber"];
        };
        /**
         * HistoryPoint
         * @description Number of occurrences in one interval.
         */
        HistoryPoint: {
            /**
             * Format: date-time
             * @description Start of the interval, which may lie before the window.
             * @example 2026-11-20T15:15:00Z
             */
            bucket: string;
            count: number;
        };
        /**
         * HumanApproval
         * @description Whether a human approved the change.
         */
        HumanApproval: {
            approved: boolean;
            approverId: string | null;
            approvedAt: string | null;
            actChainLength: number;
        };
        /**
         * InboundDelivery
         * @description A webhook event that an integration has sent, and its result.
         */
        InboundDelivery: {
            id: string;
            /** @description The name that the platform has for the event. */
            event: string;
            /** @description Identifies the delivery: its signed id, or the SHA-256 of its body if there is no signed id. */
            key: string;
            status: components["schemas"]["DeliveryStatus"];
            /** @description The answer to the delivery. `null` if it failed. */
            result: {
                [key: string]: components["schemas"]["SentJson"];
            } | null;
            /** @description Why the delivery failed. */
            failure: string | null;
            attempts: number;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            receivedAt: string;
            /**
             * Format: date-time
             * @description The time of the last attempt to process the delivery.
             */
            processedAt: string;
            /** @description Whether the body of the delivery is kept. */
            redeliverable: boolean;
        };
        /**
         * InboundDeliveryPage
         * @description A page.
         */
        InboundDeliveryPage: {
            data: components["schemas"]["InboundDelivery"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * InstrumentationScope
         * @description The instrumentation that produced an item.
         */
        InstrumentationScope: {
            /** @description Null if the field was not sent. */
            name: string | null;
            /** @description Null if the field was not sent. */
            version: string | null;
            /** @description Values by key. Each value has its original type. NaN and infinities are strings, and bytes are `{"bytesValue": base64}`. */
            attributes: {
                [key: string]: components["schemas"]["SentJson"];
            };
            /** @description Number of attributes that the client or a limit of Sluice dropped. */
            droppedAttributesCount: number;
            /** @description Null if the field was not sent. */
            schemaUrl: string | null;
        };
        /**
         * IntegrationBody
         * @description An integration. Its secret is shown only when it is created or rotated.
         */
        IntegrationBody: {
            id: string;
            /** @description The system that sends webhooks. */
            kind: components["schemas"]["IntegrationKind"];
            name: string;
            enabled: boolean;
            config: components["schemas"]["IntegrationConfig"];
            hookId: string | null;
            /** @description The URL to which the platform sends its webhook. */
            url: string;
            /** @description The time until which Sluice also accepts the secret from before the last rotation. */
            previousSecretUntil: string | null;
            createdBy: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            updatedAt: string;
        };
        /**
         * IntegrationChange
         * @description Changes to an integration. Omitted fields are not changed. `config` replaces the complete config.
         */
        IntegrationChange: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name?: string;
            enabled?: boolean;
            config?: components["schemas"]["IntegrationConfig"];
            hookId?: string | null;
        };
        /**
         * IntegrationConfig
         * @description Options of an integration.
         */
        IntegrationConfig: {
            /**
             * @description Slugs of the projects to which the reported releases and deployments belong. If the list is empty, change events (such as deployments) belong to all projects, and releases are not recorded.
             * @default []
             */
            projects: string[];
            /**
             * @description Accept GitLab's old token, which does not sign the body. Only for `gitlab`.
             * @default false
             */
            allowPlainToken: boolean;
            /**
             * @description Whether closing or reopening a ticket resolves or reopens the issues that are linked to it.
             * @default true
             */
            syncStatus: boolean;
        };
        /**
         * IntegrationKind
         * @description The system that sends webhooks. The values for source control are the providers of `/webhooks/scm/{provider}`.
         * @enum {unknown}
         */
        IntegrationKind: "bitbucket" | "forgejo" | "generic" | "gitea" | "github" | "gitlab" | "jira" | "linear" | "pagerduty";
        /**
         * IntegrationPage
         * @description A page.
         */
        IntegrationPage: {
            data: components["schemas"]["IntegrationBody"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * IntegrationResult
         * @description The effects of an event. `event`: the platform's name of the event.
         */
        IntegrationResult: {
            received: boolean;
            event: string;
            /** @default 0 */
            changeEventsCreated: number;
            /** @default 0 */
            issuesUpdated: number;
            /** @default 0 */
            linksUpdated: number;
        };
        /**
         * IntegrationWithSecret
         * @description An integration and its new secret.
         */
        IntegrationWithSecret: {
            id: string;
            /** @description The system that sends webhooks. */
            kind: components["schemas"]["IntegrationKind"];
            name: string;
            enabled: boolean;
            config: components["schemas"]["IntegrationConfig"];
            hookId: string | null;
            /** @description The URL to which the platform sends its webhook. */
            url: string;
            /** @description The time until which Sluice also accepts the secret from before the last rotation. */
            previousSecretUntil: string | null;
            createdBy: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            updatedAt: string;
            /** @description The secret with which the platform signs. It is shown once. */
            secret: string;
        };
        /**
         * InteractionAnswer
         * @description `type` 1: the answer to a ping. 4: a message. 7: a message that replaces the message with the button.
         */
        InteractionAnswer: {
            type: number;
            data?: components["schemas"]["InteractionData"];
        };
        /**
         * InteractionData
         * @description A message. `flags` 64: visible only to the chat user.
         */
        InteractionData: {
            content: string;
            flags?: number;
        };
        /**
         * InteractivityAnswer
         * @description The interaction was received.
         */
        InteractivityAnswer: {
            ok: boolean;
        };
        /**
         * Invitation
         * @description An invitation, without its secret.
         */
        Invitation: {
            id: string;
            /** @description Must be an e-mail address. */
            email: string;
            role: components["schemas"]["Role"];
            /** @enum {unknown} */
            state: "ACCEPTED" | "EXPIRED" | "OPEN" | "REVOKED";
            /** @description Whether the secret was mailed. Accepting a mailed invitation verifies the address. */
            mailed: boolean;
            invitedByPrincipalId: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            expiresAt: string;
        };
        /**
         * InvitationPage
         * @description A page.
         */
        InvitationPage: {
            data: components["schemas"]["Invitation"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * Issue
         * @description One invalid field of a request. `path` is its JSON path or the name of the query parameter, and `code` is a
         *         machine-readable reason.
         */
        Issue: {
            path: string;
            message: string;
            code: string;
        };
        /**
         * IssueActivity
         * @description An event in the history of an issue. `principalId` is null if the service itself changed the issue.
         */
        IssueActivity: {
            id: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            at: string;
            kind: components["schemas"]["ActivityKind"];
            principalId: string | null;
            data: {
                [key: string]: components["schemas"]["SentJson"];
            };
        };
        /**
         * IssueActivityPage
         * @description A page.
         */
        IssueActivityPage: {
            data: components["schemas"]["IssueActivity"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * IssueChange
         * @description Changes to an issue. Omitted fields are not changed.
         */
        IssueChange: {
            status?: components["schemas"]["IssueStatus"];
            /** @description Must be the release in which the issue is fixed: at most 200 printable characters, without surrounding spaces. Requires the status `resolved`. */
            resolvedInRelease?: string;
            /**
             * @description The issue is fixed in the release after the project's latest release. Requires the status `resolved`.
             * @default false
             */
            resolvedInNextRelease: boolean;
            /** @description The time in the future (RFC 3339) at which the issue is unresolved again. Requires the status `ignored`. */
            ignoredUntil?: string;
            /** @description The number of further occurrences after which the issue is unresolved again. Requires the status `ignored`. */
            ignoredOccurrences?: number;
            assigneePrincipalId?: string | null;
        };
        /**
         * IssueLink
         * @description A link of an issue. `externalId` identifies the item in its system.
         */
        IssueLink: {
            id: string;
            url: string;
            title: string | null;
            /** @description Must consist of lowercase letters, digits and hyphens, such as `github`. */
            system: string;
            externalId: string;
            /** @description State of the item. `null`: not known. */
            state: components["schemas"]["LinkState"] | null;
            createdBy: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            updatedAt: string;
        };
        /**
         * IssueLinkChange
         * @description Changes to a link. Omitted fields are not changed.
         */
        IssueLinkChange: {
            /** @description Must be an http or https URL without credentials. */
            url?: string;
            title?: string | null;
            state?: components["schemas"]["LinkState"] | null;
        };
        /**
         * IssueLinkPage
         * @description A page.
         */
        IssueLinkPage: {
            data: components["schemas"]["IssueLink"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * IssueMerge
         * @description The issues to merge into the issue in the path.
         */
        IssueMerge: {
            issueIds: string[];
        };
        /**
         * IssuePage
         * @description A page of issues, in the order of `sort`.
         */
        IssuePage: {
            data: components["schemas"]["TrackedIssue"][];
            /** @description `cursor` of the next page. Null: this is the last page. */
            nextCursor: string | null;
            hasMore: boolean;
            /** @description `null` if every error has an issue. */
            untracked: components["schemas"]["UntrackedErrors"] | null;
        };
        /**
         * IssueSort
         * @description Sort orders of the list, all descending.
         * @enum {unknown}
         */
        IssueSort: "count" | "firstSeen" | "lastSeen";
        /**
         * IssueStatus
         * @description State of an issue.
         * @enum {unknown}
         */
        IssueStatus: "ignored" | "resolved" | "unresolved";
        /**
         * IssueSuspects
         * @description The commits that may have caused an issue, the most likely first.
         */
        IssueSuspects: {
            /** @description The release of the first occurrence. */
            firstBadRelease: string | null;
            /** @description The latest release of the project before `release`. */
            previousRelease: string | null;
            basis: components["schemas"]["Basis"];
            /** @description The application's own frames, innermost first. */
            frames: components["schemas"]["StackFrame"][];
            commits: components["schemas"]["SuspectCommit"][];
            /** @description False if there are more commits, files or frames than were considered. */
            complete: boolean;
            /** @description Why there are no suspects, in words. */
            note: string | null;
        };
        /**
         * Issuer
         * @description The issuer, which created the bundle.
         */
        Issuer: {
            id: string;
            name: string;
            softwareVersion: string;
            keyId: string | null;
        };
        /**
         * IssuerKeyBody
         * @description A public key of an issuer. `status`: whether its signatures count now.
         */
        IssuerKeyBody: {
            id: string;
            /** @description The value of `issuer.id` in bundles of this issuer. */
            issuer: string;
            name: string;
            keyId: string;
            algorithm: components["schemas"]["KeyAlgorithm"];
            /** @description An Ed25519 or ECDSA P-256 key in PEM. */
            publicKey: string;
            status: components["schemas"]["KeyStatus"];
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            validFrom: string;
            validUntil: string | null;
            revokedAt: string | null;
            revocationReason: string | null;
            createdByPrincipalId: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
        };
        /**
         * IssuerKeyChange
         * @description Changes to a key. Omitted fields are not changed. `validUntil` null: the validity does not end.
         */
        IssuerKeyChange: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name?: string;
            validUntil?: string | null;
        };
        /**
         * IssuerKeyList
         * @description All keys of the organization, oldest first. `sluice proof verify --keys` reads this.
         */
        IssuerKeyList: {
            data: components["schemas"]["IssuerKeyBody"][];
        };
        /**
         * IssuerKeyRevocation
         * @description The reason of the revocation.
         */
        IssuerKeyRevocation: {
            /**
             * @description Must consist of printable characters, without leading or trailing spaces.
             * @default (no reason given)
             */
            reason: string;
        };
        /**
         * Jwk
         * @description A public key (RFC 8037).
         */
        Jwk: {
            kty: string;
            crv: string;
            x: string;
            kid: string;
            use: string;
            alg: string;
        };
        /**
         * Key
         * @description A key for filters and groups. `numeric`: whether its value is a finite number in all of these spans.
         */
        Key: {
            key: string;
            spans: number;
            numeric: boolean;
        };
        /**
         * KeyAlgorithm
         * @description The signature algorithm of a key.
         * @enum {unknown}
         */
        KeyAlgorithm: "ECDSA_P256" | "ED25519";
        /**
         * KeyChange
         * @description Changes to a key. Omitted fields are not changed. `rate` null: the configured default.
         */
        KeyChange: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name?: string;
            enabled?: boolean;
            rate?: number | null;
        };
        /**
         * KeyPage
         * @description A page.
         */
        KeyPage: {
            data: components["schemas"]["ProjectKey"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * KeySet
         * @description Public keys that verify access tokens of sessions (RFC 7517).
         */
        KeySet: {
            keys: components["schemas"]["Jwk"][];
        };
        /**
         * KeyStatus
         * @description Whether signatures of a key count at a time.
         * @enum {unknown}
         */
        KeyStatus: "ACTIVE" | "EXPIRED" | "NOT_YET_VALID" | "REVOKED";
        /**
         * Keys
         * @description Built-in fields and attributes, sorted by the number of spans, then by key.
         */
        Keys: {
            data: components["schemas"]["Key"][];
        };
        /**
         * Kind
         * @description The receiver's platform.
         * @enum {unknown}
         */
        Kind: "chat-a" | "chat-b" | "email" | "pager" | "teams" | "webhook";
        /**
         * Limits
         * @description The limits of this service.
         */
        Limits: {
            maxScanRows: number;
            maxSeries: number;
            maxGroupCardinality: number;
        };
        /**
         * Link
         * @description A link of a span to another span, which may be stored elsewhere.
         */
        Link: {
            traceId: string | null;
            spanId: string | null;
            /** @description Null if the field was not sent. */
            traceState: string | null;
            /** @description Values by key. Each value has its original type. */
            attributes: {
                [key: string]: components["schemas"]["SentJson"];
            };
            /** @description Number of attributes that the client or a limit of Sluice dropped. */
            droppedAttributesCount: number;
            flags: number;
        };
        /**
         * LinkState
         * @description The state of the item that a link points to.
         * @enum {unknown}
         */
        LinkState: "closed" | "open";
        /**
         * LinkedIdentity
         * @description A user of a provider, and the linked member.
         */
        LinkedIdentity: {
            id: string;
            connectionId: string;
            /** @description NameID of SAML, `sub` of OIDC. */
            subject: string;
            principalId: string;
            /** @description The last address from the provider. The account may have another address. */
            email: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            lastLoginAt: string;
        };
        /**
         * LinkedIdentityPage
         * @description A page.
         */
        LinkedIdentityPage: {
            data: components["schemas"]["LinkedIdentity"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ListedErrorGroup
         * @description An error in a list, with its number of occurrences in each of 24 equal parts of `range`, including zeros.
         */
        ListedErrorGroup: {
            /** @description The fingerprint: identifies the error in all releases. */
            fingerprint: string;
            /** @description `exception.type`. */
            type: string | null;
            /** @description `exception.message` of the latest occurrence. */
            message: string | null;
            /** @description Number of stored occurrences. */
            count: number;
            /** @description First occurrence in the window; null if there is none. */
            firstSeen: string | null;
            /** @description Last occurrence in the window; null if there is none. */
            lastSeen: string | null;
            /** @description First stored occurrence in the project, independent of the window and the filters. If it is not before `from`, the error is new. Null if the project has too many occurrences to find it. */
            firstEver: string | null;
            /** @description The release of the first occurrence. */
            firstRelease: string | null;
            /** @description The release of the last occurrence. */
            lastRelease: string | null;
            latestOccurrenceId: string | null;
            /** @description Number of distinct traces with an occurrence. */
            traces: number;
            /** @description False: `traces` is an estimate, because there are too many traces to count in memory. */
            tracesExact: boolean;
            /** @description False: there are too many releases, environments or services to count in memory. For each kind with more than 20 values, the count and the list of the most frequent are estimates. */
            facetsExact: boolean;
            /** @description The most frequent, at most 20. */
            releases: components["schemas"]["ReleaseExtent"][];
            /** @description Number of distinct values; null counts as one. */
            releaseCount: number;
            /** @description The most frequent, at most 20. */
            environments: components["schemas"]["EnvironmentExtent"][];
            environmentCount: number;
            /** @description The most frequent, at most 20. */
            services: components["schemas"]["ServiceExtent"][];
            /** @description Number of distinct values; null counts as one. */
            serviceCount: number;
            sources: components["schemas"]["SourceExtent"][];
            /** @description Null: the error has no issue (yet). Absent while the service cannot read issues, which are in the relational database. */
            issue?: components["schemas"]["ErrorIssue"] | null;
            series: [
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number,
                number
            ];
        };
        /**
         * Log
         * @description A full log record.
         */
        Log: {
            id: string;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            time: string;
            /**
             * @description The origin of `time`.
             * @enum {string}
             */
            timeSource: "time" | "observedTime" | "receiveTime";
            /** @description Time at which a collector observed the record. */
            observedTime: string | null;
            /** @description The record's trace. */
            traceId: string | null;
            /** @description The record's span. */
            spanId: string | null;
            flags: number;
            /** @description 1 (trace) to 24 (fatal); 0 if no number was sent. */
            severityNumber: number;
            /** @description Null if the field was not sent. */
            severityText: string | null;
            /** @description Null if the field was not sent. */
            eventName: string | null;
            /** @description The body as received, of any type. */
            body: components["schemas"]["SentJson"];
            /** @description `deployment.environment.name`; `unknown` if the attribute was not sent. */
            environment: string;
            /** @description `service.version` of the resource. */
            release: string | null;
            /** @description `service.name` of the resource. */
            serviceName: string | null;
            /** @description The item's own attributes by key, then the attributes of its resource as `resource.<key>` and of its scope as `scope.<key>`. Each value has its original type. NaN and infinities are strings, and bytes are `{"bytesValue": base64}`. */
            attributes: {
                [key: string]: components["schemas"]["SentJson"];
            };
            /** @description Number of attributes that the client or a limit of Sluice dropped. */
            droppedAttributesCount: number;
            resource: components["schemas"]["Resource"];
            scope: components["schemas"]["InstrumentationScope"];
            /** @description Truncated values, each with a JSON Pointer into this record and its size in bytes as sent. The pointer to a truncated key is the pointer to its attribute, followed by `/#`. Empty if nothing was truncated. */
            truncations: {
                path: string;
                bytes: number;
            }[];
        };
        /**
         * LogContext
         * @description Log records around the time at which an error was raised.
         */
        LogContext: {
            /**
             * @description `trace`: the log records of the occurrence's trace. `service`: the occurrence has no trace with log records, so these are the log records of its service and environment within an hour.
             * @enum {string}
             */
            of: "trace" | "service";
            /** @description Records up to the time of the occurrence. If the occurrence was recorded in a log record, this record is one of them. */
            before: components["schemas"]["LogPart"];
            after: components["schemas"]["LogPart"];
        };
        /**
         * LogCounts
         * @description The number of log records in `range`: for each group, and for each interval of each group. `intervalSeconds` is
         *         null if no series was requested.
         */
        LogCounts: {
            groupBy: string | null;
            intervalSeconds: number | null;
            range: components["schemas"]["Range"];
            groups: components["schemas"]["LogGroup"][];
            series: components["schemas"]["LogSeries"][];
            scanned: number;
            scanTruncated: boolean;
            groupCount: number;
            groupsTruncated: boolean;
            limits: components["schemas"]["Limits"];
        };
        /**
         * LogCountsRequest
         * @description The log records to count. `intervalSeconds`: 0 for no series. A null field means the same as a missing field.
         */
        LogCountsRequest: {
            /** @default null */
            from: (string | number | components["schemas"]["SentNumber"]) | null;
            /** @default null */
            to: (string | number | components["schemas"]["SentNumber"]) | null;
            /** @default null */
            hours: number | null;
            /** @default null */
            groupBy: string | null;
            /** @default null */
            filters: components["schemas"]["WrittenFilter"][] | string | null;
            /** @default null */
            limit: number | null;
            /** @default null */
            intervalSeconds: number | null;
        };
        /**
         * LogGroup
         * @description One group. `group`: null for the records without the key.
         */
        LogGroup: {
            group: string | null;
            count: number;
        };
        /**
         * LogKey
         * @description A key for filters and groups. `numeric`: whether its value is a finite number in all of these records.
         */
        LogKey: {
            key: string;
            records: number;
            numeric: boolean;
        };
        /**
         * LogKeys
         * @description Built-in fields and attributes of the log records in `range`, sorted by the number of records, then by key.
         *         `scanned` is the number of records that were read. `scanTruncated`: the window has older records that were not read.
         */
        LogKeys: {
            data: components["schemas"]["LogKey"][];
            range: components["schemas"]["Range"];
            scanned: number;
            scanTruncated: boolean;
        };
        /**
         * LogPage
         * @description A page of log records, newest first.
         */
        LogPage: {
            data: components["schemas"]["Log"][];
            /** @description Pass this text as `cursor` to get the next page; null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * LogPart
         * @description Log records on one side of a point in time, in order of time.
         */
        LogPart: {
            data: components["schemas"]["Log"][];
            /** @description Whether there are more records on this side. */
            hasMore: boolean;
        };
        /**
         * LogPoint
         * @description The records in `range` of the interval that begins at `bucket`.
         */
        LogPoint: {
            /** Format: date-time */
            bucket: string;
            count: number;
        };
        /**
         * LogSeries
         * @description A series with one point for every interval of the range.
         */
        LogSeries: {
            group: string | null;
            points: components["schemas"]["LogPoint"][];
        };
        /**
         * LogTail
         * @description Log records, newest first. Pass `next` as `after` to get later records. `truncated`: some records were left out,
         *         because too many have been written since the previous response, or because it was more than a minute ago. Later
         *         responses do not show them either.
         */
        LogTail: {
            data: components["schemas"]["Log"][];
            next: string;
            truncated: boolean;
        };
        /**
         * Login
         * @description Credentials. `orgSlug` selects the organization and its account. Without `orgSlug`, the account that has verified
         *         the address is used if the password is right for it, otherwise another account that has this password.
         */
        Login: {
            /**
             * @description Whether the refresh token is in the cookie `__Secure-sluice` instead of the body. Browsers send the cookie only to `/auth` of this origin. If true, the request must have `Sec-Fetch-Site: same-origin`.
             * @default false
             */
            cookie: boolean;
            /** @description Must be an e-mail address. */
            email: string;
            /** @default null */
            orgSlug: string | null;
            /**
             * @description The challenge that the 429 of an earlier attempt contained.
             * @default null
             */
            challenge: string | null;
            /**
             * @description The solution of `challenge`. The SHA-256 hash of `challenge` + `proof` (UTF-8) must begin with `bits` zero bits.
             * @default null
             */
            proof: string | null;
            /**
             * @description The secret of a link that `POST /auth/login/link` has mailed.
             * @default null
             */
            linkSecret: string | null;
            password: string;
            /** @default null */
            totp: string | null;
        };
        /**
         * LoginLinkRequest
         * @description The e-mail address of the account.
         */
        LoginLinkRequest: {
            /** @description Must be an e-mail address. */
            email: string;
        };
        /**
         * LoginUser
         * @description The user who has logged in.
         */
        LoginUser: {
            id: string;
            /** @description Must be an e-mail address. */
            email: string;
            name: string;
        };
        /**
         * MadeInvitation
         * @description A new invitation. It contains the secret, unless the secret was mailed.
         */
        MadeInvitation: {
            id: string;
            /** @description Must be an e-mail address. */
            email: string;
            role: components["schemas"]["Role"];
            /** @enum {unknown} */
            state: "ACCEPTED" | "EXPIRED" | "OPEN" | "REVOKED";
            /** @description Whether the secret was mailed. Accepting a mailed invitation verifies the address. */
            mailed: boolean;
            invitedByPrincipalId: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            expiresAt: string;
            /** @description The secret that accepts the invitation. Returned only in this response. Null if it was mailed. */
            inviteToken: string | null;
        };
        /**
         * MadeKey
         * @description A new key. Only this response contains its secret, alone and inside a DSN.
         */
        MadeKey: {
            id: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description The last four characters of the secret. */
            hint: string;
            enabled: boolean;
            /** @description Requests per second. `null`: the configured default. 0: unlimited. Only the operator can set 0. */
            rate: number | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /** @description When the key stops working. After a rotation, this time may be in the future. Null: the key is not revoked. */
            revokedAt: string | null;
            /** @description The secret. Returned only in this response. */
            key: string;
            /** @description The secret in the form `{scheme}://{key}@{host}/{projectId}`. */
            dsn: string;
        };
        /**
         * MadeScimToken
         * @description The token with its secret, and the endpoint.
         */
        MadeScimToken: {
            id: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            hint: string;
            createdByPrincipalId: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            expiresAt: string | null;
            /** @description Updated at most once per minute. */
            lastUsedAt: string | null;
            /** @description May be in the future if the token was rotated. */
            revokedAt: string | null;
            /** @description The secret, for `Authorization: Bearer`. Returned only in this response. */
            token: string;
            /** @description The SCIM base URL to enter in the directory. */
            endpoint: string;
        };
        /**
         * MadeToken
         * @description A new token. Only this response has its secret.
         */
        MadeToken: {
            id: string;
            principalId: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description The last four characters of the secret. */
            hint: string;
            scopes: string[] | null;
            /** @description The principal on whose behalf the holder acts (RFC 8693). */
            onBehalfOfPrincipalId: string | null;
            /** @description Delegation chain (RFC 8693), the holder first. */
            actChain: string[];
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            expiresAt: string | null;
            /** @description Updated at most once per minute. */
            lastUsedAt: string | null;
            revokedAt: string | null;
            /** @description The secret, for `Authorization: Bearer`. Returned only in this response. */
            token: string;
        };
        /**
         * MatchingRule
         * @description A rule that matches the action.
         */
        MatchingRule: {
            /** @description Null for a built-in rule, and for the fallback rule, which applies if no other rule matches. */
            policyId: string | null;
            name: string;
            policySource: components["schemas"]["Source"];
            actionPattern: string;
            targetType: string | null;
            effect: components["schemas"]["Effect"];
        };
        /**
         * Member
         * @description A principal in the organization. Users that log in have an `email`, agents and services an `ownerPrincipalId`.
         */
        Member: {
            principalId: string;
            kind: components["schemas"]["PrincipalKind"];
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            email: string | null;
            /** @description Whether the account has verified its address. If not, it cannot join other organizations. Always false for agents and services. */
            emailVerified: boolean;
            role: components["schemas"]["Role"];
            ownerPrincipalId: string | null;
            mfaEnabled: boolean;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
        };
        /**
         * MemberPage
         * @description A page.
         */
        MemberPage: {
            data: components["schemas"]["Member"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * MfaTrust
         * @description When a login through the provider counts as a login with a second factor.
         * @enum {unknown}
         */
        MfaTrust: "ALWAYS" | "ASSERTED" | "NEVER";
        /**
         * MitigationApplied
         * @description A temporary measure until the change is released.
         */
        MitigationApplied: {
            mitigationId: string;
            actionType: string;
            provider: string;
            /** @enum {unknown} */
            state: "ACTIVE" | "EXPIRED" | "FAILED" | "REVERTED";
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            appliedAt: string;
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            expiresAt: string;
            ttlMinutes: number;
            withdrawnAt: string | null;
            autoReverted: boolean;
            withdrawalReason: string | null;
            inverse: components["schemas"]["MitigationInverse"] | null;
            blastRadius: components["schemas"]["BlastRadius"];
            approval: components["schemas"]["MitigationApproval"];
            verification: components["schemas"]["MitigationVerification"] | null;
            issueStatusChangedByMitigation: boolean;
            reversalDebt: components["schemas"]["ReversalDebt"] | null;
            /** @description Must be `sha256:` followed by 64 lowercase hexadecimal digits. */
            artifactChecksum: string;
        };
        /**
         * MitigationAppliedClaim
         * @description A claim: a mitigation was applied meanwhile.
         */
        MitigationAppliedClaim: {
            /** @enum {unknown} */
            kind: "mitigation_applied";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["MitigationApplied"];
        };
        /**
         * MitigationApproval
         * @description The approval of a mitigation.
         */
        MitigationApproval: {
            requestId: string | null;
            approvedByPrincipalId: string | null;
            approvedAt: string | null;
            requiredApprovals: number;
            receivedApprovals: number;
            humanApproval: boolean;
            riskClass: string;
        };
        /**
         * MitigationInverse
         * @description The action that reverses a mitigation.
         */
        MitigationInverse: {
            actionType: string;
            description: string;
            applied: boolean;
        };
        /**
         * MitigationVerification
         * @description The evidence whether a mitigation helped.
         */
        MitigationVerification: {
            signal: string;
            kind: string;
            /** @enum {unknown} */
            outcome: "NOT_MEASURED" | "NOT_OBSERVED" | "OBSERVED" | "PENDING";
            detail: string;
            observedFrom: string | null;
            observedUntil: string | null;
            before: components["schemas"]["SentNumber"] | null;
            after: components["schemas"]["SentNumber"] | null;
        };
        /**
         * ModelAttribution
         * @description The person or the model that wrote the change.
         */
        ModelAttribution: {
            authorKind: components["schemas"]["AuthorKind"];
            agent: components["schemas"]["Agent"];
            modelId: string | null;
            modelProvider: string | null;
            effort: string | null;
            seed: number | null;
            temperature: components["schemas"]["SentNumber"] | null;
            promptPrefixHash: string | null;
            /** @enum {unknown} */
            servingDeterminism: "NOT_CLAIMED";
        };
        /**
         * ModelAttributionClaim
         * @description A claim: a person or a model wrote the patch.
         */
        ModelAttributionClaim: {
            /** @enum {unknown} */
            kind: "model_attribution";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["ModelAttribution"];
        };
        /**
         * MutationPinScore
         * @description How many mutants of the changed code the tests find.
         */
        MutationPinScore: {
            score: components["schemas"]["SentNumber"] | null;
            threshold: components["schemas"]["SentNumber"];
            generated: number;
            killed: number;
            survived: number;
            equivalent: number;
            invalid: number;
            aridSuppressed: number;
            equivalents: components["schemas"]["EquivalentMutant"][];
            mutantSetHash: string | null;
            operators: string[];
            budgetCapReached: boolean;
            costCents: components["schemas"]["SentNumber"];
            sandboxSeconds: components["schemas"]["SentNumber"];
            scopedToDiff: boolean;
        };
        /**
         * MutationPinScoreClaim
         * @description A claim: the tests notice changes of the patched lines.
         */
        MutationPinScoreClaim: {
            /** @enum {unknown} */
            kind: "mutation_pin_score";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["MutationPinScore"];
        };
        /**
         * NewChange
         * @description The change event to record.
         */
        NewChange: {
            /** @description The kind of change. `flag`: a feature flag was changed. */
            kind: components["schemas"]["ChangeKind"];
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            title: string;
            /**
             * @description Must be the slug of the project. `null`: the change concerns all projects.
             * @default null
             */
            project: string | null;
            /** @default null */
            detail: string | null;
            /**
             * @description Must be an RFC 3339 time, at most 400 days ago. It is the time of the change, by default the current time.
             * @default null
             */
            at: string | null;
            /** @default null */
            environment: string | null;
            /** @default null */
            release: string | null;
            /** @default null */
            service: string | null;
            /** @default null */
            url: string | null;
            /**
             * @description Must be one line. Recording a change again with the same key changes nothing.
             * @default null
             */
            dedupeKey: string | null;
        };
        /**
         * NewChannel
         * @description The channel to create.
         */
        NewChannel: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            kind: components["schemas"]["Kind"];
            /** @description The fields depend on the kind. Write-only. `chat-a`: `webhookUrl`, or `botToken` and `channel`. `chat-b`: `webhookUrl`. `webhook`: `url`, `secret` (`whsec_...`), `previousSecret`?, `headers`?. `email`: `to`, up to 20 addresses. `pager`: `routingKey`, `severity`?. `teams`: `workflowUrl`. */
            config: components["schemas"]["SentJson"];
            /** @default true */
            enabled: boolean;
            /**
             * @description `org` requires the role ADMIN or OWNER. Such a channel belongs to the whole organization.
             * @default project
             */
            scope: components["schemas"]["ChannelScope"];
        };
        /**
         * NewDomain
         * @description A domain to prove.
         */
        NewDomain: {
            /** @description Must be a domain name of at least two labels. An internationalized name must be in its ASCII form (xn--). */
            domain: string;
        };
        /**
         * NewFilterErasure
         * @description The items to erase: at least one of `filters`, `from` and `to` is required. To erase everything, delete the
         *         project.
         */
        NewFilterErasure: {
            /**
             * @description Filters as in explore: `{key, op, value}`. Only items that match all filters are erased.
             * @default []
             */
            filters: {
                [key: string]: components["schemas"]["SentJson"];
            }[];
            /** @default null */
            from: string | null;
            /** @default null */
            to: string | null;
            /**
             * @description Only count what would be erased.
             * @default false
             */
            dryRun: boolean;
        };
        /**
         * NewFingerprint
         * @description An error that is new since the change.
         */
        NewFingerprint: {
            fingerprint: string;
            blamedCommit: string;
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            firstSeen: string;
            events: number;
        };
        /**
         * NewIntegration
         * @description The integration to create. If `secret` is left out, Sluice generates one.
         */
        NewIntegration: {
            /** @description The system that sends webhooks. */
            kind: components["schemas"]["IntegrationKind"];
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /**
             * @default {
             *       "projects": [],
             *       "allowPlainToken": false,
             *       "syncStatus": true
             *     }
             */
            config: components["schemas"]["IntegrationConfig"];
            /** @default null */
            hookId: string | null;
            /** @default null */
            secret: string | null;
            /** @default true */
            enabled: boolean;
        };
        /**
         * NewInvitation
         * @description The address to invite, and the role of the new member.
         */
        NewInvitation: {
            /** @description Must be an e-mail address. */
            email: string;
            role: components["schemas"]["Role"];
            /**
             * @description Whether to mail the secret to the address. Accepting a mailed invitation verifies the address. If the secret is not mailed, the response has it.
             * @default false
             */
            sendMail: boolean;
        };
        /**
         * NewIssueLink
         * @description The link to create. If `system` and `externalId` are left out, they are taken from the address.
         */
        NewIssueLink: {
            /** @description Must be an http or https URL without credentials. */
            url: string;
            /** @default null */
            title: string | null;
            /** @default null */
            system: string | null;
            /** @default null */
            externalId: string | null;
            /** @default null */
            state: components["schemas"]["LinkState"] | null;
        };
        /**
         * NewIssuerKey
         * @description The public key to register. `keyId` is by default `sha256:` and the digest of the key, `validFrom` the present
         *         time.
         */
        NewIssuerKey: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            issuer: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description An Ed25519 or ECDSA P-256 key in PEM. */
            publicKey: string;
            /** @default null */
            keyId: string | null;
            /** @default null */
            validFrom: string | null;
            /** @default null */
            validUntil: string | null;
        };
        /**
         * NewKey
         * @description The key to create.
         */
        NewKey: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
        };
        /**
         * NewPolicy
         * @description The policy to create. Without `projectSlug`, the policy applies to the whole organization.
         */
        NewPolicy: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description Must be an action, in which * matches one segment and a trailing ** matches one or more segments. It may also be ** alone, which matches every action. */
            actionPattern: string;
            effect: components["schemas"]["Effect"];
            riskClass: components["schemas"]["RiskClass"];
            /** @default null */
            projectSlug: string | null;
            /** @default null */
            targetType: string | null;
            /**
             * @description Required number of approvals. Used only if `effect` is ASK.
             * @default 1
             */
            minApprovers: number;
            /** @description Roles that may decide. Used only if `effect` is ASK. */
            approverRoles?: ("ADMIN" | "MEMBER" | "OWNER")[];
            /**
             * @description Ids of the agents and services that may decide. Used only if `effect` is ASK.
             * @default []
             */
            machineApproverIds: string[];
            /**
             * @description Minutes until a request expires.
             * @default 1440
             */
            ttlMinutes: number;
            /** @default true */
            enabled: boolean;
        };
        /**
         * NewPrincipal
         * @description The agent or service to create.
         */
        NewPrincipal: {
            /**
             * @description Users join by invitation.
             * @enum {unknown}
             */
            kind: "agent" | "service";
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /**
             * @description The scopes of an agent or service never exceed the scopes of its owner.
             * @default MEMBER
             * @enum {unknown}
             */
            role: "ADMIN" | "BILLING" | "MEMBER" | "VIEWER";
        };
        /**
         * NewProject
         * @description The project to create.
         */
        NewProject: {
            /** @description Must consist of lowercase letters, digits and inner hyphens. */
            slug: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @default null */
            retentionDays: number | null;
        };
        /**
         * NewProposalReport
         * @description The current data of a proposal. Fields that are left out keep the values of earlier reports. The issues of the
         *         proposal are kept if both `body` and `issues` are left out.
         */
        NewProposalReport: {
            /** @description Must be the name of a repository, printable and without spaces, such as `shop/checkout`. */
            repository: string;
            /** @description The number or name of the proposal in the repository. */
            number: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            title: string;
            state: components["schemas"]["ReportedState"];
            /** @default null */
            body: string | null;
            /** @default null */
            headRef: string | null;
            /** @default null */
            headSha: string | null;
            /**
             * @description Must be a complete hash, in hexadecimal digits. It names the commit that merged the proposal.
             * @default null
             */
            mergeSha: string | null;
            /** @default null */
            authorName: string | null;
            /** @default null */
            url: string | null;
            /**
             * @description Must be an RFC 3339 time, 1970 or later, not in the future. It is the time at which the platform last changed the proposal, by default the current time. A report with an earlier time changes nothing.
             * @default null
             */
            changedAt: string | null;
            /** @default null */
            issues: string[] | null;
        };
        /**
         * NewReleaseReport
         * @description A report of a release. Fields that are left out keep the values of earlier reports.
         */
        NewReleaseReport: {
            /** @description Must be a printable version of at most 200 characters, without surrounding spaces. */
            version: string;
            projects: string[];
            /** @default null */
            repository: string | null;
            /**
             * @description Must consist of printable characters. It names the commit, tag or branch from which the release was built.
             * @default null
             */
            ref: string | null;
            /** @default null */
            url: string | null;
            /**
             * @description Must be an RFC 3339 time, 1970 or later, at most one day ahead. The default is the time of the first report.
             * @default null
             */
            releasedAt: string | null;
            /**
             * @description Must consist of printable characters. It names the environment to which the release was deployed. The change event of the release has this environment.
             * @default null
             */
            environment: string | null;
            /**
             * @description Commits, newest first. Report more than 500 commits in several requests.
             * @default []
             */
            commits: components["schemas"]["ReportedCommit"][];
        };
        /**
         * NewRequest
         * @description The action to approve. `notify` is true by default if `channelIds` is set. Without `channelIds`, `notify` selects
         *         all enabled channels of the organization, and of the project that `projectTag` names.
         */
        NewRequest: {
            /** @description Must be 2 to 8 lower-case segments joined by dots, such as `domain.verb`. */
            action: string;
            /** @description Must consist of visible characters, without leading or trailing spaces. */
            targetType: string;
            /** @description Must consist of visible characters, without leading or trailing spaces. */
            targetId: string;
            /**
             * @description Slug of a project. The policies of the project then apply in addition to the policies of the organization.
             * @default null
             */
            projectTag: string | null;
            /**
             * @description Context for the approvers.
             * @default null
             */
            summary: string | null;
            /** @description Minutes until a request expires. */
            ttlMinutes?: number;
            channelIds?: string[];
            notify?: boolean;
        };
        /**
         * NewSavedView
         * @description A view to save.
         */
        NewSavedView: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description Must be an address of the web page, such as `/ui/default/web/logs?from=now-1h`. It begins with `/ui/`, and each further segment begins with a letter or digit. It must consist of visible ASCII characters, and must not contain `//`, backslashes, quotes, angle brackets or a fragment. */
            path: string;
            /**
             * @description Whether every member who may read the project sees the view. Viewers cannot share.
             * @default false
             */
            shared: boolean;
        };
        /**
         * NewScimToken
         * @description The token to issue.
         */
        NewScimToken: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /**
             * @description Null: the token does not expire.
             * @default null
             */
            expiresInDays: number | null;
        };
        /**
         * NewSink
         * @description The sink to create. By default all four streams are exported. The fields of `config` depend on the kind, and
         *         missing fields may be sent later.
         */
        NewSink: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            kind: components["schemas"]["SinkKind"];
            /** @description The streams to export. Each is named once. */
            streams?: components["schemas"]["Stream"][];
            /** @default {} */
            config: {
                [key: string]: components["schemas"]["SentJson"];
            };
        };
        /**
         * NewToken
         * @description The token to create. Without `scopes`: all scopes of the creating token. Without `expiresInDays`: no expiry.
         */
        NewToken: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @default null */
            scopes: components["schemas"]["Scope"][] | null;
            /** @default null */
            expiresInDays: number | null;
        };
        /**
         * NoiseBand
         * @description The range of differences that are only noise.
         */
        NoiseBand: {
            known: boolean;
            source: string;
            samples: number;
            bandPct: components["schemas"]["SentNumber"] | null;
            transitionPct: components["schemas"]["SentNumber"] | null;
            insideBand: boolean;
            minReportableDeltaPp: components["schemas"]["SentNumber"];
        };
        /**
         * NormalizationRule
         * @description A rule that made traces comparable, and how often it was applied.
         */
        NormalizationRule: {
            ruleId: string;
            occurrences: number;
        };
        /**
         * NotReplayed
         * @description The number of samples that were not replayed, and the reason.
         */
        NotReplayed: {
            reason: string;
            count: number;
        };
        /**
         * NotificationChannel
         * @description A channel, without its config. `projectId` is null for a channel of the whole organization.
         */
        NotificationChannel: {
            id: string;
            orgId: string;
            projectId: string | null;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            kind: components["schemas"]["Kind"];
            enabled: boolean;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            updatedAt: string;
        };
        /**
         * Occurrence
         * @description An error occurrence as lists show it.
         */
        Occurrence: {
            /** @description The id of the occurrence: opaque and stable. */
            id: string;
            /** @description The fingerprint: identifies the error in all releases. */
            fingerprint: string;
            /**
             * Format: date-time
             * @description Time of the log record, or start of the span, that recorded the occurrence.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            time: string;
            /** @description `exception.type`. */
            type: string | null;
            /** @description `exception.message`. */
            message: string | null;
            /**
             * @description Where the error was recorded: in a span event or in a log record.
             * @enum {string}
             */
            source: "span" | "log";
            traceId: string | null;
            spanId: string | null;
            serviceName: string | null;
            environment: string;
            release: string | null;
        };
        /**
         * OccurrencePage
         * @description A page of occurrences, newest first.
         */
        OccurrencePage: {
            data: components["schemas"]["Occurrence"][];
            /** @description Pass this text as `cursor` to get the next page; null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * OccurrenceRecord
         * @description The full record of an error occurrence.
         */
        OccurrenceRecord: {
            /** @description The id of the occurrence: opaque and stable. */
            id: string;
            /** @description The fingerprint: identifies the error in all releases. */
            fingerprint: string;
            /**
             * Format: date-time
             * @description Time of the log record, or start of the span, that recorded the occurrence.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            time: string;
            /** @description `exception.type`. */
            type: string | null;
            /** @description `exception.message`. */
            message: string | null;
            /**
             * @description Where the error was recorded: in a span event or in a log record.
             * @enum {string}
             */
            source: "span" | "log";
            traceId: string | null;
            spanId: string | null;
            serviceName: string | null;
            environment: string;
            release: string | null;
            /** @description `exception.stacktrace`, as received. */
            stacktrace: string | null;
            /** @description The stack trace with frames of the original sources, resolved with the source maps of the release. Null if no frame has a source map. */
            resolvedStacktrace: string | null;
            /**
             * Format: date-time
             * @description Time of the span event; for a log record, `time`.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            raisedAt: string;
            /** @description The span of the occurrence; null if it has none, or if the span is not stored. */
            span: components["schemas"]["Span"] | null;
            /** @description Log records around the occurrence; null if it has neither a trace nor a service. */
            logs: components["schemas"]["LogContext"] | null;
        };
        /**
         * Op
         * @description Comparison operator of a filter. If the key is absent, neq, not_contains, not_in and not_exists match.
         * @enum {unknown}
         */
        Op: "contains" | "ends_with" | "eq" | "exists" | "gt" | "gte" | "in" | "lt" | "lte" | "neq" | "not_contains" | "not_exists" | "not_in" | "regex" | "starts_with";
        /**
         * Organization
         * @description A tenant, with its monthly quota and usage.
         */
        Organization: {
            id: string;
            /** @description Must consist of lowercase letters, digits and inner hyphens. */
            slug: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description Monthly quota of spans and log records (calendar month, UTC). 0: unlimited. */
            monthlyItems: number;
            /** @description Usage of this month that gateways have reported so far. */
            usedItems: number;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
        };
        /**
         * OrganizationChange
         * @description Changes to an organization.
         */
        OrganizationChange: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
        };
        /**
         * OtlpError
         * @description A google.rpc.Status, with the `error` object that all error responses of Sluice have.
         */
        OtlpError: {
            /** @description A google.rpc.Code. */
            code: number;
            message: string;
            error: components["schemas"]["ErrorBody"];
            details?: {
                [key: string]: components["schemas"]["SentJson"];
            }[];
        };
        /**
         * OwnOrganization
         * @description An organization that the user is a member of. `current`: whether this session is in the organization.
         */
        OwnOrganization: {
            id: string;
            /** @description Must consist of lowercase letters, digits and inner hyphens. */
            slug: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            role: components["schemas"]["Role"];
            current: boolean;
        };
        /**
         * OwnOrganizations
         * @description Organizations that the user may log in to, sorted by slug.
         */
        OwnOrganizations: {
            data: components["schemas"]["OwnOrganization"][];
        };
        /**
         * PasswordChange
         * @description The current password, if the account has one, and the new password.
         */
        PasswordChange: {
            password: string;
            /** @default null */
            current: string | null;
        };
        /**
         * Patch
         * @description The change itself.
         */
        Patch: {
            /** @description Must be `sha256:` followed by 64 lowercase hexadecimal digits. */
            diffDigest: string;
            filesChanged: string[];
            addedLines: number;
            removedLines: number;
        };
        /**
         * PatchOrigin
         * @description The origin of the patch.
         */
        PatchOrigin: {
            /** @enum {unknown} */
            originKind: "EXTERNAL_AGENT" | "FIRST_PARTY" | "HUMAN_CONTRACTOR" | "UNATTRIBUTED";
            externallyAuthored: boolean;
            submitter: components["schemas"]["Submitter"];
            declaredAuthor: components["schemas"]["DeclaredAuthor"];
            /** @enum {unknown} */
            attestationSource: "FIRST_PARTY_LOOP" | "SIGNED_HANDOFF_BUNDLE" | "SUBMITTER_DECLARED";
            /** @enum {unknown} */
            submissionChannel: "INTERNAL_LOOP" | "MCP" | "REST";
            submissionId: string | null;
            /** @description Must be `sha256:` followed by 64 lowercase hexadecimal digits. */
            patchDigest: string;
            diffBytes: number;
            filesChanged: string[];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            receivedAt: string;
            verifierIndependence: components["schemas"]["VerifierIndependence"];
        };
        /**
         * PatchOriginClaim
         * @description A claim: the origin of the patch.
         */
        PatchOriginClaim: {
            /** @enum {unknown} */
            kind: "patch_origin";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["PatchOrigin"];
        };
        /**
         * PaymentReceipt
         * @description The result of an event. `duplicate`: the event was handled before, and nothing was changed now. `reason`: why the
         *         event was not handled.
         */
        PaymentReceipt: {
            received: boolean;
            eventId: string;
            type: string;
            handled: boolean;
            duplicate: boolean;
            reason: ("no_subscription" | "unhandled_type" | "unknown_customer" | "unknown_price") | null;
        };
        /**
         * Point
         * @description The spans in `range` that start in the interval which begins at `bucket`.
         */
        Point: {
            /** Format: date-time */
            bucket: string;
            value: components["schemas"]["SentNumber"] | null;
            count: number;
        };
        /**
         * PolicyChange
         * @description Changes to a policy. Omitted fields are not changed. Existing requests are not affected.
         */
        PolicyChange: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name?: string;
            /** @description Must be an action, in which * matches one segment and a trailing ** matches one or more segments. It may also be ** alone, which matches every action. */
            actionPattern?: string;
            effect?: components["schemas"]["Effect"];
            riskClass?: components["schemas"]["RiskClass"];
            targetType?: string | null;
            /** @description Required number of approvals. Used only if `effect` is ASK. */
            minApprovers?: number;
            /** @description Roles that may decide. Used only if `effect` is ASK. */
            approverRoles?: ("ADMIN" | "MEMBER" | "OWNER")[];
            /** @description Ids of the agents and services that may decide. Used only if `effect` is ASK. */
            machineApproverIds?: string[];
            /** @description Minutes until a request expires. */
            ttlMinutes?: number;
            enabled?: boolean;
        };
        /**
         * PolicyPage
         * @description A page.
         */
        PolicyPage: {
            data: components["schemas"]["ApprovalPolicy"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * PostPatch
         * @description The effect of the patch on the divergence.
         */
        PostPatch: {
            /** @enum {unknown} */
            outcome: "INCONCLUSIVE" | "MOVED_AS_INTENDED" | "NEW_DIVERGENCE" | "NOT_ASSERTED" | "RESOLVED" | "UNCHANGED";
            intendedFrameKeys: string[];
            unintendedDivergences: components["schemas"]["DivergencePoint"][];
            addressedPrior: boolean;
        };
        /**
         * PrincipalChange
         * @description Changes to an agent or service. Omitted fields are not changed.
         */
        PrincipalChange: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name?: string;
            /** @description Must be the id of a principal. */
            ownerPrincipalId?: string;
        };
        /**
         * PrincipalKind
         * @description The kind of a principal. Agents and services have an owner.
         * @enum {unknown}
         */
        PrincipalKind: "agent" | "service" | "user";
        /**
         * Probe
         * @description The result of the last probe of a dependency. `error` is null if it is available, otherwise a generic reason.
         */
        Probe: {
            name: string;
            ok: boolean;
            error: string | null;
            required: boolean;
        };
        /**
         * Project
         * @description A project of an organization.
         */
        Project: {
            id: string;
            /** @description Must consist of lowercase letters, digits and inner hyphens. */
            slug: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description Values of attributes are scrubbed if their key contains one of these words or of the built-in words. */
            sensitiveWords: string[];
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /** @description Age in days after which spans and log records are deleted. `null`: the retention in the settings. */
            retentionDays: number | null;
            /** @description When merging a fix resolves the issues that it fixes: in the next release (`next_release`), or immediately (`now`). */
            resolveOnMerge: components["schemas"]["ResolveOnMerge"];
            /** @description Complete attribute keys, as stored, which are exempt from scrubbing by key. Card and social security numbers in the values of these attributes are still scrubbed. Keys that always indicate a secret cannot be exempted. */
            exemptKeys: string[];
        };
        /**
         * ProjectChange
         * @description Changes to a project. Omitted fields are not changed. `sensitiveWords` and `exemptKeys` replace the complete
         *         lists.
         */
        ProjectChange: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name?: string;
            sensitiveWords?: string[];
            retentionDays?: number | null;
            /** @description When merging a fix resolves the issues that it fixes: in the next release (`next_release`), or immediately (`now`). */
            resolveOnMerge?: components["schemas"]["ResolveOnMerge"];
            /** @description Without duplicates. Complete attribute keys, as stored, which are exempt from scrubbing by key. Card and social security numbers in the values of these attributes are still scrubbed. Keys that always indicate a secret cannot be exempted. */
            exemptKeys?: string[];
        };
        /**
         * ProjectKey
         * @description A project key, without its secret.
         */
        ProjectKey: {
            id: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description The last four characters of the secret. */
            hint: string;
            enabled: boolean;
            /** @description Requests per second. `null`: the configured default. 0: unlimited. Only the operator can set 0. */
            rate: number | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /** @description When the key stops working. After a rotation, this time may be in the future. Null: the key is not revoked. */
            revokedAt: string | null;
        };
        /**
         * ProjectPage
         * @description A page.
         */
        ProjectPage: {
            data: components["schemas"]["Project"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ProofBundle
         * @description A proof bundle (the ledger of specification 2.8).
         */
        ProofBundle: {
            /** @enum {unknown} */
            formatVersion: "0.1.0";
            specUri: string;
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            bundleId: string;
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            issuedAt: string;
            issuer: components["schemas"]["Issuer"];
            subject: components["schemas"]["Subject"];
            tier: components["schemas"]["ProofTier"];
            verdict: components["schemas"]["ProofVerdict"];
            billable: boolean;
            claims: (components["schemas"]["ReproFailsOnHeadClaim"] | components["schemas"]["ReproPassesPostPatchClaim"] | components["schemas"]["SuiteGreenClaim"] | components["schemas"]["MutationPinScoreClaim"] | components["schemas"]["FlakeFreedomClaim"] | components["schemas"]["BlastRadiusContainmentClaim"] | components["schemas"]["ResourceEnvelopeClaim"] | components["schemas"]["ModelAttributionClaim"] | components["schemas"]["ApproverIdentityClaim"] | components["schemas"]["DurabilityWindowClaim"] | components["schemas"]["StateSliceClaim"] | components["schemas"]["BehavioralDiffClaim"] | components["schemas"]["DivergenceLocalizationClaim"] | components["schemas"]["PatchOriginClaim"] | components["schemas"]["MitigationAppliedClaim"])[];
        };
        /**
         * ProofBundleDetail
         * @description A stored bundle, parsed. `attestation` null: the bundle was submitted without a Statement.
         */
        ProofBundleDetail: {
            id: string;
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            bundleId: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            receivedAt: string;
            submittedByPrincipalId: string | null;
            mediaType: string;
            /** @description Digest of the bytes as received. */
            digest: string;
            sizeBytes: number;
            signature: components["schemas"]["SignatureCheck"];
            issuedAt: string;
            issuer: string;
            tier: components["schemas"]["ProofTier"];
            verdict: components["schemas"]["ProofVerdict"];
            billable: boolean;
            claimCount: number;
            /** @description The issue of the project that the bundle is about. Null if there is none. */
            issueId: string | null;
            issueShortId: string;
            title: string;
            runId: string;
            proposalId: string;
            commit: string | null;
            /** @description Number of errors: places where the bundle contradicts itself or stored data. */
            errorCount: number;
            /** @description Number of warnings: places of the bundle that a person should check. */
            warningCount: number;
            errors: components["schemas"]["FindingBody"][];
            warnings: components["schemas"]["FindingBody"][];
            links: components["schemas"]["BundleLinks"];
            bundle: components["schemas"]["ProofBundle"];
            attestation: components["schemas"]["Attestation"] | null;
        };
        /**
         * ProofBundlePage
         * @description A page.
         */
        ProofBundlePage: {
            data: components["schemas"]["ProofBundleSummary"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ProofBundleRecord
         * @description A stored bundle, without its claims.
         */
        ProofBundleRecord: {
            id: string;
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            bundleId: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            receivedAt: string;
            submittedByPrincipalId: string | null;
            mediaType: string;
            /** @description Digest of the bytes as received. */
            digest: string;
            sizeBytes: number;
            signature: components["schemas"]["SignatureCheck"];
            issuedAt: string;
            issuer: string;
            tier: components["schemas"]["ProofTier"];
            verdict: components["schemas"]["ProofVerdict"];
            billable: boolean;
            claimCount: number;
            /** @description The issue of the project that the bundle is about. Null if there is none. */
            issueId: string | null;
            issueShortId: string;
            title: string;
            runId: string;
            proposalId: string;
            commit: string | null;
            /** @description Number of errors: places where the bundle contradicts itself or stored data. */
            errorCount: number;
            /** @description Number of warnings: places of the bundle that a person should check. */
            warningCount: number;
            errors: components["schemas"]["FindingBody"][];
            warnings: components["schemas"]["FindingBody"][];
            links: components["schemas"]["BundleLinks"];
        };
        /**
         * ProofBundleSummary
         * @description A bundle in a list. `signature` says whether the bundle is signed.
         */
        ProofBundleSummary: {
            id: string;
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            bundleId: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            receivedAt: string;
            submittedByPrincipalId: string | null;
            mediaType: string;
            /** @description Digest of the bytes as received. */
            digest: string;
            sizeBytes: number;
            signature: components["schemas"]["SignatureCheck"];
            issuedAt: string;
            issuer: string;
            tier: components["schemas"]["ProofTier"];
            verdict: components["schemas"]["ProofVerdict"];
            billable: boolean;
            claimCount: number;
            /** @description The issue of the project that the bundle is about. Null if there is none. */
            issueId: string | null;
            issueShortId: string;
            title: string;
            runId: string;
            proposalId: string;
            commit: string | null;
            /** @description Number of errors: places where the bundle contradicts itself or stored data. */
            errorCount: number;
            /** @description Number of warnings: places of the bundle that a person should check. */
            warningCount: number;
        };
        /**
         * ProofTier
         * @description How strong the proof is.
         * @enum {unknown}
         */
        ProofTier: "A" | "B" | "C" | "NONE" | "VOID";
        /**
         * ProofVerdict
         * @description The verdict of the proof on the change.
         * @enum {unknown}
         */
        ProofVerdict: "FAILED" | "PASSED" | "VOID";
        /**
         * Proposal
         * @description The proposed secret for an authenticator app. Codes are required only after `/auth/totp/confirm`.
         */
        Proposal: {
            /** @description Base32, for manual entry. */
            secret: string;
            /** @description The same secret as an `otpauth:` URI, for a QR code. */
            uri: string;
        };
        /**
         * ProposalPage
         * @description A page.
         */
        ProposalPage: {
            data: components["schemas"]["ChangeProposal"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ProposalReportResult
         * @description A proposal, and the effects of the report.
         */
        ProposalReportResult: {
            id: string;
            repository: string;
            number: string;
            title: string;
            /** @description `superseded`: another proposal for the same issue was merged. */
            state: components["schemas"]["ProposalState"];
            headRef: string | null;
            headSha: string | null;
            mergeSha: string | null;
            authorName: string | null;
            url: string | null;
            /** @description Short ids of the issues that the proposal fixes. */
            issues: string[];
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            changedAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /** @description Short ids of issues that the merge resolved. */
            issuesResolved: string[];
            /** @description Short ids of issues whose fix the merge reverted. */
            issuesReopened: string[];
            /** @description `repository#number` of the other open proposals of these issues, which are now superseded. */
            proposalsSuperseded: string[];
        };
        /**
         * ProposalState
         * @description The state of a proposal. SUPERSEDED: another proposal for the same issue was merged.
         * @enum {unknown}
         */
        ProposalState: "closed" | "merged" | "open" | "superseded";
        /**
         * Protocol
         * @description The protocol of the identity provider.
         * @enum {unknown}
         */
        Protocol: "OIDC" | "SAML";
        /**
         * PublishedColumn
         * @description A column of a stream. Timestamps are in UTC, with microseconds.
         */
        PublishedColumn: {
            name: string;
            type: components["schemas"]["ColumnType"];
            nullable: boolean;
            description: string;
        };
        /**
         * PublishedStream
         * @description The schema of a stream. Later versions only add columns, which may be null.
         */
        PublishedStream: {
            stream: components["schemas"]["Stream"];
            version: number;
            /** @description Name of the table in a warehouse. */
            table: string;
            columns: components["schemas"]["PublishedColumn"][];
        };
        /**
         * PublishedStreams
         * @description All streams.
         */
        PublishedStreams: {
            data: components["schemas"]["PublishedStream"][];
        };
        /**
         * Qualification
         * @description The evidence that a failing test concerns the issue.
         */
        Qualification: {
            outcome: string;
            code: string;
            reason: string;
            attributedToIssue: boolean;
        };
        /**
         * Range
         * @description A half-open time range; `to` is exclusive.
         */
        Range: {
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            from: string;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            to: string;
        };
        /**
         * Ready
         * @description Every required dependency is available.
         */
        Ready: {
            /** @enum {unknown} */
            status: "ready";
            /** @description The service; `sluice` if one process runs all of them. */
            service: string;
            dependencies: components["schemas"]["Probe"][];
        };
        /**
         * RecheckHandle
         * @description The way in which a reader can check a claim again.
         */
        RecheckHandle: {
            /** @enum {unknown} */
            mechanism: "API" | "ARTIFACT" | "GIT" | "NONE" | "SHELL";
            instruction: string;
            expectation: string;
            inputs: {
                [key: string]: string;
            };
            /** @enum {unknown} */
            reproducibility: "DETERMINISTIC" | "NOT_REPRODUCIBLE" | "STATISTICAL";
            notes: string | null;
        };
        /**
         * RecoveryCodes
         * @description Recovery codes of the second factor, which is now enabled. Each code can be used once instead of a code of the
         *         app. Only this response has them.
         */
        RecoveryCodes: {
            recoveryCodes: [
                string,
                string,
                string,
                string,
                string,
                string,
                string,
                string,
                string,
                string
            ];
        };
        /**
         * Refresh
         * @description The refresh token of the session to refresh or to end. With `cookie`, the cookie has the token.
         */
        Refresh: {
            /** @default null */
            refreshToken: string | null;
            /**
             * @description Whether the refresh token is in the cookie `__Secure-sluice` instead of the body. Browsers send the cookie only to `/auth` of this origin. If true, the request must have `Sec-Fetch-Site: same-origin`.
             * @default false
             */
            cookie: boolean;
        };
        /**
         * RejectedLogs
         * @description The number of rejected log records, and why. Do not retry them: they would be rejected again. If the number is 0,
         *         the message is a warning.
         */
        RejectedLogs: {
            rejectedLogRecords: number;
            /** @description A text: each reason for rejections with the number of rejected items, then the warnings. */
            errorMessage: string;
        };
        /**
         * RejectedSpans
         * @description The number of rejected spans, and why. Do not retry them: they would be rejected again. If the number is 0, the
         *         message is a warning.
         */
        RejectedSpans: {
            rejectedSpans: number;
            /** @description A text: each reason for rejections with the number of rejected items, then the warnings. */
            errorMessage: string;
        };
        /**
         * Rejection
         * @description A rejection and its reason.
         */
        Rejection: {
            /** @description Must have visible text. Must not contain control or bidirectional formatting characters. */
            reason: string;
        };
        /**
         * Release
         * @description A release. `reportedAt` is null if only telemetry has named the release.
         */
        Release: {
            id: string;
            /** @description Must be a printable version of at most 200 characters, without surrounding spaces. */
            version: string;
            ref: string | null;
            url: string | null;
            releasedAt: string | null;
            reportedAt: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            projects: components["schemas"]["ReleaseInProject"][];
            /** @description Number of commits in the release. */
            commits: number;
        };
        /**
         * ReleaseExtent
         * @description Occurrences of one release.
         */
        ReleaseExtent: {
            count: number;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            firstSeen: string;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            lastSeen: string;
            /** @description `service.version`; null if the attribute is not set. */
            release: string | null;
        };
        /**
         * ReleaseHealthDelta
         * @description Release health before and after.
         */
        ReleaseHealthDelta: {
            before: components["schemas"]["SentNumber"];
            after: components["schemas"]["SentNumber"];
            delta: components["schemas"]["SentNumber"];
            sessions: number;
            significant: boolean;
        };
        /**
         * ReleaseInProject
         * @description A release in one project. `firstSeen`: the time of the first occurrence of an error in the release.
         */
        ReleaseInProject: {
            /** @description Must consist of lowercase letters, digits and inner hyphens. */
            slug: string;
            firstSeen: string | null;
        };
        /**
         * ReleasePage
         * @description A page.
         */
        ReleasePage: {
            data: components["schemas"]["Release"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ReleaseReportResult
         * @description A release, and the effects of the report.
         */
        ReleaseReportResult: {
            id: string;
            /** @description Must be a printable version of at most 200 characters, without surrounding spaces. */
            version: string;
            ref: string | null;
            url: string | null;
            releasedAt: string | null;
            reportedAt: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            projects: components["schemas"]["ReleaseInProject"][];
            /** @description Number of commits in the release. */
            commits: number;
            /** @description Number of commits that Sluice did not know before, or whose files it did not know. */
            commitsUpserted: number;
            /** @description Short ids of issues that the commits name as fixed. */
            issuesResolved: string[];
            /** @description Short ids of issues whose fix a commit reverts. */
            issuesReopened: string[];
        };
        /**
         * Removal
         * @description The password and a code, to confirm that the user is present and has the device.
         */
        Removal: {
            password: string;
            /** @description A six-digit code of an authenticator app, or a recovery code. */
            code: string;
        };
        /**
         * ReportedCommit
         * @description A commit. The first 8 192 characters of its message are stored.
         */
        ReportedCommit: {
            /** @description Must be the complete hash of a commit, in hexadecimal digits. */
            sha: string;
            /** @description Must not contain the character NUL. */
            message: string;
            /** @default null */
            authorName: string | null;
            /** @default null */
            authorEmail: string | null;
            /** @default null */
            authoredAt: string | null;
            /**
             * @description Paths of the changed files. A renamed file has its old and its new path. `null`: not known.
             * @default null
             */
            files: string[] | null;
            /**
             * @description The commit changed more files than are listed.
             * @default false
             */
            filesTruncated: boolean;
            /** @default null */
            url: string | null;
            /**
             * @description Must be the name of a repository, printable and without spaces. The default is the repository of the report.
             * @default null
             */
            repository: string | null;
        };
        /**
         * ReportedState
         * @description The state of a proposal on its platform.
         * @enum {unknown}
         */
        ReportedState: "closed" | "merged" | "open";
        /**
         * ReproFailsOnHead
         * @description A test that reproduces the issue fails without the patch.
         */
        ReproFailsOnHead: {
            testPath: string;
            /** @description Must be `sha256:` followed by 64 lowercase hexadecimal digits. */
            testDigest: string;
            command: string;
            baseCommit: string | null;
            observed: components["schemas"]["TestObservation"];
            exitCode: number | null;
            durationMs: number | null;
            qualification: components["schemas"]["Qualification"];
        };
        /**
         * ReproFailsOnHeadClaim
         * @description A claim: the test that reproduces the issue fails without the patch.
         */
        ReproFailsOnHeadClaim: {
            /** @enum {unknown} */
            kind: "repro_fails_on_head";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["ReproFailsOnHead"];
        };
        /**
         * ReproPassesPostPatch
         * @description The same test passes with the patch.
         */
        ReproPassesPostPatch: {
            testPath: string;
            /** @description Must be `sha256:` followed by 64 lowercase hexadecimal digits. */
            testDigest: string;
            /** @description Must be `sha256:` followed by 64 lowercase hexadecimal digits. */
            patchDigest: string;
            command: string;
            observed: components["schemas"]["TestObservation"];
            exitCode: number | null;
            durationMs: number | null;
        };
        /**
         * ReproPassesPostPatchClaim
         * @description A claim: this test passes with the patch.
         */
        ReproPassesPostPatchClaim: {
            /** @enum {unknown} */
            kind: "repro_passes_post_patch";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["ReproPassesPostPatch"];
        };
        /**
         * RequestList
         * @description Requests, newest first.
         */
        RequestList: {
            data: components["schemas"]["ApprovalRequest"][];
        };
        /**
         * RequestedFigure
         * @description A function, and `filters` that select the spans of a group for it. A null field means the same as a missing
         *         field.
         */
        RequestedFigure: {
            fn: components["schemas"]["Fn"];
            /** @default null */
            field: string | null;
            /** @default null */
            filters: components["schemas"]["WrittenFilter"][] | null;
        };
        /**
         * RequestedLoginLink
         * @description When the link expires.
         */
        RequestedLoginLink: {
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            expiresAt: string;
        };
        /**
         * RequestedVerification
         * @description The address that the secret was mailed to, and the end of its validity.
         */
        RequestedVerification: {
            /** @description Must be an e-mail address. */
            email: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            expiresAt: string;
        };
        /**
         * ResolveOnMerge
         * @description When a merged fix resolves issues: in the project's next release, or at once.
         * @enum {unknown}
         */
        ResolveOnMerge: "next_release" | "now";
        /**
         * Resource
         * @description The entity that produced an item, as received.
         */
        Resource: {
            /** @description Values by key. Each value has its original type. NaN and infinities are strings, and bytes are `{"bytesValue": base64}`. */
            attributes: {
                [key: string]: components["schemas"]["SentJson"];
            };
            /** @description Number of attributes that the client or a limit of Sluice dropped. */
            droppedAttributesCount: number;
            /** @description Null if the field was not sent. */
            schemaUrl: string | null;
            /** @description References to the attributes that identify the entity. */
            entityRefs: unknown[];
        };
        /**
         * ResourceDescriptor
         * @description An artifact. Every key is optional.
         */
        ResourceDescriptor: {
            name?: string;
            uri?: string;
            digest?: {
                [key: string]: string;
            };
            mediaType?: string;
            annotations?: {
                [key: string]: components["schemas"]["SentJson"];
            };
        };
        /**
         * ResourceEnvelope
         * @description The sandbox in which the change was tried.
         */
        ResourceEnvelope: {
            cpus: components["schemas"]["SentNumber"] | null;
            memoryMb: number | null;
            hardKillMs: number | null;
            wallClockMs: number;
            activeMs: number;
            headroomRatio: components["schemas"]["SentNumber"] | null;
            imageDigest: string | null;
            infraErrorClass: string;
            sandboxProvider: string;
            networkIsolation: string;
            egressAllowlist: string[];
            noiseBand: components["schemas"]["NoiseBand"];
        };
        /**
         * ResourceEnvelopeClaim
         * @description A claim: the resource limits of the run, and the resources that it used.
         */
        ResourceEnvelopeClaim: {
            /** @enum {unknown} */
            kind: "resource_envelope";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["ResourceEnvelope"];
        };
        /**
         * ReversalDebt
         * @description The person who must reverse a mitigation, and the deadline.
         */
        ReversalDebt: {
            debtId: string;
            ownerPrincipalId: string;
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            dueAt: string;
            status: string;
            clearedAt: string | null;
        };
        /**
         * RiskClass
         * @description The possible damage of an action, from least to greatest.
         * @enum {unknown}
         */
        RiskClass: "CRITICAL" | "HIGH" | "LOW" | "MEDIUM";
        /**
         * Role
         * @description The role of a principal in one organization, from least to most privileged.
         * @enum {unknown}
         */
        Role: "ADMIN" | "BILLING" | "MEMBER" | "OWNER" | "VIEWER";
        /**
         * RoleChange
         * @description The member's new role.
         */
        RoleChange: {
            role: components["schemas"]["Role"];
        };
        /**
         * Rotation
         * @description How long the old key works alongside the new one.
         */
        Rotation: {
            /** @default 1440 */
            graceMinutes: number;
        };
        /**
         * RunStatus
         * @description The status of a run of one stream. A run that has not ended is SUCCEEDED without an end, because the batches that
         *         it lists are exported.
         * @enum {unknown}
         */
        RunStatus: "FAILED" | "NOT_CONFIGURED" | "SUCCEEDED";
        /**
         * SavedView
         * @description A named address of the page.
         */
        SavedView: {
            id: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description Must be an address of the web page, such as `/ui/default/web/logs?from=now-1h`. It begins with `/ui/`, and each further segment begins with a letter or digit. It must consist of visible ASCII characters, and must not contain `//`, backslashes, quotes, angle brackets or a fragment. */
            path: string;
            shared: boolean;
            /** @description Id of the principal that saved the view. */
            createdBy: string;
            createdByName: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /** @description Whether the caller may delete the view. */
            mayDelete: boolean;
        };
        /**
         * SavedViewPage
         * @description A page.
         */
        SavedViewPage: {
            data: components["schemas"]["SavedView"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ScimErrorBody
         * @description The reason of a refusal: the object of RFC 7644 3.12, with the `error` of all other endpoints.
         */
        ScimErrorBody: {
            schemas: string[];
            status: string;
            detail: string;
            error: {
                [key: string]: components["schemas"]["SentJson"];
            };
            scimType?: string;
        };
        /**
         * ScimSettings
         * @description Settings of the organization's directory.
         */
        ScimSettings: {
            /** @description The member who gets the agents and services of users whom the directory removes. If this is null, or if this member cannot own the agents and services, the agents and services are retired. */
            successorPrincipalId: string | null;
        };
        /**
         * ScimToken
         * @description A token without its secret. `hint` is the end of the secret. The token is valid until the earlier of `expiresAt`
         *         and `revokedAt`.
         */
        ScimToken: {
            id: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            hint: string;
            createdByPrincipalId: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            expiresAt: string | null;
            /** @description Updated at most once per minute. */
            lastUsedAt: string | null;
            /** @description May be in the future if the token was rotated. */
            revokedAt: string | null;
        };
        /**
         * ScimTokenPage
         * @description A page.
         */
        ScimTokenPage: {
            data: components["schemas"]["ScimToken"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * ScimTokenRotation
         * @description The time for which the old token stays valid.
         */
        ScimTokenRotation: {
            /** @default 24 */
            graceHours: number;
        };
        /**
         * ScmResult
         * @description The effects of the event.
         */
        ScmResult: {
            received: boolean;
            /** @description The name that the platform has for the event. */
            event: string;
            /** @description Number of commits that Sluice did not know before, or whose files it did not know. */
            commitsUpserted: number;
            changeEventsCreated: number;
            /** @description `repository#number` of each merged proposal (pull or merge request). */
            proposalsMerged: string[];
            /** @description Short ids of reopened issues. */
            issuesReopened: string[];
            /** @description `repository#number` of each open proposal that is no longer needed, because another proposal has fixed its issue. */
            proposalsSuperseded: string[];
            /**
             * @description Number of commits of the push that the platform did not list, so Sluice does not know them. `null`: there are some, but the platform does not say how many.
             * @default 0
             */
            commitsNotListed: number | null;
        };
        /**
         * Scope
         * @description A permission on one kind of resource. A token may have a subset of the permissions of its holder.
         * @enum {unknown}
         */
        Scope: "approvals:decide" | "approvals:read" | "approvals:write" | "audit:read" | "channels:read" | "channels:write" | "explore:read" | "integrations:read" | "integrations:write" | "issues:read" | "issues:write" | "keys:read" | "keys:write" | "members:read" | "members:write" | "policies:read" | "policies:write" | "projects:read" | "projects:write" | "proofs:read" | "proofs:write" | "releases:read" | "releases:write" | "sinks:export" | "sinks:read" | "sinks:write" | "sso:read" | "sso:write" | "tokens:write" | "views:write";
        /**
         * SecretRotation
         * @description The new secret. If it is left out, Sluice generates one.
         */
        SecretRotation: {
            /** @default null */
            secret: string | null;
            /**
             * @description How long the previous secret stays valid.
             * @default 24
             */
            overlapHours: number;
        };
        /**
         * Selection
         * @description The recorded samples that were selected and replayed.
         */
        Selection: {
            candidatePool: number;
            selected: number;
            replayed: number;
            notReplayed: components["schemas"]["NotReplayed"][];
            criteria: components["schemas"]["SelectionCriterion"][];
            recordedFrom: string | null;
            recordedUntil: string | null;
        };
        /**
         * SelectionCriterion
         * @description A criterion by which samples were selected.
         */
        SelectionCriterion: {
            basis: string;
            samples: number;
            description: string;
        };
        /**
         * Series
         * @description A series with one point for every interval of the range.
         */
        Series: {
            group: string | null;
            points: components["schemas"]["Point"][];
        };
        /**
         * ServiceEdge
         * @description Calls from one service to another, or to itself: their number, how many failed in the called service, and their
         *         mean duration in the called service.
         */
        ServiceEdge: {
            from: string | null;
            to: string | null;
            count: number;
            errors: number;
            /** @description Milliseconds, with nanosecond precision. */
            avgMs: components["schemas"]["SentNumber"];
        };
        /**
         * ServiceExtent
         * @description Occurrences in one service.
         */
        ServiceExtent: {
            count: number;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            firstSeen: string;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            lastSeen: string;
            /** @description `service.name`; null if the attribute is not set. */
            serviceName: string | null;
        };
        /**
         * ServiceMap
         * @description Services and the calls between them. Services with the most spans and edges with the most calls come first.
         */
        ServiceMap: {
            range: components["schemas"]["Range"];
            /** @description 1: all traces were counted, and every number is exact. N: only one in N traces was counted, with all its spans. */
            sample: number;
            nodes: components["schemas"]["ServiceNode"][];
            edges: components["schemas"]["ServiceEdge"][];
            /** @description Whether there are more services or edges than are shown. */
            truncated: boolean;
            scanned: number;
            scanTruncated: boolean;
            limits: components["schemas"]["Limits"];
        };
        /**
         * ServiceNode
         * @description A service and the number of its matching spans. For its matching SERVER and CONSUMER spans: their number, the
         *         number with the status ERROR, and their mean duration. `serviceName` is null for spans without a service name.
         */
        ServiceNode: {
            serviceName: string | null;
            spans: number;
            count: number;
            errors: number;
            avgMs: components["schemas"]["SentNumber"] | null;
        };
        /**
         * SessionMaterial
         * @description A session's credentials and its user.
         */
        SessionMaterial: {
            tokens: components["schemas"]["Tokens"];
            user: components["schemas"]["SessionUser"];
        };
        /**
         * SessionUser
         * @description The session's user.
         */
        SessionUser: {
            id: string;
            /** @description Must be an e-mail address. */
            email: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            avatarUrl: string | null;
            /** @description Must be a language tag, such as en or pt-BR. */
            locale: string;
            /** @enum {unknown} */
            theme: "dark" | "light" | "system";
            emailVerified: boolean;
            mfaEnabled: boolean;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
        };
        /**
         * SessionVerification
         * @description A code of the second factor. With `cookie`, the session's new refresh token goes into the cookie.
         */
        SessionVerification: {
            /**
             * @description Whether the refresh token is in the cookie `__Secure-sluice` instead of the body. Browsers send the cookie only to `/auth` of this origin. If true, the request must have `Sec-Fetch-Site: same-origin`.
             * @default false
             */
            cookie: boolean;
            /** @description A six-digit code of an authenticator app, or a recovery code. */
            code: string;
        };
        /**
         * ShownFigure
         * @description A figure as requested.
         */
        ShownFigure: {
            fn: components["schemas"]["Fn"];
            field: string | null;
            filters: components["schemas"]["WrittenFilter"][];
        };
        /**
         * ShownScimSettings
         * @description The settings, the endpoint, the numbers of provisioned users and groups, and the roles of groups.
         */
        ShownScimSettings: {
            /** @description The member who gets the agents and services of users whom the directory removes. If this is null, or if this member cannot own the agents and services, the agents and services are retired. */
            successorPrincipalId: string | null;
            /** @description The SCIM base URL to enter in the directory. */
            endpoint: string;
            /** @description Number of provisioned users, active or not. */
            users: number;
            /** @description Number of provisioned groups. */
            groups: number;
            /** @description Role of members whose groups are not mapped to a role. */
            defaultRole: components["schemas"]["Role"];
            /** @description Roles by `displayName` or `externalId` of a group, from the SSO connection. */
            roleMapping: {
                [key: string]: components["schemas"]["Role"];
            } | null;
        };
        /**
         * ShownSettings
         * @description The settings, and their effect.
         */
        ShownSettings: {
            /**
             * @description For users who have a second factor in Sluice: whether a login through a provider counts as a login with a second factor. NEVER, ASSERTED (if the provider asserts a second factor), or ALWAYS.
             * @default ASSERTED
             */
            mfaTrust: components["schemas"]["MfaTrust"];
            /**
             * @description Whether personal access tokens of users work while single sign-on is enforced.
             * @default true
             */
            personalTokens: boolean;
            /**
             * @description The owner who may log in with a password while single sign-on is enforced. Null: the first owner with a password.
             * @default null
             */
            breakGlassPrincipalId: string | null;
            /** @description Whether the organization enforces single sign-on. */
            enforced: boolean;
            /** @description The owner who can log in with a password if single sign-on is enforced: `breakGlassPrincipalId`, or the first owner with a password. */
            effectiveBreakGlassPrincipalId: string | null;
            /** @description Protocols of the connections through which a login at the current provider has succeeded. */
            testedProtocols: components["schemas"]["Protocol"][];
            /** @description Protocols of the connections whose provider and certificates an owner has confirmed. Owners can log in through these connections. */
            confirmedByOwner: components["schemas"]["Protocol"][];
        };
        /**
         * Side
         * @description A requested window, and the number of spans counted in it.
         */
        Side: {
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            from: string;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            to: string;
            total: number;
        };
        /**
         * Signature
         * @description A signature: `sig` in base64, and `keyid`, which is a hint. A missing, null and empty `keyid` mean the same.
         *         Other fields are ignored.
         */
        Signature: {
            sig: string;
            keyid?: string | null;
        };
        /**
         * SignatureCheck
         * @description Whether a key of the organization has signed the bundle. `verified` false: the bundle is not signed. `keyStatus`:
         *         the present status of the key. A bundle stays verified when its key expires or is revoked later.
         */
        SignatureCheck: {
            verified: boolean;
            keyId: string | null;
            /** @description The id of the key in the list `/orgs/{orgSlug}/proof-issuers`. */
            issuerKeyId: string | null;
            keyStatus: components["schemas"]["KeyStatus"] | null;
        };
        /**
         * SinkChange
         * @description Changes to a sink. Omitted fields are not changed.
         */
        SinkChange: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name?: string;
            enabled?: boolean;
            /** @description The streams to export. Each is named once. */
            streams?: components["schemas"]["Stream"][];
        };
        /**
         * SinkCheckpoint
         * @description How far a stream is exported. Cursor and times are null if nothing is exported.
         */
        SinkCheckpoint: {
            stream: components["schemas"]["Stream"];
            cursorAt: string | null;
            cursorId: string | null;
            rowsExported: number;
            lastRunAt: string | null;
        };
        /**
         * SinkDeletion
         * @description The sink was deleted. Exported files and rows were not deleted.
         */
        SinkDeletion: {
            deleted: boolean;
        };
        /**
         * SinkKind
         * @description Where a sink exports to.
         * @enum {unknown}
         */
        SinkKind: "BIGQUERY" | "BLOBSTORE" | "SNOWFLAKE";
        /**
         * SinkList
         * @description All sinks of the organization, oldest first.
         */
        SinkList: {
            data: components["schemas"]["WarehouseSink"][];
        };
        /**
         * SinkStatus
         * @description A sink, the progress of its streams, and its last runs, newest first.
         */
        SinkStatus: {
            sink: components["schemas"]["WarehouseSink"];
            checkpoints: components["schemas"]["SinkCheckpoint"][];
            runs: components["schemas"]["ExportRun"][];
        };
        /**
         * SliceProbe
         * @description A probe in a running process, and its approval.
         */
        SliceProbe: {
            probeId: string;
            approvedByPrincipalId: string | null;
            approvedAt: string | null;
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            expiresAt: string;
            maxCaptures: number;
            capturesTaken: number;
            namesApproved: string[];
        };
        /**
         * Source
         * @description The source of a rule, in the order of precedence. An organization's DENY precedes all sources.
         * @enum {unknown}
         */
        Source: "builtin" | "fallback" | "org_policy" | "project_policy";
        /**
         * SourceExtent
         * @description Occurrences from one source.
         */
        SourceExtent: {
            count: number;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            firstSeen: string;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            lastSeen: string;
            /**
             * @description Where the error was recorded: in a span event or in a log record.
             * @enum {string}
             */
            source: "span" | "log";
        };
        /**
         * SourceMap
         * @description A source map. Its content is not shown.
         */
        SourceMap: {
            id: string;
            release: string;
            /** @description Path of the minified file: its URL without origin and query. */
            path: string;
            /** @description The UUID that the map and the minified file have in common. */
            debugId: string | null;
            /** @description SHA-256 of the map as uploaded. */
            digest: string;
            /** @description Size as stored. */
            bytes: number;
            /** @description Id of the principal that uploaded the map. */
            createdBy: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
        };
        /**
         * SourceMapPage
         * @description A page.
         */
        SourceMapPage: {
            data: components["schemas"]["SourceMap"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * Span
         * @description A span in a list: its built-in fields, and the attributes of span, resource and scope as one object.
         */
        Span: {
            /** @description `<traceId>-<spanId>`. */
            id: string;
            /** @description Trace id. */
            traceId: string;
            /** @description Span id, unique within its trace. */
            spanId: string;
            /** @description Null for the root of a trace. */
            parentSpanId: string | null;
            name: string;
            /**
             * @description Span kind.
             * @enum {string}
             */
            kind: "UNSPECIFIED" | "INTERNAL" | "SERVER" | "CLIENT" | "PRODUCER" | "CONSUMER";
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            startTime: string;
            /**
             * Format: date-time
             * @description The end as received. It may be before the start.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            endTime: string;
            /** @description Milliseconds, with nanosecond precision. */
            durationMs: components["schemas"]["SentNumber"];
            /**
             * @description Span status code.
             * @enum {string}
             */
            statusCode: "UNSET" | "OK" | "ERROR";
            /** @description Null if the field was not sent. */
            statusMessage: string | null;
            /** @description `deployment.environment.name`; `unknown` if the attribute was not sent. */
            environment: string;
            /** @description `service.version` of the resource. */
            release: string | null;
            /** @description `service.name` of the resource. */
            serviceName: string | null;
            /** @description The item's own attributes by key, then the attributes of its resource as `resource.<key>` and of its scope as `scope.<key>`. Each value has its original type. NaN and infinities are strings, and bytes are `{"bytesValue": base64}`. */
            attributes: {
                [key: string]: components["schemas"]["SentJson"];
            };
        };
        /**
         * SpanComparison
         * @description The values that are over-represented in the spike, the most significant first. `disclaimer` states the limits of
         *         the comparison.
         */
        SpanComparison: {
            spike: components["schemas"]["Side"];
            baseline: components["schemas"]["Side"];
            attributes: components["schemas"]["Finding"][];
            truncated: boolean;
            pairsConsidered: number;
            minSpikeCount: number;
            disclaimer: string;
        };
        /**
         * SpanDetail
         * @description The full record of the earliest span with the id, and the other spans that have the same id.
         */
        SpanDetail: {
            /** @description `<traceId>-<spanId>`. */
            id: string;
            /** @description Trace id. */
            traceId: string;
            /** @description Span id, unique within its trace. */
            spanId: string;
            /** @description Null for the root of a trace. */
            parentSpanId: string | null;
            name: string;
            /**
             * @description Span kind.
             * @enum {string}
             */
            kind: "UNSPECIFIED" | "INTERNAL" | "SERVER" | "CLIENT" | "PRODUCER" | "CONSUMER";
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            startTime: string;
            /**
             * Format: date-time
             * @description The end as received. It may be before the start.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            endTime: string;
            /** @description Milliseconds, with nanosecond precision. */
            durationMs: components["schemas"]["SentNumber"];
            /**
             * @description Span status code.
             * @enum {string}
             */
            statusCode: "UNSET" | "OK" | "ERROR";
            /** @description Null if the field was not sent. */
            statusMessage: string | null;
            /** @description `deployment.environment.name`; `unknown` if the attribute was not sent. */
            environment: string;
            /** @description `service.version` of the resource. */
            release: string | null;
            /** @description `service.name` of the resource. */
            serviceName: string | null;
            /** @description The item's own attributes by key, then the attributes of its resource as `resource.<key>` and of its scope as `scope.<key>`. Each value has its original type. NaN and infinities are strings, and bytes are `{"bytesValue": base64}`. */
            attributes: {
                [key: string]: components["schemas"]["SentJson"];
            };
            /** @description Null if the field was not sent. */
            traceState: string | null;
            flags: number;
            /** @description Number of attributes that the client or a limit of Sluice dropped. */
            droppedAttributesCount: number;
            events: components["schemas"]["SpanEvent"][];
            droppedEventsCount: number;
            links: components["schemas"]["Link"][];
            droppedLinksCount: number;
            resource: components["schemas"]["Resource"];
            scope: components["schemas"]["InstrumentationScope"];
            /** @description Truncated values, each with a JSON Pointer into this record and its size in bytes as sent. The pointer to a truncated key is the pointer to its attribute, followed by `/#`. Empty if nothing was truncated. */
            truncations: {
                path: string;
                bytes: number;
            }[];
            /** @description Other spans with the same id. */
            alternates: components["schemas"]["SpanRecord"][];
        };
        /**
         * SpanEvent
         * @description An event of a span.
         */
        SpanEvent: {
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            time: string;
            name: string;
            /** @description Values by key. Each value has its original type. */
            attributes: {
                [key: string]: components["schemas"]["SentJson"];
            };
            /** @description Number of attributes that the client or a limit of Sluice dropped. */
            droppedAttributesCount: number;
            /** @description `exception.stacktrace` with frames of the original sources, resolved with the source maps of the release. Absent if no frame has a source map. */
            resolvedStacktrace?: string;
        };
        /**
         * SpanHeatmap
         * @description The spans in `range` whose value is a finite number, by time and by value. Column n begins n times
         *         `columnSeconds` after the beginning of `range`. `rows` ascend without gaps. A cell is an array: column, row, number
         *         of spans, number of spans with the status ERROR. Cells without spans are left out. `under` counts spans whose value
         *         is 0 or less, and `over` counts spans whose value is beyond the scale. `total` is the number of all these spans.
         */
        SpanHeatmap: {
            field: string;
            range: components["schemas"]["Range"];
            /** @description The width of a column. */
            columnSeconds: components["schemas"]["SentNumber"];
            columns: number;
            rows: components["schemas"]["HeatmapRow"][];
            cells: [
                number,
                number,
                number,
                number
            ][];
            under: number;
            over: number;
            total: number;
            scanned: number;
            scanTruncated: boolean;
            limits: components["schemas"]["Limits"];
        };
        /**
         * SpanPage
         * @description A page of spans, newest first.
         */
        SpanPage: {
            data: components["schemas"]["Span"][];
            /** @description Pass this text as `cursor` to get the next page; null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * SpanRecord
         * @description The full record of a span.
         */
        SpanRecord: {
            /** @description `<traceId>-<spanId>`. */
            id: string;
            /** @description Trace id. */
            traceId: string;
            /** @description Span id, unique within its trace. */
            spanId: string;
            /** @description Null for the root of a trace. */
            parentSpanId: string | null;
            name: string;
            /**
             * @description Span kind.
             * @enum {string}
             */
            kind: "UNSPECIFIED" | "INTERNAL" | "SERVER" | "CLIENT" | "PRODUCER" | "CONSUMER";
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            startTime: string;
            /**
             * Format: date-time
             * @description The end as received. It may be before the start.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            endTime: string;
            /** @description Milliseconds, with nanosecond precision. */
            durationMs: components["schemas"]["SentNumber"];
            /**
             * @description Span status code.
             * @enum {string}
             */
            statusCode: "UNSET" | "OK" | "ERROR";
            /** @description Null if the field was not sent. */
            statusMessage: string | null;
            /** @description `deployment.environment.name`; `unknown` if the attribute was not sent. */
            environment: string;
            /** @description `service.version` of the resource. */
            release: string | null;
            /** @description `service.name` of the resource. */
            serviceName: string | null;
            /** @description The item's own attributes by key, then the attributes of its resource as `resource.<key>` and of its scope as `scope.<key>`. Each value has its original type. NaN and infinities are strings, and bytes are `{"bytesValue": base64}`. */
            attributes: {
                [key: string]: components["schemas"]["SentJson"];
            };
            /** @description Null if the field was not sent. */
            traceState: string | null;
            flags: number;
            /** @description Number of attributes that the client or a limit of Sluice dropped. */
            droppedAttributesCount: number;
            events: components["schemas"]["SpanEvent"][];
            droppedEventsCount: number;
            links: components["schemas"]["Link"][];
            droppedLinksCount: number;
            resource: components["schemas"]["Resource"];
            scope: components["schemas"]["InstrumentationScope"];
            /** @description Truncated values, each with a JSON Pointer into this record and its size in bytes as sent. The pointer to a truncated key is the pointer to its attribute, followed by `/#`. Empty if nothing was truncated. */
            truncations: {
                path: string;
                bytes: number;
            }[];
        };
        /**
         * SpanTail
         * @description Spans that have ended; spans that ended last come first. Pass `next` as `after` to get the spans that end later.
         *         `truncated`: some spans were left out, because too many have ended since the previous response, or because it was
         *         more than a minute ago. Later responses do not show them either.
         */
        SpanTail: {
            data: components["schemas"]["Span"][];
            next: string;
            truncated: boolean;
        };
        /**
         * SsoConnection
         * @description A connection to an identity provider.
         */
        SsoConnection: {
            id: string;
            orgId: string;
            protocol: components["schemas"]["Protocol"];
            enabled: boolean;
            enforced: boolean;
            /** @enum {unknown} */
            defaultRole: "ADMIN" | "BILLING" | "MEMBER" | "VIEWER";
            attributeMapping: {
                [key: string]: components["schemas"]["SentJson"];
            } | null;
            roleMapping: {
                [key: string]: "ADMIN" | "BILLING" | "MEMBER" | "VIEWER";
            } | null;
            idpEntityId: string | null;
            idpSsoUrl: string | null;
            idpCertificateConfigured: boolean;
            idpCertificateAlternateCount: number;
            oidcIssuer: string | null;
            oidcClientId: string | null;
            oidcClientSecretConfigured: boolean;
            oidcScopes: string[];
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            updatedAt: string;
        };
        /**
         * SsoSettings
         * @description The organization's settings for all its connections.
         */
        SsoSettings: {
            /**
             * @description For users who have a second factor in Sluice: whether a login through a provider counts as a login with a second factor. NEVER, ASSERTED (if the provider asserts a second factor), or ALWAYS.
             * @default ASSERTED
             */
            mfaTrust: components["schemas"]["MfaTrust"];
            /**
             * @description Whether personal access tokens of users work while single sign-on is enforced.
             * @default true
             */
            personalTokens: boolean;
            /**
             * @description The owner who may log in with a password while single sign-on is enforced. Null: the first owner with a password.
             * @default null
             */
            breakGlassPrincipalId: string | null;
        };
        /**
         * StackFrame
         * @description A frame of the application's own code.
         */
        StackFrame: {
            file: string;
            function: string;
        };
        /**
         * State
         * @description READY: waits for its next attempt. SENDING: an attempt is in flight. All other states are final.
         * @enum {unknown}
         */
        State: "CANCELLED" | "DEAD" | "DONE" | "READY" | "SENDING";
        /**
         * StateSlice
         * @description The values that led to an error.
         */
        StateSlice: {
            /** @enum {unknown} */
            origin: "probe" | "throw";
            file: string;
            line: number;
            faultExpression: string;
            valuesCaptured: number;
            valuesWithheld: number;
            withheldByPolicy: number;
            analysisComplete: boolean;
            incompletenessReasons: string[];
            redactionShapes: string[];
            /** @description Must be `sha256:` followed by 64 lowercase hexadecimal digits. */
            sliceDigest: string;
            scrubTiers: string[];
            probe: components["schemas"]["SliceProbe"] | null;
        };
        /**
         * StateSliceClaim
         * @description A claim: a state of the program was captured.
         */
        StateSliceClaim: {
            /** @enum {unknown} */
            kind: "state_slice";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["StateSlice"];
        };
        /**
         * Statement
         * @description An in-toto Statement v1 with an ai-authored-change predicate.
         */
        Statement: {
            /** @enum {unknown} */
            _type: "https://in-toto.io/Statement/v1";
            subject: components["schemas"]["ResourceDescriptor"][];
            /** @enum {unknown} */
            predicateType: "urn:sluice:ai-authored-change:0.1.0";
            predicate: components["schemas"]["AiAuthoredChange"];
        };
        /**
         * Status
         * @description State of a request. All states except PENDING are final.
         * @enum {unknown}
         */
        Status: "APPROVED" | "EXPIRED" | "PENDING" | "REJECTED";
        /**
         * StoredDelivery
         * @description A delivery: one message to one channel. `failure` is the failure of the last attempt. `detail` is human-readable.
         *
         *         The content of messages about approvals and issues requires the scope to read approvals or issues. Without it,
         *         `subject` and `title` are null.
         */
        StoredDelivery: {
            id: string;
            orgId: string;
            channelId: string;
            kind: components["schemas"]["Kind"];
            /** @description Type of the message, such as `approval.requested` or `channel.test`. */
            type: string;
            /** @description Id of the object that the message is about. */
            subject: string | null;
            title: string | null;
            /** @description READY: the delivery waits for its next attempt. SENDING: an attempt is in flight. DONE: delivered. DEAD: failed permanently, or in the last attempt. CANCELLED: the message is obsolete, or the channel was disabled or deleted. */
            state: components["schemas"]["State"];
            /** @description Number of attempts with a result. */
            attempts: number;
            detail: string | null;
            failure: components["schemas"]["Failure"] | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            attemptedAt: string | null;
            nextAttemptAt: string | null;
            endedAt: string | null;
        };
        /**
         * Stream
         * @description The streams to export. Each has its own schema (`control.export.streams.schemas`).
         * @enum {unknown}
         */
        Stream: "ERROR_ESSENCES" | "INGEST_OUTCOMES" | "ISSUE_ROLLUPS" | "RELEASE_HEALTH_ROLLUPS";
        /**
         * Subject
         * @description The subject of the bundle.
         */
        Subject: {
            orgSlug: string;
            projectSlug: string;
            issueId: string;
            issueShortId: string;
            fingerprint: string;
            title: string;
            runId: string;
            proposalId: string;
            patch: components["schemas"]["Patch"];
            repository: string | null;
            commit: string | null;
            commitCheckedOut: boolean;
        };
        /**
         * Submitter
         * @description The submitter of the patch.
         */
        Submitter: {
            principalId: string | null;
            kind: components["schemas"]["ActorKind"];
            authenticatedBy: string;
        };
        /**
         * Subscription
         * @description The organization's subscription at the payment processor.
         */
        Subscription: {
            /** @description Name of the plan. `null` if the organization has had none so far. */
            plan: string | null;
            /** @description Status at the payment processor, such as `active` or `past_due`. */
            status: string;
            /** @description Monthly quota of the plan. 0: unlimited. `null`: no plan has set a quota so far. */
            monthlyItems: number | null;
            /** @description When the paid period ends. */
            currentPeriodEnd: string | null;
        };
        /**
         * SuiteGreen
         * @description The test suite passes.
         */
        SuiteGreen: {
            /** @enum {unknown} */
            scope: "affected" | "full" | "none";
            command: string | null;
            passed: boolean;
            exitCode: number | null;
            durationMs: number;
            testsRun: number | null;
            testsFailed: number | null;
            decidingTest: string | null;
        };
        /**
         * SuiteGreenClaim
         * @description A claim: the test suite passes.
         */
        SuiteGreenClaim: {
            /** @enum {unknown} */
            kind: "suite_green";
            /** @description Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`. */
            claimId: string;
            statement: string;
            status: components["schemas"]["ClaimStatus"];
            /** @description Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second. */
            recordedAt: string;
            disclosures: string[];
            recheck: components["schemas"]["RecheckHandle"] | null;
            evidence: components["schemas"]["SuiteGreen"];
        };
        /**
         * SuspectCommit
         * @description A commit that may have caused the issue.
         */
        SuspectCommit: {
            repository: string;
            sha: string;
            message: string;
            authorName: string | null;
            authorEmail: string | null;
            authoredAt: string | null;
            url: string | null;
            files: string[] | null;
            /** @description The commit changed more files than are listed. */
            filesTruncated: boolean;
            /** @description Above 0. Comparable only within one response. */
            score: components["schemas"]["SentNumber"];
            reasons: components["schemas"]["SuspectReason"][];
        };
        /**
         * SuspectReason
         * @description The commit changed the file of a frame. `rank` 0 is the application's innermost frame.
         */
        SuspectReason: {
            frame: components["schemas"]["StackFrame"];
            file: string;
            rank: number;
        };
        /**
         * Switch
         * @description The organization to switch to, and the refresh token of the session. With `cookie`, the cookie has the token.
         */
        Switch: {
            /** @default null */
            refreshToken: string | null;
            /**
             * @description Whether the refresh token is in the cookie `__Secure-sluice` instead of the body. Browsers send the cookie only to `/auth` of this origin. If true, the request must have `Sec-Fetch-Site: same-origin`.
             * @default false
             */
            cookie: boolean;
            /** @description Must consist of lowercase letters, digits and inner hyphens. */
            orgSlug: string;
        };
        /**
         * TestObservation
         * @description The result of a test.
         * @enum {unknown}
         */
        TestObservation: "ERRORED" | "FAILED" | "NOT_RUN" | "PASSED";
        /**
         * Token
         * @description A personal access token, without its secret. `scopes` null: all scopes of its holder's roles.
         */
        Token: {
            id: string;
            principalId: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            /** @description The last four characters of the secret. */
            hint: string;
            scopes: string[] | null;
            /** @description The principal on whose behalf the holder acts (RFC 8693). */
            onBehalfOfPrincipalId: string | null;
            /** @description Delegation chain (RFC 8693), the holder first. */
            actChain: string[];
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            expiresAt: string | null;
            /** @description Updated at most once per minute. */
            lastUsedAt: string | null;
            revokedAt: string | null;
        };
        /**
         * TokenPage
         * @description A page.
         */
        TokenPage: {
            data: components["schemas"]["Token"][];
            /** @description The `cursor` of the next page. Null on the last page. */
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * Tokens
         * @description Credentials of a session.
         */
        Tokens: {
            /** @description A JWT, for `Authorization: Bearer`. */
            accessToken: string;
            /** @description Can be used once: `/auth/refresh` returns the next refresh token. Empty if the refresh token is in the cookie. */
            refreshToken: string;
            /** @description Seconds until the access token expires. */
            expiresIn: number;
            /**
             * @default Bearer
             * @enum {unknown}
             */
            tokenType: "Bearer";
        };
        /**
         * TraceColumns
         * @description The columns of the rows: each has one value for each row, depth first.
         */
        TraceColumns: {
            spanId: string[];
            /** @description Row of the parent; -1 for a root and for an orphan. */
            parent: number[];
            depth: number[];
            name: number[];
            service: number[];
            kind: number[];
            status: number[];
            statusMessage: number[];
            release: number[];
            environment: number[];
            /** @description Nanoseconds since `startTime` of the trace. */
            startOffsetNs: number[];
            durationNs: number[];
            /** @description The part of the duration that is not covered by children, in nanoseconds. */
            selfTimeNs: number[];
            /** @description Number of events. */
            events: number[];
            /** @description Number of links. */
            links: number[];
            /** @description Number of children. */
            children: number[];
            /** @description 1: the parent of the span is not in the trace, or the span is its own ancestor. Otherwise 0. */
            orphan: number[];
        };
        /**
         * TraceItem
         * @description A trace with all its spans, also spans outside of the window.
         */
        TraceItem: {
            /** @description Trace id. */
            traceId: string;
            root: components["schemas"]["TraceRoot"] | null;
            /**
             * Format: date-time
             * @description UTC time with nanosecond precision.
             * @example 2026-11-20T15:17:03.123456789Z
             */
            startTime: string;
            /** @description Milliseconds, with nanosecond precision. */
            durationMs: components["schemas"]["SentNumber"];
            spanCount: number;
            errorCount: number;
            /** @description The services of the trace, in descending order of their number of spans. */
            services: string[];
            serviceCount: number;
            /** @description Number of stored spans of the trace that are in the window and match the filters. */
            matched: number;
        };
        /**
         * TracePage
         * @description A page of traces.
         */
        TracePage: {
            data: components["schemas"]["TraceItem"][];
            nextCursor: string | null;
            hasMore: boolean;
        };
        /**
         * TraceRoot
         * @description The earliest span without a parent.
         */
        TraceRoot: {
            /** @description Span id, unique within its trace. */
            spanId: string;
            name: string;
            serviceName: string | null;
            /**
             * @description Span kind.
             * @enum {string}
             */
            kind: "UNSPECIFIED" | "INTERNAL" | "SERVER" | "CLIENT" | "PRODUCER" | "CONSUMER";
            /**
             * @description Span status code.
             * @enum {string}
             */
            statusCode: "UNSET" | "OK" | "ERROR";
        };
        /**
         * TraceTable
         * @description A trace, or the subtree of `root`, as columns.
         */
        TraceTable: {
            /** @description Trace id. */
            traceId: string;
            root: string | null;
            /** @description Number of spans in the trace, including those not shown. */
            spanCount: number;
            orphanCount: number;
            maxDepth: number;
            startTime: string | null;
            endTime: string | null;
            /** @description Milliseconds, with nanosecond precision. */
            durationMs: components["schemas"]["SentNumber"];
            services: string[];
            /** @description Whether only the earliest spans are shown. */
            truncated: boolean;
            rows: number;
            columns: components["schemas"]["TraceColumns"];
            strings: string[];
        };
        /**
         * TrackedIssue
         * @description An error group with its state and history. Counts and times include all occurrences that were stored since the
         *         issue was created, however old the occurrences are.
         */
        TrackedIssue: {
            id: string;
            /**
             * @description The name of the issue in commit messages.
             * @example CHECKOUT-12
             */
            shortId: string;
            projectId: string;
            /** @description Identifies the error in explore. */
            fingerprint: string;
            /** @description All fingerprints that lead to the issue, at most 50. A merge, or an upgrade of the grouping rules, adds fingerprints. Explore lists occurrences by fingerprint. */
            fingerprints: string[];
            title: string;
            /** @description `exception.type`. */
            type: string | null;
            /** @description The innermost stack frame of the application's own code. */
            culprit: string | null;
            status: components["schemas"]["IssueStatus"];
            resolvedAt: string | null;
            /** @description The release in which the issue was fixed. An occurrence in this release or a later one reopens the issue. */
            resolvedInRelease: string | null;
            /** @description The issue is resolved in the release that follows this release. An occurrence in a release later than this release reopens the issue. */
            resolvedAfterRelease: string | null;
            ignoredUntil: string | null;
            /** @description The issue is unresolved again when `count` reaches this number. */
            ignoredUntilCount: number | null;
            assigneePrincipalId: string | null;
            /** @description When an occurrence last reopened the issue. */
            regressedAt: string | null;
            count: number;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            firstSeen: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            lastSeen: string;
            /** @description The release of the first occurrence. */
            firstRelease: string | null;
            /** @description The release of the last occurrence. */
            lastRelease: string | null;
            /** @description The issue into which this issue was merged, and which counts all further occurrences. */
            mergedInto: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            updatedAt: string;
        };
        /**
         * Unready
         * @description The state of every dependency, and the error in the shape of every error response.
         */
        Unready: {
            /** @enum {unknown} */
            status: "unavailable";
            /** @description The service; `sluice` if one process runs all of them. */
            service: string;
            dependencies: components["schemas"]["Probe"][];
            error: components["schemas"]["ErrorBody"];
        };
        /**
         * UntrackedErrors
         * @description Occurrences of errors that got no issue because the project had too many new issues. Explore shows these
         *         occurrences.
         */
        UntrackedErrors: {
            occurrences: number;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            since: string;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            last: string;
        };
        /**
         * UploadedSourceMap
         * @description A source map, and the releases whose maps were removed to make room for it.
         */
        UploadedSourceMap: {
            id: string;
            release: string;
            /** @description Path of the minified file: its URL without origin and query. */
            path: string;
            /** @description The UUID that the map and the minified file have in common. */
            debugId: string | null;
            /** @description SHA-256 of the map as uploaded. */
            digest: string;
            /** @description Size as stored. */
            bytes: number;
            /** @description Id of the principal that uploaded the map. */
            createdBy: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
            /** @description Releases whose source maps were removed to make room for this source map. */
            removedReleases: string[];
        };
        /**
         * UserChange
         * @description Changes to the account. Omitted fields are not changed.
         */
        UserChange: {
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name?: string;
            /** @description Must be a language tag, such as en or pt-BR. */
            locale?: string;
            /** @enum {unknown} */
            theme?: "dark" | "light" | "system";
            avatarUrl?: string | null;
        };
        /**
         * ValidationResult
         * @description The result that submitting the bundle would have. `valid`: the shape is right, the signature counts, and there is
         *         no error. `signature` null: not checked, because the body is not an envelope or no signature counts.
         */
        ValidationResult: {
            valid: boolean;
            signature: components["schemas"]["SignatureCheck"] | null;
            errors: components["schemas"]["FindingBody"][];
            warnings: components["schemas"]["FindingBody"][];
        };
        /**
         * ValueCount
         * @description A value, and the number of spans (or log records) with this value among those that were read.
         */
        ValueCount: {
            value: string;
            count: number;
        };
        /**
         * Verdict
         * @description Content of a vote.
         * @enum {unknown}
         */
        Verdict: "APPROVE" | "REJECT";
        /**
         * Verification
         * @description A copy of the result of the bundle.
         */
        Verification: {
            tier: components["schemas"]["ProofTier"];
            verdict: components["schemas"]["ProofVerdict"];
            billable: boolean;
            specUri: string;
        };
        /**
         * VerificationConfirmation
         * @description The secret in the mail, and the new password of the account.
         */
        VerificationConfirmation: {
            token: string;
            password: string;
        };
        /**
         * VerifierIndependence
         * @description The other roles of the bundle's issuer, besides verification.
         */
        VerifierIndependence: {
            patchAuthoredByIssuer: boolean;
            reproAuthoredByIssuer: boolean;
            sandboxOperatedByIssuer: boolean;
        };
        /**
         * VoteResult
         * @description The request after a vote, and the count of its votes.
         */
        VoteResult: {
            request: components["schemas"]["ApprovalRequest"];
            approvals: number;
            /** @description Approvals still required. */
            remaining: number;
            hasIndependentApprover: boolean;
            /** @description True if the caller had already cast this vote. The request was then not changed. */
            idempotent: boolean;
        };
        /**
         * WarehouseSink
         * @description A sink. Its config is never shown.
         */
        WarehouseSink: {
            id: string;
            orgId: string;
            name: string;
            kind: components["schemas"]["SinkKind"];
            enabled: boolean;
            streams: components["schemas"]["Stream"][];
            configured: boolean;
            /** @description The steps that are missing before the sink can export. `null` if the sink is configured. */
            notConfiguredReason: string | null;
            /**
             * @description `stored`: sinks export the stored data, which was scrubbed before it was stored.
             * @enum {unknown}
             */
            scrubTier: "stored";
            createdByPrincipalId: string | null;
            /**
             * Format: date-time
             * @description RFC 3339 time in UTC, with milliseconds.
             */
            createdAt: string;
        };
        /**
         * Waterfall
         * @description A trace laid out as rows, depth first.
         */
        Waterfall: {
            /** @description Trace id. */
            traceId: string;
            /** @description Number of spans in the trace, including those not shown. */
            spanCount: number;
            orphanCount: number;
            maxDepth: number;
            startTime: string | null;
            endTime: string | null;
            /** @description Milliseconds, with nanosecond precision. */
            durationMs: components["schemas"]["SentNumber"];
            services: string[];
            /** @description Whether only the earliest spans are shown. */
            truncated: boolean;
            rows: components["schemas"]["WaterfallRow"][];
        };
        /**
         * WaterfallRow
         * @description A span as a row of the waterfall.
         */
        WaterfallRow: {
            /** @description Span id, unique within its trace. */
            spanId: string;
            /** @description The parent as received; null for a root. */
            parentSpanId: string | null;
            name: string;
            /**
             * @description Span kind.
             * @enum {string}
             */
            kind: "UNSPECIFIED" | "INTERNAL" | "SERVER" | "CLIENT" | "PRODUCER" | "CONSUMER";
            serviceName: string | null;
            /**
             * @description Span status code.
             * @enum {string}
             */
            statusCode: "UNSET" | "OK" | "ERROR";
            depth: number;
            /** @description Milliseconds from the start of the trace to the start of the span. */
            offsetMs: components["schemas"]["SentNumber"];
            /** @description Milliseconds, with nanosecond precision. */
            durationMs: components["schemas"]["SentNumber"];
            /** @description Offset divided by the duration of the trace. */
            offsetRatio: components["schemas"]["SentNumber"];
            /** @description Duration divided by the duration of the trace. */
            widthRatio: components["schemas"]["SentNumber"];
            /** @description The part of the duration that is not covered by children, in milliseconds. */
            selfTimeMs: components["schemas"]["SentNumber"];
            /** @description Whether the parent of the span is not in the trace, or the span is its own ancestor. */
            orphan: boolean;
            /** @description The item's own attributes by key, then the attributes of its resource as `resource.<key>` and of its scope as `scope.<key>`. Each value has its original type. NaN and infinities are strings, and bytes are `{"bytesValue": base64}`. */
            attributes: {
                [key: string]: components["schemas"]["SentJson"];
            };
        };
        /**
         * Whoami
         * @description The caller, and the permissions of the credential. A session whose second factor is pending (`mfaPending`) has
         *         only `principal`, `session` and `mfaPending`. `POST /auth/totp/verify` accepts the code.
         */
        Whoami: {
            principal: components["schemas"]["WhoamiPrincipal"];
            /** @description Whether the credential is a session. */
            session: boolean;
            /** @description Whether the second factor of the session is pending. */
            mfaPending: boolean;
            /** @description Null if the caller is no longer a member of the organization. */
            role?: components["schemas"]["Role"] | null;
            /** @description Scopes of the credential. */
            scopes?: components["schemas"]["Scope"][];
            organization?: components["schemas"]["WhoamiOrganization"];
            /** @description Sorted by slug. */
            projects?: components["schemas"]["WhoamiProject"][];
            /** @description Whether the user has a password. Null for other principals. */
            passwordSet?: boolean | null;
        };
        /**
         * WhoamiOrganization
         * @description The organization of the credential.
         */
        WhoamiOrganization: {
            id: string;
            /** @description Must consist of lowercase letters, digits and inner hyphens. */
            slug: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
        };
        /**
         * WhoamiPrincipal
         * @description The caller. `email` is absent while the second factor of the session is pending.
         */
        WhoamiPrincipal: {
            id: string;
            kind: components["schemas"]["PrincipalKind"];
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
            email?: string | null;
        };
        /**
         * WhoamiProject
         * @description A project that the caller may see.
         */
        WhoamiProject: {
            id: string;
            /** @description Must consist of lowercase letters, digits and inner hyphens. */
            slug: string;
            /** @description Must consist of printable characters, without leading or trailing spaces. */
            name: string;
        };
        /**
         * WrittenFilter
         * @description A filter in JSON: either `key` and `op`, or a group `any`, which matches if one of its filters matches. `value`:
         *         omit it for exists and not_exists. Only in and not_in accept a list.
         */
        WrittenFilter: {
            /** @default null */
            key: string | null;
            /** @default null */
            op: components["schemas"]["Op"] | null;
            /**
             * @description Each value has at most 1024 characters. in and not_in also accept one comma-separated string. A number or boolean means the same as its text.
             * @default null
             */
            value: string | number | components["schemas"]["SentNumber"] | boolean | (string | number | components["schemas"]["SentNumber"] | boolean)[] | null;
            /** @default null */
            any: components["schemas"]["Alternative"][] | null;
        };
        /** Num */
        SentNumber: Num;
        /** Json */
        SentJson: Json;
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type Acceptance = components['schemas']['Acceptance'];
export type AccountLink = components['schemas']['AccountLink'];
export type ActChainLink = components['schemas']['ActChainLink'];
export type ActivityKind = components['schemas']['ActivityKind'];
export type ActorKind = components['schemas']['ActorKind'];
export type Agent = components['schemas']['Agent'];
export type Aggregate = components['schemas']['Aggregate'];
export type AggregateRequest = components['schemas']['AggregateRequest'];
export type AiAuthoredChange = components['schemas']['AiAuthoredChange'];
export type Alive = components['schemas']['Alive'];
export type Alternative = components['schemas']['Alternative'];
export type Approval = components['schemas']['Approval'];
export type ApprovalInbox = components['schemas']['ApprovalInbox'];
export type ApprovalPolicy = components['schemas']['ApprovalPolicy'];
export type ApprovalRefusals = components['schemas']['ApprovalRefusals'];
export type ApprovalRequest = components['schemas']['ApprovalRequest'];
export type ApprovalView = components['schemas']['ApprovalView'];
export type ApprovalViewer = components['schemas']['ApprovalViewer'];
export type ApprovalVote = components['schemas']['ApprovalVote'];
export type Approver = components['schemas']['Approver'];
export type ApproverIdentity = components['schemas']['ApproverIdentity'];
export type ApproverIdentityClaim = components['schemas']['ApproverIdentityClaim'];
export type AssertionPost = components['schemas']['AssertionPost'];
export type Attestation = components['schemas']['Attestation'];
export type AttributeValues = components['schemas']['AttributeValues'];
export type AuthorKind = components['schemas']['AuthorKind'];
export type Basis = components['schemas']['Basis'];
export type BehavioralDiff = components['schemas']['BehavioralDiff'];
export type BehavioralDiffClaim = components['schemas']['BehavioralDiffClaim'];
export type BlastRadius = components['schemas']['BlastRadius'];
export type BlastRadiusContainment = components['schemas']['BlastRadiusContainment'];
export type BlastRadiusContainmentClaim = components['schemas']['BlastRadiusContainmentClaim'];
export type Builder = components['schemas']['Builder'];
export type BundleLinks = components['schemas']['BundleLinks'];
export type Challenge = components['schemas']['Challenge'];
export type ChallengeError = components['schemas']['ChallengeError'];
export type ChallengeErrorBody = components['schemas']['ChallengeErrorBody'];
export type Change = components['schemas']['Change'];
export type ChangeAuthor = components['schemas']['ChangeAuthor'];
export type ChangeEvent = components['schemas']['ChangeEvent'];
export type ChangeEventPage = components['schemas']['ChangeEventPage'];
export type ChangeKind = components['schemas']['ChangeKind'];
export type ChangePage = components['schemas']['ChangePage'];
export type ChangeProposal = components['schemas']['ChangeProposal'];
export type ChannelChange = components['schemas']['ChannelChange'];
export type ChannelEvent = components['schemas']['ChannelEvent'];
export type ChannelNotification = components['schemas']['ChannelNotification'];
export type ChannelPage = components['schemas']['ChannelPage'];
export type ChannelScope = components['schemas']['ChannelScope'];
export type ChannelSubscriptions = components['schemas']['ChannelSubscriptions'];
export type ChannelTest = components['schemas']['ChannelTest'];
export type ChatLink = components['schemas']['ChatLink'];
export type ChatLinkCode = components['schemas']['ChatLinkCode'];
export type ChatLinkPage = components['schemas']['ChatLinkPage'];
export type ChatPlatform = components['schemas']['ChatPlatform'];
export type ClaimStatus = components['schemas']['ClaimStatus'];
export type ClassificationBasis = components['schemas']['ClassificationBasis'];
export type Code = components['schemas']['Code'];
export type CodeExchange = components['schemas']['CodeExchange'];
export type ColumnType = components['schemas']['ColumnType'];
export type CommandAnswer = components['schemas']['CommandAnswer'];
export type Commit = components['schemas']['Commit'];
export type CommitPage = components['schemas']['CommitPage'];
export type CompareRequest = components['schemas']['CompareRequest'];
export type CompareWindow = components['schemas']['CompareWindow'];
export type CompletedLogin = components['schemas']['CompletedLogin'];
export type ConfigReplacement = components['schemas']['ConfigReplacement'];
export type Confirmation = components['schemas']['Confirmation'];
export type ConnectionChange = components['schemas']['ConnectionChange'];
export type ConnectionDryRun = components['schemas']['ConnectionDryRun'];
export type ConnectionDryRunResult = components['schemas']['ConnectionDryRunResult'];
export type ConnectionList = components['schemas']['ConnectionList'];
export type Coverage = components['schemas']['Coverage'];
export type CreditBack = components['schemas']['CreditBack'];
export type Decision = components['schemas']['Decision'];
export type DeclaredAuthor = components['schemas']['DeclaredAuthor'];
export type Deleted = components['schemas']['Deleted'];
export type DeliveryPage = components['schemas']['DeliveryPage'];
export type DeliveryStatus = components['schemas']['DeliveryStatus'];
export type DiffFinding = components['schemas']['DiffFinding'];
export type DisconnectedDirectory = components['schemas']['DisconnectedDirectory'];
export type DivergenceLocalization = components['schemas']['DivergenceLocalization'];
export type DivergenceLocalizationClaim = components['schemas']['DivergenceLocalizationClaim'];
export type DivergencePoint = components['schemas']['DivergencePoint'];
export type Domain = components['schemas']['Domain'];
export type DomainList = components['schemas']['DomainList'];
export type DryRun = components['schemas']['DryRun'];
export type DryRunResult = components['schemas']['DryRunResult'];
export type DurabilityWindow = components['schemas']['DurabilityWindow'];
export type DurabilityWindowClaim = components['schemas']['DurabilityWindowClaim'];
export type Effect = components['schemas']['Effect'];
export type EnvelopeBody = components['schemas']['EnvelopeBody'];
export type EnvironmentExtent = components['schemas']['EnvironmentExtent'];
export type EquivalentMutant = components['schemas']['EquivalentMutant'];
export type Erasure = components['schemas']['Erasure'];
export type ErasureDetails = components['schemas']['ErasureDetails'];
export type ErasureExport = components['schemas']['ErasureExport'];
export type ErasureKind = components['schemas']['ErasureKind'];
export type ErasurePage = components['schemas']['ErasurePage'];
export type ErasureState = components['schemas']['ErasureState'];
export type Error = components['schemas']['Error'];
export type ErrorBody = components['schemas']['ErrorBody'];
export type ErrorCode = components['schemas']['ErrorCode'];
export type ErrorHistory = components['schemas']['ErrorHistory'];
export type ErrorIssue = components['schemas']['ErrorIssue'];
export type ErrorOrder = components['schemas']['ErrorOrder'];
export type ErrorPage = components['schemas']['ErrorPage'];
export type Event = components['schemas']['Event'];
export type EventAnswer = components['schemas']['EventAnswer'];
export type EventPage = components['schemas']['EventPage'];
export type ExportRequest = components['schemas']['ExportRequest'];
export type ExportResult = components['schemas']['ExportResult'];
export type ExportRun = components['schemas']['ExportRun'];
export type ExportedLogs = components['schemas']['ExportedLogs'];
export type ExportedRun = components['schemas']['ExportedRun'];
export type ExportedTraces = components['schemas']['ExportedTraces'];
export type Failure = components['schemas']['Failure'];
export type Figures = components['schemas']['Figures'];
export type FiguresGroup = components['schemas']['FiguresGroup'];
export type FiguresPoint = components['schemas']['FiguresPoint'];
export type FiguresRequest = components['schemas']['FiguresRequest'];
export type FiguresSeries = components['schemas']['FiguresSeries'];
export type Finding = components['schemas']['Finding'];
export type FindingBody = components['schemas']['FindingBody'];
export type FlakeFreedom = components['schemas']['FlakeFreedom'];
export type FlakeFreedomClaim = components['schemas']['FlakeFreedomClaim'];
export type Fn = components['schemas']['Fn'];
export type Group = components['schemas']['Group'];
export type Handoff = components['schemas']['Handoff'];
export type HandoffCode = components['schemas']['HandoffCode'];
export type HeatmapRequest = components['schemas']['HeatmapRequest'];
export type HeatmapRow = components['schemas']['HeatmapRow'];
export type HistoryPoint = components['schemas']['HistoryPoint'];
export type HumanApproval = components['schemas']['HumanApproval'];
export type InboundDelivery = components['schemas']['InboundDelivery'];
export type InboundDeliveryPage = components['schemas']['InboundDeliveryPage'];
export type InstrumentationScope = components['schemas']['InstrumentationScope'];
export type IntegrationBody = components['schemas']['IntegrationBody'];
export type IntegrationChange = components['schemas']['IntegrationChange'];
export type IntegrationConfig = components['schemas']['IntegrationConfig'];
export type IntegrationKind = components['schemas']['IntegrationKind'];
export type IntegrationPage = components['schemas']['IntegrationPage'];
export type IntegrationResult = components['schemas']['IntegrationResult'];
export type IntegrationWithSecret = components['schemas']['IntegrationWithSecret'];
export type InteractionAnswer = components['schemas']['InteractionAnswer'];
export type InteractionData = components['schemas']['InteractionData'];
export type InteractivityAnswer = components['schemas']['InteractivityAnswer'];
export type Invitation = components['schemas']['Invitation'];
export type InvitationPage = components['schemas']['InvitationPage'];
export type Issue = components['schemas']['Issue'];
export type IssueActivity = components['schemas']['IssueActivity'];
export type IssueActivityPage = components['schemas']['IssueActivityPage'];
export type IssueChange = components['schemas']['IssueChange'];
export type IssueLink = components['schemas']['IssueLink'];
export type IssueLinkChange = components['schemas']['IssueLinkChange'];
export type IssueLinkPage = components['schemas']['IssueLinkPage'];
export type IssueMerge = components['schemas']['IssueMerge'];
export type IssuePage = components['schemas']['IssuePage'];
export type IssueSort = components['schemas']['IssueSort'];
export type IssueStatus = components['schemas']['IssueStatus'];
export type IssueSuspects = components['schemas']['IssueSuspects'];
export type Issuer = components['schemas']['Issuer'];
export type IssuerKeyBody = components['schemas']['IssuerKeyBody'];
export type IssuerKeyChange = components['schemas']['IssuerKeyChange'];
export type IssuerKeyList = components['schemas']['IssuerKeyList'];
export type IssuerKeyRevocation = components['schemas']['IssuerKeyRevocation'];
export type Jwk = components['schemas']['Jwk'];
export type Key = components['schemas']['Key'];
export type KeyAlgorithm = components['schemas']['KeyAlgorithm'];
export type KeyChange = components['schemas']['KeyChange'];
export type KeyPage = components['schemas']['KeyPage'];
export type KeySet = components['schemas']['KeySet'];
export type KeyStatus = components['schemas']['KeyStatus'];
export type Keys = components['schemas']['Keys'];
export type Kind = components['schemas']['Kind'];
export type Limits = components['schemas']['Limits'];
export type Link = components['schemas']['Link'];
export type LinkState = components['schemas']['LinkState'];
export type LinkedIdentity = components['schemas']['LinkedIdentity'];
export type LinkedIdentityPage = components['schemas']['LinkedIdentityPage'];
export type ListedErrorGroup = components['schemas']['ListedErrorGroup'];
export type Log = components['schemas']['Log'];
export type LogContext = components['schemas']['LogContext'];
export type LogCounts = components['schemas']['LogCounts'];
export type LogCountsRequest = components['schemas']['LogCountsRequest'];
export type LogGroup = components['schemas']['LogGroup'];
export type LogKey = components['schemas']['LogKey'];
export type LogKeys = components['schemas']['LogKeys'];
export type LogPage = components['schemas']['LogPage'];
export type LogPart = components['schemas']['LogPart'];
export type LogPoint = components['schemas']['LogPoint'];
export type LogSeries = components['schemas']['LogSeries'];
export type LogTail = components['schemas']['LogTail'];
export type Login = components['schemas']['Login'];
export type LoginLinkRequest = components['schemas']['LoginLinkRequest'];
export type LoginUser = components['schemas']['LoginUser'];
export type MadeInvitation = components['schemas']['MadeInvitation'];
export type MadeKey = components['schemas']['MadeKey'];
export type MadeScimToken = components['schemas']['MadeScimToken'];
export type MadeToken = components['schemas']['MadeToken'];
export type MatchingRule = components['schemas']['MatchingRule'];
export type Member = components['schemas']['Member'];
export type MemberPage = components['schemas']['MemberPage'];
export type MfaTrust = components['schemas']['MfaTrust'];
export type MitigationApplied = components['schemas']['MitigationApplied'];
export type MitigationAppliedClaim = components['schemas']['MitigationAppliedClaim'];
export type MitigationApproval = components['schemas']['MitigationApproval'];
export type MitigationInverse = components['schemas']['MitigationInverse'];
export type MitigationVerification = components['schemas']['MitigationVerification'];
export type ModelAttribution = components['schemas']['ModelAttribution'];
export type ModelAttributionClaim = components['schemas']['ModelAttributionClaim'];
export type MutationPinScore = components['schemas']['MutationPinScore'];
export type MutationPinScoreClaim = components['schemas']['MutationPinScoreClaim'];
export type NewChange = components['schemas']['NewChange'];
export type NewChannel = components['schemas']['NewChannel'];
export type NewDomain = components['schemas']['NewDomain'];
export type NewFilterErasure = components['schemas']['NewFilterErasure'];
export type NewFingerprint = components['schemas']['NewFingerprint'];
export type NewIntegration = components['schemas']['NewIntegration'];
export type NewInvitation = components['schemas']['NewInvitation'];
export type NewIssueLink = components['schemas']['NewIssueLink'];
export type NewIssuerKey = components['schemas']['NewIssuerKey'];
export type NewKey = components['schemas']['NewKey'];
export type NewPolicy = components['schemas']['NewPolicy'];
export type NewPrincipal = components['schemas']['NewPrincipal'];
export type NewProject = components['schemas']['NewProject'];
export type NewProposalReport = components['schemas']['NewProposalReport'];
export type NewReleaseReport = components['schemas']['NewReleaseReport'];
export type NewRequest = components['schemas']['NewRequest'];
export type NewSavedView = components['schemas']['NewSavedView'];
export type NewScimToken = components['schemas']['NewScimToken'];
export type NewSink = components['schemas']['NewSink'];
export type NewToken = components['schemas']['NewToken'];
export type NoiseBand = components['schemas']['NoiseBand'];
export type NormalizationRule = components['schemas']['NormalizationRule'];
export type NotReplayed = components['schemas']['NotReplayed'];
export type NotificationChannel = components['schemas']['NotificationChannel'];
export type Occurrence = components['schemas']['Occurrence'];
export type OccurrencePage = components['schemas']['OccurrencePage'];
export type OccurrenceRecord = components['schemas']['OccurrenceRecord'];
export type Op = components['schemas']['Op'];
export type Organization = components['schemas']['Organization'];
export type OrganizationChange = components['schemas']['OrganizationChange'];
export type OtlpError = components['schemas']['OtlpError'];
export type OwnOrganization = components['schemas']['OwnOrganization'];
export type OwnOrganizations = components['schemas']['OwnOrganizations'];
export type PasswordChange = components['schemas']['PasswordChange'];
export type Patch = components['schemas']['Patch'];
export type PatchOrigin = components['schemas']['PatchOrigin'];
export type PatchOriginClaim = components['schemas']['PatchOriginClaim'];
export type PaymentReceipt = components['schemas']['PaymentReceipt'];
export type Point = components['schemas']['Point'];
export type PolicyChange = components['schemas']['PolicyChange'];
export type PolicyPage = components['schemas']['PolicyPage'];
export type PostPatch = components['schemas']['PostPatch'];
export type PrincipalChange = components['schemas']['PrincipalChange'];
export type PrincipalKind = components['schemas']['PrincipalKind'];
export type Probe = components['schemas']['Probe'];
export type Project = components['schemas']['Project'];
export type ProjectChange = components['schemas']['ProjectChange'];
export type ProjectKey = components['schemas']['ProjectKey'];
export type ProjectPage = components['schemas']['ProjectPage'];
export type ProofBundle = components['schemas']['ProofBundle'];
export type ProofBundleDetail = components['schemas']['ProofBundleDetail'];
export type ProofBundlePage = components['schemas']['ProofBundlePage'];
export type ProofBundleRecord = components['schemas']['ProofBundleRecord'];
export type ProofBundleSummary = components['schemas']['ProofBundleSummary'];
export type ProofTier = components['schemas']['ProofTier'];
export type ProofVerdict = components['schemas']['ProofVerdict'];
export type Proposal = components['schemas']['Proposal'];
export type ProposalPage = components['schemas']['ProposalPage'];
export type ProposalReportResult = components['schemas']['ProposalReportResult'];
export type ProposalState = components['schemas']['ProposalState'];
export type Protocol = components['schemas']['Protocol'];
export type PublishedColumn = components['schemas']['PublishedColumn'];
export type PublishedStream = components['schemas']['PublishedStream'];
export type PublishedStreams = components['schemas']['PublishedStreams'];
export type Qualification = components['schemas']['Qualification'];
export type Range = components['schemas']['Range'];
export type Ready = components['schemas']['Ready'];
export type RecheckHandle = components['schemas']['RecheckHandle'];
export type RecoveryCodes = components['schemas']['RecoveryCodes'];
export type Refresh = components['schemas']['Refresh'];
export type RejectedLogs = components['schemas']['RejectedLogs'];
export type RejectedSpans = components['schemas']['RejectedSpans'];
export type Rejection = components['schemas']['Rejection'];
export type Release = components['schemas']['Release'];
export type ReleaseExtent = components['schemas']['ReleaseExtent'];
export type ReleaseHealthDelta = components['schemas']['ReleaseHealthDelta'];
export type ReleaseInProject = components['schemas']['ReleaseInProject'];
export type ReleasePage = components['schemas']['ReleasePage'];
export type ReleaseReportResult = components['schemas']['ReleaseReportResult'];
export type Removal = components['schemas']['Removal'];
export type ReportedCommit = components['schemas']['ReportedCommit'];
export type ReportedState = components['schemas']['ReportedState'];
export type ReproFailsOnHead = components['schemas']['ReproFailsOnHead'];
export type ReproFailsOnHeadClaim = components['schemas']['ReproFailsOnHeadClaim'];
export type ReproPassesPostPatch = components['schemas']['ReproPassesPostPatch'];
export type ReproPassesPostPatchClaim = components['schemas']['ReproPassesPostPatchClaim'];
export type RequestList = components['schemas']['RequestList'];
export type RequestedFigure = components['schemas']['RequestedFigure'];
export type RequestedLoginLink = components['schemas']['RequestedLoginLink'];
export type RequestedVerification = components['schemas']['RequestedVerification'];
export type ResolveOnMerge = components['schemas']['ResolveOnMerge'];
export type Resource = components['schemas']['Resource'];
export type ResourceDescriptor = components['schemas']['ResourceDescriptor'];
export type ResourceEnvelope = components['schemas']['ResourceEnvelope'];
export type ResourceEnvelopeClaim = components['schemas']['ResourceEnvelopeClaim'];
export type ReversalDebt = components['schemas']['ReversalDebt'];
export type RiskClass = components['schemas']['RiskClass'];
export type Role = components['schemas']['Role'];
export type RoleChange = components['schemas']['RoleChange'];
export type Rotation = components['schemas']['Rotation'];
export type RunStatus = components['schemas']['RunStatus'];
export type SavedView = components['schemas']['SavedView'];
export type SavedViewPage = components['schemas']['SavedViewPage'];
export type ScimErrorBody = components['schemas']['ScimErrorBody'];
export type ScimSettings = components['schemas']['ScimSettings'];
export type ScimToken = components['schemas']['ScimToken'];
export type ScimTokenPage = components['schemas']['ScimTokenPage'];
export type ScimTokenRotation = components['schemas']['ScimTokenRotation'];
export type ScmResult = components['schemas']['ScmResult'];
export type Scope = components['schemas']['Scope'];
export type SecretRotation = components['schemas']['SecretRotation'];
export type Selection = components['schemas']['Selection'];
export type SelectionCriterion = components['schemas']['SelectionCriterion'];
export type Series = components['schemas']['Series'];
export type ServiceEdge = components['schemas']['ServiceEdge'];
export type ServiceExtent = components['schemas']['ServiceExtent'];
export type ServiceMap = components['schemas']['ServiceMap'];
export type ServiceNode = components['schemas']['ServiceNode'];
export type SessionMaterial = components['schemas']['SessionMaterial'];
export type SessionUser = components['schemas']['SessionUser'];
export type SessionVerification = components['schemas']['SessionVerification'];
export type ShownFigure = components['schemas']['ShownFigure'];
export type ShownScimSettings = components['schemas']['ShownScimSettings'];
export type ShownSettings = components['schemas']['ShownSettings'];
export type Side = components['schemas']['Side'];
export type Signature = components['schemas']['Signature'];
export type SignatureCheck = components['schemas']['SignatureCheck'];
export type SinkChange = components['schemas']['SinkChange'];
export type SinkCheckpoint = components['schemas']['SinkCheckpoint'];
export type SinkDeletion = components['schemas']['SinkDeletion'];
export type SinkKind = components['schemas']['SinkKind'];
export type SinkList = components['schemas']['SinkList'];
export type SinkStatus = components['schemas']['SinkStatus'];
export type SliceProbe = components['schemas']['SliceProbe'];
export type Source = components['schemas']['Source'];
export type SourceExtent = components['schemas']['SourceExtent'];
export type SourceMap = components['schemas']['SourceMap'];
export type SourceMapPage = components['schemas']['SourceMapPage'];
export type Span = components['schemas']['Span'];
export type SpanComparison = components['schemas']['SpanComparison'];
export type SpanDetail = components['schemas']['SpanDetail'];
export type SpanEvent = components['schemas']['SpanEvent'];
export type SpanHeatmap = components['schemas']['SpanHeatmap'];
export type SpanPage = components['schemas']['SpanPage'];
export type SpanRecord = components['schemas']['SpanRecord'];
export type SpanTail = components['schemas']['SpanTail'];
export type SsoConnection = components['schemas']['SsoConnection'];
export type SsoSettings = components['schemas']['SsoSettings'];
export type StackFrame = components['schemas']['StackFrame'];
export type State = components['schemas']['State'];
export type StateSlice = components['schemas']['StateSlice'];
export type StateSliceClaim = components['schemas']['StateSliceClaim'];
export type Statement = components['schemas']['Statement'];
export type Status = components['schemas']['Status'];
export type StoredDelivery = components['schemas']['StoredDelivery'];
export type Stream = components['schemas']['Stream'];
export type Subject = components['schemas']['Subject'];
export type Submitter = components['schemas']['Submitter'];
export type Subscription = components['schemas']['Subscription'];
export type SuiteGreen = components['schemas']['SuiteGreen'];
export type SuiteGreenClaim = components['schemas']['SuiteGreenClaim'];
export type SuspectCommit = components['schemas']['SuspectCommit'];
export type SuspectReason = components['schemas']['SuspectReason'];
export type Switch = components['schemas']['Switch'];
export type TestObservation = components['schemas']['TestObservation'];
export type Token = components['schemas']['Token'];
export type TokenPage = components['schemas']['TokenPage'];
export type Tokens = components['schemas']['Tokens'];
export type TraceColumns = components['schemas']['TraceColumns'];
export type TraceItem = components['schemas']['TraceItem'];
export type TracePage = components['schemas']['TracePage'];
export type TraceRoot = components['schemas']['TraceRoot'];
export type TraceTable = components['schemas']['TraceTable'];
export type TrackedIssue = components['schemas']['TrackedIssue'];
export type Unready = components['schemas']['Unready'];
export type UntrackedErrors = components['schemas']['UntrackedErrors'];
export type UploadedSourceMap = components['schemas']['UploadedSourceMap'];
export type UserChange = components['schemas']['UserChange'];
export type ValidationResult = components['schemas']['ValidationResult'];
export type ValueCount = components['schemas']['ValueCount'];
export type Verdict = components['schemas']['Verdict'];
export type Verification = components['schemas']['Verification'];
export type VerificationConfirmation = components['schemas']['VerificationConfirmation'];
export type VerifierIndependence = components['schemas']['VerifierIndependence'];
export type VoteResult = components['schemas']['VoteResult'];
export type WarehouseSink = components['schemas']['WarehouseSink'];
export type Waterfall = components['schemas']['Waterfall'];
export type WaterfallRow = components['schemas']['WaterfallRow'];
export type Whoami = components['schemas']['Whoami'];
export type WhoamiOrganization = components['schemas']['WhoamiOrganization'];
export type WhoamiPrincipal = components['schemas']['WhoamiPrincipal'];
export type WhoamiProject = components['schemas']['WhoamiProject'];
export type WrittenFilter = components['schemas']['WrittenFilter'];
export type SentNumber = components['schemas']['SentNumber'];
export type SentJson = components['schemas']['SentJson'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;

export const NewDomain = {
  domain: {"kind":"text","required":true},
} as const;

export const NewInvitation = {
  email: {"kind":"text","required":true},
  role: {"kind":"choice"},
  sendMail: {"kind":"check"},
} as const;

export const NewIssuerKey = {
  issuer: {"kind":"text","required":true},
  name: {"kind":"text","required":true},
  publicKey: {"kind":"long","required":true},
  keyId: {"kind":"text"},
  validFrom: {"kind":"text"},
  validUntil: {"kind":"text"},
} as const;

export const NewKey = {
  name: {"kind":"text","required":true},
} as const;

export const NewPrincipal = {
  kind: {"kind":"choice"},
  name: {"kind":"text","required":true},
  role: {"kind":"choice"},
} as const;

export const NewScimToken = {
  name: {"kind":"text","required":true},
  expiresInDays: {"kind":"number","min":1,"max":3650},
} as const;

export const NewToken = {
  name: {"kind":"text","required":true},
  scopes: {"kind":"many"},
  expiresInDays: {"kind":"number","min":1,"max":3650},
} as const;
