// Issuers of proof bundles: the public keys that signatures are verified with.
import type { JSX } from 'preact';
import { shownTime } from '../../address/time';
import { call } from '../../api/client';
import { CopyAs, CopyButton } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Empty, Loaded } from '../../ui/states';
import { Text } from '../../ui/text';
import { Form } from './form';
import { Danger, lacks, Panel, Rows, type SectionProps, under, Why } from './parts';

interface IssuerKey {
  id: string;
  issuer: string;
  name: string;
  keyId: string;
  algorithm: string;
  publicKey: string;
  status: 'ACTIVE' | 'EXPIRED' | 'NOT_YET_VALID' | 'REVOKED';
  validFrom: string;
  validUntil: string | null;
  revocationReason: string | null;
}

const TIME_HINT = 'As in 2027-01-31T00:00:00Z';

export default function Issuers({ me, org, zone }: SectionProps): JSX.Element {
  const path = `${org}/proof-issuers`;
  const asked = { path };
  const query = useQuery<{ data: IssuerKey[] }>(asked);
  const why = lacks(me, 'keys:write');
  return (
    <Panel title="Proof issuers">
      <div class="bar-row">
        <CopyAs asked={asked} />
      </div>
      <Form
        label="Register a public key"
        fields={[
          { kind: 'text', name: 'issuer', label: 'Issuer: issuer.id of its bundles', required: true },
          { kind: 'text', name: 'name', label: 'Name', required: true },
          { kind: 'text', name: 'keyId', label: 'Key id; empty: the digest of the key' },
          { kind: 'text', name: 'validFrom', label: 'Valid from; empty: now', hint: TIME_HINT },
          { kind: 'text', name: 'validUntil', label: 'Valid until; empty: without end', hint: TIME_HINT },
          { kind: 'long', name: 'publicKey', label: 'Public key (PEM)', required: true },
        ]}
        button="Register the key"
        why={why}
        submit={async (body) => {
          await call({ method: 'POST', path, body });
          query.again();
        }}
      />
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="There is no key: no signature of a bundle is verified." />
          ) : (
            <Rows label="Keys" head={['Issuer', 'Name', 'Key id', 'Algorithm', 'Valid', 'State', 'Actions']}>
              {data.map((key) => (
                <tr key={key.id}>
                  <td>
                    <Text of={key.issuer} />
                  </td>
                  <td>
                    <Text of={key.name} />
                  </td>
                  <td class="mono">
                    <Text of={key.keyId} />
                  </td>
                  <td>{key.algorithm}</td>
                  <td class="mono">
                    {shownTime(key.validFrom, zone, 0)} to{' '}
                    {key.validUntil === null ? 'no end' : shownTime(key.validUntil, zone, 0)}
                  </td>
                  <td>
                    {key.status}
                    {key.revocationReason !== null && (
                      <>
                        : <Text of={key.revocationReason} />
                      </>
                    )}
                  </td>
                  <td class="bar-row">
                    <CopyButton label="Copy the key" text={() => key.publicKey} />
                    {key.status !== 'REVOKED' && (
                      <>
                        <Danger
                          of={key.name}
                          why={why}
                          title={`Revoke the key ${key.name}?`}
                          text="No further bundle is verified with it, for ever; those that were say that their key is revoked."
                          typed={key.name}
                          run={async () => {
                            await call({ method: 'POST', path: under(path, key.id, 'revoke'), body: {} });
                            query.again();
                          }}
                        >
                          Revoke
                        </Danger>
                        <Danger
                          of={key.name}
                          why={why}
                          title={`Delete the key ${key.name}?`}
                          text="Only a key that no bundle was verified with can be deleted. This cannot be undone."
                          run={async () => {
                            await call({ method: 'DELETE', path: under(path, key.id) });
                            query.again();
                          }}
                        >
                          Delete
                        </Danger>
                      </>
                    )}
                  </td>
                </tr>
              ))}
            </Rows>
          )
        }
      </Loaded>
      <Why why={why} />
    </Panel>
  );
}
