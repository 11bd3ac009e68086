// The caller's own access tokens.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api/client';
import type { Page } from '../../api/types';
import { CopyAs } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { lacks, LIMIT, Panel, type SectionProps } from './parts';
import { type MadeToken, TokenForm, TokenList, type Token } from './token_list';

export default function Tokens({ me, org, zone }: SectionProps): JSX.Element {
  const path = `${org}/tokens`;
  const asked = { path: `${path}?limit=${LIMIT}` };
  const query = useQuery<Page<Token>>(asked);
  const [made, setMade] = useState<MadeToken | null>(null);
  const why = lacks(me, 'tokens:write');
  return (
    <Panel title="Your access tokens">
      <div class="bar-row">
        <CopyAs asked={asked} />
      </div>
      <TokenForm
        me={me}
        why={why}
        made={made}
        hide={() => setMade(null)}
        create={async (body) => {
          setMade(await call<MadeToken>({ method: 'POST', path, body }));
          query.again();
        }}
      />
      <TokenList query={query} path={path} zone={zone} why={why} />
    </Panel>
  );
}
