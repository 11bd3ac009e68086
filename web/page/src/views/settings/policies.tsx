// Policies of approvals, as the JSON that the API takes; and what they would decide.
import type { JSX } from 'preact';
import { useId, useRef, useState } from 'preact/hooks';
import type { Issue as Detail } from '../../api/api_types';
import { call } from '../../api/client';
import { ApiError } from '../../api/request';
import type { Page } from '../../api/types';
import { CopyAs } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Failure } from '../../ui/states';
import { Text } from '../../ui/text';
import { Form } from './form';
import { Danger, lacks, LIMIT, Listed, Panel, Rows, type SectionProps, under, useAction, useFound, Why } from './parts';
import { useOpened } from './project';

interface Policy {
  id: string;
  projectSlug: string | null;
  name: string;
  actionPattern: string;
  targetType: string | null;
  effect: string;
  riskClass: string;
  minApprovers: number;
  approverRoles: string[];
  machineApproverIds: string[];
  ttlMinutes: number;
  enabled: boolean;
}

interface Decision {
  decision: string;
  riskClass: string;
  reason: string;
  minApprovers: number;
  policySource: string;
  approverRoles: string[];
  ttlMinutes: number;
  matching: { policyId: string | null; name: string; policySource: string; actionPattern: string; effect: string }[];
}

const TEMPLATE = {
  name: 'Deploys to production',
  actionPattern: 'deploy.production',
  targetType: null,
  effect: 'ASK',
  riskClass: 'HIGH',
  minApprovers: 1,
  approverRoles: ['ADMIN', 'OWNER'],
  machineApproverIds: [],
  ttlMinutes: 1440,
  enabled: true,
  projectSlug: null,
};
const NEW = 'new';

export default function Policies({ me, org }: SectionProps): JSX.Element {
  const path = `${org}/approval-policies`;
  const asked = { path: `${path}?limit=${LIMIT}` };
  const query = useQuery<Page<Policy>>(asked);
  const [opened, open] = useOpened();
  const why = lacks(me, 'policies:write');
  const found = useFound(query, path, opened === NEW ? null : opened);
  return (
    <>
      <Panel title="Policies">
        <div class="bar-row">
          <button type="button" disabled={why !== null} title={why ?? ''} onClick={() => open(NEW)}>
            New policy
          </button>
          <CopyAs asked={asked} />
        </div>
        <Listed
          query={query}
          path={asked.path}
          label="Policies"
          empty="There is no policy: the built-in rules decide."
          head={['Name', 'Actions that match', 'Target', 'Effect', 'Risk', 'Approvers', 'For', 'State', 'Change']}
          row={(policy) => (
            <tr key={policy.id} aria-selected={policy.id === opened}>
              <td>
                <Text of={policy.name} />
              </td>
              <td class="mono">
                <Text of={policy.actionPattern} />
              </td>
              <td>{policy.targetType === null ? 'any' : <Text of={policy.targetType} />}</td>
              <td>{policy.effect}</td>
              <td>{policy.riskClass}</td>
              <td>
                {policy.minApprovers} of {policy.approverRoles.join(', ')}
              </td>
              <td>{policy.projectSlug ?? 'the organization'}</td>
              <td>{policy.enabled ? 'enabled' : 'disabled'}</td>
              <td class="bar-row">
                <button
                  type="button"
                  aria-label={`Edit ${policy.name}`}
                  aria-expanded={policy.id === opened}
                  onClick={() => open(policy.id === opened ? null : policy.id)}
                >
                  {policy.id === opened ? 'Close' : 'Edit'}
                </button>
                <Danger
                  of={policy.name}
                  why={why}
                  title={`Delete the policy ${policy.name}?`}
                  text="Later requests are decided without it; present ones are not affected. This cannot be undone."
                  run={async () => {
                    await call({ method: 'DELETE', path: under(path, policy.id) });
                    if (opened === policy.id) open(null);
                    query.again();
                  }}
                >
                  Delete
                </Danger>
              </td>
            </tr>
          )}
        />
        <Why why={why} />
      </Panel>
      {opened === NEW && (
        <Editor
          key={NEW}
          title="New policy"
          text={JSON.stringify(TEMPLATE, null, 2)}
          why={why}
          save={async (body) => {
            const made = await call<Policy>({ method: 'POST', path, body });
            query.again();
            open(made.id);
          }}
        />
      )}
      {found !== null && (
        <Editor
          key={found.id}
          title={`Policy ${found.name}`}
          text={JSON.stringify(changeable(found), null, 2)}
          why={why}
          save={async (body) => {
            await call({ method: 'PATCH', path: under(path, found.id), body });
            query.again();
          }}
        />
      )}
      <DryRun path={`${path}/dry-run`} />
    </>
  );
}

/** What a change may hold. */
function changeable(policy: Policy): Partial<Policy> {
  const { name, actionPattern, targetType, effect, riskClass, minApprovers, approverRoles, machineApproverIds } = policy;
  const { ttlMinutes, enabled } = policy;
  return {
    name,
    actionPattern,
    targetType,
    effect,
    riskClass,
    minApprovers,
    approverRoles,
    machineApproverIds,
    ttlMinutes,
    enabled,
  };
}

interface EditorProps {
  title: string;
  text: string;
  why: string | null;
  save: (body: unknown) => Promise<void>;
}

function Editor({ title, text: initial, why, save }: EditorProps): JSX.Element {
  const [text, setText] = useState(initial);
  const [isSaved, setSaved] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const action = useAction();
  const id = useId();
  const details = action.error instanceof ApiError ? action.error.details : [];
  const problem = syntaxProblem(text);
  function show(detail: Detail): void {
    const [from, to] = placeOf(text, detail.path);
    area.current?.focus();
    area.current?.setSelectionRange(from, to);
  }
  return (
    <Panel title={title}>
      <form
        class="settings-form"
        aria-label={title}
        onSubmit={(event) => {
          event.preventDefault();
          void action.run(async () => save(JSON.parse(text))).then(setSaved);
        }}
      >
        <div class="field">
          <label for={id}>
            <span>The policy as JSON</span>
          </label>
          <textarea
            id={id}
            ref={area}
            class="mono"
            spellcheck={false}
            rows={Math.min(24, text.split('\n').length + 1)}
            value={text}
            aria-invalid={problem !== null || details.length > 0}
            aria-describedby={`${id}-errors`}
            onInput={(event) => {
              setText(event.currentTarget.value);
              setSaved(false);
            }}
          />
          <div id={`${id}-errors`}>
            {problem !== null && <p class="error">{problem}</p>}
            {details.length > 0 && (
              <ul class="plain" role="alert">
                {details.map((one) => (
                  <li key={one.path + one.code}>
                    <span class="error">
                      <Text of={one.message} />
                    </span>{' '}
                    <button type="button" class="quiet" onClick={() => show(one)}>
                      Line {lineOf(text, one.path)}: {one.path.replace(/^body\.?/, '')}
                    </button>
                  </li>
                ))}
              </ul>
            )}
          </div>
        </div>
        {action.error !== null && details.length === 0 && <Failure error={action.error} />}
        {isSaved && (
          <p class="good" role="status">
            Saved. Requests from now on are decided by it.
          </p>
        )}
        <div class="bar-row">
          <button type="submit" disabled={why !== null || problem !== null || action.isBusy} title={why ?? problem ?? ''}>
            Save the policy
          </button>
          {why !== null && <span class="quiet">{why}</span>}
        </div>
      </form>
    </Panel>
  );
}

/** Why it is no JSON; null if it is. */
function syntaxProblem(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `This is no JSON: ${(error as Error).message}.`;
  }
}

/** Where the field of an error is in the text: its key, or else the beginning. `path`: as in `body.approverRoles[0]`. */
function placeOf(text: string, path: string): [number, number] {
  const name = /^body\.([A-Za-z0-9_]+)/.exec(path)?.[1];
  const key = name === undefined ? '' : JSON.stringify(name);
  const at = key === '' ? -1 : text.indexOf(key);
  return at < 0 ? [0, 0] : [at, at + key.length];
}

function lineOf(text: string, path: string): number {
  return text.slice(0, placeOf(text, path)[0]).split('\n').length;
}

function DryRun({ path }: { path: string }): JSX.Element {
  const [result, setResult] = useState<Decision | null>(null);
  return (
    <Panel title="What would be decided">
      <Form
        label="Dry run"
        fields={[
          { kind: 'text', name: 'action', label: 'Action', required: true, placeholder: 'deploy.production' },
          { kind: 'text', name: 'targetType', label: 'Type of the target', required: true, placeholder: 'service' },
          { kind: 'text', name: 'projectTag', label: 'Project, if any' },
        ]}
        button="Evaluate"
        keeps
        submit={async (body) => {
          setResult(null);
          setResult(await call<Decision>({ method: 'POST', path, body }));
        }}
      />
      {result !== null && (
        <div role="status">
          <p>
            <strong>{result.decision}</strong>, risk {result.riskClass}: <Text of={result.reason} />
          </p>
          {result.decision === 'ASK' && (
            <p>
              {result.minApprovers} of {result.approverRoles.join(', ')} within {result.ttlMinutes} minutes.
            </p>
          )}
          <Rows label="Rules that match" head={['Rule', 'From', 'Actions that match', 'Effect']}>
            {result.matching.map((rule, at) => (
              <tr key={`${rule.policyId ?? rule.name}-${at}`}>
                <td>
                  <Text of={rule.name} />
                </td>
                <td>{rule.policySource}</td>
                <td class="mono">
                  <Text of={rule.actionPattern} />
                </td>
                <td>{rule.effect}</td>
              </tr>
            ))}
          </Rows>
        </div>
      )}
    </Panel>
  );
}
