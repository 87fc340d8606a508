import type { SettingsSnapshot } from '../ports/settings-store.ts';

/** Tells the name of a source by its id, also of one that was removed. */
export function sourceNames({
  sources,
  gone,
}: Pick<SettingsSnapshot, 'sources' | 'gone'>): (id: number) => string {
  const names = new Map([...gone.sources, ...sources].map(({ id, name }) => [id, name]));
  return (id) => names.get(id) ?? `#${id}`;
}
