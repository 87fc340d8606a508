import { parametersOf, pathStepOf } from '../api/ids.ts';
import type { IconName } from '../ui/icons.tsx';
import type { State } from '../ui/state-mark.tsx';

export type ChoiceGroup = 'Go to' | 'Do' | 'Find';

/** An entry of the palette. */
export interface Choice {
  readonly group: ChoiceGroup;
  readonly icon: IconName;
  readonly label: string;
  /** Shown at the right end: the kind of the entry, or that it asks first. */
  readonly about: string;
  readonly href: string;
  /** State of a record, if it is worth a mark. */
  readonly state?: State;
}

interface Named {
  readonly name: string;
}

export interface PaletteRecords {
  readonly destinations: readonly (Named & { readonly state?: State; readonly dead?: number })[];
  readonly sources: readonly Named[];
  readonly audiences: readonly Named[];
  /** True when the person may change records. */
  readonly mayEdit: boolean;
}

/** The most entries of a group: the palette stands on the screen as a whole. */
const MOST: Readonly<Record<ChoiceGroup, number>> = { 'Go to': 8, Do: 5, Find: 3 };

const page = (label: string, icon: IconName, href: string): Choice => ({
  group: 'Go to',
  icon,
  label,
  about: '',
  href,
});

const PAGES: readonly Choice[] = [
  page('Overview', 'overview', '/'),
  page('Live', 'live', '/live'),
  page('Events', 'events', '/events'),
  page('Destinations', 'destinations', '/destinations'),
  page('Sources', 'sources', '/sources'),
  page('Users', 'users', '/users'),
  page('Audiences', 'users', '/users/audiences'),
  page('Settings', 'settings', '/settings'),
  page('Computed traits', 'users', '/users/traits'),
  page('Deletions', 'users', '/users/deletions'),
  page('Suppressions', 'users', '/users/suppressions'),
  page('Live, only failures', 'live', '/live?failed=true'),
  page('Alerts', 'settings', '/settings/alerts'),
  page('Changes', 'settings', '/settings/audit'),
  page('Configuration', 'settings', '/settings/configuration'),
  page('System', 'settings', '/settings/system'),
];

/** The choices for a typed text: pages, records, actions, and searches for it as an id. */
export function choices(text: string, records: PaletteRecords): Choice[] {
  const wanted = text.trim().toLowerCase();
  const matching = (all: readonly Choice[]): Choice[] =>
    all
      .filter(({ label }) => label.toLowerCase().includes(wanted))
      // Names that begin with the text stand before those that only contain it.
      .sort((one, other) => rankOf(one, wanted) - rankOf(other, wanted));
  return [
    ...matching([...PAGES, ...recordsOf(records)]).slice(0, MOST['Go to']),
    ...(records.mayEdit ? matching(actionsOf(records)).slice(0, MOST.Do) : []),
    // An id is taken as it is typed, with the blanks around it.
    ...(wanted === '' ? [] : searchesFor(text)),
  ];
}

function rankOf({ label }: Choice, wanted: string): number {
  return label.toLowerCase().startsWith(wanted) ? 0 : 1;
}

function recordsOf({ destinations, sources, audiences }: PaletteRecords): Choice[] {
  const record = (icon: IconName, about: string, path: string) => (name: string) => ({
    group: 'Go to' as const,
    icon,
    label: name,
    about,
    href: `${path}/${encodeURIComponent(name)}`,
  });
  const destination = record('destinations', 'destination', '/destinations');
  return [
    ...destinations.map(({ name, state }) => ({
      ...destination(name),
      ...(state === undefined ? {} : { state }),
    })),
    ...sources.map(({ name }) => record('sources', 'source', '/sources')(name)),
    ...audiences.map(({ name }) => record('users', 'audience', '/users/audiences')(name)),
  ];
}

/** Actions. Each opens the page that shows its outcome; an action that cannot be undone asks there first. */
function actionsOf({ destinations }: PaletteRecords): Choice[] {
  const action = (icon: IconName, label: string, href: string, about = ''): Choice => ({
    group: 'Do',
    icon,
    label,
    about,
    href,
  });
  return [
    ...destinations.flatMap(({ name, dead = 0 }) => {
      const path = `/destinations/${encodeURIComponent(name)}`;
      const letters = `${dead.toLocaleString('en-US')} dead ${dead === 1 ? 'letter' : 'letters'}`;
      return [
        ...(dead === 0
          ? []
          : [
              action(
                'retry',
                `Redeliver ${letters} of ${name}`,
                `${path}?tab=deliveries&state=dead&do=redeliver`,
                'asks first',
              ),
            ]),
        action('send', `Send a test event to ${name}`, `${path}?do=test`, 'asks first'),
        action('replay', `Replay stored events to ${name}`, `${path}?do=replay`, 'asks first'),
      ];
    }),
    action('plus', 'New destination', '/destinations?new=true'),
    action('plus', 'New source', '/sources?new=true'),
    action('plus', 'New audience', '/users/audiences?new=true'),
    action('plus', 'New computed trait', '/users/traits?new=true'),
  ].toSorted((one, other) => Number(other.icon === 'plus') - Number(one.icon === 'plus'));
}

/** Searches for the text as each kind of id, because ids are in no list. */
function searchesFor(id: string): Choice[] {
  const inQuery = (parameters: object) => new URLSearchParams({ ...parameters });
  const find = (icon: IconName, label: string, href: string): Choice => ({
    group: 'Find',
    icon,
    label,
    about: '',
    href,
  });
  return [
    find('users', `User with the id “${id}”`, `/users?${inQuery(parametersOf('userId', id))}`),
    find('events', `Events named “${id}…”`, `/events?${inQuery({ event: `${id}*` })}`),
    find('search', `messageId “${id}”`, `/events/${encodeURIComponent(pathStepOf(id))}`),
  ];
}

/**
 * Splits a label into three pieces: before, typed text, after. Without the typed text the first piece is the
 * whole label.
 */
export function markedLabel(label: string, text: string): readonly [string, string, string] {
  const wanted = text.trim();
  const at = wanted === '' ? -1 : label.toLowerCase().indexOf(wanted.toLowerCase());
  if (at < 0) return [label, '', ''];
  return [label.slice(0, at), label.slice(at, at + wanted.length), label.slice(at + wanted.length)];
}
