// Settings: one section at a time, each a file of its own that is loaded when it is shown first.
import type { ComponentType, JSX } from 'preact';
import type { ViewProps } from '../../address/address';
import { owner } from '../../api/session';
import { Empty, Lazy } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Link } from '../../ui/text';
import type { SectionProps } from './parts';

const SECTIONS: [string, string, () => Promise<{ default: ComponentType<SectionProps> }>][] = [
  ['keys', 'Project keys', () => import('./keys')],
  ['scrubbing', 'Scrubbing', () => import('./scrubbing')],
  ['tokens', 'Access tokens', () => import('./tokens')],
  ['members', 'Members', () => import('./members')],
  ['invitations', 'Invitations', () => import('./invitations')],
  ['agents', 'Agents', () => import('./agents')],
  ['channels', 'Channels', () => import('./channels')],
  ['policies', 'Policies', () => import('./policies')],
  ['sign-on', 'Sign-on', () => import('./sign_on')],
  ['directory', 'Directory', () => import('./directory')],
  ['integrations', 'Integrations', () => import('./integrations')],
  ['sinks', 'Sinks', () => import('./sinks')],
  ['issuers', 'Proof issuers', () => import('./issuers')],
  ['audit', 'Audit log', () => import('./audit')],
  ['account', 'Account', () => import('./account')],
];

export default function Settings({ place }: ViewProps): JSX.Element {
  const me = useSignal(owner); // whose session may have ended: what is typed stays
  const id = place.id === '' ? 'keys' : place.id;
  const found = SECTIONS.find(([one]) => one === id);
  return (
    <section aria-label="Settings" class="settings">
      <h1>Settings</h1>
      <nav class="bar-row" aria-label="Sections">
        {SECTIONS.map(([one, name]) => (
          <Link key={one} to={`/ui/${encodeURIComponent(place.org)}/settings/${one}`} current={id === one}>
            {name}
          </Link>
        ))}
      </nav>
      {found === undefined && <Empty title="There is no such section." />}
      {found !== undefined && me && (
        <Lazy key={id} load={found[2]} props={{ me, org: `/orgs/${encodeURIComponent(place.org)}` }} />
      )}
    </section>
  );
}
