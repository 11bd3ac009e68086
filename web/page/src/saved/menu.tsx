// Saved views of a project: names for addresses of the page, of one person or of everybody in the project.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, apiBase, type Place, withChanges } from '../address/address';
import type { NewSavedView, SavedView, SavedViewPage } from '../api/api_types';
import { send } from '../api/client';
import { owner } from '../api/session';
import { Button } from '../ui/elements';
import { Failure, Loaded, useAction, useQuery } from '../ui/query';
import { useSignal } from '../ui/signal';
import { Link, Text } from '../ui/text';

/** The list is asked for when the menu is opened, not with every view. */
export function SavedViews({ place }: { place: Place }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details
      class="menu"
      open={isOpen}
      onToggle={(event) => setOpen(event.currentTarget.open)}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        setOpen(false);
        event.currentTarget.querySelector('summary')?.focus();
      }}
    >
      <summary>Saved</summary>
      {isOpen && <Menu place={place} close={() => setOpen(false)} />}
    </details>
  );
}

function Menu({ place, close }: { place: Place; close: () => void }): JSX.Element {
  const base = `${apiBase(place)}/views`;
  const query = useQuery<SavedViewPage>({ path: `${base}?limit=200` });
  const [name, setName] = useState('');
  const [shared, setShared] = useState(false);
  const [asked, setAsked] = useState('');
  const action = useAction();
  const mayShare = useSignal(owner)?.role !== 'VIEWER';

  async function change(method: 'DELETE' | 'POST', path: string, body?: NewSavedView): Promise<void> {
    await send(method, path, body);
    setName('');
    query.again();
  }
  /** One that others see is deleted by a second click. */
  function remove(view: SavedView): void {
    if (view.shared && asked !== view.id) setAsked(view.id);
    else void action.run(() => change('DELETE', `${base}/${encodeURIComponent(view.id)}`));
  }
  function save(): void {
    const saved = withChanges(address.value, { cursor: null });
    void action.run(() => change('POST', base, { name: name.trim(), path: saved, shared }));
  }
  return (
    <div class="saved">
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <p class="quiet">There are no saved views yet.</p>
          ) : (
            <ul class="plain">
              {data.map((view) => (
                <li key={view.id} class="bar-row">
                  <span onClick={close}>
                    <Link to={view.path}>
                      <Text of={view.name} />
                    </Link>
                  </span>
                  {view.shared && <span class="quiet">shared</span>}
                  <span class="spring" />
                  {view.mayDelete && (
                    <Button
                      class="quiet"
                      aria-label={`Delete the view ${view.name}${asked === view.id ? ' for all members' : ''}`}
                      onClick={() => remove(view)}
                    >
                      {asked === view.id ? 'Delete for all members?' : 'Delete'}
                    </Button>
                  )}
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <label class="field">
          <span>Save this view as</span>
          <input
            type="text"
            required
            maxLength={100}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <label>
          <input
            type="checkbox"
            disabled={!mayShare}
            checked={shared}
            onChange={(event) => setShared(event.currentTarget.checked)}
          />{' '}
          {mayShare ? 'share with all members of the project' : 'viewers cannot share'}
        </label>
        <button type="submit" disabled={name.trim() === ''}>
          Save
        </button>
        <Failure error={action.error} />
      </form>
    </div>
  );
}
