// What is around every view: navigation, time, who is logged in.
import { Component, type ComponentChildren, type JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { address, go, kept, push, rangeOf, zoneOf } from './address/address';
import { moved, PRESETS, zoneLabel } from './address/time';
import { continueSession, invitation, logOut, owner, switchOrganization, trouble, who } from './api/session';
import type { Whoami } from './api/types';
import { findView, type View } from './router';
import { type Place, projectPath } from './address/place';
import { SavedViews } from './saved/menu';
import { linkOfThis } from './ui/copy';
import { areKeysOn, setKeysOn, shortcuts, useKeys } from './ui/keyboard';
import { Link } from './ui/link';
import { useQuery } from './ui/query';
import { useSignal } from './ui/signal';
import { Failure, Skeleton } from './ui/states';
import { Text } from './ui/text';
import { Login } from './views/login/login';

const VIEWS: [string, string, string][] = [
  ['', 'Overview', 'g o'],
  ['explore', 'Explore', 'g e'],
  ['errors', 'Errors', 'g r'],
  ['logs', 'Logs', 'g l'],
  ['map', 'Map', 'g m'],
  ['issues', 'Issues', 'g i'],
];

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
      { keys: '?', does: 'show the keys', run: () => setHelp(true) },
      { keys: '[', does: 'earlier', run: () => shift(-0.5) },
      { keys: ']', does: 'later', run: () => shift(0.5) },
      { keys: '-', does: 'a longer time', run: () => shift(0, 2) },
      { keys: '=', does: 'a shorter time', run: () => shift(0, 0.5) },
      { keys: 't', does: 'choose the time', run: () => document.getElementById('time')?.focus() },
      { keys: 'y', does: 'copy a link to this', run: () => void navigator.clipboard.writeText(linkOfThis()) },
      ...VIEWS.map(([view, name, keys]) => ({
        keys,
        does: name,
        run: () => go(projectPath(inProject, view) + kept(address.value)),
      })),
      { keys: 'g a', does: 'Approvals', run: () => go(`/ui/${encodeURIComponent(place.org)}/approvals`) },
      { keys: 'g s', does: 'Settings', run: () => go(`/ui/${encodeURIComponent(place.org)}/settings`) },
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
          {VIEWS.map(([view, name]) => (
            <Link
              key={view}
              to={projectPath(inProject, view) + kept(here)}
              current={found !== null && (found.name === view || (view === '' && found.name === 'overview'))}
            >
              {name}
            </Link>
          ))}
          <Link to={`/ui/${encodeURIComponent(place.org)}/approvals`} current={found?.name === 'approvals'}>
            Approvals
          </Link>
          <Link to={`/ui/${encodeURIComponent(place.org)}/settings`} current={found?.name === 'settings'}>
            Settings
          </Link>
        </nav>
        <span class="spring" />
        {project !== '' && <SavedViews key={project} place={inProject} />}
        <TimePicker />
        <button type="button" class="quiet" aria-label="Keys" onClick={() => setHelp(true)}>
          ?
        </button>
        <Account me={me} />
      </header>
      <main id="view" tabIndex={-1}>
        {found === null ? (
          <NoView me={me} path={here.path} />
        ) : (
          <Guarded key={found.name + here.path}>
            <Loader key={found.name} load={found.load} place={found.place} />
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

function Loader({ load, place }: { load: () => Promise<{ default: View }>; place: Place }): JSX.Element {
  const [view, setView] = useState<View | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    load().then(
      (loaded) => setView(() => loaded.default),
      (failure: Error) => setError(failure),
    );
  }, []);
  if (error !== null) return <Failure error={error} again={() => location.reload()} />;
  if (view === null) return <Skeleton />;
  const Found = view;
  return <Found place={place} />;
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
      <h1>{me.projects.length === 0 ? 'You have access to no project' : 'There is no such view'}</h1>
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
      <button type="button" class="quiet" aria-label="Earlier" onClick={() => shift(-0.5)}>
        &lt;
      </button>
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
      <button type="button" class="quiet" aria-label="Later" onClick={() => shift(0.5)}>
        &gt;
      </button>
      <button
        type="button"
        class="quiet"
        title="Switch between UTC and the time of this browser"
        onClick={() => push({ tz: zone === 'utc' ? null : 'utc' })}
      >
        {zoneLabel(zone)}
      </button>
    </span>
  );
}

function Account({ me }: { me: Whoami }): JSX.Element {
  const [error, setError] = useState<Error | null>(null);
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
        {isOpen && me.session && <OtherOrganizations refused={setError} />}
        <button type="button" onClick={() => void logOut().catch(setError)}>
          Log out
        </button>
        {error !== null && <Failure error={error} />}
      </div>
    </details>
  );
}

/** Asked for when the menu is opened. */
function OtherOrganizations({ refused }: { refused: (error: Error) => void }): JSX.Element {
  const query = useQuery<{ data: { slug: string; name: string; current: boolean }[] }>({ path: '/auth/organizations' });
  const others = query.data?.data.filter((one) => !one.current) ?? [];
  return (
    <>
      {others.map((one) => (
        <button key={one.slug} type="button" onClick={() => void switchOrganization(one.slug).catch(refused)}>
          Switch to <Text of={one.name} />
        </button>
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
      ref={(element) => {
        if (element !== null && !element.open) element.showModal();
      }}
      onClose={close}
      onClick={(event) => {
        if (event.target === event.currentTarget) event.currentTarget.close();
      }}
    >
      <h2>Keys</h2>
      <dl class="keys">
        {shortcuts().map((one) => (
          <div key={one.keys}>
            <dt>
              <kbd>{one.keys}</kbd>
            </dt>
            <dd>{one.does}</dd>
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
