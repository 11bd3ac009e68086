// Issuers of proof bundles: the public keys that signatures are verified with.
import type { JSX } from 'preact';
import { time } from '../../address/address';
import { type IssuerKeyBody, NewIssuerKey } from '../../api/api_types';
import { CopyButton } from '../../ui/copy';
import { Text } from '../../ui/text';
import { fieldsOf } from './form';
import { Danger, lacks, type SectionProps, useList } from './parts';
import { Resource } from './resource';

const TIME_HINT = 'For example 2027-01-31T00:00:00Z';

export default function Issuers({ me, org }: SectionProps): JSX.Element {
  return (
    <Resource<IssuerKeyBody>
      title="Proof issuers"
      list={useList(`${org}/proof-issuers`, null)}
      why={lacks(me, 'keys:write')}
      create="Register the key"
      form="Register a public key"
      fields={fieldsOf(NewIssuerKey, {
        issuer: 'Issuer (issuer.id in its bundles)',
        name: 'Name',
        keyId: 'Key id (empty: the digest of the key)',
        validFrom: { label: 'Valid from (empty: now)', hint: TIME_HINT },
        validUntil: { label: 'Valid until (empty: no end)', hint: TIME_HINT },
        publicKey: 'Public key (PEM)',
      })}
      label="Keys"
      empty="There is no key, so no signatures of bundles are verified."
      head={['Issuer', 'Name', ['Key id', 'mono'], 'Algorithm', ['Valid', 'mono'], 'State', ['Actions', 'bar-row']]}
      named={(key) => key.name}
      row={(key, does) => [
        <Text of={key.issuer} />,
        <Text of={key.name} />,
        <Text of={key.keyId} />,
        key.algorithm,
        `${time(key.validFrom)} to ${key.validUntil === null ? 'no end' : time(key.validUntil)}`,
        <>
          {key.status}
          {key.revocationReason !== null && (
            <>
              : <Text of={key.revocationReason} />
            </>
          )}
        </>,
        <>
          <CopyButton label="Copy the key" text={() => key.publicKey} />
          {key.status !== 'REVOKED' && (
            <>
              <Danger
                title={`Revoke the key ${key.name}?`}
                text="No more bundles are verified with this key. Bundles that were verified with it show that the key is revoked. This cannot be undone."
                typed={key.name}
                run={() => does.post('revoke', {})}
              >
                Revoke
              </Danger>
              <Danger
                title={`Delete the key ${key.name}?`}
                text="You can delete the key only if no bundle was verified with it. This cannot be undone."
                run={does.remove}
              >
                Delete
              </Danger>
            </>
          )}
        </>,
      ]}
    />
  );
}
