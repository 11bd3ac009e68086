// Policies of approvals, as the JSON that the API takes; and what they would decide.
import type { JSX } from 'preact';
import { useId, useRef, useState } from 'preact/hooks';
import type { ApprovalPolicy, DryRunResult, Issue } from '../../api/api_types';
import { send } from '../../api/client';
import { ApiError } from '../../api/request';
import { CopyAs } from '../../ui/copy';
import { Button } from '../../ui/elements';
import { Failure, useAction } from '../../ui/query';
import { Text } from '../../ui/text';
import { Form, field, required } from './form';
import {
  Danger,
  Listed,
  lacks,
  Opener,
  Panel,
  Refusal,
  Rows,
  type SectionProps,
  useFound,
  useList,
  useWhy,
  Why,
} from './parts';
import { useOpened } from './project';

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
/** What a change may hold. */
const CHANGEABLE = Object.keys(TEMPLATE).filter((name) => name !== 'projectSlug');

export default function Policies({ me, org }: SectionProps): JSX.Element {
  const list = useList<ApprovalPolicy>(`${org}/approval-policies`);
  const [opened, open] = useOpened();
  const why = lacks(me, 'policies:write');
  const found = useFound(list, opened === NEW ? null : opened);
  return (
    <>
      <Refusal.Provider value={why}>
        <Panel title="Policies">
          <div class="bar-row">
            <Button disabled={why !== null} title={why ?? ''} onClick={() => open(NEW)}>
              New policy
            </Button>
            <CopyAs asked={list.asked} />
          </div>
          <Listed
            list={list}
            label="Policies"
            empty="There is no policy, so the built-in rules decide."
            head={[
              'Name',
              ['Actions that match', 'mono'],
              'Target',
              'Effect',
              'Risk',
              'Approvers',
              'For',
              'State',
              ['Change', 'bar-row'],
            ]}
            named={(policy) => policy.name}
            selected={opened}
            row={(policy) => [
              <Text of={policy.name} />,
              <Text of={policy.actionPattern} />,
              policy.targetType === null ? 'any' : <Text of={policy.targetType} />,
              policy.effect,
              policy.riskClass,
              `${policy.minApprovers} of ${policy.approverRoles.join(', ')}`,
              policy.projectSlug ?? 'the organization',
              policy.enabled ? 'enabled' : 'disabled',
              <>
                <Opener id={policy.id} open="Edit" />
                <Danger
                  title={`Delete the policy ${policy.name}?`}
                  text="New requests are decided without this policy. Existing requests do not change. This cannot be undone."
                  run={async () => {
                    await list.send('DELETE', [policy.id]);
                    if (opened === policy.id) open(null);
                  }}
                >
                  Delete
                </Danger>
              </>,
            ]}
          />
          <Why />
        </Panel>
        {opened === NEW && (
          <Editor
            key={NEW}
            title="New policy"
            text={JSON.stringify(TEMPLATE, null, 2)}
            save={async (body) => open((await list.send<ApprovalPolicy>('POST', [], body)).id)}
          />
        )}
        {found !== null && (
          <Editor
            key={found.id}
            title={`Policy ${found.name}`}
            text={JSON.stringify(found, CHANGEABLE, 2)}
            save={(body) => list.send('PATCH', [found.id], body)}
          />
        )}
      </Refusal.Provider>
      <DryRun path={`${list.path}/dry-run`} />
    </>
  );
}

interface EditorProps {
  title: string;
  text: string;
  save: (body: unknown) => Promise<unknown>;
}

function Editor({ title, text: initial, save }: EditorProps): JSX.Element {
  const [text, setText] = useState(initial);
  const [isSaved, setSaved] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const action = useAction();
  const why = useWhy(null);
  const id = useId();
  const details = action.error instanceof ApiError ? action.error.details : [];
  const problem = syntaxProblem(text);
  function show(detail: Issue): void {
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
                    <Button class="quiet" onClick={() => show(one)}>
                      Line {lineOf(text, one.path)}: {one.path.replace(/^body\.?/, '')}
                    </Button>
                  </li>
                ))}
              </ul>
            )}
          </div>
        </div>
        {details.length === 0 && <Failure error={action.error} />}
        {isSaved && (
          <p class="good" role="status">
            Saved. The policy applies to new requests.
          </p>
        )}
        <div class="bar-row">
          <button
            type="submit"
            disabled={why !== null || problem !== null || action.isBusy}
            title={why ?? problem ?? ''}
          >
            Save the policy
          </button>
          {why !== null && <span class="quiet">{why}</span>}
        </div>
      </form>
    </Panel>
  );
}

/** Why the text is not JSON. Null if it is. */
function syntaxProblem(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `This is not valid JSON: ${(error as Error).message}.`;
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
  const [result, setResult] = useState<DryRunResult | null>(null);
  return (
    <Panel title="Dry run">
      <Form
        label="Dry run"
        fields={[
          required('text', 'action', 'Action', { placeholder: 'deploy.production' }),
          required('text', 'targetType', 'Type of the target', { placeholder: 'service' }),
          field('text', 'projectTag', 'Project, if any'),
        ]}
        button="Evaluate"
        keeps
        submit={async (body) => {
          setResult(null);
          setResult(await send<DryRunResult>('POST', path, body));
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
          <Rows
            label="Rules that match"
            head={['Rule', 'From', ['Actions that match', 'mono'], 'Effect']}
            items={result.matching}
            by={(rule) => `${rule.policyId ?? rule.name}-${result.matching.indexOf(rule)}`}
            row={(rule) => [<Text of={rule.name} />, rule.policySource, <Text of={rule.actionPattern} />, rule.effect]}
          />
        </div>
      )}
    </Panel>
  );
}
