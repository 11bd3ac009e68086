// What is around every view: navigation, time, who is logged in.
import { Component, type ComponentChildren, type JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { address, go, kept, type Place, projectPath, push, rangeOf, zoneOf } from './address/address';
import { moved, PRESETS, zoneLabel } from './address/time';
import type { OwnOrganizations } from './api/api_types';
import { continueSession, invitation, logOut, owner, switchOrganization, trouble, who } from './api/session';
import type { Whoami } from './api/types';
import { findView } from './router';
import { SavedViews } from './saved/menu';
import { linkOfThis } from './ui/copy';
import { Button, showModally } from './ui/elements';
import { areKeysOn, type Shortcut, setKeysOn, shortcuts, useKeys } from './ui/keyboard';
import { type Action, Failure, Lazy, Skeleton, useAction, useQuery } from './ui/query';
import { useSignal } from './ui/signal';
import { Link, Text } from './ui/text';
import { Login } from './views/login/login';

/** Their names in addresses, what they are called, and the keys that lead there. */
const VIEWS: [string, string, string][] = [
  ['', 'Overview', 'g o'],
  ['explore', 'Explore', 'g e'],
  ['errors', 'Errors', 'g r'],
  ['logs', 'Logs', 'g l'],
  ['map', 'Map', 'g m'],
  ['issues', 'Issues', 'g i'],
];

const OF_ORGANIZATION: [string, string, string][] = [
  ['approvals', 'Approvals', 'g a'],
  ['settings', 'Settings', 'g s'],
];

type ViewLink = [view: string, name: string, keys: string, to: () => string];

export function Shell(): JSX.Element {
  const me = useSignal(who);
  const whose = useSignal(owner);
  const invited = useSignal(invitation);
  const error = useSignal(trouble);
  if (error !== null) return <Failure error={error} again={() => void continueSession()} />;
  if (me === undefined) return <Skeleton />;
  const isBehind = me === null || me.mfaPending || invited !== null;
  return (
    <>
      {whose !== null && (
        <div key={`${whose.principal.id} ${whose.organization.id}`} inert={isBehind}>
          <Main me={whose} />
        </div>
      )}
      {isBehind && <Login me={me} />}
    </>
  );
}

function Main({ me }: { me: Whoami }): JSX.Element {
  const here = useSignal(address);
  const found = findView(here.path);
  const place = found?.place ?? { org: me.organization.slug, project: '', id: '' };
  const [help, setHelp] = useState(false);
  const project = place.project || me.projects[0]?.slug || '';
  const inProject: Place = { ...place, project };

  const views: ViewLink[] = [
    ...VIEWS.map(([view, ...rest]): ViewLink => {
      return [view || 'overview', ...rest, () => projectPath(inProject, view) + kept(address.value)];
    }),
    ...OF_ORGANIZATION.map(([view, ...rest]): ViewLink => {
      return [view, ...rest, () => `/ui/${encodeURIComponent(place.org)}/${view}`];
    }),
  ];

  useEffect(() => {
    if (found !== null || here.path !== '/ui/' || project === '') return;
    history.replaceState(null, '', projectPath({ org: me.organization.slug, project, id: '' }));
    address.value = { path: location.pathname, query: new URLSearchParams(location.search) };
  }, [here.path, project]);
  useEffect(() => {
    document.title = `${found?.name ?? 'Sluice'} - ${place.project || place.org} - Sluice`;
  }, [found?.name, place.project, place.org]);
  useKeys(
    [
      ['?', 'show the keyboard shortcuts', () => setHelp(true)],
      ['[', 'earlier', () => shift(-0.5)],
      [']', 'later', () => shift(0.5)],
      ['-', 'a longer time', () => shift(0, 2)],
      ['=', 'a shorter time', () => shift(0, 0.5)],
      ['t', 'choose the time', () => document.getElementById('time')?.focus()],
      ['y', 'copy a link to this', () => void navigator.clipboard.writeText(linkOfThis())],
      ...views.map(([, name, keys, to]): Shortcut => [keys, name, () => go(to())]),
    ],
    [place.org, project],
  );
  return (
    <>
      <a class="skip" href="#view">
        Skip to the view
      </a>
      <header class="top">
        <Link to="/ui/" class="brand" label="Sluice">
          Sluice
        </Link>
        <Chooser me={me} place={inProject} />
        <nav aria-label="Views">
          {views.map(([view, name, , to]) => (
            <Link key={view} to={to()} current={found?.name === view}>
              {name}
            </Link>
          ))}
        </nav>
        <span class="spring" />
        {project !== '' && <SavedViews key={project} place={inProject} />}
        <TimePicker />
        <Button class="quiet" aria-label="Keys" onClick={() => setHelp(true)}>
          ?
        </Button>
        <Account me={me} />
      </header>
      <main id="view" tabIndex={-1}>
        {found === null ? (
          <NoView me={me} path={here.path} />
        ) : (
          <Guarded key={found.name + here.path}>
            <Lazy key={found.name} load={found.load} props={{ place: found.place }} />
          </Guarded>
        )}
      </main>
      {help && <Help close={() => setHelp(false)} />}
    </>
  );
}

function shift(steps: number, zoom = 1): void {
  const range = moved(rangeOf(address.value), Date.now(), steps, zoom);
  push({ from: range.from, to: range.to });
}

/** A fault in a view is shown in its place: the rest of the page goes on. */
class Guarded extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  override state = { error: null };
  override componentDidCatch(error: Error): void {
    console.error(error);
    this.setState({ error });
  }
  override render(): ComponentChildren {
    return this.state.error === null ? this.props.children : <Failure error={this.state.error} />;
  }
}

function NoView({ me, path }: { me: Whoami; path: string }): JSX.Element {
  if (path === '/ui/' && me.projects.length > 0) return <Skeleton />;
  return (
    <section class="narrow">
      <h1>{me.projects.length === 0 ? 'You do not have access to a project' : 'There is no such view'}</h1>
      <ul>
        {me.projects.map((project) => (
          <li key={project.id}>
            <Link to={projectPath({ org: me.organization.slug, project: project.slug, id: '' })}>
              <Text of={project.name} />
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Chooser({ me, place }: { me: Whoami; place: Place }): JSX.Element {
  return (
    <select
      aria-label="Project"
      value={place.project}
      onChange={(event) =>
        go(projectPath({ org: me.organization.slug, project: event.currentTarget.value, id: '' }) + kept(address.value))
      }
    >
      {me.projects.map((project) => (
        <option key={project.id} value={project.slug}>
          {me.organization.slug} / {project.slug}
        </option>
      ))}
    </select>
  );
}

function TimePicker(): JSX.Element {
  const here = useSignal(address);
  const range = rangeOf(here);
  const zone = zoneOf(here);
  const preset = range.to === 'now' && PRESETS.some(([from]) => from === range.from);
  return (
    <span class="time">
      <Button class="quiet" aria-label="Earlier" onClick={() => shift(-0.5)}>
        &lt;
      </Button>
      <select
        id="time"
        aria-label="Time"
        value={preset ? range.from : 'fixed'}
        onChange={(event) => {
          if (event.currentTarget.value !== 'fixed') push({ from: event.currentTarget.value, to: 'now', box: null });
        }}
      >
        {PRESETS.map(([from, name]) => (
          <option key={from} value={from}>
            {name}
          </option>
        ))}
        <option value="fixed" disabled={preset}>
          {preset ? 'fixed' : `${range.from} to ${range.to}`}
        </option>
      </select>
      <Button class="quiet" aria-label="Later" onClick={() => shift(0.5)}>
        &gt;
      </Button>
      <Button
        class="quiet"
        title="Switch between UTC and the time of this browser"
        onClick={() => push({ tz: zone === 'utc' ? null : 'utc' })}
      >
        {zoneLabel(zone)}
      </Button>
    </span>
  );
}

function Account({ me }: { me: Whoami }): JSX.Element {
  const action = useAction();
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="menu" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Text of={me.principal.name} />
      </summary>
      <div>
        <p>
          <Text of={me.principal.email ?? me.principal.kind} />
          <br />
          <span class="quiet">
            {me.role ?? 'no role'} of <Text of={me.organization.name} />
          </span>
        </p>
        {me.passwordSet === false && me.session && (
          <Link to={`/ui/${encodeURIComponent(me.organization.slug)}/settings/account`}>Set a password</Link>
        )}
        {isOpen && me.session && <OtherOrganizations run={action.run} />}
        <Button onClick={() => void action.run(logOut)}>Log out</Button>
        <Failure error={action.error} />
      </div>
    </details>
  );
}

/** Asked for when the menu is opened. */
function OtherOrganizations({ run }: Pick<Action, 'run'>): JSX.Element {
  const query = useQuery<OwnOrganizations>({ path: '/auth/organizations' });
  const others = query.data?.data.filter((one) => !one.current) ?? [];
  return (
    <>
      {others.map((one) => (
        <Button key={one.slug} onClick={() => void run(() => switchOrganization(one.slug))}>
          Switch to <Text of={one.name} />
        </Button>
      ))}
    </>
  );
}

function Help({ close }: { close: () => void }): JSX.Element {
  const [on, setOn] = useState(areKeysOn());
  return (
    <dialog
      class="dialog"
      aria-label="Keys"
      ref={showModally}
      onClose={close}
      onClick={(event) => {
        if (event.target === event.currentTarget) event.currentTarget.close();
      }}
    >
      <h2>Keys</h2>
      <dl class="keys">
        {shortcuts().map(([keys, does]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <label>
        <input
          type="checkbox"
          checked={on}
          onChange={(event) => {
            setKeysOn(event.currentTarget.checked);
            setOn(event.currentTarget.checked);
          }}
        />{' '}
        Single-key shortcuts
      </label>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
