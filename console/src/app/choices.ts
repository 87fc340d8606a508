/** An entry of the palette. */
export interface Choice {
  readonly label: string;
  /** What it is, at the right end. */
  readonly kind: string;
  readonly href: string;
}

interface Named {
  readonly name: string;
}

interface Records {
  readonly destinations: readonly Named[];
  readonly sources: readonly Named[];
}

const MOST = 12;

const PAGES: readonly Choice[] = [
  { label: 'Overview', kind: 'go to', href: '/' },
  { label: 'Live', kind: 'go to', href: '/live' },
  { label: 'Live, only failures', kind: 'go to', href: '/live?failed=true' },
  { label: 'Events', kind: 'go to', href: '/events' },
  { label: 'Destinations', kind: 'go to', href: '/destinations' },
  { label: 'Sources', kind: 'go to', href: '/sources' },
  { label: 'Users', kind: 'go to', href: '/users' },
  { label: 'Settings', kind: 'go to', href: '/settings' },
];

/** What a text may mean, names before ids. An id has no list to be found in, so each of its meanings is offered. */
export function choices(text: string, { destinations, sources }: Records): Choice[] {
  const wanted = text.trim().toLowerCase();
  const named: readonly Choice[] = [
    ...PAGES,
    ...destinations.map(({ name }) => ({
      label: name,
      kind: 'destination',
      href: `/destinations/${encodeURIComponent(name)}`,
    })),
    ...sources.map(({ name }) => ({
      label: name,
      kind: 'source',
      href: `/sources/${encodeURIComponent(name)}`,
    })),
  ];
  const found = named.filter(({ label }) => label.toLowerCase().includes(wanted));
  const id = text.trim();
  const ids: Choice[] =
    id === ''
      ? []
      : [
          { label: id, kind: 'event with this messageId', href: `/events/${encodeURIComponent(id)}` },
          {
            label: id,
            kind: 'events of this user',
            href: `/events?userId=${encodeURIComponent(id)}`,
          },
        ];
  return [...found.slice(0, MOST - ids.length), ...ids];
}
